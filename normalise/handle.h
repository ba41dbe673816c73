/* A folder by the handle that its file system gives it: it is found again wherever it has been moved to, however long its path. */
#ifndef XCE_NORMALISE_HANDLE_H
#define XCE_NORMALISE_HANDLE_H

#include <stdbool.h>
#include <stdint.h>

#define HANDLE_MAX 64 /* bytes; 40 of btrfs are the most that we know */

struct handle {
    int type;
    uint32_t len;
    uint8_t bytes[HANDLE_MAX];
};

/* Of a name in a folder, or of the folder itself ("."). Nothing is followed. 0; -errno. */
int handle_get(int dir_fd, const char *name, struct handle *ret);

/* The folder, open for reading. mount_fd: any on the mount it is to be seen by. -ENOENT it is gone; -ENOTDIR; -errno. */
int handle_open(int mount_fd, const struct handle *handle);

/* Whether the handle of this folder leads back to it: some file systems only say what it would be. */
bool handle_try(int fd);

#endif
