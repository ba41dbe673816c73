/* A TLS stream over a TCP socket, as transport.h has it. For tls_port.c, which makes them, and tls_keys.c, which cuts them. */
#ifndef XCE_COMMON_NET_TRANSPORT_TLS_H
#define XCE_COMMON_NET_TRANSPORT_TLS_H

#include <sys/queue.h>

#include "common/net/tls.h"
#include "common/net/tls_port.h"
#include "common/net/transport.h"

/* What the keys know of each stream whose handshake is over. */
struct tls_member {
    LIST_ENTRY(tls_member) link;
    struct tls_session *session;
};
LIST_HEAD(tls_members, tls_member);

/* How a port takes connections in. established: the handshake is over; here events and arg may be set to another's, or the
 * transport freed. Before that only `closed` comes, and after it the stream goes on swallowing what comes until it is
 * freed, so that the peer gets to read why. */
struct transport_tls_server {
    struct tls_keys *keys;
    const char *const *alpns; /* as tls_session_options */
    void (*established)(struct transport *transport, void *arg);
};

/* fd was accepted; it is taken, also on failure. server lives as long as the port. 0; -ENOMEM. */
int transport_tls_accept(struct loop *loop, const struct transport_tls_server *server, int fd,
                         const struct transport_events *events, void *arg, struct transport **ret);

const char *transport_tls_alpn(const struct transport *transport);
/* A peer that takes nothing of what was written for so long is gone. */
void transport_tls_user_timeout(struct transport *transport, int64_t timeout_ms);

/* The peer's certificate does not pass any more: `closed` follows from the loop. */
void transport_tls_cut(struct tls_member *member, int r, const char *why);

/* ---- what tls_keys.c offers to streams ---- */

struct tls_context *tls_keys_context(struct tls_keys *keys);
void tls_keys_enter(struct tls_keys *keys, struct tls_member *member);
void tls_keys_leave(struct tls_keys *keys, struct tls_member *member);
/* A peer has turned us away for our certificate. */
void tls_keys_note_refusal(struct tls_keys *keys);
/* Somebody stands on the keys, or does not any more. */
void tls_keys_hold(struct tls_keys *keys);
void tls_keys_release(struct tls_keys *keys);

#endif
