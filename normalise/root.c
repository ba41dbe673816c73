#include "normalise/root.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/magic.h>
#include <linux/openat2.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/vfs.h>
#include <unistd.h>

#include "common/mem.h"
#include "normalise/handle.h"
#include "normalise/mounts.h"

/* The kernel's own, where there are no files of anybody. */
static const char *const no_files[] = {"proc",   "sysfs",      "cgroup",  "cgroup2", "devpts",
                                       "mqueue", "securityfs", "debugfs", "tracefs", "bpf"};

/* Those that stamp a folder, by their own clock, whenever a name in it comes or goes, and let nobody set that time. */
static const char *const known_times[] = {"ext2",  "ext3",    "ext4", "xfs",  "btrfs",
                                          "tmpfs", "overlay", "nfs",  "nfs4", "zfs"};

static int top_open(const char *path)
{
    struct open_how how = {
        .flags = O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY,
        .resolve = RESOLVE_NO_SYMLINKS | RESOLVE_NO_MAGICLINKS,
    };
    long fd = syscall(SYS_openat2, AT_FDCWD, path, &how, sizeof how);

    return fd < 0 ? -errno : (int)fd;
}

static int top_stat(int fd, struct statx *ret)
{
    return statx(fd, "", AT_EMPTY_PATH, STATX_BASIC_STATS | STATX_MNT_ID, ret) < 0 ? -errno : 0;
}

/* The machine's own, by whatever path. */
static bool is_slash(const struct statx *st)
{
    struct statx slash;

    return statx(AT_FDCWD, "/", 0, STATX_BASIC_STATS, &slash) == 0 &&
           slash.stx_ino == st->stx_ino && slash.stx_dev_major == st->stx_dev_major &&
           slash.stx_dev_minor == st->stx_dev_minor;
}

static char *real_path(int fd)
{
    char link[64], path[PATH_MAX];
    ssize_t n;

    (void)snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
    n = readlink(link, path, sizeof path);
    return n <= 0 ? strdup("") : mem_dup(path, (size_t)n);
}

struct looked_for {
    struct root *root;
    bool found, mapped;
};

static bool is_below(const char *path, const char *top)
{
    size_t len = strlen(top);

    return len && strncmp(path, top, len) == 0 && path[len] == '/' && path[len + 1];
}

static bool mount_look(void *arg, const struct mount_info *mount)
{
    struct looked_for *l = arg;

    if (mount->id == l->root->mount) {
        l->found = true;
        l->mapped = mount->mapped;
        memcpy(l->root->type, mount->type, sizeof l->root->type);
    }
    if (is_below(mount->path, l->root->real))
        l->root->tally.mounts++;
    return true;
}

struct mounts_arg {
    const struct root *root;
    void (*tell)(void *arg, const char *path);
    void *arg;
};

static bool mount_tell(void *arg, const struct mount_info *mount)
{
    const struct mounts_arg *a = arg;

    if (is_below(mount->path, a->root->real))
        a->tell(a->arg, mount->path);
    return true;
}

int root_mounts(const struct root *root, void (*tell)(void *arg, const char *path), void *arg)
{
    struct mounts_arg a = {root, tell, arg};

    return mounts_each(mount_tell, &a);
}

static bool has_times(const struct root *root)
{
    for (size_t i = 0; i < ARRAY_LEN(known_times); i++)
        if (strcmp(root->type, known_times[i]) == 0)
            return true;
    return false;
}

static int type_check(const struct root *root, const struct looked_for *looked, bool allow_overlay,
                      struct err *err)
{
    if (!looked->found)
        return err_set(err, -EINVAL, "%s: its mount is not in the mount table", root->path);
    if (looked->mapped)
        return err_set(err, -EINVAL, "%s: its mount maps ids: name the one with the ids on disk",
                       root->path);
    if (strcmp(root->type, "overlay") == 0 && !allow_overlay)
        return err_set(err, -EINVAL,
                       "%s is an overlay, where each change of an owner copies the file: it needs"
                       " --allow-overlay",
                       root->path);
    for (size_t i = 0; i < ARRAY_LEN(no_files); i++)
        if (strcmp(root->type, no_files[i]) == 0)
            return err_set(err, -EINVAL, "%s is a %s, where nobody has files", root->path,
                           root->type);
    return 0;
}

/* Nothing propagates into it, nothing is run or followed in it. It goes with its last descriptor. */
static int mount_copy(int fd)
{
    struct mount_attr attr = {
        .attr_set = MOUNT_ATTR_NOSUID | MOUNT_ATTR_NODEV | MOUNT_ATTR_NOEXEC |
                    MOUNT_ATTR_NOSYMFOLLOW | MOUNT_ATTR_NOATIME,
        .attr_clr = MOUNT_ATTR__ATIME,
        .propagation = MS_PRIVATE,
    };
    auto_close int tree = open_tree(fd, "", OPEN_TREE_CLONE | OPEN_TREE_CLOEXEC | AT_EMPTY_PATH);
    int top;

    if (tree < 0 || mount_setattr(tree, "", AT_EMPTY_PATH, &attr, sizeof attr) < 0)
        return -errno;
    top = openat(tree, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NONBLOCK);
    return top < 0 ? -errno : top;
}

/* See it by a copy of its mount, if that can be had and is of the same folder. */
static void mount_own(struct root *root)
{
    auto_close int top = mount_copy(root->fd);
    struct statx st;

    if (top < 0 || top_stat(top, &st) < 0 || st.stx_ino != root->ino ||
        st.stx_dev_major != root->dev_major || st.stx_dev_minor != root->dev_minor)
        return;
    (void)close(root->fd);
    root->fd = mem_take_fd(&top);
    root->mount = st.stx_mnt_id;
    root->own_mount = true;
}

static int identify(struct root *root, struct err *err)
{
    struct statx st;
    struct statfs fs;
    int r = top_stat(root->fd, &st);

    if (r == 0 && fstatfs(root->fd, &fs) < 0)
        r = -errno;
    if (r < 0)
        return err_set(err, r, "%s: %s", root->path, err_text(r));
    if (is_slash(&st))
        return err_set(err, -EINVAL, "%s is the root of the machine", root->path);
    root->mount = st.stx_mnt_id;
    root->ino = st.stx_ino;
    root->dev_major = st.stx_dev_major;
    root->dev_minor = st.stx_dev_minor;
    memcpy(&root->fsid, &fs.f_fsid, sizeof root->fsid);
    return 0;
}

int root_open(const char *path, bool allow_overlay, struct root *ret, struct err *err)
{
    struct looked_for looked = {.root = ret};
    int r;

    ret->path = path;
    ret->fd = top_open(path);
    if (ret->fd == -ELOOP)
        return err_set(err, -ELOOP, "%s: there is a symlink on the way: name where it leads", path);
    if (ret->fd < 0)
        return err_set(err, ret->fd, "%s: %s", path, err_text(ret->fd));
    r = identify(ret, err);
    if (r < 0)
        return r;
    ret->real = real_path(ret->fd);
    if (!ret->real)
        return err_set(err, -ENOMEM, "no memory");
    r = mounts_each(mount_look, &looked);
    if (r < 0)
        return err_set(err, r, "the mount table: %s", err_text(r));
    r = type_check(ret, &looked, allow_overlay, err);
    if (r < 0)
        return r;
    ret->times = has_times(ret);
    mount_own(ret);
    ret->handles = handle_try(ret->fd);
    return 0;
}

void root_done(struct root *root)
{
    if (root->path && root->fd >= 0)
        (void)close(root->fd);
    free(root->real);
    *root = (struct root){.fd = -1};
}
