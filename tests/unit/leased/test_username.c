/* Names of callers: asked once, waited for only so long, and never missed by who asked. */
#include <errno.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "common/clock.h"
#include "common/net/loop.h"
#include "leased/rpc/username.h"
#include "tests/lib/fake_clock.h"

#define SLOW_UID                                                                                   \
    7001 /* answered when the gate opens; so are those that are SLOW_EACH more, again and again */
#define SLOW_EACH    10000
#define NAMELESS_UID 7002
#define ALICE_UID    7003

struct fixture {
    struct loop *loop;
    struct usernames *names;
    unsigned answers;
    int r;
    uint32_t last_uid;
    char last[PRINCIPAL_NAME_MAX + 1];
    struct fake_clock clock;
};

/* What the threads of the look-ups share. */
static struct {
    pthread_mutex_t lock;
    pthread_cond_t moved;
    bool open, failing, gone;
    unsigned lookups;
} gate = {.lock = PTHREAD_MUTEX_INITIALIZER, .moved = PTHREAD_COND_INITIALIZER};

static int look_up(const char *name, uint32_t uid, struct username *ret)
{
    bool failing, gone;

    pthread_mutex_lock(&gate.lock);
    gate.lookups++;
    while (uid % SLOW_EACH == SLOW_UID && !gate.open)
        pthread_cond_wait(&gate.moved, &gate.lock);
    failing = gate.failing;
    gone = gate.gone;
    pthread_mutex_unlock(&gate.lock);
    if (failing)
        return -EIO;
    if (gone || uid == NAMELESS_UID || (name && strcmp(name, "alice")))
        return USERNAME_NONE;
    *ret = (struct username){.uid = name ? ALICE_UID : uid, .gid = 100};
    (void)snprintf(ret->name, sizeof ret->name, "%s", name || uid == ALICE_UID ? "alice" : "slow");
    return 0;
}

static unsigned lookups(void)
{
    unsigned n;

    pthread_mutex_lock(&gate.lock);
    n = gate.lookups;
    pthread_mutex_unlock(&gate.lock);
    return n;
}

static void open_gate(void)
{
    pthread_mutex_lock(&gate.lock);
    gate.open = true;
    pthread_cond_broadcast(&gate.moved);
    pthread_mutex_unlock(&gate.lock);
}

static void answered(int r, const struct username *who, void *arg)
{
    struct fixture *fixture = arg;

    assert_true(!who == (r != 0));
    fixture->answers++;
    fixture->r = r;
    fixture->last_uid = who ? who->uid : 0;
    (void)snprintf(fixture->last, sizeof fixture->last, "%s", who ? who->name : "");
}

static int known(struct fixture *fixture, const char *name, uint32_t uid)
{
    const struct username *who;

    return usernames_known(fixture->names, name, uid, &who);
}

static int setup(void **state)
{
    struct fixture *fixture = calloc(1, sizeof *fixture);

    pthread_mutex_lock(&gate.lock);
    gate.open = gate.failing = gate.gone = false;
    gate.lookups = 0;
    pthread_mutex_unlock(&gate.lock);
    fake_clock_init(&fixture->clock);
    *state = fixture;
    return loop_new(&fixture->loop) < 0 ||
           usernames_new(fixture->loop, &fixture->clock.clock, look_up, &fixture->names) < 0;
}

static int teardown(void **state)
{
    struct fixture *fixture = *state;

    open_gate();
    usernames_free(fixture->names);
    loop_free(fixture->loop);
    free(fixture);
    return 0;
}

static void ask(struct fixture *fixture, uint32_t uid)
{
    assert_int_equal(usernames_ask(fixture->names, NULL, uid, answered, fixture), 0);
}

static void run_until(struct fixture *fixture, unsigned answers)
{
    int64_t end_ms = clock_mono_ms() + 60000;

    while (fixture->answers < answers && clock_mono_ms() < end_ms)
        loop_step(fixture->loop, 50);
    assert_int_equal(fixture->answers, answers);
}

static void username_asked_is_known_afterwards(void **state)
{
    struct fixture *fixture = *state;
    const struct username *who;

    assert_int_equal(known(fixture, NULL, ALICE_UID), -EAGAIN);
    ask(fixture, ALICE_UID);
    run_until(fixture, 1);
    assert_int_equal(fixture->r, 0);
    assert_string_equal(fixture->last, "alice");
    assert_int_equal(usernames_known(fixture->names, NULL, ALICE_UID, &who), 0);
    assert_string_equal(who->name, "alice");
}

static void username_by_name_has_the_uid(void **state)
{
    struct fixture *fixture = *state;
    const struct username *who;

    assert_int_equal(usernames_ask(fixture->names, "alice", 0, answered, fixture), 0);
    run_until(fixture, 1);
    assert_int_equal(fixture->last_uid, ALICE_UID);
    assert_int_equal(usernames_known(fixture->names, "alice", 0, &who), 0);
    assert_int_equal(who->gid, 100);
    /* A name is not a uid, whatever it looks like. */
    assert_int_equal(known(fixture, "7003", 0), -EAGAIN);
}

static void username_of_root_needs_no_look_up(void **state)
{
    struct fixture *fixture = *state;
    const struct username *who;

    assert_int_equal(usernames_known(fixture->names, NULL, 0, &who), 0);
    assert_string_equal(who->name, "root");
    assert_int_equal(known(fixture, "root", 0), -EAGAIN);
}

static void username_none_is_remembered_too(void **state)
{
    struct fixture *fixture = *state;

    ask(fixture, NAMELESS_UID);
    run_until(fixture, 1);
    assert_int_equal(fixture->r, USERNAME_NONE);
    assert_int_equal(known(fixture, NULL, NAMELESS_UID), USERNAME_NONE);
}

static void set_failing(void)
{
    pthread_mutex_lock(&gate.lock);
    gate.failing = true;
    pthread_mutex_unlock(&gate.lock);
}

/* What was known stands in for ten minutes, then there is no answer. */
static void username_old_answer_stands_in_for_none(void **state)
{
    struct fixture *fixture = *state;

    ask(fixture, ALICE_UID);
    run_until(fixture, 1);
    set_failing();
    fake_clock_elapse(&fixture->clock, 61000);
    assert_int_equal(known(fixture, NULL, ALICE_UID), -EAGAIN);
    ask(fixture, ALICE_UID);
    run_until(fixture, 2);
    assert_int_equal(fixture->r, 0);
    assert_string_equal(fixture->last, "alice");
    fake_clock_elapse(&fixture->clock, 540000);
    ask(fixture, ALICE_UID);
    run_until(fixture, 3);
    assert_int_equal(fixture->r, -EAGAIN);
}

/* The uid of an account that is gone is nobody's, a minute later. */
static void username_of_a_gone_account_is_forgotten(void **state)
{
    struct fixture *fixture = *state;

    ask(fixture, ALICE_UID);
    run_until(fixture, 1);
    pthread_mutex_lock(&gate.lock);
    gate.gone = true;
    pthread_mutex_unlock(&gate.lock);
    fake_clock_elapse(&fixture->clock, 61000);
    ask(fixture, ALICE_UID);
    run_until(fixture, 2);
    assert_int_equal(fixture->r, USERNAME_NONE);
}

/* "Nobody has that uid" is an answer; a service that fails is none. */
static void username_failed_look_up_is_no_answer(void **state)
{
    struct fixture *fixture = *state;

    set_failing();
    ask(fixture, ALICE_UID);
    run_until(fixture, 1);
    assert_int_equal(fixture->r, -EAGAIN);
    assert_int_equal(known(fixture, NULL, ALICE_UID), -EAGAIN);
}

static void username_asked_by_many_is_looked_up_once(void **state)
{
    struct fixture *fixture = *state;

    for (int i = 0; i < 100; i++)
        ask(fixture, SLOW_UID);
    open_gate();
    run_until(fixture, 100);
    assert_string_equal(fixture->last, "slow");
    assert_int_equal(lookups(), 1);
}

static void username_slow_look_up_is_not_waited_for(void **state)
{
    struct fixture *fixture = *state;
    int64_t began_ms = clock_mono_ms();

    ask(fixture, SLOW_UID);
    /* Others go on asking: that must not keep the first one waiting. */
    while (!fixture->answers && clock_mono_ms() - began_ms < 60000) {
        loop_step(fixture->loop, 50);
        if (!fixture->answers)
            ask(fixture, SLOW_UID);
    }
    assert_true(fixture->answers > 0);
    assert_int_equal(fixture->r, -EAGAIN);
    assert_in_range(clock_mono_ms() - began_ms, 490, 60000);
    assert_int_equal(lookups(), 1);
}

static void nothing(void *arg)
{
    (void)arg;
}

static void ran(int r, void *arg)
{
    *(bool *)arg = r == 0;
}

/* The disk of the log has the same threads. */
static void username_look_ups_that_hang_leave_threads_to_the_rest(void **state)
{
    struct fixture *fixture = *state;
    bool done = false;

    for (uint32_t i = 0; i < 20; i++)
        ask(fixture, SLOW_UID + SLOW_EACH * i);
    assert_int_equal(loop_work_submit(fixture->loop, nothing, ran, &done), 0);
    for (int i = 0; i < 200 && !done; i++)
        loop_step(fixture->loop, 50);
    assert_true(done);
    open_gate();
    run_until(fixture, 20);
}

static void username_forgotten_asker_is_not_called(void **state)
{
    struct fixture *fixture = *state;
    struct fixture other = {0};

    ask(fixture, SLOW_UID);
    assert_int_equal(usernames_ask(fixture->names, NULL, SLOW_UID, answered, &other), 0);
    usernames_forget(fixture->names, &other);
    open_gate();
    run_until(fixture, 1);
    assert_int_equal(other.answers, 0);
}

/* The threads of two look-ups outlive what they were for. */
static void username_freed_while_looking_answers_canceled(void **state)
{
    struct fixture *fixture = *state;

    ask(fixture, SLOW_UID);
    ask(fixture, ALICE_UID);
    usernames_free(fixture->names);
    fixture->names = NULL;
    assert_int_equal(fixture->answers, 2);
    assert_int_equal(fixture->r, -ECANCELED);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(username_asked_is_known_afterwards),
        TEST(username_by_name_has_the_uid),
        TEST(username_old_answer_stands_in_for_none),
        TEST(username_of_a_gone_account_is_forgotten),
        TEST(username_failed_look_up_is_no_answer),
        TEST(username_of_root_needs_no_look_up),
        TEST(username_none_is_remembered_too),
        TEST(username_asked_by_many_is_looked_up_once),
        TEST(username_slow_look_up_is_not_waited_for),
        TEST(username_look_ups_that_hang_leave_threads_to_the_rest),
        TEST(username_forgotten_asker_is_not_called),
        TEST(username_freed_while_looking_answers_canceled),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
