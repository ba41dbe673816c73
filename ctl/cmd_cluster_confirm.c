/* leasectl cluster confirm. */
#include <string.h>

#include "common/hostlist.h"
#include "ctl/ctl.h"
#include "ctl/verb.h"
#include "ctl/view.h"

static int exec(struct ctl *ctl, void *memory, int n_words, char **words)
{
    AUTO(hostlist_done) struct hostlist nodes = {0};
    struct xce_call call = ctl_call(ctl);
    struct xce_cluster *cluster = NULL;
    struct err err = {{0}};
    int status, code;

    (void)memory;
    (void)n_words;
    if (hostlist_expand(words[0], strlen(words[0]), 0, &nodes, &err) < 0)
        return ctl_usage(ctl, "NODES: %s", err.text);
    status = output_begin(ctl, &view_replicas);
    if (status != EXIT_OK)
        return status;
    code = xce_cluster_confirm(ctl->client, &call, nodes.names, nodes.n, &cluster);
    return view_cluster_changed(ctl, code, cluster);
}

const struct verb cmd_cluster_confirm = {
    .group = "cluster",
    .name = "confirm",
    .args = "NODES",
    .summary = "After a restore: swear that these are all nodes there are",
    .more = "NODES is a hostlist, n[01-16]: each node that is registered and not fenced. Refused "
            "while one "
            "of\n"
            "them has not said hello, reported its epochs and been found clean since the restore; "
            "leasectl\n"
            "cluster status says what is missing. Then uids are given out again.",
    .words_least = 1,
    .words_most = 1,
    .exec = exec,
};
