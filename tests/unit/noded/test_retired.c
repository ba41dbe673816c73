/* What is walked for, and when it is done with. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "noded/retired.h"

static bool all(uint32_t uid, void *arg)
{
    (void)uid;
    (void)arg;
    return true;
}

static bool but(uint32_t uid, void *arg)
{
    return uid != *(uint32_t *)arg;
}

static void retired_is_wanted_from_the_first_time_on(void **state)
{
    struct retired_list list = {0};

    (void)state;
    retired_add(&list, 10);
    assert_false(retired_wanted(&list, 0));
    assert_true(retired_wanted(&list, 1));
    /* Told again while a pass runs that began when it had been told once: that has to wait all the same. */
    retired_add(&list, 10);
    retired_tidy(&list, all, NULL);
    assert_int_equal(list.n, 1);
    assert_true(retired_wanted(&list, 1));
    retired_done(&list);
}

static void retired_anew_is_walked_for_anew(void **state)
{
    struct retired_list list = {0};

    (void)state;
    retired_add(&list, 10);
    retired_add(&list, 20);
    retired_add(&list, 10);
    retired_tidy(&list, all, NULL);
    retired_walked(&list, 2);
    assert_int_equal(list.n, 1);
    assert_true(retired_has(&list, 10));
    assert_false(retired_wanted(&list, 2));
    assert_true(retired_wanted(&list, 3));
    /* Told twice between two walks, and neither is mended yet. */
    retired_add(&list, 10);
    retired_tidy(&list, all, NULL);
    assert_true(retired_wanted(&list, 3));
    retired_walked(&list, 3);
    assert_true(retired_wanted(&list, 4));
    retired_walked(&list, 4);
    assert_int_equal(list.n, 0);
    retired_done(&list);
}

static void retired_that_nobody_waits_for_goes(void **state)
{
    struct retired_list list = {0};
    uint32_t gone = 20;

    (void)state;
    retired_add(&list, 30);
    retired_add(&list, 20);
    retired_add(&list, 20);
    retired_add(&list, 10);
    retired_tidy(&list, but, &gone);
    assert_int_equal(list.n, 2);
    assert_int_equal(list.items[0].uid, 10);
    assert_int_equal(list.items[1].uid, 30);
    assert_false(retired_has(&list, 20));
    retired_done(&list);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(retired_is_wanted_from_the_first_time_on),
        cmocka_unit_test(retired_anew_is_walked_for_anew),
        cmocka_unit_test(retired_that_nobody_waits_for_goes),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
