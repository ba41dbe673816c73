/* NodeService, as far as it is for people; Session is noded's. */
#include "client/verb.h"
#include "common/text.h"

#define SERVICE "NodeService"

static int take_node(struct xce_client *client, const ProtobufCMessage *message, void *result)
{
    const Xce__V1__NodeReply *reply = (const Xce__V1__NodeReply *)message;

    client_saw_info(client, reply->info);
    if (!reply->node)
        return client_fail(client, XCE_FAILED, "the server's answer holds no node");
    result_node(reply->node, result);
    return XCE_OK;
}

int xce_node_get(struct xce_client *client, const struct xce_call *call, const char *node,
                 struct xce_node **ret)
{
    struct op_spec spec = VERB(OP_READ, "Get", node_reply, take_node);
    Xce__V1__NodeKey request = XCE__V1__NODE_KEY__INIT;

    request.node = verb_bytes(node);
    return verb_run(client, call, &spec, &request.base, sizeof **ret, ret);
}

static int take_list(struct xce_client *client, const ProtobufCMessage *message, void *result)
{
    const Xce__V1__ListNodesReply *reply = (const Xce__V1__ListNodesReply *)message;
    struct xce_nodes *nodes = result;
    struct xce_node *items = pb_arena_alloc(result_arena(nodes),
                                            (reply->n_nodes + 1) * sizeof *items);

    if (!items)
        return OUT_OF_MEMORY(client);
    for (size_t i = 0; i < reply->n_nodes; i++)
        result_node(reply->nodes[i], &items[i]);
    nodes->items = items;
    nodes->n = reply->n_nodes;
    nodes->revision = reply->revision;
    return XCE_OK;
}

int xce_node_list(struct xce_client *client, const struct xce_call *call, struct xce_nodes **ret)
{
    struct op_spec spec = VERB(OP_READ, "List", list_nodes_reply, take_list);
    Xce__V1__ListNodesRequest request = XCE__V1__LIST_NODES_REQUEST__INIT;

    return verb_run(client, call, &spec, &request.base, sizeof **ret, ret);
}

/* What is done to a node, and why. */
static int run_verb(struct xce_client *client, const struct xce_call *call, const char *path,
                    const char *node, const char *reason, struct xce_node **ret)
{
    struct op_spec spec = {.kind = OP_CHANGE,
                           .path = path,
                           .reply = &xce__v1__node_reply__descriptor,
                           .take = take_node};
    Xce__V1__NodeVerbRequest request = XCE__V1__NODE_VERB_REQUEST__INIT;

    request.node = verb_bytes(node);
    request.reason = verb_bytes(reason);
    return verb_run(client, call, &spec, &request.base, sizeof **ret, ret);
}

int xce_node_drain(struct xce_client *client, const struct xce_call *call, const char *node,
                   const char *reason, struct xce_node **ret)
{
    return run_verb(client, call, "/xce.v1.NodeService/Drain", node, reason, ret);
}

int xce_node_undrain(struct xce_client *client, const struct xce_call *call, const char *node,
                     const char *reason, struct xce_node **ret)
{
    return run_verb(client, call, "/xce.v1.NodeService/Undrain", node, reason, ret);
}

int xce_node_cordon(struct xce_client *client, const struct xce_call *call, const char *node,
                    const char *reason, struct xce_node **ret)
{
    return run_verb(client, call, "/xce.v1.NodeService/Cordon", node, reason, ret);
}

int xce_node_sweep(struct xce_client *client, const struct xce_call *call, const char *node,
                   const char *reason, struct xce_node **ret)
{
    return run_verb(client, call, "/xce.v1.NodeService/Sweep", node, reason, ret);
}

static int take_remnants(struct xce_client *client, const ProtobufCMessage *message, void *result)
{
    const Xce__V1__NodeReply *reply = (const Xce__V1__NodeReply *)message;
    struct xce_remnants *remnants = result;
    struct xce_remnant *items = pb_arena_alloc(result_arena(remnants),
                                               (reply->n_remnants + 1) * sizeof *items);

    client_saw_info(client, reply->info);
    if (!items)
        return OUT_OF_MEMORY(client);
    if (!reply->node)
        return client_fail(client, XCE_FAILED, "the server's answer holds no node");
    for (size_t i = 0; i < reply->n_remnants; i++) {
        const Xce__V1__Remnant *remnant = reply->remnants[i];

        items[i] = (struct xce_remnant){remnant->uid, remnant->kind, remnant->count, remnant->would,
                                        remnant->detail};
    }
    remnants->node = reply->node->node;
    remnants->items = items;
    remnants->n = reply->n_remnants;
    remnants->left_out = reply->left_out;
    return XCE_OK;
}

int xce_node_sweep_dry(struct xce_client *client, const struct xce_call *call, const char *node,
                       const char *reason, struct xce_remnants **ret)
{
    struct op_spec spec = VERB(OP_CHANGE, "Sweep", node_reply, take_remnants);
    Xce__V1__NodeVerbRequest request = XCE__V1__NODE_VERB_REQUEST__INIT;

    request.node = verb_bytes(node);
    request.reason = verb_bytes(reason);
    request.dry_run = true;
    return verb_run(client, call, &spec, &request.base, sizeof **ret, ret);
}

int xce_node_forget(struct xce_client *client, const struct xce_call *call, const char *node,
                    const char *reason, struct xce_node **ret)
{
    return run_verb(client, call, "/xce.v1.NodeService/Forget", node, reason, ret);
}

int xce_node_fence(struct xce_client *client, const struct xce_call *call,
                   const struct xce_oath *oath, struct xce_node **ret)
{
    struct op_spec spec = VERB(OP_CHANGE, "Fence", node_reply, take_node);
    Xce__V1__FenceRequest request = XCE__V1__FENCE_REQUEST__INIT;

    request.node = verb_bytes(oath->node);
    request.reason = verb_bytes(oath->reason);
    request.machine_id = verb_bytes(oath->machine_id);
    request.boot_id = verb_bytes(oath->boot_id);
    return verb_run(client, call, &spec, &request.base, sizeof **ret, ret);
}

static int take_token(struct xce_client *client, const ProtobufCMessage *message, void *result)
{
    const Xce__V1__TokenReply *reply = (const Xce__V1__TokenReply *)message;
    struct xce_token *token = result;
    char *ca = pb_arena_alloc(result_arena(token), reply->ca.len + 1);

    client_saw_info(client, reply->info);
    if (!ca)
        return OUT_OF_MEMORY(client);
    if (text_check_utf8(reply->ca.data, reply->ca.len, NULL) != 0)
        return client_fail(client, XCE_FAILED, "the server's answer holds no CA");
    memcpy(ca, reply->ca.data, reply->ca.len);
    ca[reply->ca.len] = '\0';
    token->ca = ca;
    token->ttl_ms = reply->ttl_ms;
    return XCE_OK;
}

int xce_node_token(struct xce_client *client, const struct xce_call *call, const char *node,
                   const uint8_t hash[XCE_TOKEN_HASH_LEN], int64_t ttl_ms, struct xce_token **ret)
{
    struct op_spec spec = VERB(OP_CHANGE, "Token", token_reply, take_token);
    Xce__V1__TokenRequest request = XCE__V1__TOKEN_REQUEST__INIT;

    request.node = verb_bytes(node);
    request.hash.data = (uint8_t *)(uintptr_t)hash;
    request.hash.len = XCE_TOKEN_HASH_LEN;
    request.ttl_ms = ttl_ms;
    return verb_run(client, call, &spec, &request.base, sizeof **ret, ret);
}
