#include "leased/history/scribe.h"

#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/resource.h>
#include <unistd.h>

#include "common/clock.h"
#include "common/thread.h"

/* What is committed is brought to disk after so long, or so many frames. */
#define DURABLE_MS  250
#define WAL_FRAMES  2000
#define RETRY_MS    500
#define BUSY_MS     100
#define NICE_LOW    10
#define STACK_LEN   (256u << 10)
#define FAR_AWAY_MS INT64_MAX
/* Written blocks that are kept to be used again. */
#define SPARES_MAX 8

struct scribe {
    pthread_t thread;
    struct store *store; /* the thread's */
    void (*wake)(void *arg);
    void *arg;
    int event_fd;
    struct feed_channel in, out;
    struct feed_block *spares; /* the loop's, taken from out */
    atomic_uint_fast64_t written, durable, foreign;
    atomic_bool stop, ended, hurry;

    atomic_bool health_changed;
    /* Health: under the lock. */
    pthread_mutex_t lock;
    int health;
    char why[STORE_WHY_MAX];

    /* The thread's. */
    bool check, broken;
    int told;
    struct feed_block *pending, *pending_last;
    int64_t retry_at, durable_at;
    bool hurrying;
};

/* ---- the thread ---- */

static void set_health(struct scribe *scribe, int r)
{
    if (scribe->told != r) {
        scribe->told = r;
        pthread_mutex_lock(&scribe->lock);
        scribe->health = r;
        memcpy(scribe->why, store_why(scribe->store), STORE_WHY_MAX);
        pthread_mutex_unlock(&scribe->lock);
        atomic_store(&scribe->health_changed, true);
    }
    scribe->wake(scribe->arg);
}

static void take_in(struct scribe *scribe)
{
    struct feed_block *block = feed_take_all(&scribe->in);

    while (block) {
        struct feed_block *next = block->next;

        block->next = NULL;
        if (scribe->pending_last)
            scribe->pending_last->next = block;
        else
            scribe->pending = block;
        scribe->pending_last = block;
        block = next;
    }
}

/* Write the first block. */
static void write_block(struct scribe *scribe)
{
    struct feed_block *block = scribe->pending;
    int r = store_write(scribe->store, block);

    if (r < 0) {
        scribe->retry_at = clock_mono_ms() + RETRY_MS;
        set_health(scribe, r);
        return;
    }
    scribe->retry_at = 0;
    scribe->pending = block->next;
    if (!scribe->pending)
        scribe->pending_last = NULL;
    if (scribe->durable_at == FAR_AWAY_MS)
        scribe->durable_at = clock_mono_ms() + DURABLE_MS;
    atomic_store(&scribe->foreign, store_foreign(scribe->store));
    atomic_store(&scribe->written, block->number);
    feed_put(&scribe->out, block);
    set_health(scribe, 0);
}

static void make_durable(struct scribe *scribe)
{
    int r = store_checkpoint(scribe->store);

    if (r == 0) {
        scribe->durable_at = FAR_AWAY_MS;
        atomic_store(&scribe->durable, atomic_load(&scribe->written));
        set_health(scribe, scribe->retry_at ? scribe->told : 0);
        return;
    }
    scribe->durable_at = clock_mono_ms() + (r == -EAGAIN ? BUSY_MS : RETRY_MS);
    if (r != -EAGAIN)
        set_health(scribe, r);
}

static void set_priority(struct scribe *scribe)
{
    bool hurry = atomic_load(&scribe->hurry);

    if (hurry == scribe->hurrying)
        return;
    scribe->hurrying = hurry;
    /* Going back up needs CAP_SYS_NICE: without it the thread stays where it is. */
    (void)setpriority(PRIO_PROCESS, (id_t)gettid(), hurry ? 0 : NICE_LOW);
}

static bool may_write(const struct scribe *scribe, int64_t now)
{
    return scribe->pending && !scribe->broken && now >= scribe->retry_at;
}

static bool may_sync(const struct scribe *scribe, int64_t now, bool stopping)
{
    return scribe->durable_at != FAR_AWAY_MS &&
           (now >= scribe->durable_at || stopping ||
            (store_wal_frames(scribe->store) >= WAL_FRAMES && scribe->retry_at == 0));
}

static int wait_ms(const struct scribe *scribe, int64_t now)
{
    int64_t until = scribe->durable_at;

    if (scribe->pending && !scribe->broken && scribe->retry_at < until)
        until = scribe->retry_at;
    if (until == FAR_AWAY_MS)
        return -1;
    return until > now ? (int)(until - now) : 0;
}

static void wait_for_more(struct scribe *scribe)
{
    struct pollfd poll_fd = {.fd = scribe->event_fd, .events = POLLIN};
    uint64_t count;

    if (poll(&poll_fd, 1, wait_ms(scribe, clock_mono_ms())) > 0)
        (void)!read(scribe->event_fd, &count, sizeof count);
}

static void check(struct scribe *scribe)
{
    if (store_check(scribe->store) == 0)
        return;
    scribe->broken = true;
    set_health(scribe, -EBADMSG);
}

static void *run(void *arg)
{
    struct scribe *scribe = arg;
    struct sched_param none = {0};
    bool stopping = false;

    (void)pthread_setschedparam(pthread_self(), SCHED_BATCH, &none);
    (void)setpriority(PRIO_PROCESS, (id_t)gettid(), NICE_LOW);
    if (scribe->check)
        check(scribe);
    while (!stopping || (may_write(scribe, clock_mono_ms()) && scribe->retry_at == 0)) {
        int64_t now = clock_mono_ms();

        stopping = atomic_load(&scribe->stop);
        set_priority(scribe);
        take_in(scribe);
        if (may_write(scribe, now))
            write_block(scribe);
        else if (!stopping && !may_sync(scribe, now, false))
            wait_for_more(scribe);
        if (may_sync(scribe, now, false))
            make_durable(scribe);
    }
    if (may_sync(scribe, 0, true))
        make_durable(scribe);
    store_close(scribe->store);
    atomic_store(&scribe->ended, true);
    scribe->wake(scribe->arg);
    return NULL;
}

/* ---- the loop's side ---- */

int scribe_new(struct store *store, bool check_first, void (*wake)(void *arg), void *arg,
               struct scribe **ret)
{
    struct scribe *scribe = calloc(1, sizeof *scribe);
    int r = scribe ? 0 : -ENOMEM;

    if (r == 0) {
        scribe->store = store;
        scribe->check = check_first;
        scribe->wake = wake;
        scribe->arg = arg;
        scribe->durable_at = FAR_AWAY_MS;
        (void)pthread_mutex_init(&scribe->lock, NULL);
        scribe->event_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
        r = scribe->event_fd < 0 ? -errno
                                 : thread_start("history", STACK_LEN, run, scribe, &scribe->thread);
    }
    if (r < 0) {
        store_close(store);
        if (scribe && scribe->event_fd >= 0)
            (void)close(scribe->event_fd);
        free(scribe);
        return r;
    }
    *ret = scribe;
    return 0;
}

static void ring(struct scribe *scribe)
{
    uint64_t one = 1;

    (void)!write(scribe->event_fd, &one, sizeof one);
}

void scribe_put(struct scribe *scribe, struct feed_block *block)
{
    feed_put(&scribe->in, block);
    ring(scribe);
}

struct feed_block *scribe_spare(struct scribe *scribe)
{
    struct feed_block *block;

    if (!scribe->spares)
        scribe->spares = feed_take_all(&scribe->out);
    block = scribe->spares;
    if (block)
        scribe->spares = block->next;
    return block;
}

static void free_blocks(struct feed_block *block)
{
    while (block) {
        struct feed_block *next = block->next;

        free(block);
        block = next;
    }
}

void scribe_tidy(struct scribe *scribe)
{
    struct feed_block **end = &scribe->spares;
    unsigned n = 0;

    for (; *end; end = &(*end)->next)
        n++;
    *end = feed_take_all(&scribe->out);
    for (; *end && n < SPARES_MAX; end = &(*end)->next)
        n++;
    free_blocks(*end);
    *end = NULL;
}

void scribe_hurry(struct scribe *scribe, bool hurry)
{
    atomic_store(&scribe->hurry, hurry);
}

uint64_t scribe_written(const struct scribe *scribe)
{
    return atomic_load(&scribe->written);
}

uint64_t scribe_durable(const struct scribe *scribe)
{
    return atomic_load(&scribe->durable);
}

uint64_t scribe_foreign(const struct scribe *scribe)
{
    return atomic_load(&scribe->foreign);
}

bool scribe_health(struct scribe *scribe, int *ret_r, char ret_why[static STORE_WHY_MAX])
{
    if (!atomic_exchange(&scribe->health_changed, false))
        return false;
    pthread_mutex_lock(&scribe->lock);
    *ret_r = scribe->health;
    memcpy(ret_why, scribe->why, STORE_WHY_MAX);
    pthread_mutex_unlock(&scribe->lock);
    return true;
}

void scribe_stop(struct scribe *scribe)
{
    atomic_store(&scribe->stop, true);
    ring(scribe);
}

bool scribe_ended(const struct scribe *scribe)
{
    return atomic_load(&scribe->ended);
}

void scribe_free(struct scribe *scribe)
{
    (void)pthread_join(scribe->thread, NULL);
    free_blocks(scribe->pending);
    free_blocks(scribe->spares);
    free_blocks(feed_take_all(&scribe->in));
    free_blocks(feed_take_all(&scribe->out));
    (void)pthread_mutex_destroy(&scribe->lock);
    (void)close(scribe->event_fd);
    free(scribe);
}
