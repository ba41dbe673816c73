#include <assert.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/un.h>

#include "common/address.h"
#include "common/net/grpc_stream.h"
#include "common/net/grpc_text.h"
#include "common/net/loop.h"
#include "common/net/tls_port.h"
#include "common/net/transport.h"

/* A request lives from grpc_request_start until two things have happened: its stream is closed (or was never opened), and
 * its owner has been told the end. A channel has one connection that takes requests, and those that still end some. */

enum {
    BACKOFF_FIRST_MS = 100,
    BACKOFF_MAX_MS = 5000,
    BACKOFF_JITTER_PERCENT = 20,
    FIXED_HEADERS = 8,
    WHY_BYTES = 400,
    HTTP_OK = 200,
};

struct connection {
    LIST_ENTRY(connection) link;
    struct grpc_channel *channel;
    struct h2_conn *h2;
    bool ready;
};

struct grpc_channel {
    struct grpc_context context;
    char *target;
    const char *path; /* in target; NULL: TLS */
    struct tls_keys *keys;
    char *peer;
    const char *alpn;
    LIST_HEAD(, connection) connections;
    struct connection *current; /* NULL: connect first */
    LIST_HEAD(, grpc_request) requests;
    unsigned n_requests;
    struct grpc_request *pool;
    unsigned n_pool;
    int64_t backoff_ms, retry_at_ms;
    char why[WHY_BYTES]; /* the last failure, with the target's name */
    bool closing;
    void (*done)(void *arg);
    void *done_arg;
};

struct grpc_request {
    struct grpc_stream stream; /* first */
    LIST_ENTRY(grpc_request) link;
    struct grpc_request *next_free;
    struct grpc_channel *channel;
    const struct grpc_request_events *events;
    void *arg;
    struct loop_timer *timer; /* kept in the pool */
    int64_t timeout_ms;
    bool opened, closed, finished, end_told;
    bool is_grpc, has_status;
    unsigned http_status;
    enum grpc_status status; /* of the server, then of the request */
    char *message;           /* decoded; NULL = none */
};

static struct grpc_request *request_of(struct h2_stream *stream)
{
    return (struct grpc_request *)(void *)stream;
}

/* ---- birth and end of a request ---- */

static struct grpc_request *request_new(struct grpc_channel *channel)
{
    struct grpc_request *request = channel->pool;

    if (request) {
        channel->pool = request->next_free;
        channel->n_pool--;
    } else {
        request = calloc(1, sizeof *request);
        if (!request)
            return NULL;
    }
    grpc_stream_init(&request->stream, &channel->context, &channel->context.held);
    request->channel = channel;
    channel->n_requests++;
    LIST_INSERT_HEAD(&channel->requests, request, link);
    return request;
}

static void request_free(struct grpc_request *request)
{
    loop_timer_free(request->timer);
    free(request);
}

static void request_recycle(struct grpc_request *request)
{
    struct grpc_channel *channel = request->channel;
    struct loop_timer *timer = request->timer;

    LIST_REMOVE(request, link);
    channel->n_requests--;
    grpc_stream_done(&request->stream);
    free(request->message);
    if (timer)
        loop_timer_stop(timer);
    *request = (struct grpc_request){.timer = timer};
    if (channel->n_pool >= H2_KEPT_MAX) {
        request_free(request);
        return;
    }
    request->next_free = channel->pool;
    channel->pool = request;
    channel->n_pool++;
}

/* The one end of every request; its owner is told from the loop. */
static void finish(struct grpc_request *request, enum grpc_status status, const char *message)
{
    if (request->finished)
        return;
    request->finished = true;
    request->status = status;
    if (message && message != request->message) {
        free(request->message);
        request->message = strdup(message);
    }
    grpc_stream_deafen(&request->stream);
    /* Whatever we still wanted to say, nobody asks for it. */
    if (request->opened && !request->closed &&
        !(request->stream.h2.remote_ended && request->stream.h2.ended))
        h2_reset(&request->stream.h2, H2_CANCEL);
    grpc_stream_over(&request->stream);
}

static void over(struct grpc_stream *stream)
{
    struct grpc_request *request = request_of(&stream->h2);

    request->end_told = true;
    if (request->timer)
        loop_timer_stop(request->timer);
    request->events->end(request, request->status, request->message ? request->message : "",
                         request->opened && h2_request_seen(&stream->h2), request->arg);
    if (request->closed || !request->opened)
        request_recycle(request);
}

static void deadline_passed(void *arg)
{
    struct grpc_request *request = arg;
    char why[WHY_BYTES];

    (void)snprintf(why, sizeof why, "no answer within the deadline of %lld ms",
                   (long long)request->timeout_ms);
    finish(request, GRPC_DEADLINE_EXCEEDED, why);
}

/* ---- the answer ---- */

static bool is(const char *name, size_t len, const char *other)
{
    return strlen(other) == len && memcmp(name, other, len) == 0;
}

static void header(struct h2_stream *stream, const char *name, size_t name_len, const char *value,
                   size_t value_len)
{
    struct grpc_request *request = request_of(stream);

    if (request->finished)
        return;
    if (is(name, name_len, ":status")) {
        request->http_status = (unsigned)strtoul(value, NULL, 10);
    } else if (is(name, name_len, "content-type")) {
        request->is_grpc = grpc_content_type(value, value_len);
    } else if (is(name, name_len, "grpc-status")) {
        request->has_status = true;
        request->status = grpc_status_parse(value, value_len);
    } else if (is(name, name_len, "grpc-message") && !request->message) {
        request->message = malloc(value_len + 1);
        if (request->message)
            (void)grpc_message_decode(value, value_len, request->message);
    }
}

static void headers(struct h2_stream *stream, unsigned flags)
{
    struct grpc_request *request = request_of(stream);

    if (flags & H2_BLOCK_TOO_LARGE)
        finish(request, GRPC_RESOURCE_EXHAUSTED,
               "the server's header list is larger than our limit");
}

/* What an answer without a grpc-status means (gRPC's http-grpc-status-mapping). */
static enum grpc_status status_of_http(unsigned http_status)
{
    switch (http_status) {
    case 400:
        return GRPC_INTERNAL;
    case 401:
        return GRPC_UNAUTHENTICATED;
    case 403:
        return GRPC_PERMISSION_DENIED;
    case 404:
        return GRPC_UNIMPLEMENTED;
    case 429:
    case 502:
    case 503:
    case 504:
        return GRPC_UNAVAILABLE;
    default:
        return GRPC_UNKNOWN;
    }
}

static void all_said(struct grpc_stream *stream)
{
    struct grpc_request *request = request_of(&stream->h2);
    char why[WHY_BYTES];

    if (request->has_status) {
        if (request->status == GRPC_OK && request->events->unary && stream->n_messages == 0)
            finish(request, GRPC_UNIMPLEMENTED, "OK without a reply; the method gives one");
        else
            finish(request, request->status, request->message);
    } else if (request->http_status != HTTP_OK || !request->is_grpc) {
        (void)snprintf(why, sizeof why, "not a gRPC answer: HTTP status %u from %s",
                       request->http_status, request->channel->target);
        finish(request, status_of_http(request->http_status), why);
    } else {
        finish(request, GRPC_INTERNAL, "the server ended the call without a status");
    }
}

static void message(struct grpc_stream *stream, const uint8_t *bytes, size_t len)
{
    struct grpc_request *request = request_of(&stream->h2);

    if (request->events->unary && stream->n_messages > 1)
        finish(request, GRPC_UNIMPLEMENTED, "more than one reply; the method gives one");
    else if (request->events->message)
        request->events->message(request, bytes, len, request->arg);
}

static void refused(struct grpc_stream *stream, enum grpc_status status, const char *why)
{
    finish(request_of(&stream->h2), status, why);
}

static const struct grpc_stream_ops stream_ops = {
    .message = message,
    .half_closed = all_said,
    .refuse = refused,
    .over = over,
};

static void data(struct h2_stream *stream, const uint8_t *bytes, size_t len)
{
    grpc_stream_data(&request_of(stream)->stream, bytes, len);
}

static void half_closed(struct h2_stream *stream)
{
    grpc_stream_half_closed(&request_of(stream)->stream);
}

static void writable(struct h2_stream *stream)
{
    struct grpc_request *request = request_of(stream);

    if (request->events->writable && !request->finished)
        request->events->writable(request, request->arg);
}

/* gRPC's table of what a reset means. */
static enum grpc_status status_of_reset(uint32_t error)
{
    switch (error) {
    case H2_REFUSED_STREAM:
        return GRPC_UNAVAILABLE;
    case H2_CANCEL:
        return GRPC_CANCELLED;
    case H2_ENHANCE_YOUR_CALM:
        return GRPC_RESOURCE_EXHAUSTED;
    case H2_INADEQUATE_SECURITY:
        return GRPC_PERMISSION_DENIED;
    default:
        return GRPC_INTERNAL;
    }
}

static void closed(struct h2_stream *stream, uint32_t error)
{
    struct grpc_request *request = request_of(stream);
    char why[WHY_BYTES];

    request->closed = true;
    if (request->end_told) {
        request_recycle(request);
    } else if (error == H2_LOST) {
        finish(request, GRPC_UNAVAILABLE, request->channel->why);
    } else if (!request->stream.remote_ended) {
        (void)snprintf(why, sizeof why, "%s: the server reset the stream, code %u",
                       request->channel->target, error);
        finish(request, status_of_reset(error), why);
    }
    /* Else the answer is complete, and told when its messages have been. */
}

/* ---- connections ---- */

static void set_why(struct grpc_channel *channel, const char *what)
{
    (void)snprintf(channel->why, sizeof channel->why, "%.120s: %.240s", channel->target, what);
}

static void back_off(struct grpc_channel *channel)
{
    int64_t now = loop_now_fresh_ms();
    /* The low bits of the clock are chance enough to spread the clients of a server that came back. */
    int64_t jitter = (int64_t)((uint64_t)now * 2654435761u % (2 * BACKOFF_JITTER_PERCENT + 1)) -
                     BACKOFF_JITTER_PERCENT;

    channel->retry_at_ms = now + channel->backoff_ms + channel->backoff_ms * jitter / 100;
    channel->backoff_ms *= 2;
    if (channel->backoff_ms > BACKOFF_MAX_MS)
        channel->backoff_ms = BACKOFF_MAX_MS;
}

static void ready(struct h2_conn *h2, void *arg)
{
    struct connection *connection = arg;

    (void)h2;
    connection->ready = true;
    connection->channel->backoff_ms = BACKOFF_FIRST_MS;
}

static void retire(struct connection *connection)
{
    if (connection->channel->current == connection)
        connection->channel->current = NULL;
}

static void goaway(struct h2_conn *h2, void *arg)
{
    (void)h2;
    retire(arg);
}

/* Comes before the streams are told, so that they can say why. */
static void losing(struct h2_conn *h2, const char *why, void *arg)
{
    struct connection *connection = arg;

    (void)h2;
    set_why(connection->channel, why);
}

static void lost(struct h2_conn *h2, int r, const char *why, void *arg)
{
    struct connection *connection = arg;
    struct grpc_channel *channel = connection->channel;

    (void)h2;
    (void)r;
    (void)why;
    retire(connection);
    if (!connection->ready)
        back_off(channel);
    LIST_REMOVE(connection, link);
    free(connection);
    grpc_context_poke(&channel->context);
}

static const struct h2_handler handler = {
    .header = header,
    .headers = headers,
    .data = data,
    .half_closed = half_closed,
    .writable = writable,
    .closed = closed,
    .ready = ready,
    .goaway = goaway,
    .losing = losing,
    .lost = lost,
};

static int start_transport(struct grpc_channel *channel, struct transport **ret)
{
    const struct tls_target target = {
        .address = channel->target,
        .alpn = channel->alpn,
        .peer = channel->peer,
        /* Before h2 gives up, which knows less of why. */
        .timeout_ms = channel->context.h2_limits.handshake_ms * 9 / 10,
    };

    if (channel->path)
        return transport_unix_connect(channel->context.loop, channel->path, NULL, NULL, ret);
    return tls_connect(channel->context.loop, channel->keys, &target, NULL, NULL, ret);
}

static int connect_now(struct grpc_channel *channel)
{
    struct connection *connection = calloc(1, sizeof *connection);
    struct transport *transport;
    char why[WHY_BYTES];
    int r;

    if (!connection)
        return -ENOMEM;
    connection->channel = channel;
    r = start_transport(channel, &transport);
    if (r == 0)
        r = h2_conn_new(channel->context.loop, transport, false, &channel->context.h2_limits,
                        &handler, connection, &connection->h2);
    if (r < 0) {
        free(connection);
        (void)snprintf(why, sizeof why, "connect: %s", strerror(-r));
        set_why(channel, why);
        back_off(channel);
        return r;
    }
    LIST_INSERT_HEAD(&channel->connections, connection, link);
    channel->current = connection;
    return 0;
}

/* ---- starting ---- */

static size_t fill_headers(const struct grpc_channel *channel, struct h2_header *ret,
                           const char *path, const char *timeout,
                           const struct grpc_metadata *metadata)
{
    static const struct h2_header fixed[] = {
        H2_HEADER(":method", "POST"),
        H2_HEADER(":scheme", "http"),
        H2_HEADER(":authority", "localhost"),
        H2_HEADER("te", "trailers"),
        H2_HEADER("content-type", "application/grpc"),
    };
    static const struct h2_header secure = H2_HEADER(":scheme", "https");
    size_t n = 0;

    for (; n < 3; n++)
        ret[n] = fixed[n];
    if (!channel->path) {
        ret[1] = secure;
        ret[2].value = channel->target;
        ret[2].value_len = strlen(channel->target);
    }
    ret[n++] = (struct h2_header){
        .name = ":path", .name_len = 5, .value = path, .value_len = strlen(path)};
    for (size_t i = 3; i < sizeof fixed / sizeof *fixed; i++)
        ret[n++] = fixed[i];
    if (timeout[0])
        ret[n++] = (struct h2_header){
            .name = "grpc-timeout", .name_len = 12, .value = timeout, .value_len = strlen(timeout)};
    for (; metadata && metadata->key; metadata++)
        ret[n++] = (struct h2_header){.name = metadata->key,
                                      .name_len = strlen(metadata->key),
                                      .value = metadata->value,
                                      .value_len = strlen(metadata->value)};
    return n;
}

/* Open the request's stream, connecting first where there is no connection. -EPIPE, -ENOMEM; channel->why says more. */
static int open_stream(struct grpc_channel *channel, struct grpc_request *request,
                       const struct h2_header *headers, size_t n)
{
    int r = -EPIPE;

    for (int attempt = 0; attempt < 2 && r == -EPIPE; attempt++) {
        if (!channel->current) {
            if (loop_now_fresh_ms() < channel->retry_at_ms || connect_now(channel) < 0)
                return -EPIPE;
        }
        r = h2_request(channel->current->h2, &request->stream.h2, headers, n);
        if (r == -EPIPE)
            retire(channel->current);
    }
    return r;
}

static size_t n_metadata(const struct grpc_metadata *metadata)
{
    size_t n = 0;

    while (metadata && metadata[n].key)
        n++;
    return n;
}

static int start_deadline(struct grpc_request *request)
{
    int r = request->timer ? 0
                           : loop_timer_new(request->channel->context.loop, deadline_passed,
                                            request, &request->timer);

    if (r == 0)
        loop_timer_start(request->timer, request->timeout_ms, 0);
    return r;
}

int grpc_request_start(struct grpc_channel *channel, const char *path, int64_t timeout_ms,
                       const struct grpc_metadata *metadata,
                       const struct grpc_request_events *events, void *arg,
                       struct grpc_request **ret)
{
    struct h2_header headers[FIXED_HEADERS + GRPC_METADATA_MAX];
    char timeout[GRPC_TIMEOUT_MAX] = "";
    struct grpc_request *request;
    int r = 0;

    if (channel->closing)
        return -EPIPE;
    if (n_metadata(metadata) > GRPC_METADATA_MAX)
        return -EINVAL;
    if (channel->n_requests >= channel->context.limits.streams)
        return -EAGAIN;
    request = request_new(channel);
    if (!request)
        return -ENOMEM;
    request->events = events;
    request->arg = arg;
    request->timeout_ms = timeout_ms;
    if (timeout_ms > 0) {
        (void)grpc_timeout_format(timeout_ms, timeout);
        r = start_deadline(request);
    }
    if (r < 0) {
        request_recycle(request);
        return r;
    }
    r = open_stream(channel, request, headers,
                    fill_headers(channel, headers, path, timeout, metadata));
    if (r == 0)
        request->opened = true;
    else
        finish(request, GRPC_UNAVAILABLE, r == -ENOMEM ? "out of memory" : channel->why);
    *ret = request;
    return 0;
}

bool grpc_request_answered(const struct grpc_request *request)
{
    return request->has_status;
}

int grpc_request_send(struct grpc_request *request, const uint8_t *bytes, size_t len)
{
    if (request->finished)
        return -EPIPE;
    return grpc_stream_send(&request->stream, bytes, len);
}

int grpc_request_send_owned(struct grpc_request *request, uint8_t *bytes, size_t len)
{
    if (request->finished) {
        grpc_message_free(bytes);
        return -EPIPE;
    }
    return grpc_stream_send_owned(&request->stream, bytes, len);
}

void grpc_request_half_close(struct grpc_request *request)
{
    if (!request->finished)
        h2_finish(&request->stream.h2, false);
}

void grpc_request_cancel(struct grpc_request *request)
{
    finish(request, GRPC_CANCELLED, "cancelled by the caller");
}

void grpc_request_pause(struct grpc_request *request)
{
    grpc_stream_pause(&request->stream);
}

void grpc_request_resume(struct grpc_request *request)
{
    grpc_stream_resume(&request->stream);
}

/* ---- the channel ---- */

/* Last step of grpc_channel_close. */
static void check_closed(void *arg)
{
    struct grpc_channel *channel = arg;
    void (*done)(void *arg) = channel->done;
    void *done_arg = channel->done_arg;

    if (!channel->closing || channel->n_requests > 0 || !LIST_EMPTY(&channel->connections))
        return;
    while (channel->pool) {
        struct grpc_request *request = channel->pool;

        channel->pool = request->next_free;
        request_free(request);
    }
    grpc_context_done(&channel->context);
    free(channel->target);
    free(channel->peer);
    free(channel);
    if (done)
        done(done_arg);
}

/* "unix:path" and "unix:///path", as gRPC names them. */
static const char *path_of(const char *target)
{
    if (strncmp(target, "unix:", 5) != 0)
        return NULL;
    target += 5;
    if (strncmp(target, "//", 2) == 0) {
        target += 2;
        return *target == '/' ? target : NULL;
    }
    return *target ? target : NULL;
}

static int channel_new(struct loop *loop, const char *target, const struct grpc_limits *limits,
                       struct grpc_channel **ret)
{
    struct grpc_channel *channel = calloc(1, sizeof *channel);
    int r;

    if (!channel)
        return -ENOMEM;
    LIST_INIT(&channel->connections);
    LIST_INIT(&channel->requests);
    channel->backoff_ms = BACKOFF_FIRST_MS;
    channel->retry_at_ms = INT64_MIN;
    channel->target = strdup(target);
    r = channel->target
            ? grpc_context_init(&channel->context, loop, limits, &stream_ops, check_closed, channel)
            : -ENOMEM;
    if (r < 0) {
        free(channel->target);
        free(channel);
        return r;
    }
    *ret = channel;
    return 0;
}

int grpc_channel_new(struct loop *loop, const char *target, const struct grpc_limits *limits,
                     struct grpc_channel **ret)
{
    int r;

    if (!path_of(target))
        return -EINVAL;
    if (strlen(path_of(target)) >= sizeof((struct sockaddr_un *)NULL)->sun_path)
        return -ENAMETOOLONG;
    r = channel_new(loop, target, limits, ret);
    if (r == 0)
        (*ret)->path = path_of((*ret)->target);
    return r;
}

int grpc_channel_tls_new(struct loop *loop, const char *address, struct tls_keys *keys,
                         const char *peer, const char *alpn, const struct grpc_limits *limits,
                         struct grpc_channel **ret)
{
    char *copy;
    int r;

    if (address_parse(address, false, &(struct address){{0}}, NULL) < 0)
        return -EINVAL;
    copy = strdup(peer);
    if (!copy)
        return -ENOMEM;
    r = channel_new(loop, address, limits, ret);
    if (r < 0) {
        free(copy);
        return r;
    }
    (*ret)->keys = keys;
    (*ret)->peer = copy;
    (*ret)->alpn = alpn ? alpn : TLS_ALPN_GRPC;
    return 0;
}

int grpc_channel_open(struct loop *loop, const char *server, struct tls_keys *keys,
                      const struct grpc_limits *limits, struct grpc_channel **ret)
{
    if (address_is_unix(server))
        return grpc_channel_new(loop, server, limits, ret);
    return keys ? grpc_channel_tls_new(loop, server, keys, CERT_URI_REPLICA, NULL, limits, ret)
                : -ENOKEY;
}

void grpc_channel_close(struct grpc_channel *channel, void (*done)(void *arg), void *arg)
{
    struct connection *connection;
    struct grpc_request *request;

    assert(!channel->closing);
    channel->closing = true;
    channel->done = done;
    channel->done_arg = arg;
    LIST_FOREACH(request, &channel->requests, link)
    finish(request, GRPC_CANCELLED, "the channel is closed");
    LIST_FOREACH(connection, &channel->connections, link)
    h2_conn_abort(connection->h2, 0, H2_NO_ERROR, "the channel is closed");
    grpc_context_poke(&channel->context);
}
