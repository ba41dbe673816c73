/* Journals of a uid: journald gives each user a file of his own, root's, with an entry in its access list that lets him read it.
 * It goes on with that file when the number is somebody else's.
 *
 *     user-1000.journal             in use: given the name of one that journald has put away, and its entry is taken off
 *     user-1000@....journal[~]      put away: its entry is taken off; administrators read it on, journald removes it with age
 *
 * One in use may have no entry (a rotation leaves such a one) and says nothing of anybody: it is left.
 * docs/decisions/0016 says why nothing is removed, and what journald does with a file that it has open under another name. */
#include <ctype.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <sys/xattr.h>
#include <unistd.h>

#include "common/clock.h"
#include "common/le.h"
#include "common/mem.h"
#include "noded/sweep/acl.h"
#include "noded/sweep/folder.h"
#include "noded/sweep/inode.h"
#include "noded/sweep/kinds.h"
#include "noded/sweep/place.h"

#define MAGIC        "LPKSHHRH" /* at 0 of a journal */
#define ACCESS_LIST  "system.posix_acl_access"
#define AT_N_ENTRIES 152 /* u64, little endian */

enum journal { NO_JOURNAL, IN_USE, PUT_AWAY };

static bool ends_in(const char *name, const char *end)
{
    size_t len = strlen(name), end_len = strlen(end);

    return len >= end_len && strcmp(name + len - end_len, end) == 0;
}

static enum journal name_parse(const char *name, uint32_t *ret_uid)
{
    unsigned long long uid;
    char *rest;

    if (strncmp(name, "user-", 5) != 0 || !isdigit((unsigned char)name[5]))
        return NO_JOURNAL;
    uid = strtoull(name + 5, &rest, 10);
    if (uid > UINT32_MAX)
        return NO_JOURNAL;
    *ret_uid = (uint32_t)uid;
    if (strcmp(rest, ".journal") == 0)
        return IN_USE;
    return *rest == '@' && (ends_in(rest, ".journal") || ends_in(rest, ".journal~")) ? PUT_AWAY
                                                                                     : NO_JOURNAL;
}

static bool is_without_entries(int dir_fd, const char *name)
{
    auto_close int fd = openat(dir_fd, name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
    uint8_t head[AT_N_ENTRIES + 8];

    return fd >= 0 && pread(fd, head, sizeof(head), 0) == (ssize_t)sizeof(head) &&
           memcmp(head, MAGIC, sizeof(MAGIC) - 1) == 0 && le_get_u64(head + AT_N_ENTRIES) == 0;
}

/* The name that journald gives a file which it finds not closed in order: it counts and removes those by this pattern. */
static int put_away(int dir_fd, const char *name, uint32_t uid, char away[static NAME_MAX + 1])
{
    uint64_t chance;

    if (getrandom(&chance, sizeof(chance), 0) != (ssize_t)sizeof(chance))
        return -EIO;
    (void)snprintf(away, NAME_MAX + 1, "user-%" PRIu32 "@%016" PRIx64 "-%016" PRIx64 ".journal~",
                   uid, (uint64_t)clock_wall_ms() * 1000, chance);
    return renameat2(dir_fd, name, dir_fd, away, RENAME_NOREPLACE) < 0 ? -errno : 0;
}

/* Take the uid off the access list of one that is put away. */
static void let_in_no_more(struct sweep *sweep, int dir_fd, const char *name, uint32_t uid)
{
    uint8_t value[ACL_XATTR_MAX];
    char path[64 + NAME_MAX];
    uint32_t first;
    ssize_t n;
    size_t len;

    (void)snprintf(path, sizeof(path), "/proc/self/fd/%d/%s", dir_fd, name);
    n = lgetxattr(path, ACCESS_LIST, value, sizeof(value));
    if (n < 0 && (errno == ENODATA || errno == EOPNOTSUPP || errno == ENOENT))
        return;
    len = n < 0 ? 0 : (size_t)n;
    if (n >= 0 && (acl_strip(sweep, value, &len, &first) == 0 ||
                   (sweep->remove && lsetxattr(path, ACCESS_LIST, value, len, XATTR_REPLACE) == 0)))
        return;
    sweep_found(sweep, uid, REASON_JOURNAL, "%s may be read", name);
}

static void in_use_look(struct sweep *sweep, int dir_fd, const char *name, uint32_t uid)
{
    char away[NAME_MAX + 1];
    int r;

    if (is_without_entries(dir_fd, name))
        return;
    if (!sweep->remove) {
        sweep_found(sweep, uid, REASON_JOURNAL, "%s", name);
        return;
    }
    r = put_away(dir_fd, name, uid, away);
    if (r == 0)
        let_in_no_more(sweep, dir_fd, away, uid);
    else if (r != -ENOENT)
        inode_kept(sweep, uid, REASON_JOURNAL, dir_fd, name, r);
}

static void file_look(struct sweep *sweep, int dir_fd, const char *name, const struct statx *st,
                      const void *arg)
{
    uint32_t uid = 0;
    enum journal journal = name_parse(name, &uid);

    (void)arg;
    if (journal == NO_JOURNAL || !S_ISREG(st->stx_mode) || !sweep_wants(sweep, uid))
        return;
    if (journal == IN_USE)
        in_use_look(sweep, dir_fd, name, uid);
    else
        let_in_no_more(sweep, dir_fd, name, uid);
}

/* One of the machine, "MACHINE-ID", and one of each namespace of journald, "MACHINE-ID.NAMESPACE". */
static void folder_look(struct sweep *sweep, int dir_fd, const char *name, const struct statx *st,
                        const void *arg)
{
    (void)arg;
    if (S_ISDIR(st->stx_mode))
        folder_each(sweep, dir_fd, name, name, file_look, NULL);
}

void sweep_journals(struct sweep *sweep)
{
    for (const char *const *top = sweep->places->journals; top && *top; top++)
        place_each(sweep, *top, folder_look, NULL);
}
