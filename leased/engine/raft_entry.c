#include "leased/engine/raft_entry.h"

#include <errno.h>
#include <string.h>

#include "common/digest.h"

#define CRC_AT 24u

static void put(uint8_t *at, uint64_t value, unsigned n)
{
    for (unsigned i = 0; i < n; i++)
        at[i] = (uint8_t)(value >> (8 * i));
}

static uint64_t get(const uint8_t *at, unsigned n)
{
    uint64_t value = 0;

    for (unsigned i = 0; i < n; i++)
        value |= (uint64_t)at[i] << (8 * i);
    return value;
}

size_t raft_entry_size(size_t len)
{
    return (RAFT_ENTRY_HEADER + len + 7) & ~(size_t)7;
}

void raft_entry_encode(const struct raft_entry_view *entry, uint8_t *ret)
{
    size_t size = raft_entry_size(entry->len), end = RAFT_ENTRY_HEADER + entry->len;

    put(ret, entry->index, 8);
    put(ret + 8, entry->term, 8);
    put(ret + 16, entry->len, 4);
    put(ret + 20, entry->kind, 4);
    memcpy(ret + RAFT_ENTRY_HEADER, entry->bytes, entry->len);
    put(ret + CRC_AT, digest_crc32c(digest_crc32c(0, ret, CRC_AT), entry->bytes, entry->len), 4);
    put(ret + CRC_AT + 4, 0, 4);
    memset(ret + end, 0, size - end);
}

int raft_entry_decode(const uint8_t *bytes, size_t len, struct raft_entry_view *ret)
{
    struct raft_entry_view entry;

    if (len < RAFT_ENTRY_HEADER)
        return -EBADMSG;
    entry.index = get(bytes, 8);
    entry.term = get(bytes + 8, 8);
    entry.len = (size_t)get(bytes + 16, 4);
    entry.kind = (enum raft_entry_kind)get(bytes + 20, 4);
    entry.bytes = bytes + RAFT_ENTRY_HEADER;
    if (entry.len > len - RAFT_ENTRY_HEADER || raft_entry_size(entry.len) != len ||
        (entry.kind != RAFT_ENTRY_COMMANDS && entry.kind != RAFT_ENTRY_STATE) ||
        get(bytes + CRC_AT + 4, 4) != 0 ||
        get(bytes + CRC_AT, 4) !=
            digest_crc32c(digest_crc32c(0, bytes, CRC_AT), entry.bytes, entry.len))
        return -EBADMSG;
    *ret = entry;
    return 0;
}
