#include "common/net/h2_conn.h"

#include <assert.h>
#include <errno.h>
#include <nghttp2/nghttp2.h>
#include <stdlib.h>
#include <string.h>

#include "common/net/loop.h"
#include "common/net/transport.h"

/* A round's frames are laid out one after another in the loop's scratch buffer and leave in one write. A stream that
 * has had BURST_BYTES of it steps back until the others have had theirs: nghttp2 itself serves the oldest first. */

enum {
    FRAME_MAX = 16 * 1024,
    FRAME_HEAD = 9,
    /* Room that one more call of nghttp2_session_mem_send may need. */
    FILL_MARGIN = FRAME_MAX + 1024,
    BURST_BYTES = 64 * 1024,
    WRITES_AT_ONCE = 4,
    TRAILERS_MAX = 4,
    HEADERS_MAX = 64,
};

struct h2_chunk *h2_chunk_new(size_t len)
{
    struct h2_chunk *chunk = malloc(sizeof *chunk + len);

    if (chunk) {
        chunk->next = NULL;
        chunk->len = len;
        chunk->at = 0;
    }
    return chunk;
}

static void drop_queue(struct h2_stream *stream)
{
    while (stream->head) {
        struct h2_chunk *chunk = stream->head;

        stream->head = chunk->next;
        free(chunk);
    }
    stream->tail = &stream->head;
    if (stream->conn)
        stream->conn->queued_bytes -= stream->queued_bytes;
    stream->queued_bytes = 0;
}

/* ---- headers ---- */

static size_t to_nv(const struct h2_header *headers, size_t n, nghttp2_nv *nv)
{
    assert(n <= HEADERS_MAX);
    for (size_t i = 0; i < n; i++) {
        unsigned flags = 0;

        if (headers[i].flags & H2_KEEP)
            flags |= NGHTTP2_NV_FLAG_NO_COPY_NAME | NGHTTP2_NV_FLAG_NO_COPY_VALUE;
        if (headers[i].flags & H2_NO_INDEX)
            flags |= NGHTTP2_NV_FLAG_NO_INDEX;
        nv[i] = (nghttp2_nv){.name = (uint8_t *)(uintptr_t)headers[i].name,
                             .value = (uint8_t *)(uintptr_t)headers[i].value,
                             .namelen = headers[i].name_len,
                             .valuelen = headers[i].value_len,
                             .flags = (uint8_t)flags};
    }
    return n;
}

static int submit_trailers(struct h2_stream *stream)
{
    struct h2_header headers[TRAILERS_MAX];
    nghttp2_nv nv[TRAILERS_MAX];
    size_t n = stream->conn->handler->trailers(stream, headers);

    assert(n <= TRAILERS_MAX);
    stream->ended = true;
    return nghttp2_submit_trailer(stream->conn->session, stream->id, nv, to_nv(headers, n, nv));
}

/* ---- what nghttp2 asks for ---- */

static ssize_t read_source(nghttp2_session *session, int32_t id, uint8_t *buf, size_t len,
                           uint32_t *flags, nghttp2_data_source *source, void *arg)
{
    struct h2_conn *conn = arg;
    struct h2_stream *stream = source->ptr;
    size_t n = len < stream->queued_bytes ? len : stream->queued_bytes;

    (void)session;
    (void)id;
    (void)buf;
    if (n > 0 && stream->burst_bytes >= BURST_BYTES) {
        stream->resuming = true;
        TAILQ_INSERT_TAIL(&conn->resume, stream, resume_link);
        return NGHTTP2_ERR_DEFERRED;
    }
    if (n == 0 && (!stream->ending || stream->ended)) {
        stream->deferred = true;
        return NGHTTP2_ERR_DEFERRED;
    }
    *flags |= NGHTTP2_DATA_FLAG_NO_COPY;
    if (stream->ending && n == stream->queued_bytes) {
        *flags |= NGHTTP2_DATA_FLAG_EOF;
        if (conn->server) {
            *flags |= NGHTTP2_DATA_FLAG_NO_END_STREAM;
            if (submit_trailers(stream) != 0)
                return NGHTTP2_ERR_CALLBACK_FAILURE;
        } else {
            stream->ended = true;
        }
    }
    return (ssize_t)n;
}

static void put(struct h2_conn *conn, const uint8_t *data, size_t len)
{
    assert(conn->out_len + len <= LOOP_SCRATCH_BYTES);
    memcpy(conn->out + conn->out_len, data, len);
    conn->out_len += len;
}

static int send_data(nghttp2_session *session, nghttp2_frame *frame, const uint8_t *head,
                     size_t len, nghttp2_data_source *source, void *arg)
{
    struct h2_conn *conn = arg;
    struct h2_stream *stream = source->ptr;

    (void)session;
    (void)frame;
    put(conn, head, FRAME_HEAD);
    stream->queued_bytes -= len;
    stream->burst_bytes += len;
    stream->stalls = 0;
    conn->queued_bytes -= len;
    while (len > 0) {
        struct h2_chunk *chunk = stream->head;
        size_t n = chunk->len - chunk->at < len ? chunk->len - chunk->at : len;

        put(conn, chunk->data + chunk->at, n);
        chunk->at += n;
        len -= n;
        if (chunk->at == chunk->len) {
            stream->head = chunk->next;
            if (!stream->head)
                stream->tail = &stream->head;
            free(chunk);
        }
    }
    /* nghttp2 goes on to the next frame by itself: stop it while there is room for one. */
    return conn->out_len + FILL_MARGIN > LOOP_SCRATCH_BYTES ? NGHTTP2_ERR_PAUSE : 0;
}

static int frame_sent(nghttp2_session *session, const nghttp2_frame *frame, void *arg)
{
    struct h2_conn *conn = arg;
    struct h2_stream *stream;

    if (frame->hd.type == NGHTTP2_RST_STREAM) {
        h2_guard_fault(conn, frame->rst_stream.error_code);
        return 0;
    }
    if (frame->hd.type != NGHTTP2_HEADERS)
        return 0;
    if (!conn->server && frame->headers.cat == NGHTTP2_HCAT_REQUEST) {
        stream = nghttp2_session_get_stream_user_data(session, frame->hd.stream_id);
        if (stream) {
            stream->request_sent = true;
            stream->sent_at = conn->put_bytes + conn->out_len;
        }
    } else if (conn->server && (frame->hd.flags & NGHTTP2_FLAG_END_STREAM)) {
        stream = nghttp2_session_get_stream_user_data(session, frame->hd.stream_id);
        /* All is said: the client need not go on sending (RFC 9113, 8.1). */
        if (stream && !stream->remote_ended)
            return nghttp2_submit_rst_stream(session, NGHTTP2_FLAG_NONE, frame->hd.stream_id,
                                             NGHTTP2_NO_ERROR);
    }
    return 0;
}

void h2_send_callbacks(nghttp2_session_callbacks *callbacks)
{
    nghttp2_session_callbacks_set_send_data_callback(callbacks, send_data);
    nghttp2_session_callbacks_set_on_frame_send_callback(callbacks, frame_sent);
}

/* ---- the write at the end of a round ---- */

static void resume_bursts(struct h2_conn *conn)
{
    struct h2_stream *stream;

    while ((stream = TAILQ_FIRST(&conn->resume))) {
        TAILQ_REMOVE(&conn->resume, stream, resume_link);
        stream->resuming = false;
        stream->burst_bytes = 0;
        (void)h2_conn_try(conn, nghttp2_session_resume_data(conn->session, stream->id));
    }
}

/* Lay out frames in conn->out. */
static void fill(struct h2_conn *conn)
{
    while (conn->out_len + FILL_MARGIN <= LOOP_SCRATCH_BYTES) {
        const uint8_t *data;
        ssize_t n;

        if (!h2_conn_try(conn, 0))
            break;
        n = nghttp2_session_mem_send(conn->session, &data);
        if (n == 0 && TAILQ_EMPTY(&conn->resume))
            break;
        if (n == 0) {
            resume_bursts(conn);
        } else if (n < 0) {
            conn->broken = true;
            h2_conn_doom(conn, n == NGHTTP2_ERR_NOMEM ? -ENOMEM : -EPROTO, NGHTTP2_INTERNAL_ERROR,
                         "sending: %s", nghttp2_strerror((int)n));
            break;
        } else {
            put(conn, data, (size_t)n);
        }
    }
}

static void tell_writable(struct h2_conn *conn)
{
    struct h2_stream *stream;

    if (conn->queued_bytes > conn->limits->send_queue_bytes / 2)
        return;
    /* A callback removes no stream from this list, and adds at its head. */
    LIST_FOREACH(stream, &conn->streams, link)
    {
        if (!stream->waits || stream->queued_bytes > stream->low_bytes)
            continue;
        stream->waits = false;
        conn->n_waiting--;
        conn->handler->writable(stream);
    }
}

/* One write. 0 nothing more for now; 1 more to do. */
static int write_once(struct h2_conn *conn)
{
    bool more;
    int r;

    if (conn->blocked || conn->broken)
        return 0;
    conn->out = loop_scratch(conn->loop);
    conn->out_len = 0;
    fill(conn);
    if (conn->out_len == 0)
        return 0;
    more = conn->out_len + FILL_MARGIN > LOOP_SCRATCH_BYTES;
    conn->put_bytes += conn->out_len;
    r = transport_write(conn->transport, conn->out, conn->out_len);
    conn->out_len = 0;
    if (r < 0) {
        conn->broken = true;
        h2_conn_doom(conn, r, NGHTTP2_NO_ERROR, "writing: %s", strerror(-r));
        return 0;
    }
    if (r == TRANSPORT_BLOCKED) {
        conn->blocked = true;
        conn->blocked_ms = loop_now_ms(conn->loop);
    }
    if (conn->n_waiting > 0)
        tell_writable(conn);
    return more && !conn->blocked;
}

/* Whether the session has come to its end by itself: GOAWAY one way or the other, and no stream left. */
static bool over(const struct h2_conn *conn)
{
    return !nghttp2_session_want_read(conn->session) && !nghttp2_session_want_write(conn->session);
}

static void end_session(struct h2_conn *conn)
{
    if (!conn->leaving) {
        conn->goaway_sent = true;
        h2_conn_doom(conn, -EPROTO, NGHTTP2_PROTOCOL_ERROR, "protocol error");
        h2_conn_end(conn);
    } else if (!conn->server) {
        h2_conn_doom(conn, 0, NGHTTP2_NO_ERROR, "%s", conn->why[0] ? conn->why : "closed in order");
        h2_conn_end(conn);
    } else if (!conn->blocked) {
        conn->lingers = true;
        transport_shutdown(conn->transport);
        h2_guard_linger(conn);
    }
}

static void flush(void *arg)
{
    struct h2_conn *conn = arg;
    int more = 1;

    if ((!conn->opened || conn->lingers) && !conn->doomed)
        return;
    for (int i = 0; conn->opened && !conn->lingers && more && i < WRITES_AT_ONCE; i++)
        more = write_once(conn);
    if (conn->doomed) {
        h2_conn_end(conn);
    } else if (over(conn)) {
        end_session(conn);
    } else if (conn->opened && more) {
        loop_soon_start(conn->flush);
    }
}

void h2_flush_later(struct h2_conn *conn)
{
    if (!conn->dead)
        loop_soon_start(conn->flush);
}

int h2_send_init(struct h2_conn *conn)
{
    TAILQ_INIT(&conn->resume);
    return loop_soon_new(conn->loop, flush, conn, &conn->flush);
}

void h2_send_done(struct h2_conn *conn)
{
    loop_soon_free(conn->flush);
}

/* The stream is closed: what it still had to say is dropped. */
void h2_send_forget(struct h2_stream *stream)
{
    struct h2_conn *conn = stream->conn;

    if (stream->resuming)
        TAILQ_REMOVE(&conn->resume, stream, resume_link);
    if (stream->waits)
        conn->n_waiting--;
    stream->resuming = false;
    stream->waits = false;
    drop_queue(stream);
}

/* ---- what callers ask for ---- */

static bool is_open(const struct h2_stream *stream)
{
    return stream->conn && !stream->conn->dead && !stream->conn->broken;
}

int h2_request(struct h2_conn *conn, struct h2_stream *stream, const struct h2_header *headers,
               size_t n)
{
    nghttp2_nv nv[HEADERS_MAX];
    nghttp2_data_provider provider = {.source.ptr = stream, .read_callback = read_source};
    int32_t id;

    if (conn->dead || conn->doomed || conn->leaving || conn->broken)
        return -EPIPE;
    id = nghttp2_submit_request(conn->session, NULL, nv, to_nv(headers, n, nv), &provider, stream);
    (void)h2_conn_try(conn, id < 0 ? id : 0);
    if (id < 0)
        return id == NGHTTP2_ERR_NOMEM ? -ENOMEM : -EPIPE;
    stream->conn = conn;
    stream->id = id;
    stream->tail = &stream->head;
    stream->responded = true;
    LIST_INSERT_HEAD(&conn->streams, stream, link);
    conn->n_streams++;
    h2_guard_awake(conn);
    h2_flush_later(conn);
    return 0;
}

int h2_respond(struct h2_stream *stream, const struct h2_header *headers, size_t n, bool end)
{
    nghttp2_nv nv[HEADERS_MAX];
    nghttp2_data_provider provider = {.source.ptr = stream, .read_callback = read_source};
    int r;

    if (!is_open(stream) || stream->responded)
        return -EPIPE;
    r = nghttp2_submit_response(stream->conn->session, stream->id, nv, to_nv(headers, n, nv),
                                end ? NULL : &provider);
    (void)h2_conn_try(stream->conn, r);
    if (r != 0)
        return r == NGHTTP2_ERR_NOMEM ? -ENOMEM : -EPIPE;
    stream->responded = true;
    if (end)
        stream->ending = stream->ended = true;
    h2_flush_later(stream->conn);
    return 0;
}

static void resume(struct h2_stream *stream)
{
    if (stream->deferred) {
        stream->deferred = false;
        (void)h2_conn_try(stream->conn,
                          nghttp2_session_resume_data(stream->conn->session, stream->id));
    }
    h2_flush_later(stream->conn);
}

int h2_push(struct h2_stream *stream, struct h2_chunk *chunk, size_t limit_bytes)
{
    struct h2_conn *conn = stream->conn;

    if (!is_open(stream) || stream->ending) {
        free(chunk);
        return -EPIPE;
    }
    *stream->tail = chunk;
    stream->tail = &chunk->next;
    stream->queued_bytes += chunk->len;
    stream->low_bytes = limit_bytes / 2;
    conn->queued_bytes += chunk->len;
    resume(stream);
    if (stream->queued_bytes <= limit_bytes && conn->queued_bytes <= conn->limits->send_queue_bytes)
        return 0;
    if (!stream->waits) {
        stream->waits = true;
        conn->n_waiting++;
    }
    return H2_WAIT;
}

void h2_finish(struct h2_stream *stream, bool drop)
{
    struct h2_conn *conn = stream->conn;

    if (!is_open(stream))
        return;
    if (drop && !stream->ended)
        drop_queue(stream);
    stream->ending = true;
    if (stream->waits) {
        stream->waits = false;
        conn->n_waiting--;
    }
    if (stream->ended)
        return;
    /* Trailers need no window, but nghttp2 asks for the end of the data only when there is one: do not wait for it. */
    if (conn->server && stream->queued_bytes == 0) {
        (void)h2_conn_try(conn, submit_trailers(stream));
        h2_flush_later(conn);
    } else {
        resume(stream);
    }
}

void h2_reset(struct h2_stream *stream, uint32_t error)
{
    if (!is_open(stream))
        return;
    (void)h2_conn_try(
        stream->conn,
        nghttp2_submit_rst_stream(stream->conn->session, NGHTTP2_FLAG_NONE, stream->id, error));
    h2_flush_later(stream->conn);
}
