/* What tls.c and tls_session.c share. */
#ifndef XCE_COMMON_NET_TLS_INNER_H
#define XCE_COMMON_NET_TLS_INNER_H

#include <openssl/ssl.h>

#include "common/net/tls.h"

struct tls_context {
    unsigned refs;
    SSL_CTX *ssl;
    X509_STORE *store; /* the CAs and lists; the SSL_CTX has a reference of its own */
    X509 *own;
    STACK_OF(X509) * chain; /* intermediates that are sent with it */
    struct cert_identity identity;
};

struct tls_session {
    SSL *ssl;
    struct tls_context *context;
    bool server, open, failed, refused, no_memory;
    const char *const *alpns;
    char want[CERT_URI_MAX + 1];
    char alpn[32];
    struct cert_identity peer;
    int64_t until_ms;
    /* Wire bytes under way: in is borrowed within a call. */
    const uint8_t *in;
    size_t in_len;
    uint8_t *out;
    size_t out_at, out_len, out_size;
    size_t own_bytes; /* of out: not written by the program */
    int verify_r;     /* why the peer's certificate did not pass; 0 = it did */
    char why[TLS_WHY_MAX];
};

/* Of the SSL object; for callbacks. */
struct tls_session *tls_session_of(const SSL *ssl);
/* For SSL_CTX_set_verify: runs for each certificate of the chain. */
int tls_verify(int ok, X509_STORE_CTX *store);
int tls_choose_alpn(SSL *ssl, const unsigned char **ret, unsigned char *ret_len,
                    const unsigned char *offered, unsigned offered_len, void *arg);

#endif
