#include "tests/unit/net/kit.h"

#include <errno.h>
#include <nghttp2/nghttp2.h>
#include <poll.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <cmocka.h>

/* ---- the server's methods ---- */

static void keep(uint8_t *last, size_t *last_len, const uint8_t *data, size_t len)
{
    *last_len = len;
    if (len > 0)
        memcpy(last, data, len < 64 ? len : 64);
}

static void on_message(struct grpc_call *grpc, const uint8_t *data, size_t len, void *arg)
{
    struct call *call = arg;

    (void)grpc;
    assert_int_equal(call->n_end, 0);
    call->n_messages++;
    call->n_bytes += len;
    keep(call->last, &call->last_len, data, len);
}

static void on_echo(struct grpc_call *grpc, const uint8_t *data, size_t len, void *arg)
{
    on_message(grpc, data, len, arg);
    (void)grpc_call_send(grpc, data, len);
}

static void on_half_closed(struct grpc_call *grpc, void *arg)
{
    struct call *call = arg;

    (void)grpc;
    assert_int_equal(call->n_end, 0);
    call->n_half_closed++;
}

static void on_echo_done(struct grpc_call *grpc, void *arg)
{
    on_half_closed(grpc, arg);
    grpc_call_finish(grpc, GRPC_OK, NULL);
}

static void on_writable(struct grpc_call *grpc, void *arg)
{
    struct call *call = arg;

    (void)grpc;
    call->n_writable++;
}

static void on_end(struct grpc_call *grpc, void *arg)
{
    struct call *call = arg;

    (void)grpc;
    assert_int_equal(call->n_end, 0);
    call->n_end++;
    call->grpc = NULL;
}

static const struct {
    const char *path;
    struct grpc_call_events events;
    bool paused;
} methods[] = {
    {"/k/echo",
     {.message = on_echo,
      .half_closed = on_echo_done,
      .writable = on_writable,
      .end = on_end,
      .unary = true},
     false},
    {"/k/stream",
     {.message = on_message,
      .half_closed = on_half_closed,
      .writable = on_writable,
      .end = on_end,
      .unary = true},
     false},
    {"/k/bidi",
     {.message = on_message, .half_closed = on_half_closed, .writable = on_writable, .end = on_end},
     false},
    {"/k/slow",
     {.message = on_message, .half_closed = on_half_closed, .end = on_end, .unary = true},
     true},
    {"/k/pause", {.message = on_message, .half_closed = on_half_closed, .end = on_end}, true},
};

static void on_accept(struct grpc_call *grpc, const char *path, void *arg)
{
    struct kit *kit = arg;

    assert_false(kit->inside);
    for (size_t i = 0; i < sizeof methods / sizeof *methods; i++) {
        struct call *call = &kit->calls[kit->n_calls];

        if (strcmp(methods[i].path, path) != 0)
            continue;
        assert_true(kit->n_calls < KIT_CALLS);
        kit->n_calls++;
        *call = (struct call){.grpc = grpc,
                              .uid = grpc_call_peer(grpc)->uid,
                              .deadline_ms = grpc_call_deadline_ms(grpc)};
        (void)snprintf(call->path, sizeof call->path, "%s", path);
        grpc_call_bind(grpc, &methods[i].events, call);
        if (methods[i].paused)
            grpc_call_pause(grpc);
    }
}

/* ---- kit ---- */

void kit_init(struct kit *kit, const struct grpc_limits *limits)
{
    memset(kit, 0, sizeof *kit);
    (void)snprintf(kit->folder, sizeof kit->folder, "/tmp/xce-test-net-XXXXXX");
    assert_non_null(mkdtemp(kit->folder));
    (void)snprintf(kit->path, sizeof kit->path, "%s/s", kit->folder);
    (void)snprintf(kit->target, sizeof kit->target, "unix:%s", kit->path);
    kit->limits = limits;
    assert_int_equal(loop_new(&kit->loop), 0);
    kit_open_server(kit);
}

void kit_open_server(struct kit *kit)
{
    kit->server_closed = false;
    assert_int_equal(grpc_server_new(kit->loop, kit->limits, on_accept, kit, &kit->server), 0);
    assert_int_equal(grpc_server_listen_unix(kit->server, kit->path, 0600), 0);
}

static void on_server_closed(void *arg)
{
    struct kit *kit = arg;

    assert_false(kit->inside);
    kit->server_closed = true;
}

void kit_close_server(struct kit *kit, int64_t grace_ms)
{
    kit->inside = true;
    grpc_server_close(kit->server, grace_ms, on_server_closed, kit);
    kit->inside = false;
    kit->server = NULL;
    kit_until(kit, kit->server_closed);
}

void kit_done(struct kit *kit)
{
    for (size_t i = 0; i < sizeof kit->channels / sizeof *kit->channels; i++)
        if (kit->channels[i])
            kit_close_channel(kit, kit->channels[i]);
    if (kit->server)
        kit_close_server(kit, 0);
    for (unsigned i = 0; i < kit->n_calls; i++)
        assert_int_equal(kit->calls[i].n_end, 1);
    loop_free(kit->loop);
    assert_int_equal(rmdir(kit->folder), 0);
}

struct call *kit_call(struct kit *kit, unsigned n)
{
    kit_until(kit, kit->n_calls >= n);
    return &kit->calls[n - 1];
}

void kit_elapse(struct kit *kit, int64_t ms)
{
    int64_t end = loop_now_fresh_ms() + ms;

    while (loop_now_fresh_ms() < end)
        loop_step(kit->loop, (int)(end - loop_now_fresh_ms()));
}

/* ---- client ---- */

static void got_message(struct grpc_request *grpc, const uint8_t *data, size_t len, void *arg)
{
    struct answer *answer = arg;

    (void)grpc;
    assert_int_equal(answer->n_end, 0);
    answer->n_messages++;
    answer->n_bytes += len;
    keep(answer->last, &answer->last_len, data, len);
}

static void got_writable(struct grpc_request *grpc, void *arg)
{
    struct answer *answer = arg;

    (void)grpc;
    answer->n_writable++;
}

static void got_end(struct grpc_request *grpc, enum grpc_status status, const char *message,
                    bool sent, void *arg)
{
    struct answer *answer = arg;

    (void)grpc;
    assert_int_equal(answer->n_end, 0);
    answer->n_end++;
    answer->grpc = NULL;
    answer->status = status;
    answer->sent = sent;
    (void)snprintf(answer->message, sizeof answer->message, "%s", message);
}

static const struct grpc_request_events stream_events = {
    .message = got_message, .writable = got_writable, .end = got_end};
static const struct grpc_request_events unary_events = {
    .message = got_message, .writable = got_writable, .end = got_end, .unary = true};

struct grpc_channel *kit_channel(struct kit *kit, const struct grpc_limits *limits)
{
    struct grpc_channel *channel;

    assert_int_equal(grpc_channel_new(kit->loop, kit->target, limits, &channel), 0);
    for (size_t i = 0; i < sizeof kit->channels / sizeof *kit->channels; i++) {
        if (kit->channels[i])
            continue;
        kit->channels[i] = channel;
        return channel;
    }
    fail_msg("too many channels");
    return NULL;
}

static void set_true(void *arg)
{
    *(bool *)arg = true;
}

void kit_close_channel(struct kit *kit, struct grpc_channel *channel)
{
    bool closed = false;

    for (size_t i = 0; i < sizeof kit->channels / sizeof *kit->channels; i++)
        if (kit->channels[i] == channel)
            kit->channels[i] = NULL;
    grpc_channel_close(channel, set_true, &closed);
    assert_false(closed);
    kit_until(kit, closed);
}

static void start(struct kit *kit, struct grpc_channel *channel, const char *path,
                  int64_t timeout_ms, const struct grpc_request_events *events,
                  struct answer *answer)
{
    memset(answer, 0, sizeof *answer);
    kit->inside = true;
    assert_int_equal(
        grpc_request_start(channel, path, timeout_ms, kit->metadata, events, answer, &answer->grpc),
        0);
    kit->inside = false;
    assert_int_equal(answer->n_end, 0);
}

void kit_start(struct kit *kit, struct grpc_channel *channel, const char *path, int64_t timeout_ms,
               struct answer *answer)
{
    start(kit, channel, path, timeout_ms, &stream_events, answer);
}

void kit_unary(struct kit *kit, struct grpc_channel *channel, const char *path, int64_t timeout_ms,
               const void *message, size_t len, struct answer *answer)
{
    start(kit, channel, path, timeout_ms, &unary_events, answer);
    (void)grpc_request_send(answer->grpc, message, len);
    grpc_request_half_close(answer->grpc);
}

void kit_ask(struct kit *kit, struct grpc_channel *channel, const char *path, const char *message,
             struct answer *answer)
{
    kit_unary(kit, channel, path, 0, message, strlen(message), answer);
    kit_until(kit, answer->n_end);
}

/* ---- raw ---- */

static void raw_init(struct kit *kit, struct raw *raw, int fd)
{
    memset(raw, 0, sizeof *raw);
    raw->kit = kit;
    raw->fd = fd;
    assert_int_equal(nghttp2_hd_deflate_new((nghttp2_hd_deflater **)&raw->deflater, 4096), 0);
}

void raw_connect(struct kit *kit, struct raw *raw)
{
    struct sockaddr_un addr = {.sun_family = AF_UNIX};
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);

    assert_true(fd >= 0);
    (void)snprintf(addr.sun_path, sizeof addr.sun_path, "%s", kit->path);
    assert_int_equal(connect(fd, (struct sockaddr *)&addr, sizeof addr), 0);
    raw_init(kit, raw, fd);
}

void raw_connect_as(struct kit *kit, struct raw *raw, const struct transport_peer *peer)
{
    struct transport *transport;
    int fds[2];

    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, fds), 0);
    assert_int_equal(transport_unix_new(kit->loop, fds[0], NULL, NULL, &transport), 0);
    transport->peer = *peer;
    grpc_server_adopt(kit->server, transport);
    raw_init(kit, raw, fds[1]);
}

void raw_close(struct raw *raw)
{
    (void)close(raw->fd);
    nghttp2_hd_deflate_del(raw->deflater);
}

bool raw_send(struct raw *raw, const void *data, size_t len)
{
    int64_t end = loop_now_fresh_ms() + KIT_WAIT_MS;

    while (len > 0) {
        ssize_t n = send(raw->fd, data, len, MSG_NOSIGNAL);

        if (n < 0 && errno != EAGAIN)
            return false;
        if (n > 0) {
            data = (const uint8_t *)data + n;
            len -= (size_t)n;
        }
        if (loop_now_fresh_ms() > end)
            fail_msg("the server takes no bytes");
        loop_step(raw->kit->loop, n < 0 ? 10 : 0);
    }
    return true;
}

bool raw_frame(struct raw *raw, uint8_t type, uint8_t flags, uint32_t stream, const void *payload,
               size_t len)
{
    uint8_t head[9] = {(uint8_t)(len >> 16),
                       (uint8_t)(len >> 8),
                       (uint8_t)len,
                       type,
                       flags,
                       (uint8_t)(stream >> 24),
                       (uint8_t)(stream >> 16),
                       (uint8_t)(stream >> 8),
                       (uint8_t)stream};

    return raw_send(raw, head, sizeof head) && raw_send(raw, payload, len);
}

void raw_hello(struct raw *raw)
{
    assert_true(raw_send(raw, NGHTTP2_CLIENT_MAGIC, NGHTTP2_CLIENT_MAGIC_LEN));
    assert_true(raw_frame(raw, NGHTTP2_SETTINGS, 0, 0, NULL, 0));
}

bool raw_headers(struct raw *raw, uint32_t stream, uint8_t flags, const char *const *fields,
                 size_t n)
{
    nghttp2_nv nv[128];
    static uint8_t block[1 << 20];
    ssize_t len;

    assert_true(n <= 128);
    for (size_t i = 0; i < n; i++)
        nv[i] = (nghttp2_nv){.name = (uint8_t *)(uintptr_t)fields[2 * i],
                             .value = (uint8_t *)(uintptr_t)fields[2 * i + 1],
                             .namelen = strlen(fields[2 * i]),
                             .valuelen = strlen(fields[2 * i + 1])};
    len = nghttp2_hd_deflate_hd(raw->deflater, block, sizeof block, nv, n);
    assert_true(len >= 0);
    if (len <= 16384)
        return raw_frame(raw, NGHTTP2_HEADERS, flags | NGHTTP2_FLAG_END_HEADERS, stream, block,
                         (size_t)len);
    if (!raw_frame(raw, NGHTTP2_HEADERS, flags, stream, block, 16384))
        return false;
    for (size_t at = 16384; at < (size_t)len; at += 16384) {
        size_t part = (size_t)len - at < 16384 ? (size_t)len - at : 16384;

        if (!raw_frame(raw, NGHTTP2_CONTINUATION,
                       at + part == (size_t)len ? NGHTTP2_FLAG_END_HEADERS : 0, stream, block + at,
                       part))
            return false;
    }
    return true;
}

bool raw_request(struct raw *raw, uint32_t stream, uint8_t flags, const char *path)
{
    const char *fields[] = {":method", "POST",     ":scheme",      "http",
                            ":path",   path,       ":authority",   "localhost",
                            "te",      "trailers", "content-type", "application/grpc"};

    return raw_headers(raw, stream, flags, fields, 6);
}

bool raw_message(struct raw *raw, uint32_t stream, uint8_t flags, const void *data, size_t len)
{
    uint8_t frame[16384] = {0, (uint8_t)(len >> 24), (uint8_t)(len >> 16), (uint8_t)(len >> 8),
                            (uint8_t)len};

    assert_true(len + 5 <= sizeof frame);
    if (len > 0)
        memcpy(frame + 5, data, len);
    return raw_frame(raw, NGHTTP2_DATA, flags, stream, frame, len + 5);
}

/* One frame out of what has come; false: not yet whole. */
static bool take_frame(struct raw *raw, struct raw_frame *ret)
{
    const uint8_t *p = raw->in;
    size_t len = (size_t)p[0] << 16 | (size_t)p[1] << 8 | p[2];

    if (raw->in_len < 9 || raw->in_len < 9 + len)
        return false;
    assert_true(len <= sizeof ret->payload);
    *ret = (struct raw_frame){.len = len,
                              .type = p[3],
                              .flags = p[4],
                              .stream = (uint32_t)(p[5] & 0x7f) << 24 | (uint32_t)p[6] << 16 |
                                        (uint32_t)p[7] << 8 | p[8]};
    memcpy(ret->payload, p + 9, len);
    raw->in_len -= 9 + len;
    memmove(raw->in, raw->in + 9 + len, raw->in_len);
    return true;
}

static bool next_frame(struct raw *raw, struct raw_frame *ret)
{
    int64_t end = loop_now_fresh_ms() + KIT_WAIT_MS;

    while (!take_frame(raw, ret)) {
        ssize_t n = recv(raw->fd, raw->in + raw->in_len, sizeof raw->in - raw->in_len, 0);

        if (n == 0 || (n < 0 && errno != EAGAIN)) {
            raw->closed = true;
            return false;
        }
        if (n > 0) {
            raw->in_len += (size_t)n;
            continue;
        }
        if (loop_now_fresh_ms() > end)
            fail_msg("the server says nothing more");
        loop_step(raw->kit->loop, 10);
    }
    return true;
}

bool raw_expect(struct raw *raw, uint8_t type, struct raw_frame *ret)
{
    while (next_frame(raw, ret))
        if (ret->type == type)
            return true;
    return false;
}

int64_t raw_until_closed(struct raw *raw, char *ret_why, size_t size)
{
    struct raw_frame *frame = malloc(sizeof *frame);
    int64_t code = -1;

    assert_non_null(frame);
    ret_why[0] = '\0';
    while (next_frame(raw, frame)) {
        if (frame->type != NGHTTP2_GOAWAY)
            continue;
        code = (int64_t)frame->payload[4] << 24 | frame->payload[5] << 16 | frame->payload[6] << 8 |
               frame->payload[7];
        (void)snprintf(ret_why, size, "%.*s", (int)(frame->len - 8),
                       (const char *)frame->payload + 8);
    }
    free(frame);
    return code;
}

void raw_field(const struct raw_frame *frame, void **inflater, const char *name, char *ret,
               size_t size)
{
    const uint8_t *p = frame->payload;
    size_t left = frame->len;
    int flags = 0;

    if (!*inflater)
        assert_int_equal(nghttp2_hd_inflate_new((nghttp2_hd_inflater **)inflater), 0);
    ret[0] = '\0';
    while (!(flags & NGHTTP2_HD_INFLATE_FINAL)) {
        nghttp2_nv nv;
        ssize_t n = nghttp2_hd_inflate_hd2(*inflater, &nv, &flags, p, left, 1);

        assert_true(n >= 0);
        p += n;
        left -= (size_t)n;
        if ((flags & NGHTTP2_HD_INFLATE_EMIT) && nv.namelen == strlen(name) &&
            memcmp(nv.name, name, nv.namelen) == 0)
            (void)snprintf(ret, size, "%.*s", (int)nv.valuelen, (const char *)nv.value);
    }
    (void)nghttp2_hd_inflate_end_headers(*inflater);
}

void raw_inflater_free(void *inflater)
{
    if (inflater)
        nghttp2_hd_inflate_del(inflater);
}
