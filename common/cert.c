#include "common/cert.h"

#include <errno.h>
#include <fcntl.h>
#include <openssl/err.h>
#include <openssl/pem.h>
#include <openssl/x509v3.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "common/cert_x509.h"
#include "common/fsutil.h"
#include "common/mem.h"
#include "common/text.h"

#define FILE_BYTES_MAX   (4u << 20)
#define CERTIFICATES_MAX 64
#define SCHEME           "xce:"

/* ---- names ---- */

const char *cert_kind_name(enum cert_kind kind)
{
    switch (kind) {
    case CERT_USER:
        return "user";
    case CERT_REPLICA:
        return "replica";
    case CERT_NODE:
        return "node";
    }
    return "nobody";
}

char *cert_who(const struct cert_identity *identity, char ret[static CERT_WHO_BUF])
{
    (void)snprintf(ret, CERT_WHO_BUF, "%s %s", cert_kind_name(identity->kind), identity->name);
    return ret;
}

int cert_check_name(enum cert_kind kind, const char *name, struct err *err)
{
    return kind == CERT_USER ? text_check_owner(name, strlen(name), err)
                             : text_check_node(name, strlen(name), err);
}

void cert_identity_done(struct cert_identity *identity)
{
    for (size_t i = 0; i < identity->n_groups; i++)
        free(identity->groups[i]);
    free(identity->groups);
    memset(identity, 0, sizeof *identity);
}

int cert_identity_copy(const struct cert_identity *identity, struct cert_identity *ret)
{
    *ret = *identity;
    ret->n_groups = 0;
    ret->groups = NULL;
    if (identity->n_groups == 0)
        return 0;
    ret->groups = calloc(identity->n_groups, sizeof *ret->groups);
    for (size_t i = 0; ret->groups && i < identity->n_groups; i++) {
        ret->groups[i] = strdup(identity->groups[i]);
        if (!ret->groups[i])
            break;
        ret->n_groups++;
    }
    if (ret->n_groups == identity->n_groups)
        return 0;
    cert_identity_done(ret);
    return -ENOMEM;
}

/* ---- the holder ---- */

/* Bytes of a string of the certificate as text. 0; -EINVAL. */
static int take_text(const char *what, const ASN1_STRING *string, char *ret, size_t size,
                     struct err *err)
{
    const unsigned char *bytes = ASN1_STRING_get0_data(string);
    int len = ASN1_STRING_length(string), type = ASN1_STRING_type(string), r;

    if (type != V_ASN1_UTF8STRING && type != V_ASN1_PRINTABLESTRING && type != V_ASN1_IA5STRING)
        return err_set(err, -EINVAL,
                       "%s: is of an ASN.1 type other than UTF8String, "
                       "PrintableString, IA5String",
                       what);
    if (len <= 0)
        return err_set(err, -EINVAL, "%s: is empty", what);
    r = text_require(what, bytes, (size_t)len, size - 1, err);
    if (r < 0)
        return r;
    memcpy(ret, bytes, (size_t)len);
    ret[len] = '\0';
    return 0;
}

static int read_cn(const X509_NAME *subject, struct cert_identity *ret, struct err *err)
{
    int at = X509_NAME_get_index_by_NID(subject, NID_commonName, -1), r;

    if (at < 0)
        return err_set(err, -EINVAL, "the subject has no CN, and there is no xce:// name");
    if (X509_NAME_get_index_by_NID(subject, NID_commonName, at) >= 0)
        return err_set(err, -EINVAL, "the subject has more than one CN");
    r = take_text("CN", X509_NAME_ENTRY_get_data(X509_NAME_get_entry(subject, at)), ret->name,
                  sizeof ret->name, err);
    if (r == 0 && (r = cert_check_name(CERT_USER, ret->name, err)) < 0)
        (void)err_prefix(err, r, "CN");
    return r;
}

static bool has_group(const struct cert_identity *identity, const char *group)
{
    for (size_t i = 0; i < identity->n_groups; i++)
        if (strcmp(identity->groups[i], group) == 0)
            return true;
    return false;
}

static int add_group(const ASN1_STRING *string, struct cert_identity *ret, struct err *err)
{
    char group[CERT_GROUP_MAX + 1];
    int r = take_text("O", string, group, sizeof group, err);

    if (r < 0 || has_group(ret, group))
        return r;
    if (ret->n_groups == CERT_GROUPS_MAX)
        return err_set(err, -EINVAL, "the subject has more than %d O", CERT_GROUPS_MAX);
    ret->groups[ret->n_groups] = strdup(group);
    if (!ret->groups[ret->n_groups])
        return -ENOMEM;
    ret->n_groups++;
    return 0;
}

static int read_groups(const X509_NAME *subject, struct cert_identity *ret, struct err *err)
{
    int at = X509_NAME_get_index_by_NID(subject, NID_organizationName, -1), r = 0;

    if (at < 0)
        return 0;
    ret->groups = calloc(CERT_GROUPS_MAX, sizeof *ret->groups);
    if (!ret->groups)
        return -ENOMEM;
    for (; r == 0 && at >= 0; at = X509_NAME_get_index_by_NID(subject, NID_organizationName, at))
        r = add_group(X509_NAME_ENTRY_get_data(X509_NAME_get_entry(subject, at)), ret, err);
    return r;
}

static int take_uri(const char *uri, struct cert_identity *ret, struct err *err)
{
    const char *name;
    int r;

    if (ret->kind)
        return err_set(err, -EINVAL, "more than one xce:// name");
    if (strncmp(uri, CERT_URI_REPLICA, strlen(CERT_URI_REPLICA)) == 0) {
        ret->kind = CERT_REPLICA;
        name = uri + strlen(CERT_URI_REPLICA);
    } else if (strncmp(uri, CERT_URI_NODE, strlen(CERT_URI_NODE)) == 0) {
        ret->kind = CERT_NODE;
        name = uri + strlen(CERT_URI_NODE);
    } else {
        return err_set(err, -EINVAL, "%s: neither " CERT_URI_REPLICA "ID nor " CERT_URI_NODE "NAME",
                       uri);
    }
    r = cert_check_name(ret->kind, name, err);
    if (r < 0)
        return err_prefix(err, r, "%s", uri);
    (void)snprintf(ret->name, sizeof ret->name, "%s", name);
    return 0;
}

/* One URI of the SAN; foreign schemes are none of our business, bytes that are no text are. */
static int read_uri(const ASN1_STRING *string, struct cert_identity *ret, struct err *err)
{
    char uri[CERT_URI_MAX + 1];
    const unsigned char *bytes = ASN1_STRING_get0_data(string);
    size_t len = (size_t)ASN1_STRING_length(string);

    if (memchr(bytes, 0, len))
        return err_set(err, -EINVAL, "a URI holds a NUL byte");
    if (len < strlen(SCHEME) || strncasecmp((const char *)bytes, SCHEME, strlen(SCHEME)) != 0)
        return 0;
    if (text_require("URI", bytes, len, sizeof uri - 1, err) < 0)
        return -EINVAL;
    memcpy(uri, bytes, len);
    uri[len] = '\0';
    return take_uri(uri, ret, err);
}

static int read_san(X509 *x509, struct cert_identity *ret, struct err *err)
{
    int critical, r = 0;
    GENERAL_NAMES *names = X509_get_ext_d2i(x509, NID_subject_alt_name, &critical, NULL);

    if (!names) {
        (void)cert_crypto_why();
        return critical == -1 ? 0 : err_set(err, -EINVAL, "the subjectAltName can not be read");
    }
    for (int i = 0; r == 0 && i < sk_GENERAL_NAME_num(names); i++) {
        const GENERAL_NAME *name = sk_GENERAL_NAME_value(names, i);

        if (name->type == GEN_URI)
            r = read_uri(name->d.uniformResourceIdentifier, ret, err);
    }
    GENERAL_NAMES_free(names);
    return r;
}

static void read_serial(const X509 *x509, struct cert_identity *ret)
{
    const ASN1_INTEGER *serial = X509_get0_serialNumber(x509);
    const unsigned char *bytes = ASN1_STRING_get0_data(serial);
    int len = ASN1_STRING_length(serial);

    for (int i = 0; i < len && 2 * i + 2 < CERT_SERIAL_BUF; i++)
        (void)snprintf(ret->serial + 2 * i, 3, "%02x", bytes[i]);
}

int64_t cert_time_ms(const ASN1_TIME *time)
{
    struct tm tm;

    if (!time || ASN1_TIME_to_tm(time, &tm) != 1)
        return INT64_MIN;
    return (int64_t)timegm(&tm) * 1000;
}

int cert_identity_read(X509 *x509, struct cert_identity *ret, struct err *err)
{
    const X509_NAME *subject = X509_get_subject_name(x509);
    struct cert_identity identity = {0};
    int r = read_san(x509, &identity, err);

    if (r == 0 && !identity.kind) {
        identity.kind = CERT_USER;
        r = read_cn(subject, &identity, err);
        if (r == 0)
            r = read_groups(subject, &identity, err);
    }
    if (r < 0) {
        cert_identity_done(&identity);
        return r;
    }
    read_serial(x509, &identity);
    identity.not_before_ms = cert_time_ms(X509_get0_notBefore(x509));
    identity.not_after_ms = cert_time_ms(X509_get0_notAfter(x509));
    *ret = identity;
    return 0;
}

/* ---- PEM ---- */

const char *cert_crypto_why(void)
{
    unsigned long code = ERR_peek_last_error();
    const char *why = code ? ERR_reason_error_string(code) : NULL;

    ERR_clear_error();
    return why ? why : "no reason given";
}

/* A key with a passphrase is refused, not asked for. */
static int no_passphrase(char *ret, int size, int writing, void *arg)
{
    (void)ret;
    (void)size;
    (void)writing;
    (void)arg;
    return -1;
}

/* Whether reading stopped because there is no further object. Empties the queue. */
static bool at_end(void)
{
    unsigned long code = ERR_peek_last_error();
    bool end = ERR_GET_LIB(code) == ERR_LIB_PEM && ERR_GET_REASON(code) == PEM_R_NO_START_LINE;

    if (end)
        ERR_clear_error();
    return end;
}

int cert_read_chain(const char *pem, size_t len, STACK_OF(X509) * *ret, struct err *err)
{
    BIO *bio = BIO_new_mem_buf(pem, (int)len);
    STACK_OF(X509) *chain = sk_X509_new_null();
    X509 *x509;
    int r = bio && chain ? 0 : -ENOMEM;

    while (r == 0 && (x509 = PEM_read_bio_X509(bio, NULL, no_passphrase, NULL))) {
        if (sk_X509_num(chain) == CERTIFICATES_MAX)
            r = err_set(err, -EINVAL, "holds more than %d certificates", CERTIFICATES_MAX);
        else if (sk_X509_push(chain, x509) > 0)
            continue;
        else
            r = -ENOMEM;
        X509_free(x509);
    }
    if (r == 0 && !at_end())
        r = err_set(err, -EINVAL, "certificate %d can not be read: %s", sk_X509_num(chain) + 1,
                    cert_crypto_why());
    if (r == 0 && sk_X509_num(chain) == 0)
        r = err_set(err, -EINVAL, "holds no certificate (PEM)");
    BIO_free(bio);
    if (r == 0)
        *ret = chain;
    else
        sk_X509_pop_free(chain, X509_free);
    return r;
}

int cert_read_crls(const char *pem, size_t len, STACK_OF(X509_CRL) * *ret, struct err *err)
{
    BIO *bio = BIO_new_mem_buf(pem, (int)len);
    STACK_OF(X509_CRL) *crls = sk_X509_CRL_new_null();
    X509_CRL *crl;
    int r = bio && crls ? 0 : -ENOMEM;

    while (r == 0 && (crl = PEM_read_bio_X509_CRL(bio, NULL, no_passphrase, NULL))) {
        if (sk_X509_CRL_push(crls, crl) > 0)
            continue;
        X509_CRL_free(crl);
        r = -ENOMEM;
    }
    if (r == 0 && !at_end())
        r = err_set(err, -EINVAL, "revocation list %d can not be read: %s",
                    sk_X509_CRL_num(crls) + 1, cert_crypto_why());
    if (r == 0 && sk_X509_CRL_num(crls) == 0)
        r = err_set(err, -EINVAL, "holds no revocation list (PEM)");
    BIO_free(bio);
    if (r == 0)
        *ret = crls;
    else
        sk_X509_CRL_pop_free(crls, X509_CRL_free);
    return r;
}

int cert_read_key(const char *pem, size_t len, EVP_PKEY **ret, struct err *err)
{
    BIO *bio = BIO_new_mem_buf(pem, (int)len);
    EVP_PKEY *key = bio ? PEM_read_bio_PrivateKey(bio, NULL, no_passphrase, NULL) : NULL;

    BIO_free(bio);
    if (!key)
        return err_set(err, -EINVAL, "holds no private key without a passphrase (PEM): %s",
                       cert_crypto_why());
    *ret = key;
    return 0;
}

/* ---- files ---- */

int cert_read_file(const char *path, bool secret, char **ret, size_t *ret_len, struct err *err)
{
    auto_close int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    struct stat st;
    int r;

    if (fd < 0 || fstat(fd, &st) < 0)
        return err_set(err, errno == ENOMEM ? -ENOMEM : -EINVAL, "%s: %s", path, err_text(errno));
    if (secret && (st.st_mode & 037))
        return err_set(err, -EINVAL,
                       "%s: mode %03o lets others than its owner and group read the key, or its "
                       "group write it",
                       path, st.st_mode & 0777u);
    r = fs_read_fd(fd, FILE_BYTES_MAX, ret, ret_len);
    if (r < 0)
        return err_set(err, r == -ENOMEM ? -ENOMEM : -EINVAL, "%s: %s", path, err_text(r));
    return 0;
}

void cert_forget(char *bytes, size_t len)
{
    if (bytes)
        explicit_bzero(bytes, len);
    free(bytes);
}
