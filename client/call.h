/* One unary call: sent again under the same id until it is answered or its time is over.
 *
 *     TRYING ─ answer ─▶ done
 *     TRYING ─ server out of reach, connection lost ─▶ PAUSED ─ backoff over ─▶ TRYING (another server, if there is one)
 *     any ─ deadline, patience over ─▶ done
 *
 * It runs by the client's loop alone, so that it serves a blocking caller (call_run) and an event loop alike. The answer
 * comes exactly once: an attempt that is given up is cut from its call, and what it brings later is dropped. */
#ifndef XCE_CLIENT_CALL_H
#define XCE_CLIENT_CALL_H

#include <protobuf-c/protobuf-c.h>

#include "xce/client.h"

struct call;
struct pb_arena;

/* Exactly once, from the loop. code: enum xce_code; message: one sentence; reply: bytes that die with the callback. */
typedef void (*call_done_fn)(int code, const char *message, const uint8_t *reply, size_t len,
                             void *arg);

struct call_spec {
    const char *path;
    const uint8_t *request; /* copied */
    size_t request_len;
    int64_t timeout_ms; /* above 0 */
};

/* 0; -ENOMEM. The call ends itself after done. */
int call_start(struct xce_client *client, const struct call_spec *spec, call_done_fn done,
               void *arg, struct call **ret);
/* Give it up: done is not called. */
void call_abandon(struct call *call);

/* ---- for a caller that waits ---- */

struct call_method {
    const char *path;
    const ProtobufCMessageDescriptor *reply;
};

/* Make the call and unpack the reply into arena. enum xce_code; the client's message is set when it is not XCE_OK. */
int call_run(struct xce_client *client, const struct xce_call *options,
             const struct call_method *method, const ProtobufCMessage *request,
             struct pb_arena *arena, ProtobufCMessage **ret);

#endif
