/* leasectl explain: why is this uid not free. */
#include <stdio.h>
#include <string.h>

#include "common/json.h"
#include "common/text.h"
#include "ctl/ctl.h"
#include "ctl/target.h"
#include "ctl/verb.h"
#include "ctl/view.h"

struct explain_options {
    struct target target;
};

static const struct option_entry options[] = {
    TARGET_OPTIONS(struct explain_options),
    TARGET_OPTIONS_JOB(struct explain_options),
    {NULL, 0, 0, 0, NULL, NULL, NULL},
};

/* ---- the table ---- */

#define WAITING ((const struct xce_waiting *)row)

static void cell_what(const void *row, struct buf *buf)
{
    buf_adds(buf, WAITING->what);
}

static void cell_state(const void *row, struct buf *buf)
{
    buf_adds(buf, WAITING->state);
}

static void cell_since(const void *row, struct buf *buf)
{
    view_time(buf, WAITING->since_ms);
}

static void cell_until(const void *row, struct buf *buf)
{
    view_time(buf, WAITING->until_ms);
}

static void cell_detail(const void *row, struct buf *buf)
{
    buf_adds(buf, WAITING->detail);
}

static void cell_cure(const void *row, struct buf *buf)
{
    buf_adds(buf, WAITING->cure);
}

static const struct output_column columns[] = {
    {"what", true, false, cell_what},     {"state", true, false, cell_state},
    {"since", true, false, cell_since},   {"until", true, false, cell_until},
    {"detail", true, false, cell_detail}, {"cure", true, false, cell_cure},
};

static const struct output_table table = {columns, sizeof columns / sizeof columns[0],
                                          sizeof(struct xce_waiting)};

static int print_table(struct ctl *ctl, const struct xce_explanation *explanation)
{
    char summary[1024];

    if (!ctl->globals.no_headings && !ctl->globals.quiet) {
        text_escape(explanation->summary, strlen(explanation->summary), summary, sizeof summary);
        printf("%s\n", summary);
    }
    if (!explanation->n_waits)
        return ctl_finish_stdout(ctl);
    return output_rows(ctl, &table, explanation->waits, explanation->n_waits);
}

static int print_json(struct ctl *ctl, const struct xce_explanation *explanation)
{
    struct json *object = json_new_object(), *waits = json_new_array();

    for (size_t i = 0; i < explanation->n_waits; i++) {
        const struct xce_waiting *waiting = &explanation->waits[i];
        struct json *wait = json_new_object();

        json_set_string(wait, "what", waiting->what);
        json_set_string(wait, "state", waiting->state);
        json_set_string(wait, "detail", waiting->detail);
        json_set_time(wait, "since", waiting->since_ms);
        json_set_time(wait, "until", waiting->until_ms);
        json_set_string(wait, "cure", waiting->cure);
        json_append(waits, wait);
    }
    json_set_string(object, "summary", explanation->summary);
    json_set_bool(object, "free", explanation->n_waits == 0);
    json_set(object, "lease",
             explanation->lease ? view_lease_json(explanation->lease) : json_new_null());
    json_set(object, "waits", waits);
    json_set_u64(object, "revision", explanation->revision);
    return ctl_print_json(ctl, object);
}

static int exec(struct ctl *ctl, void *memory, int n_words, char **words)
{
    const struct explain_options *given = memory;
    struct xce_call call = ctl_call(ctl);
    struct xce_explanation *explanation;
    struct target_keys keys;
    int status = output_check(ctl, &table), code = XCE_NOT_FOUND;

    if (status == EXIT_OK)
        status = target_keys(ctl, &given->target, n_words ? words[0] : NULL, &keys);
    if (status == EXIT_OK)
        status = ctl_connect(ctl);
    if (status != EXIT_OK)
        return status;
    /* A bare number is a uid, or else the number of a lease. */
    for (size_t i = 0; i < keys.n && code == XCE_NOT_FOUND; i++)
        code = xce_lease_explain(ctl->client, &call, &keys.keys[i], &explanation);
    if (code != XCE_OK)
        return target_failed(ctl, code, &keys.keys[0]);
    status = ctl->globals.json ? print_json(ctl, explanation) : print_table(ctl, explanation);
    xce_free(explanation);
    return status;
}

const struct verb cmd_explain = {
    .name = "explain",
    .args = "[TARGET]",
    .summary = "Say why a uid is not free: what it waits for, since when, and what helps",
    .more = TARGET_HELP,
    .options = options,
    .memory = sizeof(struct explain_options),
    .words_most = 1,
    .stale = true,
    .exec = exec,
};
