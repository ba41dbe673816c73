/* What administrators do to nodes. */
#include <string.h>

#include "leased/fsm/apply.h"
#include "leased/fsm/lease.h"
#include "leased/fsm/node.h"

#define FREES_AT_ONCE 1024

struct verb {
    const char *reason, *actor;
};

static bool not_fenced(const struct node *node, struct fsm_outcome *outcome)
{
    if (node->health != HEALTH_FENCED)
        return true;
    fsm_fail(outcome, FSM_PRECONDITION,
             "node %s is fenced: it comes back when its machine says hello in another boot, or is "
             "forgotten",
             node->pub.name);
    return false;
}

/* Drain or cordon. */
static void hold(struct fsm *fsm, struct node *node, enum node_admin admin, const struct verb *verb,
                 struct fsm_outcome *outcome)
{
    if (!not_fenced(node, outcome))
        return;
    node_set(fsm, node, node->health, admin);
    node_set_reason(fsm, node, verb->reason, verb->actor);
    fsm_changed_node(fsm, node, CHANGE_NODE);
    node->verb_revision = node->pub.revision;
}

static void undrain(struct fsm *fsm, struct node *node, const struct verb *verb,
                    struct fsm_outcome *outcome)
{
    if (!not_fenced(node, outcome) || node->admin == ADMIN_NONE)
        return;
    node_set(fsm, node, node->health, ADMIN_NONE);
    node_set_reason(fsm, node, verb->reason, verb->actor);
    node->n_blocked = 0;
    fsm_changed_node(fsm, node, CHANGE_NODE);
}

/* ---- fence ---- */

static bool may_fence(const Xce__V1__CmdNodeVerb *cmd, const struct node *node,
                      const struct verb *verb, struct fsm_outcome *outcome)
{
    const struct fsm_node *pub = &node->pub;

    if (strlen(pub->machine_id) != cmd->machine_id.len ||
        memcmp(pub->machine_id, cmd->machine_id.data, cmd->machine_id.len) != 0) {
        fsm_fail(outcome, FSM_PRECONDITION, "node %s: its machine-id is %s, not the one given",
                 pub->name, pub->machine_id);
        return false;
    }
    if (strlen(pub->boot_id) != cmd->boot_id.len ||
        memcmp(pub->boot_id, cmd->boot_id.data, cmd->boot_id.len) != 0) {
        fsm_fail(outcome, FSM_PRECONDITION, "node %s: its boot-id is %s, not the one given",
                 pub->name, pub->boot_id);
        return false;
    }
    if (node->health != HEALTH_LOST && node->health != HEALTH_FENCED) {
        fsm_fail(outcome, FSM_PRECONDITION, "node %s is %s: only one that is lost can be fenced",
                 pub->name, node_state_text(pub->state));
        return false;
    }
    if (!verb->reason) {
        fsm_fail(outcome, FSM_INVALID, "reason: say why node %s is known to be off", pub->name);
        return false;
    }
    return true;
}

/* The fence stands for the node's proof, and for its watermark. */
static void prove_by_fence(struct fsm *fsm, struct lease *lease, struct node *node)
{
    uint32_t m = lease_member_index(lease, node);
    bool past = lease->pub.state == LEASE_RETIRED &&
                node->pub.watermark >= lease->pub.retired_revision;

    if (lease->pub.members[m].proof == PROOF_FENCED ||
        (lease->pub.members[m].proof == PROOF_CLEAN && past))
        return;
    lease_set_proof(fsm, lease, m, PROOF_FENCED, NULL, NULL);
    lease_proved(fsm, lease);
}

static void fence(struct fsm *fsm, const Xce__V1__CmdNodeVerb *cmd, struct node *node,
                  const struct verb *verb, struct fsm_outcome *outcome)
{
    struct lease **leases;

    if (!may_fence(cmd, node, verb, outcome) || node->health == HEALTH_FENCED)
        return;
    node_set(fsm, node, HEALTH_FENCED, node->admin);
    node_set_reason(fsm, node, verb->reason, verb->actor);
    node->pub.session = 0;
    oath_swear(fsm, node, node->pub.boot_id, verb->reason, verb->actor);
    boots_fenced(fsm, node, verb->reason, verb->actor);
    fsm_changed_node(fsm, node, CHANGE_NODE);
    leases = node_leases_sorted(fsm, node);
    for (uint32_t i = 0, n = node->pub.n_leases; i < n; i++)
        prove_by_fence(fsm, leases[i], node);
    (void)witness_free(fsm, FREES_AT_ONCE);
}

/* ---- forget ---- */

static bool may_forget(const struct fsm *fsm, const struct node *node, struct fsm_outcome *outcome)
{
    const struct fsm_node *pub = &node->pub;
    uint64_t past = node->verb_revision;

    if (node->health != HEALTH_FENCED &&
        (node->health != HEALTH_OK || node->admin != ADMIN_DRAINING)) {
        fsm_fail(outcome, FSM_PRECONDITION,
                 "node %s is %s: only one that is fenced, or drained and heard, can be forgotten",
                 pub->name, node_state_text(pub->state));
        return false;
    }
    if (pub->n_leases) {
        fsm_fail(outcome, FSM_PRECONDITION, "node %s is a member of %u leases that are not free",
                 pub->name, pub->n_leases);
        return false;
    }
    if (fsm->retired_last && fsm->retired_last->pub.retired_revision > past)
        past = fsm->retired_last->pub.retired_revision;
    if (node->health == HEALTH_FENCED || pub->watermark >= past)
        return true;
    fsm_fail(outcome, FSM_PRECONDITION,
             "node %s has not yet been looked through since it is drained: its watermark is %llu, "
             "must be %llu",
             pub->name, (unsigned long long)pub->watermark, (unsigned long long)past);
    return false;
}

static void forget(struct fsm *fsm, struct node *node, const struct verb *verb,
                   struct fsm_outcome *outcome)
{
    if (!may_forget(fsm, node, outcome))
        return;
    node_set_reason(fsm, node, verb->reason, verb->actor);
    fsm_changed_node(fsm, node, CHANGE_NODE_GONE);
    node_table_drop(fsm, node);
    (void)witness_free(fsm, FREES_AT_ONCE);
}

void apply_node_verb(struct fsm *fsm, const Xce__V1__Command *command, struct fsm_outcome *outcome)
{
    const Xce__V1__CmdNodeVerb *cmd = command->node_verb;
    struct verb verb = {apply_note(fsm, cmd->reason), apply_actor(fsm, command)};
    struct node *node = apply_node(fsm, cmd->node, outcome);

    if (!node)
        return;
    switch (cmd->verb) {
    case XCE__V1__NODE_VERB__NODE_VERB_DRAIN:
        hold(fsm, node, ADMIN_DRAINING, &verb, outcome);
        break;
    case XCE__V1__NODE_VERB__NODE_VERB_CORDON:
        hold(fsm, node, ADMIN_CORDONED, &verb, outcome);
        break;
    case XCE__V1__NODE_VERB__NODE_VERB_UNDRAIN:
        undrain(fsm, node, &verb, outcome);
        break;
    case XCE__V1__NODE_VERB__NODE_VERB_FENCE:
        fence(fsm, cmd, node, &verb, outcome);
        break;
    case XCE__V1__NODE_VERB__NODE_VERB_FORGET:
        forget(fsm, node, &verb, outcome);
        break;
    default:
        fsm_fail(outcome, FSM_UNSUPPORTED, "verb %d is not known to this version", (int)cmd->verb);
        break;
    }
}
