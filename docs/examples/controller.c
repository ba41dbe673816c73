/* A small scheduler on libxce: how a controller with an event loop of its own leases uids.
 *
 *     cc controller.c $(pkg-config --cflags --libs xce) -o controller
 *     printf 'a id -u\nb systemd-run --wait --pipe -p User=$XCE_NAME id\n' | ./controller
 *
 * Reads lines "JOB COMMAND" from standard input. Each job gets a lease on this machine; when the uid is ready, sh runs the
 * command with XCE_UID, XCE_NAME and XCE_JOB in its environment. Leases are renewed while commands run, a command whose
 * lease has ended for another reason is killed, and every lease is released when its command has ended. TERM or INT ends
 * all jobs first. Prints a line for each thing that happens. Exit: 0; 1 a job had no lease, or a server was lost.
 *
 * One thread, one poll(2): libxce's descriptor stands beside the others. */
#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/queue.h>
#include <sys/signalfd.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <xce/client.h>

#define TTL_MS       30000
#define RENEW_MS     (TTL_MS / 3)
#define JOB_NAME_MAX 63

enum job_state { LEASING, RUNNING, RELEASING };

struct job {
    LIST_ENTRY(job) link;
    struct controller *controller;
    enum job_state state;
    char name[JOB_NAME_MAX + 1];
    char *command;
    uint64_t lease;
    uint32_t epoch, uid;
    char uid_name[64];
    pid_t pid;         /* RUNNING */
    int64_t renew_ms;  /* when to renew */
    struct xce_op *op; /* a call is under way */
};

struct controller {
    struct xce_client *client;
    struct xce_watch *watch;
    int signal_fd;
    LIST_HEAD(, job) jobs;
    char line[4096];
    size_t line_len;
    int input_over, stopping, failed;
};

static int64_t now_ms(void)
{
    struct timespec t;

    clock_gettime(CLOCK_BOOTTIME, &t);
    return (int64_t)t.tv_sec * 1000 + t.tv_nsec / 1000000;
}

static void say(const struct job *job, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

static void say(const struct job *job, const char *format, ...)
{
    va_list args;

    printf("%s: ", job->name);
    va_start(args, format);
    vprintf(format, args);
    va_end(args);
    putchar('\n');
    fflush(stdout);
}

static void job_free(struct job *job)
{
    LIST_REMOVE(job, link);
    free(job->command);
    free(job);
}

/* ---- give back ---- */

static void released(struct xce_client *client, int code, void *result, void *arg)
{
    struct job *job = arg;

    xce_free(result);
    job->op = NULL;
    /* Not there any more: it has ended by itself. What could not be said now ends by its ttl. */
    if (code == XCE_OK || code == XCE_NOT_FOUND || code == XCE_PRECONDITION) {
        say(job, "released");
    } else {
        say(job, "not released: %s", xce_client_message(client));
        job->controller->failed = 1;
    }
    job_free(job);
}

static void release(struct job *job)
{
    struct xce_call call = {.done = released, .done_arg = job, .op = &job->op};

    xce_op_cancel(job->op); /* a renewal */
    job->op = NULL;
    job->state = RELEASING;
    if (xce_lease_release(job->controller->client, &call, job->lease, job->epoch, NULL, NULL) !=
        XCE_OK)
        released(job->controller->client, XCE_FAILED, NULL, job);
}

/* ---- run ---- */

static void child(const struct job *job)
{
    sigset_t none;
    char uid[16];

    sigemptyset(&none);
    sigprocmask(SIG_SETMASK, &none, NULL);
    setpgid(0, 0);
    snprintf(uid, sizeof uid, "%u", job->uid);
    setenv("XCE_UID", uid, 1);
    setenv("XCE_NAME", job->uid_name, 1);
    setenv("XCE_JOB", job->name, 1);
    execl("/bin/sh", "sh", "-c", job->command, (char *)NULL);
    _exit(127);
}

static void start(struct job *job)
{
    job->pid = fork();
    if (job->pid == 0)
        child(job);
    if (job->pid < 0) {
        say(job, "fork: %s", strerror(errno));
        job->controller->failed = 1;
        release(job);
        return;
    }
    setpgid(job->pid, job->pid);
    job->state = RUNNING;
    job->renew_ms = now_ms() + RENEW_MS;
}

static void children_ended(struct controller *c)
{
    struct job *job, *next;
    int status;

    for (job = LIST_FIRST(&c->jobs); job; job = next) {
        next = LIST_NEXT(job, link);
        if (job->state != RUNNING || waitpid(job->pid, &status, WNOHANG) != job->pid)
            continue;
        if (WIFEXITED(status))
            say(job, "exited %d", WEXITSTATUS(status));
        else
            say(job, "killed by signal %d", WTERMSIG(status));
        release(job);
    }
}

/* ---- lease ---- */

static void leased(struct xce_client *client, int code, void *result, void *arg)
{
    struct xce_leases *leases = result;
    struct job *job = arg;

    job->op = NULL;
    if (code != XCE_OK) {
        say(job, "no lease: %s", xce_client_message(client));
        job->controller->failed = 1;
        job_free(job);
        return;
    }
    job->lease = leases->items[0].lease;
    job->epoch = leases->items[0].epoch;
    job->uid = leases->items[0].uid;
    snprintf(job->uid_name, sizeof job->uid_name, "%s", leases->items[0].name);
    xce_free(leases);
    say(job, "leased %u %s", job->uid, job->uid_name);
    if (job->controller->stopping)
        release(job);
    else
        start(job);
}

static void lose(struct job *job, const char *cause)
{
    say(job, "lost its lease: %s", cause);
    kill(-job->pid, SIGKILL);
}

static void renewed(struct xce_client *client, int code, void *result, void *arg)
{
    struct job *job = arg;

    xce_free(result);
    job->op = NULL;
    /* Anything else is tried again, and the ttl is three times as long. */
    if (code == XCE_NOT_FOUND || code == XCE_PRECONDITION)
        lose(job, "can not be renewed");
    else if (code != XCE_OK)
        say(job, "not renewed: %s", xce_client_message(client));
}

static void renew(struct job *job)
{
    struct xce_call call = {
        .done = renewed, .done_arg = job, .op = &job->op, .timeout_ms = RENEW_MS};

    job->renew_ms = now_ms() + RENEW_MS;
    if (!job->op)
        (void)xce_lease_renew(job->controller->client, &call, job->lease, job->epoch, TTL_MS, NULL);
}

/* Renew what is due; how long until the next is, -1 = none. */
static int renew_due(struct controller *c)
{
    int64_t now = now_ms(), least = -1;
    struct job *job;

    LIST_FOREACH(job, &c->jobs, link)
    {
        if (job->state != RUNNING)
            continue;
        if (job->renew_ms <= now)
            renew(job);
        if (least < 0 || job->renew_ms - now < least)
            least = job->renew_ms - now;
    }
    return (int)least;
}

/* A lease that is neither granted nor active has ended: so has its job. */
static void lease_changed(struct controller *c, const struct xce_lease *lease)
{
    struct job *job;

    LIST_FOREACH(job, &c->jobs, link)
    if (job->state == RUNNING && job->lease == lease->lease && lease->state > XCE_ACTIVE)
        lose(job, lease->end_cause);
}

static void read_watch(struct controller *c)
{
    struct xce_event *event;
    int code;

    while ((code = xce_watch_next(c->watch, 0, &event)) == XCE_OK) {
        if (event->lease)
            lease_changed(c, event->lease);
        xce_free(event);
    }
    if (code != XCE_TIMEOUT)
        fprintf(stderr, "controller: watch: %s\n", xce_client_message(c->client));
}

/* ---- input ---- */

static void submit(struct controller *c, const char *line)
{
    struct xce_spec spec = {.ttl_ms = TTL_MS};
    struct xce_acquire acquire = {.specs = &spec, .n_specs = 1, .wait = true};
    struct job *job = calloc(1, sizeof *job);
    struct xce_call call = {.done = leased, .done_arg = job, .op = &job->op};
    const char *space = strchr(line, ' ');

    if (!job || !space || space == line || (size_t)(space - line) > JOB_NAME_MAX) {
        fprintf(stderr, "controller: \"%s\": a line is JOB COMMAND\n", line);
        c->failed = 1;
        free(job);
        return;
    }
    snprintf(job->name, sizeof job->name, "%.*s", (int)(space - line), line);
    job->command = strdup(space + 1);
    job->controller = c;
    spec.job = job->name;
    LIST_INSERT_HEAD(&c->jobs, job, link);
    if (!job->command || xce_lease_acquire(c->client, &call, &acquire, NULL) != XCE_OK)
        leased(c->client, XCE_FAILED, NULL, job);
}

static void read_input(struct controller *c)
{
    ssize_t n = read(STDIN_FILENO, c->line + c->line_len, sizeof c->line - 1 - c->line_len);
    char *end;

    if (n <= 0) {
        c->input_over = 1;
        return;
    }
    c->line_len += (size_t)n;
    c->line[c->line_len] = 0;
    while ((end = strchr(c->line, '\n'))) {
        *end = 0;
        submit(c, c->line);
        c->line_len -= (size_t)(end + 1 - c->line);
        memmove(c->line, end + 1, c->line_len + 1);
    }
    if (c->line_len == sizeof c->line - 1) {
        fprintf(stderr, "controller: a line is too long\n");
        c->failed = c->input_over = 1;
    }
}

static void stop(struct controller *c)
{
    struct job *job;

    c->stopping = c->input_over = 1;
    LIST_FOREACH(job, &c->jobs, link)
    if (job->state == RUNNING)
        kill(-job->pid, SIGKILL);
}

static void read_signals(struct controller *c)
{
    struct signalfd_siginfo info;

    while (read(c->signal_fd, &info, sizeof info) == sizeof info)
        if (info.ssi_signo == SIGCHLD)
            children_ended(c);
        else
            stop(c);
}

/* ---- the loop ---- */

static void run(struct controller *c)
{
    while (!c->input_over || !LIST_EMPTY(&c->jobs)) {
        struct pollfd fds[] = {{.fd = xce_client_fd(c->client), .events = POLLIN},
                               {.fd = c->signal_fd, .events = POLLIN},
                               {.fd = c->input_over ? -1 : STDIN_FILENO, .events = POLLIN}};

        if (poll(fds, 3, renew_due(c)) < 0 && errno != EINTR)
            return;
        if (fds[1].revents)
            read_signals(c);
        if (fds[2].revents)
            read_input(c);
        if (fds[0].revents)
            (void)xce_client_dispatch(c->client);
        read_watch(c);
    }
}

int main(void)
{
    static struct controller c;
    char why[XCE_MESSAGE_MAX];
    sigset_t set;

    sigemptyset(&set);
    sigaddset(&set, SIGCHLD);
    sigaddset(&set, SIGTERM);
    sigaddset(&set, SIGINT);
    sigprocmask(SIG_BLOCK, &set, NULL);
    c.signal_fd = signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK);
    LIST_INIT(&c.jobs);
    if (xce_client_new(NULL, &c.client, why) != XCE_OK) {
        fprintf(stderr, "controller: %s\n", why);
        return 1;
    }
    if (c.signal_fd < 0 || xce_watch_new(c.client, 0, &c.watch) != XCE_OK) {
        fprintf(stderr, "controller: %s\n", xce_client_message(c.client));
        return 1;
    }
    run(&c);
    xce_watch_free(c.watch);
    xce_client_free(c.client);
    return c.failed;
}
