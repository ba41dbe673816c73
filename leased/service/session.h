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

/* What is known of a node beyond the FSM: connected, heard. */
void session_fill(const struct service *service, const char *node, Xce__V1__Node *ret);

/* A heartbeat has been told and confirmed: answer it. */
struct beat;
void session_ack(struct beat *beat);

/* Tell the node to sweep now, if it is connected here and reads what it is told. question: 0, or of a dry run. */
void session_sweep(struct service *service, const char *node, const ProtobufCBinaryData *reason,
                   uint64_t question);

/* Ask each node whose session is here, once; one that begins later is asked by a later call. true: all have answered. */
bool session_survey(struct service *service, const Xce__V1__OverlapQuestion *question);

#endif
