#include "noded/state.h"

#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "common/digest.h"
#include "common/mem.h"
#include "noded/reason.h"
#include "noded/state_inside.h"
#include "xce/map.h"

#define OR_DEFAULT(value, fallback) ((value) ? (value) : (fallback))

struct state *state_new(const struct state_limits *limits, const struct state_ops *ops, void *arg)
{
    struct state *state = mem_must_calloc(1, sizeof(*state));

    state->limits.batch = OR_DEFAULT(limits->batch, 4096);
    state->limits.resay_ms = OR_DEFAULT(limits->resay_ms, 5000);
    state->limits.retry_ms = OR_DEFAULT(limits->retry_ms, 1000);
    state->limits.retry_max_ms = OR_DEFAULT(limits->retry_max_ms, 30000);
    state->ops = *ops;
    state->arg = arg;
    state->next_due_ms = INT64_MAX;
    return state;
}

static void queue_done(struct step_queue *q)
{
    uids_done(&q->waiting);
    free(q->running);
}

void state_free(struct state *state)
{
    struct seen *seen;

    if (!state)
        return;
    for (size_t at = 0; (seen = table_next(&state->table, &at));)
        slot_drop(state, seen);
    table_done(&state->table);
    lease_index_done(&state->by_lease);
    queue_done(&state->persists);
    queue_done(&state->vets);
    queue_done(&state->sweeps);
    queue_done(&state->sweeps_again);
    free(state->left);
    again_done(state);
    uids_done(&state->unseen);
    uids_done(&state->dirty);
    uids_done(&state->kills);
    free(state);
}

/* ---- what a predecessor left ---- */

void state_recall_epoch(struct state *state, const struct state_epoch *entry)
{
    struct seen *seen = table_put(&state->table, entry->uid);

    if (entry->epoch < seen->epoch)
        return;
    if (entry->epoch > seen->epoch)
        seen->closed = false;
    seen->epoch = entry->epoch;
    seen->on_disk = true;
    seen->closed = seen->closed || entry->closed;
    seen->closed_on_disk = seen->closed;
    seen->swept = seen->swept_on_disk = entry->swept;
}

/* Of this epoch nothing is known yet. */
static void seen_begin(struct seen *seen, uint32_t epoch)
{
    seen->epoch = epoch;
    seen->closed = seen->on_disk = seen->closed_on_disk = false;
    seen->swept = seen->swept_on_disk = false;
    seen->behind = seen->left;
}

static struct slot *slot_new(struct state *state, struct seen *seen,
                             const struct state_lease *lease)
{
    struct slot *slot = mem_must_calloc(1, sizeof(*slot));

    slot->uid = lease->uid;
    slot->epoch = lease->epoch;
    slot->owner = lease->owner;
    slot->owner_name = lease->owner_name;
    slot->lease = lease->lease;
    slot->revision = lease->revision;
    slot->phase = lease->phase;
    slot->member = lease->member;
    slot->released = lease->released;
    slot->proof = lease->proof;
    slot->closed = seen->closed;
    seen->slot = slot;
    lease_index_put(&state->by_lease, &state->table, slot->lease, slot->uid);
    return slot;
}

void state_recall_lease(struct state *state, const struct state_lease *lease, bool closed)
{
    struct seen *seen = table_put(&state->table, lease->uid);
    struct slot *slot;

    if (lease->epoch < seen->epoch || seen->slot)
        return;
    if (lease->epoch > seen->epoch) {
        if (!lease->member)
            left_take(state, seen, false);
        seen_begin(seen, lease->epoch);
    }
    seen->closed = seen->closed || closed;
    slot = slot_new(state, seen, lease);
    slot->written = true;
    slot->admitted = slot->member;
    slot->revision = 0; /* whatever leased shows is newer */
    if (slot->member && !phase_live(slot->phase))
        slot_close(state, seen);
    if (slot->member && slot->closed) {
        state->ops.map_mark(slot->uid, slot->epoch, XCE_MAP_CLOSED, 0, state->arg);
        if (!seen->closed_on_disk)
            state_want_persist(state, seen);
        slot_want_sweep(state, slot);
        slot_want_kill(state, slot); /* the one before us may not have come to that */
    } else if (slot->member && !seen->on_disk) {
        state_want_persist(state, seen);
    }
    slot_count(state, slot, 1);
}

/* ---- sessions ---- */

void state_begin_anew(struct state *state, uint64_t revision)
{
    struct seen *seen;

    while (state->n_agains)
        again_drop(state, state->agains[0].uid);
    for (size_t at = 0; (seen = table_next(&state->table, &at));) {
        if (seen->slot)
            seen->slot->revision = 0;
        if (seen->on_disk || seen->queued || (seen->slot && seen->slot->member))
            continue;
        if (seen->slot)
            state->ops.map_retire(seen->uid, seen->epoch, revision, state->arg);
        slot_drop(state, seen);
        seen_begin(seen, 0);
    }
}

void state_session_begin(struct state *state, bool full)
{
    struct seen *seen;

    state->in_session = true;
    state->say_all = true;
    state->unseen.n = 0;
    again_session(state, full);
    for (size_t at = 0; (seen = table_next(&state->table, &at));) {
        struct slot *slot = seen->slot;
        if (!slot)
            continue;
        slot->said = SAY_NOTHING;
        slot->unseen = false;
        if (full)
            slot->listed = false;
        /* What was swept under an older session counts no more (R_SESS): look again, then say so. */
        if (slot_standing(slot) == STANDS_SWEPT)
            slot_want_sweep(state, slot);
    }
}

void state_session_end(struct state *state)
{
    state->in_session = false;
}

/* ---- changes ---- */

/* leased shows an epoch that is behind one seen here: a state restored from long ago, or worse (I3). */
static void older_epoch(struct state *state, const struct state_lease *lease)
{
    struct state_verdict about = {lease->uid, lease->epoch, REASON_EPOCH,
                                  "this node has seen a higher epoch"};
    bool live = phase_live(lease->phase);

    again_drop(state, lease->uid);
    if (!lease->member || lease->phase >= STATE_RETIRED)
        return;
    if (lease->proof != (live ? PROOF_REFUSED : PROOF_DIRTY))
        again_say(state, live ? SAY_REFUSED : SAY_DIRTY, &about);
}

static void lease_gone(struct state *state, struct seen *seen, const struct state_lease *lease)
{
    struct slot *slot = seen->slot;

    /* On an oath that this node is off nothing was swept here, whatever its disk says. */
    left_take(state, seen, lease->member && lease->proof == PROOF_FENCED);
    state->ops.map_retire(lease->uid, lease->epoch, lease->revision, state->arg);
    if (lease->phase == STATE_FREE) {
        slot_drop(state, seen);
        return;
    }
    /* Retired: kept without a name until it is free, so that we know that somebody waits for a watermark. */
    if (slot) {
        slot_count(state, slot, -1);
        slot->phase = STATE_RETIRED;
        slot->revision = lease->revision;
        slot->written = slot->admitted = false;
    } else {
        slot = slot_new(state, seen, lease);
    }
    slot->listed = true;
    slot_count(state, slot, 1);
}

/* A record that is written again keeps what was said of it: nobody who asks meanwhile is told that this node is not ready. */
static uint8_t map_flags(const struct seen *seen)
{
    const struct slot *slot = seen->slot;

    if (!slot->member)
        return 0;
    if (slot->closed)
        return XCE_MAP_MEMBER | XCE_MAP_CLOSED;
    return slot->admitted && seen->on_disk ? XCE_MAP_MEMBER | XCE_MAP_SAID_READY : XCE_MAP_MEMBER;
}

static void lease_to_map(struct state *state, struct seen *seen, const struct state_lease *lease)
{
    struct slot *slot = seen->slot;
    int r = state->ops.map_set(lease, map_flags(seen), state->arg);

    if (r == 0)
        slot->written = true;
    else if (slot->member && phase_live(slot->phase) && !slot->closed && !slot->written)
        slot_refuse(state, seen, r == -ENOSPC ? REASON_NO_SPACE : REASON_MAP,
                    "the map can not hold it");
}

static void lease_ended(struct state *state, struct seen *seen, const struct state_lease *lease,
                        bool again)
{
    struct slot *slot = seen->slot;

    slot_count(state, slot, -1);
    slot_close(state, seen);
    slot_count(state, slot, 1);
    lease_to_map(state, seen, lease);
    if (slot->proof != PROOF_CLEAN && (again || slot->sweep == STEP_NOT)) {
        slot_want_sweep(state, slot);
        slot_want_kill(state, slot);
    }
}

/* Granted or active, this node a member, admission open. */
static void lease_live(struct state *state, struct seen *seen, const struct state_lease *lease)
{
    struct slot *slot = seen->slot;

    /* This node has said READY for it and knows nothing of that: nor can it know whether it has closed admission since. */
    if (!seen->on_disk && lease->proof == PROOF_READY) {
        slot_refuse(state, seen, REASON_CLOSED, "this node does not remember that it was ready");
        lease_ended(state, seen, lease, false);
        return;
    }
    if (!seen->on_disk)
        state_want_persist(state, seen);
    /* On disk, and leased has our READY: it was admitted before, and the map was lost since. What runs is its own. That the
     * lease is active says nothing of this node: it may be about to join it. */
    if (slot->admitted || (seen->on_disk && lease->proof == PROOF_READY)) {
        slot_count(state, slot, -1);
        slot->admitted = true;
        slot_count(state, slot, 1);
        lease_to_map(state, seen, lease);
        return;
    }
    waiting_free(slot->waiting);
    slot->waiting = waiting_new(lease);
    if (slot->vet == STEP_NOT || slot->vet == STEP_DONE) {
        slot->vet = STEP_QUEUED;
        uids_add(&state->vets.waiting, slot->uid);
    }
}

/* Whether what was found clean before does not count any more: it had not ended then, or a stray put it back. */
static bool clean_is_stale(const struct slot *old, const struct state_lease *lease)
{
    bool was_live = phase_live(old->phase) && !old->released;

    return (was_live && (!phase_live(lease->phase) || lease->released)) ||
           (old->proof == PROOF_CLEAN && lease->proof != PROOF_CLEAN) ||
           (old->phase > STATE_DRAINING && lease->phase == STATE_DRAINING) ||
           (!old->member && lease->member);
}

static void slot_update(struct state *state, struct seen *seen, const struct state_lease *lease)
{
    struct slot *slot = seen->slot;
    bool stale = clean_is_stale(slot, lease);

    slot_count(state, slot, -1);
    slot->revision = lease->revision;
    if (slot->lease != lease->lease) {
        slot->lease = lease->lease;
        lease_index_put(&state->by_lease, &state->table, slot->lease, slot->uid);
    }
    slot->owner = lease->owner;
    slot->owner_name = lease->owner_name;
    slot->phase = lease->phase;
    slot->member = lease->member;
    slot->admitted = slot->admitted && slot->member;
    slot->released = lease->released;
    slot->proof = lease->proof;
    slot->listed = true;
    if (stale && slot->said != SAY_NOTHING)
        slot->said = SAY_NOTHING;
    slot_count(state, slot, 1);
    if (!slot->member)
        lease_to_map(state, seen, lease);
    else if (!phase_live(slot->phase) || slot->released || slot->closed)
        lease_ended(state, seen, lease, stale);
    else
        lease_live(state, seen, lease);
    slot_say(state, seen);
}

void state_change(struct state *state, const struct state_lease *lease)
{
    struct seen *seen = table_put(&state->table, lease->uid);

    assert(lease->epoch > 0 && lease->uid > 0);
    if (lease->epoch < seen->epoch) {
        older_epoch(state, lease);
        return;
    }
    if (lease->epoch > seen->epoch) {
        again_drop(state, lease->uid);
        left_take(state, seen, false);
        slot_drop(state, seen);
        seen_begin(seen, lease->epoch);
    } else if (seen->slot && lease->revision < seen->slot->revision) {
        seen->slot->listed = true;
        return;
    }
    if (lease->phase >= STATE_RETIRED) {
        lease_gone(state, seen, lease);
        return;
    }
    if (!seen->slot) {
        slot_new(state, seen, lease);
        slot_count(state, seen->slot, 1);
    }
    slot_update(state, seen, lease);
}

void state_full_done(struct state *state, uint64_t revision)
{
    struct seen *seen;

    for (size_t at = 0; (seen = table_next(&state->table, &at));) {
        if (seen->slot && seen->slot->listed)
            continue;
        left_take(state, seen, false);
        if (!seen->slot)
            continue;
        state->ops.map_retire(seen->uid, seen->epoch, revision, state->arg);
        slot_drop(state, seen);
    }
}

/* ---- results ---- */

static void queue_finish(struct step_queue *q)
{
    free(q->running);
    q->running = NULL;
    q->n_running = 0;
}

/* The slot that an entry of a batch was about, if it still is. */
static struct seen *still(struct state *state, const struct state_epoch *entry)
{
    struct seen *seen = table_find(&state->table, entry->uid);

    return seen && seen->epoch == entry->epoch ? seen : NULL;
}

/* To be tried again, all of it; what waits to be READY for it does not wait, and what can not be CLEAN is said to be dirty. */
static void persist_failed(struct state *state, struct seen *seen)
{
    struct slot *slot = seen->slot;

    state_want_persist(state, seen);
    if (slot && slot->member && !slot->closed && !seen->on_disk)
        slot_refuse(state, seen, state->persist_reason, "its epoch can not be written to disk");
    else if (slot)
        slot_say(state, seen);
}

void state_persisted(struct state *state, int r)
{
    struct step_queue *q = &state->persists;

    state->persist_reason = r == 0 ? 0 : r == -ENOSPC ? REASON_NO_SPACE : REASON_SCAN_FAILED;
    for (size_t i = 0; i < q->n_running; i++) {
        struct seen *seen = still(state, &q->running[i]);
        if (!seen)
            continue;
        if (r < 0) {
            persist_failed(state, seen);
            continue;
        }
        seen->on_disk = true;
        seen->closed_on_disk = q->running[i].closed;
        seen->swept_on_disk = q->running[i].swept;
        if (seen->closed != seen->closed_on_disk || seen->swept != seen->swept_on_disk)
            state_want_persist(state, seen);
        if (seen->slot)
            slot_say(state, seen);
    }
    state->persist_failed = r < 0;
    state->persist_retry_ms = state->now_ms + state->limits.retry_ms;
    if (r < 0)
        state_due(state, state->persist_retry_ms);
    queue_finish(q);
}

static const struct state_verdict *verdict_of(const struct state_verdict *verdicts, size_t n,
                                              const struct state_epoch *entry)
{
    for (size_t i = 0; i < n; i++)
        if (verdicts[i].uid == entry->uid && verdicts[i].epoch == entry->epoch)
            return &verdicts[i];
    return NULL;
}

void state_vetted(struct state *state, const struct state_verdict *bad, size_t n)
{
    struct step_queue *q = &state->vets;

    for (size_t i = 0; i < q->n_running; i++) {
        struct seen *seen = still(state, &q->running[i]);
        const struct state_verdict *verdict = verdict_of(bad, n, &q->running[i]);
        if (!seen || !seen->slot || seen->slot->vet != STEP_RUNNING)
            continue;
        seen->slot->vet = STEP_DONE;
        if (!seen->slot->waiting) /* ended meanwhile */
            continue;
        if (verdict)
            slot_refuse(state, seen, verdict->reason, verdict->detail);
        else
            slot_admit(state, seen);
    }
    queue_finish(q);
}

static void slot_dirty(struct state *state, struct slot *slot, const struct state_verdict *verdict)
{
    int64_t wait = state->limits.retry_ms;

    for (unsigned i = 0; i < slot->tries && wait < state->limits.retry_max_ms; i++)
        wait *= 2;
    if (wait > state->limits.retry_max_ms)
        wait = state->limits.retry_max_ms;
    if (!slot->was_dirty)
        state->counts.dirty++;
    slot->was_dirty = true;
    slot->tries += slot->tries < UINT8_MAX;
    slot->sweep = STEP_BAD;
    slot->reason = (uint8_t)verdict->reason;
    slot_detail(slot, verdict->detail);
    slot->retry_ms = state->now_ms + wait;
    state_due(state, slot->retry_ms);
    uids_add(&state->dirty, slot->uid);
}

static void slot_clean(struct state *state, struct slot *slot)
{
    if (slot->was_dirty)
        state->counts.dirty--;
    slot->was_dirty = false;
    slot->tries = 0;
    slot->reason = 0;
    slot->sweep = STEP_DONE;
}

static void swept_batch(struct state *state, struct step_queue *q,
                        const struct state_verdict *dirty, size_t n)
{
    for (size_t i = 0; i < q->n_running; i++) {
        struct seen *seen = still(state, &q->running[i]);
        const struct state_verdict *verdict = verdict_of(dirty, n, &q->running[i]);
        struct slot *slot = seen ? seen->slot : NULL;
        if (!slot || slot->sweep != STEP_RUNNING)
            continue;
        if (verdict)
            slot_dirty(state, slot, verdict);
        else
            slot_clean(state, slot);
        if (slot->sweep_again && !verdict) {
            slot->sweep_again = false;
            slot_want_sweep(state, slot);
        }
        slot->sweep_again = false;
        if (verdict || slot->sweep == STEP_DONE)
            seen_swept(state, seen, !verdict);
        slot_say(state, seen);
    }
    queue_finish(q);
}

void state_swept(struct state *state, const struct state_verdict *dirty, size_t n, int64_t now_ms)
{
    state->now_ms = now_ms;
    swept_batch(state, state->sweeps.n_running ? &state->sweeps : &state->sweeps_again, dirty, n);
}

/* It may have left something where the sweep had been already: what was found, or is being found, is not the last word. What
 * is dirty is swept again anyway. */
static void stray_of_swept(struct state *state, struct slot *slot,
                           const struct state_verdict *about)
{
    if (slot->sweep != STEP_BAD)
        slot_want_sweep(state, slot);
    if (slot->said != SAY_CLEAN)
        return;
    slot->said = SAY_NOTHING;
    if (state->in_session)
        state->ops.say(SAY_STRAY, about, state->arg);
}

void state_stray(struct state *state, uint32_t uid, unsigned reason, const char *detail)
{
    struct seen *seen = table_find(&state->table, uid);
    struct slot *slot = seen ? seen->slot : NULL;
    enum state_standing standing = slot_standing(slot);
    struct state_verdict about = {uid, slot ? slot->epoch : 0, reason, detail};

    if (seen && standing != STANDS_HERE)
        seen_swept(state, seen, false);
    if (standing == STANDS_SWEPT)
        stray_of_swept(state, slot, &about);
    if (standing == STANDS_HERE || standing == STANDS_SWEPT)
        return;
    /* Not admitted yet: vetting judges it. */
    if (slot && slot->member && phase_live(slot->phase) && !slot->closed && !slot->admitted)
        return;
    again_say(state, SAY_STRAY, &about);
}

void state_end_pool(struct state *state, const char *name)
{
    struct seen *seen;

    for (size_t at = 0; (seen = table_next(&state->table, &at));) {
        const struct state_pool *pool = state_pool_of(state, seen->uid);
        struct slot *slot = seen->slot;
        if (!slot || !slot->member || slot->closed || !phase_live(slot->phase) || !pool ||
            strcmp(pool->name, name) != 0)
            continue;
        slot_refuse(state, seen, REASON_VALIDITY, "nothing heard from leased for too long");
    }
}

void state_end_lease(struct state *state, uint32_t uid, uint32_t epoch)
{
    struct seen *seen = table_find(&state->table, uid);
    struct slot *slot = seen ? seen->slot : NULL;

    if (!slot || slot->epoch != epoch || !slot->member || slot->closed || !phase_live(slot->phase))
        return;
    slot_refuse(state, seen, REASON_CLOSED, "its release was handed over here");
}

/* ---- time ---- */

static void unseen_say_again(struct state *state)
{
    size_t kept = 0;

    for (size_t i = 0; i < state->unseen.n; i++) {
        struct seen *seen = table_find(&state->table, state->unseen.items[i]);
        struct slot *slot = seen ? seen->slot : NULL;
        bool has_seen;
        if (!slot || !slot->unseen)
            continue;
        /* The numbers of what is said and of what is proved are the same. */
        has_seen = slot->said == SAY_NOTHING || (unsigned)slot->proof == (unsigned)slot->said ||
                   slot->phase >= STATE_RETIRED;
        if (has_seen) {
            slot->unseen = false;
            continue;
        }
        state->unseen.items[kept++] = seen->uid;
        if (slot->said_ms + state->limits.resay_ms <= state->now_ms) {
            slot->said = SAY_NOTHING;
            slot_say(state, seen);
        }
        state_due(state, slot->said_ms + state->limits.resay_ms);
    }
    state->unseen.n = kept;
}

static void dirty_again(struct state *state)
{
    size_t kept = 0;

    for (size_t i = 0; i < state->dirty.n; i++) {
        struct seen *seen = table_find(&state->table, state->dirty.items[i]);
        struct slot *slot = seen ? seen->slot : NULL;
        if (!slot || slot->sweep != STEP_BAD)
            continue;
        if (slot->retry_ms <= state->now_ms) {
            slot_want_sweep(state, slot);
            continue;
        }
        state->dirty.items[kept++] = seen->uid;
        state_due(state, slot->retry_ms);
    }
    state->dirty.n = kept;
}

void state_sweep_now(struct state *state)
{
    for (size_t i = 0; i < state->dirty.n; i++) {
        struct seen *seen = table_find(&state->table, state->dirty.items[i]);
        if (seen && seen->slot)
            seen->slot->retry_ms = 0;
    }
    state->next_due_ms = 0;
}

void state_elapse(struct state *state, int64_t now_ms)
{
    state->now_ms = now_ms;
    if (now_ms < state->next_due_ms)
        return;
    state->next_due_ms = INT64_MAX;
    if (state->persist_failed) {
        if (state->persist_retry_ms <= now_ms)
            state->persist_failed = false;
        else
            state_due(state, state->persist_retry_ms);
    }
    if (state->in_session) {
        unseen_say_again(state);
        again_elapse(state);
    }
    dirty_again(state);
}

/* ---- flush ---- */

enum take {
    TAKE,
    KEEP, /* its time has not come */
    DROP, /* there is nothing to do any more */
};

typedef enum take (*take_fn)(struct state *state, struct seen *seen);

static struct state_epoch epoch_of(const struct seen *seen, bool closed, bool swept)
{
    return (struct state_epoch){seen->uid, seen->epoch, closed, swept};
}

/* Move up to a batch of what waits to running; its size. */
static size_t queue_take(struct state *state, struct step_queue *q, take_fn take)
{
    size_t kept = 0, room = state->limits.batch;

    if (q->waiting.n == 0)
        return 0;
    q->running = mem_must_calloc(q->waiting.n < room ? q->waiting.n : room, sizeof(*q->running));
    for (size_t i = 0; i < q->waiting.n; i++) {
        struct seen *seen = table_find(&state->table, q->waiting.items[i]);
        enum take what = KEEP;
        if (!seen)
            continue;
        if (q->n_running < room)
            what = take(state, seen);
        if (what == KEEP)
            q->waiting.items[kept++] = seen->uid;
        else if (what == TAKE)
            q->running[q->n_running++] = epoch_of(seen, seen->closed, seen->swept);
    }
    q->waiting.n = kept;
    if (q->n_running == 0)
        queue_finish(q);
    return q->n_running;
}

static enum take take_persist(struct state *state, struct seen *seen)
{
    if (!seen->queued)
        return DROP;
    /* The disk has one epoch of a uid: until what an earlier one left is swept it has that one, or nobody would know of it
     * after a crash. The new one is not admitted before that either. */
    if (seen->behind)
        return KEEP;
    seen->queued = false;
    return TAKE;
}

static enum state_pool_check pool_check(const struct state *state, uint32_t uid)
{
    const struct state_pool *pool = state_pool_of(state, uid);

    return pool ? pool->check : POOL_UNCHECKED;
}

static const char unguarded[] = "the overlap check of its pool has not passed on this node";

static enum take take_vet(struct state *state, struct seen *seen)
{
    struct slot *slot = seen->slot;

    if (!slot || slot->vet != STEP_QUEUED)
        return DROP;
    if (!slot->waiting) {
        slot->vet = STEP_NOT;
        return DROP;
    }
    switch (pool_check(state, seen->uid)) {
    case POOL_UNCHECKED:
        return KEEP;
    case POOL_FAILED:
        slot->vet = STEP_DONE;
        slot_refuse(state, seen, REASON_UNGUARDED, unguarded);
        return DROP;
    case POOL_PASSED:
        break;
    }
    if (seen->left)
        return KEEP;
    slot->vet = STEP_RUNNING;
    return TAKE;
}

static enum take take_sweep(struct state *state, struct seen *seen)
{
    struct slot *slot = seen->slot;

    if (!slot || slot->sweep != STEP_QUEUED)
        return DROP;
    switch (pool_check(state, seen->uid)) {
    case POOL_UNCHECKED:
        slot_want_kill(state, slot);
        return KEEP;
    case POOL_FAILED:
        slot_want_kill(state, slot);
        slot_dirty(state, slot,
                   &(struct state_verdict){.reason = REASON_UNGUARDED, .detail = unguarded});
        slot_say(state, seen);
        return DROP;
    case POOL_PASSED:
        break;
    }
    slot->sweep = STEP_RUNNING;
    return TAKE;
}

static void say_all(struct state *state)
{
    struct seen *seen;

    state->say_all = false;
    for (size_t at = 0; (seen = table_next(&state->table, &at));)
        if (seen->slot)
            slot_say(state, seen);
    again_flush(state);
}

static void flush_sweeps(struct state *state)
{
    struct step_queue *first = &state->sweeps, *second = &state->sweeps_again;
    struct step_queue *q;

    if (first->n_running || second->n_running)
        return;
    /* Turn by turn: neither those that are dirty for long nor fresh ones without end hold up the others. */
    if (state->again_next) {
        first = &state->sweeps_again;
        second = &state->sweeps;
    }
    q = queue_take(state, first, take_sweep) ? first : second;
    if (q->n_running == 0 && queue_take(state, q, take_sweep) == 0) {
        state->sweeps_kept = true;
        return;
    }
    state->again_next = q == &state->sweeps;
    state->ops.sweep(q->running, q->n_running, q == &state->sweeps_again, state->arg);
}

/* Of a uid that has got another lease meanwhile nothing is left to be killed: it was swept. */
static void flush_kills(struct state *state)
{
    auto_free struct state_epoch *uids = NULL;
    size_t n = 0;

    if (state->kills.n == 0)
        return;
    uids = mem_must_calloc(state->kills.n, sizeof(*uids));
    for (size_t i = 0; i < state->kills.n; i++) {
        struct seen *seen = table_find(&state->table, state->kills.items[i]);
        struct slot *slot = seen ? seen->slot : NULL;
        if (!slot || !slot->killing)
            continue;
        slot->killing = false;
        uids[n++] = (struct state_epoch){seen->uid, seen->epoch, true};
    }
    state->kills.n = 0;
    if (n)
        state->ops.kill(uids, n, state->arg);
}

void state_kill_ended(struct state *state)
{
    struct seen *seen;

    for (size_t at = 0; (seen = table_next(&state->table, &at));)
        if (slot_standing(seen->slot) == STANDS_SWEPT)
            slot_want_kill(state, seen->slot);
    flush_kills(state);
}

void state_flush(struct state *state, int64_t now_ms, bool may_sweep)
{
    state->now_ms = now_ms;
    if (state->say_all && state->in_session)
        say_all(state);
    if (state->vets.n_running == 0 && queue_take(state, &state->vets, take_vet))
        state->ops.vet(state->vets.running, state->vets.n_running, state->arg);
    if (!state->persist_failed && state->persists.n_running == 0 &&
        queue_take(state, &state->persists, take_persist))
        state->ops.persist(state->persists.running, state->persists.n_running, state->arg);
    if (may_sweep)
        flush_sweeps(state);
    flush_kills(state);
}

/* ---- questions ---- */

enum state_standing state_standing(const struct state *state, uint32_t uid)
{
    const struct seen *seen = table_find(&state->table, uid);

    return seen ? slot_standing(seen->slot) : STANDS_NOT;
}

bool state_is_retired(const struct state *state, uint32_t uid)
{
    const struct seen *seen = table_find(&state->table, uid);

    return seen && seen->slot && seen->slot->phase == STATE_RETIRED;
}

bool state_was_admitted(const struct state *state, uint32_t uid)
{
    const struct seen *seen = table_find(&state->table, uid);

    return seen && seen->epoch && seen->on_disk && !seen->closed &&
           (!seen->slot || seen->slot->member);
}

bool state_is_in_map(const struct state *state)
{
    const struct seen *seen;

    for (size_t at = 0; (seen = table_next(&state->table, &at));)
        if (seen->slot && seen->slot->phase < STATE_RETIRED && !seen->slot->written)
            return false;
    return true;
}

void state_count(const struct state *state, struct state_counts *ret)
{
    *ret = state->counts;
    ret->sweeps = (state->sweeps.waiting.n || state->sweeps_again.waiting.n) && !state->sweeps_kept;
    ret->vetting = state->vets.n_running || state->vets.waiting.n;
    ret->busy = state->persists.n_running || state->persists.waiting.n || state->vets.n_running ||
                state->vets.waiting.n || state->sweeps.n_running || state->sweeps.waiting.n ||
                state->sweeps_again.n_running || state->sweeps_again.waiting.n;
}

int64_t state_next_due_ms(const struct state *state)
{
    return state->next_due_ms;
}

struct state_epoch *state_epochs(const struct state *state, size_t *ret_n)
{
    struct state_epoch *all = mem_must_calloc(state->table.n + 1, sizeof(*all));
    struct seen *seen;
    size_t n = 0;

    for (size_t at = 0; (seen = table_next(&state->table, &at));)
        if (seen->on_disk)
            all[n++] = epoch_of(seen, seen->closed_on_disk, seen->swept_on_disk);
    *ret_n = n + left_for_rewrite(state, all + n);
    return all;
}

struct state_epoch *state_member_epochs(const struct state *state, size_t *ret_n)
{
    struct state_epoch *all = mem_must_calloc(state->table.n + 1, sizeof(*all));
    struct seen *seen;
    size_t n = 0;

    for (size_t at = 0; (seen = table_next(&state->table, &at));)
        if (seen->epoch && (seen->on_disk || seen->queued || (seen->slot && seen->slot->member)))
            all[n++] = epoch_of(seen, seen->closed, seen->swept);
    *ret_n = n;
    return all;
}

size_t state_n_epochs(const struct state *state)
{
    return state->table.n;
}

uint64_t state_name_digest(const char *name)
{
    uint8_t digest[DIGEST_LEN];
    uint64_t ret;

    if (!*name)
        return 0;
    digest_bytes(name, strlen(name), digest);
    memcpy(&ret, digest, sizeof(ret));
    return ret ? ret : 1;
}

bool state_held(const struct state *state, uint32_t uid, struct state_held *ret)
{
    const struct seen *seen = table_find(&state->table, uid);
    const struct slot *slot = seen ? seen->slot : NULL;

    if (!slot)
        return false;
    *ret = (struct state_held){
        .lease = slot->lease,
        .uid = uid,
        .epoch = slot->epoch,
        .member = slot->member && !slot->released,
        .live = phase_live(slot->phase),
        .owned = slot->owner != STATE_NO_OWNER,
        .owner = slot->owner,
        .owner_name = slot->owner_name,
    };
    return true;
}

uint32_t state_uid_of(const struct state *state, uint64_t lease)
{
    return lease ? lease_index_find(&state->by_lease, &state->table, lease) : 0;
}
