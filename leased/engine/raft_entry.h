/* What an entry of the replicated log holds: our header, the bytes, zeros up to a multiple of eight.
 *
 *   offset 0   index in the log, u64 little endian
 *          8   term in which it was written, u64
 *         16   length of the bytes, u32
 *         20   kind, u32: raft_entry_kind
 *         24   CRC-32C over offsets 0..23 and the bytes, u32
 *         28   0, u32
 *         32   the bytes
 *
 * The library gives apply the bytes alone. With index and term inside, an entry that lies at another place than the one it
 * was written for (a file of the log that is missing, or one that should be gone) is found before it does harm. Pure. */
#ifndef XCE_LEASED_ENGINE_RAFT_ENTRY_H
#define XCE_LEASED_ENGINE_RAFT_ENTRY_H

#include <stddef.h>
#include <stdint.h>

#define RAFT_ENTRY_HEADER 32u

enum raft_entry_kind {
    RAFT_ENTRY_COMMANDS = 1, /* an entry of leased/fsm/command.h */
    RAFT_ENTRY_STATE =
        2, /* a snapshot of the FSM that takes the place of all before: a replica's first one */
};

struct raft_entry_view {
    uint64_t index, term;
    enum raft_entry_kind kind;
    const uint8_t *bytes; /* in the entry */
    size_t len;
};

/* Bytes of the whole entry. */
size_t raft_entry_size(size_t len);
/* Write it into ret, of raft_entry_size bytes. */
void raft_entry_encode(const struct raft_entry_view *entry, uint8_t *ret);
/* 0; -EBADMSG not one of ours, or damaged. */
int raft_entry_decode(const uint8_t *bytes, size_t len, struct raft_entry_view *ret);

#endif
