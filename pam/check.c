#include "pam/check.h"

#include <string.h>

/* The sample pool of the manual, and what `ranges=` is by default. */
#define RANGE_FIRST 2013265920u
#define RANGE_LAST  2013331455u

/* Longer ones are no spelling of a name of ours: leading zeros are room enough. */
#define USER_MAX 64

/* ---- arguments ---- */

void check_conf_init(struct check_conf *conf)
{
    *conf = (struct check_conf){
        .services = "xce",
        .prefix = NAME_PREFIX_DEFAULT,
        .ranges = {{RANGE_FIRST, RANGE_LAST}},
        .n_ranges = 1,
    };
}

/* Decimal digits from *at on. False: none, or above 32 bits. */
static bool take_decimal(const char **at, uint32_t *ret)
{
    const char *p = *at;
    uint64_t n = 0;

    for (; *p >= '0' && *p <= '9' && n <= UINT32_MAX; p++)
        n = n * 10 + (uint64_t)(*p - '0');
    if (p == *at || n > UINT32_MAX)
        return false;
    *at = p;
    *ret = (uint32_t)n;
    return true;
}

static bool take_span(const char **at, struct check_span *ret)
{
    if (!take_decimal(at, &ret->first) || *(*at)++ != '-' || !take_decimal(at, &ret->last))
        return false;
    return ret->first <= ret->last && !map_reserved(ret->first, ret->last);
}

static bool ranges_argument(struct check_conf *conf, const char *at)
{
    struct check_span spans[XCE_RANGES_MAX];
    uint32_t n = 0;

    if (strcmp(at, "none") == 0) {
        conf->n_ranges = 0;
        return true;
    }
    do {
        if (n == XCE_RANGES_MAX || !take_span(&at, &spans[n++]))
            return false;
    } while (*at++ == ',');
    if (at[-1] != '\0')
        return false;
    memcpy(conf->ranges, spans, n * sizeof(spans[0]));
    conf->n_ranges = n;
    return true;
}

bool check_argument(struct check_conf *conf, const char *argument)
{
    const char *value = strchr(argument, '=');

    if (!value)
        return false;
    value++;
    if (strncmp(argument, "services=", 9) == 0 && *value) {
        conf->services = value;
        return true;
    }
    if (strncmp(argument, "prefix=", 7) == 0 && name_prefix_valid(value)) {
        memcpy(conf->prefix, value, strlen(value) + 1);
        return true;
    }
    return strncmp(argument, "ranges=", 7) == 0 && ranges_argument(conf, value);
}

static bool service_listed(const char *list, const char *service)
{
    size_t len = strlen(service);

    for (;;) {
        size_t n = strcspn(list, ",");

        if (n == len && len > 0 && strncmp(list, service, n) == 0)
            return true;
        if (list[n] == '\0')
            return false;
        list += n + 1;
    }
}

/* ---- names ---- */

static char lower(char c)
{
    return c >= 'A' && c <= 'Z' ? (char)(c - 'A' + 'a') : c;
}

/* A digit of our base as it is written in names; people take o i l for others. */
static char digit(char c)
{
    c = lower(c);
    return c == 'o' ? '0' : c == 'i' || c == 'l' ? '1' : c;
}

/* The name of a lease that user is a spelling of. False: of none. */
static bool spelled(const char *user, char ret[NAME_BUF])
{
    size_t n = 0;
    bool first = false, in_prefix = true;

    if (strnlen(user, USER_MAX + 1) > USER_MAX)
        return false;
    for (; *user; user++) {
        char c = in_prefix ? lower(*user) : digit(*user);

        if (first && c == '0')
            continue;
        first = c == '-';
        in_prefix = in_prefix && c != '-';
        if (n == NAME_MAX_LEN)
            return false;
        ret[n++] = c;
    }
    ret[n] = '\0';
    return name_possible(ret);
}

/* A uid written as a number: decimal, or hexadecimal behind 0x. sudo gives a uid that no account has as "#uid". */
static bool number(const char *user, uint32_t *ret)
{
    uint64_t n = 0, base = 10;

    if (user[0] == '#')
        user++;
    if (user[0] == '0' && lower(user[1]) == 'x') {
        base = 16;
        user += 2;
    }
    if (!*user)
        return false;
    for (; *user; user++) {
        char c = lower(*user);
        uint64_t value = c >= '0' && c <= '9'   ? (uint64_t)(c - '0')
                         : c >= 'a' && c <= 'f' ? (uint64_t)(c - 'a') + 10
                                                : 99;

        n = n * base + value;
        if (value >= base || n > UINT32_MAX)
            return false;
    }
    *ret = (uint32_t)n;
    return true;
}

/* What a user's name says. */
struct reading {
    bool numeric, form; /* neither: an ordinary name */
    bool exact;         /* with form: in just our spelling */
    uint32_t uid;
    char name[NAME_BUF]; /* with form */
};

static struct reading read_name(const char *user)
{
    struct reading r = {0};
    uint32_t epoch;

    r.numeric = number(user, &r.uid);
    if (!r.numeric && spelled(user, r.name)) {
        const char *numbers = strchr(r.name, '-') + 1;

        r.form = name_decode_numbers(numbers, strlen(numbers), &r.uid, &epoch) == 0;
        r.exact = strcmp(user, r.name) == 0;
    }
    return r;
}

static bool possible(uint32_t uid)
{
    return !map_reserved(uid, uid);
}

bool check_concerns(const struct check_who *who)
{
    const struct reading r = read_name(who->user);

    return ((r.numeric || r.form) && possible(r.uid)) || (who->known && possible(who->uid));
}

/* ---- the decision ---- */

/* What the ranges and prefixes are. */
struct scope {
    const struct check_conf *conf;
    const struct map *map;
    bool certain; /* the map has all that there are */
    int64_t beat_ms;
    char prefix[NAME_PREFIX_MAX + 1];
};

static struct scope scope_of(const struct check_conf *conf, const struct map *map)
{
    struct scope scope = {.conf = conf, .map = map};
    struct map_status status;

    if (!map)
        return scope;
    map_status(map, &status);
    scope.certain = status.synced;
    scope.beat_ms = (int64_t)status.beat_boot_ms;
    memcpy(scope.prefix, status.prefix, sizeof(scope.prefix));
    return scope;
}

static bool in_range(const struct scope *scope, uint32_t uid)
{
    if (scope->map && map_covers(scope->map, uid))
        return true;
    for (uint32_t i = 0; i < scope->conf->n_ranges && !scope->certain; i++)
        if (uid >= scope->conf->ranges[i].first && uid <= scope->conf->ranges[i].last)
            return true;
    return false;
}

static bool begins(const char *name, const char *prefix)
{
    size_t len = strlen(prefix);

    return len > 0 && strncmp(name, prefix, len) == 0;
}

static bool ours(const struct scope *scope, const struct check_who *who, const struct reading *r)
{
    bool fallback = !scope->certain && begins(r->name, scope->conf->prefix);

    if (who->known && in_range(scope, who->uid))
        return true;
    if (r->numeric)
        return in_range(scope, r->uid);
    if (!r->form || !(fallback || begins(r->name, scope->prefix)))
        return false;
    return in_range(scope, r->uid) || (fallback && r->exact && possible(r->uid));
}

static enum check refused_by_map(int r)
{
    return r == MAP_FOREIGN || r == MAP_ABSENT ? CHECK_NO_LEASE : CHECK_DAMAGED;
}

enum check check_decide(const struct check_conf *conf, const struct map *map, int64_t now_ms,
                        const struct check_who *who, struct map_entry *ret_entry)
{
    const struct reading reading = read_name(who->user);
    const struct scope scope = scope_of(conf, map);
    int r;

    if (!ours(&scope, who, &reading))
        return CHECK_FOREIGN;
    if (!map)
        return CHECK_NO_MAP;
    if (!reading.exact)
        return CHECK_OTHER_NAME;
    r = map_find_name(map, who->user, MAP_WANT_RECORD, ret_entry);
    if (r != 0)
        return refused_by_map(r);
    if (!map_here(ret_entry))
        return CHECK_NOT_HERE;
    if (!(ret_entry->record.flags & XCE_MAP_SAID_READY))
        return CHECK_NOT_READY;
    if (who->known && who->uid != ret_entry->record.uid)
        return CHECK_OTHER_ACCOUNT;
    if (!service_listed(conf->services, who->service))
        return CHECK_SERVICE;
    return now_ms - scope.beat_ms <= CHECK_ALIVE_MS ? CHECK_ALLOWED : CHECK_STALE;
}

const char *check_text(enum check verdict)
{
    static const char *const texts[] = {
        [CHECK_FOREIGN] = "no user of ours",
        [CHECK_ALLOWED] = "its lease is here",
        [CHECK_NO_MAP] = "there is no uid map that can be used",
        [CHECK_OTHER_NAME] = "it is not the name of a lease, but its uid is in the range of a pool",
        [CHECK_NO_LEASE] = "no lease has that name (any more)",
        [CHECK_DAMAGED] = "its record in the uid map can not be read",
        [CHECK_NOT_HERE] = "its lease is not here: not of this machine, or over",
        [CHECK_NOT_READY] = "this machine is not ready for its lease yet",
        [CHECK_OTHER_ACCOUNT] = "this machine has an account of that name with another uid",
        [CHECK_SERVICE] = "leases do not come in by this service",
        [CHECK_STALE] = "noded, which would have to end it, has not been alive for a minute",
    };

    return texts[verdict];
}
