#include "leased/engine/raft_link.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/err.h"
#include "common/mem.h"
#include "leased/engine/raft_link_inner.h"

#define HELLO_MS    2000 /* for the stream to open and both to say hello */
#define STRANGER_MS 1000 /* before the library hears that it did not reach who is no member */

/* ---- the end of a link ---- */

/* The library calls whoever it has once called again and again, also who was removed or wiped since. */
static bool calls_stranger(const struct link *link)
{
    const struct raft_links_events *events = &link->links->options.events;

    return link->connect && !link->links->closing && !events->is_member(link->id, events->arg);
}

void raft_link_end(struct link *link, const char *why)
{
    if (link->ended)
        return;
    link->ended = true;
    (void)snprintf(link->why, sizeof link->why, "%s", why);
    transport_free(mem_take(link->net));
    transport_free(mem_take(link->pair));
    link->held = calls_stranger(link);
    if (link->held) {
        loop_timer_start(link->patience, STRANGER_MS, 0);
    } else {
        loop_timer_stop(link->patience);
        loop_soon_start(link->links->soon);
    }
}

static void complain(const struct link *link, const char *why)
{
    unsigned held;

    if (link->links->closing || link->outdated || calls_stranger(link))
        return;
    if (log_limit_ok(&link->links->refusals, &held))
        log_warning(NULL, "replica %s: %s", link->name[0] ? link->name : "(unnamed)", why);
}

void raft_link_fail(struct link *link, const char *why)
{
    if (!link->ended && !link->refused)
        complain(link, why);
    raft_link_end(link, why);
}

void raft_link_refuse(struct link *link, const char *why)
{
    uint8_t frame[FRAME_HEADER_LEN + FRAME_SHORT_MAX];
    size_t len = strnlen(why, FRAME_SHORT_MAX);

    if (link->ended || link->refused)
        return;
    if (link->kind != LINK_IN || link->blocked) {
        raft_link_fail(link, why);
        return;
    }
    raft_link_begin_frame(frame, FRAME_REFUSED, len);
    memcpy(frame + FRAME_HEADER_LEN, why, len);
    raft_link_write(link, frame, FRAME_HEADER_LEN + len);
    if (link->ended)
        return;
    complain(link, why);
    transport_shutdown(link->net);
    link->refused = true;
    loop_timer_start(link->patience, HELLO_MS, 0);
}

static void link_free(struct link *link)
{
    LIST_REMOVE(link, all);
    if (link->connect)
        link->connected(link->connect, NULL,
                        link->links->closing ? RAFT_CANCELED : RAFT_NOCONNECTION);
    if (link->asked)
        link->asked(link->links->closing ? -ECANCELED : -EHOSTUNREACH, 0, link->why,
                    link->asked_arg);
    if (link->kind == LINK_OUT && link->greeted && !link->links->closing)
        link->links->options.events.ended(link->number, link->links->options.events.arg);
    loop_timer_free(link->patience);
    buf_done(&link->pending);
    free(link->frame);
    free(link);
}

static void sweep(void *arg)
{
    struct raft_links *links = arg;
    struct link *link, *next;

    for (link = LIST_FIRST(&links->all); link; link = next) {
        next = LIST_NEXT(link, all);
        if (link->ended && (!link->held || links->closing))
            link_free(link);
    }
    if (links->closing && LIST_EMPTY(&links->all) && links->closed) {
        raft_uv_transport_close_cb closed = links->closed;

        links->closed = NULL;
        closed(&links->transport);
    }
}

/* ---- its stream ---- */

static void net_open(void *arg)
{
    struct link *link = arg;

    if (link->kind != LINK_IN)
        raft_link_send_hello(link);
}

static void net_data(const uint8_t *data, size_t len, void *arg)
{
    raft_link_read(arg, data, len);
}

static void net_writable(void *arg)
{
    struct link *link = arg;

    link->blocked = false;
    raft_link_send_confirmations(link);
    raft_link_send_pending(link);
    if (!link->ended && !link->blocked && link->pair)
        transport_read(link->pair, true);
}

static void net_closed(int r, void *arg)
{
    raft_link_end(arg, r == 0 ? "it closed the stream" : err_text(r));
}

static const struct transport_events net_events = {net_open, net_data, net_writable, net_closed};

/* ---- links ---- */

static void out_of_patience(void *arg)
{
    struct link *link = arg;

    if (!link->ended) {
        raft_link_fail(link, "it does not answer");
        return;
    }
    link->held = false;
    loop_soon_start(link->links->soon);
}

struct link *raft_link_new(struct raft_links *links, enum link_kind kind)
{
    struct link *link = calloc(1, sizeof *link);

    if (!link)
        return NULL;
    link->links = links;
    link->kind = kind;
    link->number = ++links->last_number;
    buf_init(&link->pending, FRAME_PENDING_MAX + FRAME_HEADER_LEN);
    if (loop_timer_new(links->options.loop, out_of_patience, link, &link->patience) < 0) {
        free(link);
        return NULL;
    }
    loop_timer_start(link->patience, HELLO_MS, 0);
    LIST_INSERT_HEAD(&links->all, link, all);
    return link;
}

void raft_link_connect(struct link *link)
{
    const struct replica_links *replicas = &link->links->options.replicas;
    int r = replicas->connect(link->name, link->address, &net_events, link, &link->net,
                              replicas->arg);

    if (r < 0) {
        link->net = NULL;
        raft_link_end(link, err_text(r));
    }
}

void raft_links_accept(struct raft_links *links, struct transport *transport)
{
    struct link *link = links->closing ? NULL : raft_link_new(links, LINK_IN);

    if (!link) {
        transport_free(transport);
        return;
    }
    link->net = transport;
    transport->events = &net_events;
    transport->arg = link;
}

void raft_links_ask(struct raft_links *links, const char *name, const char *address,
                    raft_links_asked_fn done, void *arg)
{
    struct link *link = raft_link_new(links, LINK_ASK);

    if (!link) {
        log_error(NULL, "no memory for a stream");
        abort();
    }
    (void)snprintf(link->name, sizeof link->name, "%s", name);
    (void)snprintf(link->address, sizeof link->address, "%s", address);
    link->asked = done;
    link->asked_arg = arg;
    raft_link_connect(link);
}

void raft_link_ready_ask(struct link *link)
{
    raft_links_asked_fn asked = link->asked;

    link->asked = NULL;
    asked(0, link->id, "", link->asked_arg);
    raft_link_end(link, "");
}

/* ---- all of them ---- */

void raft_links_set_cluster(struct raft_links *links, const uint8_t *cluster)
{
    memcpy(links->options.cluster, cluster, REPLICA_CLUSTER_LEN);
}

int raft_links_new(const struct raft_links_options *options, struct raft_links **ret)
{
    struct raft_links *links = calloc(1, sizeof *links);

    if (!links)
        return -ENOMEM;
    links->options = *options;
    links->refusals = (struct log_limit){.interval_ms = 10000, .burst = 6};
    raft_link_init_transport(links);
    LIST_INIT(&links->all);
    if (loop_soon_new(options->loop, sweep, links, &links->soon) < 0) {
        free(links);
        return -ENOMEM;
    }
    *ret = links;
    return 0;
}

void raft_links_free(struct raft_links *links)
{
    struct link *link;

    if (!links)
        return;
    links->closing = true;
    while ((link = LIST_FIRST(&links->all))) {
        raft_link_end(link, "leased stops");
        link_free(link);
    }
    loop_soon_free(links->soon);
    free(links->in);
    free(links);
}

struct raft_uv_transport *raft_links_transport(struct raft_links *links)
{
    return &links->transport;
}
