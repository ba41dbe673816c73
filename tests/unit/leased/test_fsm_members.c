/* Members that come to a lease while it lives, and what becomes of them: they never end it, unless nobody else is left. */
#include <setjmp.h>
#include <stdarg.h>
#include <string.h>

#include <cmocka.h>

#include "tests/lib/fsm_kit.h"

static struct kit kit;

static int four_nodes(void **state)
{
    kit_start(&kit, 8, 4);
    return 0;
}

static int end(void **state)
{
    kit_done(&kit);
    return 0;
}

/* Active on n1; n2 is added and has not spoken yet. */
static uint64_t joining(void)
{
    uint64_t id = kit_active(&kit, "n1");

    assert_int_equal(kit_add(&kit, id, "n2"), FSM_OK);
    assert_int_equal(kit_state(&kit, id), LEASE_ACTIVE);
    assert_int_equal(kit_member(&kit, id, "n2")->proof, PROOF_PENDING);
    assert_false(kit_member(&kit, id, "n2")->released);
    return id;
}

/* The lease lives on without n2, which owes a proof. */
static void assert_let_go(uint64_t id, enum member_proof proof)
{
    assert_int_equal(kit_state(&kit, id), LEASE_ACTIVE);
    assert_int_equal(kit_member(&kit, id, "n1")->proof, PROOF_READY);
    assert_false(kit_member(&kit, id, "n1")->released);
    assert_true(kit_member(&kit, id, "n2")->released);
    assert_int_equal(kit_member(&kit, id, "n2")->proof, proof);
    assert_int_equal(kit_lease(&kit, id)->due_ms, 0);
}

static void members_added_to_an_active_lease_are_waited_for_and_it_is_renewed(void **state)
{
    uint64_t id = kit_active(&kit, "n1");

    kit.now_ms += 1000;
    assert_int_equal(kit_add(&kit, id, "n3,n2,n3"), FSM_OK);
    assert_int_equal(kit.n_changes, 1);
    assert_false(kit.changes[0].expiry_only);
    assert_int_equal(kit_lease(&kit, id)->n_members, 3);
    assert_int_equal(kit_lease(&kit, id)->due_ms, kit.now_ms + 10000);
    assert_int_equal(kit_lease(&kit, id)->expires_ms, kit.now_ms + 60000);
    kit_report(&kit, "n2", id, KIT_READY, NULL);
    assert_int_equal(kit_member(&kit, id, "n2")->proof, PROOF_READY);
    assert_int_not_equal(kit_lease(&kit, id)->due_ms, 0);
    kit_report(&kit, "n3", id, KIT_READY, NULL);
    assert_int_equal(kit_lease(&kit, id)->due_ms, 0);
    kit_elapse(&kit, 30000);
    assert_int_equal(kit_state(&kit, id), LEASE_ACTIVE);
    kit_elapse(&kit, 30000);
    assert_int_equal(kit_lease(&kit, id)->cause, END_EXPIRED);
    kit_report(&kit, "n1", id, KIT_CLEAN, NULL);
    kit_report(&kit, "n2", id, KIT_CLEAN, NULL);
    assert_int_equal(kit_state(&kit, id), LEASE_DRAINING);
    kit_report(&kit, "n3", id, KIT_CLEAN, NULL);
    assert_int_equal(kit_state(&kit, id), LEASE_COOLING);
}

static void members_added_twice_are_added_once(void **state)
{
    uint64_t id = joining();

    assert_int_equal(kit_add(&kit, id, "n2"), FSM_OK);
    assert_int_equal(kit.n_changes, 0);
    assert_int_equal(kit_add(&kit, id, "n1,n2"), FSM_OK);
    assert_int_equal(kit.n_changes, 0);
    assert_int_equal(kit.out.n_leases, 1);
    assert_int_equal(kit_lease(&kit, id)->n_members, 2);
    /* One that is a member already need not be one that could become it now. */
    kit_verb(&kit, "n2", XCE__V1__NODE_VERB__NODE_VERB_DRAIN, "later");
    assert_int_equal(kit_add(&kit, id, "n2"), FSM_OK);
}

static void members_that_can_not_be_added_change_nothing(void **state)
{
    static const struct {
        const char *nodes;
        enum fsm_code code;
        const char *message;
    } rows[] = {
        {"n2,n9", FSM_NOT_FOUND, "node n9 is not registered"},
        {"n2,n3", FSM_PRECONDITION, "node n3 is draining"},
    };
    uint64_t id = kit_active(&kit, "n1"), digest;

    kit_verb(&kit, "n3", XCE__V1__NODE_VERB__NODE_VERB_DRAIN, "later");
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        kit.now_ms += 1000;
        assert_int_equal(kit_add(&kit, id, rows[i].nodes), rows[i].code);
        assert_non_null(strstr(kit.out.message, rows[i].message));
        assert_int_equal(kit.n_changes, 0);
        assert_int_equal(kit_lease(&kit, id)->n_members, 1);
    }
    digest = fsm_digest(kit.fsm);
    kit_release(&kit, id, NULL);
    assert_int_not_equal(fsm_digest(kit.fsm), digest);
    assert_int_equal(kit_add(&kit, id, "n2"), FSM_STALE);
}

static void member_let_go_can_not_be_added_again(void **state)
{
    uint64_t id = kit_active(&kit, "n1,n2");

    kit_release(&kit, id, "n2");
    kit_report(&kit, "n2", id, KIT_CLEAN, NULL);
    assert_int_equal(kit_add(&kit, id, "n3,n2"), FSM_PRECONDITION);
    assert_string_equal(kit.out.message,
                        "node n2 was let go of lease 1: it has closed this epoch for good, only a "
                        "new lease can have it");
    assert_int_equal(kit_lease(&kit, id)->n_members, 2);
}

/* ---- an added member that does not become ready ---- */

static void member_added_that_refuses_is_let_go_alone(void **state)
{
    uint64_t id = joining();

    kit_report(&kit, "n2", id, KIT_REFUSED, "account");
    assert_let_go(id, PROOF_REFUSED);
    assert_string_equal(kit_member(&kit, id, "n2")->reason, "account");
    assert_int_equal(kit_pool(&kit)->n_blocked, 1);
    /* The uid waits for its proof all the same. */
    kit_release(&kit, id, NULL);
    kit_report(&kit, "n1", id, KIT_CLEAN, NULL);
    assert_int_equal(kit_state(&kit, id), LEASE_DRAINING);
    kit_report(&kit, "n2", id, KIT_CLEAN, NULL);
    assert_int_equal(kit_state(&kit, id), LEASE_COOLING);
}

static void member_added_that_is_late_is_let_go_alone(void **state)
{
    uint64_t id = joining();

    kit_elapse(&kit, 9999);
    assert_false(kit_member(&kit, id, "n2")->released);
    kit_elapse(&kit, 1);
    assert_let_go(id, PROOF_PENDING);
    /* Too late now. */
    kit_report(&kit, "n2", id, KIT_READY, NULL);
    assert_int_equal(kit.n_changes, 0);
    kit_report(&kit, "n2", id, KIT_CLEAN, NULL);
    assert_let_go(id, PROOF_CLEAN);
}

static void member_added_that_has_closed_already_is_let_go_alone(void **state)
{
    static const struct {
        int kind;
        enum member_proof proof;
    } rows[] = {{KIT_CLEAN, PROOF_CLEAN}, {KIT_DIRTY, PROOF_DIRTY}};

    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        uint64_t id = joining();

        kit_report(&kit, "n2", id, rows[i].kind, "file");
        assert_let_go(id, rows[i].proof);
    }
}

static void member_added_that_is_lost_or_restarted_is_let_go_alone(void **state)
{
    uint64_t lost = joining(), restarted;

    kit_lost(&kit, "n2", false);
    assert_let_go(lost, PROOF_PENDING);
    kit_hello(&kit, "n2", "machine-2", "boot-1", false);
    kit_watermarks(&kit);
    restarted = joining();
    kit_hello(&kit, "n2", "machine-2", "boot-2", false);
    assert_let_go(restarted, PROOF_PENDING);
}

static void member_added_and_let_go_by_its_holder_stops_the_clock(void **state)
{
    uint64_t id = joining();

    assert_int_equal(kit_release(&kit, id, "n2"), FSM_OK);
    assert_let_go(id, PROOF_PENDING);
}

static void member_added_is_a_member_like_others_once_it_is_ready(void **state)
{
    uint64_t id = joining();

    kit_report(&kit, "n2", id, KIT_READY, NULL);
    kit_report(&kit, "n2", id, KIT_REFUSED, "validity");
    assert_int_equal(kit_state(&kit, id), LEASE_DRAINING);
    assert_int_equal(kit_lease(&kit, id)->cause, END_MEMBER_LOST);
    id = joining();
    kit_report(&kit, "n2", id, KIT_READY, NULL);
    kit_lost(&kit, "n2", false);
    assert_int_equal(kit_state(&kit, id), LEASE_DRAINING);
}

/* ---- the last one that is left ---- */

static void members_added_that_alone_are_left_and_late_end_the_lease(void **state)
{
    uint64_t id = joining();

    kit_add(&kit, id, "n3");
    kit_release(&kit, id, "n1");
    assert_int_equal(kit_state(&kit, id), LEASE_ACTIVE);
    kit_elapse(&kit, 10000);
    assert_int_equal(kit_state(&kit, id), LEASE_DRAINING);
    assert_int_equal(kit_lease(&kit, id)->cause, END_READY_TIMEOUT);
    assert_string_equal(kit_lease(&kit, id)->end_detail,
                        "node n2 and 1 more were not ready in time");
}

static void member_added_that_alone_is_left_and_refuses_ends_the_lease(void **state)
{
    uint64_t id = joining();

    kit_release(&kit, id, "n1");
    kit_report(&kit, "n2", id, KIT_REFUSED, "disk");
    assert_int_equal(kit_state(&kit, id), LEASE_DRAINING);
    assert_int_equal(kit_lease(&kit, id)->cause, END_REFUSED);
    assert_string_equal(kit_lease(&kit, id)->end_detail, "node n2 refused it: disk");
}

/* ---- not active yet ---- */

static void members_added_to_a_granted_lease_are_waited_for_like_the_others(void **state)
{
    uint64_t id;

    kit_acquire(&kit, &(struct kit_grant){.nodes = "n1"});
    id = kit.out_leases[0];
    kit_elapse(&kit, 9000);
    assert_int_equal(kit_add(&kit, id, "n2"), FSM_OK);
    kit_report(&kit, "n1", id, KIT_READY, NULL);
    assert_int_equal(kit_state(&kit, id), LEASE_GRANTED);
    /* It has a whole ready timeout. */
    kit_elapse(&kit, 9000);
    assert_int_equal(kit_state(&kit, id), LEASE_GRANTED);
    kit_report(&kit, "n2", id, KIT_READY, NULL);
    assert_int_equal(kit_state(&kit, id), LEASE_ACTIVE);
    assert_int_equal(kit_lease(&kit, id)->due_ms, 0);
}

static void members_added_to_all_nodes_are_those_that_came_later(void **state)
{
    uint64_t id = kit_active(&kit, "all");

    kit_hello(&kit, "n5", "machine-5", "boot-1", false);
    kit_watermarks(&kit);
    assert_int_equal(kit_add(&kit, id, "n1,n5"), FSM_OK);
    assert_int_equal(kit_lease(&kit, id)->n_members, 5);
    kit_report(&kit, "n5", id, KIT_READY, NULL);
    assert_int_equal(kit_member(&kit, id, "n5")->proof, PROOF_READY);
}

static void members_added_are_of_the_lease_that_a_job_is_answered_with(void **state)
{
    uint64_t id;

    kit_acquire(&kit, &(struct kit_grant){.job = "j1", .nodes = "n1"});
    id = kit.out_leases[0];
    kit_add(&kit, id, "n2");
    assert_int_equal(
        kit_acquire(&kit, &(struct kit_grant){.job = "j1", .nodes = "n2,n1", .adopt = true}),
        FSM_OK);
    assert_int_equal(kit.out_leases[0], id);
}

/* A grace moves what is due, and a snapshot keeps it: the kit carries every state through one. */
static void member_added_has_its_time_again_after_an_election(void **state)
{
    uint64_t id = joining();

    kit.now_ms += 9000;
    kit_grace(&kit, 5000);
    assert_int_equal(kit_lease(&kit, id)->due_ms, kit.now_ms + 5000);
    kit_elapse(&kit, 4999);
    assert_false(kit_member(&kit, id, "n2")->released);
    kit_elapse(&kit, 1);
    assert_let_go(id, PROOF_PENDING);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, four_nodes, end)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(members_added_to_an_active_lease_are_waited_for_and_it_is_renewed),
        TEST(members_added_twice_are_added_once),
        TEST(members_that_can_not_be_added_change_nothing),
        TEST(member_let_go_can_not_be_added_again),
        TEST(member_added_that_refuses_is_let_go_alone),
        TEST(member_added_that_is_late_is_let_go_alone),
        TEST(member_added_that_has_closed_already_is_let_go_alone),
        TEST(member_added_that_is_lost_or_restarted_is_let_go_alone),
        TEST(member_added_and_let_go_by_its_holder_stops_the_clock),
        TEST(member_added_is_a_member_like_others_once_it_is_ready),
        TEST(members_added_that_alone_are_left_and_late_end_the_lease),
        TEST(member_added_that_alone_is_left_and_refuses_ends_the_lease),
        TEST(members_added_to_a_granted_lease_are_waited_for_like_the_others),
        TEST(members_added_to_all_nodes_are_those_that_came_later),
        TEST(members_added_are_of_the_lease_that_a_job_is_answered_with),
        TEST(member_added_has_its_time_again_after_an_election),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
