/* The leases of this machine, as its uid map tells them: the same map, and the same answers, as the NSS module has.
 *
 * The map is opened when it is first needed, and again when it has been replaced (seen at once) or removed behind its writer's
 * back (seen within a second). One that is gone is as good as before. What a look-up touched is given back after some of
 * them: a map of 65,536 leases is 8 MiB, and would count as ours. Never waits: the map is memory. One thread. */
#ifndef XCE_USERDB_LEASES_H
#define XCE_USERDB_LEASES_H

#include <stdbool.h>
#include <stdint.h>

#include "map/name.h"
#include "map/read.h"

enum {
    LEASES_NONE = 1, /* nobody's, or none of ours */
    LEASES_AWAY = 2, /* there is no map that can be used, and with one it might be a lease's */
    LEASES_MORE = 3, /* leases_next: nothing yet, go on */
};

struct leases {
    const char *path; /* borrowed; NULL = map was given, and stays */
    struct map map;   /* base NULL: there is none */
    struct map_file file;
    int64_t looked_ms; /* when the path was looked at; by CLOCK_BOOTTIME */
    unsigned touched;
    const char *fault; /* what is wrong with the map at path, as it was last told; NULL = nothing */
};

/* All zero but for path, or map, is the begin. */
void leases_done(struct leases *leases);

/* Before a row of look-ups: see that the map is the one at path. */
void leases_refresh(struct leases *leases, int64_t now_ms);

/* 0 and an entry as map_find_uid gives it; LEASES_NONE; LEASES_AWAY. */
int leases_by_uid(struct leases *leases, uint32_t uid, unsigned want, struct map_entry *ret);
int leases_by_name(struct leases *leases, const char *name, unsigned want, struct map_entry *ret);

/* The lease at *uid or above, and *uid is behind it; in a walk that begins at 0 each lease is met once. A few hundred uids
 * are looked at in one call. 0; LEASES_NONE there is no more; LEASES_MORE; LEASES_AWAY. */
int leases_next(struct leases *leases, uint32_t *uid, unsigned want, struct map_entry *ret);

/* ---- names for supplementary gids ----
 *
 * The protocol knows memberships by names alone, the map knows gids, and to ask others for names could take for ever. A gid
 * that is a lease's has its name; any other is "<prefix>gid-<number>", which no lease is ever called. It is a name of that
 * gid for those who ask by name, and nothing more: who asks for the gid gets no group. */

/* Whether there is a map. */
bool leases_group_name(struct leases *leases, uint32_t gid, char ret[static NAME_BUF]);
/* 0 it is such a name; LEASES_NONE. */
int leases_group_gid(struct leases *leases, const char *name, uint32_t *ret_gid);

#endif
