#include <errno.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "common/hostlist.h"

/* A name taken apart at its last number. */
struct host {
    const char *name;
    size_t prefix;      /* bytes before the number */
    size_t digits;      /* of the number; 0 = there is none, prefix is the whole name */
    const char *suffix; /* what follows */
    uint64_t value;
    size_t width; /* padded to so many digits; 0 = not padded */
};

static bool is_digit(char c)
{
    return c >= '0' && c <= '9';
}

static struct host take_apart(const char *name)
{
    size_t len = strlen(name), end = len, start, i;
    struct host host = {.name = name, .prefix = len, .suffix = name + len};

    while (end > 0 && !is_digit(name[end - 1]))
        end--;
    start = end;
    while (start > 0 && is_digit(name[start - 1]))
        start--;
    if (end == start || end - start > 18)
        return host;
    host.prefix = start;
    host.digits = end - start;
    host.suffix = name + end;
    for (i = start; i < end; i++)
        host.value = host.value * 10 + (uint64_t)(name[i] - '0');
    if (host.digits > 1 && name[start] == '0')
        host.width = host.digits;
    return host;
}

static int compare_bytes(const char *a, size_t a_len, const char *b, size_t b_len)
{
    int r = memcmp(a, b, a_len < b_len ? a_len : b_len);

    return r ? r : (a_len > b_len) - (a_len < b_len);
}

/* Names that differ in nothing but the number come together. */
static int compare_around(const struct host *a, const struct host *b)
{
    int r = compare_bytes(a->name, a->prefix, b->name, b->prefix);

    if (r == 0)
        r = strcmp(a->suffix, b->suffix);
    return r ? r : (a->digits > 0) - (b->digits > 0);
}

static int compare_hosts(const void *left, const void *right)
{
    const struct host *a = left, *b = right;
    int r = compare_around(a, b);

    if (r == 0)
        r = (a->width > b->width) - (a->width < b->width);
    if (r == 0)
        r = (a->value > b->value) - (a->value < b->value);
    return r;
}

/* In a group that holds n08 and n10, n10 counts as padded to two digits, so that they are one range. */
static void settle_widths(struct host *hosts, size_t n)
{
    uint32_t widths = 0;
    size_t i;

    for (i = 0; i < n; i++)
        widths |= UINT32_C(1) << hosts[i].width;
    for (i = 0; i < n; i++)
        if (hosts[i].width == 0 && hosts[i].digits > 1 && widths & UINT32_C(1) << hosts[i].digits)
            hosts[i].width = hosts[i].digits;
}

static void add_number(struct buf *buf, const struct host *host)
{
    buf_add(buf, host->name + host->prefix, host->digits);
}

/* How many from the first on are one range; copies are passed over. */
static size_t run_length(const struct host *hosts, size_t n)
{
    size_t i;

    for (i = 1; i < n; i++)
        if (hosts[i].width != hosts[0].width || hosts[i].value - hosts[i - 1].value > 1)
            break;
    return i;
}

static void add_bracket(struct buf *buf, const struct host *hosts, size_t n)
{
    size_t i, run;

    buf_add(buf, hosts[0].name, hosts[0].prefix);
    buf_addc(buf, '[');
    for (i = 0; i < n; i += run) {
        run = run_length(hosts + i, n - i);
        if (i > 0)
            buf_addc(buf, ',');
        add_number(buf, &hosts[i]);
        if (hosts[i + run - 1].value > hosts[i].value) {
            buf_addc(buf, '-');
            add_number(buf, &hosts[i + run - 1]);
        }
    }
    buf_addc(buf, ']');
    buf_adds(buf, hosts[0].suffix);
}

/* Hosts that differ in nothing but the number, sorted. */
static void add_group(struct buf *buf, struct host *hosts, size_t n)
{
    settle_widths(hosts, n);
    qsort(hosts, n, sizeof(*hosts), compare_hosts);
    if (compare_hosts(&hosts[0], &hosts[n - 1]) == 0)
        buf_adds(buf, hosts[0].name);
    else
        add_bracket(buf, hosts, n);
}

int hostlist_collapse(const char *const *names, size_t n, struct buf *buf)
{
    auto_free struct host *hosts = NULL;
    size_t i, group;

    hosts = calloc(n ? n : 1, sizeof(*hosts));
    if (!hosts)
        return -ENOMEM;
    for (i = 0; i < n; i++)
        hosts[i] = take_apart(names[i]);
    qsort(hosts, n, sizeof(*hosts), compare_hosts);
    for (i = 0; i < n; i += group) {
        for (group = 1; i + group < n && compare_around(&hosts[i], &hosts[i + group]) == 0; group++)
            ;
        if (i > 0)
            buf_addc(buf, ',');
        add_group(buf, hosts + i, group);
    }
    return buf_error(buf);
}
