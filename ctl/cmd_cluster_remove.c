/* leasectl cluster remove. */
#include "ctl/ctl.h"
#include "ctl/verb.h"
#include "ctl/view.h"

static int exec(struct ctl *ctl, void *memory, int n_words, char **words)
{
    struct xce_call call = ctl_call(ctl);
    struct xce_cluster *cluster = NULL;
    int status = output_begin(ctl, &view_replicas), code;

    (void)memory;
    (void)n_words;
    if (status != EXIT_OK)
        return status;
    code = xce_cluster_remove(ctl->client, &call, words[0], &cluster);
    return view_cluster_changed(ctl, code, cluster);
}

const struct verb cmd_cluster_remove = {
    .group = "cluster",
    .name = "remove",
    .args = "NAME",
    .summary = "Take a replica out",
    .more =
        "Whether it runs or is lost. Refused if the others that answer were no majority without "
        "it,\n"
        "and of the one that leads (leasectl cluster transfer). Any replica may be asked.",
    .words_least = 1,
    .words_most = 1,
    .exec = exec,
};
