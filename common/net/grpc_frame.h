/* gRPC's message framing: one flag byte, four bytes of length, big endian, then the message. Decoded as the bytes come.
 * Pure. A message that lies whole in one piece is not copied. */
#ifndef XCE_COMMON_NET_GRPC_FRAME_H
#define XCE_COMMON_NET_GRPC_FRAME_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
    GRPC_FRAME_HEAD = 5,
};

/* Bytes that are kept for somebody, within limits one above the other: of a peer, of all users, of all. */
struct grpc_budget {
    size_t bytes, limit;
    struct grpc_budget *above; /* NULL = none */
};

/* NULL: n bytes are taken, of it and of all above; else the one that has not so many left, and none are. */
const struct grpc_budget *grpc_budget_take(struct grpc_budget *budget, size_t n);
void grpc_budget_give(struct grpc_budget *budget, size_t n);

/* Zero state = fresh, save the limits. */
struct grpc_frame_reader {
    size_t limit_bytes;             /* largest message taken */
    struct grpc_budget *budget;     /* what unfinished messages are kept of; may be NULL */
    const struct grpc_budget *full; /* GRPC_FRAME_HELD: this one */
    uint8_t head[GRPC_FRAME_HEAD];
    size_t head_len;
    uint32_t need;
    uint8_t *body;
    size_t len, size;
    bool whole; /* body was handed out: begin anew */
};

enum grpc_frame_result {
    GRPC_FRAME_MORE = 0,    /* all bytes taken, no message is complete */
    GRPC_FRAME_MESSAGE = 1, /* ret_message is set; call again with what is left */
    GRPC_FRAME_COMPRESSED = 2,
    GRPC_FRAME_TOO_LARGE = 3, /* reader->need says how large */
    GRPC_FRAME_HELD = 4,      /* the budget does not allow it */
    GRPC_FRAME_BAD_FLAG = 5,
};

/* Take bytes: *data and *len move on. ret_message lives until the next call with this reader or the end of data. After
 * any of the errors (above GRPC_FRAME_MESSAGE, -ENOMEM) only grpc_frame_done may follow. */
int grpc_frame_take(struct grpc_frame_reader *reader, const uint8_t **data, size_t *len,
                    const uint8_t **ret_message, size_t *ret_len);

/* Whether the bytes so far end with a whole message. */
bool grpc_frame_at_boundary(const struct grpc_frame_reader *reader);

void grpc_frame_done(struct grpc_frame_reader *reader);

/* Write the five bytes before a message of len bytes. */
void grpc_frame_head(uint8_t head[GRPC_FRAME_HEAD], uint32_t len);

#endif
