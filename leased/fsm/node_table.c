#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "common/mem.h"
#include "leased/fsm/lease.h"
#include "leased/fsm/node.h"
#include "leased/fsm/pool.h"

struct node *node_find(const struct fsm *fsm, const void *name, size_t len)
{
    struct node *node = NULL;

    if (len)
        HASH_FIND(hh, fsm->nodes_by_name, name, len, node);
    return node;
}

const struct fsm_node *fsm_node(const struct fsm *fsm, const char *name)
{
    const struct node *node = node_find(fsm, name, strlen(name));

    return node ? &node->pub : NULL;
}

const struct fsm_node *fsm_node_next(const struct fsm *fsm, const struct fsm_node *after)
{
    size_t i = after ? (size_t)((const struct node *)after)->place + 1 : 0;

    return i < fsm->n_nodes ? &fsm->nodes[i]->pub : NULL;
}

struct node *node_table_add(struct fsm *fsm, const void *name, size_t len)
{
    struct node *node = mem_must_calloc(1, sizeof(*node));
    size_t i;

    node->pub.name = intern_add(&fsm->strings, name, len);
    node->health = HEALTH_LOST;
    node->pub.state = NODE_LOST;
    fsm->n_lost++;
    mem_must_grow(&fsm->nodes, &fsm->cap_nodes, fsm->n_nodes + 1, sizeof(*fsm->nodes));
    for (i = fsm->n_nodes; i > 0 && strcmp(fsm->nodes[i - 1]->pub.name, node->pub.name) > 0; i--) {
        fsm->nodes[i] = fsm->nodes[i - 1];
        fsm->nodes[i]->place = (uint32_t)i;
    }
    fsm->nodes[i] = node;
    node->place = (uint32_t)i;
    fsm->n_nodes++;
    HASH_ADD_KEYPTR(hh, fsm->nodes_by_name, node->pub.name, len, node);
    witness_changed(fsm);
    return node;
}

static void free_node(struct node *node)
{
    boots_done(node);
    free(node->leases);
    free(node);
}

void node_table_drop(struct fsm *fsm, struct node *node)
{
    assert(!node->pub.n_leases);
    pool_blocks_stay(fsm, node);
    boots_forget(fsm, node);
    fsm->n_lost -= node->health == HEALTH_LOST;
    HASH_DEL(fsm->nodes_by_name, node);
    fsm->n_nodes--;
    for (size_t i = node->place; i < fsm->n_nodes; i++) {
        fsm->nodes[i] = fsm->nodes[i + 1];
        fsm->nodes[i]->place = (uint32_t)i;
    }
    intern_put(&fsm->strings, node->pub.name);
    intern_put(&fsm->strings, node->pub.machine_id);
    intern_put(&fsm->strings, node->pub.boot_id);
    intern_put(&fsm->strings, node->pub.reason);
    intern_put(&fsm->strings, node->pub.actor);
    free_node(node);
    witness_changed(fsm);
}

void node_table_done(struct fsm *fsm)
{
    HASH_CLEAR(hh, fsm->nodes_by_name);
    for (size_t i = 0; i < fsm->n_nodes; i++)
        free_node(fsm->nodes[i]);
    free(fsm->nodes);
}

uint32_t node_add_lease(struct node *node, struct lease *lease, uint32_t member)
{
    uint32_t place = node->pub.n_leases;

    mem_must_grow(&node->leases, &node->cap_leases, (size_t)place + 1, sizeof(*node->leases));
    node->leases[place] = (struct node_lease){lease, member};
    node->pub.n_leases++;
    return place;
}

void node_drop_lease(struct node *node, uint32_t place)
{
    struct node_lease last = node->leases[--node->pub.n_leases];

    if (place == node->pub.n_leases)
        return;
    node->leases[place] = last;
    last.lease->places[last.member] = place;
}

static int by_id(const void *a, const void *b)
{
    const struct lease *const *x = a, *const *y = b;

    return ((*x)->pub.id > (*y)->pub.id) - ((*x)->pub.id < (*y)->pub.id);
}

struct lease **node_leases_sorted(struct fsm *fsm, const struct node *node)
{
    struct lease **leases = pb_arena_alloc(&fsm->arena, (node->pub.n_leases + (size_t)1) *
                                                            sizeof(struct lease *));

    if (!leases)
        abort();
    for (uint32_t i = 0; i < node->pub.n_leases; i++)
        leases[i] = node->leases[i].lease;
    qsort(leases, node->pub.n_leases, sizeof(struct lease *), by_id);
    return leases;
}

bool node_not_ready(const struct node *node, char why[static FSM_MESSAGE_MAX + 1])
{
    const char *reason = node->pub.reason;

    if (node->pub.state == NODE_READY)
        return false;
    fsm_format(why, "node %s is %s%s%s%s", node->pub.name, node_state_text(node->pub.state),
               reason ? " (" : "", reason ? reason : "", reason ? ")" : "");
    return true;
}

struct node **node_all_ready(struct fsm *fsm, uint32_t *ret_n, char why[static FSM_MESSAGE_MAX + 1])
{
    struct node **nodes = pb_arena_alloc(&fsm->arena,
                                         (fsm->n_nodes + (size_t)1) * sizeof(struct node *));
    uint32_t n = 0;

    if (!nodes)
        abort();
    for (size_t i = 0; i < fsm->n_nodes; i++)
        if (fsm->nodes[i]->pub.state == NODE_READY)
            nodes[n++] = fsm->nodes[i];
    *ret_n = n;
    if (n)
        return nodes;
    fsm_format(why, "none of %zu registered nodes is ready", fsm->n_nodes);
    return NULL;
}
