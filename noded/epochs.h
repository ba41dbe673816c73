/* The highest epoch seen of each uid, whether admission for it is closed, and whether it has been swept since, on disk (I3):
 * what a node must not forget over a restart or a reboot. A journal of batches in one file, rewritten when it has grown.
 *
 * Keeps nothing in memory: who opens it is told every entry once, and gives all of them for a rewrite. What was not
 * acknowledged (a torn batch at the end, after a crash) is cut off; damage before that is an error that names the way
 * back. Blocks on the disk. One thread at a time. */
#ifndef XCE_NODED_EPOCHS_H
#define XCE_NODED_EPOCHS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/err.h"

struct epochs;

struct epoch_entry {
    uint32_t uid, epoch;
    bool closed;
    bool swept; /* after it was closed, and nothing was found since */
};

typedef void (*epochs_entry_fn)(const struct epoch_entry *entry, void *arg);

/* Open or make the file at path; entry is called for each entry in the order written, the last of a uid counts.
 *   ret_torn  an unacknowledged end was cut off
 * 0; -EBADMSG damaged, err names file and cure; -ENOSPC; -ENOMEM; -errno. */
int epochs_open(const char *path, epochs_entry_fn entry, void *arg, struct epochs **ret,
                bool *ret_torn, struct err *err);
void epochs_close(struct epochs *epochs);

/* Durable on return. 0; -ENOSPC, -EIO, -errno: nothing of it counts, and it may be tried again. */
int epochs_append(struct epochs *epochs, const struct epoch_entry *entries, size_t n);

/* Whether a rewrite with n entries would make the file much smaller. */
bool epochs_grown(const struct epochs *epochs, size_t n);

/* Replace the file by these entries; durable on return. On failure the old one goes on. 0; -ENOSPC, -errno. */
int epochs_rewrite(struct epochs *epochs, const struct epoch_entry *entries, size_t n);

#endif
