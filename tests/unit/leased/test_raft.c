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

static int setup_3(void **state)
{
    raft_kit_setup(state, 3);
    raft_kit_form(*state, POOL_UIDS);
    return 0;
}

static int setup_1(void **state)
{
    raft_kit_setup(state, 1);
    raft_kit_form(*state, POOL_UIDS);
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
        assert_true(raft_kit_has_lease(kit, 0, i));
}

static void raft_three_replicas_have_the_same_state(void **state)
{
    struct raft_kit *kit = *state;

    for (uint64_t i = 1; i <= 50; i++)
        assert_int_equal(raft_kit_acquire(kit, i), 0);
    assert_true(raft_kit_equal(kit));
    for (unsigned r = 0; r < 3; r++) {
        assert_true(raft_kit_has_lease(kit, r, 50));
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
        assert_true(raft_kit_has_lease(kit, r, r + 1));
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
        assert_true(raft_kit_has_lease(kit, (unsigned)old, i));
}

static void raft_new_leader_gives_grace_before_it_leads(void **state)
{
    struct raft_kit *kit = *state;
    int old = raft_kit_leader(kit, 0), next;
    uint64_t request = 1;
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
    do {
        if (raft_kit_leader(kit, 0) != old)
            (void)raft_kit_transfer(kit, old, NULL);
        assert_true(raft_kit_equal(kit));
        expires = fsm_lease_of_job(kit->nodes[old].kit.fsm, 1000, "j1")->expires_ms;
        raft_kit_elapse(kit, 50);
        assert_int_equal(raft_kit_acquire(kit, ++request), 0);
    } while (raft_kit_leader(kit, 0) != old);
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
    assert_true(raft_kit_has_lease(kit, (unsigned)old, 2));
}

/* ---- time ---- */

static void raft_time_that_is_told_is_good_for_the_next_leader(void **state)
{
    struct raft_kit *kit = *state;
    int old = raft_kit_leader(kit, 0), next;
    int64_t told_ms = 0;

    assert_int_equal(raft_kit_acquire(kit, 1), 0);
    assert_true(raft_kit_equal(kit));
    for (unsigned i = 0; i < 3; i++) {
        engine_kit_pass(&kit->nodes[i].kit, 3600000);
        if (engine_told_ms(raft_kit_engine(kit, i)) > told_ms)
            told_ms = engine_told_ms(raft_kit_engine(kit, i));
    }
    raft_kit_stop(kit, (unsigned)old);
    next = raft_kit_leader(kit, all_but(kit, old));
    assert_true(next >= 0);
    assert_int_equal(raft_kit_acquire(kit, 2), 0);
    assert_true(fsm_now_ms(kit->nodes[next].kit.fsm) < 3600000);
    assert_true(told_ms <= fsm_now_ms(kit->nodes[next].kit.fsm) + ENGINE_TOLD_AHEAD_MS);
}

static void raft_time_begins_with_the_snapshot(void **state)
{
    struct raft_kit *kit = *state;
    struct engine_kit *alone = &kit->nodes[0].kit;

    assert_int_equal(raft_kit_acquire(kit, 1), 0);
    assert_true(raft_kit_equal(kit));
    assert_int_equal(engine_kit_snapshot(alone), 0);
    for (unsigned i = 0; i < 3; i++)
        raft_kit_stop(kit, i);
    /* Without the others nothing is applied after it. */
    assert_int_equal(raft_kit_start(kit, 0), 0);
    assert_true(fsm_now_ms(alone->fsm) > 0);
    assert_in_range(engine_now_ms(alone->engine), fsm_now_ms(alone->fsm),
                    fsm_now_ms(alone->fsm) + 5000);
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

static void raft_tell_to_a_leader_that_is_cut_off_ends_when_another_leads(void **state)
{
    static struct engine_hooks hooks = {.change = no_change, .applied = not_applied, .told = hear};
    struct raft_kit *kit = *state;
    int leader = raft_kit_leader(kit, 0);
    unsigned follower = (unsigned)(leader + 1) % 3, want = 1;

    memset(&ear, 0, sizeof ear);
    kit->nodes[follower].kit.also = &hooks;
    /* Its streams stay open. */
    raft_kit_cut(kit, leader, -1);
    engine_tell(raft_kit_engine(kit, follower), (const uint8_t *)"hello", 6, has_told, NULL);
    assert_true(raft_kit_until(kit, is_answered, &want));
    assert_int_equal(ear.r, -EAGAIN);
}

/* ---- members ---- */

static void note_closed(void *arg)
{
    *(bool *)arg = true;
}

static bool is_true(struct raft_kit *kit, void *arg)
{
    (void)kit;
    return *(bool *)arg;
}

/* Something may ask how it stands until it is gone. */
static void raft_leader_that_closes_can_be_asked(void **state)
{
    struct raft_kit *kit = *state;
    struct engine_kit *leader = &kit->nodes[raft_kit_leader(kit, 0)].kit;
    struct replica_status status;
    bool closed = false;

    engine_close(leader->engine, note_closed, &closed);
    replica_get_status(leader->engine, &status);
    assert_int_equal(status.n_members, 3);
    for (size_t i = 0; i < status.n_members; i++)
        assert_int_equal(status.members[i].last_entry, 0);
    assert_true(raft_kit_until(kit, is_true, &closed));
    leader->engine = NULL;
    leader->fsm = NULL;
}

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
    assert_true(raft_kit_has_lease(kit, (unsigned)gone, 1));
    /* Those that knew it before do not ask for its former folder all the time. */
    memset(kit->n_calls, 0, sizeof kit->n_calls);
    raft_kit_elapse(kit, 2500);
    for (int i = 0; i < 3; i++)
        assert_in_range(kit->n_calls[i][gone], 0, 3);
    assert_in_range(kit->n_calls[leader][gone], 1, 3);
}

static void raft_one_that_is_no_replica_is_not_added_and_it_says_what_is_needed(void **state)
{
    struct raft_kit *kit = *state;
    unsigned other = ((unsigned)raft_kit_leader(kit, 0) + 1) % 3;
    char why[ENGINE_WHY_MAX] = "";

    assert_int_equal(raft_kit_remove(kit, other, why), 0);
    raft_kit_stop(kit, other);
    assert_int_equal(raft_kit_add(kit, other, why), -EHOSTUNREACH);
    assert_non_null(strstr(why, kit->nodes[other].name));
    assert_non_null(strstr(why, "without engine.db"));
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

    raft_kit_setup(state, 5);
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
    assert_true(raft_kit_has_lease(kit, 4, 2));
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

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(raft_sole_replica_acknowledges_and_keeps, setup_1,
                                        raft_kit_teardown),
        cmocka_unit_test_setup_teardown(raft_three_replicas_have_the_same_state, setup_3,
                                        raft_kit_teardown),
        cmocka_unit_test_setup_teardown(raft_commands_that_wait_share_an_entry, setup_3,
                                        raft_kit_teardown),
        cmocka_unit_test_setup_teardown(raft_each_replica_takes_commands_and_reads, setup_3,
                                        raft_kit_teardown),
        cmocka_unit_test_setup_teardown(raft_leader_stopped_another_leads_and_nothing_is_lost,
                                        setup_3, raft_kit_teardown),
        cmocka_unit_test_setup_teardown(raft_new_leader_gives_grace_before_it_leads, setup_3,
                                        raft_kit_teardown),
        cmocka_unit_test_setup_teardown(raft_leader_cut_off_neither_writes_nor_reads, setup_3,
                                        raft_kit_teardown),
        cmocka_unit_test_setup_teardown(raft_deposed_leader_answers_no_read, setup_3,
                                        raft_kit_teardown),
        cmocka_unit_test_setup_teardown(raft_read_writes_no_entry, setup_3, raft_kit_teardown),
        cmocka_unit_test_setup_teardown(raft_read_survives_broken_streams, setup_3,
                                        raft_kit_teardown),
        cmocka_unit_test_setup_teardown(raft_follower_cut_off_does_not_disturb_when_it_comes_back,
                                        setup_3, raft_kit_teardown),
        cmocka_unit_test_setup_teardown(raft_transfer_hands_over_and_loses_nothing, setup_3,
                                        raft_kit_teardown),
        cmocka_unit_test_setup_teardown(raft_time_that_is_told_is_good_for_the_next_leader, setup_3,
                                        raft_kit_teardown),
        cmocka_unit_test_setup_teardown(raft_time_begins_with_the_snapshot, setup_3,
                                        raft_kit_teardown),
        cmocka_unit_test_setup_teardown(raft_tell_reaches_all_from_each_and_is_confirmed, setup_3,
                                        raft_kit_teardown),
        cmocka_unit_test_setup_teardown(
            raft_tell_to_a_leader_that_is_cut_off_ends_when_another_leads, setup_3,
            raft_kit_teardown),
        cmocka_unit_test_setup_teardown(raft_leader_that_closes_can_be_asked, setup_3,
                                        raft_kit_teardown),
        cmocka_unit_test_setup_teardown(raft_wiped_replica_is_refused_and_joins_anew, setup_3,
                                        raft_kit_teardown),
        cmocka_unit_test_setup_teardown(
            raft_one_that_is_no_replica_is_not_added_and_it_says_what_is_needed, setup_3,
            raft_kit_teardown),
        cmocka_unit_test_setup_teardown(raft_replica_with_anothers_certificate_is_refused, setup_3,
                                        raft_kit_teardown),
        cmocka_unit_test_setup_teardown(raft_hostile_frames_end_the_stream_alone, setup_3,
                                        raft_kit_teardown),
        cmocka_unit_test_teardown(raft_shrinks_and_grows_again, raft_kit_teardown),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
