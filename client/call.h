/* One unary call: sent again under the same id until it is answered or its time is over.
 *
 *     TRYING ─ answer ─▶ done
 *     TRYING ─ server out of reach, connection lost ─▶ PAUSED ─ backoff over ─▶ TRYING (another server, if there is one)
 *     any ─ deadline, patience over ─▶ done
 *
 * It runs by the client's loop alone. The answer comes exactly once: an attempt that is given up is cut from its call, and
 * what it brings later is dropped. */
#ifndef XCE_CLIENT_CALL_H
#define XCE_CLIENT_CALL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct call;
struct xce_client;

/* How it ended; dies with the callback. */
struct call_end {
    int code;            /* enum xce_code */
    const char *message; /* one sentence, if code is not XCE_OK */
    const uint8_t *reply;
    size_t reply_len;
    bool seen; /* a server may have seen the request */
};

/* Exactly once, from the loop. */
typedef void (*call_done_fn)(const struct call_end *end, void *arg);

struct call_spec {
    const char *path;
    const uint8_t *request; /* copied */
    size_t request_len;
    int64_t timeout_ms; /* above 0 */
};

/* 0; -ENOMEM. The call ends itself after done. */
int call_start(struct xce_client *client, const struct call_spec *spec, call_done_fn done,
               void *arg, struct call **ret);
/* Give it up: done is not called. NULL does nothing. */
void call_abandon(struct call *call);
/* Whether a server may have seen the request by now. */
bool call_seen(const struct call *call);

#endif
