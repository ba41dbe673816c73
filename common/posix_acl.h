/* An access list (POSIX ACL) in the form of its extended attribute: entries that name a user or group taken out, or turned to another
 * one. The mask is left as it is, so nobody gains a right by it, and the group bits of the file's mode stay, too.
 * No allocation; any thread. */
#ifndef XCE_COMMON_POSIX_ACL_H
#define XCE_COMMON_POSIX_ACL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define POSIX_ACL_ACCESS  "system.posix_acl_access"
#define POSIX_ACL_DEFAULT "system.posix_acl_default"
#define POSIX_ACL_MAX     65536 /* bytes of a value: the kernel's own limit */

#define POSIX_ACL_GONE UINT32_MAX /* no id */

/* What is to become of an entry that names this user, or group: its id to keep it, another id, or POSIX_ACL_GONE. */
typedef uint32_t (*posix_acl_fn)(void *arg, bool group, uint32_t id);

/* Ask about each entry that names an id, and change the value so, in place. An entry that would name whom another names already goes.
 *   len   its length, which becomes the new one
 * How many entries were changed; 0 also for what is no such value. */
size_t posix_acl_change(uint8_t *value, size_t *len, posix_acl_fn decide, void *arg);

#endif
