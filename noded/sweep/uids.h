/* A child of ours bears a uid for a moment, to do what only that uid may: it is none of its processes. To end all of them, or
 * to empty its keyrings, it looks at nothing before: nothing sanctioned may begin under the uid meanwhile. */
#ifndef XCE_NODED_SWEEP_UIDS_H
#define XCE_NODED_SWEEP_UIDS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

struct sweep;

/* 0 or more; -errno. In the child, in which nothing but system calls may be made: the parent has threads. */
typedef int (*uids_act_fn)(void);

/* Do that as each of the uids that is still wanted; group 0, no capabilities, an empty session keyring. After a failure it goes on
 * with the next, but after eight no more. One caller at a time, the others wait. ret_results (may be NULL): what it gave for each of them, as it was
 * for one that is not wanted; -errno where it failed, -ECANCELED where it was not tried any more. 0; -errno of the first
 * failure. */
int uids_act(struct sweep *sweep, const uint32_t *uids, size_t n_uids, uids_act_fn act,
             int *ret_results);

/* Any thread. */
bool uids_is_helper(pid_t pid);
/* Whether all of that uid may be ended (or its keys) from now on by what was asked before. Who writes into the map that the uid is here,
 * and then is told no, is seen by whoever asks later: only then may it be said that it is here. Any thread. */
bool uids_in_hand(uint32_t uid);

#endif
