/* Replicas that do not lead: what they are asked is passed on, done once, and answered where it was asked. */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "tests/lib/raft_kit.h"
#include "tests/lib/tmp.h"
#include "xce/v1/command.pb-c.h"

#define POOL_UIDS 20000

static int setup(void **state)
{
    struct raft_kit *kit;

    raft_kit_setup(state, 3);
    kit = *state;
    /* Nobody shall lose the lead only because the machine is slow. */
    for (unsigned i = 0; i < 3; i++)
        kit->nodes[i].options.election_ms = 1000;
    raft_kit_form(kit, POOL_UIDS);
    return 0;
}

static unsigned leader_of(struct raft_kit *kit)
{
    int leader = raft_kit_leader(kit, 0);

    assert_true(leader >= 0);
    return (unsigned)leader;
}

/* One that follows, and knows whom. */
static unsigned follower_of(struct raft_kit *kit)
{
    unsigned follower = (leader_of(kit) + 1) % 3;

    for (int tries = 0; raft_kit_read(kit, follower) != 0; tries++) {
        assert_true(tries < 100);
        raft_kit_elapse(kit, 20);
    }
    return follower;
}

/* ---- requests, in any number ---- */

struct ask {
    struct asks *asks;
    uint64_t i;
    int times, r;
    enum fsm_code code;
    uint64_t lease;
    bool was_there; /* the lease stood in the state of the asked when it was told */
};

struct asks {
    struct engine_kit *at;
    unsigned open;
    struct ask *items;
};

static void told(int r, const struct fsm_outcome *outcome, void *arg)
{
    struct ask *ask = arg;

    ask->times++;
    ask->r = r;
    ask->asks->open--;
    if (r != 0)
        return;
    ask->code = outcome->code;
    ask->lease = outcome->n_leases ? outcome->leases[0] : 0;
    ask->was_there = ask->lease && fsm_lease(ask->asks->at->fsm, ask->lease);
}

static void ask_many(struct raft_kit *kit, struct asks *asks, unsigned at, uint64_t first,
                     unsigned n)
{
    uint8_t bytes[ENGINE_KIT_BYTES];

    *asks = (struct asks){&kit->nodes[at].kit, n, calloc(n, sizeof *asks->items)};
    for (unsigned i = 0; i < n; i++) {
        asks->items[i] = (struct ask){.asks = asks, .i = first + i};
        engine_propose(asks->at->engine, bytes, engine_kit_acquire(first + i, bytes), told,
                       &asks->items[i]);
    }
}

static bool all_told(struct raft_kit *kit, void *arg)
{
    (void)kit;
    return ((struct asks *)arg)->open == 0;
}

static void wait_told(struct raft_kit *kit, struct asks *asks)
{
    if (!raft_kit_until(kit, all_told, asks))
        fail_msg("%u requests were never answered", asks->open);
}

static const struct fsm_lease *lease_of(struct raft_kit *kit, unsigned at, uint64_t i)
{
    char job[24];

    (void)snprintf(job, sizeof job, "j%lu", (unsigned long)i);
    return fsm_lease_of_job(kit->nodes[at].kit.fsm, 1000, job);
}

/* ---- tests ---- */

static void pass_a_follower_answers_when_it_has_applied_it_itself(void **state)
{
    struct raft_kit *kit = *state;
    unsigned follower = follower_of(kit);
    struct asks asks;

    ask_many(kit, &asks, follower, 1, 1);
    assert_int_equal(asks.items[0].times, 0);
    wait_told(kit, &asks);
    assert_int_equal(asks.items[0].r, 0);
    assert_int_equal(asks.items[0].code, FSM_OK);
    assert_true(asks.items[0].was_there);
    assert_true(raft_kit_equal(kit));
    free(asks.items);
}

static void pass_commands_of_one_replica_keep_their_order(void **state)
{
    enum { N = 3000 };
    struct raft_kit *kit = *state;
    unsigned follower = follower_of(kit);
    struct asks asks;

    ask_many(kit, &asks, follower, 1, N);
    wait_told(kit, &asks);
    for (unsigned i = 0; i < N; i++) {
        assert_int_equal(asks.items[i].times, 1);
        assert_int_equal(asks.items[i].r, 0);
        assert_true(asks.items[i].was_there);
        if (i > 0)
            assert_true(asks.items[i].lease > asks.items[i - 1].lease);
    }
    free(asks.items);
}

/* The longest message (4 MiB and 64 KiB) and a little more, made of names of nodes. */
static size_t long_acquire(uint8_t **ret)
{
    enum { NAME = 64, N = ((4 << 20) + (256 << 10)) / (NAME + 2) };
    Xce__V1__Command command = XCE__V1__COMMAND__INIT;
    Xce__V1__CmdAcquire acquire = XCE__V1__CMD_ACQUIRE__INIT;
    Xce__V1__CmdGrant grant = XCE__V1__CMD_GRANT__INIT, *grants[] = {&grant};
    ProtobufCBinaryData *nodes = calloc(N, sizeof *nodes);
    char name[NAME];
    size_t len;

    memset(name, 'n', NAME);
    for (size_t i = 0; i < N; i++)
        nodes[i] = (ProtobufCBinaryData){NAME, (uint8_t *)name};
    grant.nodes = nodes;
    grant.n_nodes = N;
    acquire.grants = grants;
    acquire.n_grants = 1;
    command.kind_case = XCE__V1__COMMAND__KIND_ACQUIRE;
    command.acquire = &acquire;
    *ret = malloc(xce__v1__command__get_packed_size(&command));
    len = xce__v1__command__pack(&command, *ret);
    free(nodes);
    return len;
}

static void pass_what_a_leader_takes_is_not_too_long_for_a_follower(void **state)
{
    struct raft_kit *kit = *state;
    struct engine_kit *follower = &kit->nodes[follower_of(kit)].kit;
    uint8_t *bytes, *more;
    size_t len = long_acquire(&bytes);

    assert_int_equal(engine_kit_do(&kit->nodes[leader_of(kit)].kit, bytes, len), 0);
    assert_int_equal(engine_kit_do(follower, bytes, len), 0);
    assert_int_not_equal(follower->out.code, FSM_OK);
    more = calloc(2, len);
    assert_int_equal(engine_kit_do(follower, more, 2 * len), -EMSGSIZE);
    assert_int_equal(raft_kit_read(kit, follower_of(kit)), 0);
    free(more);
    free(bytes);
}

static void pass_all_replicas_at_once_give_every_lease_once(void **state)
{
    enum { N = 500 };
    struct raft_kit *kit = *state;
    struct asks asks[3];

    (void)follower_of(kit);
    for (unsigned at = 0; at < 3; at++)
        ask_many(kit, &asks[at], at, 1 + at * N, N);
    for (unsigned at = 0; at < 3; at++)
        wait_told(kit, &asks[at]);
    assert_true(raft_kit_equal(kit));
    for (unsigned at = 0; at < 3; at++) {
        for (unsigned i = 0; i < N; i++) {
            const struct ask *ask = &asks[at].items[i];

            if (ask->r != 0)
                continue; /* the third did not know the leader yet */
            assert_int_equal(ask->code, FSM_OK);
            for (unsigned r = 0; r < 3; r++)
                assert_int_equal(lease_of(kit, r, ask->i)->id, ask->lease);
        }
        free(asks[at].items);
    }
}

static void pass_a_read_sees_what_was_acknowledged_elsewhere(void **state)
{
    struct raft_kit *kit = *state;
    unsigned follower = follower_of(kit);

    for (uint64_t i = 1; i <= 50; i++) {
        assert_int_equal(raft_kit_acquire(kit, i), 0);
        assert_int_equal(raft_kit_read(kit, follower), 0);
        assert_non_null(lease_of(kit, follower, i));
    }
}

static void pass_nothing_is_read_or_done_behind_a_cut(void **state)
{
    struct raft_kit *kit = *state;
    unsigned follower = follower_of(kit);
    struct asks asks;
    int r;

    raft_kit_cut(kit, (int)follower, -1);
    ask_many(kit, &asks, follower, 1, 3);
    r = raft_kit_read(kit, follower);
    assert_int_equal(r, -EAGAIN);
    wait_told(kit, &asks);
    for (unsigned i = 0; i < 3; i++) {
        assert_int_equal(asks.items[i].times, 1);
        assert_true(asks.items[i].r == -ECONNABORTED || asks.items[i].r == -EAGAIN);
    }
    free(asks.items);
    raft_kit_heal(kit);
    assert_int_equal(raft_kit_acquire(kit, 10), 0);
    (void)follower_of(kit);
    /* What came late was done once, if at all. */
    assert_true(raft_kit_equal(kit));
}

static void pass_what_is_under_way_when_the_leader_dies_ends_once(void **state)
{
    enum { N = 400 };
    struct raft_kit *kit = *state;
    unsigned leader = leader_of(kit), follower = follower_of(kit), done = 0;
    struct asks asks;

    ask_many(kit, &asks, follower, 1, N);
    raft_kit_elapse(kit, 3);
    raft_kit_stop(kit, leader);
    wait_told(kit, &asks);
    for (uint64_t i = N + 1; i <= N + 3; i++)
        assert_int_equal(raft_kit_acquire(kit, i), 0);
    assert_int_equal(raft_kit_start(kit, leader), 0);
    assert_true(raft_kit_equal(kit));
    for (unsigned i = 0; i < N; i++) {
        const struct ask *ask = &asks.items[i];

        assert_int_equal(ask->times, 1);
        if (ask->r == 0) {
            done++;
            for (unsigned r = 0; r < 3; r++)
                assert_int_equal(lease_of(kit, r, ask->i)->id, ask->lease);
        } else {
            assert_true(ask->r == -ECONNABORTED || ask->r == -EAGAIN);
            if (ask->r == -EAGAIN)
                assert_null(lease_of(kit, follower, ask->i));
        }
    }
    print_message("%u of %d were done\n", done, N);
    free(asks.items);
}

struct caught {
    struct asks *asks;
    unsigned leader, follower;
    uint64_t i;
};

/* Done, but not yet where it was asked. */
static bool done_at_the_leader_alone(struct raft_kit *kit, void *arg)
{
    const struct caught *caught = arg;

    return caught->asks->open == 0 || (raft_kit_has_lease(kit, caught->leader, caught->i) &&
                                       !raft_kit_has_lease(kit, caught->follower, caught->i));
}

static void pass_done_and_then_cut_off_is_answered_soon(void **state)
{
    struct raft_kit *kit = *state;
    struct caught caught = {.follower = follower_of(kit), .leader = leader_of(kit)};
    struct asks asks;
    bool was_caught = false;

    for (caught.i = 1; caught.i < 200 && !was_caught; caught.i += !was_caught) {
        caught.asks = &asks;
        ask_many(kit, &asks, caught.follower, caught.i, 1);
        assert_true(raft_kit_until(kit, done_at_the_leader_alone, &caught));
        raft_kit_elapse(kit, 2); /* the leader's word for it gets here */
        was_caught = asks.open > 0;
        if (was_caught)
            raft_kit_cut(kit, (int)caught.follower, -1);
        wait_told(kit, &asks); /* within ten seconds */
        if (was_caught)
            assert_int_equal(asks.items[0].r, -ECONNABORTED);
        free(asks.items);
    }
    assert_true(was_caught);
    assert_true(raft_kit_has_lease(kit, caught.leader, caught.i));
    raft_kit_heal(kit);
    assert_true(raft_kit_equal(kit));
    /* Under its id it is the same. */
    ask_many(kit, &asks, caught.leader, caught.i, 1);
    wait_told(kit, &asks);
    assert_int_equal(asks.items[0].lease, lease_of(kit, caught.leader, caught.i)->id);
    free(asks.items);
}

/* ---- a snapshot takes the place of entries ---- */

#define LAGS             2u /* and does not miss its leader */
#define SNAPSHOT_ENTRIES 20

static int setup_with_snapshots(void **state)
{
    struct raft_kit *kit;

    raft_kit_setup(state, 3);
    kit = *state;
    for (unsigned i = 0; i < 3; i++) {
        kit->nodes[i].options.election_ms = i == LAGS ? 60000 : 1000;
        kit->nodes[i].kit.options.snapshot_entries = SNAPSHOT_ENTRIES;
    }
    raft_kit_form(kit, POOL_UIDS);
    return 0;
}

static bool is_not_called(struct raft_kit *kit, void *arg)
{
    struct replica_status status;

    (void)arg;
    replica_get_status(raft_kit_engine(kit, leader_of(kit)), &status);
    for (size_t i = 0; i < status.n_members; i++)
        if (!strcmp(status.members[i].name, kit->nodes[LAGS].name))
            return !status.members[i].up;
    return true;
}

static bool leader_has_first(struct raft_kit *kit, void *arg)
{
    (void)arg;
    return raft_kit_has_lease(kit, leader_of(kit), 1);
}

static void outlive_the_log(struct raft_kit *kit)
{
    struct engine_status now, then;
    uint64_t i = 100;

    engine_get_status(raft_kit_engine(kit, leader_of(kit)), &then);
    do {
        assert_int_equal(raft_kit_acquire(kit, i++), 0);
        raft_kit_elapse(kit, 5);
        engine_get_status(raft_kit_engine(kit, leader_of(kit)), &now);
    } while (now.snapshot_entry < then.last_entry + SNAPSHOT_ENTRIES);
}

static void pass_done_within_a_snapshot_is_unknown_when_the_leader_says_so_later(void **state)
{
    struct raft_kit *kit = *state;
    unsigned leader = leader_of(kit);
    struct asks asks;

    assert_int_not_equal(leader, LAGS);
    assert_int_equal(raft_kit_read(kit, LAGS), 0);
    raft_kit_shut(kit, leader, LAGS, true);
    assert_true(raft_kit_until(kit, is_not_called, NULL));
    raft_kit_mute(kit, LAGS, leader, true);
    ask_many(kit, &asks, LAGS, 1, 1);
    assert_true(raft_kit_until(kit, leader_has_first, NULL));
    outlive_the_log(kit);
    raft_kit_shut(kit, leader, LAGS, false);
    /* A snapshot that came at a bad moment is dropped, and comes again much later (raft_guard.h). */
    for (int tries = 0; !raft_kit_equal(kit); tries++)
        assert_true(tries < 5);
    assert_true(raft_kit_has_lease(kit, LAGS, 1));
    assert_int_equal(asks.open, 1);
    raft_kit_mute(kit, LAGS, leader, false);
    wait_told(kit, &asks);
    assert_int_equal(asks.items[0].times, 1);
    assert_int_equal(asks.items[0].r, -ECONNABORTED);
    free(asks.items);
}

static void pass_asked_again_under_its_id_gets_the_same_lease(void **state)
{
    struct raft_kit *kit = *state;
    unsigned follower = follower_of(kit);
    struct asks first, again;

    ask_many(kit, &first, follower, 1, 1);
    wait_told(kit, &first);
    ask_many(kit, &again, (follower + 1) % 3, 1, 1);
    wait_told(kit, &again);
    if (again.items[0].r == 0)
        assert_int_equal(again.items[0].lease, first.items[0].lease);
    free(first.items);
    free(again.items);
}

static void pass_what_is_no_command_is_refused_and_ends_nobody(void **state)
{
    static const uint8_t rubbish[] = {0x12, 0x7f, 0x01};
    struct raft_kit *kit = *state;
    unsigned follower = follower_of(kit);
    struct ask item = {0};
    struct asks asks = {&kit->nodes[follower].kit, 1, &item};

    item.asks = &asks;
    engine_propose(asks.at->engine, rubbish, sizeof rubbish, told, &item);
    wait_told(kit, &asks);
    assert_int_equal(item.r, -EINVAL);
    assert_int_equal(raft_kit_acquire(kit, 1), 0);
    assert_true(raft_kit_equal(kit));
}

static void pass_a_replica_that_ends_answers_what_waits(void **state)
{
    enum { N = 100 };
    struct raft_kit *kit = *state;
    unsigned follower = follower_of(kit);
    struct asks asks;

    ask_many(kit, &asks, follower, 1, N);
    raft_kit_stop(kit, follower);
    assert_int_equal(asks.open, 0);
    for (unsigned i = 0; i < N; i++)
        assert_int_equal(asks.items[i].times, 1);
    free(asks.items);
}

static void pass_time_goes_on_at_a_follower(void **state)
{
    struct raft_kit *kit = *state;
    unsigned leader = leader_of(kit), follower = follower_of(kit);
    int64_t there, here;

    assert_int_equal(raft_kit_acquire(kit, 1), 0);
    assert_true(raft_kit_equal(kit));
    raft_kit_elapse(kit, 300);
    there = engine_now_ms(kit->nodes[leader].kit.engine);
    here = engine_now_ms(kit->nodes[follower].kit.engine);
    assert_in_range(there - here + 100, 0, 200);
}

/* ---- members ---- */

struct member_call {
    int times, r;
    char why[ENGINE_WHY_MAX];
};

static void member_told(int r, const char *why, void *arg)
{
    struct member_call *call = arg;

    call->times++;
    call->r = r;
    (void)snprintf(call->why, sizeof call->why, "%s", why);
}

static bool member_is_told(struct raft_kit *kit, void *arg)
{
    (void)kit;
    return ((struct member_call *)arg)->times > 0;
}

static int wait_member(struct raft_kit *kit, struct member_call *call)
{
    assert_true(raft_kit_until(kit, member_is_told, call));
    assert_int_equal(call->times, 1);
    return call->r;
}

static size_t members_at(struct raft_kit *kit, unsigned i)
{
    struct replica_status status;

    replica_get_status(kit->nodes[i].kit.engine, &status);
    return status.n_members;
}

static void pass_a_follower_asked_about_members_asks_the_leader(void **state)
{
    struct raft_kit *kit = *state;
    unsigned follower = follower_of(kit), third = 3 - leader_of(kit) - follower;
    struct engine *engine = kit->nodes[follower].kit.engine;
    struct member_call call = {0};

    replica_remove(engine, "nobody", member_told, &call);
    assert_int_equal(call.times, 0);
    assert_int_equal(wait_member(kit, &call), -ENOENT);
    assert_string_equal(call.why, "no member has this name");

    call.times = 0;
    replica_remove(engine, kit->nodes[third].name, member_told, &call);
    assert_int_equal(wait_member(kit, &call), 0);
    assert_int_equal(members_at(kit, follower), 2); /* seen where it was asked */

    raft_kit_stop(kit, third);
    raft_kit_wipe(kit, third);
    assert_int_equal(raft_kit_start(kit, third), 0);
    call.times = 0;
    replica_add(engine, kit->nodes[third].name, kit->nodes[third].address, member_told, &call);
    assert_int_equal(wait_member(kit, &call), 0);
    assert_int_equal(members_at(kit, follower), 3);

    call.times = 0;
    replica_transfer(engine, kit->nodes[follower].name, member_told, &call);
    assert_int_equal(wait_member(kit, &call), 0);
    assert_int_equal(leader_of(kit), follower);
}

static void pass_a_change_with_a_name_that_nobody_can_have_is_refused(void **state)
{
    struct raft_kit *kit = *state;
    struct engine *engine = kit->nodes[follower_of(kit)].kit.engine;
    char name[REPLICA_NAME_MAX + 2];
    struct member_call call = {0};

    memset(name, 'a', sizeof name - 1);
    name[sizeof name - 1] = '\0';
    replica_remove(engine, name, member_told, &call);
    assert_int_equal(wait_member(kit, &call), -EINVAL);
    assert_non_null(strstr(call.why, "does not understand"));
}

static void pass_a_change_whose_leader_is_lost_is_unknown(void **state)
{
    struct raft_kit *kit = *state;
    unsigned leader = leader_of(kit), follower = follower_of(kit);
    struct member_call call = {0};

    replica_remove(kit->nodes[follower].kit.engine, kit->nodes[3 - leader - follower].name,
                   member_told, &call);
    raft_kit_stop(kit, leader);
    assert_int_equal(wait_member(kit, &call), -ECONNABORTED);
}

static void pass_a_change_whose_leader_is_cut_off_is_unknown(void **state)
{
    struct raft_kit *kit = *state;
    unsigned leader = leader_of(kit), follower = follower_of(kit);
    struct member_call call = {0};

    raft_kit_cut_one_way(kit, (int)leader, -1);
    replica_remove(kit->nodes[follower].kit.engine, kit->nodes[3 - leader - follower].name,
                   member_told, &call);
    assert_int_equal(wait_member(kit, &call), -ECONNABORTED);
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, raft_kit_teardown)
    const struct CMUnitTest tests[] = {
        TEST(pass_a_follower_answers_when_it_has_applied_it_itself),
        TEST(pass_commands_of_one_replica_keep_their_order),
        TEST(pass_what_a_leader_takes_is_not_too_long_for_a_follower),
        TEST(pass_all_replicas_at_once_give_every_lease_once),
        TEST(pass_a_read_sees_what_was_acknowledged_elsewhere),
        TEST(pass_nothing_is_read_or_done_behind_a_cut),
        TEST(pass_done_and_then_cut_off_is_answered_soon),
        TEST(pass_what_is_under_way_when_the_leader_dies_ends_once),
        cmocka_unit_test_setup_teardown(
            pass_done_within_a_snapshot_is_unknown_when_the_leader_says_so_later,
            setup_with_snapshots, raft_kit_teardown),
        TEST(pass_asked_again_under_its_id_gets_the_same_lease),
        TEST(pass_what_is_no_command_is_refused_and_ends_nobody),
        TEST(pass_a_replica_that_ends_answers_what_waits),
        TEST(pass_time_goes_on_at_a_follower),
        TEST(pass_a_follower_asked_about_members_asks_the_leader),
        TEST(pass_a_change_with_a_name_that_nobody_can_have_is_refused),
        TEST(pass_a_change_whose_leader_is_lost_is_unknown),
        TEST(pass_a_change_whose_leader_is_cut_off_is_unknown),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
