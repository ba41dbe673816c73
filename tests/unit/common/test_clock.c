#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "common/clock.h"
#include "tests/lib/fake_clock.h"

static void clock_goes_on(void **state)
{
    int64_t ms = clock_mono_ms(), us = clock_mono_us(), wall = clock_wall_ms();

    assert_true(us / 1000 >= ms && us / 1000 < ms + 10000);
    assert_true(clock_mono_ms() >= ms);
    assert_true(wall > INT64_C(1700000000000));
    assert_true(clock_mono(&clock_real) >= ms);
    assert_true(clock_wall(&clock_real) >= wall - 3600000);
    assert_true(clock_coarse_ms() > 0);
}

static void clock_fake_goes_when_told(void **state)
{
    struct fake_clock fake;
    int64_t mono, wall;

    fake_clock_init(&fake);
    mono = clock_mono(&fake.clock);
    wall = clock_wall(&fake.clock);
    fake_clock_elapse(&fake, 1500);
    fake_clock_jump_wall(&fake, -86400000);
    assert_int_equal(clock_mono(&fake.clock), mono + 1500);
    assert_int_equal(clock_wall(&fake.clock), wall + 1500 - 86400000);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(clock_goes_on),
        cmocka_unit_test(clock_fake_goes_when_told),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
