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

/* If the folder that fd is, st what was seen of it, is a subvolume of btrfs that was made read-only, which whoever owns it may: no
 * more. */
void inode_let_write(int fd, const struct statx *st);

/* Report what could not be removed, by its path if there is room for that. dir_fd: its folder; -1 = name says all.
 * r = why: negative errno or enum inode_outcome. */
void inode_kept(struct sweep *sweep, uint32_t uid, enum reason reason, int dir_fd, const char *name,
                int r);

/* Pin (O_PATH) what name is now. The descriptor; -ENOENT if it is not the inode of st any more; -errno. */
int inode_pin(int dir_fd, const char *name, const struct statx *st);

enum inode_outcome {
    INODE_NO_REMNANT = 1, /* nobody is there whom it could be given to */
};

/* Give the pinned inode to the user for remnants, never to root, whose files are trusted: others may have it open, or links to it.
 * Nobody may do anything with it then, but go on with what he has open. A folder may be read by whom it let in, as others have files
 * in it; no entry of an access list is left. keep_uid: only the group goes. 0; INODE_NO_REMNANT; -errno. */
int inode_disown(const struct sweep *sweep, int fd, bool keep_uid);

/* Whether it is what has been given away so. */
bool inode_is_remnant(const struct sweep *sweep, const struct statx *st);

/* A file that is wanted: report it, and if so told remove it. One that has other links is disowned first.
 * Belonging by its group alone it is not removed, but loses that group. */
void inode_sweep(struct sweep *sweep, int dir_fd, const char *name, const struct statx *st,
                 enum reason reason);

#endif
