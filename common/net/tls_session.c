#include <assert.h>
#include <errno.h>
#include <openssl/err.h>
#include <openssl/x509v3.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "common/cert_x509.h"
#include "common/net/tls_inner.h"
#include "common/text.h"

enum {
    OUT_FIRST_BYTES = 2048,
    /* Answers of TLS itself that the peer asked for and does not take. */
    OUT_OWN_BYTES = 256 * 1024,
};

/* ---- the wire, as OpenSSL sees it ---- */

static BIO_METHOD *wire_method;
static int ex_index = -1;
static pthread_once_t once = PTHREAD_ONCE_INIT;

static int wire_read(BIO *bio, char *ret, size_t size, size_t *ret_len)
{
    struct tls_session *session = BIO_get_data(bio);
    size_t len = session->in_len < size ? session->in_len : size;

    BIO_clear_retry_flags(bio);
    if (len == 0) {
        BIO_set_retry_read(bio);
        return 0;
    }
    memcpy(ret, session->in, len);
    session->in += len;
    session->in_len -= len;
    *ret_len = len;
    return 1;
}

static int make_room(struct tls_session *session, size_t len)
{
    size_t size = session->out_size ? session->out_size : OUT_FIRST_BYTES;
    uint8_t *out;

    if (session->out_at > 0 && session->out_size - session->out_len < len) {
        memmove(session->out, session->out + session->out_at, session->out_len - session->out_at);
        session->out_len -= session->out_at;
        session->out_at = 0;
    }
    if (session->out_size - session->out_len >= len)
        return 0;
    while (size - session->out_len < len)
        size *= 2;
    out = realloc(session->out, size);
    if (!out)
        return -ENOMEM;
    session->out = out;
    session->out_size = size;
    return 0;
}

static int wire_write(BIO *bio, const char *data, size_t len, size_t *ret_len)
{
    struct tls_session *session = BIO_get_data(bio);

    BIO_clear_retry_flags(bio);
    if (make_room(session, len) < 0) {
        session->no_memory = true;
        return 0;
    }
    memcpy(session->out + session->out_len, data, len);
    session->out_len += len;
    *ret_len = len;
    return 1;
}

static long wire_control(BIO *bio, int command, long number, void *pointer)
{
    (void)bio;
    (void)number;
    (void)pointer;
    return command == BIO_CTRL_FLUSH;
}

static void make_method(void)
{
    ex_index = SSL_get_ex_new_index(0, NULL, NULL, NULL, NULL);
    wire_method = BIO_meth_new(BIO_get_new_index() | BIO_TYPE_SOURCE_SINK, "xce wire");
    if (!wire_method)
        return;
    (void)BIO_meth_set_read_ex(wire_method, wire_read);
    (void)BIO_meth_set_write_ex(wire_method, wire_write);
    (void)BIO_meth_set_ctrl(wire_method, wire_control);
}

struct tls_session *tls_session_of(const SSL *ssl)
{
    return SSL_get_ex_data(ssl, ex_index);
}

/* ---- who it is ---- */

static bool wanted(const struct tls_session *session)
{
    const struct cert_identity *peer = &session->peer;
    char uri[CERT_URI_MAX + 1];

    if (session->server)
        return true;
    (void)snprintf(uri, sizeof uri, "%s%s",
                   peer->kind == CERT_REPLICA ? CERT_URI_REPLICA
                   : peer->kind == CERT_NODE  ? CERT_URI_NODE
                                              : "user ",
                   peer->name);
    return session->want[strlen(session->want) - 1] == '/'
               ? strncmp(uri, session->want, strlen(session->want)) == 0
               : strcmp(uri, session->want) == 0;
}

/* What the chain alone does not tell. 0; -EKEYREJECTED with why. */
static int check_holder(struct tls_session *session, X509 *leaf)
{
    uint32_t use = X509_get_extended_key_usage(leaf);
    struct err err = {{0}};
    char who[CERT_WHO_BUF];
    int r;

    /* UINT32_MAX: no such extension, good for everything by X.509. Not here. */
    if (use == UINT32_MAX || !(use & (session->server ? XKU_SSL_CLIENT : XKU_SSL_SERVER))) {
        (void)snprintf(session->why, sizeof session->why,
                       "certificate: the extended key usage is not %s",
                       session->server ? "clientAuth" : "serverAuth");
        return -EKEYREJECTED;
    }
    cert_identity_done(&session->peer);
    r = cert_identity_read(leaf, &session->peer, &err);
    if (r < 0) {
        (void)snprintf(session->why, sizeof session->why, "certificate: %s",
                       err.text[0] ? err.text : err_text(r));
        return r == -ENOMEM ? r : -EKEYREJECTED;
    }
    if (!wanted(session)) {
        (void)snprintf(session->why, sizeof session->why, "the server is %s, not %s",
                       cert_who(&session->peer, who), session->want);
        return -EKEYREJECTED;
    }
    return 0;
}

static int errno_of(int verify_error)
{
    switch (verify_error) {
    case X509_V_ERR_CERT_HAS_EXPIRED:
    case X509_V_ERR_CERT_NOT_YET_VALID:
        return -EKEYEXPIRED;
    case X509_V_ERR_CERT_REVOKED:
        return -EKEYREVOKED;
    case X509_V_ERR_OUT_OF_MEM:
        return -ENOMEM;
    default:
        return -EKEYREJECTED;
    }
}

/* The sentence for the log: whose certificate, and what is wrong with it. */
static void say_why(struct tls_session *session, X509_STORE_CTX *store)
{
    X509 *at = X509_STORE_CTX_get_current_cert(store);
    int depth = X509_STORE_CTX_get_error_depth(store);
    char line[200] = "", safe[256];

    if (at)
        (void)X509_NAME_oneline(X509_get_subject_name(at), line, sizeof line);
    (void)text_escape(line, strlen(line), safe, sizeof safe);
    (void)snprintf(session->why, sizeof session->why, "certificate%s: %s (%s)",
                   depth > 0 ? " of its CA" : "",
                   X509_verify_cert_error_string(X509_STORE_CTX_get_error(store)), safe);
}

int tls_verify(int ok, X509_STORE_CTX *store)
{
    struct tls_session *session = tls_session_of(
        X509_STORE_CTX_get_ex_data(store, SSL_get_ex_data_X509_STORE_CTX_idx()));

    if (!ok) {
        say_why(session, store);
        session->verify_r = errno_of(X509_STORE_CTX_get_error(store));
        return 0;
    }
    if (X509_STORE_CTX_get_error_depth(store) > 0)
        return 1;
    session->verify_r = check_holder(session, X509_STORE_CTX_get_current_cert(store));
    if (session->verify_r == 0)
        return 1;
    X509_STORE_CTX_set_error(store, X509_V_ERR_CERT_REJECTED);
    return 0;
}

int tls_choose_alpn(SSL *ssl, const unsigned char **ret, unsigned char *ret_len,
                    const unsigned char *offered, unsigned offered_len, void *arg)
{
    struct tls_session *session = tls_session_of(ssl);

    (void)arg;
    for (size_t i = 0; session->alpns[i]; i++)
        for (unsigned at = 0; at < offered_len; at += 1u + offered[at])
            if (offered[at] == strlen(session->alpns[i]) && at + offered[at] < offered_len &&
                memcmp(offered + at + 1, session->alpns[i], offered[at]) == 0) {
                *ret = offered + at + 1;
                *ret_len = offered[at];
                if (strcmp(session->alpns[i], TLS_ALPN_ENROLL) == 0)
                    SSL_set_verify(ssl, SSL_VERIFY_NONE, NULL);
                return SSL_TLSEXT_ERR_OK;
            }
    (void)snprintf(session->why, sizeof session->why,
                   "offers no protocol that is served here (ALPN)");
    return SSL_TLSEXT_ERR_ALERT_FATAL;
}

static void take_until(struct tls_session *session, STACK_OF(X509) * chain)
{
    session->until_ms = INT64_MAX;
    for (int i = 0; i < sk_X509_num(chain); i++) {
        int64_t end = cert_time_ms(X509_get0_notAfter(sk_X509_value(chain, i)));

        if (end < session->until_ms)
            session->until_ms = end;
    }
}

/* ---- failing ---- */

/* Whether another certificate might be let in: a protocol that is not spoken, or access that is denied to who is well known,
 * is no word on it. */
static bool about_our_certificate(int alert)
{
    switch (alert) {
    case SSL_AD_BAD_CERTIFICATE:         /* not as we make them, not yet good, or its list is not */
    case SSL_AD_UNSUPPORTED_CERTIFICATE: /* for another use */
    case SSL_AD_CERTIFICATE_REVOKED:
    case SSL_AD_CERTIFICATE_EXPIRED:  /* or its list has ended: the alert is the same */
    case SSL_AD_CERTIFICATE_UNKNOWN:  /* whatever else */
    case SSL_AD_UNKNOWN_CA:           /* the CA was changed */
    case SSL_AD_CERTIFICATE_REQUIRED: /* ours can not be shown by what the server takes */
        return true;
    default:
        return false;
    }
}

static int say_ssl_error(struct tls_session *session)
{
    int reason = ERR_GET_REASON(ERR_peek_error());

    if (reason > SSL_AD_REASON_OFFSET && reason < SSL_AD_REASON_OFFSET + 256) {
        int alert = reason - SSL_AD_REASON_OFFSET;

        /* Before the handshake is over anybody can send us an alert; by then a server has proved who it is, and only then
         * has it seen our certificate. */
        session->refused = session->open && !session->server && about_our_certificate(alert);
        (void)snprintf(session->why, sizeof session->why, "the peer refuses us: %s",
                       SSL_alert_desc_string_long(alert));
        return -EPROTO;
    }
    switch (reason) {
    case SSL_R_PEER_DID_NOT_RETURN_A_CERTIFICATE:
        (void)snprintf(session->why, sizeof session->why, "shows no certificate");
        return -EKEYREJECTED;
    case SSL_R_UNSUPPORTED_PROTOCOL:
    case SSL_R_VERSION_TOO_LOW:
    case SSL_R_WRONG_VERSION_NUMBER:
        (void)snprintf(session->why, sizeof session->why, "speaks no TLS 1.3");
        return -EPROTO;
    case SSL_R_HTTP_REQUEST:
        (void)snprintf(session->why, sizeof session->why, "speaks HTTP without TLS");
        return -EPROTO;
    default:
        /* A callback of ours may know better. */
        if (!session->why[0])
            (void)snprintf(session->why, sizeof session->why, "TLS: %s",
                           ERR_reason_error_string(ERR_peek_error())
                               ? ERR_reason_error_string(ERR_peek_error())
                               : "protocol error");
        return -EPROTO;
    }
}

static int fail(struct tls_session *session)
{
    int r = session->verify_r;

    session->failed = true;
    if (session->no_memory) {
        r = -ENOMEM;
        (void)snprintf(session->why, sizeof session->why, "out of memory");
    } else if (r == 0) {
        r = say_ssl_error(session);
    }
    ERR_clear_error();
    return r;
}

/* ---- the session ---- */

static int set_up(struct tls_session *session, const struct tls_session_options *options)
{
    BIO *bio = BIO_new(wire_method);
    unsigned char list[64];
    size_t len;

    if (!bio)
        return -ENOMEM;
    BIO_set_data(bio, session);
    BIO_set_init(bio, 1);
    SSL_set_bio(session->ssl, bio, bio);
    if (SSL_set_ex_data(session->ssl, ex_index, session) != 1)
        return -ENOMEM;
    if (options->server) {
        SSL_set_accept_state(session->ssl);
        return 0;
    }
    len = strlen(options->alpns[0]);
    assert(len < sizeof list - 1);
    list[0] = (unsigned char)len;
    memcpy(list + 1, options->alpns[0], len);
    SSL_set_connect_state(session->ssl);
    return SSL_set_alpn_protos(session->ssl, list, (unsigned)len + 1) == 0 ? 0 : -ENOMEM;
}

int tls_session_new(struct tls_context *context, const struct tls_session_options *options,
                    struct tls_session **ret)
{
    struct tls_session *session;

    (void)pthread_once(&once, make_method);
    if (!wire_method || ex_index < 0)
        return -ENOMEM;
    if (!options->server && (!options->peer[0] || strlen(options->peer) > CERT_URI_MAX))
        return -EINVAL;
    session = calloc(1, sizeof *session);
    if (!session)
        return -ENOMEM;
    session->server = options->server;
    session->alpns = options->alpns;
    session->until_ms = INT64_MAX;
    if (!options->server)
        (void)snprintf(session->want, sizeof session->want, "%s", options->peer);
    session->context = tls_context_ref(context);
    session->ssl = SSL_new(context->ssl);
    if (!session->ssl || set_up(session, options) < 0) {
        ERR_clear_error();
        tls_session_free(session);
        return -ENOMEM;
    }
    *ret = session;
    return 0;
}

void tls_session_free(struct tls_session *session)
{
    if (!session)
        return;
    SSL_free(session->ssl);
    tls_context_unref(session->context);
    cert_identity_done(&session->peer);
    free(session->out);
    free(session);
}

static int shake_hands(struct tls_session *session)
{
    const unsigned char *alpn;
    unsigned alpn_len;
    int n = SSL_do_handshake(session->ssl);

    if (n != 1)
        return SSL_get_error(session->ssl, n) == SSL_ERROR_WANT_READ ? 0 : fail(session);
    SSL_get0_alpn_selected(session->ssl, &alpn, &alpn_len);
    if (alpn_len >= sizeof session->alpn)
        alpn_len = 0;
    memcpy(session->alpn, alpn_len ? (const char *)alpn : "", alpn_len);
    if (alpn_len == 0 || (!session->server && strcmp(session->alpn, session->alpns[0]) != 0)) {
        session->failed = true;
        (void)snprintf(session->why, sizeof session->why,
                       session->server ? "offers no protocol (ALPN)"
                                       : "the server does not agree to a protocol (ALPN)");
        return -EPROTO;
    }
    take_until(session, SSL_get0_verified_chain(session->ssl));
    session->open = true;
    return 0;
}

int tls_session_receive(struct tls_session *session, const uint8_t *in, size_t len, uint8_t *ret,
                        size_t size, size_t *ret_len)
{
    size_t before = session->out_len - session->out_at;
    int r = 0, n;

    *ret_len = 0;
    if (session->failed)
        return -EPROTO;
    ERR_clear_error();
    session->in = in;
    session->in_len = len;
    if (!session->open)
        r = shake_hands(session);
    while (r == 0 && session->open) {
        size_t got = 0;

        assert(*ret_len < size);
        n = SSL_read_ex(session->ssl, ret + *ret_len, size - *ret_len, &got);
        *ret_len += got;
        if (n == 1)
            continue;
        n = SSL_get_error(session->ssl, n);
        if (n == SSL_ERROR_WANT_READ)
            break;
        r = n == SSL_ERROR_ZERO_RETURN ? TLS_END : fail(session);
    }
    session->in = NULL;
    session->in_len = 0;
    session->own_bytes += session->out_len - session->out_at - before;
    if (r == 0 && session->own_bytes > OUT_OWN_BYTES) {
        session->failed = true;
        (void)snprintf(session->why, sizeof session->why, "asks and does not read the answers");
        r = -EPROTO;
    }
    return r;
}

int tls_session_send(struct tls_session *session, const uint8_t *data, size_t len)
{
    assert(session->open);
    if (session->failed)
        return -EPROTO;
    ERR_clear_error();
    while (len > 0) {
        size_t n;

        if (SSL_write_ex(session->ssl, data, len, &n) != 1)
            return fail(session);
        data += n;
        len -= n;
    }
    return 0;
}

void tls_session_end(struct tls_session *session)
{
    if (!session->open || session->failed)
        return;
    ERR_clear_error();
    (void)SSL_shutdown(session->ssl);
    ERR_clear_error();
}

const uint8_t *tls_session_out(const struct tls_session *session, size_t *ret_len)
{
    *ret_len = session->out_len - session->out_at;
    return *ret_len ? session->out + session->out_at : NULL;
}

void tls_session_sent(struct tls_session *session, size_t n)
{
    session->out_at += n;
    assert(session->out_at <= session->out_len);
    if (session->out_at < session->out_len)
        return;
    session->out_at = session->out_len = session->out_size = session->own_bytes = 0;
    free(session->out);
    session->out = NULL;
}

bool tls_session_open(const struct tls_session *session)
{
    return session->open;
}

const struct cert_identity *tls_session_peer(const struct tls_session *session)
{
    return &session->peer;
}

const char *tls_session_alpn(const struct tls_session *session)
{
    return session->alpn;
}

const char *tls_session_why(const struct tls_session *session)
{
    return session->why;
}

bool tls_session_refused(const struct tls_session *session)
{
    return session->refused;
}

int64_t tls_session_until_ms(const struct tls_session *session)
{
    return session->until_ms;
}

/* ---- later ---- */

static int check_chain(struct tls_session *session, struct tls_context *context,
                       STACK_OF(X509) * chain)
{
    X509_STORE_CTX *check = X509_STORE_CTX_new();
    int r = 0;

    if (!chain || !check ||
        X509_STORE_CTX_init(check, context->store, sk_X509_value(chain, 0), chain) != 1) {
        r = -ENOMEM;
        (void)snprintf(session->why, sizeof session->why, "out of memory");
    } else {
        (void)X509_STORE_CTX_set_default(check, session->server ? "ssl_client" : "ssl_server");
        if (X509_verify_cert(check) != 1) {
            say_why(session, check);
            r = errno_of(X509_STORE_CTX_get_error(check));
        } else {
            take_until(session, X509_STORE_CTX_get0_chain(check));
        }
    }
    X509_STORE_CTX_free(check);
    ERR_clear_error();
    if (r == 0) {
        tls_context_ref(context);
        tls_context_unref(session->context);
        session->context = context;
    }
    return r;
}

int tls_session_check(struct tls_session *session, struct tls_context *context)
{
    STACK_OF(X509) *chain = SSL_get0_verified_chain(session->ssl);

    if (context == session->context || !session->peer.kind)
        return 0;
    return check_chain(session, context, chain);
}
