/* What one peer of a server may hold, whoever it is, and that the others are served whatever it does. */
#include <nghttp2/nghttp2.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "common/cert.h"
#include "tests/unit/net/kit.h"

enum {
    MESSAGE = 90000,
    /* So many unfinished messages a peer may hold, and a little more. */
    FITS = 11,
    HELD = 4 * (FITS * (MESSAGE + 4096) + 25000),
    SMALL = 16 * 4096,
    EXHAUSTED = GRPC_RESOURCE_EXHAUSTED,
};

static struct kit kit;

static const struct transport_peer root = {.local = true}, alice = {.local = true, .uid = 1001},
                                   bob = {.local = true, .uid = 1002},
                                   carol = {.local = true, .uid = 1003},
                                   dave = {.local = true, .uid = 1004}, stranger = {.local = false};

static void init(const struct grpc_limits *limits)
{
    kit_init(&kit, limits);
}

static int setup(void **state)
{
    static const struct grpc_limits limits = {.message_bytes = 100000, .held_bytes = HELD};

    (void)state;
    init(&limits);
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    kit_done(&kit);
    return 0;
}

static void hello(struct raw *raw, const struct transport_peer *peer)
{
    static struct raw_frame settings;

    raw_connect_as(&kit, raw, peer);
    raw_hello(raw);
    /* Its windows hold from our answer on. */
    assert_true(raw_expect(raw, NGHTTP2_SETTINGS, &settings));
    assert_true(raw_frame(raw, NGHTTP2_SETTINGS, NGHTTP2_FLAG_ACK, 0, NULL, 0));
}

/* The head of a message of MESSAGE bytes, and len bytes of it, on a stream of its own. */
static void send_part(struct raw *raw, uint32_t stream, const char *path, size_t len)
{
    static const uint8_t head[5] = {0, 0, MESSAGE >> 16, MESSAGE >> 8 & 0xff, MESSAGE & 0xff};
    static const uint8_t bytes[16384];

    assert_true(raw_request(raw, stream, 0, path));
    assert_true(raw_frame(raw, NGHTTP2_DATA, 0, stream, head, sizeof head));
    for (size_t part; len > 0; len -= part) {
        part = len < sizeof bytes ? len : sizeof bytes;
        assert_true(raw_frame(raw, NGHTTP2_DATA, 0, stream, bytes, part));
    }
}

/* The status of the next call that ends. */
static int next_status(struct raw *raw, void **inflater)
{
    static struct raw_frame frame;
    char digits[8] = "";

    while (!digits[0]) {
        assert_true(raw_expect(raw, NGHTTP2_HEADERS, &frame));
        raw_field(&frame, inflater, "grpc-status", digits, sizeof digits);
    }
    return atoi(digits);
}

/* Many calls, none of which comes to its end. refused: at least so many are. */
static void hold(struct raw *raw, const char *path, unsigned n, unsigned refused)
{
    void *inflater = NULL;

    for (unsigned i = 0; i < n; i++)
        send_part(raw, 2 * i + 1, path, MESSAGE - 1);
    for (unsigned i = 0; i < refused; i++)
        assert_int_equal(next_status(raw, &inflater), EXHAUSTED);
    raw_inflater_free(inflater);
}

/* A message that comes in pieces, so that some of it must be kept. */
static int ask(const struct transport_peer *peer)
{
    static const uint8_t byte[1];
    void *inflater = NULL;
    struct raw raw;
    int status;

    hello(&raw, peer);
    send_part(&raw, 1, "/k/echo", MESSAGE - 1);
    (void)raw_frame(&raw, NGHTTP2_DATA, NGHTTP2_FLAG_END_STREAM, 1, byte, 1);
    /* So much of the answer fits into the window before we open it. */
    (void)raw_frame(&raw, NGHTTP2_WINDOW_UPDATE, 0, 0, "\0\1\0\0", 4);
    (void)raw_frame(&raw, NGHTTP2_WINDOW_UPDATE, 0, 1, "\0\1\0\0", 4);
    status = next_status(&raw, &inflater);
    raw_inflater_free(inflater);
    raw_close(&raw);
    return status;
}

/* ---- bytes ---- */

static void peer_holds_a_quarter_over_all_its_connections(void **state)
{
    struct raw first, second;

    (void)state;
    hello(&first, &alice);
    hello(&second, &alice);
    hold(&first, "/k/bidi", FITS - 1, 0);
    hold(&second, "/k/bidi", 20, 19);
    assert_int_equal(ask(&alice), EXHAUSTED);
    assert_int_equal(ask(&bob), GRPC_OK);
    assert_int_equal(ask(&root), GRPC_OK);
    raw_close(&first);
    raw_close(&second);
    kit_elapse(&kit, 20);
    assert_int_equal(ask(&alice), GRPC_OK);
}

static void peer_is_who_the_certificate_names(void **state)
{
    static struct cert_identity node = {.kind = CERT_NODE, .name = "n1"},
                                user = {.kind = CERT_USER, .name = "n1"},
                                other = {.kind = CERT_NODE, .name = "n2"};
    const struct transport_peer by_node = {.tls = &node}, by_user = {.tls = &user},
                                by_other = {.tls = &other};
    struct raw raw;

    (void)state;
    hello(&raw, &by_node);
    hold(&raw, "/k/bidi", FITS + 1, 1);
    assert_int_equal(ask(&by_node), EXHAUSTED);
    assert_int_equal(ask(&by_user), GRPC_OK);
    assert_int_equal(ask(&by_other), GRPC_OK);
    assert_int_equal(ask(&stranger), GRPC_OK);
    raw_close(&raw);
}

static void peer_holds_what_came_while_it_is_paused(void **state)
{
    struct raw raw;

    (void)state;
    hello(&raw, &alice);
    /* In up to twice the room, by how they came. */
    hold(&raw, "/k/pause", 2 * FITS, FITS);
    assert_int_equal(ask(&bob), GRPC_OK);
    raw_close(&raw);
}

static void users_leave_a_quarter_to_root_and_machines(void **state)
{
    const struct transport_peer *users[] = {&alice, &bob, &carol};
    struct raw raws[3];

    (void)state;
    for (int i = 0; i < 3; i++) {
        hello(&raws[i], users[i]);
        hold(&raws[i], "/k/bidi", FITS + 1, 1);
    }
    assert_int_equal(ask(&dave), EXHAUSTED);
    assert_int_equal(ask(&stranger), EXHAUSTED);
    assert_int_equal(ask(&root), GRPC_OK);
    for (int i = 0; i < 3; i++)
        raw_close(&raws[i]);
}

static void init_small(void)
{
    static const struct grpc_limits limits = {.held_bytes = 4 * SMALL};

    init(&limits);
}

static void peer_has_so_many_calls_open(void **state)
{
    void *inflater = NULL;
    struct raw raws[3];

    (void)state;
    init_small();
    hello(&raws[0], &alice);
    hello(&raws[1], &alice);
    /* 4096 bytes each, on whichever connection. */
    for (uint32_t i = 0; i < SMALL / 4096; i++)
        assert_true(raw_request(&raws[i % 2], 2 * i + 1, 0, "/k/bidi"));
    (void)kit_call(&kit, SMALL / 4096);
    assert_true(raw_request(&raws[0], 1001, 0, "/k/bidi"));
    assert_int_equal(next_status(&raws[0], &inflater), EXHAUSTED);
    assert_int_equal(kit.n_calls, SMALL / 4096);
    raw_inflater_free(inflater);
    /* Another's does not care, and with its end one has room again. */
    hello(&raws[2], &bob);
    assert_true(raw_request(&raws[2], 1, 0, "/k/bidi"));
    (void)kit_call(&kit, SMALL / 4096 + 1);
    grpc_call_finish(kit.calls[0].grpc, GRPC_OK, NULL);
    kit_until(&kit, kit.calls[0].n_end);
    kit_elapse(&kit, 20);
    assert_true(raw_request(&raws[0], 1003, 0, "/k/bidi"));
    (void)kit_call(&kit, SMALL / 4096 + 2);
    for (int i = 0; i < 3; i++)
        raw_close(&raws[i]);
    kit_done(&kit);
}

static void peer_holds_what_the_owners_of_its_calls_keep(void **state)
{
    void *inflater = NULL;
    struct raw raw;

    (void)state;
    init_small();
    hello(&raw, &alice);
    for (uint32_t i = 0; i < 3; i++)
        assert_true(raw_request(&raw, 2 * i + 1, 0, "/k/bidi"));
    (void)kit_call(&kit, 3);
    assert_true(grpc_call_keep(kit.calls[0].grpc, SMALL / 2));
    assert_true(grpc_call_keep(kit.calls[0].grpc, SMALL - 3 * 4096));
    assert_false(grpc_call_keep(kit.calls[1].grpc, 1));
    assert_int_equal(next_status(&raw, &inflater), EXHAUSTED);
    kit_until(&kit, kit.calls[1].n_end);
    assert_true(grpc_call_keep(kit.calls[0].grpc, 0));
    assert_true(grpc_call_keep(kit.calls[2].grpc, SMALL / 2));
    raw_inflater_free(inflater);
    raw_close(&raw);
    kit_done(&kit);
}

static void peer_that_reads_no_answers_gets_no_more_of_them(void **state)
{
    static const uint8_t message[16000];
    void *inflater = NULL;
    struct raw raw;

    (void)state;
    init_small();
    hello(&raw, &alice);
    /* The connection's window takes four of them. */
    for (uint32_t i = 0; i < 20; i++) {
        assert_true(raw_request(&raw, 2 * i + 1, 0, "/k/echo"));
        assert_true(raw_message(&raw, 2 * i + 1, NGHTTP2_FLAG_END_STREAM, message, sizeof message));
    }
    for (int status = GRPC_OK; status != EXHAUSTED;)
        status = next_status(&raw, &inflater);
    raw_inflater_free(inflater);
    raw_close(&raw);
    kit_done(&kit);
}

static void peer_that_reads_a_stream_of_answers_gets_all_of_them(void **state)
{
    static const uint8_t message[16000];
    struct grpc_channel *channel;
    struct answer answer;

    (void)state;
    init_small();
    channel = kit_channel(&kit, NULL);
    kit_start(&kit, channel, "/k/stream", 0, &answer);
    assert_int_equal(grpc_request_send(answer.grpc, message, 1), 0);
    grpc_request_half_close(answer.grpc);
    for (unsigned n = 0; n < 20; n++) {
        assert_int_equal(grpc_call_send(kit_call(&kit, 1)->grpc, message, sizeof message), 0);
        kit_until(&kit, answer.n_messages == n + 1);
    }
    grpc_call_finish(kit.calls[0].grpc, GRPC_OK, NULL);
    kit_until(&kit, answer.n_end);
    assert_int_equal(answer.status, GRPC_OK);
    kit_close_channel(&kit, channel);
    kit_done(&kit);
}

/* ---- connections ---- */

static void oldest_connection_goes_where_that_is_wanted(void **state)
{
    static const struct grpc_limits limits = {.connections = 8, .oldest_goes = true};
    struct raw raws[4];
    char why[256];

    (void)state;
    init(&limits);
    for (int i = 0; i < 4; i++) {
        hello(&raws[i], &stranger);
        assert_true(raw_request(&raws[i], 1, 0, "/k/bidi"));
        (void)kit_call(&kit, (unsigned)i + 1);
    }
    for (int i = 0; i < 2; i++) {
        assert_int_equal(raw_until_closed(&raws[i], why, sizeof why), NGHTTP2_ENHANCE_YOUR_CALM);
        assert_string_equal(why, "too many connections");
    }
    kit_elapse(&kit, 20);
    assert_int_equal(kit.calls[2].n_end + kit.calls[3].n_end, 0);
    for (int i = 0; i < 4; i++)
        raw_close(&raws[i]);
    kit_done(&kit);
}

static void connection_ends_with_its_life_whatever_it_does(void **state)
{
    static const struct grpc_limits limits = {.life_ms = 50};
    struct raw raw;
    char why[256];

    (void)state;
    init(&limits);
    hello(&raw, &stranger);
    assert_true(raw_request(&raw, 1, 0, "/k/bidi"));
    (void)kit_call(&kit, 1);
    (void)raw_until_closed(&raw, why, sizeof why);
    assert_int_equal(kit.calls[0].n_end, 1);
    raw_close(&raw);
    kit_done(&kit);
}

int main(void)
{
#define T(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
    const struct CMUnitTest tests[] = {
        T(peer_holds_a_quarter_over_all_its_connections),
        T(peer_is_who_the_certificate_names),
        T(peer_holds_what_came_while_it_is_paused),
        T(users_leave_a_quarter_to_root_and_machines),
        cmocka_unit_test(peer_has_so_many_calls_open),
        cmocka_unit_test(peer_holds_what_the_owners_of_its_calls_keep),
        cmocka_unit_test(peer_that_reads_no_answers_gets_no_more_of_them),
        cmocka_unit_test(peer_that_reads_a_stream_of_answers_gets_all_of_them),
        cmocka_unit_test(oldest_connection_goes_where_that_is_wanted),
        cmocka_unit_test(connection_ends_with_its_life_whatever_it_does),
    };
    return cmocka_run_group_tests_name("grpc_peers", tests, NULL, NULL);
}
