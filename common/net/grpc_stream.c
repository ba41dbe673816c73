#include "common/net/grpc_stream.h"

#include <assert.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/net/loop.h"

enum {
    MESSAGE_BYTES = 4 * 1024 * 1024 + 64 * 1024,
    HEADER_LIST_BYTES = 16 * 1024,
    STREAMS = 1024,
    CONNECTIONS = 4096,
    SEND_QUEUE_BYTES = 1024 * 1024,
    WINDOW_BYTES = 1024 * 1024,
    HANDSHAKE_MS = 10000,
    KEEPALIVE_MS = 20000,
    /* A connection may queue as much as so many calls. */
    CONNECTION_QUEUES = 16,
    HELD_BYTES = 512 * 1024 * 1024,
    WHY_MAX = 160,
};

/* ---- context ---- */

static void fill_defaults(struct grpc_limits *limits)
{
#define DEFAULT(field, value) (limits->field = limits->field ? limits->field : (value))
    DEFAULT(message_bytes, MESSAGE_BYTES);
    DEFAULT(header_list_bytes, HEADER_LIST_BYTES);
    DEFAULT(streams, STREAMS);
    DEFAULT(connections, CONNECTIONS);
    DEFAULT(send_queue_bytes, SEND_QUEUE_BYTES);
    DEFAULT(window_bytes, WINDOW_BYTES);
    DEFAULT(handshake_ms, HANDSHAKE_MS);
    DEFAULT(keepalive_ms, KEEPALIVE_MS);
    DEFAULT(held_bytes, HELD_BYTES);
#undef DEFAULT
}

static void run(void *arg)
{
    struct grpc_context *context = arg;
    struct grpc_stream *stream;

    while ((stream = TAILQ_FIRST(&context->todo))) {
        TAILQ_REMOVE(&context->todo, stream, link);
        stream->queued = false;
        if (stream->ended)
            context->ops->over(stream);
        else if (!stream->paused)
            grpc_stream_data(stream, NULL, 0);
    }
    context->idle(context->arg);
}

int grpc_context_init(struct grpc_context *context, struct loop *loop,
                      const struct grpc_limits *limits, const struct grpc_stream_ops *ops,
                      void (*idle)(void *arg), void *arg)
{
    int r;

    *context = (struct grpc_context){.loop = loop, .ops = ops, .idle = idle, .arg = arg};
    if (limits)
        context->limits = *limits;
    limits = &context->limits;
    fill_defaults(&context->limits);
    context->h2_limits = (struct h2_limits){
        .pool = h2_pool_new(),
        .header_list_bytes = limits->header_list_bytes,
        .streams = limits->streams,
        .window_bytes = limits->window_bytes,
        .send_queue_bytes = CONNECTION_QUEUES * limits->send_queue_bytes,
        .handshake_ms = limits->handshake_ms,
        .idle_ms = limits->idle_ms,
        .life_ms = limits->life_ms,
        .keepalive_ms = limits->keepalive_ms,
    };
    context->held.limit = limits->held_bytes;
    TAILQ_INIT(&context->todo);
    r = context->h2_limits.pool ? loop_soon_new(loop, run, context, &context->soon) : -ENOMEM;
    if (r < 0)
        h2_pool_free(context->h2_limits.pool);
    return r;
}

void grpc_context_done(struct grpc_context *context)
{
    assert(TAILQ_EMPTY(&context->todo) && context->held.bytes == 0);
    loop_soon_free(context->soon);
    h2_pool_free(context->h2_limits.pool);
}

void grpc_context_poke(struct grpc_context *context)
{
    loop_soon_start(context->soon);
}

static void enqueue(struct grpc_stream *stream)
{
    if (!stream->queued) {
        stream->queued = true;
        TAILQ_INSERT_TAIL(&stream->context->todo, stream, link);
    }
    loop_soon_start(stream->context->soon);
}

/* ---- receiving ---- */

void grpc_stream_init(struct grpc_stream *stream, struct grpc_context *context,
                      struct grpc_budget *budget)
{
    stream->context = context;
    stream->reader.limit_bytes = context->limits.message_bytes;
    stream->reader.budget = budget;
}

static void free_parked(struct grpc_stream *stream)
{
    grpc_budget_give(stream->reader.budget, stream->parked_size);
    free(stream->parked);
    stream->parked = NULL;
    stream->parked_len = stream->parked_at = stream->parked_size = 0;
}

static void drop_parked(struct grpc_stream *stream)
{
    h2_consume(&stream->h2, stream->parked_len - stream->parked_at);
    free_parked(stream);
}

void grpc_stream_done(struct grpc_stream *stream)
{
    if (stream->queued)
        TAILQ_REMOVE(&stream->context->todo, stream, link);
    free_parked(stream);
    grpc_frame_done(&stream->reader);
    *stream = (struct grpc_stream){0};
}

static void refuse(struct grpc_stream *stream, enum grpc_status status, const char *why)
{
    grpc_stream_deafen(stream);
    stream->context->ops->refuse(stream, status, why);
}

static void refuse_frame(struct grpc_stream *stream, int r)
{
    char why[WHY_MAX];

    switch (r) {
    case GRPC_FRAME_COMPRESSED:
        refuse(stream, GRPC_UNIMPLEMENTED, "compressed messages are not supported");
        break;
    case GRPC_FRAME_TOO_LARGE:
        (void)snprintf(why, sizeof why, "a message of %u bytes is larger than the limit of %zu",
                       stream->reader.need, stream->reader.limit_bytes);
        refuse(stream, GRPC_RESOURCE_EXHAUSTED, why);
        break;
    case GRPC_FRAME_HELD:
        (void)snprintf(why, sizeof why, "calls keep more than the limit of %zu bytes",
                       stream->reader.full->limit);
        refuse(stream, GRPC_RESOURCE_EXHAUSTED, why);
        break;
    case GRPC_FRAME_BAD_FLAG:
        (void)snprintf(why, sizeof why, "malformed message: its first byte is %u, not 0 or 1",
                       stream->reader.head[0]);
        refuse(stream, GRPC_INTERNAL, why);
        break;
    default:
        refuse(stream, GRPC_RESOURCE_EXHAUSTED, "out of memory");
        break;
    }
}

/* Tell the messages in data until paused; how many bytes were taken. */
static size_t deliver(struct grpc_stream *stream, const uint8_t *data, size_t len)
{
    const uint8_t *message;
    size_t all = len, message_len;
    int r;

    while (len > 0 && !stream->paused && !stream->deaf) {
        r = grpc_frame_take(&stream->reader, &data, &len, &message, &message_len);
        if (r == GRPC_FRAME_MESSAGE) {
            stream->n_messages++;
            stream->context->ops->message(stream, message, message_len);
        } else if (r != GRPC_FRAME_MORE) {
            refuse_frame(stream, r);
        }
    }
    return stream->deaf ? all : all - len;
}

/* Room for len more parked bytes. */
static int grow_parked(struct grpc_stream *stream, size_t len)
{
    size_t size = 2 * (stream->parked_len + len), more = size - stream->parked_size;
    uint8_t *parked;

    if (stream->parked_len + len <= stream->parked_size)
        return 0;
    stream->reader.full = grpc_budget_take(stream->reader.budget, more);
    if (stream->reader.full)
        return GRPC_FRAME_HELD;
    parked = realloc(stream->parked, size);
    if (!parked) {
        grpc_budget_give(stream->reader.budget, more);
        return -ENOMEM;
    }
    stream->parked = parked;
    stream->parked_size = size;
    return 0;
}

/* Keep what came for later. Bounded by the stream's window, too, which opens only as bytes are delivered. */
static void park(struct grpc_stream *stream, const uint8_t *data, size_t len)
{
    int r = grow_parked(stream, len);

    if (r != 0) {
        h2_consume(&stream->h2, len);
        refuse_frame(stream, r);
        return;
    }
    memcpy(stream->parked + stream->parked_len, data, len);
    stream->parked_len += len;
}

static void deliver_parked(struct grpc_stream *stream)
{
    size_t n;

    stream->delivering = true;
    n = deliver(stream, stream->parked + stream->parked_at, stream->parked_len - stream->parked_at);
    stream->delivering = false;
    stream->parked_at += n;
    h2_consume(&stream->h2, n);
    if (stream->parked_at == stream->parked_len)
        drop_parked(stream);
}

static void tell_half_closed(struct grpc_stream *stream)
{
    if (!stream->remote_ended || stream->half_told || stream->paused || stream->deaf ||
        stream->parked)
        return;
    stream->half_told = true;
    if (grpc_frame_at_boundary(&stream->reader))
        stream->context->ops->half_closed(stream);
    else
        refuse(stream, GRPC_INTERNAL, "the stream ended inside a message");
}

void grpc_stream_data(struct grpc_stream *stream, const uint8_t *data, size_t len)
{
    size_t n = 0;

    if (stream->parked)
        deliver_parked(stream);
    if (!stream->parked) {
        n = deliver(stream, data, len);
        h2_consume(&stream->h2, n);
    }
    if (n < len)
        park(stream, data + n, len - n);
    tell_half_closed(stream);
}

void grpc_stream_half_closed(struct grpc_stream *stream)
{
    stream->remote_ended = true;
    tell_half_closed(stream);
}

void grpc_stream_pause(struct grpc_stream *stream)
{
    stream->paused = true;
}

void grpc_stream_resume(struct grpc_stream *stream)
{
    if (!stream->paused)
        return;
    stream->paused = false;
    if (!stream->deaf && (stream->parked || stream->remote_ended))
        enqueue(stream);
}

void grpc_stream_deafen(struct grpc_stream *stream)
{
    stream->deaf = true;
    if (stream->parked && !stream->delivering)
        drop_parked(stream);
}

void grpc_stream_over(struct grpc_stream *stream)
{
    if (stream->ended)
        return;
    stream->ended = true;
    enqueue(stream);
}

/* ---- sending ---- */

static struct h2_chunk *chunk_of(uint8_t *message)
{
    return (struct h2_chunk *)(void *)(message - GRPC_FRAME_HEAD - offsetof(struct h2_chunk, data));
}

uint8_t *grpc_message_new(size_t len)
{
    struct h2_chunk *chunk = h2_chunk_new(GRPC_FRAME_HEAD + len);

    return chunk ? chunk->data + GRPC_FRAME_HEAD : NULL;
}

void grpc_message_free(uint8_t *message)
{
    if (message)
        free(chunk_of(message));
}

int grpc_stream_send_owned(struct grpc_stream *stream, uint8_t *message, size_t len)
{
    struct h2_chunk *chunk = chunk_of(message);
    int r;

    if (len > stream->context->limits.message_bytes || len > UINT32_MAX) {
        free(chunk);
        return -EMSGSIZE;
    }
    assert(len + GRPC_FRAME_HEAD <= chunk->len);
    chunk->len = len + GRPC_FRAME_HEAD;
    grpc_frame_head(chunk->data, (uint32_t)len);
    r = h2_push(&stream->h2, chunk, stream->context->limits.send_queue_bytes);
    return r == H2_WAIT ? GRPC_FULL : r;
}

int grpc_stream_send(struct grpc_stream *stream, const uint8_t *data, size_t len)
{
    uint8_t *message;

    if (len > stream->context->limits.message_bytes)
        return -EMSGSIZE;
    message = grpc_message_new(len);
    if (!message)
        return -ENOMEM;
    if (len > 0)
        memcpy(message, data, len);
    return grpc_stream_send_owned(stream, message, len);
}
