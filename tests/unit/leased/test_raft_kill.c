/* Three replicas as processes, killed by kill -9 at any moment, one or two at a time: what was acknowledged is there on all of
 * them, nothing is there twice, and they end up equal. 30 kills; 200 with XCE_TEST_LONG=1; XCE_TEST_SEED=n repeats.
 *
 * The program starts itself: test_raft_kill FOLDER INDEX FIRST; acknowledgements go to stdout. C-Raft 0.22.1 is known to crash
 * now and then: a child that dies by itself of SIGSEGV is counted, started again, and reported. */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <setjmp.h>
#include <signal.h>
#include <spawn.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "common/clock.h"
#include "common/digest.h"
#include "common/net/transport.h"
#include "tests/lib/raft_kit.h"
#include "tests/lib/tmp.h"

#define PATIENCE_MS 60000 /* a machine that is busy with other tests elects for long */
#define REPLICAS    3u
#define OUTSTANDING 8
#define POOL_UIDS   (1u << 20)
#define SHARE       1000000u /* of request numbers: replica i takes those from i * SHARE on */

extern char **environ;

struct ack {
    uint64_t request, lease;
    uint32_t uid, epoch;
};

/* ---- the child ---- */

struct worker {
    struct raft_node node;
    char sockets[300];
    int listener;
    uint64_t next, last;
    unsigned asking;
    bool ends;
    struct loop_poll *poll, *end;
};

struct asked {
    struct worker *worker;
    uint64_t request;
};

static void ask(struct worker *worker);

static void answered(int r, const struct fsm_outcome *outcome, void *arg)
{
    struct asked *asked = arg;
    struct worker *worker = asked->worker;

    worker->asking--;
    if (worker->ends) {
        free(asked);
        return;
    }
    if (r == 0 && outcome->code == FSM_OK) {
        const struct fsm_lease *lease = fsm_lease(worker->node.kit.fsm, outcome->leases[0]);
        struct ack ack = {asked->request, lease->id, lease->uid, lease->epoch};

        if (write(STDOUT_FILENO, &ack, sizeof ack) != sizeof ack)
            _exit(10);
    } else if (r == 0) {
        _exit(11);
    }
    free(asked);
    ask(worker);
}

/* While we lead, and were told to. */
static void ask(struct worker *worker)
{
    while (worker->node.kit.leading && worker->asking < OUTSTANDING &&
           worker->next < worker->last) {
        struct asked *asked = malloc(sizeof *asked);
        uint8_t bytes[ENGINE_KIT_BYTES];

        *asked = (struct asked){worker, worker->next++};
        worker->asking++;
        engine_propose(worker->node.kit.engine, bytes, engine_kit_acquire(asked->request, bytes),
                       answered, asked);
    }
}

static void nothing(void *arg)
{
    (void)arg;
}

static void no_data(const uint8_t *data, size_t len, void *arg)
{
    (void)data, (void)len, (void)arg;
}

static void no_end(int r, void *arg)
{
    (void)r, (void)arg;
}

static void incoming(int fd, unsigned events, void *arg)
{
    static const struct transport_events none = {nothing, no_data, nothing, no_end};
    struct worker *worker = arg;
    struct transport *transport;
    int peer = accept4(fd, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);

    (void)events;
    if (peer >= 0 && transport_unix_new(worker->node.kit.loop, peer, &none, NULL, &transport) == 0)
        replica_accept(worker->node.kit.engine, transport);
}

static int child_connect(const char *name, const char *address,
                         const struct transport_events *events, void *events_arg,
                         struct transport **ret, void *arg)
{
    struct worker *worker = arg;
    char path[340];

    (void)name;
    (void)snprintf(path, sizeof path, "%s/%.2s.sock", worker->sockets, address);
    return transport_unix_connect(worker->node.kit.loop, path, events, events_arg, ret);
}

static bool child_proves(const struct transport *transport, const char *name, void *arg)
{
    (void)name, (void)arg;
    return transport->peer.local && transport->peer.uid == geteuid();
}

static void told_to_end(int fd, unsigned events, void *arg)
{
    struct worker *worker = arg;
    char byte;

    (void)events;
    worker->ends = read(fd, &byte, 1) == 0;
}

static int listen_at(const char *path)
{
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);

    (void)unlink(path);
    memcpy(address.sun_path, path, strlen(path) + 1);
    if (fd < 0 || bind(fd, (struct sockaddr *)&address, sizeof address) < 0 || listen(fd, 16) < 0)
        _exit(12);
    return fd;
}

static void set_options(struct raft_node *node)
{
    /* Snapshots happen, and those that lag are sent one now and then. */
    node->kit.options.snapshot_entries = 512;
}

static int work(char **argv)
{
    static struct worker the_worker;
    struct worker *worker = &the_worker;
    struct raft_node *node = &worker->node;
    unsigned index = (unsigned)strtoul(argv[2], NULL, 10);
    struct loop *loop;
    char own[300], path[340];

    (void)prctl(PR_SET_PDEATHSIG, SIGKILL);
    (void)signal(SIGPIPE, SIG_IGN);
    if (loop_new(&loop) < 0)
        return 13;
    (void)snprintf(worker->sockets, sizeof worker->sockets, "%.200s", argv[1]);
    (void)snprintf(own, sizeof own, "%.200s/r%u", argv[1], index);
    (void)snprintf(node->name, sizeof node->name, "r%u", index);
    (void)snprintf(node->address, sizeof node->address, "h%u:7623", index);
    (void)snprintf(node->raft_folder, sizeof node->raft_folder, "%s/raft", own);
    (void)snprintf(path, sizeof path, "%.200s/h%u.sock", argv[1], index);
    engine_kit_init_on(&node->kit, own, loop);
    set_options(node);
    node->links = (struct replica_links){child_connect, child_proves, worker};
    node->options = (struct replica_options){.folder = node->raft_folder,
                                             .name = node->name,
                                             .address = node->address,
                                             .links = &node->links};
    node->kit.replica = &node->options;
    worker->next = strtoull(argv[3], NULL, 10);
    worker->last = (index + 1) * (uint64_t)SHARE;
    worker->listener = listen_at(path);
    if (engine_kit_open(&node->kit, true) < 0) {
        fprintf(stderr, "replica %u: %s\n", index, node->kit.why);
        return 14;
    }
    if (loop_poll_new(loop, worker->listener, POLLIN, incoming, worker, &worker->poll) < 0 ||
        loop_poll_new(loop, STDIN_FILENO, POLLIN, told_to_end, worker, &worker->end) < 0)
        return 15;
    while (!worker->ends) {
        loop_step(loop, 20);
        ask(worker);
    }
    loop_poll_free(worker->end);
    loop_poll_free(worker->poll);
    engine_kit_close(&node->kit);
    return 0;
}

/* ---- the parent ---- */

struct process {
    pid_t pid; /* 0 = does not run */
    int out, in;
    uint64_t next; /* request number that the next one begins with */
};

struct fixture {
    struct raft_kit kit;
    struct process processes[REPLICAS];
    unsigned seed;
    struct ack *acks;
    size_t n_acks, acks_cap;
    unsigned n_crashes;
};

static const char *self;

static void start(struct fixture *fx, unsigned i)
{
    struct process *process = &fx->processes[i];
    char index[8], first[24];
    char *argv[] = {(char *)self, fx->kit.folder, index, first, NULL};
    posix_spawn_file_actions_t actions;
    int out[2], in[2];

    (void)snprintf(index, sizeof index, "%u", i);
    (void)snprintf(first, sizeof first, "%lu", (unsigned long)process->next);
    assert_int_equal(pipe2(out, O_CLOEXEC), 0);
    assert_int_equal(pipe2(in, O_CLOEXEC), 0);
    assert_int_equal(posix_spawn_file_actions_init(&actions), 0);
    assert_int_equal(posix_spawn_file_actions_adddup2(&actions, out[1], STDOUT_FILENO), 0);
    assert_int_equal(posix_spawn_file_actions_adddup2(&actions, in[0], STDIN_FILENO), 0);
    assert_int_equal(posix_spawn(&process->pid, self, &actions, NULL, argv, environ), 0);
    (void)posix_spawn_file_actions_destroy(&actions);
    (void)close(out[1]);
    (void)close(in[0]);
    process->out = out[0];
    process->in = in[1];
}

static void take(struct fixture *fx, struct process *process, const struct ack *ack)
{
    if (fx->n_acks == fx->acks_cap) {
        fx->acks_cap = fx->acks_cap * 2 + 1024;
        fx->acks = realloc(fx->acks, fx->acks_cap * sizeof *fx->acks);
    }
    fx->acks[fx->n_acks++] = *ack;
    if (ack->request + OUTSTANDING + 1 > process->next)
        process->next = ack->request + OUTSTANDING + 1;
}

/* It has closed its stdout: by our hand, or by its own. */
static void reap(struct fixture *fx, unsigned i, bool killed)
{
    struct process *process = &fx->processes[i];
    int status;

    assert_int_equal(waitpid(process->pid, &status, 0), process->pid);
    (void)close(process->out);
    (void)close(process->in);
    process->pid = 0;
    if (killed || (WIFEXITED(status) && WEXITSTATUS(status) == 0))
        return;
    if (!WIFSIGNALED(status) || WTERMSIG(status) != SIGSEGV)
        fail_msg("replica %u ended by itself with status %x", i, (unsigned)status);
    fx->n_crashes++;
    print_message("replica %u crashed: signal %d\n", i, WTERMSIG(status));
    start(fx, i);
}

/* Take what they say for so long, or until there are n more acknowledgements. */
static size_t listen_for(struct fixture *fx, int64_t ms, size_t n)
{
    int64_t until = clock_mono_ms() + ms, left;
    size_t before = fx->n_acks;

    while ((left = until - clock_mono_ms()) > 0 && fx->n_acks - before < n) {
        struct pollfd fds[REPLICAS];

        for (unsigned i = 0; i < REPLICAS; i++)
            fds[i] = (struct pollfd){fx->processes[i].pid ? fx->processes[i].out : -1, POLLIN, 0};
        (void)poll(fds, REPLICAS, (int)left);
        for (unsigned i = 0; i < REPLICAS; i++) {
            struct ack ack;
            ssize_t len;

            if (!fds[i].revents)
                continue;
            len = read(fds[i].fd, &ack, sizeof ack);
            if (len == sizeof ack)
                take(fx, &fx->processes[i], &ack);
            else
                reap(fx, i, false);
        }
    }
    return fx->n_acks - before;
}

static void kill_one(struct fixture *fx, unsigned i)
{
    struct process *process = &fx->processes[i];
    struct ack ack;

    if (!process->pid)
        return;
    assert_int_equal(kill(process->pid, SIGKILL), 0);
    while (read(process->out, &ack, sizeof ack) == sizeof ack)
        take(fx, process, &ack);
    reap(fx, i, true);
}

static int setup(void **state)
{
    struct fixture *fx = calloc(1, sizeof *fx);
    const char *seed = getenv("XCE_TEST_SEED");

    if (seed)
        fx->seed = (unsigned)strtoul(seed, NULL, 10);
    else
        digest_random(&fx->seed, sizeof fx->seed);
    print_message("XCE_TEST_SEED=%u\n", fx->seed);
    raft_kit_init(&fx->kit, tmp_dir(), REPLICAS);
    fx->kit.with_history = true;
    raft_kit_form(&fx->kit, POOL_UIDS);
    for (unsigned i = 0; i < REPLICAS; i++) {
        raft_kit_stop(&fx->kit, i);
        fx->processes[i].next = i * (uint64_t)SHARE + 1;
    }
    *state = fx;
    return 0;
}

static int teardown(void **state)
{
    struct fixture *fx = *state;

    for (unsigned i = 0; i < REPLICAS; i++)
        kill_one(fx, i);
    raft_kit_done(&fx->kit);
    tmp_remove(fx->kit.folder);
    free(fx->acks);
    free(fx);
    return 0;
}

static void stop_all(struct fixture *fx)
{
    for (unsigned i = 0; i < REPLICAS; i++) {
        struct process *process = &fx->processes[i];
        struct ack ack;

        (void)close(process->in);
        process->in = -1;
        while (read(process->out, &ack, sizeof ack) == sizeof ack)
            take(fx, process, &ack);
        reap(fx, i, false);
    }
}

static void expect_acks(const struct fixture *fx, unsigned i)
{
    const struct fsm *fsm = fx->kit.nodes[i].kit.fsm;

    for (size_t n = 0; n < fx->n_acks; n++) {
        const struct ack *ack = &fx->acks[n];
        const struct fsm_lease *lease = fsm_lease(fsm, ack->lease);
        char job[24];

        (void)snprintf(job, sizeof job, "j%lu", (unsigned long)ack->request);
        if (!lease || strcmp(lease->job, job) != 0 || lease->uid != ack->uid ||
            lease->epoch != ack->epoch)
            fail_msg("replica %u: lease %lu of request %lu is lost", i, (unsigned long)ack->lease,
                     (unsigned long)ack->request);
    }
    assert_null(fsm_verify(fsm));
}

static void raft_killed_at_any_moment_keeps_what_it_acknowledged(void **state)
{
    struct fixture *fx = *state;
    unsigned kills = getenv("XCE_TEST_LONG") ? 200 : 30, n = 0;

    for (unsigned i = 0; i < REPLICAS; i++)
        start(fx, i);
    assert_true(listen_for(fx, PATIENCE_MS, 100) >= 100);
    while (n < kills) {
        unsigned first = (unsigned)rand_r(&fx->seed) % REPLICAS;
        bool two = rand_r(&fx->seed) % 4 == 0;

        (void)listen_for(fx, rand_r(&fx->seed) % 400, SIZE_MAX);
        kill_one(fx, first);
        if (two)
            kill_one(fx, (first + 1) % REPLICAS);
        n += 1 + two;
        (void)listen_for(fx, rand_r(&fx->seed) % 500, SIZE_MAX);
        for (unsigned i = 0; i < REPLICAS; i++)
            if (!fx->processes[i].pid)
                start(fx, i);
        /* It heals by itself. */
        if (listen_for(fx, PATIENCE_MS, 20) < 20)
            fail_msg("no acknowledgement within %d ms after kill %u", PATIENCE_MS, n);
    }
    stop_all(fx);
    for (unsigned i = 0; i < REPLICAS; i++)
        if (raft_kit_start(&fx->kit, i) < 0)
            fail_msg("replica %u: %s", i, fx->kit.nodes[i].kit.why);
    assert_true(raft_kit_leader(&fx->kit, 0) >= 0);
    assert_true(raft_kit_equal(&fx->kit));
    for (unsigned i = 0; i < REPLICAS; i++)
        expect_acks(fx, i);
    print_message("%u kills, %zu acknowledged, %u crashes of the library\n", n, fx->n_acks,
                  fx->n_crashes);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(raft_killed_at_any_moment_keeps_what_it_acknowledged, setup,
                                        teardown),
    };

    self = argv[0];
    if (argc == 4)
        return work(argv);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
