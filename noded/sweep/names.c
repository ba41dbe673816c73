/* Files that speak for a user by their name or owner: cron tables, at jobs, mail boxes, linger marks, failed logins, what sudo
 * remembers. A name is ours if it is the canonical name of any epoch of the uid, or of a login record the uid itself. */
#include <fcntl.h>
#include <inttypes.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "map/name.h"
#include "noded/sweep/folder.h"
#include "noded/sweep/inode.h"
#include "noded/sweep/kinds.h"

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

static void entry_look(struct sweep *sweep, int dir_fd, const char *name, const struct statx *st,
                       const void *arg)
{
    const enum reason *reason = arg;
    uint32_t uid;

    if (inode_wanted(sweep, st->stx_uid, st->stx_gid)) {
        inode_sweep(sweep, dir_fd, name, st, *reason, NULL);
        return;
    }
    if (!name_is_ours(sweep, name, *reason, &uid))
        return;
    int r = sweep->remove ? inode_unlink(sweep, dir_fd, name, false) : 0;
    if (r < 0) {
        inode_kept(sweep, uid, *reason, name, r);
        return;
    }
    sweep_found(sweep, uid, *reason, "%s", name);
    if (sweep->remove)
        sweep_removed(sweep);
}

static void folders_look(struct sweep *sweep, const char *const *folders, enum reason reason)
{
    for (; folders && *folders; folders++)
        folder_each(sweep, AT_FDCWD, *folders, *folders, entry_look, &reason);
}

void sweep_names(struct sweep *sweep)
{
    folders_look(sweep, sweep->places->cron, REASON_CRON);
    folders_look(sweep, sweep->places->at, REASON_AT);
    folders_look(sweep, sweep->places->mail, REASON_MAIL);
    folders_look(sweep, sweep->places->linger, REASON_LINGER);
    folders_look(sweep, sweep->places->logins, REASON_LOGIN);
}
