/* The files of one tree on one mount, by owner: no mount is crossed, no link followed, memory is bounded however large, deep
 * or hostile the tree. Nothing else may be mounted in it: whoever calls has taken that away. */
#ifndef XCE_NODED_SWEEP_FILES_WALK_H
#define XCE_NODED_SWEEP_FILES_WALK_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "noded/reason.h"

struct sweep;

/* An inode on which something is mounted outside of our view: to remove it would take that mount off the machine. */
struct files_covered {
    uint32_t dev_major, dev_minor;
    uint64_t ino;
};

struct files_tree {
    struct sweep *sweep;
    int fd;             /* its top, open for reading. Borrowed. */
    const char *shown;  /* its path */
    enum reason reason; /* what to call it if the top itself is of a wanted id: it is not removed */
    bool acls;          /* look at access lists, too: a system call more for each file */
    const struct files_covered *covered;
    size_t n_covered;
};

/* False: something was mounted in it, and what is there was not looked at. */
bool files_walk(const struct files_tree *tree);

#endif
