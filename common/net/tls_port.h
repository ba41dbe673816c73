/* TLS over TCP, both ends: transports (transport.h) whose peer is known by its certificate.
 *
 * Server: a port listens, takes each connection through its handshake, and hands it to whoever serves the protocol that was
 * agreed on by ALPN. Who never finishes, or floods, costs bounded memory: at most TLS_PORT_HANDSHAKES at once, the oldest
 * of the address that has the most goes first, each for at most TLS_HANDSHAKE_MS.
 * Client: the name is looked up off the loop (tcp.h), each address is tried, the server must be whom we want.
 *
 * A TLS transport keeps what transport.h promises, and besides:
 *   - peer.tls is set from `open` (client) or `accept` (server) on;
 *   - closed(0): close_notify; closed(-ECONNABORTED): the end of the TCP stream without it, so what was said may be cut
 *     short; closed(-EKEYEXPIRED, -EKEYREVOKED, -EKEYREJECTED): the peer's certificate did not pass, now or any more;
 *     closed(-EPROTO): no TLS 1.3, or the peer refused us. transport->why then holds the sentence for the log;
 *   - transport_shutdown says close_notify and ends our direction; reading goes on;
 *   - the socket is as tcp_set_up makes it. A peer that takes nothing of what was written for user_timeout_ms is gone
 *     (TCP_USER_TIMEOUT).
 * One loop, one thread. */
#ifndef XCE_COMMON_NET_TLS_PORT_H
#define XCE_COMMON_NET_TLS_PORT_H

#include <stdint.h>

#include "common/cert.h"
#include "common/err.h"
#include "common/net/tls_keys.h"

struct loop;
struct tls_port;
struct transport;
struct transport_events;

#define TLS_ALPN_GRPC "h2"
/* TLS_ALPN_ENROLL (tls_keys.h): HTTP/2 again, of who has no certificate yet and is asked for none. peer.tls is NULL. */
#define TLS_ALPN_RAFT       "xce-raft/1"
#define TLS_PORT_HANDSHAKES 512
#define TLS_HANDSHAKE_MS    10000
#define TLS_PORT_PROTOCOLS  4

/* A protocol that a port serves. */
struct tls_protocol {
    const char *alpn; /* borrowed for ever */
    unsigned kinds;   /* enum cert_kind, ORed: who may speak it at all; TLS_ALPN_ENROLL: 0 */
    /* A handshake is over: transport->peer.tls says who it is. The transport is the callee's: set its events and arg here
     * (`open` follows from the loop, then data), or free it. transport_write may be called at once. */
    void (*accept)(struct transport *transport, void *arg);
    void *arg;
    int64_t user_timeout_ms; /* as of struct tls_target */
};

/* A connection that was not handed over. address: "192.0.2.1:4711"; why: one sentence, with the peer's name where it has
 * proved it. */
typedef void (*tls_refused_fn)(const char *address, const char *why, void *arg);

/* 0; -ENOMEM. refused may be NULL. */
int tls_port_new(struct loop *loop, struct tls_keys *keys, tls_refused_fn refused, void *arg,
                 struct tls_port **ret);
/* Before listening. Copied. -ENOBUFS: TLS_PORT_PROTOCOLS are there. A peer that offers none of them, or no ALPN, is refused. */
int tls_port_protocol(struct tls_port *port, const struct tls_protocol *protocol);
/* Listen on "host:port" ("[::1]:7623", "0.0.0.0:7623", "ctl1:7623": every address that the name has; looked up here and
 * now). May be called for several. 0; -EINVAL, -EADDRINUSE, -errno with err. */
int tls_port_listen(struct tls_port *port, const char *address, struct err *err);
/* Take over a listening TCP socket; closed with the port, also on failure. 0; -EINVAL it is none; -ENOMEM. */
int tls_port_listen_fd(struct tls_port *port, int fd);
/* Stop listening; handshakes under way end. What was handed over lives on. NULL does nothing. */
void tls_port_free(struct tls_port *port);

struct tls_target {
    const char *address; /* "host:port" */
    const char *alpn;    /* the server must agree to it */
    /* Whom we want: "xce://replica/a" = that one; "xce://replica/" = any replica of our CA. */
    const char *peer;
    int64_t timeout_ms;      /* for all until `open`; 0 = TLS_HANDSHAKE_MS */
    int64_t user_timeout_ms; /* 0 = the kernel's own */
};

/* Connect. target is copied. Events as transport.h; a failure of any kind comes as `closed`. 0; -EINVAL the address is no
 * host:port, -ENOMEM, -EMFILE, -EAGAIN too many look-ups hang. */
int tls_connect(struct loop *loop, struct tls_keys *keys, const struct tls_target *target,
                const struct transport_events *events, void *arg, struct transport **ret);

#endif
