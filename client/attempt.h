/* One try of a unary call on one server. */
#ifndef XCE_CLIENT_ATTEMPT_H
#define XCE_CLIENT_ATTEMPT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/net/grpc.h"

struct call_attempt;
struct xce_client;

struct attempt_end {
    enum grpc_status status;
    const char *message; /* never empty unless status is GRPC_OK */
    bool sent;           /* the server may have seen it */
    bool answered;       /* the status is what the server said */
    size_t server;       /* which one it was */
    const uint8_t *reply;
    size_t reply_len;
};

/* Once, from the loop, unless the attempt was cut. Everything dies with the callback. */
typedef void (*attempt_end_fn)(const struct attempt_end *end, void *arg);

struct attempt_spec {
    const char *path;
    const uint8_t *request; /* copied */
    size_t request_len;
    int64_t timeout_ms;
};

/* 0; -ENOMEM, -EMFILE, -EAGAIN, -EMSGSIZE. */
int attempt_start(struct xce_client *client, const struct attempt_spec *spec, attempt_end_fn fn,
                  void *arg, struct call_attempt **ret);
/* Nobody waits for it any more: cancelled, and its end is not told. */
void attempt_cut(struct call_attempt *attempt);

#endif
