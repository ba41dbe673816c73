/* The process that ends all of a uid bears that uid for a moment: it is none of its processes. */
#ifndef XCE_NODED_SWEEP_UIDS_H
#define XCE_NODED_SWEEP_UIDS_H

#include <stdbool.h>
#include <sys/types.h>

/* Any thread. */
bool uids_is_helper(pid_t pid);

#endif
