/* A pool is made when the nodes have been asked: on a real engine, with time in the test's hand. Who is asked elsewhere is
 * tests/integration/test_overlap.py's to show. */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "common/net/loop.h"
#include "leased/fsm/fsm.h"
#include "tests/lib/service_kit.h"
#include "xce/v1/command.pb-c.h"
#include "xce/v1/pool.pb-c.h"

#define FIRST 2013300000u
#define LAST  2013300999u
#define WAIT  6000 /* ms that nodes have, and this machine */
#define KEPT  30000

/* Nodes n2 and n3 are ready and in session; n1, which the kit has made, is lost. */
struct fixture {
    struct service_kit kit;
    struct kit_stream n2, n3;
    struct kit_call call;
    Xce__V1__CreatePoolRequest message;
    Xce__V1__RequestId id;
    Xce__V1__UidRange range;
};

static enum node_state state_of(const struct fixture *fx, const char *name)
{
    return fsm_node(fx->kit.engine.fsm, name)->state;
}

static void join(struct fixture *fx, struct kit_stream *stream, const char *name)
{
    kit_stream_open(&fx->kit, stream);
    kit_stream_hello(stream, name);
    service_kit_settle(&fx->kit);
    assert_true(stream->session > 0);
    kit_stream_beat(stream, fsm_revision(fx->kit.engine.fsm));
    service_kit_settle(&fx->kit);
    assert_int_equal(state_of(fx, name), NODE_READY);
}

static int setup(void **state)
{
    struct fixture *fx = calloc(1, sizeof *fx);

    service_kit_init(&fx->kit, 1024);
    service_kit_elapse(&fx->kit, 33000);
    service_kit_settle(&fx->kit);
    assert_int_equal(state_of(fx, "n1"), NODE_LOST);
    join(fx, &fx->n2, "n2");
    join(fx, &fx->n3, "n3");
    *state = fx;
    return 0;
}

static int teardown(void **state)
{
    struct fixture *fx = *state;

    kit_stream_end(&fx->n2);
    kit_stream_end(&fx->n3);
    service_kit_done(&fx->kit);
    free(fx);
    return 0;
}

static void replied(int r, const char *message, const ProtobufCMessage *reply, void *arg)
{
    struct kit_call *call = arg;

    (void)reply;
    assert_false(call->done);
    call->done = true;
    call->r = r;
    (void)snprintf(call->message, sizeof call->message, "%s", message ? message : "");
}

static void step(struct fixture *fx)
{
    service_kit_elapse(&fx->kit, 50);
    loop_step(fx->kit.engine.loop, 5);
}

/* Ask for the pool; until n2 is asked. */
static void create(struct fixture *fx)
{
    static uint8_t id[16] = "0123456789abcdef";
    unsigned asked = fx->n2.n_questions;

    xce__v1__create_pool_request__init(&fx->message);
    xce__v1__request_id__init(&fx->id);
    xce__v1__uid_range__init(&fx->range);
    fx->id.id = (ProtobufCBinaryData){sizeof id, id};
    fx->range.first = FIRST;
    fx->range.last = LAST;
    fx->message.request = &fx->id;
    fx->message.name = (ProtobufCBinaryData){5, (uint8_t *)"other"};
    fx->message.range = &fx->range;
    fx->message.directory_none = true;
    fx->call = (struct kit_call){.request = {.scope = SCOPE_ALL,
                                             .message = &fx->message.base,
                                             .reply = replied,
                                             .reply_arg = &fx->call}};
    principal_from_peer(0, 0, "root", &fx->call.request.principal);
    service_handle(fx->kit.service, &fx->call.request, service_pool_create, false);
    for (int i = 0; i < 200 && fx->n2.n_questions == asked && !fx->call.done; i++)
        step(fx);
}

static void finish(struct fixture *fx)
{
    for (int i = 0; i < 10 && !fx->call.done; i++) {
        step(fx);
        service_kit_settle(&fx->kit);
    }
}

static bool is_made(const struct fixture *fx)
{
    return fsm_pool(fx->kit.engine.fsm, "other") != NULL;
}

static void all_answer(struct fixture *fx)
{
    kit_stream_answer(&fx->n2, 0, 0, "");
    kit_stream_answer(&fx->n3, 0, 0, "");
    finish(fx);
}

static void pool_is_made_when_each_node_has_answered(void **state)
{
    struct fixture *fx = *state;

    create(fx);
    kit_stream_answer(&fx->n2, 0, 0, "");
    finish(fx);
    assert_false(fx->call.done || is_made(fx));
    kit_stream_answer(&fx->n3, 0, 0, "");
    finish(fx);
    assert_true(fx->call.done && is_made(fx));
    assert_int_equal(fx->call.r, 0);
}

static void pool_is_refused_by_what_a_node_has(void **state)
{
    struct fixture *fx = *state;

    create(fx);
    kit_stream_answer(&fx->n2, 0, 0, "");
    kit_stream_answer(&fx->n3, 0, FIRST + 3, "user bob has it");
    finish(fx);
    assert_int_equal(fx->call.r, FSM_PRECONDITION);
    assert_string_equal(
        fx->call.message,
        "range 2013300000-2013300999 overlaps 2013300003: user bob has it, on node n3");
    assert_false(is_made(fx));
}

static void pool_is_refused_while_a_node_can_not_look(void **state)
{
    struct fixture *fx = *state;

    create(fx);
    kit_stream_answer(&fx->n2, 0, 0, "its name services do not answer");
    kit_stream_answer(&fx->n3, 0, 0, "");
    finish(fx);
    assert_int_equal(fx->call.r, FSM_PRECONDITION);
    assert_non_null(strstr(fx->call.message, "node n2 (its name services do not answer)"));
    assert_false(is_made(fx));
}

static void pool_is_refused_while_a_ready_node_is_silent(void **state)
{
    struct fixture *fx = *state;

    create(fx);
    kit_stream_answer(&fx->n2, 0, 0, "");
    service_kit_elapse(&fx->kit, WAIT);
    assert_true(fx->call.done);
    assert_int_equal(fx->call.r, FSM_PRECONDITION);
    assert_non_null(strstr(fx->call.message, "is not of node n3 (no answer)"));
    assert_false(is_made(fx));
}

/* One whose session is nowhere is not waited for, but it is named. */
static void pool_is_refused_while_a_ready_node_has_no_session(void **state)
{
    struct fixture *fx = *state;

    kit_stream_end(&fx->n3);
    create(fx);
    kit_stream_answer(&fx->n2, 0, 0, "");
    finish(fx);
    assert_int_equal(fx->call.r, FSM_PRECONDITION);
    assert_non_null(strstr(fx->call.message, "node n3 (no answer)"));
    kit_stream_open(&fx->kit, &fx->n3);
}

/* Through another replica, as far as this one knows. */
static void hello_elsewhere(struct fixture *fx, const char *node)
{
    Xce__V1__Command command = XCE__V1__COMMAND__INIT;
    Xce__V1__CmdHello hello = XCE__V1__CMD_HELLO__INIT;
    const struct fsm_node *known = fsm_node(fx->kit.engine.fsm, node);
    uint8_t bytes[ENGINE_KIT_BYTES];

    hello.node = (ProtobufCBinaryData){strlen(node), (uint8_t *)(uintptr_t)node};
    hello.machine_id = (ProtobufCBinaryData){32, (uint8_t *)(uintptr_t)known->machine_id};
    hello.boot_id = (ProtobufCBinaryData){32, (uint8_t *)(uintptr_t)known->boot_id};
    hello.clean_start = true;
    command.kind_case = XCE__V1__COMMAND__KIND_HELLO;
    command.hello = &hello;
    assert_int_equal(engine_kit_do(&fx->kit.engine, bytes, xce__v1__command__pack(&command, bytes)),
                     0);
}

static void node_that_begins_meanwhile_has_all_asked_once_more(void **state)
{
    struct fixture *fx = *state;

    create(fx);
    hello_elsewhere(fx, "n3");
    service_kit_settle(&fx->kit);
    assert_int_equal(state_of(fx, "n3"), NODE_READY);
    assert_true(fx->n3.finished);
    kit_stream_answer(&fx->n2, 0, 0, "");
    while (fx->n2.n_questions < 2 && !fx->call.done)
        step(fx);
    assert_false(fx->call.done);
    kit_stream_answer(&fx->n2, 0, 0, "");
    finish(fx);
    assert_int_equal(fx->n2.n_questions, 2);
    assert_int_equal(fx->call.r, FSM_PRECONDITION);
    assert_non_null(strstr(fx->call.message, "node n3 (no answer)"));
}

/* ---- a pool that is there ---- */

static void told(int r, const char *message, const ProtobufCMessage *reply, void *arg)
{
    const Xce__V1__PoolOverlapReply *overlaps = (const Xce__V1__PoolOverlapReply *)reply;
    struct kit_call *call = arg;
    size_t len = 0;

    call->done = true;
    call->r = r;
    (void)snprintf(call->message, sizeof call->message, "%s", message ? message : "");
    for (size_t i = 0; r == 0 && i < overlaps->n_overlaps; i++) {
        const Xce__V1__PoolOverlap *overlap = overlaps->overlaps[i];

        len += (size_t)snprintf(call->message + len, sizeof call->message - len, "%s%s %u-%u %s; ",
                                overlap->node, overlap->replica, overlap->first, overlap->last,
                                overlap->what);
    }
}

/* Ask who has a uid of it; until n2 is asked. */
static void ask_about(struct fixture *fx, const char *pool)
{
    static Xce__V1__PoolKey key;
    unsigned asked = fx->n2.n_questions;

    xce__v1__pool_key__init(&key);
    key.name = (ProtobufCBinaryData){strlen(pool), (uint8_t *)(uintptr_t)pool};
    fx->call = (struct kit_call){.request = {.scope = SCOPE_ALL,
                                             .permission = "PoolService/Overlap",
                                             .message = &key.base,
                                             .reply = told,
                                             .reply_arg = &fx->call}};
    principal_from_peer(0, 0, "root", &fx->call.request.principal);
    service_handle(fx->kit.service, &fx->call.request, service_pool_overlap, false);
    for (int i = 0; i < 200 && fx->n2.n_questions == asked && !fx->call.done; i++) {
        step(fx);
        service_kit_settle(&fx->kit);
    }
}

static void pool_that_is_there_is_asked_about_and_all_is_told(void **state)
{
    struct fixture *fx = *state;

    create(fx);
    all_answer(fx);
    assert_true(is_made(fx));
    ask_about(fx, "other");
    kit_stream_answer(&fx->n2, 0, FIRST + 3, "user bob has it");
    finish(fx);
    assert_false(fx->call.done);
    service_kit_elapse(&fx->kit, WAIT);
    assert_true(fx->call.done);
    assert_int_equal(fx->call.r, 0);
    assert_string_equal(fx->call.message,
                        "n2 2013300003-2013300003 user bob has it; n3 0-0 no answer; ");
    ask_about(fx, "other");
    kit_stream_answer(&fx->n2, 0, 0, "its name services do not answer");
    kit_stream_answer(&fx->n3, 0, 0, "");
    finish(fx);
    assert_int_equal(fx->call.r, 0);
    assert_string_equal(fx->call.message, "n2 0-0 its name services do not answer; ");
    ask_about(fx, "nosuch");
    assert_int_equal(fx->call.r, FSM_NOT_FOUND);
}

static void refused_as_it_takes_long(struct fixture *fx)
{
    create(fx);
    all_answer(fx);
    assert_false(fx->call.done);
    service_kit_elapse(&fx->kit, WAIT);
    assert_int_equal(fx->call.r, FSM_PRECONDITION);
    assert_non_null(strstr(fx->call.message, "is not of the machine that was asked (its accounts "
                                             "take long to list: ask again soon)"));
}

static void machine_that_is_slow_is_listed_once_for_all_who_ask(void **state)
{
    struct fixture *fx = *state;

    fx->kit.slow = true;
    refused_as_it_takes_long(fx);
    refused_as_it_takes_long(fx);
    create(fx);
    service_kit_work(&fx->kit);
    all_answer(fx);
    assert_int_equal(fx->call.r, 0);
    assert_true(is_made(fx));
    assert_int_equal(fx->kit.n_jobs, 1);
}

static void machine_that_is_slow_has_its_accounts_kept_for_who_asks_again(void **state)
{
    struct fixture *fx = *state;

    fx->kit.slow = true;
    refused_as_it_takes_long(fx);
    service_kit_work(&fx->kit);
    service_kit_elapse(&fx->kit, KEPT - 500);
    create(fx);
    all_answer(fx);
    assert_int_equal(fx->call.r, 0);
    assert_true(is_made(fx));
    assert_int_equal(fx->kit.n_jobs, 1);
}

static void machine_that_is_slow_is_listed_anew_when_that_is_old(void **state)
{
    struct fixture *fx = *state;

    fx->kit.slow = true;
    refused_as_it_takes_long(fx);
    service_kit_work(&fx->kit);
    service_kit_elapse(&fx->kit, KEPT + 500);
    refused_as_it_takes_long(fx);
    assert_int_equal(fx->kit.n_jobs, 2);
}

static void machine_that_is_not_slow_is_listed_anew_each_time(void **state)
{
    struct fixture *fx = *state;

    create(fx);
    kit_stream_answer(&fx->n2, 0, FIRST, "user bob has it");
    all_answer(fx);
    assert_int_equal(fx->call.r, FSM_PRECONDITION);
    create(fx);
    all_answer(fx);
    assert_int_equal(fx->call.r, 0);
    assert_int_equal(fx->kit.n_jobs, 2);
}

/* It guards nothing and looks for itself before it says READY. */
static void node_that_need_not_answer_may_not_know(void **state)
{
    struct fixture *fx = *state;
    struct kit_stream n4;

    kit_stream_open(&fx->kit, &n4);
    kit_stream_hello(&n4, "n4");
    service_kit_settle(&fx->kit);
    assert_int_equal(state_of(fx, "n4"), NODE_UNKNOWN);
    create(fx);
    kit_stream_answer(&n4, 0, 0, "its name services do not answer");
    kit_stream_answer(&fx->n2, 0, 0, "");
    kit_stream_answer(&fx->n3, 0, 0, "");
    finish(fx);
    assert_int_equal(fx->call.r, 0);
    assert_true(is_made(fx));
    kit_stream_end(&n4);
}

/* Rules by which nobody but root may do anything. */
static void rules_change(struct fixture *fx)
{
    Xce__V1__Command command = XCE__V1__COMMAND__INIT;
    Xce__V1__CmdRules change = XCE__V1__CMD_RULES__INIT;
    Xce__V1__Rules rules = XCE__V1__RULES__INIT;
    uint8_t bytes[ENGINE_KIT_BYTES];

    change.rules = &rules;
    command.kind_case = XCE__V1__COMMAND__KIND_RULES;
    command.rules = &change;
    assert_int_equal(engine_kit_do(&fx->kit.engine, bytes, xce__v1__command__pack(&command, bytes)),
                     0);
}

static void caller_that_loses_the_right_meanwhile_makes_no_pool(void **state)
{
    struct fixture *fx = *state;

    create(fx);
    principal_from_peer(1000, 1000, "alice", &fx->call.request.principal);
    fx->call.request.permission = "PoolService/Create";
    rules_change(fx);
    kit_stream_answer(&fx->n2, 0, 0, "");
    kit_stream_answer(&fx->n3, 0, 0, "");
    finish(fx);
    assert_int_equal(fx->call.r, -EACCES);
    assert_false(is_made(fx));
}

static void caller_that_goes_away_makes_no_pool(void **state)
{
    struct fixture *fx = *state;

    create(fx);
    kit_call_cancel(&fx->call);
    kit_stream_answer(&fx->n2, 0, 0, "");
    kit_stream_answer(&fx->n3, 0, 0, "");
    finish(fx);
    assert_false(fx->call.done || is_made(fx));
}

static void leased_that_ends_makes_no_pool(void **state)
{
    struct fixture *fx = *state;

    create(fx);
    service_stop(fx->kit.service);
    assert_true(fx->call.done);
    assert_int_equal(fx->call.r, -ECANCELED);
    assert_false(is_made(fx));
}

#define TEST(function) cmocka_unit_test_setup_teardown(function, setup, teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(pool_is_made_when_each_node_has_answered),
        TEST(pool_is_refused_by_what_a_node_has),
        TEST(pool_is_refused_while_a_node_can_not_look),
        TEST(pool_is_refused_while_a_ready_node_is_silent),
        TEST(pool_is_refused_while_a_ready_node_has_no_session),
        TEST(node_that_begins_meanwhile_has_all_asked_once_more),
        TEST(pool_that_is_there_is_asked_about_and_all_is_told),
        TEST(machine_that_is_slow_is_listed_once_for_all_who_ask),
        TEST(machine_that_is_slow_has_its_accounts_kept_for_who_asks_again),
        TEST(machine_that_is_slow_is_listed_anew_when_that_is_old),
        TEST(machine_that_is_not_slow_is_listed_anew_each_time),
        TEST(node_that_need_not_answer_may_not_know),
        TEST(caller_that_loses_the_right_meanwhile_makes_no_pool),
        TEST(caller_that_goes_away_makes_no_pool),
        TEST(leased_that_ends_makes_no_pool),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
