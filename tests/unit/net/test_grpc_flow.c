/* Flow control, limits and ending in order. */
#include <errno.h>
#include <fcntl.h>
#include <malloc.h>
#include <netinet/in.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cmocka.h>

#include "tests/unit/net/kit.h"

enum {
    MESSAGE = 10000,
    MANY = 2000, /* messages: more than all windows and queues hold */
};

static struct kit kit;
static uint8_t bytes[MESSAGE];

static void init(const struct grpc_limits *limits)
{
    kit_init(&kit, limits);
}

static int setup(void **state)
{
    (void)state;
    init(NULL);
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    kit_done(&kit);
    return 0;
}

/* Send until told to wait; how many. */
static unsigned server_fills(struct call *call, unsigned most)
{
    unsigned n = 0;
    int r = 0;

    while (r == 0 && n < most) {
        r = grpc_call_send(call->grpc, bytes, sizeof bytes);
        assert_in_range(r, 0, GRPC_FULL);
        n++;
    }
    return n;
}

static unsigned client_fills(struct answer *answer, unsigned most)
{
    unsigned n = 0;
    int r = 0;

    while (r == 0 && n < most) {
        r = grpc_request_send(answer->grpc, bytes, sizeof bytes);
        assert_in_range(r, 0, GRPC_FULL);
        n++;
    }
    return n;
}

/* As an owner would: send, wait for writable, send. Until n were sent or nothing has moved for a while. */
static unsigned server_sends(struct call *call, unsigned n)
{
    unsigned sent = server_fills(call, n);
    int64_t moved = loop_now_fresh_ms();

    while (sent < n && loop_now_fresh_ms() < moved + 100) {
        unsigned before = call->n_writable;

        loop_step(kit.loop, 10);
        if (call->n_writable == before)
            continue;
        sent += server_fills(call, n - sent);
        moved = loop_now_fresh_ms();
    }
    return sent;
}

static unsigned client_sends(struct answer *answer, unsigned n)
{
    unsigned sent = client_fills(answer, n);
    int64_t moved = loop_now_fresh_ms();

    while (sent < n && loop_now_fresh_ms() < moved + 100) {
        unsigned before = answer->n_writable;

        loop_step(kit.loop, 10);
        if (answer->n_writable == before)
            continue;
        sent += client_fills(answer, n - sent);
        moved = loop_now_fresh_ms();
    }
    return sent;
}

/* ---- slow readers ---- */

static void grpc_slow_client_stops_the_server_and_gets_all_in_the_end(void **state)
{
    struct grpc_channel *channel = kit_channel(&kit, NULL);
    struct answer slow, quick;
    struct call *call;
    unsigned sent;

    (void)state;
    kit_start(&kit, channel, "/k/bidi", 0, &slow);
    call = kit_call(&kit, 1);
    grpc_request_pause(slow.grpc);
    sent = server_sends(call, MANY);
    /* The window (1 MiB), the queue (1 MiB) and one message more. */
    assert_in_range(sent, 105, 220);
    assert_int_equal(slow.n_messages, 0);
    for (int i = 0; i < 10; i++) {
        kit_ask(&kit, channel, "/k/echo", "quick", &quick);
        assert_int_equal(quick.status, GRPC_OK);
    }
    grpc_request_resume(slow.grpc);
    assert_int_equal(slow.n_messages, 0); /* never inside the call */
    sent += server_sends(call, MANY - sent);
    assert_int_equal(sent, MANY);
    grpc_call_finish(call->grpc, GRPC_OK, NULL);
    kit_until(&kit, slow.n_end);
    assert_int_equal(slow.status, GRPC_OK);
    assert_int_equal(slow.n_messages, MANY);
    kit_close_channel(&kit, channel);
}

static void grpc_slow_server_stops_the_client_and_gets_all_in_the_end(void **state)
{
    struct grpc_channel *channel = kit_channel(&kit, NULL);
    struct answer slow, quick;
    struct call *call;
    unsigned sent;

    (void)state;
    kit_start(&kit, channel, "/k/pause", 0, &slow);
    call = kit_call(&kit, 1);
    sent = client_sends(&slow, MANY);
    assert_in_range(sent, 105, 220);
    assert_int_equal(call->n_messages, 0);
    kit_ask(&kit, channel, "/k/echo", "quick", &quick);
    assert_int_equal(quick.status, GRPC_OK);
    grpc_call_resume(call->grpc);
    assert_int_equal(call->n_messages, 0);
    sent += client_sends(&slow, MANY - sent);
    assert_int_equal(sent, MANY);
    grpc_request_half_close(slow.grpc);
    kit_until(&kit, call->n_half_closed);
    assert_int_equal(call->n_messages, MANY);
    grpc_call_finish(call->grpc, GRPC_OK, NULL);
    kit_until(&kit, slow.n_end);
    kit_close_channel(&kit, channel);
}

static void grpc_paused_call_keeps_what_came_and_the_half_close(void **state)
{
    struct grpc_channel *channel = kit_channel(&kit, NULL);
    struct answer answer;
    struct call *call;

    (void)state;
    kit_unary(&kit, channel, "/k/slow", 0, "late", 4, &answer);
    call = kit_call(&kit, 1);
    kit_elapse(&kit, 20);
    assert_int_equal(call->n_messages + call->n_half_closed, 0);
    grpc_call_resume(call->grpc);
    kit_until(&kit, call->n_half_closed);
    assert_int_equal(call->n_messages, 1);
    assert_memory_equal(call->last, "late", 4);
    grpc_call_finish(call->grpc, GRPC_ABORTED, "done");
    kit_until(&kit, answer.n_end);
    kit_close_channel(&kit, channel);
}

static void grpc_paused_request_gets_its_messages_before_the_end(void **state)
{
    struct grpc_channel *channel = kit_channel(&kit, NULL);
    struct answer answer;
    struct call *call;

    (void)state;
    kit_start(&kit, channel, "/k/bidi", 0, &answer);
    call = kit_call(&kit, 1);
    grpc_request_pause(answer.grpc);
    grpc_request_half_close(answer.grpc);
    assert_int_equal(server_fills(call, 5), 5);
    grpc_call_finish(call->grpc, GRPC_OK, NULL);
    kit_until(&kit, call->n_end);
    kit_elapse(&kit, 20);
    assert_int_equal(answer.n_messages + answer.n_end, 0);
    grpc_request_resume(answer.grpc);
    kit_until(&kit, answer.n_end);
    assert_int_equal(answer.n_messages, 5);
    assert_int_equal(answer.status, GRPC_OK);
    kit_close_channel(&kit, channel);
}

static void grpc_paused_streams_beyond_the_windows_do_not_hang_the_others(void **state)
{
    struct grpc_channel *channel = kit_channel(&kit, NULL);
    struct answer slow[4], quick;

    (void)state;
    for (unsigned i = 0; i < 4; i++) {
        kit_start(&kit, channel, "/k/pause", 0, &slow[i]);
        (void)kit_call(&kit, i + 1);
        (void)client_sends(&slow[i], MANY);
    }
    kit_ask(&kit, channel, "/k/echo", "quick", &quick);
    assert_int_equal(quick.status, GRPC_OK);
    for (unsigned i = 0; i < 4; i++)
        grpc_request_cancel(slow[i].grpc);
    kit_ask(&kit, channel, "/k/echo", "quick", &quick);
    assert_int_equal(quick.status, GRPC_OK);
    kit_close_channel(&kit, channel);
}

static void grpc_many_slow_streams_share_one_bound(void **state)
{
    enum {
        STREAMS = 100,
    };
    struct grpc_channel *channel = kit_channel(&kit, NULL);
    static struct answer slow[STREAMS];
    unsigned told[STREAMS] = {0};
    size_t before, all = 0;

    (void)state;
    for (unsigned i = 0; i < STREAMS; i++) {
        kit_start(&kit, channel, "/k/bidi", 0, &slow[i]);
        grpc_request_pause(slow[i].grpc);
    }
    (void)kit_call(&kit, STREAMS);
    before = mallinfo2().uordblks;
    for (unsigned i = 0; i < STREAMS; i++)
        all += server_fills(&kit.calls[i], MANY);
    for (int64_t moved = loop_now_fresh_ms(); loop_now_fresh_ms() < moved + 100;) {
        loop_step(kit.loop, 10);
        for (unsigned i = 0; i < STREAMS; i++) {
            if (kit.calls[i].n_writable == told[i])
                continue;
            told[i] = kit.calls[i].n_writable;
            all += server_fills(&kit.calls[i], MANY);
            moved = loop_now_fresh_ms();
        }
    }
    /* 2 GB were to be sent. A connection queues 16 MiB and a message for each; 8 MiB lie at the client. */
    assert_true(all < (16 + 8 + 4) * (1 << 20) / MESSAGE + 2 * STREAMS);
    assert_true(mallinfo2().uordblks - before < (size_t)48 << 20);
    kit_close_channel(&kit, channel);
}

static void grpc_big_stream_does_not_hold_up_small_answers(void **state)
{
    struct grpc_channel *channel = kit_channel(&kit, NULL);
    struct answer big, quick;
    struct call *call;
    unsigned done = 0;

    (void)state;
    kit_start(&kit, channel, "/k/bidi", 0, &big);
    call = kit_call(&kit, 1);
    for (unsigned i = 0; i < 100; i++) {
        unsigned before = big.n_messages;

        (void)server_fills(call, MANY);
        kit_ask(&kit, channel, "/k/echo", "quick", &quick);
        assert_int_equal(quick.status, GRPC_OK);
        /* Overtaken by few: a burst and what a write takes, not by all that was queued. */
        done += big.n_messages - before < 200;
    }
    assert_int_equal(done, 100);
    kit_close_channel(&kit, channel);
}

/* ---- limits ---- */

static void grpc_more_requests_than_streams_are_told_to_wait(void **state)
{
    struct grpc_limits limits = {.streams = 3};
    static const struct grpc_request_events events = {0};
    struct grpc_channel *channel = kit_channel(&kit, &limits);
    struct grpc_request *request;
    struct answer answers[3];

    (void)state;
    for (int i = 0; i < 3; i++)
        kit_start(&kit, channel, "/k/bidi", 0, &answers[i]);
    assert_int_equal(grpc_request_start(channel, "/k/bidi", 0, NULL, &events, NULL, &request),
                     -EAGAIN);
    grpc_request_cancel(answers[0].grpc);
    kit_until(&kit, answers[0].n_end);
    kit_elapse(&kit, 10);
    kit_start(&kit, channel, "/k/bidi", 0, &answers[0]);
    kit_close_channel(&kit, channel);
}

static void grpc_more_requests_than_the_server_takes_wait_their_turn(void **state)
{
    static struct answer answers[200];
    struct grpc_limits limits = {.streams = 5};
    struct grpc_channel *channel;

    (void)state;
    init(&limits);
    channel = kit_channel(&kit, NULL);
    kit_ask(&kit, channel, "/k/echo", "settings are known now", &answers[0]);
    for (int i = 0; i < 200; i++)
        kit_unary(&kit, channel, "/k/echo", 0, "x", 1, &answers[i]);
    for (int i = 0; i < 200; i++) {
        kit_until(&kit, answers[i].n_end);
        assert_int_equal(answers[i].status, GRPC_OK);
    }
    kit_close_channel(&kit, channel);
    kit_done(&kit);
}

static void grpc_waiting_request_that_is_cancelled_was_not_sent(void **state)
{
    struct grpc_limits limits = {.streams = 1};
    struct grpc_channel *channel;
    struct answer first, second;

    (void)state;
    init(&limits);
    channel = kit_channel(&kit, NULL);
    kit_start(&kit, channel, "/k/bidi", 0, &first);
    (void)kit_call(&kit, 1);
    kit_unary(&kit, channel, "/k/echo", 50, "x", 1, &second);
    kit_until(&kit, second.n_end);
    assert_int_equal(second.status, GRPC_DEADLINE_EXCEEDED);
    assert_false(second.sent);
    kit_close_channel(&kit, channel);
    assert_int_equal(kit.n_calls, 1);
    kit_done(&kit);
}

static void grpc_more_connections_than_the_limit_are_turned_away(void **state)
{
    struct grpc_limits limits = {.connections = 2};
    struct grpc_channel *channels[3];
    struct answer answer;

    (void)state;
    init(&limits);
    for (int i = 0; i < 3; i++) {
        channels[i] = kit_channel(&kit, NULL);
        kit_ask(&kit, channels[i], "/k/echo", "x", &answer);
        assert_int_equal(answer.status, i < 2 ? GRPC_OK : GRPC_UNAVAILABLE);
    }
    kit_close_channel(&kit, channels[0]);
    do {
        kit_elapse(&kit, 20);
        kit_ask(&kit, channels[2], "/k/echo", "x", &answer);
    } while (answer.status == GRPC_UNAVAILABLE);
    assert_int_equal(answer.status, GRPC_OK);
    kit_close_channel(&kit, channels[1]);
    kit_close_channel(&kit, channels[2]);
    kit_done(&kit);
}

static void grpc_idle_connection_is_closed_and_made_again(void **state)
{
    struct grpc_limits limits = {.idle_ms = 30};
    struct grpc_channel *channel;
    struct answer answer;

    (void)state;
    init(&limits);
    channel = kit_channel(&kit, NULL);
    for (int i = 0; i < 4; i++) {
        /* A busy machine may be late by the limit: whoever was not seen asks again. */
        do
            kit_ask(&kit, channel, "/k/echo", "x", &answer);
        while (answer.status == GRPC_UNAVAILABLE && !answer.sent);
        assert_int_equal(answer.status, GRPC_OK);
        kit_elapse(&kit, 60);
    }
    kit_close_channel(&kit, channel);
    kit_done(&kit);
}

static void grpc_idle_limit_spares_connections_with_a_call(void **state)
{
    struct grpc_limits limits = {.idle_ms = 30};
    struct grpc_channel *channel;
    struct answer answer;
    struct call *call;

    (void)state;
    init(&limits);
    channel = kit_channel(&kit, NULL);
    kit_start(&kit, channel, "/k/bidi", 0, &answer);
    call = kit_call(&kit, 1);
    kit_elapse(&kit, 150);
    assert_int_equal(answer.n_end, 0);
    grpc_call_finish(call->grpc, GRPC_OK, NULL);
    kit_until(&kit, answer.n_end);
    assert_int_equal(answer.status, GRPC_OK);
    kit_close_channel(&kit, channel);
    kit_done(&kit);
}

static void grpc_keepalive_spares_a_peer_that_answers(void **state)
{
    struct grpc_limits limits = {.keepalive_ms = 30};
    struct grpc_channel *channel;
    struct answer answer;

    (void)state;
    init(&limits);
    channel = kit_channel(&kit, &limits);
    kit_start(&kit, channel, "/k/bidi", 0, &answer);
    kit_elapse(&kit, 300);
    assert_int_equal(answer.n_end, 0);
    kit_close_channel(&kit, channel);
    kit_done(&kit);
}

/* ---- the end ---- */

static void grpc_close_cuts_what_does_not_end(void **state)
{
    struct grpc_channel *channel = kit_channel(&kit, NULL);
    int64_t begin = loop_now_fresh_ms();
    struct answer answer;

    (void)state;
    kit_unary(&kit, channel, "/k/stream", 0, "x", 1, &answer);
    (void)kit_call(&kit, 1);
    kit_close_server(&kit, 60);
    assert_true(loop_now_fresh_ms() >= begin + 60);
    assert_int_equal(kit.calls[0].n_end, 1);
    kit_until(&kit, answer.n_end);
    assert_int_equal(answer.status, GRPC_UNAVAILABLE);
    assert_non_null(strstr(answer.message, "closing"));
    kit_close_channel(&kit, channel);
}

static void set_true(void *arg)
{
    *(bool *)arg = true;
}

static void grpc_close_waits_for_a_call_and_refuses_new_ones(void **state)
{
    struct grpc_channel *channel = kit_channel(&kit, NULL);
    struct answer answer, late;
    bool closed = false;
    struct call *call;

    (void)state;
    kit_start(&kit, channel, "/k/bidi", 0, &answer);
    call = kit_call(&kit, 1);
    grpc_server_close(kit.server, 10000, set_true, &closed);
    kit.server = NULL;
    kit_elapse(&kit, 20);
    kit_ask(&kit, channel, "/k/echo", "x", &late);
    assert_int_equal(late.status, GRPC_UNAVAILABLE);
    assert_false(late.sent);
    (void)grpc_call_send(call->grpc, (const uint8_t *)"last", 4);
    grpc_call_finish(call->grpc, GRPC_OK, NULL);
    kit_until(&kit, answer.n_end && closed);
    assert_int_equal(answer.status, GRPC_OK);
    assert_int_equal(answer.n_messages, 1);
    kit_close_channel(&kit, channel);
}

static void grpc_server_of_a_descriptor(void **state)
{
    struct sockaddr_in in = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    int tcp = socket(AF_INET, SOCK_STREAM, 0), pair[2];

    (void)state;
    assert_int_equal(bind(tcp, (struct sockaddr *)&in, sizeof in), 0);
    assert_int_equal(listen(tcp, 1), 0);
    /* There SO_PEERCRED would name nobody. */
    assert_int_equal(grpc_server_listen_fd(kit.server, tcp), -EINVAL);
    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM, 0, pair), 0);
    assert_int_equal(grpc_server_listen_fd(kit.server, pair[0]), -EINVAL);
    assert_int_equal(fcntl(pair[0], F_GETFD), -1); /* taken and closed, also on failure */
    (void)close(pair[1]);
}

int main(void)
{
#define T(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
    const struct CMUnitTest tests[] = {
        T(grpc_slow_client_stops_the_server_and_gets_all_in_the_end),
        T(grpc_slow_server_stops_the_client_and_gets_all_in_the_end),
        T(grpc_paused_call_keeps_what_came_and_the_half_close),
        T(grpc_paused_request_gets_its_messages_before_the_end),
        T(grpc_paused_streams_beyond_the_windows_do_not_hang_the_others),
        T(grpc_many_slow_streams_share_one_bound),
        T(grpc_big_stream_does_not_hold_up_small_answers),
        T(grpc_more_requests_than_streams_are_told_to_wait),
        cmocka_unit_test(grpc_more_requests_than_the_server_takes_wait_their_turn),
        cmocka_unit_test(grpc_waiting_request_that_is_cancelled_was_not_sent),
        cmocka_unit_test(grpc_more_connections_than_the_limit_are_turned_away),
        cmocka_unit_test(grpc_idle_connection_is_closed_and_made_again),
        cmocka_unit_test(grpc_idle_limit_spares_connections_with_a_call),
        cmocka_unit_test(grpc_keepalive_spares_a_peer_that_answers),
        T(grpc_close_cuts_what_does_not_end),
        T(grpc_close_waits_for_a_call_and_refuses_new_ones),
        T(grpc_server_of_a_descriptor),
    };
    return cmocka_run_group_tests_name("grpc_flow", tests, NULL, NULL);
}
