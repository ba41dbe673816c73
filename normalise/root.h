/* A tree that was named on the command line: opened once, without a symlink on the way, and known by what it is from then on.
 *
 * Where the kernel lets us, it is seen by a private copy of its mount: what others mount in it later does not show there, what
 * lies under their mounts does, and no symlink of it is followed. What is mounted in it is no part of it. */
#ifndef XCE_NORMALISE_ROOT_H
#define XCE_NORMALISE_ROOT_H

#include <linux/stat.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/err.h"

/* Counts, of one root. Any thread. */
struct tally {
    _Atomic uint64_t seen;      /* entries looked at, each time */
    _Atomic uint64_t changed;   /* inodes that got another owner or group */
    _Atomic uint64_t lists;     /* access lists that were changed */
    _Atomic uint64_t set_ids;   /* files that lost their set-id bits */
    _Atomic uint64_t caps;      /* and capabilities */
    _Atomic uint64_t linked;    /* changed ones that have other names, which may be elsewhere */
    _Atomic uint64_t vanished;  /* gone, or another one, as they were about to be looked at */
    _Atomic uint64_t blocked;   /* could not be changed */
    _Atomic uint64_t unknown;   /* could not be looked at */
    _Atomic uint64_t mounts;    /* below it as it was opened, and left out */
    _Atomic uint64_t snapshots; /* met by the last proof, and left out */
    _Atomic uint64_t left;      /* seen by the last proof */
    _Atomic uint64_t
        hidden; /* mounts that were met by the last proof, which can not see under them */
    _Atomic uint64_t moved; /* folders that changed during the last proof */
};

struct root {
    const char *path; /* as given; borrowed */
    char *real;       /* as it was found */
    int fd;           /* its top, open for reading */
    bool own_mount;   /* a private copy */
    bool handles;     /* folders can be found by handle */
    bool times;       /* its file system is known to stamp each change of a folder */
    uint64_t mount;   /* of fd */
    uint32_t dev_major, dev_minor;
    uint64_t ino;
    uint64_t fsid;
    char type[32]; /* of its file system: "ext4" */
    struct tally tally;
    _Atomic bool whole_seconds; /* times may have no more */
    _Atomic unsigned refused;   /* changes in a row */
    _Atomic bool given_up;      /* nothing can be changed there */
};

/* Refused: no folder, a symlink on the way, the machine's own root, an overlay unless allowed, an id-mapped mount, a file system
 * without files of anybody. 0; -errno with err. Zero at first; root_done takes it also after a failure. */
int root_open(const char *path, bool allow_overlay, struct root *ret, struct err *err);

/* For each folder: its time may tell that there are whole seconds alone. */
static inline void root_time_met(struct root *root, const struct statx *st)
{
    if (st->stx_ctime.tv_nsec == 0)
        root->whole_seconds = true;
}

/* The path of each mount below it now. 0; -errno. */
int root_mounts(const struct root *root, void (*tell)(void *arg, const char *path), void *arg);
void root_done(struct root *root);

#endif
