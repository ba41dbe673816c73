#include "common/posix_acl.h"

#include <string.h>

#include "common/le.h"

#define VERSION   2
#define HEAD      4 /* u32 version; all little endian */
#define ENTRY     8 /* u16 tag, u16 permissions, u32 id */
#define TAG_USER  0x02
#define TAG_GROUP 0x08

static unsigned tag_of(const uint8_t *entry)
{
    return entry[0] | (unsigned)entry[1] << 8;
}

static bool names(const uint8_t *entry, unsigned tag, uint32_t id)
{
    return tag_of(entry) == tag && le_get_u32(entry + 4) == id;
}

static bool is_named(const uint8_t *value, size_t len, unsigned tag, uint32_t id)
{
    for (size_t at = HEAD; at < len; at += ENTRY)
        if (names(value + at, tag, id))
            return true;
    return false;
}

size_t posix_acl_change(uint8_t *value, size_t *len, posix_acl_fn decide, void *arg)
{
    size_t kept = HEAD, changed = 0, end = *len;

    if (end < HEAD || le_get_u32(value) != VERSION || (end - HEAD) % ENTRY)
        return 0;
    for (size_t at = HEAD; at < end; at += ENTRY) {
        uint8_t entry[ENTRY];
        unsigned tag = tag_of(value + at);
        uint32_t id = le_get_u32(value + at + 4), becomes = id;

        memcpy(entry, value + at, ENTRY);
        if (tag == TAG_USER || tag == TAG_GROUP)
            becomes = decide(arg, tag == TAG_GROUP, id);
        if (becomes != id) {
            changed++;
            /* Either side: what has been kept by now, and what is still to come. */
            if (becomes == POSIX_ACL_GONE || is_named(value, kept, tag, becomes) ||
                is_named(value + at + ENTRY - HEAD, end - at - ENTRY + HEAD, tag, becomes))
                continue;
            le_put_u32(entry + 4, becomes);
        }
        memcpy(value + kept, entry, ENTRY);
        kept += ENTRY;
    }
    *len = kept;
    return changed;
}
