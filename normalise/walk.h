/* Every folder below the roots, by several threads, each entry once unless names change meanwhile.
 *
 * What is to be done is a stack of folders: each known by its handle, or, where the file system gives none, by the way down to it
 * from its root, checked by inode at each step. The last found is the next to be read, so that the stack stays low. A large
 * folder is read in parts, by whichever thread is free; when the stack is high, a folder waits at where it was read to, while
 * what was found in it is done. So memory and descriptors are bounded: by the depth of a tree, not by how wide it is or how
 * many entries a folder has. A folder ends when all below it has. */
#ifndef XCE_NORMALISE_WALK_H
#define XCE_NORMALISE_WALK_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>

#include "normalise/root.h"

struct dirent64;
struct statx;

/* Of one thread. */
struct walk_at {
    struct root *root;
    int fd;    /* the folder, open for reading; the thread is in it */
    bool seen; /* scratch of the entry call, of this thread */
};

struct walk_ops {
    /* The folder has been opened for the first time. True: end is to be called for it. */
    bool (*begin)(void *arg, const struct walk_at *at, const struct statx *st);
    /* True: it is a folder, to be entered. */
    bool (*entry)(void *arg, struct walk_at *at, const struct dirent64 *entry);
    /* All below it is done; NULL = never wanted. */
    void (*end)(void *arg, const struct walk_at *at);
    /* It could not be opened or read. at->fd: the folder, or the one that it is in; -1 = it is not open. */
    void (*failed)(void *arg, const struct walk_at *at, const char *op, int error);
};

struct walk {
    struct root *roots;
    size_t n_roots;
    unsigned n_threads;
    const struct walk_ops *ops;
    void *arg;
    const _Atomic bool *stop; /* true: leave off soon */
    int done_fd;              /* an eventfd that is written when it is over */
};

struct walk_run;

/* Begin. 0; -ENOMEM, -EAGAIN: nothing has begun. */
int walk_start(const struct walk *walk, struct walk_run **ret);

/* Wait for its end. 0; -errno: memory ended, or a thread could not do what it must, and not all has been seen. */
int walk_finish(struct walk_run *run);

#endif
