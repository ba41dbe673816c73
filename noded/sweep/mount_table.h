/* The mount table of the calling thread's namespace, and what a sweep may do with each mount. */
#ifndef XCE_NODED_SWEEP_MOUNT_TABLE_H
#define XCE_NODED_SWEEP_MOUNT_TABLE_H

#include <stdint.h>
#include <sys/types.h>

struct sweep;

/* One line; its strings live as long as the call of the function that is told of it. */
struct mount_entry {
    uint64_t id, parent; /* as statx gives them */
    /* what of the file system is mounted: "/", or "ipc:[4026531839]" of nsfs; as it is written there */
    char *root;
    char *path;    /* the mount point */
    char *type;    /* "ext4", "fuse.sshfs" */
    char *options; /* of the file system: "rw,user_id=0,group_id=0" */
};

enum mount_class {
    MOUNT_LOCAL,   /* files lie there, and the kernel alone answers */
    MOUNT_EMPTY,   /* the kernel's own, where nobody leaves files: proc, sysfs, cgroups, ... */
    MOUNT_PRIVATE, /* a FUSE file system that nobody but its owner, who is not wanted, may enter */
    MOUNT_SERVED, /* a server answers, or does not: never touched. So is every type that we do not know. */
};

typedef void (*mount_fn)(struct sweep *sweep, const struct mount_entry *entry, void *arg);

/* Call fn for every mount, parents before what was mounted on them. 0; -errno, which has been reported. */
int mount_table_each(struct sweep *sweep, mount_fn fn, void *arg);

/* The same of a process's namespace, as far as its root lets it see that. 0; -errno, not reported: it may have ended. */
int mount_table_of(struct sweep *sweep, pid_t pid, mount_fn fn, void *arg);

enum mount_class mount_classify(const struct sweep *sweep, const struct mount_entry *entry);

#endif
