/* The audit file: one JSON object a line, rotated by size, written by a thread of its own.
 *
 * Lines go to disk in the order in which they were given, whole or not at all. Urgent ones (administrators' acts)
 * are written and synced at once, the others gathered for at most 50 ms and synced once a second: that much a crash of the
 * machine may take, a crash of leased the 50 ms. Disk space is reserved ahead of the lines, so that a full disk is known
 * before one is lost. What is lost all the same is counted and said by the first line that can be written again.
 *   PATH, then PATH.1 (younger) to PATH.<keep>; mode 0600. audit_write, audit_ok: the loop's thread. */
#ifndef XCE_LEASED_AUDIT_AUDIT_H
#define XCE_LEASED_AUDIT_AUDIT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/err.h"

struct audit;

struct audit_options {
    const char *path;    /* copied */
    uint64_t size_bytes; /* a file that grows past it is rotated */
    unsigned keep;       /* old files, 1 to 99 */
};

/* Open or make the file. 0; -EPERM it is no regular file, or others than its owner may read or write it; -errno; err names
 * file and reason. A full disk is no failure here: audit_ok tells. */
int audit_open(const struct audit_options *options, struct audit **ret, struct err *err);
/* Write what is left, end the thread. NULL does nothing. */
void audit_close(struct audit *audit);

/* Queue a line of len bytes, its newline with it. Never blocks. */
void audit_write(struct audit *audit, const char *line, size_t len, bool urgent);

/* Whether a line that is given now will be kept, as far as is known. If not, why (AUDIT_WHY_MAX) names file and reason. */
#define AUDIT_WHY_MAX 512
bool audit_ok(struct audit *audit, char why[static AUDIT_WHY_MAX]);

#endif
