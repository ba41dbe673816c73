/* The texts in gRPC's headers: timeouts, percent-encoded messages, status codes. Pure. */
#ifndef XCE_COMMON_NET_GRPC_TEXT_H
#define XCE_COMMON_NET_GRPC_TEXT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/net/grpc.h"

enum {
    GRPC_TIMEOUT_MAX = 16,
    /* A message longer than this is cut, at a character: peers limit their header lists (gRPC's own: 8 KiB). */
    GRPC_MESSAGE_MAX = 1024,
};

/* "100m", "5S" and so on (1 to 8 digits and one of H M S m u n) to milliseconds, rounded up. 0; -EINVAL. */
int grpc_timeout_parse(const char *text, size_t len, int64_t *ret_ms);

/* The shortest exact form, else rounded up. The length. */
size_t grpc_timeout_format(int64_t timeout_ms, char ret[GRPC_TIMEOUT_MAX]);

/* Room of ret: 3 * GRPC_MESSAGE_MAX + 1. What is no UTF-8 becomes U+FFFD. The length. */
size_t grpc_message_encode(const char *message, char *ret);

/* Room of ret: len + 1. Tolerant, as the protocol demands: a broken escape stays as it is; a NUL becomes '?'. The length. */
size_t grpc_message_decode(const char *text, size_t len, char *ret);

/* "0" to "16"; what is none is "2" (UNKNOWN). Static. */
const char *grpc_status_digits(enum grpc_status status);

/* The same way back; UNKNOWN for what is none. */
enum grpc_status grpc_status_parse(const char *text, size_t len);

/* Whether a content-type is gRPC's: application/grpc, alone or before '+' or ';'. */
bool grpc_content_type(const char *text, size_t len);

#endif
