/* Request ids of calls that change something. */
#ifndef XCE_CLIENT_REQUEST_H
#define XCE_CLIENT_REQUEST_H

#include "xce/client.h"
#include "xce/v1/common.pb-c.h"

/* Fill the id of a call: the one that options give, else a new one. It is remembered for xce_client_request, and *message
 * points into the client until the next change. aged: the call wants a cluster time that is fresh (acquire); may ask a
 * server for it. enum xce_code; the client's message is set when it is not XCE_OK. */
int request_prepare(struct xce_client *client, const struct xce_call *options, bool aged,
                    Xce__V1__RequestId *message);

/* The cluster time out of a reply of a change. */
void request_answered(struct xce_client *client, const Xce__V1__ReplyInfo *info);

#endif
