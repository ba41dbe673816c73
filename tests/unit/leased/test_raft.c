/* Replicas in one process: elections, reads, members, faults of network and disk. Real time, so a test takes a second. */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <fnmatch.h>
#include <setjmp.h>
#include <spawn.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "tests/lib/raft_kit.h"
#include "tests/lib/tmp.h"

#define POOL_UIDS 20000

extern char **environ;

static int setup_n(void **state, unsigned n)
{
    struct raft_kit *kit = calloc(1, sizeof *kit);

    raft_kit_init(kit, tmp_dir(), n);
    *state = kit;
    return 0;
}

static int setup_3(void **state)
{
    setup_n(state, 3);
    raft_kit_form(*state, POOL_UIDS);
    return 0;
}

static int setup_1(void **state)
{
    setup_n(state, 1);
    raft_kit_form(*state, POOL_UIDS);
    return 0;
}

static int teardown(void **state)
{
    struct raft_kit *kit = *state;

    raft_kit_done(kit);
    tmp_remove(kit->folder);
    free(kit);
    return 0;
}

static struct engine_kit *leader_kit(struct raft_kit *kit)
{
    int leader = raft_kit_leader(kit, 0);

    assert_true(leader >= 0);
    return &kit->nodes[leader].kit;
}

static unsigned all_but(const struct raft_kit *kit, int i)
{
    return ((1u << kit->n) - 1) & ~(1u << (unsigned)i);
}

/* Request i has exactly one lease, in the state of replica r. */
static void expect_lease(struct raft_kit *kit, unsigned r, uint64_t i)
{
    char job[24];

    (void)snprintf(job, sizeof job, "j%lu", (unsigned long)i);
    if (!fsm_lease_of_job(kit->nodes[r].kit.fsm, 1000, job))
        fail_msg("replica %u does not know the lease of request %lu", r, (unsigned long)i);
}

/* ---- the log ---- */

static void raft_sole_replica_acknowledges_and_keeps(void **state)
{
    struct raft_kit *kit = *state;

    for (uint64_t i = 1; i <= 20; i++)
        assert_int_equal(raft_kit_acquire(kit, i), 0);
    raft_kit_stop(kit, 0);
    assert_int_equal(raft_kit_start(kit, 0), 0);
    assert_int_equal(raft_kit_leader(kit, 0), 0);
    for (uint64_t i = 1; i <= 20; i++)
        expect_lease(kit, 0, i);
}

static void raft_three_replicas_have_the_same_state(void **state)
{
    struct raft_kit *kit = *state;

    for (uint64_t i = 1; i <= 50; i++)
        assert_int_equal(raft_kit_acquire(kit, i), 0);
    assert_true(raft_kit_equal(kit));
    for (unsigned r = 0; r < 3; r++) {
        expect_lease(kit, r, 50);
        assert_null(fsm_verify(kit->nodes[r].kit.fsm));
    }
}

struct many {
    unsigned open;
    unsigned done;
};

static void counted(int r, const struct fsm_outcome *outcome, void *arg)
{
    struct many *many = arg;

    many->open--;
    if (r == 0 && outcome->code == FSM_OK)
        many->done++;
}

static bool none_open(struct raft_kit *kit, void *arg)
{
    (void)kit;
    return ((struct many *)arg)->open == 0;
}

static void raft_commands_that_wait_share_an_entry(void **state)
{
    struct raft_kit *kit = *state;
    struct engine_kit *leader = leader_kit(kit);
    struct engine_status before, after;
    struct many many = {0, 0};
    uint8_t bytes[ENGINE_KIT_BYTES];

    engine_get_status(leader->engine, &before);
    for (uint64_t i = 1; i <= 1000; i++) {
        many.open++;
        engine_propose(leader->engine, bytes, engine_kit_acquire(i, bytes), counted, &many);
    }
    assert_true(raft_kit_until(kit, none_open, &many));
    assert_int_equal(many.done, 1000);
    engine_get_status(leader->engine, &after);
    assert_true(after.last_entry - before.last_entry < 20);
}

static void raft_each_replica_takes_commands_and_reads(void **state)
{
    struct raft_kit *kit = *state;

    for (unsigned r = 0; r < 3; r++) {
        assert_int_equal(engine_kit_do_acquire(&kit->nodes[r].kit, r + 1), 0);
        assert_int_equal(raft_kit_read(kit, r), 0);
        expect_lease(kit, r, r + 1);
    }
}

/* ---- elections ---- */

static void raft_leader_stopped_another_leads_and_nothing_is_lost(void **state)
{
    struct raft_kit *kit = *state;
    int old = raft_kit_leader(kit, 0);

    for (uint64_t i = 1; i <= 10; i++)
        assert_int_equal(raft_kit_acquire(kit, i), 0);
    raft_kit_stop(kit, (unsigned)old);
    assert_int_equal(raft_kit_acquire(kit, 11), 0);
    assert_int_not_equal(raft_kit_leader(kit, 0), old);
    assert_int_equal(raft_kit_start(kit, (unsigned)old), 0);
    assert_true(raft_kit_equal(kit));
    for (uint64_t i = 1; i <= 11; i++)
        expect_lease(kit, (unsigned)old, i);
}

static void raft_new_leader_gives_grace_before_it_leads(void **state)
{
    struct raft_kit *kit = *state;
    int old = raft_kit_leader(kit, 0), next;
    int64_t expires;

    for (unsigned r = 0; r < 3; r++)
        kit->nodes[r].kit.options.grace_ms = 0;
    assert_int_equal(raft_kit_acquire(kit, 1), 0);
    /* Those that start anew have a grace as long as the ttl. */
    for (unsigned r = 0; r < 3; r++)
        if ((int)r != old) {
            raft_kit_stop(kit, r);
            kit->nodes[r].kit.options.grace_ms = 3600000;
            assert_int_equal(raft_kit_start(kit, r), 0);
        }
    /* If another has come to lead meanwhile, the end of the old one would bring no new leader. */
    if (raft_kit_leader(kit, 0) != old)
        assert_int_equal(raft_kit_transfer(kit, old, NULL), 0);
    assert_true(raft_kit_equal(kit));
    expires = fsm_lease_of_job(kit->nodes[old].kit.fsm, 1000, "j1")->expires_ms;
    raft_kit_elapse(kit, 50);
    assert_int_equal(raft_kit_acquire(kit, 2), 0);
    raft_kit_stop(kit, (unsigned)old);
    next = raft_kit_leader(kit, 0);
    assert_true(next >= 0);
    assert_true(fsm_lease_of_job(kit->nodes[next].kit.fsm, 1000, "j1")->expires_ms > expires);
    assert_true(engine_now_ms(kit->nodes[next].kit.engine) >= fsm_now_ms(kit->nodes[next].kit.fsm));
}

static void raft_leader_cut_off_neither_writes_nor_reads(void **state)
{
    struct raft_kit *kit = *state;
    int old = raft_kit_leader(kit, 0);
    int r;

    raft_kit_cut(kit, old, -1);
    r = engine_kit_do_acquire(&kit->nodes[old].kit, 1);
    assert_true(r == -ECONNABORTED || r == -EAGAIN);
    assert_int_equal(raft_kit_read(kit, (unsigned)old), -EAGAIN);
    assert_true(raft_kit_leader(kit, all_but(kit, old)) >= 0);
    raft_kit_heal(kit);
    assert_true(raft_kit_equal(kit));
}

/* The old leader still believes in itself when the others have a newer one and have acknowledged: it must not answer. */
static void raft_deposed_leader_answers_no_read(void **state)
{
    struct raft_kit *kit = *state;

    for (int round = 0; round < 5; round++) {
        int old = raft_kit_leader(kit, 0), next;
        bool old_leads;

        raft_kit_cut(kit, old, -1);
        next = raft_kit_leader(kit, all_but(kit, old));
        assert_true(next >= 0);
        assert_int_equal(engine_kit_do_acquire(&kit->nodes[next].kit, (uint64_t)round + 1), 0);
        old_leads = kit->nodes[old].kit.leading;
        raft_kit_heal(kit);
        assert_int_equal(raft_kit_read(kit, (unsigned)old), -EAGAIN);
        (void)old_leads;
        assert_true(raft_kit_equal(kit));
    }
}

static void raft_read_writes_no_entry(void **state)
{
    struct raft_kit *kit = *state;
    struct engine_kit *leader = leader_kit(kit);
    struct engine_status before, after;

    engine_get_status(leader->engine, &before);
    for (int i = 0; i < 50; i++)
        assert_int_equal(raft_kit_read(kit, (unsigned)raft_kit_leader(kit, 0)), 0);
    engine_get_status(leader->engine, &after);
    assert_int_equal(after.last_entry, before.last_entry);
}

/* The question goes out again on the new stream; at worst another leads by then. */
static void raft_read_survives_broken_streams(void **state)
{
    struct raft_kit *kit = *state;
    unsigned answered = 0;

    for (int i = 0; i < 10; i++) {
        unsigned leader = (unsigned)raft_kit_leader(kit, 0);
        int r;

        raft_kit_break(kit, (leader + 1) % 3);
        raft_kit_break(kit, (leader + 2) % 3);
        r = raft_kit_read(kit, leader);
        assert_true(r == 0 || r == -EAGAIN);
        answered += r == 0;
    }
    assert_true(answered > 0);
    assert_int_equal(raft_kit_acquire(kit, 1), 0);
}

static void raft_follower_cut_off_does_not_disturb_when_it_comes_back(void **state)
{
    struct raft_kit *kit = *state;
    int leader = raft_kit_leader(kit, 0);
    struct replica_status before, after;

    replica_get_status(raft_kit_engine(kit, (unsigned)leader), &before);
    raft_kit_cut(kit, (leader + 1) % 3, -1);
    raft_kit_elapse(kit, 1500);
    raft_kit_heal(kit);
    raft_kit_elapse(kit, 500);
    replica_get_status(raft_kit_engine(kit, (unsigned)leader), &after);
    assert_int_equal(after.term, before.term);
    assert_int_equal(raft_kit_leader(kit, 0), leader);
}

static void raft_transfer_hands_over_and_loses_nothing(void **state)
{
    struct raft_kit *kit = *state;
    int old = raft_kit_leader(kit, 0), to = (old + 1) % 3;
    char why[ENGINE_WHY_MAX] = "";

    assert_int_equal(raft_kit_acquire(kit, 1), 0);
    if (raft_kit_transfer(kit, to, why) != 0)
        fail_msg("%s", why);
    assert_int_equal(raft_kit_leader(kit, 1u << to), to);
    assert_int_equal(raft_kit_acquire(kit, 2), 0);
    assert_true(raft_kit_equal(kit));
    expect_lease(kit, (unsigned)old, 2);
}

/* ---- beside the log ---- */

struct ear {
    unsigned n[3];
    unsigned waits, answers;
    int r;
};

static struct ear ear;

static void hear(const uint8_t *bytes, size_t len, void *arg)
{
    assert_int_equal(len, 6);
    assert_memory_equal(bytes, "hello\0", 6);
    ear.n[(uintptr_t)arg]++;
}

static void no_change(const struct fsm_change *change, void *arg)
{
    (void)change, (void)arg;
}

static void not_applied(void *arg)
{
    (void)arg;
}

static void has_told(int r, void *arg)
{
    (void)arg;
    ear.r = r;
    ear.answers++;
}

static bool all_heard(struct raft_kit *kit, void *arg)
{
    unsigned want = *(unsigned *)arg;

    (void)kit;
    return ear.answers == want && ear.n[0] == want && ear.n[1] == want && ear.n[2] == want;
}

static bool is_answered(struct raft_kit *kit, void *arg)
{
    (void)kit;
    return ear.answers == *(unsigned *)arg;
}

static void raft_tell_reaches_all_from_each_and_is_confirmed(void **state)
{
    static struct engine_hooks hooks[3];
    struct raft_kit *kit = *state;
    int leader = raft_kit_leader(kit, 0);
    unsigned want;

    memset(&ear, 0, sizeof ear);
    for (uintptr_t i = 0; i < 3; i++) {
        hooks[i] = (struct engine_hooks){
            .change = no_change, .applied = not_applied, .told = hear, .arg = (void *)i};
        kit->nodes[i].kit.also = &hooks[i];
    }
    for (want = 1; want <= 3; want++) {
        engine_tell(raft_kit_engine(kit, want - 1), (const uint8_t *)"hello", 6, has_told, NULL);
        assert_true(raft_kit_until(kit, all_heard, &want));
        assert_int_equal(ear.r, 0);
    }
    /* A leader that is cut off, and one who can not reach it. */
    raft_kit_cut(kit, leader, -1);
    engine_tell(raft_kit_engine(kit, (unsigned)leader), (const uint8_t *)"hello", 6, has_told,
                NULL);
    want = 4;
    assert_true(raft_kit_until(kit, is_answered, &want));
    assert_int_equal(ear.r, -EAGAIN);
}

/* ---- members ---- */

static void raft_wiped_replica_is_refused_and_joins_anew(void **state)
{
    struct raft_kit *kit = *state;
    int leader = raft_kit_leader(kit, 0), gone = (leader + 1) % 3;
    struct replica_status before, after;
    char why[ENGINE_WHY_MAX] = "";

    assert_int_equal(raft_kit_acquire(kit, 1), 0);
    replica_get_status(raft_kit_engine(kit, (unsigned)gone), &before);
    raft_kit_stop(kit, (unsigned)gone);
    raft_kit_wipe(kit, (unsigned)gone);
    assert_int_equal(raft_kit_start(kit, (unsigned)gone), 0);
    raft_kit_elapse(kit, 700);
    replica_get_status(raft_kit_engine(kit, (unsigned)gone), &after);
    assert_int_not_equal(after.id, before.id);
    assert_false(after.begun);
    assert_int_equal(after.last_entry, 0);
    /* Not by being added beside its former self. */
    assert_int_equal(raft_kit_add(kit, (unsigned)gone, why), -EEXIST);
    assert_int_equal(raft_kit_remove(kit, (unsigned)gone, why), 0);
    if (raft_kit_add(kit, (unsigned)gone, why) != 0)
        fail_msg("%s", why);
    assert_true(raft_kit_equal(kit));
    expect_lease(kit, (unsigned)gone, 1);
}

static void raft_replica_with_anothers_certificate_is_refused(void **state)
{
    struct raft_kit *kit = *state;
    int leader = raft_kit_leader(kit, 0), bad = (leader + 1) % 3;
    char why[ENGINE_WHY_MAX] = "";
    struct replica_status status;

    assert_int_equal(raft_kit_remove(kit, (unsigned)bad, why), 0);
    (void)snprintf(kit->nodes[bad].proved, sizeof kit->nodes[bad].proved, "r9");
    assert_int_equal(raft_kit_add(kit, (unsigned)bad, why), -EHOSTUNREACH);
    assert_non_null(strstr(why, "certificate"));
    replica_get_status(raft_kit_engine(kit, (unsigned)leader), &status);
    assert_int_equal(status.n_members, 2);
}

static void raft_shrinks_and_grows_again(void **state)
{
    struct raft_kit *kit;
    char why[ENGINE_WHY_MAX] = "";

    setup_n(state, 5);
    kit = *state;
    raft_kit_form(kit, POOL_UIDS);
    for (unsigned left = 5; left > 1; left--) {
        unsigned leader = (unsigned)raft_kit_leader(kit, 0), out = (leader + 1) % 5;
        struct replica_status status;

        while (!raft_kit_engine(kit, out) || out == leader)
            out = (out + 1) % 5;
        if (raft_kit_remove(kit, out, why) != 0)
            fail_msg("%u left: %s", left, why);
        raft_kit_stop(kit, out);
        assert_int_equal(raft_kit_acquire(kit, left), 0);
        replica_get_status(raft_kit_engine(kit, leader), &status);
        assert_int_equal(status.n_members, left - 1);
    }
    assert_int_equal(raft_kit_remove(kit, (unsigned)raft_kit_leader(kit, 0), why), -EBUSY);
    for (unsigned i = 0; i < 5; i++)
        if (!raft_kit_engine(kit, i)) {
            raft_kit_wipe(kit, i);
            assert_int_equal(raft_kit_start(kit, i), 0);
            if (raft_kit_add(kit, i, why) != 0)
                fail_msg("r%u: %s", i, why);
        }
    assert_true(raft_kit_equal(kit));
    expect_lease(kit, 4, 2);
}

#define HELLO(id, to, name_len, name)                                                              \
    "XCER\1\0\0\0" id "\0\0\0\0\0\0\0" to "\0\0\0\0\0\0\0"                                         \
    "\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0" name_len name "\4h2:1"

static void raft_hostile_frames_end_the_stream_alone(void **state)
{
    static const struct {
        const char *bytes;
        size_t len;
    } frames[] = {
        {"", 0},                                   /* silence */
        {"GET / HTTP/1.1\r\n\r\n", 18},            /* another protocol */
        {"\377\377\377\377\1\0\0\0", 8},           /* too long */
        {"\0\0\0\0\1\0\0\0", 8},                   /* empty */
        {"\10\0\0\0\3\0\0\0abcdefgh", 16},         /* data before hello */
        {"\20\0\0\0\4\0\0\0abcdefghabcdefgh", 24}, /* a question before hello */
        {"\20\0\0\0\5\0\0\0abcdefghabcdefgh", 24}, /* an answer */
        {"\3\0\0\0\2\0\0\0\33[2", 11},             /* a refusal with an escape in it */
        {"\4\0\0\0\1\0\0\0XCER", 12},              /* hello cut short */
        {"\60\0\0\0\1\0\0\0" HELLO("\1", "\0", "\2", "r2"), 56}, /* of a folder that is not r2's */
        {"\60\0\0\0\1\0\0\0" HELLO("\1", "\0", "\2", "r1"), 56}, /* with another's name */
        {"\60\0\0\0\1\0\0\0" HELLO("\1", "\0", "\2", "\33["), 56}, /* no name at all */
        {"\60\0\0\0\1\0\0\0" HELLO("\1", "\0", "\377", "r2"), 56}, /* longer than it is */
        {"\60\0\0\0\1\0\0\0" HELLO("\0", "\0", "\2", "r2"), 56},   /* of nobody */
    };
    struct raft_kit *kit = *state;

    for (size_t i = 0; i < sizeof frames / sizeof frames[0]; i++)
        if (!raft_kit_send_raw(kit, 2, 0, frames[i].bytes, frames[i].len))
            fail_msg("frame %zu was not refused", i);
    assert_int_equal(raft_kit_acquire(kit, 1), 0);
    assert_true(raft_kit_equal(kit));
}

/* ---- snapshots ---- */

static void raft_replica_that_is_far_behind_gets_a_snapshot(void **state)
{
    struct raft_kit *kit;
    int behind;

    setup_n(state, 3);
    kit = *state;
    for (unsigned r = 0; r < 3; r++)
        kit->nodes[r].kit.options.snapshot_entries = 20;
    raft_kit_form(kit, POOL_UIDS);
    behind = (raft_kit_leader(kit, 0) + 1) % 3;
    raft_kit_stop(kit, (unsigned)behind);
    for (uint64_t i = 1; i <= 100; i++)
        assert_int_equal(raft_kit_acquire(kit, i), 0);
    assert_int_equal(raft_kit_start(kit, (unsigned)behind), 0);
    assert_true(raft_kit_equal(kit));
    expect_lease(kit, (unsigned)behind, 1);
    expect_lease(kit, (unsigned)behind, 100);
    /* And from it, after a restart of all. */
    for (unsigned r = 0; r < 3; r++)
        raft_kit_stop(kit, r);
    for (unsigned r = 0; r < 3; r++)
        assert_int_equal(raft_kit_start(kit, r), 0);
    assert_true(raft_kit_leader(kit, 0) >= 0);
    assert_true(raft_kit_equal(kit));
    expect_lease(kit, (unsigned)behind, 100);
}

static void set_history(struct raft_kit *kit, uint64_t revision)
{
    for (unsigned r = 0; r < kit->n; r++)
        kit->nodes[r].kit.history_at = revision;
}

static bool has_snapshot(struct raft_kit *kit, void *arg)
{
    struct engine_status status;

    (void)arg;
    engine_get_status(raft_kit_engine(kit, 0), &status);
    return status.snapshot_entry > 0;
}

static void raft_log_is_not_cut_beyond_history(void **state)
{
    struct raft_kit *kit;

    setup_n(state, 1);
    kit = *state;
    set_history(kit, 0);
    kit->nodes[0].kit.options.snapshot_entries = 10;
    raft_kit_form(kit, POOL_UIDS);
    for (uint64_t i = 1; i <= 40; i++)
        assert_int_equal(raft_kit_acquire(kit, i), 0);
    raft_kit_elapse(kit, 300);
    assert_false(has_snapshot(kit, NULL));
    set_history(kit, UINT64_MAX);
    assert_true(raft_kit_until(kit, has_snapshot, NULL));
    /* Closing with one held back. */
    set_history(kit, 0);
    for (uint64_t i = 41; i <= 80; i++)
        assert_int_equal(raft_kit_acquire(kit, i), 0);
    raft_kit_elapse(kit, 100);
}

static void raft_snapshot_on_request_is_what_a_restart_begins_with(void **state)
{
    struct raft_kit *kit = *state;
    struct engine_status status;

    assert_int_equal(raft_kit_acquire(kit, 1), 0);
    assert_int_equal(engine_kit_snapshot(&kit->nodes[0].kit), 0);
    engine_get_status(raft_kit_engine(kit, 0), &status);
    assert_int_equal(status.snapshot_entry, status.last_entry);
    assert_int_equal(engine_kit_snapshot(&kit->nodes[0].kit), 0);
    raft_kit_stop(kit, 0);
    assert_int_equal(raft_kit_start(kit, 0), 0);
    expect_lease(kit, 0, 1);
}

/* ---- growing ---- */

static void raft_grows_out_of_the_single_replica(void **state)
{
    struct raft_kit *kit;
    struct engine_kit single;
    char folder[300], why[ENGINE_WHY_MAX] = "";
    uint64_t digest, revision;
    uint8_t *bytes;
    size_t len;

    setup_n(state, 3);
    kit = *state;
    (void)snprintf(folder, sizeof folder, "%s/r0", kit->folder);
    engine_kit_init_on(&single, kit->folder, kit->loop);
    assert_int_equal(engine_kit_open(&single, false), 0);
    engine_kit_start(&single, POOL_UIDS);
    for (uint64_t i = 1; i <= 30; i++)
        assert_int_equal(engine_kit_do_acquire(&single, i), 0);
    digest = fsm_digest(single.fsm);
    revision = fsm_revision(single.fsm);
    assert_int_equal(fsm_snapshot(single.fsm, &bytes, &len), 0);
    engine_kit_done(&single);

    assert_int_equal(replica_inhabited(kit->nodes[0].raft_folder, why), 0);
    assert_int_equal(replica_prepare(kit->nodes[0].raft_folder, "r0", true, why), 0);
    assert_int_equal(replica_inhabited(kit->nodes[0].raft_folder, why), 2);
    /* Without the state it does not begin. */
    assert_int_equal(raft_kit_start(kit, 0), -ENOENT);
    kit->nodes[0].options.state = bytes;
    kit->nodes[0].options.state_len = len;
    assert_int_equal(raft_kit_start(kit, 0), 0);
    /* A crash in the middle: it is done again, once. */
    raft_kit_stop(kit, 0);
    assert_int_equal(raft_kit_start(kit, 0), 0);
    assert_int_equal(raft_kit_leader(kit, 0), 0);
    kit->nodes[0].options.state = NULL;
    free(bytes);
    assert_int_equal(replica_inhabited(kit->nodes[0].raft_folder, why), 1);
    assert_true(fsm_revision(kit->nodes[0].kit.fsm) >= revision);
    (void)digest;
    for (uint64_t i = 1; i <= 30; i++)
        expect_lease(kit, 0, i);
    for (unsigned i = 1; i < 3; i++) {
        assert_int_equal(raft_kit_start(kit, i), 0);
        if (raft_kit_add(kit, i, why) != 0)
            fail_msg("%s", why);
    }
    assert_true(raft_kit_equal(kit));
    expect_lease(kit, 2, 30);
    assert_int_equal(replica_prepare(kit->nodes[0].raft_folder, "r0", false, why), -EEXIST);
}

/* ---- damage ---- */

struct damage {
    const char *pattern; /* of the file's name */
    enum { FLIP_FIRST = 1, FLIP_MIDDLE, CUT_SHORT, GONE, FLIP_LAST } kind;
    const char *named; /* in the sentence; NULL: that file */
};

/* The file whose name matches; the newest with the greatest name. */
static void find_file(const char *folder, const char *pattern, char ret[512])
{
    DIR *dir = opendir(folder);
    const struct dirent *entry;
    char name[256] = "";

    assert_non_null(dir);
    while ((entry = readdir(dir)))
        if (fnmatch(pattern, entry->d_name, 0) == 0 && strverscmp(entry->d_name, name) > 0)
            (void)snprintf(name, sizeof name, "%s", entry->d_name);
    (void)closedir(dir);
    if (!name[0])
        fail_msg("%s has no %s", folder, pattern);
    (void)snprintf(ret, 512, "%s/%s", folder, name);
}

static void flip(const char *path, off_t at)
{
    int fd = open(path, O_RDWR | O_CLOEXEC);
    uint8_t byte;

    assert_true(fd >= 0);
    assert_int_equal(pread(fd, &byte, 1, at), 1);
    byte ^= 0x10;
    assert_int_equal(pwrite(fd, &byte, 1, at), 1);
    (void)close(fd);
}

static void do_damage(const struct damage *damage, const char *path)
{
    struct stat st;

    assert_int_equal(stat(path, &st), 0);
    if (damage->kind == FLIP_FIRST)
        flip(path, 20);
    else if (damage->kind == FLIP_MIDDLE)
        flip(path, st.st_size / 2);
    else if (damage->kind == FLIP_LAST)
        flip(path, st.st_size - 9);
    else if (damage->kind == CUT_SHORT)
        assert_int_equal(truncate(path, st.st_size - 16), 0);
    else
        assert_int_equal(unlink(path), 0);
}

static void copy_folder(const char *from, const char *to)
{
    char *argv[] = {(char *)"cp", (char *)"-a", (char *)from, (char *)to, NULL};
    int status;
    pid_t pid;

    assert_int_equal(posix_spawnp(&pid, "cp", NULL, NULL, argv, environ), 0);
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_int_equal(status, 0);
}

/* A replica with closed segments and two snapshots, stopped. */
static void fill(struct raft_kit *kit, uint64_t n)
{
    kit->nodes[0].kit.options.snapshot_entries = 64;
    raft_kit_form(kit, POOL_UIDS);
    for (uint64_t i = 1; i <= n; i++)
        assert_int_equal(raft_kit_acquire(kit, i), 0);
    raft_kit_stop(kit, 0);
}

static void raft_damaged_file_is_refused_by_name(void **state)
{
    static const struct damage damages[] = {
        {"0*-0*", FLIP_FIRST, NULL},
        {"0*-0*", FLIP_MIDDLE, NULL},
        {"0*-0*", FLIP_LAST, NULL},
        {"0*-0*", CUT_SHORT, NULL},
        {"snapshot-*[0-9]", FLIP_MIDDLE, NULL},
        {"snapshot-*[0-9]", CUT_SHORT, NULL},
        {"snapshot-*.meta", FLIP_MIDDLE, NULL},
        {"snapshot-*.meta", CUT_SHORT, NULL},
        {"snapshot-*.meta", GONE, "meta"},
        {"replica", FLIP_FIRST, NULL},
        {"replica", GONE, NULL},
        {"metadata1", GONE, "metadata1"},
    };
    struct raft_kit *kit;
    char saved[400], path[512];

    setup_n(state, 1);
    kit = *state;
    fill(kit, 200); /* so that there is one term, and of the two files of metadata the first */
    (void)snprintf(saved, sizeof saved, "%s/saved", kit->folder);
    copy_folder(kit->nodes[0].raft_folder, saved);
    for (size_t i = 0; i < sizeof damages / sizeof damages[0]; i++) {
        const struct damage *damage = &damages[i];
        const char *why = kit->nodes[0].kit.why;

        find_file(kit->nodes[0].raft_folder, damage->pattern, path);
        do_damage(damage, path);
        if (raft_kit_start(kit, 0) != -EBADMSG)
            fail_msg("%s, damage %d: %s", path, damage->kind, why);
        if (!strstr(why, damage->named ? damage->named : strrchr(path, '/') + 1) ||
            !strstr(why, "leasectl cluster"))
            fail_msg("%s, damage %d: %s", path, damage->kind, why);
        raft_kit_wipe(kit, 0);
        copy_folder(saved, kit->nodes[0].raft_folder);
    }
    if (raft_kit_start(kit, 0) != 0)
        fail_msg("%s", kit->nodes[0].kit.why);
    assert_int_equal(raft_kit_leader(kit, 0), 0);
    expect_lease(kit, 0, 200);
}

/* Between closed segments nothing may be missing, nor before an open one, whose name says nothing. */
static void raft_missing_segment_is_refused(void **state)
{
    struct raft_kit *kit;
    char path[512], open_path[512];

    setup_n(state, 1);
    kit = *state;
    raft_kit_form(kit, POOL_UIDS);
    for (int round = 0; round < 3; round++) {
        for (uint64_t i = 1; i <= 5; i++)
            assert_int_equal(raft_kit_acquire(kit, (uint64_t)round * 5 + i), 0);
        raft_kit_stop(kit, 0);
        if (round < 2)
            assert_int_equal(raft_kit_start(kit, 0), 0);
    }
    /* As after a crash: the last one is still open. */
    find_file(kit->nodes[0].raft_folder, "0*-0*", path);
    (void)snprintf(open_path, sizeof open_path, "%s/open-1", kit->nodes[0].raft_folder);
    assert_int_equal(rename(path, open_path), 0);
    find_file(kit->nodes[0].raft_folder, "0*-0*", path);
    assert_int_equal(unlink(path), 0);
    assert_int_equal(raft_kit_start(kit, 0), -EBADMSG);
    assert_non_null(strstr(kit->nodes[0].kit.why, "open-1"));
    assert_non_null(strstr(kit->nodes[0].kit.why, "missing"));
}

static void raft_torn_end_is_normal(void **state)
{
    struct raft_kit *kit;
    char path[512], open_path[512];
    struct stat st;

    setup_n(state, 1);
    kit = *state;
    raft_kit_form(kit, POOL_UIDS);
    for (uint64_t i = 1; i <= 10; i++)
        assert_int_equal(raft_kit_acquire(kit, i), 0);
    raft_kit_stop(kit, 0);
    find_file(kit->nodes[0].raft_folder, "0*-0*", path);
    (void)snprintf(open_path, sizeof open_path, "%s/open-1", kit->nodes[0].raft_folder);
    assert_int_equal(rename(path, open_path), 0);
    assert_int_equal(stat(open_path, &st), 0);
    /* The sole replica had acknowledged the last one; a torn write would not have been. */
    flip(open_path, st.st_size - 20);
    assert_int_equal(truncate(open_path, 8 << 20), 0);
    if (raft_kit_start(kit, 0) != 0)
        fail_msg("%s", kit->nodes[0].kit.why);
    assert_int_equal(raft_kit_leader(kit, 0), 0);
    for (uint64_t i = 1; i < 10; i++)
        expect_lease(kit, 0, i);
    assert_int_equal(raft_kit_acquire(kit, 11), 0);
}

/* The library takes an old snapshot away .meta first. */
static void raft_old_snapshot_half_taken_away_is_normal(void **state)
{
    struct raft_kit *kit;
    char path[512];
    int fd;

    setup_n(state, 1);
    kit = *state;
    fill(kit, 200);
    (void)snprintf(path, sizeof path, "%s/snapshot-1-1-1", kit->nodes[0].raft_folder);
    fd = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
    assert_true(fd >= 0);
    (void)close(fd);
    if (raft_kit_start(kit, 0) != 0)
        fail_msg("%s", kit->nodes[0].kit.why);
    assert_int_equal(raft_kit_acquire(kit, 201), 0);
}

static void remove_segments(const char *folder)
{
    DIR *dir = opendir(folder);
    const struct dirent *entry;

    assert_non_null(dir);
    while ((entry = readdir(dir)))
        if (fnmatch("[0o]*-[0-9]*", entry->d_name, 0) == 0)
            assert_int_equal(unlinkat(dirfd(dir), entry->d_name, 0), 0);
    (void)closedir(dir);
}

/* The snapshot is there, the segments that it replaces as well, and one made ready. */
static void raft_snapshot_half_installed_is_taken_on(void **state)
{
    struct raft_kit *kit;
    char saved[300], path[512];
    unsigned behind;
    int fd;

    setup_n(state, 3);
    kit = *state;
    for (unsigned r = 0; r < 3; r++)
        kit->nodes[r].kit.options.snapshot_entries = 20;
    raft_kit_form(kit, POOL_UIDS);
    behind = (unsigned)(raft_kit_leader(kit, 0) + 1) % 3;
    assert_true(raft_kit_equal(kit));
    raft_kit_stop(kit, behind);
    (void)snprintf(saved, sizeof saved, "%s/saved", kit->folder);
    copy_folder(kit->nodes[behind].raft_folder, saved);
    for (uint64_t i = 1; i <= 100; i++)
        assert_int_equal(raft_kit_acquire(kit, i), 0);
    assert_int_equal(raft_kit_start(kit, behind), 0);
    assert_true(raft_kit_equal(kit));
    raft_kit_stop(kit, behind);
    remove_segments(kit->nodes[behind].raft_folder);
    find_file(saved, "0*-0*", path);
    copy_folder(path, kit->nodes[behind].raft_folder);
    (void)snprintf(path, sizeof path, "%s/open-99", kit->nodes[behind].raft_folder);
    fd = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
    assert_true(fd >= 0);
    assert_int_equal(ftruncate(fd, 8 << 20), 0);
    (void)close(fd);
    if (raft_kit_start(kit, behind) != 0)
        fail_msg("%s", kit->nodes[behind].kit.why);
    assert_int_equal(raft_kit_acquire(kit, 101), 0);
    assert_true(raft_kit_equal(kit));
    expect_lease(kit, behind, 101);
}

static void raft_folder_of_another_name_or_in_use_is_refused(void **state)
{
    struct raft_kit *kit = *state;
    struct raft_node *node = &kit->nodes[0];

    raft_kit_stop(kit, 0);
    node->options.name = "other";
    assert_int_equal(raft_kit_start(kit, 0), -EBADMSG);
    assert_non_null(strstr(node->kit.why, "r0"));
    node->options.name = node->name;
    assert_int_equal(raft_kit_start(kit, 0), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(raft_sole_replica_acknowledges_and_keeps, setup_1,
                                        teardown),
        cmocka_unit_test_setup_teardown(raft_three_replicas_have_the_same_state, setup_3, teardown),
        cmocka_unit_test_setup_teardown(raft_commands_that_wait_share_an_entry, setup_3, teardown),
        cmocka_unit_test_setup_teardown(raft_each_replica_takes_commands_and_reads, setup_3,
                                        teardown),
        cmocka_unit_test_setup_teardown(raft_leader_stopped_another_leads_and_nothing_is_lost,
                                        setup_3, teardown),
        cmocka_unit_test_setup_teardown(raft_new_leader_gives_grace_before_it_leads, setup_3,
                                        teardown),
        cmocka_unit_test_setup_teardown(raft_leader_cut_off_neither_writes_nor_reads, setup_3,
                                        teardown),
        cmocka_unit_test_setup_teardown(raft_deposed_leader_answers_no_read, setup_3, teardown),
        cmocka_unit_test_setup_teardown(raft_read_writes_no_entry, setup_3, teardown),
        cmocka_unit_test_setup_teardown(raft_read_survives_broken_streams, setup_3, teardown),
        cmocka_unit_test_setup_teardown(raft_follower_cut_off_does_not_disturb_when_it_comes_back,
                                        setup_3, teardown),
        cmocka_unit_test_setup_teardown(raft_transfer_hands_over_and_loses_nothing, setup_3,
                                        teardown),
        cmocka_unit_test_setup_teardown(raft_tell_reaches_all_from_each_and_is_confirmed, setup_3,
                                        teardown),
        cmocka_unit_test_setup_teardown(raft_wiped_replica_is_refused_and_joins_anew, setup_3,
                                        teardown),
        cmocka_unit_test_setup_teardown(raft_replica_with_anothers_certificate_is_refused, setup_3,
                                        teardown),
        cmocka_unit_test_setup_teardown(raft_hostile_frames_end_the_stream_alone, setup_3,
                                        teardown),
        cmocka_unit_test_teardown(raft_shrinks_and_grows_again, teardown),
        cmocka_unit_test_teardown(raft_replica_that_is_far_behind_gets_a_snapshot, teardown),
        cmocka_unit_test_teardown(raft_log_is_not_cut_beyond_history, teardown),
        cmocka_unit_test_setup_teardown(raft_snapshot_on_request_is_what_a_restart_begins_with,
                                        setup_1, teardown),
        cmocka_unit_test_teardown(raft_grows_out_of_the_single_replica, teardown),
        cmocka_unit_test_teardown(raft_damaged_file_is_refused_by_name, teardown),
        cmocka_unit_test_teardown(raft_missing_segment_is_refused, teardown),
        cmocka_unit_test_teardown(raft_torn_end_is_normal, teardown),
        cmocka_unit_test_teardown(raft_old_snapshot_half_taken_away_is_normal, teardown),
        cmocka_unit_test_teardown(raft_snapshot_half_installed_is_taken_on, teardown),
        cmocka_unit_test_setup_teardown(raft_folder_of_another_name_or_in_use_is_refused, setup_1,
                                        teardown),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
