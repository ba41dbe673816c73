#include "leased/engine/raft_kept.h"

void raft_kept_note(struct raft_kept *kept, uint32_t bytes)
{
    kept->bytes[kept->n++ % RAFT_KEPT_MAX] = bytes;
}

unsigned raft_kept_count(const struct raft_kept *kept, unsigned max_entries, uint64_t max_bytes)
{
    unsigned max = max_entries < RAFT_KEPT_MAX ? max_entries : RAFT_KEPT_MAX;
    uint64_t bytes = 0;

    for (unsigned i = 0; i < max && i < kept->n; i++) {
        bytes += kept->bytes[(kept->n - 1 - i) % RAFT_KEPT_MAX];
        if (bytes > max_bytes)
            return i > 0 ? i : 1;
    }
    return max > 0 ? max : 1;
}
