/* What the files of the store share: its statements, and what they say. */
#ifndef XCE_LEASED_HISTORY_STORE_INNER_H
#define XCE_LEASED_HISTORY_STORE_INNER_H

#include <stdbool.h>

#include "leased/history/store.h"

struct sqlite3;
struct sqlite3_stmt;

enum store_statement {
    ST_BEGIN,
    ST_COMMIT,
    ST_ROLLBACK,
    ST_LEASE,
    ST_MOVE,
    ST_LISTED,
    ST_LISTED_NONE,
    ST_CLOSE_REST,
    ST_PERIOD,
    ST_FOLLOWED,
    ST_GAP,
    /* store_fill.c */
    ST_GAP_FIND,
    ST_GAP_FILLING,
    ST_GAP_FILLED,
    ST_GAP_REST,
    ST_PERIOD_FIND,
    ST_PERIOD_BEFORE,
    ST_LEASE_FIND,
    ST_LEASE_PAST,
    ST_N,
};

struct store {
    char *path;
    struct sqlite3 *db;
    struct sqlite3_stmt *statements[ST_N];
    struct store_position position, committed;
    uint64_t foreign; /* number of the last block that was not written because it contradicts us */
    int wal_frames;
    bool open_failed; /* the connection must be made anew */
    char why[STORE_WHY_MAX];
};

/* SQLITE_OK, or what SQLite says. Bindings stay. */
int store_step(struct store *store, enum store_statement which);
/* Numbers of one row: SQLITE_ROW and ret, SQLITE_DONE there is none, or what SQLite says. NULL counts as 0. */
int store_get(struct store *store, enum store_statement which, int64_t *ret, int n);
void store_bind(struct store *store, enum store_statement which, int at, int64_t value);
/* 0 = NULL: not yet. */
void store_bind_time(struct store *store, enum store_statement which, int at, int64_t wall_ms);
void store_bind_text(struct store *store, enum store_statement which, int at, const char *text);
/* 1 to 10: what a lease is from its grant on. Both statements that write one begin with these. */
void store_bind_lease(struct store *store, enum store_statement which, int64_t key,
                      const struct feed_item *item);

static inline int64_t store_key(int64_t period, uint64_t lease)
{
    return (int64_t)((uint64_t)period << HISTORY_LEASE_BITS | lease);
}

/* Within a transaction: write a block that holds a piece of another's history. SQLITE_OK, or what SQLite says. */
int store_fill(struct store *store, const struct feed_block *block);

#endif
