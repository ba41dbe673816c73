#include "common/net/grpc_text.h"

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static void grpc_timeout_parse_accepts(void **state)
{
    static const struct {
        const char *text;
        int64_t ms;
    } table[] = {
        {"0m", 0},
        {"1m", 1},
        {"99999999m", 99999999},
        {"5S", 5000},
        {"2M", 120000},
        {"1H", 3600000},
        {"99999999H", 99999999 * INT64_C(3600000)},
        {"1u", 1},
        {"1000u", 1},
        {"1001u", 2},
        {"1n", 1},
        {"1000000n", 1},
        {"1000001n", 2},
        {"0n", 0},
        {"00000010m", 10},
    };

    (void)state;
    for (size_t i = 0; i < sizeof table / sizeof *table; i++) {
        int64_t ms = -1;

        assert_int_equal(grpc_timeout_parse(table[i].text, strlen(table[i].text), &ms), 0);
        assert_int_equal(ms, table[i].ms);
    }
}

static void grpc_timeout_parse_rejects(void **state)
{
    static const char *const table[] = {"",     "m",    "1",   "123456789m", "1s",
                                        "1h",   "-1m",  "+1m", " 1m",        "1m ",
                                        "1.5S", "0x1m", "1mm", "1000",       "1 000m"};

    (void)state;
    for (size_t i = 0; i < sizeof table / sizeof *table; i++) {
        int64_t ms;

        assert_int_equal(grpc_timeout_parse(table[i], strlen(table[i]), &ms), -EINVAL);
    }
}

static void grpc_timeout_format_is_read_back_never_shorter(void **state)
{
    static const int64_t table[] = {0,         1,         999,         10000,        99999999,
                                    100000000, 100000001, 99999999000, INT64_MAX / 2};

    (void)state;
    for (size_t i = 0; i < sizeof table / sizeof *table; i++) {
        char text[GRPC_TIMEOUT_MAX];
        size_t len = grpc_timeout_format(table[i], text);
        int64_t ms;

        assert_int_equal(len, strlen(text));
        assert_int_equal(grpc_timeout_parse(text, len, &ms), 0);
        if (table[i] <= 99999999000) {
            assert_true(ms >= table[i]);
            assert_true(ms <= table[i] + 1000);
        }
    }
}

static void grpc_message_encode_table(void **state)
{
    static const struct {
        const char *text, *encoded;
    } table[] = {
        {"", ""},
        {"plain text ~!", "plain text ~!"},
        {"100%", "100%25"},
        {"a\nb\x7f", "a%0Ab%7F"},
        {"\xc3\xa9", "%C3%A9"},
        {"\xf0\x9f\x99\x82", "%F0%9F%99%82"},
        {"\xff", "%EF%BF%BD"},                           /* no UTF-8 */
        {"a\xc3", "a%EF%BF%BD"},                         /* cut short */
        {"\xc0\x80", "%EF%BF%BD%EF%BF%BD"},              /* overlong */
        {"\xed\xa0\x80", "%EF%BF%BD%EF%BF%BD%EF%BF%BD"}, /* surrogate */
        {"\xf4\x90\x80\x80", "%EF%BF%BD%EF%BF%BD%EF%BF%BD%EF%BF%BD"},
    };
    char encoded[3 * GRPC_MESSAGE_MAX + 1];

    (void)state;
    for (size_t i = 0; i < sizeof table / sizeof *table; i++) {
        assert_int_equal(grpc_message_encode(table[i].text, encoded), strlen(table[i].encoded));
        assert_string_equal(encoded, table[i].encoded);
    }
}

static void grpc_message_encode_cuts_at_a_character(void **state)
{
    char text[3 * GRPC_MESSAGE_MAX + 2] = "a", encoded[3 * GRPC_MESSAGE_MAX + 1];

    (void)state;
    for (size_t i = 0; i < GRPC_MESSAGE_MAX; i++)
        memcpy(text + 1 + 3 * i, "\xe6\x97\xa5", 4);
    assert_int_equal(grpc_message_encode(text, encoded), 1 + 9 * ((GRPC_MESSAGE_MAX - 1) / 3));
    memset(text, '\x01', sizeof text);
    text[sizeof text - 1] = '\0';
    assert_int_equal(grpc_message_encode(text, encoded), 3 * GRPC_MESSAGE_MAX);
}

static void grpc_message_decode_is_tolerant(void **state)
{
    static const struct {
        const char *text, *decoded;
    } table[] = {
        {"", ""},       {"plain", "plain"}, {"100%25", "100%"}, {"%C3%a9", "\xc3\xa9"},
        {"%", "%"},     {"%4", "%4"},       {"%zz", "%zz"},     {"a%4", "a%4"},
        {"%%41", "%A"}, {"%00b", "?b"},     {"%41%", "A%"},
    };
    char decoded[64];

    (void)state;
    for (size_t i = 0; i < sizeof table / sizeof *table; i++) {
        assert_int_equal(grpc_message_decode(table[i].text, strlen(table[i].text), decoded),
                         strlen(table[i].decoded));
        assert_string_equal(decoded, table[i].decoded);
    }
}

static void grpc_message_every_byte_comes_back(void **state)
{
    char text[2] = "", encoded[3 * GRPC_MESSAGE_MAX + 1], decoded[8];

    (void)state;
    for (int c = 1; c < 0x80; c++) {
        size_t len;

        text[0] = (char)c;
        len = grpc_message_encode(text, encoded);
        (void)grpc_message_decode(encoded, len, decoded);
        assert_string_equal(decoded, text);
    }
}

static void grpc_status_names_and_digits(void **state)
{
    (void)state;
    assert_string_equal(grpc_status_name(GRPC_OK), "OK");
    assert_string_equal(grpc_status_name(GRPC_UNAUTHENTICATED), "UNAUTHENTICATED");
    assert_string_equal(grpc_status_name((enum grpc_status)17), "UNKNOWN");
    assert_string_equal(grpc_status_name((enum grpc_status) - 1), "UNKNOWN");
    for (int i = 0; i <= GRPC_UNAUTHENTICATED; i++) {
        const char *digits = grpc_status_digits((enum grpc_status)i);

        assert_int_equal(atoi(digits), i);
        assert_int_equal(grpc_status_parse(digits, strlen(digits)), i);
    }
    assert_int_equal(grpc_status_parse("17", 2), GRPC_UNKNOWN);
    assert_int_equal(grpc_status_parse("", 0), GRPC_UNKNOWN);
    assert_int_equal(grpc_status_parse("00", 2), GRPC_UNKNOWN);
    assert_int_equal(grpc_status_parse("1x", 2), GRPC_UNKNOWN);
}

static void grpc_content_type_table(void **state)
{
    static const char *const good[] = {"application/grpc", "application/grpc+proto",
                                       "application/grpc;charset=utf-8"};
    static const char *const bad[] = {"",
                                      "application/json",
                                      "application/grpc-web",
                                      "application/grpcx",
                                      "application/grp",
                                      "text/plain"};

    (void)state;
    for (size_t i = 0; i < sizeof good / sizeof *good; i++)
        assert_true(grpc_content_type(good[i], strlen(good[i])));
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
        assert_false(grpc_content_type(bad[i], strlen(bad[i])));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(grpc_timeout_parse_accepts),
        cmocka_unit_test(grpc_timeout_parse_rejects),
        cmocka_unit_test(grpc_timeout_format_is_read_back_never_shorter),
        cmocka_unit_test(grpc_message_encode_table),
        cmocka_unit_test(grpc_message_encode_cuts_at_a_character),
        cmocka_unit_test(grpc_message_decode_is_tolerant),
        cmocka_unit_test(grpc_message_every_byte_comes_back),
        cmocka_unit_test(grpc_status_names_and_digits),
        cmocka_unit_test(grpc_content_type_table),
    };
    return cmocka_run_group_tests_name("grpc_text", tests, NULL, NULL);
}
