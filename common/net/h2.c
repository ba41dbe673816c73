#include "common/net/h2.h"

#include <arpa/inet.h>
#include <assert.h>
#include <errno.h>
#include <nghttp2/nghttp2.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/net/h2_conn.h"
#include "common/net/loop.h"
#include "common/net/transport.h"

enum {
    /* The connection's window, and what may be parked, in windows of a stream. */
    CONNECTION_WINDOWS = 4,
    /* Of a field in the sense of SETTINGS_MAX_HEADER_LIST_SIZE (RFC 9113, 6.5.2). */
    HEADER_OVERHEAD = 32,
    /* A block this many times the limit ends the connection. */
    HEADER_FLOOD = 16,
    CONTINUATIONS_MAX = 8,
    ACKS_MAX = 1000,
    SETTINGS_MAX = 32,
    GOAWAY_TEXT_MAX = 100,
};

/* Own resets are counted by h2_guard; nghttp2's stricter count would hit a client that cancels a thousand calls. */
static const uint64_t no_reset_limit = 1u << 30;

static struct h2_stream *stream_at(struct h2_conn *conn, int32_t id)
{
    return nghttp2_session_get_stream_user_data(conn->session, id);
}

/* ---- receiving ---- */

static int begin_frame(nghttp2_session *session, const nghttp2_frame_hd *head, void *arg)
{
    struct h2_conn *conn = arg;

    (void)session;
    if (conn->doomed || !h2_conn_try(conn, 0))
        return NGHTTP2_ERR_CALLBACK_FAILURE;
    return h2_guard_frame(conn, head->type, head->flags, head->length)
               ? 0
               : NGHTTP2_ERR_CALLBACK_FAILURE;
}

static int open_stream(struct h2_conn *conn, int32_t id)
{
    struct h2_stream *stream = conn->handler->open(conn, conn->arg);

    conn->block = NULL;
    if (!stream)
        return NGHTTP2_ERR_TEMPORAL_CALLBACK_FAILURE;
    stream->conn = conn;
    stream->id = id;
    stream->tail = &stream->head;
    (void)nghttp2_session_set_stream_user_data(conn->session, id, stream);
    LIST_INSERT_HEAD(&conn->streams, stream, link);
    conn->n_streams++;
    conn->block = stream;
    h2_guard_awake(conn);
    return 0;
}

static int begin_headers(nghttp2_session *session, const nghttp2_frame *frame, void *arg)
{
    struct h2_conn *conn = arg;

    (void)session;
    conn->block_bytes = 0;
    if (conn->server && frame->headers.cat == NGHTTP2_HCAT_REQUEST)
        return open_stream(conn, frame->hd.stream_id);
    conn->block = stream_at(conn, frame->hd.stream_id);
    return 0;
}

static int header(nghttp2_session *session, const nghttp2_frame *frame, nghttp2_rcbuf *name_buf,
                  nghttp2_rcbuf *value_buf, uint8_t flags, void *arg)
{
    struct h2_conn *conn = arg;
    nghttp2_vec name = nghttp2_rcbuf_get_buf(name_buf), value = nghttp2_rcbuf_get_buf(value_buf);

    (void)session;
    (void)frame;
    (void)flags;
    conn->block_bytes += name.len + value.len + HEADER_OVERHEAD;
    if (conn->block_bytes <= conn->limits->header_list_bytes) {
        if (conn->block)
            conn->handler->header(conn->block, (const char *)name.base, name.len,
                                  (const char *)value.base, value.len);
    } else if (conn->block_bytes > HEADER_FLOOD * conn->limits->header_list_bytes) {
        h2_conn_doom(conn, -EPROTO, NGHTTP2_ENHANCE_YOUR_CALM,
                     "a header list of more than %zu bytes, the limit is %zu", conn->block_bytes,
                     conn->limits->header_list_bytes);
        return NGHTTP2_ERR_CALLBACK_FAILURE;
    }
    return 0;
}

static void half_closed(struct h2_stream *stream)
{
    if (stream->remote_ended)
        return;
    stream->remote_ended = true;
    stream->conn->handler->half_closed(stream);
}

static void headers_received(struct h2_conn *conn, const nghttp2_frame *frame)
{
    struct h2_stream *stream = conn->block;
    bool end = frame->hd.flags & NGHTTP2_FLAG_END_STREAM;
    unsigned flags = end ? H2_BLOCK_END : 0;

    conn->block = NULL;
    if (!stream)
        return;
    if (conn->block_bytes > conn->limits->header_list_bytes)
        flags |= H2_BLOCK_TOO_LARGE;
    conn->handler->headers(stream, flags);
    if (end && stream->conn)
        half_closed(stream);
}

static void settings_received(struct h2_conn *conn)
{
    if (conn->settled)
        return;
    conn->settled = true;
    if (conn->handler->ready)
        conn->handler->ready(conn, conn->arg);
}

static void note_goaway(struct h2_conn *conn, const nghttp2_goaway *goaway)
{
    size_t len = goaway->opaque_data_len < GOAWAY_TEXT_MAX ? goaway->opaque_data_len
                                                           : GOAWAY_TEXT_MAX;
    char text[GOAWAY_TEXT_MAX + 1];

    for (size_t i = 0; i < len; i++)
        text[i] = (char)(goaway->opaque_data[i] >= 0x20 && goaway->opaque_data[i] <= 0x7e
                             ? goaway->opaque_data[i]
                             : '?');
    text[len] = '\0';
    (void)snprintf(conn->why, sizeof conn->why, "the peer sent GOAWAY: %s%s%s",
                   nghttp2_http2_strerror(goaway->error_code), len ? ": " : "", text);
}

static int frame_received(nghttp2_session *session, const nghttp2_frame *frame, void *arg)
{
    struct h2_conn *conn = arg;
    struct h2_stream *stream;

    (void)session;
    switch (frame->hd.type) {
    case NGHTTP2_HEADERS:
        headers_received(conn, frame);
        break;
    case NGHTTP2_DATA:
        stream = frame->hd.flags & NGHTTP2_FLAG_END_STREAM ? stream_at(conn, frame->hd.stream_id)
                                                           : NULL;
        if (stream)
            half_closed(stream);
        break;
    case NGHTTP2_SETTINGS:
        if (!(frame->hd.flags & NGHTTP2_FLAG_ACK))
            settings_received(conn);
        break;
    case NGHTTP2_PING:
        /* The peer has seen the notice of h2_conn_shutdown: what it opens from now on it opens knowingly. */
        if ((frame->hd.flags & NGHTTP2_FLAG_ACK) && conn->leaving)
            (void)h2_conn_try(
                conn, nghttp2_submit_goaway(conn->session, NGHTTP2_FLAG_NONE,
                                            nghttp2_session_get_last_proc_stream_id(conn->session),
                                            NGHTTP2_NO_ERROR, NULL, 0));
        break;
    case NGHTTP2_GOAWAY:
        if (!conn->leaving) {
            conn->leaving = true;
            note_goaway(conn, &frame->goaway);
            if (conn->handler->goaway)
                conn->handler->goaway(conn, conn->arg);
        }
        break;
    default:
        break;
    }
    return 0;
}

static int data_chunk(nghttp2_session *session, uint8_t flags, int32_t id, const uint8_t *data,
                      size_t len, void *arg)
{
    struct h2_conn *conn = arg;
    struct h2_stream *stream = stream_at(conn, id);

    (void)session;
    (void)flags;
    conn->uncredited += len;
    if (!stream)
        return 0;
    conn->parked_bytes += len;
    stream->parked_bytes += len;
    conn->handler->data(stream, data, len);
    return 0;
}

/* Open the connection's window again, unless its streams hold too much back already. */
static void credit(struct h2_conn *conn)
{
    if (conn->uncredited == 0 || conn->broken ||
        conn->parked_bytes > CONNECTION_WINDOWS * conn->limits->window_bytes)
        return;
    (void)h2_conn_try(conn, nghttp2_session_consume_connection(conn->session, conn->uncredited));
    conn->uncredited = 0;
}

void h2_consume(struct h2_stream *stream, size_t len)
{
    struct h2_conn *conn = stream->conn;

    if (!conn || conn->dead || conn->broken)
        return;
    assert(len <= stream->parked_bytes);
    stream->parked_bytes -= len;
    conn->parked_bytes -= len;
    stream->uncredited += len;
    if (stream->uncredited >= conn->limits->window_bytes / 4 && !stream->remote_ended) {
        (void)h2_conn_try(
            conn, nghttp2_session_consume_stream(conn->session, stream->id, stream->uncredited));
        stream->uncredited = 0;
        h2_flush_later(conn);
    }
    if (conn->uncredited >= conn->limits->window_bytes) {
        credit(conn);
        h2_flush_later(conn);
    }
}

static int stream_close(nghttp2_session *session, int32_t id, uint32_t error, void *arg)
{
    struct h2_stream *stream = stream_at(arg, id);

    (void)session;
    if (stream)
        h2_stream_closed(stream, error);
    return 0;
}

void h2_stream_closed(struct h2_stream *stream, uint32_t error)
{
    struct h2_conn *conn = stream->conn;

    h2_send_forget(stream);
    conn->parked_bytes -= stream->parked_bytes;
    if (conn->block == stream)
        conn->block = NULL;
    LIST_REMOVE(stream, link);
    if (--conn->n_streams == 0)
        conn->empty_ms = loop_now_ms(conn->loop);
    stream->request_seen = h2_request_seen(stream) && error != H2_REFUSED_STREAM;
    stream->conn = NULL;
    conn->handler->closed(stream, error);
}

static int say_why(nghttp2_session *session, int code, const char *text, size_t len, void *arg)
{
    struct h2_conn *conn = arg;

    (void)session;
    (void)code;
    if (!conn->doomed)
        (void)snprintf(conn->why, sizeof conn->why, "%.*s", (int)len, text);
    return 0;
}

/* ---- the transport's events ---- */

static void opened(void *arg)
{
    struct h2_conn *conn = arg;

    conn->opened = true;
    conn->heard_ms = loop_now_ms(conn->loop);
    h2_flush_later(conn);
}

static void received(const uint8_t *data, size_t len, void *arg)
{
    struct h2_conn *conn = arg;
    ssize_t n;

    if (conn->doomed || conn->lingers)
        return;
    conn->heard_ms = loop_now_ms(conn->loop);
    conn->ping_out = false;
    n = nghttp2_session_mem_recv(conn->session, data, len);
    if (n < 0) {
        conn->broken = true;
        h2_conn_doom(conn, n == NGHTTP2_ERR_NOMEM ? -ENOMEM : -EPROTO, NGHTTP2_PROTOCOL_ERROR,
                     "receiving: %s", nghttp2_strerror((int)n));
    } else {
        credit(conn);
        h2_guard_queue(conn);
    }
    if (conn->doomed)
        transport_read(conn->transport, false);
    if (conn->doomed || nghttp2_session_want_write(conn->session) ||
        !nghttp2_session_want_read(conn->session))
        h2_flush_later(conn);
}

static void unblocked(void *arg)
{
    struct h2_conn *conn = arg;

    conn->blocked = false;
    h2_flush_later(conn);
}

static void disconnected(int r, void *arg)
{
    struct h2_conn *conn = arg;
    const char *why = conn->transport->why;

    conn->broken = true;
    if (!why)
        why = r < 0 ? strerror(-r) : "the peer closed the connection";
    h2_conn_doom(conn, conn->lingers ? 0 : r, NGHTTP2_NO_ERROR, "%s", why);
    h2_conn_end(conn);
}

static const struct transport_events transport_events = {
    .open = opened,
    .data = received,
    .writable = unblocked,
    .closed = disconnected,
};

/* ---- birth and end ---- */

static int new_session(struct h2_conn *conn)
{
    nghttp2_session_callbacks *callbacks = NULL;
    nghttp2_option *option = NULL;
    nghttp2_mem mem = {
        .mem_user_data = conn->limits->pool,
        .malloc = h2_pool_malloc,
        .free = h2_pool_release,
        .calloc = h2_pool_calloc,
        .realloc = h2_pool_realloc,
    };
    int r = nghttp2_session_callbacks_new(&callbacks);

    if (r == 0)
        r = nghttp2_option_new(&option);
    if (r == 0) {
        nghttp2_session_callbacks_set_on_begin_frame_callback(callbacks, begin_frame);
        nghttp2_session_callbacks_set_on_begin_headers_callback(callbacks, begin_headers);
        nghttp2_session_callbacks_set_on_header_callback2(callbacks, header);
        nghttp2_session_callbacks_set_on_frame_recv_callback(callbacks, frame_received);
        nghttp2_session_callbacks_set_on_data_chunk_recv_callback(callbacks, data_chunk);
        nghttp2_session_callbacks_set_on_stream_close_callback(callbacks, stream_close);
        nghttp2_session_callbacks_set_error_callback2(callbacks, say_why);
        h2_send_callbacks(callbacks);
        nghttp2_option_set_no_auto_window_update(option, 1);
        nghttp2_option_set_no_closed_streams(option, 1);
        nghttp2_option_set_max_outbound_ack(option, ACKS_MAX);
        nghttp2_option_set_max_settings(option, SETTINGS_MAX);
        nghttp2_option_set_max_continuations(option, CONTINUATIONS_MAX);
        nghttp2_option_set_stream_reset_rate_limit(option, no_reset_limit, no_reset_limit);
        r = conn->server
                ? nghttp2_session_server_new3(&conn->session, callbacks, conn, option, &mem)
                : nghttp2_session_client_new3(&conn->session, callbacks, conn, option, &mem);
    }
    nghttp2_option_del(option);
    nghttp2_session_callbacks_del(callbacks);
    return r == 0 ? 0 : -ENOMEM;
}

static int submit_settings(struct h2_conn *conn)
{
    const struct h2_limits *limits = conn->limits;
    nghttp2_settings_entry settings[] = {
        {NGHTTP2_SETTINGS_INITIAL_WINDOW_SIZE, (uint32_t)limits->window_bytes},
        {NGHTTP2_SETTINGS_MAX_HEADER_LIST_SIZE, (uint32_t)limits->header_list_bytes},
        /* The priority tree of RFC 7540 costs and helps nobody here. */
        {NGHTTP2_SETTINGS_NO_RFC7540_PRIORITIES, 1},
        {conn->server ? NGHTTP2_SETTINGS_MAX_CONCURRENT_STREAMS : NGHTTP2_SETTINGS_ENABLE_PUSH,
         conn->server ? limits->streams : 0},
    };

    if (nghttp2_submit_settings(conn->session, NGHTTP2_FLAG_NONE, settings,
                                sizeof settings / sizeof *settings) != 0)
        return -ENOMEM;
    return nghttp2_session_set_local_window_size(
               conn->session, NGHTTP2_FLAG_NONE, 0,
               (int32_t)(CONNECTION_WINDOWS * limits->window_bytes)) == 0
               ? 0
               : -ENOMEM;
}

static void conn_free(struct h2_conn *conn)
{
    h2_guard_done(conn);
    h2_send_done(conn);
    nghttp2_session_del(conn->session);
    transport_free(conn->transport);
    free(conn);
}

int h2_conn_new(struct loop *loop, struct transport *transport, bool server,
                const struct h2_limits *limits, const struct h2_handler *handler, void *arg,
                struct h2_conn **ret)
{
    struct h2_conn *conn = calloc(1, sizeof *conn);
    int r;

    if (!conn) {
        transport_free(transport);
        return -ENOMEM;
    }
    LIST_INIT(&conn->streams);
    conn->loop = loop;
    conn->transport = transport;
    conn->server = server;
    conn->limits = limits;
    conn->handler = handler;
    conn->arg = arg;
    r = new_session(conn);
    if (r == 0)
        r = h2_send_init(conn);
    if (r == 0)
        r = submit_settings(conn);
    if (r == 0)
        r = h2_guard_init(conn);
    if (r < 0) {
        conn_free(conn);
        return r;
    }
    transport->events = &transport_events;
    transport->arg = conn;
    *ret = conn;
    return 0;
}

void h2_conn_doom(struct h2_conn *conn, int r, uint32_t code, const char *format, ...)
{
    va_list ap;

    if (conn->doomed || conn->dead)
        return;
    conn->doomed = true;
    conn->why_r = r;
    conn->why_code = code;
    /* What nghttp2 had to say is nearer to the cause than what it makes of it. */
    if (!conn->why[0] || code != NGHTTP2_PROTOCOL_ERROR) {
        va_start(ap, format);
        (void)vsnprintf(conn->why, sizeof conn->why, format, ap);
        va_end(ap);
    }
    h2_flush_later(conn);
}

bool h2_conn_try(struct h2_conn *conn, int nghttp2_error)
{
    if (!nghttp2_is_fatal(nghttp2_error) && !h2_pool_short(conn->limits->pool))
        return true;
    conn->broken = true;
    h2_conn_doom(conn, -ENOMEM, NGHTTP2_INTERNAL_ERROR, "out of memory");
    return false;
}

/* The last frame, made by hand: the session may not be fit for it any more. */
static void say_goaway(struct h2_conn *conn)
{
    uint8_t frame[9 + 8 + sizeof conn->why] = {0};
    size_t text = strlen(conn->why);
    uint32_t last = htonl((uint32_t)nghttp2_session_get_last_proc_stream_id(conn->session));
    uint32_t code = htonl(conn->why_code);

    frame[2] = (uint8_t)(8 + text);
    frame[3] = NGHTTP2_GOAWAY;
    memcpy(frame + 9, &last, 4);
    memcpy(frame + 13, &code, 4);
    memcpy(frame + 17, conn->why, text);
    (void)transport_write(conn->transport, frame, 17 + text);
}

/* Not to be called from within nghttp2. */
void h2_conn_end(struct h2_conn *conn)
{
    struct h2_stream *stream;
    bool speak = conn->opened && !conn->blocked && !conn->goaway_sent &&
                 conn->why_code != NGHTTP2_NO_ERROR;

    if (conn->dead)
        return;
    conn->dead = true;
    if (speak)
        say_goaway(conn);
    if (conn->handler->losing)
        conn->handler->losing(conn, conn->why, conn->arg);
    while ((stream = LIST_FIRST(&conn->streams)))
        h2_stream_closed(stream, H2_LOST);
    conn->handler->lost(conn, conn->why_r, conn->why, conn->arg);
    conn_free(conn);
}

void h2_conn_shutdown(struct h2_conn *conn)
{
    if (conn->dead || conn->doomed || conn->leaving)
        return;
    conn->leaving = true;
    if (conn->server) {
        (void)h2_conn_try(conn, nghttp2_submit_shutdown_notice(conn->session));
        (void)h2_conn_try(conn, nghttp2_submit_ping(conn->session, NGHTTP2_FLAG_NONE, NULL));
    } else {
        (void)h2_conn_try(conn, nghttp2_submit_goaway(conn->session, NGHTTP2_FLAG_NONE, 0,
                                                      NGHTTP2_NO_ERROR, NULL, 0));
    }
    h2_flush_later(conn);
}

void h2_conn_abort(struct h2_conn *conn, int r, uint32_t code, const char *why)
{
    h2_conn_doom(conn, r, code, "%s", why);
}

unsigned h2_conn_streams(const struct h2_conn *conn)
{
    return conn->n_streams;
}

void *h2_conn_arg(const struct h2_conn *conn)
{
    return conn->arg;
}

bool h2_request_seen(const struct h2_stream *stream)
{
    if (!stream->conn)
        return stream->request_seen;
    return stream->request_sent && stream->conn->transport->written_bytes >= stream->sent_at;
}
