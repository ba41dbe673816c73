/* IPC objects in every namespace that anything keeps: the one that noded lives in, those of all threads, those that are
 * mounted, and those that only an open descriptor keeps (which open_files.c meets). One that only a mount in another mount
 * namespace keeps is not found. */
#include "noded/sweep/ipc.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include "common/mem.h"
#include "noded/sweep/inode.h"
#include "noded/sweep/kinds.h"
#include "noded/sweep/machine.h"
#include "noded/sweep/mount_pin.h"
#include "noded/sweep/mount_table.h"
#include "noded/sweep/proc.h"

#define SPACES_MAX 65536

/* Where it stands among those seen, or would. */
static size_t space_place(const struct ipc_spaces *s, uint64_t ino)
{
    size_t low = 0, high = s->n_seen;

    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (s->seen[middle] < ino)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

static bool space_seen(const struct ipc_spaces *s, uint64_t ino)
{
    size_t at = space_place(s, ino);

    return at < s->n_seen && s->seen[at] == ino;
}

static int space_add(struct ipc_spaces *s, uint64_t ino)
{
    size_t at = space_place(s, ino);
    int r = mem_grow(&s->seen, &s->cap_seen, s->n_seen + 1, SPACES_MAX, sizeof(*s->seen));

    if (r < 0)
        return r;
    memmove(s->seen + at + 1, s->seen + at, (s->n_seen++ - at) * sizeof(*s->seen));
    s->seen[at] = ino;
    return 0;
}

int ipc_spaces_begin(struct ipc_spaces *s)
{
    struct stat st;

    if (stat("/proc/thread-self/ns/ipc", &st) < 0)
        return -errno;
    s->dev_major = major(st.st_dev);
    s->dev_minor = minor(st.st_dev);
    return space_add(s, st.st_ino);
}

static void objects_look(struct sweep *sweep)
{
    ipc_sysv_look(sweep);
    ipc_mqueues_look(sweep);
}

/* "ipc:[4026531839]" */
static bool space_parse(const char *link, uint64_t *ret_ino)
{
    unsigned long long ino;
    int end = 0;

    if (sscanf(link, "ipc:[%llu]%n", &ino, &end) != 1 || !end || link[end])
        return false;
    *ret_ino = ino;
    return true;
}

/* What is pinned, if it is the namespace of that number; -ENOENT it is something else by now; -errno. Not opened before that
 * is known: a FIFO would hang it. */
static int space_open(const struct ipc_spaces *s, int pinned, uint64_t ino)
{
    char self[64];
    struct statx st;
    int r = inode_stat(pinned, "", &st);

    if (r < 0)
        return r;
    if (st.stx_ino != ino || st.stx_dev_major != s->dev_major || st.stx_dev_minor != s->dev_minor)
        return -ENOENT;
    (void)snprintf(self, sizeof(self), "/proc/self/fd/%d", pinned);
    r = open(self, O_RDONLY | O_CLOEXEC);
    return r < 0 ? -errno : r;
}

/* Go into it, if it is the namespace of that number, and look. 0; -ENOENT it is another; -errno. */
static int space_enter(struct sweep *sweep, struct ipc_spaces *s, int pinned, uint64_t ino)
{
    auto_close int fd = space_open(s, pinned, ino);

    if (fd < 0)
        return fd;
    if (setns(fd, CLONE_NEWIPC) < 0)
        return -errno;
    objects_look(sweep);
    return space_add(s, ino);
}

/* The same by a link of /proc. */
static int space_enter_at(struct sweep *sweep, struct ipc_spaces *s, int dir_fd, const char *path,
                          uint64_t ino)
{
    auto_close int pinned = openat(dir_fd, path, O_PATH | O_CLOEXEC);

    return pinned < 0 ? -errno : space_enter(sweep, s, pinned, ino);
}

void ipc_descriptor_look(struct sweep *sweep, struct ipc_spaces *s, int dir_fd, const char *name)
{
    char link[64];
    ssize_t len = readlinkat(dir_fd, name, link, sizeof(link) - 1);
    uint64_t ino;
    int r;

    if (len < 0)
        return; /* closed meanwhile */
    link[len] = '\0';
    if (!space_parse(link, &ino) || space_seen(s, ino))
        return;
    r = space_enter_at(sweep, s, dir_fd, name, ino);
    if (r < 0 && r != -ENOENT)
        sweep_failed(sweep, link, r);
}

/* ---- of threads ---- */

static void task_look(struct sweep *sweep, struct ipc_spaces *s, pid_t pid, pid_t tid)
{
    char path[PATH_MAX], link[64];
    uint64_t ino;
    ssize_t len;
    int r;

    if (tid == pid) /* the same, and a shorter way */
        (void)snprintf(path, sizeof(path), "%s/%d/ns/ipc", sweep->places->proc, pid);
    else
        (void)snprintf(path, sizeof(path), "%s/%d/task/%d/ns/ipc", sweep->places->proc, pid, tid);
    len = readlink(path, link, sizeof(link) - 1);
    if (len < 0) {
        r = -errno;
    } else {
        link[len] = '\0';
        r = !space_parse(link, &ino) ? -EBADMSG
            : space_seen(s, ino)     ? 0
                                     : space_enter_at(sweep, s, AT_FDCWD, path, ino);
    }
    if (r < 0 && r != -ENOENT && r != -ESRCH) /* it has ended, or gone elsewhere */
        sweep_failed(sweep, path, r);
}

/* Call fn for each folder of path whose name is a number. */
static void numbers_each(struct sweep *sweep, struct ipc_spaces *s, const char *path, pid_t of,
                         void (*fn)(struct sweep *sweep, struct ipc_spaces *s, pid_t of, pid_t id))
{
    auto_closedir DIR *dir = opendir(path);
    struct dirent *entry = NULL;

    while (dir && (errno = 0, entry = readdir(dir))) {
        pid_t id = proc_parse_pid(entry->d_name);
        if (id)
            fn(sweep, s, of, id);
    }
    if (errno && errno != ENOENT && errno != ESRCH)
        sweep_failed(sweep, path, errno);
}

static void process_look(struct sweep *sweep, struct ipc_spaces *s, pid_t of, pid_t pid)
{
    char path[PATH_MAX];

    (void)of;
    if (pid == 1)
        return; /* it has started us in its own, and may be closed even to root (a sandbox's init) */
    (void)snprintf(path, sizeof(path), "%s/%d/task", sweep->places->proc, pid);
    if (proc_has_one_thread(AT_FDCWD, path))
        task_look(sweep, s, pid, pid);
    else
        numbers_each(sweep, s, path, pid, task_look);
}

/* ---- that are mounted ---- */

static void mounted_look(struct sweep *sweep, const struct mount_entry *entry, void *arg)
{
    auto_unpin struct mount_pin pin = MOUNT_PIN_NONE;
    struct ipc_spaces *s = arg;
    uint64_t ino;
    int r;

    if (strcmp(entry->type, "nsfs") != 0 || !space_parse(entry->root, &ino) || space_seen(s, ino))
        return;
    r = mount_pin(sweep, entry->path, entry->id, &pin);
    if (r == 0)
        r = space_enter(sweep, s, pin.top, ino);
    if (r < 0)
        sweep_failed(sweep, entry->path, r);
}

static void spaces_look(struct sweep *sweep, void *arg)
{
    numbers_each(sweep, arg, sweep->places->proc, 0, process_look);
    (void)mount_table_each(sweep, mounted_look, arg);
}

void sweep_ipc(struct sweep *sweep)
{
    struct ipc_spaces spaces = {0};
    int r;

    objects_look(sweep);
    r = ipc_spaces_begin(&spaces);
    if (r < 0)
        sweep_failed(sweep, "IPC namespace", r);
    else
        machine_run(sweep, false, spaces_look, &spaces);
    free(spaces.seen);
}
