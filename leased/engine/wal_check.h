/* Whether a write-ahead log of SQLite has lost commits that were once on disk.
 *
 * SQLite reads its WAL up to the first frame whose checksum is wrong and drops the rest without a word: right after a
 * torn write, wrong when a byte has rotted in the middle, for then acknowledged commits would vanish. The two can be told
 * apart when the writer keeps three rules (sqlite.c does):
 *   - each commit is synced before the next begins, so only the last transaction of a generation can be torn;
 *   - after a failed commit, and after each start, the WAL is checkpointed and begins a new generation (new salts);
 *   - no transaction is rolled back once frames of it are in the WAL, save by such a failure.
 * Then a commit frame of the present generation beyond the last good commit, with more frames of that generation behind
 * it, was followed by other commits: it had been synced, and what lies before it is damaged.
 *
 * File format: a header of 32 bytes (magic, version, page size, sequence, salt 1, salt 2, checksum 1, 2), then frames of
 * 24 bytes (page, pages of the database after a commit or 0, salt 1, salt 2, checksum 1, 2) + page; all big endian. */
#ifndef XCE_LEASED_ENGINE_WAL_CHECK_H
#define XCE_LEASED_ENGINE_WAL_CHECK_H

#include <stdint.h>

enum wal_verdict {
    /* no file, nothing in it but zeros, or a header that is not one: SQLite reads nothing of it */
    WAL_NONE = 1,
    /* all of it, or all but the last transaction, which was torn or never finished */
    WAL_WHOLE = 2,
    WAL_DAMAGED = 3, /* SQLite would drop commits that had been synced */
};

struct wal_report {
    uint64_t frames; /* good ones, up to the last good commit */
    uint64_t bad;    /* DAMAGED: offset in bytes of the first bad frame */
};

/* Read the file at path. A wal_verdict; -errno of the file system. Any thread; O(size), one page of memory. */
int wal_check(const char *path, struct wal_report *ret);

#endif
