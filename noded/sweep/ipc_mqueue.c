/* POSIX message queues. They are seen through a mount of their own that nobody else can
 * reach, so it does not matter whether /dev/mqueue is mounted. */
#include <errno.h>
#include <fcntl.h>
#include <sys/mount.h>
#include <unistd.h>

#include "common/mem.h"
#include "noded/sweep/folder.h"
#include "noded/sweep/inode.h"
#include "noded/sweep/ipc.h"
#include "noded/sweep/sweep.h"

static int queues_open(void)
{
    auto_close int fs = fsopen("mqueue", FSOPEN_CLOEXEC);
    int fd;

    if (fs < 0)
        return -errno;
    if (fsconfig(fs, FSCONFIG_CMD_CREATE, NULL, NULL, 0) < 0)
        return -errno;
    fd = fsmount(fs, FSMOUNT_CLOEXEC, MOUNT_ATTR_NODEV | MOUNT_ATTR_NOEXEC | MOUNT_ATTR_NOSUID);
    return fd < 0 ? -errno : fd;
}

static void queue_look(struct sweep *sweep, int dir_fd, const char *name, const struct statx *st,
                       const void *arg)
{
    if (inode_wanted(sweep, st->stx_uid, st->stx_gid))
        inode_sweep(sweep, dir_fd, name, st, REASON_MQUEUE);
}

void ipc_mqueues_look(struct sweep *sweep)
{
    auto_close int fd = queues_open();

    if (fd == -ENODEV) /* a kernel without them */
        return;
    if (fd < 0)
        sweep_failed(sweep, "message queues", fd);
    else
        folder_each(sweep, fd, ".", "message queues", queue_look, NULL);
}
