/* Machines that speak beside a node: in a boot of before, under its name, under another name. */
#include <setjmp.h>
#include <stdarg.h>
#include <string.h>

#include <cmocka.h>

#include "tests/lib/fsm_kit.h"

static struct kit kit;

static int two_nodes(void **state)
{
    kit_start(&kit, 32, 2);
    return 0;
}

static int end(void **state)
{
    kit_done(&kit);
    return 0;
}

/* n1 is booted anew, and looked through. */
static void reboot(const char *boot)
{
    assert_int_equal(kit_hello(&kit, "n1", "machine-1", boot, false), FSM_OK);
    kit_watermarks(&kit);
    assert_int_equal(kit_node(&kit, "n1")->state, NODE_READY);
}

static void returns(int times)
{
    while (times--)
        assert_int_equal(kit_returns(&kit, "n1", "machine-1", "boot-1"), FSM_PRECONDITION);
}

static void boot_that_is_over_is_refused(void **state)
{
    uint64_t session;

    reboot("boot-2");
    session = kit_node(&kit, "n1")->session;
    /* However often it comes late: what was said when it was not over yet shows nothing. */
    for (int i = 0; i < 5; i++)
        assert_int_equal(kit_hello(&kit, "n1", "machine-1", "boot-1", true), FSM_PRECONDITION);
    assert_int_equal(kit.n_changes, 0);
    assert_non_null(strstr(kit.out.message, "boot-1 is over"));
    returns(2);
    assert_int_equal(kit_node(&kit, "n1")->session, session);
    assert_int_equal(kit_node(&kit, "n1")->state, NODE_READY);
    assert_false(kit_node(&kit, "n1")->cloned);
    assert_string_equal(kit_node(&kit, "n1")->rival.boot_id, "boot-1");
}

static void boot_of_one_machine_beside_another_leaves_nobody(void **state)
{
    const struct fsm_node *node = kit_node(&kit, "n1");
    uint64_t id, session;

    reboot("boot-2");
    id = kit_active(&kit, "n1,n2");
    session = node->session;
    returns(3);
    assert_true(node->cloned);
    assert_int_equal(node->state, NODE_LOST);
    assert_string_equal(node->reason, "cloned: machine machine-1 speaks in boot boot-2 and in boot "
                                      "boot-1");
    assert_int_equal(kit_state(&kit, id), LEASE_DRAINING);
    assert_true(kit_lease(&kit, id)->quarantine & QUARANTINE_MEMBER_LOST);
    kit_report(&kit, "n2", id, KIT_CLEAN, NULL);
    kit_report_uid(&kit, "n1", session, kit_lease(&kit, id)->uid, 1, KIT_CLEAN, NULL);
    assert_int_equal(kit.out.code, FSM_IGNORED);
    assert_int_equal(kit_hello(&kit, "n1", "machine-1", "boot-2", true), FSM_PRECONDITION);
    assert_int_equal(kit_hello(&kit, "n1", "machine-1", "boot-3", false), FSM_PRECONDITION);
    assert_non_null(strstr(kit.out.message, "leasectl node fence n1"));
    assert_int_equal(kit_state(&kit, id), LEASE_DRAINING);
}

static void boot_of_two_machines_is_settled_by_a_fence(void **state)
{
    const struct fsm_node *node = kit_node(&kit, "n1");
    uint64_t id;

    reboot("boot-2");
    id = kit_active(&kit, "n1");
    returns(3);
    assert_int_equal(kit_fence(&kit, "n1", "machine-1", "boot-2"), FSM_OK);
    assert_false(node->cloned);
    assert_null(node->rival.boot_id);
    assert_int_equal(kit_state(&kit, id), LEASE_COOLING);
    reboot("boot-3");
    /* The oath was false of the other one: it is known when it speaks. */
    returns(1);
    assert_int_equal(node->state, NODE_READY);
    returns(2);
    assert_true(node->cloned);
    assert_int_equal(kit_state(&kit, id), LEASE_DRAINING);
}

static void boot_proofs_of_another_machine_are_taken_back(void **state)
{
    uint64_t cooling = kit_active(&kit, "n1"), over = kit_active(&kit, "n1"), later;
    uint32_t uid = kit_lease(&kit, over)->uid;

    kit_hello(&kit, "n1", "machine-1", "boot-2", false);
    kit_watermarks(&kit);
    kit_finish(&kit, over);
    later = kit_active(&kit, "n1");
    kit_finish(&kit, later);
    kit_report(&kit, "n1", cooling, KIT_CLEAN, NULL);
    assert_int_equal(kit_state(&kit, cooling), LEASE_COOLING);
    returns(3);
    assert_int_equal(kit_state(&kit, cooling), LEASE_DRAINING);
    /* Only what was leased when the first one was alive. */
    assert_int_equal(kit_pool(&kit)->n_blocked, 1);
    assert_int_equal(kit_pool(&kit)->blocked[0].uid, uid);
    assert_string_equal(kit_pool(&kit)->blocked[0].reason, "clone");
    assert_non_null(strstr(kit_pool(&kit)->blocked[0].detail, "boot boot-1 is alive"));
    assert_int_equal(kit_unblock(&kit, uid), FSM_OK);
}

static void boot_before_the_last_one_is_known_too(void **state)
{
    reboot("boot-2");
    reboot("boot-3");
    returns(3);
    assert_true(kit_node(&kit, "n1")->cloned);
}

static void boot_of_a_machine_that_was_replaced_is_the_new_ones(void **state)
{
    const struct fsm_node *node = kit_node(&kit, "n1");

    reboot("boot-2");
    assert_int_equal(kit_hello(&kit, "n1", "machine-7", "boot-7", false), FSM_PRECONDITION);
    assert_string_equal(node->rival.machine_id, "machine-7");
    assert_int_equal(node->state, NODE_READY);
    kit_lost(&kit, "n1", false);
    assert_int_equal(kit_hello(&kit, "n1", "machine-7", "boot-7", false), FSM_PRECONDITION);
    assert_int_equal(kit_fence(&kit, "n1", "machine-1", "boot-2"), FSM_OK);
    assert_int_equal(kit_hello(&kit, "n1", "machine-7", "boot-1", false), FSM_OK);
    assert_null(node->rival.boot_id);
}

static void boot_of_a_node_that_is_heard_is_no_other_node(void **state)
{
    assert_int_equal(kit_hello(&kit, "n9", "machine-1", "boot-9", false), FSM_PRECONDITION);
    assert_non_null(strstr(kit.out.message, "machine-1 is node n1"));
    assert_string_equal(kit_node(&kit, "n1")->rival.node, "n9");
    assert_null(fsm_node(kit.fsm, "n9"));
    /* Two on one machine are one thing, a machine that was renamed another. */
    assert_int_equal(kit_hello(&kit, "n8", "machine-1", "boot-1", false), FSM_OK);
    kit_lost(&kit, "n1", false);
    kit_lost(&kit, "n8", false);
    assert_int_equal(kit_hello(&kit, "n9", "machine-1", "boot-9", false), FSM_OK);
    assert_int_equal(kit_hello(&kit, "n1", "machine-1", "boot-2", false), FSM_PRECONDITION);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, two_nodes, end)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(boot_that_is_over_is_refused),
        TEST(boot_of_one_machine_beside_another_leaves_nobody),
        TEST(boot_of_two_machines_is_settled_by_a_fence),
        TEST(boot_proofs_of_another_machine_are_taken_back),
        TEST(boot_before_the_last_one_is_known_too),
        TEST(boot_of_a_machine_that_was_replaced_is_the_new_ones),
        TEST(boot_of_a_node_that_is_heard_is_no_other_node),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
