#include "leased/engine/writer.h"

#include <assert.h>
#include <errno.h>
#include <malloc.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "common/digest.h"
#include "common/log.h"
#include "common/mem.h"
#include "common/thread.h"
#include "leased/fsm/command.h"

#define PROBE_MS 500
/* So much of a snapshot in one commit: what an entry behind it waits for. */
#define PART_BYTES (64u << 10)
#define STACK_LEN  (256u << 10)

/* A snapshot on its way to the disk. */
struct snapshot_job {
    uint64_t entry;
    uint8_t *bytes;
    size_t len;
    unsigned next_part;
    uint32_t crc;
};

struct writer {
    pthread_t thread;
    struct sqlite_file *file; /* the thread's, save in writer_new */
    struct writer_options options;

    pthread_mutex_t lock;
    pthread_cond_t wake;
    /* Below: under the lock. */
    struct batch_queue queue;
    struct batch *ended, *ended_last;
    bool kick; /* there may be something to do */
    bool stop, has_ended;
    struct snapshot_job *job;
    bool job_allowed;
    struct writer_news news; /* batches unused */

    /* The thread's own. */
    bool failed;
    bool checkpoint_warned;
    struct batch *doubtful; /* written perhaps, answered already */
    struct timespec probe_at;
};

/* ---- results, under the lock ---- */

static void post_batch(struct writer *writer, struct batch *batch)
{
    batch->next = NULL;
    if (writer->ended_last)
        writer->ended_last->next = batch;
    else
        writer->ended = batch;
    writer->ended_last = batch;
}

static void set_health(struct writer *writer, int r)
{
    struct writer_news *news = &writer->news;

    news->health = r;
    news->health_changed = true;
    if (r < 0) {
        news->failure = r;
        memcpy(news->why, sqlite_why(writer->file),
               strnlen(sqlite_why(writer->file), sizeof news->why - 1) + 1);
    }
}

static void end_job(struct writer *writer, int r)
{
    struct snapshot_job *job = writer->job;

    if (!job)
        return;
    free(job->bytes);
    free(job);
    writer->job = NULL;
    writer->news.snapshot_ended = true;
    writer->news.snapshot_r = r;
}

static void note_position(struct writer *writer)
{
    sqlite_get_position(writer->file, &writer->news.position);
}

/* ---- the thread: writing, without the lock ---- */

static uint64_t last_entry(const struct writer *writer)
{
    struct sqlite_position at;

    sqlite_get_position(writer->file, &at);
    return at.last_entry;
}

/* What is on disk after a failure; r is what the write said. 0: well again. */
static int look(struct writer *writer, int r)
{
    pthread_mutex_lock(&writer->lock);
    set_health(writer, r == SQLFILE_UNCERTAIN ? -EIO : r);
    pthread_mutex_unlock(&writer->lock);
    r = sqlite_recover(writer->file);
    pthread_mutex_lock(&writer->lock);
    set_health(writer, r);
    pthread_mutex_unlock(&writer->lock);
    writer->failed = r < 0;
    return r;
}

/* Whether the batch is on disk can not be found out now: keep its bytes, its proposals get their answer. */
static void keep_doubtful(struct writer *writer, struct batch *batch)
{
    struct batch *doubtful = mem_must_calloc(1, sizeof *doubtful);

    doubtful->entry = batch->entry;
    doubtful->index = batch->index;
    buf_init(&batch->entry, COMMAND_ENTRY_MAX);
    assert(!writer->doubtful);
    writer->doubtful = doubtful;
}

static int write_batch(struct writer *writer, struct batch *batch)
{
    int r = 0;

    batch->index = last_entry(writer) + 1;
    for (int attempt = 0; attempt < 2; attempt++) {
        r = sqlite_append(writer->file, (const uint8_t *)batch->entry.data, batch->entry.len);
        if (r == 0)
            return 0;
        if (look(writer, r) < 0) {
            if (r != SQLFILE_UNCERTAIN)
                return r;
            keep_doubtful(writer, batch);
            return -ECONNABORTED;
        }
        if (last_entry(writer) == batch->index)
            return 0;
    }
    return r == -ENOSPC ? r : -EIO;
}

static int write_part(struct writer *writer, struct snapshot_job *job)
{
    size_t at = (size_t)job->next_part * PART_BYTES;
    size_t len = job->len - at < PART_BYTES ? job->len - at : PART_BYTES;

    job->crc = digest_crc32c(job->crc, job->bytes + at, len);
    return sqlite_snapshot_part(writer->file, job->entry, job->next_part++, job->bytes + at, len);
}

static bool parts_left(const struct snapshot_job *job)
{
    return (size_t)job->next_part * PART_BYTES < job->len;
}

static void checkpoint(struct writer *writer)
{
    int r = sqlite_checkpoint(writer->file);

    if (r < 0 && !writer->checkpoint_warned)
        log_warning(NULL, "%s; its -wal grows meanwhile", sqlite_why(writer->file));
    writer->checkpoint_warned = r < 0;
}

/* One bounded piece of what can wait. false: there is nothing. */
static bool background(struct writer *writer)
{
    struct snapshot_job *job;
    bool allowed, finished = false;
    int r;

    pthread_mutex_lock(&writer->lock);
    job = writer->job;
    allowed = writer->job_allowed;
    pthread_mutex_unlock(&writer->lock);
    if (sqlite_checkpoint_needed(writer->file)) {
        checkpoint(writer);
        return true;
    }
    if (job && parts_left(job)) {
        r = write_part(writer, job);
    } else if (job && allowed) {
        r = sqlite_snapshot_finish(writer->file, job->entry, job->next_part, job->len, job->crc);
        finished = r == 0;
    } else if (sqlite_cut_needed(writer->file)) {
        job = NULL;
        r = sqlite_cut(writer->file);
    } else {
        return false;
    }
    if (r != 0)
        (void)look(writer, r);
    if (job && (r != 0 || finished)) {
        pthread_mutex_lock(&writer->lock);
        end_job(writer, r == SQLFILE_UNCERTAIN ? -EIO : r);
        note_position(writer);
        pthread_mutex_unlock(&writer->lock);
        writer->options.wake(writer->options.arg);
        /* A snapshot is large and rare: its memory goes back. */
        (void)malloc_trim(0);
    }
    return true;
}

/* ---- the thread: rounds, under the lock ---- */

static void write_next(struct writer *writer, struct batch *batch)
{
    pthread_mutex_unlock(&writer->lock);
    batch->r = write_batch(writer, batch);
    pthread_mutex_lock(&writer->lock);
    post_batch(writer, batch);
    note_position(writer);
    pthread_mutex_unlock(&writer->lock);
    writer->options.wake(writer->options.arg);
    pthread_mutex_lock(&writer->lock);
}

static void fail_waiting(struct writer *writer)
{
    struct batch *batch;

    if (!writer->queue.head && !writer->job)
        return;
    while ((batch = batch_take(&writer->queue))) {
        batch->r = writer->news.health;
        post_batch(writer, batch);
    }
    end_job(writer, writer->news.health);
    writer->options.wake(writer->options.arg);
}

static void set_probe(struct writer *writer)
{
    (void)clock_gettime(CLOCK_MONOTONIC, &writer->probe_at);
    writer->probe_at.tv_nsec += PROBE_MS * 1000000L;
    writer->probe_at.tv_sec += writer->probe_at.tv_nsec / 1000000000L;
    writer->probe_at.tv_nsec %= 1000000000L;
}

/* Well again: a batch in doubt is now known. */
static void settle_doubtful(struct writer *writer)
{
    struct batch *batch = mem_take(writer->doubtful);

    if (!batch)
        return;
    if (last_entry(writer) == batch->index) {
        post_batch(writer, batch);
        return;
    }
    batch_recycle(&writer->queue, batch);
}

static void probe(struct writer *writer)
{
    int r;

    pthread_mutex_unlock(&writer->lock);
    r = sqlite_recover(writer->file);
    pthread_mutex_lock(&writer->lock);
    if (r != writer->news.health)
        set_health(writer, r);
    if (r == 0) {
        writer->failed = false;
        settle_doubtful(writer);
        note_position(writer);
    }
    writer->options.wake(writer->options.arg);
}

/* Nothing can be written: what comes is failed at once, and now and then the disk is looked at. */
static void round_failed(struct writer *writer)
{
    writer->kick = false;
    fail_waiting(writer);
    while (!writer->stop && !writer->queue.head)
        if (pthread_cond_timedwait(&writer->wake, &writer->lock, &writer->probe_at) == ETIMEDOUT) {
            probe(writer);
            set_probe(writer);
            return;
        }
}

static void round_well(struct writer *writer)
{
    struct batch *batch;
    bool more = false;

    writer->kick = false;
    batch = batch_take(&writer->queue);
    if (batch)
        write_next(writer, batch);
    if (!writer->failed) {
        pthread_mutex_unlock(&writer->lock);
        more = background(writer);
        pthread_mutex_lock(&writer->lock);
        note_position(writer);
    }
    if (writer->failed)
        set_probe(writer);
    else if (!batch && !more)
        while (!writer->kick)
            pthread_cond_wait(&writer->wake, &writer->lock);
}

static void *run(void *arg)
{
    struct writer *writer = arg;

    pthread_mutex_lock(&writer->lock);
    if (sqlite_failure(writer->file) < 0) {
        writer->failed = true;
        set_health(writer, sqlite_failure(writer->file));
        set_probe(writer);
    }
    while (!writer->stop)
        if (writer->failed)
            round_failed(writer);
        else
            round_well(writer);
    end_job(writer, -ECANCELED);
    pthread_mutex_unlock(&writer->lock);
    sqlite_close(writer->file);
    pthread_mutex_lock(&writer->lock);
    writer->has_ended = true;
    writer->options.wake(writer->options.arg);
    pthread_mutex_unlock(&writer->lock);
    return NULL;
}

/* ---- the loop's side ---- */

int writer_new(struct sqlite_file *file, const struct writer_options *options, struct writer **ret)
{
    struct writer *writer = calloc(1, sizeof *writer);
    pthread_condattr_t attr;
    int r;

    if (!writer) {
        sqlite_close(file);
        return -ENOMEM;
    }
    writer->file = file;
    writer->options = *options;
    batch_queue_init(&writer->queue, &options->limits, options->begin, options->arg);
    (void)pthread_mutex_init(&writer->lock, NULL);
    (void)pthread_condattr_init(&attr);
    (void)pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
    (void)pthread_cond_init(&writer->wake, &attr);
    (void)pthread_condattr_destroy(&attr);
    note_position(writer);
    r = thread_start("writer", STACK_LEN, run, writer, &writer->thread);
    if (r < 0) {
        sqlite_close(file);
        writer->has_ended = true;
        writer_free(writer);
        return r;
    }
    *ret = writer;
    return 0;
}

/* Unlock, then wake: the other way round the thread would wake up only to wait for the lock. */
static void kick_and_unlock(struct writer *writer)
{
    writer->kick = true;
    pthread_mutex_unlock(&writer->lock);
    pthread_cond_signal(&writer->wake);
}

int writer_gather(struct writer *writer, const uint8_t *command, size_t len, engine_done_fn done,
                  void *arg)
{
    int r;

    pthread_mutex_lock(&writer->lock);
    r = batch_gather(&writer->queue, command, len, done, arg);
    pthread_mutex_unlock(&writer->lock);
    return r;
}

void writer_begin(struct writer *writer)
{
    pthread_mutex_lock(&writer->lock);
    batch_begin(&writer->queue);
    pthread_mutex_unlock(&writer->lock);
}

void writer_flush(struct writer *writer)
{
    pthread_mutex_lock(&writer->lock);
    if (writer->queue.head && !writer->kick)
        kick_and_unlock(writer);
    else
        pthread_mutex_unlock(&writer->lock);
}

void writer_snapshot(struct writer *writer, uint64_t entry, uint8_t *bytes, size_t len)
{
    struct snapshot_job *job = mem_must_calloc(1, sizeof *job);

    job->entry = entry;
    job->bytes = bytes;
    job->len = len;
    pthread_mutex_lock(&writer->lock);
    assert(!writer->job);
    writer->job = job;
    writer->job_allowed = false;
    kick_and_unlock(writer);
}

void writer_snapshot_allow(struct writer *writer)
{
    pthread_mutex_lock(&writer->lock);
    writer->job_allowed = true;
    kick_and_unlock(writer);
}

void writer_collect(struct writer *writer, struct writer_news *ret)
{
    pthread_mutex_lock(&writer->lock);
    *ret = writer->news;
    ret->batches = mem_take(writer->ended);
    writer->ended_last = NULL;
    writer->news.health_changed = false;
    writer->news.failure = 0;
    writer->news.snapshot_ended = false;
    pthread_mutex_unlock(&writer->lock);
}

void writer_recycle(struct writer *writer, struct batch *batch)
{
    pthread_mutex_lock(&writer->lock);
    batch_recycle(&writer->queue, batch);
    pthread_mutex_unlock(&writer->lock);
}

struct batch *writer_withdraw(struct writer *writer)
{
    struct batch *first;

    pthread_mutex_lock(&writer->lock);
    first = batch_take_all(&writer->queue);
    pthread_mutex_unlock(&writer->lock);
    return first;
}

void writer_stop(struct writer *writer)
{
    pthread_mutex_lock(&writer->lock);
    writer->stop = true;
    kick_and_unlock(writer);
}

bool writer_ended(struct writer *writer)
{
    bool ended;

    pthread_mutex_lock(&writer->lock);
    ended = writer->has_ended;
    pthread_mutex_unlock(&writer->lock);
    return ended;
}

void writer_free(struct writer *writer)
{
    assert(writer->has_ended && !writer->ended);
    if (writer->thread)
        (void)pthread_join(writer->thread, NULL);
    if (writer->doubtful)
        batch_recycle(&writer->queue, writer->doubtful);
    batch_queue_done(&writer->queue);
    (void)pthread_cond_destroy(&writer->wake);
    (void)pthread_mutex_destroy(&writer->lock);
    free(writer);
}
