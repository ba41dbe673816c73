#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "common/text.h"

#define DAY_MS INT64_C(86400000)

struct civil {
    int64_t year;
    unsigned month, day; /* from 1 */
};

/* Days since 1970-01-01 and back, proleptic Gregorian: years begin in March, so that the leap day is the last one.
 * Howard Hinnant, "chrono-Compatible Low-Level Date Algorithms". */
static int64_t days_of(struct civil c)
{
    int64_t y = c.month <= 2 ? c.year - 1 : c.year;
    int64_t era = (y >= 0 ? y : y - 399) / 400;
    int64_t year_of_era = y - era * 400;
    int64_t day_of_year = (153 * ((int64_t)c.month + (c.month > 2 ? -3 : 9)) + 2) / 5 + c.day - 1;

    return era * 146097 + year_of_era * 365 + year_of_era / 4 - year_of_era / 100 + day_of_year -
           719468;
}

static struct civil civil_of(int64_t days)
{
    int64_t z = days + 719468, era = (z >= 0 ? z : z - 146096) / 146097;
    int64_t day_of_era = z - era * 146097;
    int64_t year_of_era = (day_of_era - day_of_era / 1460 + day_of_era / 36524 -
                           day_of_era / 146096) /
                          365;
    int64_t day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    int64_t mp = (5 * day_of_year + 2) / 153;
    struct civil c = {.day = (unsigned)(day_of_year - (153 * mp + 2) / 5 + 1),
                      .month = (unsigned)(mp < 10 ? mp + 3 : mp - 9)};

    c.year = year_of_era + era * 400 + (c.month <= 2);
    return c;
}

static unsigned days_in_month(int64_t year, unsigned month)
{
    static const unsigned days[] = {31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31};
    bool leap = (year % 4 == 0 && year % 100 != 0) || year % 400 == 0;

    return days[month - 1] + (month == 2 && leap);
}

char *text_format_time(int64_t wall_ms, char ret[static TEXT_TIME_BUF])
{
    const int64_t least = days_of((struct civil){0, 1, 1}) * DAY_MS,
                  most = days_of((struct civil){10000, 1, 1}) * DAY_MS - 1;
    int64_t ms = wall_ms < least ? least : wall_ms > most ? most : wall_ms;
    int64_t days = (ms >= 0 ? ms : ms - (DAY_MS - 1)) / DAY_MS;
    unsigned rest = (unsigned)(ms - days * DAY_MS);
    struct civil c = civil_of(days);

    snprintf(ret, TEXT_TIME_BUF, "%04u-%02u-%02uT%02u:%02u:%02u.%03uZ", (unsigned)c.year % 10000,
             c.month % 100, c.day % 100, rest / 3600000, rest / 60000 % 60, rest / 1000 % 60,
             rest % 1000);
    return ret;
}

/* ---- parse ---- */

/* n digits at *at as a number; then the sign that must follow (0 = any), passed over. -1: not so. */
static int take(const char **at, unsigned n, char then)
{
    int value = 0;
    unsigned i;

    for (i = 0; i < n; i++, (*at)++) {
        if (**at < '0' || **at > '9')
            return -1;
        value = value * 10 + (**at - '0');
    }
    if (then != 0 && *(*at)++ != then)
        return -1;
    return value;
}

/* "1970-01-01T00:00:00" at *at, in ms as if it were UTC. */
static bool take_date_time(const char **at, int64_t *ret_ms)
{
    int year, month, day, hour, minute, second;

    if ((year = take(at, 4, '-')) < 0 || (month = take(at, 2, '-')) < 1 || month > 12 ||
        (day = take(at, 2, 0)) < 1 || (unsigned)day > days_in_month(year, (unsigned)month))
        return false;
    if (**at != 'T' && **at != 't' && **at != ' ')
        return false;
    (*at)++;
    if ((hour = take(at, 2, ':')) < 0 || hour > 23 || (minute = take(at, 2, ':')) < 0 ||
        minute > 59 || (second = take(at, 2, 0)) < 0 || second > 60)
        return false;
    *ret_ms = days_of((struct civil){year, (unsigned)month, (unsigned)day}) * DAY_MS +
              ((hour * 60 + minute) * 60 + second) * INT64_C(1000);
    return true;
}

/* ".123456": ms, what is beyond is cut. */
static bool take_fraction(const char **at, int64_t *ms)
{
    int scale = 100;

    if (**at != '.')
        return true;
    (*at)++;
    if (**at < '0' || **at > '9')
        return false;
    for (; **at >= '0' && **at <= '9'; (*at)++, scale /= 10)
        *ms += (int64_t)(**at - '0') * scale;
    return true;
}

static bool take_zone(const char **at, int64_t *ms)
{
    int sign, hour, minute;

    if (**at == 'Z' || **at == 'z') {
        (*at)++;
        return true;
    }
    if (**at != '+' && **at != '-')
        return false;
    sign = **at == '+' ? 1 : -1;
    (*at)++;
    if ((hour = take(at, 2, ':')) < 0 || hour > 23 || (minute = take(at, 2, 0)) < 0 || minute > 59)
        return false;
    *ms -= sign * (hour * 60 + minute) * INT64_C(60000);
    return true;
}

int text_parse_time(const char *text, int64_t *ret_wall_ms, struct err *err)
{
    const int64_t most = days_of((struct civil){10000, 1, 1}) * DAY_MS - 1;
    const char *at = text;
    uint64_t seconds = 0;
    int64_t ms = 0;

    if (text[0] == '@') {
        if (text_parse_u64(text + 1, &seconds, err) < 0)
            return -EINVAL;
        if (seconds > (uint64_t)most / 1000)
            return err_set(err, -EINVAL, "\"%s\" is beyond the year 9999", text);
        *ret_wall_ms = (int64_t)seconds * 1000;
        return 0;
    }
    if (!take_date_time(&at, &ms) || !take_fraction(&at, &ms))
        return err_set(err, -EINVAL, "\"%s\" is not a time (2025-11-29T16:05:00Z)", text);
    if (*at == '\0')
        return err_set(err, -EINVAL, "\"%s\" has no zone (end it with Z or +01:00)", text);
    if (!take_zone(&at, &ms) || *at != '\0')
        return err_set(err, -EINVAL, "\"%s\": \"%s\" is no zone (Z or +01:00)", text, at);
    *ret_wall_ms = ms;
    return 0;
}
