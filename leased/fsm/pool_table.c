#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "common/mem.h"
#include "leased/fsm/incarnation.h"
#include "leased/fsm/lease.h"
#include "leased/fsm/node.h"
#include "leased/fsm/pool.h"

/* ---- finding ---- */

/* Where a pool of this name is or would be. */
static size_t place_of_name(const struct fsm *fsm, const void *name, size_t len, bool *ret_there)
{
    size_t i;

    *ret_there = false;
    for (i = 0; i < fsm->n_pools; i++) {
        const char *other = fsm->pools[i]->pub.name;
        size_t other_len = strlen(other);
        int order = memcmp(other, name, other_len < len ? other_len : len);

        if (order == 0 && other_len == len)
            *ret_there = true;
        if (order > 0 || (order == 0 && other_len >= len))
            break;
    }
    return i;
}

struct pool *pool_find(const struct fsm *fsm, const void *name, size_t len)
{
    bool there = false;
    size_t i = len ? place_of_name(fsm, name, len, &there) : 0;

    return there ? fsm->pools[i] : NULL;
}

struct pool *pool_of_uid(const struct fsm *fsm, uint32_t uid)
{
    size_t low = 0, high = fsm->n_pools;

    while (low < high) {
        size_t middle = low + (high - low) / 2;

        if (fsm->ranges[middle]->pub.range.last < uid)
            low = middle + 1;
        else
            high = middle;
    }
    return low < fsm->n_pools && fsm->ranges[low]->pub.range.first <= uid ? fsm->ranges[low] : NULL;
}

const struct fsm_pool *fsm_pool(const struct fsm *fsm, const char *name)
{
    const struct pool *pool = pool_find(fsm, name, strlen(name));

    return pool ? &pool->pub : NULL;
}

const struct fsm_pool *fsm_pool_of_uid(const struct fsm *fsm, uint32_t uid)
{
    const struct pool *pool = pool_of_uid(fsm, uid);

    return pool ? &pool->pub : NULL;
}

const struct fsm_pool *fsm_pool_next(const struct fsm *fsm, const struct fsm_pool *after)
{
    bool there = false;
    size_t i = after ? place_of_name(fsm, after->name, strlen(after->name), &there) + 1 : 0;

    assert(!after || there);
    return i < fsm->n_pools ? &fsm->pools[i]->pub : NULL;
}

/* ---- making and ending ---- */

struct pool *pool_table_add(struct fsm *fsm, const void *name, size_t len, struct fsm_range range)
{
    struct pool *pool = mem_must_calloc(1, sizeof(*pool));
    bool there;
    size_t i = place_of_name(fsm, name, len, &there), at = 0;

    assert(!there && fsm->n_pools < FSM_POOLS_MAX);
    pool->pub.name = mem_must_dup(name, len);
    pool->pub.range = (struct fsm_range){range.first, range.first - 1};
    pool->line_head = pool->line_tail = NO_SLOT;
    memmove(&fsm->pools[i + 1], &fsm->pools[i], (fsm->n_pools - i) * sizeof(fsm->pools[0]));
    fsm->pools[i] = pool;
    while (at < fsm->n_pools && fsm->ranges[at]->pub.range.first < range.first)
        at++;
    memmove(&fsm->ranges[at + 1], &fsm->ranges[at], (fsm->n_pools - at) * sizeof(fsm->ranges[0]));
    fsm->ranges[at] = pool;
    fsm->n_pools++;
    pool_table_grow(fsm, pool, range.last);
    return pool;
}

void pool_table_grow(struct fsm *fsm, struct pool *pool, uint32_t last)
{
    uint32_t size = last - pool->pub.range.first + 1;

    pool->slots = mem_must_realloc(pool->slots, size, sizeof(*pool->slots));
    pool->states = mem_must_realloc(pool->states, size, sizeof(*pool->states));
    pool->blocked = mem_must_realloc(pool->blocked, size, sizeof(*pool->blocked));
    for (uint32_t i = pool->size; i < size; i++) {
        uint32_t epoch = floor_get(fsm, pool->pub.range.first + i);

        if (epoch < incarnation_least(fsm))
            epoch = incarnation_least(fsm);
        pool->slots[i] = (struct uid_slot){epoch, NO_SLOT, NO_SLOT};
        pool->states[i] = UID_FREE;
        pool->blocked[i] = 0;
    }
    pool->size = size;
    pool->pub.range.last = last;
}

/* How many of a node leave by themselves is kept there. */
static void count_passing(struct fsm *fsm, const struct fsm_blocked *blocked, int n)
{
    struct node *node = blocked->revision ? node_find(fsm, blocked->node, strlen(blocked->node))
                                          : NULL;

    if (node)
        node->n_passing += (uint32_t)n;
}

static void free_blocked(struct fsm *fsm, struct fsm_blocked *blocked)
{
    count_passing(fsm, blocked, -1);
    intern_put(&fsm->strings, blocked->node);
    intern_put(&fsm->strings, blocked->reason);
    intern_put(&fsm->strings, blocked->detail);
}

static void free_pool(struct pool *pool)
{
    struct owner_count *owner, *next;

    HASH_ITER(hh, pool->owners, owner, next)
    {
        HASH_DEL(pool->owners, owner);
        free(owner);
    }
    timers_done(&pool->cooling);
    free(pool->slots);
    free(pool->states);
    free(pool->blocked);
    free((void *)pool->pub.name);
    free((void *)pool->pub.settings.home);
    free((void *)pool->pub.settings.shell);
    free((void *)pool->pub.directory);
    free((void *)pool->pub.blocked);
    free(pool);
}

static void take_out(struct pool **pools, size_t n, const struct pool *pool)
{
    size_t i = 0;

    while (pools[i] != pool)
        i++;
    memmove(&pools[i], &pools[i + 1], (n - i - 1) * sizeof(struct pool *));
}

void pool_table_drop(struct fsm *fsm, struct pool *pool)
{
    assert(!pool->n_leases);
    for (uint32_t i = 0; i < pool->size; i++)
        floor_set(fsm, pool->pub.range.first + i, pool->slots[i].epoch);
    for (uint32_t i = 0; i < pool->pub.n_blocked; i++)
        free_blocked(fsm, (struct fsm_blocked *)&pool->pub.blocked[i]);
    take_out(fsm->pools, fsm->n_pools, pool);
    take_out(fsm->ranges, fsm->n_pools, pool);
    fsm->n_pools--;
    free_pool(pool);
}

void pool_table_done(struct fsm *fsm)
{
    for (size_t i = 0; i < fsm->n_pools; i++)
        free_pool(fsm->pools[i]);
}

void pool_set_directory(struct pool *pool, const struct fsm_range *ranges, size_t n)
{
    struct fsm_range *copy = NULL;

    if (n) {
        copy = mem_must_alloc(n * sizeof(*copy));
        memcpy(copy, ranges, n * sizeof(*copy));
    }
    free((void *)pool->pub.directory);
    pool->pub.directory = copy;
    pool->pub.n_directory = (uint32_t)n;
}

void pool_add_blocked(struct fsm *fsm, struct pool *pool, const struct fsm_blocked *blocked)
{
    struct fsm_blocked *list = (struct fsm_blocked *)pool->pub.blocked;
    uint32_t n = pool->pub.n_blocked;

    if (n >= FSM_BLOCKED_MAX)
        return;
    if (!(n & (n - 1))) {
        list = mem_must_realloc(list, n ? n * 2 : 1, sizeof(*list));
        pool->pub.blocked = list;
    }
    list[n] = (struct fsm_blocked){
        .uid = blocked->uid,
        .node = intern_text(&fsm->strings, blocked->node),
        .reason = intern_text(&fsm->strings, blocked->reason),
        .detail = intern_text(&fsm->strings, blocked->detail),
        .since_wall_ms = blocked->since_wall_ms,
        .revision = blocked->revision,
    };
    count_passing(fsm, &list[n], 1);
    pool->pub.n_blocked++;
}

void pool_drop_blocked(struct fsm *fsm, struct pool *pool, const struct fsm_blocked *blocked)
{
    struct fsm_blocked *list = (struct fsm_blocked *)pool->pub.blocked;
    size_t i = (size_t)(blocked - list);

    free_blocked(fsm, &list[i]);
    memmove(&list[i], &list[i + 1], (pool->pub.n_blocked - i - 1) * sizeof(*list));
    pool->pub.n_blocked--;
}

/* ---- owners ---- */

struct owner_count *pool_owner(struct pool *pool, uint32_t uid, bool make)
{
    struct owner_count *owner;

    HASH_FIND(hh, pool->owners, &uid, sizeof(uid), owner);
    if (!owner && make) {
        owner = mem_must_calloc(1, sizeof(*owner));
        owner->uid = uid;
        HASH_ADD(hh, pool->owners, uid, sizeof(uid), owner);
    }
    return owner;
}

void pool_owner_drop_if_zero(struct pool *pool, struct owner_count *owner)
{
    if (owner->n || owner->batch)
        return;
    HASH_DEL(pool->owners, owner);
    free(owner);
}

void pool_recount_owners(struct fsm *fsm, struct pool *pool)
{
    struct owner_count *owner, *next;

    HASH_ITER(hh, pool->owners, owner, next)
    {
        HASH_DEL(pool->owners, owner);
        free(owner);
    }
    if (!pool->pub.settings.max_per_owner)
        return;
    for (size_t i = 0; i < fsm->n_by_id; i++) {
        const struct lease *lease = fsm->by_id[i].lease;

        if (lease && lease->pool == pool && lease_live(&lease->pub))
            pool_owner(pool, lease->pub.owner.uid, true)->n++;
    }
}
