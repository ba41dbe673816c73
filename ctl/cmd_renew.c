/* leasectl renew: a lease lasts longer, and may get more members. */
#include <string.h>

#include "common/clock.h"
#include "common/hostlist.h"
#include "ctl/ctl.h"
#include "ctl/target.h"
#include "ctl/verb.h"
#include "ctl/view.h"
#include "ctl/wait.h"

enum {
    /* Of --wait, without --timeout: a pool's ready timeout is over by then, as a rule. */
    WAIT_TIMEOUT_MS = 120 * 1000,
};

struct renew_options {
    struct target target;
    int64_t ttl_ms;
    const char *add_nodes;
    bool wait;
};

static const struct option_entry options[] = {
    TARGET_OPTIONS(struct renew_options),
    TARGET_OPTIONS_JOB(struct renew_options),
    {"ttl", 0, OPTION_DURATION, offsetof(struct renew_options, ttl_ms), "TIME",
     "from now (default: as it was granted)", NULL},
    {"add-nodes", 0, OPTION_TEXT, offsetof(struct renew_options, add_nodes), "HOSTLIST",
     "members from now on, too, like n[4-5]", NULL},
    {"wait", 'w', OPTION_FLAG, offsetof(struct renew_options, wait), NULL,
     "with --add-nodes: answer when these are ready", NULL},
    {NULL, 0, 0, 0, NULL, NULL, NULL},
};

/* As it is when the new members are ready, in the place of what the renewal was answered with. */
static int wait_ready(struct ctl *ctl, const struct hostlist *nodes, struct xce_lease **lease)
{
    int64_t timeout_ms = ctl->globals.timeout_ms ? ctl->globals.timeout_ms : WAIT_TIMEOUT_MS;
    struct xce_key key = {.kind = XCE_BY_LEASE, .lease = (*lease)->lease};
    struct xce_call call = ctl_call(ctl);
    struct xce_lease *now;
    int status = wait_members(ctl, *lease, nodes, clock_mono_ms() + timeout_ms), code;

    if (status != EXIT_OK)
        return status;
    code = xce_lease_get(ctl->client, &call, &key, &now);
    if (code != XCE_OK)
        return ctl_failed(ctl, code);
    xce_free(*lease);
    *lease = now;
    return EXIT_OK;
}

static int renew(struct ctl *ctl, const struct renew_options *given, const struct hostlist *nodes,
                 const char *word)
{
    struct xce_renewal renewal = {given->ttl_ms, nodes->names, nodes->n};
    struct xce_call call = ctl_call(ctl);
    struct xce_lease *lease, *renewed = NULL;
    int status = target_find(ctl, &given->target, word, &lease), code;

    if (status != EXIT_OK)
        return status;
    code = xce_lease_renew_with(ctl->client, &call, lease->lease, lease->epoch, &renewal, &renewed);
    xce_free(lease);
    if (code == XCE_OK && given->wait)
        status = wait_ready(ctl, nodes, &renewed);
    if (status == EXIT_OK)
        return view_lease_changed(ctl, code, renewed);
    xce_free(renewed);
    return status;
}

static int exec(struct ctl *ctl, void *memory, int n_words, char **words)
{
    AUTO(hostlist_done) struct hostlist nodes = {0};
    const struct renew_options *given = memory;
    const char *list = given->add_nodes;
    int status = output_check(ctl, &view_leases);
    struct err err = {0};

    if (status != EXIT_OK)
        return status;
    if (given->wait && !list)
        return ctl_usage(ctl, "--wait: is for --add-nodes");
    if (list && hostlist_expand(list, strlen(list), 0, &nodes, &err) < 0)
        return ctl_usage(ctl, "--add-nodes: %s", err.text);
    return renew(ctl, given, &nodes, n_words ? words[0] : NULL);
}

const struct verb cmd_renew = {
    .name = "renew",
    .args = "[TARGET]",
    .summary = "Let a lease last longer, or add members",
    .more = TARGET_HELP
    "\n"
    "A member that is added and refuses, or is not ready in time, is let go again;\n"
    "the lease goes on. One that was let go can not come back to this lease.",
    .options = options,
    .memory = sizeof(struct renew_options),
    .words_most = 1,
    .exec = exec,
};
