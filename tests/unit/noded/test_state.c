/* The life of leases on a node, as stories: what leased shows, what the node does and says. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <errno.h>
#include <stdlib.h>
#include <time.h>

#include "tests/unit/noded/state_fixture.h"
#include "xce/map.h"

static void state_lease_lives_and_ends(void **state)
{
    struct fixture *f = *state;

    session(f, true);
    shows(f, 0, 1, STATE_GRANTED, PROOF_NONE);
    expect(f, "vet 0/1; persist 0/1;");
    assert_int_equal(state_standing(f->state, UID), STANDS_NAMED);
    vetted(f);
    expect(f, "set 0/1 1 member;");
    assert_int_equal(state_standing(f->state, UID), STANDS_HERE);
    state_persisted(f->state, 0);
    expect(f, "READY 0/1;");
    shows(f, 0, 1, STATE_ACTIVE, PROOF_READY);
    expect(f, "set 0/1 2 member;");
    shows(f, 0, 1, STATE_DRAINING, PROOF_NONE);
    expect(f, "close 0/1; set 0/1 3 member closed; persist 0/1c; sweep 0/1c; kill 0/1;");
    assert_int_equal(state_standing(f->state, UID), STANDS_SWEPT);
    swept(f);
    expect(f, "");
    state_persisted(f->state, 0);
    expect(f, "CLEAN 0/1; persist 0/1cs;");
    state_persisted(f->state, 0);
    shows(f, 0, 1, STATE_COOLING, PROOF_CLEAN);
    expect(f, "set 0/1 5 member closed;");
    assert_int_equal(state_standing(f->state, UID), STANDS_NAMED);
    shows(f, 0, 1, STATE_RETIRED, PROOF_CLEAN);
    expect(f, "retire 0/1;");
    assert_int_equal(state_standing(f->state, UID), STANDS_NOT);
    shows(f, 0, 1, STATE_FREE, PROOF_CLEAN);
    expect(f, "retire 0/1;");
    shows(f, 0, 2, STATE_GRANTED, PROOF_NONE);
    expect(f, "vet 0/2; persist 0/2;");
}

/* pam_xce lets nobody in before it is in the map that this node is ready, nor must it ever vanish from there. */
static void state_map_says_ready_as_long_as_it_is_so(void **state)
{
    struct fixture *f = *state;

    session(f, true);
    shows(f, 0, 1, STATE_GRANTED, PROOF_NONE);
    state_flush(f->state, f->now, true);
    vetted(f);
    assert_int_equal(f->flags, XCE_MAP_MEMBER);
    state_persisted(f->state, 0);
    assert_int_equal(f->flags, XCE_MAP_MEMBER | XCE_MAP_SAID_READY);
    shows(f, 0, 1, STATE_ACTIVE, PROOF_READY);
    assert_int_equal(f->set_flags, XCE_MAP_MEMBER | XCE_MAP_SAID_READY);
    session(f, true);
    shows(f, 0, 1, STATE_ACTIVE, PROOF_READY);
    assert_int_equal(f->set_flags, XCE_MAP_MEMBER | XCE_MAP_SAID_READY);
    shows(f, 0, 1, STATE_DRAINING, PROOF_READY);
    assert_int_equal(f->set_flags & (XCE_MAP_MEMBER | XCE_MAP_CLOSED),
                     XCE_MAP_MEMBER | XCE_MAP_CLOSED);
}

static void state_ready_waits_for_disk_and_vetting_in_either_order(void **state)
{
    struct fixture *f = *state;

    session(f, true);
    shows(f, 0, 1, STATE_GRANTED, PROOF_NONE);
    expect(f, "vet 0/1; persist 0/1;");
    state_persisted(f->state, 0);
    expect(f, "");
    vetted(f);
    expect(f, "set 0/1 1 member; READY 0/1;");
}

/* What ran while it was swept, or since, may have left something where the sweep had been. */
static void state_stray_of_what_is_swept_is_swept_for_again(void **state)
{
    struct fixture *f = *state;

    session(f, true);
    make_here(f, 0, 1);
    shows(f, 0, 1, STATE_DRAINING, PROOF_NONE);
    expect(f, "close 0/1; set 0/1 3 member closed; persist 0/1c; sweep 0/1c; kill 0/1;");
    state_stray(f->state, UID, REASON_PROCESS, "while it runs");
    expect(f, "");
    swept(f);
    expect(f, "sweep 0/1c;");
    swept(f);
    state_stray(f->state, UID, REASON_PROCESS, "while it is not on disk");
    expect(f, "sweep 0/1c;");
    state_persisted(f->state, 0);
    expect(f, "persist 0/1c;");
    state_persisted(f->state, 0);
    swept(f);
    expect(f, "CLEAN 0/1; persist 0/1cs;");
    state_persisted(f->state, 0);
    /* leased may have it already: it is taken back. */
    state_stray(f->state, UID, REASON_PROCESS, "when it was said");
    expect(f, "STRAY 0/1 process; persist 0/1c; sweep 0/1c;");
    state_persisted(f->state, 0);
    swept(f);
    expect(f, "CLEAN 0/1; persist 0/1cs;");
    shows(f, 0, 1, STATE_COOLING, PROOF_CLEAN);
    expect(f, "set 0/1 5 member closed;");
}

static void state_stray_of_what_is_dirty_waits_with_it(void **state)
{
    struct fixture *f = *state;

    session(f, true);
    make_here(f, 0, 1);
    shows(f, 0, 1, STATE_DRAINING, PROOF_NONE);
    expect(f, "close 0/1; set 0/1 3 member closed; persist 0/1c; sweep 0/1c; kill 0/1;");
    state_persisted(f->state, 0);
    swept_dirty(f, 0, 1, REASON_FILE);
    expect(f, "DIRTY 0/1 file;");
    state_stray(f->state, UID, REASON_PROCESS, "x");
    expect(f, "");
    elapse(f, 1000);
    expect(f, "sweep again 0/1c;");
}

/* What was let in dies at the next flush, whosever files are being swept, and for however long. */
static void state_end_kills_at_once_whatever_sweep_runs(void **state)
{
    struct fixture *f = *state;

    session(f, true);
    make_here(f, 0, 1);
    make_here(f, 1, 1);
    shows(f, 2, 1, STATE_DRAINING, PROOF_NONE); /* the one before us may have let it in */
    expect(f, "set 2/1 3 member closed; persist 2/1c; sweep 2/1c; kill 2/1;");
    shows(f, 0, 1, STATE_DRAINING, PROOF_NONE);
    expect(f, "close 0/1; set 0/1 3 member closed; kill 0/1;");
    state_pool_checked(f->state, "p", false);
    shows(f, 1, 1, STATE_DRAINING, PROOF_NONE);
    expect(f, "close 1/1; set 1/1 3 member closed; kill 1/1;");
    shows(f, 1, 1, STATE_DRAINING, PROOF_NONE);
    expect(f, "set 1/1 3 member closed;"); /* once */
}

/* A sweep that is given up at the end of noded may not have come to it, nor may whoever comes next for a while. */
static void state_end_of_the_node_kills_what_is_over(void **state)
{
    struct fixture *f = *state;

    session(f, true);
    make_here(f, 0, 1);
    make_here(f, 1, 1);
    make_here(f, 2, 1);
    shows(f, 0, 1, STATE_DRAINING, PROOF_NONE);
    shows(f, 2, 1, STATE_DRAINING, PROOF_NONE);
    expect(f, "close 0/1; set 0/1 3 member closed; close 2/1; set 2/1 3 member closed; "
              "persist 0/1c 2/1c; sweep 0/1c 2/1c; kill 0/1 2/1;");
    shows(f, 2, 1, STATE_COOLING, PROOF_CLEAN); /* and that is clean */
    state_kill_ended(f->state);
    expect(f, "set 2/1 5 member closed; kill 0/1;");
}

static void state_older_epoch_is_refused(void **state)
{
    struct fixture *f = *state;

    session(f, true);
    make_here(f, 0, 5);
    shows(f, 0, 4, STATE_GRANTED, PROOF_NONE);
    expect(f, "REFUSED 0/4 epoch;");
    shows(f, 0, 4, STATE_DRAINING, PROOF_NONE);
    expect(f, "DIRTY 0/4 epoch;");
    shows(f, 0, 4, STATE_FREE, PROOF_NONE);
    expect(f, "");
    assert_int_equal(state_standing(f->state, UID), STANDS_HERE);
}

/* Nothing else would say it: there is no lease of that epoch here. */
static void state_older_epoch_is_said_again_until_leased_has_heard(void **state)
{
    struct fixture *f = *state;

    session(f, true);
    make_here(f, 0, 5);
    shows(f, 0, 4, STATE_GRANTED, PROOF_NONE);
    expect(f, "REFUSED 0/4 epoch;");
    state_session_end(f->state);
    session(f, false);
    expect(f, "READY 0/5; REFUSED 0/4 epoch;");
    shows(f, 0, 4, STATE_DRAINING, PROOF_REFUSED);
    expect(f, "DIRTY 0/4 epoch;");
    state_session_end(f->state);
    session(f, false);
    expect(f, "READY 0/5; DIRTY 0/4 epoch;");
    shows(f, 0, 4, STATE_DRAINING, PROOF_DIRTY);
    state_session_end(f->state);
    session(f, false);
    expect(f, "READY 0/5;");
}

static void state_stray_is_said_again_if_the_session_ends_with_it(void **state)
{
    struct fixture *f = *state;

    session(f, true);
    state_full_done(f->state, 99);
    shows_foreign(f, 1, 4, STATE_COOLING);
    state_stray(f->state, UID + 1, REASON_PROCESS, "pid 1");
    state_stray(f->state, UID + 9, REASON_PROCESS, "pid 2");
    expect(f, "set 1/4 5; STRAY 1/4 process; STRAY 9/0 process;");
    state_session_end(f->state);
    session(f, false);
    expect(f, "STRAY 1/4 process; STRAY 9/0 process;");
    elapse(f, 4999);
    state_session_end(f->state);
    shows_foreign(f, 1, 5, STATE_ACTIVE); /* that one is over */
    session(f, false);
    expect(f, "set 1/5 2; STRAY 9/0 process;");
    elapse(f, 5000);
    state_session_end(f->state);
    session(f, false);
    expect(f, "");
}

static void state_epoch_of_the_disk_counts_after_a_restart(void **state)
{
    struct fixture *f = *state;

    state_recall_epoch(f->state, &(struct state_epoch){UID, 7, false, false});
    session(f, true);
    shows(f, 0, 6, STATE_GRANTED, PROOF_NONE);
    expect(f, "REFUSED 0/6 epoch;");
    shows(f, 0, 8, STATE_GRANTED, PROOF_NONE);
    expect(f, "");
    state_left_done(f->state, UID, true);
    expect(f, "vet 0/8; persist 0/8;");
}

static void state_bad_vetting_refuses_and_is_swept(void **state)
{
    struct fixture *f = *state;

    session(f, true);
    shows(f, 0, 1, STATE_GRANTED, PROOF_NONE);
    expect(f, "vet 0/1; persist 0/1;");
    vetted_badly(f, 0, 1, REASON_ACCOUNT);
    expect(f, "REFUSED 0/1 account; sweep 0/1c; kill 0/1;");
    state_persisted(f->state, 0);
    expect(f, "persist 0/1c;");
    state_persisted(f->state, 0);
    swept(f);
    /* leased has not heard of it yet: no CLEAN of a lease that is granted. */
    expect(f, "persist 0/1cs;");
    shows(f, 0, 1, STATE_DRAINING, PROOF_NONE);
    expect(f, "set 0/1 3 member closed; sweep 0/1cs; kill 0/1;");
    swept(f);
    expect(f, "CLEAN 0/1;");
}

static void state_knows_that_the_map_does_not_hold_all(void **state)
{
    struct fixture *f = *state;

    session(f, true);
    make_here(f, 0, 1);
    shows_foreign(f, 1, 4, STATE_ACTIVE);
    assert_true(state_is_in_map(f->state));
    f->map_r = -ENOSPC;
    shows_foreign(f, 2, 4, STATE_ACTIVE);
    assert_false(state_is_in_map(f->state));
    shows_foreign(f, 2, 4, STATE_RETIRED); /* without a name */
    assert_true(state_is_in_map(f->state));
    shows(f, 3, 1, STATE_DRAINING, PROOF_NONE);
    assert_false(state_is_in_map(f->state));
    f->len = 0;
}

static void state_no_room_refuses(void **state)
{
    struct fixture *f = *state;

    session(f, true);
    f->map_r = -ENOSPC;
    shows(f, 0, 1, STATE_GRANTED, PROOF_NONE);
    expect(f, "vet 0/1; persist 0/1;");
    vetted(f);
    expect(f, "REFUSED 0/1 no-space; sweep 0/1c; kill 0/1;");
    /* The disk is full, too: closed is tried again, the lease not. */
    state_persisted(f->state, -ENOSPC);
    expect(f, "");
    elapse(f, 1000);
    expect(f, "persist 0/1c;");
    f->map_r = 0;
    shows(f, 1, 1, STATE_GRANTED, PROOF_NONE);
    expect(f, "vet 1/1;");
    state_persisted(f->state, 0);
    expect(f, "persist 1/1;");
    state_persisted(f->state, -ENOSPC);
    expect(f, "REFUSED 1/1 no-space; kill 1/1;");
}

/* Whoever waits for its CLEAN is told what keeps it. */
static void state_end_that_can_not_be_written_is_dirty(void **state)
{
    struct fixture *f = *state;

    session(f, true);
    make_here(f, 0, 1);
    make_here(f, 1, 1);
    shows(f, 0, 1, STATE_DRAINING, PROOF_NONE);
    expect(f, "close 0/1; set 0/1 3 member closed; persist 0/1c; sweep 0/1c; kill 0/1;");
    swept(f);
    expect(f, "");
    state_persisted(f->state, -ENOSPC);
    expect(f, "DIRTY 0/1 no-space;");
    shows(f, 1, 1, STATE_DRAINING, PROOF_NONE);
    expect(f, "close 1/1; set 1/1 3 member closed; sweep 1/1c; kill 1/1;");
    swept(f);
    expect(f, "DIRTY 1/1 no-space;");
    elapse(f, 1000);
    expect(f, "persist 0/1cs 1/1cs;");
    state_persisted(f->state, -EIO);
    expect(f, "DIRTY 0/1 scan-failed; DIRTY 1/1 scan-failed;");
    elapse(f, 1000);
    expect(f, "persist 0/1cs 1/1cs;");
    state_persisted(f->state, 0);
    expect(f, "CLEAN 0/1; CLEAN 1/1;");
}

static void state_closed_stays_closed(void **state)
{
    struct fixture *f = *state;

    session(f, true);
    make_here(f, 0, 1);
    shows(f, 0, 1, STATE_DRAINING, PROOF_NONE);
    expect(f, "close 0/1; set 0/1 3 member closed; persist 0/1c; sweep 0/1c; kill 0/1;");
    /* However it comes about that it is shown as live again. */
    shows(f, 0, 1, STATE_ACTIVE, PROOF_NONE);
    expect(f, "set 0/1 2 member closed; REFUSED 0/1 closed;");
    assert_int_equal(state_standing(f->state, UID), STANDS_SWEPT);
}

static void state_closed_on_disk_stays_closed_without_a_map(void **state)
{
    struct fixture *f = *state;

    state_recall_epoch(f->state, &(struct state_epoch){UID, 3, true, false});
    session(f, true);
    shows(f, 0, 3, STATE_ACTIVE, PROOF_READY);
    expect(f, "set 0/3 2 member closed; REFUSED 0/3 closed; sweep 0/3c; kill 0/3;");
}

/* Its own word stands with leased, and it knows nothing of it: it may have closed admission since. */
static void state_ready_that_is_not_remembered_is_closed(void **state)
{
    struct fixture *f = *state;

    session(f, true);
    shows(f, 0, 3, STATE_ACTIVE, PROOF_READY);
    expect(f, "REFUSED 0/3 closed; set 0/3 2 member closed; persist 0/3c; sweep 0/3c; kill 0/3;");
}

static void state_map_lost_but_epoch_on_disk_is_here_again(void **state)
{
    struct fixture *f = *state;

    state_recall_epoch(f->state, &(struct state_epoch){UID, 3, false, false});
    session(f, true);
    shows(f, 0, 3, STATE_ACTIVE, PROOF_READY);
    expect(f, "set 0/3 2 member; READY 0/3;");
    /* It died between the disk and what the vetting would have found. */
    state_recall_epoch(f->state, &(struct state_epoch){UID + 1, 3, false, false});
    shows(f, 1, 3, STATE_GRANTED, PROOF_NONE);
    expect(f, "vet 1/3;");
    vetted(f);
    state_recall_epoch(f->state, &(struct state_epoch){UID + 2, 3, false, false});
    shows(f, 2, 3, STATE_ACTIVE, PROOF_NONE);
    expect(f, "set 1/3 1 member; READY 1/3; vet 2/3;");
}

static void state_was_admitted_until_it_is_closed_or_of_others(void **state)
{
    struct fixture *f = *state;

    assert_false(state_was_admitted(f->state, UID));
    state_recall_epoch(f->state, &(struct state_epoch){UID, 3, false, false});
    state_recall_epoch(f->state, &(struct state_epoch){UID + 1, 3, true, false});
    state_recall_epoch(f->state, &(struct state_epoch){UID + 2, 3, false, false});
    assert_true(state_was_admitted(f->state, UID));
    assert_false(state_was_admitted(f->state, UID + 1));
    session(f, true);
    shows(f, 0, 3, STATE_GRANTED, PROOF_NONE);
    assert_int_equal(state_standing(f->state, UID), STANDS_NAMED);
    assert_true(state_was_admitted(f->state, UID)); /* while it is vetted again */
    shows_foreign(f, 2, 3, STATE_ACTIVE);
    assert_false(state_was_admitted(f->state, UID + 2));
    shows(f, 0, 3, STATE_DRAINING, PROOF_NONE);
    assert_false(state_was_admitted(f->state, UID));
}

static void state_restart_takes_the_map_over(void **state)
{
    struct fixture *f = *state;
    struct state_lease lease;

    state_recall_epoch(f->state, &(struct state_epoch){UID, 2, false, false});
    state_recall_epoch(f->state, &(struct state_epoch){UID + 1, 2, false, false});
    state_recall_epoch(f->state, &(struct state_epoch){UID + 2, 2, true, false});
    lease = lease_of(f, 0, 2, STATE_ACTIVE, PROOF_NONE);
    state_recall_lease(f->state, &lease, false);
    lease = lease_of(f, 1, 2, STATE_DRAINING, PROOF_NONE);
    state_recall_lease(f->state, &lease, false);
    lease = lease_of(f, 2, 2, STATE_ACTIVE, PROOF_NONE);
    state_recall_lease(f->state, &lease, false);
    assert_int_equal(state_standing(f->state, UID), STANDS_HERE);
    assert_int_equal(state_standing(f->state, UID + 1), STANDS_SWEPT);
    assert_int_equal(state_standing(f->state, UID + 2), STANDS_SWEPT);
    /* Without leased it sweeps already, and says nothing. */
    expect(f, "close 1/2; close 1/2; close 2/2; persist 1/2c; sweep 1/2c 2/2c; kill 1/2 2/2;");
    state_persisted(f->state, 0);
    swept(f);
    expect(f, "persist 1/2cs 2/2cs;");
    session(f, true);
    expect(f, "REFUSED 2/2 closed; READY 0/2; sweep 2/2cs 1/2cs;");
    swept(f);
    expect(f, "CLEAN 1/2;");
}

static void state_new_session_says_all_anew(void **state)
{
    struct fixture *f = *state;

    session(f, true);
    make_here(f, 0, 1);
    shows(f, 1, 1, STATE_DRAINING, PROOF_NONE);
    expect(f, "set 1/1 3 member closed; persist 1/1c; sweep 1/1c; kill 1/1;");
    state_persisted(f->state, 0);
    swept(f);
    expect(f, "CLEAN 1/1; persist 1/1cs;");
    state_persisted(f->state, 0);
    state_session_end(f->state);
    elapse(f, 60000);
    expect(f, "");
    session(f, false);
    /* Clean is said again only after another look. */
    expect(f, "READY 0/1; sweep 1/1cs;");
    swept(f);
    expect(f, "CLEAN 1/1;");
}

static void state_sweep_that_ran_into_a_new_session_is_done_again(void **state)
{
    struct fixture *f = *state;

    session(f, true);
    shows(f, 0, 1, STATE_DRAINING, PROOF_NONE);
    expect(f, "set 0/1 3 member closed; persist 0/1c; sweep 0/1c; kill 0/1;");
    state_persisted(f->state, 0);
    state_session_end(f->state);
    session(f, false);
    swept(f);
    expect(f, "sweep 0/1c;");
    swept(f);
    expect(f, "CLEAN 0/1; persist 0/1cs;");
}

static void state_dirty_is_said_retried_and_becomes_clean(void **state)
{
    struct fixture *f = *state;
    struct state_counts counts;

    session(f, true);
    shows(f, 0, 1, STATE_DRAINING, PROOF_NONE);
    expect(f, "set 0/1 3 member closed; persist 0/1c; sweep 0/1c; kill 0/1;");
    state_persisted(f->state, 0);
    swept_dirty(f, 0, 1, REASON_PROCESS_UNKILLABLE);
    expect(f, "DIRTY 0/1 process-unkillable;");
    shows(f, 0, 1, STATE_DRAINING, PROOF_DIRTY);
    expect(f, "set 0/1 3 member closed;");
    elapse(f, 999);
    expect(f, "");
    elapse(f, 1);
    expect(f, "sweep again 0/1c;");
    swept_dirty(f, 0, 1, REASON_PROCESS_UNKILLABLE);
    expect(f, "");
    elapse(f, 2000);
    expect(f, "sweep again 0/1c;");
    swept_dirty(f, 0, 1, REASON_FILE);
    expect(f, "DIRTY 0/1 file;");
    state_count(f->state, &counts);
    assert_int_equal(counts.dirty, 1);
    elapse(f, 4000);
    expect(f, "sweep again 0/1c;");
    swept(f);
    expect(f, "CLEAN 0/1; persist 0/1cs;");
    state_count(f->state, &counts);
    assert_int_equal(counts.dirty, 0);
}

static void state_unseen_report_is_said_again(void **state)
{
    struct fixture *f = *state;

    session(f, true);
    shows(f, 0, 1, STATE_GRANTED, PROOF_NONE);
    expect(f, "vet 0/1; persist 0/1;");
    state_persisted(f->state, 0);
    vetted(f);
    expect(f, "set 0/1 1 member; READY 0/1;");
    elapse(f, 4999);
    expect(f, "");
    elapse(f, 1);
    expect(f, "READY 0/1;");
    shows(f, 0, 1, STATE_ACTIVE, PROOF_READY);
    elapse(f, 60000);
    expect(f, "set 0/1 2 member;");
}

static void state_stray_is_said_where_it_was_clean_or_only_named(void **state)
{
    struct fixture *f = *state;

    session(f, true);
    make_here(f, 0, 1);
    state_stray(f->state, UID, REASON_PROCESS, "pid 1");
    expect(f, "");
    shows_foreign(f, 1, 4, STATE_ACTIVE);
    expect(f, "set 1/4 2;");
    assert_int_equal(state_standing(f->state, UID + 1), STANDS_NAMED);
    state_stray(f->state, UID + 1, REASON_PROCESS, "pid 1");
    expect(f, "STRAY 1/4 process;");
    state_stray(f->state, UID + 9, REASON_PROCESS, "pid 1");
    expect(f, "STRAY 9/0 process;");
    shows(f, 0, 1, STATE_DRAINING, PROOF_NONE);
    state_stray(f->state, UID, REASON_PROCESS, "pid 1");
    expect(f, "close 0/1; set 0/1 3 member closed; persist 0/1c; sweep 0/1c; kill 0/1;");
    state_persisted(f->state, 0);
    swept(f);
    expect(f, "CLEAN 0/1; persist 0/1cs;");
    state_persisted(f->state, 0);
    shows(f, 0, 1, STATE_COOLING, PROOF_CLEAN);
    state_stray(f->state, UID, REASON_PROCESS, "pid 1");
    expect(f, "set 0/1 5 member closed; STRAY 0/1 process; persist 0/1c;");
    /* leased puts it back: swept and said anew. */
    shows(f, 0, 1, STATE_DRAINING, PROOF_NONE);
    expect(f, "set 0/1 3 member closed; sweep 0/1c; kill 0/1;");
    state_persisted(f->state, 0);
    swept(f);
    expect(f, "CLEAN 0/1; persist 0/1cs;");
}

static void state_stray_makes_this_node_a_member(void **state)
{
    struct fixture *f = *state;

    session(f, true);
    shows_foreign(f, 0, 4, STATE_COOLING);
    state_stray(f->state, UID, REASON_PROCESS, "pid 1");
    expect(f, "set 0/4 5; STRAY 0/4 process;");
    shows(f, 0, 4, STATE_DRAINING, PROOF_NONE);
    expect(f, "close 0/4; set 0/4 3 member closed; persist 0/4c; sweep 0/4c; kill 0/4;");
    state_persisted(f->state, 0);
    swept(f);
    expect(f, "CLEAN 0/4; persist 0/4cs;");
}

/* Retired when this node first hears of it: its disk was lost, or it was fenced and is back. */
static void state_stray_of_what_has_retired_is_said(void **state)
{
    struct fixture *f = *state;

    session(f, true);
    shows(f, 0, 4, STATE_RETIRED, PROOF_CLEAN);
    expect(f, "retire 0/4;");
    state_stray(f->state, UID, REASON_MAIL, "/var/mail/x");
    expect(f, "STRAY 0/4 mail;");
    assert_true(state_is_retired(f->state, UID));
    shows(f, 0, 4, STATE_DRAINING, PROOF_NONE);
    expect(f, "set 0/4 3 member closed; persist 0/4c; sweep 0/4c; kill 0/4;");
    assert_false(state_is_retired(f->state, UID));
}

static void state_what_is_free_is_retired_no_more(void **state)
{
    struct fixture *f = *state;

    session(f, true);
    shows_foreign(f, 0, 4, STATE_RETIRED);
    assert_true(state_is_retired(f->state, UID));
    assert_false(state_is_retired(f->state, UID + 1));
    shows_foreign(f, 0, 4, STATE_FREE);
    assert_false(state_is_retired(f->state, UID));
    shows_foreign(f, 0, 5, STATE_GRANTED);
    assert_false(state_is_retired(f->state, UID));
}

static void state_member_added_while_active_is_vetted(void **state)
{
    struct fixture *f = *state;

    session(f, true);
    shows_foreign(f, 0, 4, STATE_ACTIVE);
    expect(f, "set 0/4 2;");
    shows(f, 0, 4, STATE_ACTIVE, PROOF_NONE);
    assert_int_equal(state_standing(f->state, UID), STANDS_NAMED);
    expect(f, "vet 0/4; persist 0/4;");
    vetted(f);
    state_persisted(f->state, 0);
    expect(f, "set 0/4 2 member; READY 0/4;");
}

/* The lease is active for the others: that says nothing of a member that joins. */
static void state_member_that_joins_is_vetted_whatever_changes_meanwhile(void **state)
{
    struct fixture *f = *state;

    session(f, true);
    shows(f, 0, 4, STATE_ACTIVE, PROOF_NONE);
    expect(f, "vet 0/4; persist 0/4;");
    state_persisted(f->state, 0);
    shows(f, 0, 4, STATE_ACTIVE, PROOF_NONE); /* renewed, or another one that joins is ready */
    expect(f, "");
    vetted_badly(f, 0, 4, REASON_ACCOUNT);
    expect(f, "REFUSED 0/4 account; persist 0/4c; sweep 0/4c; kill 0/4;");
}

static void state_member_that_joins_waits_for_the_check_of_its_pool(void **state)
{
    struct fixture *f = *state;

    session(f, true);
    (void)state_pool_set(f->state, &(struct state_pool){"q", UID + 200, UID + 300, 1, 0});
    shows(f, 200, 1, STATE_ACTIVE, PROOF_NONE);
    expect(f, "persist 200/1;");
    state_persisted(f->state, 0);
    shows(f, 200, 1, STATE_ACTIVE, PROOF_NONE);
    expect(f, "");
    state_pool_checked(f->state, "q", true);
    expect(f, "vet 200/1;");
    vetted(f);
    expect(f, "set 200/1 2 member; READY 200/1;");
}

static void state_member_let_go_is_swept_while_active(void **state)
{
    struct fixture *f = *state;
    struct state_lease lease;

    session(f, true);
    make_here(f, 0, 1);
    lease = lease_of(f, 0, 1, STATE_ACTIVE, PROOF_NONE);
    lease.released = true;
    state_change(f->state, &lease);
    expect(f, "close 0/1; set 0/1 2 member closed; persist 0/1c; sweep 0/1c; kill 0/1;");
    state_persisted(f->state, 0);
    swept(f);
    expect(f, "CLEAN 0/1; persist 0/1cs;");
}

static void state_full_list_takes_away_what_it_does_not_name(void **state)
{
    struct fixture *f = *state;
    struct state_counts counts;

    session(f, true);
    make_here(f, 0, 1);
    make_here(f, 1, 1);
    state_session_end(f->state);
    session(f, true);
    shows(f, 1, 1, STATE_ACTIVE, PROOF_NONE);
    state_full_done(f->state, 99);
    expect(f, "set 1/1 2 member; READY 1/1; retire 0/1;");
    assert_int_equal(state_standing(f->state, UID), STANDS_NOT);
    state_count(f->state, &counts);
    assert_int_equal(counts.here, 1);
    assert_int_equal(counts.leases, 1);
}

static void state_unchecked_pool_waits_failed_pool_refuses(void **state)
{
    struct fixture *f = *state;

    session(f, true);
    (void)state_pool_set(f->state, &(struct state_pool){"q", UID + 200, UID + 300, 1, 0});
    shows(f, 200, 1, STATE_GRANTED, PROOF_NONE);
    shows(f, 201, 1, STATE_DRAINING, PROOF_NONE);
    expect(f, "set 201/1 3 member closed; persist 200/1 201/1c; kill 201/1;");
    state_persisted(f->state, 0);
    expect(f, "kill 201/1;");
    state_pool_checked(f->state, "q", false);
    expect(f, "REFUSED 200/1 unguarded; persist 200/1c; DIRTY 201/1 unguarded; kill 200/1 201/1;");
    state_pool_checked(f->state, "q", true);
    elapse(f, 1000);
    expect(f, "sweep again 201/1c 200/1c;");
}

static bool sweeps_wait(struct fixture *f)
{
    struct state_counts counts;

    state_count(f->state, &counts);
    return counts.sweeps;
}

/* Who comes back for each sweep that waits would come back without end. */
static void state_sweep_of_an_unchecked_pool_is_not_waited_for(void **state)
{
    struct fixture *f = *state;

    session(f, true);
    (void)state_pool_set(f->state, &(struct state_pool){"q", UID + 200, UID + 300, 1, 0});
    shows(f, 201, 1, STATE_DRAINING, PROOF_NONE);
    assert_true(sweeps_wait(f));
    expect(f, "set 201/1 3 member closed; persist 201/1c; kill 201/1;");
    assert_false(sweeps_wait(f));
    shows(f, 0, 1, STATE_DRAINING, PROOF_NONE);
    assert_true(sweeps_wait(f));
    expect(f, "set 0/1 3 member closed; sweep 0/1c; kill 0/1 201/1;");
    swept(f);
    expect(f, "kill 201/1;"); /* but it goes on dying */
    assert_false(sweeps_wait(f));
    state_pool_checked(f->state, "q", true);
    assert_true(sweeps_wait(f));
    expect(f, "sweep 201/1c;");
}

static void state_validity_ends_what_is_here(void **state)
{
    struct fixture *f = *state;

    session(f, true);
    make_here(f, 0, 1);
    state_session_end(f->state);
    state_end_pool(f->state, "other");
    expect(f, "");
    state_end_pool(f->state, "p");
    expect(f, "close 0/1; persist 0/1c; sweep 0/1c; kill 0/1;");
    state_persisted(f->state, 0);
    swept(f);
    expect(f, "persist 0/1cs;");
    session(f, false);
    expect(f, "REFUSED 0/1 validity; sweep 0/1cs;");
    shows(f, 0, 1, STATE_DRAINING, PROOF_NONE);
    swept(f);
    expect(f, "set 0/1 3 member closed; sweep 0/1cs; kill 0/1;");
    swept(f);
    expect(f, "CLEAN 0/1;");
}

/* Name services may hang for as long as this node is cut off. */
static void state_validity_ends_what_runs_in_an_unchecked_pool(void **state)
{
    struct fixture *f = *state;
    struct state_lease lease;

    (void)state_pool_set(f->state, &(struct state_pool){"q", UID + 200, UID + 300, 1, 0});
    state_recall_epoch(f->state, &(struct state_epoch){UID + 200, 1, false});
    state_recall_epoch(f->state, &(struct state_epoch){UID + 201, 1, true});
    lease = lease_of(f, 200, 1, STATE_ACTIVE, PROOF_NONE);
    state_recall_lease(f->state, &lease, false);
    lease = lease_of(f, 201, 1, STATE_ACTIVE, PROOF_NONE);
    state_recall_lease(f->state, &lease, true); /* one before us had begun to end it */
    expect(f, "close 201/1; kill 201/1;");
    state_end_pool(f->state, "q");
    expect(f, "close 200/1; persist 200/1c; kill 200/1 201/1;");
    state_persisted(f->state, 0);
    expect(f, "kill 201/1 200/1;");
    state_pool_checked(f->state, "q", true);
    expect(f, "sweep 201/1c 200/1c;");
}

static void state_older_revision_is_not_taken(void **state)
{
    struct fixture *f = *state;
    struct state_lease early, late;

    session(f, true);
    early = lease_of(f, 0, 1, STATE_ACTIVE, PROOF_NONE);
    late = lease_of(f, 0, 1, STATE_DRAINING, PROOF_NONE);
    state_change(f->state, &late);
    state_change(f->state, &early);
    expect(f, "set 0/1 3 member closed; persist 0/1c; sweep 0/1c; kill 0/1;");
}

/* A backup was restored: revisions and epochs of before mean nothing there, save of what this node was a member of. */
static void state_begins_anew_with_another_incarnation(void **state)
{
    struct fixture *f = *state;
    struct state_epoch *epochs;
    size_t n;

    session(f, true);
    make_here(f, 0, 5);
    shows_foreign(f, 1, 7, STATE_ACTIVE);
    shows(f, 2, 4, STATE_GRANTED, PROOF_NONE); /* not on disk yet, nor admitted */
    expect(f, "set 1/7 2; vet 2/4; persist 2/4;");
    state_session_end(f->state);
    f->revision = 1;
    state_begin_anew(f->state, 99);
    expect(f, "retire 1/7;");
    epochs = state_member_epochs(f->state, &n);
    assert_int_equal(n, 2);
    for (size_t i = 0; i < n; i++)
        assert_int_equal(epochs[i].epoch, epochs[i].uid == UID ? 5 : 4);
    free(epochs);
    session(f, true);
    shows(f, 0, 5, STATE_DRAINING, PROOF_NONE);
    shows_foreign(f, 1, 3, STATE_ACTIVE);
    expect(f, "close 0/5; set 0/5 3 member closed; set 1/3 2; sweep 0/5c; kill 0/5;");
    state_full_done(f->state, 99);
    expect(f, "retire 2/4;");
    /* What the node knows better than the backup it is not moved back from. */
    shows(f, 0, 2, STATE_GRANTED, PROOF_NONE);
    expect(f, "REFUSED 0/2 epoch;");
}

static void state_batches_are_bounded(void **state)
{
    struct fixture *f = *state;

    session(f, true);
    for (uint32_t i = 0; i < 6; i++)
        shows(f, i, 1, STATE_GRANTED, PROOF_NONE);
    expect(f, "vet 0/1 1/1 2/1 3/1; persist 0/1 1/1 2/1 3/1;");
    /* One of each at a time. */
    expect(f, "");
    state_persisted(f->state, 0);
    expect(f, "persist 4/1 5/1;");
    vetted(f);
    expect(f, "set 0/1 1 member; READY 0/1; set 1/1 1 member; READY 1/1; set 2/1 1 member; "
              "READY 2/1; set 3/1 1 member; READY 3/1; vet 4/1 5/1;");
}

static void state_ended_while_vetted_is_not_admitted(void **state)
{
    struct fixture *f = *state;

    session(f, true);
    shows(f, 0, 1, STATE_GRANTED, PROOF_NONE);
    expect(f, "vet 0/1; persist 0/1;");
    shows(f, 0, 1, STATE_DRAINING, PROOF_NONE);
    vetted(f);
    expect(f, "set 0/1 3 member closed; sweep 0/1c; kill 0/1;");
    assert_int_equal(state_standing(f->state, UID), STANDS_SWEPT);
    /* And one that was granted anew while the old one was vetted is vetted itself. */
    shows(f, 1, 1, STATE_GRANTED, PROOF_NONE);
    expect(f, "vet 1/1;");
    shows(f, 1, 1, STATE_FREE, PROOF_NONE);
    shows(f, 1, 2, STATE_GRANTED, PROOF_NONE);
    vetted(f);
    expect(f, "retire 1/1; vet 1/2;");
}

static void state_epochs_for_a_rewrite_are_those_on_disk(void **state)
{
    struct fixture *f = *state;
    struct state_epoch *all;
    size_t n;

    session(f, true);
    make_here(f, 0, 3);
    shows(f, 1, 9, STATE_GRANTED, PROOF_NONE);
    all = state_epochs(f->state, &n);
    assert_int_equal(n, 1);
    assert_int_equal(all[0].uid, UID);
    assert_int_equal(all[0].epoch, 3);
    free(all);
    assert_int_equal(state_n_epochs(f->state), 2);
}

static void state_holds_many_leases(void **state)
{
    struct fixture *f = *state;
    struct state_counts counts;

    session(f, true);
    for (uint32_t i = 0; i < 100000; i++) {
        struct state_lease lease = lease_of(f, i, 1, STATE_ACTIVE, PROOF_NONE);
        lease.member = false;
        f->map_r = -ERANGE;
        state_change(f->state, &lease);
    }
    state_count(f->state, &counts);
    assert_int_equal(counts.leases, 100000);
    assert_int_equal(counts.named, 100000);
    for (uint32_t i = 0; i < 100000; i++)
        assert_int_equal(state_standing(f->state, UID + i), STANDS_NAMED);
    assert_int_equal(state_standing(f->state, UID + 100000), STANDS_NOT);
}

/* Of others: the map is not of interest. */
static void shows_numbered(struct fixture *f, uint32_t i, uint32_t epoch, uint64_t number,
                           enum state_phase phase)
{
    struct state_lease lease = lease_of(f, i, epoch, phase, PROOF_NONE);

    lease.member = false;
    lease.lease = number;
    f->map_r = -ERANGE;
    state_change(f->state, &lease);
}

static void state_finds_a_lease_by_its_number(void **state)
{
    struct fixture *f = *state;
    uint64_t number = 1;

    session(f, true);
    assert_int_equal(state_uid_of(f->state, 1), 0);
    /* The same uids again and again, as leases come and go. */
    for (uint32_t epoch = 1; epoch <= 20; epoch++) {
        for (uint32_t i = 0; i < 100; i++) {
            shows_numbered(f, i, epoch, number + i, STATE_ACTIVE);
            assert_int_equal(state_uid_of(f->state, number + i), UID + i);
            if (epoch > 1)
                assert_int_equal(state_uid_of(f->state, number + i - 100), 0);
        }
        number += 100;
    }
    shows_numbered(f, 0, 20, number - 100, STATE_FREE);
    assert_int_equal(state_uid_of(f->state, number - 100), 0);
    assert_int_equal(state_uid_of(f->state, number - 99), UID + 1);
    assert_int_equal(state_uid_of(f->state, 0), 0);
}

/* Anybody of the machine may ask for one, and is answered on the loop. */
static void state_finds_a_lease_as_soon_among_many(void **state)
{
    struct fixture *f = *state;
    clock_t began;

    session(f, true);
    for (uint32_t i = 0; i < 200000; i++)
        shows_numbered(f, i, 1, 1 + i, STATE_ACTIVE);
    began = clock();
    for (uint32_t i = 0; i < 20000; i++) {
        assert_int_equal(state_uid_of(f->state, 1 + i), UID + i);
        assert_int_equal(state_uid_of(f->state, 200001 + i), 0);
    }
    /* Of the processor, not by the clock on the wall. Each that goes through all of them takes a millisecond. */
    assert_true(clock() - began < 5 * CLOCKS_PER_SEC);
}

int main(void)
{
#define STATE_TEST(fn) cmocka_unit_test_setup_teardown(fn, setup, teardown)
    const struct CMUnitTest tests[] = {
        STATE_TEST(state_lease_lives_and_ends),
        STATE_TEST(state_map_says_ready_as_long_as_it_is_so),
        STATE_TEST(state_ready_waits_for_disk_and_vetting_in_either_order),
        STATE_TEST(state_end_kills_at_once_whatever_sweep_runs),
        STATE_TEST(state_end_of_the_node_kills_what_is_over),
        STATE_TEST(state_older_epoch_is_refused),
        STATE_TEST(state_stray_of_what_is_swept_is_swept_for_again),
        STATE_TEST(state_stray_of_what_is_dirty_waits_with_it),
        STATE_TEST(state_older_epoch_is_said_again_until_leased_has_heard),
        STATE_TEST(state_stray_is_said_again_if_the_session_ends_with_it),
        STATE_TEST(state_epoch_of_the_disk_counts_after_a_restart),
        STATE_TEST(state_bad_vetting_refuses_and_is_swept),
        STATE_TEST(state_knows_that_the_map_does_not_hold_all),
        STATE_TEST(state_no_room_refuses),
        STATE_TEST(state_end_that_can_not_be_written_is_dirty),
        STATE_TEST(state_closed_stays_closed),
        STATE_TEST(state_closed_on_disk_stays_closed_without_a_map),
        STATE_TEST(state_ready_that_is_not_remembered_is_closed),
        STATE_TEST(state_map_lost_but_epoch_on_disk_is_here_again),
        STATE_TEST(state_was_admitted_until_it_is_closed_or_of_others),
        STATE_TEST(state_restart_takes_the_map_over),
        STATE_TEST(state_new_session_says_all_anew),
        STATE_TEST(state_sweep_that_ran_into_a_new_session_is_done_again),
        STATE_TEST(state_dirty_is_said_retried_and_becomes_clean),
        STATE_TEST(state_unseen_report_is_said_again),
        STATE_TEST(state_stray_is_said_where_it_was_clean_or_only_named),
        STATE_TEST(state_stray_makes_this_node_a_member),
        STATE_TEST(state_stray_of_what_has_retired_is_said),
        STATE_TEST(state_what_is_free_is_retired_no_more),
        STATE_TEST(state_member_added_while_active_is_vetted),
        STATE_TEST(state_member_that_joins_is_vetted_whatever_changes_meanwhile),
        STATE_TEST(state_member_that_joins_waits_for_the_check_of_its_pool),
        STATE_TEST(state_member_let_go_is_swept_while_active),
        STATE_TEST(state_full_list_takes_away_what_it_does_not_name),
        STATE_TEST(state_unchecked_pool_waits_failed_pool_refuses),
        STATE_TEST(state_sweep_of_an_unchecked_pool_is_not_waited_for),
        STATE_TEST(state_validity_ends_what_is_here),
        STATE_TEST(state_validity_ends_what_runs_in_an_unchecked_pool),
        STATE_TEST(state_older_revision_is_not_taken),
        STATE_TEST(state_begins_anew_with_another_incarnation),
        STATE_TEST(state_batches_are_bounded),
        STATE_TEST(state_ended_while_vetted_is_not_admitted),
        STATE_TEST(state_epochs_for_a_rewrite_are_those_on_disk),
        STATE_TEST(state_holds_many_leases),
        STATE_TEST(state_finds_a_lease_by_its_number),
        STATE_TEST(state_finds_a_lease_as_soon_among_many),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
