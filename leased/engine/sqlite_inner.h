/* Inside of sqlite.h: what sqlite.c (commits), sqlite_open.c (making, checking, opening) and sqlite_read.c (snapshot,
 * replay) share. */
#ifndef XCE_LEASED_ENGINE_SQLITE_INNER_H
#define XCE_LEASED_ENGINE_SQLITE_INNER_H

#include "leased/engine/sqlite.h"

#define SQLFILE_APPLICATION_ID 0x7863654c /* "xceL" */
#define SQLFILE_FORMAT         1
#define SQLFILE_PAGE_LEN       4096
#define SQLFILE_ID_LEN         16
/* Frames in the WAL before it is brought into the main file. */
#define SQLFILE_WAL_FRAMES 1000

#define SQLFILE_WAY_BACK                                                                           \
    "restore a backup of the file, or move it and its -wal aside to begin without its leases"

struct sqlite3;
struct sqlite3_stmt;

enum sqlite_statement {
    SQL_BEGIN,
    SQL_COMMIT,
    SQL_ROLLBACK,
    SQL_APPEND,
    SQL_CUT,
    SQL_CUT_BYTES,
    SQL_PART,
    SQL_CUT_PARTS,
    SQL_SNAPSHOT,
    SQL_SNAPSHOTS_AWAY,
    SQL_CLEAN,
    SQL_N,
};

struct sqlite_file {
    char *path, *wal_path;
    /* Holds a flock also while sqlite_recover makes SQLite let go of its own locks. */
    int lock_fd;
    struct sqlite3 *db;
    struct sqlite3_stmt *statements[SQL_N];
    struct sqlite_position position;
    /* The snapshot whose parts are being written, 0 = none; of others there may be some left. */
    uint64_t parts_entry;
    bool parts_left;
    uint8_t id[SQLFILE_ID_LEN];
    int wal_frames, checkpoint_at;
    int os_error;   /* errno after the last statement */
    int failure;    /* 0; -ENOSPC, -EIO: only sqlite_recover may follow */
    bool uncertain; /* the last commit may be on disk */
    char why[SQLFILE_WHY_MAX];
};

/* Put "FILE: ..." into why; returns r. */
int sqlite_say(struct sqlite_file *file, int r, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
/* The same for what SQLite has just failed with, as one of our codes. what: "cannot read", "table log". */
int sqlite_failed(struct sqlite_file *file, const char *what);

int sqlite_run(struct sqlite_file *file, const char *sql);
/* One number out of a query. 0; else a sentence is said. */
int sqlite_get_int(struct sqlite_file *file, const char *sql, int64_t *ret);
int sqlite_prepare(struct sqlite_file *file);
/* 0 the path still names the file that is open; -EIO, a sentence is said. */
int sqlite_same_file(struct sqlite_file *file);
/* Note the length of the WAL after each commit. */
void sqlite_watch_wal(struct sqlite_file *file);
/* The row of meta, and in the main file too. 0; -errno, SQLFILE_UNCERTAIN as a commit. */
int sqlite_set_clean(struct sqlite_file *file, bool clean);
uint32_t sqlite_entry_crc(uint64_t index, const uint8_t *entry, size_t len);

#endif
