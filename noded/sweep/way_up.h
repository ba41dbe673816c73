/* The way back up from folders that lie deeper than may be kept open. Each is found again by its file system's own handle, or
 * where that gives none (overlayfs) by "..", if that leads to it still. */
#ifndef XCE_NODED_SWEEP_WAY_UP_H
#define XCE_NODED_SWEEP_WAY_UP_H

#include <limits.h>
#include <linux/stat.h>
#include <stddef.h>
#include <sys/types.h>

/* What is kept for whoever comes back. */
struct way_mark {
    off_t next;                     /* where to read on */
    struct statx_timestamp changed; /* when it had changed last as reading began */
};

/* Zero at first. */
struct way_up {
    struct way_step *items;
    size_t n, cap;
    enum way_handles { WAY_HANDLES_UNKNOWN, WAY_HANDLES, WAY_NO_HANDLES } handles;
};

/* Down out of the folder that fd is, into name. mount_fd: any on the same mount. 0; -errno. */
int way_up_push(struct way_up *way, int mount_fd, int fd, const char *name,
                const struct way_mark *mark);

/* Back out of the folder that fd is. The one above, open for reading, and by which name it was left; -ENOENT it is gone;
 * -ESTALE fd is not in it any more; -errno. Only while way->n > 0. */
int way_up_pop(struct way_up *way, int mount_fd, int fd, char name[NAME_MAX + 1],
               struct way_mark *ret_mark);

void way_up_done(struct way_up *way);

#endif
