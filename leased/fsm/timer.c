#include "leased/fsm/timer.h"

#include <assert.h>
#include <stdbool.h>
#include <stdlib.h>

#include "common/mem.h"
#include "leased/fsm/state.h"

void timers_done(struct timers *timers)
{
    free(timers->heap);
    *timers = (struct timers){0};
}

static bool before(const struct timer *a, const struct timer *b)
{
    return a->at_ms != b->at_ms ? a->at_ms < b->at_ms : a->id < b->id;
}

static void place(struct timers *timers, size_t i, struct timer timer)
{
    timers->heap[i] = timer;
    timer.lease->timer_place = (uint32_t)i;
}

static void rise(struct timers *timers, size_t i, struct timer timer)
{
    while (i > 0 && before(&timer, &timers->heap[(i - 1) / 2])) {
        place(timers, i, timers->heap[(i - 1) / 2]);
        i = (i - 1) / 2;
    }
    place(timers, i, timer);
}

static void sink(struct timers *timers, size_t i, struct timer timer)
{
    for (;;) {
        size_t child = 2 * i + 1;

        if (child >= timers->n)
            break;
        if (child + 1 < timers->n && before(&timers->heap[child + 1], &timers->heap[child]))
            child++;
        if (!before(&timers->heap[child], &timer))
            break;
        place(timers, i, timers->heap[child]);
        i = child;
    }
    place(timers, i, timer);
}

static void settle(struct timers *timers, size_t i, struct timer timer)
{
    if (i > 0 && before(&timer, &timers->heap[(i - 1) / 2]))
        rise(timers, i, timer);
    else
        sink(timers, i, timer);
}

void timer_stop(struct lease *lease)
{
    struct timers *timers = lease->timers;
    size_t i = lease->timer_place;

    if (!timers)
        return;
    assert(i < timers->n && timers->heap[i].lease == lease);
    lease->timers = NULL;
    timers->n--;
    if (i < timers->n)
        settle(timers, i, timers->heap[timers->n]);
}

void timer_set(struct timers *timers, struct lease *lease, int64_t at_ms)
{
    struct timer timer = {at_ms, lease->pub.id, lease};

    if (lease->timers == timers) {
        settle(timers, lease->timer_place, timer);
        return;
    }
    timer_stop(lease);
    mem_must_grow(&timers->heap, &timers->cap, timers->n + 1, sizeof(*timers->heap));
    lease->timers = timers;
    timers->n++;
    rise(timers, timers->n - 1, timer);
}
