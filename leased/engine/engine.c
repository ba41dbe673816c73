#include "leased/engine/engine.h"

#include <assert.h>
#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "common/clock.h"
#include "common/err.h"
#include "common/log.h"
#include "common/mem.h"
#include "common/net/loop.h"
#include "leased/engine/engine_inner.h"
#include "leased/fsm/command.h"
#include "leased/fsm/request.h"

#define DEFAULT_U(value, otherwise) ((value) ? (value) : (otherwise))

static void set_defaults(struct engine_options *options)
{
    options->batch_commands = DEFAULT_U(options->batch_commands, 1024);
    options->batch_bytes = DEFAULT_U(options->batch_bytes, 256u << 10);
    options->waiting_commands = DEFAULT_U(options->waiting_commands, 65536);
    options->snapshot_entries = DEFAULT_U(options->snapshot_entries, 16384);
    options->snapshot_bytes = DEFAULT_U(options->snapshot_bytes, 64u << 20);
    assert(options->batch_commands <= FSM_BATCH_MAX);
}

/* ---- time ---- */

void engine_begin_time(struct engine *engine)
{
    engine->base_ms = fsm_now_ms(engine->fsm);
    engine->base_mono_ms = loop_now_fresh_ms();
}

int64_t engine_now_ms(const struct engine *engine)
{
    return engine->base_ms + (loop_now_fresh_ms() - engine->base_mono_ms);
}

/* Or a request that bears it could be refused as one from the future. */
static_assert(ENGINE_TOLD_AHEAD_MS < REQUEST_AHEAD_MS, "what is told is good for a request");

int64_t engine_told_ms(const struct engine *engine)
{
    int64_t now_ms = engine_now_ms(engine);
    int64_t most_ms = fsm_now_ms(engine->fsm) + ENGINE_TOLD_AHEAD_MS;

    return now_ms < most_ms ? now_ms : most_ms;
}

/* The grace is in the log, or must come before anything else can. */
static void grace_done(int r, const struct fsm_outcome *outcome, void *arg)
{
    struct engine *engine = arg;

    if (r < 0) {
        engine->grace_due = true;
        return;
    }
    if (outcome->code != FSM_OK)
        log_error(NULL, "no grace for the leases after a restart: %s", outcome->message);
    engine_set_leading(engine, true);
}

static void add_grace(struct engine *engine, struct batch *batch)
{
    Xce__V1__CmdGrace grace = XCE__V1__CMD_GRACE__INIT;
    Xce__V1__Command command = XCE__V1__COMMAND__INIT;
    uint8_t bytes[64];
    size_t len;

    grace.grace_ms = engine->options.grace_ms;
    command.kind_case = XCE__V1__COMMAND__KIND_GRACE;
    command.grace = &grace;
    assert(xce__v1__command__get_packed_size(&command) <= sizeof bytes);
    len = xce__v1__command__pack(&command, bytes);
    batch_add(batch, bytes, len, grace_done, engine);
    engine->grace_due = false;
}

void engine_begin_batch(struct batch *batch, void *arg)
{
    struct engine *engine = arg;

    command_entry_begin(&batch->entry, engine_now_ms(engine), clock_wall_ms());
    if (engine->grace_due)
        add_grace(engine, batch);
}

/* ---- answers ---- */

static void add_later(struct engine *engine, const struct engine_later *later)
{
    mem_must_grow(&engine->later, &engine->later_cap, engine->n_later + 1, sizeof *later);
    engine->later[engine->n_later++] = *later;
    loop_soon_start(engine->soon);
}

void engine_later_done(struct engine *engine, int r, engine_done_fn done, void *arg)
{
    if (done)
        add_later(engine, &(struct engine_later){.r = r, .done = done, .arg = arg});
}

void engine_later_ready(struct engine *engine, int r, engine_ready_fn ready, void *arg)
{
    add_later(engine, &(struct engine_later){.r = r, .ready = ready, .arg = arg});
}

void engine_later_told(struct engine *engine, int r, const uint8_t *bytes, size_t len,
                       engine_ready_fn ready, void *arg)
{
    add_later(
        engine,
        &(struct engine_later){
            .r = r, .ready = ready, .arg = arg, .told = mem_must_dup(bytes, len), .told_len = len});
}

void engine_flush_soon(struct engine *engine)
{
    loop_soon_start(engine->soon);
}

static void run_soon(void *arg)
{
    struct engine *engine = arg;
    struct engine_later *later = mem_take(engine->later);
    size_t n = engine->n_later;

    engine->n_later = 0;
    engine->later_cap = 0;
    for (size_t i = 0; i < n; i++) {
        if (later[i].told && engine->hooks.told)
            engine->hooks.told(later[i].told, later[i].told_len, engine->hooks.arg);
        free(later[i].told);
        if (later[i].done)
            later[i].done(later[i].r, NULL, later[i].arg);
        else if (later[i].ready)
            later[i].ready(later[i].r, later[i].arg);
    }
    free(later);
    engine->ops->flush(engine);
}

struct apply {
    struct engine *engine;
    const struct batch *batch; /* may be NULL */
};

static void apply_change(const struct fsm_change *change, void *arg)
{
    const struct engine_hooks *hooks = &((const struct apply *)arg)->engine->hooks;

    hooks->change(change, hooks->arg);
}

/* A doubtful batch that turned out to be durable has been answered already: no proposals. */
static void apply_outcome(size_t i, const struct fsm_outcome *outcome, void *arg)
{
    const struct batch *batch = ((const struct apply *)arg)->batch;
    struct engine *engine = ((const struct apply *)arg)->engine;

    if (outcome->origin && engine->ops->passed)
        engine->ops->passed(engine, outcome);
    if (batch && i < batch->n && batch->proposals[i].done)
        batch->proposals[i].done(0, outcome, batch->proposals[i].arg);
}

void engine_apply(struct engine *engine, struct batch *batch)
{
    engine_apply_entry(engine, batch->index, (const uint8_t *)batch->entry.data, batch->entry.len,
                       batch);
}

void engine_apply_entry(struct engine *engine, uint64_t index, const uint8_t *entry, size_t len,
                        const struct batch *batch)
{
    struct apply apply = {engine, batch};
    struct fsm_hooks hooks = {engine->hooks.change ? apply_change : NULL, apply_outcome, &apply};
    int r = fsm_apply(engine->fsm, entry, len, &hooks);

    if (r != 0) {
        log_error(NULL, "entry %" PRIu64 " of the log cannot be applied: %s", index,
                  r < 0 ? err_text(r) : "it was written by a newer leased");
        abort();
    }
    /* Whoever leads keeps the time; the others go by what he says. */
    if (!engine->leading)
        engine_begin_time(engine);
    if (engine->hooks.applied)
        engine->hooks.applied(engine->hooks.arg);
}

void engine_fail(struct batch *batch, int r)
{
    for (size_t i = 0; i < batch->n; i++)
        if (batch->proposals[i].done)
            batch->proposals[i].done(r, NULL, batch->proposals[i].arg);
}

/* ---- state ---- */

void engine_set_leading(struct engine *engine, bool leading)
{
    if (engine->leading == leading)
        return;
    engine->leading = leading;
    if (engine->hooks.leader)
        engine->hooks.leader(leading, engine->hooks.arg);
}

void engine_set_health(struct engine *engine, int r, const char *what)
{
    if (engine->health == r)
        return;
    engine->health = r;
    if (engine->hooks.health)
        engine->hooks.health(r, what, engine->hooks.arg);
}

int engine_init(struct engine *engine, const struct engine_ops *ops, struct loop *loop,
                const struct engine_options *options, const struct engine_hooks *hooks,
                struct fsm *fsm)
{
    int r;

    engine->ops = ops;
    engine->loop = loop;
    if (hooks)
        engine->hooks = *hooks;
    if (options)
        engine->options = *options;
    set_defaults(&engine->options);
    r = loop_soon_new(loop, run_soon, engine, &engine->soon);
    if (r < 0)
        return r;
    engine->fsm = fsm;
    engine_begin_time(engine);
    return 0;
}

void engine_done(struct engine *engine)
{
    assert(engine->n_later == 0);
    loop_soon_free(engine->soon);
    free(engine->later);
    fsm_free(engine->fsm);
}

/* ---- the face ---- */

void engine_close(struct engine *engine, void (*done)(void *arg), void *arg)
{
    engine->ops->close(engine, done, arg);
}

struct fsm *engine_fsm(struct engine *engine)
{
    return engine->fsm;
}

void engine_propose(struct engine *engine, const uint8_t *command, size_t len, engine_done_fn done,
                    void *arg)
{
    engine->ops->propose(engine, command, len, done, arg);
}

void engine_read_barrier(struct engine *engine, engine_ready_fn done, void *arg)
{
    engine->ops->read_barrier(engine, done, arg);
}

void engine_tell(struct engine *engine, const uint8_t *bytes, size_t len, engine_ready_fn done,
                 void *arg)
{
    engine->ops->tell(engine, bytes, len, done, arg);
}

void engine_snapshot(struct engine *engine, engine_ready_fn done, void *arg)
{
    engine->ops->snapshot(engine, done, arg);
}

void engine_get_status(const struct engine *engine, struct engine_status *ret)
{
    engine->ops->get_status(engine, ret);
}
