/* What time it is: three clocks, and a fake for tests.
 *
 * "mono_ms" is CLOCK_BOOTTIME in ms: it goes on while the machine sleeps and never jumps back; deadlines use it.
 * "wall_ms" is ms since 1970-01-01T00:00:00Z: it jumps; it only annotates.
 * Code that decides takes a struct clock from its owner; code that only measures may call the plain functions.
 * Any thread. */
#ifndef XCE_COMMON_CLOCK_H
#define XCE_COMMON_CLOCK_H

#include <stdint.h>

struct clock {
    int64_t (*mono_ms)(void *arg);
    int64_t (*wall_ms)(void *arg);
    void *arg;
};

extern const struct clock clock_real;

static inline int64_t clock_mono(const struct clock *clock)
{
    return clock->mono_ms(clock->arg);
}

static inline int64_t clock_wall(const struct clock *clock)
{
    return clock->wall_ms(clock->arg);
}

int64_t clock_mono_ms(void);
int64_t clock_mono_us(void);
int64_t clock_wall_ms(void);

/* CLOCK_MONOTONIC as the last tick left it (1 to 10 ms old), a few ns to read; stands still while the machine sleeps.
 * For statistics and rate limits, never for a deadline. */
int64_t clock_coarse_ms(void);

#endif
