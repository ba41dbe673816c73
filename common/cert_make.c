#include "common/cert_make.h"

#include <arpa/inet.h>
#include <errno.h>
#include <openssl/bn.h>
#include <openssl/evp.h>
#include <openssl/pem.h>
#include <openssl/sha.h>
#include <openssl/x509v3.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/cert_x509.h"
#include "common/clock.h"
#include "common/digest.h"
#include "common/text.h"

enum {
    SERIAL_BYTES = 16,
    SECURITY_BITS = 112, /* of a key that asks: RSA 2048, P-224 and above */
};

struct cert_ca {
    X509 *x509;
    EVP_PKEY *key;
};

struct cert_request {
    EVP_PKEY *key;
    struct cert_identity identity;
};

static int no_memory(struct err *err)
{
    (void)cert_crypto_why();
    return err_set(err, -ENOMEM, "out of memory");
}

void cert_pem_free(char *pem)
{
    if (pem)
        cert_forget(pem, strlen(pem));
}

int cert_read_pem(const char *path, bool secret, char **ret, struct err *err)
{
    size_t len;
    int r = cert_read_file(path, secret, ret, &len, err);

    if (r == 0 && strlen(*ret) != len) {
        cert_forget(*ret, len);
        *ret = NULL;
        r = err_set(err, -EINVAL, "%s: holds a NUL byte", path);
    }
    return r;
}

/* What was written to bio; ends it. 0; -ENOMEM. */
static int take_pem(BIO *bio, bool fine, char **ret)
{
    char *bytes, *copy = NULL;
    long len = bio && fine ? BIO_get_mem_data(bio, &bytes) : -1;

    if (len >= 0)
        copy = mem_dup(bytes, (size_t)len);
    BIO_free(bio);
    (void)cert_crypto_why();
    if (!copy)
        return -ENOMEM;
    *ret = copy;
    return 0;
}

static int pem_of(X509 *x509, char **ret)
{
    BIO *bio = BIO_new(BIO_s_mem());

    return take_pem(bio, bio && PEM_write_bio_X509(bio, x509) == 1, ret);
}

int cert_key_make(char **ret)
{
    EVP_PKEY *key = EVP_EC_gen("P-256");
    BIO *bio = key ? BIO_new(BIO_s_secmem()) : NULL;
    int r = take_pem(
        bio, bio && PEM_write_bio_PKCS8PrivateKey(bio, key, NULL, NULL, 0, NULL, NULL) == 1, ret);

    EVP_PKEY_free(key);
    return r;
}

/* ---- pieces of a certificate ---- */

static bool set_times(X509 *x509, int64_t from_ms, int64_t until_ms)
{
    return ASN1_TIME_set(X509_getm_notBefore(x509), (time_t)(from_ms / 1000)) &&
           ASN1_TIME_set(X509_getm_notAfter(x509), (time_t)(until_ms / 1000));
}

/* Random, positive, and never the same twice. */
static bool set_serial(X509 *x509)
{
    uint8_t bytes[SERIAL_BYTES];
    BIGNUM *number;
    bool fine;

    digest_random(bytes, sizeof bytes);
    bytes[0] = (uint8_t)((bytes[0] & 0x7f) | 0x40);
    number = BN_bin2bn(bytes, sizeof bytes, NULL);
    fine = number && BN_to_ASN1_INTEGER(number, X509_get_serialNumber(x509));
    BN_free(number);
    return fine;
}

static bool add_name(X509_NAME *name, const char *field, const char *text)
{
    return X509_NAME_add_entry_by_txt(name, field, V_ASN1_UTF8STRING, (const unsigned char *)text,
                                      -1, -1, 0) == 1;
}

static bool add_extension(X509 *x509, X509 *issuer, int nid, const char *value)
{
    X509V3_CTX context;
    X509_EXTENSION *extension;
    bool fine;

    X509V3_set_ctx(&context, issuer, x509, NULL, NULL, 0);
    extension = X509V3_EXT_conf_nid(NULL, &context, nid, value);
    fine = extension && X509_add_ext(x509, extension, -1) == 1;
    X509_EXTENSION_free(extension);
    return fine;
}

static GENERAL_NAME *uri_name(const char *uri)
{
    GENERAL_NAME *general = GENERAL_NAME_new();
    ASN1_IA5STRING *string = ASN1_IA5STRING_new();

    if (general && string && ASN1_STRING_set(string, uri, -1) == 1) {
        GENERAL_NAME_set0_value(general, GEN_URI, string);
        return general;
    }
    GENERAL_NAME_free(general);
    ASN1_IA5STRING_free(string);
    return NULL;
}

static bool is_address(const char *text)
{
    unsigned char bytes[16];

    return inet_pton(AF_INET, text, bytes) == 1 || inet_pton(AF_INET6, text, bytes) == 1;
}

static GENERAL_NAME *host_name(const char *host)
{
    return a2i_GENERAL_NAME(NULL, NULL, NULL, is_address(host) ? GEN_IPADD : GEN_DNS, host, 0);
}

static bool push(GENERAL_NAMES *names, GENERAL_NAME *name)
{
    if (name && sk_GENERAL_NAME_push(names, name) > 0)
        return true;
    GENERAL_NAME_free(name);
    return false;
}

static void uri_of(enum cert_kind kind, const char *name, char ret[static CERT_URI_MAX + 1])
{
    (void)snprintf(ret, CERT_URI_MAX + 1, "%s%s",
                   kind == CERT_REPLICA ? CERT_URI_REPLICA : CERT_URI_NODE, name);
}

static bool add_san(X509 *x509, const struct cert_want *want)
{
    GENERAL_NAMES *names = sk_GENERAL_NAME_new_null();
    char uri[CERT_URI_MAX + 1];
    bool fine = names != NULL;

    uri_of(want->kind, want->name, uri);
    fine = fine && push(names, uri_name(uri));
    for (size_t i = 0; fine && i < want->n_hosts; i++)
        fine = push(names, host_name(want->hosts[i]));
    fine = fine && X509_add1_ext_i2d(x509, NID_subject_alt_name, names, 0, 0) == 1;
    sk_GENERAL_NAME_pop_free(names, GENERAL_NAME_free);
    return fine;
}

int cert_check_host(const char *text, struct err *err)
{
    static const char bytes[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-.";

    if (is_address(text))
        return 0;
    if (!text[0] || strlen(text) > 253 || strspn(text, bytes) != strlen(text) || text[0] == '-' ||
        text[0] == '.')
        return err_set(err, -EINVAL, "\"%s\" is no host's name and no address", text);
    return 0;
}

/* ---- the CA ---- */

int cert_ca_make(const char *name, const char *key_pem, int64_t life_ms, char **ret,
                 struct err *err)
{
    EVP_PKEY *key = NULL;
    X509 *x509;
    int64_t now_ms = clock_wall_ms();
    int r = text_require("the CA's name", name, strlen(name), CERT_NAME_MAX, err);

    if (r == 0 && !name[0])
        r = err_set(err, -EINVAL, "the CA's name: is empty");
    if (r == 0)
        r = cert_read_key(key_pem, strlen(key_pem), &key, err);
    if (r < 0)
        return r;
    x509 = X509_new();
    if (x509 && X509_set_version(x509, 2) == 1 && set_serial(x509) &&
        set_times(x509, now_ms - CERT_SKEW_MS, now_ms + life_ms) &&
        add_name(X509_get_subject_name(x509), "CN", name) &&
        X509_set_issuer_name(x509, X509_get_subject_name(x509)) == 1 &&
        X509_set_pubkey(x509, key) == 1 &&
        add_extension(x509, x509, NID_basic_constraints, "critical,CA:TRUE,pathlen:0") &&
        add_extension(x509, x509, NID_key_usage, "critical,keyCertSign,cRLSign") &&
        add_extension(x509, x509, NID_subject_key_identifier, "hash") &&
        X509_sign(x509, key, EVP_sha256()) > 0)
        r = pem_of(x509, ret);
    else
        r = no_memory(err);
    X509_free(x509);
    EVP_PKEY_free(key);
    return r;
}

int cert_ca_load(const char *pem, const char *key_pem, struct cert_ca **ret, struct err *err)
{
    struct cert_ca *ca = calloc(1, sizeof *ca);
    STACK_OF(X509) *chain = NULL;
    int r = ca ? cert_read_chain(pem, strlen(pem), &chain, err) : no_memory(err);

    if (r == 0) {
        ca->x509 = sk_X509_shift(chain);
        r = cert_read_key(key_pem, strlen(key_pem), &ca->key, err);
    }
    if (r == 0 && X509_check_ca(ca->x509) == 0)
        r = err_set(err, -EINVAL, "is no CA certificate");
    if (r == 0 && X509_check_private_key(ca->x509, ca->key) != 1)
        r = err_set(err, -EINVAL, "the key is not the CA certificate's");
    (void)cert_crypto_why();
    sk_X509_pop_free(chain, X509_free);
    if (r < 0)
        cert_ca_free(ca);
    else
        *ret = ca;
    return r;
}

void cert_ca_free(struct cert_ca *ca)
{
    if (!ca)
        return;
    X509_free(ca->x509);
    EVP_PKEY_free(ca->key);
    free(ca);
}

int64_t cert_ca_until_ms(const struct cert_ca *ca)
{
    return cert_time_ms(X509_get0_notAfter(ca->x509));
}

int cert_ca_pem(const struct cert_ca *ca, char **ret)
{
    return pem_of(ca->x509, ret);
}

/* When it ends. */
static int64_t until_of(const struct cert_ca *ca, const struct cert_want *want, int64_t now_ms)
{
    int64_t until_ms = now_ms + want->life_ms, ca_ms = cert_ca_until_ms(ca);

    return want->or_shorter && until_ms > ca_ms ? ca_ms : until_ms;
}

static int check_want(const struct cert_ca *ca, const struct cert_want *want, struct err *err)
{
    int64_t now_ms = clock_wall_ms();
    int r = cert_check_name(want->kind, want->name, err);

    if (r == 0 && want->n_groups > CERT_GROUPS_MAX)
        r = err_set(err, -EINVAL, "at most %d groups", CERT_GROUPS_MAX);
    if (r == 0 && want->kind != CERT_USER && want->n_groups > 0)
        r = err_set(err, -EINVAL, "a %s has no groups", cert_kind_name(want->kind));
    if (r == 0 && want->n_hosts > CERT_HOSTS_MAX)
        r = err_set(err, -EINVAL, "at most %d hosts", CERT_HOSTS_MAX);
    if (r == 0 && want->kind != CERT_REPLICA && want->n_hosts > 0)
        r = err_set(err, -EINVAL, "a %s serves at no host", cert_kind_name(want->kind));
    for (size_t i = 0; r == 0 && i < want->n_groups; i++) {
        r = text_require("group", want->groups[i], strlen(want->groups[i]), CERT_GROUP_MAX, err);
        if (r == 0 && !want->groups[i][0])
            r = err_set(err, -EINVAL, "group: is empty");
    }
    for (size_t i = 0; r == 0 && i < want->n_hosts; i++)
        r = cert_check_host(want->hosts[i], err);
    if (r == 0 && now_ms >= cert_ca_until_ms(ca))
        r = err_set(err, -EINVAL, "the CA's own certificate has ended");
    if (r == 0 && until_of(ca, want, now_ms) > cert_ca_until_ms(ca))
        r = err_set(err, -EINVAL, "the CA's own certificate ends before that");
    return r;
}

static bool add_holder(X509 *x509, const struct cert_want *want)
{
    X509_NAME *subject = X509_get_subject_name(x509);
    bool fine = true;

    for (size_t i = 0; fine && i < want->n_groups; i++)
        fine = add_name(subject, "O", want->groups[i]);
    return fine && add_name(subject, "CN", want->name) &&
           (want->kind == CERT_USER || add_san(x509, want));
}

static X509 *sign(const struct cert_ca *ca, const struct cert_want *want, EVP_PKEY *key)
{
    int64_t now_ms = clock_wall_ms();
    X509 *x509 = X509_new();

    if (x509 && X509_set_version(x509, 2) == 1 && set_serial(x509) &&
        set_times(x509, now_ms - CERT_SKEW_MS, until_of(ca, want, now_ms)) &&
        X509_set_issuer_name(x509, X509_get_subject_name(ca->x509)) == 1 &&
        X509_set_pubkey(x509, key) == 1 && add_holder(x509, want) &&
        add_extension(x509, ca->x509, NID_basic_constraints, "critical,CA:FALSE") &&
        add_extension(x509, ca->x509, NID_key_usage, "critical,digitalSignature") &&
        add_extension(x509, ca->x509, NID_ext_key_usage,
                      want->kind == CERT_REPLICA ? "serverAuth,clientAuth" : "clientAuth") &&
        add_extension(x509, ca->x509, NID_subject_key_identifier, "hash") &&
        add_extension(x509, ca->x509, NID_authority_key_identifier, "keyid") &&
        X509_sign(x509, ca->key, EVP_sha256()) > 0)
        return x509;
    X509_free(x509);
    return NULL;
}

int cert_issue(const struct cert_ca *ca, const struct cert_want *want,
               const struct cert_request *request, char **ret_pem, struct cert_identity *identity,
               struct err *err)
{
    X509 *x509;
    int r = check_want(ca, want, err);

    if (r < 0)
        return r;
    x509 = sign(ca, want, request->key);
    if (!x509)
        return no_memory(err);
    r = pem_of(x509, ret_pem);
    if (r == 0 && identity && (r = cert_identity_read(x509, identity, err)) < 0) {
        free(*ret_pem);
        *ret_pem = NULL;
    }
    X509_free(x509);
    return r;
}

/* ---- the list ---- */

static bool revoke(X509_CRL *crl, const char *serial, const ASN1_TIME *when)
{
    X509_REVOKED *revoked = X509_REVOKED_new();
    BIGNUM *number = NULL;
    ASN1_INTEGER *integer = NULL;
    bool fine = revoked && serial[0] && BN_hex2bn(&number, serial) == (int)strlen(serial) &&
                (integer = BN_to_ASN1_INTEGER(number, NULL)) &&
                X509_REVOKED_set_serialNumber(revoked, integer) == 1 &&
                X509_REVOKED_set_revocationDate(revoked, (ASN1_TIME *)(uintptr_t)when) == 1 &&
                X509_CRL_add0_revoked(crl, revoked) == 1;

    if (!fine)
        X509_REVOKED_free(revoked);
    BN_free(number);
    ASN1_INTEGER_free(integer);
    return fine;
}

/* Which CA's list it is: another may have the same name. The number only has to grow. */
static bool add_crl_extensions(X509_CRL *crl, X509 *ca)
{
    ASN1_INTEGER *number = ASN1_INTEGER_new();
    X509_EXTENSION *keyid;
    X509V3_CTX context;
    bool fine;

    X509V3_set_ctx(&context, ca, NULL, NULL, crl, 0);
    keyid = X509V3_EXT_conf_nid(NULL, &context, NID_authority_key_identifier, "keyid");
    fine = keyid && X509_CRL_add_ext(crl, keyid, -1) == 1 && number &&
           ASN1_INTEGER_set_int64(number, clock_wall_ms()) == 1 &&
           X509_CRL_add1_ext_i2d(crl, NID_crl_number, number, 0, 0) == 1;
    X509_EXTENSION_free(keyid);
    ASN1_INTEGER_free(number);
    return fine;
}

int cert_crl_make(const struct cert_ca *ca, const char *const *serials, size_t n, char **ret,
                  struct err *err)
{
    X509_CRL *crl = X509_CRL_new();
    ASN1_TIME *from = ASN1_TIME_set(NULL, (time_t)((clock_wall_ms() - CERT_SKEW_MS) / 1000));
    BIO *bio = BIO_new(BIO_s_mem());
    bool fine = crl && from && bio && X509_CRL_set_version(crl, 1) == 1 &&
                X509_CRL_set_issuer_name(crl, X509_get_subject_name(ca->x509)) == 1 &&
                X509_CRL_set1_lastUpdate(crl, from) == 1 &&
                X509_CRL_set1_nextUpdate(crl, X509_get0_notAfter(ca->x509)) == 1 &&
                add_crl_extensions(crl, ca->x509);
    int r = 0;

    for (size_t i = 0; fine && r == 0 && i < n; i++)
        if (!revoke(crl, serials[i], from))
            r = err_set(err, -EINVAL, "\"%s\" is no serial number (hex)", serials[i]);
    fine = fine && r == 0 && X509_CRL_sort(crl) == 1 &&
           X509_CRL_sign(crl, ca->key, EVP_sha256()) > 0 && PEM_write_bio_X509_CRL(bio, crl) == 1;
    if (r < 0)
        BIO_free(bio);
    else
        r = take_pem(bio, fine, ret);
    X509_CRL_free(crl);
    ASN1_TIME_free(from);
    return r;
}

static int first_of(const char *pem, size_t len, X509 **ret, struct err *err)
{
    STACK_OF(X509) *chain = NULL;
    int r = cert_read_chain(pem, len, &chain, err);

    if (r < 0)
        return r;
    *ret = sk_X509_shift(chain);
    sk_X509_pop_free(chain, X509_free);
    return 0;
}

int cert_ca_made(const struct cert_ca *ca, const char *pem, struct err *err)
{
    X509 *x509 = NULL;
    int r = first_of(pem, strlen(pem), &x509, err);

    if (r < 0)
        return r;
    if (X509_check_ca(x509) != 0)
        r = err_set(err, -EINVAL, "is a CA's own certificate");
    else if (X509_NAME_cmp(X509_get_issuer_name(x509), X509_get_subject_name(ca->x509)) != 0 ||
             X509_verify(x509, ca->key) != 1)
        r = err_set(err, -EINVAL, "was not made by the CA");
    (void)cert_crypto_why();
    X509_free(x509);
    return r;
}

/* ---- requests ---- */

static bool ask_for(X509_REQ *request, const char *uri)
{
    GENERAL_NAMES *names = sk_GENERAL_NAME_new_null();
    STACK_OF(X509_EXTENSION) *extensions = NULL;
    bool fine = names && push(names, uri_name(uri)) &&
                X509V3_add1_i2d(&extensions, NID_subject_alt_name, names, 0, 0) == 1 &&
                X509_REQ_add_extensions(request, extensions) == 1;

    sk_GENERAL_NAME_pop_free(names, GENERAL_NAME_free);
    sk_X509_EXTENSION_pop_free(extensions, X509_EXTENSION_free);
    return fine;
}

int cert_request_make(const char *key_pem, enum cert_kind kind, const char *name, char **ret,
                      struct err *err)
{
    char uri[CERT_URI_MAX + 1];
    EVP_PKEY *key = NULL;
    X509_REQ *request;
    BIO *bio;
    int r = cert_check_name(kind, name, err);

    if (r == 0)
        r = cert_read_key(key_pem, strlen(key_pem), &key, err);
    if (r < 0)
        return r;
    uri_of(kind, name, uri);
    request = X509_REQ_new();
    bio = BIO_new(BIO_s_mem());
    r = take_pem(bio,
                 request && bio && X509_REQ_set_version(request, 0) == 1 &&
                     X509_REQ_set_pubkey(request, key) == 1 && ask_for(request, uri) &&
                     X509_REQ_sign(request, key, EVP_sha256()) > 0 &&
                     PEM_write_bio_X509_REQ(bio, request) == 1,
                 ret);
    X509_REQ_free(request);
    EVP_PKEY_free(key);
    return r;
}

/* The names of a request are read as those of a certificate: a blank one that says the same. */
static int read_names(X509_REQ *request, struct cert_identity *ret, struct err *err)
{
    STACK_OF(X509_EXTENSION) *extensions = X509_REQ_get_extensions(request);
    X509 *blank = X509_new();
    int at = X509v3_get_ext_by_NID(extensions, NID_subject_alt_name, -1);
    int r = blank ? 0 : -ENOMEM;

    if (r == 0 && at < 0)
        r = err_set(err, -EINVAL, "the request names nobody: it has no subjectAltName");
    if (r == 0 && X509_add_ext(blank, sk_X509_EXTENSION_value(extensions, at), -1) != 1)
        r = -ENOMEM;
    if (r == 0)
        r = cert_identity_read(blank, ret, err);
    X509_free(blank);
    sk_X509_EXTENSION_pop_free(extensions, X509_EXTENSION_free);
    return r;
}

static int check_key(EVP_PKEY *key, struct err *err)
{
    int kind = key ? EVP_PKEY_get_base_id(key) : EVP_PKEY_NONE;

    if (kind != EVP_PKEY_EC && kind != EVP_PKEY_RSA && kind != EVP_PKEY_ED25519)
        return err_set(err, -EINVAL, "the request's key is neither EC, RSA nor Ed25519");
    if (EVP_PKEY_get_security_bits(key) < SECURITY_BITS)
        return err_set(err, -EINVAL, "the request's key is too short");
    return 0;
}

int cert_request_read(const void *pem, size_t len, struct cert_request **ret, struct err *err)
{
    struct cert_request *request = calloc(1, sizeof *request);
    BIO *bio = len <= CERT_PEM_MAX ? BIO_new_mem_buf(pem, (int)len) : NULL;
    X509_REQ *req = bio ? PEM_read_bio_X509_REQ(bio, NULL, NULL, (void *)(uintptr_t) "") : NULL;
    int r;

    BIO_free(bio);
    if (!request)
        r = no_memory(err);
    else if (!req)
        r = err_set(err, -EINVAL, "no certificate request (PEM): %s", cert_crypto_why());
    else if (!(request->key = X509_REQ_get_pubkey(req)) || X509_REQ_verify(req, request->key) != 1)
        r = err_set(err, -EINVAL, "the request is not signed by its key");
    else
        r = check_key(request->key, err);
    if (r == 0)
        r = read_names(req, &request->identity, err);
    (void)cert_crypto_why();
    X509_REQ_free(req);
    if (r < 0)
        cert_request_free(request);
    else
        *ret = request;
    return r;
}

int cert_request_of_certificate(const char *pem, struct cert_request **ret, struct err *err)
{
    struct cert_request *request = calloc(1, sizeof *request);
    X509 *x509 = NULL;
    int r = request ? first_of(pem, strlen(pem), &x509, err) : no_memory(err);

    if (r == 0 && !(request->key = X509_get_pubkey(x509)))
        r = err_set(err, -EINVAL, "the certificate's key can not be read: %s", cert_crypto_why());
    X509_free(x509);
    if (r < 0)
        cert_request_free(request);
    else
        *ret = request;
    return r;
}

int cert_request_of_key(const char *key_pem, struct cert_request **ret, struct err *err)
{
    struct cert_request *request = calloc(1, sizeof *request);
    int r = request ? cert_read_key(key_pem, strlen(key_pem), &request->key, err) : no_memory(err);

    if (r < 0)
        cert_request_free(request);
    else
        *ret = request;
    return r;
}

void cert_request_free(struct cert_request *request)
{
    if (!request)
        return;
    EVP_PKEY_free(request->key);
    cert_identity_done(&request->identity);
    free(request);
}

const struct cert_identity *cert_request_identity(const struct cert_request *request)
{
    return &request->identity;
}

void cert_request_key_hash(const struct cert_request *request,
                           uint8_t ret[static CERT_KEY_HASH_LEN])
{
    unsigned char *der = NULL;
    int len = i2d_PUBKEY(request->key, &der);

    if (len <= 0)
        abort();
    (void)SHA256(der, (size_t)len, ret);
    OPENSSL_free(der);
}

/* ---- what there is ---- */

static void tell_issuer(const X509 *x509, char ret[static CERT_ISSUER_BUF])
{
    char line[CERT_ISSUER_BUF] = "";

    if (X509_NAME_get_text_by_NID(X509_get_issuer_name(x509), NID_commonName, line, sizeof line) <
        0)
        (void)X509_NAME_oneline(X509_get_issuer_name(x509), line, sizeof line);
    (void)text_escape(line, strlen(line), ret, CERT_ISSUER_BUF);
}

int cert_read(const char *pem, size_t len, struct cert_identity *ret, unsigned *uses,
              char issuer[CERT_ISSUER_BUF], struct err *err)
{
    X509 *x509 = NULL;
    uint32_t has;
    int r = first_of(pem, len, &x509, err);

    if (r < 0)
        return r;
    r = cert_identity_read(x509, ret, err);
    has = X509_get_extended_key_usage(x509);
    if (has == UINT32_MAX)
        has = 0;
    if (uses)
        *uses = (has & XKU_SSL_SERVER ? CERT_USE_SERVER : 0u) |
                (has & XKU_SSL_CLIENT ? CERT_USE_CLIENT : 0u);
    if (issuer)
        tell_issuer(x509, issuer);
    X509_free(x509);
    return r;
}

/* As text; NULL = a name of another kind, or no memory. */
static char *host_text(const GENERAL_NAME *name)
{
    const ASN1_STRING *string = name->type == GEN_DNS     ? name->d.dNSName
                                : name->type == GEN_IPADD ? name->d.iPAddress
                                                          : NULL;
    const unsigned char *bytes = string ? ASN1_STRING_get0_data(string) : NULL;
    int len = string ? ASN1_STRING_length(string) : 0;
    char text[INET6_ADDRSTRLEN];

    if (len <= 0)
        return NULL;
    if (name->type == GEN_DNS)
        return memchr(bytes, 0, (size_t)len) ? NULL : strndup((const char *)bytes, (size_t)len);
    if ((len != 4 && len != 16) ||
        !inet_ntop(len == 4 ? AF_INET : AF_INET6, bytes, text, sizeof text))
        return NULL;
    return strdup(text);
}

int cert_read_hosts(const char *pem, size_t len, char *ret[static CERT_HOSTS_MAX], size_t *ret_n)
{
    X509 *x509 = NULL;
    GENERAL_NAMES *names;
    size_t n = 0;
    int r = first_of(pem, len, &x509, NULL);

    if (r < 0)
        return r;
    names = X509_get_ext_d2i(x509, NID_subject_alt_name, NULL, NULL);
    for (int i = 0; i < sk_GENERAL_NAME_num(names) && n < CERT_HOSTS_MAX; i++) {
        char *text = host_text(sk_GENERAL_NAME_value(names, i));

        if (text)
            ret[n++] = text;
    }
    sk_GENERAL_NAME_pop_free(names, GENERAL_NAME_free);
    X509_free(x509);
    (void)cert_crypto_why();
    *ret_n = n;
    return 0;
}
