/* Nodes that are asked before a pool is made: on a real engine, with time in the test's hand. */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "leased/service/survey.h"
#include "tests/lib/service_kit.h"

#define FIRST  2013300000u
#define LAST   2013300999u
#define NODES  2
#define MANY   5000
#define WAIT   6000 /* ms that nodes have */
#define TURN   1000 /* ms that one waits for its turn */
#define QUEUED 16

struct fixture {
    struct service_kit kit;
    struct kit_stream nodes[NODES];
};

/* What a survey has come to. */
struct result {
    unsigned n;
    int r;
    char answered[256];
    size_t n_overlaps;
    char node[64], what[64];
    uint32_t first, last;
};

static void heard(int r, const Xce__V1__OverlapReply *reply, void *arg)
{
    struct result *result = arg;

    result->n++;
    result->r = r;
    assert_int_equal(r == 0, reply != NULL);
    if (!reply)
        return;
    (void)snprintf(result->answered, sizeof result->answered, "%s", reply->answered);
    result->n_overlaps = reply->n_overlaps;
    if (!reply->n_overlaps)
        return;
    (void)snprintf(result->node, sizeof result->node, "%s", reply->overlaps[0]->node);
    (void)snprintf(result->what, sizeof result->what, "%s", reply->overlaps[0]->what);
    result->first = reply->overlaps[0]->first;
    result->last = reply->overlaps[0]->last;
}

static void join(struct service_kit *kit, struct kit_stream *stream, const char *name)
{
    kit_stream_open(kit, stream);
    kit_stream_hello(stream, name);
    service_kit_settle(kit);
    assert_true(stream->session > 0);
}

static int setup(void **state)
{
    struct fixture *fx = calloc(1, sizeof *fx);

    service_kit_init(&fx->kit, 1024);
    join(&fx->kit, &fx->nodes[0], "n2");
    join(&fx->kit, &fx->nodes[1], "n3");
    *state = fx;
    return 0;
}

static int teardown(void **state)
{
    struct fixture *fx = *state;

    for (int i = 0; i < NODES; i++)
        kit_stream_end(&fx->nodes[i]);
    service_kit_done(&fx->kit);
    free(fx);
    return 0;
}

static void survey(struct fixture *fx, struct result *result)
{
    const struct fsm_range range = {FIRST, LAST};

    assert_int_equal(survey_begin(fx->kit.service, &range, false, heard, result), 0);
}

static void pass(struct fixture *fx)
{
    service_kit_elapse(&fx->kit, 100);
}

static void survey_ends_when_all_have_answered(void **state)
{
    struct fixture *fx = *state;
    struct result result = {0};

    survey(fx, &result);
    pass(fx);
    assert_int_equal(fx->nodes[0].question.first, FIRST);
    assert_int_equal(fx->nodes[0].question.last, LAST);
    kit_stream_answer(&fx->nodes[0], 0, 0, "");
    pass(fx);
    assert_int_equal(result.n, 0);
    kit_stream_answer(&fx->nodes[1], 0, 0, "");
    pass(fx);
    assert_int_equal(result.n, 1);
    assert_string_equal(result.answered, "n[2-3]");
    assert_int_equal(result.n_overlaps, 0);
    assert_int_equal(fx->nodes[0].n_questions, 1);
}

static void survey_tells_who_has_what_and_what_is_not_known(void **state)
{
    struct fixture *fx = *state;
    struct result result = {0}, other = {0};

    survey(fx, &result);
    pass(fx);
    kit_stream_answer(&fx->nodes[0], 0, 0, "");
    kit_stream_answer(&fx->nodes[1], 0, FIRST + 3, "user a\033b");
    pass(fx);
    assert_string_equal(result.node, "n3");
    assert_string_equal(result.what, "user a\\x1bb");
    assert_int_equal(result.first, FIRST + 3);
    assert_int_equal(result.last, FIRST + 3);
    survey(fx, &other);
    pass(fx);
    kit_stream_answer(&fx->nodes[1], 0, 0, "");
    kit_stream_answer(&fx->nodes[0], 0, 0, "they do not answer");
    pass(fx);
    assert_string_equal(other.node, "n2");
    assert_string_equal(other.what, "they do not answer");
    assert_int_equal(other.last, 0);
}

static void survey_ends_in_time_and_says_who_has_answered(void **state)
{
    struct fixture *fx = *state;
    struct result result = {0};

    survey(fx, &result);
    pass(fx);
    kit_stream_answer(&fx->nodes[1], 0, 0, "");
    service_kit_elapse(&fx->kit, WAIT - 300);
    assert_int_equal(result.n, 0);
    service_kit_elapse(&fx->kit, 300);
    assert_int_equal(result.n, 1);
    assert_string_equal(result.answered, "n3");
}

static void survey_takes_one_answer_to_its_own_question(void **state)
{
    struct fixture *fx = *state;
    struct result first = {0}, second = {0};
    uint64_t old;

    kit_stream_answer(&fx->nodes[0], 77, 0, ""); /* to no question at all */
    survey(fx, &first);
    survey(fx, &second);
    pass(fx);
    old = fx->nodes[0].question.question;
    kit_stream_answer(&fx->nodes[0], old + 1, 0, "");
    kit_stream_answer(&fx->nodes[1], 0, 0, "");
    kit_stream_answer(&fx->nodes[1], 0, FIRST, "a second one");
    pass(fx);
    assert_int_equal(first.n, 0);
    kit_stream_answer(&fx->nodes[0], 0, 0, "");
    pass(fx);
    assert_int_equal(first.n, 1);
    assert_int_equal(first.n_overlaps, 0);
    /* The next one has its turn. */
    assert_int_equal(second.n, 0);
    assert_true(fx->nodes[0].question.question != old);
    kit_stream_answer(&fx->nodes[0], old, 0, "");
    kit_stream_answer(&fx->nodes[1], 0, 0, "");
    service_kit_elapse(&fx->kit, WAIT);
    assert_int_equal(second.n, 1);
    assert_string_equal(second.answered, "n3");
}

/* One after the other, and no longer than there is time for an answer. */
static void survey_that_waits_in_vain_says_nothing_of_nodes(void **state)
{
    struct fixture *fx = *state;
    struct result first = {0}, second = {0};

    survey(fx, &first);
    survey(fx, &second);
    pass(fx);
    service_kit_elapse(&fx->kit, TURN - 200);
    assert_int_equal(second.n, 0);
    service_kit_elapse(&fx->kit, 200);
    assert_int_equal(second.n, 1);
    assert_int_equal(second.r, -EAGAIN);
    service_kit_elapse(&fx->kit, WAIT);
    assert_int_equal(first.n, 1);
    assert_int_equal(first.r, 0);
}

static void survey_has_all_its_time_from_its_turn_on(void **state)
{
    struct fixture *fx = *state;
    struct result first = {0}, second = {0};

    survey(fx, &first);
    survey(fx, &second);
    service_kit_elapse(&fx->kit, TURN - 200);
    for (int i = 0; i < NODES; i++)
        kit_stream_answer(&fx->nodes[i], 0, 0, "");
    pass(fx);
    assert_int_equal(first.n, 1);
    service_kit_elapse(&fx->kit, WAIT - 200);
    assert_int_equal(second.n, 0);
    for (int i = 0; i < NODES; i++)
        kit_stream_answer(&fx->nodes[i], 0, 0, "");
    pass(fx);
    assert_string_equal(second.answered, "n[2-3]");
}

static void survey_tells_what_this_machine_has_and_waits_for_no_node_then(void **state)
{
    struct fixture *fx = *state;
    struct result result = {0};
    const struct fsm_range range = {0, 0};

    assert_int_equal(survey_begin(fx->kit.service, &range, false, heard, &result), 0);
    pass(fx);
    assert_int_equal(result.n, 1);
    assert_int_equal(result.n_overlaps, 1);
    assert_string_equal(result.node, "");
    assert_non_null(strstr(result.what, "root"));
}

static void survey_waits_for_this_machine_as_long_as_for_nodes(void **state)
{
    struct fixture *fx = *state;
    struct result result = {0};

    fx->kit.slow = true;
    survey(fx, &result);
    pass(fx);
    for (int i = 0; i < NODES; i++)
        kit_stream_answer(&fx->nodes[i], 0, 0, "");
    service_kit_elapse(&fx->kit, WAIT - 300);
    assert_int_equal(result.n, 0);
    service_kit_elapse(&fx->kit, 300);
    assert_int_equal(result.n, 1);
    assert_string_equal(result.answered, "n[2-3]");
    assert_int_equal(result.n_overlaps, 1);
    assert_string_equal(result.node, "");
    assert_non_null(strstr(result.what, "take long"));
    assert_int_equal(result.last, 0);
}

static void survey_asks_who_comes_meanwhile_and_who_reads_late(void **state)
{
    struct fixture *fx = *state;
    struct result result = {0};
    struct kit_stream late;

    fx->nodes[0].full = true;
    kit_stream_beat(&fx->nodes[0], 1); /* its answer is the message that fills the stream */
    service_kit_settle(&fx->kit);
    survey(fx, &result);
    pass(fx);
    kit_stream_answer(&fx->nodes[1], 0, 0, "");
    assert_int_equal(fx->nodes[0].n_questions, 0);
    join(&fx->kit, &late, "n4");
    pass(fx);
    assert_int_equal(late.n_questions, 1);
    kit_stream_answer(&late, 0, 0, "");
    pass(fx);
    assert_int_equal(result.n, 0);
    fx->nodes[0].full = false;
    service_node_session.writable(&fx->nodes[0].face);
    pass(fx);
    kit_stream_answer(&fx->nodes[0], 0, 0, "");
    pass(fx);
    assert_string_equal(result.answered, "n[2-4]");
    kit_stream_end(&late);
}

static void survey_does_not_wait_for_who_hangs_up(void **state)
{
    struct fixture *fx = *state;
    struct result result = {0};
    struct kit_stream gone;

    join(&fx->kit, &gone, "n4");
    survey(fx, &result);
    pass(fx);
    for (int i = 0; i < NODES; i++)
        kit_stream_answer(&fx->nodes[i], 0, 0, "");
    kit_stream_end(&gone);
    pass(fx);
    assert_int_equal(result.n, 1);
    assert_string_equal(result.answered, "n[2-3]");
}

static void survey_is_over_when_leased_ends_and_has_room_for_so_many(void **state)
{
    struct fixture *fx = *state;
    struct result results[QUEUED] = {{0}};
    const struct fsm_range range = {FIRST, LAST};

    for (int i = 0; i < QUEUED; i++)
        survey(fx, &results[i]);
    assert_int_equal(survey_begin(fx->kit.service, &range, false, heard, &results[0]), -ENOBUFS);
    pass(fx);
    service_stop(fx->kit.service);
    for (int i = 0; i < QUEUED; i++) {
        assert_int_equal(results[i].n, 1);
        assert_int_equal(results[i].r, -ECANCELED);
    }
}

static void survey_of_many_nodes_has_a_short_answer(void **state)
{
    struct fixture *fx = *state;
    struct result result = {0};
    struct kit_stream *many = calloc(MANY, sizeof *many);
    char name[16];

    for (int i = 0; i < MANY; i++) {
        (void)snprintf(name, sizeof name, "m%04d", i + 1);
        kit_stream_open(&fx->kit, &many[i]);
        kit_stream_hello(&many[i], name);
    }
    service_kit_settle(&fx->kit);
    survey(fx, &result);
    pass(fx);
    for (int i = 0; i < NODES; i++)
        kit_stream_answer(&fx->nodes[i], 0, 0, "");
    for (int i = 0; i < MANY; i++)
        kit_stream_answer(&many[i], 0, 0, "");
    pass(fx);
    assert_string_equal(result.answered, "m[0001-5000],n[2-3]");
    for (int i = 0; i < MANY; i++)
        kit_stream_end(&many[i]);
    free(many);
}

#define TEST(function) cmocka_unit_test_setup_teardown(function, setup, teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(survey_ends_when_all_have_answered),
        TEST(survey_tells_who_has_what_and_what_is_not_known),
        TEST(survey_ends_in_time_and_says_who_has_answered),
        TEST(survey_takes_one_answer_to_its_own_question),
        TEST(survey_that_waits_in_vain_says_nothing_of_nodes),
        TEST(survey_has_all_its_time_from_its_turn_on),
        TEST(survey_tells_what_this_machine_has_and_waits_for_no_node_then),
        TEST(survey_waits_for_this_machine_as_long_as_for_nodes),
        TEST(survey_asks_who_comes_meanwhile_and_who_reads_late),
        TEST(survey_does_not_wait_for_who_hangs_up),
        TEST(survey_is_over_when_leased_ends_and_has_room_for_so_many),
        TEST(survey_of_many_nodes_has_a_short_answer),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
