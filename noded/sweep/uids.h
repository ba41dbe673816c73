/* The process that ends all of a uid bears that uid for a moment: it is none of its processes. And it looks at none of them
 * before: nothing sanctioned may begin under the uid meanwhile. */
#ifndef XCE_NODED_SWEEP_UIDS_H
#define XCE_NODED_SWEEP_UIDS_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

/* Any thread. */
bool uids_is_helper(pid_t pid);
/* Whether all of that uid may be ended from now on by what was asked before. Who writes into the map that the uid is here,
 * and then is told no, is seen by whoever asks later: only then may it be said that it is here. Any thread. */
bool uids_in_hand(uint32_t uid);

#endif
