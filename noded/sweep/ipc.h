/* What lies in the calling thread's IPC namespace: each call reports all of its sort, and removes it if so told. */
#ifndef XCE_NODED_SWEEP_IPC_H
#define XCE_NODED_SWEEP_IPC_H

#include <stddef.h>
#include <stdint.h>

struct sweep;

/* IPC namespaces that have been looked into. Zero at first; who has it frees seen. */
struct ipc_spaces {
    uint32_t dev_major, dev_minor; /* the file system of namespaces */
    uint64_t *seen;                /* inodes, ascending */
    size_t n_seen, cap_seen;
};

/* The one that the calling thread is in counts as seen. 0; -errno. */
int ipc_spaces_begin(struct ipc_spaces *spaces);

/* Name below dir_fd is a link to a namespace: look into it, if it is one of IPC and not seen yet. The thread stays in there.
 * What fails is reported. */
void ipc_descriptor_look(struct sweep *sweep, struct ipc_spaces *spaces, int dir_fd,
                         const char *name);

void ipc_sysv_look(struct sweep *sweep);
void ipc_mqueues_look(struct sweep *sweep);

#endif
