#include "leased/history/store.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <sqlite3.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "common/fsutil.h"
#include "leased/history/store_inner.h"

/* Of a period whose keys go from ?5 to ?6: the first that had not ended, and the one behind all that had. */
#define FIRST_ALIVE                                                                                \
    "coalesce((SELECT min(key) FROM lease WHERE key BETWEEN ?5 AND ?6 AND freed IS NULL), ?6)"
#define BEHIND_THE_ENDED                                                                           \
    "coalesce((SELECT key + 1 FROM lease WHERE key BETWEEN ?5 AND ?6 AND freed IS NOT NULL"        \
    " ORDER BY key DESC LIMIT 1), ?5 + 1)"

/* A lease that drains again after it was retired is in the maps again, hence the CASEs. The epoch of one rises when, after a
 * restore, a node knows of a higher one of its uid (fsm/incarnation.c); it never falls. */
static const char *const statements[ST_N] = {
    [ST_BEGIN] = "BEGIN IMMEDIATE",
    [ST_COMMIT] = "COMMIT",
    [ST_ROLLBACK] = "ROLLBACK",
    [ST_LEASE] =
        "INSERT INTO lease(key, uid, epoch, pool, job, owner_uid, owner_gid, owner, nodes, granted,"
        " ended, retired, freed, cause) VALUES(?1,?2,?3,?4,?5,?6,?7,?8,?9,?10,?11,?12,?13,?14)"
        " ON CONFLICT(key) DO UPDATE SET epoch = max(epoch, excluded.epoch),"
        " nodes = excluded.nodes, cause = excluded.cause,"
        " ended = CASE WHEN excluded.ended IS NULL THEN NULL ELSE coalesce(ended, excluded.ended) "
        "END,"
        " retired = CASE WHEN excluded.retired IS NULL THEN NULL"
        " ELSE coalesce(retired, excluded.retired) END,"
        " freed = CASE WHEN excluded.freed IS NULL THEN NULL ELSE coalesce(freed, excluded.freed) "
        "END",
    [ST_MOVE] =
        "UPDATE OR IGNORE lease SET key = ?1 WHERE uid = ?2 AND epoch = ?3 AND freed IS NULL"
        " AND key <> ?1 AND (key & " STORE_SQL_LEASE ") = ?4",
    [ST_LISTED] = "INSERT OR IGNORE INTO temp.listed VALUES(?1)",
    [ST_LISTED_NONE] = "DELETE FROM temp.listed",
    [ST_CLOSE_REST] =
        "UPDATE lease SET ended = coalesce(ended, ?1), retired = coalesce(retired, ?1),"
        " freed = ?1 WHERE freed IS NULL AND key NOT IN temp.listed",
    [ST_PERIOD] = "INSERT INTO period(n, id, revision, wall) VALUES(?1, ?2, 0, ?3)",
    [ST_FOLLOWED] = "UPDATE period SET revision = ?2, wall = ?3 WHERE n = ?1",
    /* Below the first lease that had not ended before, and that is not newer than all that had, nothing changed in the gap. */
    [ST_GAP] = "INSERT INTO gap(from_wall, to_wall, from_revision, to_revision, made_up, period,"
               " first_lease) SELECT ?1, ?2, ?3, ?4, ?2, ?5 >> " STORE_SQL_BITS ","
               " CASE WHEN ?3 = 0 THEN 1 ELSE min(" FIRST_ALIVE ", " BEHIND_THE_ENDED
               ") & " STORE_SQL_LEASE " END",
    [ST_GAP_FIND] = "SELECT made_up FROM gap WHERE rowid = ?1 AND period IS NOT NULL",
    [ST_GAP_FILLING] = "UPDATE gap SET source = ?2, plan = ?3, part = ?4, after_lease = ?5"
                       " WHERE rowid = ?1",
    [ST_GAP_FILLED] = "DELETE FROM gap WHERE rowid = ?1",
    [ST_GAP_REST] = "INSERT INTO gap(from_wall, to_wall, from_revision, to_revision, period, "
                    "first_lease, made_up)"
                    " VALUES(?1,?2,?3,?4,?5,?6,?7)",
    [ST_PERIOD_FIND] = "SELECT n FROM period WHERE id = ?1 ORDER BY n DESC LIMIT 1 OFFSET ?2",
    [ST_PERIOD_BEFORE] = "INSERT INTO period(n, id, revision, wall)"
                         " SELECT min(min(n), 0) - 1, ?1, ?2, ?3 FROM period",
    [ST_LEASE_FIND] = "SELECT uid, epoch, granted FROM lease WHERE key = ?1",
    /* ?15: the time that the gap made up; what was seen is left alone, but for the epoch as above. */
    [ST_LEASE_PAST] =
        "INSERT INTO lease(key, uid, epoch, pool, job, owner_uid, owner_gid, owner, nodes, granted,"
        " ended, retired, freed, cause) VALUES(?1,?2,?3,?4,?5,?6,?7,?8,?9,?10,?11,?12,?13,?14)"
        " ON CONFLICT(key) DO UPDATE SET epoch = max(epoch, excluded.epoch),"
        " nodes = CASE WHEN freed = ?15 THEN excluded.nodes ELSE nodes END,"
        " cause = CASE WHEN freed = ?15 THEN excluded.cause ELSE cause END,"
        " ended = CASE WHEN ended = ?15 THEN coalesce(excluded.ended, ended) ELSE ended END,"
        " retired = CASE WHEN retired = ?15 THEN coalesce(excluded.retired, retired) ELSE retired"
        " END,"
        " freed = CASE WHEN freed = ?15 THEN coalesce(excluded.freed, freed) ELSE freed END",
};

static const char schema[] =
    "PRAGMA journal_mode = WAL;"
    "BEGIN IMMEDIATE;"
    "CREATE TABLE period(n INTEGER PRIMARY KEY, id BLOB NOT NULL, revision INTEGER NOT NULL,"
    " wall INTEGER NOT NULL);"
    "CREATE TABLE gap(from_wall INTEGER NOT NULL, to_wall INTEGER NOT NULL,"
    " from_revision INTEGER NOT NULL, to_revision INTEGER NOT NULL, period INTEGER,"
    " first_lease INTEGER, made_up INTEGER, source INTEGER, plan INTEGER, part INTEGER,"
    " after_lease INTEGER);"
    "CREATE TABLE lease(key INTEGER PRIMARY KEY, uid INTEGER NOT NULL, epoch INTEGER NOT NULL,"
    " pool TEXT NOT NULL, job TEXT NOT NULL, owner_uid INTEGER NOT NULL,"
    " owner_gid INTEGER NOT NULL, owner TEXT NOT NULL, nodes TEXT NOT NULL,"
    " granted INTEGER NOT NULL, ended INTEGER, retired INTEGER, freed INTEGER,"
    " cause INTEGER NOT NULL);"
    /* One for both questions, who had the uid when and who had it under that epoch: a second one costs each lease more. */
    "CREATE INDEX lease_uid ON lease(uid, granted, epoch);"
    "PRAGMA application_id = 2019779912;"
    "PRAGMA user_version = 2;"
    "COMMIT";

static const char from_format_1[] = "BEGIN IMMEDIATE;"
                                    "ALTER TABLE gap ADD COLUMN period INTEGER;"
                                    "ALTER TABLE gap ADD COLUMN first_lease INTEGER;"
                                    "ALTER TABLE gap ADD COLUMN made_up INTEGER;"
                                    "ALTER TABLE gap ADD COLUMN source INTEGER;"
                                    "ALTER TABLE gap ADD COLUMN plan INTEGER;"
                                    "ALTER TABLE gap ADD COLUMN part INTEGER;"
                                    "ALTER TABLE gap ADD COLUMN after_lease INTEGER;"
                                    "PRAGMA user_version = 2;"
                                    "COMMIT";

/* ---- failures ---- */

static int say(struct store *store, int r, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

static int say(struct store *store, int r, const char *format, ...)
{
    va_list ap;
    int n = snprintf(store->why, sizeof store->why, "%s: ", store->path);

    if (n < 0 || (size_t)n >= sizeof store->why)
        return r;
    va_start(ap, format);
    (void)vsnprintf(store->why + n, sizeof store->why - (size_t)n, format, ap);
    va_end(ap);
    return r;
}

static int failed(struct store *store, const char *what, int error)
{
    int native = sqlite3_extended_errcode(store->db);

    if (sqlite3_system_errno(store->db))
        error = sqlite3_system_errno(store->db);
    switch (native & 0xff) {
    case SQLITE_FULL:
        return say(store, -ENOSPC, "%s: the disk is full", what);
    case SQLITE_CORRUPT:
    case SQLITE_NOTADB:
    case SQLITE_ERROR:
    case SQLITE_CONSTRAINT:
    case SQLITE_MISMATCH:
        return say(store, -EBADMSG, "damaged: %s: %s; " STORE_WAY_BACK, what,
                   sqlite3_errmsg(store->db));
    case SQLITE_BUSY:
        return say(store, -EBUSY, "%s: another process has it locked", what);
    default:
        break;
    }
    if (error == ENOSPC || error == EDQUOT)
        return say(store, -ENOSPC, "%s: the disk is full", what);
    return say(store, error ? -error : -EIO, "%s: %s", what,
               error ? strerror(error) : sqlite3_errmsg(store->db));
}

/* ---- statements ---- */

int store_step(struct store *store, enum store_statement which)
{
    sqlite3_stmt *statement = store->statements[which];
    int native = sqlite3_step(statement), error = errno;

    (void)sqlite3_reset(statement);
    errno = error;
    return native == SQLITE_DONE ? SQLITE_OK : native;
}

int store_get(struct store *store, enum store_statement which, int64_t *ret, int n)
{
    sqlite3_stmt *statement = store->statements[which];
    int native = sqlite3_step(statement), error = errno;

    for (int i = 0; i < n && native == SQLITE_ROW; i++)
        ret[i] = sqlite3_column_int64(statement, i);
    (void)sqlite3_reset(statement);
    errno = error;
    return native;
}

void store_bind(struct store *store, enum store_statement which, int at, int64_t value)
{
    (void)sqlite3_bind_int64(store->statements[which], at, value);
}

void store_bind_time(struct store *store, enum store_statement which, int at, int64_t wall_ms)
{
    if (wall_ms)
        store_bind(store, which, at, wall_ms);
    else
        (void)sqlite3_bind_null(store->statements[which], at);
}

void store_bind_text(struct store *store, enum store_statement which, int at, const char *text)
{
    (void)sqlite3_bind_text(store->statements[which], at, text, -1, SQLITE_STATIC);
}

static int get_int(struct store *store, const char *sql, int64_t *ret)
{
    sqlite3_stmt *statement = NULL;
    int native = sqlite3_prepare_v2(store->db, sql, -1, &statement, NULL);

    if (native == SQLITE_OK)
        native = sqlite3_step(statement);
    if (native == SQLITE_ROW)
        *ret = sqlite3_column_int64(statement, 0);
    (void)sqlite3_finalize(statement);
    return native == SQLITE_ROW ? 0 : failed(store, "cannot read", errno);
}

/* ---- writing ---- */

static int64_t key_of(const struct store *store, uint64_t lease)
{
    return store_key((int64_t)store->position.period, lease);
}

void store_bind_lease(struct store *store, enum store_statement which, int64_t key,
                      const struct feed_item *item)
{
    store_bind(store, which, 1, key);
    store_bind(store, which, 2, item->uid);
    store_bind(store, which, 3, item->epoch);
    store_bind_text(store, which, 4, item->text + item->pool);
    store_bind_text(store, which, 5, item->text + item->job);
    store_bind(store, which, 6, item->owner_uid);
    store_bind(store, which, 7, item->owner_gid);
    store_bind_text(store, which, 8, item->text + item->owner);
    store_bind_text(store, which, 9, item->text + item->nodes);
    store_bind(store, which, 10, item->granted_wall_ms);
}

static int write_lease(struct store *store, const struct feed_item *item)
{
    int64_t wall = item->wall_ms;

    store_bind_lease(store, ST_LEASE, key_of(store, item->lease), item);
    store_bind_time(store, ST_LEASE, 11, item->state >= LEASE_DRAINING ? wall : 0);
    store_bind_time(store, ST_LEASE, 12, item->state >= LEASE_RETIRED ? wall : 0);
    store_bind_time(store, ST_LEASE, 13, item->state >= LEASE_FREE ? wall : 0);
    store_bind(store, ST_LEASE, 14, item->cause);
    return store_step(store, ST_LEASE);
}

/* The lease may be known from before the gap, or from the state that this one was restored from. */
static int write_listed(struct store *store, const struct feed_item *item)
{
    int native;

    store_bind(store, ST_MOVE, 1, key_of(store, item->lease));
    store_bind(store, ST_MOVE, 2, item->uid);
    store_bind(store, ST_MOVE, 3, item->epoch);
    store_bind(store, ST_MOVE, 4, (int64_t)item->lease);
    native = store_step(store, ST_MOVE);
    if (native == SQLITE_OK)
        native = write_lease(store, item);
    if (native == SQLITE_OK) {
        store_bind(store, ST_LISTED, 1, key_of(store, item->lease));
        native = store_step(store, ST_LISTED);
    }
    return native;
}

static int write_gap(struct store *store, const struct feed_item *item)
{
    store_bind(store, ST_GAP, 1, store->position.wall_ms);
    store_bind(store, ST_GAP, 2, item->wall_ms);
    store_bind(store, ST_GAP, 3, (int64_t)store->position.revision);
    store_bind(store, ST_GAP, 4, (int64_t)item->revision);
    store_bind(store, ST_GAP, 5, key_of(store, 0));
    store_bind(store, ST_GAP, 6, key_of(store, HISTORY_LEASE_MAX));
    return store_step(store, ST_GAP);
}

/* Whatever was not listed has ended somewhere in the gap. */
static int write_list_end(struct store *store, const struct feed_item *item)
{
    int native = SQLITE_OK;

    if (item->revision > store->position.revision)
        native = write_gap(store, item);
    store_bind(store, ST_CLOSE_REST, 1, item->wall_ms);
    if (native == SQLITE_OK)
        native = store_step(store, ST_CLOSE_REST);
    if (native == SQLITE_OK)
        native = store_step(store, ST_LISTED_NONE);
    return native;
}

static int write_period(struct store *store, const struct feed_item *item)
{
    struct store_position *at = &store->position;

    memcpy(at->incarnation, item->text, FEED_INCARNATION_LEN);
    at->period++;
    at->revision = 0;
    store_bind(store, ST_PERIOD, 1, (int64_t)at->period);
    (void)sqlite3_bind_blob(store->statements[ST_PERIOD], 2, at->incarnation, FEED_INCARNATION_LEN,
                            SQLITE_STATIC);
    store_bind(store, ST_PERIOD, 3, at->wall_ms);
    return store_step(store, ST_PERIOD);
}

static int write_item(struct store *store, const struct feed_item *item)
{
    switch (item->kind) {
    case FEED_LEASE:
        return write_lease(store, item);
    case FEED_LISTED:
        return write_listed(store, item);
    case FEED_LIST_END:
        return write_list_end(store, item);
    case FEED_INCARNATION:
        return write_period(store, item);
    case FEED_PIECE:
    case FEED_PAST:
    case FEED_REST:
        break; /* never beside these */
    }
    return SQLITE_INTERNAL;
}

static int write_followed(struct store *store, const struct feed_block *block)
{
    if (block->revision <= store->position.revision)
        return SQLITE_OK;
    store->position.revision = block->revision;
    store->position.wall_ms = block->wall_ms;
    store_bind(store, ST_FOLLOWED, 1, (int64_t)store->position.period);
    store_bind(store, ST_FOLLOWED, 2, (int64_t)block->revision);
    store_bind(store, ST_FOLLOWED, 3, block->wall_ms);
    return store_step(store, ST_FOLLOWED);
}

static int write_all(struct store *store, const struct feed_block *block)
{
    const struct feed_item *first = feed_first(block);
    bool piece = first && first->kind == FEED_PIECE;
    int native = store_step(store, ST_BEGIN);

    if (piece && native == SQLITE_OK)
        native = store_fill(store, block);
    for (const struct feed_item *item = first; item && !piece && native == SQLITE_OK;
         item = feed_next(block, item))
        native = write_item(store, item);
    if (native == SQLITE_OK && !piece)
        native = write_followed(store, block);
    if (native == SQLITE_OK)
        native = store_step(store, ST_COMMIT);
    return native;
}

static void disconnect(struct store *store)
{
    for (int i = 0; i < ST_N; i++) {
        (void)sqlite3_finalize(store->statements[i]);
        store->statements[i] = NULL;
    }
    (void)sqlite3_close(store->db);
    store->db = NULL;
}

static int keep_frames(void *arg, sqlite3 *db, const char *name, int frames)
{
    struct store *store = arg;

    store->wal_frames = frames;
    return SQLITE_OK;
}

static int check_kind(struct store *store)
{
    int64_t application, format, tables;
    int r = get_int(store, "PRAGMA application_id", &application);

    if (r == 0)
        r = get_int(store, "PRAGMA user_version", &format);
    if (r == 0)
        r = get_int(store, "SELECT count(*) FROM sqlite_master", &tables);
    if (r < 0)
        return r;
    if (application == 0 && format == 0 && tables == 0) {
        errno = 0;
        return sqlite3_exec(store->db, schema, NULL, NULL, NULL) == SQLITE_OK
                   ? 0
                   : failed(store, "cannot make", errno);
    }
    if (application != STORE_APPLICATION_ID)
        return say(store, -EBADMSG, "is not a history of leased (application id 0x%08" PRIx64 ")",
                   (uint64_t)application & 0xffffffff);
    if (format == 1) {
        errno = 0;
        return sqlite3_exec(store->db, from_format_1, NULL, NULL, NULL) == SQLITE_OK
                   ? 0
                   : failed(store, "cannot bring it to format 2", errno);
    }
    if (format != STORE_FORMAT)
        return say(store, -EBADMSG,
                   "has format %" PRId64
                   ", this leased knows format %d: start the version that wrote it",
                   format, STORE_FORMAT);
    return 0;
}

static int load_position(struct store *store, struct store_position *ret)
{
    static const char sql[] = "SELECT n, id, revision, wall FROM period ORDER BY n DESC LIMIT 1";
    sqlite3_stmt *statement = NULL;
    int native = sqlite3_prepare_v2(store->db, sql, -1, &statement, NULL), r = 0;

    memset(ret, 0, sizeof *ret);
    if (native == SQLITE_OK)
        native = sqlite3_step(statement);
    if (native == SQLITE_ROW && sqlite3_column_bytes(statement, 1) == FEED_INCARNATION_LEN) {
        ret->period = (uint64_t)sqlite3_column_int64(statement, 0);
        memcpy(ret->incarnation, sqlite3_column_blob(statement, 1), FEED_INCARNATION_LEN);
        ret->revision = (uint64_t)sqlite3_column_int64(statement, 2);
        ret->wall_ms = sqlite3_column_int64(statement, 3);
    } else if (native == SQLITE_ROW) {
        r = say(store, -EBADMSG,
                "damaged: table period: no incarnation in its last row; " STORE_WAY_BACK);
    } else if (native != SQLITE_DONE) {
        r = failed(store, "table period", errno);
    }
    (void)sqlite3_finalize(statement);
    return r;
}

static int set_up(struct store *store)
{
    errno = 0;
    if (sqlite3_exec(store->db,
                     "PRAGMA journal_mode = WAL; PRAGMA synchronous = NORMAL;"
                     "PRAGMA temp_store = MEMORY; PRAGMA mmap_size = 0; PRAGMA secure_delete = OFF;"
                     "PRAGMA trusted_schema = OFF; PRAGMA cell_size_check = ON;"
                     "PRAGMA cache_size = -4096; PRAGMA wal_autocheckpoint = 0;"
                     "CREATE TEMP TABLE listed(key INTEGER PRIMARY KEY)",
                     NULL, NULL, NULL) != SQLITE_OK)
        return failed(store, "cannot open", errno);
    (void)sqlite3_wal_hook(store->db, keep_frames, store);
    for (int i = 0; i < ST_N; i++)
        if (sqlite3_prepare_v3(store->db, statements[i], -1, SQLITE_PREPARE_PERSISTENT,
                               &store->statements[i], NULL) != SQLITE_OK)
            return failed(store, "its tables", 0);
    return 0;
}

static int connect_file(struct store *store)
{
    const int flags = SQLITE_OPEN_READWRITE | SQLITE_OPEN_NOMUTEX | SQLITE_OPEN_PRIVATECACHE;
    int r;

    /* Of whatever mode the umask is, it is ours alone. */
    int fd = open(store->path, O_RDWR | O_CREAT | O_CLOEXEC | O_NOCTTY | O_NONBLOCK, 0600);

    if (fd < 0)
        return say(store, -errno, "cannot open: %s", strerror(errno));
    (void)close(fd);
    if (sqlite3_open_v2(store->path, &store->db, flags, NULL) != SQLITE_OK)
        return store->db ? failed(store, "cannot open", errno)
                         : say(store, -ENOMEM, "out of memory");
    (void)sqlite3_extended_result_codes(store->db, 1);
    (void)sqlite3_busy_timeout(store->db, 1000);
    r = check_kind(store);
    return r == 0 ? set_up(store) : r;
}

int store_open(const char *path, struct store **ret, char why[static STORE_WHY_MAX])
{
    struct store *store = calloc(1, sizeof *store);
    int r;

    (void)snprintf(why, STORE_WHY_MAX, "%s: out of memory", path);
    if (!store)
        return -ENOMEM;
    store->path = strdup(path);
    r = store->path ? connect_file(store) : -ENOMEM;
    if (r == 0)
        r = load_position(store, &store->committed);
    if (r == 0)
        r = fs_sync_parent(AT_FDCWD, path);
    if (r < 0) {
        if (store->why[0])
            memcpy(why, store->why, STORE_WHY_MAX);
        store_close(store);
        return r;
    }
    store->position = store->committed;
    *ret = store;
    return 0;
}

void store_close(struct store *store)
{
    if (!store)
        return;
    disconnect(store);
    free(store->path);
    free(store);
}

const struct store_position *store_get_position(const struct store *store)
{
    return &store->committed;
}

/* After an I/O error nobody knows what SQLite still has in its cache: begin with what is in the file. */
static int reconnect(struct store *store)
{
    struct store_position found;
    int r;

    disconnect(store);
    r = connect_file(store);
    if (r == 0)
        r = load_position(store, &found);
    if (r == 0 &&
        (found.period != store->committed.period || found.revision < store->committed.revision))
        r = say(store, -EIO,
                "lost what had been written: start leased anew, it is filled from the log");
    store->open_failed = r < 0;
    return r;
}

int store_write(struct store *store, const struct feed_block *block)
{
    int native, r;

    if (store->open_failed && (r = reconnect(store)) < 0)
        return r;
    errno = 0;
    native = write_all(store, block);
    if (native == SQLITE_OK) {
        store->committed = store->position;
        return 0;
    }
    r = failed(store, "cannot write", errno);
    if (!sqlite3_get_autocommit(store->db) && store_step(store, ST_ROLLBACK) != SQLITE_OK)
        store->open_failed = true;
    if ((native & 0xff) != SQLITE_FULL)
        store->open_failed = true;
    store->position = store->committed;
    return r;
}

uint64_t store_foreign(const struct store *store)
{
    return store->foreign;
}

int store_wal_frames(const struct store *store)
{
    return store->wal_frames;
}

int store_checkpoint(struct store *store)
{
    int frames, done, native, r;

    if (store->open_failed && (r = reconnect(store)) < 0)
        return r;
    errno = 0;
    native = sqlite3_wal_checkpoint_v2(store->db, NULL, SQLITE_CHECKPOINT_PASSIVE, &frames, &done);
    if (native == SQLITE_BUSY || (native == SQLITE_OK && done < frames))
        return -EAGAIN;
    if (native != SQLITE_OK) {
        r = failed(store, "cannot write", errno);
        store->open_failed = true;
        return r;
    }
    store->wal_frames = 0;
    return 0;
}

int store_check(struct store *store)
{
    sqlite3_stmt *statement = NULL;
    const char *text;
    int r = 0;

    if (sqlite3_prepare_v2(store->db, "PRAGMA quick_check(1)", -1, &statement, NULL) != SQLITE_OK ||
        sqlite3_step(statement) != SQLITE_ROW) {
        r = failed(store, "its pages", errno);
    } else {
        text = (const char *)sqlite3_column_text(statement, 0);
        if (!text || strcmp(text, "ok") != 0)
            r = say(store, -EBADMSG, "damaged: its pages: %s; " STORE_WAY_BACK, text ? text : "?");
    }
    (void)sqlite3_finalize(statement);
    return r;
}

const char *store_why(const struct store *store)
{
    return store->why;
}
