#include "leased/engine/raft_entry.h"

#include <errno.h>
#include <string.h>

#include "common/digest.h"
#include "common/le.h"

#define CRC_AT 24u

size_t raft_entry_size(size_t len)
{
    return (RAFT_ENTRY_HEADER + len + 7) & ~(size_t)7;
}

void raft_entry_encode(const struct raft_entry_view *entry, uint8_t *ret)
{
    size_t size = raft_entry_size(entry->len), end = RAFT_ENTRY_HEADER + entry->len;

    le_put_u64(ret, entry->index);
    le_put_u64(ret + 8, entry->term);
    le_put_u32(ret + 16, (uint32_t)entry->len);
    le_put_u32(ret + 20, entry->kind);
    memcpy(ret + RAFT_ENTRY_HEADER, entry->bytes, entry->len);
    le_put_u32(ret + CRC_AT,
               digest_crc32c(digest_crc32c(0, ret, CRC_AT), entry->bytes, entry->len));
    le_put_u32(ret + CRC_AT + 4, 0);
    memset(ret + end, 0, size - end);
}

int raft_entry_decode(const uint8_t *bytes, size_t len, struct raft_entry_view *ret)
{
    struct raft_entry_view entry;

    if (len < RAFT_ENTRY_HEADER)
        return -EBADMSG;
    entry.index = le_get_u64(bytes);
    entry.term = le_get_u64(bytes + 8);
    entry.len = le_get_u32(bytes + 16);
    entry.kind = (enum raft_entry_kind)le_get_u32(bytes + 20);
    entry.bytes = bytes + RAFT_ENTRY_HEADER;
    if (entry.len > len - RAFT_ENTRY_HEADER || raft_entry_size(entry.len) != len ||
        (entry.kind != RAFT_ENTRY_COMMANDS && entry.kind != RAFT_ENTRY_STATE) ||
        le_get_u32(bytes + CRC_AT + 4) != 0 ||
        le_get_u32(bytes + CRC_AT) !=
            digest_crc32c(digest_crc32c(0, bytes, CRC_AT), entry.bytes, entry.len))
        return -EBADMSG;
    *ret = entry;
    return 0;
}
