/* Commands that come twice, late, or under a used id. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "tests/lib/fsm_kit.h"

static struct kit kit;

static int one_node(void **state)
{
    kit_start(&kit, 64, 1);
    return 0;
}

static int end(void **state)
{
    kit_done(&kit);
    return 0;
}

static enum fsm_code acquire(const char *id, uint8_t digest, int64_t issued_ms)
{
    kit_request(&kit, id, digest, issued_ms);
    return kit_acquire(&kit, &(struct kit_grant){0});
}

static bool known(const char *id)
{
    struct fsm_request request;

    return fsm_request_find(kit.fsm, kit.principal, strlen(kit.principal), id, strlen(id),
                            &request) == 0;
}

static void request_that_comes_again_is_answered_again(void **state)
{
    uint64_t id, revision;

    assert_int_equal(acquire("r1", 1, kit.now_ms), FSM_OK);
    id = kit.out_leases[0];
    revision = kit.out.revision;
    assert_false(kit.out.replayed);
    for (int i = 0; i < 100; i++) {
        kit.now_ms += 1000;
        assert_int_equal(acquire("r1", 1, kit.now_ms), FSM_OK);
        assert_true(kit.out.replayed);
        assert_int_equal(kit.out.n_leases, 1);
        assert_int_equal(kit.out_leases[0], id);
        assert_int_equal(kit.out.revision, revision);
    }
    assert_int_equal(kit_counts(&kit).granted, 1);
}

static void request_id_with_another_payload_is_an_error(void **state)
{
    acquire("r1", 1, kit.now_ms);
    assert_int_equal(acquire("r1", 2, kit.now_ms), FSM_REQUEST_REUSED);
    assert_int_equal(kit.out.n_leases, 0);
    assert_int_equal(kit.n_changes, 0);
    /* The first answer stands. */
    assert_int_equal(acquire("r1", 1, kit.now_ms), FSM_OK);
    kit_request(&kit, "r1", 3, kit.now_ms);
    assert_int_equal(kit_release(&kit, 1, NULL), FSM_REQUEST_REUSED);
}

static void request_ids_belong_to_their_principal(void **state)
{
    assert_int_equal(acquire("r1", 1, kit.now_ms), FSM_OK);
    kit.principal = "user:bob";
    assert_false(known("r1"));
    assert_int_equal(acquire("r1", 1, kit.now_ms), FSM_OK);
    assert_false(kit.out.replayed);
    assert_int_equal(kit_counts(&kit).granted, 2);
}

static void request_that_failed_fails_again_the_same_way(void **state)
{
    for (int i = 0; i < 64; i++)
        kit_active(&kit, "n1");
    assert_int_equal(acquire("r1", 1, kit.now_ms), FSM_EXHAUSTED);
    kit_finish(&kit, 1);
    /* There is room now, but this request has been answered. */
    assert_int_equal(acquire("r1", 1, kit.now_ms), FSM_EXHAUSTED);
    assert_true(kit.out.replayed);
    assert_non_null(strstr(kit.out.message, "active 64"));
    assert_int_equal(acquire("r2", 1, kit.now_ms), FSM_OK);
}

static void request_release_and_renew_are_answered_again(void **state)
{
    uint64_t id = kit_active(&kit, "n1");

    kit_request(&kit, "r1", 1, 0);
    assert_int_equal(kit_release(&kit, id, NULL), FSM_OK);
    kit_finish(&kit, id);
    kit_request(&kit, "r1", 1, 0);
    assert_int_equal(kit_release(&kit, id, NULL), FSM_OK);
    assert_true(kit.out.replayed);
    assert_int_equal(kit.out_leases[0], id);
}

/* ---- the horizon ---- */

static void request_forgotten_by_age_raises_the_horizon(void **state)
{
    int64_t issued_ms = kit.now_ms;

    assert_int_equal(fsm_request_horizon_ms(kit.fsm), 0);
    /* Without a time, as long as nothing has been forgotten. */
    assert_int_equal(acquire("r0", 1, 0), FSM_OK);
    assert_int_equal(acquire("r1", 1, issued_ms), FSM_OK);
    kit.now_ms += FSM_REQUEST_MS - 1;
    kit_tick(&kit);
    assert_true(known("r1"));
    kit.now_ms += 1;
    kit_tick(&kit);
    assert_false(known("r1"));
    assert_int_equal(fsm_request_horizon_ms(kit.fsm), issued_ms + 1);
    /* The late copy, and any other that might be one. */
    assert_int_equal(acquire("r1", 1, issued_ms), FSM_REQUEST_OLD);
    assert_int_equal(kit.n_changes, 0);
    assert_non_null(strstr(kit.out.message, "with a new request id"));
    assert_int_equal(acquire("r2", 1, 0), FSM_REQUEST_OLD);
    assert_false(known("r2"));
    assert_int_equal(acquire("r2", 1, issued_ms + 1), FSM_OK);
}

static void request_that_is_harmless_is_never_too_old(void **state)
{
    uint64_t id = kit_active(&kit, "n1");

    acquire("r1", 1, kit.now_ms);
    kit.now_ms += FSM_REQUEST_MS;
    kit_grace(&kit, 60000);
    assert_int_not_equal(fsm_request_horizon_ms(kit.fsm), 0);
    kit_request(&kit, "r2", 1, 1);
    assert_int_equal(kit_renew(&kit, id, 0), FSM_OK);
    kit_request(&kit, "r3", 1, 0);
    assert_int_equal(kit_release(&kit, id, NULL), FSM_OK);
}

static void request_of_an_administrator_is_too_old_only_if_it_says_so(void **state)
{
    acquire("r1", 1, kit.now_ms);
    kit.now_ms += FSM_REQUEST_MS;
    kit_tick(&kit);
    kit_request(&kit, "r2", 1, 1);
    assert_int_equal(kit_verb(&kit, "n1", XCE__V1__NODE_VERB__NODE_VERB_DRAIN, "x"),
                     FSM_REQUEST_OLD);
    kit_request(&kit, "r3", 1, 0);
    assert_int_equal(kit_verb(&kit, "n1", XCE__V1__NODE_VERB__NODE_VERB_DRAIN, "x"), FSM_OK);
}

static void request_to_remove_a_replica_is_only_kept(void **state)
{
    Xce__V1__Command command = XCE__V1__COMMAND__INIT;
    Xce__V1__CmdRemoving removing = XCE__V1__CMD_REMOVING__INIT;
    uint64_t revision = fsm_revision(kit.fsm);

    command.kind_case = XCE__V1__COMMAND__KIND_REMOVING;
    command.removing = &removing;
    for (int i = 0; i < 2; i++) {
        kit_request(&kit, "r1", 1, kit.now_ms);
        assert_int_equal(kit_apply(&kit, &command), FSM_OK);
        assert_int_equal(kit.out.replayed, i);
    }
    kit_request(&kit, "r1", 2, kit.now_ms);
    assert_int_equal(kit_apply(&kit, &command), FSM_REQUEST_REUSED);
    assert_int_equal(fsm_revision(kit.fsm), revision);
}

static void request_from_the_future_is_refused(void **state)
{
    assert_int_equal(acquire("r1", 1, kit.now_ms + 60001), FSM_INVALID);
    assert_false(known("r1"));
    /* A little ahead: then it is also kept so much longer. */
    assert_int_equal(acquire("r1", 1, kit.now_ms + 60000), FSM_OK);
    kit.now_ms += FSM_REQUEST_MS;
    kit_tick(&kit);
    assert_true(known("r1"));
    kit.now_ms += 60000;
    kit_tick(&kit);
    assert_false(known("r1"));
    assert_int_equal(fsm_request_horizon_ms(kit.fsm), kit.now_ms - FSM_REQUEST_MS + 1);
}

/* And it is kept no longer than others for that. */
static void request_that_is_harmless_may_come_from_the_future(void **state)
{
    uint64_t id = kit_active(&kit, "n1");
    int64_t ahead_ms = kit.now_ms + 3600000;

    kit_request(&kit, "r1", 1, ahead_ms);
    assert_int_equal(kit_renew(&kit, id, 0), FSM_OK);
    kit_request(&kit, "r2", 1, ahead_ms);
    assert_int_equal(kit_revoke(&kit, id, "x"), FSM_OK);
    kit_request(&kit, "r3", 1, ahead_ms);
    assert_int_equal(kit_release(&kit, id, NULL), FSM_OK);
    kit.now_ms += FSM_REQUEST_MS;
    kit_tick(&kit);
    assert_false(known("r1"));
}

/* Full: the oldest goes early, and its time with it. Renewals do not push acquires out. */
static void request_table_is_bounded_and_forgets_the_oldest_first(void **state)
{
    char id[64];
    int n = 0;

    kit.light = true;
    acquire("first", 1, kit.now_ms);
    kit.now_ms += 5;
    for (; fsm_request_horizon_ms(kit.fsm) == 0; n++) {
        snprintf(id, sizeof(id), "%058d", n);
        kit_request(&kit, id, 1, kit.now_ms);
        kit_pool_retire(&kit, "none");
    }
    kit.light = false;
    assert_false(known("first"));
    assert_in_range(n, 50000, 140000);
    assert_int_equal(fsm_request_horizon_ms(kit.fsm), kit.now_ms - 5 + 1);
    assert_true(known(id));
    snprintf(id, sizeof(id), "%058d", 0);
    assert_true(known(id));
    kit.light = true;
    for (int i = 0; i < 200000; i++) {
        snprintf(id, sizeof(id), "renew-%d", i);
        kit_request(&kit, id, 1, kit.now_ms);
        kit_renew(&kit, 1, 0);
    }
    snprintf(id, sizeof(id), "%058d", 0);
    assert_true(known(id));
    assert_false(known("renew-0"));
    assert_true(known("renew-199999"));
    assert_null(fsm_verify(kit.fsm));
    assert_int_equal(fsm_request_horizon_ms(kit.fsm), kit.now_ms - 5 + 1);
}

static void request_waiting_and_forgotten_leaves_its_lease_alone(void **state)
{
    kit_request(&kit, "r1", 1, kit.now_ms);
    kit_acquire(&kit, &(struct kit_grant){.wait = true, .ttl_ms = -2});
    /* Kept ready: nothing ends it while the answer grows old. */
    for (int i = 0; i < 11; i++) {
        kit.now_ms += 60000;
        kit_grace(&kit, 120000);
    }
    assert_false(known("r1"));
    assert_int_equal(kit_state(&kit, 1), LEASE_GRANTED);
    kit_report(&kit, "n1", 1, KIT_REFUSED, "disk");
    assert_int_equal(kit_state(&kit, 1), LEASE_DRAINING);
    assert_int_equal(kit_counts(&kit).granted, 0);
}

static void request_that_is_misshapen_is_refused(void **state)
{
    char id[100];

    memset(id, 'x', sizeof(id) - 1);
    id[99] = '\0';
    assert_int_equal(acquire(id, 1, 0), FSM_INVALID);
    assert_int_equal(acquire("r1", 1, -1), FSM_INVALID);
    kit.principal = "bad\nprincipal";
    assert_int_equal(acquire("r1", 1, 0), FSM_INVALID);
    kit.principal = "";
    assert_int_equal(acquire("r1", 1, 0), FSM_OK);
    assert_int_equal(acquire("r1", 1, 0), FSM_OK);
    assert_true(kit.out.replayed);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, one_node, end)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(request_that_comes_again_is_answered_again),
        TEST(request_id_with_another_payload_is_an_error),
        TEST(request_ids_belong_to_their_principal),
        TEST(request_that_failed_fails_again_the_same_way),
        TEST(request_release_and_renew_are_answered_again),
        TEST(request_forgotten_by_age_raises_the_horizon),
        TEST(request_that_is_harmless_is_never_too_old),
        TEST(request_of_an_administrator_is_too_old_only_if_it_says_so),
        TEST(request_to_remove_a_replica_is_only_kept),
        TEST(request_from_the_future_is_refused),
        TEST(request_that_is_harmless_may_come_from_the_future),
        TEST(request_table_is_bounded_and_forgets_the_oldest_first),
        TEST(request_waiting_and_forgotten_leaves_its_lease_alone),
        TEST(request_that_is_misshapen_is_refused),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
