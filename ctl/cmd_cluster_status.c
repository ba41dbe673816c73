/* leasectl cluster status. */
#include "ctl/ctl.h"
#include "ctl/verb.h"
#include "ctl/view.h"

static int exec(struct ctl *ctl, void *memory, int n_words, char **words)
{
    struct xce_call call = ctl_call(ctl);
    struct xce_cluster *cluster;
    int status = output_begin(ctl, &view_replicas), code;

    (void)memory;
    (void)n_words;
    (void)words;
    if (status != EXIT_OK)
        return status;
    code = xce_cluster_status(ctl->client, &call, &cluster);
    if (code != XCE_OK)
        return ctl_failed(ctl, code);
    status = view_cluster(ctl, cluster);
    xce_free(cluster);
    return status;
}

const struct verb cmd_cluster_status = {
    .group = "cluster",
    .name = "status",
    .args = "",
    .summary = "Show the replicas, and who leads",
    .more = "As the replica that is asked knows it, also while nobody leads. Columns: name address "
            "role\n"
            "leads up last_entry degraded id.",
    .exec = exec,
};
