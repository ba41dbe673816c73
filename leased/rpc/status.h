/* Our outcomes to gRPC's: the only place that does. */
#ifndef XCE_LEASED_RPC_STATUS_H
#define XCE_LEASED_RPC_STATUS_H

#include "common/net/grpc.h"

/* r: 0, an outcome of enum fsm_code, or a negative errno. */
enum grpc_status rpc_status(int r);

/* What to say when the service said nothing. Static. */
const char *rpc_status_text(int r);

#endif
