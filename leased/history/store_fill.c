/* A gap is filled with what another replica has seen: pieces of its history, in one transaction each. */
#include <sqlite3.h>

#include "leased/history/store_inner.h"

/* The piece that is being written. */
struct filling {
    struct store *store;
    struct history_piece piece;
    int64_t period;  /* its number here; 0 = there is none yet */
    int64_t made_up; /* the time that the gap put where it knew none */
};

static int find_gap(struct filling *filling)
{
    store_bind(filling->store, ST_GAP_FIND, 1, filling->piece.gap);
    return store_get(filling->store, ST_GAP_FIND, &filling->made_up, 1);
}

/* 0 = there is none. */
static int find_period(struct store *store, const struct history_foreign *foreign, int64_t *ret)
{
    int native;

    *ret = 0;
    (void)sqlite3_bind_blob(store->statements[ST_PERIOD_FIND], 1, foreign->incarnation,
                            HISTORY_INCARNATION_LEN, SQLITE_STATIC);
    store_bind(store, ST_PERIOD_FIND, 2, foreign->later);
    native = store_get(store, ST_PERIOD_FIND, ret, 1);
    return native == SQLITE_ROW || native == SQLITE_DONE ? SQLITE_OK : native;
}

/* Before all that there are: whatever is missing is older than what is followed. */
static int make_period(struct store *store, const struct history_foreign *foreign, int64_t *ret)
{
    int native;

    (void)sqlite3_bind_blob(store->statements[ST_PERIOD_BEFORE], 1, foreign->incarnation,
                            HISTORY_INCARNATION_LEN, SQLITE_STATIC);
    store_bind(store, ST_PERIOD_BEFORE, 2, (int64_t)foreign->revision);
    store_bind(store, ST_PERIOD_BEFORE, 3, foreign->wall_ms);
    native = store_step(store, ST_PERIOD_BEFORE);
    if (native == SQLITE_OK)
        *ret = sqlite3_last_insert_rowid(store->db);
    return native;
}

static int find_or_make_period(struct store *store, const struct history_foreign *foreign,
                               int64_t *ret)
{
    int native = find_period(store, foreign, ret);

    return native == SQLITE_OK && *ret == 0 ? make_period(store, foreign, ret) : native;
}

/* What stands here of a lease. */
struct known {
    int64_t uid, epoch, granted_wall_ms;
};

/* SQLITE_ROW and ret; SQLITE_DONE nothing. */
static int find_lease(const struct filling *filling, uint64_t lease, struct known *ret)
{
    int64_t row[3] = {0};
    int native;

    store_bind(filling->store, ST_LEASE_FIND, 1, store_key(filling->period, lease));
    native = store_get(filling->store, ST_LEASE_FIND, row, 3);
    *ret = (struct known){row[0], row[1], row[2]};
    return native;
}

/* One grant: its epoch may have risen since on one side alone, but its uid and its moment never change. */
static bool same_grant(const struct known *here, const struct feed_item *there)
{
    return here->uid == there->uid &&
           (here->epoch == there->epoch || here->granted_wall_ms == there->granted_wall_ms);
}

/* Whether it has a lease that was another grant here. */
static int contradicts(const struct filling *filling, const struct feed_block *block, bool *ret)
{
    int native = SQLITE_DONE;

    *ret = false;
    for (const struct feed_item *item = feed_first(block);
         item && !*ret && filling->period && (native == SQLITE_ROW || native == SQLITE_DONE);
         item = feed_next(block, item)) {
        struct known here;

        if (item->kind != FEED_PAST)
            continue;
        native = find_lease(filling, item->lease, &here);
        *ret = native == SQLITE_ROW && !same_grant(&here, item);
    }
    return native == SQLITE_ROW || native == SQLITE_DONE ? SQLITE_OK : native;
}

static int write_past(const struct filling *filling, const struct feed_item *item)
{
    struct store *store = filling->store;
    struct feed_times times = feed_get_times(item);
    struct known here;
    int native = find_lease(filling, item->lease, &here);

    if (native != SQLITE_ROW && native != SQLITE_DONE)
        return native;
    /* It lives, and was not in the list: it was granted after the gap, and the log will tell. */
    if (native == SQLITE_DONE && !times.freed_wall_ms)
        return SQLITE_OK;
    store_bind_lease(store, ST_LEASE_PAST, store_key(filling->period, item->lease), item);
    store_bind_time(store, ST_LEASE_PAST, 11, times.ended_wall_ms);
    store_bind_time(store, ST_LEASE_PAST, 12, times.retired_wall_ms);
    store_bind_time(store, ST_LEASE_PAST, 13, times.freed_wall_ms);
    store_bind(store, ST_LEASE_PAST, 14, item->cause);
    store_bind(store, ST_LEASE_PAST, 15, filling->made_up);
    return store_step(store, ST_LEASE_PAST);
}

/* The source has a gap there, too: another one may have none. */
static int write_rest(struct store *store, const struct feed_item *item)
{
    struct history_rest rest = feed_get_rest(item);
    int64_t period;
    int native = find_or_make_period(store, &rest.period, &period);

    if (native != SQLITE_OK)
        return native;
    store_bind(store, ST_GAP_REST, 1, rest.from_wall_ms);
    store_bind(store, ST_GAP_REST, 2, rest.to_wall_ms);
    store_bind(store, ST_GAP_REST, 3, (int64_t)rest.from_revision);
    store_bind(store, ST_GAP_REST, 4, (int64_t)rest.to_revision);
    store_bind(store, ST_GAP_REST, 5, period);
    store_bind(store, ST_GAP_REST, 6, (int64_t)rest.first_lease);
    store_bind(store, ST_GAP_REST, 7, rest.made_up_ms);
    return store_step(store, ST_GAP_REST);
}

static int write_filled(struct store *store, const struct history_piece *piece)
{
    store_bind(store, ST_GAP_FILLED, 1, piece->gap);
    return store_step(store, ST_GAP_FILLED);
}

static int write_how_far(struct store *store, const struct history_piece *piece)
{
    store_bind(store, ST_GAP_FILLING, 1, piece->gap);
    store_bind(store, ST_GAP_FILLING, 2, (int64_t)piece->source);
    store_bind(store, ST_GAP_FILLING, 3, (int64_t)piece->plan);
    store_bind(store, ST_GAP_FILLING, 4, piece->part);
    store_bind(store, ST_GAP_FILLING, 5, (int64_t)piece->after);
    return store_step(store, ST_GAP_FILLING);
}

static int write_items(const struct filling *filling, const struct feed_block *block)
{
    const struct history_piece *piece = &filling->piece;
    int native = SQLITE_OK;

    for (const struct feed_item *item = feed_first(block); item && native == SQLITE_OK;
         item = feed_next(block, item)) {
        if (item->kind == FEED_PAST)
            native = write_past(filling, item);
        else if (item->kind == FEED_REST)
            native = write_rest(filling->store, item);
    }
    if (native != SQLITE_OK)
        return native;
    return piece->last ? write_filled(filling->store, piece) : write_how_far(filling->store, piece);
}

int store_fill(struct store *store, const struct feed_block *block)
{
    struct filling filling = {.store = store, .piece = feed_get_piece(feed_first(block))};
    bool foreign;
    int native = find_gap(&filling);

    if (native != SQLITE_ROW)
        return native == SQLITE_DONE ? SQLITE_OK : native;
    native = find_period(store, &filling.piece.period, &filling.period);
    if (native == SQLITE_OK)
        native = contradicts(&filling, block, &foreign);
    if (native != SQLITE_OK)
        return native;
    if (foreign) {
        store->foreign = block->number;
        return SQLITE_OK;
    }
    if (filling.period == 0)
        native = make_period(store, &filling.piece.period, &filling.period);
    return native == SQLITE_OK ? write_items(&filling, block) : native;
}
