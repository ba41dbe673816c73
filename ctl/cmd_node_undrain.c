/* leasectl node undrain. */
#include "ctl/ctl.h"
#include "ctl/node_verb.h"
#include "ctl/verb.h"

static const struct option_entry options[] = {
    NODE_REASON_OPTION("why"),
    {NULL, 0, 0, 0, NULL, NULL, NULL},
};

static int exec(struct ctl *ctl, void *memory, int n_words, char **words)
{
    const struct node_options *given = memory;

    (void)n_words;
    return node_verb_run(ctl, words[0], given->reason, xce_node_undrain);
}

const struct verb cmd_node_undrain = {
    .group = "node",
    .name = "undrain",
    .args = "NODES",
    .summary = "Take a drain or cordon back",
    .more = "NODES is a hostlist: n[01-16].",
    .options = options,
    .memory = sizeof(struct node_options),
    .words_least = 1,
    .words_most = 1,
    .exec = exec,
};
