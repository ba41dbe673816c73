/* Files that speak for a user by their name or owner: cron tables, at jobs, mail boxes, linger marks, failed logins, what sudo
 * remembers. A name is ours if it is the canonical name of any epoch of the uid, or of a login record the uid itself. */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <linux/openat2.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "common/mem.h"
#include "map/name.h"
#include "noded/sweep/folder.h"
#include "noded/sweep/inode.h"
#include "noded/sweep/kinds.h"
#include "noded/sweep/place.h"

#define DEPTH_MAX 32 /* of folders; each holds two descriptors */

/* sudo, as of 1.9.15, names by uid. */
static bool name_is_number(const char *name, uint32_t *ret_uid)
{
    char number[16];

    *ret_uid = (uint32_t)strtoul(name, NULL, 10);
    (void)snprintf(number, sizeof(number), "%" PRIu32, *ret_uid);
    return strcmp(name, number) == 0;
}

static bool name_is_ours(const struct sweep *sweep, const char *name, enum reason reason,
                         uint32_t *ret_uid)
{
    uint32_t epoch;

    return (name_decode(sweep->places->prefix, name, strlen(name), ret_uid, &epoch) == 0 ||
            (reason == REASON_LOGIN && name_is_number(name, ret_uid))) &&
           sweep_wants(sweep, *ret_uid);
}

/* What is mounted in it is not entered, and keeps it. */
static int folder_open(int dir_fd, const char *name)
{
    struct open_how how = {
        .flags = O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC | O_NOATIME,
        .resolve = RESOLVE_NO_XDEV | RESOLVE_NO_SYMLINKS | RESOLVE_NO_MAGICLINKS,
    };
    long fd = syscall(SYS_openat2, dir_fd, name, &how, sizeof(how));

    return fd < 0 ? -errno : (int)fd;
}

static int tree_end(struct sweep *sweep, int dir_fd, const char *name, bool folder, int depth);

/* What stays keeps the folder: that says it. */
static void inner_end(struct sweep *sweep, int dir_fd, const char *name, const struct statx *st,
                      const void *arg)
{
    const int *depth = arg;

    (void)tree_end(sweep, dir_fd, name, S_ISDIR(st->stx_mode), *depth + 1);
}

/* With all that it holds, whosever that is: a mail folder is one user's. 0; -errno. */
static int tree_end(struct sweep *sweep, int dir_fd, const char *name, bool folder, int depth)
{
    auto_close int fd = -1;
    int r = inode_unlink(sweep, dir_fd, name, folder);

    if (r != -ENOTEMPTY || depth == DEPTH_MAX)
        return r;
    fd = folder_open(dir_fd, name);
    if (fd < 0)
        return fd;
    folder_each(sweep, fd, ".", name, inner_end, &depth);
    return inode_unlink(sweep, dir_fd, name, true);
}

static void entry_look(struct sweep *sweep, int dir_fd, const char *name, const struct statx *st,
                       const void *arg)
{
    const enum reason *reason = arg;
    bool folder = S_ISDIR(st->stx_mode), owned = sweep_wants(sweep, st->stx_uid);
    uint32_t uid = st->stx_uid;

    if (inode_wanted(sweep, st->stx_uid, st->stx_gid) && !(folder && owned)) {
        inode_sweep(sweep, dir_fd, name, st, *reason);
        return;
    }
    if (!owned && !name_is_ours(sweep, name, *reason, &uid))
        return;
    int r = sweep->remove ? tree_end(sweep, dir_fd, name, folder, 0) : 0;
    if (r < 0) {
        inode_kept(sweep, uid, *reason, dir_fd, name, r);
        return;
    }
    sweep_found(sweep, uid, *reason, "%s", name);
    if (sweep->remove)
        sweep_removed(sweep);
}

static void folders_look(struct sweep *sweep, const char *const *folders, enum reason reason)
{
    for (; folders && *folders; folders++)
        place_each(sweep, *folders, entry_look, &reason);
}

void sweep_names(struct sweep *sweep)
{
    folders_look(sweep, sweep->places->cron, REASON_CRON);
    folders_look(sweep, sweep->places->at, REASON_AT);
    folders_look(sweep, sweep->places->mail, REASON_MAIL);
    folders_look(sweep, sweep->places->linger, REASON_LINGER);
    folders_look(sweep, sweep->places->logins, REASON_LOGIN);
}
