/* What only a uid itself may do: done by a child of ours that takes it on, and nothing else, for the length of one call. And
 * what that is for first of all: to end all processes of a uid at one blow.
 *
 * What forks and ends without rest may not be there when its pid has been read, and may have a child when the signal comes.
 * kill(-1) of the kernel is whole instead: it goes through all processes under the lock that a fork takes, and a fork of one
 * that has the signal fails. It means those that the caller may send to: as that uid, the processes whose real or saved uid it
 * is, in any namespace, and what lives in user namespaces that the uid has made. Whoever else bears the id is looked for one by
 * one (proc.c).
 *
 * The child is asked uid by uid, each at the moment when it is still wanted. It keeps 0 as its saved uid to come back by, and
 * acts only when it has made sure that no capability is in force. */
#include "noded/sweep/uids.h"

#include <errno.h>
#include <linux/capability.h>
#include <linux/keyctl.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "common/err.h"
#include "common/mem.h"
#include "noded/sweep/kinds.h"

#ifdef SYS_setresuid32
#define SETRESUID SYS_setresuid32
#else
#define SETRESUID SYS_setresuid
#endif
#define ANSWER_MS  5000
#define FAILED_MAX 8 /* in one call: each may take so long */

static _Atomic pid_t helper_pid;
static _Atomic uint32_t in_hand; /* 0 = none */
/* Two at the same uid would end each other. */
static pthread_mutex_t one_at_a_time = PTHREAD_MUTEX_INITIALIZER;

bool uids_is_helper(pid_t pid)
{
    return atomic_load(&helper_pid) == pid;
}

/* One of two writes first and then reads: we this and then the map, the other the map and then this. */
bool uids_in_hand(uint32_t uid)
{
    atomic_thread_fence(memory_order_seq_cst);
    return atomic_load(&in_hand) == uid;
}

static bool take_in_hand(const struct sweep *sweep, uint32_t uid)
{
    atomic_store(&in_hand, uid);
    atomic_thread_fence(memory_order_seq_cst);
    return sweep_wants(sweep, uid);
}

/* ---- the child: system calls alone, as the parent has threads ---- */

/* Whether a signal to all can reach nobody but that uid, and a key no more than it may. */
static bool am_only(uint32_t uid)
{
    struct __user_cap_header_struct head = {.version = _LINUX_CAPABILITY_VERSION_3};
    struct __user_cap_data_struct caps[_LINUX_CAPABILITY_U32S_3];

    return getuid() == uid && geteuid() == uid && syscall(SYS_capget, &head, caps) == 0 &&
           caps[0].effective == 0 && caps[1].effective == 0;
}

static int act_as(uint32_t uid, uids_act_fn act)
{
    int r;

    if (uid == 0 || uid == UINT32_MAX || syscall(SETRESUID, uid, uid, 0) < 0)
        return -EPERM;
    r = am_only(uid) ? act() : -EPERM;
    if (syscall(SETRESUID, 0, 0, 0) < 0)
        _exit(1);
    return r;
}

static int end_all(void)
{
    return kill(-1, SIGKILL) < 0 && errno != ESRCH ? -errno : 0;
}

static _Noreturn void helper_serve(int fd, uids_act_fn act)
{
    uint32_t uid;

    /* Nothing of ours: who takes over from us when we have been killed needs the lock and the sockets that we had. */
    if ((fd > 0 && syscall(SYS_close_range, 0, fd - 1, 0) < 0) ||
        syscall(SYS_close_range, fd + 1, ~0U, 0) < 0)
        _exit(1);
    /* Of its own, and root's: that a uid's quota is used up does not matter. */
    (void)syscall(SYS_keyctl, KEYCTL_JOIN_SESSION_KEYRING, NULL);
    while (read(fd, &uid, sizeof(uid)) == (ssize_t)sizeof(uid)) {
        int r = act_as(uid, act);
        if (write(fd, &r, sizeof(r)) != (ssize_t)sizeof(r))
            break;
    }
    _exit(0);
}

/* ---- the parent ---- */

struct helper {
    pid_t pid;
    int fd;
};

/* No handler of ours may run in the child. */
static pid_t fork_deaf(void)
{
    sigset_t all, before;
    pid_t pid;

    (void)sigfillset(&all);
    (void)pthread_sigmask(SIG_SETMASK, &all, &before);
    pid = fork();
    if (pid != 0)
        (void)pthread_sigmask(SIG_SETMASK, &before, NULL);
    return pid;
}

static int helper_start(struct helper *h, uids_act_fn act)
{
    int fds[2], r;

    if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, fds) < 0)
        return -errno;
    h->pid = fork_deaf();
    if (h->pid == 0)
        helper_serve(fds[1], act);
    r = h->pid < 0 ? -errno : 0;
    (void)close(fds[1]);
    if (r < 0) {
        (void)close(fds[0]);
        return r;
    }
    h->fd = fds[0];
    atomic_store(&helper_pid, h->pid);
    return 0;
}

/* Whoever has the uid may stop or kill it meanwhile. */
static int helper_ask(const struct helper *h, uint32_t uid)
{
    struct pollfd p = {.fd = h->fd, .events = POLLIN};
    int r;

    if (send(h->fd, &uid, sizeof(uid), MSG_NOSIGNAL) < 0)
        return -errno;
    do
        r = poll(&p, 1, ANSWER_MS);
    while (r < 0 && errno == EINTR);
    if (r == 0)
        return -ETIMEDOUT;
    return read(h->fd, &r, sizeof(r)) == (ssize_t)sizeof(r) ? r : -EIO;
}

static void helper_stop(struct helper *h)
{
    if (h->fd < 0)
        return;
    (void)close(h->fd);
    h->fd = -1;
    (void)kill(h->pid, SIGKILL);
    while (waitpid(h->pid, NULL, 0) < 0 && errno == EINTR)
        continue;
    atomic_store(&helper_pid, 0);
}

static void result_set(int *results, size_t i, int r)
{
    if (results)
        results[i] = r;
}

/* A child that has failed is no more: the uids after it have another. The first failure; 0 = none. */
static int all_act(struct sweep *sweep, const uint32_t *uids, size_t n_uids, uids_act_fn act,
                   int *ret_results)
{
    struct helper helper = {.fd = -1};
    int failed = 0, n_failed = 0;

    for (size_t i = 0; i < n_uids; i++) {
        if (n_failed == FAILED_MAX) {
            result_set(ret_results, i, -ECANCELED);
            continue;
        }
        if (!take_in_hand(sweep, uids[i]))
            continue;
        int r = helper.fd < 0 ? helper_start(&helper, act) : 0;
        if (r >= 0)
            r = helper_ask(&helper, uids[i]);
        result_set(ret_results, i, r);
        if (r >= 0)
            continue;
        helper_stop(&helper);
        n_failed++;
        failed = failed ? failed : r;
    }
    helper_stop(&helper);
    atomic_store(&in_hand, 0); /* it has answered, or is no more */
    return failed;
}

int uids_act(struct sweep *sweep, const uint32_t *uids, size_t n_uids, uids_act_fn act,
             int *ret_results)
{
    int r;

    (void)pthread_mutex_lock(&one_at_a_time);
    r = all_act(sweep, uids, n_uids, act, ret_results);
    (void)pthread_mutex_unlock(&one_at_a_time);
    return r;
}

/* Who has a uid can stop or kill the child that bears it: that is of this uid alone. */
void sweep_uids(struct sweep *sweep)
{
    static const char what[] = "to end all of a uid";
    auto_free int *results = calloc(sweep->n_uids + 1, sizeof(*results));

    if (!sweep->remove || sweep->n_uids == 0)
        return;
    if (!results) {
        sweep_failed(sweep, what, -ENOMEM);
        return;
    }
    (void)uids_act(sweep, sweep->uids, sweep->n_uids, end_all, results);
    for (size_t i = 0; i < sweep->n_uids; i++) {
        if (results[i] == -ECANCELED)
            sweep_failed(sweep, what, results[i]);
        else if (results[i] < 0)
            sweep_found(sweep, sweep->uids[i], REASON_SCAN_FAILED, "%s: %s", what,
                        err_text(results[i]));
    }
}
