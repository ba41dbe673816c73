#include "tests/lib/fake_clock.h"

static int64_t read_mono(void *arg)
{
    const struct fake_clock *fake = arg;

    return fake->mono_ms;
}

static int64_t read_wall(void *arg)
{
    const struct fake_clock *fake = arg;

    return fake->wall_ms;
}

void fake_clock_init(struct fake_clock *fake)
{
    *fake = (struct fake_clock){
        .clock = {.mono_ms = read_mono, .wall_ms = read_wall, .arg = fake},
        .mono_ms = 1000000,
        .wall_ms = INT64_C(1735689600000),
    };
}

void fake_clock_elapse(struct fake_clock *fake, int64_t ms)
{
    fake->mono_ms += ms;
    fake->wall_ms += ms;
}

void fake_clock_jump_wall(struct fake_clock *fake, int64_t ms)
{
    fake->wall_ms += ms;
}
