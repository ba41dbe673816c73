/* Pools as a node knows them: where its guard may act. */
#include "noded/state.h"

#include <errno.h>
#include <string.h>

#include "noded/state_inside.h"

struct state_pool *state_pool_named(struct state *state, const char *name)
{
    for (size_t i = 0; i < state->n_pools; i++)
        if (strcmp(state->pools[i].name, name) == 0)
            return &state->pools[i];
    return NULL;
}

int state_pool_set(struct state *state, const struct state_pool *pool)
{
    struct state_pool *old = state_pool_named(state, pool->name);

    if (old && old->first == pool->first && old->last == pool->last) {
        old->validity_ms = pool->validity_ms;
        return STATE_POOL_SAME;
    }
    if (!old && state->n_pools == XCE_RANGES_MAX)
        return -ENOBUFS;
    if (!old)
        old = &state->pools[state->n_pools++];
    *old = *pool;
    old->check = POOL_UNCHECKED;
    state->sweeps_kept = false;
    return STATE_POOL_CHANGED;
}

void state_pool_gone(struct state *state, const char *name)
{
    struct state_pool *pool = state_pool_named(state, name);

    if (pool)
        *pool = state->pools[--state->n_pools];
}

void state_pool_checked(struct state *state, const char *name, bool passed)
{
    struct state_pool *pool = state_pool_named(state, name);

    if (pool)
        pool->check = passed ? POOL_PASSED : POOL_FAILED;
    state->sweeps_kept = false;
}

const struct state_pool *state_pools(const struct state *state, size_t *ret_n)
{
    *ret_n = state->n_pools;
    return state->pools;
}

const struct state_pool *state_pool_of(const struct state *state, uint32_t uid)
{
    for (size_t i = 0; i < state->n_pools; i++)
        if (uid >= state->pools[i].first && uid <= state->pools[i].last)
            return &state->pools[i];
    return NULL;
}

struct state_pool *state_pool_at(struct state *state, size_t i)
{
    return i < state->n_pools ? &state->pools[i] : NULL;
}
