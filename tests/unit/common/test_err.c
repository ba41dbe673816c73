#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "common/err.h"

static void err_set_names_and_escapes(void **state)
{
    struct err err = {0};

    assert_int_equal(err_set(&err, -ENOENT, "no \"%s\"", "a\x1b[0m\n\xff"), -ENOENT);
    assert_string_equal(err.text, "no \"a\\x1b[0m\\x0a\\xff\"");
    assert_int_equal(err_set(NULL, 7, "%s", "x"), 7);
    assert_int_equal(err_set(&err, -EINVAL, "%s", "plain \\x1b stays"), -EINVAL);
    assert_string_equal(err.text, "plain \\x1b stays");
    /* What it says already may be part of the new. */
    err_set(&err, 0, "more: %s", err.text);
    assert_string_equal(err.text, "more: plain \\x1b stays");
    assert_int_equal(err_prefix(&err, -EIO, "file %d", 3), -EIO);
    assert_string_equal(err.text, "file 3: more: plain \\x1b stays");
}

static void err_set_too_long_ends_in_dots(void **state)
{
    struct err err = {0};
    int saved;

    errno = EXDEV;
    err_set(&err, 0, "%0*d", 2000, 1);
    saved = errno;
    assert_int_equal(saved, EXDEV);
    assert_int_equal(strlen(err.text), ERR_TEXT_MAX);
    assert_string_equal(err.text + ERR_TEXT_MAX - 3, "...");
    err_prefix(&err, 0, "%0*d", 3000, 1);
    assert_true(strlen(err.text) <= ERR_TEXT_MAX);
}

static void err_names_are_those_of_errno(void **state)
{
    assert_string_equal(err_name(-ENOSPC), "ENOSPC");
    assert_string_equal(err_name(ENOSPC), "ENOSPC");
    assert_string_equal(err_name(0), "0");
    assert_string_equal(err_name(-99999), "EUNKNOWN");
    assert_string_equal(err_text(-ENOSPC), "No space left on device");
    assert_string_equal(err_text(-99999), "Unknown error");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(err_set_names_and_escapes),
        cmocka_unit_test(err_set_too_long_ends_in_dots),
        cmocka_unit_test(err_names_are_those_of_errno),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
