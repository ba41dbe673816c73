/* What only an open descriptor keeps, in any process: files of the uid without a name, and IPC namespaces.
 *
 * A file may have been given to a process of somebody else (SCM_RIGHTS), who outlives the lease. It has no name any more, or
 * never had one (O_TMPFILE, memfd_create), but whoever has it open may give it one, with its owner and its set-user-ID bit,
 * when the uid is another's. It is given to the user for remnants: who has it open goes on with it. One that a server answers
 * for is a finding as long as it is open.
 *
 * A socket or pipe that the uid made can be given to nobody: a socket says of its peer, and of who listens, who made it. It is a
 * finding as long as it is open.
 *
 * Not seen is what no process has open: on its way between two sockets, registered with io_uring, or only mapped; from a mapping
 * nobody but root gets back to the file. */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/kcmp.h>
#include <linux/memfd.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "common/err.h"
#include "common/mem.h"
#include "noded/sweep/inode.h"
#include "noded/sweep/ipc.h"
#include "noded/sweep/kinds.h"
#include "noded/sweep/machine.h"
#include "noded/sweep/mount_table.h"
#include "noded/sweep/proc.h"
#include "noded/sweep/uids.h"

struct open_walk {
    struct sweep *sweep;
    int proc_fd;
    struct ipc_spaces spaces;
    struct statx socket, pipe; /* some: what others have are on the same devices */
    pid_t pid;                 /* being looked at */
};

/* Of a file system whose server does not answer, or not to root: there the kernel does not say whose a file is. */
static bool is_passed_over(int error)
{
    return error == ENOENT || error == ESRCH || error == EACCES || error == EIO ||
           error == ESTALE || error == ENOTCONN;
}

/* Through the link, without asking a server. 0; -errno. */
static int target_stat(int dir_fd, const char *name, struct statx *ret)
{
    return statx(dir_fd, name, AT_NO_AUTOMOUNT | AT_STATX_DONT_SYNC, STATX_BASIC_STATS, ret) < 0
               ? -errno
               : 0;
}

static bool is_beside(const struct statx *a, const struct statx *b)
{
    return a->stx_dev_major == b->stx_dev_major && a->stx_dev_minor == b->stx_dev_minor;
}

static bool is_same(const struct statx *a, const struct statx *b)
{
    return a->stx_ino == b->stx_ino && is_beside(a, b);
}

/* ---- whether the kernel alone answers for a file ---- */

struct mount_asked {
    uint64_t id;
    bool machines; /* its table, not that of a process */
    bool local;
};

static void mount_compare(struct sweep *sweep, const struct mount_entry *entry, void *arg)
{
    struct mount_asked *asked = arg;
    enum mount_class class;

    if (entry->id != asked->id)
        return;
    class = mount_classify(sweep, entry);
    /* The machine's own root, of whatever type: with it hangs everything. */
    asked->local = class == MOUNT_LOCAL || class == MOUNT_EMPTY ||
                   (asked->machines && strcmp(entry->path, "/") == 0);
}

/* What memfd_create() made lies in no mount that a table shows. */
static bool is_of_memory(const struct statx *st)
{
    static const unsigned flags[] = {0, MFD_HUGETLB, MFD_HUGETLB | MFD_HUGE_2MB,
                                     MFD_HUGETLB | MFD_HUGE_1GB};
    bool is = false;

    for (size_t i = 0; !is && i < ARRAY_LEN(flags); i++) {
        auto_close int fd = memfd_create("xce", MFD_CLOEXEC | flags[i]);
        struct statx memory;
        is = fd >= 0 && inode_stat(fd, "", &memory) == 0 && is_beside(&memory, st);
    }
    return is;
}

/* To change one that a server answers for may hang for ever. st is of what is pinned, so that its mount keeps its number. */
static bool is_local(struct open_walk *w, const struct statx *st)
{
    struct mount_asked asked = {.id = st->stx_mnt_id, .machines = true};

    if (is_of_memory(st) || (mount_table_each(w->sweep, mount_compare, &asked) == 0 && asked.local))
        return true;
    asked.machines = false;
    return mount_table_of(w->sweep, w->pid, mount_compare, &asked) == 0 && asked.local;
}

/* ---- one descriptor ---- */

/* 0; -ENOENT it is not open there any more, or not of a wanted id; -EREMOTE a server answers for it; else as inode_disown. */
static int disown(struct open_walk *w, int dir_fd, const char *name, const struct statx *st)
{
    struct sweep *sweep = w->sweep;
    auto_close int fd = openat(dir_fd, name, O_PATH | O_CLOEXEC);
    struct statx now;
    int r = fd < 0 ? -errno : inode_stat(fd, "", &now);

    if (r < 0)
        return r;
    if (!is_same(st, &now) || !inode_wanted(sweep, now.stx_uid, now.stx_gid))
        return -ENOENT;
    if (!is_local(w, &now))
        return -EREMOTE;
    return inode_disown(sweep, fd, !sweep_wants(sweep, now.stx_uid));
}

static void unlinked_end(struct open_walk *w, int dir_fd, const char *name, const struct statx *st)
{
    uint32_t uid = inode_wanted(w->sweep, st->stx_uid, st->stx_gid);
    int r = w->sweep->remove ? disown(w, dir_fd, name, st) : 0;
    char shown[64];

    (void)snprintf(shown, sizeof(shown), "%s of pid %d", name, w->pid);
    if (r != 0 && r != -ENOENT) {
        inode_kept(w->sweep, uid, REASON_OPEN_FILE, -1, shown, r);
        return;
    }
    sweep_found(w->sweep, uid, REASON_OPEN_FILE, "%s", shown);
    if (w->sweep->remove)
        sweep_removed(w->sweep);
}

/* Whether it is a socket or a pipe without a name; one of a socket or FIFO in a folder is a file. */
static bool is_connection(const struct open_walk *w, const struct statx *st)
{
    return is_beside(st, &w->socket) || is_beside(st, &w->pipe);
}

static void connection_look(struct open_walk *w, const char *name, const struct statx *st)
{
    uint32_t uid = inode_wanted(w->sweep, st->stx_uid, st->stx_gid);

    if (uid)
        sweep_found(w->sweep, uid, REASON_OPEN_FILE, "%s of pid %d, a %s", name, w->pid,
                    S_ISSOCK(st->stx_mode) ? "socket" : "pipe");
}

static void target_look(struct open_walk *w, int dir_fd, const char *name)
{
    struct statx st;
    int r = target_stat(dir_fd, name, &st);

    if (r < 0) {
        if (!is_passed_over(-r))
            sweep_failed(w->sweep, "an open file", r);
    } else if (st.stx_dev_major == w->spaces.dev_major && st.stx_dev_minor == w->spaces.dev_minor) {
        ipc_descriptor_look(w->sweep, &w->spaces, dir_fd, name);
    } else if (is_connection(w, &st)) {
        connection_look(w, name, &st);
    } else if (st.stx_nlink == 0 && inode_wanted(w->sweep, st.stx_uid, st.stx_gid)) {
        unlinked_end(w, dir_fd, name, &st);
    }
}

/* ---- all processes ---- */

/* A folder of /proc/PID; absent when the process has gone. */
static DIR *folder_open(struct open_walk *w, const char *path)
{
    auto_close int fd = openat(w->proc_fd, path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    DIR *dir = fd < 0 ? NULL : fdopendir(fd);

    if (dir)
        (void)mem_take_fd(&fd);
    else if (errno != ENOENT && errno != ESRCH)
        sweep_failed(w->sweep, path, errno);
    return dir;
}

static void descriptors_look(struct open_walk *w, const char *path)
{
    auto_closedir DIR *dir = folder_open(w, path);
    struct dirent *entry;

    while (dir && !sweep_stopped(w->sweep) && (entry = readdir(dir)))
        if (*entry->d_name != '.') {
            sweep_step(w->sweep);
            target_look(w, dirfd(dir), entry->d_name);
        }
}

/* Threads that have descriptors of their own. */
static void threads_look(struct open_walk *w)
{
    char path[64];
    auto_closedir DIR *dir = NULL;
    struct dirent *entry;

    (void)snprintf(path, sizeof(path), "%d/task", w->pid);
    if (proc_has_one_thread(w->proc_fd, path))
        return;
    dir = folder_open(w, path);
    while (dir && (entry = readdir(dir))) {
        pid_t tid = proc_parse_pid(entry->d_name);
        if (!tid || tid == w->pid || syscall(SYS_kcmp, w->pid, tid, KCMP_FILES, 0L, 0L) == 0)
            continue;
        (void)snprintf(path, sizeof(path), "%d/task/%d/fd", w->pid, tid);
        descriptors_look(w, path);
    }
}

/* Whether not even root is told what the process has open. The init of a sandbox, which has started us, may be such a one. */
static bool process_is_closed(struct open_walk *w)
{
    char path[32], target[8];

    (void)snprintf(path, sizeof(path), "%d/exe", w->pid);
    if (readlinkat(w->proc_fd, path, target, sizeof(target)) >= 0 || errno != EACCES)
        return false;
    if (w->pid != 1)
        sweep_failed(w->sweep, path, EACCES);
    return true;
}

static void process_look(struct open_walk *w)
{
    char path[32];

    /* What we have open is what a walk has just removed, or will; and the child has that from us. */
    if (w->pid == getpid() || uids_is_helper(w->pid) || process_is_closed(w))
        return;
    (void)snprintf(path, sizeof(path), "%d/fd", w->pid);
    sweep_at(w->sweep, path);
    descriptors_look(w, path);
    threads_look(w);
    (void)snprintf(path, sizeof(path), "%d/exe", w->pid); /* may be opened again, too */
    target_look(w, w->proc_fd, path);
}

static void all_look(struct sweep *sweep, void *arg)
{
    struct open_walk *w = arg;
    auto_closedir DIR *dir = opendir(sweep->places->proc);
    struct dirent *entry = NULL;

    w->proc_fd = dir ? dirfd(dir) : -1;
    while (dir && (errno = 0, entry = readdir(dir)))
        if ((w->pid = proc_parse_pid(entry->d_name)))
            process_look(w);
    if (!dir || errno)
        sweep_failed(sweep, sweep->places->proc, errno);
}

static int connections_begin(struct open_walk *w)
{
    auto_close int sock = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    auto_close int in = -1, out = -1;
    int ends[2], r;

    if (sock < 0 || pipe2(ends, O_CLOEXEC) < 0)
        return -errno;
    in = ends[0];
    out = ends[1];
    r = inode_stat(sock, "", &w->socket);
    return r < 0 ? r : inode_stat(in, "", &w->pipe);
}

/* In a thread of its own, as a look into an IPC namespace is for good. */
void sweep_open_files(struct sweep *sweep)
{
    struct open_walk w = {.sweep = sweep};
    int r;

    if (sweep_goes_on(sweep))
        return;
    r = ipc_spaces_begin(&w.spaces);
    if (r == 0)
        r = connections_begin(&w);
    if (r < 0)
        sweep_failed(sweep, "open files", r);
    else
        machine_run(sweep, false, all_look, &w);
    free(w.spaces.seen);
}
