/* Recent changes, each encoded once, kept up to a bound of bytes. Revisions in it are dense: one each, no gap. */
#ifndef XCE_LEASED_WATCH_RING_H
#define XCE_LEASED_WATCH_RING_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "leased/fsm/fsm.h"

/* One change. bytes: a packed xce.v1.Lease, or the name of a pool or node with its NUL. */
struct ring_entry {
    uint64_t revision;
    enum fsm_change_kind kind;
    enum lease_state state;
    uint64_t lease;
    uint32_t uid, owner_uid;
    uint32_t n_members;
    size_t len, owner_len; /* owner: with its NUL, 0 = not of a lease */
    /* Hashes of the members' names; the bytes come behind them, then the owner's name. */
    uint32_t members[];
};

struct ring {
    struct ring_entry **entries; /* n of capacity, from `first` on, around its end */
    size_t capacity, first, n;
    size_t bytes, max_bytes;
    uint64_t next_revision; /* of the next change; 0 = not known yet */
    uint8_t *scratch;       /* a lease is encoded here, then kept in its length */
    size_t scratch_cap;
};

/* 0; -ENOMEM. */
int ring_init(struct ring *ring, size_t max_bytes);
void ring_done(struct ring *ring);

/* Add a change; the oldest go when there is no room. A gap in the revisions, or no memory, empties the ring: what is
 * not kept is skipped, never told wrongly. */
void ring_add(struct ring *ring, const struct fsm *fsm, const struct fsm_change *change,
              int64_t wall_offset_ms);

/* The entry of a revision, NULL if it is not kept. */
const struct ring_entry *ring_at(const struct ring *ring, uint64_t revision);
/* The oldest revision kept; next_revision if none is. */
uint64_t ring_oldest(const struct ring *ring);

const uint8_t *ring_bytes(const struct ring_entry *entry);
/* Of a lease. */
const char *ring_owner(const struct ring_entry *entry);
/* Whether the node is a member. May rarely say yes for another one: members are kept as hashes. */
bool ring_names(const struct ring_entry *entry, uint32_t node_hash);
uint32_t ring_hash(const char *name);

#endif
