/* leasectl revoke: end somebody else's lease. */
#include "ctl/ctl.h"
#include "ctl/target.h"
#include "ctl/verb.h"
#include "ctl/view.h"

struct revoke_options {
    struct target target;
    const char *reason;
};

static const struct option_entry options[] = {
    TARGET_OPTIONS(struct revoke_options),
    TARGET_OPTIONS_JOB(struct revoke_options),
    {"reason", 'r', OPTION_TEXT, offsetof(struct revoke_options, reason), "TEXT",
     "why; must be given", NULL},
    {NULL, 0, 0, 0, NULL, NULL, NULL},
};

static int exec(struct ctl *ctl, void *memory, int n_words, char **words)
{
    const struct revoke_options *given = memory;
    struct xce_call call = ctl_call(ctl);
    struct xce_lease *lease, *revoked = NULL;
    int status = output_check(ctl, &view_leases), code;

    if (status != EXIT_OK)
        return status;
    if (!given->reason)
        return ctl_usage(ctl, "--reason: must be given");
    status = target_find(ctl, &given->target, n_words ? words[0] : NULL, &lease);
    if (status != EXIT_OK)
        return status;
    code = xce_lease_revoke(ctl->client, &call, lease->lease, lease->epoch, given->reason,
                            &revoked);
    xce_free(lease);
    return view_lease_changed(ctl, code, revoked);
}

const struct verb cmd_revoke = {
    .name = "revoke",
    .args = "[TARGET]",
    .summary = "End a lease whoever holds it",
    .more = TARGET_HELP,
    .options = options,
    .memory = sizeof(struct revoke_options),
    .words_most = 1,
    .exec = exec,
};
