/* A clock that goes when the test says so. */
#ifndef XCE_TESTS_LIB_FAKE_CLOCK_H
#define XCE_TESTS_LIB_FAKE_CLOCK_H

#include "common/clock.h"

struct fake_clock {
    struct clock clock; /* give &fake.clock to the code under test; fake must stay where it is */
    int64_t mono_ms, wall_ms;
};

/* Boot time 1,000,000 ms, wall time 2025-01-01T00:00:00Z. */
void fake_clock_init(struct fake_clock *fake);
/* Both go on. */
void fake_clock_elapse(struct fake_clock *fake, int64_t ms);
/* Somebody sets the wall clock; may be negative. */
void fake_clock_jump_wall(struct fake_clock *fake, int64_t ms);

#endif
