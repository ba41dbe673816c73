/* The life of one lease on this node. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "common/mem.h"
#include "noded/reason.h"
#include "noded/state_inside.h"
#include "xce/map.h"

enum state_standing slot_standing(const struct slot *slot)
{
    if (!slot || slot->phase >= STATE_RETIRED)
        return STANDS_NOT;
    if (slot->member && slot->admitted && !slot->closed && phase_live(slot->phase))
        return STANDS_HERE;
    if (slot->member && slot->closed && slot->proof != PROOF_CLEAN)
        return STANDS_SWEPT;
    return STANDS_NAMED;
}

void slot_count(struct state *state, const struct slot *slot, int sign)
{
    struct state_counts *c = &state->counts;
    size_t one = (size_t)sign;

    if (slot->phase == STATE_RETIRED) {
        c->retired += one;
        return;
    }
    c->leases += one;
    switch (slot_standing(slot)) {
    case STANDS_HERE:
        c->here += one;
        break;
    case STANDS_SWEPT:
        c->ended += one;
        break;
    default:
        c->named += one;
    }
}

void state_due(struct state *state, int64_t at_ms)
{
    if (at_ms < state->next_due_ms)
        state->next_due_ms = at_ms;
}

void state_want_persist(struct state *state, struct seen *seen)
{
    if (seen->queued)
        return;
    seen->queued = true;
    uids_add(&state->persists.waiting, seen->uid);
}

void seen_swept(struct state *state, struct seen *seen, bool swept)
{
    if (seen->swept == swept)
        return;
    seen->swept = swept;
    state_want_persist(state, seen);
}

void slot_detail(struct slot *slot, const char *detail)
{
    free(slot->detail);
    slot->detail = detail && *detail ? mem_must_strdup(detail) : NULL;
}

void slot_want_sweep(struct state *state, struct slot *slot)
{
    if (slot->sweep == STEP_RUNNING) {
        slot->sweep_again = true;
    } else if (slot->sweep != STEP_QUEUED) {
        slot->sweep = STEP_QUEUED;
        state->sweeps_kept = false;
        uids_add(slot->was_dirty ? &state->sweeps_again.waiting : &state->sweeps.waiting,
                 slot->uid);
    }
}

void slot_want_kill(struct state *state, struct slot *slot)
{
    if (slot->killing)
        return;
    slot->killing = true;
    uids_add(&state->kills, slot->uid);
}

void slot_close(struct state *state, struct seen *seen)
{
    struct slot *slot = seen->slot;

    if (slot->closed)
        return;
    slot->closed = true;
    seen->closed = true;
    if (slot->written)
        state->ops.map_mark(slot->uid, slot->epoch, XCE_MAP_CLOSED, 0, state->arg);
    waiting_free(slot->waiting);
    slot->waiting = NULL;
    /* What is left of an earlier lease is this one's now: it is not clean before that is gone. */
    (void)left_drop(state, seen);
    state_want_persist(state, seen);
    slot_want_sweep(state, slot);
    /* Whether it was let in or not: by one before us it may have been, and where nothing is there is nothing to kill. */
    slot_want_kill(state, slot);
}

void slot_refuse(struct state *state, struct seen *seen, unsigned reason, const char *detail)
{
    struct slot *slot = seen->slot;

    slot_count(state, slot, -1);
    slot->refused = (uint8_t)reason;
    slot_detail(slot, detail);
    slot_close(state, seen);
    slot_count(state, slot, 1);
    slot_say(state, seen);
}

static unsigned map_reason(int r)
{
    return r == -ENOSPC ? REASON_NO_SPACE : REASON_MAP;
}

void slot_admit(struct state *state, struct seen *seen)
{
    struct slot *slot = seen->slot;
    struct state_lease lease = {
        .lease = slot->lease,
        .revision = slot->revision,
        .uid = slot->uid,
        .epoch = slot->epoch,
        .phase = slot->phase,
        .gecos = slot->waiting->text,
        .home = slot->waiting->text + slot->waiting->home,
        .shell = slot->waiting->text + slot->waiting->shell,
        .gids = slot->waiting->gids,
        .n_gids = slot->waiting->n_gids,
    };
    int r = state->ops.map_set(&lease, XCE_MAP_MEMBER, state->arg);

    if (r < 0) {
        slot_refuse(state, seen, map_reason(r), "the map can not hold it");
        return;
    }
    slot_count(state, slot, -1);
    slot->written = slot->admitted = true;
    waiting_free(slot->waiting);
    slot->waiting = NULL;
    slot_count(state, slot, 1);
    slot_say(state, seen);
}

/* What there is to say of it: READY when all that it promises is so; of an ended one what the sweep found, once it is
 * certain that nobody is let in again. */
static enum state_say slot_truth(const struct state *state, const struct seen *seen,
                                 unsigned *ret_reason, const char **ret_detail)
{
    const struct slot *slot = seen->slot;

    *ret_reason = 0;
    *ret_detail = slot->detail;
    if (!slot->member || slot->phase >= STATE_RETIRED)
        return SAY_NOTHING;
    if (!slot->closed)
        return slot->admitted && seen->on_disk ? SAY_READY : SAY_NOTHING;
    if (phase_live(slot->phase) && !slot->released) {
        *ret_reason = slot->refused ? slot->refused : REASON_CLOSED;
        return SAY_REFUSED;
    }
    if (slot->sweep == STEP_DONE && seen->closed_on_disk && slot->proof != PROOF_CLEAN)
        return SAY_CLEAN;
    if (slot->sweep == STEP_DONE && !seen->closed_on_disk && state->persist_reason) {
        *ret_reason = state->persist_reason;
        *ret_detail = "its end can not be written to disk";
        return SAY_DIRTY;
    }
    if (slot->was_dirty && slot->sweep != STEP_DONE) {
        *ret_reason = slot->reason;
        return SAY_DIRTY;
    }
    return SAY_NOTHING;
}

void slot_say(struct state *state, struct seen *seen)
{
    struct slot *slot = seen->slot;
    unsigned reason;
    const char *detail;
    enum state_say truth = slot_truth(state, seen, &reason, &detail);
    struct state_verdict about = {slot->uid, slot->epoch, reason, reason ? detail : NULL};

    if (!state->in_session || truth == SAY_NOTHING ||
        (truth == slot->said && reason == slot->said_reason))
        return;
    state->ops.say(truth, &about, state->arg);
    slot->said = truth;
    slot->said_reason = (uint8_t)reason;
    slot->said_ms = state->now_ms;
    if (truth == SAY_READY || truth == SAY_CLEAN)
        state->ops.map_mark(slot->uid, slot->epoch,
                            truth == SAY_READY ? XCE_MAP_SAID_READY : XCE_MAP_SAID_CLEAN, 0,
                            state->arg);
    if (!slot->unseen) {
        slot->unseen = true;
        uids_add(&state->unseen, slot->uid);
        state_due(state, state->now_ms + state->limits.resay_ms);
    }
}

void slot_drop(struct state *state, struct seen *seen)
{
    struct slot *slot = seen->slot;

    if (!slot)
        return;
    slot_count(state, slot, -1);
    state->counts.dirty -= slot->was_dirty;
    waiting_free(slot->waiting);
    free(slot->detail);
    free(slot);
    seen->slot = NULL;
}
