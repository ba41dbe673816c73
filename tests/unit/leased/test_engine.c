/* The engine as its callers see it: answers, restarts, snapshots, trouble with the disk. */
#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "common/clock.h"
#include "leased/engine/sqlite.h"
#include "tests/lib/disk_fault.h"
#include "tests/lib/engine_kit.h"
#include "tests/lib/tmp.h"

/* A child is forked while this program has had threads. */
__attribute__((visibility("default"))) const char *__tsan_default_options(void);
const char *__tsan_default_options(void)
{
    return "die_after_fork=0";
}

static int setup(void **state)
{
    struct engine_kit *kit = malloc(sizeof *kit);

    engine_kit_init(kit, tmp_dir());
    *state = kit;
    return 0;
}

static int teardown(void **state)
{
    struct engine_kit *kit = *state;

    disk_fault_disarm();
    engine_kit_done(kit);
    tmp_remove(kit->folder);
    free(kit);
    return 0;
}

/* ---- words ---- */

static void open_kit(struct engine_kit *kit)
{
    if (engine_kit_open(kit, false) < 0)
        fail_msg("%s", kit->why);
}

static void reopen(struct engine_kit *kit)
{
    engine_kit_close(kit);
    open_kit(kit);
}

static void start(struct engine_kit *kit)
{
    open_kit(kit);
    engine_kit_start(kit, 4096);
}

static void acquire(struct engine_kit *kit, uint64_t first, uint64_t last)
{
    for (uint64_t i = first; i <= last; i++) {
        assert_int_equal(engine_kit_do_acquire(kit, i), 0);
        assert_int_equal(kit->out.code, FSM_OK);
    }
}

static const struct fsm_lease *lease_of(const struct engine_kit *kit, uint64_t i)
{
    char job[24];

    (void)snprintf(job, sizeof job, "j%lu", (unsigned long)i);
    return fsm_lease_of_job(kit->fsm, 1000, job);
}

static void expect_leases(const struct engine_kit *kit, uint64_t first, uint64_t last)
{
    for (uint64_t i = first; i <= last; i++)
        if (!lease_of(kit, i))
            fail_msg("the lease of request %lu is not there", (unsigned long)i);
}

static struct engine_status status_of(const struct engine_kit *kit)
{
    struct engine_status status;

    engine_get_status(kit->engine, &status);
    return status;
}

/* Answers of many proposals. */
struct answers {
    struct engine_kit *kit;
    unsigned n, ok, full, cancelled, other;
    uint64_t last_revision;
    bool inside, close_at_first;
};

static void count(int r, const struct fsm_outcome *outcome, void *arg)
{
    struct answers *answers = arg;

    assert_false(answers->inside);
    answers->n++;
    if (r == 0) {
        answers->ok++;
        assert_true(outcome->revision > answers->last_revision);
        answers->last_revision = outcome->revision;
        assert_int_equal(fsm_revision(answers->kit->fsm), outcome->revision);
    } else if (r == -ENOBUFS) {
        answers->full++;
    } else if (r == -ECANCELED) {
        answers->cancelled++;
    } else {
        answers->other++;
    }
}

static void propose(struct answers *answers, uint64_t i)
{
    uint8_t bytes[ENGINE_KIT_BYTES];

    answers->inside = true;
    engine_propose(answers->kit->engine, bytes, engine_kit_acquire(i, bytes), count, answers);
    answers->inside = false;
}

static void wait_answers(struct answers *answers, unsigned n)
{
    int64_t until = clock_mono_ms() + 60000;

    while (answers->n < n && clock_mono_ms() < until)
        loop_step(answers->kit->loop, 100);
    assert_int_equal(answers->n, n);
}

/* ---- answers ---- */

static void engine_answers_each_proposal_once_in_order(void **state)
{
    struct engine_kit *kit = *state;
    struct answers answers = {.kit = kit};

    start(kit);
    for (uint64_t i = 1; i <= 500; i++)
        propose(&answers, i);
    assert_int_equal(answers.n, 0);
    wait_answers(&answers, 500);
    assert_int_equal(answers.ok, 500);
    expect_leases(kit, 1, 500);
    assert_int_equal(kit->last_change, fsm_revision(kit->fsm));
}

static void engine_gathers_commands_into_entries(void **state)
{
    struct engine_kit *kit = *state;
    struct answers answers = {.kit = kit};
    uint64_t before;

    start(kit);
    before = status_of(kit).last_entry;
    for (uint64_t i = 1; i <= 1000; i++)
        propose(&answers, i);
    wait_answers(&answers, 1000);
    assert_in_range(status_of(kit).last_entry - before, 1, 10);
    assert_int_equal(kit->n_applied, status_of(kit).last_entry);
}

static void engine_keeps_the_limits_of_a_batch(void **state)
{
    struct engine_kit *kit = *state;
    struct answers answers = {.kit = kit};
    uint64_t before;

    kit->options.batch_commands = 4;
    kit->options.waiting_commands = 100;
    start(kit);
    before = status_of(kit).last_entry;
    for (uint64_t i = 1; i <= 120; i++)
        propose(&answers, i);
    wait_answers(&answers, 120);
    assert_in_range(answers.full, 1, 20);
    assert_int_equal(answers.ok + answers.full, 120);
    assert_true(status_of(kit).last_entry - before >= answers.ok / 4);
    engine_kit_close(kit);
    kit->options.batch_commands = 0;
    kit->options.batch_bytes = 1000;
    open_kit(kit);
    before = status_of(kit).last_entry;
    for (uint64_t i = 201; i <= 240; i++)
        propose(&answers, i);
    wait_answers(&answers, 160);
    assert_true(status_of(kit).last_entry - before >= 40 * 100 / 1000);
    expect_leases(kit, 201, 240);
}

static void engine_refuses_a_command_longer_than_an_entry(void **state)
{
    struct engine_kit *kit = *state;
    size_t len = 17 << 20;
    uint8_t *bytes = calloc(1, len);

    start(kit);
    assert_int_equal(engine_kit_do(kit, bytes, len), -EMSGSIZE);
    acquire(kit, 1, 1);
    free(bytes);
}

static void engine_barrier_comes_after_what_was_acknowledged(void **state)
{
    struct engine_kit *kit = *state;
    struct answers answers = {.kit = kit};

    start(kit);
    for (uint64_t i = 1; i <= 10; i++)
        propose(&answers, i);
    wait_answers(&answers, 10);
    assert_int_equal(engine_kit_snapshot(kit), 0);
    expect_leases(kit, 1, 10);
}

static void note_cancelled(void *arg)
{
    *(bool *)arg = true;
}

static void engine_closed_answers_all_that_waits(void **state)
{
    struct engine_kit *kit = *state;
    struct answers answers = {.kit = kit};
    bool closed = false;
    unsigned acknowledged;

    kit->options.batch_commands = 8;
    start(kit);
    for (uint64_t i = 1; i <= 300; i++)
        propose(&answers, i);
    /* Some are written, some are being written, some wait. */
    while (answers.ok == 0)
        loop_step(kit->loop, 100);
    engine_close(kit->engine, note_cancelled, &closed);
    propose(&answers, 301);
    while (!closed)
        loop_step(kit->loop, 100);
    kit->engine = NULL;
    assert_int_equal(answers.n, 301);
    assert_true(answers.cancelled > 0);
    assert_int_equal(answers.other, 0);
    acknowledged = answers.ok;
    open_kit(kit);
    expect_leases(kit, 1, acknowledged);
    assert_null(lease_of(kit, acknowledged + 1));
}

static void close_inside(int r, const struct fsm_outcome *outcome, void *arg)
{
    struct answers *answers = arg;

    count(r, outcome, arg);
    if (answers->n == 1)
        engine_close(answers->kit->engine, note_cancelled, &answers->close_at_first);
}

static void engine_closed_inside_an_answer_finishes_the_batch(void **state)
{
    struct engine_kit *kit = *state;
    struct answers answers = {.kit = kit};
    uint8_t bytes[ENGINE_KIT_BYTES];

    start(kit);
    for (uint64_t i = 1; i <= 20; i++)
        engine_propose(kit->engine, bytes, engine_kit_acquire(i, bytes), close_inside, &answers);
    while (!answers.close_at_first)
        loop_step(kit->loop, 100);
    kit->engine = NULL;
    assert_int_equal(answers.n, 20);
    open_kit(kit);
    expect_leases(kit, 1, answers.ok);
}

/* ---- restarts ---- */

static void engine_reopened_has_the_same_state(void **state)
{
    struct engine_kit *kit = *state;
    uint64_t digest, revision;

    start(kit);
    acquire(kit, 1, 50);
    digest = fsm_digest(kit->fsm);
    revision = fsm_revision(kit->fsm);
    engine_kit_close(kit);
    /* Without the grace that comes when it leads again. */
    kit->options.grace_ms = 1;
    open_kit(kit);
    assert_int_equal(kit->last_change, revision);
    assert_int_equal(fsm_revision(kit->fsm), revision);
    expect_leases(kit, 1, 50);
    acquire(kit, 51, 60);
    reopen(kit);
    expect_leases(kit, 1, 60);
    assert_true(digest != 0);
}

static void engine_gives_a_grace_before_it_leads(void **state)
{
    struct engine_kit *kit = *state;
    int64_t before, now;

    start(kit);
    acquire(kit, 1, 3);
    before = lease_of(kit, 1)->expires_ms;
    engine_kit_close(kit);
    kit->options.grace_ms = 3600000; /* as long as the leases' ttl */
    open_kit(kit);
    assert_true(kit->leading);
    now = engine_now_ms(kit->engine);
    for (uint64_t i = 1; i <= 3; i++) {
        assert_true(lease_of(kit, i)->expires_ms >= before);
        assert_in_range(lease_of(kit, i)->expires_ms, now + 3600000 - 5000, now + 3600000);
    }
}

static void engine_time_goes_on_and_never_back(void **state)
{
    struct engine_kit *kit = *state;
    int64_t last = 0;

    start(kit);
    for (uint64_t i = 1; i <= 20; i++) {
        acquire(kit, i, i);
        assert_true(kit->out.now_ms >= last);
        assert_true(engine_now_ms(kit->engine) >= kit->out.now_ms);
        last = kit->out.now_ms;
        if (i % 5 == 0)
            reopen(kit);
        /* Time in which nothing runs is not cluster time. */
        assert_true(engine_now_ms(kit->engine) < last + 5000);
    }
}

/* Nothing has been written for an hour. */
static void engine_time_that_is_told_is_good_after_a_restart(void **state)
{
    struct engine_kit *kit = *state;
    int64_t told_ms;

    start(kit);
    acquire(kit, 1, 1);
    engine_kit_pass(kit, 3600000);
    assert_true(engine_now_ms(kit->engine) >= 3600000);
    told_ms = engine_told_ms(kit->engine);
    assert_true(told_ms >= fsm_now_ms(kit->fsm));
    reopen(kit);
    assert_true(told_ms <= engine_now_ms(kit->engine) + ENGINE_TOLD_AHEAD_MS);
}

static bool snapshot_is_cut(const struct engine_kit *kit)
{
    struct engine_status status = status_of(kit);

    return status.snapshot_entry >= 90 && status.log_bytes < 30 * 300;
}

static void engine_takes_snapshots_and_cuts_the_log(void **state)
{
    struct engine_kit *kit = *state;
    struct engine_status status;

    kit->options.snapshot_entries = 20;
    start(kit);
    acquire(kit, 1, 100);
    assert_true(engine_kit_until(kit, snapshot_is_cut));
    reopen(kit);
    status = status_of(kit);
    assert_true(status.snapshot_entry >= 90);
    expect_leases(kit, 1, 100);
    /* Only what lies behind the snapshot was replayed. */
    assert_in_range(kit->n_changes, 0, 30);
    acquire(kit, 101, 150);
    reopen(kit);
    expect_leases(kit, 1, 150);
}

static bool has_snapshot(const struct engine_kit *kit)
{
    return status_of(kit).snapshot_entry > 0;
}

static bool has_parts_written(const struct engine_kit *kit)
{
    return kit->n_applied > 150;
}

static void engine_cuts_nothing_that_history_lacks(void **state)
{
    struct engine_kit *kit = *state;
    uint64_t revision;

    kit->options.snapshot_entries = 20;
    kit->history_at = 0;
    start(kit);
    acquire(kit, 1, 200);
    assert_true(engine_kit_until(kit, has_parts_written));
    assert_int_equal(status_of(kit).snapshot_entry, 0);
    revision = fsm_revision(kit->fsm);
    reopen(kit);
    /* All of it is told again. */
    assert_true(kit->n_changes >= revision);
    acquire(kit, 201, 202);
    assert_int_equal(status_of(kit).snapshot_entry, 0);
    kit->history_at = UINT64_MAX;
    assert_true(engine_kit_until(kit, has_snapshot));
    reopen(kit);
    expect_leases(kit, 1, 202);
}

static void engine_snapshot_on_request_is_the_one_to_restart_from(void **state)
{
    struct engine_kit *kit = *state;
    uint64_t entry;

    start(kit);
    acquire(kit, 1, 30);
    entry = status_of(kit).last_entry;
    assert_int_equal(engine_kit_snapshot(kit), 0);
    assert_int_equal(status_of(kit).snapshot_entry, entry);
    /* Nothing has happened since. */
    assert_int_equal(engine_kit_snapshot(kit), 0);
    acquire(kit, 31, 31);
    assert_int_equal(engine_kit_snapshot(kit), 0);
    assert_int_equal(status_of(kit).snapshot_entry, entry + 1);
    reopen(kit);
    expect_leases(kit, 1, 31);
    assert_true(kit->n_changes <= 31);
}

static void engine_and_history_agree_after_restarts(void **state)
{
    struct engine_kit *kit = *state;

    kit->options.snapshot_entries = 15;
    assert_int_equal(engine_kit_open(kit, true), 0);
    engine_kit_start(kit, 4096);
    for (uint64_t round = 0; round < 6; round++) {
        acquire(kit, 20 * round + 1, 20 * round + 20);
        engine_kit_close(kit);
        assert_int_equal(engine_kit_open(kit, true), 0);
        expect_leases(kit, 1, 20 * round + 20);
    }
    assert_int_equal(engine_kit_snapshot(kit), 0);
    assert_true(history_revision(kit->history) >= 120);
}

/* ---- the disk ---- */

static bool is_well(const struct engine_kit *kit)
{
    return kit->health == 0;
}

static void engine_on_a_full_disk_refuses_and_goes_on_by_itself(void **state)
{
    struct engine_kit *kit = *state;
    uint64_t digest, revision;

    start(kit);
    acquire(kit, 1, 20);
    digest = fsm_digest(kit->fsm);
    revision = fsm_revision(kit->fsm);
    disk_fault_arm(
        &(struct disk_fault){.op = DISK_WRITE, .suffix = "engine.db-wal", .error = ENOSPC});
    for (uint64_t i = 21; i <= 40; i++)
        assert_int_equal(engine_kit_do_acquire(kit, i), -ENOSPC);
    assert_int_equal(kit->health, -ENOSPC);
    assert_non_null(strstr(kit->what, kit->path));
    assert_non_null(strstr(kit->what, "full"));
    assert_int_equal(fsm_digest(kit->fsm), digest);
    assert_int_equal(fsm_revision(kit->fsm), revision);
    disk_fault_disarm();
    assert_true(engine_kit_until(kit, is_well));
    acquire(kit, 30, 35);
    reopen(kit);
    expect_leases(kit, 1, 20);
    expect_leases(kit, 30, 35);
    for (uint64_t i = 21; i <= 29; i++)
        assert_null(lease_of(kit, i));
}

static void engine_whose_sync_failed_once_finds_the_entry(void **state)
{
    struct engine_kit *kit = *state;

    start(kit);
    acquire(kit, 1, 5);
    disk_fault_arm(&(struct disk_fault){.op = DISK_SYNC,
                                        .suffix = "engine.db-wal",
                                        .times = 1,
                                        .error = EIO,
                                        .done_all_same = true});
    acquire(kit, 6, 6);
    assert_int_equal(disk_fault_hits(), 1);
    assert_true(engine_kit_until(kit, is_well));
    acquire(kit, 7, 7);
    reopen(kit);
    expect_leases(kit, 1, 7);
}

static void engine_whose_write_failed_once_writes_again(void **state)
{
    struct engine_kit *kit = *state;

    start(kit);
    acquire(kit, 1, 5);
    for (uint64_t i = 6; i <= 15; i++) {
        disk_fault_arm(&(struct disk_fault){.op = DISK_WRITE,
                                            .suffix = "engine.db-wal",
                                            .after = (unsigned)i % 3,
                                            .times = 1,
                                            .error = i % 2 ? EIO : ENOSPC});
        acquire(kit, i, i);
        disk_fault_disarm();
    }
    assert_true(kit->n_health >= 2);
    assert_true(engine_kit_until(kit, is_well));
    reopen(kit);
    expect_leases(kit, 1, 15);
}

/* The entry reached the file, but nobody can say so before the disk is well: the answer is "unknown", and the same request
 * later gets the answer of the first. */
static void engine_in_doubt_says_so_and_does_it_once(void **state)
{
    struct engine_kit *kit = *state;
    uint64_t lease;

    start(kit);
    acquire(kit, 1, 5);
    disk_fault_arm(
        &(struct disk_fault){.op = DISK_SYNC, .suffix = "", .error = EIO, .done_all_same = true});
    assert_int_equal(engine_kit_do_acquire(kit, 6), -ECONNABORTED);
    assert_int_equal(engine_kit_do_acquire(kit, 7), -EIO);
    assert_int_equal(kit->health, -EIO);
    assert_null(lease_of(kit, 6));
    disk_fault_disarm();
    assert_true(engine_kit_until(kit, is_well));
    assert_non_null(lease_of(kit, 6));
    lease = lease_of(kit, 6)->id;
    acquire(kit, 6, 6);
    assert_true(kit->out.replayed);
    assert_int_equal(kit->lease, lease);
    assert_null(lease_of(kit, 7));
    reopen(kit);
    expect_leases(kit, 1, 6);
    assert_null(lease_of(kit, 7));
}

static void engine_snapshot_that_fails_is_tried_again(void **state)
{
    struct engine_kit *kit = *state;

    start(kit);
    acquire(kit, 1, 50);
    disk_fault_arm(
        &(struct disk_fault){.op = DISK_WRITE, .suffix = "engine.db-wal", .error = ENOSPC});
    assert_int_equal(engine_kit_snapshot(kit), -ENOSPC);
    disk_fault_disarm();
    assert_true(engine_kit_until(kit, is_well));
    assert_int_equal(engine_kit_snapshot(kit), 0);
    reopen(kit);
    expect_leases(kit, 1, 50);
}

static bool leads(const struct engine_kit *kit)
{
    return kit->leading;
}

static void engine_opened_on_a_full_disk_reads_and_leads_later(void **state)
{
    struct engine_kit *kit = *state;

    start(kit);
    acquire(kit, 1, 20);
    engine_kit_close(kit);
    disk_fault_arm(
        &(struct disk_fault){.op = DISK_WRITE, .suffix = "engine.db-wal", .error = ENOSPC});
    open_kit(kit);
    assert_int_equal(kit->health, -ENOSPC);
    assert_false(kit->leading);
    expect_leases(kit, 1, 20);
    assert_int_equal(engine_kit_do_acquire(kit, 21), -ENOSPC);
    disk_fault_disarm();
    assert_true(engine_kit_until(kit, leads));
    assert_int_equal(kit->health, 0);
    acquire(kit, 22, 22);
}

/* ---- a real small disk ---- */

/* Take what room is left. */
static void fill_disk(const char *path)
{
    static char block[4096];
    int fd = open(path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);

    while (write(fd, block, sizeof block) > 0)
        ;
    while (write(fd, block, 1) > 0)
        ;
    (void)close(fd);
}

/* In a child with a mount namespace of its own; 0 = well. */
static int live_on_a_small_disk(struct engine_kit *kit)
{
    char path[512];
    uint64_t acked = 0, refused = 0, i;

    if (unshare(CLONE_NEWNS) < 0 || mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) < 0 ||
        mount("small", kit->folder, "tmpfs", 0, "size=3m") < 0)
        return 77;
    (void)snprintf(path, sizeof path, "%s/filler", kit->folder);
    if (engine_kit_open(kit, true) < 0)
        return 1;
    engine_kit_start(kit, 4096);
    for (i = 1; i <= 50; i++)
        if (engine_kit_do_acquire(kit, i) < 0)
            return 2;
    fill_disk(path);
    for (; refused < 10 && i < 4000; i++) {
        int r = engine_kit_do_acquire(kit, i);

        if (r == 0)
            acked = i;
        else if (r == -ENOSPC)
            refused++;
        else
            return 3;
    }
    if (refused < 10 || kit->health != -ENOSPC || lease_of(kit, i - 1))
        return 4;
    if (unlink(path) < 0 || !engine_kit_until(kit, is_well))
        return 5;
    for (uint64_t more = 3990; more < 4000; more++)
        if (engine_kit_do_acquire(kit, more) < 0)
            return 6;
    engine_kit_close(kit);
    if (engine_kit_open(kit, true) < 0)
        return 7;
    for (i = 1; i <= (acked ? acked : 50); i++)
        if (!lease_of(kit, i))
            return 8;
    for (uint64_t more = 3990; more < 4000; more++)
        if (!lease_of(kit, more))
            return 9;
    engine_kit_done(kit);
    return 0;
}

static bool is_ill(const struct engine_kit *kit)
{
    return kit->health == -EIO;
}

/* An administrator who removes the state of a running leased: nothing goes to where nobody will find it. */
static void engine_whose_file_is_moved_away_acknowledges_nothing(void **state)
{
    struct engine_kit *kit = *state;
    char aside[512];

    start(kit);
    acquire(kit, 1, 3);
    (void)snprintf(aside, sizeof aside, "%s.aside", kit->path);
    assert_int_equal(rename(kit->path, aside), 0);
    assert_int_equal(engine_kit_do_acquire(kit, 4), -ECONNABORTED); /* where it is, it is */
    assert_true(engine_kit_until(kit, is_ill));
    assert_non_null(strstr(kit->what, kit->path));
    assert_int_equal(engine_kit_do_acquire(kit, 5), -EIO);
    assert_int_equal(rename(aside, kit->path), 0);
    assert_true(engine_kit_until(kit, is_well));
    acquire(kit, 5, 6);
    reopen(kit);
    for (uint64_t i = 1; i <= 6; i++)
        assert_non_null(lease_of(kit, i));
}

static void engine_on_a_small_disk_that_fills_loses_nothing(void **state)
{
    struct engine_kit *kit = *state;
    pid_t pid;
    int status;

    pid = fork();
    assert_true(pid >= 0);
    if (pid == 0)
        _exit(live_on_a_small_disk(kit));
    assert_int_equal(waitpid(pid, &status, 0), pid);
    if (WIFEXITED(status) && WEXITSTATUS(status) == 77) {
        print_message("needs root for a mount\n");
        skip();
    }
    assert_int_equal(status, 0);
}

/* ---- damage ---- */

static void expect_refused(struct engine_kit *kit, int r, const char *word)
{
    assert_int_equal(engine_kit_open(kit, false), r);
    assert_non_null(strstr(kit->why, kit->path));
    if (!strstr(kit->why, word))
        fail_msg("no \"%s\" in: %s", word, kit->why);
}

static void engine_names_an_entry_that_the_fsm_refuses(void **state)
{
    struct engine_kit *kit = *state;
    struct sqlite_file *file;
    char why[SQLFILE_WHY_MAX];
    struct engine_status status;

    start(kit);
    acquire(kit, 1, 5);
    status = status_of(kit);
    engine_kit_close(kit);
    assert_int_equal(sqlite_open(kit->path, &file, why), 0);
    assert_int_equal(sqlite_begin(file), 0);
    assert_int_equal(sqlite_append(file, (const uint8_t *)"\1garbage", 8), 0);
    sqlite_close(file);
    (void)snprintf(why, sizeof why, "table log, row %lu", (unsigned long)status.last_entry + 1);
    expect_refused(kit, -EBADMSG, why);
}

static void engine_names_a_snapshot_that_the_fsm_refuses(void **state)
{
    struct engine_kit *kit = *state;
    struct sqlite_file *file;
    char why[SQLFILE_WHY_MAX];
    struct engine_status status;

    start(kit);
    acquire(kit, 1, 5);
    status = status_of(kit);
    engine_kit_close(kit);
    assert_int_equal(sqlite_open(kit->path, &file, why), 0);
    assert_int_equal(sqlite_begin(file), 0);
    assert_int_equal(sqlite_snapshot_part(file, status.last_entry, 0, (const uint8_t *)"", 1), 0);
    /* CRC-32C of one zero byte. */
    assert_int_equal(sqlite_snapshot_finish(file, status.last_entry, 1, 1, 0x527d5351), 0);
    sqlite_close(file);
    expect_refused(kit, -EBADMSG, "table snapshot, row ");
}

static void engine_file_is_for_one_process(void **state)
{
    struct engine_kit *kit = *state;
    int status;
    pid_t pid;

    start(kit);
    acquire(kit, 1, 5);
    pid = fork();
    assert_true(pid >= 0);
    if (pid == 0) {
        struct engine_kit other;

        engine_kit_init(&other, kit->folder);
        _exit(engine_kit_open(&other, false) == -EBUSY && strstr(other.why, "another process") ? 0
                                                                                               : 1);
    }
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_int_equal(status, 0);
    acquire(kit, 6, 10);
}

int main(void)
{
#define TEST(fn) cmocka_unit_test_setup_teardown(fn, setup, teardown)
    const struct CMUnitTest tests[] = {
        TEST(engine_answers_each_proposal_once_in_order),
        TEST(engine_gathers_commands_into_entries),
        TEST(engine_keeps_the_limits_of_a_batch),
        TEST(engine_refuses_a_command_longer_than_an_entry),
        TEST(engine_barrier_comes_after_what_was_acknowledged),
        TEST(engine_closed_answers_all_that_waits),
        TEST(engine_closed_inside_an_answer_finishes_the_batch),
        TEST(engine_reopened_has_the_same_state),
        TEST(engine_gives_a_grace_before_it_leads),
        TEST(engine_time_goes_on_and_never_back),
        TEST(engine_time_that_is_told_is_good_after_a_restart),
        TEST(engine_takes_snapshots_and_cuts_the_log),
        TEST(engine_cuts_nothing_that_history_lacks),
        TEST(engine_snapshot_on_request_is_the_one_to_restart_from),
        TEST(engine_and_history_agree_after_restarts),
        TEST(engine_on_a_full_disk_refuses_and_goes_on_by_itself),
        TEST(engine_whose_sync_failed_once_finds_the_entry),
        TEST(engine_whose_write_failed_once_writes_again),
        TEST(engine_in_doubt_says_so_and_does_it_once),
        TEST(engine_snapshot_that_fails_is_tried_again),
        TEST(engine_opened_on_a_full_disk_reads_and_leads_later),
        TEST(engine_on_a_small_disk_that_fills_loses_nothing),
        TEST(engine_whose_file_is_moved_away_acknowledges_nothing),
        TEST(engine_names_an_entry_that_the_fsm_refuses),
        TEST(engine_names_a_snapshot_that_the_fsm_refuses),
        TEST(engine_file_is_for_one_process),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
