#include "noded/sweep/mount_pin.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/openat2.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "common/mem.h"
#include "noded/sweep/inode.h"
#include "noded/sweep/mount_table.h"

/* Somebody renames all the time: another try. */
#define TRIES_MAX 16

static int open_at(int dir_fd, const char *path, uint64_t flags, uint64_t resolve)
{
    struct open_how how = {
        .flags = flags | O_PATH | O_CLOEXEC,
        .resolve = resolve | RESOLVE_NO_SYMLINKS | RESOLVE_NO_MAGICLINKS,
    };
    long fd = syscall(SYS_openat2, dir_fd, path, &how, sizeof(how));

    return fd < 0 ? -errno : (int)fd;
}

/* Mount points and the folders above them are in the kernel's memory as long as the mount is there. What is not there may be a
 * way that leads elsewhere, into a file system of a server that is dead: -EAGAIN. */
static int open_cached(int dir_fd, const char *path, uint64_t flags)
{
    int fd = -EAGAIN;

    for (int tried = 0; fd == -EAGAIN && tried < TRIES_MAX; tried++)
        fd = open_at(dir_fd, path, flags, RESOLVE_CACHED);
    return fd;
}

/* To be asked for nothing but this is answered by the kernel alone, and is allowed where nothing else is (FUSE). */
static int mount_id(int fd, uint64_t *ret)
{
    const int flags = AT_EMPTY_PATH | AT_NO_AUTOMOUNT | AT_STATX_DONT_SYNC;
    struct statx st;

    if (statx(fd, "", flags, 0, &st) < 0)
        return -errno;
    if (!(st.stx_mask & STATX_MNT_ID))
        return -EOPNOTSUPP;
    *ret = st.stx_mnt_id;
    return 0;
}

struct asked {
    uint64_t id;
    bool own;
};

static void own_look(struct sweep *sweep, const struct mount_entry *entry, void *arg)
{
    struct asked *asked = arg;

    enum mount_class class;

    if (entry->id != asked->id)
        return;
    class = mount_classify(sweep, entry);
    /* The machine's own root, of whatever type: with it hangs everything. */
    asked->own = class == MOUNT_LOCAL || class == MOUNT_EMPTY || strcmp(entry->path, "/") == 0;
}

/* Whether the kernel alone answers for what is in that folder. */
static bool is_own(struct sweep *sweep, int folder)
{
    struct asked asked = {.own = false};

    return mount_id(folder, &asked.id) == 0 && mount_table_each(sweep, own_look, &asked) == 0 &&
           asked.own;
}

/* A name in a folder. Some of the kernel's own file systems (proc, sysfs) will not be gone along in memory alone. */
static int step_open(struct sweep *sweep, int folder, const char *name, uint64_t flags)
{
    int fd = open_cached(folder, name, flags);

    return fd == -EAGAIN && is_own(sweep, folder) ? open_at(folder, name, flags, 0) : fd;
}

/* Takes path to pieces. */
static int folder_open(struct sweep *sweep, char *path)
{
    int fd = open_cached(AT_FDCWD, *path ? path : "/", O_DIRECTORY);

    if (fd != -EAGAIN)
        return fd;
    fd = open_at(AT_FDCWD, "/", O_DIRECTORY, 0);
    for (char *name; fd >= 0 && (name = strsep(&path, "/"));) {
        auto_close int above = fd;
        fd = *name ? step_open(sweep, above, name, O_DIRECTORY) : mem_take_fd(&above);
    }
    return fd;
}

int mount_pin_folder(struct sweep *sweep, const char *path, struct mount_pin *ret)
{
    const char *slash = strrchr(path, '/');
    char folder[PATH_MAX];
    int fd;

    if (!slash || !slash[1])
        return -EBUSY; /* the root of all */
    if (slash - path >= PATH_MAX)
        return -ENAMETOOLONG;
    memcpy(folder, path, (size_t)(slash - path));
    folder[slash - path] = '\0';
    fd = folder_open(sweep, folder);
    if (fd < 0)
        return fd;
    *ret = (struct mount_pin){fd, -1, slash + 1};
    return 0;
}

int mount_pin(struct sweep *sweep, const char *path, uint64_t id, struct mount_pin *ret)
{
    auto_unpin struct mount_pin pin = MOUNT_PIN_NONE;
    uint64_t there;
    int r = mount_pin_folder(sweep, path, &pin);

    if (r < 0)
        return r;
    pin.top = step_open(sweep, pin.folder, pin.name, O_NOFOLLOW);
    if (pin.top < 0)
        return pin.top == -ENOENT ? -ESTALE : pin.top;
    r = mount_id(pin.top, &there);
    if (r < 0)
        return r;
    if (there != id)
        return -ESTALE;
    *ret = pin;
    pin = MOUNT_PIN_NONE;
    return 0;
}

void mount_pin_done(struct mount_pin *pin)
{
    mem_auto_close(&pin->top);
    mem_auto_close(&pin->folder);
}

int mount_pin_detach(const struct mount_pin *pin)
{
    char path[PATH_MAX + 64];

    /* A descriptor keeps a mount busy: it can not but be detached. */
    if (pin->top >= 0) {
        (void)snprintf(path, sizeof(path), "/proc/self/fd/%d", pin->top);
        return umount2(path, MNT_DETACH) < 0 ? -errno : 0;
    }
    (void)snprintf(path, sizeof(path), "/proc/self/fd/%d/%s", pin->folder, pin->name);
    return umount2(path, MNT_DETACH | UMOUNT_NOFOLLOW) < 0 ? -errno : 0;
}

int mount_pin_stat(const struct mount_pin *pin, struct statx *ret)
{
    return inode_stat(pin->folder, pin->name, ret);
}
