#include "noded/sweep/inode.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/btrfs.h>
#include <linux/btrfs_tree.h>
#include <linux/fs.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <sys/xattr.h>
#include <unistd.h>

#include "common/err.h"
#include "common/mem.h"
#include "noded/sweep/remnant.h"
#include "noded/sweep/sweep.h"

uint32_t inode_wanted(const struct sweep *sweep, uint32_t uid, uint32_t gid)
{
    if (sweep_wants(sweep, uid))
        return uid;
    return sweep_wants(sweep, gid) ? gid : 0;
}

int inode_stat(int dir_fd, const char *name, struct statx *ret)
{
    int flags = AT_SYMLINK_NOFOLLOW | AT_NO_AUTOMOUNT | AT_STATX_DONT_SYNC;

    if (!*name)
        flags |= AT_EMPTY_PATH;
    return statx(dir_fd, name, flags, STATX_BASIC_STATS | STATX_MNT_ID, ret) < 0 ? -errno : 0;
}

/* Whether a flag was in the way and has been cleared. */
static bool flags_clear(int dir_fd, const char *name)
{
    /* O_NONBLOCK: should it have become a fifo, the open does not hang. */
    auto_close int fd = openat(dir_fd, name,
                               O_RDONLY | O_NONBLOCK | O_NOFOLLOW | O_NOCTTY | O_CLOEXEC);
    int flags;

    if (fd < 0 || ioctl(fd, FS_IOC_GETFLAGS, &flags) < 0 ||
        !(flags & (FS_IMMUTABLE_FL | FS_APPEND_FL)))
        return false;
    flags &= ~(FS_IMMUTABLE_FL | FS_APPEND_FL);
    return ioctl(fd, FS_IOC_SETFLAGS, &flags) == 0;
}

static bool flags_matter(int dir_fd, const char *name)
{
    struct statx st;

    return inode_stat(dir_fd, name, &st) == 0 && (S_ISREG(st.stx_mode) || S_ISDIR(st.stx_mode));
}

static bool folder_is_wanted(const struct sweep *sweep, int dir_fd)
{
    struct statx st;

    return inode_stat(dir_fd, "", &st) == 0 && sweep_wants(sweep, st.stx_uid);
}

int inode_unlink(const struct sweep *sweep, int dir_fd, const char *name, bool directory)
{
    for (int tried = 0;; tried++) {
        if (unlinkat(dir_fd, name, directory ? AT_REMOVEDIR : 0) == 0 || errno == ENOENT)
            return 0;
        int r = -errno;
        if (r != -EPERM || tried == 2)
            return r;
        /* The file's own flag, or that of a folder which is one of the remnants, too. */
        if (!(flags_matter(dir_fd, name) && flags_clear(dir_fd, name)) &&
            !(folder_is_wanted(sweep, dir_fd) && flags_clear(dir_fd, ".")))
            return r;
    }
}

void inode_let_write(int fd, const struct statx *st)
{
    uint64_t flags;

    if (st->stx_ino != BTRFS_FIRST_FREE_OBJECTID ||
        ioctl(fd, BTRFS_IOC_SUBVOL_GETFLAGS, &flags) < 0 || !(flags & BTRFS_SUBVOL_RDONLY))
        return;
    flags &= ~(uint64_t)BTRFS_SUBVOL_RDONLY;
    (void)ioctl(fd, BTRFS_IOC_SUBVOL_SETFLAGS,
                &flags); /* else what is in it can not be removed, and says so */
}

int inode_pin(int dir_fd, const char *name, const struct statx *st)
{
    auto_close int fd = openat(dir_fd, name, O_PATH | O_NOFOLLOW | O_CLOEXEC);
    struct statx now;

    if (fd < 0)
        return -errno;
    if (inode_stat(fd, "", &now) < 0 || now.stx_ino != st->stx_ino ||
        now.stx_dev_major != st->stx_dev_major || now.stx_dev_minor != st->stx_dev_minor ||
        now.stx_mnt_id != st->stx_mnt_id || now.stx_uid != st->stx_uid ||
        now.stx_gid != st->stx_gid)
        return -ENOENT;
    return mem_take_fd(&fd);
}

bool inode_is_remnant(const struct sweep *sweep, const struct statx *st)
{
    return sweep->places->remnant_uid && st->stx_uid == sweep->places->remnant_uid;
}

static int list_remove(const char *path, const char *attribute)
{
    return removexattr(path, attribute) < 0 && errno != ENODATA && errno != EOPNOTSUPP ? -errno : 0;
}

static int lists_remove(const char *path)
{
    int r = list_remove(path, "system.posix_acl_access");

    return r < 0 ? r : list_remove(path, "system.posix_acl_default");
}

/* What a change of owner leaves. Not before it: the former owner could change that back. */
static int mode_reduce(int fd, bool keep_uid)
{
    char path[64];
    struct stat st;
    mode_t left = 0;
    int r;

    if (fstat(fd, &st) < 0)
        return -errno;
    if (S_ISLNK(st.st_mode) || (keep_uid && !S_ISDIR(st.st_mode)))
        return 0;
    if (S_ISDIR(st.st_mode))
        left = keep_uid ? 01777 : 0755;
    (void)snprintf(path, sizeof(path), "/proc/self/fd/%d", fd); /* fchmod takes none of O_PATH */
    r = keep_uid ? 0 : lists_remove(path);
    if (r < 0)
        return r;
    return chmod(path, st.st_mode & left) < 0 ? -errno : 0;
}

int inode_disown(const struct sweep *sweep, int fd, bool keep_uid)
{
    const struct sweep_places *p = sweep->places;
    uid_t uid = keep_uid ? (uid_t)-1 : p->remnant_uid;

    if (!p->remnant_uid || !p->remnant_gid)
        return INODE_NO_REMNANT;
    return fchownat(fd, "", uid, p->remnant_gid, AT_EMPTY_PATH | AT_SYMLINK_NOFOLLOW) < 0
               ? -errno
               : mode_reduce(fd, keep_uid);
}

/* Where it is, as far as the detail has room for it: somebody will look for it. */
static void folder_path(int dir_fd, size_t room, char ret[static SWEEP_DETAIL_MAX])
{
    char link[64];
    ssize_t len;

    (void)snprintf(link, sizeof(link), "/proc/self/fd/%d", dir_fd);
    len = dir_fd < 0 ? -1 : readlink(link, ret, SWEEP_DETAIL_MAX);
    if (len <= 0 || ret[0] != '/' || (size_t)len + 1 > room)
        len = 0;
    else if (len > 1)
        ret[len++] = '/';
    ret[len] = '\0';
}

void inode_kept(struct sweep *sweep, uint32_t uid, enum reason reason, int dir_fd, const char *name,
                int r)
{
    const char *why = r == INODE_NO_REMNANT ? "there is no user " REMNANT_USER " to give it to"
                                            : err_text(r);
    size_t used = strlen(name) + strlen(": ") + strlen(why) + 1;
    char folder[SWEEP_DETAIL_MAX];

    if (r == -EPERM && reason == REASON_FILE)
        reason = REASON_FILE_IMMUTABLE;
    folder_path(dir_fd, used < SWEEP_DETAIL_MAX ? SWEEP_DETAIL_MAX - used : 0, folder);
    sweep_found(sweep, uid, reason, "%s%s: %s", folder, name, why);
}

/* Before its name goes: another may be left where nobody looks. */
static int linked_disown(struct sweep *sweep, int dir_fd, const char *name, const struct statx *st)
{
    auto_close int fd = inode_pin(dir_fd, name, st);
    int r = fd < 0 ? fd : inode_disown(sweep, fd, false);

    if (r == -EPERM && flags_clear(dir_fd, name))
        r = inode_disown(sweep, fd, false);
    return r;
}

static int file_end(struct sweep *sweep, int dir_fd, const char *name, const struct statx *st)
{
    int r;

    if (!sweep_wants(sweep, st->stx_uid)) {
        auto_close int fd = inode_pin(dir_fd, name, st);
        return fd < 0 ? fd : inode_disown(sweep, fd, true);
    }
    if (st->stx_nlink > 1) {
        r = linked_disown(sweep, dir_fd, name, st);
        if (r != 0)
            return r == -ENOENT ? 0 : r; /* it has changed: the next round tells */
    }
    return inode_unlink(sweep, dir_fd, name, false);
}

void inode_sweep(struct sweep *sweep, int dir_fd, const char *name, const struct statx *st,
                 enum reason reason)
{
    uint32_t uid = inode_wanted(sweep, st->stx_uid, st->stx_gid);
    int r;

    if (!sweep->remove) {
        sweep_found(sweep, uid, reason, "%s", name);
        return;
    }
    r = file_end(sweep, dir_fd, name, st);
    if (r == 0) {
        sweep_found(sweep, uid, reason, "%s", name);
        sweep_removed(sweep);
    } else {
        inode_kept(sweep, uid, reason, dir_fd, name, r);
    }
}
