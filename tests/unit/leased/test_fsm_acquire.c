/* What an acquire is refused for, that it is all or nothing, and how one that waits goes on. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "tests/lib/fsm_kit.h"

static struct kit kit;

static int two_nodes(void **state)
{
    kit_start(&kit, 12, 2);
    return 0;
}

static int end(void **state)
{
    kit_done(&kit);
    return 0;
}

static uint64_t waiting(const char *id, const struct kit_grant *grants, size_t n)
{
    kit_request(&kit, id, 1, kit.now_ms);
    assert_int_equal(kit_acquire_many(&kit, grants, n), FSM_OK);
    return kit.out_leases[0];
}

static struct fsm_request found(const char *id)
{
    struct fsm_request request;

    assert_int_equal(
        fsm_request_find(kit.fsm, kit.principal, strlen(kit.principal), id, strlen(id), &request),
        0);
    return request;
}

/* ---- refusals ---- */

static void acquire_that_cannot_be_is_refused_by_name(void **state)
{
    static const struct {
        struct kit_grant grant;
        enum fsm_code code;
        const char *message;
    } rows[] = {
        {{.pool = "other"}, FSM_NOT_FOUND, "pool other does not exist"},
        {{.nodes = "n7"}, FSM_NOT_FOUND, "node n7 is not registered"},
        {{.nodes = "n1,n7"}, FSM_NOT_FOUND, "node n7 is not registered"},
        {{.nodes = ""}, FSM_INVALID, "nodes: a lease needs at least one member"},
        {{.ttl_ms = 999}, FSM_INVALID, "ttl of 999ms: pool main allows 1s to 30d"},
        {{.ttl_ms = 31LL * 24 * 3600 * 1000},
         FSM_INVALID,
         "ttl of 31d: pool main allows 1s to 30d"},
        {{.ttl_ms = -3}, FSM_INVALID, "ttl of -3ms: pool main allows 1s to 30d"},
        {{.job = "a\nb"}, FSM_INVALID, "job: holds a control character"},
        {{.job = "\xff"}, FSM_INVALID, "job: is not UTF-8"},
        {{.owner = "0123456789012345678901234567890123456789012345678901234567890123456789"},
         FSM_INVALID,
         "owner: longer than 64 bytes"},
    };

    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        enum fsm_code code = kit_acquire(&kit, &rows[i].grant);

        if (code != rows[i].code || strcmp(kit.out.message, rows[i].message) != 0)
            fail_msg("row %zu: %d %s", i, code, kit.out.message);
        assert_int_equal(kit.n_changes, 0);
        assert_int_equal(kit_counts(&kit).free, 12);
    }
}

static void acquire_names_a_node_that_is_not_ready_and_why(void **state)
{
    kit.principal = "user:root";
    kit_verb(&kit, "n1", XCE__V1__NODE_VERB__NODE_VERB_DRAIN, "new disk");
    assert_int_equal(kit_acquire(&kit, &(struct kit_grant){0}), FSM_PRECONDITION);
    assert_string_equal(kit.out.message, "node n1 is draining (new disk)");
    kit_verb(&kit, "n1", XCE__V1__NODE_VERB__NODE_VERB_CORDON, NULL);
    assert_int_equal(kit_acquire(&kit, &(struct kit_grant){0}), FSM_PRECONDITION);
    assert_string_equal(kit.out.message, "node n1 is cordoned");
    kit_verb(&kit, "n1", XCE__V1__NODE_VERB__NODE_VERB_UNDRAIN, NULL);
    kit_hello(&kit, "n1", "machine-1", "boot-1", false);
    assert_int_equal(kit_acquire(&kit, &(struct kit_grant){0}), FSM_PRECONDITION);
    assert_string_equal(kit.out.message,
                        "node n1 is unknown (noded was restarted, not yet looked through)");
    kit_lost(&kit, "n1", false);
    assert_int_equal(kit_acquire(&kit, &(struct kit_grant){0}), FSM_PRECONDITION);
    assert_string_equal(kit.out.message, "node n1 is lost (not heard)");
    kit_fence(&kit, "n1", "machine-1", "boot-1");
    assert_int_equal(kit_acquire(&kit, &(struct kit_grant){0}), FSM_PRECONDITION);
    assert_string_equal(kit.out.message, "node n1 is fenced (power is off)");
}

static void acquire_of_all_nodes_takes_those_that_are_ready_now(void **state)
{
    uint64_t id;

    kit_hello(&kit, "n0", "machine-0", "boot-1", false);
    assert_int_equal(kit_acquire(&kit, &(struct kit_grant){.nodes = "all"}), FSM_OK);
    id = kit.out_leases[0];
    assert_int_equal(kit_lease(&kit, id)->n_members, 2);
    assert_string_equal(kit_lease(&kit, id)->members[0].node->name, "n1");
    kit_lost(&kit, "n1", false);
    kit_lost(&kit, "n2", false);
    assert_int_equal(kit_acquire(&kit, &(struct kit_grant){.nodes = "all"}), FSM_PRECONDITION);
    assert_string_equal(kit.out.message, "none of 3 registered nodes is ready");
}

static void acquire_takes_a_node_named_twice_once(void **state)
{
    assert_int_equal(kit_acquire(&kit, &(struct kit_grant){.nodes = "n2,n1,n2,n2"}), FSM_OK);
    assert_int_equal(kit_lease(&kit, kit.out_leases[0])->n_members, 2);
    assert_string_equal(kit_lease(&kit, kit.out_leases[0])->members[0].node->name, "n2");
}

static void acquire_without_a_pool_takes_the_only_one(void **state)
{
    assert_int_equal(kit_acquire(&kit, &(struct kit_grant){0}), FSM_OK);
    kit_pool_create(&kit, "aux", KIT_FIRST_UID + 100, KIT_FIRST_UID + 109);
    assert_int_equal(kit_acquire(&kit, &(struct kit_grant){0}), FSM_INVALID);
    assert_string_equal(kit.out.message, "pool: there are 2, name one of them (aux, main, ...)");
    assert_int_equal(kit_acquire(&kit, &(struct kit_grant){.pool = "aux"}), FSM_OK);
    assert_int_equal(kit_lease(&kit, kit.out_leases[0])->uid, KIT_FIRST_UID + 100);
}

static void acquire_without_a_name_of_its_owner_makes_one(void **state)
{
    assert_int_equal(kit_acquire(&kit, &(struct kit_grant){.owner = "", .owner_uid = 4711}),
                     FSM_OK);
    assert_string_equal(kit_lease(&kit, kit.out_leases[0])->owner.name, "#4711");
    assert_int_equal(kit_acquire(&kit, &(struct kit_grant){.ttl_ms = -1}), FSM_OK);
    assert_int_equal(kit_lease(&kit, kit.out_leases[0])->ttl_ms, 3600000);
}

static void acquire_from_an_empty_pool_counts_and_says_when(void **state)
{
    uint64_t cooling;

    cooling = kit_active(&kit, "n1");
    for (int i = 0; i < 11; i++)
        kit_active(&kit, "n1");
    assert_int_equal(kit_acquire(&kit, &(struct kit_grant){0}), FSM_EXHAUSTED);
    assert_string_equal(kit.out.message,
                        "pool main: 0 free, 1 asked (granted 0, active 12, draining 0, normalising "
                        "0, cooling 0, retired 0, blocked 0); none is on its way back");
    kit_release(&kit, cooling, NULL);
    assert_int_equal(kit_acquire(&kit, &(struct kit_grant){0}), FSM_EXHAUSTED);
    assert_non_null(strstr(kit.out.message, "draining 1"));
    assert_non_null(strstr(kit.out.message, "next due in 300 s"));
    kit_report(&kit, "n1", cooling, KIT_CLEAN, NULL);
    kit_elapse(&kit, 20500);
    assert_int_equal(kit_acquire(&kit, &(struct kit_grant){0}), FSM_EXHAUSTED);
    assert_non_null(strstr(kit.out.message, "cooling 1"));
    assert_non_null(strstr(kit.out.message, "next due in 280 s"));
    assert_int_equal(fsm_pool_next_due_ms(kit.fsm, kit_pool(&kit)), kit.now_ms + 279500);
    kit_elapse(&kit, 300000);
    assert_int_equal(kit_acquire(&kit, &(struct kit_grant){0}), FSM_EXHAUSTED);
    assert_non_null(strstr(kit.out.message, "next due any moment"));
}

/* ---- many, owners, jobs ---- */

static void acquire_of_many_is_all_or_nothing(void **state)
{
    struct kit_grant grants[13] = {{.job = "a"}, {.job = "b"}, {.nodes = "n1,n2"}};

    assert_int_equal(kit_acquire_many(&kit, grants, 13), FSM_EXHAUSTED);
    assert_int_equal(kit.n_changes, 0);
    assert_null(fsm_lease_of_job(kit.fsm, 1000, "a"));
    grants[11].nodes = "n1,n9";
    assert_int_equal(kit_acquire_many(&kit, grants, 12), FSM_NOT_FOUND);
    assert_int_equal(kit.n_changes, 0);
    grants[11].nodes = NULL;
    assert_int_equal(kit_acquire_many(&kit, grants, 12), FSM_OK);
    assert_int_equal(kit.out.n_leases, 12);
    for (uint32_t i = 0; i < 12; i++) {
        assert_int_equal(kit.out_leases[i], i + 1);
        assert_int_equal(kit_lease(&kit, i + 1)->uid, KIT_FIRST_UID + i);
    }
    assert_int_equal(kit_counts(&kit).granted, 12);
}

static void acquire_of_a_job_that_has_a_lease_is_told_which(void **state)
{
    struct kit_grant twice[] = {{.job = "k"}, {.job = "k"}};
    uint64_t id;

    kit_acquire(&kit, &(struct kit_grant){.job = "j"});
    id = kit.out_leases[0];
    assert_int_equal(kit_acquire(&kit, &(struct kit_grant){.job = "j"}), FSM_EXISTS);
    assert_string_equal(kit.out.message, "job j of uid 1000 has lease 1 (uid 2013265920) already");
    assert_int_equal(kit_acquire(&kit, &(struct kit_grant){.job = "j", .owner_uid = 1001}), FSM_OK);
    assert_int_equal(kit_acquire_many(&kit, twice, 2), FSM_INVALID);
    assert_string_equal(kit.out.message, "job k is named twice in one request");
    assert_ptr_equal(fsm_lease_of_job(kit.fsm, 1000, "j"), kit_lease(&kit, id));
    kit_release(&kit, id, NULL);
    assert_null(fsm_lease_of_job(kit.fsm, 1000, "j"));
    assert_int_equal(kit_acquire(&kit, &(struct kit_grant){.job = "j"}), FSM_OK);
    assert_int_not_equal(kit.out_leases[0], id);
}

static void acquire_that_adopts_gets_the_same_lease_if_it_is_the_same(void **state)
{
    struct kit_grant grant = {.job = "j", .nodes = "n1,n2", .adopt = true};
    uint64_t id;

    assert_int_equal(kit_acquire(&kit, &grant), FSM_OK);
    id = kit.out_leases[0];
    assert_int_equal(kit_acquire(&kit, &grant), FSM_OK);
    assert_int_equal(kit.out_leases[0], id);
    assert_int_equal(kit.n_changes, 0);
    grant.nodes = "n2,n1,n1";
    grant.pool = "main";
    assert_int_equal(kit_acquire(&kit, &grant), FSM_OK);
    grant.nodes = "all";
    assert_int_equal(kit_acquire(&kit, &grant), FSM_OK);
    assert_int_equal(kit.out_leases[0], id);
    grant.nodes = "n1";
    assert_int_equal(kit_acquire(&kit, &grant), FSM_EXISTS);
    assert_non_null(strstr(kit.out.message, "already, but on other nodes"));
    /* What was looked at for a comparison that failed is no member of the next lease the less. */
    grant.nodes = "n2,n9";
    assert_int_equal(kit_acquire(&kit, &grant), FSM_EXISTS);
    assert_int_equal(kit_acquire(&kit, &(struct kit_grant){.nodes = "n1,n2"}), FSM_OK);
    assert_int_equal(kit_lease(&kit, kit.out_leases[0])->n_members, 2);
    grant.nodes = "n1";
    kit_release(&kit, id, "n2");
    assert_int_equal(kit_acquire(&kit, &grant), FSM_OK);
    assert_int_equal(kit.out_leases[0], id);
    grant.pool = "other";
    assert_int_equal(kit_acquire(&kit, &grant), FSM_EXISTS);
    assert_non_null(strstr(kit.out.message, "already, but in another pool"));
}

static void acquire_above_the_owners_share_is_refused(void **state)
{
    struct kit_grant three[] = {{0}, {0}, {.owner_uid = 1001}};
    uint64_t id;

    kit_pool_set(&kit, &(struct kit_pool_set){.max_per_owner = 3, .max_per_owner_set = true});
    assert_int_equal(kit_acquire_many(&kit, three, 3), FSM_OK);
    id = kit.out_leases[0];
    assert_int_equal(kit_acquire_many(&kit, three, 2), FSM_QUOTA);
    assert_string_equal(kit.out.message,
                        "uid 1000 has 2 leases in pool main, at most 3 are allowed");
    assert_int_equal(kit_acquire(&kit, &(struct kit_grant){0}), FSM_OK);
    assert_int_equal(kit_acquire(&kit, &(struct kit_grant){0}), FSM_QUOTA);
    /* What drains does not count. */
    kit_release(&kit, id, NULL);
    assert_int_equal(kit_acquire(&kit, &(struct kit_grant){0}), FSM_OK);
    kit_pool_set(&kit, &(struct kit_pool_set){.max_per_owner = 0, .max_per_owner_set = true});
    assert_int_equal(kit_acquire(&kit, &(struct kit_grant){0}), FSM_OK);
    kit_pool_set(&kit, &(struct kit_pool_set){.max_per_owner = 4, .max_per_owner_set = true});
    assert_int_equal(kit_acquire(&kit, &(struct kit_grant){0}), FSM_QUOTA);
}

/* ---- waiting ---- */

static void acquire_that_waits_is_over_when_all_are_active(void **state)
{
    struct kit_grant two[] = {{.wait = true}, {.nodes = "n2"}};
    uint64_t id = waiting("r1", two, 2);

    assert_true(found("r1").waiting);
    kit_report(&kit, "n1", id, KIT_READY, NULL);
    assert_true(found("r1").waiting);
    kit_report(&kit, "n2", id + 1, KIT_READY, NULL);
    assert_false(found("r1").waiting);
    assert_int_equal(found("r1").code, FSM_OK);
    assert_int_equal(found("r1").n_leases, 2);
    /* Answered: what happens now is not the request's any more. */
    kit_report(&kit, "n1", id, KIT_REFUSED, "validity");
    assert_int_equal(found("r1").code, FSM_OK);
    assert_int_equal(found("r1").leases[0], id);
    assert_int_equal(kit_counts(&kit).granted, 0);
}

static void acquire_refused_goes_on_with_another_uid(void **state)
{
    struct kit_grant grant = {.wait = true, .job = "j", .nodes = "n1,n2"};
    uint64_t first = waiting("r1", &grant, 1);
    uint64_t second;

    kit_report(&kit, "n1", first, KIT_READY, NULL);
    kit_report(&kit, "n2", first, KIT_REFUSED, "account");
    assert_int_equal(kit_state(&kit, first), LEASE_DRAINING);
    assert_true(found("r1").waiting);
    second = found("r1").leases[0];
    assert_int_not_equal(second, first);
    assert_int_not_equal(kit_lease(&kit, second)->uid, kit_lease(&kit, first)->uid);
    assert_string_equal(kit_lease(&kit, second)->job, "j");
    assert_int_equal(kit_lease(&kit, second)->n_members, 2);
    assert_int_equal(kit_lease(&kit, second)->ttl_ms, kit_lease(&kit, first)->ttl_ms);
    assert_ptr_equal(fsm_lease_of_job(kit.fsm, 1000, "j"), kit_lease(&kit, second));
    /* The same request again is told the lease of now. */
    kit_request(&kit, "r1", 1, kit.now_ms);
    assert_int_equal(kit_acquire(&kit, &grant), FSM_OK);
    assert_true(kit.out.replayed);
    assert_int_equal(kit.out_leases[0], second);
    kit_report(&kit, "n1", second, KIT_READY, NULL);
    kit_report(&kit, "n2", second, KIT_READY, NULL);
    assert_false(found("r1").waiting);
    assert_int_equal(found("r1").leases[0], second);
}

static void acquire_refused_eight_times_more_has_failed(void **state)
{
    struct kit_grant grant = {.wait = true};

    waiting("r1", &grant, 1);
    for (int i = 0; i < 9; i++) {
        assert_true(found("r1").waiting);
        kit_report(&kit, "n1", found("r1").leases[0], KIT_REFUSED, "disk");
    }
    assert_false(found("r1").waiting);
    assert_int_equal(found("r1").code, FSM_NOT_READY);
    assert_int_equal(found("r1").n_leases, 0);
    assert_string_equal(found("r1").message,
                        "lease 9 (uid 2013265928) never became ready: node n1 refused it: disk; "
                        "8 further leases were tried");
    assert_int_equal(kit_counts(&kit).granted, 0);
    assert_int_equal(kit_counts(&kit).draining, 9);
    kit_request(&kit, "r1", 1, kit.now_ms);
    assert_int_equal(kit_acquire(&kit, &grant), FSM_NOT_READY);
    assert_string_equal(kit.out.message, found("r1").message);
}

static void acquire_refused_without_wait_is_not_replaced(void **state)
{
    kit_request(&kit, "r1", 1, kit.now_ms);
    kit_acquire(&kit, &(struct kit_grant){0});
    kit_report(&kit, "n1", kit.out_leases[0], KIT_REFUSED, "disk");
    assert_int_equal(kit_counts(&kit).granted, 0);
    assert_int_equal(found("r1").code, FSM_OK);
}

/* One lease of a request fails for good: it holds nothing any more. */
static void acquire_that_fails_lets_go_of_the_rest(void **state)
{
    static const char *const why[] = {"late", "lost", "released", "revoked", "expired", "no uid"};

    for (size_t i = 0; i < sizeof(why) / sizeof(why[0]); i++) {
        struct kit_grant grants[12] = {{.wait = true, .ttl_ms = 5000}, {.nodes = "n2"}};
        uint64_t id;
        size_t n = i == 5 ? 12 : 2;

        if (i == 0)
            grants[0].ttl_ms = 60000;
        id = waiting(why[i], grants, n);
        kit_report(&kit, "n2", id + 1, KIT_READY, NULL);
        assert_int_equal(kit_state(&kit, id + 1), LEASE_ACTIVE);
        if (i == 0)
            kit_elapse(&kit, 10000);
        else if (i == 1)
            kit_lost(&kit, "n1", false);
        else if (i == 2)
            kit_release(&kit, id, NULL);
        else if (i == 3)
            kit_revoke(&kit, id, NULL);
        else if (i == 4)
            kit_elapse(&kit, 5000);
        else
            kit_report(&kit, "n1", id, KIT_REFUSED, "disk");
        assert_false(found(why[i]).waiting);
        assert_int_equal(found(why[i]).code, FSM_NOT_READY);
        assert_int_equal(kit_lease(&kit, id + 1)->cause, END_RELEASE);
        assert_int_equal(kit_counts(&kit).granted + kit_counts(&kit).active, 0);
        kit_lost(&kit, "n1", true);
        for (size_t j = 0; j < n; j++)
            kit_finish(&kit, id + j);
        kit_watermarks(&kit);
        assert_int_equal(kit_counts(&kit).free, 12);
        if (i == 1) {
            kit_hello(&kit, "n1", "machine-1", "boot-1", false);
            kit_watermarks(&kit);
        }
    }
}

static void acquire_that_waits_for_an_adopted_lease_fails_with_it(void **state)
{
    struct kit_grant grants[] = {{.wait = true, .adopt = true, .job = "j"}, {.job = "k"}};
    uint64_t shared = waiting("r1", grants, 1);
    uint64_t own;

    waiting("r2", grants, 2);
    assert_int_equal(kit.out_leases[0], shared);
    own = kit.out_leases[1];
    /* Refused: one new lease for both. */
    kit_report(&kit, "n1", shared, KIT_REFUSED, "disk");
    assert_int_equal(found("r1").leases[0], found("r2").leases[0]);
    assert_int_not_equal(found("r1").leases[0], shared);
    shared = found("r1").leases[0];
    kit_release(&kit, own, NULL);
    /* r2 has failed; what it only adopted lives on. */
    assert_int_equal(found("r2").code, FSM_NOT_READY);
    assert_int_equal(kit_state(&kit, shared), LEASE_GRANTED);
    assert_true(found("r1").waiting);
    kit_release(&kit, shared, NULL);
    assert_int_equal(found("r1").code, FSM_NOT_READY);
}

static void acquire_that_fails_takes_those_along_that_adopted_from_it(void **state)
{
    struct kit_grant both[] = {{.wait = true, .job = "j"}, {.job = "k"}};
    struct kit_grant second = {.wait = true, .adopt = true, .job = "k"};
    uint64_t id = waiting("r1", both, 2);

    waiting("r2", &second, 1);
    kit_release(&kit, id, NULL);
    assert_int_equal(found("r1").code, FSM_NOT_READY);
    assert_int_equal(found("r2").code, FSM_NOT_READY);
    assert_int_equal(kit_state(&kit, id + 1), LEASE_DRAINING);
}

static void acquire_of_all_nodes_tries_again_with_those_ready_then(void **state)
{
    struct kit_grant grant = {.wait = true, .nodes = "all"};
    uint64_t id = waiting("r1", &grant, 1);

    kit_verb(&kit, "n2", XCE__V1__NODE_VERB__NODE_VERB_DRAIN, NULL);
    kit_report(&kit, "n1", id, KIT_REFUSED, "account");
    assert_int_equal(kit_lease(&kit, found("r1").leases[0])->n_members, 1);
}

static void acquire_tried_again_needs_its_nodes_ready(void **state)
{
    struct kit_grant grant = {.wait = true, .nodes = "n1,n2"};
    uint64_t id = waiting("r1", &grant, 1);

    kit_verb(&kit, "n2", XCE__V1__NODE_VERB__NODE_VERB_DRAIN, NULL);
    kit_report(&kit, "n1", id, KIT_REFUSED, "account");
    assert_int_equal(found("r1").code, FSM_NOT_READY);
    assert_non_null(strstr(found("r1").message, "node n2 is draining"));
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, two_nodes, end)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(acquire_that_cannot_be_is_refused_by_name),
        TEST(acquire_names_a_node_that_is_not_ready_and_why),
        TEST(acquire_of_all_nodes_takes_those_that_are_ready_now),
        TEST(acquire_takes_a_node_named_twice_once),
        TEST(acquire_without_a_pool_takes_the_only_one),
        TEST(acquire_without_a_name_of_its_owner_makes_one),
        TEST(acquire_from_an_empty_pool_counts_and_says_when),
        TEST(acquire_of_many_is_all_or_nothing),
        TEST(acquire_of_a_job_that_has_a_lease_is_told_which),
        TEST(acquire_that_adopts_gets_the_same_lease_if_it_is_the_same),
        TEST(acquire_above_the_owners_share_is_refused),
        TEST(acquire_that_waits_is_over_when_all_are_active),
        TEST(acquire_refused_goes_on_with_another_uid),
        TEST(acquire_refused_eight_times_more_has_failed),
        TEST(acquire_refused_without_wait_is_not_replaced),
        TEST(acquire_that_fails_lets_go_of_the_rest),
        TEST(acquire_that_waits_for_an_adopted_lease_fails_with_it),
        TEST(acquire_that_fails_takes_those_along_that_adopted_from_it),
        TEST(acquire_of_all_nodes_tries_again_with_those_ready_then),
        TEST(acquire_tried_again_needs_its_nodes_ready),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
