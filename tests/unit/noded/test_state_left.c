/* What a node may have left of leases that are over, or that nobody has heard of: it is swept before anybody has the uid. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <stdlib.h>

#include "tests/unit/noded/state_fixture.h"

static void expect_left(struct fixture *f, const char *story)
{
    size_t n;
    const struct state_epoch *left = state_left(f->state, &n);

    for (size_t i = 0; i < n; i++)
        note(f, "left %u/%u; ", left[i].uid - UID, left[i].epoch);
    expect(f, story);
}

/* It lost its power with leases, somebody swore that it is off, and their uids became free. */
static void state_what_was_here_and_is_over_is_left(void **state)
{
    struct fixture *f = *state;

    for (uint32_t i = 0; i < 5; i++)
        state_recall_epoch(f->state, &(struct state_epoch){UID + i, 3, i == 4, i == 4});
    session(f, true);
    shows(f, 0, 3, STATE_DRAINING, PROOF_NONE); /* that is not over */
    shows_foreign(f, 1, 4, STATE_ACTIVE);
    shows(f, 2, 3, STATE_RETIRED, PROOF_FENCED);
    expect_left(f, "set 0/3 3 member closed; set 1/4 2; retire 2/3; left 1/3; left 2/3; "
                   "persist 0/3c; sweep 0/3c; kill 0/3;");
    state_full_done(f->state, 99);
    expect_left(f, "left 1/3; left 2/3; left 3/3;");
    state_persisted(f->state, 0);
    state_left_done(f->state, UID + 1, true);
    expect_left(f, "left 3/3; left 2/3;");
    state_left_done(f->state, UID + 2, false);
    state_left_done(f->state, UID + 3, true);
    expect_left(f, "persist 3/3cs;");
    state_persisted(f->state, 0);
    session(f, true);
    shows(f, 0, 3, STATE_DRAINING, PROOF_NONE);
    shows_foreign(f, 1, 4, STATE_ACTIVE);
    state_full_done(f->state, 199);
    expect_left(f, "set 0/3 3 member closed; set 1/4 2; retire 2/3; left 2/3;");
}

/* It had closed it, and was not through with the sweep. */
static void state_what_was_closed_and_not_swept_is_left(void **state)
{
    struct fixture *f = *state;

    session(f, true);
    make_here(f, 0, 1);
    make_here(f, 1, 1);
    shows(f, 0, 1, STATE_DRAINING, PROOF_NONE);
    shows(f, 1, 1, STATE_DRAINING, PROOF_NONE);
    state_flush(f->state, f->now, true);
    state_persisted(f->state, 0);
    swept_dirty(f, 0, 1, REASON_FILE);
    state_flush(f->state, f->now, true);
    f->len = 0;
    shows(f, 1, 1, STATE_RETIRED, PROOF_CLEAN);
    expect_left(f, "retire 1/1;");
    session(f, true);
    shows(f, 1, 1, STATE_FREE, PROOF_CLEAN);
    state_full_done(f->state, 99);
    expect_left(f, "retire 1/1; retire 0/1; left 0/1;");
    state_left_done(f->state, UID, true);
    expect_left(f, "");
}

/* It had closed it, lost its power while it was sweeping, and somebody swore that it is off. */
static void state_what_was_closed_and_not_swept_is_left_over_a_reboot(void **state)
{
    struct fixture *f = *state;

    state_recall_epoch(f->state, &(struct state_epoch){UID, 3, true, false});
    state_recall_epoch(f->state, &(struct state_epoch){UID + 1, 3, true, true});
    /* The last word of the file counts: something came after it was swept. */
    state_recall_epoch(f->state, &(struct state_epoch){UID + 2, 3, true, true});
    state_recall_epoch(f->state, &(struct state_epoch){UID + 2, 3, true, false});
    session(f, true);
    state_full_done(f->state, 99);
    expect_left(f, "left 2/3; left 0/3;");
    state_left_done(f->state, UID, true);
    state_left_done(f->state, UID + 2, false);
    expect_left(f, "persist 0/3cs;");
    state_persisted(f->state, 0);
    state_left_done(f->state, UID + 2, true); /* later */
    expect_left(f, "persist 2/3cs;");
    state_persisted(f->state, 0);
    session(f, true);
    state_full_done(f->state, 199);
    expect_left(f, "");
}

/* Another lease has the uid by then: it would be lost for the disk, which has one epoch of each. */
static void state_what_is_left_stays_on_disk_until_it_is_swept(void **state)
{
    struct fixture *f = *state;
    struct state_epoch *all;
    size_t n;

    state_recall_epoch(f->state, &(struct state_epoch){UID, 3, true, false});
    session(f, true);
    shows(f, 0, 4, STATE_GRANTED, PROOF_NONE);
    expect_left(f, "left 0/3;");
    all = state_epochs(f->state, &n); /* it may be written anew just then */
    assert_int_equal(n, 1);
    assert_int_equal(all[0].epoch, 3);
    assert_true(all[0].closed);
    assert_false(all[0].swept);
    free(all);
    /* If it ends before, it answers for all of it. */
    shows(f, 0, 4, STATE_DRAINING, PROOF_NONE);
    expect_left(f, "set 0/4 3 member closed; persist 0/4c; sweep 0/4c; kill 0/4;");
    state_persisted(f->state, 0);
    swept_dirty(f, 0, 4, REASON_FILE);
    expect(f, "DIRTY 0/4 file;");
}

/* The disk was lost, too: but leased says that it went by a fence. */
static void state_what_was_fenced_is_left_whatever_the_disk_says(void **state)
{
    struct fixture *f = *state;

    session(f, true);
    shows(f, 0, 3, STATE_RETIRED, PROOF_FENCED);
    shows(f, 1, 3, STATE_RETIRED, PROOF_CLEAN);
    shows_foreign(f, 2, 3, STATE_RETIRED);
    state_full_done(f->state, 99);
    expect_left(f, "retire 0/3; retire 1/3; retire 2/3; left 0/3;");
    state_left_done(f->state, UID, true);
    expect_left(f, "persist 0/3cs;");
    state_persisted(f->state, 0);
    session(f, true);
    shows(f, 0, 3, STATE_RETIRED, PROOF_FENCED);
    expect_left(f, "retire 0/3;");
}

/* What is found of a uid that nobody has is left, too: a grant that comes before leased knows waits for it, or is refused. */
static void state_what_is_found_of_a_free_uid_is_left(void **state)
{
    struct fixture *f = *state;

    state_recall_epoch(f->state, &(struct state_epoch){UID, 3, true, true});
    session(f, true);
    state_full_done(f->state, 99);
    state_left_add(f->state, UID);
    state_left_add(f->state, UID);
    state_left_add(f->state, UID + 1);
    expect_left(f, "left 0/0; left 1/0; persist 0/3c;"); /* it is known after a reboot, too */
    state_persisted(f->state, 0);
    shows(f, 0, 4, STATE_GRANTED, PROOF_NONE);
    shows(f, 1, 4, STATE_GRANTED, PROOF_NONE);
    expect(f, "");
    state_left_refuse(f->state, UID, REASON_LEFTOVER, "a file");
    expect_left(f, "REFUSED 0/4 leftover; left 1/0; persist 0/4c; sweep 0/4c; kill 0/4;");
    state_left_done(f->state, UID + 1, true);
    expect_left(f, "vet 1/4;");
    state_left_refuse(f->state, UID + 1, REASON_LEFTOVER, "not any more");
    state_persisted(f->state, 0);
    expect(f, "persist 1/4;");
}

static void state_what_is_left_is_not_admitted_over(void **state)
{
    struct fixture *f = *state;

    state_recall_epoch(f->state, &(struct state_epoch){UID, 3, false, false});
    session(f, true);
    shows(f, 0, 4, STATE_GRANTED, PROOF_NONE);
    expect_left(f, "left 0/3;");
    state_left_done(f->state, UID, true);
    expect(f, "vet 0/4; persist 0/4;");
}

int main(void)
{
#define STATE_TEST(fn) cmocka_unit_test_setup_teardown(fn, setup, teardown)
    const struct CMUnitTest tests[] = {
        STATE_TEST(state_what_was_here_and_is_over_is_left),
        STATE_TEST(state_what_was_closed_and_not_swept_is_left),
        STATE_TEST(state_what_was_closed_and_not_swept_is_left_over_a_reboot),
        STATE_TEST(state_what_is_left_stays_on_disk_until_it_is_swept),
        STATE_TEST(state_what_was_fenced_is_left_whatever_the_disk_says),
        STATE_TEST(state_what_is_found_of_a_free_uid_is_left),
        STATE_TEST(state_what_is_left_is_not_admitted_over),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
