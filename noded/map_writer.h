/* From what state decides to the uid map that everybody reads: the one place in noded that writes it.
 *
 * A record is visible to every process of the machine when the call returns. Nothing here logs or waits; a full /run is an
 * error that passes by itself. One thread; node_map_reader_* are for another thread. */
#ifndef XCE_NODED_MAP_WRITER_H
#define XCE_NODED_MAP_WRITER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/err.h"
#include "map/read.h"
#include "noded/state.h"

struct node_map;

/* What a predecessor left. */
struct node_map_past {
    bool taken;        /* its records are there */
    bool in_order;     /* it ended by itself */
    bool complete;     /* nothing of it was damaged */
    uint32_t repaired; /* records that it was writing when it died */
    uint64_t revision, heard_boot_ms;
    uint8_t incarnation[32];
    char prefix[XCE_PREFIX_LEN_MAX + 1];
    const char *why; /* not taken; NULL: there was none */
};

/* path is borrowed and outlives it. 0; -EBUSY another process writes it; -ENOSPC; -errno: err says which file. */
int node_map_open(const char *path, struct node_map **ret, struct node_map_past *ret_past,
                  struct err *err);
/* The map stays. in_order: note that this process ended by itself. NULL is taken. */
void node_map_close(struct node_map *map, bool in_order);

/* Call fn for each lease that has a name in it. */
typedef void (*node_map_lease_fn)(const struct state_lease *lease, bool closed, void *arg);
void node_map_each(struct node_map *map, node_map_lease_fn fn, void *arg);

/* The ranges that it has; ret has room for XCE_RANGES_MAX. How many. */
size_t node_map_ranges(const struct node_map *map, struct xce_map_range *ret);

/* Give it the ranges of the pools. 0; -ENOSPC, -errno: as it was before. */
int node_map_shape(struct node_map *map, const char *prefix, const struct state_pool *pools,
                   size_t n_pools);

/* As state_ops. */
int node_map_set(struct node_map *map, const struct state_lease *lease, uint8_t flags);
void node_map_mark(struct node_map *map, uint32_t uid, uint32_t epoch, uint8_t add, uint8_t drop);
void node_map_retire(struct node_map *map, uint32_t uid, uint32_t epoch, uint64_t revision);

void node_map_progress(struct node_map *map, uint64_t revision, bool synced);
void node_map_incarnation(struct node_map *map, const uint8_t *incarnation, size_t len);
/* About once a second. heard_boot_ms: when the last heartbeat was sent that a leader answered. 0; MAP_BROKEN; -errno: the
 * map has been removed and can not be written again now. */
enum {
    MAP_BROKEN = 1, /* somebody wrote over the map or cut it: only a new process can make another */
};
int node_map_beat(struct node_map *map, uint64_t boot_ms, uint64_t heard_boot_ms);

/* Whether there is a map at all: without one nothing resolves, so nothing is here. */
bool node_map_exists(const struct node_map *map);

/* ---- for another thread: what is here, as every process of the machine sees it ---- */

struct node_map_reader {
    const char *path;
    bool none; /* there is no map yet (node_map_exists): nothing is here */
    struct map map;
    bool open;
    bool unsure; /* a record could not be read: what was answered for it is "here" */
};

/* All zero but path is fine, too: it opens when it is asked. */
void node_map_reader_done(struct node_map_reader *reader);
/* Whether anything may run under the uid. Unsure counts as yes, so that nothing is killed on a guess. */
bool node_map_here(struct node_map_reader *reader, uint32_t uid);
/* Whether this machine is a member of the lease that has the uid, and has closed admission. Unsure counts as no. */
bool node_map_closed(struct node_map_reader *reader, uint32_t uid);

#endif
