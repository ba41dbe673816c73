/* A peer that sends what it likes: the server answers with an error, or closes with a reason, and serves the others on. */
#include <errno.h>
#include <malloc.h>
#include <nghttp2/nghttp2.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>

#include "tests/unit/net/kit.h"

static struct kit kit;
static struct raw raw;
static struct raw_frame frame;
static struct grpc_channel *good;

/* Limits that make tests quick; the defaults' numbers where numbers matter. */
static const struct grpc_limits limits = {
    .handshake_ms = 150, .keepalive_ms = 100, .streams = 100, .message_bytes = 100000};

static int setup(void **state)
{
    struct answer answer;

    (void)state;
    kit_init(&kit, &limits);
    good = kit_channel(&kit, NULL);
    kit_ask(&kit, good, "/k/echo", "before", &answer);
    assert_int_equal(answer.status, GRPC_OK);
    raw_connect(&kit, &raw);
    return 0;
}

/* Whatever was done to the server: an honest client is served on the connection it had. */
static int teardown(void **state)
{
    struct answer answer;

    (void)state;
    raw_close(&raw);
    kit_ask(&kit, good, "/k/echo", "after", &answer);
    assert_int_equal(answer.status, GRPC_OK);
    kit_close_channel(&kit, good);
    kit_done(&kit);
    return 0;
}

/* The server closes, with that GOAWAY code (-1: none) and, if why is given, words in it. */
static void expect_closed(int64_t code, const char *why)
{
    char text[256];

    assert_int_equal(raw_until_closed(&raw, text, sizeof text), code);
    if (why && !strstr(text, why))
        fail_msg("GOAWAY said: %s", text);
}

/* The answer to stream: its status digits, and its message holds words. */
static void expect_status(uint32_t stream, enum grpc_status status, const char *words)
{
    void *inflater = NULL;
    char digits[16] = "", message[512];

    do {
        assert_true(raw_expect(&raw, NGHTTP2_HEADERS, &frame));
        raw_field(&frame, &inflater, "grpc-status", digits, sizeof digits);
        if (!digits[0])
            continue;
        raw_inflater_free(inflater);
        inflater = NULL;
    } while (!digits[0]);
    assert_int_equal(frame.stream, stream);
    assert_true(frame.flags & NGHTTP2_FLAG_END_STREAM);
    assert_int_equal(atoi(digits), status);
    raw_inflater_free(inflater);
    if (!words)
        return;
    inflater = NULL;
    raw_field(&frame, &inflater, "grpc-message", message, sizeof message);
    raw_inflater_free(inflater);
    if (!strstr(message, words))
        fail_msg("grpc-message said: %s", message);
}

/* ---- not HTTP/2 ---- */

static void h2_http1_is_closed(void **state)
{
    static const char request[] = "GET / HTTP/1.1\r\nHost: localhost\r\n\r\n";

    (void)state;
    (void)raw_send(&raw, request, strlen(request));
    expect_closed(NGHTTP2_PROTOCOL_ERROR, NULL);
}

static void h2_noise_is_closed(void **state)
{
    unsigned seed = 7;
    uint8_t noise[4096];

    (void)state;
    for (size_t i = 0; i < sizeof noise; i++)
        noise[i] = (uint8_t)rand_r(&seed);
    (void)raw_send(&raw, noise, sizeof noise);
    expect_closed(NGHTTP2_PROTOCOL_ERROR, NULL);
}

static void h2_silence_is_closed_in_time(void **state)
{
    int64_t begin = loop_now_fresh_ms();

    (void)state;
    expect_closed(NGHTTP2_SETTINGS_TIMEOUT, "handshake within 150 ms");
    assert_in_range(loop_now_fresh_ms() - begin, 100, 60000);
}

static void h2_half_a_preface_is_closed_in_time(void **state)
{
    (void)state;
    (void)raw_send(&raw, NGHTTP2_CLIENT_MAGIC, 10);
    expect_closed(NGHTTP2_SETTINGS_TIMEOUT, NULL);
}

static void h2_preface_without_settings_is_closed_in_time(void **state)
{
    (void)state;
    (void)raw_send(&raw, NGHTTP2_CLIENT_MAGIC, NGHTTP2_CLIENT_MAGIC_LEN);
    expect_closed(NGHTTP2_SETTINGS_TIMEOUT, NULL);
}

static void h2_first_frame_other_than_settings_is_closed(void **state)
{
    (void)state;
    (void)raw_send(&raw, NGHTTP2_CLIENT_MAGIC, NGHTTP2_CLIENT_MAGIC_LEN);
    (void)raw_frame(&raw, NGHTTP2_PING, 0, 0, "12345678", 8);
    expect_closed(NGHTTP2_PROTOCOL_ERROR, NULL);
}

/* ---- malformed frames ---- */

static void h2_malformed_frames_are_connection_errors(void **state)
{
    static const struct {
        const char *what;
        uint8_t type, flags;
        uint32_t stream;
        const char *payload;
        size_t len;
        uint32_t code;
    } table[] = {
        {"DATA on stream 0", 0, 0, 0, "x", 1, NGHTTP2_PROTOCOL_ERROR},
        {"DATA on an idle stream", 0, 0, 1, "x", 1, NGHTTP2_PROTOCOL_ERROR},
        {"HEADERS on stream 0", 1, 4, 0, "\x82", 1, NGHTTP2_PROTOCOL_ERROR},
        {"HEADERS on an even stream", 1, 4, 2, "\x82", 1, NGHTTP2_PROTOCOL_ERROR},
        {"header block that is none", 1, 4, 1, "\xff\xff\xff\xff\xff\xff", 6,
         NGHTTP2_COMPRESSION_ERROR},
        {"index beyond the table", 1, 4, 1, "\xfe", 1, NGHTTP2_COMPRESSION_ERROR},
        {"padding longer than the frame", 1, 4 | 8, 1, "\xff\x82", 2, NGHTTP2_PROTOCOL_ERROR},
        {"RST_STREAM on an idle stream", 3, 0, 1, "\0\0\0\x08", 4, NGHTTP2_PROTOCOL_ERROR},
        {"RST_STREAM of 3 bytes", 3, 0, 1, "\0\0\0", 3, NGHTTP2_FRAME_SIZE_ERROR},
        {"SETTINGS of 5 bytes", 4, 0, 0, "\0\0\0\0\0", 5, NGHTTP2_FRAME_SIZE_ERROR},
        {"SETTINGS on a stream", 4, 0, 1, "", 0, NGHTTP2_PROTOCOL_ERROR},
        {"SETTINGS ACK with payload", 4, 1, 0, "\0\0\0\0\0\0", 6, NGHTTP2_FRAME_SIZE_ERROR},
        {"ENABLE_PUSH 2", 4, 0, 0, "\0\2\0\0\0\2", 6, NGHTTP2_PROTOCOL_ERROR},
        {"INITIAL_WINDOW_SIZE 2^31", 4, 0, 0, "\0\4\x80\0\0\0", 6, NGHTTP2_FLOW_CONTROL_ERROR},
        {"MAX_FRAME_SIZE 1", 4, 0, 0, "\0\5\0\0\0\1", 6, NGHTTP2_PROTOCOL_ERROR},
        {"PUSH_PROMISE", 5, 4, 1, "\0\0\0\2\x82", 5, NGHTTP2_PROTOCOL_ERROR},
        {"PING of 7 bytes", 6, 0, 0, "1234567", 7, NGHTTP2_FRAME_SIZE_ERROR},
        {"PING on a stream", 6, 0, 1, "12345678", 8, NGHTTP2_PROTOCOL_ERROR},
        {"GOAWAY of 3 bytes", 7, 0, 0, "\0\0\0", 3, NGHTTP2_FRAME_SIZE_ERROR},
        {"WINDOW_UPDATE of 0", 8, 0, 0, "\0\0\0\0", 4, NGHTTP2_PROTOCOL_ERROR},
        {"window beyond 2^31", 8, 0, 0, "\x7f\xff\xff\xff", 4, NGHTTP2_FLOW_CONTROL_ERROR},
        {"CONTINUATION of nothing", 9, 4, 1, "\x82", 1, NGHTTP2_PROTOCOL_ERROR},
    };
    char why[256];

    (void)state;
    for (size_t i = 0; i < sizeof table / sizeof *table; i++) {
        int64_t code;

        raw_close(&raw);
        raw_connect(&kit, &raw);
        raw_hello(&raw);
        (void)raw_frame(&raw, table[i].type, table[i].flags, table[i].stream, table[i].payload,
                        table[i].len);
        code = raw_until_closed(&raw, why, sizeof why);
        if (code != table[i].code)
            fail_msg("%s: code %lld, %s", table[i].what, (long long)code, why);
    }
}

static void h2_frame_beyond_the_size_is_closed(void **state)
{
    static const uint8_t head[] = {0x00, 0x40, 0x01, 0, 0, 0, 0, 0, 1};

    (void)state;
    raw_hello(&raw);
    (void)raw_send(&raw, head, sizeof head);
    expect_closed(NGHTTP2_FRAME_SIZE_ERROR, NULL);
}

static void h2_frame_inside_a_header_block_is_closed(void **state)
{
    (void)state;
    raw_hello(&raw);
    (void)raw_frame(&raw, NGHTTP2_HEADERS, 0, 1, "\x82", 1);
    (void)raw_frame(&raw, NGHTTP2_PING, 0, 0, "12345678", 8);
    expect_closed(NGHTTP2_PROTOCOL_ERROR, NULL);
}

static void h2_frame_cut_off_and_left_ends_its_call(void **state)
{
    static const uint8_t cut[] = {0, 0, 100, NGHTTP2_DATA, 0, 0, 0, 0, 1, 0, 0, 0};

    (void)state;
    raw_hello(&raw);
    assert_true(raw_request(&raw, 1, 0, "/k/bidi"));
    (void)raw_send(&raw, cut, sizeof cut);
    kit_until(&kit, kit.n_calls == 2);
    raw_close(&raw);
    kit_until(&kit, kit.calls[1].n_end);
    raw_connect(&kit, &raw);
}

static void h2_random_frames_do_no_harm(void **state)
{
    unsigned seed = 20;

    (void)state;
    for (int round = 0; round < 300; round++) {
        raw_close(&raw);
        raw_connect(&kit, &raw);
        raw_hello(&raw);
        for (int i = 0; i < 20; i++) {
            uint8_t payload[64];
            size_t len = (size_t)rand_r(&seed) % sizeof payload;

            for (size_t k = 0; k < len; k++)
                payload[k] = (uint8_t)rand_r(&seed);
            if (i == 5 && !raw_request(&raw, 1, 0, "/k/bidi"))
                break;
            if (!raw_frame(&raw, (uint8_t)(rand_r(&seed) % 12), (uint8_t)rand_r(&seed),
                           (uint32_t)rand_r(&seed) % 4, payload, len))
                break;
        }
        kit_elapse(&kit, 0);
    }
    raw_close(&raw);
    raw_connect(&kit, &raw);
    kit_until(&kit, ({
        bool all = true;
        for (unsigned i = 0; i < kit.n_calls; i++)
            all = all && kit.calls[i].n_end;
        all;
    }));
}

/* ---- malformed requests: the stream's fault, not the connection's ---- */

static void h2_request_without_path_is_reset(void **state)
{
    static const char *const fields[] = {":method", "POST",         ":scheme",
                                         "http",    "content-type", "application/grpc"};

    (void)state;
    raw_hello(&raw);
    assert_true(raw_headers(&raw, 1, NGHTTP2_FLAG_END_STREAM, fields, 3));
    assert_true(raw_expect(&raw, NGHTTP2_RST_STREAM, &frame));
    assert_int_equal(frame.payload[3], NGHTTP2_PROTOCOL_ERROR);
    assert_true(raw_request(&raw, 3, 0, "/k/echo"));
    assert_true(raw_message(&raw, 3, NGHTTP2_FLAG_END_STREAM, "x", 1));
    expect_status(3, GRPC_OK, NULL);
}

static void h2_requests_that_are_not_grpc_get_http_answers(void **state)
{
    static const struct {
        const char *method, *type, *status;
    } table[] = {
        {"POST", "application/json", "415"},
        {"POST", "application/grpc-web", "415"},
        {"POST", "", "415"},
        {"GET", "application/grpc", "405"},
    };
    void *inflater = NULL;

    (void)state;
    raw_hello(&raw);
    for (size_t i = 0; i < sizeof table / sizeof *table; i++) {
        const char *fields[] = {":method", table[i].method, ":scheme",      "http",
                                ":path",   "/k/echo",       ":authority",   "x",
                                "te",      "trailers",      "content-type", table[i].type};
        uint32_t stream = (uint32_t)(2 * i + 1);
        char status[16];

        assert_true(raw_headers(&raw, stream, NGHTTP2_FLAG_END_STREAM, fields, 6));
        assert_true(raw_expect(&raw, NGHTTP2_HEADERS, &frame));
        assert_int_equal(frame.stream, stream);
        raw_field(&frame, &inflater, ":status", status, sizeof status);
        assert_string_equal(status, table[i].status);
    }
    raw_inflater_free(inflater);
    assert_int_equal(kit.n_calls, 1);
}

static void request_with(uint32_t stream, const char *name, const char *value)
{
    const char *fields[] = {
        ":method", "POST",         ":scheme",          "http", ":path", "/k/stream", ":authority",
        "x",       "content-type", "application/grpc", name,   value};

    assert_true(raw_headers(&raw, stream, 0, fields, 6));
}

static void h2_grpc_timeout_that_is_none_is_refused_by_name(void **state)
{
    (void)state;
    raw_hello(&raw);
    request_with(1, "grpc-timeout", "5 days");
    expect_status(1, GRPC_INVALID_ARGUMENT, "5 days");
}

static void h2_deadline_is_the_servers_too(void **state)
{
    (void)state;
    raw_hello(&raw);
    request_with(1, "grpc-timeout", "40m");
    expect_status(1, GRPC_DEADLINE_EXCEEDED, "40 ms");
    kit_until(&kit, kit.calls[1].n_end);
}

static void h2_deadline_of_nothing_has_passed(void **state)
{
    (void)state;
    raw_hello(&raw);
    request_with(1, "grpc-timeout", "0m");
    expect_status(1, GRPC_DEADLINE_EXCEEDED, "0 ms");
    assert_int_equal(kit.n_calls, 1);
}

static void h2_deadline_passes_a_peer_that_gives_no_window(void **state)
{
    (void)state;
    assert_true(raw_send(&raw, NGHTTP2_CLIENT_MAGIC, NGHTTP2_CLIENT_MAGIC_LEN));
    assert_true(raw_frame(&raw, NGHTTP2_SETTINGS, 0, 0, "\0\4\0\0\0\0", 6));
    request_with(1, "grpc-timeout", "60m");
    kit_until(&kit, kit.n_calls == 2);
    assert_int_equal(grpc_call_send(kit.calls[1].grpc, (const uint8_t *)"stuck", 5), 0);
    expect_status(1, GRPC_DEADLINE_EXCEEDED, "60 ms");
}

static void h2_compressed_requests_are_refused_by_name(void **state)
{
    (void)state;
    raw_hello(&raw);
    request_with(1, "grpc-encoding", "snappy");
    expect_status(1, GRPC_UNIMPLEMENTED, "snappy");
    request_with(3, "grpc-encoding", "identity");
    assert_true(raw_frame(&raw, NGHTTP2_DATA, NGHTTP2_FLAG_END_STREAM, 3, "\1\0\0\0\1x", 6));
    raw_close(&raw);
    raw_connect(&kit, &raw);
    raw_hello(&raw);
    assert_true(raw_request(&raw, 1, 0, "/k/echo"));
    assert_true(raw_frame(&raw, NGHTTP2_DATA, NGHTTP2_FLAG_END_STREAM, 1, "\1\0\0\0\1x", 6));
    expect_status(1, GRPC_UNIMPLEMENTED, "compressed");
}

static void h2_messages_that_are_none_are_refused(void **state)
{
    static const struct {
        const char *data;
        size_t len;
        enum grpc_status status;
        const char *words;
    } table[] = {
        {"\7\0\0\0\1x", 6, GRPC_INTERNAL, "first byte is 7"},
        {"\0\0\0\0\5x", 6, GRPC_INTERNAL, "inside a message"},
        {"\0\0", 2, GRPC_INTERNAL, "inside a message"},
        {"\0\1\0\0\0x", 6, GRPC_RESOURCE_EXHAUSTED,
         "16777216 bytes is larger than the limit of 100000"},
        {"\0\xff\xff\xff\xff", 5, GRPC_RESOURCE_EXHAUSTED, "4294967295"},
        {"", 0, GRPC_UNIMPLEMENTED, "no request message"},
        {"\0\0\0\0\0\0\0\0\0\0", 10, GRPC_UNIMPLEMENTED, "more than one"},
    };

    (void)state;
    for (size_t i = 0; i < sizeof table / sizeof *table; i++) {
        raw_close(&raw);
        raw_connect(&kit, &raw);
        raw_hello(&raw);
        assert_true(raw_request(&raw, 1, 0, "/k/stream"));
        assert_true(
            raw_frame(&raw, NGHTTP2_DATA, NGHTTP2_FLAG_END_STREAM, 1, table[i].data, table[i].len));
        expect_status(1, table[i].status, table[i].words);
    }
}

static void h2_too_large_message_is_refused_by_its_length_alone(void **state)
{
    (void)state;
    raw_hello(&raw);
    assert_true(raw_request(&raw, 1, 0, "/k/stream"));
    assert_true(raw_frame(&raw, NGHTTP2_DATA, 0, 1, "\0\1\0\0\0", 5));
    expect_status(1, GRPC_RESOURCE_EXHAUSTED, "16777216");
    /* And the client is told to stop sending. */
    assert_true(raw_expect(&raw, NGHTTP2_RST_STREAM, &frame));
    assert_int_equal(frame.payload[3], NGHTTP2_NO_ERROR);
}

static void h2_padding_and_trailers_of_the_client_are_fine(void **state)
{
    static const char *const trailer[] = {"x-checksum", "1"};

    (void)state;
    raw_hello(&raw);
    assert_true(raw_request(&raw, 1, 0, "/k/echo"));
    assert_true(raw_frame(&raw, NGHTTP2_DATA, NGHTTP2_FLAG_PADDED, 1, "\3\0\0\0\0\1xppp", 10));
    assert_true(raw_headers(&raw, 1, NGHTTP2_FLAG_END_STREAM, trailer, 1));
    expect_status(1, GRPC_OK, NULL);
}

/* ---- header lists ---- */

/* A header list with n fields of 1,000 bytes. */
static bool big_request(uint32_t stream, size_t n)
{
    static const char *fields[2 * 128] = {
        ":method",   "POST",       ":scheme", "http",         ":path",
        "/k/stream", ":authority", "x",       "content-type", "application/grpc"};
    static char values[128][1001];

    for (size_t i = 0; i < n; i++) {
        memset(values[i], 'a' + (int)(i % 26), 1000);
        fields[10 + 2 * i] = "x-big";
        fields[11 + 2 * i] = values[i];
    }
    return raw_headers(&raw, stream, NGHTTP2_FLAG_END_STREAM, fields, 5 + n);
}

static void h2_header_list_beyond_the_limit_is_refused_naming_it(void **state)
{
    (void)state;
    raw_hello(&raw);
    assert_true(big_request(1, 20));
    expect_status(1, GRPC_RESOURCE_EXHAUSTED, "16384");
    assert_int_equal(kit.n_calls, 1);
    assert_true(raw_request(&raw, 3, 0, "/k/bidi"));
    kit_until(&kit, kit.n_calls == 2);
}

static void h2_header_list_out_of_small_references_is_cut(void **state)
{
    uint8_t block[16384];
    size_t len = 0;

    (void)state;
    raw_hello(&raw);
    assert_true(big_request(1, 3)); /* fills the table with 1,000 byte values */
    expect_status(1, GRPC_UNIMPLEMENTED, NULL);
    memset(block, 0x80 | 62, sizeof block); /* each byte: such a field again */
    len = sizeof block;
    (void)raw_frame(&raw, NGHTTP2_HEADERS, NGHTTP2_FLAG_END_HEADERS, 3, block, len);
    expect_closed(NGHTTP2_ENHANCE_YOUR_CALM, "header list");
}

static void h2_continuations_without_end_are_closed(void **state)
{
    bool open = true;

    (void)state;
    raw_hello(&raw);
    assert_true(raw_frame(&raw, NGHTTP2_HEADERS, 0, 1, "\x82", 1));
    for (int i = 0; i < 10000 && open; i++)
        open = raw_frame(&raw, NGHTTP2_CONTINUATION, 0, 1, "", 0);
    expect_closed(NGHTTP2_PROTOCOL_ERROR, NULL);
}

/* ---- floods ---- */

static void h2_rapid_reset_is_closed(void **state)
{
    uint32_t stream = 1;

    (void)state;
    raw_hello(&raw);
    while (stream < 100000 && raw_request(&raw, stream, 0, "/k/bidi") &&
           raw_frame(&raw, NGHTTP2_RST_STREAM, 0, stream, "\0\0\0\x08", 4))
        stream += 2;
    expect_closed(NGHTTP2_ENHANCE_YOUR_CALM, "reset");
    assert_in_range(kit.n_calls, 100, 1000);
    for (unsigned i = 1; i < kit.n_calls; i++)
        kit_until(&kit, kit.calls[i].n_end);
}

static void h2_cancelling_all_streams_twice_is_no_flood(void **state)
{
    (void)state;
    raw_hello(&raw);
    for (uint32_t i = 0; i < 200; i++) {
        assert_true(raw_request(&raw, 2 * i + 1, 0, "/k/bidi"));
        assert_true(raw_frame(&raw, NGHTTP2_RST_STREAM, 0, 2 * i + 1, "\0\0\0\x08", 4));
    }
    assert_true(raw_request(&raw, 401, 0, "/k/echo"));
    assert_true(raw_message(&raw, 401, NGHTTP2_FLAG_END_STREAM, "x", 1));
    expect_status(401, GRPC_OK, NULL);
}

/* Resets that the server has to send for what the client does are the client's all the same. */
static void h2_making_the_server_reset_is_closed(void **state)
{
    uint32_t stream = 1;

    (void)state;
    raw_hello(&raw);
    while (stream < 100000 && raw_request(&raw, stream, 0, "/k/bidi") &&
           raw_frame(&raw, NGHTTP2_WINDOW_UPDATE, 0, stream, "\x7f\xff\xff\xff", 4))
        stream += 2;
    expect_closed(NGHTTP2_ENHANCE_YOUR_CALM, "reset");
    assert_in_range(kit.n_calls, 100, 1000);
}

static void h2_frames_that_carry_nothing_are_a_flood(void **state)
{
    static const struct {
        const char *what;
        uint8_t type;
        uint32_t stream;
        const char *payload;
        size_t len;
    } table[] = {
        {"SETTINGS", NGHTTP2_SETTINGS, 0, "", 0},
        {"PING", NGHTTP2_PING, 0, "12345678", 8},
        {"PRIORITY", NGHTTP2_PRIORITY, 1, "\0\0\0\0\1", 5},
        {"empty DATA", NGHTTP2_DATA, 1, "", 0},
        {"WINDOW_UPDATE", NGHTTP2_WINDOW_UPDATE, 1, "\0\0\0\1", 4},
    };

    (void)state;
    for (size_t i = 0; i < sizeof table / sizeof *table; i++) {
        bool open = true;
        int n = 0;

        raw_close(&raw);
        raw_connect(&kit, &raw);
        raw_hello(&raw);
        assert_true(raw_request(&raw, 1, 0, "/k/bidi"));
        for (; n < 100000 && open; n++) {
            char drain[4096];

            open = raw_frame(&raw, table[i].type, 0, table[i].stream, table[i].payload,
                             table[i].len);
            if (n % 64 == 0)
                (void)!read(raw.fd, drain, sizeof drain);
        }
        if (open)
            fail_msg("%s: 100000 were taken", table[i].what);
        assert_true(n >= 10000);
    }
}

/* They are ignored unseen (RFC 9113, 5.5): no answer, no memory, no more work than their bytes. */
static void h2_frames_of_unknown_types_are_passed_over(void **state)
{
    size_t before = mallinfo2().uordblks;

    (void)state;
    raw_hello(&raw);
    for (int i = 0; i < 20000; i++)
        assert_true(
            raw_frame(&raw, (uint8_t)(77 + i % 100), (uint8_t)i, (uint32_t)i, "unknown", 7));
    assert_true(mallinfo2().uordblks < before + (1 << 20));
    assert_true(raw_request(&raw, 1, 0, "/k/echo"));
    assert_true(raw_message(&raw, 1, NGHTTP2_FLAG_END_STREAM, "x", 1));
    expect_status(1, GRPC_OK, NULL);
}

static void h2_pings_with_answers_unread_are_bounded(void **state)
{
    size_t before = mallinfo2().uordblks;
    bool open = true;

    (void)state;
    raw_hello(&raw);
    for (int n = 0; n < 200000 && open; n++)
        open = raw_frame(&raw, NGHTTP2_PING, 0, 0, "12345678", 8);
    assert_false(open);
    assert_true(mallinfo2().uordblks < before + (4 << 20));
}

static void h2_requests_with_answers_unread_are_bounded(void **state)
{
    static const char small[60000];
    size_t before = mallinfo2().uordblks;
    struct timespec from, to;
    uint32_t stream = 1;
    bool open = true;

    (void)state;
    raw_hello(&raw);
    assert_true(raw_frame(&raw, NGHTTP2_WINDOW_UPDATE, 0, 0, "\x0f\xff\xff\xff", 4));
    (void)clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &from);
    for (; stream < 4000 && open; stream += 2)
        open = raw_request(&raw, stream, 0, "/k/echo") &&
               raw_message(&raw, stream, NGHTTP2_FLAG_END_STREAM, small, 16000);
    assert_true(mallinfo2().uordblks < before + (16 << 20));
    /* Silent to PING as well: it ends. */
    kit_until(&kit, ({
        bool all = true;
        for (unsigned i = 1; i < kit.n_calls; i++)
            all = all && kit.calls[i].n_end;
        all && !raw_frame(&raw, NGHTTP2_PING, NGHTTP2_FLAG_ACK, 0, "12345678", 8);
    }));
    (void)clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &to);
    assert_true(to.tv_sec - from.tv_sec < 5);
}

/* ---- streams and windows ---- */

static void h2_streams_beyond_the_limit_are_refused(void **state)
{
    (void)state;
    raw_hello(&raw);
    /* Our SETTINGS are not acknowledged yet: the peer may not know better. */
    for (uint32_t i = 0; i <= limits.streams; i++)
        assert_true(raw_request(&raw, 2 * i + 1, 0, "/k/bidi"));
    assert_true(raw_expect(&raw, NGHTTP2_RST_STREAM, &frame));
    assert_int_equal(frame.payload[3], NGHTTP2_REFUSED_STREAM);
    assert_int_equal(frame.stream, 2 * limits.streams + 1);
    assert_int_equal(kit.n_calls, limits.streams + 1);
    /* Now it does. */
    assert_true(raw_frame(&raw, NGHTTP2_SETTINGS, NGHTTP2_FLAG_ACK, 0, "", 0));
    (void)raw_request(&raw, 2 * limits.streams + 3, 0, "/k/bidi");
    expect_closed(NGHTTP2_PROTOCOL_ERROR, NULL);
}

static void h2_more_bytes_than_the_window_are_an_error(void **state)
{
    static const uint8_t data[16384];
    bool open = true;

    (void)state;
    raw_hello(&raw);
    assert_true(raw_expect(&raw, NGHTTP2_SETTINGS, &frame));
    assert_true(raw_frame(&raw, NGHTTP2_SETTINGS, NGHTTP2_FLAG_ACK, 0, "", 0));
    assert_true(raw_request(&raw, 1, 0, "/k/pause"));
    for (int i = 0; i < 70 && open; i++)
        open = raw_frame(&raw, NGHTTP2_DATA, 0, 1, data, sizeof data);
    do {
        if (!raw_expect(&raw, NGHTTP2_RST_STREAM, &frame))
            return; /* or the connection, at once */
    } while (frame.stream != 1);
    assert_int_equal(frame.payload[3], NGHTTP2_FLOW_CONTROL_ERROR);
}

static void h2_finished_call_without_window_ends_and_is_reset(void **state)
{
    int64_t begin = loop_now_fresh_ms();

    (void)state;
    assert_true(raw_send(&raw, NGHTTP2_CLIENT_MAGIC, NGHTTP2_CLIENT_MAGIC_LEN));
    assert_true(raw_frame(&raw, NGHTTP2_SETTINGS, 0, 0, "\0\4\0\0\0\0", 6));
    assert_true(raw_request(&raw, 1, 0, "/k/echo"));
    assert_true(raw_message(&raw, 1, NGHTTP2_FLAG_END_STREAM, "x", 1));
    kit_until(&kit, kit.n_calls == 2 && kit.calls[1].n_end); /* its owner does not wait */
    assert_true(loop_now_fresh_ms() < begin + 2000);
    for (;;) { /* alive: PINGs are answered, only no window is given */
        struct raw_frame got;

        assert_true(raw_expect(&raw, NGHTTP2_PING, &got));
        assert_true(raw_frame(&raw, NGHTTP2_PING, NGHTTP2_FLAG_ACK, 0, got.payload, 8));
        kit_elapse(&kit, 10);
        if (memmem(raw.in, raw.in_len, "\0\0\4\3\0\0\0\0\1\0\0\0\x08", 13))
            break;
        if (loop_now_fresh_ms() > begin + KIT_WAIT_MS)
            fail_msg("not reset");
    }
}

static void h2_unfinished_messages_are_bounded_in_all(void **state)
{
    /* 64 largest messages may be under way at once; here each stream holds nearly one. */
    static uint8_t part[16384] = {0, 0, 1, 0x86, 0xa0};
    size_t before = mallinfo2().uordblks;
    unsigned refused = 0;

    (void)state;
    raw_hello(&raw);
    for (uint32_t i = 0; i < limits.streams; i++) {
        assert_true(raw_request(&raw, 2 * i + 1, 0, "/k/bidi"));
        for (int k = 0; k < 6; k++)
            (void)raw_frame(&raw, NGHTTP2_DATA, 0, 2 * i + 1, k == 0 ? part : part + 5,
                            sizeof part - 5);
        refused += kit.calls[i + 1].n_end;
    }
    assert_true(mallinfo2().uordblks - before < (size_t)10 << 20);
    for (uint32_t i = 0; i < limits.streams; i++)
        refused += kit.calls[i + 1].n_end;
    assert_in_range(refused, 10, 2 * limits.streams);
}

/* ---- half-open ---- */

static void h2_peer_that_answers_no_ping_is_closed(void **state)
{
    int64_t begin = loop_now_fresh_ms();

    (void)state;
    raw_hello(&raw);
    assert_true(raw_request(&raw, 1, 0, "/k/bidi"));
    kit_until(&kit, kit.n_calls == 2);
    kit_until(&kit, kit.calls[1].n_end);
    assert_in_range(loop_now_fresh_ms() - begin, 180, 60000);
    expect_closed(-1, NULL);
}

static void h2_idle_peer_is_left_alone(void **state)
{
    (void)state;
    raw_hello(&raw);
    kit_elapse(&kit, 400);
    assert_true(raw_request(&raw, 1, 0, "/k/echo"));
    assert_true(raw_message(&raw, 1, NGHTTP2_FLAG_END_STREAM, "x", 1));
    expect_status(1, GRPC_OK, NULL);
}

static void h2_goaway_of_the_client_lets_its_calls_end(void **state)
{
    (void)state;
    raw_hello(&raw);
    assert_true(raw_request(&raw, 1, 0, "/k/bidi"));
    kit_until(&kit, kit.n_calls == 2);
    assert_true(raw_frame(&raw, NGHTTP2_GOAWAY, 0, 0, "\0\0\0\0\0\0\0\0", 8));
    kit_elapse(&kit, 20);
    assert_int_equal(grpc_call_send(kit.calls[1].grpc, (const uint8_t *)"last", 4), 0);
    grpc_call_finish(kit.calls[1].grpc, GRPC_OK, NULL);
    expect_status(1, GRPC_OK, NULL);
    expect_closed(-1, NULL);
}

int main(void)
{
#define T(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
    const struct CMUnitTest tests[] = {
        T(h2_http1_is_closed),
        T(h2_noise_is_closed),
        T(h2_silence_is_closed_in_time),
        T(h2_half_a_preface_is_closed_in_time),
        T(h2_preface_without_settings_is_closed_in_time),
        T(h2_first_frame_other_than_settings_is_closed),
        T(h2_malformed_frames_are_connection_errors),
        T(h2_frame_beyond_the_size_is_closed),
        T(h2_frame_inside_a_header_block_is_closed),
        T(h2_frame_cut_off_and_left_ends_its_call),
        T(h2_random_frames_do_no_harm),
        T(h2_request_without_path_is_reset),
        T(h2_requests_that_are_not_grpc_get_http_answers),
        T(h2_grpc_timeout_that_is_none_is_refused_by_name),
        T(h2_deadline_is_the_servers_too),
        T(h2_deadline_of_nothing_has_passed),
        T(h2_deadline_passes_a_peer_that_gives_no_window),
        T(h2_compressed_requests_are_refused_by_name),
        T(h2_messages_that_are_none_are_refused),
        T(h2_too_large_message_is_refused_by_its_length_alone),
        T(h2_padding_and_trailers_of_the_client_are_fine),
        T(h2_header_list_beyond_the_limit_is_refused_naming_it),
        T(h2_header_list_out_of_small_references_is_cut),
        T(h2_continuations_without_end_are_closed),
        T(h2_rapid_reset_is_closed),
        T(h2_cancelling_all_streams_twice_is_no_flood),
        T(h2_making_the_server_reset_is_closed),
        T(h2_frames_that_carry_nothing_are_a_flood),
        T(h2_frames_of_unknown_types_are_passed_over),
        T(h2_pings_with_answers_unread_are_bounded),
        T(h2_requests_with_answers_unread_are_bounded),
        T(h2_streams_beyond_the_limit_are_refused),
        T(h2_more_bytes_than_the_window_are_an_error),
        T(h2_finished_call_without_window_ends_and_is_reset),
        T(h2_unfinished_messages_are_bounded_in_all),
        T(h2_peer_that_answers_no_ping_is_closed),
        T(h2_idle_peer_is_left_alone),
        T(h2_goaway_of_the_client_lets_its_calls_end),
    };
    return cmocka_run_group_tests_name("h2_hostile", tests, NULL, NULL);
}
