/* The one writer of the uid map; noded owns it. See xce/map.h for the file and for what readers may rely on.
 *
 * One thread. Allocates; never aborts, never waits. Every page is allocated before it is touched, so a full /run is an
 * error here (-ENOSPC) and nothing else. A process that is killed at any point leaves a map that reads as it did before or
 * as it would have after the call, and that its successor takes over. */
#ifndef XCE_MAP_WRITE_H
#define XCE_MAP_WRITE_H

#include <stdbool.h>
#include <stdint.h>

#include "map/file.h"
#include "xce/map.h"

struct map_writer;

struct map_span {
    uint32_t first, last; /* uids, inclusive */
};

struct map_shape {
    const char *prefix;
    const struct map_span *ranges; /* any order, no overlap, nothing reserved (xce/limits.h) */
    uint32_t n_ranges;             /* 0..XCE_RANGES_MAX, XCE_UIDS_MAX uids in all */
};

/* What was found at the path. */
struct map_takeover {
    /* The map of a predecessor lives on: same inode, its records as they were. */
    bool taken;
    /* why not; a constant text. NULL: there was none. */
    const char *why;
    /* Records that were being written and are as they were meant now. */
    uint32_t repaired;
    /* Damaged ones that were emptied. If any: what the map held is not complete, ask for everything again. */
    uint32_t dropped;
    /* The predecessor went in order. */
    bool ended;
};

/* Become the writer of the map at path, and take over what is there if it can be used; else there is no map to write to
 * until map_writer_shape. Its folder must exist.
 * 0; -EBUSY another process is the writer; -ENOSPC; -ENOMEM; errors of open(2), flock(2), mmap(2). */
int map_writer_new(const char *path, struct map_writer **ret, struct map_takeover *ret_how);

/* The map stays and resolves. in_order: note for the successor that this process ended by itself. NULL is taken. */
void map_writer_free(struct map_writer *w, bool in_order);

/* The map as readers see it; borrowed, valid until the next call that is not a plain read. NULL: none yet. */
const struct map *map_writer_map(const struct map_writer *w);

enum {
    MAP_SAME = 0,
    MAP_REPLACED = 1, /* there is a new file now; readers have been told */
    MAP_NOT_HELD = 2, /* the uid holds another epoch, or none */
    /* somebody else wrote over the file or cut it short: only a new writer helps */
    MAP_DAMAGED = 3,
};

/* Give the map this shape: nothing to do, or a new file with all records whose uid is in a new range too, and the same
 * revision, times and incarnation. The first shape of a fresh map has revision 0 and is not synced.
 * MAP_SAME; MAP_REPLACED; -EINVAL impossible shape; -E2BIG too many ranges or uids; -ENOSPC and others: as before. */
int map_writer_shape(struct map_writer *w, const struct map_shape *shape);

/* A lease that has a name on this machine. Strings are borrowed for the call. */
struct map_lease {
    uint32_t uid, epoch;
    uint64_t lease, revision;
    enum xce_map_lease state; /* granted..cooling */
    uint8_t flags;            /* enum xce_map_flag */
    const char *gecos, *home, *shell;
    const uint32_t *gids; /* supplementary; neither 0 nor -1 */
    uint32_t n_gids;
};

/* Write the record of a lease; visible to all readers on return. Flags as given, but what is closed for an epoch stays
 * closed. May move to a new file to make room for gids.
 * 0; -ESTALE the uid has seen a higher epoch; -ERANGE uid of no range, or there is no map; -EINVAL a text that passwd
 * cannot show or that is too long, gid, state; -EMLINK more than 128 different homes and shells in use; -ENOSPC. */
int map_writer_set(struct map_writer *w, const struct map_lease *lease);

/* Add flags to the record of exactly that epoch, and drop others; XCE_MAP_CLOSED cannot be dropped.
 * 0; MAP_NOT_HELD; -ERANGE. */
int map_writer_mark(struct map_writer *w, uint32_t uid, uint32_t epoch, uint8_t add, uint8_t drop);

/* The lease is retired: its name is gone for every reader on return. The record keeps the epoch.
 * 0; -ESTALE; -ERANGE. Not an error for a uid that never had a lease here: the epoch is noted. */
int map_writer_retire(struct map_writer *w, uint32_t uid, uint32_t epoch, uint64_t revision);

/* Every change up to revision is in the map; synced: and noded had caught up with the cluster. */
void map_writer_progress(struct map_writer *w, uint64_t revision, bool synced);

/* Cluster state that the revision belongs to; len at most 32. */
void map_writer_incarnation(struct map_writer *w, const void *incarnation, size_t len);

/* noded lives (boot_ms: CLOCK_BOOTTIME), and a leader answered the heartbeat that it sent at heard_boot_ms (0: nothing
 * new). Call about once a second. A map whose name was removed or taken by another file is written again.
 * MAP_SAME; MAP_REPLACED; MAP_DAMAGED; errors as of map_writer_shape, the old map goes on. */
int map_writer_beat(struct map_writer *w, uint64_t boot_ms, uint64_t heard_boot_ms);

#endif
