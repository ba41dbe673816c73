/* Changes on their way to the history's thread: copied into blocks by the loop, read by the thread, the blocks given back.
 *
 * Blocks change hands without a lock: the thread runs at low priority, and the loop must never wait for it. An item is
 * one record of an array of bytes; strings follow it, each with its NUL. */
#ifndef XCE_LEASED_HISTORY_FEED_H
#define XCE_LEASED_HISTORY_FEED_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "leased/fsm/change.h"
#include "leased/history/refill.h"

#define FEED_INCARNATION_LEN 16

enum feed_kind {
    FEED_LEASE = 1,       /* a change */
    FEED_INCARNATION = 2, /* what follows is of another state: pool = its 16 bytes */
    FEED_LISTED = 3,      /* a lease of a state that was restored beyond a gap */
    FEED_LIST_END = 4,    /* what was not listed is gone */
    FEED_PIECE = 5, /* the block holds a piece of another's history (refill.h), and nothing else */
    FEED_PAST = 6,  /* a lease of the piece, with its times */
    FEED_REST = 7,  /* a gap that stays */
};

struct feed_item {
    uint32_t size; /* of the item with its strings, a multiple of 8 */
    enum feed_kind kind;
    enum lease_state state;
    enum end_cause cause;
    uint64_t revision;
    int64_t wall_ms, granted_wall_ms;
    uint64_t lease;
    uint32_t uid, epoch;
    uint32_t owner_uid, owner_gid;
    uint32_t pool, job, owner, nodes; /* offsets in text */
    char text[];
};

struct feed_block {
    struct feed_block *next;
    size_t len, cap;
    uint64_t number;   /* of the block, from 1 */
    uint64_t revision; /* of the last change seen, also of such as left no item */
    int64_t wall_ms;   /* of that change */
    _Alignas(8) uint8_t bytes[];
};

/* First in, first out; one thread puts, one takes. */
struct feed_channel {
    _Atomic(struct feed_block *) newest;
};

void feed_put(struct feed_channel *channel, struct feed_block *block);
/* All that is there, linked, oldest first. */
struct feed_block *feed_take_all(struct feed_channel *channel);

/* A block with room for an item that needs bytes. */
struct feed_block *feed_block_new(size_t bytes);

/* Append a lease; NULL: no room, nothing done. feed_size = bytes that it needs. */
size_t feed_size(const struct fsm_lease *lease);
struct feed_item *feed_add_lease(struct feed_block *block, enum feed_kind kind,
                                 const struct fsm_lease *lease, size_t size);
struct feed_item *feed_add_mark(struct feed_block *block, enum feed_kind kind,
                                const uint8_t *incarnation);

struct feed_times {
    int64_t ended_wall_ms, retired_wall_ms, freed_wall_ms; /* 0 = not yet */
};

/* A block with all of a piece, and what its items hold; of the piece without leases and rests. */
struct feed_block *feed_piece_new(const struct history_piece *piece);
struct history_piece feed_get_piece(const struct feed_item *item);
struct feed_times feed_get_times(const struct feed_item *item);
struct history_rest feed_get_rest(const struct feed_item *item);

/* The first item, and the one behind; NULL at the end. */
const struct feed_item *feed_first(const struct feed_block *block);
const struct feed_item *feed_next(const struct feed_block *block, const struct feed_item *item);

/* What of a lease history keeps, as a number: the same number means that a change need not be told. Node objects count by
 * address, so it is for one process only. */
uint64_t feed_fingerprint(const struct fsm_lease *lease);

#endif
