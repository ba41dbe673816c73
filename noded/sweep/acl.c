#include "noded/sweep/acl.h"

#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/xattr.h>

#include "common/le.h"
#include "common/mem.h"
#include "noded/sweep/inode.h"
#include "noded/sweep/sweep.h"

#define ACCESS        "system.posix_acl_access"
#define ACL_XATTR_FEW 128 /* the list of most files that have one */

#define ACL_VERSION   2
#define ACL_HEAD      4 /* u32 version; all little endian */
#define ACL_ENTRY     8 /* u16 tag, u16 permissions, u32 id */
#define ACL_TAG_USER  0x02
#define ACL_TAG_GROUP 0x08

size_t acl_strip(const struct sweep *sweep, uint8_t *value, size_t *len, uint32_t *ret_uid)
{
    size_t kept = ACL_HEAD, stripped = 0;

    if (*len < ACL_HEAD || le_get_u32(value) != ACL_VERSION || (*len - ACL_HEAD) % ACL_ENTRY)
        return 0;
    for (size_t at = ACL_HEAD; at < *len; at += ACL_ENTRY) {
        unsigned tag = value[at] | (unsigned)value[at + 1] << 8;
        uint32_t id = le_get_u32(value + at + 4);
        if ((tag == ACL_TAG_USER || tag == ACL_TAG_GROUP) && sweep_wants(sweep, id)) {
            if (stripped++ == 0)
                *ret_uid = id;
            continue;
        }
        memmove(value + kept, value + at, ACL_ENTRY);
        kept += ACL_ENTRY;
    }
    *len = kept;
    return stripped;
}

typedef ssize_t (*attribute_fn)(const char *path, const char *attribute, void *value, size_t len);

/* Its length; -1 with errno. The kernel makes itself a buffer as large as ours for each call, so ours is small at first:
 * nearly every file has no list. */
static ssize_t attribute_get(attribute_fn get, const char *path, const char *attribute,
                             uint8_t value[ACL_XATTR_MAX])
{
    ssize_t n = get(path, attribute, value, ACL_XATTR_FEW);

    return n < 0 && errno == ERANGE ? get(path, attribute, value, ACL_XATTR_MAX) : n;
}

static bool is_ours_to_tell(const struct sweep *sweep, const struct statx *st)
{
    return st->stx_uid == 0 || sweep_wants(sweep, st->stx_uid);
}

/* Whether there is something to be taken out; then value is what to leave. n as attribute_get gives it. */
static bool value_look(struct sweep *sweep, ssize_t n, uint8_t *value, size_t *ret_len,
                       const char *shown, const struct statx *st)
{
    uint32_t uid = 0;

    if (n < 0) {
        if (errno != ENODATA && errno != EOPNOTSUPP && errno != ENOENT && errno != ENOTDIR)
            sweep_failed(sweep, "access control list", errno);
        return false;
    }
    *ret_len = (size_t)n;
    if (acl_strip(sweep, value, ret_len, &uid) == 0)
        return false;
    if (is_ours_to_tell(sweep, st))
        sweep_found(sweep, uid, REASON_FILE, "access control list of %s", shown);
    return sweep->remove;
}

static bool is_none(ssize_t n)
{
    return n < 0 && errno == ENODATA;
}

/* Whether it is not there. */
static bool folder_look(struct sweep *sweep, const char *attribute, const char *shown,
                        const struct statx *st)
{
    uint8_t value[ACL_XATTR_MAX];
    ssize_t n = attribute_get(lgetxattr, ".", attribute, value);
    bool none = is_none(n);
    size_t len;

    if (value_look(sweep, n, value, &len, shown, st) &&
        lsetxattr(".", attribute, value, len, XATTR_REPLACE) == 0)
        sweep_removed(sweep);
    return none;
}

bool acl_sweep_folder(struct sweep *sweep, const char *shown, const struct statx *st)
{
    bool none = folder_look(sweep, ACCESS, shown, st);

    return folder_look(sweep, "system.posix_acl_default", shown, st) && none;
}

static void pinned_look(struct sweep *sweep, int fd, const char *shown, const struct statx *st)
{
    uint8_t value[ACL_XATTR_MAX];
    char path[64];
    size_t len;

    (void)snprintf(path, sizeof(path), "/proc/self/fd/%d", fd); /* none of O_PATH is taken itself */
    if (value_look(sweep, attribute_get(getxattr, path, ACCESS, value), value, &len, shown, st) &&
        setxattr(path, ACCESS, value, len, XATTR_REPLACE) == 0)
        sweep_removed(sweep);
}

/* By name at first, which costs the least; of the few that have a list with a wanted id once more, pinned. */
bool acl_sweep_file(struct sweep *sweep, const char *name, const struct statx *st)
{
    uint8_t value[ACL_XATTR_MAX];
    ssize_t n = attribute_get(lgetxattr, name, ACCESS, value);
    bool none = is_none(n);
    size_t len;

    if (value_look(sweep, n, value, &len, name, st)) {
        auto_close int fd = inode_pin(AT_FDCWD, name, st);
        if (fd >= 0)
            pinned_look(sweep, fd, name, st);
    }
    return none;
}
