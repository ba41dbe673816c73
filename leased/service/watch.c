/* LeaseService.Watch: changes of leases in revision order, resumed by revision.
 *
 * A full list says of everything else that it is gone, and so does a skip. A replica that is behind, or cut off, can say
 * neither: so none follows before it is known to have caught up with what was acknowledged when it was asked. */
#include <errno.h>
#include <stdlib.h>

#include "leased/service/internal.h"
#include "leased/service/wire.h"
#include "leased/watch/hub.h"
#include "xce/v1/lease.pb-c.h"

#define EVENT_MAX (4u << 20)

struct watcher {
    struct service *service;
    struct service_stream *stream;         /* NULL: it has ended, the barrier has not */
    struct hub_subscription *subscription; /* NULL: not yet */
    uint64_t since;
    bool asked; /* the request has come */
    bool waits; /* for the barrier */
    bool full;  /* the stream takes no more for now */
    bool over;
    struct watcher *next, **place; /* in service->watchers */
};

static void finish(struct watcher *watcher, int r, const char *message)
{
    if (watcher->over)
        return;
    watcher->over = true;
    watcher->stream->ops->finish(watcher->stream, r, message);
}

/* WatchEvent around the packed lease. */
static int send_event(struct watcher *watcher, const struct hub_event *event)
{
    AUTO(buf_done) struct buf buf = BUF_INIT(EVENT_MAX);

    wire_varint(&buf, 1, event->revision);
    switch (event->kind) {
    case HUB_LEASE:
        wire_bytes(&buf, 2, event->lease, event->lease_len);
        break;
    case HUB_SKIPPED:
        wire_varint(&buf, 3, event->revision);
        break;
    case HUB_LISTED:
        wire_bytes(&buf, 4, event->lease, event->lease_len);
        break;
    case HUB_SYNCED:
        wire_varint(&buf, 5, 1);
        break;
    default:
        return 0;
    }
    if (buf_error(&buf) < 0)
        return buf_error(&buf);
    return watcher->stream->ops->send(watcher->stream, (const uint8_t *)buf_str(&buf), buf.len);
}

static void pump(void *arg)
{
    struct watcher *watcher = arg;
    struct hub_event event;

    while (!watcher->full && !watcher->over && hub_next(watcher->subscription, &event)) {
        int r = send_event(watcher, &event);

        if (r < 0)
            finish(watcher, r, NULL);
        watcher->full = r > 0;
    }
}

void watch_stop(struct service *service)
{
    for (struct watcher *watcher = service->watchers; watcher; watcher = watcher->next)
        finish(watcher, -ECANCELED, NULL);
}

static void opened(struct service *service, struct service_stream *stream)
{
    struct watcher *watcher = calloc(1, sizeof *watcher);

    stream->handler = watcher;
    if (!watcher) {
        stream->ops->finish(stream, -ENOMEM, NULL);
        return;
    }
    watcher->service = service;
    watcher->stream = stream;
    watcher->next = service->watchers;
    watcher->place = &service->watchers;
    if (watcher->next)
        watcher->next->place = &watcher->next;
    service->watchers = watcher;
}

/* What was told before the rules changed was told by other rules: that is no ground to go on from. */
static uint64_t since(const struct watcher *watcher)
{
    if (!watcher->since)
        return HUB_SINCE_LIST;
    return watcher->since < fsm_rules_revision(service_fsm(watcher->service)) ? HUB_SINCE_SKIP
                                                                              : watcher->since;
}

static bool sees(const char *owner_name, uint32_t owner_uid, void *arg)
{
    const struct service_stream *stream = arg;

    return policy_sees(&stream->principal, stream->scope, owner_name, owner_uid);
}

static void follow(struct watcher *watcher)
{
    const struct hub_filter filter = {
        .sees = watcher->stream->scope == SCOPE_ALL ? NULL : sees,
        .sees_arg = watcher->stream,
        .leases_only = true,
    };
    int r = hub_subscribe(watcher->service->deps.hub, since(watcher), &filter, pump, watcher,
                          &watcher->subscription);

    if (r < 0)
        finish(watcher, r, NULL);
    else
        pump(watcher);
}

static void confirmed(int r, void *arg)
{
    struct watcher *watcher = arg;

    watcher->waits = false;
    if (!watcher->stream)
        free(watcher);
    else if (r < 0)
        finish(watcher, r, NULL);
    else if (!watcher->over)
        follow(watcher);
}

static void asked(struct service_stream *stream, const ProtobufCMessage *message)
{
    struct watcher *watcher = stream->handler;

    if (!watcher || watcher->over)
        return;
    if (watcher->asked) {
        finish(watcher, -EINVAL, "a watch takes one request");
        return;
    }
    watcher->asked = watcher->waits = true;
    watcher->since = ((const Xce__V1__WatchRequest *)message)->since;
    engine_read_barrier(watcher->service->deps.engine, confirmed, watcher);
}

static void half_closed(struct service_stream *stream)
{
    struct watcher *watcher = stream->handler;

    if (watcher && !watcher->asked)
        finish(watcher, -EINVAL, "a watch needs a request");
}

static void writable(struct service_stream *stream)
{
    struct watcher *watcher = stream->handler;

    if (!watcher || !watcher->subscription)
        return;
    watcher->full = false;
    pump(watcher);
}

static void ended(struct service_stream *stream)
{
    struct watcher *watcher = stream->handler;

    if (!watcher)
        return;
    *watcher->place = watcher->next;
    if (watcher->next)
        watcher->next->place = watcher->place;
    if (watcher->subscription)
        hub_unsubscribe(watcher->subscription);
    watcher->stream = NULL;
    if (!watcher->waits)
        free(watcher);
}

const struct service_stream_handler service_lease_watch = {
    .request = &xce__v1__watch_request__descriptor,
    .open = opened,
    .message = asked,
    .half_closed = half_closed,
    .writable = writable,
    .ended = ended,
};
