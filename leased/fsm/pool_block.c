/* Uids that are not given out: by whom and why, and which of them leave by themselves. */
#include <string.h>

#include "leased/fsm/node.h"
#include "leased/fsm/pool.h"

static const char stray[] = "stray", leftover[] = "leftover";

bool pool_block_passes(const char *reason)
{
    return !strcmp(reason, stray) || !strcmp(reason, leftover);
}

bool pool_block_leaves(const struct pool *pool, const char *reason)
{
    return pool_block_passes(reason) && pool->pub.n_blocked < FSM_BLOCKED_MAX;
}

/* ---- what is found of one uid ---- */

struct findings {
    uint32_t n;
    struct fsm_blocked *own;     /* the same node's, for the same reason */
    struct fsm_blocked *stays;   /* one that does not leave by itself */
    struct fsm_blocked *passing; /* one that does */
};

static struct findings find(struct pool *pool, uint32_t uid, const struct node *node,
                            const char *reason)
{
    struct fsm_blocked *list = (struct fsm_blocked *)pool->pub.blocked;
    struct findings ret = {0};

    for (uint32_t i = 0; i < pool->pub.n_blocked; i++) {
        if (list[i].uid != uid)
            continue;
        ret.n++;
        if (node && list[i].node == node->pub.name && !strcmp(list[i].reason, reason))
            ret.own = &list[i];
        if (list[i].revision)
            ret.passing = &list[i];
        else
            ret.stays = &list[i];
    }
    return ret;
}

bool pool_block_knows(struct pool *pool, uint32_t uid, const struct node *node, const char *reason)
{
    return find(pool, uid, node, reason).own;
}

/* There is no room to remember who else has found something: one that is known stays for all of them, as nobody could say
 * for them that it is gone. */
static void block_stays(struct fsm *fsm, struct pool *pool, struct fsm_blocked *held,
                        const struct fsm_blocked *found)
{
    struct fsm_blocked block = *held;
    char both[FSM_MESSAGE_MAX + 1];

    fsm_format(both, "also %s on node %s%s%s%s%s", found->reason, found->node,
               found->detail ? ": " : "", found->detail ? found->detail : "",
               held->detail ? "; " : "", held->detail ? held->detail : "");
    block.reason = !strcmp(held->reason, stray) ? stray : leftover;
    block.detail = both;
    block.revision = 0;
    pool_drop_blocked(fsm, pool, held); /* the node, which is known, keeps its name */
    pool_add_blocked(fsm, pool, &block);
    fsm_changed_blocked(fsm, pool, &block);
}

/* Of a uid that is blocked already a node finds what it has to clean up: every node says for itself, and for each reason, that
 * it is gone. A pass must have begun after its last stray; what it says of a leftover comes after that anyway. */
static void block_passing(struct fsm *fsm, struct pool *pool, const struct fsm_blocked *block,
                          const struct findings *held, bool room)
{
    if (held->own) {
        if (!held->own->revision || strcmp(block->reason, stray) != 0)
            return;
        held->own->revision = fsm->revision + 1;
        fsm_changed_pool(fsm, pool, CHANGE_POOL);
    } else if (room && held->n < FSM_UID_FINDINGS) {
        pool_add_blocked(fsm, pool, block);
        fsm_changed_blocked(fsm, pool, block);
    } else if (!held->stays) {
        block_stays(fsm, pool, held->passing, block);
    }
}

/* What nobody cleans up. Only the first is kept, and it is not left out for one that leaves. */
static bool block_for_good(struct fsm *fsm, struct pool *pool, const struct fsm_blocked *block,
                           const struct findings *held)
{
    if (held->stays)
        return false;
    if (pool->pub.n_blocked >= FSM_BLOCKED_MAX)
        pool_drop_blocked(fsm, pool, held->passing);
    pool_add_blocked(fsm, pool, block);
    fsm_changed_blocked(fsm, pool, block);
    return true;
}

bool pool_block(struct fsm *fsm, struct pool *pool, uint32_t i, const struct node *node,
                const char *reason, const char *detail)
{
    uint32_t uid = pool->pub.range.first + i;
    bool passes = node && pool_block_passes(reason);
    bool room = node && node->n_passing < FSM_NODE_PASSING && pool_block_leaves(pool, reason);
    struct findings held;
    struct fsm_blocked block = {
        .uid = uid,
        .node = node ? node->pub.name : NULL,
        .reason = reason,
        .detail = detail,
        .since_wall_ms = fsm->wall_ms,
        .revision = room ? fsm->revision + 1 : 0,
    };

    if (pool->blocked[i]) {
        held = find(pool, uid, node, reason);
        if (!held.n) /* the list was full: it stays, and nobody knows why */
            return false;
        if (!passes)
            return block_for_good(fsm, pool, &block, &held);
        block_passing(fsm, pool, &block, &held, room);
        return false;
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

static void drop_all(struct fsm *fsm, struct pool *pool, uint32_t uid)
{
    const struct fsm_blocked *list = pool->pub.blocked;

    for (uint32_t i = pool->pub.n_blocked; i-- > 0;)
        if (list[i].uid == uid)
            pool_drop_blocked(fsm, pool, &list[i]);
}

void pool_unblock(struct fsm *fsm, struct pool *pool, uint32_t i)
{
    pool->blocked[i] = 0;
    drop_all(fsm, pool, pool->pub.range.first + i);
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

/* One finding is over: with the last of its uid that is not blocked any more. */
static void pass(struct fsm *fsm, struct pool *pool, const struct fsm_blocked *blocked)
{
    uint32_t uid = blocked->uid;

    if (find(pool, uid, NULL, "").n == 1) {
        pool_unblock(fsm, pool, uid - pool->pub.range.first);
        return;
    }
    pool_drop_blocked(fsm, pool, blocked);
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
                pass(fsm, pool, blocked);
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

static int by_uid(const void *a, const void *b)
{
    uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;

    return x < y ? -1 : x > y;
}

static bool doubled(const struct pool *pool)
{
    uint32_t uids[FSM_BLOCKED_MAX];
    uint32_t n = pool->pub.n_blocked;

    for (uint32_t i = 0; i < n; i++)
        uids[i] = pool->pub.blocked[i].uid;
    qsort(uids, n, sizeof(*uids), by_uid);
    for (uint32_t i = 1; i < n; i++)
        if (uids[i] == uids[i - 1])
            return true;
    return false;
}

bool pool_blocks_doubled(const struct fsm *fsm)
{
    for (size_t p = 0; p < fsm->n_pools; p++)
        if (doubled(fsm->pools[p]))
            return true;
    return false;
}
