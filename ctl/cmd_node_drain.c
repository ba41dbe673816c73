/* leasectl node drain. */
#include "ctl/ctl.h"
#include "ctl/node_verb.h"
#include "ctl/verb.h"

static const struct option_entry options[] = {
    NODE_REASON_OPTION("why; must be given"),
    {NULL, 0, 0, 0, NULL, NULL, NULL},
};

static int exec(struct ctl *ctl, void *memory, int n_words, char **words)
{
    const struct node_options *given = memory;

    (void)n_words;
    if (!given->reason)
        return ctl_usage(ctl, "--reason: must be given");
    return node_verb_run(ctl, words[0], given->reason, xce_node_drain);
}

const struct verb cmd_node_drain = {
    .group = "node",
    .name = "drain",
    .args = "NODES",
    .summary = "No new leases on these nodes; what is there goes on",
    .more = "NODES is a hostlist: n[01-16]. A node is drained when no lease is left on it.",
    .options = options,
    .memory = sizeof(struct node_options),
    .words_least = 1,
    .words_most = 1,
    .exec = exec,
};
