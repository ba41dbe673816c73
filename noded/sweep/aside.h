/* Folders that a walk has put aside, to go on with them later: by the file system's own handle, which keeps no descriptor open,
 * or where it gives none (overlayfs) by a descriptor. */
#ifndef XCE_NODED_SWEEP_ASIDE_H
#define XCE_NODED_SWEEP_ASIDE_H

#include <stddef.h>

/* Zero at first. */
struct aside {
    struct aside_folder *items;
    size_t n, cap, n_open;
};

/* Put away the folder that fd is, which is on the same mount as mount_fd. Takes fd. 0; -ENOBUFS too many; -ENOMEM. */
int aside_put(struct aside *aside, int mount_fd, int fd);

/* The one that was put away last, open for reading. -ENOENT it is gone; -errno. Only while aside->n > 0. */
int aside_take(struct aside *aside, int mount_fd);

void aside_done(struct aside *aside);

#endif
