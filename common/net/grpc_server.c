#include <assert.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "common/cert.h"
#include "common/net/grpc_account.h"
#include "common/net/grpc_stream.h"
#include "common/net/grpc_text.h"
#include "common/net/listener.h"
#include "common/net/loop.h"
#include "common/net/transport.h"

/* A call lives from its header block until two things have happened: its stream is closed, and its owner has been told
 * the end.
 *
 *      header block -> accept -> bound -----> finished -----> over (end told) --+
 *                                   |             ^                             +--> back to the pool
 *                                   +- stream closed (cancelled, lost) ---------+
 */

enum {
    PATH_MAX_BYTES = 255,
    VALUE_MAX_BYTES = 63, /* of a header kept to be named in an error */
    POOL_META_BYTES = 1024,
    WHY_BYTES = 400,
    /* What a call counts for in any case: itself, its stream, what its owner has, a short answer. */
    CALL_BYTES = 4096,
    /* What all connections queue for peers that do not read: the more there are, the less each of them may. */
    SEND_BUDGET_BYTES = 64 * 1024 * 1024,
    SEND_LEAST_BYTES = 64 * 1024,
};

struct connection {
    LIST_ENTRY(connection) link;
    struct grpc_server *server;
    struct h2_conn *h2; /* NULL: lost, lives on for the peer of its calls */
    struct grpc_peer peer;
    struct cert_identity tls; /* peer.tls, which outlives the transport here */
    struct grpc_account *account;
    bool going; /* makes room for a newer one */
    unsigned n_calls;
};

struct listening {
    SLIST_ENTRY(listening) link;
    struct listener *listener;
};

struct grpc_server {
    struct grpc_context context;
    grpc_accept_fn accept;
    void *arg;
    SLIST_HEAD(, listening) listeners;
    LIST_HEAD(, connection) connections;
    struct grpc_accounts accounts;
    size_t send_queue_bytes; /* of a connection at most */
    LIST_HEAD(, grpc_call) calls;
    struct grpc_call *pool;
    unsigned n_pool;
    struct loop_timer *grace;
    bool closing;
    void (*done)(void *arg);
    void *done_arg;
};

enum content {
    CONTENT_NONE,
    CONTENT_GRPC,
    CONTENT_OTHER,
};

struct grpc_call {
    struct grpc_stream stream; /* first */
    LIST_ENTRY(grpc_call) link;
    struct grpc_call *next_free;
    struct grpc_server *server;
    struct connection *connection;
    const struct grpc_call_events *events; /* NULL: not bound */
    void *arg;
    struct loop_timer *timer; /* kept in the pool */
    int64_t deadline_ms, timeout_ms;
    /* Taken of its peer's budget: for us until it is recycled; for its owner. */
    size_t own_bytes, kept_bytes;
    const struct grpc_budget *full; /* the one that has no room for it */
    bool headers_told, is_post, closed, finished, end_told, bad_timeout;
    enum content content;
    enum grpc_status status;
    char *message; /* encoded; NULL = none */
    char path[PATH_MAX_BYTES + 1];
    char encoding[VALUE_MAX_BYTES + 1];
    char timeout[VALUE_MAX_BYTES + 1];
    /* Other headers: key, NUL, value, NUL, ... */
    char *meta;
    size_t meta_len, meta_size;
};

static struct grpc_call *call_of(struct h2_stream *stream)
{
    return (struct grpc_call *)(void *)stream;
}

/* ---- birth and end of a call ---- */

/* Whether the peer may hold so many bytes more for this call. */
static bool take(struct grpc_call *call, size_t n)
{
    call->full = grpc_budget_take(&call->connection->account->held, n);
    if (call->full)
        return false;
    call->own_bytes += n;
    return true;
}

static struct grpc_call *call_new(struct connection *connection)
{
    struct grpc_server *server = connection->server;
    struct grpc_call *call = server->pool;

    if (call) {
        server->pool = call->next_free;
        server->n_pool--;
    } else {
        call = calloc(1, sizeof *call);
        if (!call)
            return NULL;
    }
    grpc_stream_init(&call->stream, &server->context, &connection->account->held);
    call->server = server;
    call->connection = connection;
    call->deadline_ms = INT64_MAX;
    call->timeout_ms = -1;
    (void)take(call, CALL_BYTES);
    connection->n_calls++;
    LIST_INSERT_HEAD(&server->calls, call, link);
    return call;
}

static void call_free(struct grpc_call *call)
{
    loop_timer_free(call->timer);
    free(call->meta);
    free(call);
}

static void connection_release(struct connection *connection)
{
    if (connection->h2 || connection->n_calls > 0)
        return;
    cert_identity_done(&connection->tls);
    grpc_account_unref(connection->account);
    free(connection);
}

static void call_recycle(struct grpc_call *call)
{
    struct grpc_server *server = call->server;
    struct loop_timer *timer = call->timer;
    char *meta = call->meta;
    size_t meta_size = call->meta_size;

    LIST_REMOVE(call, link);
    grpc_stream_done(&call->stream);
    grpc_budget_give(&call->connection->account->held, call->own_bytes);
    call->connection->n_calls--;
    connection_release(call->connection);
    free(call->message);
    if (timer)
        loop_timer_stop(timer);
    if (server->n_pool >= H2_KEPT_MAX || meta_size > POOL_META_BYTES) {
        call_free(call);
        return;
    }
    /* Zero what a call begins with; the texts are set before they are read. */
    memset(call, 0, offsetof(struct grpc_call, path));
    call->path[0] = call->encoding[0] = call->timeout[0] = '\0';
    call->timer = timer;
    call->meta = meta;
    call->meta_size = meta_size;
    call->meta_len = 0;
    call->next_free = server->pool;
    server->pool = call;
    server->n_pool++;
}

/* ---- answering ---- */

static const struct h2_header status_ok = H2_HEADER(":status", "200");
static const struct h2_header content_type = H2_HEADER("content-type", "application/grpc");

static size_t status_headers(const struct grpc_call *call, struct h2_header *ret)
{
    size_t n = 1;

    ret[0] = H2_HEADER("grpc-status", "");
    ret[0].value = grpc_status_digits(call->status);
    ret[0].value_len = strlen(ret[0].value);
    if (call->message) {
        ret[n] = H2_HEADER("grpc-message", "");
        ret[n].value = call->message;
        ret[n].value_len = strlen(call->message);
        ret[n++].flags = H2_NO_INDEX;
    }
    return n;
}

static size_t trailers(struct h2_stream *stream, struct h2_header *ret)
{
    return status_headers(call_of(stream), ret);
}

static int respond(struct grpc_call *call)
{
    const struct h2_header headers[] = {status_ok, content_type};

    return h2_respond(&call->stream.h2, headers, 2, false);
}

/* Nothing was sent yet: one header block says it all. */
static int respond_status(struct grpc_call *call, const struct h2_header *http_status)
{
    static const struct h2_header accept = H2_HEADER("grpc-accept-encoding", "identity");
    struct h2_header headers[5] = {*http_status, content_type};
    size_t n = 2 + status_headers(call, headers + 2);

    if (call->encoding[0])
        headers[n++] = accept;
    return h2_respond(&call->stream.h2, headers, n, true);
}

static void set_message(struct grpc_call *call, const char *message)
{
    char encoded[3 * GRPC_MESSAGE_MAX + 1];
    size_t len;

    if (!message || !*message || call->status == GRPC_OK)
        return;
    len = grpc_message_encode(message, encoded);
    call->message = malloc(len + 1);
    if (call->message)
        memcpy(call->message, encoded, len + 1);
}

/* The one end of every call that its client has not left. drop: forget what is queued. */
static void finish(struct grpc_call *call, enum grpc_status status, const char *message,
                   const struct h2_header *http_status, bool drop)
{
    int r = 0;

    if (call->finished) {
        if (drop)
            h2_finish(&call->stream.h2, true);
        return;
    }
    call->finished = true;
    call->status = status;
    set_message(call, message);
    grpc_stream_deafen(&call->stream);
    if (!call->closed) {
        if (!call->stream.h2.responded && status != GRPC_OK)
            r = respond_status(call, http_status);
        else if (!call->stream.h2.responded)
            r = respond(call);
        if (r < 0)
            h2_reset(&call->stream.h2, H2_INTERNAL_ERROR);
        else
            h2_finish(&call->stream.h2, drop);
    }
    grpc_stream_over(&call->stream);
}

void grpc_call_finish(struct grpc_call *call, enum grpc_status status, const char *message)
{
    finish(call, status, message, &status_ok, false);
}

static void finish_full(struct grpc_call *call)
{
    char why[WHY_BYTES];

    (void)snprintf(why, sizeof why, "calls keep more than the limit of %zu bytes",
                   call->full->limit);
    finish(call, GRPC_RESOURCE_EXHAUSTED, why, &status_ok, true);
}

bool grpc_call_keep(struct grpc_call *call, size_t bytes)
{
    struct grpc_budget *held = &call->connection->account->held;

    grpc_budget_give(held, call->kept_bytes);
    call->full = grpc_budget_take(held, bytes);
    call->kept_bytes = call->full ? 0 : bytes;
    if (call->full)
        finish_full(call);
    return !call->full;
}

static void deadline_passed(void *arg)
{
    struct grpc_call *call = arg;
    char why[WHY_BYTES];

    (void)snprintf(why, sizeof why, "the deadline of %lld ms has passed",
                   (long long)call->timeout_ms);
    finish(call, GRPC_DEADLINE_EXCEEDED, why, &status_ok, true);
}

int grpc_call_send_owned(struct grpc_call *call, uint8_t *message, size_t len)
{
    bool first = !call->stream.h2.responded;
    int r = 0;

    /* A stream of answers waits for its reader; the one answer of a call does not, and where only one message is asked for
     * the first may be that one. */
    if (call->finished || call->closed)
        r = -EPIPE;
    else if (call->events->unary && first && len > CALL_BYTES && !take(call, len))
        r = -ENOBUFS;
    else if (first)
        r = respond(call);
    if (r == -ENOBUFS)
        finish_full(call);
    if (r < 0) {
        grpc_message_free(message);
        return r;
    }
    return grpc_stream_send_owned(&call->stream, message, len);
}

int grpc_call_send(struct grpc_call *call, const uint8_t *data, size_t len)
{
    uint8_t *message;

    if (len > call->server->context.limits.message_bytes)
        return -EMSGSIZE;
    message = grpc_message_new(len);
    if (!message)
        return -ENOMEM;
    if (len > 0)
        memcpy(message, data, len);
    return grpc_call_send_owned(call, message, len);
}

/* ---- the request ---- */

static bool is(const char *name, size_t len, const char *other)
{
    return memcmp(name, other, len) == 0;
}

static void keep(char *ret, size_t size, const char *value, size_t len)
{
    size_t n = len < size - 1 ? len : size - 1;

    memcpy(ret, value, n);
    ret[n] = '\0';
}

static void add_metadata(struct grpc_call *call, const char *name, size_t name_len,
                         const char *value, size_t value_len)
{
    size_t need = call->meta_len + name_len + value_len + 2;

    if (need > call->meta_size) {
        size_t size = need < 256 ? 256 : 2 * need;
        char *meta = size <= POOL_META_BYTES || take(call, size) ? realloc(call->meta, size) : NULL;

        if (!meta)
            return;
        call->meta = meta;
        call->meta_size = size;
    }
    memcpy(call->meta + call->meta_len, name, name_len + 1);
    memcpy(call->meta + call->meta_len + name_len + 1, value, value_len + 1);
    call->meta_len = need;
}

static void header(struct h2_stream *stream, const char *name, size_t name_len, const char *value,
                   size_t value_len)
{
    struct grpc_call *call = call_of(stream);

    if (call->headers_told || call->full) /* trailers of a client: nothing we need */
        return;
    if (name_len == 5 && is(name, 5, ":path"))
        keep(call->path, sizeof call->path, value, value_len);
    else if (name_len == 7 && is(name, 7, ":method"))
        call->is_post = value_len == 4 && is(value, 4, "POST");
    else if (name_len == 12 && is(name, 12, "content-type"))
        call->content = grpc_content_type(value, value_len) ? CONTENT_GRPC : CONTENT_OTHER;
    else if (name_len == 12 && is(name, 12, "grpc-timeout"))
        keep(call->timeout, sizeof call->timeout, value, value_len);
    else if (name_len == 13 && is(name, 13, "grpc-encoding"))
        keep(call->encoding, sizeof call->encoding, value, value_len);
    else if (name[0] != ':' && !(name_len == 2 && is(name, 2, "te")) &&
             !(name_len == 20 && is(name, 20, "grpc-accept-encoding")))
        add_metadata(call, name, name_len, value, value_len);
}

/* What is wrong with the request, if anything, is answered. */
static bool acceptable(struct grpc_call *call, unsigned flags)
{
    static const struct h2_header not_allowed = H2_HEADER(":status", "405");
    static const struct h2_header wrong_type = H2_HEADER(":status", "415");
    char why[WHY_BYTES];

    if (call->full) {
        finish_full(call);
        return false;
    }
    if (flags & H2_BLOCK_TOO_LARGE) {
        (void)snprintf(why, sizeof why, "the header list is larger than the limit of %zu bytes",
                       call->server->context.limits.header_list_bytes);
        finish(call, GRPC_RESOURCE_EXHAUSTED, why, &status_ok, false);
        return false;
    }
    if (!call->is_post) {
        finish(call, GRPC_INTERNAL, "the method must be POST", &not_allowed, false);
        return false;
    }
    if (call->content != CONTENT_GRPC) {
        finish(call, GRPC_INTERNAL, "the content-type must be application/grpc", &wrong_type,
               false);
        return false;
    }
    if (call->encoding[0] && strcmp(call->encoding, "identity") != 0) {
        (void)snprintf(why, sizeof why, "grpc-encoding %s is not supported: use identity",
                       call->encoding);
        finish(call, GRPC_UNIMPLEMENTED, why, &status_ok, false);
        return false;
    }
    if (call->timeout[0] &&
        grpc_timeout_parse(call->timeout, strlen(call->timeout), &call->timeout_ms) < 0) {
        (void)snprintf(why, sizeof why, "grpc-timeout %s is not a timeout", call->timeout);
        finish(call, GRPC_INVALID_ARGUMENT, why, &status_ok, false);
        return false;
    }
    return true;
}

static bool start_deadline(struct grpc_call *call)
{
    int64_t now = loop_now_ms(call->server->context.loop);

    if (!call->timer &&
        loop_timer_new(call->server->context.loop, deadline_passed, call, &call->timer) < 0) {
        finish(call, GRPC_RESOURCE_EXHAUSTED, "out of memory", &status_ok, false);
        return false;
    }
    call->deadline_ms = now + call->timeout_ms;
    if (call->timeout_ms == 0) {
        deadline_passed(call);
        return false;
    }
    loop_timer_start(call->timer, call->timeout_ms, 0);
    return true;
}

static void headers(struct h2_stream *stream, unsigned flags)
{
    struct grpc_call *call = call_of(stream);
    char why[WHY_BYTES];

    if (call->headers_told)
        return;
    call->headers_told = true;
    if (!acceptable(call, flags) || (call->timeout_ms >= 0 && !start_deadline(call)))
        return;
    call->server->accept(call, call->path, call->server->arg);
    if (call->events || call->finished)
        return;
    (void)snprintf(why, sizeof why, "unknown method %s", call->path);
    finish(call, GRPC_UNIMPLEMENTED, why, &status_ok, false);
}

static struct h2_stream *open_call(struct h2_conn *h2, void *arg)
{
    struct grpc_call *call = call_new(arg);

    (void)h2;
    return call ? &call->stream.h2 : NULL;
}

/* ---- what a stream tells ---- */

static void data(struct h2_stream *stream, const uint8_t *bytes, size_t len)
{
    grpc_stream_data(&call_of(stream)->stream, bytes, len);
}

static void half_closed(struct h2_stream *stream)
{
    grpc_stream_half_closed(&call_of(stream)->stream);
}

static void writable(struct h2_stream *stream)
{
    struct grpc_call *call = call_of(stream);

    if (call->events && call->events->writable && !call->finished)
        call->events->writable(call, call->arg);
}

static void closed(struct h2_stream *stream, uint32_t error)
{
    struct grpc_call *call = call_of(stream);

    (void)error;
    call->closed = true;
    if (call->end_told) {
        call_recycle(call);
        return;
    }
    call->finished = true;
    grpc_stream_deafen(&call->stream);
    grpc_stream_over(&call->stream);
}

static void message(struct grpc_stream *stream, const uint8_t *bytes, size_t len)
{
    struct grpc_call *call = call_of(&stream->h2);

    if (call->events->unary && stream->n_messages > 1)
        finish(call, GRPC_UNIMPLEMENTED, "more than one request message; the method takes one",
               &status_ok, false);
    else if (call->events->message)
        call->events->message(call, bytes, len, call->arg);
}

static void all_said(struct grpc_stream *stream)
{
    struct grpc_call *call = call_of(&stream->h2);

    if (call->events->unary && stream->n_messages == 0)
        finish(call, GRPC_UNIMPLEMENTED, "no request message; the method takes one", &status_ok,
               false);
    else if (call->events->half_closed)
        call->events->half_closed(call, call->arg);
}

static void refused(struct grpc_stream *stream, enum grpc_status status, const char *why)
{
    finish(call_of(&stream->h2), status, why, &status_ok, true);
}

static void over(struct grpc_stream *stream)
{
    struct grpc_call *call = call_of(&stream->h2);

    call->end_told = true;
    if (call->timer)
        loop_timer_stop(call->timer);
    if (call->events)
        call->events->end(call, call->arg);
    grpc_budget_give(&call->connection->account->held, call->kept_bytes);
    call->kept_bytes = 0;
    if (call->closed)
        call_recycle(call);
}

static const struct grpc_stream_ops stream_ops = {
    .message = message,
    .half_closed = all_said,
    .refuse = refused,
    .over = over,
};

/* ---- connections ---- */

/* How much a connection may queue, now that there are so many. */
static void share_budget(struct grpc_server *server)
{
    size_t share = SEND_BUDGET_BYTES / (server->accounts.n_connections + 1);

    if (share < SEND_LEAST_BYTES)
        share = SEND_LEAST_BYTES;
    if (share > server->send_queue_bytes)
        share = server->send_queue_bytes;
    server->context.h2_limits.send_queue_bytes = share;
}

static void lost(struct h2_conn *h2, int r, const char *why, void *arg)
{
    struct connection *connection = arg;
    struct grpc_server *server = connection->server;

    (void)h2;
    (void)r;
    (void)why;
    LIST_REMOVE(connection, link);
    grpc_account_lost(&server->accounts, connection->account);
    share_budget(server);
    connection->h2 = NULL;
    connection_release(connection);
    grpc_context_poke(&server->context);
}

static const struct h2_handler handler = {
    .open = open_call,
    .header = header,
    .headers = headers,
    .data = data,
    .half_closed = half_closed,
    .writable = writable,
    .trailers = trailers,
    .closed = closed,
    .lost = lost,
};

/* The newest comes first. */
static struct connection *oldest_of(const struct grpc_server *server,
                                    const struct grpc_account *account)
{
    struct connection *connection, *oldest = NULL;

    LIST_FOREACH(connection, &server->connections, link)
    if (connection->account == account && !connection->going)
        oldest = connection;
    return oldest;
}

/* Whether this peer may have one more connection. */
static bool make_room(struct grpc_server *server, const struct grpc_account *account)
{
    struct connection *oldest;

    if (grpc_account_has_room(&server->accounts, account))
        return true;
    oldest = server->context.limits.oldest_goes ? oldest_of(server, account) : NULL;
    if (!oldest)
        return false;
    oldest->going = true;
    h2_conn_abort(oldest->h2, 0, H2_ENHANCE_YOUR_CALM, "too many connections");
    return true;
}

/* Too many connections: SETTINGS (empty), GOAWAY with ENHANCE_YOUR_CALM and why, so that the peer can tell. */
static void turn_away(struct transport *transport)
{
    static const uint8_t frames[] = "\0\0\0\x04\0\0\0\0\0"
                                    "\0\0\x1c\x07\0\0\0\0\0"
                                    "\0\0\0\0"
                                    "\0\0\0\x0b"
                                    "too many connections";

    (void)transport_write(transport, frames, sizeof frames - 1);
    transport_free(transport);
}

static int know_peer(struct connection *connection, const struct transport_peer *peer)
{
    static uint64_t last_number;

    connection->peer = (struct grpc_peer){.local = peer->local,
                                          .uid = peer->uid,
                                          .gid = peer->gid,
                                          .pid = peer->pid,
                                          .connection = ++last_number};
    if (!peer->tls)
        return 0;
    connection->peer.tls = &connection->tls;
    return cert_identity_copy(peer->tls, &connection->tls);
}

void grpc_server_adopt(struct grpc_server *server, struct transport *transport)
{
    struct grpc_account *account = grpc_account_ref(&server->accounts, &transport->peer);
    struct connection *connection;

    if (account && (server->closing || !make_room(server, account))) {
        turn_away(transport);
        grpc_account_unref(account);
        return;
    }
    connection = account ? calloc(1, sizeof *connection) : NULL;
    if (!connection || know_peer(connection, &transport->peer) < 0) {
        transport_free(transport);
        grpc_account_unref(account);
        free(connection);
        return;
    }
    connection->server = server;
    connection->account = account;
    if (h2_conn_new(server->context.loop, transport, true, &server->context.h2_limits, &handler,
                    connection, &connection->h2) < 0) {
        connection_release(connection);
        return;
    }
    LIST_INSERT_HEAD(&server->connections, connection, link);
    grpc_account_connected(&server->accounts, account);
    share_budget(server);
}

static void connected(int fd, void *arg)
{
    struct grpc_server *server = arg;
    struct transport *transport;

    if (transport_unix_new(server->context.loop, fd, NULL, NULL, &transport) == 0)
        grpc_server_adopt(server, transport);
}

/* ---- the server ---- */

/* Last step of grpc_server_close; called after each round of the calls' work. */
static void check_closed(void *arg)
{
    struct grpc_server *server = arg;
    void (*done)(void *arg) = server->done;
    void *done_arg = server->done_arg;

    if (!server->closing || server->accounts.n_connections > 0 || !LIST_EMPTY(&server->calls))
        return;
    while (server->pool) {
        struct grpc_call *call = server->pool;

        server->pool = call->next_free;
        call_free(call);
    }
    loop_timer_free(server->grace);
    grpc_context_done(&server->context);
    free(server);
    if (done)
        done(done_arg);
}

static void grace_over(void *arg)
{
    struct grpc_server *server = arg;
    struct connection *connection;
    struct grpc_call *call;

    LIST_FOREACH(call, &server->calls, link)
    finish(call, GRPC_UNAVAILABLE, "the server is closing", &status_ok, true);
    LIST_FOREACH(connection, &server->connections, link)
    h2_conn_abort(connection->h2, 0, H2_NO_ERROR, "the server is closing");
}

int grpc_server_new(struct loop *loop, const struct grpc_limits *limits, grpc_accept_fn accept,
                    void *arg, struct grpc_server **ret)
{
    struct grpc_server *server = calloc(1, sizeof *server);
    int r;

    if (!server)
        return -ENOMEM;
    SLIST_INIT(&server->listeners);
    LIST_INIT(&server->connections);
    LIST_INIT(&server->calls);
    server->accept = accept;
    server->arg = arg;
    r = grpc_context_init(&server->context, loop, limits, &stream_ops, check_closed, server);
    if (r == 0) {
        server->send_queue_bytes = server->context.h2_limits.send_queue_bytes;
        grpc_accounts_init(&server->accounts, server->context.limits.connections,
                           &server->context.held);
        r = loop_timer_new(loop, grace_over, server, &server->grace);
        if (r == 0) {
            *ret = server;
            return 0;
        }
        grpc_context_done(&server->context);
    }
    free(server);
    return r;
}

int grpc_server_listen_unix(struct grpc_server *server, const char *path, mode_t mode)
{
    struct listening *listening = calloc(1, sizeof *listening);
    int r;

    if (!listening)
        return -ENOMEM;
    r = listener_unix_new(server->context.loop, path, mode, connected, server,
                          &listening->listener);
    if (r < 0) {
        free(listening);
        return r;
    }
    SLIST_INSERT_HEAD(&server->listeners, listening, link);
    return 0;
}

static bool is_unix_listener(int fd)
{
    int domain, listens;
    socklen_t len = sizeof domain;

    return getsockopt(fd, SOL_SOCKET, SO_DOMAIN, &domain, &len) == 0 && domain == AF_UNIX &&
           getsockopt(fd, SOL_SOCKET, SO_ACCEPTCONN, &listens, &len) == 0 && listens;
}

int grpc_server_listen_fd(struct grpc_server *server, int fd)
{
    struct listening *listening = is_unix_listener(fd) ? calloc(1, sizeof *listening) : NULL;
    int r;

    if (!listening) {
        r = is_unix_listener(fd) ? -ENOMEM : -EINVAL;
        (void)close(fd);
        return r;
    }
    r = listener_fd_new(server->context.loop, fd, connected, server, &listening->listener);
    if (r < 0) {
        free(listening);
        return r;
    }
    SLIST_INSERT_HEAD(&server->listeners, listening, link);
    return 0;
}

void grpc_server_close(struct grpc_server *server, int64_t grace_ms, void (*done)(void *arg),
                       void *arg)
{
    struct connection *connection;

    assert(!server->closing);
    server->closing = true;
    server->done = done;
    server->done_arg = arg;
    while (!SLIST_EMPTY(&server->listeners)) {
        struct listening *listening = SLIST_FIRST(&server->listeners);

        SLIST_REMOVE_HEAD(&server->listeners, link);
        listener_free(listening->listener);
        free(listening);
    }
    LIST_FOREACH(connection, &server->connections, link)
    h2_conn_shutdown(connection->h2);
    loop_timer_start(server->grace, grace_ms, 0);
    grpc_context_poke(&server->context);
}

/* ---- what a call knows ---- */

void grpc_call_bind(struct grpc_call *call, const struct grpc_call_events *events, void *arg)
{
    assert(!call->events && !call->finished);
    call->events = events;
    call->arg = arg;
}

const struct grpc_peer *grpc_call_peer(const struct grpc_call *call)
{
    return &call->connection->peer;
}

int64_t grpc_call_deadline_ms(const struct grpc_call *call)
{
    return call->deadline_ms;
}

const char *grpc_call_metadata(const struct grpc_call *call, const char *key)
{
    for (size_t at = 0; at < call->meta_len;) {
        const char *name = call->meta + at;
        const char *value = name + strlen(name) + 1;

        if (strcmp(name, key) == 0)
            return value;
        at = (size_t)(value - call->meta) + strlen(value) + 1;
    }
    return NULL;
}

void grpc_call_pause(struct grpc_call *call)
{
    grpc_stream_pause(&call->stream);
}

void grpc_call_resume(struct grpc_call *call)
{
    grpc_stream_resume(&call->stream);
}
