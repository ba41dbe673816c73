/* The table of methods: path, permission, handler. Nothing is served that is not a row of it. */
#ifndef XCE_LEASED_RPC_METHOD_H
#define XCE_LEASED_RPC_METHOD_H

#include "leased/service/service.h"

struct grpc_call;
struct rpc_server;

/* Exactly one of unary, stream, direct is set. */
struct rpc_method {
    const char *path;       /* "/xce.v1.LeaseService/Get" */
    const char *permission; /* "LeaseService/Get": a name that rbac/policy knows */
    const ProtobufCMessageDescriptor *request;
    service_unary_fn unary;
    bool local; /* unary: about the replica that is asked, whether or not there is a leader */
    const struct service_stream_handler *stream;
    /* Takes the call as it is and binds it: health and reflection, which need no service. */
    void (*direct)(struct grpc_call *call, struct rpc_server *server);
};

/* NULL = no such method. */
const struct rpc_method *rpc_method_find(const char *path);

/* Whether the table is sound (every row has a policy entry and one handler); asserted at start, tested in full. */
int rpc_method_check(void);

/* Row i, NULL past the end: for reflection and tests. */
const struct rpc_method *rpc_method_at(size_t i);

#endif
