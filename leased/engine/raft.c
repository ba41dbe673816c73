#include "leased/engine/replica.h"

#include <assert.h>
#include <errno.h>
#include <inttypes.h>
#include <malloc.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "common/mem.h"
#include "common/net/loop.h"
#include "leased/engine/raft_ask.h"
#include "leased/engine/raft_entry.h"
#include "leased/engine/raft_inner.h"
#include "leased/fsm/command.h"

/* Entries of ours in the log that are not applied yet: what comes meanwhile gathers into a larger one. Each entry costs every
 * replica a write, messages and wake-ups, whatever is in it. */
#define FLYING_MAX 1u

/* An entry of ours on its way through the log. */
struct flight {
    struct raft_apply req;
    struct replica *replica;
    struct flight *next;
    struct batch *batch; /* NULL: the state to begin with, or it is settled */
    uint64_t index, term;
    bool settled;
};

/* The barrier of a term. */
struct barrier {
    struct raft_barrier req;
    struct replica *replica;
    uint64_t term;
};

struct replica *replica_of(const struct engine *engine)
{
    return CONTAINER_OF(engine, struct replica, engine);
}

void replica_die(const struct replica *replica, const char *format, ...)
{
    char what[256];
    va_list ap;

    va_start(ap, format);
    (void)vsnprintf(what, sizeof what, format, ap);
    va_end(ap);
    log_error(NULL, "%s: %s", replica->folder, what);
    abort();
}

/* ---- flights ---- */

static void add_flight(struct replica *replica, struct flight *flight)
{
    if (replica->last_flying)
        replica->last_flying->next = flight;
    else
        replica->flying = flight;
    replica->last_flying = flight;
    replica->n_flying++;
}

static void remove_flight(struct replica *replica, const struct flight *flight)
{
    struct flight **at = &replica->flying, *before = NULL;

    while (*at != flight) {
        before = *at;
        at = &(*at)->next;
    }
    *at = flight->next;
    if (replica->last_flying == flight)
        replica->last_flying = before;
    replica->n_flying--;
}

/* To be answered with r in the next round. */
static void fail_later(struct replica *replica, struct batch *batch, int r)
{
    struct batch **at = &replica->cancelled;

    while (*at)
        at = &(*at)->next;
    batch->r = r;
    batch->next = NULL;
    *at = batch;
    engine_flush_soon(&replica->engine);
}

/* The library has done with the request; an entry that was applied has been answered then. */
static void landed(struct raft_apply *req, int status, void *result)
{
    struct flight *flight = CONTAINER_OF(req, struct flight, req);
    struct replica *replica = flight->replica;

    (void)result;
    assert(status != 0 || flight->settled);
    if (!flight->settled) {
        remove_flight(replica, flight);
        if (flight->batch)
            fail_later(replica, flight->batch, -ECONNABORTED);
    }
    free(flight);
}

static int to_errno(int rv)
{
    if (rv == RAFT_NOTLEADER)
        return -EAGAIN;
    return rv == RAFT_NOSPACE ? -ENOSPC : -EIO;
}

/* Put bytes into the log. batch may be NULL. 0; -EAGAIN; -ENOSPC: then batch is still the caller's. */
static int submit(struct replica *replica, enum raft_entry_kind kind, const uint8_t *bytes,
                  size_t len, struct batch *batch)
{
    struct flight *flight = mem_must_calloc(1, sizeof *flight);
    struct raft_entry_view entry = {raft_last_index(&replica->raft) + 1,
                                    raft_current_term(&replica->raft), kind, bytes, len};
    struct raft_buffer buffer = {NULL, raft_entry_size(len)};
    int rv;

    buffer.base = raft_malloc(buffer.len);
    if (!buffer.base)
        replica_die(replica, "no memory for an entry of the log");
    raft_entry_encode(&entry, buffer.base);
    flight->replica = replica;
    flight->batch = batch;
    flight->index = entry.index;
    flight->term = entry.term;
    if (batch)
        batch->index = entry.index;
    add_flight(replica, flight);
    rv = raft_apply(&replica->raft, &flight->req, &buffer, 1, landed);
    if (rv == 0)
        return 0;
    /* Only these two come before the library has taken the entry in. */
    if (rv != RAFT_NOTLEADER && rv != RAFT_NOSPACE)
        replica_die(replica, "an entry could not be sent or written: %s",
                    raft_errmsg(&replica->raft));
    raft_free(buffer.base);
    remove_flight(replica, flight);
    free(flight);
    return to_errno(rv);
}

/* ---- leading ---- */

static void lead(int r, void *arg)
{
    struct replica *replica = arg;

    if (r == 0 && replica->ruling && replica->caught_up)
        engine_set_leading(&replica->engine, true);
}

static void begin_grace(struct replica *replica)
{
    if (!replica->engine.grace_due || !replica->caught_up || replica->queue.head ||
        replica->n_flying > 0)
        return;
    batch_begin(&replica->queue);
    engine_flush_soon(&replica->engine);
}

/* Its state is in the log, or it had none. */
static void begun(struct replica *replica)
{
    struct raft_identity *identity = &replica->identity;
    char why[ENGINE_WHY_MAX];

    free(mem_take(replica->state));
    if (identity->begin == RAFT_BEGIN_NO)
        return;
    identity->begin = RAFT_BEGIN_NO;
    if (raft_identity_write(replica->folder, identity, why) < 0)
        log_warning(NULL, "%s; it is tried again at the next start", why);
}

/* Everything older is applied: go on from there. */
static void catch_up(struct replica *replica)
{
    struct engine *engine = &replica->engine;

    replica->caught_up = true;
    engine_begin_time(engine);
    if (fsm_initialised(engine->fsm)) {
        begun(replica);
        engine->grace_due = true;
        begin_grace(replica);
    } else if (replica->state) {
        if (submit(replica, RAFT_ENTRY_STATE, replica->state, replica->state_len, NULL) < 0)
            replica->caught_up = false; /* the next tick tries again */
    } else {
        engine_later_ready(engine, 0, lead, replica);
    }
}

static void barrier_passed(struct raft_barrier *req, int status)
{
    struct barrier *barrier = CONTAINER_OF(req, struct barrier, req);
    struct replica *replica = barrier->replica;
    bool ours = replica->ruling && barrier->term == raft_current_term(&replica->raft);

    free(barrier);
    if (!ours || replica->closing)
        return;
    replica->barrier_flies = false;
    if (status == 0)
        catch_up(replica);
}

static void begin_barrier(struct replica *replica)
{
    struct barrier *barrier;

    if (!replica->ruling || replica->caught_up || replica->barrier_flies || replica->closing ||
        raft_transferee(&replica->raft) != 0)
        return;
    barrier = mem_must_calloc(1, sizeof *barrier);
    barrier->replica = replica;
    barrier->term = raft_current_term(&replica->raft);
    replica->barrier_flies = raft_barrier(&replica->raft, &barrier->req, barrier_passed) == 0;
    if (!replica->barrier_flies)
        free(barrier);
}

static void begin_rule(struct replica *replica)
{
    replica->ruling = true;
    replica->ruled_term = raft_current_term(&replica->raft);
    replica->caught_up = false;
    replica->barrier_flies = false;
    begin_barrier(replica);
}

static void end_rule(struct replica *replica)
{
    struct batch *batch;

    replica->ruling = false;
    replica->caught_up = false;
    replica->engine.grace_due = false;
    /* What the library has not seen is known not to be done. */
    while ((batch = batch_take(&replica->queue)))
        fail_later(replica, batch, -EAGAIN);
    raft_read_fail(replica, -EAGAIN);
    engine_set_leading(&replica->engine, false);
}

void replica_give_up(struct replica *replica, const char *why)
{
    char what[ENGINE_WHY_MAX];

    if (replica->over)
        return;
    replica->over = true;
    (void)snprintf(what, sizeof what, "%s: %s: leased must start anew", replica->folder, why);
    engine_set_health(&replica->engine, -ESHUTDOWN, what);
}

void replica_observe(struct replica *replica)
{
    enum raft_state state = (enum raft_state)raft_state(&replica->raft);
    bool rules = state == RAFT_LEADER;

    if (replica->closing || !replica->started)
        return;
    if (state == RAFT_UNAVAILABLE)
        replica_give_up(replica, "the library gave up");
    rules = rules && !replica->over;
    if (replica->ruling && (!rules || replica->ruled_term != raft_current_term(&replica->raft)))
        end_rule(replica);
    if (rules && !replica->ruling)
        begin_rule(replica);
}

/* ---- applying ---- */

static void apply_state(struct replica *replica, const struct raft_entry_view *entry)
{
    struct engine *engine = &replica->engine;
    const char *what = "";

    if (fsm_restore(engine->fsm, entry->bytes, entry->len, &what) < 0)
        replica_die(replica, "the state in entry %" PRIu64 " cannot be taken over: %s",
                    entry->index, what);
    engine_begin_time(engine); /* it went on from nothing until now */
    if (engine->hooks.restored)
        engine->hooks.restored(engine->fsm, engine->hooks.arg);
    if (engine->hooks.applied)
        engine->hooks.applied(engine->hooks.arg);
}

/* Ours, if it is the one that we wrote: index and term say so. */
static struct flight *settle(struct replica *replica, const struct raft_entry_view *entry)
{
    struct flight *flight = replica->flying;

    if (!flight || flight->index != entry->index || flight->term != entry->term)
        return NULL;
    remove_flight(replica, flight);
    flight->settled = true;
    return flight;
}

static int apply(struct raft_fsm *raft_fsm, const struct raft_buffer *buf, void **result)
{
    struct replica *replica = raft_fsm->data;
    struct raft_entry_view entry;
    struct flight *flight;
    struct batch *batch;

    *result = NULL;
    if (raft_entry_decode(buf->base, buf->len, &entry) < 0)
        replica_die(replica, "the entry after %llu is damaged", raft_last_applied(&replica->raft));
    if (entry.index != raft_last_applied(&replica->raft) + 1)
        replica_die(replica, "entry %" PRIu64 " comes after %llu", entry.index,
                    raft_last_applied(&replica->raft));
    flight = settle(replica, &entry);
    batch = flight ? mem_take(flight->batch) : NULL;
    replica->bytes_since += entry.len;
    raft_kept_note(&replica->kept, (uint32_t)buf->len);
    if (entry.kind == RAFT_ENTRY_STATE)
        apply_state(replica, &entry);
    else
        engine_apply_entry(&replica->engine, entry.index, entry.bytes, entry.len, batch);
    raft_pass_reached(replica->pass, entry.index, entry.kind == RAFT_ENTRY_STATE);
    if (batch)
        batch_recycle(&replica->queue, batch);
    if (flight && entry.kind == RAFT_ENTRY_STATE && replica->ruling) {
        begun(replica);
        replica->engine.grace_due = true;
    }
    engine_flush_soon(&replica->engine);
    return 0;
}

/* ---- snapshots ---- */

static void set_threshold(struct replica *replica)
{
    bool now = replica->n_wishes > 0 ||
               replica->bytes_since >= replica->engine.options.snapshot_bytes;

    raft_set_snapshot_threshold(&replica->raft,
                                now ? 1 : (unsigned)replica->engine.options.snapshot_entries);
}

/* Memory and disk are cut by what is set here: it stays until the next one is taken. 0 would mean something else. */
static void set_trailing(struct replica *replica)
{
    const struct engine_options *options = &replica->engine.options;

    raft_set_snapshot_trailing(
        &replica->raft, raft_kept_count(&replica->kept, (unsigned)options->snapshot_entries / 4 + 1,
                                        options->snapshot_bytes / 4));
}

static int take_snapshot(struct raft_fsm *raft_fsm, struct raft_buffer *bufs[], unsigned *n_bufs)
{
    struct replica *replica = raft_fsm->data;
    struct raft_buffer *buffer;
    uint8_t *bytes;
    size_t len;

    if (!raft_guard_may_snapshot(&replica->raft))
        return RAFT_BUSY;
    buffer = raft_malloc(sizeof *buffer);
    if (!buffer || fsm_snapshot(replica->engine.fsm, &bytes, &len) < 0) {
        log_warning(NULL, "no memory for a snapshot");
        raft_free(buffer);
        return RAFT_NOMEM;
    }
    *buffer = (struct raft_buffer){bytes, len};
    *bufs = buffer;
    *n_bufs = 1;
    replica->disk.snapshot_revision = fsm_revision(replica->engine.fsm);
    replica->bytes_since = 0;
    set_trailing(replica);
    return 0;
}

static int restore(struct raft_fsm *raft_fsm, struct raft_buffer *buf)
{
    struct replica *replica = raft_fsm->data;
    struct engine *engine = &replica->engine;
    const char *what = "";

    if (fsm_restore(engine->fsm, buf->base, buf->len, &what) < 0) {
        if (replica->started)
            replica_die(replica, "a snapshot that was sent to us cannot be taken over: %s", what);
        (void)snprintf(replica->restore_why, sizeof replica->restore_why, "%s", what);
        raft_disk_unload(replica);
        return RAFT_CORRUPT;
    }
    raft_free(buf->base);
    replica->bytes_since = 0;
    engine_begin_time(engine);
    if (engine->hooks.restored)
        engine->hooks.restored(engine->fsm, engine->hooks.arg);
    raft_pass_reached(replica->pass, 0, true);
    return 0;
}

void replica_snapshot_ended(struct replica *replica, uint64_t entry, int r)
{
    size_t kept = 0;

    for (size_t i = 0; i < replica->n_wishes; i++) {
        struct snapshot_wish wish = replica->wishes[i];

        if (r == 0 && wish.entry > entry)
            replica->wishes[kept++] = wish;
        else
            engine_later_ready(&replica->engine, r, wish.done, wish.arg);
    }
    replica->n_wishes = kept;
    if (!replica->closing)
        set_threshold(replica);
    (void)malloc_trim(0);
}

void replica_set_fsm(struct replica *replica)
{
    replica->raft_fsm = (struct raft_fsm){.version = 1,
                                          .data = replica,
                                          .apply = apply,
                                          .snapshot = take_snapshot,
                                          .restore = restore};
}

/* ---- the face ---- */

static void tick(void *arg)
{
    struct replica *replica = arg;

    if (replica->closing)
        return;
    replica_observe(replica);
    begin_barrier(replica);
    if (replica->caught_up && replica->state && !fsm_initialised(replica->engine.fsm) &&
        replica->n_flying == 0)
        catch_up(replica);
    begin_grace(replica);
    raft_disk_tick(replica);
    raft_read_tick(replica);
    raft_tell_tick(replica);
    raft_ask_tick(replica);
    /* A snapshot may have brought what reads wait for. */
    raft_pass_reached(replica->pass, raft_last_applied(&replica->raft), false);
    set_threshold(replica);
    if (replica->engine.health < 0)
        raft_disk_stalled(replica);
    engine_flush_soon(&replica->engine);
}

static void replica_free(struct replica *replica)
{
    loop_timer_free(replica->tick);
    raft_links_free(replica->links);
    if (replica->has_io)
        raft_uv_close(&replica->io);
    batch_queue_done(&replica->queue);
    raft_read_done(replica);
    raft_pass_free(replica->pass);
    free(replica->wishes);
    free(replica->state);
    free(replica->folder);
    free(replica->name);
    free(replica->address);
    if (replica->lock_fd >= 0)
        (void)close(replica->lock_fd);
    engine_done(&replica->engine);
    free(replica);
}

static void fail_cancelled(struct replica *replica)
{
    while (replica->cancelled) {
        struct batch *batch = replica->cancelled;

        replica->cancelled = batch->next;
        engine_fail(batch, batch->r);
        batch_recycle(&replica->queue, batch);
    }
}

static void send_waiting(struct replica *replica)
{
    while (replica->queue.head && replica->n_flying < FLYING_MAX && replica->caught_up &&
           raft_transferee(&replica->raft) == 0) {
        struct batch *batch = batch_take(&replica->queue);
        int r = submit(replica, RAFT_ENTRY_COMMANDS, (const uint8_t *)batch->entry.data,
                       batch->entry.len, batch);

        if (r < 0)
            fail_later(replica, batch, r);
    }
}

static void replica_flush(struct engine *engine)
{
    struct replica *replica = replica_of(engine);

    fail_cancelled(replica);
    if (!replica->closing) {
        begin_grace(replica);
        send_waiting(replica);
        raft_pass_flush(replica->pass);
    } else if (replica->closed && engine->n_later == 0 && !replica->cancelled) {
        void (*done)(void *arg) = replica->done;
        void *arg = replica->done_arg;

        replica_free(replica);
        if (done)
            done(arg);
    }
}

static void raft_closed(struct raft *raft)
{
    struct replica *replica = raft->data;

    replica->closed = true;
    engine_flush_soon(&replica->engine);
}

static void close_raft(struct replica *replica)
{
    replica->closing = true;
    raft_close(&replica->raft, raft_closed);
    raft_disk_close(replica);
}

static void replica_close(struct engine *engine, void (*done)(void *arg), void *arg)
{
    struct replica *replica = replica_of(engine);
    struct batch *batch;

    assert(!replica->closing);
    replica->done = done;
    replica->done_arg = arg;
    while ((batch = batch_take(&replica->queue)))
        fail_later(replica, batch, -ECANCELED);
    raft_read_fail(replica, -ECANCELED);
    raft_tell_ended(replica, 0, -ECANCELED);
    raft_pass_close(replica->pass);
    raft_member_lost(replica, -ECANCELED);
    close_raft(replica);
    replica_snapshot_ended(replica, 0, -ECANCELED);
    engine_flush_soon(engine);
}

static void replica_propose(struct engine *engine, const uint8_t *command, size_t len,
                            engine_done_fn done, void *arg)
{
    struct replica *replica = replica_of(engine);
    int r = replica->closing ? -ECANCELED : raft_disk_refuses(replica);

    if (r == 0 && !engine->leading) {
        raft_pass_propose(replica->pass, command, len, done, arg);
        return;
    }
    if (r == 0)
        r = batch_gather(&replica->queue, command, len, done, arg);
    if (r == 0)
        engine_flush_soon(engine);
    else
        engine_later_done(engine, r, done, arg);
}

static void replica_read_barrier(struct engine *engine, engine_ready_fn done, void *arg)
{
    struct replica *replica = replica_of(engine);

    if (replica->closing)
        engine_later_ready(engine, -ECANCELED, done, arg);
    else if (engine->leading)
        raft_read_ask(replica, done, arg);
    else
        raft_pass_read(replica->pass, done, arg);
}

static void replica_tell(struct engine *engine, const uint8_t *bytes, size_t len,
                         engine_ready_fn done, void *arg)
{
    struct replica *replica = replica_of(engine);
    int r = replica->closing ? -ECANCELED : raft_disk_refuses(replica);

    /* Whoever asks for more than to be heard follows our state, which goes no further. */
    if (r == 0 || (!done && r != -ECANCELED))
        raft_tell(replica, bytes, len, done, arg);
    else if (done)
        engine_later_ready(engine, r, done, arg);
}

static void replica_snapshot(struct engine *engine, engine_ready_fn done, void *arg)
{
    struct replica *replica = replica_of(engine);
    uint64_t applied = raft_last_applied(&replica->raft);
    int r = replica->closing ? -ECANCELED : engine->health;

    if (r < 0 || applied == replica->disk.snapshot_entry) {
        engine_later_ready(engine, r, done, arg);
        return;
    }
    mem_must_grow(&replica->wishes, &replica->wishes_cap, replica->n_wishes + 1,
                  sizeof *replica->wishes);
    replica->wishes[replica->n_wishes++] = (struct snapshot_wish){applied, done, arg};
    set_threshold(replica);
}

static void replica_get_engine_status(const struct engine *engine, struct engine_status *ret)
{
    struct replica *replica = replica_of(engine);

    *ret = (struct engine_status){
        .leading = engine->leading,
        .health = engine->health,
        .last_entry = raft_last_applied(&replica->raft),
        .snapshot_entry = replica->disk.snapshot_entry,
        .log_bytes = replica->bytes_since,
        .fsm_revision = fsm_revision(engine->fsm),
    };
}

static void replica_passed(struct engine *engine, const struct fsm_outcome *outcome)
{
    raft_pass_applied(replica_of(engine)->pass, outcome);
}

const struct engine_ops replica_ops = {
    .close = replica_close,
    .propose = replica_propose,
    .read_barrier = replica_read_barrier,
    .tell = replica_tell,
    .snapshot = replica_snapshot,
    .get_status = replica_get_engine_status,
    .passed = replica_passed,
    .flush = replica_flush,
};

bool engine_is_replica(const struct engine *engine)
{
    return engine->ops == &replica_ops;
}

void replica_accept(struct engine *engine, struct transport *transport)
{
    raft_links_accept(replica_of(engine)->links, transport);
}

bool replica_knows_leader(const struct engine *engine)
{
    const char *address;
    raft_id id;

    raft_leader((struct raft *)&replica_of(engine)->raft, &id, &address);
    return id != 0;
}

void replica_get_status(const struct engine *engine, struct replica_status *ret)
{
    raft_member_status(replica_of(engine), ret);
}

/* ---- begin, or not ---- */

static void take_state(struct replica *replica, const struct replica_options *options)
{
    if (replica->identity.begin == RAFT_BEGIN_STATE) {
        replica->state = mem_must_dup(options->state, options->state_len);
        replica->state_len = options->state_len;
    } else if (replica->identity.begin == RAFT_BEGIN_FIRST) {
        begun(replica);
    }
}

int replica_begin(struct replica *replica, const struct replica_options *options)
{
    int r = loop_timer_new(replica->engine.loop, tick, replica, &replica->tick);

    if (r < 0)
        return r;
    take_state(replica, options);
    loop_timer_start(replica->tick, 30, 30);
    (void)malloc_trim(0);
    replica_observe(replica);
    return 0;
}

static void note_freed(void *arg)
{
    *(bool *)arg = true;
}

/* The library ends only by way of the loop. */
void replica_abandon(struct replica *replica)
{
    struct loop *loop = replica->engine.loop;
    bool freed = false;

    if (!replica->has_raft) {
        replica_free(replica);
        return;
    }
    replica->done = note_freed;
    replica->done_arg = &freed;
    close_raft(replica);
    while (!freed)
        loop_step(loop, 100);
}
