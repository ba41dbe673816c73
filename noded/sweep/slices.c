/* Everything sanctioned of a uid runs below <slice>/xce-<uid>.slice: one write to cgroup.kill ends it all, however fast it
 * forks. Processes are looked for again afterwards, so a failure here is nobody's last word. */
#include "noded/sweep/kinds.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "common/clock.h"
#include "common/mem.h"

#define DEPTH_MAX 16 /* of folders below a lease's slice */

/* 1 populated, 0 not, -errno (-ENODEV, -ENOENT: the folder has gone). */
static int slice_populated(int events_fd)
{
    char text[256];
    ssize_t n = pread(events_fd, text, sizeof(text) - 1, 0);

    if (n < 0)
        return -errno;
    text[n] = '\0';
    return strstr(text, "populated 1") != NULL;
}

static void slice_wait(struct sweep *sweep, int dir_fd, int64_t deadline_ms)
{
    auto_close int fd = openat(dir_fd, "cgroup.events", O_RDONLY | O_CLOEXEC);

    while (fd >= 0 && slice_populated(fd) == 1) {
        struct pollfd p = {.fd = fd, .events = POLLPRI};
        int64_t left = deadline_ms - clock_mono_ms();
        if (left <= 0 || poll(&p, 1, (int)left) <= 0) {
            sweep_waited_in_vain(sweep, REASON_PROCESS);
            return;
        }
    }
}

static int slice_kill(int dir_fd)
{
    auto_close int fd = openat(dir_fd, "cgroup.kill", O_WRONLY | O_CLOEXEC);

    if (fd < 0)
        return -errno;
    return write(fd, "1", 1) == 1 ? 0 : -errno;
}

static int folder_open(int at_fd, const char *path)
{
    int fd = openat(at_fd, path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);

    return fd < 0 ? -errno : fd;
}

static int slice_open(const struct sweep_places *places, uint32_t uid)
{
    char path[4096];
    int n = snprintf(path, sizeof(path), "%s/%s/xce-%u.slice", places->cgroup, places->slice, uid);

    return n < 0 || (size_t)n >= sizeof(path) ? -ENAMETOOLONG : folder_open(AT_FDCWD, path);
}

bool sweep_slice_runs(const struct sweep_places *places, uint32_t uid)
{
    auto_close int dir_fd = places->cgroup ? slice_open(places, uid) : -1;
    auto_close int fd = dir_fd < 0 ? -1 : openat(dir_fd, "cgroup.events", O_RDONLY | O_CLOEXEC);

    return fd >= 0 && slice_populated(fd) == 1;
}

/* Kill all first, then wait for all: they die at the same time. */
void sweep_slices(struct sweep *sweep)
{
    int64_t deadline_ms = clock_mono_ms() + sweep->wait_ms;

    if (!sweep->places->cgroup || !sweep->remove)
        return;
    for (int waiting = 0; waiting < 2; waiting++) {
        for (size_t i = 0; i < sweep->n_uids; i++) {
            auto_close int fd = slice_open(sweep->places, sweep->uids[i]);
            if (fd < 0 || !sweep_wants(sweep, sweep->uids[i]))
                continue;
            if (waiting)
                slice_wait(sweep, fd, deadline_ms);
            else if (slice_kill(fd) == 0)
                sweep_removed(sweep);
        }
    }
}

/* ---- what the manager has forgotten ---- */

/* "xce-UID-EPOCH.slice" of that uid. */
static bool is_slice_of(const char *name, uint32_t uid)
{
    char begin[32];
    size_t len = (size_t)snprintf(begin, sizeof(begin), "xce-%u-", uid), digits;

    if (strncmp(name, begin, len) != 0 || name[len] == '0')
        return false;
    digits = strspn(name + len, "0123456789");
    return digits > 0 && strcmp(name + len + digits, ".slice") == 0;
}

/* What is below it, from the ends on. The kernel lets no folder go in which there is a process. */
static void folders_remove(int dir_fd, unsigned depth)
{
    auto_closedir DIR *dir = fdopendir(dir_fd);
    struct dirent *entry;

    if (!dir)
        (void)close(dir_fd);
    while (dir && (entry = readdir(dir))) {
        int fd;
        if (entry->d_type != DT_DIR || entry->d_name[0] == '.')
            continue;
        fd = depth > 1 ? folder_open(dirfd(dir), entry->d_name) : -1;
        if (fd >= 0)
            folders_remove(fd, depth - 1);
        (void)unlinkat(dirfd(dir), entry->d_name, AT_REMOVEDIR);
    }
}

/* A unit in it would have it loaded, too. */
static void forgotten_remove(struct sweep *sweep, uint32_t uid, int at_fd, const char *name)
{
    const struct sweep_units *units = sweep->places->units;
    int fd;

    if (!sweep_wants(sweep, uid) || units->loaded(name, units->arg) != 0)
        return;
    fd = folder_open(at_fd, name);
    if (fd >= 0)
        folders_remove(fd, DEPTH_MAX);
    (void)unlinkat(at_fd, name, AT_REMOVEDIR);
}

/* The slices of leases in the one of the uid. */
static void forgotten_below(struct sweep *sweep, uint32_t uid, int dir_fd)
{
    auto_closedir DIR *dir = fdopendir(dir_fd);
    struct dirent *entry;

    if (!dir)
        (void)close(dir_fd);
    while (dir && (entry = readdir(dir)))
        if (entry->d_type == DT_DIR && is_slice_of(entry->d_name, uid))
            forgotten_remove(sweep, uid, dirfd(dir), entry->d_name);
}

/* systemd can forget a slice, but for its folder, when it is executed anew (daemon-reexec) just as the last process in it
 * ends. Nothing runs in such a folder, so that it stays is no finding. */
void sweep_slice_folders(struct sweep *sweep)
{
    const struct sweep_places *places = sweep->places;
    auto_close int top_fd = -1;
    char path[4096], name[32];

    if (!places->cgroup || !sweep->remove || !places->units || !places->units->loaded)
        return;
    if ((size_t)snprintf(path, sizeof(path), "%s/%s", places->cgroup, places->slice) < sizeof(path))
        top_fd = folder_open(AT_FDCWD, path);
    for (size_t i = 0; top_fd >= 0 && i < sweep->n_uids; i++) {
        int fd;
        (void)snprintf(name, sizeof(name), "xce-%u.slice", sweep->uids[i]);
        fd = folder_open(top_fd, name);
        if (fd < 0)
            continue;
        forgotten_below(sweep, sweep->uids[i], fd);
        if (sweep_wants(sweep, sweep->uids[i]) &&
            places->units->loaded(name, places->units->arg) == 0)
            (void)unlinkat(top_fd, name, AT_REMOVEDIR);
    }
}
