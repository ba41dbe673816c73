/* leasectl renew: a lease lasts longer. */
#include "ctl/ctl.h"
#include "ctl/target.h"
#include "ctl/verb.h"
#include "ctl/view.h"

struct renew_options {
    struct target target;
    int64_t ttl_ms;
};

static const struct option_entry options[] = {
    TARGET_OPTIONS(struct renew_options),
    TARGET_OPTIONS_JOB(struct renew_options),
    {"ttl", 0, OPTION_DURATION, offsetof(struct renew_options, ttl_ms), "TIME",
     "from now (default: as it was granted)", NULL},
    {NULL, 0, 0, 0, NULL, NULL, NULL},
};

static int exec(struct ctl *ctl, void *memory, int n_words, char **words)
{
    const struct renew_options *given = memory;
    struct xce_call call = ctl_call(ctl);
    struct xce_lease *lease, *renewed = NULL;
    int status = output_check(ctl, &view_leases), code;

    if (status == EXIT_OK)
        status = target_find(ctl, &given->target, n_words ? words[0] : NULL, &lease);
    if (status != EXIT_OK)
        return status;
    code = xce_lease_renew(ctl->client, &call, lease->lease, lease->epoch, given->ttl_ms, &renewed);
    xce_free(lease);
    return view_lease_changed(ctl, code, renewed);
}

const struct verb cmd_renew = {
    .name = "renew",
    .args = "[TARGET]",
    .summary = "Let a lease last longer",
    .more = TARGET_HELP,
    .options = options,
    .memory = sizeof(struct renew_options),
    .words_most = 1,
    .exec = exec,
};
