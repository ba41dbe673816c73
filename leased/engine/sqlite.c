#include "leased/engine/sqlite.h"

#include <errno.h>
#include <sqlite3.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "common/digest.h"
#include "common/le.h"
#include "leased/engine/sqlite_inner.h"

/* Rows of the log in one sqlite_cut. */
#define CUT_ROWS 16

static const char *const statements[SQL_N] = {
    [SQL_BEGIN] = "BEGIN IMMEDIATE",
    [SQL_COMMIT] = "COMMIT",
    [SQL_ROLLBACK] = "ROLLBACK",
    [SQL_APPEND] = "INSERT INTO log(idx, crc, entry) VALUES(?1, ?2, ?3)",
    [SQL_CUT] = "DELETE FROM log WHERE idx BETWEEN ?1 AND ?2",
    [SQL_CUT_BYTES] = "SELECT total(length(entry)) FROM log WHERE idx BETWEEN ?1 AND ?2",
    [SQL_PART] = "INSERT OR REPLACE INTO part(entry, seq, bytes) VALUES(?1, ?2, ?3)",
    [SQL_CUT_PARTS] = ("DELETE FROM part WHERE rowid IN"
                       " (SELECT rowid FROM part WHERE entry <> ?1 AND entry <> ?2 LIMIT 16)"),
    [SQL_SNAPSHOT] = "INSERT INTO snapshot(entry, bytes, crc, parts) VALUES(?1, ?2, ?3, ?4)",
    [SQL_SNAPSHOTS_AWAY] = "DELETE FROM snapshot WHERE entry <> ?1",
    [SQL_CLEAN] = "UPDATE meta SET v = CASE k WHEN 'clean' THEN ?1 ELSE v + 1 END"
                  " WHERE k IN ('clean', 'begun')",
};

/* ---- failures ---- */

int sqlite_say(struct sqlite_file *file, int r, const char *format, ...)
{
    va_list ap;
    int n = snprintf(file->why, sizeof file->why, "%s: ", file->path);

    if (n < 0 || (size_t)n >= sizeof file->why)
        return r;
    va_start(ap, format);
    (void)vsnprintf(file->why + n, sizeof file->why - (size_t)n, format, ap);
    va_end(ap);
    return r;
}

/* The kernel's errno behind SQLite's code: SQLite keeps it for some calls only. */
static int os_error(const struct sqlite_file *file)
{
    int error = sqlite3_system_errno(file->db);

    return error ? error : file->os_error;
}

/* SQLite's code and the errno behind it as one of ours. */
static int code(struct sqlite_file *file)
{
    int native = sqlite3_extended_errcode(file->db), error = os_error(file);

    switch (native & 0xff) {
    case SQLITE_FULL:
        return -ENOSPC;
    case SQLITE_BUSY:
    case SQLITE_LOCKED:
        return -EBUSY;
    case SQLITE_CORRUPT:
    case SQLITE_NOTADB:
    case SQLITE_ERROR: /* a table or column that should be there is not */
    case SQLITE_CONSTRAINT:
        return -EBADMSG;
    case SQLITE_NOMEM:
        return -ENOMEM;
    case SQLITE_READONLY:
        return -EROFS;
    case SQLITE_CANTOPEN:
        return error ? -error : -EIO;
    default:
        return error == ENOSPC || error == EDQUOT ? -ENOSPC : -EIO;
    }
}

/* Say what SQLite has just failed with. what: "cannot read", "table log". */
int sqlite_failed(struct sqlite_file *file, const char *what)
{
    int r = code(file), error = os_error(file);

    switch (r) {
    case -EBUSY:
        return sqlite_say(file, r, "another process has it open");
    case -EBADMSG:
        return sqlite_say(file, r, "damaged: %s: %s; " SQLFILE_WAY_BACK, what,
                          sqlite3_errmsg(file->db));
    case -ENOSPC:
        return sqlite_say(file, r, "%s: the disk is full", what);
    default:
        return sqlite_say(file, r, "%s: %s", what,
                          error ? strerror(error) : sqlite3_errmsg(file->db));
    }
}

/* ---- statements ---- */

int sqlite_run(struct sqlite_file *file, const char *sql)
{
    int native;

    errno = 0;
    native = sqlite3_exec(file->db, sql, NULL, NULL, NULL);
    file->os_error = errno;
    return native;
}

static int step(struct sqlite_file *file, enum sqlite_statement which)
{
    int native;

    errno = 0;
    native = sqlite3_step(file->statements[which]);
    file->os_error = errno;
    (void)sqlite3_reset(file->statements[which]);
    return native == SQLITE_DONE ? SQLITE_OK : native;
}

static void bind_int(struct sqlite_file *file, enum sqlite_statement which, int at, uint64_t value)
{
    (void)sqlite3_bind_int64(file->statements[which], at, (sqlite3_int64)value);
}

static void bind_blob(struct sqlite_file *file, enum sqlite_statement which, int at,
                      const uint8_t *bytes, size_t len)
{
    (void)sqlite3_bind_blob64(file->statements[which], at, len ? bytes : (const uint8_t *)"", len,
                              SQLITE_STATIC);
}

/* One number out of a query. A sentence is said on failure. */
int sqlite_get_int(struct sqlite_file *file, const char *sql, int64_t *ret)
{
    sqlite3_stmt *statement;
    int native = sqlite3_prepare_v2(file->db, sql, -1, &statement, NULL);

    if (native == SQLITE_OK && (native = sqlite3_step(statement)) == SQLITE_ROW) {
        *ret = sqlite3_column_int64(statement, 0);
        (void)sqlite3_finalize(statement);
        return 0;
    }
    (void)sqlite3_finalize(statement);
    if (native == SQLITE_DONE)
        return sqlite_say(file, -EBADMSG,
                          "damaged: a row of its own kind is missing; " SQLFILE_WAY_BACK);
    return sqlite_failed(file, "cannot read");
}

int sqlite_prepare(struct sqlite_file *file)
{
    for (int i = 0; i < SQL_N; i++)
        if (sqlite3_prepare_v3(file->db, statements[i], -1, SQLITE_PREPARE_PERSISTENT,
                               &file->statements[i], NULL) != SQLITE_OK)
            return sqlite_failed(file, "its tables");
    return 0;
}

/* ---- commits ---- */

static int keep_frames(void *arg, sqlite3 *db, const char *name, int frames)
{
    struct sqlite_file *file = arg;

    file->wal_frames = frames;
    return SQLITE_OK;
}

void sqlite_watch_wal(struct sqlite_file *file)
{
    (void)sqlite3_wal_hook(file->db, keep_frames, file);
}

/* A transaction has failed; SQLITE_FULL comes before the commit frame is whole, so then nothing of it is on disk. After
 * any other failure the frames may be there, now or after a crash. */
static int commit_failed(struct sqlite_file *file, const char *what)
{
    bool full = (sqlite3_extended_errcode(file->db) & 0xff) == SQLITE_FULL;
    int r = sqlite_failed(file, what);

    file->failure = r == -ENOSPC ? r : -EIO;
    if (!sqlite3_get_autocommit(file->db) && step(file, SQL_ROLLBACK) != SQLITE_OK)
        full = false;
    file->uncertain = !full;
    if (!full)
        return SQLFILE_UNCERTAIN;
    return r;
}

/* End what a statement alone or a transaction has done with result native. */
static int commit(struct sqlite_file *file, int native, const char *what)
{
    if (native == SQLITE_OK && !sqlite3_get_autocommit(file->db))
        native = step(file, SQL_COMMIT);
    if (native != SQLITE_OK)
        return commit_failed(file, what);
    if (sqlite_same_file(file) == 0)
        return 0;
    /* Durable, but in a file that nobody will find again: to acknowledge it would be to lose it. */
    file->failure = -EIO;
    file->uncertain = true;
    return SQLFILE_UNCERTAIN;
}

uint32_t sqlite_entry_crc(uint64_t index, const uint8_t *entry, size_t len)
{
    uint8_t le[8];

    le_put_u64(le, index);
    return digest_crc32c(digest_crc32c(0, le, sizeof le), entry, len);
}

int sqlite_append(struct sqlite_file *file, const uint8_t *entry, size_t len)
{
    uint64_t index = file->position.last_entry + 1;
    int r;

    bind_int(file, SQL_APPEND, 1, index);
    bind_int(file, SQL_APPEND, 2, sqlite_entry_crc(index, entry, len));
    bind_blob(file, SQL_APPEND, 3, entry, len);
    r = commit(file, step(file, SQL_APPEND), "cannot write the log");
    if (r != 0)
        return r;
    file->position.last_entry = index;
    file->position.log_bytes += len;
    return 0;
}

int sqlite_snapshot_part(struct sqlite_file *file, uint64_t entry, unsigned seq,
                         const uint8_t *bytes, size_t len)
{
    bind_int(file, SQL_PART, 1, entry);
    bind_int(file, SQL_PART, 2, seq);
    bind_blob(file, SQL_PART, 3, bytes, len);
    if (file->parts_entry != entry)
        file->parts_left = true;
    file->parts_entry = entry;
    return commit(file, step(file, SQL_PART), "cannot write the snapshot");
}

int sqlite_snapshot_finish(struct sqlite_file *file, uint64_t entry, unsigned n_parts, size_t bytes,
                           uint32_t crc)
{
    int native = step(file, SQL_BEGIN), r;

    if (native == SQLITE_OK) {
        bind_int(file, SQL_SNAPSHOTS_AWAY, 1, entry);
        native = step(file, SQL_SNAPSHOTS_AWAY);
    }
    if (native == SQLITE_OK) {
        bind_int(file, SQL_SNAPSHOT, 1, entry);
        bind_int(file, SQL_SNAPSHOT, 2, bytes);
        bind_int(file, SQL_SNAPSHOT, 3, crc);
        bind_int(file, SQL_SNAPSHOT, 4, n_parts);
        native = step(file, SQL_SNAPSHOT);
    }
    r = commit(file, native, "cannot write the snapshot");
    if (r == 0) {
        file->position.snapshot_entry = entry;
        file->parts_entry = 0;
        file->parts_left = true;
    }
    return r;
}

static bool log_left(const struct sqlite_file *file)
{
    const struct sqlite_position *at = &file->position;

    return at->first_entry <= at->snapshot_entry && at->first_entry <= at->last_entry;
}

bool sqlite_cut_needed(const struct sqlite_file *file)
{
    return log_left(file) || file->parts_left;
}

static int cut_log(struct sqlite_file *file)
{
    struct sqlite_position *at = &file->position;
    uint64_t last = at->first_entry + CUT_ROWS - 1, bytes = 0;
    int native = step(file, SQL_BEGIN), r;

    if (last > at->snapshot_entry)
        last = at->snapshot_entry;
    if (native == SQLITE_OK) {
        bind_int(file, SQL_CUT_BYTES, 1, at->first_entry);
        bind_int(file, SQL_CUT_BYTES, 2, last);
        native = sqlite3_step(file->statements[SQL_CUT_BYTES]);
        bytes = (uint64_t)sqlite3_column_int64(file->statements[SQL_CUT_BYTES], 0);
        (void)sqlite3_reset(file->statements[SQL_CUT_BYTES]);
        native = native == SQLITE_ROW ? SQLITE_OK : native;
    }
    if (native == SQLITE_OK) {
        bind_int(file, SQL_CUT, 1, at->first_entry);
        bind_int(file, SQL_CUT, 2, last);
        native = step(file, SQL_CUT);
    }
    r = commit(file, native, "cannot cut the log");
    if (r != 0)
        return r;
    at->first_entry = last + 1;
    at->log_bytes -= bytes;
    return 0;
}

int sqlite_cut(struct sqlite_file *file)
{
    int r;

    if (log_left(file))
        return cut_log(file);
    bind_int(file, SQL_CUT_PARTS, 1, file->position.snapshot_entry);
    bind_int(file, SQL_CUT_PARTS, 2, file->parts_entry);
    r = commit(file, step(file, SQL_CUT_PARTS), "cannot cut the snapshot");
    if (r == 0 && sqlite3_changes(file->db) == 0)
        file->parts_left = false;
    return r;
}

bool sqlite_checkpoint_needed(const struct sqlite_file *file)
{
    return file->wal_frames >= file->checkpoint_at;
}

int sqlite_checkpoint(struct sqlite_file *file)
{
    int frames, done;
    int native;

    errno = 0;
    native = sqlite3_wal_checkpoint_v2(file->db, NULL, SQLITE_CHECKPOINT_PASSIVE, &frames, &done);

    if (native == SQLITE_OK && frames == done) {
        file->wal_frames = 0;
        file->checkpoint_at = SQLFILE_WAL_FRAMES;
        return 0;
    }
    file->checkpoint_at = file->wal_frames + SQLFILE_WAL_FRAMES;
    if (native == SQLITE_OK)
        return sqlite_say(file, -EIO, "cannot bring the WAL into the main file");
    return sqlite_failed(file, "cannot write the main file");
}

int sqlite_set_clean(struct sqlite_file *file, bool clean)
{
    int64_t now;
    int r = sqlite_get_int(file, "SELECT v FROM meta WHERE k = 'clean'", &now);

    if (r < 0)
        return r;
    /* Written also when it is so already, with a number that changes, or SQLite would write nothing: a commit is the only
     * proof that commits are possible. */
    bind_int(file, SQL_CLEAN, 1, clean);
    r = commit(file, step(file, SQL_CLEAN), "cannot write");
    return r == 0 && now != clean ? sqlite_checkpoint(file) : r;
}

int sqlite_failure(const struct sqlite_file *file)
{
    return file->failure;
}

const char *sqlite_why(const struct sqlite_file *file)
{
    return file->why;
}

void sqlite_get_position(const struct sqlite_file *file, struct sqlite_position *ret)
{
    *ret = file->position;
}
