/* leasectl rbac show. */
#include "ctl/ctl.h"
#include "ctl/verb.h"
#include "ctl/view.h"

static int exec(struct ctl *ctl, void *memory, int n_words, char **words)
{
    struct xce_call call = ctl_call(ctl);
    struct xce_rules *rules;
    int status = ctl_connect(ctl), code;

    (void)memory;
    (void)n_words;
    (void)words;
    if (status != EXIT_OK)
        return status;
    code = xce_rbac_get(ctl->client, &call, &rules);
    if (code != XCE_OK)
        return ctl_failed(ctl, code);
    status = view_rules(ctl, rules);
    xce_free(rules);
    return status;
}

const struct verb cmd_rbac_show = {
    .group = "rbac",
    .name = "show",
    .args = "",
    .summary = "Show the rules: who may do what",
    .more =
        "As the file that rbac apply reads: show, edit, apply.\n"
        "Root of leased's own machine is always admin, a node has role node: that is in no rules.",
    .exec = exec,
};
