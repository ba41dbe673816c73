#include <errno.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "common/json.h"

/* What value prints as; value is freed. */
static const char *printed(struct json *value, enum json_style style)
{
    static char text[1024];
    struct buf buf;

    buf_init_fixed(&buf, text, sizeof(text));
    assert_int_equal(json_print(value, style, &buf), 0);
    json_free(value);
    return text;
}

static void json_numbers_are_exact(void **state)
{
    assert_string_equal(printed(json_new_u64(0), JSON_LINE), "0");
    assert_string_equal(printed(json_new_u64(INT64_MAX), JSON_LINE), "9223372036854775807");
    assert_string_equal(printed(json_new_u64((uint64_t)INT64_MAX + 1), JSON_LINE),
                        "9223372036854775808");
    assert_string_equal(printed(json_new_u64(UINT64_MAX), JSON_LINE), "18446744073709551615");
    assert_string_equal(printed(json_new_i64(INT64_MIN), JSON_LINE), "-9223372036854775808");
    assert_string_equal(printed(json_new_i64(-1), JSON_LINE), "-1");
    assert_string_equal(printed(json_new_double(0.5), JSON_LINE), "0.5");
    assert_string_equal(printed(json_new_double(NAN), JSON_LINE), "null");
    assert_string_equal(printed(json_new_double(INFINITY), JSON_LINE), "null");
}

static void json_strings_are_always_valid(void **state)
{
    static const struct {
        const char *bytes;
        size_t len;
        const char *out;
    } rows[] = {
        {"", 0, "\"\""},
        {"plain", 5, "\"plain\""},
        {"gr\xc3\xbc\xc3\x9f", 6, "\"gr\xc3\xbc\xc3\x9f\""},
        {"a\"b\\c", 5, "\"a\\\"b\\\\c\""},
        {"a\nb\tc\x1b\x7f", 7, "\"a\\nb\\u0009c\\u001b\\u007f\""},
        {"a\0b", 3, "\"a\\u0000b\""},
        {"\xff", 1, "\"\xef\xbf\xbd\""},
        {"a\xffz\xc3", 4, "\"a\xef\xbf\xbdz\xef\xbf\xbd\""},
        {"\xed\xa0\x80", 3, "\"\xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbd\""},
        {"\xe2\x82\n", 3, "\"\xef\xbf\xbd\xef\xbf\xbd\\n\""},
    };
    size_t i;

    for (i = 0; i < ARRAY_LEN(rows); i++)
        assert_string_equal(printed(json_new_bytes(rows[i].bytes, rows[i].len), JSON_LINE),
                            rows[i].out);
    assert_string_equal(printed(json_new_string(NULL), JSON_LINE), "null");
    assert_string_equal(printed(json_new_string("x"), JSON_LINE), "\"x\"");
}

static struct json *lease(void)
{
    struct json *lease = json_new_object(), *nodes = json_new_array();

    json_set_u64(lease, "lease", 12);
    json_set_string(lease, "job", NULL);
    json_append(nodes, json_new_string("n1"));
    json_append(nodes, json_new_string("n2"));
    json_set(lease, "nodes", nodes);
    json_set_bool(lease, "quarantined", false);
    json_set(lease, "reasons", json_new_array());
    json_set_time(lease, "expires", 1000);
    json_set_time(lease, "never", 0);
    json_set_i64(lease, "a", -5);
    json_set(lease, "empty", json_new_object());
    json_set_u64(lease, "revision", UINT64_MAX);
    return lease;
}

static void json_print_keeps_the_order_of_keys(void **state)
{
    assert_string_equal(printed(lease(), JSON_LINE),
                        "{\"lease\": 12, \"job\": null, \"nodes\": [\"n1\", \"n2\"], "
                        "\"quarantined\": false, \"reasons\": [], "
                        "\"expires\": \"1970-01-01T00:00:01.000Z\", \"never\": null, \"a\": -5, "
                        "\"empty\": {}, \"revision\": 18446744073709551615}");
}

static void json_print_pretty_indents(void **state)
{
    assert_string_equal(printed(lease(), JSON_PRETTY),
                        "{\n  \"lease\": 12,\n  \"job\": null,\n  \"nodes\": [\n    \"n1\",\n"
                        "    \"n2\"\n  ],\n  \"quarantined\": false,\n  \"reasons\": [],\n"
                        "  \"expires\": \"1970-01-01T00:00:01.000Z\",\n  \"never\": null,\n"
                        "  \"a\": -5,\n  \"empty\": {},\n  \"revision\": 18446744073709551615\n}");
}

static void json_failed_builder_spoils_what_takes_it(void **state)
{
    struct json *outer = json_new_object(), *array = json_new_array(), *inner = json_new_array();
    struct buf buf = BUF_INIT(100);

    json_append(inner, NULL);
    json_append(array, inner);
    json_set(outer, "list", array);
    assert_int_equal(json_print(outer, JSON_LINE, &buf), -ENOMEM);
    assert_int_equal(json_print(NULL, JSON_LINE, &buf), -ENOMEM);
    json_free(outer);
    json_free(NULL);
    json_set(NULL, "a", json_new_u64(1));
    json_set_u64(NULL, "a", UINT64_MAX);
    json_append(NULL, json_new_string("x"));
    buf_done(&buf);
}

static void json_print_over_the_limit_says_so(void **state)
{
    struct json *value = lease();
    struct buf buf = BUF_INIT(20);

    assert_int_equal(json_print(value, JSON_LINE, &buf), -ENOBUFS);
    buf_done(&buf);
    json_free(value);
}

static void json_write_ends_with_newline_and_reports_errors(void **state)
{
    struct json *value = json_error("not-found", "no lease \"x\"");
    char *text = NULL;
    size_t len = 0;
    FILE *file = open_memstream(&text, &len);

    assert_int_equal(json_write(value, JSON_LINE, file), 0);
    fclose(file);
    assert_string_equal(
        text, "{\"error\": {\"code\": \"not-found\", \"message\": \"no lease \\\"x\\\"\"}}\n");
    free(text);
    file = fopen("/dev/full", "w");
    assert_non_null(file);
    assert_int_equal(json_write(value, JSON_LINE, file), -ENOSPC);
    fclose(file);
    json_free(value);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(json_numbers_are_exact),
        cmocka_unit_test(json_strings_are_always_valid),
        cmocka_unit_test(json_print_keeps_the_order_of_keys),
        cmocka_unit_test(json_print_pretty_indents),
        cmocka_unit_test(json_failed_builder_spoils_what_takes_it),
        cmocka_unit_test(json_print_over_the_limit_says_so),
        cmocka_unit_test(json_write_ends_with_newline_and_reports_errors),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
