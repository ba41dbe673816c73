/* Calls and replies of Varlink: what is one, what is none. */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "userdb/varlink.h"

static void varlink_call_is_read(void **state)
{
    static const struct {
        const char *text, *method;
        bool parameters, more, oneway;
    } rows[] = {
        {"{\"method\":\"a.B\"}", "a.B", false, false, false},
        {"{\"method\":\"a.B\",\"parameters\":{}}", "a.B", true, false, false},
        {"{\"method\":\"a.B\",\"parameters\":null}", "a.B", false, false, false},
        {" {\"parameters\":{\"x\":1},\"more\":true,\"method\":\"\"} ", "", true, true, false},
        {"{\"method\":\"a.B\",\"more\":false,\"oneway\":true}", "a.B", false, false, true},
        {"{\"method\":\"a.B\",\"more\":null,\"oneway\":null}", "a.B", false, false, false},
        {"{\"method\":\"a.B\",\"upgrade\":true,\"later\":[1]}", "a.B", false, false, false},
    };

    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        AUTO(varlink_call_done) struct varlink_call call = {0};

        assert_int_equal(varlink_call_read(rows[i].text, strlen(rows[i].text), &call), 0);
        assert_string_equal(call.method, rows[i].method);
        assert_int_equal(call.parameters != NULL, rows[i].parameters);
        assert_int_equal(call.more, rows[i].more);
        assert_int_equal(call.oneway, rows[i].oneway);
    }
}

static void varlink_call_of_another_form_is_refused(void **state)
{
    static const char *const bad[] = {
        "",
        "x",
        "[]",
        "{}",
        "\"method\"",
        "{\"method\":1}",
        "{\"method\":null}",
        "{\"Method\":\"a.B\"}",
        "{\"method\":\"a.B\",\"parameters\":[]}",
        "{\"method\":\"a.B\",\"parameters\":\"x\"}",
        "{\"method\":\"a.B\",\"more\":1}",
        "{\"method\":\"a.B\",\"oneway\":\"true\"}",
        "{\"method\":\"a.B\",\"method\":\"a.C\"}",
        "{\"method\":\"a.B\"}{\"method\":\"a.B\"}",
    };
    struct varlink_call call = {0};

    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
        if (varlink_call_read(bad[i], strlen(bad[i]), &call) != -EBADMSG)
            fail_msg("taken: %s", bad[i]);
    assert_null(call.document);
}

static void varlink_interface_ends_at_the_last_dot(void **state)
{
    assert_int_equal(varlink_interface_len("io.systemd.UserDatabase.GetUserRecord"), 23);
    assert_int_equal(varlink_interface_len("a."), 1);
    assert_int_equal(varlink_interface_len(".a"), 0);
    assert_int_equal(varlink_interface_len("a"), 0);
    assert_int_equal(varlink_interface_len(""), 0);
}

static void varlink_replies_end_in_nul(void **state)
{
    static const char expected[] = "{\"parameters\": {\"a\": true}, \"continues\": true}\0"
                                   "{\"parameters\": {}}\0"
                                   "{\"error\": \"a.B\", \"parameters\": {}}\0"
                                   "{\"error\": \"a.B\", \"parameters\": {\"k\": \"\\u0001\"}}";
    AUTO(buf_done) struct buf out = BUF_INIT(4096);
    struct json *parameters = json_new_object();

    json_set_bool(parameters, "a", true);
    varlink_reply(&out, parameters, true);
    varlink_reply(&out, json_new_object(), false);
    varlink_error(&out, "a.B");
    varlink_error_about(&out, "a.B", "k", "\001");
    assert_int_equal(buf_error(&out), 0);
    assert_int_equal(out.len, sizeof(expected));
    assert_memory_equal(out.data, expected, sizeof(expected));
}

static void varlink_reply_that_is_not_whole_spoils_the_stream(void **state)
{
    AUTO(buf_done) struct buf out = BUF_INIT(4096), small = BUF_INIT(16);

    varlink_reply(&out, NULL, false);
    assert_int_equal(buf_error(&out), -ENOMEM);
    varlink_error(&small, "a.B");
    assert_int_equal(buf_error(&small), -ENOBUFS);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(varlink_call_is_read),
        cmocka_unit_test(varlink_call_of_another_form_is_refused),
        cmocka_unit_test(varlink_interface_ends_at_the_last_dot),
        cmocka_unit_test(varlink_replies_end_in_nul),
        cmocka_unit_test(varlink_reply_that_is_not_whole_spoils_the_stream),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
