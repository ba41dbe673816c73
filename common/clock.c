#include "common/clock.h"

#include <stddef.h>
#include <time.h>

static int64_t read_us(clockid_t id)
{
    struct timespec now;

    /* Cannot fail: the clocks are fixed and the kernel has them all. */
    clock_gettime(id, &now);
    return (int64_t)now.tv_sec * 1000000 + now.tv_nsec / 1000;
}

int64_t clock_mono_ms(void)
{
    return read_us(CLOCK_BOOTTIME) / 1000;
}

int64_t clock_mono_us(void)
{
    return read_us(CLOCK_BOOTTIME);
}

int64_t clock_wall_ms(void)
{
    return read_us(CLOCK_REALTIME) / 1000;
}

int64_t clock_coarse_ms(void)
{
    return read_us(CLOCK_MONOTONIC_COARSE) / 1000;
}

static int64_t real_mono(void *arg)
{
    return clock_mono_ms();
}

static int64_t real_wall(void *arg)
{
    return clock_wall_ms();
}

const struct clock clock_real = {.mono_ms = real_mono, .wall_ms = real_wall, .arg = NULL};
