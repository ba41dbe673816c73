/* leasectl exec: acquire, run one command under the lease, release. */
#include <signal.h>
#include <string.h>

#include "common/clock.h"
#include "ctl/acquire.h"
#include "ctl/ctl.h"
#include "ctl/exec_lease.h"
#include "ctl/exec_unit.h"
#include "ctl/verb.h"
#include "ctl/wait.h"
#include "map/read.h"

enum {
    /* Of --wait, without --timeout. */
    WAIT_TIMEOUT_MS = 10 * 60 * 1000,
    RENEWALS_PER_TTL = 3,
};

struct exec_options {
    struct acquire_spec spec;
    const char *wait;
    struct option_list properties, setenv;
};

#define AT(field) offsetof(struct exec_options, field)

static const char *const wait_words[] = {"clean", "free", NULL};

static const struct option_entry options[] = {
    ACQUIRE_OPTIONS(struct exec_options),
    {"wait", 'w', OPTION_OPTIONAL, AT(wait), "clean|free",
     "afterwards wait until it is proved clean, or the uid is free", wait_words},
    {"property", 'p', OPTION_LIST, AT(properties), "NAME=VALUE",
     "a property for the unit, like MemoryMax=1G; may be repeated", NULL},
    {"setenv", 'E', OPTION_LIST, AT(setenv), "NAME=VALUE",
     "in the command's environment; may be repeated", NULL},
    {NULL, 0, 0, 0, NULL, NULL, NULL},
};

/* Every item is NAME=VALUE. */
static int check_pairs(struct ctl *ctl, const char *option, const struct option_list *list)
{
    for (size_t i = 0; i < list->n; i++)
        if (!strchr(list->items[i], '=') || list->items[i][0] == '=')
            return ctl_usage(ctl, "--%s: %s: must be NAME=VALUE", option, list->items[i]);
    return EXIT_OK;
}

static void renew(struct exec_unit *unit)
{
    exec_lease_renew(unit->ctl, unit->lease);
}

static int run(struct ctl *ctl, const struct exec_options *given, char **words,
               const struct xce_lease *lease)
{
    struct exec_unit unit = {
        .ctl = ctl,
        .lease = lease,
        .properties = &given->properties,
        .setenv = &given->setenv,
        .command = words,
        .tick = renew,
        .tick_ms = lease->ttl_ms / RENEWALS_PER_TTL,
    };

    return exec_unit_run(&unit);
}

/* Whether noded admits the lease on this machine: else whatever is started would be killed, and its name may not even
 * resolve. */
static int check_here(struct ctl *ctl, const struct xce_lease *lease)
{
    struct map_entry entry;
    const char *why = NULL;
    struct map map;
    bool here;
    int r = map_open(XCE_MAP_PATH_DEFAULT, &map, NULL, &why);

    if (r < 0)
        return ctl_fail(ctl, XCE_FAILED, "exec: %s: %s (leasectl doctor)", XCE_MAP_PATH_DEFAULT,
                        why ? why : err_text(r));
    here = map_find_uid(&map, lease->uid, MAP_WANT_RECORD, &entry) == 0 &&
           entry.record.epoch == lease->epoch && map_here(&entry);
    map_close(&map);
    if (!here)
        return ctl_fail(ctl, XCE_PRECONDITION,
                        "exec: uid %u is not leased for this machine: name it in --nodes",
                        lease->uid);
    return EXIT_OK;
}

/* A command of which nobody recorded the end: if its lease ended before, noded killed it. known: what became of the lease
 * is; released: the lease, NULL = long gone. */
static int judge_unrecorded(struct ctl *ctl, bool known, const struct xce_lease *released)
{
    if (!known || (released && !strcmp(released->end_cause, "release")))
        return ctl_fail(ctl, XCE_FAILED, "exec: nobody recorded how the command ended");
    ctl_say(ctl, "the command was killed: its lease has ended%s%s", released ? ": " : "",
            released ? released->end_cause : "");
    return 128 + SIGKILL;
}

/* *status: the command's, made final. An exit status of its own. */
static int give_back(struct ctl *ctl, const struct exec_options *given,
                     const struct xce_lease *lease, int *status_of_command)
{
    int64_t timeout_ms = ctl->globals.timeout_ms ? ctl->globals.timeout_ms : WAIT_TIMEOUT_MS;
    struct wait_end end = {0};
    struct exec_released released;
    int status = exec_lease_release(ctl, lease, &released);
    bool known = status == EXIT_OK && !released.handed;

    if (*status_of_command == EXEC_UNIT_UNRECORDED)
        *status_of_command = judge_unrecorded(ctl, known, released.lease);
    if (released.handed && given->wait)
        status = ctl_fail(ctl, XCE_UNREACHABLE, "--wait: no leased is there to say when it is %s",
                          given->wait);
    else if (status == EXIT_OK && given->wait)
        status = wait_lease(ctl, released.lease ? released.lease : lease,
                            !strcmp(given->wait, "free") ? WAIT_FREE : WAIT_CLEAN,
                            clock_mono_ms() + timeout_ms, &end);
    wait_end_done(&end);
    xce_free(released.lease);
    return status;
}

static int exec(struct ctl *ctl, void *memory, int n_words, char **words)
{
    const struct exec_options *given = memory;
    struct xce_lease *lease;
    int status, released;

    (void)n_words;
    /* stdout is the command's. */
    ctl->json_on_stdout = false;
    status = check_pairs(ctl, "property", &given->properties);
    if (status == EXIT_OK)
        status = check_pairs(ctl, "setenv", &given->setenv);
    if (status == EXIT_OK)
        status = exec_unit_check(ctl, words[0]);
    if (status != EXIT_OK)
        return status;
    exec_unit_block_signals();
    status = exec_lease_get(ctl, &given->spec, &lease);
    if (status != EXIT_OK)
        return status;
    status = check_here(ctl, lease);
    if (status == EXIT_OK)
        status = run(ctl, given, words, lease);
    released = give_back(ctl, given, lease, &status);
    xce_free(lease);
    /* The command's word comes first; but what was asked for and did not happen is no success. */
    return status == EXIT_OK ? released : status;
}

const struct verb cmd_exec = {
    .name = "exec",
    .args = "[--] COMMAND [ARG...]",
    .summary = "Acquire a lease, run a command under it in a sandbox, release it",
    .more = "The command is a transient unit of systemd on this machine, with the properties that\n"
            "acquire --print systemd-run prints. Its standard streams are those of leasectl. INT, "
            "TERM,\n"
            "HUP, QUIT, USR1 and USR2 are passed on; the same one twice kills it. The lease is "
            "renewed\n"
            "while it runs and released in any case: where no leased answers by then, at noded of\n"
            "this machine, which tells leased when it is there.\n"
            "Exit status: the command's; 128 + signal; 126 or 127 when it can not be found.",
    .options = options,
    .memory = sizeof(struct exec_options),
    .words_least = 1,
    .words_most = -1,
    .rest = true,
    .exec = exec,
};
