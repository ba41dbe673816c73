/* One file in a folder: whose it is, and how it goes away. Pinned by descriptors, never by a name that another could swap. */
#ifndef XCE_NODED_SWEEP_INODE_H
#define XCE_NODED_SWEEP_INODE_H

#include <linux/stat.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "noded/reason.h"

struct statx;
struct sweep;

/* Whose files it is about, out of (uid, gid): the wanted one, or 0 = not wanted. */
uint32_t inode_wanted(const struct sweep *sweep, uint32_t uid, uint32_t gid);

/* statx without following, automounting, or asking a file system of a stopped server. 0; -errno. */
int inode_stat(int dir_fd, const char *name, struct statx *ret);

/* Remove the entry, clearing flags of it (or of a folder that is wanted) that hinder it. 0 removed, or gone; -errno. */
int inode_unlink(const struct sweep *sweep, int dir_fd, const char *name, bool directory);

/* Report what could not be removed, by its path if there is room for that. dir_fd: its folder; -1 = name says all. r = why. */
void inode_kept(struct sweep *sweep, uint32_t uid, enum reason reason, int dir_fd, const char *name,
                int r);

/* Pin (O_PATH) what name is now. The descriptor; -ENOENT if it is not the inode of st any more; -errno. */
int inode_pin(int dir_fd, const char *name, const struct statx *st);

/* Give the pinned inode to root:root, so that it is no remnant any more; set-id bits go, also those of a folder, and of a
 * folder that was the uid's the right of others to write. keep_uid: only the group. 0; -errno. */
int inode_disown(int fd, bool keep_uid);

/* A file that is wanted: report it, and if so told remove it. A link of it may be left elsewhere: if *ret_fd is asked for
 * (not NULL), the inode comes back pinned when it has other links, for a look at the end; else it is disowned first.
 * Belonging by its group alone it is not removed, but loses that group. */
void inode_sweep(struct sweep *sweep, int dir_fd, const char *name, const struct statx *st,
                 enum reason reason, int *ret_fd);

#endif
