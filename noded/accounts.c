#include "noded/accounts.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "common/err.h"
#include "common/log.h"
#include "common/mem.h"
#include "common/net/loop.h"

#define DYING_MAX 16

extern char **environ;

struct asking {
    struct asking *next;
    int64_t timeout_ms;
    accounts_fn done;
    void *arg;
    struct collide_question question;
};

struct accounts {
    struct loop *loop;
    const char *program;
    char *const *argv;
    pid_t pid;              /* 0 = none */
    pid_t dying[DYING_MAX]; /* killed, not reaped yet */
    int socket;
    struct loop_poll *poll;
    struct loop_timer *timer;
    struct loop_soon *soon;
    struct asking *first, **last; /* first is under way if put */
    bool put;
    uint32_t serial;
    struct collide_answer answer;
};

static void next_put(struct accounts *a);

static void timed_out(void *arg);
static void could_not(void *arg);

struct accounts *accounts_new(struct loop *loop, const char *program, char *const *argv)
{
    struct accounts *a = mem_must_calloc(1, sizeof(*a));

    a->loop = loop;
    a->program = program;
    a->argv = argv;
    a->socket = -1;
    a->last = &a->first;
    if (loop_timer_new(loop, timed_out, a, &a->timer) < 0 ||
        loop_soon_new(loop, could_not, a, &a->soon) < 0)
        abort();
    return a;
}

static void dying_reap(struct accounts *a)
{
    for (int i = 0; i < DYING_MAX; i++)
        if (a->dying[i] && waitpid(a->dying[i], NULL, WNOHANG) != 0)
            a->dying[i] = 0;
}

/* It is ours and not reaped: the pid can be nobody else's. It ends at once, or after its wait in the kernel. */
static void process_end(struct accounts *a)
{
    if (a->poll)
        loop_poll_free(a->poll);
    a->poll = NULL;
    a->socket = mem_close(a->socket);
    if (a->pid > 0)
        (void)kill(a->pid, SIGKILL);
    dying_reap(a);
    for (int i = 0; a->pid > 0 && i < DYING_MAX; i++)
        if (a->dying[i] == 0) {
            a->dying[i] = a->pid;
            a->pid = 0;
        }
    a->pid = 0;
}

static void first_finish(struct accounts *a, int r, const struct collide_answer *answer)
{
    struct asking *q = a->first;

    loop_timer_stop(a->timer);
    a->put = false;
    a->first = q->next;
    if (!a->first)
        a->last = &a->first;
    q->done(r, answer, q->arg);
    free(q);
    next_put(a);
}

static void timed_out(void *arg)
{
    struct accounts *a = arg;

    if (!a->put)
        return;
    log_warning(NULL, "the name services of this machine do not answer; asking anew");
    process_end(a);
    first_finish(a, -ETIMEDOUT, NULL);
}

static void readable(int fd, unsigned events, void *arg)
{
    struct accounts *a = arg;
    ssize_t n = recv(fd, &a->answer, sizeof(a->answer), MSG_DONTWAIT);

    if (n < 0 && (errno == EAGAIN || errno == EINTR))
        return;
    if (n < (ssize_t)offsetof(struct collide_answer, found) || a->answer.n > COLLIDE_ANSWERS_MAX ||
        (size_t)n !=
            offsetof(struct collide_answer, found) + a->answer.n * sizeof(a->answer.found[0])) {
        log_warning(NULL, "the process that asks name services has died");
        process_end(a);
        if (a->put)
            first_finish(a, -EIO, NULL);
        return;
    }
    if (a->put && a->answer.serial == a->serial)
        first_finish(a, 0, &a->answer);
}

static int process_start(struct accounts *a)
{
    posix_spawn_file_actions_t actions;
    posix_spawnattr_t attributes;
    sigset_t none;
    int sockets[2], r;

    dying_reap(a);
    if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, sockets) < 0)
        return -errno;
    (void)posix_spawn_file_actions_init(&actions);
    (void)posix_spawn_file_actions_adddup2(&actions, sockets[1], ACCOUNTS_FD);
    (void)posix_spawnattr_init(&attributes);
    (void)sigemptyset(&none);
    (void)posix_spawnattr_setsigmask(&attributes, &none);
    (void)posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETSIGMASK);
    r = -posix_spawn(&a->pid, a->program, &actions, &attributes, a->argv, environ);
    (void)posix_spawnattr_destroy(&attributes);
    (void)posix_spawn_file_actions_destroy(&actions);
    (void)close(sockets[1]);
    if (r < 0) {
        (void)close(sockets[0]);
        a->pid = 0;
        return r;
    }
    a->socket = sockets[0];
    return loop_poll_new(a->loop, a->socket, POLLIN, readable, a, &a->poll);
}

static int question_send(struct accounts *a)
{
    struct collide_question *q = &a->first->question;
    size_t len = offsetof(struct collide_question, uids) + q->n * sizeof(q->uids[0]);
    int r = a->pid ? 0 : process_start(a);

    if (r < 0)
        return r;
    q->serial = ++a->serial;
    /* The socket takes a packet at any time: there is never more than one on its way. */
    return send(a->socket, q, len, MSG_NOSIGNAL | MSG_DONTWAIT) < 0 ? -errno : 0;
}

static void could_not(void *arg)
{
    struct accounts *a = arg;

    if (a->put && !a->pid)
        first_finish(a, -EIO, NULL);
}

static void next_put(struct accounts *a)
{
    int r;

    if (!a->first || a->put)
        return;
    a->put = true;
    r = question_send(a);
    if (r == 0) {
        loop_timer_start(a->timer, a->first->timeout_ms, 0);
        return;
    }
    log_warning(NULL, "cannot ask the name services: %s", err_text(r));
    process_end(a);
    loop_soon_start(a->soon);
}

void accounts_ask(struct accounts *a, const struct collide_question *question, int64_t timeout_ms,
                  accounts_fn done, void *arg)
{
    struct asking *q = mem_must_calloc(1, sizeof(*q));

    q->question = *question;
    q->timeout_ms = timeout_ms;
    q->done = done;
    q->arg = arg;
    *a->last = q;
    a->last = &q->next;
    next_put(a);
}

void accounts_free(struct accounts *a)
{
    if (!a)
        return;
    process_end(a);
    while (a->first) {
        struct asking *q = a->first;
        a->first = q->next;
        q->done(-ECANCELED, NULL, q->arg);
        free(q);
    }
    loop_timer_free(a->timer);
    loop_soon_free(a->soon);
    free(a);
}
