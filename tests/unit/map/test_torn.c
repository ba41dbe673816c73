/* Torn records under a writer: two million reads; a thousand million with XCE_TEST_LONG=1. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "tests/lib/map_fixture.h"
#include "tests/lib/map_race.h"

static void run(uint64_t reads, uint32_t per_second)
{
    struct race_result r = race_run(reads, per_second);

    print_message("%ju reads, %ju changes in %.1f s: %ju torn, %ju missing, %ju stale\n",
                  (uintmax_t)r.reads, (uintmax_t)r.changes, r.seconds, (uintmax_t)r.torn,
                  (uintmax_t)r.missing, (uintmax_t)r.stale);
    assert_true(r.changes > 0);
    assert_int_equal(r.torn + r.missing + r.stale, 0);
}

static void torn_none_at_10000_changes_a_second(void **state)
{
    (void)state;
    run(fixture_long() ? 1000000000 : 2000000, 10000);
}

static void torn_none_at_full_speed(void **state)
{
    (void)state;
    run(fixture_long() ? 100000000 : 2000000, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(torn_none_at_10000_changes_a_second),
        cmocka_unit_test(torn_none_at_full_speed),
    };

    if (fixture_cannot_run())
        return 77;
    return cmocka_run_group_tests(tests, NULL, NULL);
}
