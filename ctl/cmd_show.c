/* leasectl show: one lease. */
#include "ctl/ctl.h"
#include "ctl/target.h"
#include "ctl/verb.h"
#include "ctl/view.h"

struct show_options {
    struct target target;
};

static const struct option_entry options[] = {
    TARGET_OPTIONS(struct show_options),
    TARGET_OPTIONS_JOB(struct show_options),
    {NULL, 0, 0, 0, NULL, NULL, NULL},
};

static int exec(struct ctl *ctl, void *memory, int n_words, char **words)
{
    const struct show_options *given = memory;
    struct xce_lease *lease;
    int status = output_check(ctl, &view_leases);

    if (status == EXIT_OK)
        status = target_find(ctl, &given->target, n_words ? words[0] : NULL, &lease);
    if (status != EXIT_OK)
        return status;
    status = view_lease(ctl, lease);
    xce_free(lease);
    return status;
}

const struct verb cmd_show = {
    .name = "show",
    .args = "[TARGET]",
    .summary = "Show one lease that is not free",
    .more = TARGET_HELP "\nOf leases long gone leasectl history knows.",
    .options = options,
    .memory = sizeof(struct show_options),
    .words_most = 1,
    .stale = true,
    .exec = exec,
};
