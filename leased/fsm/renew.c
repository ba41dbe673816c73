/* What its holder or an administrator does to one lease, named by id and epoch. Each may come twice. */
#include <inttypes.h>

#include "leased/fsm/apply.h"
#include "leased/fsm/lease.h"
#include "leased/fsm/node.h"
#include "leased/fsm/pool.h"

static const char *state_text(enum lease_state state)
{
    static const char *const texts[] = {
        [LEASE_GRANTED] = "granted",   [LEASE_ACTIVE] = "active",
        [LEASE_DRAINING] = "draining", [LEASE_NORMALISING] = "normalising",
        [LEASE_COOLING] = "cooling",   [LEASE_RETIRED] = "retired",
        [LEASE_FREE] = "free",
    };

    return texts[state];
}

/* The lease of that id and epoch, not yet free. */
static struct lease *held(struct fsm *fsm, uint64_t id, uint32_t epoch, struct fsm_outcome *outcome)
{
    struct lease *lease = lease_find(fsm, id);

    if (!lease) {
        if (id && id <= fsm->last_lease)
            fsm_fail(outcome, FSM_NOT_FOUND, "lease %" PRIu64 " is over and its uid free", id);
        else
            fsm_fail(outcome, FSM_NOT_FOUND, "lease %" PRIu64 " does not exist", id);
        return NULL;
    }
    if (lease->pub.epoch != epoch) {
        fsm_fail(outcome, FSM_STALE, "lease %" PRIu64 " has epoch %" PRIu32 ", not %" PRIu32, id,
                 lease->pub.epoch, epoch);
        return NULL;
    }
    fsm_answer(fsm, outcome, id);
    return lease;
}

void apply_renew(struct fsm *fsm, const Xce__V1__Command *command, struct fsm_outcome *outcome)
{
    const Xce__V1__CmdRenew *renew = command->renew;
    struct lease *lease = held(fsm, renew->lease, renew->epoch, outcome);
    const struct fsm_settings *settings;
    int64_t ttl_ms, expires_ms;

    if (!lease)
        return;
    settings = &lease->pool->pub.settings;
    if (renew->ttl_ms &&
        (renew->ttl_ms < settings->ttl_min_ms || renew->ttl_ms > settings->ttl_max_ms)) {
        fsm_fail(outcome, FSM_INVALID,
                 "ttl of %" PRId64 " ms: pool %s allows %" PRId64 " to %" PRId64, renew->ttl_ms,
                 lease->pub.pool, settings->ttl_min_ms, settings->ttl_max_ms);
        return;
    }
    if (!lease_live(&lease->pub)) {
        fsm_fail(outcome, FSM_STALE, "lease %" PRIu64 " is %s: it can not be renewed any more",
                 lease->pub.id, state_text(lease->pub.state));
        return;
    }
    ttl_ms = renew->ttl_ms ? renew->ttl_ms : lease->pub.ttl_ms;
    expires_ms = fsm->now_ms + ttl_ms;
    /* Never sooner than before: a late copy of an older renewal must not take time away. 0 = never expires. */
    if (!lease->pub.expires_ms || !ttl_ms || expires_ms <= lease->pub.expires_ms)
        return;
    lease->pub.expires_ms = expires_ms;
    lease_set_timer(fsm, lease);
    fsm_changed_lease(fsm, lease, true);
}

/* Let go of one member. The last one takes the lease with it. */
static void release_member(struct fsm *fsm, struct lease *lease, ProtobufCBinaryData name,
                           struct fsm_outcome *outcome)
{
    struct node *node = apply_node(fsm, name, outcome);
    uint32_t i, left = 0;

    if (!node)
        return;
    i = lease_member_index(lease, node);
    if (i == NO_SLOT) {
        fsm_fail(outcome, FSM_NOT_FOUND, "node %s is no member of lease %" PRIu64, node->pub.name,
                 lease->pub.id);
        return;
    }
    if (!lease_live(&lease->pub) || lease->pub.members[i].released)
        return;
    for (uint32_t m = 0; m < lease->pub.n_members; m++)
        left += !lease->pub.members[m].released;
    if (left == 1) {
        lease_end(fsm, lease, END_RELEASE, NULL);
        return;
    }
    lease_member(lease, i)->released = true;
    lease_count_owed(lease);
    if (lease->pub.members[i].proof == PROOF_READY)
        lease_set_proof(fsm, lease, i, PROOF_PENDING, NULL, NULL);
    lease_proved(fsm, lease);
}

void apply_release(struct fsm *fsm, const Xce__V1__Command *command, struct fsm_outcome *outcome)
{
    const Xce__V1__CmdRelease *release = command->release;
    struct lease *lease = held(fsm, release->lease, release->epoch, outcome);

    if (!lease)
        return;
    if (release->node.len)
        release_member(fsm, lease, release->node, outcome);
    else if (lease_live(&lease->pub))
        lease_end(fsm, lease, END_RELEASE, NULL);
}

void apply_revoke(struct fsm *fsm, const Xce__V1__Command *command, struct fsm_outcome *outcome)
{
    const Xce__V1__CmdRevoke *revoke = command->revoke;
    struct lease *lease = held(fsm, revoke->lease, revoke->epoch, outcome);
    const char *reason, *actor;
    char detail[FSM_MESSAGE_MAX + 1];

    if (!lease || !lease_live(&lease->pub))
        return;
    reason = apply_note(fsm, revoke->reason);
    actor = apply_actor(fsm, command);
    fsm_format(detail, "revoked by %s%s%s", actor ? actor : "leased", reason ? ": " : "",
               reason ? reason : "");
    lease_end(fsm, lease, END_REVOKED, detail);
}
