/* The history's file and its one writing connection.
 *
 *   period(n, id, revision, wall)    a state that was followed: n from 1, its incarnation, followed up to revision (at wall)
 *   lease(key, ...)                  key = n << 44 | lease id. ended: left granted and active; retired: left the maps
 *   gap(from_wall, to_wall, from_revision, to_revision, period, ...)   what was never seen, and how far it is filled:
 *                                    refill.h. made_up: the time that leases were given that ended in it
 * All times are wall clock, ms. WAL, synchronous=NORMAL: what is committed survives a killed process, what is checkpointed
 * survives the machine. One thread at a time. */
#ifndef XCE_LEASED_HISTORY_STORE_H
#define XCE_LEASED_HISTORY_STORE_H

#include <stddef.h>
#include <stdint.h>

#include "leased/history/feed.h"

#define STORE_WHY_MAX 512

/* For keys in SQL: how many bits of one are the lease's id, and those bits. */
#define STORE_AS_TEXT_(number) #number
#define STORE_AS_TEXT(number)  STORE_AS_TEXT_(number)
#define STORE_SQL_BITS         STORE_AS_TEXT(HISTORY_LEASE_BITS)
#define STORE_SQL_LEASE        "((1 << " STORE_SQL_BITS ") - 1)"

#define STORE_APPLICATION_ID 0x78636548 /* "xceH" */
#define STORE_FORMAT         2

#define STORE_WAY_BACK                                                                             \
    "no lease depends on it: stop leased and move it and its -wal aside, then look-ups know "      \
    "nothing "                                                                                     \
    "of before"

struct store;

struct store_position {
    uint8_t incarnation[FEED_INCARNATION_LEN];
    uint64_t period; /* 0 = nothing was ever followed */
    uint64_t revision;
    int64_t wall_ms;
};

/* Open or make. 0; -EBADMSG; -errno. why: a sentence that names the file. */
int store_open(const char *path, struct store **ret, char why[static STORE_WHY_MAX]);
/* NULL is fine. */
void store_close(struct store *store);

/* Committed up to here. */
const struct store_position *store_get_position(const struct store *store);

/* Number of the last block that was not written because it contradicts what stands here. */
uint64_t store_foreign(const struct store *store);

/* Write a block in one transaction. 0; -ENOSPC, -EIO, -EBADMSG: nothing of it is written, try again later. */
int store_write(struct store *store, const struct feed_block *block);

/* Frames in the WAL now. */
int store_wal_frames(const struct store *store);
/* Have what is committed on disk. 0; -EAGAIN a reader is in the way, later; -ENOSPC, -EIO. */
int store_checkpoint(struct store *store);

/* Read all of it. 0; -EBADMSG damaged. */
int store_check(struct store *store);

/* After a failure, "FILE: cannot write: ...". */
const char *store_why(const struct store *store);

#endif
