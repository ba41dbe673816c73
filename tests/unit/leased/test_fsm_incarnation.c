/* A backup is restored: what the state does not know any more, what its nodes know, and when it goes on. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "tests/lib/fsm_kit.h"
#include "tests/lib/fsm_kit_backup.h"

#define GAP        1024u
#define UID        KIT_FIRST_UID
#define LEAP       UINT64_C(1000000000000)
#define LEAP_LEASE UINT64_C(1000000000)

static struct kit kit;
static struct kit_backup backup;

static int two_nodes(void **state)
{
    kit_start(&kit, 4, 2);
    return 0;
}

static int end(void **state)
{
    kit_backup_done(&backup);
    kit_done(&kit);
    return 0;
}

static void both_back(void)
{
    kit_come_back(&kit, "n1", "machine-1");
    kit_come_back(&kit, "n2", "machine-2");
}

/* ---- what the command does ---- */

static void incarnation_restore_leaps_ahead_of_all_numbers(void **state)
{
    uint64_t revision = fsm_revision(kit.fsm), lease = kit_active(&kit, "n1");

    backup = kit_backup(&kit);
    revision = fsm_revision(kit.fsm);
    assert_int_equal(kit_restore(&kit, &backup, 'b'), FSM_OK);
    assert_int_equal(fsm_incarnation(kit.fsm)[0], 'b');
    assert_int_equal(kit_restored(&kit).times, 1);
    assert_int_equal(kit_restored(&kit).backup, revision);
    assert_int_equal(kit_restored(&kit).revision, revision + LEAP);
    assert_true(fsm_revision(kit.fsm) > revision + LEAP);
    assert_true(kit_node(&kit, "n1")->session > LEAP);
    assert_non_null(kit_lease(&kit, lease));
}

static void incarnation_restore_of_the_same_incarnation_is_refused(void **state)
{
    Xce__V1__CmdRestore restore = XCE__V1__CMD_RESTORE__INIT;
    Xce__V1__Command command = XCE__V1__COMMAND__INIT;
    uint64_t digest = fsm_digest(kit.fsm);

    command.kind_case = XCE__V1__COMMAND__KIND_RESTORE;
    command.restore = &restore;
    restore.incarnation = (ProtobufCBinaryData){16, (uint8_t *)(uintptr_t)fsm_incarnation(kit.fsm)};
    assert_int_equal(kit_apply(&kit, &command), FSM_INVALID);
    restore.incarnation.len = 15;
    assert_int_equal(kit_apply(&kit, &command), FSM_INVALID);
    assert_true(fsm_digest(kit.fsm) == digest);
}

static void incarnation_restore_drains_every_lease_and_wants_all_proofs_anew(void **state)
{
    uint64_t live = kit_active(&kit, "n1,n2"), draining, cooling;

    draining = kit_active(&kit, "n1,n2");
    kit_release(&kit, draining, NULL);
    kit_report(&kit, "n1", draining, KIT_CLEAN, NULL);
    cooling = kit_active(&kit, "n2");
    kit_release(&kit, cooling, NULL);
    kit_report(&kit, "n2", cooling, KIT_CLEAN, NULL);
    assert_int_equal(kit_state(&kit, cooling), LEASE_COOLING);
    backup = kit_backup(&kit);
    kit_restore(&kit, &backup, 'b');
    assert_int_equal(kit_state(&kit, live), LEASE_DRAINING);
    assert_int_equal(kit_lease(&kit, live)->cause, END_RESTORED);
    assert_int_equal(kit_state(&kit, draining), LEASE_DRAINING);
    assert_int_equal(kit_lease(&kit, draining)->cause, END_RELEASE);
    assert_int_equal(kit_member(&kit, draining, "n1")->proof, PROOF_PENDING);
    assert_int_equal(kit_state(&kit, cooling), LEASE_DRAINING);
    assert_int_equal(kit_member(&kit, cooling, "n2")->proof, PROOF_PENDING);
    assert_true(kit_lease(&kit, cooling)->quarantine & QUARANTINE_RESTORED);
    assert_true(kit_lease(&kit, cooling)->quarantine & QUARANTINE_MEMBER_LOST);
}

static void incarnation_restore_forgets_fences_and_tokens(void **state)
{
    kit_lost(&kit, "n2", false);
    kit_fence(&kit, "n2", "machine-2", "boot-1");
    assert_int_equal(kit_node(&kit, "n2")->state, NODE_FENCED);
    backup = kit_backup(&kit);
    kit_restore(&kit, &backup, 'b');
    assert_int_equal(kit_node(&kit, "n2")->state, NODE_LOST);
    assert_string_equal(fsm_node_awaited(kit.fsm, kit_node(&kit, "n2")), "its hello");
    kit_come_back(&kit, "n1", "machine-1");
    assert_int_equal(kit_confirm(&kit, "n1"), FSM_PRECONDITION);
}

/* ---- waiting ---- */

static void incarnation_nothing_is_granted_before_nodes_are_clean_and_confirmed(void **state)
{
    static const struct kit_grant grant = {.nodes = "n1"};

    backup = kit_backup(&kit);
    kit_restore(&kit, &backup, 'b');
    assert_int_equal(kit_acquire(&kit, &grant), FSM_PRECONDITION);
    assert_non_null(strstr(kit.out.message, "waits for node n1: its hello; and 1 more"));
    kit_hello(&kit, "n1", "machine-1", "boot-1", true);
    assert_int_equal(kit_node(&kit, "n1")->state, NODE_UNKNOWN);
    assert_string_equal(fsm_node_awaited(kit.fsm, kit_node(&kit, "n1")),
                        "the epochs that it has seen");
    /* A pass alone is not enough. */
    kit_watermark(&kit, "n1", fsm_revision(kit.fsm));
    assert_int_equal(kit_node(&kit, "n1")->state, NODE_UNKNOWN);
    assert_true(fsm_wants_epochs(kit.fsm, kit_node(&kit, "n1")));
    kit_epoch(&kit, "n1", 0, 0, true);
    assert_int_equal(kit_node(&kit, "n1")->state, NODE_READY);
    assert_int_equal(kit_confirm(&kit, "n1,n2"), FSM_PRECONDITION);
    assert_non_null(strstr(kit.out.message, "not yet: waits for node n2: its hello"));
    kit_hello(&kit, "n2", "machine-2", "boot-1", true);
    kit_epoch(&kit, "n2", 0, 0, true);
    assert_string_equal(fsm_node_awaited(kit.fsm, kit_node(&kit, "n2")),
                        "a pass over the ranges that finds nothing there");
    assert_int_equal(kit_confirm(&kit, "n1,n2"), FSM_PRECONDITION);
    kit_watermark(&kit, "n2", fsm_revision(kit.fsm));
    assert_int_equal(kit_acquire(&kit, &grant), FSM_PRECONDITION);
    assert_non_null(strstr(kit.out.message, "leasectl cluster confirm"));
    assert_int_equal(kit_confirm(&kit, "n1,n2"), FSM_OK);
    assert_int_equal(kit_acquire(&kit, &grant), FSM_OK);
    assert_int_equal(kit_confirm(&kit, "n1,n2"), FSM_PRECONDITION);
}

static void incarnation_confirm_wants_the_full_list(void **state)
{
    assert_int_equal(kit_confirm(&kit, "n1,n2"), FSM_PRECONDITION);
    assert_string_equal(kit.out.message, "no backup was restored");
    backup = kit_backup(&kit);
    kit_restore(&kit, &backup, 'b');
    both_back();
    assert_int_equal(kit_confirm(&kit, ""), FSM_PRECONDITION);
    assert_int_equal(kit_confirm(&kit, "n1"), FSM_PRECONDITION);
    assert_non_null(strstr(kit.out.message, "node n2 is registered and not named"));
    assert_int_equal(kit_confirm(&kit, "n1,n2,n7"), FSM_PRECONDITION);
    assert_non_null(strstr(kit.out.message, "node n7 has never said hello"));
    /* One that came after the backup was made is one of them, and has to be clean like the others. */
    kit_hello(&kit, "n7", "machine-7", "boot-1", false);
    assert_int_equal(kit_confirm(&kit, "n1,n2"), FSM_PRECONDITION);
    assert_int_equal(kit_confirm(&kit, "n1,n2,n7"), FSM_PRECONDITION);
    kit_come_back(&kit, "n7", "machine-7");
    assert_int_equal(kit_confirm(&kit, "n1,n2,n7"), FSM_OK);
    assert_false(kit_restored(&kit).waits);
}

static void incarnation_a_node_that_is_gone_is_fenced(void **state)
{
    uint64_t lease = kit_active(&kit, "n1,n2");

    backup = kit_backup(&kit);
    kit_restore(&kit, &backup, 'b');
    kit_come_back(&kit, "n1", "machine-1");
    assert_int_equal(kit_fence(&kit, "n2", "machine-2", "boot-1"), FSM_OK);
    assert_int_equal(kit_member(&kit, lease, "n2")->proof, PROOF_FENCED);
    assert_int_equal(kit_confirm(&kit, "n1,n2"), FSM_PRECONDITION);
    assert_int_equal(kit_confirm(&kit, "n1"), FSM_OK);
}

static void incarnation_no_uid_becomes_free_before_the_nodes_are_confirmed(void **state)
{
    uint64_t lease = kit_active(&kit, "n1");

    backup = kit_backup(&kit);
    kit_restore(&kit, &backup, 'b');
    both_back();
    kit_report(&kit, "n1", lease, KIT_CLEAN, NULL);
    kit_elapse(&kit, 3600000);
    kit_watermarks(&kit);
    kit_tick(&kit);
    assert_int_equal(kit_state(&kit, lease), LEASE_RETIRED);
    assert_int_equal(kit_confirm(&kit, "n1,n2"), FSM_OK);
    assert_int_equal(kit_state(&kit, lease), LEASE_FREE);
    assert_int_equal(fsm_epoch_floor(kit.fsm, UID), 1 + GAP);
}

static void incarnation_a_waiting_request_has_failed(void **state)
{
    struct fsm_request request;

    kit_request(&kit, "r1", 1, 0);
    assert_int_equal(kit_acquire(&kit, &(struct kit_grant){.nodes = "n1", .wait = true}), FSM_OK);
    backup = kit_backup(&kit);
    kit_restore(&kit, &backup, 'b');
    assert_int_equal(fsm_request_find(kit.fsm, "user:alice", 10, "r1", 2, &request), 0);
    assert_false(request.waiting);
    assert_int_equal(request.code, FSM_NOT_READY);
    assert_non_null(strstr(request.message, "a backup was restored"));
}

/* ---- what nodes know ---- */

/* Free in the backup, granted after it. */
static void incarnation_a_lease_that_only_a_node_knows_is_made_again(void **state)
{
    uint64_t lost;
    const struct fsm_lease *lease;

    backup = kit_backup(&kit);
    assert_int_equal(kit_lease(&kit, kit_active(&kit, "n1,n2"))->epoch, 1);
    kit_restore(&kit, &backup, 'b');
    assert_int_equal(fsm_epoch_floor(kit.fsm, UID), GAP);
    kit_hello(&kit, "n1", "machine-1", "boot-1", true);
    kit_hello(&kit, "n2", "machine-2", "boot-1", true);
    assert_int_equal(kit_epoch(&kit, "n1", UID, 1, true), FSM_OK);
    lease = fsm_lease_of_uid(kit.fsm, UID);
    assert_non_null(lease);
    lost = lease->id;
    assert_true(lost > LEAP_LEASE);
    assert_int_equal(lease->epoch, 1);
    assert_int_equal(lease->state, LEASE_DRAINING);
    assert_int_equal(lease->cause, END_RESTORED);
    assert_int_equal(lease->quarantine, QUARANTINE_RESTORED);
    assert_string_equal(lease->owner.name, "unknown");
    assert_int_equal(lease->n_members, 1);
    assert_int_equal(kit_epoch(&kit, "n2", UID, 1, true), FSM_OK);
    assert_int_equal(kit_lease(&kit, lost)->n_members, 2);
    kit_watermarks(&kit);
    assert_int_equal(kit_confirm(&kit, "n1,n2"), FSM_OK);
    kit_finish(&kit, lost);
    assert_int_equal(kit_state(&kit, lost), LEASE_FREE);
    assert_int_equal(fsm_epoch_floor(kit.fsm, UID), 1 + GAP);
    /* What was never granted leaves out as many: no name of the other incarnation comes again. */
    assert_int_equal(kit_acquire(&kit, &(struct kit_grant){.nodes = "n1"}), FSM_OK);
    assert_int_equal(kit_lease(&kit, kit.out_leases[0])->uid, UID + 1);
    assert_int_equal(kit_lease(&kit, kit.out_leases[0])->epoch, GAP + 1);
}

/* Leased in the backup under one epoch, on its nodes under a later one. */
static void incarnation_a_lease_goes_on_under_the_highest_epoch_that_a_node_knows(void **state)
{
    uint64_t lease = kit_active(&kit, "n1");

    backup = kit_backup(&kit);
    kit_restore(&kit, &backup, 'b');
    kit_hello(&kit, "n1", "machine-1", "boot-1", true);
    kit_hello(&kit, "n2", "machine-2", "boot-1", true);
    kit_report(&kit, "n1", lease, KIT_CLEAN, NULL);
    assert_int_equal(kit_state(&kit, lease), LEASE_COOLING);
    /* n1 had it under epoch 1 and no other; n2 had epoch 5 of its uid. */
    assert_int_equal(kit_epoch(&kit, "n1", UID, 1, true), FSM_OK);
    assert_int_equal(kit_state(&kit, lease), LEASE_COOLING);
    assert_int_equal(kit_epoch(&kit, "n2", UID, 5, true), FSM_OK);
    assert_int_equal(kit_lease(&kit, lease)->epoch, 5);
    assert_int_equal(kit_state(&kit, lease), LEASE_DRAINING);
    assert_int_equal(kit_member(&kit, lease, "n2")->proof, PROOF_PENDING);
    assert_int_equal(kit_member(&kit, lease, "n1")->proof, PROOF_PENDING); /* was of epoch 1 */
    kit_watermarks(&kit);
    assert_int_equal(kit_confirm(&kit, "n1,n2"), FSM_OK);
    kit_finish(&kit, lease);
    assert_int_equal(fsm_epoch_floor(kit.fsm, UID), 5 + GAP);
}

static void incarnation_epochs_that_the_backup_knows_hold_nothing(void **state)
{
    kit_finish(&kit, kit_active(&kit, "n1"));
    backup = kit_backup(&kit);
    kit_restore(&kit, &backup, 'b');
    kit_hello(&kit, "n1", "machine-1", "boot-1", true);
    assert_int_equal(kit_epoch(&kit, "n1", UID, 1, true), FSM_OK);
    assert_null(fsm_lease_of_uid(kit.fsm, UID));
    assert_int_equal(fsm_epoch_floor(kit.fsm, UID), 1 + GAP);
}

static void incarnation_an_epoch_that_can_not_be_is_not_believed(void **state)
{
    backup = kit_backup(&kit);
    kit_restore(&kit, &backup, 'b');
    kit_hello(&kit, "n1", "machine-1", "boot-1", true);
    assert_int_equal(kit_epoch(&kit, "n1", UID, UINT32_MAX, true), FSM_INVALID);
    assert_non_null(strstr(kit.out.message, "that can not be"));
    assert_int_equal(kit_epoch(&kit, "n1", UID, 0, true), FSM_INVALID);
    assert_true(fsm_wants_epochs(kit.fsm, kit_node(&kit, "n1")));
    assert_null(fsm_lease_of_uid(kit.fsm, UID));
}

static void incarnation_a_blocked_uid_that_a_node_holds_is_leased_then_aside_again(void **state)
{
    kit_block(&kit, "n1", UID, "account");
    backup = kit_backup(&kit);
    kit_restore(&kit, &backup, 'b');
    kit_hello(&kit, "n1", "machine-1", "boot-1", true);
    kit_come_back(&kit, "n2", "machine-2");
    kit_epoch(&kit, "n1", UID, 3, true);
    kit_watermarks(&kit);
    assert_non_null(fsm_lease_of_uid(kit.fsm, UID));
    assert_int_equal(kit_confirm(&kit, "n1,n2"), FSM_OK);
    kit_finish(&kit, fsm_lease_of_uid(kit.fsm, UID)->id);
    assert_int_equal(kit_counts(&kit).blocked, 1);
    assert_int_equal(fsm_epoch_floor(kit.fsm, UID), 3 + GAP);
}

/* A pool that the backup does not know: its nodes are asked again once it is there. */
static void incarnation_a_pool_of_after_the_backup_is_made_again(void **state)
{
    uint32_t uid = UID + 1000;

    backup = kit_backup(&kit);
    kit_restore(&kit, &backup, 'b');
    kit_hello(&kit, "n1", "machine-1", "boot-1", true);
    kit_come_back(&kit, "n2", "machine-2");
    assert_int_equal(kit_epoch(&kit, "n1", uid, 2, true), FSM_OK);
    kit_watermarks(&kit);
    assert_int_equal(kit_node(&kit, "n1")->state, NODE_READY);
    /* Nobody would prove it clean: not confirmed before it is in a pool. */
    assert_int_equal(kit_confirm(&kit, "n1,n2"), FSM_PRECONDITION);
    assert_non_null(strstr(kit.out.message, "that are in no pool"));
    assert_int_equal(kit_restored(&kit).unpooled.first, uid);
    assert_int_equal(kit_restored(&kit).unpooled.last, uid);
    assert_int_equal(kit_pool_create(&kit, "late", uid, uid + 1), FSM_OK);
    assert_int_equal(kit_restored(&kit).unpooled.first, 0);
    assert_int_equal(kit_node(&kit, "n1")->state, NODE_UNKNOWN);
    assert_int_equal(kit_confirm(&kit, "n1,n2"), FSM_PRECONDITION);
    assert_int_equal(kit_epoch(&kit, "n1", uid, 2, true), FSM_OK);
    assert_int_equal(fsm_lease_of_uid(kit.fsm, uid)->epoch, 2);
    assert_int_equal(fsm_epoch_floor(kit.fsm, uid + 1), GAP);
    kit_epoch(&kit, "n2", 0, 0, true);
    kit_watermarks(&kit);
    assert_int_equal(kit_confirm(&kit, "n1,n2"), FSM_OK);
}

/* What it said of the pool's uids before there was one has to be said again, also if it had not yet said all. */
static void incarnation_a_pool_made_while_a_node_reports_is_reported_once_more(void **state)
{
    uint32_t uid = UID + 100;

    backup = kit_backup(&kit);
    kit_restore(&kit, &backup, 'b');
    kit_hello(&kit, "n1", "machine-1", "boot-1", true);
    assert_int_equal(kit_epoch(&kit, "n1", uid, 2, false), FSM_OK);
    assert_int_equal(kit_pool_create(&kit, "late", uid, uid + 1), FSM_OK);
    assert_int_equal(kit_epoch(&kit, "n1", 0, 0, true), FSM_OK);
    assert_true(fsm_wants_epochs(kit.fsm, kit_node(&kit, "n1")));
    kit_hello(&kit, "n1", "machine-1", "boot-1", true);
    assert_int_equal(kit_epoch(&kit, "n1", uid, 2, true), FSM_OK);
    assert_false(fsm_wants_epochs(kit.fsm, kit_node(&kit, "n1")));
    assert_int_equal(fsm_lease_of_uid(kit.fsm, uid)->epoch, 2);
}

/* Epochs that the backup knows of, of pools that are gone, want none. */
static void incarnation_epochs_of_a_pool_that_is_gone_do_not_hold_it_up(void **state)
{
    kit_finish(&kit, kit_active(&kit, "n1"));
    kit_pool_retire(&kit, KIT_POOL);
    backup = kit_backup(&kit);
    kit_restore(&kit, &backup, 'b');
    kit_hello(&kit, "n1", "machine-1", "boot-1", true);
    kit_epoch(&kit, "n1", UID, 1, true);
    kit_come_back(&kit, "n2", "machine-2");
    kit_watermarks(&kit);
    assert_int_equal(kit_restored(&kit).unpooled.first, 0);
    assert_int_equal(kit_confirm(&kit, "n1,n2"), FSM_OK);
}

static void incarnation_epochs_of_no_pool_are_kept_and_leap(void **state)
{
    kit_finish(&kit, kit_active(&kit, "n1"));
    kit_pool_retire(&kit, KIT_POOL);
    assert_null(kit_pool(&kit));
    backup = kit_backup(&kit);
    kit_restore(&kit, &backup, 'b');
    assert_int_equal(fsm_epoch_floor(kit.fsm, UID), 1 + GAP);
    kit_hello(&kit, "n1", "machine-1", "boot-1", true);
    kit_epoch(&kit, "n1", UID, 7, true);
    kit_epoch(&kit, "n1", UID + 1, 9, true); /* said already that it was all: changes nothing */
    assert_int_equal(fsm_epoch_floor(kit.fsm, UID + 1), 0);
    assert_int_equal(kit_pool_create(&kit, KIT_POOL, UID, UID + 3), FSM_OK);
    kit_epoch(&kit, "n1", UID, 7, false);
    assert_int_equal(fsm_lease_of_uid(kit.fsm, UID)->epoch, 7);
    kit_epoch(&kit, "n1", UID + 1, 9, true);
    kit_come_back(&kit, "n2", "machine-2");
    kit_watermarks(&kit);
    assert_int_equal(kit_confirm(&kit, "n1,n2"), FSM_OK);
    kit_finish(&kit, fsm_lease_of_uid(kit.fsm, UID)->id);
    assert_int_equal(fsm_epoch_floor(kit.fsm, UID), 7 + GAP);
}

/* It was fenced, so nobody waited for it; then it comes after all. */
static void incarnation_a_node_that_comes_late_still_tells_its_epochs(void **state)
{
    uint64_t lease;

    backup = kit_backup(&kit);
    kit_active(&kit, "n2");
    kit_restore(&kit, &backup, 'b');
    kit_come_back(&kit, "n1", "machine-1");
    kit_fence(&kit, "n2", "machine-2", "boot-1");
    assert_int_equal(kit_confirm(&kit, "n1"), FSM_OK);
    assert_int_equal(kit_acquire(&kit, &(struct kit_grant){.nodes = "n1"}), FSM_OK);
    lease = kit.out_leases[0];
    assert_int_equal(kit_lease(&kit, lease)->uid, UID);
    kit_report(&kit, "n1", lease, KIT_READY, NULL);
    kit_hello(&kit, "n2", "machine-2", "boot-2", false);
    kit_watermark(&kit, "n2", fsm_revision(kit.fsm));
    assert_int_equal(kit_node(&kit, "n2")->state, NODE_UNKNOWN);
    /* What it held stands below what has been granted since, and has to be clean nevertheless before the next. */
    kit_epoch(&kit, "n2", UID, 1, false);
    assert_int_equal(kit_lease(&kit, lease)->n_members, 2);
    assert_true(kit_member(&kit, lease, "n2")->released);
    assert_int_equal(kit_state(&kit, lease), LEASE_ACTIVE);
    kit_epoch(&kit, "n2", UID, GAP + 5, false);
    assert_int_equal(kit_state(&kit, lease), LEASE_DRAINING);
    assert_int_equal(kit_lease(&kit, lease)->epoch, GAP + 5);
    kit_epoch(&kit, "n2", UID + 1, 1, true);
    assert_int_equal(fsm_lease_of_uid(kit.fsm, UID + 1)->state, LEASE_DRAINING);
    /* The nodes are confirmed: it may have been granted since, and no epoch goes back. */
    assert_int_equal(fsm_lease_of_uid(kit.fsm, UID + 1)->epoch, GAP + 1);
    assert_int_equal(kit_node(&kit, "n2")->state, NODE_READY);
}

static void incarnation_another_machine_of_the_name_tells_its_own_epochs(void **state)
{
    backup = kit_backup(&kit);
    kit_restore(&kit, &backup, 'b');
    both_back();
    kit_lost(&kit, "n2", false);
    kit_fence(&kit, "n2", "machine-2", "boot-1");
    kit_hello(&kit, "n2", "machine-9", "boot-1", false);
    assert_true(fsm_wants_epochs(kit.fsm, kit_node(&kit, "n2")));
}

/* ---- again ---- */

static void incarnation_a_backup_of_a_restored_state_can_be_restored(void **state)
{
    uint64_t lease = kit_active(&kit, "n1");

    backup = kit_backup(&kit);
    kit_restore(&kit, &backup, 'b');
    both_back();
    backup = kit_backup(&kit);
    assert_int_equal(kit_restore(&kit, &backup, 'c'), FSM_OK);
    assert_int_equal(kit_restored(&kit).times, 2);
    assert_true(kit_restored(&kit).waits);
    assert_int_equal(kit_lease(&kit, lease)->epoch, 1);
    both_back();
    assert_int_equal(kit_confirm(&kit, "n1,n2"), FSM_OK);
    kit_finish(&kit, lease);
    assert_int_equal(fsm_epoch_floor(kit.fsm, UID), 1 + 2 * GAP);
    assert_int_equal(fsm_epoch_floor(kit.fsm, UID + 1), 2 * GAP);
}

/* No node tells of what the first one granted: only another gap keeps the second from the same names. */
static void incarnation_the_same_backup_with_another_gap_grants_other_epochs(void **state)
{
    struct kit_backup again = kit_backup(&kit);
    uint32_t gaps[] = {5000, 7000};

    backup = kit_backup(&kit);
    for (size_t i = 0; i < 2; i++) {
        kit.gap = gaps[i];
        assert_int_equal(kit_restore(&kit, i ? &again : &backup, (char)('b' + i)), FSM_OK);
        both_back();
        assert_int_equal(kit_confirm(&kit, "n1,n2"), FSM_OK);
        assert_int_equal(kit_lease(&kit, kit_active(&kit, "n1"))->epoch, gaps[i] + 1);
        kit_pool_create(&kit, "late", UID + 100, UID + 100);
        assert_int_equal(fsm_epoch_floor(kit.fsm, UID + 100), gaps[i]);
    }
}

static void incarnation_a_gap_out_of_range_is_refused(void **state)
{
    static const uint32_t bad[] = {1, GAP - 1, (1u << 21) + 1, UINT32_MAX};

    for (size_t i = 0; i < 4; i++) {
        backup = kit_backup(&kit);
        kit.gap = bad[i];
        assert_int_equal(kit_restore(&kit, &backup, 'b'), FSM_INVALID);
        assert_false(kit_restored(&kit).waits);
    }
}

static void incarnation_a_state_that_never_was_a_backup_is_written_as_before(void **state)
{
    struct kit_backup plain = kit_backup(&kit);

    assert_int_equal(plain.bytes[8], 3);
    assert_int_equal(kit_restore(&kit, &plain, 'b'), FSM_OK);
    plain = kit_backup(&kit);
    assert_int_equal(plain.bytes[8], 4);
    free(plain.bytes);
}

/* A uid whose epochs are nearly used up, and is leased; when that is over there is none left to leap to. */
static void incarnation_the_last_epoch_is_never_passed(void **state)
{
    uint32_t uid = UID + 100, epoch = 0;
    char first = 'b';

    kit_pool_create(&kit, "high", uid, uid);
    backup = kit_backup(&kit);
    while (epoch < UINT32_MAX - 10) {
        epoch = epoch > UINT32_MAX - (1u << 24) ? UINT32_MAX - 10 : epoch + (1u << 24);
        assert_int_equal(kit_restore(&kit, &backup, first++), FSM_OK);
        kit_hello(&kit, "n1", "machine-1", "boot-1", true);
        if (kit_epoch(&kit, "n1", uid, epoch, true) != FSM_OK)
            fail_msg("%u: %s", epoch, kit.out.message);
        if (epoch < UINT32_MAX - 10)
            backup = kit_backup(&kit);
    }
    kit_come_back(&kit, "n2", "machine-2");
    kit_watermarks(&kit);
    assert_int_equal(kit_confirm(&kit, "n1,n2"), FSM_OK);
    kit_finish(&kit, fsm_lease_of_uid(kit.fsm, uid)->id);
    assert_int_equal(fsm_epoch_floor(kit.fsm, uid), UINT32_MAX);
    assert_true(fsm_uid_is_blocked(kit.fsm, uid));
}

#define test(name) cmocka_unit_test_setup_teardown(name, two_nodes, end)

int main(void)
{
    static const struct CMUnitTest tests[] = {
        test(incarnation_restore_leaps_ahead_of_all_numbers),
        test(incarnation_restore_of_the_same_incarnation_is_refused),
        test(incarnation_restore_drains_every_lease_and_wants_all_proofs_anew),
        test(incarnation_restore_forgets_fences_and_tokens),
        test(incarnation_nothing_is_granted_before_nodes_are_clean_and_confirmed),
        test(incarnation_confirm_wants_the_full_list),
        test(incarnation_a_node_that_is_gone_is_fenced),
        test(incarnation_no_uid_becomes_free_before_the_nodes_are_confirmed),
        test(incarnation_a_waiting_request_has_failed),
        test(incarnation_a_lease_that_only_a_node_knows_is_made_again),
        test(incarnation_a_lease_goes_on_under_the_highest_epoch_that_a_node_knows),
        test(incarnation_epochs_that_the_backup_knows_hold_nothing),
        test(incarnation_an_epoch_that_can_not_be_is_not_believed),
        test(incarnation_a_blocked_uid_that_a_node_holds_is_leased_then_aside_again),
        test(incarnation_a_pool_of_after_the_backup_is_made_again),
        test(incarnation_a_pool_made_while_a_node_reports_is_reported_once_more),
        test(incarnation_epochs_of_a_pool_that_is_gone_do_not_hold_it_up),
        test(incarnation_epochs_of_no_pool_are_kept_and_leap),
        test(incarnation_a_node_that_comes_late_still_tells_its_epochs),
        test(incarnation_another_machine_of_the_name_tells_its_own_epochs),
        test(incarnation_a_backup_of_a_restored_state_can_be_restored),
        test(incarnation_the_same_backup_with_another_gap_grants_other_epochs),
        test(incarnation_a_gap_out_of_range_is_refused),
        test(incarnation_a_state_that_never_was_a_backup_is_written_as_before),
        test(incarnation_the_last_epoch_is_never_passed),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
