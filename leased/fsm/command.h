/* The bytes of a log entry: byte 0 is the version, the rest a packed xce.v1.Entry (proto/xce/v1/command.proto).
 *
 *   offset 0   COMMAND_VERSION
 *          1   field 1: now_ms, cluster time            (absent = 0)
 *              field 2: wall_ms, annotates only          (absent = 0)
 *              field 3: a packed Command, repeated       (at least one)
 *
 * The writer joins commands that are packed already; nothing is packed twice. Bytes are checked whole before the first
 * command of an entry is applied. A command that this version does not know is not an error of the bytes. */
#ifndef XCE_LEASED_FSM_COMMAND_H
#define XCE_LEASED_FSM_COMMAND_H

#include <stddef.h>
#include <stdint.h>

#include "common/buf.h"
#include "common/pb.h"
#include "xce/v1/command.pb-c.h"

#define COMMAND_VERSION 1
/* Longest entry, bytes: a hello that brings proofs of a whole pool fits. */
#define COMMAND_ENTRY_MAX (16u << 20)
/* Room to leave in an entry beside the commands' own bytes: once, and for each command. */
#define COMMAND_ENTRY_OVERHEAD 32u
#define COMMAND_OVERHEAD       6u
/* Cluster time and wall time stay below this, so that adding spans to them cannot overflow. */
#define COMMAND_TIME_MAX ((int64_t)1 << 47)

/* ---- writing ---- */

/* Empty the buffer and begin an entry. Times 0..COMMAND_TIME_MAX. */
void command_entry_begin(struct buf *entry, int64_t now_ms, int64_t wall_ms);
/* One packed Command more; copied. */
void command_entry_append(struct buf *entry, const uint8_t *command, size_t len);
/* 0, the entry is whole: entry->data, entry->len; -ENOBUFS, -ENOMEM of the buffer; -EINVAL no command in it. */
int command_entry_finish(const struct buf *entry);

/* ---- reading ---- */

struct command_entry {
    int64_t now_ms, wall_ms;
    size_t n;
    Xce__V1__Command **commands; /* in the arena */
};

/* 0; -EBADMSG not an entry, *what says why (static); FSM_UNSUPPORTED another version; -ENOMEM, -ENOBUFS of the arena.
 * The arena is reset first; the result lives in it and does not point into bytes. */
int command_entry_decode(struct pb_arena *arena, const uint8_t *bytes, size_t len,
                         struct command_entry *ret, const char **what);

#endif
