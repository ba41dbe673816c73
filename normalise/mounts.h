/* The mount table of this process, as far as it matters which mounts lie in a tree. */
#ifndef XCE_NORMALISE_MOUNTS_H
#define XCE_NORMALISE_MOUNTS_H

#include <stdbool.h>
#include <stdint.h>

struct mount_info {
    uint64_t id;
    char *path; /* unescaped */
    char type[32];
    bool mapped; /* its ids are not those on disk */
};

/* For each mount; the info lives as long as the call. False ends it. 0; -errno. */
typedef bool (*mounts_fn)(void *arg, const struct mount_info *mount);
int mounts_each(mounts_fn tell, void *arg);

#endif
