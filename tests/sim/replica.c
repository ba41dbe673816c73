/* A leased of three or five, as the raft engine has it: commands gathered into entries, few entries under way; after an
 * election first a barrier, then time goes on from where the state is, then the grace, then this replica leads. Who loses
 * leadership does not know what becomes of what the library has; what it does not have is not done. */
#include <errno.h>
#include <inttypes.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include "common/mem.h"
#include "tests/sim/cluster.h"

#define ELECTION_MS  250
#define HEARTBEAT_MS 50
#define GRACE_MS     3000
#define FLIGHTS_MAX  3
#define WALL_MS      ((int64_t)1 << 33)

/* An entry that the library has. */
struct flight {
    struct raft_apply apply;
    struct replica *r;
    struct batch *batch;
    raft_index index;
    raft_term term;
    bool answered;
    struct flight *next;
};

/* ---- batches ---- */

static void grace_done(int r, const struct fsm_outcome *outcome, void *arg)
{
    struct replica *replica = arg;

    if (r < 0)
        replica->grace_due = true;
    else if (outcome->code == FSM_OK)
        replica->leads = true;
}

static size_t pack_grace(uint8_t bytes[static 64])
{
    Xce__V1__CmdGrace grace = XCE__V1__CMD_GRACE__INIT;
    Xce__V1__Command command = XCE__V1__COMMAND__INIT;

    grace.grace_ms = GRACE_MS;
    command.kind_case = XCE__V1__COMMAND__KIND_GRACE;
    command.grace = &grace;
    return xce__v1__command__pack(&command, bytes);
}

static int64_t cluster_now_ms(const struct replica *r)
{
    const struct term *term = cluster_term(r->c, r->led);

    return term->base_ms + (r->c->w.now_ms - term->base_now_ms);
}

static void begin_time(struct replica *r)
{
    cluster_term(r->c, r->led)->base_ms = fsm_now_ms(r->fsm);
    cluster_term(r->c, r->led)->base_now_ms = r->c->w.now_ms;
}

/* The first command of a new state is CmdInit: no grace before it. */
static void begin_batch(struct batch *batch, void *arg)
{
    struct replica *r = arg;
    uint8_t bytes[64];

    command_entry_begin(&batch->entry, cluster_now_ms(r), WALL_MS + r->c->w.now_ms + r->wall_ms);
    if (!r->grace_due)
        return;
    batch_add(batch, bytes, pack_grace(bytes), grace_done, r);
    r->grace_due = false;
}

static void fail_batch(const struct batch *batch, int r)
{
    for (size_t i = 0; i < batch->n; i++)
        if (batch->proposals[i].done)
            batch->proposals[i].done(r, NULL, batch->proposals[i].arg);
}

static void fail_waiting(struct replica *r, int why)
{
    struct batch *batch;

    while ((batch = batch_take(&r->queue))) {
        fail_batch(batch, why);
        batch_recycle(&r->queue, batch);
    }
}

/* ---- entries ---- */

static void drop_flight(struct flight *flight)
{
    struct replica *r = flight->r;
    struct flight **at = &r->flights;

    while (*at != flight)
        at = &(*at)->next;
    *at = flight->next;
    if (!*at)
        r->flights_end = at;
    r->n_flights--;
    if (flight->batch)
        batch_recycle(&r->queue, flight->batch);
    free(flight);
}

/* When all is well, apply has answered already; it may have even when not: who loses leadership to somebody who has this
 * entry, too, applies it before it hears that leadership is lost. */
static void flight_ended(struct raft_apply *apply, int status, void *result)
{
    struct flight *flight = apply->data;

    (void)status, (void)result;
    if (!flight->answered && flight->batch)
        fail_batch(flight->batch, -ECONNABORTED);
    drop_flight(flight);
}

/* 0; or what the library says: then it is not done. batch: NULL for the state to begin with. */
static int fly(struct replica *r, enum raft_entry_kind kind, const uint8_t *bytes, size_t len,
               struct batch *batch)
{
    struct flight *flight = mem_must_calloc(1, sizeof(*flight));
    struct raft_entry_view entry = {.kind = kind, .bytes = bytes, .len = len};
    struct raft_buffer buf = {NULL, raft_entry_size(len)};
    int status;

    *flight = (struct flight){.r = r,
                              .batch = batch,
                              .index = raft_last_index(&r->raft) + 1,
                              .term = raft_current_term(&r->raft)};
    flight->apply.data = flight;
    entry.index = flight->index;
    entry.term = flight->term;
    buf.base = raft_malloc(buf.len);
    raft_entry_encode(&entry, buf.base);
    *r->flights_end = flight;
    r->flights_end = &flight->next;
    r->n_flights++;
    status = raft_apply(&r->raft, &flight->apply, &buf, 1, flight_ended);
    if (status == 0)
        return 0;
    raft_free(buf.base);
    r->c->events[CLUSTER_REFUSED_FULL] += status == RAFT_NOSPACE;
    if (batch)
        fail_batch(batch, status == RAFT_NOSPACE ? -ENOSPC : -EAGAIN);
    drop_flight(flight);
    return status;
}

static int fly_batch(struct replica *r, struct batch *batch)
{
    const struct buf *bytes = &batch->entry;

    if (command_entry_finish(bytes) < 0)
        violated(&r->c->w, "an entry is not whole");
    return fly(r, RAFT_ENTRY_COMMANDS, (const uint8_t *)bytes->data, bytes->len, batch);
}

static void fly_waiting(struct replica *r)
{
    struct batch *batch;

    while (r->n_flights < FLIGHTS_MAX && !r->barrier && raft_transferee(&r->raft) == 0 &&
           (batch = batch_take(&r->queue)))
        if (fly_batch(r, batch) != 0)
            break;
}

void replica_propose(struct replica *r, const uint8_t *bytes, size_t len, engine_done_fn done,
                     void *arg)
{
    int status = r->leads ? batch_gather(&r->queue, bytes, len, done, arg) : -EAGAIN;

    if (status < 0) {
        done(status, NULL, arg);
        return;
    }
    fly_waiting(r);
    replica_settle(r);
}

void replica_stalled(struct replica *r)
{
    uint8_t bytes[64];

    if (r->leads)
        (void)batch_gather(&r->queue, bytes, pack_grace(bytes), NULL, NULL);
}

/* ---- the state machine ---- */

struct answer {
    struct flight *flight; /* NULL: nobody here waits for it */
};

static void on_outcome(size_t i, const struct fsm_outcome *outcome, void *arg)
{
    const struct batch *batch = ((const struct answer *)arg)->flight->batch;

    if (batch->proposals[i].done)
        batch->proposals[i].done(0, outcome, batch->proposals[i].arg);
}

/* The log begins with a state: that of a backup. The time goes on from there. */
static void take_state(struct replica *r, const struct raft_entry_view *entry, bool own)
{
    const char *why = "";

    if (fsm_restore(r->fsm, entry->bytes, entry->len, &why) < 0)
        violated(&r->c->w, "replica %d does not take the state: %s", r->index, why);
    free(r->state);
    r->state = NULL;
    if (!own)
        return;
    begin_time(r);
    r->grace_due = true;
}

static void take(struct replica *r, const struct raft_entry_view *entry, struct answer *answer)
{
    struct fsm_hooks hooks = {NULL, on_outcome, answer};

    if (entry->kind == RAFT_ENTRY_STATE)
        take_state(r, entry, answer->flight != NULL);
    else if (fsm_apply(r->fsm, entry->bytes, entry->len, answer->flight ? &hooks : NULL) != 0)
        violated(&r->c->w, "replica %d does not take entry %" PRIu64, r->index, entry->index);
}

static int machine_apply(struct raft_fsm *machine, const struct raft_buffer *buf, void **result)
{
    struct replica *r = machine->data;
    struct world *w = &r->c->w;
    raft_index index = raft_last_applied(&r->raft) + 1;
    struct answer answer = {r->flights};
    struct raft_entry_view entry;

    *result = NULL;
    if (raft_entry_decode(buf->base, buf->len, &entry) < 0 || entry.index != index)
        violated(w, "replica %d applies what is not entry %llu", r->index, index);
    cluster_applied(r->c, r, &entry);
    while (answer.flight && (answer.flight->index != index || answer.flight->term != entry.term))
        answer.flight = answer.flight->next;
    take(r, &entry, &answer);
    if (answer.flight)
        answer.flight->answered = true;
    cluster_check_digest(r->c, r, index);
    return 0;
}

static int machine_snapshot(struct raft_fsm *machine, struct raft_buffer **bufs, unsigned *n)
{
    struct replica *r = machine->data;
    uint8_t *bytes;
    size_t len;

    if (!raft_guard_may_snapshot(&r->raft))
        return RAFT_BUSY;
    if (fsm_snapshot(r->fsm, &bytes, &len) < 0)
        abort();
    *bufs = raft_calloc(1, sizeof(**bufs));
    (*bufs)->base = raft_malloc(len);
    (*bufs)->len = len;
    memcpy((*bufs)->base, bytes, len);
    *n = 1;
    free(bytes);
    return 0;
}

static int machine_restore(struct raft_fsm *machine, struct raft_buffer *buf)
{
    struct replica *r = machine->data;
    const char *why = NULL;

    if (fsm_restore(r->fsm, buf->base, buf->len, &why) < 0)
        violated(&r->c->w, "replica %d does not take a snapshot: %s", r->index, why);
    raft_free(buf->base);
    r->restored = true;
    return 0;
}

/* ---- leadership ---- */

struct barrier {
    struct raft_barrier barrier;
    struct replica *r;
    raft_term term;
};

/* Everything older is applied: time goes on from here. */
static void barrier_ended(struct raft_barrier *req, int status)
{
    struct barrier *barrier = req->data;
    struct replica *r = barrier->r;

    if (status == 0 && r->led == barrier->term) {
        r->barrier = false;
        begin_time(r);
        if (fsm_initialised(r->fsm)) {
            r->grace_due = true;
            (void)batch_begin(&r->queue);
        } else if (!r->state) {
            r->leads = true;
        }
    }
    free(barrier);
}

static void begin_to_lead(struct replica *r)
{
    struct barrier *barrier = mem_must_calloc(1, sizeof(*barrier));

    r->led = raft_current_term(&r->raft);
    r->leads = r->grace_due = false;
    cluster_elected(r->c, r);
    barrier->r = r;
    barrier->term = r->led;
    barrier->barrier.data = barrier;
    r->barrier = true;
    if (raft_barrier(&r->raft, &barrier->barrier, barrier_ended) == 0)
        return;
    r->led = 0; /* no room for it: again */
    free(barrier);
}

static void watch_leadership(struct replica *r)
{
    bool elected = raft_state(&r->raft) == RAFT_LEADER;

    if (!elected) {
        r->leads = r->barrier = r->grace_due = false;
        r->led = 0;
        fail_waiting(r, -EAGAIN);
    } else if (r->led != raft_current_term(&r->raft)) {
        fail_waiting(r, -EAGAIN);
        begin_to_lead(r);
    } else if (r->state && !r->barrier && !r->n_flights && !fsm_initialised(r->fsm)) {
        (void)fly(r, RAFT_ENTRY_STATE, r->state, r->state_len, NULL);
    } else if (r->grace_due && !r->queue.head) {
        (void)batch_begin(&r->queue); /* the disk was full: again */
    }
}

static void fire(struct raft_apply *req)
{
    struct raft_barrier *barrier = (void *)req;
    struct raft_change *change = (void *)req;
    struct raft_transfer *transfer = (void *)req;

    if (req->type == RAFT_COMMAND)
        req->cb(req, req->status, req->result);
    else if (req->type == RAFT_BARRIER)
        barrier->cb(barrier, req->status);
    else if (req->type == RAFT_CHANGE)
        change->cb(change, req->status);
    else
        transfer->cb(transfer);
}

/* Requests that are done wait in a list of the library, which fires them itself only below its own raft_io. */
static void fire_done(struct raft *raft)
{
    void **list = raft->legacy.requests;

    while (list[0] != (void *)list) {
        void **link = list[0];
        void **next = link[0], **before = link[1];
        struct raft_apply *req = (struct raft_apply *)(void *)((char *)link -
                                                               offsetof(struct raft_apply, queue));

        before[0] = next;
        next[1] = before;
        fire(req);
    }
}

void replica_settle(struct replica *r)
{
    if (r->dying) {
        r->c->events[CLUSTER_BAD_VOTE]++;
        replica_crash(r);
        return;
    }
    if (!r->up)
        return;
    fire_done(&r->raft);
    if (r->restored)
        cluster_check_digest(r->c, r, raft_last_applied(&r->raft));
    r->restored = false;
    cluster_check_beliefs(r->c, r);
    watch_leadership(r);
    fly_waiting(r);
    fire_done(&r->raft);
}

/* ---- life ---- */

static int method_init(struct raft_io *io, raft_id id, const char *address)
{
    (void)io, (void)id, (void)address;
    return 0;
}

static void method_close(struct raft_io *io, raft_io_close_cb cb)
{
    disk_cancel(io->impl);
    if (cb)
        cb(io);
}

static int method_start(struct raft_io *io, unsigned ms, raft_io_tick_cb tick, raft_io_recv_cb recv)
{
    struct replica *r = io->impl;

    r->tick = tick;
    r->recv = recv;
    r->tick_ms = ms;
    cluster_at(r->c, r->c->w.now_ms + ms, &(struct event){.kind = AT_TICK, .replica = r->index});
    return 0;
}

static raft_time method_time(struct raft_io *io)
{
    const struct replica *r = io->impl;

    return (raft_time)(r->c->w.now_ms - r->behind_ms);
}

static int method_random(struct raft_io *io, int min, int max)
{
    struct replica *r = io->impl;

    return min + (int)roll(&r->c->w, (uint64_t)(max - min));
}

static void init_io(struct replica *r)
{
    r->io = (struct raft_io){.version = 2,
                             .capacity = UINT16_MAX,
                             .impl = r,
                             .init = method_init,
                             .close = method_close,
                             .start = method_start,
                             .time = method_time,
                             .random = method_random};
    disk_methods(&r->io);
    net_methods(&r->io);
    r->machine = (struct raft_fsm){.version = 1,
                                   .data = r,
                                   .apply = machine_apply,
                                   .snapshot = machine_snapshot,
                                   .restore = machine_restore};
}

/* With --trace, what the library says of itself. */
static void emit(struct raft_tracer *tracer, int type, const void *data)
{
    const struct replica *r = tracer->impl;
    const struct raft_tracer_info *info = data;

    if (type == RAFT_TRACER_DIAGNOSTIC && info->diagnostic.level < 5)
        say(&r->c->w, "    %d: %s", r->index, info->diagnostic.message);
}

void replica_init(struct cluster *c, int index)
{
    struct replica *r = &c->replicas[index];
    struct batch_limits limits = {.commands = 1 + c->w.seed % 5,
                                  .bytes = 1 << 16,
                                  .waiting_commands = 64,
                                  .waiting_bytes = 1 << 20};

    *r = (struct replica){.c = c, .index = index, .disk_ms = 1, .disk.first = 1};
    r->id = (raft_id)index + 1;
    r->name[0] = (char)('1' + index);
    memcpy(r->address, (char[]){r->name[0], '@', 'h', 0}, 4);
    r->work_end = &r->work;
    r->flights_end = &r->flights;
    r->behind_ms = (int64_t)roll(&c->w, 1000);
    batch_queue_init(&r->queue, &limits, begin_batch, r);
    r->tracer = (struct raft_tracer){.impl = r, .version = 2, .emit = emit};
    init_io(r);
}

void replica_start(struct replica *r)
{
    unsigned trailing = 8 << (r->c->w.seed % 4);

    r->up = true;
    r->dying = false;
    r->generation++;
    r->led = 0;
    r->committed = 0;
    if (fsm_new(&r->fsm) < 0 || raft_init(&r->raft, &r->io, &r->machine, r->id, r->address) != 0)
        abort();
    if (r->c->w.trace)
        r->raft.tracer = &r->tracer;
    r->guard = (struct raft_guard){0};
    raft_set_election_timeout(&r->raft, ELECTION_MS);
    raft_set_heartbeat_timeout(&r->raft, HEARTBEAT_MS);
    raft_set_install_snapshot_timeout(&r->raft, 2 * ELECTION_MS);
    raft_set_pre_vote(&r->raft, true);
    raft_set_snapshot_threshold(&r->raft, 2 * trailing);
    raft_set_snapshot_trailing(&r->raft, trailing);
    if (raft_start(&r->raft) != 0)
        violated(&r->c->w, "replica %d does not start: %s", r->index, raft_errmsg(&r->raft));
    replica_settle(r);
}

void replica_crash(struct replica *r)
{
    r->c->events[CLUSTER_CRASHED] += !r->c->w.healing;
    say(&r->c->w, "replica %d dies", r->index);
    r->up = r->leads = r->barrier = r->grace_due = false;
    r->dying = true; /* nothing is sent any more */
    r->generation++;
    r->paused_until_ms = 0;
    r->bad_vote = false;
    disk_crash(r);
    raft_close(&r->raft, NULL);
    r->c->events[CLUSTER_HELD_OFF] += r->guard.n_dropped;
    r->c->events[CLUSTER_CORRECTED] += r->guard.n_corrected;
    r->c->events[CLUSTER_CUT] += r->guard.n_cut;
    r->c->events[CLUSTER_REFUSED] += r->guard.n_refused;
    r->c->events[CLUSTER_NOTED] += r->guard.n_noted;
    r->c->events[CLUSTER_LATE_REFUSAL] += r->guard.n_late;
    r->c->events[CLUSTER_PARTED] += r->guard.n_split;
    r->c->events[CLUSTER_SETTLED] += r->guard.n_settled;
    r->c->events[CLUSTER_UNENDED] += r->guard.n_unended;
    r->c->events[CLUSTER_SKIPPED] += r->guard.n_skipped;
    r->c->events[CLUSTER_LENT] += r->guard.n_lent;
    r->c->events[CLUSTER_TOLD] += r->guard.n_told;
    r->c->events[CLUSTER_HUMBLED] += r->guard.n_humbled;
    fail_waiting(r, -ECONNABORTED);
    nodes_lose_replica(&r->c->w, r->index);
    r->dying = false;
    fsm_free(r->fsm);
    r->fsm = NULL;
    cluster_at(r->c, r->c->w.now_ms + 1 + (int64_t)roll(&r->c->w, 3000),
               &(struct event){.kind = AT_START, .replica = r->index});
}

/* Whatever it had promised under its id nobody knows any more, so it comes back under another. */
void replica_wipe(struct replica *r)
{
    disk_done(&r->disk);
    r->disk = (struct disk){.first = 1};
    r->id += SIM_REPLICAS;
    free(r->state);
    r->state = NULL;
    r->c->events[CLUSTER_WIPED]++;
    say(&r->c->w, "replica %d is wiped: %llu", r->index, r->id);
}
