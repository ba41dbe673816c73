#include <errno.h>
#include <inttypes.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <cmocka.h>

#include "common/mem.h"
#include "common/text.h"

struct number_row {
    const char *text;
    int r;
    uint64_t value;
    const char *error;
};

static void text_parse_u32_table(void **state)
{
    static const struct number_row rows[] = {
        {"0", 0, 0, ""},
        {"4294967295", 0, 4294967295, ""},
        {"4294967296", -ERANGE, 0, "\"4294967296\" is too large (at most 4294967295)"},
        {"99999999999999999999999", -ERANGE, 0,
         "\"99999999999999999999999\" is too large (at most 4294967295)"},
        {"", -EINVAL, 0, "is empty where a number is expected"},
        {"-1", -EINVAL, 0, "\"-1\" is not a number"},
        {"+1", -EINVAL, 0, "\"+1\" is not a number"},
        {" 1", -EINVAL, 0, "\" 1\" is not a number"},
        {"1 ", -EINVAL, 0, "\"1 \" is not a number"},
        {"01", -EINVAL, 0, "\"01\" has a leading zero"},
        {"00", -EINVAL, 0, "\"00\" has a leading zero"},
        {"0x1", -EINVAL, 0, "\"0x1\" is not a number"},
        {"1e3", -EINVAL, 0, "\"1e3\" is not a number"},
        {"1\x1b[0m", -EINVAL, 0, "\"1\\x1b[0m\" is not a number"},
    };
    struct err err;
    uint32_t value;
    size_t i;

    for (i = 0; i < ARRAY_LEN(rows); i++) {
        err.text[0] = '\0';
        value = 77;
        assert_int_equal(text_parse_u32(rows[i].text, &value, &err), rows[i].r);
        assert_string_equal(err.text, rows[i].error);
        assert_int_equal(value, rows[i].r ? 77 : rows[i].value);
    }
}

static void text_parse_u64_limits(void **state)
{
    uint64_t value = 0;

    assert_int_equal(text_parse_u64("18446744073709551615", &value, NULL), 0);
    assert_true(value == UINT64_MAX);
    assert_int_equal(text_parse_u64("18446744073709551616", &value, NULL), -ERANGE);
    assert_int_equal(text_parse_u64("28446744073709551615", &value, NULL), -ERANGE);
}

static void text_parse_uid_refuses_what_is_nobodys(void **state)
{
    uint32_t uid = 0;
    struct err err;

    assert_int_equal(text_parse_uid("1000", &uid, &err), 0);
    assert_int_equal(uid, 1000);
    assert_int_equal(text_parse_uid("0", &uid, &err), -EINVAL);
    assert_int_equal(text_parse_uid("65535", &uid, &err), -EINVAL);
    assert_int_equal(text_parse_uid("4294967295", &uid, &err), -EINVAL);
    assert_string_equal(err.text, "4294967295 is not a uid that may be given to somebody");
}

static void text_parse_size_table(void **state)
{
    static const struct number_row rows[] = {
        {"0", 0, 0, ""},
        {"65536", 0, 65536, ""},
        {"64K", 0, 65536, ""},
        {"1M", 0, 1 << 20, ""},
        {"3G", 0, UINT64_C(3) << 30, ""},
        {"16777215T", 0, UINT64_C(16777215) << 40, ""},
        {"16777216T", -ERANGE, 0, "\"16777216\" is too large (at most 16777215)"},
        {"", -EINVAL, 0, "is empty where a size is expected"},
        {"K", -EINVAL, 0, "\"K\" is not a size"},
        {"1k", -EINVAL, 0, "\"1k\": unknown unit \"k\" (K, M, G, T)"},
        {"1KB", -EINVAL, 0, "\"1KB\": unknown unit \"KB\" (K, M, G, T)"},
        {"1.5M", -EINVAL, 0, "\"1.5M\": unknown unit \".5M\" (K, M, G, T)"},
        {"-1K", -EINVAL, 0, "\"-1K\" is not a size"},
    };
    struct err err;
    uint64_t value;
    size_t i;

    for (i = 0; i < ARRAY_LEN(rows); i++) {
        err.text[0] = '\0';
        value = 77;
        assert_int_equal(text_parse_size(rows[i].text, &value, &err), rows[i].r);
        assert_string_equal(err.text, rows[i].error);
        assert_true(value == (rows[i].r ? 77 : rows[i].value));
    }
}

static void text_parse_duration_table(void **state)
{
    static const struct number_row rows[] = {
        {"0", 0, 0, ""},
        {"30s", 0, 30000, ""},
        {"5m", 0, 300000, ""},
        {"1h", 0, 3600000, ""},
        {"30d", 0, UINT64_C(2592000000), ""},
        {"500ms", 0, 500, ""},
        {"1h30m", 0, 5400000, ""},
        {"1d2h3m4s5ms", 0, 93784005, ""},
        {"90m", 0, 5400000, ""},
        {"007s", 0, 7000, ""},
        {"36500d", 0, UINT64_C(3153600000000), ""},
        {"none", TEXT_NO_LIMIT, 0, ""},
        {"36501d", -ERANGE, 0, "\"36501d\" is too long (at most 36500d)"},
        {"36500d1ms", -ERANGE, 0, "\"36500d1ms\" is too long (at most 36500d)"},
        {"99999999999999999999s", -ERANGE, 0,
         "\"99999999999999999999s\" is too long (at most 36500d)"},
        {"", -EINVAL, 0, "is empty where a duration is expected"},
        {"30", -EINVAL, 0, "\"30\" has no unit (30s, 30m, 30h)"},
        {"1h30", -EINVAL, 0, "\"1h30\" has no unit (1h30s, 1h30m, 1h30h)"},
        {"s", -EINVAL, 0, "\"s\" is not a duration (30s, 5m, 1h30m)"},
        {"-5m", -EINVAL, 0, "\"-5m\" is not a duration (30s, 5m, 1h30m)"},
        {"5 m", -EINVAL, 0, "\"5 m\": unknown unit \" m\" (ms, s, m, h, d)"},
        {"5w", -EINVAL, 0, "\"5w\": unknown unit \"w\" (ms, s, m, h, d)"},
        {"5M", -EINVAL, 0, "\"5M\": unknown unit \"M\" (ms, s, m, h, d)"},
        {"5min", -EINVAL, 0, "\"5min\": unknown unit \"min\" (ms, s, m, h, d)"},
        {"30m1h", -EINVAL, 0, "\"30m1h\": units must get smaller, each once"},
        {"1m1m", -EINVAL, 0, "\"1m1m\": units must get smaller, each once"},
        {"1.5h", -EINVAL, 0, "\"1.5h\": unknown unit \".\" (ms, s, m, h, d)"},
        {"None", -EINVAL, 0, "\"None\" is not a duration (30s, 5m, 1h30m)"},
        {"infinity", -EINVAL, 0, "\"infinity\" is not a duration (30s, 5m, 1h30m)"},
    };
    struct err err;
    int64_t ms;
    size_t i;

    for (i = 0; i < ARRAY_LEN(rows); i++) {
        err.text[0] = '\0';
        ms = -7;
        assert_int_equal(text_parse_duration(rows[i].text, &ms, &err), rows[i].r);
        assert_string_equal(err.text, rows[i].error);
        assert_true(ms == (rows[i].r ? -7 : (int64_t)rows[i].value));
    }
}

static void text_format_duration_parses_to_the_same(void **state)
{
    static const struct {
        int64_t ms;
        const char *text;
    } rows[] = {
        {0, "0"},
        {1, "1ms"},
        {30000, "30s"},
        {300000, "5m"},
        {5400000, "1h30m"},
        {86400000, "1d"},
        {93784005, "1d2h3m4s5ms"},
        {INT64_C(3153600000000), "36500d"},
    };
    char text[TEXT_DURATION_BUF];
    int64_t ms = -1;
    size_t i;

    for (i = 0; i < ARRAY_LEN(rows); i++) {
        assert_string_equal(text_format_duration(rows[i].ms, text), rows[i].text);
        assert_int_equal(text_parse_duration(text, &ms, NULL), 0);
        assert_true(ms == rows[i].ms);
    }
    assert_true(strlen(text_format_duration(INT64_MAX, text)) < TEXT_DURATION_BUF);
}

static void text_parse_ranges_table(void **state)
{
    static const struct {
        const char *text;
        size_t n;
        int r;
        const char *error;
    } rows[] = {
        {"1-2", 1, 0, ""},
        {"5", 1, 0, ""},
        {"0-0", 1, 0, ""},
        {"2013265920-2013331455", 1, 0, ""},
        {"10-20,1-5,7", 3, 0, ""},
        {"0-4294967294", 1, 0, ""},
        {"1,2,3,4", 0, -ENOBUFS, "more than 3 ranges"},
        {"0-4294967295", 0, -EINVAL, "the range 0-4294967295 holds 4294967295, which is -1"},
        {"1-4294967296", 0, -ERANGE, "\"4294967296\" is too large (at most 4294967295)"},
        {"", 0, -EINVAL, "is empty where a number is expected"},
        {"1-", 0, -EINVAL, "is empty where a number is expected"},
        {"-1", 0, -EINVAL, "is empty where a number is expected"},
        {"1-2,", 0, -EINVAL, "is empty where a number is expected"},
        {",1-2", 0, -EINVAL, "is empty where a number is expected"},
        {"1--2", 0, -EINVAL, "\"-2\" is not a number"},
        {"1-2-3", 0, -EINVAL, "\"2-3\" is not a number"},
        {"2-1", 0, -EINVAL, "the range 2-1 runs backwards"},
        {"1 -2", 0, -EINVAL, "\"1 \" is not a number"},
        {"1-2, 3-4", 0, -EINVAL, "\" 3\" is not a number"},
        {"a-b", 0, -EINVAL, "\"a\" is not a number"},
        {"1-5,5-9", 0, -EINVAL, "the ranges 1-5 and 5-9 overlap"},
        {"5-9,1-20", 0, -EINVAL, "the ranges 5-9 and 1-20 overlap"},
        {"01-2", 0, -EINVAL, "\"01\" has a leading zero"},
    };
    struct text_range ranges[3];
    struct err err;
    size_t i, n;

    for (i = 0; i < ARRAY_LEN(rows); i++) {
        err.text[0] = '\0';
        n = 0;
        assert_int_equal(text_parse_ranges(rows[i].text, ranges, 3, &n, &err), rows[i].r);
        assert_string_equal(err.text, rows[i].error);
        assert_int_equal(n, rows[i].n);
    }
    assert_int_equal(text_parse_ranges("10-20,7", ranges, 3, &n, NULL), 0);
    assert_int_equal(ranges[0].first, 10);
    assert_int_equal(ranges[0].last, 20);
    assert_int_equal(ranges[1].last, 7);
}

static void text_parse_time_table(void **state)
{
    static const struct {
        const char *text;
        int64_t ms;
        const char *error;
    } rows[] = {
        {"1970-01-01T00:00:00Z", 0, ""},
        {"2025-11-29T16:05:00.123Z", INT64_C(1764432300123), ""},
        {"2025-11-29 16:05:00.123456789z", INT64_C(1764432300123), ""},
        {"2025-11-29t16:05:00+01:00", INT64_C(1764428700000), ""},
        {"2025-11-29T16:05:00-23:59", INT64_C(1764518640000), ""},
        {"2024-02-29T00:00:00Z", INT64_C(1709164800000), ""},
        {"2000-02-29T00:00:00Z", INT64_C(951782400000), ""},
        {"1969-12-31T23:59:59.999Z", -1, ""},
        {"0000-01-01T00:00:00Z", INT64_C(-62167219200000), ""},
        {"9999-12-31T23:59:59.999Z", INT64_C(253402300799999), ""},
        {"2016-12-31T23:59:60Z", INT64_C(1483228800000), ""},
        {"2025-11-29T16:05:00.5Z", INT64_C(1764432300500), ""},
        {"@1764432300", INT64_C(1764432300000), ""},
        {"@0", 0, ""},
        {"2025-02-29T00:00:00Z", 1, "is not a time (2025-11-29T16:05:00Z)"},
        {"1900-02-29T00:00:00Z", 1, "is not a time (2025-11-29T16:05:00Z)"},
        {"2025-13-01T00:00:00Z", 1, "is not a time (2025-11-29T16:05:00Z)"},
        {"2025-00-01T00:00:00Z", 1, "is not a time (2025-11-29T16:05:00Z)"},
        {"2025-01-00T00:00:00Z", 1, "is not a time (2025-11-29T16:05:00Z)"},
        {"2025-01-32T00:00:00Z", 1, "is not a time (2025-11-29T16:05:00Z)"},
        {"2025-01-01T24:00:00Z", 1, "is not a time (2025-11-29T16:05:00Z)"},
        {"2025-01-01T00:60:00Z", 1, "is not a time (2025-11-29T16:05:00Z)"},
        {"2025-01-01T00:00:61Z", 1, "is not a time (2025-11-29T16:05:00Z)"},
        {"2025-01-01T00:00:00.Z", 1, "is not a time (2025-11-29T16:05:00Z)"},
        {"2025-01-01", 1, "is not a time (2025-11-29T16:05:00Z)"},
        {"25-01-01T00:00:00Z", 1, "is not a time (2025-11-29T16:05:00Z)"},
        {"yesterday", 1, "is not a time (2025-11-29T16:05:00Z)"},
        {"", 1, "is not a time (2025-11-29T16:05:00Z)"},
        {"2025-01-01T00:00:00", 1, "has no zone (end it with Z or +01:00)"},
        {"2025-01-01T00:00:00+0100", 1, "is no zone (Z or +01:00)"},
        {"2025-01-01T00:00:00+24:00", 1, "is no zone (Z or +01:00)"},
        {"2025-01-01T00:00:00Zx", 1, "is no zone (Z or +01:00)"},
        {"@253402300800", 1, "is beyond the year 9999"},
        {"@-1", 1, "\"-1\" is not a number"},
    };
    struct err err;
    int64_t ms;
    size_t i;
    int r;

    for (i = 0; i < ARRAY_LEN(rows); i++) {
        err.text[0] = '\0';
        ms = 1;
        r = text_parse_time(rows[i].text, &ms, &err);
        if (ms != rows[i].ms || !strstr(err.text, rows[i].error) || (r == 0) != !rows[i].error[0])
            fail_msg("%s: %d, %" PRId64 ", %s", rows[i].text, r, ms, err.text);
    }
}

/* The calendar against libc's, over leap years and centuries. */
static void text_format_time_agrees_with_libc(void **state)
{
    char text[TEXT_TIME_BUF], expected[TEXT_TIME_BUF];
    int64_t ms, back;
    time_t seconds;
    struct tm tm;

    for (ms = INT64_C(-62167219200000); ms < INT64_C(253402300799999);
         ms += INT64_C(86400000) * 37 + 12345) {
        seconds = (time_t)((ms - (ms < 0 ? 999 : 0)) / 1000);
        gmtime_r(&seconds, &tm);
        strftime(expected, sizeof(expected), "%FT%T", &tm);
        text_format_time(ms, text);
        assert_int_equal(strlen(text), 24);
        /* %F of glibc does not pad the year. */
        if (tm.tm_year >= -900)
            assert_memory_equal(text, expected, 19);
        assert_int_equal(text_parse_time(text, &back, NULL), 0);
        assert_true(back == ms);
    }
    assert_string_equal(text_format_time(INT64_MIN, text), "0000-01-01T00:00:00.000Z");
    assert_string_equal(text_format_time(INT64_MAX, text), "9999-12-31T23:59:59.999Z");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(text_parse_u32_table),
        cmocka_unit_test(text_parse_u64_limits),
        cmocka_unit_test(text_parse_uid_refuses_what_is_nobodys),
        cmocka_unit_test(text_parse_size_table),
        cmocka_unit_test(text_parse_duration_table),
        cmocka_unit_test(text_format_duration_parses_to_the_same),
        cmocka_unit_test(text_parse_ranges_table),
        cmocka_unit_test(text_parse_time_table),
        cmocka_unit_test(text_format_time_agrees_with_libc),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
