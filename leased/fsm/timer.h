/* Leases in order of when their clock is next over: a heap by (time, lease id), so that equal times have one order
 * everywhere. A lease is in at most one heap and knows its place. */
#ifndef XCE_LEASED_FSM_TIMER_H
#define XCE_LEASED_FSM_TIMER_H

#include <stddef.h>
#include <stdint.h>

struct lease;

struct timer {
    int64_t at_ms;
    uint64_t id; /* the lease's: comparing reaches into no lease */
    struct lease *lease;
};

struct timers {
    struct timer *heap;
    size_t n, cap;
};

void timers_done(struct timers *timers);

/* Put the lease into this heap at that time, out of the one it was in. */
void timer_set(struct timers *timers, struct lease *lease, int64_t at_ms);
void timer_stop(struct lease *lease);

/* The earliest; NULL = none. */
static inline const struct timer *timers_first(const struct timers *timers)
{
    return timers->n ? &timers->heap[0] : NULL;
}

#endif
