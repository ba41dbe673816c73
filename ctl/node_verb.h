/* What the verbs that act on nodes have in common: a hostlist, a reason, one answer a node. */
#ifndef XCE_CTL_NODE_VERB_H
#define XCE_CTL_NODE_VERB_H

#include "ctl/option.h"
#include "xce/client.h"

struct ctl;
struct json;

struct node_options {
    const char *reason;
};

#define NODE_REASON_OPTION(help)                                                                   \
    {                                                                                              \
        "reason", 'r', OPTION_TEXT, offsetof(struct node_options, reason), "TEXT", help, NULL      \
    }

/* Act on one node. Of the client's codes. */
typedef int (*node_verb_fn)(struct xce_client *client, const struct xce_call *call,
                            const char *node, const char *reason, struct xce_node **ret);

/* Tell that nothing came of this node, or add that to errors, an array, if not NULL. code: of the client's. */
void node_failed(struct ctl *ctl, struct json *errors, const char *node, int code);

/* Every node of the hostlist; a failure is told and the others go on. With --json: one node as an object, more as
 * {"nodes": [...], "errors": [...]}. An exit status: of the first failure. */
int node_verb_run(struct ctl *ctl, const char *hostlist, const char *reason, node_verb_fn verb);

#endif
