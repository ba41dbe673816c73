/* Killed at any moment, by kill -9 or a power cut: what was acknowledged is there after the restart, nothing is there twice,
 * and history knows each lease once. 20 rounds of each; 200 with XCE_TEST_LONG=1; XCE_TEST_SEED=n repeats a run.
 *
 * The program starts itself as the child that works: test_engine_kill FOLDER FIRST POWER, acknowledgements on stdout. */
#include <errno.h>
#include <poll.h>
#include <setjmp.h>
#include <signal.h>
#include <spawn.h>
#include <sqlite3.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "common/clock.h"
#include "common/digest.h"
#include "tests/lib/disk_fault.h"
#include "tests/lib/engine_kit.h"
#include "tests/lib/tmp.h"

#define OUTSTANDING 16
#define POOL_UIDS   (1u << 20)
#define GAP         100 /* of request numbers between two children */

extern char **environ;

/* What the child says on its stdout when it was told so. */
struct ack {
    uint64_t request; /* 0: a release */
    uint64_t lease;
    uint32_t uid, epoch;
};

/* ---- the child ---- */

struct worker {
    struct engine_kit kit;
    uint64_t next;
    unsigned seed;
    uint64_t cut_after; /* acknowledgements, then the power fails; 0 = never */
    uint64_t n_acks;
};

struct asked {
    struct worker *worker;
    uint64_t request;
};

static void ask(struct worker *worker);

static void say(struct worker *worker, const struct ack *ack)
{
    if (write(STDOUT_FILENO, ack, sizeof *ack) != sizeof *ack)
        _exit(10);
    worker->n_acks++;
    if (worker->cut_after && worker->n_acks >= worker->cut_after) {
        disk_power_cut(worker->seed);
        _exit(0);
    }
}

static void released(int r, const struct fsm_outcome *outcome, void *arg)
{
    struct asked *asked = arg;
    struct ack ack = {0, asked->request, 0, 0};

    if (r < 0 || outcome->code != FSM_OK)
        _exit(11);
    say(asked->worker, &ack);
    ask(asked->worker);
    free(asked);
}

static void acquired(int r, const struct fsm_outcome *outcome, void *arg)
{
    struct asked *asked = arg;
    struct worker *worker = asked->worker;
    const struct fsm_lease *lease;
    uint8_t bytes[ENGINE_KIT_BYTES];
    struct ack ack;

    if (r < 0 || outcome->code != FSM_OK)
        _exit(12);
    lease = fsm_lease(worker->kit.fsm, outcome->leases[0]);
    ack = (struct ack){asked->request, lease->id, lease->uid, lease->epoch};
    say(worker, &ack);
    /* Every fourth is given back at once. */
    if (asked->request % 4 == 0) {
        asked->request = lease->id;
        engine_propose(worker->kit.engine, bytes,
                       engine_kit_release(lease->id, lease->epoch, bytes), released, asked);
        return;
    }
    free(asked);
    ask(worker);
}

static void ask(struct worker *worker)
{
    struct asked *asked = malloc(sizeof *asked);
    uint8_t bytes[ENGINE_KIT_BYTES];

    *asked = (struct asked){worker, worker->next++};
    engine_propose(worker->kit.engine, bytes, engine_kit_acquire(asked->request, bytes), acquired,
                   asked);
}

static int work(char **argv)
{
    struct worker *worker = calloc(1, sizeof *worker);

    worker->next = strtoull(argv[2], NULL, 10);
    worker->cut_after = strtoull(argv[3], NULL, 10);
    worker->seed = (unsigned)strtoul(argv[4], NULL, 10);
    engine_kit_init(&worker->kit, argv[1]);
    worker->kit.options.snapshot_entries = 40;
    if (engine_kit_open(&worker->kit, true) < 0) {
        fprintf(stderr, "child: %s\n", worker->kit.why);
        return 1;
    }
    if (worker->cut_after)
        disk_power_watch();
    for (int i = 0; i < OUTSTANDING; i++)
        ask(worker);
    for (;;)
        loop_step(worker->kit.loop, 1000);
}

/* ---- the parent ---- */

struct fixture {
    struct engine_kit kit;
    unsigned seed;
    uint64_t next;
    struct ack *acks; /* by request number; lease 0 = not acknowledged */
    size_t acks_cap;
    uint64_t *released;
    size_t n_released, released_cap;
    uint64_t n_acked;
};

static const char *self;

static int setup(void **state)
{
    struct fixture *fx = calloc(1, sizeof *fx);
    const char *seed = getenv("XCE_TEST_SEED");

    if (seed)
        fx->seed = (unsigned)strtoul(seed, NULL, 10);
    else
        digest_random(&fx->seed, sizeof fx->seed);
    print_message("XCE_TEST_SEED=%u\n", fx->seed);
    fx->next = 1;
    engine_kit_init(&fx->kit, tmp_dir());
    assert_int_equal(engine_kit_open(&fx->kit, true), 0);
    engine_kit_start(&fx->kit, POOL_UIDS);
    engine_kit_close(&fx->kit);
    *state = fx;
    return 0;
}

static int teardown(void **state)
{
    struct fixture *fx = *state;

    engine_kit_done(&fx->kit);
    tmp_remove(fx->kit.folder);
    free(fx->acks);
    free(fx->released);
    free(fx);
    return 0;
}

static void take(struct fixture *fx, const struct ack *ack)
{
    if (!ack->request) {
        fx->released = realloc(fx->released, (fx->n_released + 1) * sizeof *fx->released);
        fx->released[fx->n_released++] = ack->lease;
        return;
    }
    if (ack->request >= fx->acks_cap) {
        size_t cap = (size_t)ack->request * 2 + 1024;

        fx->acks = realloc(fx->acks, cap * sizeof *fx->acks);
        memset(fx->acks + fx->acks_cap, 0, (cap - fx->acks_cap) * sizeof *fx->acks);
        fx->acks_cap = cap;
    }
    if (fx->acks[ack->request].lease)
        fail_msg("request %lu was acknowledged twice: lease %lu, then %lu",
                 (unsigned long)ack->request, (unsigned long)fx->acks[ack->request].lease,
                 (unsigned long)ack->lease);
    fx->acks[ack->request] = *ack;
    fx->n_acked++;
    if (ack->request >= fx->next)
        fx->next = ack->request + 1;
}

static pid_t start_child(struct fixture *fx, uint64_t cut_after, int *ret_fd)
{
    char first[24], cut[24], seed[24];
    char *argv[] = {(char *)self, fx->kit.folder, first, cut, seed, NULL};
    posix_spawn_file_actions_t actions;
    int fds[2];
    pid_t pid;

    (void)snprintf(first, sizeof first, "%lu", (unsigned long)(fx->next + GAP));
    (void)snprintf(cut, sizeof cut, "%lu", (unsigned long)cut_after);
    (void)snprintf(seed, sizeof seed, "%u", (unsigned)rand_r(&fx->seed));
    assert_int_equal(pipe(fds), 0);
    assert_int_equal(posix_spawn_file_actions_init(&actions), 0);
    assert_int_equal(posix_spawn_file_actions_adddup2(&actions, fds[1], STDOUT_FILENO), 0);
    assert_int_equal(posix_spawn_file_actions_addclose(&actions, fds[0]), 0);
    assert_int_equal(posix_spawn(&pid, self, &actions, NULL, argv, environ), 0);
    (void)posix_spawn_file_actions_destroy(&actions);
    (void)close(fds[1]);
    *ret_fd = fds[0];
    return pid;
}

/* Let a child work until it has acknowledged so much, kill it, take what it said until it died. */
static void run_child(struct fixture *fx, uint64_t n_acks, bool power)
{
    uint64_t seen = 0;
    struct ack ack;
    int fd, status;
    pid_t pid = start_child(fx, power ? n_acks : 0, &fd);
    ssize_t len;

    while ((len = read(fd, &ack, sizeof ack)) == sizeof ack) {
        take(fx, &ack);
        if (++seen == n_acks && !power)
            assert_int_equal(kill(pid, SIGKILL), 0);
    }
    (void)close(fd);
    assert_int_equal(waitpid(pid, &status, 0), pid);
    if (power ? status != 0 : !WIFSIGNALED(status))
        fail_msg("the child ended with status %x after %lu", (unsigned)status, (unsigned long)seen);
}

static void expect_lease(const struct fixture *fx, const struct ack *ack)
{
    const struct fsm_lease *lease = fsm_lease(fx->kit.fsm, ack->lease);
    char job[24];

    (void)snprintf(job, sizeof job, "j%lu", (unsigned long)ack->request);
    if (!lease)
        fail_msg("lease %lu of request %lu is lost", (unsigned long)ack->lease,
                 (unsigned long)ack->request);
    assert_string_equal(lease->job, job);
    assert_int_equal(lease->uid, ack->uid);
    assert_int_equal(lease->epoch, ack->epoch);
}

/* One lease for a request at most; the number of leases. */
static uint64_t expect_single_leases(const struct fixture *fx)
{
    size_t bytes = (size_t)(fx->next + 2 * GAP + 1000000) / 8;
    uint8_t *seen = calloc(1, bytes);
    uint64_t n = 0;

    for (const struct fsm_lease *lease = fsm_lease_next(fx->kit.fsm, 0); lease;
         lease = fsm_lease_next(fx->kit.fsm, lease->id)) {
        uint64_t request = strtoull(lease->job + 1, NULL, 10);

        assert_true(request / 8 < bytes);
        if (seen[request / 8] & (1 << request % 8))
            fail_msg("request %lu has two leases", (unsigned long)request);
        seen[request / 8] |= (uint8_t)(1 << request % 8);
        n++;
    }
    free(seen);
    return n;
}

static uint64_t sql_number(const struct fixture *fx, const char *sql)
{
    sqlite3 *db;
    sqlite3_stmt *statement;
    uint64_t value;

    assert_int_equal(sqlite3_open(fx->kit.history_path, &db), SQLITE_OK);
    assert_int_equal(sqlite3_prepare_v2(db, sql, -1, &statement, NULL), SQLITE_OK);
    assert_int_equal(sqlite3_step(statement), SQLITE_ROW);
    value = (uint64_t)sqlite3_column_int64(statement, 0);
    (void)sqlite3_finalize(statement);
    (void)sqlite3_close(db);
    return value;
}

static void check(struct fixture *fx)
{
    uint64_t n, n_ended = 0;

    if (engine_kit_open(&fx->kit, true) < 0)
        fail_msg("%s", fx->kit.why);
    assert_null(fsm_verify(fx->kit.fsm));
    for (uint64_t i = 1; i < fx->next; i++)
        if (i < fx->acks_cap && fx->acks[i].lease)
            expect_lease(fx, &fx->acks[i]);
    for (size_t i = 0; i < fx->n_released; i++)
        assert_int_equal(fsm_lease(fx->kit.fsm, fx->released[i])->state, LEASE_DRAINING);
    n = expect_single_leases(fx);
    for (const struct fsm_lease *lease = fsm_lease_next(fx->kit.fsm, 0); lease;
         lease = fsm_lease_next(fx->kit.fsm, lease->id)) {
        n_ended += lease->state == LEASE_DRAINING;
        if (lease->id >= fx->next)
            fx->next = lease->id + 1;
    }
    engine_kit_close(&fx->kit);
    assert_int_equal(sql_number(fx, "SELECT count(*) FROM lease"), n);
    assert_int_equal(sql_number(fx, "SELECT count(*) FROM lease WHERE ended IS NOT NULL"), n_ended);
    assert_int_equal(sql_number(fx, "SELECT count(*) FROM gap"), 0);
}

static void kill_often(struct fixture *fx, bool power)
{
    unsigned rounds = getenv("XCE_TEST_LONG") ? 200 : 20;

    for (unsigned i = 1; i <= rounds; i++) {
        run_child(fx, 1 + (uint64_t)rand_r(&fx->seed) % 600, power);
        /* Sometimes a crash follows a crash. */
        if (i % 3 == 0 || i == rounds)
            check(fx);
    }
    print_message("%u rounds, %lu acknowledged, %zu given back\n", rounds,
                  (unsigned long)fx->n_acked, fx->n_released);
    assert_true(fx->n_acked > rounds);
}

static void engine_killed_at_any_moment_keeps_what_it_acknowledged(void **state)
{
    kill_often(*state, false);
}

static void engine_after_a_power_cut_has_what_it_acknowledged(void **state)
{
    kill_often(*state, true);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(engine_killed_at_any_moment_keeps_what_it_acknowledged,
                                        setup, teardown),
        cmocka_unit_test_setup_teardown(engine_after_a_power_cut_has_what_it_acknowledged, setup,
                                        teardown),
    };

    self = argv[0];
    if (argc == 5)
        return work(argv);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
