/* Small files done right: read whole with a limit, replaced whole or not at all, locked, made with their folders.
 * Synchronous: may wait for the disk, so not for a loop thread save at start. Any thread. */
#ifndef XCE_COMMON_FSUTIL_H
#define XCE_COMMON_FSUTIL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "common/err.h"

/* A 128-bit id as systemd writes it: 32 lowercase hex digits and NUL. */
#define FS_ID_BUF 33

/* Read a regular file (or one of /proc, /sys) whole.
 *   dirfd    AT_FDCWD, or where a relative path begins
 *   max      most bytes
 *   ret      with a NUL behind; the caller frees. ret_len may be NULL: then a NUL inside is -EBADMSG
 * 0; -EFBIG more than max; -EISDIR, -ENXIO no regular file (a fifo does not hang us); -ENOMEM; -errno. */
int fs_read_file(int dirfd, const char *path, size_t max, char **ret, size_t *ret_len);

/* The same from an open descriptor, from where it stands. */
int fs_read_fd(int fd, size_t max, char **ret, size_t *ret_len);

/* Replace a file atomically and durably: a temporary beside it, fsync, rename, fsync of the folder. After a failure, or a
 * crash anywhere, the old contents are there whole.
 *   mode  of the new file, whatever the umask
 * A symlink at path is replaced, not followed. 0; -errno. A temporary that a crash left behind is named
 * ".<name>.<random>.tmp". */
int fs_write_file(int dirfd, const char *path, const void *bytes, size_t len, mode_t mode);

/* Write all of it, over EINTR and short writes. 0; -errno. */
int fs_write_all(int fd, const void *bytes, size_t len);

/* Make a folder and what is missing above it, each with this mode, whatever the umask. What exists is left as it is.
 * 0; -ENOTDIR something on the way is no folder; -errno. */
int fs_mkdir_p(const char *path, mode_t mode);

/* fsync of the folder that holds path, so that a rename or an unlink in it lasts. 0; -errno. */
int fs_sync_parent(int dirfd, const char *path);

/* Open or make a lock file and lock it for this process (it holds our pid, for people). The lock lives as long as the
 * descriptor and ends with the process, however it ends. The file is never removed.
 * 0; -EBUSY another process has it, err names it and its pid; -errno. */
int fs_lock_file(const char *path, int *ret_fd, struct err *err);

/* Bytes that an unprivileged writer could still put there, and of how many. 0; -errno. */
int fs_free_bytes(const char *path, uint64_t *ret_free, uint64_t *ret_total);

/* Descriptors 0, 1 and 2 that are closed become /dev/null, open the wrong way round for 0 and 1: to use them is an error as
 * before, but no socket or file of ours can get their number and be taken for them. What is open is left alone. */
void fs_fill_standard(void);

/* /etc/machine-id, and the boot id: of the kernel, in a container that of its boot. 0; -ENOENT, -ENOMEDIUM not set yet ("uninitialized"), -EBADMSG. */
int fs_machine_id(char ret[static FS_ID_BUF]);
int fs_boot_id(char ret[static FS_ID_BUF]);
/* The same form out of any file. Dashes are allowed where a UUID has them. */
int fs_read_id(const char *path, char ret[static FS_ID_BUF]);

#endif
