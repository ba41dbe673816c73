/* Who must have dropped the record of a retired lease before its uid is free: members, and the nodes that could have
 * resolved its name all the while. A fence that is recorded as the member's proof stands for its watermark too. */
#include "leased/fsm/incarnation.h"
#include "leased/fsm/lease.h"
#include "leased/fsm/node.h"

static bool connected(const struct node *node)
{
    return node->health == HEALTH_OK || node->health == HEALTH_UNKNOWN;
}

void witness_changed(struct fsm *fsm)
{
    fsm->floors_known = false;
}

static void work_out_floors(struct fsm *fsm)
{
    fsm->floor_connected = fsm->floor_all = UINT64_MAX;
    for (size_t i = 0; i < fsm->n_nodes; i++) {
        const struct node *node = fsm->nodes[i];

        if (node->health == HEALTH_FENCED)
            continue;
        if (node->pub.watermark < fsm->floor_all)
            fsm->floor_all = node->pub.watermark;
        if (connected(node) && node->pub.watermark < fsm->floor_connected)
            fsm->floor_connected = node->pub.watermark;
    }
    fsm->floors_known = true;
}

static bool may_free(const struct fsm *fsm, const struct lease *lease)
{
    uint64_t revision = lease->pub.retired_revision;

    if (revision >
        (lease->pool->pub.settings.witnesses_all ? fsm->floor_all : fsm->floor_connected))
        return false;
    for (uint32_t i = 0; i < lease->pub.n_members; i++)
        if (lease->pub.members[i].proof != PROOF_FENCED &&
            lease->pub.members[i].node->watermark < revision)
            return false;
    return true;
}

uint32_t witness_free(struct fsm *fsm, uint32_t at_most)
{
    struct lease *lease = fsm->retired_first, *next;
    uint32_t freed = 0;

    fsm->frees_left = false;
    if (incarnation_waits(fsm))
        return 0;
    if (!fsm->floors_known)
        work_out_floors(fsm);
    for (; lease && lease->pub.retired_revision <= fsm->floor_connected; lease = next) {
        next = lease->retired_after;
        if (!may_free(fsm, lease))
            continue;
        if (freed == at_most) {
            fsm->frees_left = true;
            break;
        }
        lease_free(fsm, lease);
        freed++;
    }
    return freed;
}

bool fsm_lease_waits_for(const struct fsm *fsm, const struct fsm_lease *pub,
                         const struct fsm_node *pub_node)
{
    const struct lease *lease = (const struct lease *)pub;
    const struct node *node = (const struct node *)pub_node;
    uint32_t i;
    bool witness;

    (void)fsm;
    if (pub->state != LEASE_RETIRED || pub_node->watermark >= pub->retired_revision)
        return false;
    i = lease_member_index(lease, node);
    witness = i != NO_SLOT && pub->members[i].proof != PROOF_FENCED;
    witness |= connected(node);
    witness |= lease->pool->pub.settings.witnesses_all && node->health == HEALTH_LOST;
    return witness;
}
