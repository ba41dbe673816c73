/* The life of a lease: every move of its state machine, and every rule of what may free a uid. */
#include <setjmp.h>
#include <stdarg.h>
#include <string.h>

#include <cmocka.h>

#include "tests/lib/fsm_kit.h"

static struct kit kit;

static int three_nodes(void **state)
{
    (void)state;
    kit_start(&kit, 8, 3);
    return 0;
}

static int end(void **state)
{
    (void)state;
    kit_done(&kit);
    return 0;
}

static void lease_without_trouble_goes_through_all_states(void **state)
{
    uint64_t id;
    uint32_t uid;

    (void)state;
    assert_int_equal(kit_acquire(&kit, &(struct kit_grant){.job = "j1", .nodes = "n1,n2"}), FSM_OK);
    id = kit.out_leases[0];
    uid = kit_lease(&kit, id)->uid;
    assert_int_equal(uid, KIT_FIRST_UID);
    assert_int_equal(kit_lease(&kit, id)->epoch, 1);
    assert_int_equal(kit_state(&kit, id), LEASE_GRANTED);
    kit_report(&kit, "n1", id, KIT_READY, NULL);
    assert_int_equal(kit_state(&kit, id), LEASE_GRANTED);
    kit_report(&kit, "n2", id, KIT_READY, NULL);
    assert_int_equal(kit_state(&kit, id), LEASE_ACTIVE);
    assert_int_equal(kit_release(&kit, id, NULL), FSM_OK);
    assert_int_equal(kit_state(&kit, id), LEASE_DRAINING);
    kit_report(&kit, "n1", id, KIT_CLEAN, NULL);
    assert_int_equal(kit_state(&kit, id), LEASE_DRAINING);
    kit_report(&kit, "n2", id, KIT_CLEAN, NULL);
    assert_int_equal(kit_state(&kit, id), LEASE_COOLING);
    kit_elapse(&kit, 299999);
    assert_int_equal(kit_state(&kit, id), LEASE_COOLING);
    kit_elapse(&kit, 1);
    assert_int_equal(kit_state(&kit, id), LEASE_RETIRED);
    kit_watermark(&kit, "n1", fsm_revision(kit.fsm));
    kit_watermark(&kit, "n2", fsm_revision(kit.fsm));
    assert_int_equal(kit_state(&kit, id), LEASE_RETIRED);
    kit_watermark(&kit, "n3", fsm_revision(kit.fsm));
    assert_int_equal(kit_state(&kit, id), LEASE_FREE);
    assert_int_equal(kit.changes[0].state, LEASE_FREE);
    assert_null(fsm_lease_of_uid(kit.fsm, uid));
    assert_int_equal(fsm_epoch_floor(kit.fsm, uid), 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(lease_without_trouble_goes_through_all_states, three_nodes,
                                        end),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
