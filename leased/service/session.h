/* NodeService.Session, the server's side: one stream for each node's noded. */
#ifndef XCE_LEASED_SERVICE_SESSION_H
#define XCE_LEASED_SERVICE_SESSION_H

#include <stdbool.h>

#include "leased/service/service.h"
#include "xce/v1/node.pb-c.h"

/* Look-aheads, and nodes that never said hello. */
void session_elapse(struct service *service);

/* End all of them with -ECANCELED. */
void session_stop(struct service *service);

/* What this replica knows of a node beyond the FSM: connected, heard. */
void session_fill(const struct service *service, const char *node, Xce__V1__Node *ret);

/* Tell the node to sweep now. false: it is not connected here, or does not read what it is told. */
bool session_sweep(struct service *service, const char *node, const ProtobufCBinaryData *reason);

#endif
