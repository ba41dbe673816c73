/* leasectl history: who held a uid, also long ago. */
#include <string.h>

#include "common/clock.h"
#include "common/json.h"
#include "common/text.h"
#include "ctl/ctl.h"
#include "ctl/target.h"
#include "ctl/verb.h"
#include "ctl/view.h"

struct history_options {
    struct target target;
    const char *at;
    uint32_t limit;
};

static const struct option_entry options[] = {
    TARGET_OPTIONS(struct history_options),
    TARGET_OPTIONS_JOB(struct history_options),
    {"at", 0, OPTION_TEXT, offsetof(struct history_options, at), "TIME",
     "who held it then: 2026-11-29T16:05:00Z, or \"2h ago\"", NULL},
    {"limit", 0, OPTION_U32, offsetof(struct history_options, limit), "N",
     "at most so many (default 100, at most 1000)", NULL},
    {NULL, 0, 0, 0, NULL, NULL, NULL},
};

/* ---- the table ---- */

#define PAST ((const struct xce_past *)row)

static void cell_lease(const void *row, struct buf *buf)
{
    buf_add_u64(buf, PAST->lease);
}

static void cell_uid(const void *row, struct buf *buf)
{
    buf_add_u64(buf, PAST->uid);
}

static void cell_epoch(const void *row, struct buf *buf)
{
    buf_add_u64(buf, PAST->epoch);
}

static void cell_name(const void *row, struct buf *buf)
{
    buf_adds(buf, PAST->name);
}

static void cell_pool(const void *row, struct buf *buf)
{
    buf_adds(buf, PAST->pool);
}

static void cell_job(const void *row, struct buf *buf)
{
    buf_adds(buf, PAST->job);
}

static void cell_owner(const void *row, struct buf *buf)
{
    if (PAST->owner.name[0])
        buf_adds(buf, PAST->owner.name);
    else
        buf_addf(buf, "#%u", PAST->owner.uid);
}

static void cell_nodes(const void *row, struct buf *buf)
{
    view_strings(buf, PAST->nodes, PAST->n_nodes);
}

static void cell_granted(const void *row, struct buf *buf)
{
    view_time(buf, PAST->granted_ms);
}

static void cell_ended(const void *row, struct buf *buf)
{
    view_time(buf, PAST->ended_ms);
}

static void cell_retired(const void *row, struct buf *buf)
{
    view_time(buf, PAST->retired_ms);
}

static void cell_freed(const void *row, struct buf *buf)
{
    view_time(buf, PAST->freed_ms);
}

static void cell_cause(const void *row, struct buf *buf)
{
    buf_adds(buf, PAST->end_cause);
}

static const struct output_column columns[] = {
    {"lease", true, true, cell_lease},       {"uid", true, true, cell_uid},
    {"epoch", false, true, cell_epoch},      {"name", true, false, cell_name},
    {"pool", false, false, cell_pool},       {"job", true, false, cell_job},
    {"owner", true, false, cell_owner},      {"nodes", true, false, cell_nodes},
    {"granted", true, false, cell_granted},  {"ended", true, false, cell_ended},
    {"retired", false, false, cell_retired}, {"freed", true, false, cell_freed},
    {"cause", true, false, cell_cause},
};

static const struct output_table table = {columns, sizeof columns / sizeof columns[0],
                                          sizeof(struct xce_past)};

static struct json *past_json(const struct xce_past *past)
{
    struct json *object = json_new_object();

    json_set_u64(object, "lease", past->lease);
    json_set_u64(object, "uid", past->uid);
    json_set_u64(object, "epoch", past->epoch);
    json_set_string(object, "name", past->name);
    json_set_string(object, "pool", past->pool);
    json_set_string(object, "job", past->job);
    json_set(object, "owner", view_owner_json(&past->owner));
    json_set(object, "nodes", view_strings_json(past->nodes, past->n_nodes));
    json_set_time(object, "granted", past->granted_ms);
    json_set_time(object, "ended", past->ended_ms);
    json_set_time(object, "retired", past->retired_ms);
    json_set_time(object, "freed", past->freed_ms);
    json_set_string(object, "cause", past->end_cause);
    return object;
}

static int print_json(struct ctl *ctl, const struct xce_history *history)
{
    struct json *object = json_new_object(), *array = json_new_array();

    for (size_t i = 0; i < history->n; i++)
        json_append(array, past_json(&history->items[i]));
    json_set(object, "history", array);
    json_set_bool(object, "complete", history->complete);
    json_set_u64(object, "revision", history->revision);
    json_set_string(object, "unknown", *history->unknown ? history->unknown : NULL);
    return ctl_print_json(ctl, object);
}

/* ---- the verb ---- */

/* "2h ago", "now", RFC 3339. */
static int parse_at(struct ctl *ctl, const char *text, int64_t *ret)
{
    static const char ago[] = " ago";
    size_t len = strlen(text), tail = sizeof ago - 1;
    struct err err = {0};
    char span[64];
    int64_t ms;

    if (!strcmp(text, "now")) {
        *ret = clock_wall_ms();
        return EXIT_OK;
    }
    if (len > tail && len - tail < sizeof span && !strcmp(text + len - tail, ago)) {
        memcpy(span, text, len - tail);
        span[len - tail] = 0;
        if (text_parse_duration(span, &ms, &err) != 0)
            return ctl_usage(ctl, "--at: %s: %s", text, err.text[0] ? err.text : "no time span");
        *ret = clock_wall_ms() - ms;
    } else if (text_parse_time(text, ret, &err) < 0) {
        return ctl_usage(ctl, "--at: %s", err.text);
    }
    return *ret > 0 ? EXIT_OK : ctl_usage(ctl, "--at: %s: lies before 1970", text);
}

/* A bare number is a uid, or else the number of a lease: the first that has a history. */
static int ask(struct ctl *ctl, const struct target_keys *keys, int64_t at_ms, uint32_t limit,
               struct xce_history **ret)
{
    struct xce_call call = ctl_call(ctl);
    int code = XCE_NOT_FOUND;

    for (size_t i = 0; i < keys->n; i++) {
        code = xce_lease_history(ctl->client, &call, &keys->keys[i], at_ms, limit, ret);
        if (code != XCE_OK && code != XCE_NOT_FOUND)
            break;
        if (i + 1 == keys->n || (code == XCE_OK && (*ret)->n))
            break;
        if (code == XCE_OK)
            xce_free(*ret);
    }
    return code == XCE_OK ? EXIT_OK : target_failed(ctl, code, &keys->keys[0]);
}

static int exec(struct ctl *ctl, void *memory, int n_words, char **words)
{
    const struct history_options *given = memory;
    struct xce_history *history;
    struct target_keys keys;
    int64_t at_ms = 0;
    int status = output_check(ctl, &table);

    if (status == EXIT_OK)
        status = target_keys(ctl, &given->target, n_words ? words[0] : NULL, &keys);
    if (status == EXIT_OK && given->at)
        status = parse_at(ctl, given->at, &at_ms);
    if (status == EXIT_OK)
        status = ctl_connect(ctl);
    if (status == EXIT_OK)
        status = ask(ctl, &keys, at_ms, given->limit, &history);
    if (status != EXIT_OK)
        return status;
    if (*history->unknown)
        ctl_say(ctl, "%s: nobody found does not mean that nobody was there", history->unknown);
    if (!history->complete)
        ctl_say(ctl, "the history is still being written: the newest changes may be missing");
    status = ctl->globals.json ? print_json(ctl, history)
                               : output_rows(ctl, &table, history->items, history->n);
    if (status == EXIT_OK && history->n == 0 && *history->unknown)
        status = EXIT_FAILED;
    xce_free(history);
    return status;
}

const struct verb cmd_history = {
    .name = "history",
    .args = "[TARGET]",
    .summary = "Say who held a uid, also long ago",
    .more = TARGET_HELP
    "\nNewest first. Nobody held it: no row, and status 0. Not known: no row, and status 1.",
    .options = options,
    .memory = sizeof(struct history_options),
    .words_most = 1,
    .stale = true,
    .exec = exec,
};
