#include "leased/fsm/node.h"

#include <stdio.h>
#include <string.h>

#include "leased/fsm/lease.h"
#include "leased/fsm/pool.h"

#define BLOCK_WINDOW_MS 3600000

const char *node_state_text(enum node_state state)
{
    static const char *const texts[] = {
        [NODE_READY] = "ready", [NODE_DRAINING] = "draining", [NODE_CORDONED] = "cordoned",
        [NODE_LOST] = "lost",   [NODE_UNKNOWN] = "unknown",   [NODE_FENCED] = "fenced",
    };

    return texts[state];
}

/* Lost and fenced come before what an administrator wishes, that before whether it may be trusted again. */
static enum node_state look(enum node_health health, enum node_admin admin)
{
    if (health == HEALTH_FENCED)
        return NODE_FENCED;
    if (health == HEALTH_LOST)
        return NODE_LOST;
    if (admin != ADMIN_NONE)
        return admin == ADMIN_DRAINING ? NODE_DRAINING : NODE_CORDONED;
    return health == HEALTH_OK ? NODE_READY : NODE_UNKNOWN;
}

void node_set(struct fsm *fsm, struct node *node, enum node_health health, enum node_admin admin)
{
    fsm->n_lost -= node->health == HEALTH_LOST;
    fsm->n_lost += health == HEALTH_LOST;
    node->health = health;
    node->admin = admin;
    node->pub.state = look(health, admin);
    if (health != HEALTH_UNKNOWN)
        node->pub.unknown_revision = 0;
    witness_changed(fsm);
}

void node_set_reason(struct fsm *fsm, struct node *node, const char *reason, const char *actor)
{
    reason = intern_text(&fsm->strings, reason);
    actor = intern_text(&fsm->strings, actor);
    intern_put(&fsm->strings, node->pub.reason);
    intern_put(&fsm->strings, node->pub.actor);
    node->pub.reason = reason;
    node->pub.actor = actor;
}

void node_requarantine(struct fsm *fsm, struct node *node)
{
    struct lease **leases = node_leases_sorted(fsm, node);

    for (uint32_t i = 0, n = node->pub.n_leases; i < n; i++)
        if (lease_requarantine(fsm, leases[i]))
            fsm_changed_lease(fsm, leases[i], false);
}

void node_end_leases(struct fsm *fsm, struct node *node, const char *detail)
{
    struct lease **leases = node_leases_sorted(fsm, node);

    for (uint32_t i = 0, n = node->pub.n_leases; i < n; i++) {
        uint32_t m = lease_member_index(leases[i], node);

        if (!lease_live(&leases[i]->pub) || leases[i]->pub.members[m].released)
            continue;
        if (lease_joins(leases[i], m))
            lease_let_go(fsm, leases[i], m, END_MEMBER_LOST, detail);
        else
            lease_end(fsm, leases[i], END_MEMBER_LOST, detail);
    }
}

bool node_may_block(struct fsm *fsm, struct node *node)
{
    uint32_t old = 0;

    while (old < node->n_blocked && node->blocked_ms[old] + BLOCK_WINDOW_MS <= fsm->now_ms)
        old++;
    node->n_blocked -= old;
    memmove(node->blocked_ms, node->blocked_ms + old, node->n_blocked * sizeof(int64_t));
    return node->n_blocked < FSM_NODE_BLOCKS;
}

/* It finds too much: no new lease names it until an administrator has looked. */
static void cordon(struct fsm *fsm, struct node *node, const char *reason)
{
    if (node->admin != ADMIN_NONE || node->health == HEALTH_FENCED)
        return;
    node_set(fsm, node, node->health, ADMIN_CORDONED);
    node_set_reason(fsm, node, reason, "leased");
    fsm_changed_node(fsm, node, CHANGE_NODE);
    node->verb_revision = node->pub.revision;
}

void node_note_block(struct fsm *fsm, struct node *node)
{
    char reason[64];

    node->blocked_ms[node->n_blocked++] = fsm->now_ms;
    if (node->n_blocked < FSM_NODE_BLOCKS)
        return;
    snprintf(reason, sizeof(reason), "blocked %d uids within an hour", FSM_NODE_BLOCKS);
    cordon(fsm, node, reason);
}

bool node_may_hold(struct fsm *fsm, struct node *node)
{
    char reason[64];

    if (node->n_passing < FSM_NODE_PASSING)
        return true;
    snprintf(reason, sizeof(reason), "found something of more than %d uids that nobody has",
             FSM_NODE_PASSING);
    cordon(fsm, node, reason);
    return false;
}
