/* leasectl acquire: lease one uid or many. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/hostlist.h"
#include "common/json.h"
#include "common/mem.h"
#include "common/text.h"
#include "ctl/acquire.h"
#include "ctl/ctl.h"
#include "ctl/launch.h"
#include "ctl/quote.h"
#include "ctl/verb.h"
#include "ctl/view.h"

struct acquire_options {
    struct acquire_spec spec;
    bool adopt;
    uint32_t count;
    const char *print;
    const char *request_id;
};

static const char *const print_words[] = {"env", "systemd-run", "uid", "name", "lease", NULL};

#define AT(field) offsetof(struct acquire_options, field)

static const struct option_entry options[] = {
    ACQUIRE_OPTIONS(struct acquire_options),
    {"wait", 'w', OPTION_FLAG, AT(spec.wait), NULL,
     "answer when every member is ready: the uid resolves there now", NULL},
    {"adopt", 0, OPTION_FLAG, AT(adopt), NULL, "the job has a lease already: answer with that one",
     NULL},
    {"count", 'n', OPTION_U32, AT(count), "N", "so many leases, all or none (at most 1024)", NULL},
    {"print", 0, OPTION_WORD, AT(print), "FORM",
     "env, systemd-run, uid, name or lease instead of a table", print_words},
    {"request-id", 0, OPTION_TEXT, AT(request_id), "ID",
     "16 to 64 bytes: the same id again gets the same answer", NULL},
    {NULL, 0, 0, 0, NULL, NULL, NULL},
};

/* ---- forms of output ---- */

static void env_line(struct buf *buf, const char *name, const char *value)
{
    buf_adds(buf, name);
    buf_addc(buf, '=');
    quote_word(buf, value);
    buf_addc(buf, '\n');
}

static void env_number(struct buf *buf, const char *name, uint64_t value)
{
    buf_adds(buf, name);
    buf_addc(buf, '=');
    buf_add_u64(buf, value);
    buf_addc(buf, '\n');
}

/* For eval of a shell. */
static void print_env(const struct xce_lease *lease, struct buf *buf)
{
    char slice[48], expires[TEXT_TIME_BUF];

    launch_slice(lease, slice, sizeof slice);
    env_number(buf, "XCE_LEASE", lease->lease);
    env_number(buf, "XCE_UID", lease->uid);
    env_number(buf, "XCE_GID", lease->gid);
    env_number(buf, "XCE_EPOCH", lease->epoch);
    env_line(buf, "XCE_NAME", lease->name);
    env_line(buf, "XCE_POOL", lease->pool);
    env_line(buf, "XCE_JOB", lease->job);
    env_line(buf, "XCE_SLICE", slice);
    env_line(buf, "XCE_STATE", xce_lease_state_word(lease->state));
    env_line(buf, "XCE_EXPIRES",
             lease->expires_ms ? text_format_time(lease->expires_ms, expires) : "");
}

static int print_systemd_run(const struct xce_lease *lease, struct buf *buf)
{
    struct launch launch;
    int r = launch_make(lease, &launch);

    if (r < 0)
        return r;
    for (size_t i = 0; i < launch.n; i++) {
        if (i)
            buf_addc(buf, ' ');
        buf_adds(buf, launch.args[i]);
    }
    buf_addc(buf, '\n');
    launch_done(&launch);
    return 0;
}

static int print_form(struct ctl *ctl, const char *form, const struct xce_lease *lease)
{
    AUTO(buf_done) struct buf buf = BUF_INIT(64 * 1024);
    int r = 0;

    if (!strcmp(form, "env"))
        print_env(lease, &buf);
    else if (!strcmp(form, "systemd-run"))
        r = print_systemd_run(lease, &buf);
    else if (!strcmp(form, "name"))
        buf_addf(&buf, "%s\n", lease->name);
    else
        buf_addf(&buf, "%" PRIu64 "\n", !strcmp(form, "uid") ? lease->uid : lease->lease);
    if (r == 0)
        r = buf_error(&buf);
    if (r < 0)
        return ctl_fail(ctl, XCE_FAILED, "lease %" PRIu64 ": can not be printed: %s", lease->lease,
                        err_text(r));
    fputs(buf_str(&buf), stdout);
    return EXIT_OK;
}

static struct json *left_out_json(const struct xce_leases *leases)
{
    struct json *array = json_new_array();

    for (size_t i = 0; i < leases->n_left_out; i++) {
        struct json *object = json_new_object();

        json_set_string(object, "node", leases->left_out[i].node);
        json_set_string(object, "state", leases->left_out[i].state);
        json_set_string(object, "reason", leases->left_out[i].reason);
        json_append(array, object);
    }
    return array;
}

static int print_json(struct ctl *ctl, const struct xce_leases *leases, bool batch)
{
    struct json *object, *array;

    if (!batch) {
        object = view_lease_json(&leases->items[0]);
        json_set(object, "left_out", left_out_json(leases));
        return ctl_print_json(ctl, object);
    }
    object = json_new_object();
    array = json_new_array();
    for (size_t i = 0; i < leases->n; i++)
        json_append(array, view_lease_json(&leases->items[i]));
    json_set(object, "leases", array);
    json_set(object, "left_out", left_out_json(leases));
    return ctl_print_json(ctl, object);
}

static int print(struct ctl *ctl, const struct acquire_options *given,
                 const struct xce_leases *leases)
{
    int status = EXIT_OK;

    if (!given->print && ctl->globals.json)
        return print_json(ctl, leases, given->count > 0);
    if (!given->print)
        return output_rows(ctl, &view_leases, leases->items, leases->n);
    for (size_t i = 0; i < leases->n && status == EXIT_OK; i++)
        status = print_form(ctl, given->print, &leases->items[i]);
    return status == EXIT_OK ? ctl_finish_stdout(ctl) : status;
}

/* ---- the verb ---- */

/* Before anything is granted: what could go wrong after it. */
static int check(struct ctl *ctl, const struct acquire_options *given)
{
    if (given->count > XCE_BATCH_MAX)
        return ctl_usage(ctl, "--count: %u: at most %d at once", given->count, XCE_BATCH_MAX);
    if (given->count > 1 && given->spec.job && !strstr(given->spec.job, "%i"))
        return ctl_usage(ctl,
                         "--job: %s: names one lease, and --count asks for %u; put %%i into "
                         "it, which becomes 1 to %u",
                         given->spec.job, given->count, given->count);
    if (given->count > 1 && given->print && !strcmp(given->print, "env"))
        return ctl_usage(ctl, "--print: env is of one lease, and --count asks for %u",
                         given->count);
    if (given->print && ctl->globals.json)
        return ctl_usage(ctl, "--print: %s is no JSON: leave --json or --print out", given->print);
    return output_check(ctl, &view_leases);
}

static int exec(struct ctl *ctl, void *memory, int n_words, char **words)
{
    struct acquire_options *given = memory;
    struct xce_leases *leases;
    int status = check(ctl, given);

    (void)n_words;
    (void)words;
    /* User= must resolve when systemd-run comes to it. */
    if (given->print && !strcmp(given->print, "systemd-run"))
        given->spec.wait = true;
    if (status == EXIT_OK)
        status = acquire_run(ctl, &given->spec, given->count ? given->count : 1, given->adopt,
                             given->request_id, &leases);
    if (status != EXIT_OK)
        return status;
    status = print(ctl, given, leases);
    xce_free(leases);
    return status;
}

const struct verb cmd_acquire = {
    .name = "acquire",
    .args = "",
    .summary = "Lease a fresh uid",
    .more = "Without --nodes the lease is for this machine, which must be a registered node.\n"
            "--print env is for eval $(...), --print systemd-run for systemd-run $(...) COMMAND;\n"
            "the latter implies --wait.\n"
            "When the outcome is not known (exit 4 or 5) the message says under which --request-id "
            "the\n"
            "call may be repeated without being done twice.",
    .options = options,
    .memory = sizeof(struct acquire_options),
    .exec = exec,
};
