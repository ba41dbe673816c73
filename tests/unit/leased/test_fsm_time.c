/* Cluster time: it never goes back, nothing ends early, ticks do as much as they are told. */
#include <setjmp.h>
#include <stdarg.h>
#include <string.h>

#include <cmocka.h>

#include "tests/lib/fsm_kit.h"

static struct kit kit;

static int start(void **state)
{
    kit_start(&kit, 64, 1);
    return 0;
}

static int end(void **state)
{
    kit_done(&kit);
    return 0;
}

static void time_never_goes_back(void **state)
{
    uint64_t id = kit_active(&kit, "n1");
    int64_t expires_ms = kit_lease(&kit, id)->expires_ms;

    kit.now_ms += 30000;
    kit_tick(&kit);
    kit.now_ms -= 3600000 < kit.now_ms ? 25000 : 0;
    kit_tick(&kit);
    assert_int_equal(kit.out.now_ms, expires_ms - 30000);
    assert_int_equal(fsm_now_ms(kit.fsm), expires_ms - 30000);
    assert_int_equal(kit_renew(&kit, id, 0), FSM_OK);
    assert_int_equal(kit_lease(&kit, id)->expires_ms, expires_ms + 30000);
}

static void time_of_the_wall_only_annotates(void **state)
{
    kit_active(&kit, "n1");
    assert_int_equal(kit_lease(&kit, 1)->granted_wall_ms, 1700000000000 + kit.now_ms);
    assert_int_equal(kit_lease(&kit, 1)->granted_ms, kit.now_ms);
}

static void time_grace_only_ever_gives(void **state)
{
    uint64_t soon = kit_active(&kit, "n1"), late, never, granted;

    kit_acquire(&kit, &(struct kit_grant){.ttl_ms = 3600000});
    late = kit.out_leases[0];
    kit_report(&kit, "n1", late, KIT_READY, NULL);
    kit_acquire(&kit, &(struct kit_grant){.ttl_ms = -2});
    never = kit.out_leases[0];
    kit_report(&kit, "n1", never, KIT_READY, NULL);
    kit.now_ms += 55000;
    kit_acquire(&kit, &(struct kit_grant){0});
    granted = kit.out_leases[0];
    assert_int_equal(kit_grace(&kit, 30000), FSM_OK);
    assert_int_equal(kit_lease(&kit, soon)->expires_ms, kit.now_ms + 30000);
    assert_int_equal(kit_lease(&kit, late)->expires_ms, kit.now_ms - 55000 + 3600000);
    assert_int_equal(kit_lease(&kit, never)->expires_ms, 0);
    assert_int_equal(kit_lease(&kit, granted)->due_ms, kit.now_ms + 30000);
    assert_int_equal(kit.n_changes, 2);
    assert_true(kit.changes[0].expiry_only);
    assert_int_equal(kit_grace(&kit, 30000), FSM_OK);
    assert_int_equal(kit.n_changes, 0);
    kit_elapse(&kit, 29999);
    assert_int_equal(kit_state(&kit, soon), LEASE_ACTIVE);
    assert_int_equal(kit_state(&kit, granted), LEASE_GRANTED);
    kit_elapse(&kit, 1);
    assert_int_equal(kit_state(&kit, soon), LEASE_DRAINING);
    assert_int_equal(kit_state(&kit, granted), LEASE_DRAINING);
    assert_int_equal(kit_grace(&kit, -1), FSM_INVALID);
    assert_int_equal(kit_grace(&kit, 3600001), FSM_INVALID);
}

static void time_renewed_before_the_tick_is_applied_counts(void **state)
{
    uint64_t id = kit_active(&kit, "n1");

    kit.now_ms += 61000;
    assert_int_equal(kit_renew(&kit, id, 0), FSM_OK);
    kit_tick(&kit);
    assert_int_equal(kit_state(&kit, id), LEASE_ACTIVE);
}

static void tick_does_at_most_what_it_says_in_order(void **state)
{
    Xce__V1__CmdTick tick = XCE__V1__CMD_TICK__INIT;
    Xce__V1__Command command = XCE__V1__COMMAND__INIT;
    struct kit_grant grants[20] = {{0}};
    uint64_t last = 0;

    kit_acquire_many(&kit, grants, 20);
    kit.now_ms += 10000;
    tick.at_most = 7;
    command.kind_case = XCE__V1__COMMAND__KIND_TICK;
    command.tick = &tick;
    for (size_t left = 20; left; left -= left > 7 ? 7 : left) {
        assert_int_equal(fsm_next_due_ms(kit.fsm), kit.now_ms);
        kit_apply(&kit, &command);
        assert_int_equal(kit.n_changes, left > 7 ? 7 : left);
        for (size_t i = 0; i < kit.n_changes; i++) {
            assert_int_equal(kit.changes[i].lease, last + 1);
            last = kit.changes[i].lease;
        }
    }
    assert_int_equal(kit_counts(&kit).draining, 20);
}

/* More is free at once than one command frees: the next tick is due now, and goes on. */
static void tick_goes_on_freeing(void **state)
{
    Xce__V1__CmdTick tick = XCE__V1__CMD_TICK__INIT;
    Xce__V1__Command command = XCE__V1__COMMAND__INIT;
    struct kit_grant grants[40] = {{0}};

    kit_acquire_many(&kit, grants, 40);
    for (uint64_t id = 1; id <= 40; id++) {
        kit_release(&kit, id, NULL);
        kit_report(&kit, "n1", id, KIT_CLEAN, NULL);
    }
    kit.now_ms += 300000;
    kit_tick(&kit);
    assert_int_equal(kit_counts(&kit).retired, 40);
    kit_lost(&kit, "n1", false);
    kit_fence(&kit, "n1", "machine-1", "boot-1");
    assert_int_equal(kit_counts(&kit).free, 64);
    kit_hello(&kit, "n1", "machine-1", "boot-2", false);
    kit_watermarks(&kit);
    kit_acquire_many(&kit, grants, 40);
    for (uint64_t id = 41; id <= 80; id++) {
        kit_release(&kit, id, NULL);
        kit_report(&kit, "n1", id, KIT_CLEAN, NULL);
    }
    kit_lost(&kit, "n1", false);
    kit_fence(&kit, "n1", "machine-1", "boot-2");
    kit.now_ms += 300000;
    /* No witness is left: a tick retires 30, and has no move left to free them. */
    tick.at_most = 30;
    command.kind_case = XCE__V1__COMMAND__KIND_TICK;
    command.tick = &tick;
    kit_apply(&kit, &command);
    assert_int_equal(kit_counts(&kit).retired, 30);
    assert_int_equal(fsm_next_due_ms(kit.fsm), kit.now_ms);
    kit_apply(&kit, &command);
    assert_int_equal(kit_counts(&kit).retired, 20);
    assert_int_equal(fsm_next_due_ms(kit.fsm), kit.now_ms);
    kit_apply(&kit, &command);
    assert_int_equal(kit_counts(&kit).free, 64);
    assert_int_equal(fsm_next_due_ms(kit.fsm), INT64_MAX);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, start, end)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(time_never_goes_back),
        TEST(time_of_the_wall_only_annotates),
        TEST(time_grace_only_ever_gives),
        TEST(time_renewed_before_the_tick_is_applied_counts),
        TEST(tick_does_at_most_what_it_says_in_order),
        TEST(tick_goes_on_freeing),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
