#include "noded/sweep/acl.h"

#include <errno.h>
#include <string.h>
#include <sys/xattr.h>

#include "common/le.h"
#include "noded/sweep/sweep.h"

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

/* Its length; -1 with errno. The kernel makes itself a buffer as large as ours for each call, so ours is small at first:
 * nearly every file has no list. */
static ssize_t attribute_get(const char *path, const char *attribute, uint8_t value[ACL_XATTR_MAX])
{
    ssize_t n = lgetxattr(path, attribute, value, ACL_XATTR_FEW);

    return n < 0 && errno == ERANGE ? lgetxattr(path, attribute, value, ACL_XATTR_MAX) : n;
}

static void attribute_sweep(struct sweep *sweep, const char *path, const char *attribute,
                            const char *shown)
{
    uint8_t value[ACL_XATTR_MAX];
    ssize_t n = attribute_get(path, attribute, value);
    size_t len = n < 0 ? 0 : (size_t)n;
    uint32_t uid = 0;

    if (n < 0) {
        if (errno != ENODATA && errno != EOPNOTSUPP && errno != ENOENT && errno != ENOTDIR)
            sweep_failed(sweep, "access control list", errno);
        return;
    }
    if (acl_strip(sweep, value, &len, &uid) == 0)
        return;
    sweep_found(sweep, uid, REASON_FILE, "access control list of %s", shown);
    if (sweep->remove && lsetxattr(path, attribute, value, len, XATTR_REPLACE) == 0)
        sweep_removed(sweep);
}

void acl_sweep(struct sweep *sweep, const char *path, const char *shown, bool folder)
{
    attribute_sweep(sweep, path, "system.posix_acl_access", shown);
    if (folder)
        attribute_sweep(sweep, path, "system.posix_acl_default", shown);
}
