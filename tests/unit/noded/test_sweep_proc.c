/* Really planted processes: every place where an id can stand, and every way not to die. */
#include "tests/unit/noded/sweep_fixture.h"

#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <poll.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/fsuid.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "common/clock.h"
#include "noded/sweep/proc.h"
#include "noded/sweep/uids.h"

#define NOT ((id_t)-1)

static void die_unless(int r)
{
    if (r < 0)
        _exit(99);
}

static void become_all(uint32_t id)
{
    die_unless(setgroups(0, NULL));
    die_unless(setresgid(id, id, id));
    die_unless(setresuid(id, id, id));
}

static void become_real(uint32_t id)
{
    die_unless(setresuid(id, NOT, NOT));
}

static void become_effective(uint32_t id)
{
    die_unless(setresuid(NOT, id, NOT));
}

static void become_saved(uint32_t id)
{
    die_unless(setresuid(NOT, NOT, id));
}

static void become_fs(uint32_t id)
{
    (void)setfsuid(id);
}

static void become_gid(uint32_t id)
{
    die_unless(setresgid(id, NOT, NOT));
}

static void become_saved_gid(uint32_t id)
{
    die_unless(setresgid(NOT, NOT, id));
}

static void become_fs_gid(uint32_t id)
{
    (void)setfsgid(id);
}

static void become_group(uint32_t id)
{
    gid_t groups[3] = {4, id, 5};
    die_unless(setgroups(3, groups));
}

static void become_many_groups(uint32_t id)
{
    gid_t *groups = malloc(65536 * sizeof(*groups));
    for (uint32_t i = 0; i < 65536; i++)
        groups[i] = 1500000000u + i;
    groups[65535] = id;
    die_unless(setgroups(65536, groups));
}

static int thread_ready[2];

static void *thread_of_id(void *arg)
{
    uint32_t id = *(uint32_t *)arg;
    /* The bare call: of this thread alone. */
    die_unless((int)syscall(SYS_setresuid, id, NOT, NOT));
    die_unless(write(thread_ready[1], "x", 1) == 1 ? 0 : -1);
    for (;;)
        (void)pause();
    return NULL;
}

static void become_thread(uint32_t id)
{
    static uint32_t kept;
    pthread_t thread;
    char c;

    kept = id;
    die_unless(pipe(thread_ready));
    die_unless(-pthread_create(&thread, NULL, thread_of_id, &kept));
    die_unless(read(thread_ready[0], &c, 1) == 1 ? 0 : -1);
}

static void become_thread_without_leader(uint32_t id)
{
    become_thread(id);
    fixture_ready();
    pthread_exit(NULL);
}

static void become_stopped(uint32_t id)
{
    become_all(id);
    fixture_ready();
    (void)raise(SIGSTOP);
}

static void become_deaf(uint32_t id)
{
    sigset_t all;
    (void)sigfillset(&all);
    (void)sigprocmask(SIG_SETMASK, &all, NULL);
    become_all(id);
}

/* In a user namespace that maps the id to root. */
static void become_mapped(uint32_t id)
{
    char map[64], path[64];
    int go[2];
    pid_t pid;
    char c;

    die_unless(pipe(go));
    pid = fork();
    if (pid == 0) {
        (void)prctl(PR_SET_PDEATHSIG, SIGKILL);
        die_unless(unshare(CLONE_NEWUSER | CLONE_NEWPID));
        fixture_ready();
        (void)close(go[1]);
        die_unless((int)read(go[0], &c, 1));
        die_unless(setresuid(0, 0, 0));
        for (;;)
            (void)pause();
    }
    /* The child's byte on the shared pipe tells the test that it is there; the map makes its ids ours. */
    int len = snprintf(map, sizeof(map), "0 %u 1", id);
    for (;;) {
        (void)snprintf(path, sizeof(path), "/proc/%d/uid_map", pid);
        int fd = open(path, O_WRONLY | O_CLOEXEC);
        ssize_t n = write(fd, map, (size_t)len);
        (void)close(fd);
        if (n == len)
            break;
        (void)sched_yield();
    }
    (void)close(go[1]);
}

/* As many children as the limit lets it have, for ever. */
static void become_bomb(uint32_t id)
{
    struct rlimit limit = {60, 60};

    become_all(id);
    die_unless(setrlimit(RLIMIT_NPROC, &limit));
    fixture_ready();
    for (;;)
        if (fork() < 0)
            (void)sched_yield();
}

#define CHAIN_MS 60000 /* by then it ends by itself, should a test fail */

static int64_t chain_end_ms;
static char chain_stacks[16][16384] __attribute__((aligned(16)));

/* Never there for longer than it takes to fork: each generation ends as soon as it has a child. */
static void chain_by_fork(void)
{
    while (clock_mono_ms() < chain_end_ms)
        if (fork() > 0)
            _exit(0);
    _exit(0);
}

/* The same as fast as it gets: memory is shared, no table of pages is copied. */
static int chain_link(void *arg)
{
    unsigned n = (unsigned)(uintptr_t)arg + 1;

    if (n % 1024 == 0 && clock_mono_ms() >= chain_end_ms)
        return 0;
    (void)clone(chain_link, chain_stacks[n % 15 + 1], CLONE_VM | SIGCHLD, (void *)(uintptr_t)n);
    return 0;
}

static void chain_by_clone(void)
{
    _exit(chain_link(NULL));
}

static int chain_life[2];
static void (*chain)(void);

/* Somebody else takes in the orphans and has them vanish at once. */
static void become_father_of_a_chain(uint32_t id)
{
    int begun[2];
    char c;

    chain_end_ms = clock_mono_ms() + CHAIN_MS;
    die_unless(prctl(PR_SET_CHILD_SUBREAPER, 1));
    (void)signal(SIGCHLD, SIG_IGN);
    die_unless(pipe(begun));
    if (fork() == 0) {
        (void)close(chain_life[0]);
        become_all(id);
        if (fork() > 0)
            _exit(0);
        die_unless(write(begun[1], "x", 1) == 1 ? 0 : -1);
        (void)close(begun[0]);
        (void)close(begun[1]);
        chain();
    }
    (void)close(chain_life[1]);
    /* Before it bears the uid a sweep finds nothing, and is right. */
    die_unless(read(begun[0], &c, 1) == 1 ? 0 : -1);
    (void)close(begun[0]);
    (void)close(begun[1]);
}

static void sweep_it(struct fixture *f)
{
    sweep_run(&f->sweep, SWEEP_RUNNING);
}

static void proc_each_holder_is_found_and_killed(void **state)
{
    struct fixture *f = fixture_get(state);
    static const struct {
        const char *name;
        void (*become)(uint32_t);
    } holders[] = {
        {"all", become_all},
        {"real", become_real},
        {"saved", become_saved},
        {"gid", become_gid},
        {"saved gid", become_saved_gid},
        {"thread", become_thread},
        {"thread, leader gone", become_thread_without_leader},
        {"stopped", become_stopped},
        {"deaf", become_deaf},
    };
    enum { N = sizeof(holders) / sizeof(holders[0]) };
    pid_t pids[N];

    for (int i = 0; i < N; i++) {
        pids[i] = fixture_plant(holders[i].become, f->uids[0]);
        /* Each is found alone. */
        f->sweep.remove = false;
        sweep_it(f);
        if (!sweep_verdict(&f->sweep, f->uids[0]))
            fail_msg("not found: %s", holders[i].name);
        f->sweep.remove = true;
        sweep_it(f);
        fixture_assert_clean(f);
        if (fixture_reap(pids[i]) != SIGKILL)
            fail_msg("not killed: %s", holders[i].name);
    }
}

/* As a server does for each call, but for good. */
static void proc_of_root_that_acts_for_the_uid_is_found_and_lives_on(void **state)
{
    struct fixture *f = fixture_get(state);
    static const struct {
        const char *name;
        void (*become)(uint32_t);
    } holders[] = {
        {"effective", become_effective},
        {"fsuid", become_fs},
        {"fsgid", become_fs_gid},
        {"group", become_group},
        {"65,536 groups", become_many_groups},
    };

    for (size_t i = 0; i < sizeof(holders) / sizeof(holders[0]); i++) {
        pid_t pid = fixture_plant(holders[i].become, f->uids[0]);
        const struct sweep_finding *finding;
        sweep_it(f);
        finding = sweep_verdict(&f->sweep, f->uids[0]);
        if (!finding || finding->reason != REASON_PROCESS_LENT)
            fail_msg("%s: %s", holders[i].name, finding ? finding->detail : "not found");
        assert_true(fixture_alive(pid));
        assert_int_equal(kill(pid, SIGKILL), 0);
        (void)fixture_reap(pid);
        sweep_it(f);
        fixture_assert_clean(f);
    }
}

/* Of somebody else, who is not root: each is killed. */
static void become_others_effective(uint32_t id)
{
    die_unless(setresuid(id + 1, id, id + 1));
}

static void become_others_group(uint32_t id)
{
    become_group(id);
    die_unless(setresuid(id + 1, id + 1, id + 1));
}

static void become_others_fs_gid(uint32_t id)
{
    die_unless(setresgid(id + 1, id, id + 1));
    die_unless(setresuid(id + 1, id + 1, id + 1));
}

static void proc_of_others_that_acts_as_the_uid_is_killed(void **state)
{
    struct fixture *f = fixture_get(state);
    void (*const holders[])(uint32_t) = {become_others_effective, become_others_group,
                                         become_others_fs_gid};

    for (size_t i = 0; i < sizeof(holders) / sizeof(holders[0]); i++) {
        pid_t pid = fixture_plant(holders[i], f->uids[0]);
        sweep_it(f);
        fixture_assert_clean(f);
        assert_int_equal(fixture_reap(pid), SIGKILL);
    }
}

static void proc_in_a_user_namespace_is_found_and_killed(void **state)
{
    struct fixture *f = fixture_get(state);
    pid_t pid = fixture_plant(become_mapped, f->uids[0]);

    /* The parent waits until the map is written; then the child becomes root of its namespace, the id outside. */
    f->sweep.remove = false;
    for (int64_t end = clock_mono_ms() + 60000; clock_mono_ms() < end;) {
        sweep_it(f);
        if (sweep_verdict(&f->sweep, f->uids[0]))
            break;
    }
    assert_non_null(sweep_verdict(&f->sweep, f->uids[0]));
    f->sweep.remove = true;
    sweep_it(f);
    fixture_assert_clean(f);
    assert_int_equal(kill(pid, SIGKILL), 0);
    (void)fixture_reap(pid);
}

static void proc_fork_bomb_ends(void **state)
{
    struct fixture *f = fixture_get(state);
    pid_t pid = fixture_plant(become_bomb, f->uids[0]);

    for (int i = 0; i < 10; i++) {
        sweep_it(f);
        if (!sweep_verdict(&f->sweep, f->uids[0]))
            break;
    }
    fixture_assert_clean(f);
    assert_int_equal(fixture_reap(pid), SIGKILL);
}

/* Clean is said only when no generation is left: nobody holds the pipe. */
static void chain_ends(struct fixture *f, void (*of)(void), const char *name)
{
    struct pollfd life = {.events = 0};
    bool dead = false;
    pid_t father;

    chain = of;
    assert_return_code(pipe2(chain_life, O_CLOEXEC), errno);
    father = fixture_plant(become_father_of_a_chain, f->uids[0]);
    (void)close(chain_life[1]);
    life.fd = chain_life[0];
    for (int i = 0; i < 20 && !dead; i++) {
        sweep_it(f);
        dead = poll(&life, 1, 0) == 1 && life.revents & POLLHUP;
        if (!sweep_verdict(&f->sweep, f->uids[0]) && !dead)
            fail_msg("%s: sweep %d calls it clean, but it runs", name, i);
    }
    if (!dead)
        fail_msg("%s: it does not end", name);
    sweep_it(f);
    fixture_assert_clean(f);
    assert_true(fixture_alive(father));
    assert_int_equal(kill(father, SIGKILL), 0);
    (void)fixture_reap(father);
    (void)close(chain_life[0]);
}

static void proc_that_forks_and_ends_without_rest_ends(void **state)
{
    struct fixture *f = fixture_get(state);

    chain_ends(f, chain_by_fork, "fork");
    chain_ends(f, chain_by_clone, "clone");
}

static int open_of_the_child(void)
{
    int n = 0;

    for (int fd = 0; fd < 1024; fd++)
        n += fcntl(fd, F_GETFD) >= 0;
    return n;
}

static void proc_child_that_bears_the_uid_has_nothing_of_ours(void **state)
{
    struct fixture *f = fixture_get(state);
    int open_there = 0;

    assert_int_equal(uids_act(&f->sweep, f->uids, 1, open_of_the_child, &open_there), 0);
    assert_int_equal(open_there, 1); /* what it is asked by */
}

static void *sweep_meanwhile(void *arg)
{
    struct fixture *f = arg;
    struct sweep other = f->sweep;

    for (int i = 0; i < 50; i++) {
        sweep_run(&other, SWEEP_RUNNING);
        if (sweep_verdict(&other, f->uids[0]))
            return arg;
    }
    sweep_done(&other);
    return NULL;
}

/* A sweep and a pass of the guard: neither ends, nor takes for a stray, what the other ends it by. */
static void proc_two_at_the_same_uid_do_not_meet(void **state)
{
    struct fixture *f = fixture_get(state);
    pthread_t thread;
    void *found;

    assert_int_equal(pthread_create(&thread, NULL, sweep_meanwhile, f), 0);
    for (int i = 0; i < 50; i++) {
        sweep_it(f);
        fixture_assert_clean(f);
    }
    assert_int_equal(pthread_join(thread, &found), 0);
    assert_null(found);
    assert_int_equal(f->sweep.n_removed, 0);
}

/* All that it may signal, without rest. */
static void become_enemy(uint32_t id)
{
    become_all(id);
    fixture_ready();
    for (;;)
        (void)kill(-1, SIGSTOP);
}

static void proc_that_stops_whoever_has_its_uid_ends(void **state)
{
    struct fixture *f = fixture_get(state);
    pid_t pid = fixture_plant(become_enemy, f->uids[0]);

    for (int i = 0; i < 5; i++) {
        sweep_it(f);
        if (!sweep_verdict(&f->sweep, f->uids[0]))
            break;
    }
    fixture_assert_clean(f);
    assert_int_equal(fixture_reap(pid), SIGKILL);
}

static bool any_has(uint32_t id, void *arg)
{
    const struct fixture *f = arg;

    return id == f->uids[0] || id == UINT32_MAX;
}

/* It stops or kills who comes to end it: the others of the same sweep are as clean as they are. */
static void proc_one_that_can_not_be_ended_at_a_blow_keeps_its_own_uid_alone(void **state)
{
    struct fixture *f = fixture_get(state);
    pid_t pid = fixture_plant(become_all, f->uids[0]);
    const uint32_t uids[] = {UINT32_MAX, f->uids[0]}; /* that one nobody becomes */
    const struct sweep_finding *finding;

    f->sweep.uids = uids;
    f->sweep.n_uids = 2;
    f->sweep.ids = (struct sweep_ids){f->uids[0], UINT32_MAX, any_has, f};
    sweep_it(f);
    fixture_assert_clean(f);
    assert_int_equal(fixture_reap(pid), SIGKILL);
    finding = sweep_verdict(&f->sweep, UINT32_MAX);
    assert_non_null(finding);
    assert_int_equal(finding->reason, REASON_SCAN_FAILED);
}

static void proc_zombie_does_not_count(void **state)
{
    struct fixture *f = fixture_get(state);
    pid_t pid = fixture_plant(become_all, f->uids[0]);
    siginfo_t info;

    assert_int_equal(kill(pid, SIGKILL), 0);
    assert_int_equal(waitid(P_PID, (id_t)pid, &info, WEXITED | WNOWAIT), 0);
    sweep_it(f);
    fixture_assert_clean(f);
    assert_int_equal(f->sweep.n_removed, 0);
    (void)fixture_reap(pid);
}

static void proc_of_others_lives_on(void **state)
{
    struct fixture *f = fixture_get(state);
    pid_t other = fixture_plant(become_all, f->uids[1]);
    pid_t group = fixture_plant(become_others_group, f->uids[1]);

    sweep_it(f);
    fixture_assert_clean(f);
    assert_true(fixture_alive(other));
    assert_true(fixture_alive(group));
    f->list.uids = &f->uids[1];
    f->sweep.ids.min = f->sweep.ids.max = f->uids[1];
    sweep_it(f);
    assert_int_equal(fixture_reap(other), SIGKILL);
    assert_int_equal(fixture_reap(group), SIGKILL);
}

struct fickle {
    uint32_t uid;
    int yes; /* so many times, then it has become sanctioned */
};

static bool fickle_has(uint32_t id, void *arg)
{
    struct fickle *fickle = arg;
    return id == fickle->uid && fickle->yes-- > 0;
}

static void proc_sanctioned_between_look_and_kill_lives_on(void **state)
{
    struct fixture *f = fixture_get(state);
    pid_t pid = fixture_plant(become_all, f->uids[0]);
    /* The first look asks of the four uids and four gids; the look before the kill is told no. */
    struct fickle fickle = {f->uids[0], 8};

    f->sweep.n_uids = 0; /* one by one */
    f->sweep.ids.has = fickle_has;
    f->sweep.ids.arg = &fickle;
    sweep_it(f);
    assert_true(fixture_alive(pid));
    assert_int_equal(kill(pid, SIGKILL), 0);
    (void)fixture_reap(pid);
}

struct handed {
    uint32_t uid, other;
    int asked, in_hand, other_in_hand;
};

static bool handed_has(uint32_t id, void *arg)
{
    struct handed *h = arg;

    h->asked++;
    h->in_hand += uids_in_hand(h->uid);
    h->other_in_hand += uids_in_hand(h->other);
    return id == h->uid;
}

/* Nothing sanctioned may begin between that question and the end of all: it would be ended, too. */
static void proc_uid_is_in_hand_from_the_question_on(void **state)
{
    struct fixture *f = fixture_get(state);
    struct handed handed = {f->uids[0], f->uids[1], 0, 0, 0};

    f->sweep.ids.has = handed_has;
    f->sweep.ids.arg = &handed;
    sweep_it(f);
    assert_true(handed.asked > 0);
    assert_int_equal(handed.in_hand, handed.asked);
    assert_int_equal(handed.other_in_hand, 0);
    assert_false(uids_in_hand(f->uids[0]));
}

static void *borrow(void *arg)
{
    struct timespec while_serving = {.tv_nsec = 20000000L};
    (void)setfsuid(*(uint32_t *)arg);
    fixture_ready();
    (void)nanosleep(&while_serving, NULL);
    (void)setfsuid(0);
    return NULL;
}

static void become_server(uint32_t id)
{
    pthread_t thread;
    die_unless(-pthread_create(&thread, NULL, borrow, &id));
    (void)pthread_join(thread, NULL);
}

static void proc_file_server_at_work_lives_on(void **state)
{
    struct fixture *f = fixture_get(state);
    pid_t pid = fixture_plant(become_server, f->uids[0]);

    sweep_it(f);
    fixture_assert_clean(f);
    assert_true(fixture_alive(pid));
    assert_int_equal(kill(pid, SIGKILL), 0);
    (void)fixture_reap(pid);
}

/* One of many threads that serve the uid all the time: a call, and the next. */
static void *serve(void *arg)
{
    uint32_t id = *(uint32_t *)arg;

    for (;;) {
        (void)setfsuid(id);
        (void)nanosleep(&(struct timespec){.tv_nsec = 1500000L}, NULL);
        (void)setfsuid(0);
        (void)nanosleep(&(struct timespec){.tv_nsec = 1000000L}, NULL);
    }
    return NULL;
}

static void become_busy_server(uint32_t id)
{
    static uint32_t kept;
    pthread_t thread;

    kept = id;
    for (int i = 0; i < 8; i++)
        die_unless(-pthread_create(&thread, NULL, serve, &kept));
}

static void proc_file_server_that_never_rests_lives_on(void **state)
{
    struct fixture *f = fixture_get(state);
    pid_t pid = fixture_plant(become_busy_server, f->uids[0]);

    for (int i = 0; i < 3; i++) {
        f->sweep.remove = i > 0;
        sweep_it(f);
        fixture_assert_clean(f);
    }
    assert_int_equal(f->sweep.n_removed, 0);
    assert_true(fixture_alive(pid));
    assert_int_equal(kill(pid, SIGKILL), 0);
    (void)fixture_reap(pid);
}

/* Root's at first, and the uid's own before it has been looked at long enough. */
static void *become_own_later(void *arg)
{
    uint32_t id = *(uint32_t *)arg;

    (void)setfsuid(id);
    fixture_ready();
    (void)nanosleep(&(struct timespec){.tv_nsec = 50000000L}, NULL);
    die_unless((int)syscall(SYS_setresuid, id, id, id));
    for (;;)
        (void)pause();
    return NULL;
}

static void become_one_that_changes(uint32_t id)
{
    pthread_t thread;

    die_unless(-pthread_create(&thread, NULL, become_own_later, &id));
    (void)pthread_join(thread, NULL);
}

static void proc_of_root_that_becomes_the_uids_is_killed(void **state)
{
    struct fixture *f = fixture_get(state);
    pid_t pid = fixture_plant(become_one_that_changes, f->uids[0]);

    f->sweep.n_uids = 0; /* one by one */
    sweep_it(f);
    fixture_assert_clean(f);
    assert_int_equal(fixture_reap(pid), SIGKILL);
}

static void proc_traced_is_killed(void **state)
{
    struct fixture *f = fixture_get(state);
    pid_t pid = fixture_plant(become_all, f->uids[0]);

    assert_int_equal(ptrace(PTRACE_SEIZE, pid, NULL, NULL), 0);
    assert_int_equal(ptrace(PTRACE_INTERRUPT, pid, NULL, NULL), 0);
    sweep_it(f);
    fixture_assert_clean(f);
    /* First the stop of the tracer, if it came so far. */
    for (int status; waitpid(pid, &status, __WALL) == pid && WIFSTOPPED(status);)
        (void)ptrace(PTRACE_CONT, pid, NULL, NULL);
    assert_int_equal(kill(pid, 0), -1);
}

/* A tracer can hold at its end whom nobody can kill a second time. */
static void proc_that_does_not_end_is_waited_for_once(void **state)
{
    struct fixture *f = fixture_get(state);
    pid_t pid = fixture_plant(become_all, f->uids[0]);
    const struct sweep_finding *finding;
    int64_t began_ms, without_ms;

    assert_int_equal(ptrace(PTRACE_SEIZE, pid, NULL, (void *)PTRACE_O_TRACEEXIT), 0);
    f->sweep.remove = false;
    began_ms = clock_mono_ms();
    sweep_run(&f->sweep, SWEEP_RUNNING | SWEEP_LYING);
    without_ms = clock_mono_ms() - began_ms;
    f->sweep.remove = true;
    f->sweep.wait_ms = 1000;
    began_ms = clock_mono_ms();
    sweep_run(&f->sweep, SWEEP_RUNNING | SWEEP_LYING);
    /* How long a look takes is the machine's. */
    assert_in_range(clock_mono_ms() - began_ms, 1000, 5000 + 10 * without_ms);
    finding = sweep_verdict(&f->sweep, f->uids[0]);
    assert_non_null(finding);
    assert_int_equal(finding->reason, REASON_PROCESS_UNKILLABLE);
    assert_int_equal(waitpid(pid, NULL, __WALL), pid);
    assert_int_equal(ptrace(PTRACE_CONT, pid, NULL, NULL), 0);
    assert_int_equal(fixture_reap(pid), SIGKILL);
    sweep_it(f);
    fixture_assert_clean(f);
}

static void proc_unreadable_is_dirty(void **state)
{
    struct fixture *f = fixture_get(state);
    char path[128];
    const struct sweep_finding *finding;

    /* A /proc that can not be looked at: a pid whose status is a folder. */
    (void)snprintf(path, sizeof(path), "%s/123", f->dir);
    fixture_folder(path, 0, 0, 0755);
    (void)snprintf(path, sizeof(path), "%s/123/status", f->dir);
    fixture_folder(path, 0, 0, 0755);
    f->places.proc = f->dir;
    sweep_it(f);
    finding = sweep_verdict(&f->sweep, f->uids[0]);
    assert_non_null(finding);
    assert_int_equal(finding->reason, REASON_SCAN_FAILED);
    f->places.proc = "/nonexistent";
    sweep_it(f);
    assert_non_null(sweep_verdict(&f->sweep, f->uids[0]));
}

static void proc_status_accepts_and_rejects(void **state)
{
    static const struct {
        const char *text;
        int r;
    } cases[] = {
        {"Name:\tsh\nState:\tS (x)\nUid:\t1\t2\t3\t4\nGid:\t5 6 7 8\nGroups:\t9 10 \n", 0},
        {"Name:\t\nState:\tS\nUid:\t1\t2\t3\t4\nGid:\t5 6 7 8\nGroups:\n", 0},
        {"State:\tS\nUid:\t1\t2\t3\nGid:\t5 6 7 8\nGroups:\n", -EBADMSG},
        {"State:\tS\nUid:\t1\t2\t3\t4294967296\nGid:\t5 6 7 8\nGroups:\n", -EBADMSG},
        {"State:\tS\nGid:\t5 6 7 8\nGroups:\n", -EBADMSG},
        {"State:\tS\nUid:\t1\t2\t3\t4\nGid:\t5 6 7 8\n", -EBADMSG},
        {"State:\tS\nUid:\tx\t2\t3\t4\nGid:\t5 6 7 8\nGroups:\n", -EBADMSG},
        {"", -EBADMSG},
        {"\n\n\n", -EBADMSG},
        /* A name can not pass itself off as another line: the kernel escapes its newline. */
        {"Name:\tx\\nUid:\t1\nState:\tS\nGid:\t5 6 7 8\nGroups:\n", -EBADMSG},
    };

    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        struct proc_status st;
        if (proc_parse_status(cases[i].text, &st) != cases[i].r)
            fail_msg("case %zu", i);
    }
}

static void proc_status_groups_come_in_order(void **state)
{
    struct proc_status st;
    uint32_t group;

    assert_int_equal(proc_parse_status("State:\tS\nUid:\t1\t2\t3\t4\nGid:\t5 6 7 8\n"
                                       "Groups:\t9 4294967295 11 \nThreads:\t12\n",
                                       &st),
                     0);
    assert_int_equal(st.uids[3], 4);
    assert_int_equal(st.gids[0], 5);
    assert_int_equal(st.n_threads, 12);
    assert_int_equal(proc_next_group(&st, &group), 1);
    assert_int_equal(group, 9);
    assert_int_equal(proc_next_group(&st, &group), 1);
    assert_int_equal(group, UINT32_MAX);
    assert_int_equal(proc_next_group(&st, &group), 1);
    assert_int_equal(group, 11);
    assert_int_equal(proc_next_group(&st, &group), 0);
}

int main(void)
{
#define SWEEP_TEST(fn) cmocka_unit_test_setup_teardown(fn, fixture_setup, fixture_teardown)
    const struct CMUnitTest tests[] = {
        SWEEP_TEST(proc_each_holder_is_found_and_killed),
        SWEEP_TEST(proc_of_root_that_acts_for_the_uid_is_found_and_lives_on),
        SWEEP_TEST(proc_of_others_that_acts_as_the_uid_is_killed),
        SWEEP_TEST(proc_in_a_user_namespace_is_found_and_killed),
        SWEEP_TEST(proc_fork_bomb_ends),
        SWEEP_TEST(proc_that_forks_and_ends_without_rest_ends),
        SWEEP_TEST(proc_child_that_bears_the_uid_has_nothing_of_ours),
        SWEEP_TEST(proc_two_at_the_same_uid_do_not_meet),
        SWEEP_TEST(proc_that_stops_whoever_has_its_uid_ends),
        SWEEP_TEST(proc_one_that_can_not_be_ended_at_a_blow_keeps_its_own_uid_alone),
        SWEEP_TEST(proc_zombie_does_not_count),
        SWEEP_TEST(proc_of_others_lives_on),
        SWEEP_TEST(proc_sanctioned_between_look_and_kill_lives_on),
        SWEEP_TEST(proc_uid_is_in_hand_from_the_question_on),
        SWEEP_TEST(proc_file_server_at_work_lives_on),
        SWEEP_TEST(proc_file_server_that_never_rests_lives_on),
        SWEEP_TEST(proc_of_root_that_becomes_the_uids_is_killed),
        SWEEP_TEST(proc_traced_is_killed),
        SWEEP_TEST(proc_that_does_not_end_is_waited_for_once),
        SWEEP_TEST(proc_unreadable_is_dirty),
        cmocka_unit_test(proc_status_accepts_and_rejects),
        cmocka_unit_test(proc_status_groups_come_in_order),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
