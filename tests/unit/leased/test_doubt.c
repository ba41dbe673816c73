/* Denials that wait: what is asked of the cluster for them, and that each is settled once, or never after it was forgotten. */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>

#include "leased/rpc/doubt.h"

#define CALLS 1000

struct call {
    struct doubt doubt; /* first */
    unsigned n_settled;
    int r;
    struct doubts *again; /* to ask once more when settled */
};

struct fixture {
    struct doubts *doubts;
    struct call calls[CALLS];
    /* the cluster */
    unsigned n_questions;
    void (*done)(int r, void *arg); /* of the one under way, NULL = none */
    void *done_arg;
};

static void question(void (*done)(int r, void *arg), void *done_arg, void *arg)
{
    struct fixture *f = arg;

    assert_null(f->done);
    f->n_questions++;
    f->done = done;
    f->done_arg = done_arg;
}

static void answer(struct fixture *f, int r)
{
    void (*done)(int r, void *arg) = f->done;

    assert_non_null(done);
    f->done = NULL;
    done(r, f->done_arg);
}

static void settled(int r, struct doubt *doubt)
{
    struct call *call = (struct call *)doubt;

    assert_false(doubt->waits);
    call->n_settled++;
    call->r = r;
    if (call->again)
        doubts_ask(call->again, doubt, settled);
    call->again = NULL;
}

static void ask(struct fixture *f, unsigned i)
{
    doubts_ask(f->doubts, &f->calls[i].doubt, settled);
}

static unsigned all_settled(const struct fixture *f)
{
    unsigned n = 0;

    for (unsigned i = 0; i < CALLS; i++)
        n += f->calls[i].n_settled;
    return n;
}

static int setup(void **state)
{
    struct fixture *f = calloc(1, sizeof *f);

    *state = f;
    return doubts_new(question, f, &f->doubts);
}

static int teardown(void **state)
{
    struct fixture *f = *state;

    doubts_free(f->doubts);
    if (f->done)
        answer(f, -ECANCELED);
    free(f);
    return 0;
}

static void doubts_of_many_calls_make_one_question(void **state)
{
    struct fixture *f = *state;

    ask(f, 0);
    assert_int_equal(f->n_questions, 1);
    for (unsigned i = 1; i < CALLS; i++)
        ask(f, i);
    assert_int_equal(f->n_questions, 1);
    assert_int_equal(all_settled(f), 0);
    /* What was asked before the others came says nothing about them. */
    answer(f, 0);
    assert_int_equal(all_settled(f), 1);
    assert_int_equal(f->calls[0].n_settled, 1);
    assert_int_equal(f->n_questions, 2);
    answer(f, 0);
    assert_int_equal(all_settled(f), CALLS);
    assert_int_equal(f->n_questions, 2);
    assert_null(f->done);
}

static void doubts_without_an_answer_say_so(void **state)
{
    struct fixture *f = *state;

    ask(f, 0);
    answer(f, -EAGAIN);
    assert_int_equal(f->calls[0].r, -EAGAIN);
    ask(f, 1);
    answer(f, 0);
    assert_int_equal(f->calls[1].r, 0);
    assert_int_equal(all_settled(f), 2);
}

static void doubts_of_calls_that_ended_are_forgotten(void **state)
{
    struct fixture *f = *state;

    ask(f, 0);
    ask(f, 1);
    ask(f, 2);
    doubts_forget(f->doubts, &f->calls[0].doubt);
    doubts_forget(f->doubts, &f->calls[1].doubt);
    doubts_forget(f->doubts, &f->calls[3].doubt); /* never waited */
    answer(f, 0);
    answer(f, 0);
    assert_int_equal(all_settled(f), 1);
    assert_int_equal(f->calls[2].n_settled, 1);
    ask(f, 0);
    ask(f, 1);
    doubts_forget(f->doubts, &f->calls[0].doubt);
    doubts_forget(f->doubts, &f->calls[1].doubt);
    answer(f, 0);
    assert_int_equal(f->n_questions, 3); /* for nobody there is no fourth */
}

static void doubts_asked_when_one_is_settled_wait_for_the_next_answer(void **state)
{
    struct fixture *f = *state;

    f->calls[0].again = f->doubts;
    ask(f, 0);
    answer(f, 0);
    assert_int_equal(f->calls[0].n_settled, 1);
    assert_int_equal(f->n_questions, 2);
    answer(f, 0);
    assert_int_equal(f->calls[0].n_settled, 2);
}

/* teardown answers it */
static void doubts_may_end_before_the_answer(void **state)
{
    struct fixture *f = *state;

    ask(f, 0);
    doubts_forget(f->doubts, &f->calls[0].doubt);
    assert_non_null(f->done);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(doubts_of_many_calls_make_one_question),
        TEST(doubts_without_an_answer_say_so),
        TEST(doubts_of_calls_that_ended_are_forgotten),
        TEST(doubts_asked_when_one_is_settled_wait_for_the_next_answer),
        TEST(doubts_may_end_before_the_answer),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
