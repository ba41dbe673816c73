/* When passes are made and what they are worth. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "noded/state_guard.h"

#define FAST 5000
#define IDLE 60000

static struct guard new_guard(void)
{
    struct guard g;

    guard_init(&g, &(struct guard_limits){FAST, IDLE});
    return g;
}

/* A pass at now that takes that long. */
static bool pass(struct guard *g, int64_t now_ms, int64_t took_ms, uint64_t revision, bool clean)
{
    guard_begin(g, now_ms, revision);
    assert_int_equal(guard_next_ms(g, true, true), INT64_MAX);
    return guard_end(g, now_ms + took_ms, clean ? GUARD_CLEAN : GUARD_DIRTY, false) == GUARD_RISEN;
}

static void guard_first_pass_is_at_once(void **state)
{
    struct guard g = new_guard();

    assert_int_equal(guard_next_ms(&g, false, false), 0);
}

/* What is known, and when the next pass begins after one at 100000 that took 10 ms and was clean, at revision 7. */
static void guard_cadence_table(void **state)
{
    static const struct {
        bool named, complete, wanted;
        uint64_t awaited;
        int64_t next_ms;
    } cases[] = {
        {false, true, false, 0, 100000 + IDLE},
        {true, true, false, 0, 100000 + FAST},
        {false, true, false, 7, 100000 + IDLE},
        {false, true, false, 8, 100010 + 90},
        {true, true, false, 8, 100010 + 90},
        /* It could not raise the watermark. */
        {true, false, false, 8, 100000 + FAST},
        {false, true, true, 0, 100010 + 90},
        {false, false, true, 0, 100010 + 90},
    };

    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        struct guard g = new_guard();
        assert_true(pass(&g, 100000, 10, 7, true));
        if (cases[i].wanted)
            guard_want(&g);
        guard_await(&g, cases[i].awaited);
        if (guard_next_ms(&g, cases[i].named, cases[i].complete) != cases[i].next_ms)
            fail_msg("case %zu", i);
    }
}

static void guard_rests_nine_times_as_long_as_it_took(void **state)
{
    struct guard g = new_guard();

    (void)pass(&g, 100000, 0, 7, true);
    guard_want(&g);
    assert_int_equal(guard_next_ms(&g, true, true), 100000 + 20);
    (void)pass(&g, 200000, 1000, 8, true);
    guard_want(&g);
    assert_int_equal(guard_next_ms(&g, true, true), 201000 + 9000);
    assert_int_equal(guard_next_ms(&g, true, true), 210000);
}

/* To wait for what was killed, or for a name service, costs nothing: what comes next must not live for longer by that. */
static void guard_rests_for_what_it_looked_at_alone(void **state)
{
    struct guard g = new_guard();

    guard_begin(&g, 100000, 7);
    guard_looked(&g, 100010);
    assert_int_equal(guard_end(&g, 102000, GUARD_DIRTY, false), GUARD_NOTHING);
    assert_in_range(guard_next_ms(&g, true, true), 102000 + 90, 102000 + 2 * 90);
    (void)pass(&g, 200000, 1000, 8, true);
    guard_want(&g);
    assert_int_equal(guard_next_ms(&g, true, true), 201000 + 9000);
}

static void guard_what_does_not_go_away_slows_it_down_to_the_cadence(void **state)
{
    struct guard g = new_guard();
    int64_t now = 100000, gap = 0;

    for (int i = 0; i < 20; i++) {
        assert_false(pass(&g, now, 10, 7, false));
        int64_t next = guard_next_ms(&g, true, true);
        assert_true(next - now - 10 >= gap);
        gap = next - now - 10;
        assert_true(gap <= FAST);
        now = next;
    }
    assert_int_equal(gap, FAST);
    assert_true(pass(&g, now, 10, 7, true));
    guard_want(&g);
    assert_int_equal(guard_next_ms(&g, true, true), now + 10 + 90);
}

static void guard_watermark_is_the_revision_at_the_beginning_of_a_clean_pass(void **state)
{
    struct guard g = new_guard();

    assert_false(pass(&g, 1000, 1, 5, false));
    assert_int_equal(g.watermark, 0);
    assert_true(pass(&g, 2000, 1, 6, true));
    assert_int_equal(g.watermark, 6);
    /* Not again, not back, not without knowing all up to some revision. */
    assert_false(pass(&g, 3000, 1, 6, true));
    assert_false(pass(&g, 4000, 1, 5, true));
    assert_false(pass(&g, 5000, 1, 0, true));
    assert_int_equal(g.watermark, 6);
}

static void guard_pass_counts_under_its_own_session_alone(void **state)
{
    struct guard g = new_guard();

    assert_true(pass(&g, 1000, 1, 5, true));
    guard_begin(&g, 2000, 6);
    guard_session(&g);
    assert_int_equal(g.watermark, 0);
    assert_int_equal(guard_end(&g, 2001, GUARD_CLEAN, false), GUARD_NOTHING);
    assert_int_equal(g.watermark, 0);
    /* And the next one is at once. */
    assert_true(guard_next_ms(&g, false, true) < 2100);
    assert_true(pass(&g, 2100, 1, 6, true));
}

/* What runs and must not is looked for as before, however long what may hang has hung. */
static void guard_pass_that_hangs_is_followed_by_another_soon(void **state)
{
    struct guard g = new_guard();

    for (int64_t now = 100000; now < 1000000; now = guard_next_ms(&g, true, true)) {
        guard_begin(&g, now, 7);
        guard_hung(&g, now + 60000);
        assert_in_range(guard_next_ms(&g, true, true), now + 60020, now + 60000 + FAST);
    }
    assert_int_equal(g.watermark, 0);
}

/* ---- walks ---- */

/* A clean pass at now that took 10 ms, while what has retired is still to be walked for. */
static unsigned pass_before_walk(struct guard *g, int64_t now_ms, uint64_t revision)
{
    guard_begin(g, now_ms, revision);
    return guard_end(g, now_ms + 10, GUARD_CLEAN, true);
}

/* The first pass after a walk that has ended clean. */
static bool pass_after_walk(struct guard *g, int64_t now_ms, enum guard_verdict verdict)
{
    bool counts;

    guard_begin(g, now_ms, 7);
    counts = guard_walk_counts(g, verdict);
    (void)guard_end(g, now_ms + 10, verdict, !counts);
    return counts;
}

/* And the walk behind it has begun. */
static struct guard new_walk(void)
{
    struct guard g = new_guard();

    assert_int_equal(pass_before_walk(&g, 100000, 7), GUARD_WALK);
    guard_walk_begin(&g, 100010);
    return g;
}

static void guard_walk_brings_the_watermark_of_the_pass_before_it(void **state)
{
    struct guard g = new_walk();

    assert_int_equal(g.watermark, 0);
    assert_int_equal(pass_before_walk(&g, 105000, 9), GUARD_NOTHING);
    assert_true(guard_walk_end(&g, 110000, true));
    assert_int_equal(g.watermark, 0);
    /* Another pass is to say so, at once. */
    assert_int_equal(guard_next_ms(&g, false, true), 105010 + 90);
    assert_int_equal(pass_before_walk(&g, 110010, 9), GUARD_RISEN);
    assert_int_equal(g.watermark, 7);
    /* It was of nothing that retired later. */
    assert_int_equal(pass_before_walk(&g, 300000, 9), GUARD_WALK);
    guard_walk_begin(&g, 300010);
    assert_true(guard_walk_end(&g, 300020, true));
    guard_begin(&g, 300030, 12);
    assert_true(guard_walk_counts(&g, GUARD_CLEAN));
    /* Nothing else has retired. */
    assert_int_equal(guard_end(&g, 300040, GUARD_CLEAN, false), GUARD_RISEN);
    assert_int_equal(g.watermark, 12);
}

/* It may have found something that it is about to end, or have looked before that was there. */
static void guard_walk_is_not_confirmed_by_a_pass_that_began_before_its_end(void **state)
{
    struct guard g = new_walk();

    guard_begin(&g, 105000, 9);
    assert_true(guard_walk_end(&g, 105005, true));
    assert_false(guard_walk_counts(&g, GUARD_CLEAN));
    assert_int_equal(guard_end(&g, 105010, GUARD_CLEAN, true), GUARD_NOTHING);
    assert_int_equal(g.watermark, 0);
    assert_true(pass_after_walk(&g, 105100, GUARD_CLEAN));
    assert_int_equal(g.watermark, 7);

    g = new_walk();
    guard_begin(&g, 105000, 9);
    assert_true(guard_walk_end(&g, 105005, true));
    assert_int_equal(guard_end(&g, 105010, GUARD_DIRTY, true), GUARD_NOTHING);
    assert_false(pass_after_walk(&g, 105100, GUARD_CLEAN));
    assert_int_equal(g.watermark, 0);
}

static void guard_walk_waits_for_a_pass_that_proves_something(void **state)
{
    struct guard g = new_walk();

    assert_true(guard_walk_end(&g, 110000, true));
    assert_false(pass_after_walk(&g, 110100, GUARD_HELD));
    assert_int_equal(g.watermark, 0);
    assert_true(pass_after_walk(&g, 110200, GUARD_CLEAN));
    assert_int_equal(g.watermark, 7);
}

/* Of what is found by passes a walk has no blame. */
static void guard_walk_for_nothing_rests_as_long_as_it_took(void **state)
{
    struct guard g = new_walk();

    assert_true(guard_walk_end(&g, 160010, true)); /* a minute */
    assert_false(pass_after_walk(&g, 160100, GUARD_DIRTY));
    assert_int_equal(pass_before_walk(&g, 219999, 9), GUARD_NOTHING);
    assert_int_equal(pass_before_walk(&g, 220000, 9), GUARD_WALK);
    assert_int_equal(g.watermark, 0);
}

static void guard_walk_that_takes_long_keeps_no_pass_waiting(void **state)
{
    struct guard g = new_walk();

    guard_await(&g, 7);
    for (int64_t now = 105000; now < 700000; now += FAST) {
        assert_int_equal(guard_next_ms(&g, true, true), now);
        assert_int_equal(pass_before_walk(&g, now, 8), GUARD_NOTHING);
    }
    /* Nor does its rest, while nothing that is awaited would come of a pass. */
    assert_false(guard_walk_end(&g, 702000, false));
    assert_int_equal(guard_next_ms(&g, true, true), 700000);
    assert_int_equal(pass_before_walk(&g, 705000, 8), GUARD_NOTHING);
    assert_int_equal(pass_before_walk(&g, 701980 + INT64_C(601990) * 9, 8), GUARD_NOTHING);
    assert_int_equal(pass_before_walk(&g, 702000 + INT64_C(601990) * 9, 8), GUARD_WALK);
}

static void guard_walk_that_hangs_keeps_no_pass_waiting(void **state)
{
    struct guard g = new_walk();

    guard_await(&g, 7);
    guard_walk_hung(&g, 160000);
    assert_int_equal(g.watermark, 0);
    assert_int_equal(pass_before_walk(&g, 160000, 8), GUARD_NOTHING);
    assert_int_equal(guard_next_ms(&g, true, true), 160000 + FAST);
    assert_int_equal(pass_before_walk(&g, 165000, 8), GUARD_WALK);
    guard_walk_hung(&g, 165010);
    /* What it hung at answers again. */
    guard_walk_want(&g);
    assert_int_equal(guard_next_ms(&g, true, true), 165010 + 90);
    assert_int_equal(pass_before_walk(&g, 165100, 8), GUARD_WALK);
}

static void guard_walk_counts_for_nothing_when_a_pass_meanwhile_found_something(void **state)
{
    struct guard g = new_walk();

    assert_false(pass(&g, 105000, 10, 7, false));
    assert_false(guard_walk_end(&g, 110000, true));
    assert_int_equal(g.watermark, 0);
}

static void guard_walk_counts_under_its_own_session_alone(void **state)
{
    struct guard g = new_walk();

    guard_session(&g);
    assert_int_equal(pass_before_walk(&g, 105000, 8), GUARD_NOTHING);
    assert_false(guard_walk_end(&g, 110000, true));
    assert_int_equal(g.watermark, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(guard_first_pass_is_at_once),
        cmocka_unit_test(guard_cadence_table),
        cmocka_unit_test(guard_rests_nine_times_as_long_as_it_took),
        cmocka_unit_test(guard_rests_for_what_it_looked_at_alone),
        cmocka_unit_test(guard_what_does_not_go_away_slows_it_down_to_the_cadence),
        cmocka_unit_test(guard_watermark_is_the_revision_at_the_beginning_of_a_clean_pass),
        cmocka_unit_test(guard_pass_counts_under_its_own_session_alone),
        cmocka_unit_test(guard_pass_that_hangs_is_followed_by_another_soon),
        cmocka_unit_test(guard_walk_brings_the_watermark_of_the_pass_before_it),
        cmocka_unit_test(guard_walk_is_not_confirmed_by_a_pass_that_began_before_its_end),
        cmocka_unit_test(guard_walk_waits_for_a_pass_that_proves_something),
        cmocka_unit_test(guard_walk_for_nothing_rests_as_long_as_it_took),
        cmocka_unit_test(guard_walk_that_takes_long_keeps_no_pass_waiting),
        cmocka_unit_test(guard_walk_that_hangs_keeps_no_pass_waiting),
        cmocka_unit_test(guard_walk_counts_for_nothing_when_a_pass_meanwhile_found_something),
        cmocka_unit_test(guard_walk_counts_under_its_own_session_alone),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
