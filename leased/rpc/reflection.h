/* grpc.reflection, v1 and v1alpha: which services there are and what their messages look like, for tools that were built
 * without our .proto files (grpcurl, grpc_cli). Answers out of the table that the build made; knows nothing of leases. */
#ifndef XCE_LEASED_RPC_REFLECTION_H
#define XCE_LEASED_RPC_REFLECTION_H

struct grpc_call;
struct rpc_server;

/* ServerReflectionInfo: binds the call. */
void reflection_info(struct grpc_call *call, struct rpc_server *server);

#endif
