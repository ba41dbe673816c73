/* What lies in the calling thread's IPC namespace: each call reports all of its sort, and removes it if so told. */
#ifndef XCE_NODED_SWEEP_IPC_H
#define XCE_NODED_SWEEP_IPC_H

struct sweep;

void ipc_sysv_look(struct sweep *sweep);
void ipc_mqueues_look(struct sweep *sweep);

#endif
