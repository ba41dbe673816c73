/* The file of the single replica: log and snapshot in one SQLite database. Home of sqlite3.h in this folder.
 *
 *   meta(k, v)                    id: 16 random bytes; clean: 1 = closed in order, all of the WAL is in the main file;
 *                                 begun: how often it was made ready to be written, or closed
 *   log(idx, crc, entry)          entries without a gap; crc = CRC-32C over idx (8 bytes, little endian) and entry
 *   snapshot(entry, bytes, crc, parts)   one row at most: the state after that entry
 *   part(entry, seq, bytes)       its bytes; parts without a row in snapshot are of one never finished
 *
 * WAL, synchronous=FULL: a commit is one fdatasync, on a WAL that is recycled in place, so that no block is allocated for
 * it. locking_mode=EXCLUSIVE: one process, no shared memory. One connection; one thread at a time. No descriptor of the
 * main file may be opened and closed elsewhere in the process: that would drop SQLite's lock.
 *
 * A write that failed leaves the file unwell: nothing may be written before sqlite_recover has said what is on disk. */
#ifndef XCE_LEASED_ENGINE_SQLITE_H
#define XCE_LEASED_ENGINE_SQLITE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct sqlite_file;

/* Longest sentence about a failure, with NUL. */
#define SQLFILE_WHY_MAX 512

enum {
    SQLFILE_UNCERTAIN = 1, /* whether it is on disk only sqlite_recover can say */
};

struct sqlite_position {
    uint64_t first_entry, last_entry; /* of the log; last = first - 1 when it is empty */
    uint64_t snapshot_entry;          /* 0 = none */
    uint64_t log_bytes;               /* of entries in the log */
};

/* Open, or make when there is no such file (then in one step: a crash leaves none or a whole one). Checks what SQLite
 * would not notice: a WAL that is missing or damaged, rows, the snapshot's sum.
 * 0; -EBADMSG damaged or not ours; -EBUSY in use; -ENOSPC, -EIO, -EACCES, ... why: a sentence naming the file. */
int sqlite_open(const char *path, struct sqlite_file **ret, char why[static SQLFILE_WHY_MAX]);

/* Make it ready to be written, after it has been read whole. 0; -ENOSPC, -EIO: it can be read, sqlite_recover goes on from
 * there. */
int sqlite_begin(struct sqlite_file *file);

/* Bring everything into the main file and mark it clean; what fails is left for the next start. One that was not begun is
 * not written. NULL is fine. */
void sqlite_close(struct sqlite_file *file);

/* 0 = it may be written; -ENOSPC, -EIO why not. */
int sqlite_failure(const struct sqlite_file *file);

void sqlite_get_position(const struct sqlite_file *file, struct sqlite_position *ret);

/* The snapshot's bytes, to be freed; *ret_len 0 = there is none. 0; -EBADMSG; -ENOMEM; -EIO. */
int sqlite_read_snapshot(struct sqlite_file *file, uint8_t **ret, size_t *ret_len,
                         char why[static SQLFILE_WHY_MAX]);

/* Each entry behind the snapshot, in order; bytes live for the call. What fn returns besides 0 ends it.
 * 0; -EBADMSG a gap or a wrong sum; -EIO; what fn said. */
int sqlite_replay(struct sqlite_file *file,
                  int (*fn)(uint64_t index, const uint8_t *entry, size_t len, void *arg), void *arg,
                  char why[static SQLFILE_WHY_MAX]);

/* Each of these is one durable commit. 0; -ENOSPC, -EIO and nothing of it is on disk; SQLFILE_UNCERTAIN. After anything but
 * 0 only sqlite_recover, sqlite_why and sqlite_close may be called. */
int sqlite_append(struct sqlite_file *file, const uint8_t *entry, size_t len);
/* Parts of one snapshot, seq from 0; a part of another entry than before throws the earlier ones away. */
int sqlite_snapshot_part(struct sqlite_file *file, uint64_t entry, unsigned seq,
                         const uint8_t *bytes, size_t len);
/* From now on this is the snapshot. n_parts have been written. */
int sqlite_snapshot_finish(struct sqlite_file *file, uint64_t entry, unsigned n_parts, size_t bytes,
                           uint32_t crc);
/* Forget what the snapshot made superfluous, a bounded piece at a time. sqlite_cut_needed: whether there is any. */
bool sqlite_cut_needed(const struct sqlite_file *file);
int sqlite_cut(struct sqlite_file *file);

/* Whether the WAL has grown so far that it should be brought into the main file now. */
bool sqlite_checkpoint_needed(const struct sqlite_file *file);
/* 0; -ENOSPC, -EIO: nothing is lost and the file is still well, the WAL grows on. */
int sqlite_checkpoint(struct sqlite_file *file);

/* After a failure: open anew, look, bring all of the WAL into the main file, try whether there is room again.
 * 0 well, the position says what is on disk; else the file is unwell as before. */
int sqlite_recover(struct sqlite_file *file);

/* why: the sentence for a row whose bytes are whole but make no sense to their reader. Returns -EBADMSG. */
int sqlite_complain(struct sqlite_file *file, char why[static SQLFILE_WHY_MAX], const char *table,
                    uint64_t row, const char *what);

/* About the last failure: "FILE: cannot write: No space left on device". Lives until the next call. */
const char *sqlite_why(const struct sqlite_file *file);

#endif
