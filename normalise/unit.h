/* A folder that is to be read, or that waits for what is below it. */
#ifndef XCE_NORMALISE_UNIT_H
#define XCE_NORMALISE_UNIT_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "normalise/root.h"

struct unit {
    struct unit *next;   /* on the stack */
    struct unit *parent; /* which waits for it; NULL = the top of a root */
    struct root *root;
    off_t next_at;          /* where to read on */
    _Atomic uint32_t waits; /* for itself on the stack or being read, and for each folder in it */
    bool begun, wants_end;
    /* How it is found again. */
    bool by_handle;
    uint8_t len;
    int type;
    uint64_t ino;
    uint8_t bytes[]; /* of the handle; or its name in its parent, with NUL */
};

/* The top of a root. 0; -ENOMEM. */
int unit_new_root(struct root *root, struct unit **ret);

/* A folder in one that is open in fd. It waits for itself. 0; -ENOMEM; -errno it has no handle, it is gone. */
int unit_new(struct unit *parent, int fd, const char *name, struct unit **ret);
void unit_free(struct unit *unit);

/* Open it for reading. -ENOENT it is gone, or not where it was; -errno. */
int unit_open(const struct unit *unit);

#endif
