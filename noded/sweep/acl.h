/* POSIX ACLs in their extended attribute form: entries that name an id we want to be gone. */
#ifndef XCE_NODED_SWEEP_ACL_H
#define XCE_NODED_SWEEP_ACL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct sweep;

#define ACL_XATTR_MAX 65536

/* Take the entries of wanted ids out of an attribute's value, in place. The mask stays, so nobody gains a right.
 * How many went; *ret_uid the first of them, *len the new length. 0 also for what is no such value. */
size_t acl_strip(const struct sweep *sweep, uint8_t *value, size_t *len, uint32_t *ret_uid);

/* Report, and if so told remove, the entries of a file's ACLs. path is not followed if it ends in a symlink. */
void acl_sweep(struct sweep *sweep, const char *path, const char *shown, bool folder);

#endif
