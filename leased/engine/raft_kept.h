/* How many of the newest entries of the log to keep behind a snapshot, for followers that lag: a number of entries, but not
 * more than so many bytes of them. Entries hold a few hundred bytes or some hundred KiB; by number alone the log of a busy
 * cluster could outgrow any disk, and then there is no room for the snapshot that would cut it. Pure. */
#ifndef XCE_LEASED_ENGINE_RAFT_KEPT_H
#define XCE_LEASED_ENGINE_RAFT_KEPT_H

#include <stdint.h>

#define RAFT_KEPT_MAX 8192u /* entries */

/* Zero = none has been seen yet. */
struct raft_kept {
    uint32_t bytes[RAFT_KEPT_MAX]; /* of the entries applied last, in a ring */
    uint64_t n;                    /* all that were */
};

void raft_kept_note(struct raft_kept *kept, uint32_t bytes);
/* How many to keep: 1 to max_entries, and to RAFT_KEPT_MAX. What was not seen, before a restart, was within the limit then, and
 * counts for nothing. */
unsigned raft_kept_count(const struct raft_kept *kept, unsigned max_entries, uint64_t max_bytes);

#endif
