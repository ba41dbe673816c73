#include <assert.h>
#include <string.h>

#include "common/mem.h"
#include "leased/fsm/lease.h"
#include "leased/fsm/pool.h"

void pool_line_append(struct pool *pool, uint32_t i)
{
    struct uid_slot *slot = &pool->slots[i];

    slot->before = pool->line_tail;
    slot->after = NO_SLOT;
    if (pool->line_tail == NO_SLOT)
        pool->line_head = i;
    else
        pool->slots[pool->line_tail].after = i;
    pool->line_tail = i;
    pool->states[i] = UID_FREE;
    pool->counts.free++;
}

void pool_line_prepend(struct pool *pool, uint32_t i)
{
    struct uid_slot *slot = &pool->slots[i];

    slot->before = NO_SLOT;
    slot->after = pool->line_head;
    if (pool->line_head == NO_SLOT)
        pool->line_tail = i;
    else
        pool->slots[pool->line_head].before = i;
    pool->line_head = i;
    pool->states[i] = UID_FREE;
    pool->counts.free++;
}

void pool_line_remove(struct pool *pool, uint32_t i)
{
    struct uid_slot *slot = &pool->slots[i];

    assert(pool->states[i] == UID_FREE);
    if (slot->before == NO_SLOT)
        pool->line_head = slot->after;
    else
        pool->slots[slot->before].after = slot->after;
    if (slot->after == NO_SLOT)
        pool->line_tail = slot->before;
    else
        pool->slots[slot->after].before = slot->before;
    pool->counts.free--;
}

void pool_put_aside(struct pool *pool, uint32_t i)
{
    pool->states[i] = UID_ASIDE;
    pool->counts.blocked++;
}

uint32_t pool_take(struct pool *pool, uint32_t lease_number)
{
    uint32_t i = pool->line_head;
    struct uid_slot *slot = &pool->slots[i];

    assert(i != NO_SLOT && slot->epoch < UINT32_MAX && !pool->blocked[i]);
    pool_line_remove(pool, i);
    pool->states[i] = UID_LEASED;
    slot->epoch++;
    slot->before = lease_number;
    return i;
}

void pool_take_lost(struct pool *pool, uint32_t i, uint32_t lease_number, uint32_t epoch)
{
    if (pool->states[i] == UID_FREE)
        pool_line_remove(pool, i);
    else
        pool->counts.blocked--;
    pool->states[i] = UID_LEASED;
    pool->slots[i].epoch = epoch;
    pool->slots[i].before = lease_number;
}

void pool_give_back(struct fsm *fsm, struct pool *pool, uint32_t i)
{
    assert(pool->states[i] == UID_LEASED);
    if (pool->blocked[i]) {
        pool_put_aside(pool, i);
        return;
    }
    pool_line_append(pool, i);
    /* The last epoch there is has been used: it is never granted again. */
    if (pool->slots[i].epoch == UINT32_MAX)
        (void)pool_block(fsm, pool, i, NULL, "epochs", "every epoch of this uid has been used");
}

/* What rests on a false oath, or was proved by the wrong one of two machines, would be free in the next pool of this range:
 * nobody would find it again by looking. */
static bool holds_unproved(const struct pool *pool)
{
    for (uint32_t i = 0; i < pool->pub.n_blocked; i++)
        if (!strcmp(pool->pub.blocked[i].reason, "oath") ||
            !strcmp(pool->pub.blocked[i].reason, "clone"))
            return true;
    return false;
}

bool pool_is_over(const struct pool *pool)
{
    return pool->pub.retiring && !pool->n_leases && !holds_unproved(pool);
}

void pool_leave_if_empty(struct fsm *fsm, struct pool *pool)
{
    if (!pool_is_over(pool))
        return;
    fsm_changed_pool(fsm, pool, CHANGE_POOL_GONE);
    pool_table_drop(fsm, pool);
}

size_t fsm_pool_ahead(const struct fsm_pool *pub, uint32_t *ret_uids, size_t n)
{
    const struct pool *pool = (const struct pool *)pub;
    size_t written = 0;

    for (uint32_t i = pool->line_head; i != NO_SLOT && written < n; i = pool->slots[i].after)
        ret_uids[written++] = pub->range.first + i;
    return written;
}

void fsm_pool_counts(const struct fsm_pool *pool, struct fsm_counts *ret)
{
    *ret = ((const struct pool *)pool)->counts;
}

/* Retired: any moment. Cooling: when the first is over. Draining: a cool-down after now at the earliest. */
int64_t fsm_pool_next_due_ms(const struct fsm *fsm, const struct fsm_pool *pub)
{
    const struct pool *pool = (const struct pool *)pub;
    const struct timer *first = timers_first(&pool->cooling);
    int64_t due_ms = INT64_MAX;

    if (pool->counts.retired)
        return fsm->now_ms;
    if (first)
        due_ms = first->at_ms;
    if (pool->counts.draining && fsm->now_ms + pub->settings.cooldown_ms < due_ms)
        due_ms = fsm->now_ms + pub->settings.cooldown_ms;
    return due_ms < fsm->now_ms ? fsm->now_ms : due_ms;
}
