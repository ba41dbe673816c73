/* Protobuf out of foreign hands: looked through before protobuf-c may touch it, then unpacked without malloc.
 *
 * protobuf-c 1.4 recurses as deep as the bytes say, cuts strings at NUL and takes any bytes for a string. So the wire form
 * is walked against the descriptor first: depth, number of fields and elements, lengths, wire types, UTF-8 of `string`
 * fields. Unknown fields are let through (a newer peer may send them), but they count. Then the message is unpacked into
 * an arena that is reset at once.
 *     struct pb_arena arena; pb_arena_init(&arena, PB_ARENA_MAX);
 *     r = pb_unpack(&arena, &xce__v1__acquire_request__descriptor, bytes, len, &message, &err);
 *     ... use; pb_arena_reset(&arena);
 * One thread per arena. */
#ifndef XCE_COMMON_PB_H
#define XCE_COMMON_PB_H

#include <protobuf-c/protobuf-c.h>
#include <stddef.h>
#include <stdint.h>

#include "common/err.h"

#define PB_DEPTH_MAX  8
#define PB_FIELDS_MAX (1 << 18) /* fields and elements of repeated ones, over all levels */

/* 0; -EBADMSG not such a message, err says "AcquireRequest.leases[3].job: ..."; -E2BIG too deep or too many fields.
 * Depth counts the outermost message as 1. No allocation. O(len). */
int pb_check(const ProtobufCMessageDescriptor *type, const uint8_t *bytes, size_t len,
             struct err *err);

/* Memory that is given out in order and taken back all at once. */
struct pb_arena {
    struct pb_chunk *chunks; /* newest first */
    uint8_t *next, *end;     /* what is left of the newest */
    size_t used, max;        /* bytes of all chunks */
    int error;               /* why the last allocation failed */
};

#define PB_ARENA_MAX (64u << 20)

/* No allocation until it is used. max = most bytes; what does not fit makes pb_unpack say -ENOBUFS. */
void pb_arena_init(struct pb_arena *arena, size_t max);
void pb_arena_done(struct pb_arena *arena);
/* Everything unpacked into it dies. One chunk is kept for the next time. */
void pb_arena_reset(struct pb_arena *arena);
/* Bytes aligned for anything; NULL when max is reached or there is no memory. Die with the reset. */
void *pb_arena_alloc(struct pb_arena *arena, size_t size);

/* Check, then unpack. The message and all in it live in the arena (never call free_unpacked on it); it does not point
 * into bytes. 0; -EBADMSG, -E2BIG as pb_check; -ENOBUFS the arena's limit; -ENOMEM. */
int pb_unpack(struct pb_arena *arena, const ProtobufCMessageDescriptor *type, const uint8_t *bytes,
              size_t len, ProtobufCMessage **ret, struct err *err);

/* The message's field of that name, which is a bool; NULL = it has none. Dies with the message. */
const protobuf_c_boolean *pb_flag(const ProtobufCMessage *message, const char *name);

#endif
