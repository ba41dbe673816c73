#include "common/net/tls_port.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/queue.h>
#include <sys/socket.h>
#include <unistd.h>

#include "common/net/listener.h"
#include "common/net/loop.h"
#include "common/net/tcp.h"
#include "common/net/transport_tls.h"

enum {
    SWEEP_MS = 500,
    /* How long one that was turned away has to read why. */
    LINGER_MS = 1000,
    LISTENERS_MAX = 4 * TCP_LISTEN_MAX,
    /* When there is no more room, an address with so many makes room for itself, one with less for nobody in particular. */
    HANDSHAKES_OF_ONE = TLS_PORT_HANDSHAKES / 4,
};

/* A connection whose handshake is under way, or that was turned away and reads why. */
struct pending {
    TAILQ_ENTRY(pending) link;
    struct tls_port *port;
    struct transport *transport;
    int64_t until_ms;
    char address[TCP_PEER_BUF];
    bool refused;
};
TAILQ_HEAD(pendings, pending);

struct tls_port {
    struct loop *loop;
    struct transport_tls_server server;
    tls_refused_fn refused;
    void *arg;
    struct tls_protocol protocols[TLS_PORT_PROTOCOLS];
    const char *alpns[TLS_PORT_PROTOCOLS + 1];
    size_t n_protocols;
    struct listener *listeners[LISTENERS_MAX];
    size_t n_listeners;
    struct pendings pendings; /* in order of coming */
    size_t n_pendings;
    struct loop_timer *sweep;
};

static void pending_free(struct pending *pending)
{
    struct tls_port *port = pending->port;

    TAILQ_REMOVE(&port->pendings, pending, link);
    if (--port->n_pendings == 0)
        loop_timer_stop(port->sweep);
    transport_free(pending->transport);
    free(pending);
}

static void refuse(struct pending *pending, const char *why)
{
    struct tls_port *port = pending->port;

    if (port->refused && !pending->refused)
        port->refused(pending->address, why, port->arg);
    pending->refused = true;
}

/* ---- the handshake ---- */

static const struct tls_protocol *find_protocol(const struct tls_port *port, const char *alpn)
{
    for (size_t i = 0; i < port->n_protocols; i++)
        if (strcmp(port->protocols[i].alpn, alpn) == 0)
            return &port->protocols[i];
    return NULL;
}

static void established(struct transport *transport, void *arg)
{
    struct pending *pending = arg;
    const struct tls_protocol *protocol = find_protocol(pending->port,
                                                        transport_tls_alpn(transport));
    const struct cert_identity *peer = transport->peer.tls;
    char who[CERT_WHO_BUF], why[CERT_WHO_BUF + 64];

    if (!protocol || (peer ? !(protocol->kinds & peer->kind) : protocol->kinds != 0)) {
        (void)snprintf(why, sizeof why, "%s may not speak %s here",
                       peer ? cert_who(peer, who) : "nobody", transport_tls_alpn(transport));
        refuse(pending, why);
        pending_free(pending);
        return;
    }
    pending->transport = NULL;
    pending_free(pending);
    if (protocol->user_timeout_ms > 0)
        transport_tls_user_timeout(transport, protocol->user_timeout_ms);
    protocol->accept(transport, protocol->arg);
}

static void shaking_closed(int r, void *arg)
{
    struct pending *pending = arg;
    const char *why = pending->transport->why;

    refuse(pending, why ? why : r < 0 ? err_text(r) : "closed the connection");
    pending->until_ms = loop_now_ms(pending->port->loop) + LINGER_MS;
}

static const struct transport_events shaking = {.closed = shaking_closed};

static void sweep(void *arg)
{
    struct tls_port *port = arg;
    struct pending *pending, *next;
    int64_t now_ms = loop_now_ms(port->loop);

    for (pending = TAILQ_FIRST(&port->pendings); pending; pending = next) {
        next = TAILQ_NEXT(pending, link);
        if (pending->until_ms > now_ms)
            continue;
        refuse(pending, "no TLS handshake in time");
        pending_free(pending);
    }
}

/* Whether both come from the same host: all but the port. */
static bool same_host(const char *a, const char *b)
{
    size_t len = (size_t)(strrchr(a, ':') ? strrchr(a, ':') - a : 0);

    return strncmp(a, b, len + 1) == 0;
}

static void make_room(struct tls_port *port, const char *address)
{
    struct pending *pending, *own = NULL;
    size_t n_own = 0;

    if (port->n_pendings < TLS_PORT_HANDSHAKES)
        return;
    TAILQ_FOREACH(pending, &port->pendings, link)
    {
        if (!same_host(address, pending->address))
            continue;
        n_own++;
        own = own ? own : pending;
    }
    pending = n_own >= HANDSHAKES_OF_ONE ? own : TAILQ_FIRST(&port->pendings);
    refuse(pending, "too many handshakes under way");
    pending_free(pending);
}

static void connected(int fd, void *arg)
{
    struct tls_port *port = arg;
    struct pending *pending = calloc(1, sizeof *pending);

    if (!pending) {
        (void)close(fd);
        return;
    }
    pending->port = port;
    (void)tcp_peer(fd, pending->address);
    make_room(port, pending->address);
    if (transport_tls_accept(port->loop, &port->server, fd, &shaking, pending,
                             &pending->transport) < 0) {
        free(pending);
        return;
    }
    pending->until_ms = loop_now_ms(port->loop) + TLS_HANDSHAKE_MS;
    TAILQ_INSERT_TAIL(&port->pendings, pending, link);
    if (port->n_pendings++ == 0)
        loop_timer_start(port->sweep, SWEEP_MS, SWEEP_MS);
}

/* ---- the port ---- */

int tls_port_new(struct loop *loop, struct tls_keys *keys, tls_refused_fn refused, void *arg,
                 struct tls_port **ret)
{
    struct tls_port *port = calloc(1, sizeof *port);
    int r;

    if (!port)
        return -ENOMEM;
    TAILQ_INIT(&port->pendings);
    port->loop = loop;
    port->server = (struct transport_tls_server){
        .keys = keys, .alpns = port->alpns, .established = established};
    port->refused = refused;
    port->arg = arg;
    r = loop_timer_new(loop, sweep, port, &port->sweep);
    if (r < 0) {
        free(port);
        return r;
    }
    tls_keys_hold(keys);
    *ret = port;
    return 0;
}

int tls_port_protocol(struct tls_port *port, const struct tls_protocol *protocol)
{
    if (port->n_protocols == TLS_PORT_PROTOCOLS)
        return -ENOBUFS;
    port->protocols[port->n_protocols] = *protocol;
    port->alpns[port->n_protocols++] = protocol->alpn;
    return 0;
}

static int listen_fd(struct tls_port *port, int fd)
{
    int r;

    if (port->n_listeners == LISTENERS_MAX) {
        (void)close(fd);
        return -ENOBUFS;
    }
    r = listener_fd_new(port->loop, fd, connected, port, &port->listeners[port->n_listeners]);
    if (r == 0)
        port->n_listeners++;
    return r;
}

int tls_port_listen(struct tls_port *port, const char *address, struct err *err)
{
    int fds[TCP_LISTEN_MAX], r;
    size_t n;

    r = tcp_listen(address, fds, &n, err);
    if (r < 0)
        return r;
    for (size_t i = 0; i < n; i++) {
        if (r == 0)
            r = listen_fd(port, fds[i]);
        else
            (void)close(fds[i]);
    }
    return r < 0 ? err_set(err, r, "%s: %s", address, err_text(r)) : 0;
}

int tls_port_listen_fd(struct tls_port *port, int fd)
{
    int domain, listens;
    socklen_t len = sizeof domain;

    if (getsockopt(fd, SOL_SOCKET, SO_DOMAIN, &domain, &len) == 0 &&
        (domain == AF_INET || domain == AF_INET6) &&
        getsockopt(fd, SOL_SOCKET, SO_ACCEPTCONN, &listens, &len) == 0 && listens)
        return listen_fd(port, fd);
    (void)close(fd);
    return -EINVAL;
}

void tls_port_free(struct tls_port *port)
{
    if (!port)
        return;
    while (port->n_listeners > 0)
        listener_free(port->listeners[--port->n_listeners]);
    while (!TAILQ_EMPTY(&port->pendings))
        pending_free(TAILQ_FIRST(&port->pendings));
    loop_timer_free(port->sweep);
    tls_keys_release(port->server.keys);
    free(port);
}
