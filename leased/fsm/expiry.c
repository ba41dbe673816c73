/* What time does to leases. Only here, only by a command, and only what is due when the command is applied. */
#include "leased/fsm/apply.h"
#include "leased/fsm/lease.h"
#include "leased/fsm/node.h"
#include "leased/fsm/pool.h"

#define MOVES_DEFAULT 1024
#define MOVES_MAX     65536
#define GRACE_MAX_MS  3600000

/* The earliest of all clocks; NULL = none runs. */
static const struct timer *first_of_all(const struct fsm *fsm)
{
    const struct timer *first = timers_first(&fsm->timers);

    for (size_t i = 0; i < fsm->n_pools; i++) {
        const struct timer *cooling = timers_first(&fsm->pools[i]->cooling);

        if (cooling &&
            (!first || cooling->at_ms < first->at_ms ||
             (cooling->at_ms == first->at_ms && cooling->lease->pub.id < first->lease->pub.id)))
            first = cooling;
    }
    return first;
}

int64_t fsm_next_due_ms(const struct fsm *fsm)
{
    const struct timer *first = first_of_all(fsm);

    if (fsm->frees_left)
        return fsm->now_ms;
    return first ? first->at_ms : INT64_MAX;
}

static void come_due(struct fsm *fsm, struct lease *lease)
{
    switch (lease->pub.state) {
    case LEASE_GRANTED:
    case LEASE_ACTIVE:
        if (lease->pub.expires_ms && lease->pub.expires_ms <= fsm->now_ms)
            lease_end(fsm, lease, END_EXPIRED, NULL);
        else
            lease_late(fsm, lease);
        break;
    case LEASE_COOLING:
        lease_retire(fsm, lease);
        break;
    case LEASE_DRAINING:
    case LEASE_RETIRED:
        lease->sticky |= QUARANTINE_OVERDUE;
        lease_set_timer(fsm, lease);
        (void)lease_requarantine(fsm, lease);
        fsm_changed_lease(fsm, lease, false);
        break;
    case LEASE_NORMALISING:
    case LEASE_FREE:
        break;
    }
}

void apply_tick(struct fsm *fsm, const Xce__V1__Command *command, struct fsm_outcome *outcome)
{
    uint32_t left = command->tick->at_most;
    const struct timer *first;

    (void)outcome;
    if (!left || left > MOVES_MAX)
        left = left ? MOVES_MAX : MOVES_DEFAULT;
    for (; left; left--) {
        first = first_of_all(fsm);
        if (!first || first->at_ms > fsm->now_ms)
            break;
        come_due(fsm, first->lease);
    }
    if (left)
        (void)witness_free(fsm, left);
    else if (fsm->retired_first)
        fsm->frees_left = true;
}

void apply_grace(struct fsm *fsm, const Xce__V1__Command *command, struct fsm_outcome *outcome)
{
    int64_t grace_ms = command->grace->grace_ms;
    int64_t least_ms = fsm->now_ms + grace_ms;

    if (grace_ms < 0 || grace_ms > GRACE_MAX_MS) {
        fsm_fail(outcome, FSM_INVALID, "grace of %lld ms: must be 0 to %d", (long long)grace_ms,
                 GRACE_MAX_MS);
        return;
    }
    for (size_t i = 0; i < fsm->n_by_id; i++) {
        struct lease *lease = fsm->by_id[i].lease;
        bool moved = false;

        if (!lease || !lease_live(&lease->pub))
            continue;
        if (lease->pub.expires_ms && lease->pub.expires_ms < least_ms) {
            lease->pub.expires_ms = least_ms;
            moved = true;
        }
        if (lease->pub.due_ms && lease->pub.due_ms < least_ms) {
            lease->pub.due_ms = least_ms;
            moved = true;
        }
        if (!moved)
            continue;
        lease_set_timer(fsm, lease);
        fsm_changed_lease(fsm, lease, true);
    }
}
