/* Processes and threads that bear an id, in any of its places.
 *
 * A process is killed the moment it is met: /proc is read in order of pids and children mostly come behind their parents,
 * so even what forks as fast as it can is caught up with. Before the signal a pidfd pins the process and its status is
 * read anew: the signal can not hit one that took over the pid, nor one whose lease has become sanctioned meanwhile.
 * A file server that is root's takes on the ids of whom it serves, for each call and often in one thread of many. That is
 * no process of the uid: it is never killed, and is a finding only if one thread bears the same id in each of many looks.
 * A zombie bears its ids but can do nothing and holds nothing: it is passed over, or a parent that never reaps would keep
 * a uid for ever. */
#include "noded/sweep/proc.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/pidfd.h>
#include <time.h>
#include <unistd.h>

#include "common/clock.h"
#include "common/mem.h"
#include "noded/sweep/kinds.h"
#include "noded/sweep/uids.h"

#define STATUS_FIRST    (16u << 10)
#define STATUS_MAX      (2u << 20) /* 65,536 groups of 11 characters, and more */
#define WAITING_MAX     512
#define BORROWERS_MAX   256
#define BORROWER_LOOKS  3
#define BORROWER_GAP_NS 15000000L
#define LENT_MAX        1024
#define LENT_LOOKS      40
#define LENT_GAP_NS     10000000L
#define ONE_ENTRY       40 /* room for one of struct dirent64 with the number of a process, not for two */

/* How a process bears an id. */
enum bears {
    BEARS_NOT = 0,
    BEARS_LENT,    /* by root: nothing but what a server sets for a call */
    BEARS_ON_LOAN, /* only as file system id, gid or group of a process of somebody else */
    BEARS_OWN,     /* a real, effective or saved uid of some thread */
};

struct proc_walk {
    struct sweep *sweep;
    int proc_fd;
    char *text;
    size_t cap;
    /* Killed, not seen to end yet. */
    struct waiting {
        int fd;
        pid_t pid;
        uint32_t uid;
    } waiting[WAITING_MAX];
    size_t n_waiting;
    pid_t borrowers[BORROWERS_MAX];
    size_t n_borrowers;
    /* Threads of root with an id, and which. */
    struct lent {
        pid_t pid, tid;
        uint32_t uid;
    } lent[LENT_MAX];
    size_t n_lent;
    bool report;
    bool lent_too; /* report also those */
};

static bool walk_grow(struct proc_walk *w)
{
    char *more = realloc(w->text, w->cap * 2);

    if (!more)
        return false;
    w->text = more;
    w->cap *= 2;
    return true;
}

/* Read a file below /proc whole into w->text. 0; -ENOENT or -ESRCH the process has gone; -errno. */
static int walk_read(struct proc_walk *w, const char *path)
{
    auto_close int fd = openat(w->proc_fd, path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
    size_t len = 0;

    if (fd < 0)
        return -errno;
    for (;;) {
        ssize_t n = read(fd, w->text + len, w->cap - 1 - len);
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0)
            return -errno;
        len += (size_t)n;
        if (n == 0 || len < w->cap - 1)
            break;
        if (w->cap >= STATUS_MAX)
            return -EFBIG;
        if (!walk_grow(w))
            return -ENOMEM;
    }
    w->text[len] = '\0';
    return 0;
}

static bool gone(int r)
{
    return r == -ENOENT || r == -ESRCH;
}

/* A look at one thread, and what it has shown so far. */
struct thread_look {
    struct proc_walk *w;
    pid_t pid;
    const struct proc_status *status;
    enum bears most; /* that it can come to */
    enum bears bears;
    uint32_t uid; /* the first id that is meant */
};

static void report(const struct thread_look *look, uint32_t id, enum bears how)
{
    const struct proc_status *st = look->status;

    if (look->w->report && (how > BEARS_LENT || look->w->lent_too))
        sweep_found(look->w->sweep, id, how == BEARS_LENT ? REASON_PROCESS_LENT : REASON_PROCESS,
                    "pid %d (%.*s)", look->pid, (int)(st->name_len < 32 ? st->name_len : 32),
                    st->name);
}

static void id_look(struct thread_look *look, uint32_t id, enum bears how)
{
    if (!sweep_wants(look->w->sweep, id))
        return;
    if (look->bears == BEARS_NOT)
        look->uid = id;
    how = how < look->most ? how : look->most;
    look->bears = how > look->bears ? how : look->bears;
    report(look, id, how);
}

/* Root's own thread, whatever it does for others: it can take each of these ids off again, and nobody else can come to be so. */
static bool is_roots(const struct sweep *sweep, const struct proc_status *st)
{
    return st->uids[0] == 0 && st->uids[2] == 0 && !sweep_wants(sweep, st->gids[0]) &&
           !sweep_wants(sweep, st->gids[2]);
}

static enum bears status_bears(struct proc_walk *w, pid_t pid, struct proc_status *st,
                               uint32_t *ret_uid)
{
    struct thread_look look = {.w = w, .pid = pid, .status = st};
    uint32_t group;

    look.most = is_roots(w->sweep, st) ? BEARS_LENT : BEARS_OWN;
    if (st->state == 'Z' || st->state == 'X' || uids_is_helper(pid))
        return BEARS_NOT;
    for (int i = 0; i < 4; i++) {
        id_look(&look, st->uids[i], i < 3 ? BEARS_OWN : BEARS_ON_LOAN);
        id_look(&look, st->gids[i], BEARS_ON_LOAN);
    }
    while (proc_next_group(st, &group))
        id_look(&look, group, BEARS_ON_LOAN);
    if (look.bears > BEARS_NOT)
        *ret_uid = look.uid;
    return look.bears;
}

/* Note it for lent_settle(). */
static void lent_add(struct proc_walk *w, pid_t pid, pid_t tid, uint32_t uid)
{
    if (w->n_lent < LENT_MAX)
        w->lent[w->n_lent++] = (struct lent){pid, tid, uid};
    else
        sweep_found(w->sweep, uid, REASON_PROCESS_LENT, "more threads than can be followed");
}

/* One thread. -ENOENT, -ESRCH gone; -errno could not look; else enum bears. */
static int thread_bears(struct proc_walk *w, pid_t pid, pid_t tid, uint32_t *ret_uid,
                        uint32_t *ret_threads)
{
    struct proc_status st;
    char path[64];
    int r;

    if (tid == pid)
        (void)snprintf(path, sizeof(path), "%d/status", pid);
    else
        (void)snprintf(path, sizeof(path), "%d/task/%d/status", pid, tid);
    r = walk_read(w, path);
    if (r < 0)
        return r;
    if (w->text[0] == '\0')
        return -ESRCH;
    r = proc_parse_status(w->text, &st);
    if (r < 0)
        return r;
    *ret_threads = st.n_threads;
    r = (int)status_bears(w, pid, &st, ret_uid);
    if (r == BEARS_LENT && w->report && !w->lent_too)
        lent_add(w, pid, tid, *ret_uid);
    return r;
}

static int other_threads_bear(struct proc_walk *w, pid_t pid, int bears, uint32_t *ret_uid)
{
    char path[32];
    auto_closedir DIR *dir = NULL;
    struct dirent *entry;
    int fd;

    (void)snprintf(path, sizeof(path), "%d/task", pid);
    fd = openat(w->proc_fd, path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (fd < 0)
        return gone(-errno) ? bears : -errno;
    if (!(dir = fdopendir(fd))) {
        int r = -errno;
        (void)close(fd);
        return r;
    }
    while ((entry = readdir(dir))) {
        pid_t tid = proc_parse_pid(entry->d_name);
        uint32_t uid = 0, threads;
        int r = tid && tid != pid ? thread_bears(w, pid, tid, &uid, &threads) : 0;
        if (r < 0 && !gone(r))
            return r;
        if (r > bears) {
            bears = r;
            *ret_uid = uid;
        }
    }
    return bears;
}

/* The whole process. As thread_bears. */
static int process_bears(struct proc_walk *w, pid_t pid, uint32_t *ret_uid)
{
    uint32_t threads = 1;
    int r = thread_bears(w, pid, pid, ret_uid, &threads);

    if (r < 0 || threads <= 1)
        return r;
    return other_threads_bear(w, pid, r, ret_uid);
}

static int quiet_bears(struct proc_walk *w, pid_t pid, uint32_t *ret_uid)
{
    int r;

    w->report = false;
    r = process_bears(w, pid, ret_uid);
    w->report = true;
    return r;
}

/* Kill it if it still bears an id that is meant. */
static void process_end(struct proc_walk *w, pid_t pid)
{
    uint32_t uid = 0;
    int fd;

    if (pid == 1 || pid == getpid())
        return;
    fd = pidfd_open(pid, 0);
    if (fd < 0 && errno != ESRCH) {
        sweep_failed(w->sweep, "pidfd_open", errno);
        return;
    }
    if (fd >= 0 && quiet_bears(w, pid, &uid) > BEARS_LENT &&
        pidfd_send_signal(fd, SIGKILL, NULL, 0) == 0 && w->n_waiting < WAITING_MAX) {
        w->waiting[w->n_waiting++] = (struct waiting){fd, pid, uid};
        return;
    }
    sweep_removed(w->sweep); /* it has gone meanwhile, or is about to: the next round tells */
    if (fd >= 0)
        (void)close(fd);
}

static void process_look(struct proc_walk *w, pid_t pid)
{
    uint32_t uid = 0;
    /* Asked before the look as well as in it: a helper may end, or begin, meanwhile. */
    int r = uids_is_helper(pid) ? BEARS_NOT : process_bears(w, pid, &uid);

    if (r < 0 && !gone(r))
        sweep_failed(w->sweep, "processes", r);
    if (r <= BEARS_LENT || !w->sweep->remove)
        return;
    if (r == BEARS_OWN)
        process_end(w, pid);
    else if (w->n_borrowers < BORROWERS_MAX)
        w->borrowers[w->n_borrowers++] = pid;
}

/* Whether the thread goes on bearing that id. */
static bool lent_still(struct proc_walk *w, const struct lent *lent)
{
    uint32_t uid = 0, threads;
    int r;

    w->report = false;
    r = thread_bears(w, lent->pid, lent->tid, &uid, &threads);
    w->report = true;
    if (r > BEARS_LENT) /* it has become somebody's */
        process_look(w, lent->pid);
    else if (r < 0 && !gone(r))
        sweep_failed(w->sweep, "processes", r);
    return r == BEARS_LENT && uid == lent->uid;
}

/* A server that has much to do for one uid bears it nearly all the time, but lets go between two calls. */
static void lent_settle(struct proc_walk *w)
{
    for (int look = 0; look < LENT_LOOKS && w->n_lent; look++) {
        size_t kept = 0;
        (void)nanosleep(&(struct timespec){.tv_nsec = LENT_GAP_NS}, NULL);
        for (size_t i = 0; i < w->n_lent; i++)
            if (lent_still(w, &w->lent[i]))
                w->lent[kept++] = w->lent[i];
        w->n_lent = kept;
    }
    w->lent_too = true;
    for (size_t i = 0; i < w->n_lent; i++) {
        uint32_t uid, threads;
        (void)thread_bears(w, w->lent[i].pid, w->lent[i].tid, &uid, &threads);
    }
}

/* So may a server that is not root's. What still bears them after a while is no such server. */
static void borrowers_end(struct proc_walk *w)
{
    for (int look = 0; look < BORROWER_LOOKS && w->n_borrowers; look++) {
        size_t kept = 0;
        (void)nanosleep(&(struct timespec){.tv_nsec = BORROWER_GAP_NS}, NULL);
        for (size_t i = 0; i < w->n_borrowers; i++) {
            uint32_t uid = 0;
            if (quiet_bears(w, w->borrowers[i], &uid) > BEARS_LENT)
                w->borrowers[kept++] = w->borrowers[i];
            else
                sweep_removed(w->sweep); /* it has let go: the next round tells */
        }
        w->n_borrowers = kept;
    }
    for (size_t i = 0; i < w->n_borrowers; i++)
        process_end(w, w->borrowers[i]);
}

static void waiting_end(struct proc_walk *w)
{
    int64_t deadline_ms = clock_mono_ms() + sweep_patience_ms(w->sweep, REASON_PROCESS);

    for (size_t i = 0; i < w->n_waiting; i++) {
        struct pollfd p = {.fd = w->waiting[i].fd, .events = POLLIN};
        int64_t left = deadline_ms - clock_mono_ms();
        int r;
        do
            r = poll(&p, 1, left > 0 ? (int)left : 0);
        while (r < 0 && errno == EINTR);
        if (r == 0)
            sweep_unkillable(w->sweep, w->waiting[i].uid, w->waiting[i].pid);
        else
            sweep_removed(w->sweep);
        (void)close(w->waiting[i].fd);
    }
}

/* Entries come one by one and each is looked at before the next is asked for: what forks and ends without rest is hardly
 * ever there any more when a list of a thousand names has come and been gone through. 0; -errno. */
static int pids_look(struct proc_walk *w)
{
    union {
        struct dirent64 entry;
        char bytes[sizeof(struct dirent64)];
    } one;
    size_t room = ONE_ENTRY;

    for (;;) {
        ssize_t n = getdents64(w->proc_fd, &one, room);
        if (n < 0 && errno == EINVAL && room < sizeof(one)) {
            room = sizeof(one); /* a name that does not fit, none of a process */
            continue;
        }
        if (n <= 0)
            return n < 0 ? -errno : 0;
        for (ssize_t at = 0; at < n;) {
            struct dirent64 *entry = (struct dirent64 *)(void *)(one.bytes + at);
            pid_t pid = proc_parse_pid(entry->d_name);
            at += entry->d_reclen;
            if (pid)
                process_look(w, pid);
        }
        room = ONE_ENTRY;
    }
}

static void walk_all(struct proc_walk *w)
{
    auto_close int fd = open(w->sweep->places->proc, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    int r;

    w->proc_fd = fd;
    r = fd < 0 ? -errno : pids_look(w);
    if (r < 0) {
        sweep_failed(w->sweep, w->sweep->places->proc, r);
        if (fd < 0)
            return;
    }
    lent_settle(w);
    borrowers_end(w);
    waiting_end(w);
}

void sweep_processes(struct sweep *sweep)
{
    struct proc_walk *w = calloc(1, sizeof(*w));

    if (!w || !(w->text = malloc(STATUS_FIRST))) {
        sweep_failed(sweep, "processes", ENOMEM);
    } else {
        w->sweep = sweep;
        w->cap = STATUS_FIRST;
        w->report = true;
        walk_all(w);
        free(w->text);
    }
    free(w);
}
