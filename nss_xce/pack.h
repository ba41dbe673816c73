/* A record as passwd or group, all of it in the caller's buffer. Pure.
 *
 * 0; -ERANGE the buffer is too small: nothing was written. buf need not be aligned. */
#ifndef XCE_NSS_PACK_H
#define XCE_NSS_PACK_H

#include <grp.h>
#include <pwd.h>
#include <stddef.h>

#include "map/read.h"

/* Needs name, gecos, home, shell, "x" and their NULs. entry has its pair. */
int pack_passwd(const struct map_entry *entry, struct passwd *ret, char *buf, size_t len);

/* The private group of the lease, of the same name, without members: it is the primary group of its only one. Needs the
 * name, "x", their NULs, one pointer, and what buf lacks to be aligned for it. */
int pack_group(const struct map_entry *entry, struct group *ret, char *buf, size_t len);

#endif
