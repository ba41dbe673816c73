#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "common/json_read.h"

static struct json_node *document(const char *text)
{
    struct json_node *node = NULL;

    assert_int_equal(json_read(text, strlen(text), &node), 0);
    return node;
}

static void json_read_refuses_what_is_no_document(void **state)
{
    static const char *const bad[] = {
        "",
        " ",
        "{",
        "}",
        "1",
        "\"text\"",
        "null",
        "{} {}",
        "{}x",
        "{\"a\":1,}",
        "{\"a\":1,\"a\":2}",
        "{\"a\":\"\\u0000\"}",
        "{\"\\u0000\":1}",
        "{\"a\":\"\xff\"}",
        "{\"a\":\"\n\"}",
        "{\"a\":9223372036854775808}",
        "{\"a\":1e999}",
        "{a:1}",
        "{'a':1}",
        "[1,2",
    };
    struct json_node *node = NULL;

    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        if (json_read(bad[i], strlen(bad[i]), &node) != -EINVAL)
            fail_msg("taken: %s", bad[i]);
        assert_null(node);
    }
    assert_int_equal(json_read("{}\0", 3, &node), -EINVAL);
    /* Only so many bytes are looked at. */
    assert_int_equal(json_read("{}x", 2, &node), 0);
    json_node_free(node);
}

static void json_read_bounds_the_depth(void **state)
{
    static char text[8192];
    struct json_node *node = NULL;

    memset(text, '[', sizeof(text));
    assert_int_equal(json_read(text, sizeof(text), &node), -EINVAL);
}

static void json_node_values_are_what_they_are_asked_for_or_not_there(void **state)
{
    AUTO(json_node_free)
    struct json_node *node = document(
        "{\"s\":\"gr\\u00fc\\u00df\",\"n\":4294967295,\"z\":0,\"m\":-1,\"r\":1.0,\"t\":true,"
        "\"f\":false,\"x\":null,\"o\":{\"k\":[]},\"max\":9223372036854775807}");
    const char *text = NULL;
    uint64_t number = 7;
    bool flag = false;

    assert_true(json_node_is_object(node));
    assert_true(json_node_string(json_node_member(node, "s"), &text));
    assert_string_equal(text, "gr\xc3\xbc\xc3\x9f");
    assert_true(json_node_u64(json_node_member(node, "n"), &number));
    assert_int_equal(number, 4294967295u);
    assert_true(json_node_u64(json_node_member(node, "max"), &number));
    assert_int_equal(number, INT64_MAX);
    assert_true(json_node_u64(json_node_member(node, "z"), &number));
    assert_int_equal(number, 0);
    assert_false(json_node_u64(json_node_member(node, "m"), &number));
    assert_false(json_node_u64(json_node_member(node, "r"), &number));
    assert_false(json_node_u64(json_node_member(node, "s"), &number));
    assert_true(json_node_bool(json_node_member(node, "t"), &flag));
    assert_true(flag);
    assert_true(json_node_bool(json_node_member(node, "f"), &flag));
    assert_false(flag);
    assert_false(json_node_bool(json_node_member(node, "z"), &flag));
    assert_true(json_node_is_null(json_node_member(node, "x")));
    assert_false(json_node_is_null(json_node_member(node, "f")));
    assert_true(json_node_is_object(json_node_member(node, "o")));
    assert_false(json_node_is_object(json_node_member(json_node_member(node, "o"), "k")));
    assert_false(json_node_string(json_node_member(node, "n"), &text));
}

static void json_node_of_nothing_is_nothing(void **state)
{
    AUTO(json_node_free) struct json_node *node = document("[{\"a\":1}]");
    const char *text;
    uint64_t number;
    bool flag;

    assert_null(json_node_member(node, "a"));
    assert_null(json_node_member(NULL, "a"));
    assert_null(json_node_next(NULL, NULL));
    assert_null(json_node_next(node, NULL));
    assert_false(json_node_is_object(NULL) || json_node_is_null(NULL));
    assert_false(json_node_string(NULL, &text) || json_node_u64(NULL, &number) ||
                 json_node_bool(NULL, &flag));
    json_node_free(NULL);
}

static void json_node_keys_come_in_their_order(void **state)
{
    AUTO(json_node_free) struct json_node *node = document("{\"z\":1,\"a\":{},\"m\":null}");
    static const char *const keys[] = {"z", "a", "m"};
    const char *key = NULL;

    for (size_t i = 0; i < 3; i++) {
        key = json_node_next(node, key);
        assert_string_equal(key, keys[i]);
    }
    assert_null(json_node_next(node, key));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(json_read_refuses_what_is_no_document),
        cmocka_unit_test(json_read_bounds_the_depth),
        cmocka_unit_test(json_node_values_are_what_they_are_asked_for_or_not_there),
        cmocka_unit_test(json_node_of_nothing_is_nothing),
        cmocka_unit_test(json_node_keys_come_in_their_order),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
