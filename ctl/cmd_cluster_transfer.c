/* leasectl cluster transfer. */
#include "ctl/ctl.h"
#include "ctl/verb.h"
#include "ctl/view.h"

static int exec(struct ctl *ctl, void *memory, int n_words, char **words)
{
    struct xce_call call = ctl_call(ctl);
    struct xce_cluster *cluster = NULL;
    int status = output_begin(ctl, &view_replicas), code;

    (void)memory;
    if (status != EXIT_OK)
        return status;
    code = xce_cluster_transfer(ctl->client, &call, n_words > 0 ? words[0] : NULL, &cluster);
    return view_cluster_changed(ctl, code, cluster);
}

const struct verb cmd_cluster_transfer = {
    .group = "cluster",
    .name = "transfer",
    .args = "[NAME]",
    .summary = "Have another replica lead",
    .more = "NAME, or whoever is best. No request is lost by it. Any replica may be asked.",
    .words_most = 1,
    .exec = exec,
};
