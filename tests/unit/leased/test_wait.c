/* Acquires that wait for READY: each is answered when its own leases are decided, and only then. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "leased/fsm/fsm.h"
#include "tests/lib/service_kit.h"
#include "xce/v1/command.pb-c.h"

struct fixture {
    struct service_kit kit;
    struct kit_call a, b;
};

static int setup(void **state)
{
    struct fixture *fixture = calloc(1, sizeof *fixture);

    service_kit_init(&fixture->kit, 4096);
    *state = fixture;
    return 0;
}

static int teardown(void **state)
{
    struct fixture *fixture = *state;

    service_kit_done(&fixture->kit);
    kit_call_done(&fixture->a);
    kit_call_done(&fixture->b);
    free(fixture);
    return 0;
}

/* n1 says it under the session that the kit began. */
static void say(struct fixture *fixture, uint32_t uid, Xce__V1__ReportKind kind)
{
    const struct fsm_node *node = fsm_node(fixture->kit.engine.fsm, "n1");
    Xce__V1__CmdMember member = XCE__V1__CMD_MEMBER__INIT, *members[] = {&member};
    Xce__V1__CmdReport report = XCE__V1__CMD_REPORT__INIT;
    Xce__V1__Command command = XCE__V1__COMMAND__INIT;
    uint8_t bytes[ENGINE_KIT_BYTES];

    member.uid = uid;
    member.epoch = 1;
    member.kind = kind;
    report.node = (ProtobufCBinaryData){2, (uint8_t *)"n1"};
    report.session = node->session;
    report.members = members;
    report.n_members = 1;
    command.kind_case = XCE__V1__COMMAND__KIND_REPORT;
    command.report = &report;
    assert_int_equal(
        engine_kit_do(&fixture->kit.engine, bytes, xce__v1__command__pack(&command, bytes)), 0);
    loop_step(fixture->kit.engine.loop, 0);
}

#define READY   XCE__V1__REPORT_KIND__REPORT_KIND_READY
#define REFUSED XCE__V1__REPORT_KIND__REPORT_KIND_REFUSED

static void wait_is_over_when_its_lease_is_ready(void **state)
{
    struct fixture *f = *state;

    service_kit_acquire(&f->kit, &f->a, 1, 1);
    service_kit_acquire(&f->kit, &f->b, 2, 1);
    service_kit_settle(&f->kit);
    assert_false(f->a.done || f->b.done);
    say(f, ENGINE_KIT_UID + 1, READY);
    assert_true(f->b.done && f->b.r == 0);
    assert_int_equal(f->b.uid, ENGINE_KIT_UID + 1);
    assert_false(f->a.done);
    say(f, ENGINE_KIT_UID, READY);
    assert_true(f->a.done && f->a.r == 0);
    assert_int_equal(f->a.uid, ENGINE_KIT_UID);
}

static void wait_for_many_is_over_with_the_last(void **state)
{
    struct fixture *f = *state;

    service_kit_acquire(&f->kit, &f->a, 1, 100);
    service_kit_settle(&f->kit);
    for (uint32_t i = 0; i < 99; i++)
        say(f, ENGINE_KIT_UID + i, READY);
    assert_false(f->a.done);
    say(f, ENGINE_KIT_UID + 99, READY);
    assert_true(f->a.done);
    assert_int_equal(f->a.n_leases, 100);
}

static void wait_goes_on_with_the_lease_that_follows(void **state)
{
    struct fixture *f = *state;

    service_kit_acquire(&f->kit, &f->a, 1, 2);
    service_kit_settle(&f->kit);
    say(f, ENGINE_KIT_UID, REFUSED); /* uid + 2 follows */
    assert_false(f->a.done);
    say(f, ENGINE_KIT_UID + 1, READY);
    assert_false(f->a.done);
    say(f, ENGINE_KIT_UID + 2, READY);
    assert_true(f->a.done && f->a.r == 0);
    assert_int_equal(f->a.uid, ENGINE_KIT_UID + 2);
}

static void wait_that_fails_says_which_node(void **state)
{
    struct fixture *f = *state;

    service_kit_acquire(&f->kit, &f->a, 1, 1);
    service_kit_settle(&f->kit);
    for (uint32_t i = 0; i <= FSM_TRIES_MAX; i++) {
        assert_false(f->a.done);
        say(f, ENGINE_KIT_UID + i, REFUSED);
    }
    assert_true(f->a.done);
    assert_int_equal(f->a.r, FSM_NOT_READY);
    assert_non_null(strstr(f->a.message, "n1"));
}

static void wait_of_one_who_left_is_forgotten(void **state)
{
    struct fixture *f = *state;

    service_kit_acquire(&f->kit, &f->a, 1, 1);
    service_kit_acquire(&f->kit, &f->b, 1, 1); /* a retry of it: both wait for the same lease */
    service_kit_settle(&f->kit);
    kit_call_cancel(&f->a);
    say(f, ENGINE_KIT_UID, READY);
    assert_false(f->a.done);
    assert_true(f->b.done && f->b.r == 0);
}

static void wait_cancelled_before_it_is_applied_is_forgotten(void **state)
{
    struct fixture *f = *state;

    service_kit_acquire(&f->kit, &f->a, 1, 1);
    kit_call_cancel(&f->a);
    service_kit_settle(&f->kit);
    say(f, ENGINE_KIT_UID, READY);
    assert_false(f->a.done);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(wait_is_over_when_its_lease_is_ready),
        TEST(wait_for_many_is_over_with_the_last),
        TEST(wait_goes_on_with_the_lease_that_follows),
        TEST(wait_that_fails_says_which_node),
        TEST(wait_of_one_who_left_is_forgotten),
        TEST(wait_cancelled_before_it_is_applied_is_forgotten),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
