/* A byte stream between two ends: what h2 stands on. A unix socket here; TLS over TCP (tls_port.h) is a second
 * implementation of the same ops.
 *
 * One loop, one thread. Events come from the loop, never inside a call into this header. Whoever has the events may free
 * the transport in any of them. */
#ifndef XCE_COMMON_NET_TRANSPORT_H
#define XCE_COMMON_NET_TRANSPORT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

struct cert_identity;
struct loop;
struct transport;

struct transport_events {
    /* Ready to carry bytes; first, once. peer is known from here on. */
    void (*open)(void *arg);
    /* Bytes have come, one or more; they die with the callback. */
    void (*data)(const uint8_t *data, size_t len, void *arg);
    /* After TRANSPORT_BLOCKED everything has gone out. */
    void (*writable)(void *arg);
    /* Over: 0 the peer closed in order, else a negative errno. Last, once; transport_free is still owed. */
    void (*closed)(int r, void *arg);
};

/* Who is at the other end, as far as the transport can vouch for it. */
struct transport_peer {
    bool local; /* uid, gid and pid are the kernel's word */
    uid_t uid;
    gid_t gid;
    pid_t pid;
    const struct cert_identity *tls; /* as long as the transport; NULL without TLS */
};

enum {
    TRANSPORT_BLOCKED = 1, /* taken, but wait for writable before writing more */
};

struct transport_ops {
    int (*write)(struct transport *transport, const uint8_t *data, size_t len);
    void (*read)(struct transport *transport, bool on);
    void (*shutdown)(struct transport *transport);
    void (*free)(struct transport *transport);
};

/* The part that all implementations begin with. */
struct transport {
    const struct transport_ops *ops;
    const struct transport_events *events;
    void *arg;
    struct transport_peer peer;
    uint64_t written_bytes; /* handed to the kernel: the peer can not have seen what lies behind */
    const char *why;        /* from `closed` on: the sentence that errno has not; NULL = none */
};

/* Send bytes now. What the kernel does not take is copied and follows by itself. 0; TRANSPORT_BLOCKED; a negative errno:
 * broken, no event follows. Not to be called between TRANSPORT_BLOCKED and writable. */
static inline int transport_write(struct transport *transport, const uint8_t *data, size_t len)
{
    return transport->ops->write(transport, data, len);
}

/* Stop and go on reading. A new transport reads. */
static inline void transport_read(struct transport *transport, bool on)
{
    transport->ops->read(transport, on);
}

/* Nothing more will be written: the peer reads what was, then the end. Reading goes on. Closing instead, with bytes of the
 * peer unread or on their way, can cost it what it has not read yet. */
static inline void transport_shutdown(struct transport *transport)
{
    transport->ops->shutdown(transport);
}

/* Close, now. NULL does nothing. */
static inline void transport_free(struct transport *transport)
{
    if (transport)
        transport->ops->free(transport);
}

/* A connected unix stream socket. Takes fd, also when it fails. 0; -ENOMEM and what getsockopt says. */
int transport_unix_new(struct loop *loop, int fd, const struct transport_events *events, void *arg,
                       struct transport **ret);

/* Connect to the socket at path. 0; -errno of socket and connect(2) (-EAGAIN: its backlog is full), -ENAMETOOLONG. */
int transport_unix_connect(struct loop *loop, const char *path,
                           const struct transport_events *events, void *arg,
                           struct transport **ret);

#endif
