#include "tests/lib/ca.h"

#include <openssl/err.h>
#include <openssl/evp.h>
#include <openssl/pem.h>
#include <openssl/x509.h>
#include <openssl/x509v3.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "common/fsutil.h"
#include "tests/lib/tmp.h"

enum {
    REVOKED_MAX = 16,
    HOUR_S = 3600,
};

struct ca {
    struct ca *above;
    const char *dir, *file, *crl;
    EVP_PKEY *key;
    X509 *own;
    long serial, crl_number;
    long revoked[REVOKED_MAX];
    size_t n_revoked;
};

static void must(bool holds, const char *what)
{
    if (holds)
        return;
    fprintf(stderr, "tests/lib/ca: %s\n", what);
    ERR_print_errors_fp(stderr);
    abort();
}

static X509 *blank(long serial, int64_t from_s, int64_t until_s)
{
    X509 *x509 = X509_new();

    must(x509 != NULL && X509_set_version(x509, 2) == 1, "X509_new");
    must(ASN1_INTEGER_set(X509_get_serialNumber(x509), serial) == 1, "serial");
    must(X509_time_adj_ex(X509_getm_notBefore(x509), 0, from_s ? from_s : -60, NULL) != NULL,
         "date");
    must(X509_time_adj_ex(X509_getm_notAfter(x509), 0, until_s ? until_s : HOUR_S, NULL) != NULL,
         "date");
    return x509;
}

static void extend(X509 *x509, X509 *issuer, int nid, const char *value)
{
    X509V3_CTX context;
    X509_EXTENSION *extension;

    X509V3_set_ctx(&context, issuer, x509, NULL, NULL, 0);
    extension = X509V3_EXT_conf_nid(NULL, &context, nid, value);
    must(extension && X509_add_ext(x509, extension, -1) == 1, value);
    X509_EXTENSION_free(extension);
}

static void name(X509_NAME *subject, const char *field, int type, const char *bytes, size_t len)
{
    must(X509_NAME_add_entry_by_txt(subject, field, type ? type : V_ASN1_UTF8STRING,
                                    (const unsigned char *)bytes, (int)len, -1, 0) == 1,
         field);
}

static const char *path_of(const struct ca *ca, const char *file, const char *end)
{
    return tmp_path(ca->dir, "%s.%s", file, end);
}

/* Whole or not at all, as an administrator's tools would. */
static void write_pem(const char *path, BIO *bio, mode_t mode)
{
    char *bytes;
    long len = BIO_get_mem_data(bio, &bytes);

    must(fs_write_file(-100, path, bytes, (size_t)len, mode) == 0, path);
    BIO_free(bio);
}

static struct ca *ca_make(struct ca *above, const char *cn)
{
    struct ca *ca = calloc(1, sizeof *ca);
    BIO *bio = BIO_new(BIO_s_mem());

    must(ca && bio, "memory");
    ca->above = above;
    ca->dir = tmp_dir();
    ca->key = EVP_EC_gen("P-256");
    must(ca->key != NULL, "key");
    ca->own = blank(above ? ++above->serial : 1, 0, 24L * HOUR_S);
    ca->serial = 100;
    name(X509_get_subject_name(ca->own), "CN", 0, cn, strlen(cn));
    must(X509_set_issuer_name(ca->own, X509_get_subject_name(above ? above->own : ca->own)) == 1 &&
             X509_set_pubkey(ca->own, ca->key) == 1,
         "issuer");
    extend(ca->own, above ? above->own : ca->own, NID_basic_constraints, "critical,CA:TRUE");
    extend(ca->own, above ? above->own : ca->own, NID_key_usage, "critical,keyCertSign,cRLSign");
    extend(ca->own, above ? above->own : ca->own, NID_subject_key_identifier, "hash");
    must(X509_sign(ca->own, above ? above->key : ca->key, EVP_sha256()) > 0, "sign");
    ca->file = path_of(ca, "ca", "pem");
    must(PEM_write_bio_X509(bio, ca->own) == 1, "pem");
    write_pem(ca->file, bio, 0644);
    return ca;
}

struct ca *ca_new(const char *cn)
{
    return ca_make(NULL, cn);
}

struct ca *ca_below(struct ca *above, const char *cn)
{
    return ca_make(above, cn);
}

void ca_free(struct ca *ca)
{
    EVP_PKEY_free(ca->key);
    X509_free(ca->own);
    free(ca);
}

const char *ca_file(const struct ca *ca)
{
    return ca->above ? ca_file(ca->above) : ca->file;
}

const char *ca_again(struct ca *ca)
{
    X509 *again = X509_dup(ca->own);
    BIO *bio = BIO_new(BIO_s_mem());
    const char *path = path_of(ca, "again", "pem");

    must(again && bio && ASN1_INTEGER_set(X509_get_serialNumber(again), ++ca->serial) == 1 &&
             X509_sign(again, ca->above ? ca->above->key : ca->key, EVP_sha256()) > 0 &&
             PEM_write_bio_X509(bio, again) == 1,
         "again");
    write_pem(path, bio, 0644);
    X509_free(again);
    return path;
}

static void add_uri(GENERAL_NAMES *names, const char *uri, size_t len)
{
    GENERAL_NAME *general = GENERAL_NAME_new();
    ASN1_IA5STRING *string = ASN1_IA5STRING_new();

    must(general && string && ASN1_STRING_set(string, uri, (int)len) == 1, "uri");
    GENERAL_NAME_set0_value(general, GEN_URI, string);
    must(sk_GENERAL_NAME_push(names, general) > 0, "uri");
}

static void add_san(X509 *x509, const struct ca_spec *spec)
{
    GENERAL_NAMES *names = sk_GENERAL_NAME_new_null();

    if (spec->uri)
        add_uri(names, spec->uri, spec->uri_len ? spec->uri_len : strlen(spec->uri));
    if (spec->uri2)
        add_uri(names, spec->uri2, strlen(spec->uri2));
    if (spec->uri || spec->uri2)
        must(X509_add1_ext_i2d(x509, NID_subject_alt_name, names, 0, 0) == 1, "san");
    sk_GENERAL_NAME_pop_free(names, GENERAL_NAME_free);
}

static X509 *certificate(struct ca *ca, const struct ca_spec *spec, EVP_PKEY *key)
{
    X509 *x509 = blank(++ca->serial, spec->from_s, spec->until_s);
    X509_NAME *subject = X509_get_subject_name(x509);

    if (spec->cn)
        name(subject, "CN", spec->cn_type, spec->cn,
             spec->cn_len ? spec->cn_len : strlen(spec->cn));
    if (spec->cn2)
        name(subject, "CN", 0, spec->cn2, strlen(spec->cn2));
    for (size_t i = 0; spec->groups && spec->groups[i]; i++)
        name(subject, "O", 0, spec->groups[i], strlen(spec->groups[i]));
    must(X509_set_issuer_name(x509, X509_get_subject_name(ca->own)) == 1 &&
             X509_set_pubkey(x509, key) == 1,
         "issuer");
    extend(x509, ca->own, NID_basic_constraints, "critical,CA:FALSE");
    if (!spec->use || spec->use[0])
        extend(x509, ca->own, NID_ext_key_usage, spec->use ? spec->use : "serverAuth,clientAuth");
    add_san(x509, spec);
    must(X509_sign(x509, ca->key, EVP_sha256()) > 0, "sign");
    return x509;
}

struct tls_files ca_issue(struct ca *ca, const char *file, const struct ca_spec *spec)
{
    EVP_PKEY *key = EVP_EC_gen("P-256");
    X509 *x509 = certificate(ca, spec, key);
    BIO *bio = BIO_new(BIO_s_mem());
    struct tls_files files = {.certificate = path_of(ca, file, "pem"),
                              .key = path_of(ca, file, "key"),
                              .ca = ca_file(ca),
                              .crl = ca->crl};

    must(PEM_write_bio_X509(bio, x509) == 1, "pem");
    for (const struct ca *at = ca; at->above; at = at->above)
        must(PEM_write_bio_X509(bio, at->own) == 1, "pem");
    write_pem(files.certificate, bio, 0644);
    bio = BIO_new(BIO_s_mem());
    must(PEM_write_bio_PrivateKey(bio, key, NULL, NULL, 0, NULL, NULL) == 1, "pem");
    write_pem(files.key, bio, 0600);
    X509_free(x509);
    EVP_PKEY_free(key);
    return files;
}

struct tls_files ca_user(struct ca *ca, const char *user)
{
    return ca_issue(ca, user, &(struct ca_spec){.cn = user, .use = "clientAuth"});
}

struct tls_files ca_node(struct ca *ca, const char *node)
{
    char uri[100];

    (void)snprintf(uri, sizeof uri, "xce://node/%s", node);
    return ca_issue(ca, node, &(struct ca_spec){.cn = "any", .uri = uri, .use = "clientAuth"});
}

struct tls_files ca_replica(struct ca *ca, const char *id)
{
    char uri[100];

    (void)snprintf(uri, sizeof uri, "xce://replica/%s", id);
    return ca_issue(ca, id, &(struct ca_spec){.cn = "any", .uri = uri});
}

void ca_revoke(struct ca *ca, const struct tls_files *files)
{
    FILE *f = fopen(files->certificate, "r");
    X509 *x509 = f ? PEM_read_X509(f, NULL, NULL, NULL) : NULL;

    must(x509 && ca->n_revoked < REVOKED_MAX, "revoke");
    ca->revoked[ca->n_revoked++] = ASN1_INTEGER_get(X509_get0_serialNumber(x509));
    X509_free(x509);
    (void)fclose(f);
}

static void add_revoked(X509_CRL *crl, long serial, const ASN1_TIME *when)
{
    X509_REVOKED *revoked = X509_REVOKED_new();
    ASN1_INTEGER *number = ASN1_INTEGER_new();

    must(revoked && number && ASN1_INTEGER_set(number, serial) == 1 &&
             X509_REVOKED_set_serialNumber(revoked, number) == 1 &&
             X509_REVOKED_set_revocationDate(revoked, (ASN1_TIME *)(uintptr_t)when) == 1 &&
             X509_CRL_add0_revoked(crl, revoked) == 1,
         "revoked");
    ASN1_INTEGER_free(number);
}

const char *ca_crl(struct ca *ca, int64_t from_s, int64_t until_s)
{
    X509_CRL *crl = X509_CRL_new();
    ASN1_TIME *from = X509_time_adj_ex(NULL, 0, from_s ? from_s : -60, NULL);
    ASN1_TIME *until = X509_time_adj_ex(NULL, 0, until_s ? until_s : HOUR_S, NULL);
    BIO *bio = BIO_new(BIO_s_mem());

    must(crl && from && until && X509_CRL_set_version(crl, 1) == 1 &&
             X509_CRL_set_issuer_name(crl, X509_get_subject_name(ca->own)) == 1 &&
             X509_CRL_set1_lastUpdate(crl, from) == 1 && X509_CRL_set1_nextUpdate(crl, until) == 1,
         "crl");
    for (size_t i = 0; i < ca->n_revoked; i++)
        add_revoked(crl, ca->revoked[i], from);
    must(X509_CRL_sort(crl) == 1 && X509_CRL_sign(crl, ca->key, EVP_sha256()) > 0, "sign");
    must(PEM_write_bio_X509_CRL(bio, crl) == 1, "pem");
    ca->crl = path_of(ca, "crl", "pem");
    write_pem(ca->crl, bio, 0644);
    X509_CRL_free(crl);
    ASN1_TIME_free(from);
    ASN1_TIME_free(until);
    return ca->crl;
}
