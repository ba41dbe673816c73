/* One call of our caller, blocking or not: made under a request id if it changes something, its answer made a result.
 *
 *     op_run ─▶ ASKING (only if a grant wants the cluster time, and it is not known) ─▶ CALLING ─ answer ─▶ taken ─▶ done
 *
 * A verb fills a message and says how the reply becomes a result; everything else is here, the same for all of them. */
#ifndef XCE_CLIENT_OP_H
#define XCE_CLIENT_OP_H

#include <protobuf-c/protobuf-c.h>

#include "xce/client.h"

enum op_kind {
    OP_READ,
    OP_CHANGE, /* bears a request id */
    OP_GRANT,  /* and one whose issued_ms leased wants to know */
    OP_ID,     /* no call of its own: the result is an id for a grant (struct xce_request) */
};

/* Fill the result out of the reply, which lives in the result's arena. enum xce_code; with client_fail. */
typedef int (*op_take_fn)(struct xce_client *client, const ProtobufCMessage *reply, void *result);

struct op_spec {
    enum op_kind kind;
    const char *path;
    const ProtobufCMessageDescriptor *reply;
    op_take_fn take;
    /* Packed at once. In a change the request id, field 1 of every such message, is left out: it is put in here. */
    const ProtobufCMessage *request;
};

/* Make the call as options say. result: of result_new, taken over; NULL = there was no memory for it.
 * Blocking: the call's enum xce_code; with XCE_OK *ret (any kind of pointer to a result) is set, else the client's message.
 * With options->done: XCE_OK it has begun, and ret is not used; else it has not, and done will not be called. */
int op_run(struct xce_client *client, const struct xce_call *options, const struct op_spec *spec,
           void *result, void *ret);

/* The client goes: each op under way ends with XCE_CANCELLED. */
void op_cancel_all(struct xce_client *client);

#endif
