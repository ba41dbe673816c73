/* What nodes tell a restored state, and what of it is believed: late nodes, several restores, limits. */
#include <setjmp.h>
#include <stdarg.h>
#include <string.h>

#include <cmocka.h>

#include "tests/lib/fsm_kit.h"
#include "tests/lib/fsm_kit_backup.h"

#define GAP 1024u
#define UID KIT_FIRST_UID

static struct kit kit;
static struct kit_backup backup;

static int three_nodes(void **state)
{
    kit_start(&kit, 4, 3);
    return 0;
}

static int end(void **state)
{
    kit_backup_done(&backup);
    kit_done(&kit);
    return 0;
}

static void hello(const char *node, const char *machine)
{
    assert_int_equal(kit_hello(&kit, node, machine, "boot-1", true), FSM_OK);
}

/* Restored, n1 is back; the others are taken to be off. */
static void confirm_n1_alone(char first)
{
    assert_int_equal(kit_restore(&kit, &backup, first), FSM_OK);
    kit_come_back(&kit, "n1", "machine-1");
    assert_int_equal(kit_fence(&kit, "n2", "machine-2", "boot-1"), FSM_OK);
    assert_int_equal(kit_fence(&kit, "n3", "machine-3", "boot-1"), FSM_OK);
    assert_int_equal(kit_confirm(&kit, "n1"), FSM_OK);
}

static const struct fsm_lease *of_uid(uint32_t uid)
{
    const struct fsm_lease *lease = fsm_lease_of_uid(kit.fsm, uid);

    assert_non_null(lease);
    return lease;
}

static void assert_owes(const char *node, uint32_t uid)
{
    assert_int_equal(kit_member(&kit, of_uid(uid)->id, node)->proof, PROOF_PENDING);
}

/* ---- numbers ---- */

/* As leased --restore gives them. */
static void restored_lease_ids_stay_within_what_the_history_has_room_for(void **state)
{
    static const uint64_t seconds = 1800000000;

    kit.above = seconds * 1000000;
    kit.above_lease = seconds * 1000;
    for (int i = 0; i < 100; i++) {
        uint64_t before = fsm_last_lease(kit.fsm);

        backup = kit_backup(&kit);
        kit.gap = GAP + (uint32_t)i * 1000;
        assert_int_equal(kit_restore(&kit, &backup, (char)('b' + i % 2)), FSM_OK);
        assert_true(fsm_revision(kit.fsm) > kit.above);
        assert_true(fsm_last_lease(kit.fsm) >= before + 1000000000);
        assert_true(fsm_last_lease(kit.fsm) >= kit.above_lease);
        assert_true(fsm_last_lease(kit.fsm) <= FSM_LEASE_ID_MAX);
    }
}

static void restored_twice_one_backup_shares_no_lease_id(void **state)
{
    struct kit_backup again;
    uint64_t first;

    backup = kit_backup(&kit);
    kit_restore(&kit, &backup, 'b');
    backup = kit_backup(&kit);
    again = kit_backup(&kit);
    kit.gap = GAP;
    kit_restore(&kit, &backup, 'c');
    first = fsm_last_lease(kit.fsm);
    kit.gap = GAP + 1; /* a second later */
    kit_restore(&kit, &again, 'd');
    assert_int_equal(fsm_last_lease(kit.fsm), first + 1000);
}

static void restored_lease_ids_beyond_the_history_are_refused(void **state)
{
    uint64_t digest;

    backup = kit_backup(&kit);
    digest = fsm_digest(kit.fsm);
    kit.above_lease = FSM_LEASE_ID_MAX + 1;
    assert_int_equal(kit_restore(&kit, &backup, 'b'), FSM_INVALID);
    assert_non_null(strstr(kit.out.message, "lease ids would go on above 17592186044416"));
    assert_true(fsm_digest(kit.fsm) == digest);
    backup = kit_backup(&kit);
    kit.above_lease = FSM_LEASE_ID_MAX;
    assert_int_equal(kit_restore(&kit, &backup, 'b'), FSM_OK);
    backup = kit_backup(&kit);
    kit.above_lease = 0;
    assert_int_equal(kit_restore(&kit, &backup, 'c'), FSM_INVALID);
}

/* ---- reports ---- */

/* The last of several reports says nothing while one before it is missing. */
static void restored_a_node_has_not_told_all_when_a_report_was_lost(void **state)
{
    backup = kit_backup(&kit);
    kit_restore(&kit, &backup, 'b');
    hello("n1", "machine-1");
    assert_int_equal(kit_epoch(&kit, "n1", UID, 1, false), FSM_OK);
    kit.lost = 1;
    assert_int_equal(kit_epoch(&kit, "n1", UID + 2, 1, true), FSM_IGNORED);
    assert_non_null(strstr(kit.out.message, "has told 1 epochs in this session, and this report "
                                            "comes after 2"));
    assert_null(fsm_lease_of_uid(kit.fsm, UID + 2));
    kit.lost = 1;
    assert_int_equal(kit_epoch(&kit, "n1", 0, 0, true), FSM_IGNORED);
    assert_true(fsm_wants_epochs(kit.fsm, kit_node(&kit, "n1")));
    /* Its next session counts anew. */
    hello("n1", "machine-1");
    kit.lost = 1;
    assert_int_equal(kit_epoch(&kit, "n1", 0, 0, true), FSM_IGNORED);
    assert_int_equal(kit_epoch(&kit, "n1", UID, 1, false), FSM_OK);
    assert_int_equal(kit_epoch(&kit, "n1", UID + 1, 1, false), FSM_OK);
    assert_int_equal(kit_epoch(&kit, "n1", UID + 2, 1, true), FSM_OK);
    assert_false(fsm_wants_epochs(kit.fsm, kit_node(&kit, "n1")));
    assert_owes("n1", UID + 1);
    assert_owes("n1", UID + 2);
}

/* ---- limits ---- */

/* However often a node reports: the limit stands where it stood when the backup was restored. */
static void restored_a_node_does_not_use_up_a_uid_by_reporting(void **state)
{
    uint32_t ceiling;

    kit_finish(&kit, kit_active(&kit, "n1"));
    backup = kit_backup(&kit);
    kit_restore(&kit, &backup, 'b');
    ceiling = 1 + GAP + (1u << 24);
    assert_int_equal(kit_restored(&kit).ceiling, ceiling);
    hello("n1", "machine-1");
    assert_int_equal(kit_epoch(&kit, "n1", UID, ceiling + 1, false), FSM_INVALID);
    assert_non_null(strstr(kit.out.message, "that can not be"));
    assert_int_equal(kit_epoch(&kit, "n1", UID, ceiling - 1, false), FSM_OK);
    assert_int_equal(kit_epoch(&kit, "n1", UID, ceiling + 1, false), FSM_INVALID);
    assert_int_equal(kit_epoch(&kit, "n1", UID, ceiling, true), FSM_OK);
    hello("n2", "machine-2");
    assert_int_equal(kit_epoch(&kit, "n2", UID, ceiling + 1, false), FSM_INVALID);
    assert_int_equal(of_uid(UID)->epoch, ceiling);
}

/* One that no pool can have would be waited for by all. */
static void restored_uids_that_no_pool_can_have_are_refused(void **state)
{
    static const uint32_t bad[] = {5, 61184, 65534, 600000, 0x7ffe0000, UINT32_MAX};

    backup = kit_backup(&kit);
    kit_restore(&kit, &backup, 'b');
    hello("n1", "machine-1");
    for (size_t i = 0; i < 6; i++) {
        assert_int_equal(kit_epoch(&kit, "n1", bad[i], 1, true), FSM_INVALID);
        assert_non_null(strstr(kit.out.message, "which no pool can have"));
    }
    assert_int_equal(kit_restored(&kit).unpooled.first, 0);
    assert_int_equal(kit_restored(&kit).n_pages, 0);
    assert_int_equal(kit_epoch(&kit, "n1", 1000, 1, true), FSM_OK);
    assert_int_equal(kit_restored(&kit).unpooled.first, 1000);
}

/* One uid of each page of 1,024. */
static void restored_uids_of_no_pool_fill_only_so_many_pages(void **state)
{
    const uint32_t first = UID + 1048576;
    struct fsm *copy;

    backup = kit_backup(&kit);
    kit_restore(&kit, &backup, 'b');
    hello("n1", "machine-1");
    kit.light = true; /* thousands of entries on a state that grows */
    for (uint32_t i = 0; i < 2048; i++)
        assert_int_equal(kit_epoch(&kit, "n1", first + i * 1024, 1, false), FSM_OK);
    assert_int_equal(kit_restored(&kit).n_pages, 2048);
    assert_int_equal(kit_epoch(&kit, "n1", first - 1, 1, false), FSM_EXHAUSTED);
    assert_non_null(strstr(kit.out.message, "in no pool: make their pools again"));
    assert_int_equal(fsm_epoch_floor(kit.fsm, first - 1), 0);
    assert_int_equal(kit_epoch(&kit, "n1", first + 1, 1, false),
                     FSM_OK); /* in a page that is there */
    assert_int_equal(kit_epoch(&kit, "n1", UID, 1, true), FSM_OK);
    /* The number goes on in whoever takes the state over. */
    backup = kit_backup(&kit);
    assert_int_equal(fsm_new(&copy), 0);
    assert_int_equal(fsm_restore(copy, backup.bytes, backup.len, NULL), 0);
    assert_true(fsm_digest(copy) == fsm_digest(kit.fsm));
    fsm_free(copy);
}

/* ---- late nodes ---- */

/* Granted after the backup to n2, and again to n1 since: what n2 held is below, and of another incarnation. */
static void restored_a_late_node_owes_what_was_granted_again_since(void **state)
{
    backup = kit_backup(&kit);
    kit_active(&kit, "n2");
    confirm_n1_alone('b');
    assert_int_equal(of_uid(UID + (kit_active(&kit, "n1") ? 0 : 1))->epoch, GAP + 1);
    kit_hello(&kit, "n2", "machine-2", "boot-2", false);
    assert_int_equal(kit_epoch(&kit, "n2", UID, 1, true), FSM_OK);
    assert_int_equal(of_uid(UID)->state, LEASE_ACTIVE);
    assert_owes("n2", UID);
}

static void restored_a_late_node_owes_what_is_free_again_since(void **state)
{
    backup = kit_backup(&kit);
    kit_active(&kit, "n2");
    confirm_n1_alone('b');
    kit_finish(&kit, kit_active(&kit, "n1"));
    assert_int_equal(fsm_epoch_floor(kit.fsm, UID), GAP + 1);
    kit_hello(&kit, "n2", "machine-2", "boot-2", false);
    assert_int_equal(kit_epoch(&kit, "n2", UID, 1, true), FSM_OK);
    assert_owes("n2", UID);
    assert_int_equal(of_uid(UID)->epoch, GAP + 2);
    assert_int_equal(of_uid(UID)->n_members, 1);
}

/* Two members of one lease, both late: the first one's report makes it again under a higher epoch. */
static void restored_each_late_node_of_a_lost_lease_owes_it(void **state)
{
    backup = kit_backup(&kit);
    kit_active(&kit, "n2,n3");
    confirm_n1_alone('b');
    kit_hello(&kit, "n2", "machine-2", "boot-2", false);
    kit_hello(&kit, "n3", "machine-3", "boot-2", false);
    kit_epoch(&kit, "n2", UID, 1, true);
    kit_epoch(&kit, "n3", UID, 1, true);
    assert_owes("n2", UID);
    assert_owes("n3", UID);
    assert_int_equal(of_uid(UID)->epoch, GAP + 1);
}

/* The fence stands for the proof of whatever epoch: nobody else could give it. */
static void restored_a_fenced_member_owes_nothing_of_a_raised_lease(void **state)
{
    uint64_t lease = kit_active(&kit, "n1,n2");

    backup = kit_backup(&kit);
    kit_restore(&kit, &backup, 'b');
    kit_come_back(&kit, "n1", "machine-1");
    hello("n3", "machine-3");
    kit_fence(&kit, "n2", "machine-2", "boot-1");
    kit_epoch(&kit, "n3", UID, 5, true);
    kit_watermarks(&kit);
    assert_int_equal(kit_lease(&kit, lease)->epoch, 5);
    assert_int_equal(kit_member(&kit, lease, "n1")->proof, PROOF_PENDING);
    assert_int_equal(kit_member(&kit, lease, "n2")->proof, PROOF_FENCED);
    assert_int_equal(kit_confirm(&kit, "n1,n3"), FSM_OK);
    assert_int_equal(kit_report(&kit, "n1", lease, KIT_CLEAN, NULL), FSM_OK);
    assert_int_equal(kit_report(&kit, "n3", lease, KIT_CLEAN, NULL), FSM_OK);
    assert_int_equal(kit_state(&kit, lease), LEASE_COOLING);
    kit_elapse(&kit, 3600000);
    kit_watermarks(&kit);
    assert_int_equal(kit_state(&kit, lease), LEASE_FREE);
    assert_int_equal(kit_verb(&kit, "n2", XCE__V1__NODE_VERB__NODE_VERB_FORGET, NULL), FSM_OK);
}

/* ---- several restores ---- */

/* n2 comes only after the second restore with what it got before the first; n1 got the uid in between. */
static void start_two_restores(void)
{
    backup = kit_backup(&kit);
    kit_active(&kit, "n2");
    confirm_n1_alone('b');
    for (int i = 0; i < 3; i++) { /* the line turns */
        while (kit_counts(&kit).free)
            kit_active(&kit, "n1");
        for (uint32_t uid = UID; uid < UID + 4; uid++)
            kit_finish(&kit, of_uid(uid)->id);
    }
    assert_int_equal(fsm_epoch_floor(kit.fsm, UID), GAP + 3);
    backup = kit_backup(&kit);
    while (kit_counts(&kit).free)
        kit_active(&kit, "n1"); /* epoch GAP + 4 */
    assert_int_equal(kit_restore(&kit, &backup, 'c'), FSM_OK);
    hello("n1", "machine-1");
    kit_hello(&kit, "n2", "machine-2", "boot-2", false);
    kit_hello(&kit, "n3", "machine-3", "boot-2", false);
    assert_int_equal(fsm_epoch_floor(kit.fsm, UID), 2 * GAP + 3);
}

static void restored_twice_a_node_that_was_not_asked_owes_what_it_held_before(void **state)
{
    start_two_restores();
    kit_epoch(&kit, "n2", UID, 1, true);
    assert_owes("n2", UID);
    assert_int_equal(of_uid(UID)->epoch, 2 * GAP + 4);
    /* n1 is known: of what the backup tells of it holds nothing, of what came after it does. */
    kit_epoch(&kit, "n1", UID, GAP + 3, false);
    assert_int_equal(of_uid(UID)->n_members, 1);
    kit_epoch(&kit, "n1", UID, GAP + 4, false);
    assert_int_equal(of_uid(UID)->n_members, 2);
    assert_owes("n1", UID);
    kit_epoch(&kit, "n1", UID + 1, GAP + 3, true);
    assert_null(fsm_lease_of_uid(kit.fsm, UID + 1));
    kit_epoch(&kit, "n3", 0, 0, true);
    kit_watermarks(&kit);
    assert_int_equal(kit_confirm(&kit, "n1,n2,n3"), FSM_OK);
    kit_finish(&kit, of_uid(UID)->id);
    assert_true(fsm_epoch_floor(kit.fsm, UID) > 2 * GAP + 4);
}

/* The lease of the backup has a higher epoch than what the node tells of. */
static void restored_twice_a_node_that_was_not_asked_joins_the_lease_of_the_backup(void **state)
{
    uint64_t lease;

    backup = kit_backup(&kit);
    kit_active(&kit, "n2");
    confirm_n1_alone('b');
    lease = kit_active(&kit, "n1");
    backup = kit_backup(&kit);
    assert_int_equal(kit_restore(&kit, &backup, 'c'), FSM_OK);
    kit_hello(&kit, "n2", "machine-2", "boot-2", false);
    kit_epoch(&kit, "n2", UID, 1, true);
    assert_int_equal(kit_lease(&kit, lease)->n_members, 2);
    assert_owes("n2", UID);
    assert_int_equal(kit_lease(&kit, lease)->epoch, GAP + 1);
}

/* In no pool: the pools of the second backup are those of the first, and what n2 had is in none of them. */
static void restored_twice_epochs_of_no_pool_hold_it_up(void **state)
{
    uint32_t uid = UID + 1000;

    kit_pool_create(&kit, "late", uid, uid);
    kit_pool_retire(&kit, "late");
    backup = kit_backup(&kit);
    confirm_n1_alone('b');
    kit_pool_create(&kit, "late", uid, uid);
    kit_finish(&kit, (kit_acquire(&kit, &(struct kit_grant){.pool = "late", .nodes = "n1"}),
                      kit.out_leases[0]));
    kit_pool_retire(&kit, "late");
    backup = kit_backup(&kit);
    assert_int_equal(kit_restore(&kit, &backup, 'c'), FSM_OK);
    kit_hello(&kit, "n2", "machine-2", "boot-2", false);
    kit_epoch(&kit, "n2", uid, 1, true);
    assert_int_equal(kit_restored(&kit).unpooled.first, uid);
}

#define test(name) cmocka_unit_test_setup_teardown(name, three_nodes, end)

int main(void)
{
    static const struct CMUnitTest tests[] = {
        test(restored_lease_ids_stay_within_what_the_history_has_room_for),
        test(restored_twice_one_backup_shares_no_lease_id),
        test(restored_lease_ids_beyond_the_history_are_refused),
        test(restored_a_node_has_not_told_all_when_a_report_was_lost),
        test(restored_a_node_does_not_use_up_a_uid_by_reporting),
        test(restored_uids_that_no_pool_can_have_are_refused),
        test(restored_uids_of_no_pool_fill_only_so_many_pages),
        test(restored_a_late_node_owes_what_was_granted_again_since),
        test(restored_a_late_node_owes_what_is_free_again_since),
        test(restored_each_late_node_of_a_lost_lease_owes_it),
        test(restored_a_fenced_member_owes_nothing_of_a_raised_lease),
        test(restored_twice_a_node_that_was_not_asked_owes_what_it_held_before),
        test(restored_twice_a_node_that_was_not_asked_joins_the_lease_of_the_backup),
        test(restored_twice_epochs_of_no_pool_hold_it_up),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
