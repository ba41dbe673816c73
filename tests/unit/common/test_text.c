#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "common/mem.h"
#include "common/text.h"

/* A literal with its length, NULs inside included. */
#define BYTES(literal) (literal), sizeof(literal) - 1

struct check_row {
    const char *bytes;
    size_t len, max;
    int r;
    size_t at;
};

static void text_check_foreign_bytes_says_what_is_wrong_and_where(void **state)
{
    static const struct check_row rows[] = {
        {BYTES(""), 0, 0, 0},
        {BYTES("plain"), 5, 0, 0},
        {BYTES("plain"), 4, TEXT_TOO_LONG, 4},
        {BYTES("seventeen bytes.."), 17, 0, 0},
        {BYTES("seventeen bytes.."), 16, TEXT_TOO_LONG, 16},
        {BYTES("a\0b"), 10, TEXT_NUL, 1},
        {BYTES("\0"), 10, TEXT_NUL, 0},
        {BYTES("12345678\0"), 20, TEXT_NUL, 8},
        {BYTES("1234567\x7f"
               "9"),
         20, TEXT_CONTROL, 7},
        {BYTES("a\tb"), 10, TEXT_CONTROL, 1},
        {BYTES("a\nb"), 10, TEXT_CONTROL, 1},
        {BYTES("abcdefg\x1f hijk"), 20, TEXT_CONTROL, 7},
        {BYTES("\x1b[31m"), 10, TEXT_CONTROL, 0},
        {BYTES("\xc2\x80"), 10, TEXT_CONTROL, 0},
        {BYTES("\xc2\x9b"
               "31m"),
         10, TEXT_CONTROL, 0},
        {BYTES("\xc2\xa0"), 10, 0, 0},
        {BYTES("gr\xc3\xbc\xc3\x9f"), 10, 0, 0},
        {BYTES("\xe2\x82\xac\xf0\x9f\x98\x80"), 10, 0, 0},
        {BYTES("\xe2\x82\xac"), 2, TEXT_TOO_LONG, 0},
        {BYTES("\xf4\x8f\xbf\xbf"), 10, 0, 0},
        {BYTES("\xf4\x90\x80\x80"), 10, TEXT_NOT_UTF8, 0},
        {BYTES("\xf5\x80\x80\x80"), 10, TEXT_NOT_UTF8, 0},
        {BYTES("a\x80"), 10, TEXT_NOT_UTF8, 1},
        {BYTES("\xc0\x80"), 10, TEXT_NOT_UTF8, 0},
        {BYTES("\xc1\xbf"), 10, TEXT_NOT_UTF8, 0},
        {BYTES("\xe0\x9f\xbf"), 10, TEXT_NOT_UTF8, 0},
        {BYTES("\xf0\x8f\xbf\xbf"), 10, TEXT_NOT_UTF8, 0},
        {BYTES("\xed\xa0\x80"), 10, TEXT_NOT_UTF8, 0},
        {BYTES("\xed\x9f\xbf"), 10, 0, 0},
        {BYTES("ab\xe2\x82"), 10, TEXT_NOT_UTF8, 2},
        {BYTES("\xe2\x28\xa1"), 10, TEXT_NOT_UTF8, 0},
        {BYTES("\xff"), 10, TEXT_NOT_UTF8, 0},
    };
    size_t i, at;

    for (i = 0; i < ARRAY_LEN(rows); i++) {
        at = 99;
        assert_int_equal(text_check(rows[i].bytes, rows[i].len, rows[i].max, &at), rows[i].r);
        assert_int_equal(at, rows[i].r ? rows[i].at : 99);
    }
    assert_int_equal(text_check(NULL, 0, 0, NULL), 0);
}

/* The word-wise path must agree with the plain definition for every byte in every lane. */
static void text_check_each_byte_in_each_lane_is_seen(void **state)
{
    char text[24];
    unsigned byte, lane;
    int expected;

    for (byte = 0; byte < 128; byte++) {
        expected = byte == 0 ? TEXT_NUL : byte < 0x20 || byte == 0x7f ? TEXT_CONTROL : 0;
        for (lane = 0; lane < sizeof(text); lane++) {
            memset(text, 'x', sizeof(text));
            text[lane] = (char)byte;
            assert_int_equal(text_check(text, sizeof(text), sizeof(text), NULL), expected);
        }
    }
}

static void text_require_bad_field_is_named(void **state)
{
    struct err err = {0};

    assert_int_equal(text_require("job", BYTES("a\0b"), 10, &err), -EINVAL);
    assert_string_equal(err.text, "job: holds a NUL byte at byte 1");
    assert_int_equal(text_require("reason", BYTES("abcdef"), 3, &err), -EINVAL);
    assert_string_equal(err.text, "reason: is too long: 6 bytes, at most 3");
    assert_int_equal(text_require("job", BYTES("ab"), 2, &err), 0);
    assert_int_equal(text_require("job", BYTES("ab\xff"), 9, NULL), -EINVAL);
}

struct name_row {
    const char *name;
    bool good;
};

static void check_names(int (*check)(const char *, size_t, struct err *),
                        const struct name_row *rows, size_t n)
{
    struct err err;
    size_t i;
    int r;

    for (i = 0; i < n; i++) {
        err.text[0] = '\0';
        r = check(rows[i].name, strlen(rows[i].name), &err);
        if (r != (rows[i].good ? 0 : -EINVAL))
            fail_msg("\"%s\": %d, %s", rows[i].name, r, err.text);
        assert_true((err.text[0] == '\0') == rows[i].good);
    }
}

#define X16 "xxxxxxxxxxxxxxxx"

static void text_check_node_table(void **state)
{
    static const struct name_row rows[] = {
        {"n1", true},
        {"N1", true},
        {"7", true},
        {"a.b-c_d", true},
        {X16 X16 X16 X16, true},
        {X16 X16 X16 X16 "x", false},
        {"", false},
        {"-n", false},
        {"n-", false},
        {".n", false},
        {"n.", false},
        {"a..b", false},
        {"a b", false},
        {"a/b", false},
        {"a\nb", false},
        {"n[1]", false},
        {"n\xc3\xbc", false},
        {"a,b", false},
        {"_a", false},
        {"a=b", false},
        {"\xff", false},
    };

    check_names(text_check_node, rows, ARRAY_LEN(rows));
    assert_int_equal(text_check_node(BYTES("a\0b"), NULL), -EINVAL);
}

static void text_check_pool_table(void **state)
{
    static const struct name_row rows[] = {
        {"default", true},    {"p", true},  {"gpu-2", true}, {"a--b", true}, {X16 X16, true},
        {X16 X16 "x", false}, {"", false},  {"P", false},    {"2p", false},  {"-p", false},
        {"p-", false},        {"-", false}, {"p_1", false},  {"p.1", false}, {"p 1", false},
    };

    check_names(text_check_pool, rows, ARRAY_LEN(rows));
}

static void text_check_job_table(void **state)
{
    static const struct name_row rows[] = {
        {"j1", true},
        {"17.batch", true},
        {"12_[3-5]", true},
        {"\xc6\x92"
         "2oLkTLb",
         true},
        {"a/b:c=d@e", true},
        {"it's", true},
        {X16 X16 X16 X16 X16 X16 X16 X16, true},
        {X16 X16 X16 X16 X16 X16 X16 X16 "x", false},
        {"", false},
        {"-rf", false},
        {"a b", false},
        {"a\tb", false},
        {"a\xc2\xa0"
         "b",
         false},
        {"a\xe2\x80\x8b"
         "b",
         false},
        {"a\xe2\x80\xae"
         "b",
         false},
        {"a\xe3\x80\x80"
         "b",
         false},
        {"\x1b[0m", false},
        {"a\xff", false},
    };

    check_names(text_check_job, rows, ARRAY_LEN(rows));
}

static void text_check_owner_table(void **state)
{
    static const struct name_row rows[] = {
        {"root", true},     {"jane.doe", true},
        {"AD\\jane", true}, {"jane@example.org", true},
        {"machine$", true}, {"j\xc3\xbcrgen", true},
        {"_apt", true},     {"a1", true},
        {"7zip", true},     {"", false},
        {"-x", false},      {"1000", false},
        {".", false},       {"..", false},
        {"a:b", false},     {"a b", false},
        {"a/b", false},     {"a,b", false},
        {"#1000", false},   {"a\n", false},
    };

    check_names(text_check_owner, rows, ARRAY_LEN(rows));
}

static void text_check_path_table(void **state)
{
    static const struct name_row rows[] = {
        {"/", true},         {"/a", true},     {"/a/b c/\xc3\xbc", true},
        {"/a/..b/.c", true}, {"/...", true},   {"", false},
        {"a", false},        {"/a/", false},   {"//", false},
        {"//a", false},      {"/a//b", false}, {"/a/.", false},
        {"/./a", false},     {"/..", false},   {"/a/../b", false},
        {"/a\nb", false},    {"/a/..", false}, {"/a\xff", false},
    };
    char longest[TEXT_PATH_MAX + 2];

    check_names(text_check_path, rows, ARRAY_LEN(rows));
    memset(longest, 'x', sizeof(longest));
    longest[0] = '/';
    assert_int_equal(text_check_path(longest, TEXT_PATH_MAX, NULL), 0);
    assert_int_equal(text_check_path(longest, TEXT_PATH_MAX + 1, NULL), -EINVAL);
}

static void text_check_names_error_shows_name_character_and_place(void **state)
{
    struct err err;

    assert_int_equal(text_check_node(BYTES("n1 x"), &err), -EINVAL);
    assert_string_equal(err.text, "node name \"n1 x\": \" \" is not allowed there (byte 2)");
    assert_int_equal(text_check_owner(BYTES("1000"), &err), -EINVAL);
    assert_string_equal(err.text, "user name \"1000\": all digits would be taken for a uid");
    assert_int_equal(text_check_pool(BYTES(""), &err), -EINVAL);
    assert_string_equal(err.text, "pool name: is empty");
}

static void text_escape_table(void **state)
{
    static const struct {
        const char *in;
        size_t len;
        const char *out, *clean;
    } rows[] = {
        {BYTES("plain \xc3\xbc"), "plain \xc3\xbc", "plain \xc3\xbc"},
        {BYTES("a\\b"), "a\\\\b", "a\\b"},
        {BYTES("a\nb\x1b[1m"), "a\\x0ab\\x1b[1m", "a\\x0ab\\x1b[1m"},
        {BYTES("a\0b"), "a\\x00b", "a\\x00b"},
        {BYTES("\xff\xc3"), "\\xff\\xc3", "\\xff\\xc3"},
        {BYTES("\xc2\x9b"), "\\xc2\\x9b", "\\xc2\\x9b"},
        {BYTES("x\xe2\x80\xaey"), "x\\xe2\\x80\\xaey", "x\\xe2\\x80\\xaey"},
        {BYTES("\xe2\x80\xa8"), "\\xe2\\x80\\xa8", "\\xe2\\x80\\xa8"},
        {BYTES(""), "", ""},
    };
    char out[64];
    size_t i;

    for (i = 0; i < ARRAY_LEN(rows); i++) {
        assert_int_equal(text_escape(rows[i].in, rows[i].len, out, sizeof(out)),
                         strlen(rows[i].out));
        assert_string_equal(out, rows[i].out);
        text_clean(rows[i].in, rows[i].len, out, sizeof(out));
        assert_string_equal(out, rows[i].clean);
    }
}

static void text_escape_too_long_ends_in_dots_and_whole_characters(void **state)
{
    static const char in[] = "ab\xc3\xbc\n\xe2\x82\xac"
                             "cdef";
    char out[64];
    size_t size, len;

    for (size = 4; size <= sizeof(out); size++) {
        memset(out, '#', sizeof(out));
        len = text_escape(in, sizeof(in) - 1, out, size);
        assert_true(len < size);
        assert_int_equal(strlen(out), len);
        assert_int_equal(text_check(out, len, size, NULL), 0);
        if (len != strlen("ab\xc3\xbc\\x0a\xe2\x82\xac"
                          "cdef"))
            assert_string_equal(out + len - 3, "...");
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(text_check_foreign_bytes_says_what_is_wrong_and_where),
        cmocka_unit_test(text_check_each_byte_in_each_lane_is_seen),
        cmocka_unit_test(text_require_bad_field_is_named),
        cmocka_unit_test(text_check_node_table),
        cmocka_unit_test(text_check_pool_table),
        cmocka_unit_test(text_check_job_table),
        cmocka_unit_test(text_check_owner_table),
        cmocka_unit_test(text_check_path_table),
        cmocka_unit_test(text_check_names_error_shows_name_character_and_place),
        cmocka_unit_test(text_escape_table),
        cmocka_unit_test(text_escape_too_long_ends_in_dots_and_whole_characters),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
