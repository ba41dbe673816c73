/* Epochs of uids whose pool is gone, so that a later pool over the same uids goes on counting. Pages by first uid. */
#include <stdlib.h>
#include <string.h>

#include "common/mem.h"
#include "leased/fsm/incarnation.h"
#include "leased/fsm/pool.h"

static size_t lower_bound(const struct fsm *fsm, uint32_t first)
{
    size_t low = 0, high = fsm->n_floors;

    while (low < high) {
        size_t middle = low + (high - low) / 2;

        if (fsm->floors[middle].first < first)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

uint32_t floor_get(const struct fsm *fsm, uint32_t uid)
{
    uint32_t first = uid - uid % FLOOR_PAGE;
    size_t i = lower_bound(fsm, first);

    return i < fsm->n_floors && fsm->floors[i].first == first
               ? fsm->floors[i].epochs[uid % FLOOR_PAGE]
               : 0;
}

bool floor_wants_page(const struct fsm *fsm, uint32_t uid)
{
    uint32_t first = uid - uid % FLOOR_PAGE;
    size_t i = lower_bound(fsm, first);

    return i == fsm->n_floors || fsm->floors[i].first != first;
}

void floor_set(struct fsm *fsm, uint32_t uid, uint32_t epoch)
{
    uint32_t first = uid - uid % FLOOR_PAGE;
    size_t i = lower_bound(fsm, first);
    uint32_t *at;

    if (!epoch)
        return;
    if (i == fsm->n_floors || fsm->floors[i].first != first) {
        mem_must_grow(&fsm->floors, &fsm->cap_floors, fsm->n_floors + 1, sizeof(*fsm->floors));
        memmove(&fsm->floors[i + 1], &fsm->floors[i], (fsm->n_floors - i) * sizeof(*fsm->floors));
        fsm->floors[i].first = first;
        fsm->floors[i].epochs = mem_must_calloc(FLOOR_PAGE, sizeof(uint32_t));
        fsm->n_floors++;
    }
    at = &fsm->floors[i].epochs[uid % FLOOR_PAGE];
    if (*at < epoch)
        *at = epoch;
}

void floor_cap(struct fsm *fsm, uint32_t uid, uint32_t epoch)
{
    uint32_t first = uid - uid % FLOOR_PAGE;
    size_t i = lower_bound(fsm, first);
    uint32_t *at;

    if (i == fsm->n_floors || fsm->floors[i].first != first)
        return;
    at = &fsm->floors[i].epochs[uid % FLOOR_PAGE];
    if (*at > epoch)
        *at = epoch;
}

void floors_leap(struct fsm *fsm)
{
    for (size_t i = 0; i < fsm->n_floors; i++)
        for (uint32_t j = 0; j < FLOOR_PAGE; j++) {
            uint32_t *at = &fsm->floors[i].epochs[j];

            if (*at && !pool_of_uid(fsm, fsm->floors[i].first + j))
                *at = incarnation_above(fsm, *at);
        }
}

void floors_done(struct fsm *fsm)
{
    for (size_t i = 0; i < fsm->n_floors; i++)
        free(fsm->floors[i].epochs);
    free(fsm->floors);
}

uint32_t fsm_epoch_floor(const struct fsm *fsm, uint32_t uid)
{
    const struct pool *pool = pool_of_uid(fsm, uid);

    return pool ? pool->slots[uid - pool->pub.range.first].epoch : floor_get(fsm, uid);
}
