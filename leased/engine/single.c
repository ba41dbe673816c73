#include "leased/engine/engine.h"

#include <assert.h>
#include <errno.h>
#include <inttypes.h>
#include <malloc.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/log.h"
#include "common/mem.h"
#include "common/net/loop.h"
#include "leased/engine/engine_inner.h"
#include "leased/engine/sqlite.h"
#include "leased/engine/writer.h"

/* Bytes of commands that wait at most, beside their number. */
#define WAITING_BYTES (64u << 20)
/* How often history is asked whether the snapshot may take its place. */
#define HISTORY_POLL_MS 100

/* Somebody who asked for a snapshot of the state after entry. */
struct snapshot_waiter {
    uint64_t entry;
    engine_ready_fn done;
    void *arg;
};

struct single {
    struct engine engine;
    struct writer *writer;
    struct loop_wake *wake;
    uint64_t applied;     /* entry */
    uint64_t bytes_since; /* of entries applied since the last snapshot began */
    struct sqlite_position position;

    /* The snapshot that is being written; entry 0 = none. */
    uint64_t snapshot_entry, snapshot_revision;
    bool snapshot_allowed;
    struct loop_timer *history_timer;
    struct snapshot_waiter *waiters;
    size_t n_waiters, waiters_cap;

    struct batch *cancelled;
    bool closing, ended;
    void (*closed)(void *arg);
    void *closed_arg;
};

static struct single *single_of(const struct engine *engine)
{
    return CONTAINER_OF(engine, struct single, engine);
}

/* ---- snapshots ---- */

static void answer_waiters(struct single *single, uint64_t entry, int r)
{
    size_t kept = 0;

    for (size_t i = 0; i < single->n_waiters; i++) {
        struct snapshot_waiter waiter = single->waiters[i];

        if (r == 0 && waiter.entry > entry)
            single->waiters[kept++] = waiter;
        else
            engine_later_ready(&single->engine, r, waiter.done, waiter.arg);
    }
    single->n_waiters = kept;
}

static void allow_snapshot(void *arg)
{
    struct single *single = arg;
    const struct engine_hooks *hooks = &single->engine.hooks;

    if (!single->snapshot_entry || single->snapshot_allowed)
        return;
    if (hooks->history_revision &&
        hooks->history_revision(hooks->arg) < single->snapshot_revision) {
        loop_timer_start(single->history_timer, HISTORY_POLL_MS, 0);
        return;
    }
    single->snapshot_allowed = true;
    writer_snapshot_allow(single->writer);
}

static void start_snapshot(struct single *single)
{
    uint8_t *bytes;
    size_t len;
    int r = fsm_snapshot(single->engine.fsm, &bytes, &len);

    if (r < 0) {
        log_warning(NULL, "no memory for a snapshot");
        answer_waiters(single, 0, r);
        return;
    }
    single->snapshot_entry = single->applied;
    single->snapshot_revision = fsm_revision(single->engine.fsm);
    single->snapshot_allowed = false;
    single->bytes_since = 0;
    writer_snapshot(single->writer, single->applied, bytes, len);
    allow_snapshot(single);
}

static bool snapshot_due(const struct single *single)
{
    const struct engine_options *options = &single->engine.options;

    if (single->snapshot_entry || single->closing || single->engine.health < 0 ||
        single->applied == single->position.snapshot_entry)
        return false;
    return single->n_waiters > 0 ||
           single->applied - single->position.snapshot_entry >= options->snapshot_entries ||
           single->bytes_since >= options->snapshot_bytes;
}

static void snapshot_ended(struct single *single, int r)
{
    uint64_t entry = single->snapshot_entry;

    single->snapshot_entry = 0;
    loop_timer_stop(single->history_timer);
    answer_waiters(single, entry, r);
}

/* ---- what the writer has done ---- */

static void take_batch(struct single *single, struct batch *batch)
{
    if (batch->r == 0) {
        single->applied = batch->index;
        single->bytes_since += batch->entry.len;
        engine_apply(&single->engine, batch);
    } else {
        engine_fail(batch, batch->r);
    }
    writer_recycle(single->writer, batch);
}

/* A batch for the grace alone, if nothing else is on its way. */
static void begin_grace(struct single *single)
{
    if (!single->engine.grace_due || single->closing || single->engine.health < 0)
        return;
    writer_begin(single->writer);
    engine_flush_soon(&single->engine);
}

static void take_health(struct single *single, const struct writer_news *news)
{
    struct engine *engine = &single->engine;

    if (news->failure < 0 && news->health == 0 && engine->health == 0)
        engine_set_health(engine, news->failure, news->why);
    engine_set_health(engine, news->health, news->why);
    begin_grace(single);
}

static void collect(void *arg)
{
    struct single *single = arg;
    struct writer_news news;
    bool ended = writer_ended(single->writer);

    writer_collect(single->writer, &news);
    single->position = news.position;
    /* First why: whoever is refused below may then say it. */
    if (news.health_changed)
        take_health(single, &news);
    while (news.batches) {
        struct batch *batch = news.batches;

        news.batches = batch->next;
        take_batch(single, batch);
    }
    if (news.snapshot_ended)
        snapshot_ended(single, news.snapshot_r);
    if (snapshot_due(single))
        start_snapshot(single);
    allow_snapshot(single);
    if (ended) {
        single->ended = true;
        engine_flush_soon(&single->engine);
    }
}

/* The writer's thread. */
static void wake(void *arg)
{
    loop_wake_send(((struct single *)arg)->wake);
}

/* ---- the face ---- */

static void single_free(struct single *single)
{
    loop_wake_free(single->wake);
    loop_timer_free(single->history_timer);
    free(single->waiters);
    engine_done(&single->engine);
    free(single);
}

static void finish_close(struct single *single)
{
    void (*closed)(void *arg) = single->closed;
    void *arg = single->closed_arg;

    writer_free(single->writer);
    single_free(single);
    if (closed)
        closed(arg);
}

static void single_flush(struct engine *engine)
{
    struct single *single = single_of(engine);

    while (single->cancelled) {
        struct batch *batch = single->cancelled;

        single->cancelled = batch->next;
        engine_fail(batch, -ECANCELED);
        writer_recycle(single->writer, batch);
    }
    if (!single->closing)
        writer_flush(single->writer);
    else if (single->ended && engine->n_later == 0)
        finish_close(single);
}

static void single_close(struct engine *engine, void (*done)(void *arg), void *arg)
{
    struct single *single = single_of(engine);

    assert(!single->closing);
    single->closing = true;
    single->closed = done;
    single->closed_arg = arg;
    single->cancelled = writer_withdraw(single->writer);
    for (size_t i = 0; i < single->n_waiters; i++)
        engine_later_ready(engine, -ECANCELED, single->waiters[i].done, single->waiters[i].arg);
    single->n_waiters = 0;
    writer_stop(single->writer);
    engine_flush_soon(engine);
}

static void single_propose(struct engine *engine, const uint8_t *command, size_t len,
                           engine_done_fn done, void *arg)
{
    struct single *single = single_of(engine);
    int r = single->closing ? -ECANCELED : engine->health;

    if (r == 0)
        r = writer_gather(single->writer, command, len, done, arg);
    if (r == 0)
        engine_flush_soon(engine);
    else
        engine_later_done(engine, r, done, arg);
}

/* What was acknowledged has been applied before it was: one turn of the loop is barrier enough. */
static void single_read_barrier(struct engine *engine, engine_ready_fn done, void *arg)
{
    engine_later_ready(engine, single_of(engine)->closing ? -ECANCELED : 0, done, arg);
}

static void single_tell(struct engine *engine, const uint8_t *bytes, size_t len,
                        engine_ready_fn done, void *arg)
{
    engine_later_told(engine, single_of(engine)->closing ? -ECANCELED : 0, bytes, len, done, arg);
}

static void single_snapshot(struct engine *engine, engine_ready_fn done, void *arg)
{
    struct single *single = single_of(engine);
    int r = single->closing ? -ECANCELED : engine->health;

    if (r < 0 || single->applied == single->position.snapshot_entry) {
        engine_later_ready(engine, r, done, arg);
        return;
    }
    mem_must_grow(&single->waiters, &single->waiters_cap, single->n_waiters + 1,
                  sizeof *single->waiters);
    single->waiters[single->n_waiters++] = (struct snapshot_waiter){single->applied, done, arg};
    if (snapshot_due(single))
        start_snapshot(single);
}

static void single_get_status(const struct engine *engine, struct engine_status *ret)
{
    const struct single *single = single_of(engine);

    *ret = (struct engine_status){
        .leading = engine->leading,
        .health = engine->health,
        .last_entry = single->applied,
        .snapshot_entry = single->position.snapshot_entry,
        .log_bytes = single->position.log_bytes,
        .fsm_revision = fsm_revision(engine->fsm),
    };
}

static const struct engine_ops single_ops = {
    .close = single_close,
    .propose = single_propose,
    .read_barrier = single_read_barrier,
    .tell = single_tell,
    .snapshot = single_snapshot,
    .get_status = single_get_status,
    .flush = single_flush,
};

/* ---- opening ---- */

static int restore(struct single *single, struct sqlite_file *file,
                   char why[static SQLFILE_WHY_MAX])
{
    const struct engine *engine = &single->engine;
    const char *what = NULL;
    uint8_t *bytes;
    size_t len;
    int r = sqlite_read_snapshot(file, &bytes, &len, why);

    if (r < 0 || len == 0)
        return r;
    r = fsm_restore(engine->fsm, bytes, len, &what);
    free(bytes);
    if (r < 0) {
        (void)sqlite_complain(file, why, "table snapshot", single->position.snapshot_entry, what);
        return r;
    }
    if (engine->hooks.restored)
        engine->hooks.restored(engine->fsm, engine->hooks.arg);
    return 0;
}

static_assert(SQLFILE_WHY_MAX == ENGINE_WHY_MAX, "sentences are handed on");

struct replay {
    struct single *single;
    struct sqlite_file *file;
    char *why;
};

static int replay(uint64_t index, const uint8_t *entry, size_t len, void *arg)
{
    const struct replay *replay = arg;
    struct single *single = replay->single;
    const struct engine_hooks *ours = &single->engine.hooks;
    struct fsm_hooks hooks = {.change = ours->change, .arg = ours->arg};

    single->applied = index;
    single->bytes_since += len;
    if (fsm_apply(single->engine.fsm, entry, len, &hooks) != 0)
        return sqlite_complain(replay->file, replay->why, "table log", index,
                               "is no entry that this leased knows");
    return 0;
}

static int restore_and_replay(struct single *single, struct sqlite_file *file,
                              char why[static SQLFILE_WHY_MAX])
{
    struct replay arg = {single, file, why};
    int r = restore(single, file, why);

    return r == 0 ? sqlite_replay(file, replay, &arg, why) : r;
}

static int start_writer(struct single *single, struct sqlite_file *file)
{
    const struct engine_options *options = &single->engine.options;
    struct writer_options writer = {
        .limits = {options->batch_commands, options->batch_bytes, options->waiting_commands,
                   WAITING_BYTES},
        .begin = engine_begin_batch,
        .wake = wake,
        .arg = single,
    };

    return writer_new(file, &writer, &single->writer);
}

static void lead(int r, void *arg)
{
    if (r == 0)
        engine_set_leading(arg, true);
}

/* A new state has no lease to be gracious to; its first command is CmdInit. */
static void begin_leading(struct single *single)
{
    struct engine *engine = &single->engine;

    engine_begin_time(engine);
    if (fsm_initialised(engine->fsm)) {
        engine->grace_due = true;
        begin_grace(single);
    } else {
        engine_later_ready(engine, 0, lead, engine);
    }
}

static int open_single(struct single *single, const char *path, char why[static SQLFILE_WHY_MAX])
{
    struct sqlite_file *file;
    int r = sqlite_open(path, &file, why);

    if (r < 0)
        return r;
    sqlite_get_position(file, &single->position);
    single->applied = single->position.snapshot_entry;
    r = restore_and_replay(single, file, why);
    if (r < 0) {
        sqlite_close(file);
        return r;
    }
    /* What hinders writing is told by health: it can be read. */
    (void)sqlite_begin(file);
    (void)snprintf(why, SQLFILE_WHY_MAX, "%s: cannot start its thread", path);
    r = loop_wake_new(single->engine.loop, collect, single, &single->wake);
    if (r < 0) {
        sqlite_close(file);
        return r;
    }
    return start_writer(single, file);
}

int engine_open_sqlite(struct loop *loop, const char *path, const struct engine_options *options,
                       struct fsm *fsm, const struct engine_hooks *hooks, struct engine **ret,
                       char why[static ENGINE_WHY_MAX])
{
    struct single *single = calloc(1, sizeof *single);
    int r = single ? engine_init(&single->engine, &single_ops, loop, options, hooks, fsm) : -ENOMEM;

    (void)snprintf(why, ENGINE_WHY_MAX, "%s: out of memory", path);
    if (r < 0) {
        fsm_free(fsm);
        free(single);
        return r;
    }
    r = loop_timer_new(loop, allow_snapshot, single, &single->history_timer);
    if (r == 0)
        r = open_single(single, path, why);
    if (r < 0) {
        single_free(single);
        return r;
    }
    /* What the restore needed beside the state. */
    (void)malloc_trim(0);
    begin_leading(single);
    *ret = &single->engine;
    return 0;
}
