/* The user to whom goes what can not be removed: who has no process, no login and nobody's trust. docs/decisions/0021. */
#ifndef XCE_NODED_SWEEP_REMNANT_H
#define XCE_NODED_SWEEP_REMNANT_H

#include <stdint.h>

#define REMNANT_USER "xce-remnant"

/* Its ids out of a passwd file. 0; -ENOENT there is none; -ERANGE it is root, or no user of the system (1..999); -errno. */
int remnant_find(const char *passwd, uint32_t *ret_uid, uint32_t *ret_gid);

#endif
