#include "leased/history/outline.h"

#include <sqlite3.h>
#include <stdlib.h>
#include <string.h>

#include "common/mem.h"

static const char periods_sql[] =
    "SELECT n, id, revision, wall, (SELECT key FROM lease WHERE key > (n << " STORE_SQL_BITS ")"
    " AND key <= (n << " STORE_SQL_BITS " | " STORE_SQL_LEASE ")"
    " ORDER BY key DESC LIMIT 1) FROM period ORDER BY n";
static const char gaps_sql[] =
    "SELECT rowid, period, from_revision, to_revision, from_wall, "
    "to_wall, first_lease, source, plan,"
    " part, after_lease, made_up FROM gap ORDER BY to_wall DESC, rowid DESC";

static int take_period(sqlite3_stmt *s, struct history_outline *ret, size_t *cap)
{
    struct history_period *period;

    if (sqlite3_column_bytes(s, 1) != HISTORY_INCARNATION_LEN)
        return SQLITE_CORRUPT;
    mem_must_grow(&ret->periods, cap, ret->n_periods + 1, sizeof *period);
    period = &ret->periods[ret->n_periods++];
    *period = (struct history_period){
        .number = sqlite3_column_int64(s, 0),
        .revision = (uint64_t)sqlite3_column_int64(s, 2),
        .wall_ms = sqlite3_column_int64(s, 3),
        .last_lease = sqlite3_column_type(s, 4) == SQLITE_NULL
                          ? 0
                          : (uint64_t)sqlite3_column_int64(s, 4) & HISTORY_LEASE_MAX,
    };
    memcpy(period->incarnation, sqlite3_column_blob(s, 1), HISTORY_INCARNATION_LEN);
    return SQLITE_OK;
}

static int take_gap(sqlite3_stmt *s, struct history_outline *ret, size_t *cap)
{
    mem_must_grow(&ret->gaps, cap, ret->n_gaps + 1, sizeof *ret->gaps);
    ret->gaps[ret->n_gaps++] = (struct history_gap){
        .id = sqlite3_column_int64(s, 0),
        .period = sqlite3_column_int64(s, 1),
        .from_revision = (uint64_t)sqlite3_column_int64(s, 2),
        .to_revision = (uint64_t)sqlite3_column_int64(s, 3),
        .from_wall_ms = sqlite3_column_int64(s, 4),
        .to_wall_ms = sqlite3_column_int64(s, 5),
        .first_lease = (uint64_t)sqlite3_column_int64(s, 6),
        .source = (uint64_t)sqlite3_column_int64(s, 7),
        .plan = (uint64_t)sqlite3_column_int64(s, 8),
        .part = sqlite3_column_int64(s, 9),
        .after = (uint64_t)sqlite3_column_int64(s, 10),
        .made_up_ms = sqlite3_column_int64(s, 11),
    };
    return SQLITE_OK;
}

static int read_all(sqlite3 *db, const char *sql, struct history_outline *ret,
                    int (*take)(sqlite3_stmt *s, struct history_outline *ret, size_t *cap))
{
    sqlite3_stmt *statement = NULL;
    size_t cap = 0;
    int native = sqlite3_prepare_v2(db, sql, -1, &statement, NULL);

    while (native == SQLITE_OK && (native = sqlite3_step(statement)) == SQLITE_ROW)
        native = take(statement, ret, &cap);
    (void)sqlite3_finalize(statement);
    return native == SQLITE_DONE ? SQLITE_OK : native;
}

/* Both as they were at one moment. */
static int read_outline(sqlite3 *db, void *arg)
{
    int native = sqlite3_exec(db, "BEGIN", NULL, NULL, NULL);

    if (native != SQLITE_OK)
        return native;
    native = read_all(db, periods_sql, arg, take_period);
    if (native == SQLITE_OK)
        native = read_all(db, gaps_sql, arg, take_gap);
    (void)sqlite3_exec(db, "ROLLBACK", NULL, NULL, NULL);
    return native;
}

void outline_read(struct query_reader *reader, struct history_outline *ret,
                  struct query_answer *ret_answer)
{
    memset(ret, 0, sizeof *ret);
    query_with(reader, read_outline, ret, ret_answer);
}

void outline_done(struct history_outline *outline)
{
    free(outline->periods);
    free(outline->gaps);
    *outline = (struct history_outline){0};
}
