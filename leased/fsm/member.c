/* Members that come to a lease while it lives, and that go. An active lease does not end by who was only to join it. */
#include <assert.h>

#include "leased/fsm/lease.h"
#include "leased/fsm/node.h"
#include "leased/fsm/pool.h"

void lease_join(struct fsm *fsm, struct lease *lease, struct node *const *nodes, uint32_t n)
{
    assert(lease_live(&lease->pub));
    lease_reserve_members(lease, lease->pub.n_members + n);
    for (uint32_t i = 0; i < n; i++)
        (void)lease_add_member(fsm, lease, nodes[i]);
    lease->pub.due_ms = fsm->now_ms + lease->pool->pub.settings.ready_timeout_ms;
    lease_set_timer(fsm, lease);
}

static uint32_t n_left(const struct lease *lease)
{
    uint32_t n = 0;

    for (uint32_t i = 0; i < lease->pub.n_members; i++)
        n += !lease->pub.members[i].released;
    return n;
}

void lease_let_go(struct fsm *fsm, struct lease *lease, uint32_t i, enum end_cause cause,
                  const char *detail)
{
    struct fsm_member *member = lease_member(lease, i);

    assert(lease_live(&lease->pub) && !member->released);
    if (n_left(lease) == 1) {
        lease_end(fsm, lease, cause, detail);
        return;
    }
    member->released = true;
    lease_count_owed(lease);
    if (member->proof == PROOF_READY)
        lease_set_proof(fsm, lease, i, PROOF_PENDING, NULL, NULL);
    lease_proved(fsm, lease);
}

/* "node n1 was not ready in time", or how many were not. */
static void end_late(struct fsm *fsm, struct lease *lease)
{
    char detail[FSM_MESSAGE_MAX + 1];
    const char *name = NULL;

    assert(lease->n_owed);
    for (uint32_t i = 0; i < lease->pub.n_members && !name; i++)
        if (lease_owes(lease, &lease->pub.members[i]))
            name = lease->pub.members[i].node->name;
    if (lease->n_owed == 1)
        fsm_format(detail, "node %s was not ready in time", name);
    else
        fsm_format(detail, "node %s and %u more were not ready in time", name, lease->n_owed - 1);
    lease_end(fsm, lease, END_READY_TIMEOUT, detail);
}

void lease_late(struct fsm *fsm, struct lease *lease)
{
    if (lease->pub.state == LEASE_GRANTED || lease->n_owed == n_left(lease)) {
        end_late(fsm, lease);
        return;
    }
    for (uint32_t i = 0; i < lease->pub.n_members; i++)
        if (lease_owes(lease, &lease->pub.members[i]))
            lease_member(lease, i)->released = true;
    lease_count_owed(lease);
    lease_proved(fsm, lease);
}
