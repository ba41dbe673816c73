/* The process-wide map, with its slots laid open: what happens in states that cannot be brought about from outside. */
#define XCE_MAP_PATH nss_test_path
static char nss_test_path[96];
#include "nss_xce/cache.c"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

#include "tests/lib/map_fixture.h"

#define BASE FIXTURE_BASE

static int setup(void **state)
{
    struct map_fixture *f = malloc(sizeof(*f));

    fixture_begin(f);
    fixture_start(f);
    fixture_shape(f, 16);
    (void)snprintf(nss_test_path, sizeof(nss_test_path), "%s", f->path);
    fixture_set(f, BASE, 1);
    failed_ms = 0;
    looked_s = 0;
    *state = f;
    return 0;
}

static int teardown(void **state)
{
    fixture_end(*state);
    free(*state);
    return 0;
}

static int n_claimed(void)
{
    int n = 0;

    for (int i = 0; i < N_SLOTS; i++)
        n += (int)slots[i].claimed;
    return n;
}

static void cache_uses_one_slot_at_a_time(void **state)
{
    struct map_fixture *f = *state;
    struct map_entry e;

    for (uint32_t i = 1; i < 100; i++) {
        fixture_shape(f, 16 + i);
        assert_true(cache_find_uid(BASE, 0, &e));
        assert_int_equal(n_claimed(), 1);
    }
}

/* Children of fork that lost the threads that had claimed them. */
static void cache_without_slots_maps_for_itself(void **state)
{
    struct map_fixture *f = *state;
    struct map_entry e;

    assert_true(cache_find_uid(BASE, 0, &e));
    for (int i = 0; i < N_SLOTS; i++)
        slots[i].claimed = 1;
    fixture_shape(f, 99);
    for (uint32_t i = 2; i < 10; i++) {
        fixture_set(f, BASE, i);
        assert_true(cache_find_uid(BASE, 0, &e));
        assert_int_equal(e.record.epoch, i);
        assert_true(cache_find_name(map_name(&e), 0, &e));
        assert_true(cache_next(0, 0, &e));
    }
    assert_false(cache_find_uid(BASE + 1, 0, &e));
    for (int i = 0; i < N_SLOTS; i++)
        slots[i].claimed = &slots[i] == current;
}

/* A thread that had looked a record's place up before its map was replaced reads on: zeros, and it is told. */
static void cache_late_reader_sees_that_its_map_went(void **state)
{
    struct map_fixture *f = *state;
    struct map_entry e;
    struct view late;

    assert_true(cache_find_uid(BASE, 0, &e));
    assert_true(view_current(&late));
    assert_true(view_held(&late));
    fixture_shape(f, 77);
    assert_true(cache_find_uid(BASE, 0, &e));
    assert_int_not_equal(map_find_uid(&late.map, BASE, 0, &e), 0);
    assert_int_not_equal(map_find_name(&late.map, "xce-1w00000-1", 0, &e), 0);
    assert_false(view_held(&late));
}

static void cache_grown_map_gets_a_larger_region(void **state)
{
    struct map_fixture *f = *state;
    struct map_entry e;

    for (uint32_t n = 1000; n < 200000; n += n / 2) {
        fixture_shape(f, n);
        fixture_set(f, BASE + n - 1, 1);
        assert_true(cache_find_uid(BASE + n - 1, 0, &e));
        assert_true(current->capacity >= current->size);
        assert_true(current->capacity < 4 * current->size || current->capacity == REGION_MIN);
    }
    fixture_shape(f, 10);
    assert_true(cache_find_uid(BASE, 0, &e));
    assert_false(cache_find_uid(BASE + 11, 0, &e));
}

static void cache_names_that_cannot_be_ours_open_nothing(void **state)
{
    static const char *const no[] = {"",
                                     "root",
                                     "x",
                                     "-",
                                     "--",
                                     "a-",
                                     "a--",
                                     "a-1",
                                     "a-1-",
                                     "a--1",
                                     "A-1-1",
                                     "1-1-1",
                                     "a-b-c-d",
                                     "www-data",
                                     "a-01-1",
                                     "a-1-1-1",
                                     "-1-1",
                                     "a_-1-1",
                                     "abcdefghijklmnop-1-1",
                                     "xce-1w00000-1xce-1w00000-1xce-1w"};
    static const char *const yes[] = {"a-1-1", "xce-1w00000-1", "abcdefghijklmno-3zzzzzz-3zzzzzz"};

    (void)state;
    for (size_t i = 0; i < sizeof(no) / sizeof(no[0]); i++)
        if (name_possible(no[i]))
            fail_msg("\"%s\" is taken for one of ours", no[i]);
    for (size_t i = 0; i < sizeof(yes) / sizeof(yes[0]); i++)
        assert_true(name_possible(yes[i]));
    assert_true(map_reserved(0, 0));
    assert_true(map_reserved(65534, 65534));
    assert_true(map_reserved(UINT32_MAX, UINT32_MAX));
    assert_true(map_reserved(524288, 524288));
    assert_false(map_reserved(BASE, BASE));
    assert_false(map_reserved(70000, 70000));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(cache_uses_one_slot_at_a_time, setup, teardown),
        cmocka_unit_test_setup_teardown(cache_without_slots_maps_for_itself, setup, teardown),
        cmocka_unit_test_setup_teardown(cache_late_reader_sees_that_its_map_went, setup, teardown),
        cmocka_unit_test_setup_teardown(cache_grown_map_gets_a_larger_region, setup, teardown),
        cmocka_unit_test(cache_names_that_cannot_be_ours_open_nothing),
    };

    if (fixture_cannot_run())
        return 77;
    return cmocka_run_group_tests(tests, NULL, NULL);
}
