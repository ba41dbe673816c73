/* Uids that are not given out: by whom and why, and which of them leave by themselves. */
#include <string.h>

#include "leased/fsm/node.h"
#include "leased/fsm/pool.h"

static const char stray[] = "stray", leftover[] = "leftover";

bool pool_block_passes(const char *reason)
{
    return !strcmp(reason, stray) || !strcmp(reason, leftover);
}

static struct fsm_blocked *find(struct pool *pool, uint32_t uid)
{
    struct fsm_blocked *list = (struct fsm_blocked *)pool->pub.blocked;

    for (uint32_t i = 0; i < pool->pub.n_blocked; i++)
        if (list[i].uid == uid)
            return &list[i];
    return NULL;
}

bool pool_block_leaves(const struct pool *pool, const char *reason)
{
    return pool_block_passes(reason) && pool->pub.n_blocked < FSM_BLOCKED_MAX;
}

/* For good, with what came to it. */
static void block_stays(struct fsm *fsm, struct pool *pool, const struct fsm_blocked *held,
                        const struct node *node, const char *reason, const char *detail)
{
    struct fsm_blocked block = *held;
    char both[FSM_MESSAGE_MAX + 1];

    fsm_format(both, "also %s on node %s%s%s%s%s", reason, node->pub.name, detail ? ": " : "",
               detail ? detail : "", held->detail ? "; " : "", held->detail ? held->detail : "");
    block.reason = !strcmp(held->reason, stray) ? stray : leftover;
    block.detail = both;
    block.revision = 0;
    pool_drop_blocked(fsm, pool, block.uid); /* the node, which is known, keeps its name */
    pool_add_blocked(fsm, pool, &block);
    fsm_changed_blocked(fsm, pool, &block);
}

/* Something more is found of a uid whose block leaves by itself. One word can not say of two nodes, nor of a stray and a
 * leftover, that they are gone: then it stays. A pass must have begun after the last stray; what the node says of a leftover
 * comes after it anyway. */
static void block_again(struct fsm *fsm, struct pool *pool, struct fsm_blocked *held,
                        const struct node *node, const char *reason, const char *detail)
{
    if (held->node != node->pub.name || strcmp(held->reason, reason) != 0) {
        block_stays(fsm, pool, held, node, reason, detail);
    } else if (!strcmp(reason, stray)) {
        held->revision = fsm->revision + 1;
        fsm_changed_pool(fsm, pool, CHANGE_POOL);
    }
}

bool pool_block(struct fsm *fsm, struct pool *pool, uint32_t i, const struct node *node,
                const char *reason, const char *detail)
{
    uint32_t uid = pool->pub.range.first + i;
    bool leaves = node && pool_block_leaves(pool, reason);
    struct fsm_blocked *held;
    struct fsm_blocked block = {
        .uid = uid,
        .node = node ? node->pub.name : NULL,
        .reason = reason,
        .detail = detail,
        .since_wall_ms = fsm->wall_ms,
        .revision = leaves ? fsm->revision + 1 : 0,
    };

    if (pool->blocked[i]) {
        held = find(pool, uid);
        if (!held || !held->revision)
            return false;
        if (node && pool_block_passes(reason)) {
            block_again(fsm, pool, held, node, reason, detail);
            return false;
        }
        pool_drop_blocked(fsm, pool, uid);
    }
    pool->blocked[i] = 1;
    if (pool->states[i] == UID_FREE) {
        pool_line_remove(pool, i);
        pool_put_aside(pool, i);
    }
    pool_add_blocked(fsm, pool, &block);
    fsm_changed_blocked(fsm, pool, &block);
    return true;
}

void pool_unblock(struct fsm *fsm, struct pool *pool, uint32_t i)
{
    pool->blocked[i] = 0;
    pool_drop_blocked(fsm, pool, pool->pub.range.first + i);
    if (pool->states[i] == UID_ASIDE) {
        pool->counts.blocked--;
        pool_line_append(pool, i);
    }
    /* The last epoch there is has been used: it is never granted again. */
    if (pool->states[i] == UID_FREE && pool->slots[i].epoch == UINT32_MAX)
        (void)pool_block(fsm, pool, i, NULL, "epochs", "every epoch of this uid has been used");
    else
        fsm_changed_pool(fsm, pool, CHANGE_POOL);
}

/* Those of the node that this says are over. */
static void let_pass(struct fsm *fsm, const struct node *node, const char *reason, uint32_t uid)
{
    for (size_t p = 0; p < fsm->n_pools; p++) {
        struct pool *pool = fsm->pools[p];

        for (uint32_t i = 0; i < pool->pub.n_blocked;) {
            const struct fsm_blocked *blocked = &pool->pub.blocked[i];

            if (blocked->revision && blocked->node == node->pub.name &&
                !strcmp(blocked->reason, reason) &&
                (uid ? blocked->uid == uid : blocked->revision <= node->pub.watermark))
                pool_unblock(fsm, pool, blocked->uid - pool->pub.range.first);
            else
                i++;
        }
    }
}

void pool_strays_gone(struct fsm *fsm, const struct node *node)
{
    if (node->n_passing)
        let_pass(fsm, node, stray, 0);
}

void pool_leftover_gone(struct fsm *fsm, const struct node *node, uint32_t uid)
{
    if (node->n_passing)
        let_pass(fsm, node, leftover, uid);
}

void pool_blocks_stay(struct fsm *fsm, struct node *node)
{
    for (size_t p = 0; node->n_passing && p < fsm->n_pools; p++) {
        struct fsm_blocked *list = (struct fsm_blocked *)fsm->pools[p]->pub.blocked;

        for (uint32_t i = 0; i < fsm->pools[p]->pub.n_blocked; i++)
            if (list[i].node == node->pub.name)
                list[i].revision = 0;
    }
    node->n_passing = 0;
}

size_t pool_blocks_passing(const struct fsm *fsm, const struct node *node)
{
    size_t n = 0;

    for (size_t p = 0; p < fsm->n_pools; p++)
        for (uint32_t i = 0; i < fsm->pools[p]->pub.n_blocked; i++) {
            const struct fsm_blocked *blocked = &fsm->pools[p]->pub.blocked[i];

            n += blocked->revision && (!node || blocked->node == node->pub.name);
        }
    return n;
}
