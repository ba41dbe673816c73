#include "common/token_file.h"

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

static void token_file_reads_what_it_wrote(void **state)
{
    struct token_file token = {.node = "n1", .ca = "-----BEGIN CERTIFICATE-----\nx\n"}, again;
    AUTO(buf_done) struct buf text = BUF_INIT(TOKEN_FILE_MAX);

    (void)state;
    for (size_t i = 0; i < sizeof token.secret; i++)
        token.secret[i] = (uint8_t)(i * 7 + 200);
    token_file_format(&token, 1764435900000, &text);
    assert_non_null(strstr(buf_str(&text), "until 2025-11-29T17:05:00.000Z"));
    assert_int_equal(token_file_parse(buf_str(&text), &again, NULL), 0);
    assert_string_equal(again.node, "n1");
    assert_memory_equal(again.secret, token.secret, sizeof token.secret);
    assert_string_equal(again.ca, token.ca);
}

static void token_file_of_another_kind_is_refused(void **state)
{
#define SECRET "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef"
    static const char *const bad[] = {
        "",
        "# nothing\n",
        "node = n1\n",
        "token = " SECRET "\n",
        "node = n 1\ntoken = " SECRET "\n",
        "node = n1\ntoken = " SECRET "0\n",
        "node = n1\ntoken = 0123456789ABCDEF0123456789abcdef0123456789abcdef0123456789abcdef\n",
        "node = n1\ntoken = " SECRET "\nrubbish\n",
        "-----BEGIN CERTIFICATE-----\n",
    };
    struct token_file token;
    char long_line[400];

    (void)state;
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        struct err err = {{0}};

        if (token_file_parse(bad[i], &token, &err) != -EINVAL)
            fail_msg("\"%s\" was taken", bad[i]);
        assert_string_not_equal(err.text, "");
    }
    memset(long_line, '#', sizeof long_line);
    long_line[sizeof long_line - 1] = '\0';
    assert_int_equal(token_file_parse(long_line, &token, NULL), -EINVAL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(token_file_reads_what_it_wrote),
        cmocka_unit_test(token_file_of_another_kind_is_refused),
    };
    return cmocka_run_group_tests_name("token_file", tests, NULL, NULL);
}
