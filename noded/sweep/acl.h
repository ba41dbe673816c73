/* POSIX ACLs in their extended attribute form: entries that name an id we want to be gone.
 *
 * Such an entry is a finding only if the file is root's (a core dump) or of a wanted id itself. Whom somebody else lets into a
 * file of his own is his to say: it is taken out, but he may write it again at any time, and no uid waits for that. */
#ifndef XCE_NODED_SWEEP_ACL_H
#define XCE_NODED_SWEEP_ACL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct statx;
struct sweep;

#define ACL_XATTR_MAX 65536

/* Take the entries of wanted ids out of an attribute's value, in place. The mask stays, so nobody gains a right.
 * How many went; *ret_uid the first of them, *len the new length. 0 also for what is no such value. */
size_t acl_strip(const struct sweep *sweep, uint8_t *value, size_t *len, uint32_t *ret_uid);

/* Report, and if so told remove, the entries of the access lists of the folder that the thread is in; st is what was seen of
 * it. True: it has no list at all. */
bool acl_sweep_folder(struct sweep *sweep, const char *shown, const struct statx *st);

/* The same of a file in that folder; st is what was seen of it. Name may be another file by now: none but that of st is
 * changed. It must lead to no file system of a server, where a look could hang. True: what the name leads to has no list. */
bool acl_sweep_file(struct sweep *sweep, const char *name, const struct statx *st);

#endif
