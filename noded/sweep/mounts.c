/* Mounts made for a uid: FUSE file systems of its processes, tmpfs of its login session. With the processes gone nobody
 * serves or needs them; they are detached, which never waits for a server. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>

#include "common/err.h"
#include "common/mem.h"
#include "noded/sweep/kinds.h"
#include "noded/sweep/machine.h"
#include "noded/sweep/mount_table.h"

/* The id that an option names, if it is wanted; else 0. */
static uint32_t option_wanted(const struct sweep *sweep, const char *option)
{
    static const char *const names[] = {"user_id=", "group_id=", "uid=", "gid="};

    for (size_t i = 0; i < ARRAY_LEN(names); i++) {
        size_t len = strlen(names[i]);
        char *end;
        if (strncmp(option, names[i], len) != 0)
            continue;
        unsigned long id = strtoul(option + len, &end, 10);
        return !*end && id <= UINT32_MAX && sweep_wants(sweep, (uint32_t)id) ? (uint32_t)id : 0;
    }
    return 0;
}

static void mount_look(struct sweep *sweep, const struct mount_entry *entry, void *arg)
{
    char *options = entry->options;
    uint32_t uid = 0;

    (void)arg;
    for (char *option; !uid && (option = strsep(&options, ","));)
        uid = option_wanted(sweep, option);
    if (!uid)
        return;
    if (sweep->remove && umount2(entry->path, MNT_DETACH | UMOUNT_NOFOLLOW) < 0) {
        sweep_found(sweep, uid, REASON_MOUNT, "%s: %s", entry->path, err_text(errno));
        return;
    }
    sweep_found(sweep, uid, REASON_MOUNT, "%s", entry->path);
    if (sweep->remove)
        sweep_removed(sweep);
}

static void mounts_look(struct sweep *sweep, void *arg)
{
    (void)mount_table_each(sweep, mount_look, arg);
}

void sweep_mounts(struct sweep *sweep)
{
    machine_run(sweep, false, mounts_look, NULL);
}
