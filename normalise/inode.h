/* The only place that changes anything. An inode is pinned by a descriptor, its owner is read there, and what is changed is that
 * inode: a name is never used to change something. An owner other than root can not give a file away, so that a uid that was read
 * stays true. Group, mode and access list an owner does change whenever he likes, and no call changes them only if they are what
 * they were: of a file of somebody else that matches by its group or list alone, what he does in that instant may be undone, so
 * that somebody has again what he had a moment before.
 *
 * Order: access list and set-id bits first, while nobody may change them back, then the owner: whatever ends us in between, the
 * next run goes on from there. */
#ifndef XCE_NORMALISE_INODE_H
#define XCE_NORMALISE_INODE_H

#include <linux/stat.h>
#include <stdbool.h>

#include "normalise/options.h"
#include "normalise/root.h"

struct rate;
struct report;
struct statx;

/* What it is about; borrowed. */
struct inode_task {
    const struct options *options;
    struct report *report;
    struct rate *rate;        /* of changes */
    const _Atomic bool *stop; /* it is to end: no more are begun */
};

/* Whether this is the uid's, or the gid's. */
static inline bool inode_matches(const struct ids *ids, const struct statx *st)
{
    return st->stx_uid == ids->uid || (ids->groups && st->stx_gid == ids->gid);
}

/* Whether its access list is to be looked at: of everybody's, or of theirs alone. Whose it is now that was given away can not be told
 * from what its new owner had before. */
static inline bool inode_lists_matter(const struct options *options, const struct statx *st)
{
    return !options->acl_owned || inode_matches(&options->ids, st) ||
           st->stx_uid == options->ids.to_uid;
}

enum inode_outcome {
    INODE_FOLDER = 1, /* it is one, or may be: to be entered */
};

/* A name in a folder, which the thread is in, too: change what is there, if it is a file of the uid or gid, or if its access list
 * names them. seen: whether the last one was, so that this one will be. 0; INODE_FOLDER. */
int inode_entry(const struct inode_task *task, struct root *root, int dir_fd, const char *name,
                bool *seen);

/* A folder as it is entered, the thread is in it: what would give new files the gid, or let the uid into them, is changed at once. */
void inode_folder_begin(const struct inode_task *task, struct root *root, int fd,
                        const struct statx *st);

/* When all in it is done: its owner may do there what he likes from now on. */
void inode_folder_end(const struct inode_task *task, struct root *root, int fd);

/* ---- looking, for the proof as well ---- */

/* Without following, automounting, or asking a server that knows it already. name "": the descriptor. 0; -errno. */
int inode_stat(int dir_fd, const char *name, struct statx *ret);

/* Whether the name may have an access list, or another attribute that matters; the thread is in its folder. -errno. */
int inode_has_lists(const char *name);

/* Pin what a name is now. The descriptor, *ret what it is; -errno. */
int inode_pin(int dir_fd, const char *name, struct statx *ret);

/* How many entries of its lists name them. -errno. */
int inode_lists_name(const struct ids *ids, int fd, bool folder);

/* A folder that is not entered, as it is a snapshot that a file system keeps: under a name that is known for that, on a device of
 * its own, of root, read-only. Never on btrfs, where whoever likes makes folders of that kind. st: of the name. */
bool inode_is_snapshot(const struct root *root, int dir_fd, const char *name,
                       const struct statx *st);

/* An error of what is not there any more, as far as can be told. */
bool inode_is_gone(int error);

/* How an error is told; what is gone is only counted. */
void inode_failed(const struct inode_task *task, struct root *root, int dir_fd, const char *name,
                  const char *op, int error);

#endif
