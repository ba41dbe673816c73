/* The life of a lease: every move of its state machine, and every rule of what may free a uid. */
#include <setjmp.h>
#include <stdarg.h>
#include <string.h>

#include <cmocka.h>

#include "tests/lib/fsm_kit.h"

static struct kit kit;

static int three_nodes(void **state)
{
    kit_start(&kit, 8, 3);
    return 0;
}

static int end(void **state)
{
    kit_done(&kit);
    return 0;
}

/* A lease on n1 that has come as far as this state. */
static uint64_t lease_in(enum lease_state state)
{
    uint64_t id = kit_active(&kit, "n1");

    if (state >= LEASE_DRAINING)
        kit_release(&kit, id, NULL);
    if (state >= LEASE_COOLING)
        kit_report(&kit, "n1", id, KIT_CLEAN, NULL);
    if (state >= LEASE_RETIRED)
        kit_elapse(&kit, 300000);
    assert_int_equal(kit_state(&kit, id), state);
    return id;
}

static void lease_without_trouble_goes_through_all_states(void **state)
{
    uint64_t id;
    uint32_t uid;

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

static void lease_uids_are_taken_longest_unused_first(void **state)
{
    uint64_t ids[8];

    for (int i = 0; i < 8; i++) {
        ids[i] = kit_active(&kit, "n1");
        assert_int_equal(kit_lease(&kit, ids[i])->uid, KIT_FIRST_UID + (uint32_t)i);
    }
    kit_finish(&kit, ids[5]);
    kit_finish(&kit, ids[2]);
    kit_finish(&kit, ids[7]);
    assert_int_equal(kit_lease(&kit, kit_active(&kit, "n1"))->uid, KIT_FIRST_UID + 5);
    assert_int_equal(kit_lease(&kit, kit_active(&kit, "n1"))->uid, KIT_FIRST_UID + 2);
    ids[0] = kit_active(&kit, "n1");
    assert_int_equal(kit_lease(&kit, ids[0])->uid, KIT_FIRST_UID + 7);
    assert_int_equal(kit_lease(&kit, ids[0])->epoch, 2);
}

/* ---- how a lease ends ---- */

static void lease_that_a_member_refuses_drains_and_waits_for_its_clean(void **state)
{
    uint64_t id;

    kit_acquire(&kit, &(struct kit_grant){.nodes = "n1,n2"});
    id = kit.out_leases[0];
    kit_report(&kit, "n1", id, KIT_READY, NULL);
    kit_report(&kit, "n2", id, KIT_REFUSED, "disk");
    assert_int_equal(kit_state(&kit, id), LEASE_DRAINING);
    assert_int_equal(kit_lease(&kit, id)->cause, END_REFUSED);
    assert_string_equal(kit_lease(&kit, id)->end_detail, "node n2 refused it: disk");
    assert_int_equal(kit_member(&kit, id, "n2")->proof, PROOF_REFUSED);
    kit_report(&kit, "n1", id, KIT_CLEAN, NULL);
    assert_int_equal(kit_state(&kit, id), LEASE_DRAINING);
    kit_report(&kit, "n2", id, KIT_CLEAN, NULL);
    assert_int_equal(kit_state(&kit, id), LEASE_COOLING);
    /* No account stood in the way: the uid is not blocked. */
    assert_int_equal(kit_pool(&kit)->n_blocked, 0);
}

static void lease_refused_for_an_account_blocks_the_uid(void **state)
{
    uint64_t id;
    uint32_t uid;

    kit_acquire(&kit, &(struct kit_grant){0});
    id = kit.out_leases[0];
    uid = kit_lease(&kit, id)->uid;
    kit_report(&kit, "n1", id, KIT_REFUSED, "account");
    assert_int_equal(kit_pool(&kit)->n_blocked, 1);
    assert_int_equal(kit_pool(&kit)->blocked[0].uid, uid);
    assert_int_equal(kit_counts(&kit).blocked, 0);
    kit_finish(&kit, id);
    assert_int_equal(kit_state(&kit, id), LEASE_FREE);
    assert_int_equal(kit_counts(&kit).blocked, 1);
    for (int i = 0; i < 7; i++)
        assert_int_not_equal(kit_lease(&kit, kit_active(&kit, "n1"))->uid, uid);
    assert_int_equal(kit_acquire(&kit, &(struct kit_grant){0}), FSM_EXHAUSTED);
    assert_int_equal(kit_unblock(&kit, uid), FSM_OK);
    assert_int_equal(kit_lease(&kit, kit_active(&kit, "n1"))->uid, uid);
}

static void lease_not_ready_in_time_drains(void **state)
{
    uint64_t id;

    kit_acquire(&kit, &(struct kit_grant){.nodes = "n1,n2,n3"});
    id = kit.out_leases[0];
    kit_report(&kit, "n2", id, KIT_READY, NULL);
    kit_elapse(&kit, 9999);
    assert_int_equal(kit_state(&kit, id), LEASE_GRANTED);
    kit_elapse(&kit, 1);
    assert_int_equal(kit_state(&kit, id), LEASE_DRAINING);
    assert_int_equal(kit_lease(&kit, id)->cause, END_READY_TIMEOUT);
    assert_string_equal(kit_lease(&kit, id)->end_detail,
                        "node n1 and 1 more were not ready in time");
}

static void lease_expires_only_by_a_tick_and_not_early(void **state)
{
    uint64_t id = kit_active(&kit, "n1");

    kit.now_ms += 59999;
    kit_tick(&kit);
    assert_int_equal(kit_state(&kit, id), LEASE_ACTIVE);
    kit.now_ms += 2;
    kit_watermark(&kit, "n1", 1); /* time passes, but nobody says tick */
    assert_int_equal(kit_state(&kit, id), LEASE_ACTIVE);
    kit_tick(&kit);
    assert_int_equal(kit_state(&kit, id), LEASE_DRAINING);
    assert_int_equal(kit_lease(&kit, id)->cause, END_EXPIRED);
}

static void lease_without_ttl_never_expires(void **state)
{
    uint64_t id;

    kit_acquire(&kit, &(struct kit_grant){.ttl_ms = -2});
    id = kit.out_leases[0];
    kit_report(&kit, "n1", id, KIT_READY, NULL);
    kit_elapse(&kit, 365LL * 86400 * 1000);
    assert_int_equal(kit_state(&kit, id), LEASE_ACTIVE);
    assert_int_equal(fsm_next_due_ms(kit.fsm), INT64_MAX);
    assert_int_equal(kit_renew(&kit, id, 60000), FSM_OK);
    assert_int_equal(kit_lease(&kit, id)->expires_ms, 0);
}

static void lease_revoked_says_by_whom_and_why(void **state)
{
    uint64_t id = kit_active(&kit, "n1");

    kit.principal = "user:root";
    assert_int_equal(kit_revoke(&kit, id, "runs amok"), FSM_OK);
    assert_int_equal(kit_lease(&kit, id)->cause, END_REVOKED);
    assert_string_equal(kit_lease(&kit, id)->end_detail, "revoked by user:root: runs amok");
    assert_int_equal(kit_revoke(&kit, id, "again"), FSM_OK);
    assert_string_equal(kit_lease(&kit, id)->end_detail, "revoked by user:root: runs amok");
}

static void lease_that_its_node_ended_itself_drains(void **state)
{
    static const struct {
        int kind;
        enum member_proof proof;
        uint32_t quarantine;
    } rows[] = {
        {KIT_REFUSED, PROOF_REFUSED, 0},
        {KIT_CLEAN, PROOF_CLEAN, 0},
        {KIT_DIRTY, PROOF_DIRTY, QUARANTINE_DIRTY},
    };

    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        uint64_t id = kit_active(&kit, "n1,n2");

        kit_report(&kit, "n1", id, rows[i].kind, "validity");
        assert_int_equal(kit_state(&kit, id), LEASE_DRAINING);
        assert_int_equal(kit_lease(&kit, id)->cause, END_MEMBER_LOST);
        assert_int_equal(kit_member(&kit, id, "n1")->proof, rows[i].proof);
        assert_int_equal(kit_member(&kit, id, "n2")->proof, PROOF_PENDING);
        assert_int_equal(kit_lease(&kit, id)->quarantine, rows[i].quarantine);
    }
}

static void lease_whose_only_member_said_clean_early_goes_on_to_cooling(void **state)
{
    uint64_t id = kit_active(&kit, "n1");

    kit_report(&kit, "n1", id, KIT_CLEAN, NULL);
    assert_int_equal(kit.n_changes, 2);
    assert_int_equal(kit.changes[0].state, LEASE_DRAINING);
    assert_int_equal(kit.changes[1].state, LEASE_COOLING);
}

/* ---- release, renew ---- */

static void lease_released_twice_is_released_once(void **state)
{
    uint64_t id = kit_active(&kit, "n1");

    assert_int_equal(kit_release(&kit, id, NULL), FSM_OK);
    assert_int_equal(kit_release(&kit, id, NULL), FSM_OK);
    assert_int_equal(kit.n_changes, 0);
    kit_finish(&kit, id);
    assert_int_equal(kit_release(&kit, id, NULL), FSM_NOT_FOUND);
    assert_string_equal(kit.out.message, "lease 1 is over and its uid free");
    assert_int_equal(kit_release(&kit, 999, NULL), FSM_NOT_FOUND);
    assert_string_equal(kit.out.message, "lease 999 does not exist");
}

static void lease_of_another_epoch_is_not_touched(void **state)
{
    Xce__V1__CmdRelease release = XCE__V1__CMD_RELEASE__INIT;
    Xce__V1__Command command = XCE__V1__COMMAND__INIT;
    uint64_t id = kit_active(&kit, "n1");

    release.lease = id;
    release.epoch = 7;
    command.kind_case = XCE__V1__COMMAND__KIND_RELEASE;
    command.release = &release;
    assert_int_equal(kit_apply(&kit, &command), FSM_STALE);
    assert_string_equal(kit.out.message, "lease 1 has epoch 1, not 7");
    assert_int_equal(kit_state(&kit, id), LEASE_ACTIVE);
}

static void lease_lets_go_of_members_and_ends_with_the_last(void **state)
{
    uint64_t id = kit_active(&kit, "n1,n2");

    assert_int_equal(kit_release(&kit, id, "n3"), FSM_NOT_FOUND);
    assert_int_equal(kit_release(&kit, id, "n1"), FSM_OK);
    assert_int_equal(kit_state(&kit, id), LEASE_ACTIVE);
    assert_true(kit_member(&kit, id, "n1")->released);
    assert_int_equal(kit_member(&kit, id, "n1")->proof, PROOF_PENDING);
    assert_int_equal(kit_release(&kit, id, "n1"), FSM_OK);
    assert_int_equal(kit.n_changes, 0);
    kit_report(&kit, "n1", id, KIT_READY, NULL);
    assert_int_equal(kit.n_changes, 0);
    kit_report(&kit, "n1", id, KIT_CLEAN, NULL);
    assert_int_equal(kit_state(&kit, id), LEASE_ACTIVE);
    assert_int_equal(kit_release(&kit, id, "n2"), FSM_OK);
    assert_int_equal(kit_state(&kit, id), LEASE_DRAINING);
    assert_int_equal(kit_lease(&kit, id)->cause, END_RELEASE);
    /* What n1 proved while the lease lived counts. */
    kit_report(&kit, "n2", id, KIT_CLEAN, NULL);
    assert_int_equal(kit_state(&kit, id), LEASE_COOLING);
}

static void lease_granted_is_active_when_the_slow_member_is_let_go(void **state)
{
    uint64_t id;

    kit_acquire(&kit, &(struct kit_grant){.nodes = "n1,n2"});
    id = kit.out_leases[0];
    kit_report(&kit, "n1", id, KIT_READY, NULL);
    kit_release(&kit, id, "n2");
    assert_int_equal(kit_state(&kit, id), LEASE_ACTIVE);
}

static void lease_renewed_gets_time_but_never_loses_any(void **state)
{
    uint64_t id = kit_active(&kit, "n1");
    int64_t expires_ms = kit_lease(&kit, id)->expires_ms;

    kit.now_ms += 1000;
    assert_int_equal(kit_renew(&kit, id, 0), FSM_OK);
    assert_int_equal(kit_lease(&kit, id)->expires_ms, kit.now_ms + 60000);
    assert_true(kit.changes[0].expiry_only);
    assert_int_equal(kit_renew(&kit, id, 3600000), FSM_OK);
    expires_ms = kit_lease(&kit, id)->expires_ms;
    assert_int_equal(expires_ms, kit.now_ms + 3600000);
    assert_int_equal(kit_renew(&kit, id, 1000), FSM_OK);
    assert_int_equal(kit_lease(&kit, id)->expires_ms, expires_ms);
    assert_int_equal(kit.n_changes, 0);
    assert_int_equal(kit_renew(&kit, id, 31LL * 86400 * 1000), FSM_INVALID);
    assert_int_equal(kit_renew(&kit, id, -5), FSM_INVALID);
    kit_release(&kit, id, NULL);
    assert_int_equal(kit_renew(&kit, id, 0), FSM_STALE);
    assert_string_equal(kit.out.message, "lease 1 is draining: it can not be renewed any more");
}

/* ---- proofs ---- */

static void lease_dirty_is_quarantined_until_it_is_clean(void **state)
{
    uint64_t id = lease_in(LEASE_DRAINING);

    kit_report(&kit, "n1", id, KIT_DIRTY, "unkillable");
    assert_int_equal(kit_lease(&kit, id)->quarantine, QUARANTINE_DIRTY);
    assert_string_equal(kit_member(&kit, id, "n1")->reason, "unkillable");
    assert_int_equal(kit_counts(&kit).quarantined, 1);
    kit_report(&kit, "n1", id, KIT_DIRTY, "unkillable");
    assert_int_equal(kit.n_changes, 0);
    kit_report(&kit, "n1", id, KIT_DIRTY, "file");
    assert_int_equal(kit.n_changes, 1);
    assert_int_equal(kit_state(&kit, id), LEASE_DRAINING);
    kit_report(&kit, "n1", id, KIT_CLEAN, NULL);
    assert_int_equal(kit_state(&kit, id), LEASE_COOLING);
    assert_int_equal(kit_lease(&kit, id)->quarantine, 0);
    assert_null(kit_member(&kit, id, "n1")->reason);
}

/* After CLEAN: a member or any other node finds something, in every later state. */
static void lease_with_something_found_after_clean_is_draining_again(void **state)
{
    static const enum lease_state states[] = {LEASE_COOLING, LEASE_RETIRED};
    static const int kinds[] = {KIT_STRAY, KIT_DIRTY};
    static const char *const nodes[] = {"n1", "n3"};

    for (int i = 0; i < 8; i++) {
        int kind = kinds[i & 1];
        const char *node = nodes[i >> 1 & 1];
        uint64_t id = lease_in(states[i >> 2]);

        kit_report(&kit, node, id, kind, "process");
        assert_int_equal(kit_state(&kit, id), LEASE_DRAINING);
        assert_int_equal(kit_lease(&kit, id)->cause, END_RELEASE);
        assert_int_equal(kit_lease(&kit, id)->quarantine,
                         kind == KIT_STRAY ? QUARANTINE_STRAY : QUARANTINE_DIRTY);
        assert_int_equal(kit_lease(&kit, id)->retired_revision, 0);
        assert_int_equal(kit_lease(&kit, id)->n_members, node[1] == '1' ? 1 : 2);
        kit_watermarks(&kit);
        assert_int_equal(kit_state(&kit, id), LEASE_DRAINING);
        kit_report(&kit, node, id, KIT_CLEAN, NULL);
        assert_int_equal(kit_state(&kit, id), LEASE_COOLING);
        assert_int_equal(kit_lease(&kit, id)->quarantine, 0);
        kit_finish(&kit, id);
        assert_int_equal(kit_state(&kit, id), LEASE_FREE);
    }
}

static void lease_draining_takes_in_a_node_that_finds_a_stray(void **state)
{
    uint64_t id = lease_in(LEASE_DRAINING);

    /* The member has not proved anything yet: a stray there is what it is looking for. */
    kit_report(&kit, "n1", id, KIT_STRAY, NULL);
    assert_int_equal(kit.n_changes, 0);
    kit_report(&kit, "n2", id, KIT_STRAY, NULL);
    assert_int_equal(kit_lease(&kit, id)->n_members, 2);
    kit_report(&kit, "n1", id, KIT_CLEAN, NULL);
    assert_int_equal(kit_state(&kit, id), LEASE_DRAINING);
    kit_report(&kit, "n2", id, KIT_CLEAN, NULL);
    assert_int_equal(kit_state(&kit, id), LEASE_COOLING);
}

static void lease_live_is_not_disturbed_by_a_stray_elsewhere(void **state)
{
    uint64_t id = kit_active(&kit, "n1");

    kit_report(&kit, "n3", id, KIT_STRAY, NULL);
    assert_int_equal(kit.n_changes, 0);
    assert_int_equal(kit_state(&kit, id), LEASE_ACTIVE);
}

/* What n3 cannot remove is remembered, though n3 is no member: the uid waits for it. */
static void lease_live_remembers_who_is_dirty_elsewhere(void **state)
{
    uint64_t id = kit_active(&kit, "n1");

    kit_report(&kit, "n3", id, KIT_DIRTY, "file");
    assert_int_equal(kit_state(&kit, id), LEASE_ACTIVE);
    assert_true(kit_member(&kit, id, "n3")->released);
    assert_int_equal(kit_lease(&kit, id)->quarantine, QUARANTINE_DIRTY);
    kit_release(&kit, id, NULL);
    kit_report(&kit, "n1", id, KIT_CLEAN, NULL);
    assert_int_equal(kit_state(&kit, id), LEASE_DRAINING);
    kit_report(&kit, "n3", id, KIT_CLEAN, NULL);
    assert_int_equal(kit_state(&kit, id), LEASE_COOLING);
}

static void lease_ignores_reports_that_are_not_of_it(void **state)
{
    uint64_t id = lease_in(LEASE_DRAINING);
    const struct fsm_lease *lease = kit_lease(&kit, id);
    uint64_t session = kit_node(&kit, "n1")->session;

    kit_report_uid(&kit, "n1", session, lease->uid, lease->epoch + 1, KIT_CLEAN, NULL);
    assert_int_equal(kit.n_changes, 0);
    kit_report_uid(&kit, "n1", session, lease->uid, 0, KIT_CLEAN, NULL);
    assert_int_equal(kit.n_changes, 0);
    kit_report_uid(&kit, "n1", session, lease->uid, lease->epoch + 1, KIT_STRAY, NULL);
    assert_int_equal(kit.n_changes, 0);
    kit_report_uid(&kit, "n1", session, 4711, 1, KIT_STRAY, NULL);
    assert_int_equal(kit.n_changes, 0);
    kit_report(&kit, "n2", id, KIT_CLEAN, NULL);
    assert_int_equal(kit.n_changes, 0);
    kit_report(&kit, "n1", id, KIT_READY, NULL);
    kit_report(&kit, "n1", id, KIT_REFUSED, NULL);
    kit_report(&kit, "n1", id, 99, NULL);
    assert_int_equal(kit.n_changes, 0);
    assert_int_equal(
        kit_report_uid(&kit, "n1", session - 1, lease->uid, lease->epoch, KIT_CLEAN, NULL),
        FSM_IGNORED);
    assert_int_equal(kit_report_uid(&kit, "n9", 1, lease->uid, lease->epoch, KIT_CLEAN, NULL),
                     FSM_IGNORED);
    assert_int_equal(kit_state(&kit, id), LEASE_DRAINING);
}

/* ---- overdue ---- */

static void lease_overdue_says_so_until_it_goes_on(void **state)
{
    uint64_t id = lease_in(LEASE_DRAINING);

    kit_elapse(&kit, 99999);
    assert_int_equal(kit_lease(&kit, id)->quarantine, 0);
    kit_elapse(&kit, 1);
    assert_int_equal(kit_lease(&kit, id)->quarantine, QUARANTINE_OVERDUE);
    assert_int_equal(fsm_next_due_ms(kit.fsm), INT64_MAX);
    kit_report(&kit, "n1", id, KIT_CLEAN, NULL);
    assert_int_equal(kit_lease(&kit, id)->quarantine, 0);
    kit_elapse(&kit, 300000);
    kit_elapse(&kit, 100000);
    assert_int_equal(kit_state(&kit, id), LEASE_RETIRED);
    assert_int_equal(kit_lease(&kit, id)->quarantine, QUARANTINE_OVERDUE);
    kit_watermarks(&kit);
    assert_int_equal(kit_state(&kit, id), LEASE_FREE);
}

/* ---- witnesses ---- */

static void lease_waits_for_watermarks_past_its_retirement(void **state)
{
    uint64_t id = lease_in(LEASE_COOLING);
    uint64_t before = fsm_revision(kit.fsm);
    uint64_t retired;

    kit_elapse(&kit, 300000);
    retired = kit_lease(&kit, id)->retired_revision;
    assert_int_equal(retired, kit_lease(&kit, id)->revision);
    for (int i = 1; i <= 3; i++) {
        char node[8] = {'n', (char)('0' + i), '\0'};

        kit_watermark(&kit, node, before);
        assert_true(fsm_lease_waits_for(kit.fsm, kit_lease(&kit, id), kit_node(&kit, node)));
    }
    kit_watermark(&kit, "n1", retired);
    kit_watermark(&kit, "n3", retired);
    assert_false(fsm_lease_waits_for(kit.fsm, kit_lease(&kit, id), kit_node(&kit, "n1")));
    assert_int_equal(kit_state(&kit, id), LEASE_RETIRED);
    /* One that knows of more than there is has no watermark at all. */
    kit_watermark(&kit, "n2", fsm_revision(kit.fsm) + 1);
    assert_int_equal(kit_state(&kit, id), LEASE_RETIRED);
    kit_watermark(&kit, "n2", retired);
    assert_int_equal(kit_state(&kit, id), LEASE_FREE);
}

/* connected: what is lost is no witness, unless it is a member. all: it is one until it is fenced. */
static void lease_waits_for_the_lost_as_its_pool_says(void **state)
{
    uint64_t id;

    for (int all = 0; all < 2; all++) {
        kit_pool_set(&kit,
                     &(struct kit_pool_set){.witnesses_all = all, .witnesses_connected = !all});
        id = lease_in(LEASE_RETIRED);
        kit_lost(&kit, "n3", false);
        kit_watermark(&kit, "n1", fsm_revision(kit.fsm));
        assert_int_equal(kit_state(&kit, id), LEASE_RETIRED);
        kit_watermark(&kit, "n2", fsm_revision(kit.fsm));
        assert_int_equal(kit_state(&kit, id), all ? LEASE_RETIRED : LEASE_FREE);
        if (!all)
            kit_lost(&kit, "n3", true);
    }
    assert_true(fsm_lease_waits_for(kit.fsm, kit_lease(&kit, id), kit_node(&kit, "n3")));
    assert_int_equal(kit_fence(&kit, "n3", "machine-3", "boot-1"), FSM_OK);
    assert_int_equal(kit_state(&kit, id), LEASE_FREE);
}

static void lease_retired_is_free_when_its_last_witness_is_lost(void **state)
{
    uint64_t id = lease_in(LEASE_RETIRED);

    kit_watermark(&kit, "n1", fsm_revision(kit.fsm));
    kit_watermark(&kit, "n2", fsm_revision(kit.fsm));
    kit_lost(&kit, "n3", false);
    assert_int_equal(kit_state(&kit, id), LEASE_FREE);
}

static void lease_waits_for_a_lost_member_even_if_it_was_clean(void **state)
{
    uint64_t id = lease_in(LEASE_RETIRED);

    kit_lost(&kit, "n1", false);
    kit_watermarks(&kit);
    assert_int_equal(kit_state(&kit, id), LEASE_RETIRED);
    assert_int_equal(kit_lease(&kit, id)->quarantine, QUARANTINE_MEMBER_LOST);
    kit_lost(&kit, "n1", true);
    assert_int_equal(kit_lease(&kit, id)->quarantine, 0);
    kit_watermarks(&kit);
    assert_int_equal(kit_state(&kit, id), LEASE_FREE);
}

static void lease_that_is_free_last_says_free(void **state)
{
    uint64_t id = lease_in(LEASE_RETIRED);
    uint64_t revision;

    kit_watermark(&kit, "n1", fsm_revision(kit.fsm));
    kit_watermark(&kit, "n2", fsm_revision(kit.fsm));
    revision = fsm_revision(kit.fsm);
    kit_watermark(&kit, "n3", fsm_revision(kit.fsm));
    assert_int_equal(kit.n_changes, 1);
    assert_int_equal(kit.changes[0].lease, id);
    assert_int_equal(kit.changes[0].state, LEASE_FREE);
    assert_int_equal(kit.changes[0].revision, revision + 1);
    assert_null(fsm_lease(kit.fsm, id));
}

/* More than a few pages of them, all at once, all gone, and again. */
/* What the log needs to say a thing once: also behind a snapshot, which the twin comes out of. */
static void lease_changes_tell_what_is_new(void **state)
{
    uint64_t id;

    kit_acquire(&kit, &(struct kit_grant){.nodes = "n1,n2"});
    id = kit.out_leases[0];
    assert_int_equal(kit.changes[0].before, 0);
    kit_report(&kit, "n1", id, KIT_READY, NULL);
    assert_int_equal(kit.changes[0].before, LEASE_GRANTED);
    assert_int_equal(kit.changes[0].state, LEASE_GRANTED);
    kit_report(&kit, "n2", id, KIT_READY, NULL);
    assert_int_equal(kit.changes[0].before, LEASE_GRANTED);
    assert_int_equal(kit.changes[0].state, LEASE_ACTIVE);
    kit_release(&kit, id, NULL);
    assert_int_equal(kit.changes[0].before, LEASE_ACTIVE);
    kit_report(&kit, "n1", id, KIT_DIRTY, "file");
    assert_int_equal(kit.changes[0].quarantined, QUARANTINE_DIRTY);
    kit_report(&kit, "n1", id, KIT_DIRTY, "process");
    assert_int_equal(kit.changes[0].quarantine, QUARANTINE_DIRTY);
    assert_int_equal(kit.changes[0].quarantined, 0);
    kit_lost(&kit, "n2", false);
    assert_int_equal(kit.changes[1].quarantined, QUARANTINE_MEMBER_LOST);
    kit_report(&kit, "n1", id, KIT_CLEAN, NULL);
    assert_int_equal(kit.changes[0].quarantined, 0);
    kit_report(&kit, "n1", id, KIT_DIRTY, "file");
    assert_int_equal(kit.changes[0].quarantined, QUARANTINE_DIRTY);
    kit_block(&kit, "n1", KIT_FIRST_UID + 3, "account");
    assert_string_equal(kit.changes[0].blocked, "account");
    kit_unblock(&kit, KIT_FIRST_UID + 3);
    assert_string_equal(kit.changes[0].blocked, "");
}

static void leases_by_the_hundred_come_and_go(void **state)
{
    static struct kit_grant grants[500];
    struct kit many;

    kit_start(&many, 500, 1);
    many.light = true;
    for (uint32_t round = 1; round <= 3; round++) {
        assert_int_equal(kit_acquire_many(&many, grants, 500), FSM_OK);
        assert_int_equal(kit_acquire(&many, &grants[0]), FSM_EXHAUSTED);
        for (uint32_t i = 0; i < 500; i++) {
            uint64_t id = fsm_lease_of_uid(many.fsm, KIT_FIRST_UID + i)->id;

            assert_int_equal(kit_lease(&many, id)->epoch, round);
            kit_release(&many, id, NULL);
            kit_report(&many, "n1", id, KIT_CLEAN, NULL);
        }
        assert_null(fsm_verify(many.fsm));
        kit_elapse(&many, 300000);
        kit_watermarks(&many);
        assert_int_equal(kit_counts(&many).free, 500);
        assert_null(fsm_verify(many.fsm));
        assert_null(fsm_lease_next(many.fsm, 0));
    }
    kit_done(&many);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, three_nodes, end)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(lease_without_trouble_goes_through_all_states),
        TEST(lease_uids_are_taken_longest_unused_first),
        TEST(lease_that_a_member_refuses_drains_and_waits_for_its_clean),
        TEST(lease_refused_for_an_account_blocks_the_uid),
        TEST(lease_not_ready_in_time_drains),
        TEST(lease_expires_only_by_a_tick_and_not_early),
        TEST(lease_without_ttl_never_expires),
        TEST(lease_revoked_says_by_whom_and_why),
        TEST(lease_that_its_node_ended_itself_drains),
        TEST(lease_whose_only_member_said_clean_early_goes_on_to_cooling),
        TEST(lease_released_twice_is_released_once),
        TEST(lease_of_another_epoch_is_not_touched),
        TEST(lease_lets_go_of_members_and_ends_with_the_last),
        TEST(lease_granted_is_active_when_the_slow_member_is_let_go),
        TEST(lease_renewed_gets_time_but_never_loses_any),
        TEST(lease_dirty_is_quarantined_until_it_is_clean),
        TEST(lease_with_something_found_after_clean_is_draining_again),
        TEST(lease_draining_takes_in_a_node_that_finds_a_stray),
        TEST(lease_live_is_not_disturbed_by_a_stray_elsewhere),
        TEST(lease_live_remembers_who_is_dirty_elsewhere),
        TEST(lease_ignores_reports_that_are_not_of_it),
        TEST(lease_overdue_says_so_until_it_goes_on),
        TEST(lease_waits_for_watermarks_past_its_retirement),
        TEST(lease_waits_for_the_lost_as_its_pool_says),
        TEST(lease_retired_is_free_when_its_last_witness_is_lost),
        TEST(lease_waits_for_a_lost_member_even_if_it_was_clean),
        TEST(lease_that_is_free_last_says_free),
        TEST(lease_changes_tell_what_is_new),
        cmocka_unit_test(leases_by_the_hundred_come_and_go),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
