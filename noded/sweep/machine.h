/* The machine's mount namespace, as PID 1 has it: noded's own may be a private one (ProtectSystem=). */
#ifndef XCE_NODED_SWEEP_MACHINE_H
#define XCE_NODED_SWEEP_MACHINE_H

#include <stdbool.h>

struct sweep;

/* Run fn(sweep, arg) there, in a thread of its own that does not come back from there, and wait for it. What fails is
 * reported. copy: in a copy of that namespace, which goes with the thread. What is unmounted in it stays mounted everywhere
 * else; what the machine mounts or unmounts meanwhile does not reach the copy. */
void machine_run(struct sweep *sweep, bool copy, void (*fn)(struct sweep *sweep, void *arg),
                 void *arg);

#endif
