/* Nodes: sessions, what they are trusted with, verbs, fences and oaths, blocks. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
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

static enum node_state node_is(const char *node)
{
    return kit_node(&kit, node)->state;
}

#define DRAIN   XCE__V1__NODE_VERB__NODE_VERB_DRAIN
#define UNDRAIN XCE__V1__NODE_VERB__NODE_VERB_UNDRAIN
#define CORDON  XCE__V1__NODE_VERB__NODE_VERB_CORDON
#define FORGET  XCE__V1__NODE_VERB__NODE_VERB_FORGET

/* ---- hello ---- */

static void node_new_is_unknown_until_a_pass_after_its_hello(void **state)
{
    uint64_t before = fsm_revision(kit.fsm);

    assert_int_equal(kit_hello(&kit, "n9", "machine-9", "boot-1", true), FSM_OK);
    assert_int_equal(kit.out.session, 3);
    assert_int_equal(node_is("n9"), NODE_UNKNOWN);
    assert_int_equal(kit_node(&kit, "n9")->hello_revision, fsm_revision(kit.fsm));
    assert_int_equal(kit.out.revision, fsm_revision(kit.fsm));
    kit_watermark(&kit, "n9", before);
    assert_int_equal(node_is("n9"), NODE_UNKNOWN);
    kit_watermark(&kit, "n9", fsm_revision(kit.fsm));
    assert_int_equal(node_is("n9"), NODE_READY);
    assert_int_equal(kit.n_changes, 1);
    assert_null(kit_node(&kit, "n9")->reason);
}

static void node_is_trusted_after_a_hello_only_if_all_was_in_order(void **state)
{
    static const struct {
        const char *boot;
        bool clean, lost, unknown;
        enum node_state state;
    } rows[] = {
        {"boot-1", true, false, false, NODE_READY},   {"boot-1", false, false, false, NODE_UNKNOWN},
        {"boot-1", true, true, false, NODE_UNKNOWN},  {"boot-1", true, false, true, NODE_UNKNOWN},
        {"boot-2", true, false, false, NODE_UNKNOWN},
    };

    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        kit_hello(&kit, "n1", "machine-1", "boot-1", false);
        if (!rows[i].unknown)
            kit_watermarks(&kit);
        if (rows[i].lost)
            kit_lost(&kit, "n1", false);
        kit_hello(&kit, "n1", "machine-1", rows[i].boot, rows[i].clean);
        assert_int_equal(node_is("n1"), rows[i].state);
    }
}

static void node_reports_of_an_older_session_are_ignored(void **state)
{
    uint64_t id = kit_active(&kit, "n1");
    uint64_t old = kit_node(&kit, "n1")->session;
    const struct fsm_lease *lease;

    kit_release(&kit, id, NULL);
    kit_hello(&kit, "n1", "machine-1", "boot-1", true);
    lease = kit_lease(&kit, id);
    assert_int_equal(kit_report_uid(&kit, "n1", old, lease->uid, lease->epoch, KIT_CLEAN, NULL),
                     FSM_IGNORED);
    assert_string_equal(kit.out.message, "node n1: session 1 is over");
    assert_int_equal(kit_state(&kit, id), LEASE_DRAINING);
    kit_report(&kit, "n1", id, KIT_CLEAN, NULL);
    assert_int_equal(kit_state(&kit, id), LEASE_COOLING);
}

/* R_SESS: the barrier counts a READY only under the session that the state knows. */
static void node_ready_of_before_a_hello_does_not_count(void **state)
{
    uint64_t id;

    kit_acquire(&kit, &(struct kit_grant){.nodes = "n1,n2"});
    id = kit.out_leases[0];
    kit_report(&kit, "n1", id, KIT_READY, NULL);
    kit_hello(&kit, "n1", "machine-1", "boot-1", true);
    assert_int_equal(kit_member(&kit, id, "n1")->proof, PROOF_PENDING);
    kit_report(&kit, "n2", id, KIT_READY, NULL);
    assert_int_equal(kit_state(&kit, id), LEASE_GRANTED);
    kit_report(&kit, "n1", id, KIT_READY, NULL);
    assert_int_equal(kit_state(&kit, id), LEASE_ACTIVE);
}

static void node_restarted_in_the_same_boot_keeps_its_active_leases(void **state)
{
    uint64_t id = kit_active(&kit, "n1");

    kit_hello(&kit, "n1", "machine-1", "boot-1", false);
    assert_int_equal(kit_state(&kit, id), LEASE_ACTIVE);
    assert_int_equal(kit_member(&kit, id, "n1")->proof, PROOF_READY);
}

static void node_in_another_boot_has_lost_its_leases_and_owes_their_proofs(void **state)
{
    uint64_t active = kit_active(&kit, "n1,n2"), granted, gone = kit_active(&kit, "n1,n2");

    kit_acquire(&kit, &(struct kit_grant){.nodes = "n1"});
    granted = kit.out_leases[0];
    kit_release(&kit, gone, "n1");
    kit_hello(&kit, "n1", "machine-1", "boot-2", true);
    assert_int_equal(kit_state(&kit, active), LEASE_DRAINING);
    assert_int_equal(kit_lease(&kit, active)->cause, END_MEMBER_LOST);
    assert_string_equal(kit_lease(&kit, active)->end_detail,
                        "the machine of node n1 was restarted");
    assert_int_equal(kit_member(&kit, active, "n1")->proof, PROOF_PENDING);
    assert_int_equal(kit_state(&kit, granted), LEASE_DRAINING);
    /* It had been let go: its reboot ends nothing. */
    assert_int_equal(kit_state(&kit, gone), LEASE_ACTIVE);
}

static void node_that_has_seen_more_than_there_is_is_refused(void **state)
{
    Xce__V1__Command command = XCE__V1__COMMAND__INIT;
    Xce__V1__CmdHello hello = XCE__V1__CMD_HELLO__INIT;
    uint64_t revision, session;

    kit_hello(&kit, "n1", "machine-1", "boot-1", false);
    revision = fsm_revision(kit.fsm);
    session = kit_node(&kit, "n1")->session;
    hello.node = (ProtobufCBinaryData){2, (uint8_t *)"n1"};
    hello.machine_id = (ProtobufCBinaryData){9, (uint8_t *)"machine-1"};
    hello.boot_id = (ProtobufCBinaryData){6, (uint8_t *)"boot-1"};
    hello.seen = revision + 1;
    command.kind_case = XCE__V1__COMMAND__KIND_HELLO;
    command.hello = &hello;
    assert_int_equal(kit_apply(&kit, &command), FSM_PRECONDITION);
    /* However often it tries: that alone does not bring the state there. */
    assert_int_equal(fsm_revision(kit.fsm), revision);
    assert_int_equal(kit_node(&kit, "n1")->session, session);
    hello.seen = revision;
    assert_int_equal(kit_apply(&kit, &command), FSM_OK);
}

static void node_hello_brings_proofs(void **state)
{
    Xce__V1__CmdMember proof = XCE__V1__CMD_MEMBER__INIT;
    Xce__V1__CmdMember *proofs[] = {&proof};
    Xce__V1__CmdHello hello = XCE__V1__CMD_HELLO__INIT;
    Xce__V1__Command command = XCE__V1__COMMAND__INIT;
    uint64_t id;

    kit_acquire(&kit, &(struct kit_grant){0});
    id = kit.out_leases[0];
    hello.node = (ProtobufCBinaryData){2, (uint8_t *)"n1"};
    hello.machine_id = (ProtobufCBinaryData){9, (uint8_t *)"machine-1"};
    hello.boot_id = (ProtobufCBinaryData){6, (uint8_t *)"boot-1"};
    proof.uid = kit_lease(&kit, id)->uid;
    proof.epoch = kit_lease(&kit, id)->epoch;
    proof.kind = KIT_READY;
    hello.n_proofs = 1;
    hello.proofs = proofs;
    command.kind_case = XCE__V1__COMMAND__KIND_HELLO;
    command.hello = &hello;
    assert_int_equal(kit_apply(&kit, &command), FSM_OK);
    assert_int_equal(kit_state(&kit, id), LEASE_ACTIVE);
    /* The node's own change comes last: its watermark must cover all of this. */
    assert_int_equal(kit.changes[kit.n_changes - 1].kind, CHANGE_NODE);
}

static void node_name_is_kept_for_its_machine_until_that_is_fenced(void **state)
{
    assert_int_equal(kit_hello(&kit, "n1", "machine-x", "boot-x", false), FSM_PRECONDITION);
    assert_string_equal(kit.out.message, "node n1 is machine machine-1 (ready): machine machine-x "
                                         "can take the name when that one is fenced");
    assert_int_equal(kit.n_changes, 1);
    assert_string_equal(kit_node(&kit, "n1")->rival.machine_id, "machine-x");
    kit_lost(&kit, "n1", false);
    assert_int_equal(kit_hello(&kit, "n1", "machine-x", "boot-x", false), FSM_PRECONDITION);
    assert_int_equal(kit.n_changes, 0);
    kit_fence(&kit, "n1", "machine-1", "boot-1");
    assert_int_equal(kit_hello(&kit, "n1", "machine-x", "boot-x", false), FSM_OK);
    assert_int_equal(node_is("n1"), NODE_UNKNOWN);
    assert_string_equal(kit_node(&kit, "n1")->machine_id, "machine-x");
    assert_int_equal(kit_hello(&kit, "n1", "machine-1", "boot-7", false), FSM_PRECONDITION);
}

static void node_hello_without_its_names_is_refused(void **state)
{
    assert_int_equal(kit_hello(&kit, "", "m", "b", false), FSM_INVALID);
    assert_int_equal(kit_hello(&kit, "n3", "", "b", false), FSM_INVALID);
    assert_int_equal(kit_hello(&kit, "n3", "m", "", false), FSM_INVALID);
    assert_int_equal(kit_hello(&kit, "n\n3", "m", "b", false), FSM_INVALID);
    assert_null(fsm_node(kit.fsm, "n3"));
}

/* ---- lost ---- */

static void node_lost_ends_its_leases_and_quarantines_what_it_owes(void **state)
{
    uint64_t active = kit_active(&kit, "n1,n2"), draining = kit_active(&kit, "n1");
    uint64_t cooling = kit_active(&kit, "n1");

    kit_release(&kit, draining, NULL);
    kit_release(&kit, cooling, NULL);
    kit_report(&kit, "n1", cooling, KIT_CLEAN, NULL);
    assert_int_equal(kit_lost(&kit, "n1", false), FSM_OK);
    assert_int_equal(node_is("n1"), NODE_LOST);
    assert_int_equal(kit_state(&kit, active), LEASE_DRAINING);
    assert_int_equal(kit_lease(&kit, active)->cause, END_MEMBER_LOST);
    assert_int_equal(kit_lease(&kit, active)->quarantine, QUARANTINE_MEMBER_LOST);
    assert_int_equal(kit_lease(&kit, draining)->quarantine, QUARANTINE_MEMBER_LOST);
    assert_int_equal(kit_lease(&kit, cooling)->quarantine, 0);
    assert_int_equal(kit_lost(&kit, "n1", false), FSM_OK);
    assert_int_equal(kit.n_changes, 0);
    /* It is back: it can prove, and is not trusted before a pass. */
    assert_int_equal(kit_lost(&kit, "n1", true), FSM_OK);
    assert_int_equal(node_is("n1"), NODE_UNKNOWN);
    assert_int_equal(kit_lease(&kit, active)->quarantine, 0);
    kit_watermark(&kit, "n1", kit_node(&kit, "n1")->hello_revision);
    assert_int_equal(node_is("n1"), NODE_UNKNOWN);
    kit_watermark(&kit, "n1", fsm_revision(kit.fsm));
    assert_int_equal(node_is("n1"), NODE_READY);
    assert_int_equal(kit_lost(&kit, "n1", true), FSM_OK);
    assert_int_equal(kit.n_changes, 0);
}

static void node_lost_may_still_prove_clean_but_not_ready(void **state)
{
    uint64_t id = kit_active(&kit, "n1"), granted;

    kit_lost(&kit, "n1", false);
    kit_report(&kit, "n1", id, KIT_CLEAN, NULL);
    assert_int_equal(kit_state(&kit, id), LEASE_COOLING);
    kit_lost(&kit, "n1", true);
    kit_watermarks(&kit);
    kit_acquire(&kit, &(struct kit_grant){.nodes = "n1,n2"});
    granted = kit.out_leases[0];
    kit_lost(&kit, "n1", false);
    kit_report(&kit, "n1", granted, KIT_READY, NULL);
    assert_int_not_equal(kit_state(&kit, granted), LEASE_ACTIVE);
}

/* ---- verbs ---- */

static void node_drained_keeps_its_leases_and_takes_no_more(void **state)
{
    uint64_t id = kit_active(&kit, "n1");

    kit.principal = "user:root";
    assert_int_equal(kit_verb(&kit, "n1", DRAIN, "new disk"), FSM_OK);
    assert_int_equal(node_is("n1"), NODE_DRAINING);
    assert_string_equal(kit_node(&kit, "n1")->reason, "new disk");
    assert_string_equal(kit_node(&kit, "n1")->actor, "user:root");
    assert_int_equal(kit_state(&kit, id), LEASE_ACTIVE);
    /* The wish survives restarts, losses and passes. */
    kit_hello(&kit, "n1", "machine-1", "boot-1", true);
    assert_int_equal(node_is("n1"), NODE_DRAINING);
    kit_hello(&kit, "n1", "machine-1", "boot-1", false);
    assert_int_equal(node_is("n1"), NODE_DRAINING);
    assert_int_not_equal(kit_node(&kit, "n1")->unknown_revision, 0);
    kit_verb(&kit, "n1", UNDRAIN, NULL);
    assert_int_equal(node_is("n1"), NODE_UNKNOWN);
    kit_verb(&kit, "n1", CORDON, "looks odd");
    kit_lost(&kit, "n1", false);
    assert_int_equal(node_is("n1"), NODE_LOST);
    kit_lost(&kit, "n1", true);
    assert_int_equal(node_is("n1"), NODE_CORDONED);
    assert_string_equal(kit_node(&kit, "n1")->reason, "looks odd");
    kit_watermarks(&kit);
    assert_int_equal(node_is("n1"), NODE_CORDONED);
    kit_verb(&kit, "n1", UNDRAIN, NULL);
    assert_int_equal(node_is("n1"), NODE_READY);
    assert_null(kit_node(&kit, "n1")->reason);
    assert_int_equal(kit_verb(&kit, "n1", UNDRAIN, NULL), FSM_OK);
    assert_int_equal(kit.n_changes, 0);
    assert_int_equal(kit_verb(&kit, "n8", DRAIN, NULL), FSM_NOT_FOUND);
    assert_int_equal(kit_verb(&kit, "n1", 77, NULL), FSM_UNSUPPORTED);
}

static void node_drained_is_a_witness_all_the_same(void **state)
{
    uint64_t id = kit_active(&kit, "n1");

    kit_verb(&kit, "n2", DRAIN, NULL);
    kit_release(&kit, id, NULL);
    kit_report(&kit, "n1", id, KIT_CLEAN, NULL);
    kit_elapse(&kit, 300000);
    kit_watermark(&kit, "n1", fsm_revision(kit.fsm));
    assert_int_equal(kit_state(&kit, id), LEASE_RETIRED);
    kit_watermark(&kit, "n2", fsm_revision(kit.fsm));
    assert_int_equal(kit_state(&kit, id), LEASE_FREE);
}

static void node_is_forgotten_only_when_nothing_can_depend_on_it(void **state)
{
    uint64_t id = kit_active(&kit, "n1");

    assert_int_equal(kit_verb(&kit, "n1", FORGET, NULL), FSM_PRECONDITION);
    assert_string_equal(kit.out.message, "node n1 is ready: only one that is fenced, or drained "
                                         "and heard, can be forgotten");
    kit_verb(&kit, "n1", DRAIN, NULL);
    assert_int_equal(kit_verb(&kit, "n1", FORGET, NULL), FSM_PRECONDITION);
    assert_string_equal(kit.out.message, "node n1 is a member of 1 leases that are not free");
    kit_finish(&kit, id);
    kit_verb(&kit, "n1", DRAIN, NULL);
    assert_int_equal(kit_verb(&kit, "n1", FORGET, NULL), FSM_PRECONDITION);
    assert_non_null(strstr(kit.out.message, "has not yet been looked through"));
    kit_watermarks(&kit);
    kit_hello(&kit, "n1", "machine-1", "boot-1", false);
    assert_int_equal(kit_verb(&kit, "n1", FORGET, NULL), FSM_PRECONDITION);
    kit_watermarks(&kit);
    assert_int_equal(kit_verb(&kit, "n1", FORGET, NULL), FSM_OK);
    assert_int_equal(kit.changes[0].kind, CHANGE_NODE_GONE);
    assert_string_equal(kit.changes[0].name, "n1");
    assert_null(fsm_node(kit.fsm, "n1"));
    assert_int_equal(kit_hello(&kit, "n1", "machine-7", "boot-7", false), FSM_OK);
}

/* ---- fence ---- */

static void node_is_fenced_only_when_lost_and_under_its_ids(void **state)
{
    assert_int_equal(kit_fence(&kit, "n1", "machine-1", "boot-1"), FSM_PRECONDITION);
    assert_string_equal(kit.out.message, "node n1 is ready: only one that is lost can be fenced");
    kit_lost(&kit, "n1", false);
    assert_int_equal(kit_fence(&kit, "n1", "machine-2", "boot-1"), FSM_PRECONDITION);
    assert_int_equal(kit_fence(&kit, "n1", "machine-1", "boot-2"), FSM_PRECONDITION);
    assert_string_equal(kit.out.message, "node n1: its boot-id is boot-1, not the one given");
    assert_int_equal(kit_fence(&kit, "n1", "machine-1", ""), FSM_PRECONDITION);
    assert_int_equal(kit_fence(&kit, "n1", "machine-1", "boot-1"), FSM_OK);
    assert_int_equal(node_is("n1"), NODE_FENCED);
    assert_int_equal(kit_fence(&kit, "n1", "machine-1", "boot-1"), FSM_OK);
    assert_int_equal(kit.n_changes, 0);
    assert_int_equal(kit_verb(&kit, "n1", DRAIN, NULL), FSM_PRECONDITION);
    assert_int_equal(kit_verb(&kit, "n1", UNDRAIN, NULL), FSM_PRECONDITION);
}

static void node_fenced_has_proved_all_it_owes(void **state)
{
    uint64_t draining = kit_active(&kit, "n1,n2"), retired = kit_active(&kit, "n1");
    uint64_t live = kit_active(&kit, "n1,n2"), dirty = kit_active(&kit, "n1");

    kit_release(&kit, retired, NULL);
    kit_report(&kit, "n1", retired, KIT_CLEAN, NULL);
    kit_release(&kit, live, "n1");
    kit_release(&kit, dirty, NULL);
    kit_report(&kit, "n1", dirty, KIT_DIRTY, "file");
    kit_lost(&kit, "n1", false);
    kit_elapse(&kit, 300000);
    assert_int_equal(kit_state(&kit, retired), LEASE_RETIRED);
    kit_watermarks(&kit);
    assert_int_equal(kit_state(&kit, retired), LEASE_RETIRED);
    kit_fence(&kit, "n1", "machine-1", "boot-1");
    assert_int_equal(kit_state(&kit, retired), LEASE_FREE);
    assert_int_equal(kit_member(&kit, draining, "n1")->proof, PROOF_FENCED);
    assert_int_equal(kit_state(&kit, draining), LEASE_DRAINING);
    assert_int_equal(kit_member(&kit, live, "n1")->proof, PROOF_FENCED);
    assert_int_equal(kit_state(&kit, dirty), LEASE_COOLING);
    assert_int_equal(kit_lease(&kit, dirty)->quarantine, 0);
    kit_finish(&kit, draining);
    assert_int_equal(kit_state(&kit, draining), LEASE_FREE);
    /* Nothing it says counts any more. */
    assert_int_equal(kit_report_uid(&kit, "n1", 0, KIT_FIRST_UID, 1, KIT_CLEAN, NULL), FSM_IGNORED);
    assert_int_equal(kit_report_uid(&kit, "n1", 1, KIT_FIRST_UID, 1, KIT_CLEAN, NULL), FSM_IGNORED);
}

static void node_fenced_that_comes_back_in_another_boot_is_welcome(void **state)
{
    uint64_t id = kit_active(&kit, "n1");
    uint32_t uid = kit_lease(&kit, id)->uid;

    kit_lost(&kit, "n1", false);
    kit_fence(&kit, "n1", "machine-1", "boot-1");
    kit_elapse(&kit, 300000);
    kit_watermarks(&kit);
    assert_int_equal(kit_state(&kit, id), LEASE_FREE);
    assert_int_equal(kit_hello(&kit, "n1", "machine-1", "boot-2", false), FSM_OK);
    assert_int_equal(node_is("n1"), NODE_UNKNOWN);
    assert_int_equal(kit_pool(&kit)->n_blocked, 0);
    /* That boot is over for good: now the oath was true, whatever somebody says. */
    kit_lost(&kit, "n1", false);
    kit_fence(&kit, "n1", "machine-1", "boot-2");
    assert_int_equal(kit_hello(&kit, "n1", "machine-1", "boot-1", false), FSM_PRECONDITION);
    assert_int_equal(kit_pool(&kit)->n_blocked, 0);
    assert_int_equal(fsm_epoch_floor(kit.fsm, uid), 1);
    /* It was, of a machine; if it is heard over and over there are two. */
    for (int i = 0; i < 3; i++)
        kit_returns(&kit, "n1", "machine-1", "boot-1");
    assert_int_equal(kit_pool(&kit)->n_blocked, 1);
    assert_int_equal(kit_pool(&kit)->blocked[0].uid, uid);
}

/* Free by the oath, leased again since, and still waiting: all of it is taken back. */
static void node_fenced_whose_boot_speaks_takes_back_what_was_freed_on_it(void **state)
{
    uint64_t freed = kit_active(&kit, "n1"), again = kit_active(&kit, "n1"), waits;
    uint32_t freed_uid = kit_lease(&kit, freed)->uid, again_uid = kit_lease(&kit, again)->uid;
    uint64_t held;

    kit.principal = "user:root";
    kit_lost(&kit, "n1", false);
    kit_fence(&kit, "n1", "machine-1", "boot-1");
    kit_elapse(&kit, 300000);
    kit_watermarks(&kit);
    assert_int_equal(kit_state(&kit, freed), LEASE_FREE);
    for (int i = 0; i < 30; i++)
        kit_active(&kit, "n2");
    held = kit_active(&kit, "n2");
    assert_int_equal(kit_lease(&kit, held)->uid, freed_uid);
    waits = held;
    assert_int_equal(kit_hello(&kit, "n1", "machine-1", "boot-1", false), FSM_OK);
    assert_int_equal(kit_pool(&kit)->n_blocked, 1);
    assert_int_equal(kit_pool(&kit)->blocked[0].uid, again_uid);
    assert_string_equal(kit_pool(&kit)->blocked[0].reason, "oath");
    assert_non_null(strstr(kit_pool(&kit)->blocked[0].detail, "user:root swore that node n1"));
    assert_int_equal(kit_state(&kit, waits), LEASE_ACTIVE);
    assert_int_equal(kit_lease(&kit, waits)->quarantine, QUARANTINE_OATH);
    assert_true(kit_member(&kit, waits, "n1")->released);
    assert_non_null(strstr(kit_node(&kit, "n1")->reason, "swore that it is off"));
    kit_release(&kit, waits, NULL);
    kit_report(&kit, "n2", waits, KIT_CLEAN, NULL);
    assert_int_equal(kit_state(&kit, waits), LEASE_DRAINING);
    kit_report(&kit, "n1", waits, KIT_CLEAN, NULL);
    assert_int_equal(kit_state(&kit, waits), LEASE_COOLING);
    assert_int_equal(kit_lease(&kit, waits)->quarantine, 0);
}

static void node_fenced_whose_boot_speaks_owes_its_proofs_again(void **state)
{
    uint64_t draining = kit_active(&kit, "n1,n2"), cooling = kit_active(&kit, "n1");
    uint64_t retired = kit_active(&kit, "n1");

    kit_lost(&kit, "n1", false);
    kit_fence(&kit, "n1", "machine-1", "boot-1");
    kit_elapse(&kit, 300000);
    assert_int_equal(kit_state(&kit, retired), LEASE_RETIRED);
    kit_hello(&kit, "n1", "machine-1", "boot-1", false);
    assert_int_equal(kit_state(&kit, retired), LEASE_DRAINING);
    assert_int_equal(kit_state(&kit, cooling), LEASE_DRAINING);
    assert_int_equal(kit_member(&kit, draining, "n1")->proof, PROOF_PENDING);
    assert_int_equal(kit_lease(&kit, retired)->quarantine, QUARANTINE_OATH);
    kit_report(&kit, "n1", retired, KIT_CLEAN, NULL);
    assert_int_equal(kit_state(&kit, retired), LEASE_COOLING);
    assert_int_equal(kit_lease(&kit, retired)->quarantine, 0);
}

/* Let go by a lease that lived on elsewhere. */
static void node_fenced_whose_boot_speaks_owes_what_had_let_it_go(void **state)
{
    uint64_t live = kit_active(&kit, "n1,n2");

    kit_release(&kit, live, "n1");
    kit_lost(&kit, "n1", false);
    kit_fence(&kit, "n1", "machine-1", "boot-1");
    assert_int_equal(kit_member(&kit, live, "n1")->proof, PROOF_FENCED);
    kit_hello(&kit, "n1", "machine-1", "boot-1", false);
    assert_int_equal(kit_state(&kit, live), LEASE_ACTIVE);
    assert_int_equal(kit_member(&kit, live, "n1")->proof, PROOF_PENDING);
    kit_release(&kit, live, NULL);
    kit_report(&kit, "n2", live, KIT_CLEAN, NULL);
    assert_int_equal(kit_state(&kit, live), LEASE_DRAINING);
    assert_int_equal(kit_lease(&kit, live)->quarantine, QUARANTINE_OATH);
    kit_report(&kit, "n1", live, KIT_CLEAN, NULL);
    assert_int_equal(kit_state(&kit, live), LEASE_COOLING);
    assert_int_equal(kit_lease(&kit, live)->quarantine, 0);
}

/* Free by two oaths, neither of them true: each of the two owes. */
static void node_fenced_whose_boot_speaks_owes_beside_another(void **state)
{
    uint64_t id;
    uint32_t uid;

    kit_hello(&kit, "n2", "machine-2", "boot-2", true);
    kit_hello(&kit, "n3", "machine-3", "boot-3", true);
    kit_watermarks(&kit);
    id = kit_active(&kit, "n1,n2");
    uid = kit_lease(&kit, id)->uid;
    kit_lost(&kit, "n1", false);
    kit_lost(&kit, "n2", false);
    kit_fence(&kit, "n1", "machine-1", "boot-1");
    kit_fence(&kit, "n2", "machine-2", "boot-2");
    kit_elapse(&kit, 300000);
    kit_watermarks(&kit);
    assert_int_equal(kit_state(&kit, id), LEASE_FREE);
    for (int i = 0; i < 32; i++)
        id = kit_active(&kit, "n3");
    assert_int_equal(kit_lease(&kit, id)->uid, uid);
    kit_hello(&kit, "n1", "machine-1", "boot-1", false);
    kit_hello(&kit, "n2", "machine-2", "boot-2", false);
    assert_non_null(kit_member(&kit, id, "n1"));
    assert_non_null(kit_member(&kit, id, "n2"));
    kit_release(&kit, id, NULL);
    kit_report(&kit, "n3", id, KIT_CLEAN, NULL);
    kit_report(&kit, "n1", id, KIT_CLEAN, NULL);
    assert_int_equal(kit_state(&kit, id), LEASE_DRAINING);
    kit_report(&kit, "n2", id, KIT_CLEAN, NULL);
    assert_int_equal(kit_state(&kit, id), LEASE_COOLING);
}

/* Its name has gone to another machine, or it has another name now: nobody can prove for it. */
static void node_fenced_whose_boot_speaks_elsewhere_blocks_what_rests_on_it(void **state)
{
    for (int renamed = 0; renamed < 2; renamed++) {
        uint64_t freed = kit_active(&kit, "n1"), waits;
        uint32_t freed_uid = kit_lease(&kit, freed)->uid, waits_uid;
        char machine[16], boot[16];

        snprintf(machine, sizeof(machine), "%s", kit_node(&kit, "n1")->machine_id);
        snprintf(boot, sizeof(boot), "%s", kit_node(&kit, "n1")->boot_id);
        waits = kit_active(&kit, "n1,n2");
        waits_uid = kit_lease(&kit, waits)->uid;
        kit_lost(&kit, "n1", false);
        kit_fence(&kit, "n1", machine, boot);
        kit_elapse(&kit, 300000);
        kit_watermarks(&kit);
        assert_int_equal(kit_state(&kit, freed), LEASE_FREE);
        if (renamed) {
            assert_int_equal(kit_hello(&kit, "m1", machine, boot, false), FSM_OK);
        } else {
            kit_hello(&kit, "n1", "machine-x", "boot-x", false);
            assert_int_equal(kit_hello(&kit, "n1", machine, boot, false), FSM_PRECONDITION);
        }
        assert_int_equal(kit_pool(&kit)->n_blocked, 2 * renamed + 2);
        assert_int_equal(kit_pool(&kit)->blocked[2 * renamed].uid, freed_uid);
        assert_int_equal(kit_pool(&kit)->blocked[2 * renamed + 1].uid, waits_uid);
        kit_finish(&kit, waits);
        kit_watermarks(&kit);
        assert_int_equal(kit_state(&kit, waits), LEASE_FREE);
        assert_int_equal(kit_counts(&kit).blocked, 2 * renamed + 2);
    }
}

static void node_forgotten_after_its_fence_is_still_remembered_by_its_boot(void **state)
{
    uint64_t freed = kit_active(&kit, "n1");
    uint32_t uid = kit_lease(&kit, freed)->uid;

    kit_lost(&kit, "n1", false);
    kit_fence(&kit, "n1", "machine-1", "boot-1");
    kit_elapse(&kit, 300000);
    kit_watermarks(&kit);
    assert_int_equal(kit_verb(&kit, "n1", FORGET, NULL), FSM_OK);
    assert_int_equal(kit_hello(&kit, "n1", "machine-1", "boot-1", false), FSM_OK);
    assert_int_equal(kit_pool(&kit)->n_blocked, 1);
    assert_int_equal(kit_pool(&kit)->blocked[0].uid, uid);
}

/* A pool that goes does not take with it what is known of its uids. */
static void node_fenced_whose_boot_speaks_blocks_beyond_the_pool(void **state)
{
    uint64_t freed = kit_active(&kit, "n1");
    uint32_t uid = kit_lease(&kit, freed)->uid;

    kit_lost(&kit, "n1", false);
    kit_fence(&kit, "n1", "machine-1", "boot-1");
    kit_elapse(&kit, 300000);
    kit_watermarks(&kit);
    kit_pool_retire(&kit, "main");
    assert_null(kit_pool(&kit));
    assert_int_equal(kit_hello(&kit, "n1", "machine-1", "boot-1", false), FSM_OK);
    assert_int_equal(kit_pool_create(&kit, "main", KIT_FIRST_UID, KIT_FIRST_UID + 9), FSM_OK);
    assert_int_equal(kit_pool(&kit)->n_blocked, 1);
    assert_int_equal(kit_pool(&kit)->blocked[0].uid, uid);
    assert_non_null(strstr(kit_pool(&kit)->blocked[0].detail, "that boot is alive"));
    /* Nor does one go while it has such a uid. */
    kit_pool_retire(&kit, "main");
    assert_non_null(kit_pool(&kit));
    assert_int_equal(kit_unblock(&kit, uid), FSM_OK);
    assert_null(kit_pool(&kit));
}

/* ---- blocks ---- */

static void node_blocks_a_free_uid(void **state)
{
    uint32_t ahead[2];

    assert_int_equal(kit_block(&kit, "n1", KIT_FIRST_UID, "account"), FSM_OK);
    assert_int_equal(kit.changes[0].kind, CHANGE_POOL);
    assert_int_equal(kit_counts(&kit).blocked, 1);
    assert_string_equal(kit_pool(&kit)->blocked[0].node, "n1");
    assert_string_equal(kit_pool(&kit)->blocked[0].reason, "account");
    assert_string_equal(kit_pool(&kit)->blocked[0].detail, "user bob");
    assert_int_equal(fsm_pool_ahead(kit_pool(&kit), ahead, 2), 2);
    assert_int_equal(ahead[0], KIT_FIRST_UID + 1);
    kit_block(&kit, "n2", KIT_FIRST_UID, "group");
    assert_int_equal(kit.n_changes, 0);
    kit_block(&kit, "n2", 4711, "group");
    assert_int_equal(kit.n_changes, 0);
    assert_int_equal(kit_unblock(&kit, KIT_FIRST_UID), FSM_OK);
    assert_int_equal(kit_unblock(&kit, KIT_FIRST_UID), FSM_NOT_FOUND);
    assert_int_equal(kit_unblock(&kit, 4711), FSM_INVALID);
    /* To the end of the line. */
    for (int i = 0; i < 31; i++)
        assert_int_not_equal(kit_lease(&kit, kit_active(&kit, "n1"))->uid, KIT_FIRST_UID);
    assert_int_equal(kit_lease(&kit, kit_active(&kit, "n1"))->uid, KIT_FIRST_UID);
}

static void node_block_of_a_leased_uid_lets_the_lease_live(void **state)
{
    uint64_t id = kit_active(&kit, "n1");

    kit_block(&kit, "n2", KIT_FIRST_UID, "group-member");
    assert_int_equal(kit_state(&kit, id), LEASE_ACTIVE);
    assert_int_equal(kit_counts(&kit).blocked, 0);
    kit_unblock(&kit, KIT_FIRST_UID);
    kit_block(&kit, "n2", KIT_FIRST_UID, "group-member");
    kit_finish(&kit, id);
    assert_int_equal(kit_counts(&kit).blocked, 1);
}

static void stray(const char *node, uint32_t uid)
{
    kit_report_uid(&kit, node, kit_node(&kit, node)->session, uid, 0, KIT_STRAY, "process");
}

static void clean(const char *node, uint32_t uid)
{
    kit_report_uid(&kit, node, kit_node(&kit, node)->session, uid, 0, KIT_CLEAN, NULL);
}

static void node_that_finds_a_stray_under_a_free_uid_blocks_it_until_its_next_pass(void **state)
{
    uint64_t before;

    stray("n1", KIT_FIRST_UID + 5);
    before = fsm_revision(kit.fsm) - 1;
    assert_int_equal(kit_pool(&kit)->n_blocked, 1);
    assert_string_equal(kit_pool(&kit)->blocked[0].reason, "stray");
    assert_int_equal(kit_counts(&kit).blocked, 1);
    /* Neither a pass that began before, nor that of another, says that it is gone. */
    kit_watermark(&kit, "n1", before);
    kit_watermark(&kit, "n2", before + 1);
    assert_int_equal(kit_counts(&kit).blocked, 1);
    kit_watermark(&kit, "n1", before + 1);
    assert_int_equal(kit.n_changes, 1);
    assert_int_equal(kit.changes[0].kind, CHANGE_POOL);
    assert_int_equal(kit_counts(&kit).blocked, 0);
    assert_int_equal(kit_pool(&kit)->n_blocked, 0);
    /* At the end of the line. */
    for (int i = 0; i < 31; i++)
        assert_int_not_equal(kit_lease(&kit, kit_active(&kit, "n1"))->uid, KIT_FIRST_UID + 5);
    assert_int_equal(kit_lease(&kit, kit_active(&kit, "n1"))->uid, KIT_FIRST_UID + 5);
}

static void node_that_leaves_something_of_a_free_uid_blocks_it_until_it_is_clean(void **state)
{
    kit_block(&kit, "n1", KIT_FIRST_UID + 5, "leftover");
    /* No pass looks for all that may lie around. */
    kit_watermarks(&kit);
    clean("n2", KIT_FIRST_UID + 5);
    clean("n1", KIT_FIRST_UID + 6);
    assert_int_equal(kit.n_changes, 0);
    assert_int_equal(kit_counts(&kit).blocked, 1);
    clean("n1", KIT_FIRST_UID + 5);
    assert_int_equal(kit_counts(&kit).blocked, 0);
    /* An account goes by no word of a node. */
    kit_block(&kit, "n1", KIT_FIRST_UID + 5, "account");
    clean("n1", KIT_FIRST_UID + 5);
    kit_watermarks(&kit);
    assert_int_equal(kit_counts(&kit).blocked, 1);
}

static void node_block_that_stays_is_not_ended_by_one_that_passes(void **state)
{
    kit_hello(&kit, "n3", "machine-3", "boot-1", false);
    stray("n1", KIT_FIRST_UID + 5);
    kit_block(&kit, "n2", KIT_FIRST_UID + 5, "account");
    kit_block(&kit, "n3", KIT_FIRST_UID + 5, "account");
    stray("n1", KIT_FIRST_UID + 5);
    kit_block(&kit, "n1", KIT_FIRST_UID + 5, "leftover");
    assert_int_equal(kit_pool(&kit)->n_blocked, 3);
    kit_watermarks(&kit);
    clean("n1", KIT_FIRST_UID + 5);
    assert_int_equal(kit_pool(&kit)->n_blocked, 1);
    assert_string_equal(kit_pool(&kit)->blocked[0].reason, "account");
    assert_string_equal(kit_pool(&kit)->blocked[0].node, "n2");
    assert_int_equal(kit_counts(&kit).blocked, 1);
}

static void node_blocks_that_pass_end_when_each_node_says_so(void **state)
{
    uint32_t uid = KIT_FIRST_UID + 5;

    kit_hello(&kit, "n3", "machine-3", "boot-1", false);
    kit_watermarks(&kit);
    kit_block(&kit, "n1", uid, "leftover");
    kit_block(&kit, "n2", uid, "leftover");
    kit_block(&kit, "n2", uid, "leftover");
    assert_int_equal(kit.n_changes, 0);
    stray("n1", uid);
    assert_int_equal(kit_pool(&kit)->n_blocked, 3);
    clean("n3", uid);
    clean("n1", uid);
    assert_int_equal(kit.n_changes, 1);
    assert_int_equal(kit_pool(&kit)->n_blocked, 2);
    assert_string_equal(kit_pool(&kit)->blocked[0].node, "n2");
    kit_watermarks(&kit);
    assert_int_equal(kit_pool(&kit)->n_blocked, 1);
    assert_int_equal(kit_counts(&kit).blocked, 1);
    clean("n2", uid);
    assert_int_equal(kit_pool(&kit)->n_blocked, 0);
    assert_int_equal(kit_counts(&kit).blocked, 0);
    for (int i = 0; i < 31; i++)
        assert_int_not_equal(kit_lease(&kit, kit_active(&kit, "n1"))->uid, uid);
    assert_int_equal(kit_lease(&kit, kit_active(&kit, "n1"))->uid, uid);
}

static void node_block_of_many_is_ended_by_an_administrator_at_once(void **state)
{
    kit_hello(&kit, "n3", "machine-3", "boot-1", false);
    stray("n1", KIT_FIRST_UID + 5);
    stray("n2", KIT_FIRST_UID + 5);
    kit_block(&kit, "n3", KIT_FIRST_UID + 5, "account");
    assert_int_equal(kit_unblock(&kit, KIT_FIRST_UID + 5), FSM_OK);
    assert_int_equal(kit_pool(&kit)->n_blocked, 0);
    assert_int_equal(kit_counts(&kit).blocked, 0);
    assert_int_equal(kit_unblock(&kit, KIT_FIRST_UID + 5), FSM_NOT_FOUND);
}

/* Of whom there is no room to remember that he found something nobody could say that it is gone. */
static void node_block_that_too_many_find_stays(void **state)
{
    struct kit many;
    char name[16];

    kit_start(&many, 4, FSM_UID_FINDINGS + 2);
    many.light = true;
    for (int n = 1; n <= FSM_UID_FINDINGS + 2; n++) {
        (void)snprintf(name, sizeof(name), "n%d", n);
        kit_block(&many, name, KIT_FIRST_UID, "leftover");
    }
    assert_int_equal(kit_pool(&many)->n_blocked, FSM_UID_FINDINGS);
    for (int n = 1; n <= FSM_UID_FINDINGS + 2; n++) {
        (void)snprintf(name, sizeof(name), "n%d", n);
        kit_report_uid(&many, name, kit_node(&many, name)->session, KIT_FIRST_UID, 0, KIT_CLEAN,
                       NULL);
    }
    assert_int_equal(kit_pool(&many)->n_blocked, 1);
    assert_non_null(strstr(kit_pool(&many)->blocked[0].detail, "also leftover on node n65"));
    assert_int_equal(kit_counts(&many).blocked, 1);
    assert_null(fsm_verify(many.fsm));
    kit_done(&many);
}

static void node_that_finds_another_stray_blocks_until_a_pass_after_that(void **state)
{
    uint64_t before;

    stray("n1", KIT_FIRST_UID + 5);
    before = fsm_revision(kit.fsm);
    stray("n1", KIT_FIRST_UID + 5);
    assert_int_equal(kit.n_changes, 1);
    assert_int_equal(kit.changes[0].kind, CHANGE_POOL);
    kit_watermark(&kit, "n1", before);
    assert_int_equal(kit_counts(&kit).blocked, 1);
    kit_watermark(&kit, "n1", before + 1);
    assert_int_equal(kit_counts(&kit).blocked, 0);
    /* What it could not remove goes by its word, and not by a pass. */
    kit_block(&kit, "n1", KIT_FIRST_UID + 5, "leftover");
    kit_block(&kit, "n1", KIT_FIRST_UID + 5, "leftover");
    assert_int_equal(kit.n_changes, 0);
    clean("n1", KIT_FIRST_UID + 5);
    assert_int_equal(kit_counts(&kit).blocked, 0);
}

/* It holds no more than that, and what others say of a uid does not end what it could not hold. */
static void node_at_its_limit_keeps_a_uid_blocked_that_another_has_found(void **state)
{
    struct kit many;
    uint32_t uid = KIT_FIRST_UID + FSM_NODE_PASSING;

    kit_start(&many, 2 * FSM_NODE_PASSING, 2);
    many.light = true;
    for (uint32_t i = 0; i < FSM_NODE_PASSING; i++)
        kit_report_uid(&many, "n1", kit_node(&many, "n1")->session, KIT_FIRST_UID + i, 0, KIT_STRAY,
                       "process");
    assert_int_equal(kit_node(&many, "n1")->state, NODE_READY);
    kit_block(&many, "n2", uid, "leftover");
    kit_report_uid(&many, "n1", kit_node(&many, "n1")->session, uid, 0, KIT_STRAY, "process");
    assert_int_equal(kit_node(&many, "n1")->state, NODE_CORDONED);
    kit_watermarks(&many);
    kit_report_uid(&many, "n2", kit_node(&many, "n2")->session, uid, 0, KIT_CLEAN, NULL);
    assert_int_equal(kit_counts(&many).blocked, 1);
    assert_non_null(strstr(kit_pool(&many)->blocked[0].detail, "also stray on node n1"));
    assert_null(fsm_verify(many.fsm));
    kit_done(&many);
}

static void node_block_of_who_is_gone_stays(void **state)
{
    stray("n2", KIT_FIRST_UID + 5);
    kit_lost(&kit, "n2", false);
    kit_watermarks(&kit);
    assert_int_equal(kit_counts(&kit).blocked, 1);
    kit_fence(&kit, "n2", "machine-2", "boot-1");
    assert_int_equal(kit_verb(&kit, "n2", XCE__V1__NODE_VERB__NODE_VERB_FORGET, NULL), FSM_OK);
    /* Another machine of that name knows nothing of it. */
    kit_hello(&kit, "n2", "machine-3", "boot-1", false);
    kit_watermarks(&kit);
    assert_int_equal(kit_counts(&kit).blocked, 1);
    assert_int_equal(kit_unblock(&kit, KIT_FIRST_UID + 5), FSM_OK);
}

static void node_that_was_lost_and_is_back_looks_again(void **state)
{
    stray("n2", KIT_FIRST_UID + 5);
    kit_lost(&kit, "n2", false);
    kit_hello(&kit, "n2", "machine-2", "boot-1", false);
    assert_int_equal(kit_counts(&kit).blocked, 1);
    kit_watermarks(&kit);
    assert_int_equal(kit_counts(&kit).blocked, 0);
}

static void node_that_cleans_up_is_not_cordoned_for_it(void **state)
{
    for (uint32_t i = 0; i < 20; i++)
        stray("n1", KIT_FIRST_UID + i);
    for (uint32_t i = 20; i < 30; i++)
        kit_block(&kit, "n1", KIT_FIRST_UID + i, "leftover");
    assert_int_equal(kit_counts(&kit).blocked, 30);
    assert_int_equal(node_is("n1"), NODE_READY);
    kit_watermarks(&kit);
    assert_int_equal(kit_counts(&kit).blocked, 10);
}

static void node_holds_so_many_uids_by_what_it_finds_and_no_more(void **state)
{
    struct kit many;
    uint64_t session;

    kit_start(&many, 300, 1);
    many.light = true;
    session = kit_node(&many, "n1")->session;
    for (uint32_t i = 0; i < 300; i++)
        kit_report_uid(&many, "n1", session, KIT_FIRST_UID + i, 0, KIT_STRAY, "process");
    assert_int_equal(kit_counts(&many).blocked, FSM_NODE_PASSING);
    assert_int_equal(kit_node(&many, "n1")->state, NODE_CORDONED);
    assert_non_null(strstr(kit_node(&many, "n1")->reason, "more than 256 uids"));
    assert_null(fsm_verify(many.fsm));
    kit_done(&many);
}

/* What it says again of uids that are blocked already does it no harm. */
static void node_at_its_limit_is_not_cordoned_for_what_it_says_again(void **state)
{
    struct kit many;
    uint64_t session;

    kit_start(&many, 300, 1);
    many.light = true;
    session = kit_node(&many, "n1")->session;
    for (uint32_t i = 0; i < 2 * FSM_NODE_PASSING; i++)
        kit_report_uid(&many, "n1", session, KIT_FIRST_UID + i % FSM_NODE_PASSING, 0, KIT_STRAY,
                       "process");
    assert_int_equal(kit_node(&many, "n1")->state, NODE_READY);
    kit_done(&many);
}

/* Only so many are listed, and only what is listed leaves by itself: the rest is as an account would be. */
static void node_that_finds_more_than_is_listed_blocks_it_for_good(void **state)
{
    static const char *const names[] = {"n1", "n2", "n3", "n4"};
    struct kit many;
    uint32_t at = 0;

    kit_start(&many, FSM_BLOCKED_MAX + 30, 5);
    many.light = true;
    for (unsigned n = 0; n < 4; n++)
        for (uint32_t i = 0; i < FSM_BLOCKED_MAX / 4; i++)
            kit_report_uid(&many, names[n], kit_node(&many, names[n])->session,
                           KIT_FIRST_UID + at++, 0, KIT_STRAY, "process");
    for (uint32_t i = 0; i < 20; i++)
        kit_report_uid(&many, "n5", kit_node(&many, "n5")->session, KIT_FIRST_UID + at++, 0,
                       KIT_STRAY, "process");
    assert_int_equal(kit_counts(&many).blocked, FSM_BLOCKED_MAX + FSM_NODE_BLOCKS);
    assert_int_equal(kit_node(&many, "n5")->state, NODE_CORDONED);
    assert_null(fsm_verify(many.fsm));
    kit_done(&many);
}

static void node_that_blocks_too_much_is_cordoned(void **state)
{
    for (uint32_t i = 0; i < 15; i++) {
        kit_block(&kit, "n1", KIT_FIRST_UID + i, "account");
        kit.now_ms += 60000;
    }
    assert_int_equal(node_is("n1"), NODE_READY);
    kit_block(&kit, "n1", KIT_FIRST_UID + 15, "account");
    assert_int_equal(node_is("n1"), NODE_CORDONED);
    assert_string_equal(kit_node(&kit, "n1")->reason, "blocked 16 uids within an hour");
    /* It has had its say for this hour. */
    kit_block(&kit, "n1", KIT_FIRST_UID + 16, "account");
    assert_int_equal(kit_counts(&kit).blocked, 16);
    kit_verb(&kit, "n1", UNDRAIN, NULL);
    kit_block(&kit, "n1", KIT_FIRST_UID + 16, "account");
    assert_int_equal(kit_counts(&kit).blocked, 17);
    assert_int_equal(node_is("n1"), NODE_READY);
}

static void node_that_blocks_now_and_then_is_not_cordoned(void **state)
{
    for (uint32_t i = 0; i < 32; i++) {
        kit_block(&kit, "n1", KIT_FIRST_UID + i, "account");
        kit.now_ms += 3600000 / 15;
    }
    assert_int_equal(node_is("n1"), NODE_READY);
    assert_int_equal(kit_counts(&kit).blocked, 32);
    assert_int_equal(kit_acquire(&kit, &(struct kit_grant){.nodes = "n2"}), FSM_EXHAUSTED);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, two_nodes, end)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(node_new_is_unknown_until_a_pass_after_its_hello),
        TEST(node_is_trusted_after_a_hello_only_if_all_was_in_order),
        TEST(node_reports_of_an_older_session_are_ignored),
        TEST(node_ready_of_before_a_hello_does_not_count),
        TEST(node_restarted_in_the_same_boot_keeps_its_active_leases),
        TEST(node_in_another_boot_has_lost_its_leases_and_owes_their_proofs),
        TEST(node_hello_brings_proofs),
        TEST(node_that_has_seen_more_than_there_is_is_refused),
        TEST(node_name_is_kept_for_its_machine_until_that_is_fenced),
        TEST(node_hello_without_its_names_is_refused),
        TEST(node_lost_ends_its_leases_and_quarantines_what_it_owes),
        TEST(node_lost_may_still_prove_clean_but_not_ready),
        TEST(node_drained_keeps_its_leases_and_takes_no_more),
        TEST(node_drained_is_a_witness_all_the_same),
        TEST(node_is_forgotten_only_when_nothing_can_depend_on_it),
        TEST(node_is_fenced_only_when_lost_and_under_its_ids),
        TEST(node_fenced_has_proved_all_it_owes),
        TEST(node_fenced_that_comes_back_in_another_boot_is_welcome),
        TEST(node_fenced_whose_boot_speaks_takes_back_what_was_freed_on_it),
        TEST(node_fenced_whose_boot_speaks_owes_its_proofs_again),
        TEST(node_fenced_whose_boot_speaks_owes_what_had_let_it_go),
        TEST(node_fenced_whose_boot_speaks_owes_beside_another),
        TEST(node_fenced_whose_boot_speaks_elsewhere_blocks_what_rests_on_it),
        TEST(node_forgotten_after_its_fence_is_still_remembered_by_its_boot),
        TEST(node_fenced_whose_boot_speaks_blocks_beyond_the_pool),
        TEST(node_blocks_a_free_uid),
        TEST(node_block_of_a_leased_uid_lets_the_lease_live),
        TEST(node_that_finds_a_stray_under_a_free_uid_blocks_it_until_its_next_pass),
        TEST(node_that_leaves_something_of_a_free_uid_blocks_it_until_it_is_clean),
        TEST(node_block_that_stays_is_not_ended_by_one_that_passes),
        TEST(node_blocks_that_pass_end_when_each_node_says_so),
        TEST(node_block_of_many_is_ended_by_an_administrator_at_once),
        TEST(node_block_that_too_many_find_stays),
        TEST(node_that_finds_another_stray_blocks_until_a_pass_after_that),
        cmocka_unit_test(node_at_its_limit_keeps_a_uid_blocked_that_another_has_found),
        TEST(node_block_of_who_is_gone_stays),
        TEST(node_that_was_lost_and_is_back_looks_again),
        TEST(node_that_cleans_up_is_not_cordoned_for_it),
        cmocka_unit_test(node_holds_so_many_uids_by_what_it_finds_and_no_more),
        cmocka_unit_test(node_at_its_limit_is_not_cordoned_for_what_it_says_again),
        cmocka_unit_test(node_that_finds_more_than_is_listed_blocks_it_for_good),
        TEST(node_that_blocks_too_much_is_cordoned),
        TEST(node_that_blocks_now_and_then_is_not_cordoned),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
