/* NodeService, save Session. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "common/err.h"
#include "common/text.h"
#include "leased/service/dry.h"
#include "leased/service/internal.h"
#include "leased/service/report.h"
#include "leased/service/session.h"
#include "leased/service/tell.h"
#include "leased/service/ticker.h"
#include "leased/watch/lease_proto.h"
#include "xce/v1/node.pb-c.h"

static const struct fsm_node *node_named(const struct service *service,
                                         const ProtobufCBinaryData *name)
{
    char text[TEXT_NODE_MAX + 1];

    if (name->len > TEXT_NODE_MAX)
        return NULL;
    memcpy(text, name->data, name->len);
    text[name->len] = '\0';
    return fsm_node(service_fsm(service), text);
}

static void fill(struct service *service, const struct fsm_node *node, struct node_proto *ret)
{
    node_proto_init(ret, node);
    session_fill(service, node->name, &ret->message);
}

static void reply_with(struct service *service, struct service_request *request,
                       const ProtobufCBinaryData *name, Xce__V1__NodeReply *reply)
{
    const struct fsm_node *node = node_named(service, name);
    Xce__V1__ReplyInfo info;
    struct node_proto message;

    if (!node || !service_sees_node(request, node->name)) {
        service_refuse(request, FSM_NOT_FOUND, "no node %.*s", (int)name->len,
                       (const char *)name->data);
        return;
    }
    fill(service, node, &message);
    service_reply_info(service, &info);
    info.stale = request->stale;
    reply->info = &info;
    reply->node = &message.message;
    service_reply(request, &reply->base);
}

static void reply_node(struct service *service, struct service_request *request,
                       const ProtobufCBinaryData *name)
{
    Xce__V1__NodeReply reply = XCE__V1__NODE_REPLY__INIT;

    reply_with(service, request, name, &reply);
}

void node_reply(struct service *service, struct service_request *request, Xce__V1__NodeReply *reply)
{
    reply_with(service, request, &((const Xce__V1__NodeVerbRequest *)request->message)->node,
               reply);
}

/* ---- get, list ---- */

static void get(struct service *service, struct service_request *request)
{
    reply_node(service, request, &((const Xce__V1__NodeKey *)request->message)->node);
}

void service_node_get(struct service *service, struct service_request *request)
{
    const Xce__V1__NodeKey *message = (const Xce__V1__NodeKey *)request->message;
    struct err err = {{0}};

    if (text_check_node((const char *)message->node.data, message->node.len, &err) < 0)
        service_refuse(request, -EINVAL, "%s", err.text);
    else
        service_read(service, request, get);
}

static void list(struct service *service, struct service_request *request)
{
    Xce__V1__ListNodesReply reply = XCE__V1__LIST_NODES_REPLY__INIT;
    const struct fsm *fsm = service_fsm(service);
    const struct fsm_node *node = NULL;
    size_t max = 0, n = 0;
    struct node_proto *nodes;
    Xce__V1__Node **pointers;

    while ((node = fsm_node_next(fsm, node)))
        max++;
    nodes = calloc(max ? max : 1, sizeof *nodes);
    pointers = calloc(max ? max : 1, sizeof *pointers);
    if (!nodes || !pointers) {
        service_refuse(request, -ENOMEM, NULL);
    } else {
        while ((node = fsm_node_next(fsm, node))) {
            if (!service_sees_node(request, node->name))
                continue;
            fill(service, node, &nodes[n]);
            pointers[n] = &nodes[n].message;
            n++;
        }
        reply.nodes = pointers;
        reply.n_nodes = n;
        reply.revision = fsm_revision(fsm);
        reply.stale = request->stale;
        service_reply(request, &reply.base);
    }
    free(nodes);
    free(pointers);
}

void service_node_list(struct service *service, struct service_request *request)
{
    service_read(service, request, list);
}

/* ---- verbs ---- */

static void verb_done(struct service *service, struct service_request *request,
                      const struct fsm_outcome *outcome)
{
    (void)outcome;
    /* NodeVerbRequest and FenceRequest have the node in the same place. */
    reply_node(service, request, &((const Xce__V1__NodeVerbRequest *)request->message)->node);
}

_Static_assert(offsetof(Xce__V1__NodeVerbRequest, node) == offsetof(Xce__V1__FenceRequest, node),
               "verb_done reads either");

/* Whether the words of a verb are good; else it is refused. */
static bool check_words(struct service_request *request, const ProtobufCBinaryData *node,
                        const ProtobufCBinaryData *reason)
{
    struct err err = {{0}};

    if (text_check_node((const char *)node->data, node->len, &err) < 0 ||
        text_require("reason", reason->data, reason->len, TEXT_NOTE_MAX, &err) < 0) {
        service_refuse(request, -EINVAL, "%s", err.text);
        return false;
    }
    return true;
}

static void propose_verb(struct service *service, struct service_request *request,
                         Xce__V1__NodeVerb verb, service_then_fn then)
{
    const Xce__V1__NodeVerbRequest *message = (const Xce__V1__NodeVerbRequest *)request->message;
    Xce__V1__Command command = XCE__V1__COMMAND__INIT;
    Xce__V1__CmdNodeVerb change = XCE__V1__CMD_NODE_VERB__INIT;

    if (!check_words(request, &message->node, &message->reason))
        return;
    if (message->dry_run) {
        service_refuse(request, -EINVAL, "dry_run: only of Sweep");
        return;
    }
    change.node = message->node;
    change.verb = verb;
    change.reason = message->reason;
    command.kind_case = XCE__V1__COMMAND__KIND_NODE_VERB;
    command.node_verb = &change;
    service_propose(service, request, message->request, &command, then);
}

void service_node_drain(struct service *service, struct service_request *request)
{
    propose_verb(service, request, XCE__V1__NODE_VERB__NODE_VERB_DRAIN, verb_done);
}

void service_node_undrain(struct service *service, struct service_request *request)
{
    propose_verb(service, request, XCE__V1__NODE_VERB__NODE_VERB_UNDRAIN, verb_done);
}

void service_node_cordon(struct service *service, struct service_request *request)
{
    propose_verb(service, request, XCE__V1__NODE_VERB__NODE_VERB_CORDON, verb_done);
}

/* A node that is forgotten has no answer but its name. */
static void forgotten(struct service *service, struct service_request *request,
                      const struct fsm_outcome *outcome)
{
    const Xce__V1__NodeVerbRequest *message = (const Xce__V1__NodeVerbRequest *)request->message;
    Xce__V1__NodeReply reply = XCE__V1__NODE_REPLY__INIT;
    Xce__V1__Node gone = XCE__V1__NODE__INIT;
    char name[TEXT_NODE_MAX + 1];
    Xce__V1__ReplyInfo info;

    (void)outcome;
    memcpy(name, message->node.data, message->node.len);
    name[message->node.len] = '\0';
    gone.node = name;
    service_reply_info(service, &info);
    reply.info = &info;
    reply.node = &gone;
    service_reply(request, &reply.base);
}

void service_node_forget(struct service *service, struct service_request *request)
{
    propose_verb(service, request, XCE__V1__NODE_VERB__NODE_VERB_FORGET, forgotten);
}

void service_node_fence(struct service *service, struct service_request *request)
{
    const Xce__V1__FenceRequest *message = (const Xce__V1__FenceRequest *)request->message;
    Xce__V1__Command command = XCE__V1__COMMAND__INIT;
    Xce__V1__CmdNodeVerb change = XCE__V1__CMD_NODE_VERB__INIT;

    if (!check_words(request, &message->node, &message->reason))
        return;
    if (!message->reason.len) {
        service_refuse(request, -EINVAL, "reason: say why, it is kept");
        return;
    }
    if (!report_is_id(&message->machine_id) || !report_is_id(&message->boot_id)) {
        service_refuse(request, -EINVAL,
                       "machine_id, boot_id: 32 lowercase hex digits each (leasectl node show)");
        return;
    }
    change.node = message->node;
    change.verb = XCE__V1__NODE_VERB__NODE_VERB_FENCE;
    change.reason = message->reason;
    change.machine_id = message->machine_id;
    change.boot_id = message->boot_id;
    command.kind_case = XCE__V1__COMMAND__KIND_NODE_VERB;
    command.node_verb = &change;
    service_propose(service, request, message->request, &command, verb_done);
}

static void sweep(struct service *service, struct service_request *request)
{
    const Xce__V1__NodeVerbRequest *message = (const Xce__V1__NodeVerbRequest *)request->message;
    const struct fsm_node *node = node_named(service, &message->node);

    if (!node) {
        service_refuse(request, FSM_NOT_FOUND, "no node %.*s", (int)message->node.len,
                       (const char *)message->node.data);
    } else if (!ticker_connected(service->ticker, node->name)) {
        service_refuse(request, FSM_PRECONDITION, "node %s is not connected", node->name);
    } else if (message->dry_run) {
        dry_begin(service, request);
    } else {
        tell_sweep(service->tell, node->name, &message->reason);
        reply_node(service, request, &message->node);
    }
}

void service_node_sweep(struct service *service, struct service_request *request)
{
    const Xce__V1__NodeVerbRequest *message = (const Xce__V1__NodeVerbRequest *)request->message;

    if (check_words(request, &message->node, &message->reason))
        service_read(service, request, sweep);
}
