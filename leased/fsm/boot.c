/* One machine has a name, and is in one boot: machines that speak beside it.
 *
 * A boot is over when its machine speaks in another, and what that one proves counts for both. So it must not be that the
 * first one speaks again: then there are two of that machine, what one has proved says nothing of the other, and neither
 * counts as the node until an administrator swears that both are off. A hello may come late, from a machine that was
 * alive when it said it: only one that a replica heard when it knew of the newer boot counts, and not before the third. */
#include <stdlib.h>
#include <string.h>

#include "common/mem.h"
#include "leased/fsm/lease.h"
#include "leased/fsm/node.h"
#include "leased/fsm/pool.h"

#define RETURNS 3

static void set(struct fsm *fsm, const char **at, const char *text)
{
    const char *old = *at;

    *at = intern_text(&fsm->strings, text);
    intern_put(&fsm->strings, old);
}

static bool same(const char *a, const char *b)
{
    return a == b || (a && b && strcmp(a, b) == 0);
}

static bool is_heard(const struct node *node)
{
    return node->health == HEALTH_OK || node->health == HEALTH_UNKNOWN;
}

/* ---- who else speaks ---- */

/* Remember whose hello was refused beside the node; how it is told when it is another than before. */
static void rival_set(struct fsm *fsm, struct node *node, const struct speaker *speaker)
{
    struct fsm_rival *rival = &node->pub.rival;
    bool known = same(rival->node, speaker->name) && same(rival->machine_id, speaker->machine_id) &&
                 same(rival->boot_id, speaker->boot_id);

    rival->heard_wall_ms = fsm->wall_ms;
    if (known)
        return;
    set(fsm, &rival->node, speaker->name);
    set(fsm, &rival->machine_id, speaker->machine_id);
    set(fsm, &rival->boot_id, speaker->boot_id);
    fsm_changed_node(fsm, node, CHANGE_NODE);
}

static void rival_clear(struct fsm *fsm, struct node *node)
{
    set(fsm, &node->pub.rival.node, NULL);
    set(fsm, &node->pub.rival.machine_id, NULL);
    set(fsm, &node->pub.rival.boot_id, NULL);
    node->pub.rival.heard_wall_ms = 0;
}

/* The node of another name that is heard from this very machine, in another boot. A machine-id that nobody else has told costs
 * no search. */
static struct node *elsewhere(struct fsm *fsm, const struct node *node,
                              const struct speaker *speaker)
{
    const char *id = intern_find(&fsm->strings, speaker->machine_id, strlen(speaker->machine_id));

    if (!id || intern_refs(id) <= (node && node->pub.machine_id == id))
        return NULL;
    for (size_t i = 0; i < fsm->n_nodes; i++) {
        struct node *other = fsm->nodes[i];

        if (other != node && other->pub.machine_id == id && is_heard(other) &&
            strcmp(other->pub.boot_id, speaker->boot_id) != 0)
            return other;
    }
    return NULL;
}

/* ---- boots of before ---- */

static struct former *former_find(struct node *node, const char *boot_id)
{
    for (uint32_t i = 0; i < node->n_formers; i++)
        if (strcmp(node->formers[i].boot_id, boot_id) == 0)
            return &node->formers[i];
    return NULL;
}

static void former_drop(struct fsm *fsm, struct node *node, uint32_t i)
{
    intern_put(&fsm->strings, node->formers[i].boot_id);
    free(node->formers[i].uids);
    node->n_formers--;
    memmove(&node->formers[i], &node->formers[i + 1],
            (node->n_formers - i) * sizeof(*node->formers));
}

struct former *former_add(struct fsm *fsm, struct node *node, const char *boot_id)
{
    struct former *former;

    if (node->n_formers == NODE_FORMERS)
        former_drop(fsm, node, 0);
    former = &node->formers[node->n_formers++];
    *former = (struct former){.boot_id = intern_text(&fsm->strings, boot_id),
                              .last_lease = fsm->last_lease};
    return former;
}

void former_add_uid(struct former *former, uint32_t uid)
{
    if (former->n_uids >= FORMER_UIDS)
        return;
    mem_must_grow(&former->uids, &former->cap_uids, former->n_uids + 1, sizeof(*former->uids));
    former->uids[former->n_uids++] = uid;
}

void boots_next(struct fsm *fsm, struct node *node)
{
    if (!former_find(node, node->pub.boot_id))
        (void)former_add(fsm, node, node->pub.boot_id);
}

void boots_forget(struct fsm *fsm, struct node *node)
{
    while (node->n_formers)
        former_drop(fsm, node, 0);
    node->pub.cloned = false;
    rival_clear(fsm, node);
}

void boots_done(struct node *node)
{
    for (uint32_t i = 0; i < node->n_formers; i++)
        free(node->formers[i].uids);
}

void boots_note(struct fsm *fsm, const struct lease *lease)
{
    for (uint32_t i = 0; i < lease->pub.n_members; i++) {
        struct node *node = (struct node *)(uintptr_t)lease->pub.members[i].node;

        for (uint32_t f = 0; f < node->n_formers; f++)
            if (lease->pub.id <= node->formers[f].last_lease)
                former_add_uid(&node->formers[f], lease->pub.uid);
    }
}

void boots_take(struct node *node, const struct oath *oath)
{
    struct former *former = former_find(node, oath->boot_id);

    for (size_t i = 0; former && i < oath->n_uids; i++)
        former_add_uid(former, oath->uids[i]);
}

bool fsm_node_has_left(const struct fsm *fsm, const char *name, const char *boot_id)
{
    struct node *node = node_find(fsm, name, strlen(name));

    return node && former_find(node, boot_id);
}

/* ---- two of one machine ---- */

/* Whatever one of them has proved, the other may have something left. */
static void take_back_proofs(struct fsm *fsm, struct node *node)
{
    struct lease **leases = node_leases_sorted(fsm, node);

    for (uint32_t i = 0, n = node->pub.n_leases; i < n; i++) {
        struct lease *lease = leases[i];
        uint32_t m = lease_member_index(lease, node);

        if (lease->pub.members[m].proof != PROOF_CLEAN &&
            lease->pub.members[m].proof != PROOF_FENCED)
            continue;
        lease_set_proof(fsm, lease, m, PROOF_PENDING, NULL, NULL);
        if (!lease_live(&lease->pub) && lease->pub.state != LEASE_DRAINING)
            lease_back(fsm, lease);
        lease_proved(fsm, lease);
    }
}

/* What became free meanwhile, on the word of the other one. Of what is in no pool any more an oath keeps the number. */
static void block_freed(struct fsm *fsm, const struct node *node, struct former *former)
{
    struct oath *homeless = NULL;
    char detail[FSM_MESSAGE_MAX + 1];

    fsm_format(detail,
               "became free when machine %s had spoken as node %s in another boot; boot %s is "
               "alive",
               node->pub.machine_id, node->pub.name, former->boot_id);
    for (size_t i = 0; i < former->n_uids; i++) {
        struct pool *pool = pool_of_uid(fsm, former->uids[i]);

        if (pool) {
            (void)pool_block(fsm, pool, former->uids[i] - pool->pub.range.first, NULL, "clone",
                             detail);
            continue;
        }
        if (!homeless)
            homeless = oath_add(fsm, node->pub.name, NULL, former->boot_id, NULL, NULL);
        oath_add_uid(fsm, homeless, former->uids[i]);
    }
    former->n_uids = 0;
}

static void cloned(struct fsm *fsm, struct node *node, struct former *former)
{
    char reason[FSM_MESSAGE_MAX + 1];

    node->pub.cloned = true;
    node->pub.session = ++fsm->last_session; /* nobody's: nothing that either of them says counts */
    fsm_format(reason, "cloned: machine %s speaks in boot %s and in boot %s", node->pub.machine_id,
               node->pub.boot_id, former->boot_id);
    node_set(fsm, node, HEALTH_LOST, node->admin);
    node_set_reason(fsm, node, reason, "leased");
    fsm_changed_node(fsm, node, CHANGE_NODE);
    fsm_format(reason, "two machines speak as node %s", node->pub.name);
    node_end_leases(fsm, node, reason);
    take_back_proofs(fsm, node);
    node_requarantine(fsm, node);
    block_freed(fsm, node, former);
}

static void refuse_former(struct fsm *fsm, struct node *node, struct former *former,
                          const struct speaker *speaker, struct fsm_outcome *outcome)
{
    oath_hello(fsm, NULL, speaker->machine_id, speaker->boot_id);
    if (speaker->returned) {
        rival_set(fsm, node, speaker);
        former->n_returns++;
    }
    if (former->n_returns >= RETURNS && !node->pub.cloned)
        cloned(fsm, node, former);
    fsm_fail(outcome, FSM_PRECONDITION,
             "machine %s has spoken as node %s in boot %s since, so boot %s is over, or there are "
             "two of this machine: give the copy a machine-id, a name and a certificate of its own",
             speaker->machine_id, node->pub.name, node->pub.boot_id, speaker->boot_id);
}

/* ---- who may speak ---- */

bool boots_admit(struct fsm *fsm, struct node *node, const struct speaker *speaker,
                 struct fsm_outcome *outcome)
{
    bool same_machine = node && same(node->pub.machine_id, speaker->machine_id);
    struct former *former = same_machine ? former_find(node, speaker->boot_id) : NULL;
    struct node *other;

    if (former) {
        refuse_former(fsm, node, former, speaker, outcome);
        return false;
    }
    if (node && node->pub.cloned) {
        fsm_fail(outcome, FSM_PRECONDITION,
                 "there are two machines %s that speak as node %s: switch off both, then leasectl "
                 "node fence %s",
                 node->pub.machine_id, node->pub.name, node->pub.name);
        return false;
    }
    if (same_machine && same(node->pub.boot_id, speaker->boot_id))
        return true;
    other = elsewhere(fsm, node, speaker);
    if (other) {
        rival_set(fsm, other, speaker);
        fsm_fail(outcome, FSM_PRECONDITION,
                 "machine %s is node %s (%s), in another boot: it can be node %s when that one is "
                 "not heard any more",
                 speaker->machine_id, other->pub.name, node_state_text(other->pub.state),
                 speaker->name);
        return false;
    }
    if (same_machine || !node || node->health == HEALTH_FENCED)
        return true;
    /* Refused, but heard: if somebody swore that this boot is off, that was not so. */
    oath_hello(fsm, NULL, speaker->machine_id, speaker->boot_id);
    rival_set(fsm, node, speaker);
    fsm_fail(outcome, FSM_PRECONDITION,
             "node %s is machine %s (%s): machine %s can take the name when that one is fenced",
             node->pub.name, node->pub.machine_id, node_state_text(node->pub.state),
             speaker->machine_id);
    return false;
}

void boots_fenced(struct fsm *fsm, struct node *node, const char *reason, const char *actor)
{
    for (uint32_t f = 0; f < node->n_formers; f++) {
        if (node->pub.cloned && node->formers[f].n_returns)
            oath_swear(fsm, node, node->formers[f].boot_id, reason, actor);
        node->formers[f].n_returns = 0;
    }
    node->pub.cloned = false;
    rival_clear(fsm, node);
}
