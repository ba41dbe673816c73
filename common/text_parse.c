#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "common/text.h"

static const int64_t duration_max_ms = INT64_C(100) * 365 * 86400 * 1000;

/* A token of a sentence, cut so that the sentence has room for the rest. */
struct shown {
    char text[84];
};

static struct shown show(const char *token, size_t len)
{
    struct shown shown;

    text_escape(token, len, shown.text, sizeof(shown.text));
    return shown;
}

static size_t span_digits(const char *text)
{
    return strspn(text, "0123456789");
}

/* len digits as a number up to max. 0; -ERANGE. */
static int read_digits(const char *digits, size_t len, uint64_t max, uint64_t *ret)
{
    uint64_t value = 0;
    size_t i;

    for (i = 0; i < len; i++) {
        if (__builtin_mul_overflow(value, 10, &value) ||
            __builtin_add_overflow(value, (uint64_t)(digits[i] - '0'), &value) || value > max)
            return -ERANGE;
    }
    *ret = value;
    return 0;
}

/* A whole token that must be a plain decimal number up to max. */
static int parse_number(const char *token, size_t len, uint64_t max, uint64_t *ret, struct err *err)
{
    if (len == 0)
        return err_set(err, -EINVAL, "is empty where a number is expected");
    if (span_digits(token) < len)
        return err_set(err, -EINVAL, "\"%s\" is not a number", show(token, len).text);
    if (len > 1 && token[0] == '0')
        return err_set(err, -EINVAL, "\"%s\" has a leading zero", show(token, len).text);
    if (read_digits(token, len, max, ret) < 0)
        return err_set(err, -ERANGE, "\"%s\" is too large (at most %llu)", show(token, len).text,
                       (unsigned long long)max);
    return 0;
}

int text_parse_u32(const char *text, uint32_t *ret, struct err *err)
{
    uint64_t value = 0;
    int r = parse_number(text, strlen(text), UINT32_MAX, &value, err);

    if (r == 0)
        *ret = (uint32_t)value;
    return r;
}

int text_parse_u64(const char *text, uint64_t *ret, struct err *err)
{
    return parse_number(text, strlen(text), UINT64_MAX, ret, err);
}

int text_parse_uid(const char *text, uint32_t *ret, struct err *err)
{
    uint32_t value = 0;
    int r = text_parse_u32(text, &value, err);

    if (r < 0)
        return r;
    if (value == 0 || value == UINT32_MAX || value == 65535)
        return err_set(err, -EINVAL, "%u is not a uid that may be given to somebody", value);
    *ret = value;
    return 0;
}

int text_parse_size(const char *text, uint64_t *ret, struct err *err)
{
    static const char units[] = "KMGT";
    size_t n = span_digits(text);
    const char *unit = NULL;
    uint64_t value = 0;
    unsigned shift = 0;
    int r;

    if (text[0] == '\0')
        return err_set(err, -EINVAL, "is empty where a size is expected");
    if (n == 0)
        return err_set(err, -EINVAL, "\"%s\" is not a size", show(text, strlen(text)).text);
    if (text[n] != '\0') {
        unit = strchr(units, text[n]);
        if (!unit || text[n + 1] != '\0')
            return err_set(err, -EINVAL, "\"%s\": unknown unit \"%s\" (K, M, G, T)",
                           show(text, strlen(text)).text, show(text + n, strlen(text + n)).text);
        shift = (unsigned)(unit - units + 1) * 10;
    }
    r = parse_number(text, n, UINT64_MAX >> shift, &value, err);
    if (r == 0)
        *ret = value << shift;
    return r;
}

/* ---- durations ---- */

static const struct {
    const char *name;
    int64_t ms;
} units[] = {{"d", 86400000}, {"h", 3600000}, {"m", 60000}, {"s", 1000}, {"ms", 1}};
#define N_UNITS (sizeof(units) / sizeof(units[0]))

/* The unit that text[0..len) names, or N_UNITS. */
static size_t find_unit(const char *text, size_t len)
{
    size_t i;

    for (i = 0; i < N_UNITS; i++)
        if (strlen(units[i].name) == len && memcmp(units[i].name, text, len) == 0)
            break;
    return i;
}

/* One part, number and unit, at *at, which moves on. first: the largest unit allowed there; moves on as well. */
static int parse_part(const char *text, const char **at, size_t *first, int64_t *total,
                      struct err *err)
{
    size_t n = span_digits(*at), n_unit = strcspn(*at + n, "0123456789"), unit;
    struct shown whole = show(text, strlen(text));
    uint64_t value = 0;
    int64_t ms;

    if (n == 0)
        return err_set(err, -EINVAL, "\"%s\" is not a duration (30s, 5m, 1h30m)", whole.text);
    if (n_unit == 0)
        return err_set(err, -EINVAL, "\"%s\" has no unit (%.20ss, %.20sm, %.20sh)", whole.text,
                       whole.text, whole.text, whole.text);
    unit = find_unit(*at + n, n_unit);
    if (unit == N_UNITS)
        return err_set(err, -EINVAL, "\"%s\": unknown unit \"%s\" (ms, s, m, h, d)", whole.text,
                       show(*at + n, n_unit).text);
    if (unit < *first)
        return err_set(err, -EINVAL, "\"%s\": units must get smaller, each once", whole.text);
    if (read_digits(*at, n, INT64_MAX, &value) < 0 ||
        __builtin_mul_overflow((int64_t)value, units[unit].ms, &ms) ||
        __builtin_add_overflow(*total, ms, total) || *total > duration_max_ms)
        return err_set(err, -ERANGE, "\"%s\" is too long (at most 36500d)", whole.text);
    *first = unit + 1;
    *at += n + n_unit;
    return 0;
}

int text_parse_duration(const char *text, int64_t *ret_ms, struct err *err)
{
    const char *at = text;
    size_t first = 0;
    int64_t total = 0;
    int r;

    if (strcmp(text, "none") == 0)
        return TEXT_NO_LIMIT;
    if (text[0] == '\0')
        return err_set(err, -EINVAL, "is empty where a duration is expected");
    if (strcmp(text, "0") == 0) {
        *ret_ms = 0;
        return 0;
    }
    while (*at != '\0') {
        r = parse_part(text, &at, &first, &total, err);
        if (r < 0)
            return r;
    }
    *ret_ms = total;
    return 0;
}

char *text_format_duration(int64_t ms, char ret[static TEXT_DURATION_BUF])
{
    size_t i, len = 0;

    if (ms <= 0)
        return memcpy(ret, "0", 2);
    for (i = 0; i < N_UNITS; i++) {
        if (ms < units[i].ms)
            continue;
        len += (size_t)snprintf(ret + len, TEXT_DURATION_BUF - len, "%lld%s",
                                (long long)(ms / units[i].ms), units[i].name);
        ms %= units[i].ms;
    }
    return ret;
}

/* ---- ranges ---- */

static int parse_range(const char *token, size_t len, struct text_range *ret, struct err *err)
{
    const char *dash = memchr(token, '-', len);
    size_t first_len = dash ? (size_t)(dash - token) : len;
    uint64_t first = 0, last = 0;
    int r;

    r = parse_number(token, first_len, UINT32_MAX, &first, err);
    if (r < 0)
        return r;
    last = first;
    if (dash)
        r = parse_number(dash + 1, len - first_len - 1, UINT32_MAX, &last, err);
    if (r < 0)
        return r;
    if (last < first)
        return err_set(err, -EINVAL, "the range %s runs backwards", show(token, len).text);
    if (last == UINT32_MAX)
        return err_set(err, -EINVAL, "the range %s holds 4294967295, which is -1",
                       show(token, len).text);
    *ret = (struct text_range){(uint32_t)first, (uint32_t)last};
    return 0;
}

static int add_range(struct text_range *ranges, size_t n, struct text_range new, struct err *err)
{
    size_t i;

    for (i = 0; i < n; i++)
        if (new.first <= ranges[i].last && ranges[i].first <= new.last)
            return err_set(err, -EINVAL, "the ranges %u-%u and %u-%u overlap", ranges[i].first,
                           ranges[i].last, new.first, new.last);
    ranges[n] = new;
    return 0;
}

int text_parse_ranges(const char *text, struct text_range *ret, size_t max, size_t *ret_n,
                      struct err *err)
{
    struct text_range range = {0};
    size_t n = 0, len;
    int r;

    for (;; text += len + 1) {
        len = strcspn(text, ",");
        r = parse_range(text, len, &range, err);
        if (r < 0)
            return r;
        if (n == max)
            return err_set(err, -ENOBUFS, "more than %zu ranges", max);
        r = add_range(ret, n, range, err);
        if (r < 0)
            return r;
        n++;
        if (text[len] == '\0')
            break;
    }
    *ret_n = n;
    return 0;
}
