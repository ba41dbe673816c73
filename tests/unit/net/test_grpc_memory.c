/* Each allocation fails once, ours and nghttp2's: whatever was under way ends, nothing leaks, the server serves on. */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "tests/lib/fault.h"
#include "tests/unit/net/kit.h"

static struct kit kit;
static struct answer answer;
static uint8_t big[300000];

static int setup(void **state)
{
    (void)state;
    kit_init(&kit, NULL);
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    kit_done(&kit);
    return 0;
}

static void got_message(struct grpc_request *request, const uint8_t *data, size_t len, void *arg)
{
    (void)request;
    (void)data;
    (void)arg;
    answer.n_messages++;
    answer.n_bytes += len;
}

static void got_end(struct grpc_request *request, enum grpc_status status, const char *message,
                    bool sent, void *arg)
{
    (void)request;
    (void)message;
    (void)arg;
    (void)sent;
    answer.n_end++;
    answer.status = status;
}

static const struct grpc_request_events events = {
    .message = got_message, .end = got_end, .unary = true};
static const struct grpc_metadata metadata[] = {{"x-user", "somebody"}, {NULL, NULL}};

static void set_true(void *arg)
{
    *(bool *)arg = true;
}

/* A channel, one call with everything a call can have, and the end. What fails is left at that. */
static void run_call(const char *path, size_t size)
{
    struct grpc_channel *channel;
    struct grpc_request *request;
    bool closed = false;

    memset(&answer, 0, sizeof answer);
    if (grpc_channel_new(kit.loop, kit.target, NULL, &channel) < 0)
        return;
    if (grpc_request_start(channel, path, 5000, metadata, &events, NULL, &request) == 0) {
        int r = grpc_request_send(request, big, size);

        if (r == 0 || r == GRPC_FULL)
            grpc_request_half_close(request);
        else
            grpc_request_cancel(request);
        kit_until(&kit, answer.n_end);
    }
    grpc_channel_close(channel, set_true, &closed);
    kit_until(&kit, closed);
}

/* Run it with the 1st, 2nd, ... allocation failing, until none does; how often it was struck. */
static unsigned strike_each(void (*body)(void))
{
    unsigned n = 0;

    do {
        fault_memory(++n);
        body();
    } while (fault_end());
    return n - 1;
}

static void forget_calls(void)
{
    for (unsigned i = 0; i < kit.n_calls; i++)
        kit_until(&kit, kit.calls[i].n_end);
    kit.n_calls = 0;
}

static void small_call(void)
{
    run_call("/k/echo", 100);
    forget_calls();
}

static void large_call(void)
{
    run_call("/k/echo", sizeof big);
    forget_calls();
}

static void failing_call(void)
{
    run_call("/k/nope", 10);
    forget_calls();
}

/* Paused, so that what comes is parked; then let go and refused with a message. */
static void paused_call(void)
{
    struct grpc_channel *channel;
    struct grpc_request *request;
    bool closed = false;

    memset(&answer, 0, sizeof answer);
    if (grpc_channel_new(kit.loop, kit.target, NULL, &channel) < 0)
        return;
    if (grpc_request_start(channel, "/k/slow", 5000, NULL, &events, NULL, &request) == 0) {
        if (grpc_request_send(request, big, 1000) == 0)
            grpc_request_half_close(request);
        else
            grpc_request_cancel(request);
        kit_until(&kit, answer.n_end || kit.n_calls > 0);
        kit_elapse(&kit, 2);
        if (kit.n_calls > 0 && kit.calls[0].grpc)
            grpc_call_resume(kit.calls[0].grpc);
        kit_until(&kit, answer.n_end || kit.calls[0].n_end || kit.calls[0].n_half_closed);
        if (kit.n_calls > 0 && kit.calls[0].grpc)
            grpc_call_finish(kit.calls[0].grpc, GRPC_NOT_FOUND, "a text of its own");
        kit_until(&kit, answer.n_end);
    }
    grpc_channel_close(channel, set_true, &closed);
    kit_until(&kit, closed);
    forget_calls();
}

static void check_well(void)
{
    struct grpc_channel *channel = kit_channel(&kit, NULL);
    struct answer after;

    kit_ask(&kit, channel, "/k/echo", "well", &after);
    assert_int_equal(after.status, GRPC_OK);
    kit_close_channel(&kit, channel);
}

static void grpc_small_call_survives_each_allocation_that_fails(void **state)
{
    (void)state;
    assert_in_range(strike_each(small_call), 20, 400);
    assert_int_equal(answer.status, GRPC_OK);
    assert_int_equal(answer.n_bytes, 100);
    check_well();
}

static void grpc_large_call_survives_each_allocation_that_fails(void **state)
{
    (void)state;
    assert_in_range(strike_each(large_call), 20, 800);
    assert_int_equal(answer.status, GRPC_OK);
    assert_int_equal(answer.n_bytes, sizeof big);
    check_well();
}

static void grpc_failing_call_survives_each_allocation_that_fails(void **state)
{
    (void)state;
    assert_in_range(strike_each(failing_call), 20, 400);
    assert_int_equal(answer.status, GRPC_UNIMPLEMENTED);
    check_well();
}

static void grpc_paused_call_survives_each_allocation_that_fails(void **state)
{
    (void)state;
    assert_in_range(strike_each(paused_call), 20, 400);
    assert_int_equal(answer.status, GRPC_NOT_FOUND);
    check_well();
}

struct birth {
    struct loop *loop;
    struct grpc_server *server;
};

static int make_server(void *arg)
{
    struct birth *birth = arg;
    int r = loop_new(&birth->loop);

    if (r < 0)
        return r;
    r = grpc_server_new(birth->loop, NULL, (grpc_accept_fn)abort, NULL, &birth->server);
    if (r == 0) {
        r = grpc_server_listen_unix(birth->server, "/tmp/xce-test-grpc-memory.sock", 0600);
        grpc_server_close(birth->server, 0, NULL, NULL);
        loop_run(birth->loop);
    }
    loop_free(birth->loop);
    return r;
}

static void grpc_server_is_made_whole_or_not_at_all(void **state)
{
    struct birth birth;

    (void)state;
    assert_in_range(fault_each_allocation(make_server, &birth, -ENOMEM), 10, 100);
}

int main(void)
{
#define T(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
    const struct CMUnitTest tests[] = {
        T(grpc_small_call_survives_each_allocation_that_fails),
        T(grpc_large_call_survives_each_allocation_that_fails),
        T(grpc_failing_call_survives_each_allocation_that_fails),
        T(grpc_paused_call_survives_each_allocation_that_fails),
        cmocka_unit_test(grpc_server_is_made_whole_or_not_at_all),
    };
    return cmocka_run_group_tests_name("grpc_memory", tests, NULL, NULL);
}
