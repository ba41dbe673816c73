/* leasectl node drain, undrain, cordon, forget: one call of libxce for each node of a hostlist. */
#include "ctl/ctl.h"
#include "ctl/node_verb.h"
#include "ctl/verb.h"

static const struct option_entry with_reason[] = {
    NODE_REASON_OPTION("why; must be given"),
    {NULL, 0, 0, 0, NULL, NULL, NULL},
};

static const struct option_entry perhaps_reason[] = {
    NODE_REASON_OPTION("why"),
    {NULL, 0, 0, 0, NULL, NULL, NULL},
};

static int exec_with_reason(struct ctl *ctl, const struct node_options *given, char **words,
                            node_verb_fn call)
{
    if (!given->reason)
        return ctl_usage(ctl, "--reason: must be given");
    return node_verb_run(ctl, words[0], given->reason, call);
}

static int exec_perhaps_reason(struct ctl *ctl, const struct node_options *given, char **words,
                               node_verb_fn call)
{
    return node_verb_run(ctl, words[0], given->reason, call);
}

/* The verb of that name: its call is xce_node_<does>. `because`: with_reason or perhaps_reason. */
#define NODE_VERB(does, because, says, says_more)                                                  \
    static int exec_##does(struct ctl *ctl, void *memory, int n_words, char **words)               \
    {                                                                                              \
        (void)n_words;                                                                             \
        return exec_##because(ctl, memory, words, xce_node_##does);                                \
    }                                                                                              \
    const struct verb cmd_node_##does = {                                                          \
        .group = "node",                                                                           \
        .name = #does,                                                                             \
        .args = "NODES",                                                                           \
        .summary = says,                                                                           \
        .more = "NODES is a hostlist: n[01-16]." says_more,                                        \
        .options = because,                                                                        \
        .memory = sizeof(struct node_options),                                                     \
        .words_least = 1,                                                                          \
        .words_most = 1,                                                                           \
        .exec = exec_##does,                                                                       \
    }

NODE_VERB(drain, with_reason, "No new leases on these nodes; what is there goes on",
          " A node is drained when no lease is left on it.");
NODE_VERB(undrain, perhaps_reason, "Take a drain or cordon back", "");
NODE_VERB(cordon, with_reason, "No new leases on these nodes", "");
NODE_VERB(forget, with_reason, "Remove nodes from the register",
          " Only a fenced node, or a drained one that is clean.");
