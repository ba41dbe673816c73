#include "leased/fsm/pool.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "common/mem.h"
#include "leased/fsm/apply.h"
#include "leased/fsm/incarnation.h"
#include "leased/fsm/node.h"

#define SECOND 1000LL
#define DAY    (86400 * SECOND)

#define HOME_DEFAULT  "/nonexistent"
#define SHELL_DEFAULT "/usr/sbin/nologin"

/* ---- settings ---- */

static const struct {
    const char *name;
    size_t setting, field; /* offsets in fsm_settings and in CmdPoolSettings */
    int64_t least_ms, most_ms, default_ms;
} times[] = {
#define TIME(name, least, most, normal)                                                            \
    {                                                                                              \
#name, offsetof(struct fsm_settings, name), offsetof(Xce__V1__CmdPoolSettings, name),      \
            least, most, normal                                                                    \
    }
    TIME(ttl_min_ms, SECOND, 365 * DAY, SECOND),
    TIME(ttl_max_ms, SECOND, 365 * DAY, 30 * DAY),
    TIME(ttl_default_ms, SECOND, 365 * DAY, 3600 * SECOND),
    TIME(cooldown_ms, SECOND, 7 * DAY, 300 * SECOND),
    TIME(ready_timeout_ms, SECOND, 600 * SECOND, 10 * SECOND),
    TIME(validity_ms, SECOND, 7 * DAY, 3600 * SECOND),
#undef TIME
};

static int64_t *time_of(struct fsm_settings *settings, size_t i)
{
    return (int64_t *)(void *)((char *)settings + times[i].setting);
}

static void set_defaults(struct fsm_settings *settings)
{
    *settings = (struct fsm_settings){.home = HOME_DEFAULT, .shell = SHELL_DEFAULT};
    for (size_t i = 0; i < ARRAY_LEN(times); i++)
        *time_of(settings, i) = times[i].default_ms;
}

static bool take_times(const Xce__V1__CmdPoolSettings *cmd, struct fsm_settings *settings,
                       struct fsm_outcome *outcome)
{
    char spans[3][TEXT_DURATION_BUF];

    for (size_t i = 0; i < ARRAY_LEN(times); i++) {
        int64_t value = *(const int64_t *)(const void *)((const char *)cmd + times[i].field);

        if (!value)
            continue;
        if (value < times[i].least_ms || value > times[i].most_ms) {
            fsm_fail(outcome, FSM_INVALID, "%s: %s, must be %s to %s", times[i].name,
                     apply_span(value, spans[0]), apply_span(times[i].least_ms, spans[1]),
                     apply_span(times[i].most_ms, spans[2]));
            return false;
        }
        *time_of(settings, i) = value;
    }
    /* A default that was not asked for gives way to bounds that were. */
    if (!cmd->ttl_default_ms && settings->ttl_default_ms > settings->ttl_max_ms)
        settings->ttl_default_ms = settings->ttl_max_ms;
    if (!cmd->ttl_default_ms && settings->ttl_default_ms < settings->ttl_min_ms)
        settings->ttl_default_ms = settings->ttl_min_ms;
    if (settings->ttl_min_ms <= settings->ttl_default_ms &&
        settings->ttl_default_ms <= settings->ttl_max_ms)
        return true;
    fsm_fail(outcome, FSM_INVALID,
             "ttl_min_ms %s, ttl_default_ms %s, ttl_max_ms %s: must be in this order",
             apply_span(settings->ttl_min_ms, spans[0]),
             apply_span(settings->ttl_default_ms, spans[1]),
             apply_span(settings->ttl_max_ms, spans[2]));
    return false;
}

/* Into a passwd record: absolute, no colon. */
static bool take_path(struct fsm *fsm, ProtobufCBinaryData path, const char *field,
                      const char **setting, struct fsm_outcome *outcome)
{
    if (!path.len)
        return true;
    if (!apply_text(path, field, APPLY_PATH_MAX, false, outcome))
        return false;
    if (path.data[0] != '/' || memchr(path.data, ':', path.len)) {
        fsm_fail(outcome, FSM_INVALID, "%s: must be an absolute path without a colon", field);
        return false;
    }
    *setting = apply_string(fsm, path);
    return true;
}

static bool take_settings(struct fsm *fsm, const Xce__V1__CmdPoolSettings *cmd,
                          struct fsm_settings *settings, struct fsm_outcome *outcome)
{
    if (!cmd)
        return true;
    if (!take_times(cmd, settings, outcome) ||
        !take_path(fsm, cmd->home, "home", &settings->home, outcome) ||
        !take_path(fsm, cmd->shell, "shell", &settings->shell, outcome))
        return false;
    if (cmd->witnesses_set && cmd->witnesses > 1) {
        fsm_fail(outcome, FSM_INVALID, "witnesses: %" PRIu32 " is not known", cmd->witnesses);
        return false;
    }
    if (cmd->witnesses_set)
        settings->witnesses_all = cmd->witnesses == 1;
    if (cmd->max_per_owner_set)
        settings->max_per_owner = cmd->max_per_owner;
    return true;
}

/* The strings of the new settings are copied; those of the old ones go. */
static void put_settings(struct fsm *fsm, struct pool *pool, const struct fsm_settings *settings)
{
    struct fsm_settings old = pool->pub.settings;

    pool->pub.settings = *settings;
    pool->pub.settings.home = mem_must_strdup(settings->home);
    pool->pub.settings.shell = mem_must_strdup(settings->shell);
    free((void *)old.home);
    free((void *)old.shell);
    if (old.max_per_owner != settings->max_per_owner)
        pool_recount_owners(fsm, pool);
}

/* ---- ranges ---- */

static bool take_directory(struct fsm *fsm, size_t n, Xce__V1__CmdRange **given,
                           struct fsm_range **ret, struct fsm_outcome *outcome)
{
    struct fsm_range *ranges = apply_alloc(fsm, (n + 1) * sizeof(*ranges));

    if (n > FSM_DIRECTORY_MAX) {
        fsm_fail(outcome, FSM_INVALID, "directory ranges: %zu, at most %d", n, FSM_DIRECTORY_MAX);
        return false;
    }
    for (size_t i = 0; i < n; i++) {
        ranges[i] = (struct fsm_range){given[i]->first, given[i]->last};
        if (given[i]->first <= given[i]->last)
            continue;
        fsm_fail(outcome, FSM_INVALID,
                 "directory range %" PRIu32 "-%" PRIu32 " ends before it begins", given[i]->first,
                 given[i]->last);
        return false;
    }
    *ret = ranges;
    return true;
}

/* All pools lie in one map on each node. */
static bool check_sum(struct fsm *fsm, struct fsm_range range, const struct pool *self,
                      struct fsm_outcome *outcome)
{
    uint64_t sum = (uint64_t)range.last - range.first + 1;

    for (size_t i = 0; i < fsm->n_pools; i++)
        if (fsm->pools[i] != self)
            sum += fsm->pools[i]->size;
    if (sum <= XCE_UIDS_MAX)
        return true;
    fsm_fail(outcome, FSM_EXHAUSTED,
             "with range %" PRIu32 "-%" PRIu32 " all pools would have %" PRIu64
             " uids, more than the %u that a node can hold",
             range.first, range.last, sum, XCE_UIDS_MAX);
    return false;
}

static bool check_range(struct fsm *fsm, struct fsm_range range, const struct pool *self,
                        const struct fsm_range *directory, size_t n_directory,
                        struct fsm_outcome *outcome)
{
    char why[FSM_MESSAGE_MAX + 1];

    if (range.last < range.first) {
        fsm_fail(outcome, FSM_INVALID, "range %" PRIu32 "-%" PRIu32 " ends before it begins",
                 range.first, range.last);
        return false;
    }
    if (range_refused(fsm, range, self, directory, n_directory, why)) {
        fsm_fail(outcome, FSM_PRECONDITION, "%s", why);
        return false;
    }
    if (range.last - range.first >= FSM_POOL_UIDS) {
        fsm_fail(outcome, FSM_INVALID, "range %" PRIu32 "-%" PRIu32 ": a pool has at most %d uids",
                 range.first, range.last, FSM_POOL_UIDS);
        return false;
    }
    return check_sum(fsm, range, self, outcome);
}

/* Uids that were never leased before in this pool: in order of their number. */
static void line_up(struct fsm *fsm, struct pool *pool, uint32_t from)
{
    for (uint32_t i = pool->size; i-- > from;)
        pool_line_prepend(pool, i);
    for (uint32_t i = from; i < pool->size; i++)
        if (pool->slots[i].epoch == UINT32_MAX)
            (void)pool_block(fsm, pool, i, NULL, "epochs", "every epoch of this uid has been used");
    oath_take_in(fsm, pool);
}

/* ---- commands ---- */

static bool check_create(struct fsm *fsm, const Xce__V1__CmdPoolCreate *cmd,
                         struct fsm_outcome *outcome)
{
    if (!apply_text(cmd->name, "name", APPLY_POOL_MAX, false, outcome))
        return false;
    if (pool_find(fsm, cmd->name.data, cmd->name.len)) {
        fsm_fail(outcome, FSM_EXISTS, "pool %s exists already", apply_string(fsm, cmd->name));
        return false;
    }
    if (fsm->n_pools >= FSM_POOLS_MAX) {
        fsm_fail(outcome, FSM_EXHAUSTED, "there are %d pools, no more are taken", FSM_POOLS_MAX);
        return false;
    }
    if (!cmd->range) {
        fsm_fail(outcome, FSM_INVALID, "range: must be given");
        return false;
    }
    if ((cmd->n_directory_ranges > 0) == (cmd->directory_none != 0)) {
        fsm_fail(outcome, FSM_INVALID,
                 "directory ranges: say which uids the directory service may give out, or none");
        return false;
    }
    return true;
}

void apply_pool_create(struct fsm *fsm, const Xce__V1__Command *command,
                       struct fsm_outcome *outcome)
{
    const Xce__V1__CmdPoolCreate *cmd = command->pool_create;
    size_t n = cmd->n_directory_ranges;
    struct fsm_range *directory, range;
    struct fsm_settings settings;
    struct pool *pool;

    set_defaults(&settings);
    if (!check_create(fsm, cmd, outcome) ||
        !take_directory(fsm, n, cmd->directory_ranges, &directory, outcome) ||
        !take_settings(fsm, cmd->settings, &settings, outcome))
        return;
    range = (struct fsm_range){cmd->range->first, cmd->range->last};
    if (!check_range(fsm, range, NULL, directory, n, outcome))
        return;
    pool = pool_table_add(fsm, cmd->name.data, cmd->name.len, range);
    pool_set_directory(pool, directory, n);
    put_settings(fsm, pool, &settings);
    fsm_changed_pool(fsm, pool, CHANGE_POOL);
    line_up(fsm, pool, 0);
    incarnation_ask_again(fsm);
}

/* What the pool is to become: its range and directory ranges, checked. */
static bool check_set(struct fsm *fsm, const Xce__V1__CmdPoolSet *cmd, const struct pool *pool,
                      const struct fsm_range *directory, size_t n, struct fsm_outcome *outcome)
{
    struct fsm_range range = pool->pub.range;

    if (cmd->n_directory_ranges && cmd->directory_none) {
        fsm_fail(outcome, FSM_INVALID, "directory ranges: either a list or none, not both");
        return false;
    }
    if (cmd->last && cmd->last < range.last) {
        fsm_fail(outcome, FSM_PRECONDITION,
                 "pool %s ends at %" PRIu32 ": it can grow, not shrink to %" PRIu32, pool->pub.name,
                 range.last, cmd->last);
        return false;
    }
    if (cmd->last > range.last && pool->pub.retiring) {
        fsm_fail(outcome, FSM_PRECONDITION, "pool %s is retiring: it can not grow", pool->pub.name);
        return false;
    }
    if (cmd->last)
        range.last = cmd->last;
    return check_range(fsm, range, pool, directory, n, outcome);
}

void apply_pool_set(struct fsm *fsm, const Xce__V1__Command *command, struct fsm_outcome *outcome)
{
    const Xce__V1__CmdPoolSet *cmd = command->pool_set;
    struct pool *pool = apply_pool(fsm, cmd->name, outcome);
    size_t n = cmd->n_directory_ranges;
    struct fsm_range *given;
    const struct fsm_range *directory;
    struct fsm_settings settings;
    uint32_t size;

    if (!pool)
        return;
    settings = pool->pub.settings;
    size = pool->size;
    if (!take_directory(fsm, n, cmd->directory_ranges, &given, outcome) ||
        !take_settings(fsm, cmd->settings, &settings, outcome))
        return;
    directory = given;
    if (!n && !cmd->directory_none) {
        directory = pool->pub.directory;
        n = pool->pub.n_directory;
    }
    if (!check_set(fsm, cmd, pool, directory, n, outcome))
        return;
    if (directory != pool->pub.directory)
        pool_set_directory(pool, directory, n);
    put_settings(fsm, pool, &settings);
    if (cmd->last > pool->pub.range.last)
        pool_table_grow(fsm, pool, cmd->last);
    fsm_changed_pool(fsm, pool, CHANGE_POOL);
    line_up(fsm, pool, size);
    if (pool->size > size)
        incarnation_ask_again(fsm);
    (void)witness_free(fsm, 1024);
}

void apply_pool_retire(struct fsm *fsm, const Xce__V1__Command *command,
                       struct fsm_outcome *outcome)
{
    struct pool *pool = apply_pool(fsm, command->pool_retire->name, outcome);

    if (!pool || pool->pub.retiring)
        return;
    pool->pub.retiring = true;
    fsm_changed_pool(fsm, pool, CHANGE_POOL);
    pool_leave_if_empty(fsm, pool);
}

void apply_unblock(struct fsm *fsm, const Xce__V1__Command *command, struct fsm_outcome *outcome)
{
    const Xce__V1__CmdUnblock *cmd = command->unblock;
    struct pool *pool = apply_pool(fsm, cmd->name, outcome);
    uint32_t i;

    if (!pool)
        return;
    if (cmd->uid < pool->pub.range.first || cmd->uid > pool->pub.range.last) {
        fsm_fail(outcome, FSM_INVALID, "uid %" PRIu32 " is not in pool %s: %" PRIu32 "-%" PRIu32,
                 cmd->uid, pool->pub.name, pool->pub.range.first, pool->pub.range.last);
        return;
    }
    i = cmd->uid - pool->pub.range.first;
    if (!pool->blocked[i]) {
        fsm_fail(outcome, FSM_NOT_FOUND, "uid %" PRIu32 " of pool %s is not blocked", cmd->uid,
                 pool->pub.name);
        return;
    }
    if (pool->slots[i].epoch == UINT32_MAX && pool->states[i] == UID_ASIDE) {
        fsm_fail(outcome, FSM_PRECONDITION,
                 "uid %" PRIu32 ": every epoch of it has been used, it is never leased again",
                 cmd->uid);
        return;
    }
    pool_unblock(fsm, pool, i);
    pool_leave_if_empty(fsm, pool);
}

bool fsm_uid_is_blocked(const struct fsm *fsm, uint32_t uid)
{
    const struct pool *pool = pool_of_uid(fsm, uid);

    return pool && pool->blocked[uid - pool->pub.range.first];
}
