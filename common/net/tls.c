#include "common/net/tls.h"

#include <errno.h>
#include <openssl/x509v3.h>
#include <stdlib.h>
#include <string.h>

#include "common/cert_x509.h"
#include "common/clock.h"
#include "common/net/tls_inner.h"
#include "common/text.h"

/* AES-128 before AES-256: a tenth less CPU, and nobody breaks either. */
#define CIPHERS "TLS_AES_128_GCM_SHA256:TLS_AES_256_GCM_SHA384:TLS_CHACHA20_POLY1305_SHA256"

enum {
    SECURITY_LEVEL = 2, /* OpenSSL's: 112 bits, no SHA-1 */
    CHAIN_DEPTH = 4,    /* intermediates at most */
};

/* ---- files ---- */

typedef int (*take_fn)(const char *pem, size_t len, struct tls_context *context, struct err *err);

static int read_with(const char *path, bool secret, take_fn take, struct tls_context *context,
                     struct err *err)
{
    char *pem = NULL;
    size_t len;
    int r = cert_read_file(path, secret, &pem, &len, err);

    if (r < 0)
        return r;
    r = take(pem, len, context, err);
    if (r < 0 && r != -ENOMEM)
        (void)err_prefix(err, r, "%s", path);
    cert_forget(pem, len);
    return r;
}

static int take_certificate(const char *pem, size_t len, struct tls_context *context,
                            struct err *err)
{
    STACK_OF(X509) *chain = NULL;
    int r = cert_read_chain(pem, len, &chain, err);

    if (r < 0)
        return r;
    context->own = sk_X509_shift(chain);
    context->chain = chain;
    if (SSL_CTX_use_certificate(context->ssl, context->own) != 1 ||
        SSL_CTX_set1_chain(context->ssl, chain) != 1)
        return err_set(err, -EINVAL, "the certificate can not be used: %s", cert_crypto_why());
    return cert_identity_read(context->own, &context->identity, err);
}

static int take_key(const char *pem, size_t len, struct tls_context *context, struct err *err)
{
    EVP_PKEY *key = NULL;
    int r = cert_read_key(pem, len, &key, err);

    if (r == 0 && X509_check_private_key(context->own, key) != 1)
        r = err_set(err, -EINVAL, "is not the key of the certificate: %s", cert_crypto_why());
    if (r == 0 && SSL_CTX_use_PrivateKey(context->ssl, key) != 1)
        r = err_set(err, -EINVAL, "the key can not be used: %s", cert_crypto_why());
    EVP_PKEY_free(key);
    return r;
}

static char *name_text(const X509_NAME *name, char *ret, size_t size)
{
    char line[256] = "";

    (void)X509_NAME_oneline(name, line, sizeof line);
    (void)text_escape(line, strlen(line), ret, size);
    return ret;
}

static int add_ca(X509 *ca, struct tls_context *context, struct err *err)
{
    char name[128];

    if (X509_check_ca(ca) == 0)
        return err_set(err, -EINVAL, "%s is no CA certificate",
                       name_text(X509_get_subject_name(ca), name, sizeof name));
    return X509_STORE_add_cert(context->store, ca) == 1 ? 0 : -ENOMEM;
}

static int take_cas(const char *pem, size_t len, struct tls_context *context, struct err *err)
{
    STACK_OF(X509) *cas = NULL;
    int r = cert_read_chain(pem, len, &cas, err);

    for (int i = 0; r == 0 && i < sk_X509_num(cas); i++)
        r = add_ca(sk_X509_value(cas, i), context, err);
    sk_X509_pop_free(cas, X509_free);
    return r;
}

/* ---- revocation lists ---- */

static bool has_signed(const X509 *ca, X509_CRL *crl)
{
    bool has = X509_NAME_cmp(X509_get_subject_name(ca), X509_CRL_get_issuer(crl)) == 0 &&
               X509_CRL_verify(crl, X509_get0_pubkey(ca)) == 1;

    (void)cert_crypto_why();
    return has;
}

/* The CA of the store that has signed the list; NULL = none. */
static X509 *issuer_of(STACK_OF(X509_OBJECT) * objects, X509_CRL *crl)
{
    for (int i = 0; i < sk_X509_OBJECT_num(objects); i++) {
        X509 *ca = X509_OBJECT_get0_X509(sk_X509_OBJECT_value(objects, i));

        if (ca && has_signed(ca, crl))
            return ca;
    }
    return NULL;
}

/* Lists are looked for by name and key identifier, not by signature: one that fits another CA, too, would be taken for that
 * one's, and then nobody of that CA would pass. */
static bool fits_another(STACK_OF(X509_OBJECT) * objects, X509_CRL *crl, const X509 *issuer)
{
    AUTHORITY_KEYID *keyid = X509_CRL_get_ext_d2i(crl, NID_authority_key_identifier, NULL, NULL);
    bool fits = false;

    for (int i = 0; !fits && i < sk_X509_OBJECT_num(objects); i++) {
        X509 *ca = X509_OBJECT_get0_X509(sk_X509_OBJECT_value(objects, i));

        fits = ca && ca != issuer &&
               X509_NAME_cmp(X509_get_subject_name(ca), X509_CRL_get_issuer(crl)) == 0 &&
               EVP_PKEY_eq(X509_get0_pubkey(ca), X509_get0_pubkey(issuer)) != 1 &&
               (!keyid || X509_check_akid(ca, keyid) == X509_V_OK);
    }
    AUTHORITY_KEYID_free(keyid);
    (void)cert_crypto_why();
    return fits;
}

static int check_crl(STACK_OF(X509_OBJECT) * objects, X509_CRL *crl, struct err *err)
{
    int64_t now_ms = clock_wall_ms();
    const ASN1_TIME *next = X509_CRL_get0_nextUpdate(crl);
    const X509 *issuer = issuer_of(objects, crl);
    char name[128];

    (void)name_text(X509_CRL_get_issuer(crl), name, sizeof name);
    if (!issuer)
        return err_set(err, -EINVAL, "the list of %s is signed by none of the CAs", name);
    if (fits_another(objects, crl, issuer))
        return err_set(err, -EINVAL,
                       "there is another CA with the name %s, and this list does not say by its "
                       "authorityKeyIdentifier whose it is",
                       name);
    if (cert_time_ms(X509_CRL_get0_lastUpdate(crl)) > now_ms)
        return err_set(err, -EINVAL, "the list of %s is not valid yet", name);
    if (next && cert_time_ms(next) < now_ms)
        return err_set(err, -EINVAL, "the list of %s is out of date", name);
    return 0;
}

static bool has_list(STACK_OF(X509_CRL) * crls, const X509 *ca)
{
    for (int i = 0; i < sk_X509_CRL_num(crls); i++)
        if (has_signed(ca, sk_X509_CRL_value(crls, i)))
            return true;
    return false;
}

static int check_crls(struct tls_context *context, STACK_OF(X509_CRL) * crls, struct err *err)
{
    STACK_OF(X509_OBJECT) *objects = X509_STORE_get0_objects(context->store);
    char name[128];
    int r = 0;

    for (int i = 0; r == 0 && i < sk_X509_CRL_num(crls); i++)
        r = check_crl(objects, sk_X509_CRL_value(crls, i), err);
    for (int i = 0; r == 0 && i < sk_X509_OBJECT_num(objects); i++) {
        const X509 *ca = X509_OBJECT_get0_X509(sk_X509_OBJECT_value(objects, i));

        if (ca && !has_list(crls, ca))
            r = err_set(err, -EINVAL,
                        "holds no list of the CA %s, whose certificates would all "
                        "be refused",
                        name_text(X509_get_subject_name(ca), name, sizeof name));
    }
    return r;
}

static int take_crls(const char *pem, size_t len, struct tls_context *context, struct err *err)
{
    STACK_OF(X509_CRL) *crls = NULL;
    int r = cert_read_crls(pem, len, &crls, err);

    if (r == 0)
        r = check_crls(context, crls, err);
    for (int i = 0; r == 0 && i < sk_X509_CRL_num(crls); i++)
        if (X509_STORE_add_crl(context->store, sk_X509_CRL_value(crls, i)) != 1)
            r = -ENOMEM;
    if (r == 0 && X509_STORE_set_flags(context->store,
                                       X509_V_FLAG_CRL_CHECK | X509_V_FLAG_CRL_CHECK_ALL) != 1)
        r = -ENOMEM;
    sk_X509_CRL_pop_free(crls, X509_CRL_free);
    return r;
}

/* ---- context ---- */

static int set_rules(struct tls_context *context)
{
    SSL_CTX *ssl = context->ssl;

    if (SSL_CTX_set_min_proto_version(ssl, TLS1_3_VERSION) != 1 ||
        SSL_CTX_set_max_proto_version(ssl, TLS1_3_VERSION) != 1 ||
        SSL_CTX_set_ciphersuites(ssl, CIPHERS) != 1 || SSL_CTX_set_num_tickets(ssl, 0) != 1 ||
        SSL_CTX_set_max_early_data(ssl, 0) != 1)
        return -EINVAL;
    SSL_CTX_set_security_level(ssl, SECURITY_LEVEL);
    (void)SSL_CTX_set_options(ssl, SSL_OP_NO_TICKET | SSL_OP_NO_RENEGOTIATION |
                                       SSL_OP_CIPHER_SERVER_PREFERENCE | SSL_OP_NO_COMPRESSION);
    (void)SSL_CTX_set_session_cache_mode(ssl, SSL_SESS_CACHE_OFF);
    (void)SSL_CTX_set_mode(ssl, SSL_MODE_RELEASE_BUFFERS | SSL_MODE_NO_AUTO_CHAIN);
    SSL_CTX_set_verify(ssl, SSL_VERIFY_PEER | SSL_VERIFY_FAIL_IF_NO_PEER_CERT, tls_verify);
    SSL_CTX_set_verify_depth(ssl, CHAIN_DEPTH);
    SSL_CTX_set_alpn_select_cb(ssl, tls_choose_alpn, NULL);
    SSL_CTX_set_cert_store(ssl, context->store);
    return X509_STORE_up_ref(context->store) == 1 ? 0 : -ENOMEM;
}

int tls_context_new(const struct tls_files *files, struct tls_context **ret, struct err *err)
{
    struct tls_context *context = calloc(1, sizeof *context);
    int r = context ? 0 : -ENOMEM;

    if (r == 0) {
        context->refs = 1;
        context->ssl = SSL_CTX_new(TLS_method());
        context->store = X509_STORE_new();
        r = context->ssl && context->store ? set_rules(context) : -ENOMEM;
    }
    if (r == 0 && files->certificate && files->certificate[0]) {
        r = read_with(files->certificate, false, take_certificate, context, err);
        if (r == 0)
            r = read_with(files->key, true, take_key, context, err);
    }
    if (r == 0)
        r = read_with(files->ca, false, take_cas, context, err);
    if (r == 0 && files->crl && files->crl[0])
        r = read_with(files->crl, false, take_crls, context, err);
    if (r < 0) {
        if (err && !err->text[0])
            (void)err_set(err, r, "TLS: %s", err_text(r));
        (void)cert_crypto_why();
        tls_context_unref(context);
        return r;
    }
    *ret = context;
    return 0;
}

struct tls_context *tls_context_ref(struct tls_context *context)
{
    context->refs++;
    return context;
}

void tls_context_unref(struct tls_context *context)
{
    if (!context || --context->refs > 0)
        return;
    SSL_CTX_free(context->ssl);
    X509_STORE_free(context->store);
    X509_free(context->own);
    sk_X509_pop_free(context->chain, X509_free);
    cert_identity_done(&context->identity);
    free(context);
}

const struct cert_identity *tls_context_identity(const struct tls_context *context)
{
    return &context->identity;
}

bool tls_context_same_certificate(const struct tls_context *a, const struct tls_context *b)
{
    return a->own && b->own && X509_cmp(a->own, b->own) == 0;
}

unsigned tls_context_uses(const struct tls_context *context)
{
    uint32_t has = context->own ? X509_get_extended_key_usage(context->own) : 0;

    /* No such extension, good for everything by X.509. Not here. */
    if (has == UINT32_MAX)
        return 0;
    return (has & XKU_SSL_SERVER ? TLS_SERVER : 0u) | (has & XKU_SSL_CLIENT ? TLS_CLIENT : 0u);
}

static int check_use(const struct tls_context *context, unsigned uses, struct err *err)
{
    unsigned lacks = uses & ~tls_context_uses(context);

    if (lacks & TLS_SERVER)
        return err_set(err, -EINVAL, "our certificate has no extended key usage serverAuth");
    if (lacks & TLS_CLIENT)
        return err_set(err, -EINVAL, "our certificate has no extended key usage clientAuth");
    return 0;
}

int tls_context_check_own(const struct tls_context *context, unsigned uses, struct err *err)
{
    X509_STORE_CTX *check;
    int r = 0;

    if (!context->own)
        return 0;
    check = X509_STORE_CTX_new();
    if (!check || X509_STORE_CTX_init(check, context->store, context->own, context->chain) != 1) {
        r = err_set(err, -ENOMEM, "out of memory");
    } else {
        /* That our own is on the list is for others to see: it must not keep us from taking the list. */
        (void)X509_VERIFY_PARAM_clear_flags(X509_STORE_CTX_get0_param(check),
                                            X509_V_FLAG_CRL_CHECK | X509_V_FLAG_CRL_CHECK_ALL);
        if (X509_verify_cert(check) != 1)
            r = err_set(err, -EINVAL, "our certificate does not pass: %s",
                        X509_verify_cert_error_string(X509_STORE_CTX_get_error(check)));
    }
    X509_STORE_CTX_free(check);
    (void)cert_crypto_why();
    return r < 0 ? r : check_use(context, uses, err);
}
