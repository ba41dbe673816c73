/* leasectl node show. */
#include "ctl/ctl.h"
#include "ctl/node_verb.h"
#include "ctl/verb.h"

static int get(struct xce_client *client, const struct xce_call *call, const char *node,
               const char *reason, struct xce_node **ret)
{
    (void)reason;
    return xce_node_get(client, call, node, ret);
}

static int exec(struct ctl *ctl, void *memory, int n_words, char **words)
{
    (void)memory;
    (void)n_words;
    return node_verb_run(ctl, words[0], NULL, get);
}

const struct verb cmd_node_show = {
    .group = "node",
    .name = "show",
    .args = "NODES",
    .summary = "Show some nodes",
    .more = "NODES is a hostlist: n[01-16].",
    .words_least = 1,
    .words_most = 1,
    .stale = true,
    .exec = exec,
};
