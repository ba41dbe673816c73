#include "leased/history/query.h"

#include <errno.h>
#include <inttypes.h>
#include <pthread.h>
#include <sqlite3.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/mem.h"

#define COLUMNS                                                                                    \
    "key, uid, epoch, pool, job, owner_uid, owner_gid, owner, nodes, granted, ended, retired, "    \
    "freed, cause"
/* ?1 who, ?2 at (0 = any time), ?3 limit, ?4 owner, -1 = anybody, -2 = nobody, ?5 epoch, ?6 ?7 names of the owner */
#define HELD                                                                                       \
    "(?2 = 0 OR (granted <= ?2 AND (retired IS NULL OR ?2 < retired))) AND (?4 = -1 OR "           \
    "(owner_uid = ?4 AND owner IN (?6, ?7)))"

/* Leases of a uid follow one another, save where the clock was set back: so many before the time are looked at. */
#define LOOK_BACK "256"

static const char *const by_uid_sql = "SELECT " COLUMNS " FROM lease WHERE uid = ?1 AND " HELD
                                      " ORDER BY granted DESC, key DESC LIMIT ?3";
static const char *const by_uid_at_sql = "SELECT * FROM (SELECT " COLUMNS
                                         " FROM lease WHERE uid = ?1 AND granted <= ?2"
                                         " ORDER BY granted DESC, key DESC LIMIT " LOOK_BACK
                                         ") WHERE " HELD " LIMIT ?3";
static const char *const by_uid_epoch_sql = "SELECT " COLUMNS
                                            " FROM lease WHERE uid = ?1 AND epoch = ?5 AND " HELD
                                            " ORDER BY key DESC LIMIT ?3";
static const char *const by_lease_sql = "SELECT " COLUMNS
                                        " FROM (SELECT n FROM period ORDER BY n DESC)"
                                        " JOIN lease ON key = (n << " STORE_SQL_BITS
                                        " | ?1) WHERE " HELD " ORDER BY key DESC LIMIT ?3";
/* No index: it would cost each lease more than so rare a question is worth. ?8 whose job, ?9 among so
 * many */
static const char *const by_job_sql = "SELECT * FROM (SELECT " COLUMNS
                                      " FROM lease ORDER BY key DESC LIMIT ?9"
                                      ") WHERE job = ?1 AND owner_uid = ?8 AND " HELD
                                      " ORDER BY granted DESC, key DESC LIMIT ?3";
static const char *const older_sql = "SELECT 1 FROM lease ORDER BY key DESC LIMIT 1"
                                     " OFFSET ?1";
static const char *const by_period_sql = "SELECT " COLUMNS
                                         " FROM lease WHERE key > ?1 AND key <= ?2"
                                         " ORDER BY key LIMIT ?3";
static const char *const gap_sql =
    "SELECT from_wall, to_wall, from_revision, to_revision FROM gap"
    " WHERE ?1 = 0 OR (from_wall <= ?1 AND ?1 < to_wall) ORDER BY to_wall DESC LIMIT 1";

struct query_reader {
    char *path;
    pthread_mutex_t lock;
    sqlite3 *db;
};

int query_reader_new(const char *path, struct query_reader **ret)
{
    struct query_reader *reader = calloc(1, sizeof *reader);

    if (!reader || !(reader->path = strdup(path))) {
        free(reader);
        return -ENOMEM;
    }
    (void)pthread_mutex_init(&reader->lock, NULL);
    *ret = reader;
    return 0;
}

void query_reader_free(struct query_reader *reader)
{
    if (!reader)
        return;
    (void)sqlite3_close(reader->db);
    (void)pthread_mutex_destroy(&reader->lock);
    free(reader->path);
    free(reader);
}

static int say(struct query_reader *reader, struct query_answer *ret)
{
    int native = sqlite3_errcode(reader->db);
    bool damaged = native == SQLITE_CORRUPT || native == SQLITE_NOTADB || native == SQLITE_ERROR;

    (void)snprintf(ret->why, sizeof ret->why, "%s: %s: %s%s", reader->path,
                   damaged ? "damaged" : "cannot read", sqlite3_errmsg(reader->db),
                   damaged ? "; " STORE_WAY_BACK : "");
    /* The next query begins anew. */
    (void)sqlite3_close(reader->db);
    reader->db = NULL;
    return damaged ? -EBADMSG : native == SQLITE_NOMEM ? -ENOMEM : -EIO;
}

static int connect_reader(struct query_reader *reader, struct query_answer *ret)
{
    const int flags = SQLITE_OPEN_READONLY | SQLITE_OPEN_NOMUTEX | SQLITE_OPEN_PRIVATECACHE;

    if (reader->db)
        return 0;
    if (sqlite3_open_v2(reader->path, &reader->db, flags, NULL) != SQLITE_OK ||
        sqlite3_busy_timeout(reader->db, 1000) != SQLITE_OK ||
        sqlite3_exec(reader->db,
                     "PRAGMA temp_store = MEMORY; PRAGMA mmap_size = 0; PRAGMA cache_size = -1024;"
                     "PRAGMA trusted_schema = OFF",
                     NULL, NULL, NULL) != SQLITE_OK)
        return say(reader, ret);
    return 0;
}

/* ---- rows ---- */

/* Entries and their strings in one growing piece; pointers are made at the end. */
struct rows {
    struct history_entry *entries;
    size_t n, cap;
    char *text;
    size_t text_len, text_cap;
};

static const char *add_text(struct rows *rows, sqlite3_stmt *statement, int column)
{
    const char *text = (const char *)sqlite3_column_text(statement, column);
    size_t len = text ? (size_t)sqlite3_column_bytes(statement, column) : 0, at = rows->text_len;

    mem_must_grow(&rows->text, &rows->text_cap, at + len + 1, 1);
    if (len)
        memcpy(rows->text + at, text, len);
    rows->text[at + len] = '\0';
    rows->text_len += len + 1;
    /* An offset for now: the text may still move. */
    return (const char *)(uintptr_t)at;
}

static void add_row(struct rows *rows, sqlite3_stmt *s)
{
    struct history_entry *entry;

    mem_must_grow(&rows->entries, &rows->cap, rows->n + 1, sizeof *entry);
    entry = &rows->entries[rows->n++];
    *entry = (struct history_entry){
        .lease = (uint64_t)sqlite3_column_int64(s, 0) & HISTORY_LEASE_MAX,
        .uid = (uint32_t)sqlite3_column_int64(s, 1),
        .epoch = (uint32_t)sqlite3_column_int64(s, 2),
        .pool = add_text(rows, s, 3),
        .job = add_text(rows, s, 4),
        .owner_uid = (uint32_t)sqlite3_column_int64(s, 5),
        .owner_gid = (uint32_t)sqlite3_column_int64(s, 6),
        .owner_name = add_text(rows, s, 7),
        .nodes = add_text(rows, s, 8),
        .granted_wall_ms = sqlite3_column_int64(s, 9),
        .ended_wall_ms = sqlite3_column_int64(s, 10),
        .retired_wall_ms = sqlite3_column_int64(s, 11),
        .freed_wall_ms = sqlite3_column_int64(s, 12),
        .cause = (enum end_cause)sqlite3_column_int(s, 13),
    };
}

/* One piece of memory: the entries, then the text that they point into. */
static int settle(struct rows *rows, struct query_answer *ret)
{
    size_t head = rows->n * sizeof *rows->entries;
    char *piece = malloc(head + rows->text_len + 1), *text = piece + head;

    if (!piece)
        return -ENOMEM;
    ret->entries = (struct history_entry *)(void *)piece;
    ret->n = rows->n;
    if (rows->n) {
        memcpy(piece, rows->entries, head);
        memcpy(text, rows->text, rows->text_len);
    }
    for (size_t i = 0; i < rows->n; i++) {
        struct history_entry *entry = &ret->entries[i];

        entry->pool = text + (uintptr_t)entry->pool;
        entry->job = text + (uintptr_t)entry->job;
        entry->owner_name = text + (uintptr_t)entry->owner_name;
        entry->nodes = text + (uintptr_t)entry->nodes;
    }
    return 0;
}

static void bind_owner(sqlite3_stmt *statement, const struct history_query *query)
{
    sqlite3_int64 owner = query->nobody ? -2 : query->own ? (sqlite3_int64)query->owner_uid : -1;
    char number[16];

    (void)snprintf(number, sizeof number, "#%" PRIu32, query->owner_uid);
    (void)sqlite3_bind_int64(statement, 4, owner);
    (void)sqlite3_bind_text(statement, 6, query->owner_name, -1, SQLITE_TRANSIENT);
    (void)sqlite3_bind_text(statement, 7, query->owner_nameless ? number : query->owner_name, -1,
                            SQLITE_TRANSIENT);
}

static sqlite3_stmt *prepare_period(struct query_reader *reader, const struct history_query *query)
{
    uint64_t first = (uint64_t)query->period << HISTORY_LEASE_BITS;
    sqlite3_stmt *statement = NULL;

    if (sqlite3_prepare_v2(reader->db, by_period_sql, -1, &statement, NULL) != SQLITE_OK)
        return NULL;
    (void)sqlite3_bind_int64(statement, 1, (int64_t)(first | query->lease));
    (void)sqlite3_bind_int64(statement, 2, (int64_t)(first | query->until));
    (void)sqlite3_bind_int64(statement, 3, query->limit);
    return statement;
}

static void bind_who(sqlite3_stmt *statement, const struct history_query *query)
{
    if (query->by == HISTORY_BY_JOB) {
        (void)sqlite3_bind_text(statement, 1, query->job, -1, SQLITE_TRANSIENT);
        (void)sqlite3_bind_int64(statement, 8, query->job_owner_uid);
        (void)sqlite3_bind_int64(statement, 9, query->look);
    } else {
        (void)sqlite3_bind_int64(
            statement, 1, query->by == HISTORY_BY_LEASE ? (sqlite3_int64)query->lease : query->uid);
    }
    if (query->by == HISTORY_BY_UID_EPOCH)
        (void)sqlite3_bind_int64(statement, 5, query->epoch);
}

static sqlite3_stmt *prepare(struct query_reader *reader, const struct history_query *query)
{
    const char *sql = query->by == HISTORY_BY_LEASE       ? by_lease_sql
                      : query->by == HISTORY_BY_UID_EPOCH ? by_uid_epoch_sql
                      : query->by == HISTORY_BY_JOB       ? by_job_sql
                      : query->at_wall_ms                 ? by_uid_at_sql
                                                          : by_uid_sql;
    sqlite3_stmt *statement = NULL;

    if (sqlite3_prepare_v2(reader->db, sql, -1, &statement, NULL) != SQLITE_OK)
        return NULL;
    bind_who(statement, query);
    (void)sqlite3_bind_int64(statement, 2, query->at_wall_ms);
    (void)sqlite3_bind_int64(statement, 3, query->limit);
    bind_owner(statement, query);
    return statement;
}

static int read_rows(struct query_reader *reader, const struct history_query *query,
                     struct rows *rows)
{
    bool period = query->by == HISTORY_BY_PERIOD;
    sqlite3_stmt *statement = period ? prepare_period(reader, query) : prepare(reader, query);
    int native = SQLITE_ERROR;

    while (statement && (native = sqlite3_step(statement)) == SQLITE_ROW) {
        add_row(rows, statement);
        if (period && rows->text_len >= HISTORY_PERIOD_BYTES) {
            native = SQLITE_DONE;
            break;
        }
    }
    (void)sqlite3_finalize(statement);
    return statement && native == SQLITE_DONE ? 0 : -EIO;
}

/* What was never seen at that time, if anything. */
static int note_gap(struct query_reader *reader, const struct history_query *query,
                    struct query_answer *ret)
{
    sqlite3_stmt *statement = NULL;
    int native = sqlite3_prepare_v2(reader->db, gap_sql, -1, &statement, NULL);

    if (native == SQLITE_OK) {
        (void)sqlite3_bind_int64(statement, 1, query->at_wall_ms);
        native = sqlite3_step(statement);
    }
    if (native == SQLITE_ROW)
        (void)snprintf(ret->why, sizeof ret->why,
                       "what happened between revisions %" PRId64 " and %" PRId64
                       " is not known here",
                       (int64_t)sqlite3_column_int64(statement, 2),
                       (int64_t)sqlite3_column_int64(statement, 3));
    (void)sqlite3_finalize(statement);
    return native == SQLITE_ROW || native == SQLITE_DONE ? 0 : -EIO;
}

/* Of a job: that there are leases which were not looked at, if the answer is not full without them. */
static int note_older(struct query_reader *reader, const struct history_query *query, size_t n,
                      struct query_answer *ret)
{
    size_t len = strlen(ret->why);
    sqlite3_stmt *statement = NULL;
    int native;

    if (query->by != HISTORY_BY_JOB || n == query->limit)
        return 0;
    native = sqlite3_prepare_v2(reader->db, older_sql, -1, &statement, NULL);
    if (native == SQLITE_OK) {
        (void)sqlite3_bind_int64(statement, 1, query->look);
        native = sqlite3_step(statement);
    }
    if (native == SQLITE_ROW)
        (void)snprintf(ret->why + len, sizeof ret->why - len,
                       "%sonly the newest %" PRIu32 " leases were looked through", len ? "; " : "",
                       query->look);
    (void)sqlite3_finalize(statement);
    return native == SQLITE_ROW || native == SQLITE_DONE ? 0 : -EIO;
}

static void run_locked(struct query_reader *reader, const struct history_query *query,
                       struct query_answer *ret)
{
    struct rows rows = {0};

    ret->r = connect_reader(reader, ret);
    if (ret->r < 0)
        return;
    if (read_rows(reader, query, &rows) < 0 || note_gap(reader, query, ret) < 0 ||
        note_older(reader, query, rows.n, ret) < 0)
        ret->r = say(reader, ret);
    else
        ret->r = settle(&rows, ret);
    free(rows.entries);
    free(rows.text);
}

void query_run(struct query_reader *reader, const struct history_query *query,
               struct query_answer *ret)
{
    memset(ret, 0, sizeof *ret);
    pthread_mutex_lock(&reader->lock);
    run_locked(reader, query, ret);
    pthread_mutex_unlock(&reader->lock);
}

void query_with(struct query_reader *reader, int (*fn)(struct sqlite3 *db, void *arg), void *arg,
                struct query_answer *ret)
{
    memset(ret, 0, sizeof *ret);
    pthread_mutex_lock(&reader->lock);
    ret->r = connect_reader(reader, ret);
    if (ret->r == 0 && fn(reader->db, arg) != SQLITE_OK)
        ret->r = say(reader, ret);
    pthread_mutex_unlock(&reader->lock);
}

void query_answer_done(struct query_answer *answer)
{
    free(answer->entries);
    answer->entries = NULL;
}
