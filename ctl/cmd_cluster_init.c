/* leasectl cluster init. */
#include "ctl/ctl.h"
#include "ctl/verb.h"

static int exec(struct ctl *ctl, void *memory, int n_words, char **words)
{
    struct xce_call call = ctl_call(ctl);
    int status = ctl_connect(ctl), code;

    (void)memory;
    (void)n_words;
    (void)words;
    if (status != EXIT_OK)
        return status;
    code = xce_cluster_init(ctl->client, &call);
    if (code != XCE_OK)
        return ctl_failed_change(ctl, code);
    ctl_say(ctl, "it begins anew as the first replica; then: leasectl cluster add NAME");
    return EXIT_OK;
}

const struct verb cmd_cluster_init = {
    .group = "cluster",
    .name = "init",
    .args = "",
    .summary = "Make this leased the first replica of a cluster",
    .more =
        "Asked of exactly one, once. Its configuration must say Engine = raft, Listen, and name a\n"
        "certificate. Leases, rules and history that it has come along. It begins anew at once;\n"
        "the others join by leasectl cluster add.",
    .exec = exec,
};
