#include "ctl/exec_unit.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "common/buf.h"
#include "common/clock.h"
#include "common/fsutil.h"
#include "common/mem.h"
#include "ctl/ctl.h"
#include "ctl/launch.h"

enum {
    ARGS_MAX = 4096,
    RECORD_MAX = 128,
    WAIT_MS = 1000,
    NOT_FOUND = 127, /* as a shell says it */
    NOT_EXECUTABLE = 126,
    RUN_NO_STATUS = 255, /* systemd-run, of a unit that has ended without an exit status */
};

extern char **environ;

/* ---- signals ---- */

static const int passed_on[] = {SIGINT, SIGTERM, SIGHUP, SIGQUIT, SIGUSR1, SIGUSR2};

size_t exec_unit_signals(const int **ret)
{
    *ret = passed_on;
    return sizeof passed_on / sizeof passed_on[0];
}

static void fill_set(sigset_t *set)
{
    sigemptyset(set);
    for (size_t i = 0; i < sizeof passed_on / sizeof passed_on[0]; i++)
        sigaddset(set, passed_on[i]);
    sigaddset(set, SIGCHLD);
}

void exec_unit_block_signals(void)
{
    sigset_t set;

    fill_set(&set);
    (void)sigprocmask(SIG_BLOCK, &set, NULL);
}

/* ---- programs ---- */

/* Start a program with default signals in a process group of its own: what the terminal sends is ours to pass on.
 * mute: what it says on stderr is of no interest. 0; -errno. */
static int start(const char *const *args, bool mute, pid_t *ret)
{
    posix_spawn_file_actions_t actions;
    posix_spawnattr_t attributes;
    sigset_t none, defaults;
    int r;

    sigemptyset(&none);
    fill_set(&defaults);
    sigaddset(&defaults, SIGPIPE);
    r = posix_spawnattr_init(&attributes);
    if (r)
        return -r;
    r = posix_spawn_file_actions_init(&actions);
    if (r) {
        (void)posix_spawnattr_destroy(&attributes);
        return -r;
    }
    if (mute)
        (void)posix_spawn_file_actions_addopen(&actions, STDERR_FILENO, "/dev/null", O_WRONLY, 0);
    (void)posix_spawnattr_setsigmask(&attributes, &none);
    (void)posix_spawnattr_setsigdefault(&attributes, &defaults);
    (void)posix_spawnattr_setpgroup(&attributes, 0);
    (void)posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF |
                                                    POSIX_SPAWN_SETPGROUP);
    r = posix_spawnp(ret, args[0], &actions, &attributes, (char **)(uintptr_t)args, environ);
    (void)posix_spawn_file_actions_destroy(&actions);
    (void)posix_spawnattr_destroy(&attributes);
    return -r;
}

/* Send a signal to the unit: by name, and to all of it or to its main process. Nobody is told when it is gone already. */
static void send_signal(const char *unit, int number, bool all)
{
    char name[32];
    const char *args[] = {"systemctl", "kill",    all ? "--kill-who=all" : "--kill-who=main",
                          name,        "--quiet", "--",
                          unit,        NULL};
    pid_t pid;

    snprintf(name, sizeof name, "--signal=%d", number);
    if (start(args, true, &pid) == 0)
        while (waitpid(pid, NULL, 0) < 0 && errno == EINTR)
            ;
}

/* 0; NOT_FOUND; NOT_EXECUTABLE. */
static int look_up(const char *program)
{
    const char *path = getenv("PATH");
    char full[PATH_MAX];
    bool there = false;
    struct stat st;

    if (strchr(program, '/')) {
        if (stat(program, &st) < 0)
            return NOT_FOUND;
        return S_ISREG(st.st_mode) && access(program, X_OK) == 0 ? 0 : NOT_EXECUTABLE;
    }
    for (const char *rest = path ? path : "/usr/bin:/bin"; rest;) {
        size_t len = strcspn(rest, ":");

        snprintf(full, sizeof full, "%.*s/%s", (int)len, rest, program);
        if (len && stat(full, &st) == 0 && S_ISREG(st.st_mode)) {
            there = true;
            if (access(full, X_OK) == 0)
                return 0;
        }
        rest = rest[len] ? rest + len + 1 : NULL;
    }
    return there ? NOT_EXECUTABLE : NOT_FOUND;
}

int exec_unit_check(struct ctl *ctl, const char *program)
{
    int status;

    if (access("/run/systemd/system", F_OK) < 0)
        return ctl_fail(ctl, XCE_FAILED,
                        "exec: this machine was not booted with systemd: lease "
                        "with acquire and start the command by other means");
    if (geteuid() != 0)
        return ctl_fail(ctl, XCE_NOT_FOUND, "exec: only root may start units of the system");
    if (look_up("systemd-run") || look_up("systemctl"))
        return ctl_fail(ctl, XCE_FAILED, "exec: systemd-run or systemctl is not in PATH");
    status = look_up(program);
    if (!status)
        return EXIT_OK;
    (void)ctl_fail(ctl, XCE_FAILED, "exec: %s: %s", program,
                   status == NOT_FOUND ? "not found" : "not executable");
    return status;
}

/* ---- arguments ---- */

/* What the argument vector points to, besides constants. */
struct line {
    const char *args[ARGS_MAX];
    size_t n;
    struct launch launch;
    char **owned;
    size_t n_owned;
};

static void line_done(struct line *line)
{
    launch_done(&line->launch);
    for (size_t i = 0; i < line->n_owned; i++)
        free(line->owned[i]);
    free(line->owned);
}

static int add(struct line *line, const char *text)
{
    if (line->n + 1 >= ARGS_MAX)
        return -E2BIG;
    line->args[line->n++] = text;
    return 0;
}

/* Takes text, which may be NULL: no memory. */
static int add_owned(struct line *line, char *text)
{
    char **grown = reallocarray(line->owned, line->n_owned + 1, sizeof *grown);

    if (!text || !grown) {
        free(text);
        return -ENOMEM;
    }
    line->owned = grown;
    line->owned[line->n_owned++] = text;
    return add(line, text);
}

static int add_option(struct line *line, const char *option, const char *value)
{
    char *text;

    return add_owned(line, asprintf(&text, "--%s=%s", option, value) < 0 ? NULL : text);
}

/* systemd expands variables in what it runs; "$$" is how a dollar is written. */
static int add_word(struct line *line, const char *word)
{
    size_t dollars = 0;
    char *text, *p;

    for (const char *c = word; *c; c++)
        dollars += *c == '$';
    if (!dollars)
        return add(line, word);
    text = p = malloc(strlen(word) + dollars + 1);
    for (const char *c = word; text && *c; c++) {
        if (*c == '$')
            *p++ = '$';
        *p++ = *c;
    }
    if (text)
        *p = 0;
    return add_owned(line, text);
}

/* The order is systemd-run's: its options, those of the lease, the caller's (which win), the recorder, the command. */
static int line_make(const struct exec_unit *unit, const char *name, const char *record,
                     struct line *ret)
{
    static const char *const first[] = {"systemd-run", "--quiet",   "--wait",
                                        "--pipe",      "--collect", "--no-ask-password"};
    char *recorder;
    int r = launch_make(unit->lease, &ret->launch);

    for (size_t i = 0; r == 0 && i < ARRAY_LEN(first); i++)
        r = add(ret, first[i]);
    if (r == 0)
        r = add_option(ret, "unit", name);
    for (size_t i = 0; r == 0 && i < ret->launch.n; i++)
        r = add(ret, ret->launch.args[i]);
    for (size_t i = 0; r == 0 && i < unit->properties->n; i++)
        r = add_option(ret, "property", unit->properties->items[i]);
    for (size_t i = 0; r == 0 && i < unit->setenv->n; i++)
        r = add_option(ret, "setenv", unit->setenv->items[i]);
    if (r == 0)
        r = add_owned(ret, asprintf(&recorder,
                                    "--property=ExecStopPost=+/bin/sh -c 'echo \"$EXIT_CODE "
                                    "$EXIT_STATUS\" >%s'",
                                    record) < 0
                               ? NULL
                               : recorder);
    if (r == 0)
        r = add(ret, "--");
    for (char **word = unit->command; r == 0 && *word; word++)
        r = add_word(ret, *word);
    return r;
}

/* ---- the end ---- */

/* "TERM" or "RTMIN+3" or a number. 0 = no signal of that name. */
static int signal_number(const char *name)
{
    char *end;
    long number;

    for (int i = 1; i < SIGRTMIN; i++)
        if (sigabbrev_np(i) && !strcmp(sigabbrev_np(i), name))
            return i;
    if (!strncmp(name, "RTMIN", 5)) {
        number = name[5] == '+' ? strtol(name + 6, &end, 10) : 0;
        return SIGRTMIN + (int)number;
    }
    number = strtol(name, &end, 10);
    return *end || number < 0 || number > SIGRTMAX ? 0 : (int)number;
}

/* "exited 3", "killed TERM", "dumped SEGV". -1 = it does not say. */
static int status_of_record(const char *text)
{
    char code[16], status[32];
    int number;

    if (sscanf(text, "%15s %31s", code, status) != 2)
        return -1;
    if (!strcmp(code, "exited")) {
        number = (int)strtol(status, NULL, 10);
        return number >= 0 && number <= 255 ? number : -1;
    }
    if (strcmp(code, "killed") != 0 && strcmp(code, "dumped") != 0)
        return -1;
    number = signal_number(status);
    return number ? 128 + number : -1;
}

static int conclude(struct ctl *ctl, int wait_status, const char *record)
{
    auto_free char *text = NULL;
    int status = -1;

    if (fs_read_file(AT_FDCWD, record, RECORD_MAX, &text, NULL) == 0)
        status = status_of_record(text);
    if (status >= 0)
        return status;
    /* No record: the unit was killed whole and the recorder with it (cgroup.kill by noded, for want of memory), or
     * systemd-run could not start it and said why. */
    if (WIFEXITED(wait_status) && WEXITSTATUS(wait_status) == RUN_NO_STATUS)
        return 128 + SIGKILL;
    if (WIFEXITED(wait_status) && WEXITSTATUS(wait_status) == 0)
        return EXEC_UNIT_UNRECORDED;
    if (WIFSIGNALED(wait_status))
        return ctl_fail(ctl, XCE_FAILED, "exec: systemd-run was killed by signal %d",
                        WTERMSIG(wait_status));
    return WEXITSTATUS(wait_status);
}

/* ---- while it runs ---- */

struct running {
    struct exec_unit *unit;
    const char *name;
    pid_t pid; /* of systemd-run */
    int last;  /* signal that was passed on last */
    int64_t tick_due_ms;
};

/* A signal that ends things, twice: the command was asked and did not, so it is killed. */
static void pass_on(struct running *running, int number)
{
    bool ends = number != SIGUSR1 && number != SIGUSR2;

    if (ends && number == running->last)
        send_signal(running->name, SIGKILL, true);
    else
        send_signal(running->name, number, ends);
    if (ends)
        running->last = number;
}

static void tick(struct running *running)
{
    struct exec_unit *unit = running->unit;
    int64_t now_ms = clock_mono_ms();

    if (!unit->tick_ms || now_ms < running->tick_due_ms)
        return;
    running->tick_due_ms = now_ms + unit->tick_ms;
    unit->tick(unit);
}

static int wait_for_end(struct running *running)
{
    int64_t wait_ms = running->unit->tick_ms && running->unit->tick_ms < WAIT_MS
                          ? running->unit->tick_ms
                          : WAIT_MS;
    struct timespec wait = {.tv_sec = wait_ms / 1000, .tv_nsec = wait_ms % 1000 * 1000000};
    sigset_t set;
    int status;

    fill_set(&set);
    for (;;) {
        int number;
        pid_t pid = waitpid(running->pid, &status, WNOHANG);

        if (pid == running->pid)
            return status;
        if (pid < 0 && errno != EINTR)
            return W_EXITCODE(EXIT_FAILED, 0);
        number = sigtimedwait(&set, NULL, &wait);
        if (number > 0 && number != SIGCHLD)
            pass_on(running, number);
        tick(running);
    }
}

int exec_unit_run(struct exec_unit *unit)
{
    char folder[] = "/run/xce-exec.XXXXXX", record[sizeof folder + 8], name[64];
    struct running running = {.unit = unit, .name = name};
    struct line line = {.n = 0};
    int r, status;

    snprintf(name, sizeof name, "xce-exec-%" PRIu32 "-%" PRIu32 ".service", unit->lease->uid,
             unit->lease->epoch);
    if (!mkdtemp(folder))
        return ctl_fail(unit->ctl, XCE_FAILED, "exec: %s: %s", folder, err_text(errno));
    snprintf(record, sizeof record, "%s/end", folder);
    r = line_make(unit, name, record, &line);
    if (r == 0)
        r = start(line.args, false, &running.pid);
    if (r < 0) {
        status = ctl_fail(unit->ctl, XCE_FAILED, "exec: systemd-run: %s", err_text(r));
    } else {
        running.tick_due_ms = clock_mono_ms() + unit->tick_ms;
        status = conclude(unit->ctl, wait_for_end(&running), record);
    }
    line_done(&line);
    (void)unlink(record);
    (void)rmdir(folder);
    return status;
}
