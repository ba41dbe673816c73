/* Names of callers: asked once, waited for only so long, and never missed by who asked. */
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

#define SLOW_UID     7001 /* answered when the gate opens */
#define NAMELESS_UID 7002
#define ALICE_UID    7003

struct fixture {
    struct loop *loop;
    struct usernames *names;
    unsigned answers;
    char last[64];
};

/* What the threads of the look-ups share. */
static struct {
    pthread_mutex_t lock;
    pthread_cond_t moved;
    bool open;
    unsigned lookups;
} gate = {.lock = PTHREAD_MUTEX_INITIALIZER, .moved = PTHREAD_COND_INITIALIZER};

static void look_up(uint32_t uid, char *ret)
{
    pthread_mutex_lock(&gate.lock);
    gate.lookups++;
    while (uid == SLOW_UID && !gate.open)
        pthread_cond_wait(&gate.moved, &gate.lock);
    pthread_mutex_unlock(&gate.lock);
    (void)snprintf(ret, 8, "%s", uid == NAMELESS_UID ? "" : uid == ALICE_UID ? "alice" : "slow");
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

static void answered(const char *name, void *arg)
{
    struct fixture *fixture = arg;

    fixture->answers++;
    (void)snprintf(fixture->last, sizeof fixture->last, "%s", name ? name : "");
}

static int setup(void **state)
{
    struct fixture *fixture = calloc(1, sizeof *fixture);

    pthread_mutex_lock(&gate.lock);
    gate.open = false;
    gate.lookups = 0;
    pthread_mutex_unlock(&gate.lock);
    *state = fixture;
    return loop_new(&fixture->loop) < 0 ||
           usernames_new(fixture->loop, look_up, &fixture->names) < 0;
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
    assert_int_equal(usernames_ask(fixture->names, uid, answered, fixture), 0);
}

static void run_until(struct fixture *fixture, unsigned answers)
{
    int64_t end_ms = clock_mono_ms() + 10000;

    while (fixture->answers < answers && clock_mono_ms() < end_ms)
        loop_step(fixture->loop, 50);
    assert_int_equal(fixture->answers, answers);
}

static void username_asked_is_known_afterwards(void **state)
{
    struct fixture *fixture = *state;
    const char *name;

    assert_false(usernames_known(fixture->names, ALICE_UID, &name));
    assert_null(name);
    ask(fixture, ALICE_UID);
    run_until(fixture, 1);
    assert_string_equal(fixture->last, "alice");
    assert_true(usernames_known(fixture->names, ALICE_UID, &name));
    assert_string_equal(name, "alice");
}

static void username_of_root_needs_no_look_up(void **state)
{
    struct fixture *fixture = *state;
    const char *name;

    assert_true(usernames_known(fixture->names, 0, &name));
    assert_string_equal(name, "root");
}

static void username_none_is_remembered_too(void **state)
{
    struct fixture *fixture = *state;
    const char *name = "";

    ask(fixture, NAMELESS_UID);
    run_until(fixture, 1);
    assert_string_equal(fixture->last, "");
    assert_true(usernames_known(fixture->names, NAMELESS_UID, &name));
    assert_null(name);
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
    while (!fixture->answers && clock_mono_ms() - began_ms < 5000) {
        loop_step(fixture->loop, 50);
        if (!fixture->answers)
            ask(fixture, SLOW_UID);
    }
    assert_true(fixture->answers > 0);
    assert_string_equal(fixture->last, "");
    assert_in_range(clock_mono_ms() - began_ms, 490, 2000);
    assert_int_equal(lookups(), 1);
}

static void username_forgotten_asker_is_not_called(void **state)
{
    struct fixture *fixture = *state;
    struct fixture other = {0};

    ask(fixture, SLOW_UID);
    assert_int_equal(usernames_ask(fixture->names, SLOW_UID, answered, &other), 0);
    usernames_forget(fixture->names, &other);
    open_gate();
    run_until(fixture, 1);
    assert_int_equal(other.answers, 0);
}

/* The threads of two look-ups outlive what they were for. */
static void username_freed_while_looking_answers_null(void **state)
{
    struct fixture *fixture = *state;

    ask(fixture, SLOW_UID);
    ask(fixture, ALICE_UID);
    usernames_free(fixture->names);
    fixture->names = NULL;
    assert_int_equal(fixture->answers, 2);
    assert_string_equal(fixture->last, "");
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(username_asked_is_known_afterwards),
        TEST(username_of_root_needs_no_look_up),
        TEST(username_none_is_remembered_too),
        TEST(username_asked_by_many_is_looked_up_once),
        TEST(username_slow_look_up_is_not_waited_for),
        TEST(username_forgotten_asker_is_not_called),
        TEST(username_freed_while_looking_answers_null),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
