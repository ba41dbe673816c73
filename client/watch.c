/* The stream of changes, pulled event by event and resumed by revision.
 *
 * Two places in the stream: `reached` is where the network side is (the last event queued), `given` where the caller is.
 * A new connection goes on from `reached`. Both are 0 while a list is not complete: then only a whole list is sure. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "client/client.h"
#include "client/result.h"

enum {
    QUEUE_MOST = 256, /* events that wait in memory: reading stops here */
    QUEUE_LEAST = 64, /* and goes on here */
    BACKOFF_FIRST_MS = 20,
    BACKOFF_MOST_MS = 1000,
    /* What the stream may still bring after reading was stopped: messages in the window, decoded already. */
    QUEUE_HARD = 64 * 1024,
};

struct queued {
    TAILQ_ENTRY(queued) link;
    struct xce_event *event; /* a result */
};

/* One stream of the server; outlives the watch when that has let go of it. */
struct stream {
    struct xce_watch *watch; /* NULL = cut */
    struct grpc_request *request;
    size_t server; /* which one it is */
};

struct xce_watch {
    LIST_ENTRY(xce_watch) link;
    struct xce_client *client; /* NULL: it was freed first */
    struct stream *stream;
    struct loop_timer *pause;
    int64_t backoff_ms;
    int64_t out_of_reach_ms; /* since when no server could be reached; 0 = one can */
    TAILQ_HEAD(, queued) queue;
    size_t n_queued;
    bool stopped; /* reading is */
    bool listing; /* a list has begun and is not complete */
    bool begun;   /* something was asked for */
    uint64_t reached, given;
    int code; /* not XCE_OK: over */
    char said[XCE_MESSAGE_MAX];
};

static void connect_stream(struct xce_watch *watch);

/* ---- the queue ---- */

static void over(struct xce_watch *watch, int code, const char *message)
{
    if (watch->code != XCE_OK)
        return;
    client_awake(watch->client);
    watch->code = code;
    snprintf(watch->said, sizeof watch->said, "%s", message);
}

static void push(struct xce_watch *watch, struct xce_event *event)
{
    struct queued *queued = malloc(sizeof *queued);

    if (!queued) {
        xce_free(event);
        over(watch, XCE_FAILED, "out of memory");
        return;
    }
    queued->event = event;
    TAILQ_INSERT_TAIL(&watch->queue, queued, link);
    watch->n_queued++;
    client_awake(watch->client);
}

static struct xce_event *pop(struct xce_watch *watch)
{
    struct queued *queued = TAILQ_FIRST(&watch->queue);
    struct xce_event *event = queued->event;

    TAILQ_REMOVE(&watch->queue, queued, link);
    watch->n_queued--;
    free(queued);
    return event;
}

/* Tell the reader that what he holds is not enough any more. */
static void push_skipped(struct xce_watch *watch, uint64_t revision)
{
    struct xce_event *event = result_new(sizeof *event);

    if (!event) {
        over(watch, XCE_FAILED, "out of memory");
        return;
    }
    event->kind = XCE_EVENT_SKIPPED;
    event->revision = revision;
    push(watch, event);
}

/* ---- what the server says ---- */

/* The public form. 0; -EBADMSG, err says what is wrong with it; -ENOMEM. */
static int decode(const uint8_t *data, size_t len, struct xce_event *ret, struct err *err)
{
    struct pb_arena *arena = result_arena(ret);
    const Xce__V1__WatchEvent *message;
    const Xce__V1__Lease *lease;
    struct xce_lease *copy;
    ProtobufCMessage *base;
    int r = pb_unpack(arena, &xce__v1__watch_event__descriptor, data, len, &base, err);

    if (r < 0)
        return r;
    message = (Xce__V1__WatchEvent *)base;
    ret->revision = message->revision;
    switch (message->event_case) {
    case XCE__V1__WATCH_EVENT__EVENT_SKIPPED_TO:
        ret->kind = XCE_EVENT_SKIPPED;
        ret->revision = message->skipped_to;
        return 0;
    case XCE__V1__WATCH_EVENT__EVENT_SYNCED:
        ret->kind = XCE_EVENT_SYNCED;
        return 0;
    case XCE__V1__WATCH_EVENT__EVENT_LEASE:
        ret->kind = XCE_EVENT_LEASE;
        lease = message->lease;
        break;
    case XCE__V1__WATCH_EVENT__EVENT_LISTED:
        ret->kind = XCE_EVENT_LISTED;
        lease = message->listed;
        break;
    default:
        /* Of a newer server. */
        ret->kind = 0;
        return 0;
    }
    copy = pb_arena_alloc(arena, sizeof *copy);
    if (!copy || result_lease(arena, lease, copy) < 0)
        return -ENOMEM;
    ret->lease = copy;
    return 0;
}

static void advance(struct xce_watch *watch, const struct xce_event *event)
{
    switch (event->kind) {
    case XCE_EVENT_LEASE:
        if (!watch->listing)
            watch->reached = event->revision;
        break;
    case XCE_EVENT_SKIPPED:
    case XCE_EVENT_LISTED:
        watch->listing = true;
        watch->reached = 0;
        break;
    case XCE_EVENT_SYNCED:
        watch->listing = false;
        watch->reached = event->revision;
        break;
    }
}

static void on_message(struct grpc_request *request, const uint8_t *data, size_t len, void *arg)
{
    struct stream *stream = arg;
    struct xce_watch *watch = stream->watch;
    struct xce_event *event;
    struct err err = {0};
    int r;

    if (!watch || watch->code != XCE_OK)
        return;
    watch->out_of_reach_ms = 0;
    watch->backoff_ms = BACKOFF_FIRST_MS;
    event = result_new(sizeof *event);
    r = event ? decode(data, len, event, &err) : -ENOMEM;
    if (r < 0 || watch->n_queued >= QUEUE_HARD) {
        xce_free(event);
        over(watch, XCE_FAILED, r == -EBADMSG ? err.text : err_text(r < 0 ? r : -ENOBUFS));
        return;
    }
    if (!event->kind) {
        xce_free(event);
        return;
    }
    advance(watch, event);
    push(watch, event);
    if (watch->n_queued >= QUEUE_MOST && !watch->stopped) {
        watch->stopped = true;
        grpc_request_pause(request);
    }
}

static bool lasting(enum grpc_status status)
{
    switch (status) {
    case GRPC_INVALID_ARGUMENT:
    case GRPC_NOT_FOUND:
    case GRPC_PERMISSION_DENIED:
    case GRPC_UNAUTHENTICATED:
    case GRPC_UNIMPLEMENTED:
    case GRPC_OUT_OF_RANGE:
    case GRPC_FAILED_PRECONDITION:
        return true;
    default:
        return false;
    }
}

static void retry(struct xce_watch *watch, size_t server, const char *message, enum client_left why)
{
    struct xce_client *client = watch->client;

    client_name_server(client, server, message && message[0] ? message : "the stream has ended",
                       watch->said);
    if (!watch->out_of_reach_ms)
        watch->out_of_reach_ms = loop_now_ms(client->loop);
    if (watch->listing) {
        watch->listing = false;
        push_skipped(watch, 0);
    }
    client_leave_server(client, server, why);
    loop_timer_start(watch->pause, client_jitter(client, watch->backoff_ms), 0);
    watch->backoff_ms *= 2;
    if (watch->backoff_ms > BACKOFF_MOST_MS)
        watch->backoff_ms = BACKOFF_MOST_MS;
}

static void on_end(struct grpc_request *request, enum grpc_status status, const char *message,
                   bool sent, void *arg)
{
    struct stream *stream = arg;
    struct xce_watch *watch = stream->watch;
    size_t server = stream->server;

    free(stream);
    if (!watch)
        return;
    watch->stream = NULL;
    watch->stopped = false;
    if (lasting(status))
        over(watch, (int)client_code(status),
             message && message[0] ? message : grpc_status_name(status));
    else if (watch->code == XCE_OK)
        retry(watch, server, message, client_left(status, sent, grpc_request_answered(request)));
}

/* ---- connecting ---- */

static int ask(struct xce_watch *watch, struct stream *stream)
{
    static const struct grpc_request_events events = {.message = on_message, .end = on_end};
    Xce__V1__WatchRequest request = XCE__V1__WATCH_REQUEST__INIT;
    struct grpc_channel *channel;
    uint8_t bytes[16];
    int r = client_channel(watch->client, &channel);

    if (r < 0)
        return r;
    r = grpc_request_start(channel, "/xce.v1.LeaseService/Watch", 0, NULL, &events, stream,
                           &stream->request);
    if (r < 0)
        return r;
    watch->stream = stream;
    stream->watch = watch;
    stream->server = watch->client->current;
    request.since = watch->reached;
    r = grpc_request_send(stream->request, bytes, xce__v1__watch_request__pack(&request, bytes));
    if (r >= 0)
        grpc_request_half_close(stream->request);
    else if (r != -EPIPE)
        grpc_request_cancel(stream->request);
    return 0;
}

static void connect_stream(struct xce_watch *watch)
{
    struct stream *stream = calloc(1, sizeof *stream);
    int r = stream ? ask(watch, stream) : -ENOMEM;

    if (r < 0) {
        free(stream);
        over(watch, XCE_FAILED, err_text(r));
    }
}

static void pause_over(void *arg)
{
    connect_stream(arg);
}

static void cut(struct xce_watch *watch)
{
    if (!watch->stream)
        return;
    watch->stream->watch = NULL;
    grpc_request_cancel(watch->stream->request);
    watch->stream = NULL;
}

/* ---- for the caller ---- */

int xce_watch_new(struct xce_client *client, uint64_t since, struct xce_watch **ret)
{
    struct xce_watch *watch = calloc(1, sizeof *watch);

    client->message[0] = 0;
    if (!watch || loop_timer_new(client->loop, pause_over, watch, &watch->pause) < 0) {
        free(watch);
        return client_fail(client, XCE_FAILED, "out of memory");
    }
    watch->client = client;
    watch->reached = watch->given = since;
    watch->backoff_ms = BACKOFF_FIRST_MS;
    TAILQ_INIT(&watch->queue);
    LIST_INSERT_HEAD(&client->watches, watch, link);
    *ret = watch;
    return XCE_OK;
}

static void give(struct xce_watch *watch, struct xce_event **ret)
{
    struct xce_event *event = pop(watch);

    if (event->kind == XCE_EVENT_LEASE || event->kind == XCE_EVENT_SYNCED)
        watch->given = event->revision;
    else
        watch->given = 0;
    if (watch->stopped && watch->n_queued <= QUEUE_LEAST && watch->stream) {
        watch->stopped = false;
        grpc_request_resume(watch->stream->request);
    }
    *ret = event;
}

/* Whether the reader is to be told that no server can be reached. Patience begins anew with the next call. */
static bool out_of_patience(struct xce_watch *watch)
{
    if (!watch->out_of_reach_ms ||
        loop_now_fresh_ms() - watch->out_of_reach_ms < watch->client->patience_ms)
        return false;
    watch->out_of_reach_ms = 0;
    return true;
}

int xce_watch_next(struct xce_watch *watch, int64_t timeout_ms, struct xce_event **ret)
{
    struct xce_client *client = watch->client;
    int64_t deadline = loop_now_fresh_ms() + timeout_ms;
    bool stepped = false;

    if (!client)
        return XCE_FAILED;
    client->message[0] = 0;
    if (!watch->begun) {
        watch->begun = true;
        loop_timer_start(watch->pause, 0, 0);
    }
    for (;;) {
        int64_t left = deadline - loop_now_fresh_ms();
        /* Patience is looked after here. */
        int most = watch->out_of_reach_ms ? 100 : 60 * 1000;

        if (watch->n_queued) {
            give(watch, ret);
            return XCE_OK;
        }
        if (watch->code != XCE_OK)
            return client_fail(client, watch->code, "%s", watch->said);
        if (out_of_patience(watch))
            return client_fail(client, XCE_UNREACHABLE, "%s", watch->said);
        if (client->calling_back || (stepped && left <= 0))
            return client_fail(client, XCE_TIMEOUT, "no event in %lld ms", (long long)timeout_ms);
        if (!client_step(client, left > most ? most : left > 0 ? (int)left : 0))
            return XCE_CANCELLED;
        stepped = true;
    }
}

uint64_t xce_watch_revision(const struct xce_watch *watch)
{
    return watch->given;
}

void watch_orphan(struct xce_watch *watch)
{
    cut(watch);
    loop_timer_free(watch->pause);
    LIST_REMOVE(watch, link);
    watch->pause = NULL;
    watch->client = NULL;
}

void xce_watch_free(struct xce_watch *watch)
{
    if (!watch)
        return;
    if (watch->client)
        watch_orphan(watch);
    while (watch->n_queued)
        xce_free(pop(watch));
    free(watch);
}
