/* The file system's own list of its inodes: no name is needed to be on it. XFS has one. */
#ifndef XCE_NORMALISE_SCAN_H
#define XCE_NORMALISE_SCAN_H

#include <stdint.h>

#include "normalise/options.h"

enum scan_outcome {
    SCAN_NONE = 1, /* this file system gives no such list */
};

/* For each inode of the uid or gid. links: its names, 0 = none. */
typedef void (*scan_fn)(void *arg, uint64_t ino, uint32_t links);

/* All inodes of the file system that fd is of; needs CAP_SYS_ADMIN. Files may come and go meanwhile: as nobody but root makes a file
 * the uid's once its processes are gone, and none of its set-id programs can begin another, one that was there before is told of
 * if it is there still. Ends early, with -ECANCELED, when stop is true. 0; SCAN_NONE; -errno. */
int scan_inodes(int fd, const struct ids *ids, const _Atomic bool *stop, scan_fn tell, void *arg);

#endif
