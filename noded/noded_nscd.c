/* nscd keeps answers of its own. It is told to forget them after each change of the map. Until it has been told no lease is
 * READY here (the name must resolve for those who ask nscd, too), and no pass of the guard counts, by which uids are freed.
 * Nor is one READY while whatever has its uid is being ended by what was asked before it was here. */
#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/pidfd.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include "common/log.h"
#include "common/mem.h"
#include "common/net/loop.h"
#include "noded/noded_inside.h"
#include "noded/sweep/uids.h"

#define NSCD_SOCKET   "/run/nscd/socket"
#define NSCD_MS       5000 /* for one run of nscd -i */
#define NSCD_AGAIN_MS 1000 /* after a failure */
#define HELD_MS       5    /* to look again at what waits for a uid to be let go */

extern char **environ;

struct nscd_job {
    struct noded *n;
    char program[256];
    bool failed;
};

static bool nscd_wait(pid_t pid)
{
    auto_close int fd = pidfd_open(pid, 0);
    struct pollfd p = {.fd = fd, .events = POLLIN};
    int status = 0, r;

    do
        r = poll(&p, 1, NSCD_MS);
    while (r < 0 && errno == EINTR);
    if (r == 0)
        (void)kill(pid, SIGKILL);
    if (waitpid(pid, &status, 0) != pid)
        return false;
    return WIFEXITED(status) && WEXITSTATUS(status) == 0;
}

static bool nscd_invalidate(const char *program, const char *table)
{
    char *argv[] = {(char *)(uintptr_t)program, (char *)(uintptr_t) "-i", (char *)(uintptr_t)table,
                    NULL};
    pid_t pid;

    return posix_spawn(&pid, program, NULL, NULL, argv, environ) == 0 && nscd_wait(pid);
}

static void nscd_work(void *arg)
{
    struct nscd_job *job = arg;

    job->failed = !nscd_invalidate(job->program, "passwd") ||
                  !nscd_invalidate(job->program, "group");
}

void noded_nscd_hold(struct noded *n, const struct state_verdict *ready)
{
    verdicts_add(&n->held, ready->uid, ready->epoch, ready->reason, "");
}

static void held_say(struct noded *n)
{
    struct verdicts held = n->held;

    n->held = (struct verdicts){0};
    for (size_t i = 0; i < held.n; i++)
        if (uids_in_hand(held.items[i].uid))
            noded_nscd_hold(n, &held.items[i]);
        else
            session_say(n->session, SAY_READY, &held.items[i]);
    verdicts_done(&held);
}

static void nscd_done(int r, void *arg)
{
    struct nscd_job *job = arg;
    struct noded *n = job->n;
    bool failed = r < 0 || job->failed;

    noded_offload_done(n);
    n->nscd_running = false;
    if (failed) {
        n->nscd_wanted = true;
        n->nscd_next_ms = loop_now_fresh_ms() + NSCD_AGAIN_MS;
    }
    if (failed && !n->nscd_failing)
        log_error(NULL,
                  "%s -i failed: nscd may show what is not so any more; until it can be told no "
                  "lease is ready here and no uid is freed",
                  job->program);
    else if (!failed && n->nscd_failing)
        log_info(NULL, "%s -i succeeds again", job->program);
    n->nscd_failing = failed;
    free(job);
    noded_touch(n);
}

/* Whether somebody listens there: a socket that was left behind answers nobody. */
static bool nscd_is_there(const struct noded *n)
{
    struct sockaddr_un address = {.sun_family = AF_UNIX, .sun_path = NSCD_SOCKET};
    auto_close int fd = -1;

    if (!*n->settings->nscd || access(NSCD_SOCKET, F_OK) < 0)
        return false;
    fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    return fd < 0 || connect(fd, (struct sockaddr *)&address, sizeof(address)) == 0 ||
           errno == EAGAIN;
}

bool noded_nscd_behind(const struct noded *n)
{
    return (n->nscd_wanted || n->nscd_running) && nscd_is_there(n);
}

int64_t noded_nscd_next_ms(const struct noded *n)
{
    int64_t held_ms = n->held.n && !noded_nscd_behind(n) ? loop_now_ms(n->loop) + HELD_MS
                                                         : INT64_MAX;
    int64_t nscd_ms = n->nscd_wanted && !n->nscd_running ? n->nscd_next_ms : INT64_MAX;

    return held_ms < nscd_ms ? held_ms : nscd_ms;
}

void noded_nscd_settle(struct noded *n, int64_t now_ms)
{
    struct nscd_job *job;

    if (n->held.n && !noded_nscd_behind(n))
        held_say(n);
    if (!n->nscd_wanted || n->nscd_running || now_ms < n->nscd_next_ms)
        return;
    n->nscd_wanted = false;
    if (!nscd_is_there(n))
        return;
    job = mem_must_calloc(1, sizeof(*job));
    job->n = n;
    (void)snprintf(job->program, sizeof(job->program), "%s", n->settings->nscd);
    n->nscd_running = true;
    noded_offload_slow(n, nscd_work, nscd_done, job);
}
