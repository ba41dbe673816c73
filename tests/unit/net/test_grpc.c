#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <cmocka.h>

#include "tests/unit/net/kit.h"

static struct kit kit;

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

static void send_text(struct call *call, const char *text)
{
    assert_in_range(grpc_call_send(call->grpc, (const uint8_t *)text, strlen(text)), 0, GRPC_FULL);
}

static void finish(struct call *call, enum grpc_status status, const char *message)
{
    kit.inside = true;
    grpc_call_finish(call->grpc, status, message);
    kit.inside = false;
    assert_int_equal(call->n_end, 0);
}

/* ---- answers ---- */

static void grpc_unary_is_answered(void **state)
{
    struct grpc_channel *channel = kit_channel(&kit, NULL);
    struct answer answer;

    (void)state;
    for (int i = 0; i < 3; i++) {
        kit_ask(&kit, channel, "/k/echo", "hello", &answer);
        assert_int_equal(answer.status, GRPC_OK);
        assert_string_equal(answer.message, "");
        assert_int_equal(answer.n_messages, 1);
        assert_memory_equal(answer.last, "hello", 5);
        assert_true(answer.sent);
    }
    assert_int_equal(kit.calls[0].uid, getuid());
    assert_true(kit.calls[0].deadline_ms == INT64_MAX);
    kit_close_channel(&kit, channel);
}

static void grpc_sizes_around_frames_and_windows_come_whole(void **state)
{
    static const size_t sizes[] = {0,     1,       16379,       16380,          65530,
                                   65536, 1048576, 1048576 + 5, 4194304 + 65536};
    struct grpc_channel *channel = kit_channel(&kit, NULL);
    static uint8_t big[4194304 + 65536];
    struct answer answer;

    (void)state;
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        kit_unary(&kit, channel, "/k/echo", 0, big, sizes[i], &answer);
        kit_until(&kit, answer.n_end);
        assert_int_equal(answer.status, GRPC_OK);
        assert_int_equal(answer.n_bytes, sizes[i]);
    }
    kit_close_channel(&kit, channel);
}

static void grpc_error_carries_its_text(void **state)
{
    struct grpc_channel *channel = kit_channel(&kit, NULL);
    struct answer answer;

    (void)state;
    kit_unary(&kit, channel, "/k/stream", 0, "", 0, &answer);
    finish(kit_call(&kit, 1), GRPC_NOT_FOUND, "no löase 100%");
    kit_until(&kit, answer.n_end);
    assert_int_equal(answer.status, GRPC_NOT_FOUND);
    assert_string_equal(answer.message, "no löase 100%");
    assert_true(answer.sent);
    kit_close_channel(&kit, channel);
}

static void grpc_first_finish_wins_and_sending_after_it_fails(void **state)
{
    struct grpc_channel *channel = kit_channel(&kit, NULL);
    struct answer answer;
    struct call *call;

    (void)state;
    kit_unary(&kit, channel, "/k/stream", 0, "", 0, &answer);
    call = kit_call(&kit, 1);
    finish(call, GRPC_ABORTED, "first");
    grpc_call_finish(call->grpc, GRPC_OK, NULL);
    assert_int_equal(grpc_call_send(call->grpc, (const uint8_t *)"x", 1), -EPIPE);
    assert_int_equal(grpc_call_send_owned(call->grpc, grpc_message_new(1), 1), -EPIPE);
    kit_until(&kit, answer.n_end && call->n_end);
    assert_int_equal(answer.status, GRPC_ABORTED);
    assert_string_equal(answer.message, "first");
    assert_int_equal(answer.n_messages, 0);
    kit_close_channel(&kit, channel);
}

static void grpc_stream_of_messages_comes_in_order(void **state)
{
    struct grpc_channel *channel = kit_channel(&kit, NULL);
    struct answer answer;
    struct call *call;

    (void)state;
    kit_start(&kit, channel, "/k/bidi", 0, &answer);
    call = kit_call(&kit, 1);
    for (char c = 'a'; c <= 'z'; c++) {
        uint8_t *message = grpc_message_new(10);

        assert_int_equal(grpc_request_send(answer.grpc, (uint8_t *)&c, 1), 0);
        kit_until(&kit, call->n_messages == (unsigned)(c - 'a') + 1);
        assert_int_equal(call->last[0], c);
        message[0] = (uint8_t)c;
        assert_int_equal(grpc_call_send_owned(call->grpc, message, 1), 0);
        kit_until(&kit, answer.n_messages == (unsigned)(c - 'a') + 1);
        assert_int_equal(answer.last[0], c);
        assert_int_equal(answer.last_len, 1);
    }
    grpc_request_half_close(answer.grpc);
    kit_until(&kit, call->n_half_closed);
    finish(call, GRPC_OK, NULL);
    kit_until(&kit, answer.n_end);
    assert_int_equal(answer.status, GRPC_OK);
    kit_close_channel(&kit, channel);
}

static void grpc_finish_before_the_client_is_done_ends_both(void **state)
{
    struct grpc_channel *channel = kit_channel(&kit, NULL);
    struct answer answer;
    struct call *call;

    (void)state;
    kit_start(&kit, channel, "/k/bidi", 0, &answer);
    call = kit_call(&kit, 1);
    send_text(call, "last");
    finish(call, GRPC_FAILED_PRECONDITION, "enough");
    kit_until(&kit, answer.n_messages);
    if (answer.grpc)
        (void)grpc_request_send(answer.grpc, (const uint8_t *)"x", 1);
    kit_until(&kit, answer.n_end);
    assert_int_equal(answer.status, GRPC_FAILED_PRECONDITION);
    assert_int_equal(answer.n_messages, 1);
    kit_close_channel(&kit, channel);
}

/* ---- what a method takes ---- */

static void grpc_unknown_method_is_named(void **state)
{
    struct grpc_channel *channel = kit_channel(&kit, NULL);
    struct answer answer;

    (void)state;
    kit_ask(&kit, channel, "/k/nope", "x", &answer);
    assert_int_equal(answer.status, GRPC_UNIMPLEMENTED);
    assert_non_null(strstr(answer.message, "/k/nope"));
    kit_close_channel(&kit, channel);
}

static void grpc_unary_takes_exactly_one_message(void **state)
{
    struct grpc_channel *channel = kit_channel(&kit, NULL);
    struct answer none, two;

    (void)state;
    kit_start(&kit, channel, "/k/stream", 0, &none);
    grpc_request_half_close(none.grpc);
    kit_start(&kit, channel, "/k/stream", 0, &two);
    (void)grpc_request_send(two.grpc, (const uint8_t *)"a", 1);
    (void)grpc_request_send(two.grpc, (const uint8_t *)"b", 1);
    grpc_request_half_close(two.grpc);
    kit_until(&kit, none.n_end && two.n_end);
    assert_int_equal(none.status, GRPC_UNIMPLEMENTED);
    assert_int_equal(two.status, GRPC_UNIMPLEMENTED);
    assert_int_equal(kit.calls[0].n_half_closed + kit.calls[1].n_half_closed, 0);
    kit_close_channel(&kit, channel);
}

static void grpc_unary_answer_is_exactly_one_message(void **state)
{
    struct grpc_channel *channel = kit_channel(&kit, NULL);
    struct answer none, two, error;
    struct call *call;

    (void)state;
    kit_unary(&kit, channel, "/k/stream", 0, "", 0, &none);
    finish(kit_call(&kit, 1), GRPC_OK, NULL);
    kit_unary(&kit, channel, "/k/stream", 0, "", 0, &two);
    call = kit_call(&kit, 2);
    send_text(call, "a");
    send_text(call, "b");
    finish(call, GRPC_OK, NULL);
    kit_unary(&kit, channel, "/k/stream", 0, "", 0, &error);
    finish(kit_call(&kit, 3), GRPC_INTERNAL, "an error needs none");
    kit_until(&kit, none.n_end && two.n_end && error.n_end);
    assert_int_equal(none.status, GRPC_UNIMPLEMENTED);
    assert_int_equal(two.status, GRPC_UNIMPLEMENTED);
    assert_int_equal(two.n_messages, 1);
    assert_int_equal(error.status, GRPC_INTERNAL);
    kit_close_channel(&kit, channel);
}

static void grpc_message_beyond_the_limit_is_refused_both_ways(void **state)
{
    struct grpc_limits small = {.message_bytes = 1000};
    struct grpc_channel *channel = kit_channel(&kit, NULL), *careful = kit_channel(&kit, &small);
    static uint8_t big[4194304 + 65537];
    struct answer answer;

    (void)state;
    kit_start(&kit, channel, "/k/stream", 0, &answer);
    assert_int_equal(grpc_request_send(answer.grpc, big, sizeof big), -EMSGSIZE);
    grpc_request_cancel(answer.grpc);
    kit_until(&kit, answer.n_end);

    kit_unary(&kit, careful, "/k/stream", 0, "x", 1, &answer);
    kit_until(&kit, kit.n_calls && kit.calls[kit.n_calls - 1].grpc &&
                        kit.calls[kit.n_calls - 1].n_half_closed);
    assert_int_equal(grpc_call_send(kit.calls[kit.n_calls - 1].grpc, big, sizeof big), -EMSGSIZE);
    assert_int_equal(grpc_call_send(kit.calls[kit.n_calls - 1].grpc, big, 1001), 0);
    kit_until(&kit, answer.n_end);
    assert_int_equal(answer.status, GRPC_RESOURCE_EXHAUSTED);
    assert_non_null(strstr(answer.message, "1001"));
    assert_non_null(strstr(answer.message, "1000"));
    kit_close_channel(&kit, channel);
    kit_close_channel(&kit, careful);
}

static void grpc_metadata_is_found_by_key(void **state)
{
    static const struct grpc_metadata metadata[] = {
        {"x-forwarded-user", "uid:7"}, {"x-empty", ""}, {"x-last", "z"}, {NULL, NULL}};
    static const struct grpc_request_events events = {0};
    struct grpc_metadata many[GRPC_METADATA_MAX + 2];
    struct grpc_channel *channel = kit_channel(&kit, NULL);
    struct answer answer;
    struct call *call;

    (void)state;
    kit.metadata = metadata;
    kit_start(&kit, channel, "/k/bidi", 0, &answer);
    call = kit_call(&kit, 1);
    assert_string_equal(grpc_call_metadata(call->grpc, "x-forwarded-user"), "uid:7");
    assert_string_equal(grpc_call_metadata(call->grpc, "x-empty"), "");
    assert_string_equal(grpc_call_metadata(call->grpc, "x-last"), "z");
    assert_null(grpc_call_metadata(call->grpc, "x-"));
    assert_null(grpc_call_metadata(call->grpc, "uid:7"));
    grpc_request_cancel(answer.grpc);
    kit_until(&kit, answer.n_end && call->n_end);

    for (size_t i = 0; i < GRPC_METADATA_MAX + 1; i++)
        many[i] = metadata[2];
    many[GRPC_METADATA_MAX + 1] = metadata[3];
    assert_int_equal(grpc_request_start(channel, "/k/bidi", 0, many, &events, NULL, &answer.grpc),
                     -EINVAL);
    kit_close_channel(&kit, channel);
}

/* ---- deadlines and cancellation ---- */

static void grpc_deadline_ends_both_ends(void **state)
{
    struct grpc_channel *channel = kit_channel(&kit, NULL);
    int64_t begin = loop_now_fresh_ms();
    struct answer answer;
    struct call *call;

    (void)state;
    kit_unary(&kit, channel, "/k/stream", 60, "", 0, &answer);
    call = kit_call(&kit, 1);
    assert_in_range(call->deadline_ms, begin + 30, begin + 2000);
    kit_until(&kit, answer.n_end && call->n_end);
    assert_int_equal(answer.status, GRPC_DEADLINE_EXCEEDED);
    assert_non_null(strstr(answer.message, "60 ms"));
    assert_true(loop_now_fresh_ms() >= begin + 60);
    assert_true(answer.sent);
    kit_close_channel(&kit, channel);
}

static void grpc_cancel_ends_both_ends(void **state)
{
    struct grpc_channel *channel = kit_channel(&kit, NULL);
    struct answer answer;
    struct call *call;

    (void)state;
    kit_unary(&kit, channel, "/k/stream", 0, "", 0, &answer);
    call = kit_call(&kit, 1);
    grpc_request_cancel(answer.grpc);
    assert_int_equal(answer.n_end, 0);
    kit_until(&kit, answer.n_end && call->n_end);
    assert_int_equal(answer.status, GRPC_CANCELLED);
    kit_close_channel(&kit, channel);
}

static void grpc_cancel_before_anything_left_was_not_seen(void **state)
{
    struct grpc_channel *channel = kit_channel(&kit, NULL);
    struct answer answer;

    (void)state;
    kit_unary(&kit, channel, "/k/stream", 0, "", 0, &answer);
    grpc_request_cancel(answer.grpc);
    kit_until(&kit, answer.n_end);
    assert_int_equal(answer.status, GRPC_CANCELLED);
    assert_false(answer.sent);
    kit_elapse(&kit, 20);
    assert_int_equal(kit.n_calls, 0);
    kit_close_channel(&kit, channel);
}

static void grpc_closing_the_channel_cancels_its_requests(void **state)
{
    struct grpc_channel *channel = kit_channel(&kit, NULL);
    struct answer answers[10];

    (void)state;
    for (int i = 0; i < 10; i++)
        kit_unary(&kit, channel, "/k/stream", 1000, "", 0, &answers[i]);
    (void)kit_call(&kit, 10);
    kit_close_channel(&kit, channel);
    for (int i = 0; i < 10; i++) {
        assert_int_equal(answers[i].n_end, 1);
        assert_int_equal(answers[i].status, GRPC_CANCELLED);
        kit_until(&kit, kit.calls[i].n_end);
    }
}

/* ---- connections that fail ---- */

static void grpc_no_server_is_unavailable_and_not_sent(void **state)
{
    struct grpc_channel *channel;
    struct answer answer;

    (void)state;
    assert_int_equal(grpc_channel_new(kit.loop, "unix:/nonexistent/x.sock", NULL, &channel), 0);
    for (int i = 0; i < 2; i++) {
        kit_ask(&kit, channel, "/k/echo", "x", &answer);
        assert_int_equal(answer.status, GRPC_UNAVAILABLE);
        assert_false(answer.sent);
        assert_non_null(strstr(answer.message, "unix:/nonexistent/x.sock"));
        assert_non_null(strstr(answer.message, "No such file"));
    }
    kit_close_channel(&kit, channel);
}

/* A socket that listens, with nobody behind it. */
static int deaf_listener(const char *path)
{
    struct sockaddr_un addr = {.sun_family = AF_UNIX};
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);

    (void)snprintf(addr.sun_path, sizeof addr.sun_path, "%s", path);
    (void)unlink(path);
    assert_int_equal(bind(fd, (struct sockaddr *)&addr, sizeof addr), 0);
    assert_int_equal(listen(fd, 10), 0);
    return fd;
}

static void grpc_server_that_does_not_speak_times_out(void **state)
{
    struct grpc_limits limits = {.handshake_ms = 60};
    struct grpc_channel *channel;
    struct answer answer;
    int fd;

    (void)state;
    kit_close_server(&kit, 0);
    fd = deaf_listener(kit.path);
    channel = kit_channel(&kit, &limits);
    kit_ask(&kit, channel, "/k/echo", "x", &answer);
    assert_int_equal(answer.status, GRPC_UNAVAILABLE);
    assert_non_null(strstr(answer.message, "handshake"));
    assert_non_null(strstr(answer.message, kit.target));
    assert_true(answer.sent); /* its bytes lie in the socket */
    kit_close_channel(&kit, channel);
    (void)close(fd);
    (void)unlink(kit.path);
}

static void grpc_connection_lost_under_way_is_unavailable(void **state)
{
    struct grpc_channel *channel;
    struct answer answer;
    int fd, peer;

    (void)state;
    kit_close_server(&kit, 0);
    fd = deaf_listener(kit.path);
    channel = kit_channel(&kit, NULL);
    kit_unary(&kit, channel, "/k/echo", 0, "x", 1, &answer);
    loop_step(kit.loop, 10);
    peer = accept(fd, NULL, NULL);
    assert_true(peer >= 0);
    kit_elapse(&kit, 20);
    assert_int_equal(answer.n_end, 0);
    (void)close(peer);
    kit_until(&kit, answer.n_end);
    assert_int_equal(answer.status, GRPC_UNAVAILABLE);
    assert_true(answer.sent);
    assert_non_null(strstr(answer.message, kit.target));
    kit_close_channel(&kit, channel);
    (void)close(fd);
    (void)unlink(kit.path);
}

static void grpc_channel_comes_back_when_the_server_does(void **state)
{
    struct grpc_channel *channel = kit_channel(&kit, NULL);
    struct answer answer;
    int64_t begin;

    (void)state;
    kit_ask(&kit, channel, "/k/echo", "x", &answer);
    assert_int_equal(answer.status, GRPC_OK);
    kit_close_server(&kit, 0);
    for (int i = 0; i < 3; i++) {
        kit_ask(&kit, channel, "/k/echo", "x", &answer);
        assert_int_equal(answer.status, GRPC_UNAVAILABLE);
        assert_false(answer.sent);
    }
    kit_open_server(&kit);
    begin = loop_now_fresh_ms();
    do {
        kit_elapse(&kit, 10);
        kit_ask(&kit, channel, "/k/echo", "x", &answer);
        assert_true(loop_now_fresh_ms() < begin + 5000);
    } while (answer.status != GRPC_OK);
    kit_close_channel(&kit, channel);
}

static void grpc_server_gone_and_back_is_not_noticed_by_the_next_call(void **state)
{
    struct grpc_channel *channel = kit_channel(&kit, NULL);
    struct answer answer;

    (void)state;
    for (int i = 0; i < 5; i++) {
        kit_ask(&kit, channel, "/k/echo", "x", &answer);
        assert_int_equal(answer.status, GRPC_OK);
        kit_close_server(&kit, 0);
        kit_open_server(&kit);
    }
    kit_close_channel(&kit, channel);
}

static void grpc_targets_that_are_none_are_refused(void **state)
{
    static const char *const bad[] = {"",       "unix:",     "unix://host/path", "dns:x",
                                      "/a/b/c", "localhost", "unix://"};
    struct grpc_channel *channel;
    char path[200] = "unix:/";

    (void)state;
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
        assert_int_equal(grpc_channel_new(kit.loop, bad[i], NULL, &channel), -EINVAL);
    memset(path + 6, 'x', sizeof path - 7);
    path[sizeof path - 1] = '\0';
    assert_int_equal(grpc_channel_new(kit.loop, path, NULL, &channel), -ENAMETOOLONG);
}

static void grpc_target_with_slashes_is_the_same(void **state)
{
    struct grpc_channel *channel;
    struct answer answer;
    char target[128];

    (void)state;
    (void)snprintf(target, sizeof target, "unix://%s", kit.path);
    assert_int_equal(grpc_channel_new(kit.loop, target, NULL, &channel), 0);
    kit_ask(&kit, channel, "/k/echo", "x", &answer);
    assert_int_equal(answer.status, GRPC_OK);
    kit_close_channel(&kit, channel);
}

int main(void)
{
#define T(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
    const struct CMUnitTest tests[] = {
        T(grpc_unary_is_answered),
        T(grpc_sizes_around_frames_and_windows_come_whole),
        T(grpc_error_carries_its_text),
        T(grpc_first_finish_wins_and_sending_after_it_fails),
        T(grpc_stream_of_messages_comes_in_order),
        T(grpc_finish_before_the_client_is_done_ends_both),
        T(grpc_unknown_method_is_named),
        T(grpc_unary_takes_exactly_one_message),
        T(grpc_unary_answer_is_exactly_one_message),
        T(grpc_message_beyond_the_limit_is_refused_both_ways),
        T(grpc_metadata_is_found_by_key),
        T(grpc_deadline_ends_both_ends),
        T(grpc_cancel_ends_both_ends),
        T(grpc_cancel_before_anything_left_was_not_seen),
        T(grpc_closing_the_channel_cancels_its_requests),
        T(grpc_no_server_is_unavailable_and_not_sent),
        T(grpc_server_that_does_not_speak_times_out),
        T(grpc_connection_lost_under_way_is_unavailable),
        T(grpc_channel_comes_back_when_the_server_does),
        T(grpc_server_gone_and_back_is_not_noticed_by_the_next_call),
        T(grpc_targets_that_are_none_are_refused),
        T(grpc_target_with_slashes_is_the_same),
    };
    return cmocka_run_group_tests_name("grpc", tests, NULL, NULL);
}
