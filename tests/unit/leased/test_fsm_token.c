/* Enrolment tokens in the state: good once, for one node, until they end. The kit carries each state through a snapshot and a
 * twin. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "tests/lib/fsm_kit.h"

#define HOUR_MS 3600000

static struct kit kit;

static int setup(void **state)
{
    (void)state;
    kit_start(&kit, 8, 1);
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    kit_done(&kit);
    return 0;
}

/* 32 bytes that a number makes. */
static const uint8_t *hash_of(unsigned number)
{
    static uint8_t hashes[2][FSM_TOKEN_HASH];
    static unsigned turn;
    uint8_t *hash = hashes[turn++ % 2];

    memset(hash, 0xa5, FSM_TOKEN_HASH);
    memcpy(hash, &number, sizeof number);
    return hash;
}

static ProtobufCBinaryData bytes(const void *data, size_t len)
{
    return (ProtobufCBinaryData){.data = (uint8_t *)(uintptr_t)data, .len = len};
}

static enum fsm_code make(const char *node, unsigned secret, int64_t ttl_ms)
{
    Xce__V1__Command command = XCE__V1__COMMAND__INIT;
    Xce__V1__CmdToken token = XCE__V1__CMD_TOKEN__INIT;

    token.node = bytes(node, strlen(node));
    token.hash = bytes(hash_of(secret), FSM_TOKEN_HASH);
    token.ttl_ms = ttl_ms;
    command.kind_case = XCE__V1__COMMAND__KIND_TOKEN;
    command.token = &token;
    return kit_apply(&kit, &command);
}

static enum fsm_code spend(const char *node, unsigned secret, unsigned key)
{
    Xce__V1__Command command = XCE__V1__COMMAND__INIT;
    Xce__V1__CmdEnroll enroll = XCE__V1__CMD_ENROLL__INIT;

    enroll.node = bytes(node, strlen(node));
    enroll.hash = bytes(hash_of(secret), FSM_TOKEN_HASH);
    enroll.key = bytes(hash_of(key), FSM_TOKEN_HASH);
    command.kind_case = XCE__V1__COMMAND__KIND_ENROLL;
    command.enroll = &enroll;
    return kit_apply(&kit, &command);
}

static void token_is_good_for_one_key(void **state)
{
    (void)state;
    assert_int_equal(spend("n1", 1, 7), FSM_NOT_FOUND);
    assert_int_equal(make("n1", 1, HOUR_MS), FSM_OK);
    assert_true(fsm_token_good(kit.fsm, kit.now_ms, hash_of(1), hash_of(7), "n1"));
    assert_false(fsm_token_good(kit.fsm, kit.now_ms, hash_of(1), hash_of(7), "n10"));
    assert_false(fsm_token_good(kit.fsm, kit.now_ms, hash_of(2), hash_of(7), "n1"));
    assert_int_equal(spend("n2", 1, 7), FSM_NOT_FOUND);
    assert_int_equal(spend("n1", 1, 7), FSM_OK);
    assert_int_equal(spend("n1", 1, 8), FSM_NOT_FOUND);
    assert_false(fsm_token_good(kit.fsm, kit.now_ms, hash_of(1), hash_of(8), "n1"));
    assert_int_equal(spend("n1", 1, 7), FSM_OK);
}

static void token_ends(void **state)
{
    (void)state;
    assert_int_equal(make("n1", 1, HOUR_MS), FSM_OK);
    assert_int_equal(spend("n1", 1, 7), FSM_OK);
    kit_elapse(&kit, HOUR_MS + 1);
    assert_int_equal(spend("n1", 1, 7), FSM_NOT_FOUND);
    /* Gone with the next one: its hash may come again. */
    assert_int_equal(make("n1", 1, HOUR_MS), FSM_OK);
    assert_int_equal(make("n2", 1, HOUR_MS), FSM_EXISTS);
}

/* The answer may be lost, and is asked for again at once; later it is somebody else who asks. */
static void token_that_was_spent_ends_soon(void **state)
{
    (void)state;
    assert_int_equal(make("n1", 1, 24 * HOUR_MS), FSM_OK);
    kit_elapse(&kit, HOUR_MS);
    assert_int_equal(spend("n1", 1, 7), FSM_OK);
    kit_elapse(&kit, 9 * 60000);
    assert_int_equal(spend("n1", 1, 7), FSM_OK);
    kit_elapse(&kit, 60000 + 1);
    assert_false(fsm_token_good(kit.fsm, kit.now_ms, hash_of(1), hash_of(7), "n1"));
    assert_int_equal(spend("n1", 1, 7), FSM_NOT_FOUND);
}

static void token_that_can_not_be_is_refused(void **state)
{
    char long_name[80];

    (void)state;
    memset(long_name, 'a', sizeof long_name);
    long_name[sizeof long_name - 1] = '\0';
    assert_int_equal(make("", 1, HOUR_MS), FSM_INVALID);
    assert_int_equal(make("a/b", 1, HOUR_MS), FSM_INVALID);
    assert_int_equal(make(long_name, 1, HOUR_MS), FSM_INVALID);
    assert_int_equal(make("n1", 1, 0), FSM_INVALID);
    assert_int_equal(make("n1", 1, -1), FSM_INVALID);
    assert_int_equal(make("n1", 1, INT64_MAX), FSM_INVALID);
    assert_int_equal(spend("a b", 1, 7), FSM_INVALID);
    assert_int_equal(spend("n1", 1, 7), FSM_NOT_FOUND);
}

static void tokens_are_bounded(void **state)
{
    (void)state;
    for (unsigned i = 0; i < FSM_TOKENS_MAX; i++)
        assert_int_equal(make("n1", i, HOUR_MS + i), FSM_OK);
    assert_int_equal(make("n1", FSM_TOKENS_MAX, HOUR_MS), FSM_EXHAUSTED);
    kit_elapse(&kit, HOUR_MS + 10);
    assert_int_equal(make("n1", FSM_TOKENS_MAX, HOUR_MS), FSM_OK);
}

int main(void)
{
#define T(test) cmocka_unit_test_setup_teardown(test, setup, teardown)
    const struct CMUnitTest tests[] = {
        T(token_is_good_for_one_key),
        T(token_ends),
        T(token_that_was_spent_ends_soon),
        T(token_that_can_not_be_is_refused),
        T(tokens_are_bounded),
    };
    return cmocka_run_group_tests_name("fsm_token", tests, NULL, NULL);
}
