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

/* ---- renew ---- */

struct added {
    struct node **nodes;
    uint32_t n;
};

/* Those that are no members yet. Who was let go has closed this epoch for good. Marked in the nodes, as for acquire. */
static bool choose_added(struct fsm *fsm, const Xce__V1__CmdRenew *renew, const struct lease *lease,
                         struct added *ret, struct fsm_outcome *outcome)
{
    uint64_t here = ++fsm->mark, gone = ++fsm->mark;
    char why[FSM_MESSAGE_MAX + 1];

    ret->nodes = apply_alloc(fsm, renew->n_nodes * sizeof(struct node *));
    for (uint32_t i = 0; i < lease->pub.n_members; i++)
        ((struct node *)lease->pub.members[i].node)->mark = lease->pub.members[i].released ? gone
                                                                                           : here;
    for (size_t i = 0; i < renew->n_nodes; i++) {
        struct node *node = apply_node(fsm, renew->nodes[i], outcome);

        if (!node)
            return false;
        if (node->mark == here)
            continue;
        if (node->mark == gone) {
            fsm_fail(outcome, FSM_PRECONDITION,
                     "node %s was let go of lease %" PRIu64
                     ": it has closed this epoch for good, only a new lease can have it",
                     node->pub.name, lease->pub.id);
            return false;
        }
        if (node_not_ready(node, why)) {
            fsm_fail(outcome, FSM_PRECONDITION, "%s", why);
            return false;
        }
        node->mark = here;
        ret->nodes[ret->n++] = node;
    }
    return true;
}

static bool check_room(const struct fsm *fsm, const struct lease *lease, const struct added *added,
                       struct fsm_outcome *outcome)
{
    if (lease->pub.n_members + (uint64_t)added->n > FSM_MEMBERS_MAX) {
        fsm_fail(outcome, FSM_INVALID, "nodes: more than %d members in one lease", FSM_MEMBERS_MAX);
        return false;
    }
    if (fsm->n_members + added->n > FSM_ALL_MEMBERS) {
        fsm_fail(outcome, FSM_EXHAUSTED,
                 "all leases together have %" PRIu64
                 " members, at most %d: wait until some are free",
                 fsm->n_members, FSM_ALL_MEMBERS);
        return false;
    }
    return true;
}

/* Never sooner than before: a late copy of an older renewal must not take time away. 0 = never expires. */
static bool prolong(struct fsm *fsm, struct lease *lease, int64_t ttl_ms)
{
    int64_t expires_ms = fsm->now_ms + ttl_ms;

    if (!lease->pub.expires_ms || !ttl_ms || expires_ms <= lease->pub.expires_ms)
        return false;
    lease->pub.expires_ms = expires_ms;
    lease_set_timer(fsm, lease);
    return true;
}

void apply_renew(struct fsm *fsm, const Xce__V1__Command *command, struct fsm_outcome *outcome)
{
    const Xce__V1__CmdRenew *renew = command->renew;
    struct lease *lease = held(fsm, renew->lease, renew->epoch, outcome);
    struct added added = {0};

    if (!lease || (renew->ttl_ms && !apply_ttl(&lease->pool->pub, renew->ttl_ms, outcome)))
        return;
    if (!lease_live(&lease->pub)) {
        fsm_fail(outcome, FSM_STALE, "lease %" PRIu64 " is %s: it can not be renewed any more",
                 lease->pub.id, state_text(lease->pub.state));
        return;
    }
    if (renew->n_nodes && (!choose_added(fsm, renew, lease, &added, outcome) ||
                           !check_room(fsm, lease, &added, outcome)))
        return;
    if (added.n)
        lease_join(fsm, lease, added.nodes, added.n);
    if (prolong(fsm, lease, renew->ttl_ms ? renew->ttl_ms : lease->pub.ttl_ms) || added.n)
        fsm_changed_lease(fsm, lease, !added.n);
}

/* ---- release, revoke ---- */

/* Let go of one member. */
static void release_member(struct fsm *fsm, struct lease *lease, ProtobufCBinaryData name,
                           struct fsm_outcome *outcome)
{
    struct node *node = apply_node(fsm, name, outcome);
    uint32_t i;

    if (!node)
        return;
    i = lease_member_index(lease, node);
    if (i == NO_SLOT)
        fsm_fail(outcome, FSM_NOT_FOUND, "node %s is no member of lease %" PRIu64, node->pub.name,
                 lease->pub.id);
    else if (lease_live(&lease->pub) && !lease->pub.members[i].released)
        lease_let_go(fsm, lease, i, END_RELEASE, NULL);
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
