/* NodeService, as far as it is for people; Session is noded's. */
#include <errno.h>

#include "client/call.h"
#include "client/client.h"
#include "client/request.h"
#include "client/result.h"
#include "client/verb.h"

#define OUT_OF_MEMORY(client) client_fail(client, XCE_FAILED, "out of memory")

#define METHOD(verb, reply)                                                                        \
    {                                                                                              \
        "/xce.v1.NodeService/" verb, &xce__v1__##reply##__descriptor                               \
    }

static int run_for_node(struct xce_client *client, const struct xce_call *call,
                        const struct call_method *method, const ProtobufCMessage *request,
                        struct xce_node **ret)
{
    struct xce_node *node = result_new(sizeof *node);
    const Xce__V1__NodeReply *reply;
    ProtobufCMessage *message;
    int code;

    if (!node)
        return OUT_OF_MEMORY(client);
    code = call_run(client, call, method, request, result_arena(node), &message);
    if (code == XCE_OK) {
        reply = (Xce__V1__NodeReply *)message;
        request_answered(client, reply->info);
        if (reply->node)
            result_node(reply->node, node);
        else
            code = client_fail(client, XCE_FAILED, "the server's answer holds no node");
    }
    if (code != XCE_OK)
        xce_free(node);
    else
        *ret = node;
    return code;
}

int xce_node_get(struct xce_client *client, const struct xce_call *call, const char *node,
                 struct xce_node **ret)
{
    static const struct call_method method = METHOD("Get", node_reply);
    Xce__V1__NodeKey request = XCE__V1__NODE_KEY__INIT;

    request.node = verb_bytes(node);
    return run_for_node(client, call, &method, &request.base, ret);
}

static int list_reply(struct pb_arena *arena, const Xce__V1__ListNodesReply *reply,
                      struct xce_nodes *ret)
{
    struct xce_node *items = pb_arena_alloc(arena, (reply->n_nodes + 1) * sizeof *items);

    if (!items)
        return -ENOMEM;
    for (size_t i = 0; i < reply->n_nodes; i++)
        result_node(reply->nodes[i], &items[i]);
    ret->items = items;
    ret->n = reply->n_nodes;
    ret->revision = reply->revision;
    return 0;
}

int xce_node_list(struct xce_client *client, const struct xce_call *call, struct xce_nodes **ret)
{
    static const struct call_method method = METHOD("List", list_nodes_reply);
    Xce__V1__ListNodesRequest request = XCE__V1__LIST_NODES_REQUEST__INIT;
    struct xce_nodes *nodes = result_new(sizeof *nodes);
    ProtobufCMessage *reply;
    int code;

    if (!nodes)
        return OUT_OF_MEMORY(client);
    code = call_run(client, call, &method, &request.base, result_arena(nodes), &reply);
    if (code == XCE_OK &&
        list_reply(result_arena(nodes), (Xce__V1__ListNodesReply *)reply, nodes) < 0)
        code = OUT_OF_MEMORY(client);
    if (code != XCE_OK)
        xce_free(nodes);
    else
        *ret = nodes;
    return code;
}

static int run_verb(struct xce_client *client, const struct xce_call *call,
                    const struct call_method *method, const char *node, const char *reason,
                    struct xce_node **ret)
{
    Xce__V1__NodeVerbRequest request = XCE__V1__NODE_VERB_REQUEST__INIT;
    Xce__V1__RequestId id = XCE__V1__REQUEST_ID__INIT;
    int code = request_prepare(client, call, false, &id);

    if (code != XCE_OK)
        return code;
    request.request = &id;
    request.node = verb_bytes(node);
    request.reason = verb_bytes(reason);
    return run_for_node(client, call, method, &request.base, ret);
}

int xce_node_drain(struct xce_client *client, const struct xce_call *call, const char *node,
                   const char *reason, struct xce_node **ret)
{
    static const struct call_method method = METHOD("Drain", node_reply);

    return run_verb(client, call, &method, node, reason, ret);
}

int xce_node_undrain(struct xce_client *client, const struct xce_call *call, const char *node,
                     const char *reason, struct xce_node **ret)
{
    static const struct call_method method = METHOD("Undrain", node_reply);

    return run_verb(client, call, &method, node, reason, ret);
}

int xce_node_cordon(struct xce_client *client, const struct xce_call *call, const char *node,
                    const char *reason, struct xce_node **ret)
{
    static const struct call_method method = METHOD("Cordon", node_reply);

    return run_verb(client, call, &method, node, reason, ret);
}

int xce_node_sweep(struct xce_client *client, const struct xce_call *call, const char *node,
                   const char *reason, struct xce_node **ret)
{
    static const struct call_method method = METHOD("Sweep", node_reply);

    return run_verb(client, call, &method, node, reason, ret);
}

int xce_node_forget(struct xce_client *client, const struct xce_call *call, const char *node,
                    const char *reason, struct xce_node **ret)
{
    static const struct call_method method = METHOD("Forget", node_reply);

    return run_verb(client, call, &method, node, reason, ret);
}

int xce_node_fence(struct xce_client *client, const struct xce_call *call,
                   const struct xce_oath *oath, struct xce_node **ret)
{
    static const struct call_method method = METHOD("Fence", node_reply);
    Xce__V1__FenceRequest request = XCE__V1__FENCE_REQUEST__INIT;
    Xce__V1__RequestId id = XCE__V1__REQUEST_ID__INIT;
    int code = request_prepare(client, call, false, &id);

    if (code != XCE_OK)
        return code;
    request.request = &id;
    request.node = verb_bytes(oath->node);
    request.reason = verb_bytes(oath->reason);
    request.machine_id = verb_bytes(oath->machine_id);
    request.boot_id = verb_bytes(oath->boot_id);
    return run_for_node(client, call, &method, &request.base, ret);
}
