/* Files that have been seen to have no access list. Nearly every file has none, and to ask costs as much as all the rest of a
 * look: it is not asked again while the file is as it was then.
 *
 * Remembered is a state: device, inode, and when that last changed (ctime). Nobody can set that time; it changes when a list is
 * given, and when a name of the file comes to mean another file: so what was asked by name was that file, or is never recognised. This
 * holds for file systems that keep the time so, for what was older by then than two stamps that may be alike, and as long as the
 * clock is not put back: then all is forgotten. Whose a file is, and which uids a look is for, does not matter.
 *
 * One table for the process. What finds its place taken takes it: another file is asked again. Any thread. */
#ifndef XCE_NODED_SWEEP_ACL_NONE_H
#define XCE_NODED_SWEEP_ACL_NONE_H

#include <stdbool.h>
#include <stdint.h>

struct statx;

/* One walk's view of it. */
struct acl_none {
    bool kept;       /* the file system is of those */
    int64_t old_ms;  /* what changed before that may be remembered */
    uint64_t record; /* begun anew when the clock has been put back */
};

/* Begin a walk of what is mounted at fd, now. */
struct acl_none acl_none_begin(int fd);
/* The same of a file system of that type (statfs(2)), when the clocks (clock.h) showed that. */
struct acl_none acl_none_begin_at(int64_t type, int64_t wall_ms, int64_t mono_ms);

/* Whether it had none when it was what st says. st needs STATX_BASIC_STATS. */
bool acl_none_has(const struct acl_none *none, const struct statx *st);
/* It has none; st was seen before it was asked. */
void acl_none_add(const struct acl_none *none, const struct statx *st);

#endif
