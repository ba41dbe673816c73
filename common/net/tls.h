/* TLS without a socket: bytes of the wire in, bytes of the program out, and the other way round. Home of OpenSSL, with
 * tls_*.c. What reads and writes sockets is transport_tls.c; who decides whose certificate may do what is above.
 *
 * A context is what the files held at one time; it never changes, and sessions keep it. One thread. */
#ifndef XCE_COMMON_NET_TLS_H
#define XCE_COMMON_NET_TLS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/cert.h"
#include "common/net/tls_keys.h"

struct tls_context;
struct tls_session;

#define TLS_WHY_MAX 400
/* Room that tls_session_receive wants beyond the bytes it is given: one record that was begun before. */
#define TLS_RECEIVE_EXTRA (17 * 1024)

/* ---- context ---- */

/* Read the files and see whether they hold together: PEM, key fits certificate, CAs are CAs, each CA has a list of
 * its own signature, and that can not be taken for another's, if there is a CRL. 0; -EINVAL with err, -ENOMEM. */
int tls_context_new(const struct tls_files *files, struct tls_context **ret, struct err *err);
struct tls_context *tls_context_ref(struct tls_context *context);
void tls_context_unref(struct tls_context *context);

const struct cert_identity *tls_context_identity(const struct tls_context *context);
/* Whether our own certificate chains to the CA, is within its dates, and may be used so (enum tls_use, ORed). 0; -EINVAL. */
int tls_context_check_own(const struct tls_context *context, unsigned uses, struct err *err);
/* enum tls_use, ORed: what our own certificate may be used for. */
unsigned tls_context_uses(const struct tls_context *context);
bool tls_context_same_certificate(const struct tls_context *a, const struct tls_context *b);

/* ---- session ---- */

struct tls_session_options {
    bool server;
    /* Server: served protocols; client: the one wanted, first. Ends with NULL; borrowed as long as the session. */
    const char *const *alpns;
    const char *peer; /* client: as struct tls_target says; copied */
};

int tls_session_new(struct tls_context *context, const struct tls_session_options *options,
                    struct tls_session **ret);
void tls_session_free(struct tls_session *session);

enum {
    TLS_END = 1, /* close_notify: the peer has said all */
};

/* Take bytes of the wire (all of them), give those of the program. Called first with none, by a client, to begin.
 *   size  at least len + TLS_RECEIVE_EXTRA
 * 0; TLS_END (with the bytes before it); what tls_port.h says of `closed`, session_why then knows more. After a failure
 * tls_session_out may still hold the alert. */
int tls_session_receive(struct tls_session *session, const uint8_t *in, size_t len, uint8_t *ret,
                        size_t size, size_t *ret_len);
/* The handshake is over: peer and alpn are known, send may be called. */
bool tls_session_open(const struct tls_session *session);
/* Take bytes of the program. 0; -ENOMEM, -EPROTO. */
int tls_session_send(struct tls_session *session, const uint8_t *data, size_t len);
/* Say close_notify. */
void tls_session_end(struct tls_session *session);

/* What the wire is owed, and that n bytes of it have gone. */
const uint8_t *tls_session_out(const struct tls_session *session, size_t *ret_len);
void tls_session_sent(struct tls_session *session, size_t n);

const struct cert_identity *tls_session_peer(const struct tls_session *session);
/* "" where the peer named none. */
const char *tls_session_alpn(const struct tls_session *session);
const char *tls_session_why(const struct tls_session *session);
/* The server, who has proved who it is, has turned us away for our certificate, before anything was said. */
bool tls_session_refused(const struct tls_session *session);

/* Wall clock: when the first certificate of the peer's chain ends. */
int64_t tls_session_until_ms(const struct tls_session *session);
/* Whether the peer passes now under another context, which the session then keeps. 0; -EKEY... with why. */
int tls_session_check(struct tls_session *session, struct tls_context *context);

#endif
