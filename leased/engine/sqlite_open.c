#include "leased/engine/sqlite.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <pthread.h>
#include <sqlite3.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/fsutil.h"
#include "leased/engine/sqlite_inner.h"
#include "leased/engine/wal_check.h"

/* Length of the WAL when it is made: a recycled one costs one fdatasync without a change of metadata, about half of what
 * an append costs. */
#define WAL_BYTES (32 + (off_t)(SQLFILE_WAL_FRAMES + 64) * (24 + SQLFILE_PAGE_LEN))

static const char schema[] =
    "PRAGMA page_size = 4096;"
    "PRAGMA journal_mode = wal;"
    "BEGIN;"
    "CREATE TABLE meta(k TEXT PRIMARY KEY, v) WITHOUT ROWID;"
    "CREATE TABLE log(idx INTEGER PRIMARY KEY, crc INTEGER NOT NULL, entry BLOB NOT NULL);"
    "CREATE TABLE snapshot(entry INTEGER PRIMARY KEY, bytes INTEGER NOT NULL, crc INTEGER NOT NULL,"
    " parts INTEGER NOT NULL);"
    "CREATE TABLE part(entry INTEGER NOT NULL, seq INTEGER NOT NULL, bytes BLOB NOT NULL,"
    " PRIMARY KEY(entry, seq));"
    "INSERT INTO meta VALUES('id', randomblob(16)), ('clean', 1), ('begun', 0);"
    "PRAGMA application_id = 2019779916;"
    "PRAGMA user_version = 1;"
    "COMMIT;";

/* ---- opening ---- */

/* SQLite's own books on memory are behind one lock, which a writer of low priority could hold. */
static void configure(void)
{
    (void)sqlite3_config(SQLITE_CONFIG_MEMSTATUS, 0);
}

static void disconnect(struct sqlite_file *file)
{
    for (int i = 0; i < SQL_N; i++) {
        (void)sqlite3_finalize(file->statements[i]);
        file->statements[i] = NULL;
    }
    (void)sqlite3_close(file->db);
    file->db = NULL;
}

static int connect_raw(struct sqlite_file *file, const char *path)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    const int flags = SQLITE_OPEN_READWRITE | SQLITE_OPEN_NOMUTEX | SQLITE_OPEN_PRIVATECACHE;

    (void)pthread_once(&once, configure);
    if (sqlite3_open_v2(path, &file->db, flags, NULL) != SQLITE_OK)
        return file->db ? sqlite_failed(file, "cannot open")
                        : sqlite_say(file, -ENOMEM, "out of memory");
    (void)sqlite3_extended_result_codes(file->db, 1);
    return 0;
}

static int check_kind(struct sqlite_file *file)
{
    int64_t application, format;
    int r = sqlite_get_int(file, "PRAGMA application_id", &application);

    if (r == 0)
        r = sqlite_get_int(file, "PRAGMA user_version", &format);
    if (r < 0)
        return r;
    if (application != SQLFILE_APPLICATION_ID)
        return sqlite_say(file, -EBADMSG,
                          "is not a file of leased (application id 0x%08" PRIx64 ")",
                          (uint64_t)application & 0xffffffff);
    if (format != SQLFILE_FORMAT)
        return sqlite_say(file, -EBADMSG,
                          "has format %" PRId64
                          ", this leased knows format %d: start the version that wrote it",
                          format, SQLFILE_FORMAT);
    return 0;
}

static int connect_file(struct sqlite_file *file)
{
    int on = 1, r = connect_raw(file, file->path);

    if (r < 0)
        return r;
    /* Closing must neither write nor take the WAL away: after damage it is evidence. */
    (void)sqlite3_db_config(file->db, SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, 1, NULL);
    (void)sqlite3_file_control(file->db, NULL, SQLITE_FCNTL_PERSIST_WAL, &on);
    if (sqlite_run(file,
                   "PRAGMA locking_mode = EXCLUSIVE; PRAGMA temp_store = MEMORY;"
                   "PRAGMA mmap_size = 0; PRAGMA secure_delete = OFF; PRAGMA cell_size_check = ON;"
                   "PRAGMA trusted_schema = OFF; PRAGMA cache_size = -1024") != SQLITE_OK)
        return sqlite_failed(file, "cannot open");
    r = check_kind(file);
    if (r < 0)
        return r;
    if (sqlite_run(file, "PRAGMA journal_mode = WAL; PRAGMA synchronous = FULL;"
                         "PRAGMA wal_autocheckpoint = 0") != SQLITE_OK)
        return sqlite_failed(file, "cannot open");
    sqlite_watch_wal(file);
    return sqlite_prepare(file);
}

static int check_pages(struct sqlite_file *file)
{
    sqlite3_stmt *statement;
    int r = 0;

    if (sqlite3_prepare_v2(file->db, "PRAGMA quick_check(1)", -1, &statement, NULL) != SQLITE_OK)
        return sqlite_failed(file, "its pages");
    if (sqlite3_step(statement) != SQLITE_ROW) {
        r = sqlite_failed(file, "its pages");
    } else {
        const char *text = (const char *)sqlite3_column_text(statement, 0);

        if (!text || strcmp(text, "ok") != 0)
            r = sqlite_say(file, -EBADMSG, "damaged: its pages: %s; " SQLFILE_WAY_BACK,
                           text ? text : "?");
    }
    (void)sqlite3_finalize(statement);
    return r;
}

static int load_id(struct sqlite_file *file, uint8_t ret[static SQLFILE_ID_LEN])
{
    sqlite3_stmt *statement;
    int r = 0;

    if (sqlite3_prepare_v2(file->db, "SELECT v FROM meta WHERE k = 'id'", -1, &statement, NULL) !=
        SQLITE_OK)
        return sqlite_failed(file, "table meta");
    if (sqlite3_step(statement) != SQLITE_ROW ||
        sqlite3_column_bytes(statement, 0) != SQLFILE_ID_LEN)
        r = sqlite_say(file, -EBADMSG,
                       "damaged: table meta, row id: is not there; " SQLFILE_WAY_BACK);
    else
        memcpy(ret, sqlite3_column_blob(statement, 0), SQLFILE_ID_LEN);
    (void)sqlite3_finalize(statement);
    return r;
}

/* Where log and snapshot stand; that they fit together is checked here, their bytes when they are read. */
static int load_position(struct sqlite_file *file)
{
    int64_t first, last, rows, bytes, snapshot;
    struct sqlite_position *at = &file->position;
    int r = sqlite_get_int(file, "SELECT coalesce(max(entry), 0) FROM snapshot", &snapshot);

    if (r == 0)
        r = sqlite_get_int(file, "SELECT coalesce(min(idx), 0) FROM log", &first);
    if (r == 0)
        r = sqlite_get_int(file, "SELECT coalesce(max(idx), 0) FROM log", &last);
    if (r == 0)
        r = sqlite_get_int(file, "SELECT count(*) FROM log", &rows);
    if (r == 0)
        r = sqlite_get_int(file, "SELECT CAST(total(length(entry)) AS INTEGER) FROM log", &bytes);
    if (r < 0)
        return r;
    if (rows == 0) {
        first = snapshot + 1;
        last = snapshot;
    }
    if (snapshot < 0 || first < 1 || last < snapshot || first > snapshot + 1 ||
        rows != last - first + 1)
        return sqlite_say(file, -EBADMSG,
                          "damaged: table log: %" PRId64 " rows from %" PRId64 " to %" PRId64
                          " behind the snapshot at %" PRId64
                          ": some are missing; " SQLFILE_WAY_BACK,
                          rows, first, last, snapshot);
    *at = (struct sqlite_position){(uint64_t)first, (uint64_t)last, (uint64_t)snapshot,
                                   (uint64_t)bytes};
    file->parts_entry = 0;
    file->parts_left = true;
    return 0;
}

/* Give the WAL its blocks now, so that commits need not. Only a matter of speed: failing is fine. */
static void lengthen_wal(struct sqlite_file *file)
{
    static const uint8_t zeros[65536];
    sqlite3_file *wal = NULL;
    sqlite3_int64 size;
    uint64_t room, total;

    if (fs_free_bytes(file->wal_path, &room, &total) < 0 || room < 4 * (uint64_t)WAL_BYTES)
        return;
    (void)sqlite3_file_control(file->db, NULL, SQLITE_FCNTL_JOURNAL_POINTER, &wal);
    if (!wal || !wal->pMethods || wal->pMethods->xFileSize(wal, &size) != SQLITE_OK)
        return;
    while (size < WAL_BYTES) {
        int len = WAL_BYTES - size > (off_t)sizeof zeros ? (int)sizeof zeros
                                                         : (int)(WAL_BYTES - size);

        if (wal->pMethods->xWrite(wal, zeros, len, size) != SQLITE_OK)
            return;
        size += len;
    }
    (void)wal->pMethods->xSync(wal, SQLITE_SYNC_NORMAL);
}

/* Begin a new generation of the WAL, and have the main file say that it needs its WAL, before the first write. */
static int make_ready(struct sqlite_file *file)
{
    int r = sqlite_checkpoint(file);

    if (r == 0)
        lengthen_wal(file);
    if (r == 0)
        r = sqlite_set_clean(file, false);
    file->failure = r == 0 || r == -ENOSPC ? r : -EIO;
    return file->failure;
}

static int check_wal(struct sqlite_file *file, int verdict, const struct wal_report *report)
{
    int64_t clean;
    int r = sqlite_get_int(file, "SELECT v FROM meta WHERE k = 'clean'", &clean);

    if (r < 0)
        return r;
    if (verdict == WAL_NONE && !clean)
        return sqlite_say(file, -EBADMSG,
                          "damaged: %s is missing or its first bytes are, and with it what was "
                          "written last; " SQLFILE_WAY_BACK,
                          file->wal_path);
    if (verdict == WAL_DAMAGED)
        return sqlite_say(file, -EBADMSG,
                          "damaged: %s, byte %" PRIu64
                          ": what was written behind it would be lost; " SQLFILE_WAY_BACK,
                          file->wal_path, report->bad);
    return 0;
}

static int open_checked(struct sqlite_file *file)
{
    struct wal_report report;
    int verdict = wal_check(file->wal_path, &report);
    int r;

    if (verdict < 0)
        return sqlite_say(file, verdict, "cannot read %s: %s", file->wal_path, strerror(-verdict));
    r = connect_file(file);
    if (r == 0)
        r = check_wal(file, verdict, &report);
    if (r == 0)
        r = check_pages(file);
    if (r == 0)
        r = load_id(file, file->id);
    if (r == 0)
        r = load_position(file);
    return r;
}

/* Take the file for this process, over all that SQLite opens and closes. */
static int lock(struct sqlite_file *file)
{
    struct stat st;

    file->lock_fd = open(file->path, O_RDWR | O_CLOEXEC | O_NOCTTY | O_NONBLOCK);
    if (file->lock_fd < 0)
        return sqlite_say(file, -errno, "cannot open: %s", strerror(errno));
    if (fstat(file->lock_fd, &st) < 0)
        return sqlite_say(file, -errno, "cannot open: %s", strerror(errno));
    if (!S_ISREG(st.st_mode))
        return sqlite_say(file, -EINVAL, "is not a regular file");
    if (flock(file->lock_fd, LOCK_EX | LOCK_NB) < 0)
        return errno == EWOULDBLOCK ? sqlite_say(file, -EBUSY, "another process has it open")
                                    : sqlite_say(file, -errno, "cannot lock: %s", strerror(errno));
    return 0;
}

/* ---- making ---- */

/* What an earlier attempt left. */
static void unlink_new(const char *path)
{
    static const char *const suffixes[] = {"", "-wal", "-journal", "-shm"};

    for (size_t i = 0; i < sizeof suffixes / sizeof suffixes[0]; i++) {
        char name[PATH_MAX];

        if (snprintf(name, sizeof name, "%s%s", path, suffixes[i]) < (int)sizeof name)
            (void)unlink(name);
    }
}

/* Make it under another name, whole and on disk, then give it its own: a crash leaves none or a whole one. */
static int make(struct sqlite_file *file)
{
    char path[PATH_MAX];
    int fd, r;

    if (access(file->wal_path, F_OK) == 0)
        return sqlite_say(file, -EBADMSG, "is missing, but %s is there; " SQLFILE_WAY_BACK,
                          file->wal_path);
    if (snprintf(path, sizeof path, "%s.new", file->path) >= (int)sizeof path)
        return sqlite_say(file, -ENAMETOOLONG, "the name is too long");
    unlink_new(path);
    fd = open(path, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
    if (fd < 0)
        return sqlite_say(file, -errno, "cannot make: %s", strerror(errno));
    (void)close(fd);
    r = connect_raw(file, path);
    if (r == 0 && sqlite_run(file, schema) != SQLITE_OK)
        r = sqlite_failed(file, "cannot make");
    if (r == 0 && sqlite3_wal_checkpoint_v2(file->db, NULL, SQLITE_CHECKPOINT_TRUNCATE, NULL, NULL))
        r = sqlite_failed(file, "cannot make");
    disconnect(file);
    if (r == 0 && (rename(path, file->path) < 0 || (r = fs_sync_parent(AT_FDCWD, file->path)) < 0))
        r = sqlite_say(file, r < 0 ? r : -errno, "cannot make: %s", strerror(r < 0 ? -r : errno));
    if (r < 0)
        unlink_new(path);
    return r;
}

static void file_free(struct sqlite_file *file)
{
    disconnect(file);
    /* After SQLite: closing any descriptor of the file drops the locks that SQLite has on it. */
    if (file->lock_fd >= 0)
        (void)close(file->lock_fd);
    free(file->path);
    free(file->wal_path);
    free(file);
}

static int open_or_make(struct sqlite_file *file)
{
    int r = access(file->path, F_OK) == 0 || errno != ENOENT ? 0 : make(file);

    if (r == 0)
        r = lock(file);
    return r == 0 ? open_checked(file) : r;
}

int sqlite_open(const char *path, struct sqlite_file **ret, char why[static SQLFILE_WHY_MAX])
{
    struct sqlite_file *file = calloc(1, sizeof *file);
    int r;

    (void)snprintf(why, SQLFILE_WHY_MAX, "%s: out of memory", path);
    if (!file)
        return -ENOMEM;
    file->lock_fd = -1;
    file->failure = -EIO;
    file->checkpoint_at = SQLFILE_WAL_FRAMES;
    file->path = strdup(path);
    if (!file->path || asprintf(&file->wal_path, "%s-wal", path) < 0) {
        file->wal_path = NULL;
        file_free(file);
        return -ENOMEM;
    }
    r = open_or_make(file);
    if (r < 0) {
        memcpy(why, file->why, SQLFILE_WHY_MAX);
        file_free(file);
        return r;
    }
    *ret = file;
    return 0;
}

int sqlite_begin(struct sqlite_file *file)
{
    return make_ready(file);
}

void sqlite_close(struct sqlite_file *file)
{
    if (!file)
        return;
    if (file->failure == 0 && sqlite_checkpoint(file) == 0)
        (void)sqlite_set_clean(file, true);
    file_free(file);
}

/* ---- after a failure ---- */

int sqlite_same_file(struct sqlite_file *file)
{
    struct stat ours, there;

    if (fstat(file->lock_fd, &ours) < 0 || stat(file->path, &there) < 0)
        return sqlite_say(file, -EIO, "cannot open: %s", strerror(errno));
    if (ours.st_ino != there.st_ino || ours.st_dev != there.st_dev)
        return sqlite_say(file, -EIO,
                          "is another file than the one that was opened: start leased anew");
    return 0;
}

int sqlite_recover(struct sqlite_file *file)
{
    struct sqlite_position before = file->position;
    bool uncertain = file->uncertain;
    uint64_t last;
    int r = sqlite_same_file(file);

    if (r < 0)
        return r;
    disconnect(file);
    r = connect_file(file);
    if (r == 0)
        r = load_position(file);
    last = file->position.last_entry;
    if (r == 0 && last != before.last_entry && !(uncertain && last == before.last_entry + 1))
        r = sqlite_say(file, -EIO,
                       "ends at entry %" PRIu64 " instead of %" PRIu64 ": start leased anew", last,
                       before.last_entry);
    if (r == 0)
        r = make_ready(file);
    if (r < 0) {
        file->position = before;
        file->uncertain = uncertain;
        file->failure = r == -ENOSPC ? r : -EIO;
        return file->failure;
    }
    file->uncertain = false;
    return 0;
}
