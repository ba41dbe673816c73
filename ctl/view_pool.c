#include "common/json.h"
#include "common/text.h"
#include "ctl/ctl.h"
#include "ctl/view.h"

#define CELL(name) static void cell_##name(const void *row, struct buf *buf)
#define POOL       ((const struct xce_pool *)row)

#define COUNT_CELL(name)                                                                           \
    CELL(name)                                                                                     \
    {                                                                                              \
        if (POOL->has_counts)                                                                      \
            buf_add_u64(buf, POOL->counts.name);                                                   \
    }

#define TIME_CELL(name, field)                                                                     \
    CELL(name)                                                                                     \
    {                                                                                              \
        char text[TEXT_DURATION_BUF];                                                              \
                                                                                                   \
        buf_adds(buf, text_format_duration(POOL->settings.field, text));                           \
    }

static void add_range(struct buf *buf, const struct xce_range *range)
{
    buf_addf(buf, "%u-%u", range->first, range->last);
}

CELL(name)
{
    buf_adds(buf, POOL->name);
}

CELL(range)
{
    add_range(buf, &POOL->range);
}

CELL(size)
{
    buf_add_u64(buf, (uint64_t)POOL->range.last - POOL->range.first + 1);
}

CELL(state)
{
    buf_adds(buf, xce_pool_state_word(POOL->state));
}

CELL(prefix)
{
    buf_adds(buf, POOL->prefix);
}

CELL(directory_ranges)
{
    if (POOL->directory_none)
        buf_adds(buf, "none");
    for (size_t i = 0; i < POOL->n_directory_ranges; i++) {
        if (i)
            buf_addc(buf, ',');
        add_range(buf, &POOL->directory_ranges[i]);
    }
}

COUNT_CELL(free)
COUNT_CELL(granted)
COUNT_CELL(active)
COUNT_CELL(draining)
COUNT_CELL(normalising)
COUNT_CELL(cooling)
COUNT_CELL(retired)
COUNT_CELL(blocked)
COUNT_CELL(quarantined)

TIME_CELL(ttl_min, ttl_min_ms)
TIME_CELL(ttl_max, ttl_max_ms)
TIME_CELL(ttl_default, ttl_default_ms)
TIME_CELL(cooldown, cooldown_ms)
TIME_CELL(ready_timeout, ready_timeout_ms)
TIME_CELL(validity, validity_ms)

static const char *witnesses_word(int witnesses)
{
    return witnesses == XCE_WITNESSES_ALL         ? "all"
           : witnesses == XCE_WITNESSES_CONNECTED ? "connected"
                                                  : "unknown";
}

CELL(witnesses)
{
    buf_adds(buf, witnesses_word(POOL->settings.witnesses));
}

CELL(max_per_owner)
{
    if (POOL->settings.max_per_owner)
        buf_add_u64(buf, POOL->settings.max_per_owner);
    else
        buf_adds(buf, "none");
}

CELL(home)
{
    buf_adds(buf, POOL->settings.home);
}

CELL(shell)
{
    buf_adds(buf, POOL->settings.shell);
}

CELL(next_due)
{
    view_time(buf, POOL->next_due_ms);
}

CELL(revision)
{
    buf_add_u64(buf, POOL->revision);
}

static const struct output_column columns[] = {
    {"name", true, false, cell_name},
    {"range", true, false, cell_range},
    {"size", false, true, cell_size},
    {"state", true, false, cell_state},
    {"free", true, true, cell_free},
    {"granted", true, true, cell_granted},
    {"active", true, true, cell_active},
    {"draining", true, true, cell_draining},
    {"normalising", false, true, cell_normalising},
    {"cooling", true, true, cell_cooling},
    {"retired", true, true, cell_retired},
    {"blocked", true, true, cell_blocked},
    {"quarantined", true, true, cell_quarantined},
    {"next_due", false, false, cell_next_due},
    {"prefix", false, false, cell_prefix},
    {"directory_ranges", false, false, cell_directory_ranges},
    {"ttl_min", false, true, cell_ttl_min},
    {"ttl_max", false, true, cell_ttl_max},
    {"ttl_default", false, true, cell_ttl_default},
    {"cooldown", false, true, cell_cooldown},
    {"ready_timeout", false, true, cell_ready_timeout},
    {"validity", false, true, cell_validity},
    {"witnesses", false, false, cell_witnesses},
    {"max_per_owner", false, true, cell_max_per_owner},
    {"home", false, false, cell_home},
    {"shell", false, false, cell_shell},
    {"revision", false, true, cell_revision},
};

const struct output_table view_pools = {columns, sizeof columns / sizeof columns[0],
                                        sizeof(struct xce_pool)};

/* ---- JSON ---- */

static struct json *range_json(const struct xce_range *range)
{
    char text[32];
    struct buf buf;

    buf_init_fixed(&buf, text, sizeof text);
    add_range(&buf, range);
    return json_new_string(buf_str(&buf));
}

static struct json *settings_json(const struct xce_pool_settings *settings)
{
    struct json *object = json_new_object();

    json_set_i64(object, "ttl_min_ms", settings->ttl_min_ms);
    json_set_i64(object, "ttl_max_ms", settings->ttl_max_ms);
    json_set_i64(object, "ttl_default_ms", settings->ttl_default_ms);
    json_set_i64(object, "cooldown_ms", settings->cooldown_ms);
    json_set_i64(object, "ready_timeout_ms", settings->ready_timeout_ms);
    json_set_i64(object, "validity_ms", settings->validity_ms);
    json_set_string(object, "witnesses", witnesses_word(settings->witnesses));
    json_set_u64(object, "max_per_owner", settings->max_per_owner);
    json_set_string(object, "home", settings->home);
    json_set_string(object, "shell", settings->shell);
    return object;
}

static struct json *counts_json(const struct xce_pool_counts *counts)
{
    struct json *object = json_new_object();

    json_set_u64(object, "free", counts->free);
    json_set_u64(object, "granted", counts->granted);
    json_set_u64(object, "active", counts->active);
    json_set_u64(object, "draining", counts->draining);
    json_set_u64(object, "normalising", counts->normalising);
    json_set_u64(object, "cooling", counts->cooling);
    json_set_u64(object, "retired", counts->retired);
    json_set_u64(object, "blocked", counts->blocked);
    json_set_u64(object, "quarantined", counts->quarantined);
    return object;
}

static struct json *blocked_json(const struct xce_pool *pool)
{
    struct json *array = json_new_array();

    for (size_t i = 0; i < pool->n_blocked; i++) {
        const struct xce_blocked *blocked = &pool->blocked[i];
        struct json *object = json_new_object();

        json_set_u64(object, "uid", blocked->uid);
        json_set_string(object, "node", blocked->node);
        json_set_string(object, "reason", blocked->reason);
        json_set_string(object, "detail", blocked->detail);
        json_set_time(object, "since", blocked->since_ms);
        json_append(array, object);
    }
    return array;
}

struct json *view_pool_json(const struct xce_pool *pool)
{
    struct json *object = json_new_object(), *directory = json_new_array();

    for (size_t i = 0; i < pool->n_directory_ranges; i++)
        json_append(directory, range_json(&pool->directory_ranges[i]));
    json_set_string(object, "name", pool->name);
    json_set(object, "range", range_json(&pool->range));
    json_set_u64(object, "first", pool->range.first);
    json_set_u64(object, "last", pool->range.last);
    json_set_u64(object, "size", (uint64_t)pool->range.last - pool->range.first + 1);
    json_set_string(object, "state", xce_pool_state_word(pool->state));
    json_set_string(object, "prefix", pool->prefix);
    json_set(object, "directory_ranges", directory);
    json_set_bool(object, "directory_none", pool->directory_none);
    json_set(object, "settings", settings_json(&pool->settings));
    json_set(object, "counts", pool->has_counts ? counts_json(&pool->counts) : json_new_null());
    json_set(object, "blocked", blocked_json(pool));
    json_set_time(object, "next_due", pool->next_due_ms);
    json_set_u64(object, "revision", pool->revision);
    return object;
}

int view_pool(struct ctl *ctl, const struct xce_pool *pool)
{
    if (ctl->globals.json)
        return ctl_print_json(ctl, view_pool_json(pool));
    return output_rows(ctl, &view_pools, pool, 1);
}

int view_pool_changed(struct ctl *ctl, int code, struct xce_pool *pool)
{
    int status;

    if (code != XCE_OK)
        return ctl_failed_change(ctl, code);
    status = view_pool(ctl, pool);
    xce_free(pool);
    return status;
}
