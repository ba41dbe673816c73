#include "common/address.h"

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

static void address_forms_are_taken(void **state)
{
    static const struct {
        const char *text, *host, *port, *again;
    } cases[] = {
        {"ctl1:7623", "ctl1", "7623", "ctl1:7623"},
        {"ctl1", "ctl1", "7623", "ctl1:7623"},
        {"ctl1.example.org:1", "ctl1.example.org", "1", "ctl1.example.org:1"},
        {"192.0.2.1:65535", "192.0.2.1", "65535", "192.0.2.1:65535"},
        {"[::1]:80", "::1", "80", "[::1]:80"},
        {"[fe80::1%eth0]", "fe80::1%eth0", "7623", "[fe80::1%eth0]:7623"},
        {"*:7623", "*", "7623", "*:7623"},
        {"*", "*", "7623", "*:7623"},
    };
    struct address address;
    char text[ADDRESS_TEXT_BUF];

    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        assert_int_equal(address_parse(cases[i].text, true, &address, NULL), 0);
        assert_string_equal(address.host, cases[i].host);
        assert_string_equal(address.port, cases[i].port);
        assert_string_equal(address_format(&address, text), cases[i].again);
    }
}

static void address_of_another_form_is_refused_by_name(void **state)
{
    static const char *const bad[] = {
        "",        ":7623",       "ctl1:",    "ctl1:0",  "ctl1:65536", "ctl1:x",  "ctl1:+1",
        "ctl1:1 ", "::1",         "::1:7623", "[::1",    "[::1]7623",  "[]:7623", "[ctl1]:7623",
        "a b:1",   "ctl1:7623:1", "*x:1",     "unix:/x", "a/b:1",      "a\n:1",   "*:7623",
    };
    struct address address;
    char longest[ADDRESS_HOST_MAX + 2];

    (void)state;
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        struct err err = {{0}};

        if (address_parse(bad[i], false, &address, &err) != -EINVAL)
            fail_msg("\"%s\" was taken", bad[i]);
        assert_string_not_equal(err.text, "");
    }
    memset(longest, 'a', sizeof longest);
    longest[ADDRESS_HOST_MAX + 1] = '\0';
    assert_int_equal(address_parse(longest, false, &address, NULL), -EINVAL);
    longest[ADDRESS_HOST_MAX] = '\0';
    assert_int_equal(address_parse(longest, false, &address, NULL), 0);
}

static void address_of_a_server_is_a_socket_or_a_host(void **state)
{
    static const char *const good[] = {"unix:/run/xce/leased.sock", "ctl1:7623", "ctl1", "[::1]"};
    static const char *const bad[] = {"", "unix:", "unix:run", "/run/x", "http://ctl1:1", "*:7623"};
    char longest[200];

    (void)state;
    for (size_t i = 0; i < sizeof good / sizeof *good; i++)
        assert_int_equal(address_check_server(good[i], NULL), 0);
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        struct err err = {{0}};

        if (address_check_server(bad[i], &err) != -EINVAL)
            fail_msg("\"%s\" was taken", bad[i]);
        assert_string_not_equal(err.text, "");
    }
    (void)snprintf(longest, sizeof longest, "unix:/%0107d", 0);
    assert_int_equal(address_check_server(longest, NULL), -EINVAL);
    longest[strlen(longest) - 1] = '\0';
    assert_int_equal(address_check_server(longest, NULL), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(address_of_a_server_is_a_socket_or_a_host),
        cmocka_unit_test(address_forms_are_taken),
        cmocka_unit_test(address_of_another_form_is_refused_by_name),
    };
    return cmocka_run_group_tests_name("address", tests, NULL, NULL);
}
