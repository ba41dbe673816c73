#include "common/cert_make.h"

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>
#include <openssl/pem.h>
#include <openssl/x509.h>
#include <openssl/x509v3.h>

#include "common/clock.h"

#define DAY_MS INT64_C(86400000)

struct fixture {
    char *ca_key, *ca_pem, *key;
    struct cert_ca *ca;
};

static int setup(void **state)
{
    struct fixture *f = calloc(1, sizeof *f);

    assert_non_null(f);
    assert_int_equal(cert_key_make(&f->ca_key), 0);
    assert_int_equal(cert_key_make(&f->key), 0);
    assert_int_equal(cert_ca_make("the CA", f->ca_key, 10 * DAY_MS, &f->ca_pem, NULL), 0);
    assert_int_equal(cert_ca_load(f->ca_pem, f->ca_key, &f->ca, NULL), 0);
    *state = f;
    return 0;
}

static int teardown(void **state)
{
    struct fixture *f = *state;

    cert_ca_free(f->ca);
    cert_pem_free(f->ca_key);
    cert_pem_free(f->ca_pem);
    cert_pem_free(f->key);
    free(f);
    return 0;
}

/* Issue for the fixture's key; the answer of cert_issue. */
static int issue(struct fixture *f, const struct cert_want *want, struct cert_identity *ret,
                 char **ret_pem, struct err *err)
{
    struct cert_request *request;
    int r;

    assert_int_equal(cert_request_of_key(f->key, &request, NULL), 0);
    r = cert_issue(f->ca, want, request, ret_pem, ret, err);
    cert_request_free(request);
    return r;
}

static void issued_certificate_says_what_was_wanted(void **state)
{
    static const char *const groups[] = {"physics", "R&D, all"};
    struct fixture *f = *state;
    const struct cert_want want = {
        .kind = CERT_USER, .name = "alice", .groups = groups, .n_groups = 2, .life_ms = DAY_MS};
    struct cert_identity identity, again;
    char issuer[CERT_ISSUER_BUF], *pem;
    unsigned uses;

    assert_int_equal(issue(f, &want, &identity, &pem, NULL), 0);
    assert_int_equal(cert_read(pem, strlen(pem), &again, &uses, issuer, NULL), 0);
    assert_int_equal(uses, CERT_USE_CLIENT);
    assert_string_equal(issuer, "the CA");
    assert_int_equal(again.kind, CERT_USER);
    assert_string_equal(again.name, "alice");
    assert_int_equal(again.n_groups, 2);
    assert_string_equal(again.groups[1], "R&D, all");
    assert_string_equal(again.serial, identity.serial);
    assert_in_range(again.not_after_ms, clock_wall_ms() + DAY_MS - 5000, clock_wall_ms() + DAY_MS);
    cert_identity_done(&identity);
    cert_identity_done(&again);
    free(pem);
}

static void issued_replica_serves_and_names_its_hosts(void **state)
{
    static const char *const hosts[] = {"ctl1.example.org", "192.0.2.1", "2001:db8::1"};
    struct fixture *f = *state;
    const struct cert_want want = {
        .kind = CERT_REPLICA, .name = "a", .hosts = hosts, .n_hosts = 3, .life_ms = DAY_MS};
    struct cert_identity identity, again;
    char *pem, *back[CERT_HOSTS_MAX];
    unsigned uses;
    size_t n;

    assert_int_equal(issue(f, &want, &identity, &pem, NULL), 0);
    assert_int_equal(cert_read(pem, strlen(pem), &again, &uses, NULL, NULL), 0);
    assert_int_equal(uses, CERT_USE_SERVER | CERT_USE_CLIENT);
    assert_int_equal(again.kind, CERT_REPLICA);
    assert_int_equal(cert_read_hosts(pem, strlen(pem), back, &n), 0);
    assert_int_equal(n, 3);
    for (size_t i = 0; i < n; i++) {
        assert_string_equal(back[i], hosts[i]);
        free(back[i]);
    }
    cert_identity_done(&identity);
    cert_identity_done(&again);
    free(pem);
}

static void issuing_refuses_what_would_not_be_read_back(void **state)
{
    static const char *const groups[] = {""}, *const hosts[] = {"a b"};
    static const struct cert_want bad[] = {
        {.kind = CERT_USER, .name = "", .life_ms = DAY_MS},
        {.kind = CERT_USER, .name = "a b", .life_ms = DAY_MS},
        {.kind = CERT_NODE, .name = "a/b", .life_ms = DAY_MS},
        {.kind = CERT_NODE, .name = "n1", .groups = groups, .n_groups = 1, .life_ms = DAY_MS},
        {.kind = CERT_USER, .name = "alice", .groups = groups, .n_groups = 1, .life_ms = DAY_MS},
        {.kind = CERT_NODE, .name = "n1", .hosts = hosts, .n_hosts = 1, .life_ms = DAY_MS},
        {.kind = CERT_REPLICA, .name = "a", .hosts = hosts, .n_hosts = 1, .life_ms = DAY_MS},
        {.kind = CERT_USER, .name = "alice", .life_ms = 11 * DAY_MS},
    };
    struct fixture *f = *state;

    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        struct err err = {{0}};
        char *pem = NULL;

        assert_int_equal(issue(f, &bad[i], NULL, &pem, &err), -EINVAL);
        assert_string_not_equal(err.text, "");
        assert_null(pem);
    }
}

static void life_that_may_be_shorter_ends_with_the_ca(void **state)
{
    struct fixture *f = *state;
    struct cert_want want = {.kind = CERT_NODE, .name = "n1", .life_ms = 11 * DAY_MS};
    struct cert_identity identity;
    char *pem;

    assert_int_equal(issue(f, &want, &identity, &pem, NULL), -EINVAL);
    want.or_shorter = true;
    assert_int_equal(issue(f, &want, &identity, &pem, NULL), 0);
    assert_int_equal(identity.not_after_ms, cert_ca_until_ms(f->ca));
    cert_identity_done(&identity);
    free(pem);
    want.life_ms = DAY_MS;
    assert_int_equal(issue(f, &want, &identity, &pem, NULL), 0);
    assert_in_range(identity.not_after_ms, clock_wall_ms() + DAY_MS - 5000,
                    clock_wall_ms() + DAY_MS);
    cert_identity_done(&identity);
    free(pem);
}

static void ca_with_another_key_is_refused(void **state)
{
    struct fixture *f = *state;
    struct cert_ca *ca;
    struct err err = {{0}};

    assert_int_equal(cert_ca_load(f->ca_pem, f->key, &ca, &err), -EINVAL);
    assert_string_equal(err.text, "the key is not the CA certificate's");
    assert_int_equal(cert_ca_load("nothing", f->key, &ca, &err), -EINVAL);
}

/* ---- requests ---- */

static void request_says_who_and_its_key(void **state)
{
    struct fixture *f = *state;
    struct cert_request *request, *own;
    uint8_t a[CERT_KEY_HASH_LEN], b[CERT_KEY_HASH_LEN];
    char *pem;

    assert_int_equal(cert_request_make(f->key, CERT_NODE, "n1", &pem, NULL), 0);
    assert_int_equal(cert_request_read(pem, strlen(pem), &request, NULL), 0);
    assert_int_equal(cert_request_identity(request)->kind, CERT_NODE);
    assert_string_equal(cert_request_identity(request)->name, "n1");
    assert_int_equal(cert_request_of_key(f->key, &own, NULL), 0);
    cert_request_key_hash(request, a);
    cert_request_key_hash(own, b);
    assert_memory_equal(a, b, sizeof a);
    cert_request_free(request);
    cert_request_free(own);
    free(pem);
}

/* A request with this CN and key, without a SAN. */
static char *odd_request(EVP_PKEY *key, EVP_PKEY *signer)
{
    X509_REQ *request = X509_REQ_new();
    BIO *bio = BIO_new(BIO_s_mem());
    char *bytes, *copy;
    long len;

    assert_int_equal(X509_NAME_add_entry_by_txt(X509_REQ_get_subject_name(request), "CN",
                                                MBSTRING_ASC, (const unsigned char *)"root", -1, -1,
                                                0),
                     1);
    assert_int_equal(X509_REQ_set_pubkey(request, key), 1);
    assert_true(X509_REQ_sign(request, signer, EVP_sha256()) > 0);
    assert_int_equal(PEM_write_bio_X509_REQ(bio, request), 1);
    len = BIO_get_mem_data(bio, &bytes);
    copy = mem_dup(bytes, (size_t)len);
    BIO_free(bio);
    X509_REQ_free(request);
    return copy;
}

static void expect_bad_request(const char *pem, size_t len, const char *why)
{
    struct cert_request *request;
    struct err err = {{0}};

    assert_int_equal(cert_request_read(pem, len, &request, &err), -EINVAL);
    if (!strstr(err.text, why))
        fail_msg("\"%s\" does not say \"%s\"", err.text, why);
}

static void request_that_proves_nothing_is_refused(void **state)
{
    EVP_PKEY *key = EVP_EC_gen("P-256"), *other = EVP_EC_gen("P-256"), *small = EVP_RSA_gen(1024);
    char *pem;

    (void)state;
    expect_bad_request("", 0, "no certificate request");
    expect_bad_request("rubbish", 7, "no certificate request");
    pem = odd_request(key, other);
    expect_bad_request(pem, strlen(pem), "is not signed by its key");
    free(pem);
    pem = odd_request(small, small);
    expect_bad_request(pem, strlen(pem), "too short");
    free(pem);
    pem = odd_request(key, key);
    expect_bad_request(pem, strlen(pem), "has no subjectAltName");
    free(pem);
    EVP_PKEY_free(key);
    EVP_PKEY_free(other);
    EVP_PKEY_free(small);
}

static void list_takes_serials_and_nothing_else(void **state)
{
    static const char *const good[] = {"67134b16c00e69745387735e379c01e0", "01"};
    static const char *const bad[] = {"xyz"}, *const none[] = {""};
    struct fixture *f = *state;
    char *pem;

    assert_int_equal(cert_crl_make(f->ca, good, 2, &pem, NULL), 0);
    free(pem);
    assert_int_equal(cert_crl_make(f->ca, NULL, 0, &pem, NULL), 0);
    free(pem);
    assert_int_equal(cert_crl_make(f->ca, bad, 1, &pem, NULL), -EINVAL);
    assert_int_equal(cert_crl_make(f->ca, none, 1, &pem, NULL), -EINVAL);
}

/* Two CAs may have one name: OpenSSL knows their lists apart by the key that they name. */
static void list_names_the_key_of_its_ca(void **state)
{
    struct fixture *f = *state;
    char *pem;
    BIO *bio;
    X509 *x509;
    X509_CRL *crl;
    AUTHORITY_KEYID *keyid;
    ASN1_INTEGER *number;

    assert_int_equal(cert_crl_make(f->ca, NULL, 0, &pem, NULL), 0);
    bio = BIO_new_mem_buf(pem, -1);
    crl = PEM_read_bio_X509_CRL(bio, NULL, NULL, NULL);
    BIO_free(bio);
    bio = BIO_new_mem_buf(f->ca_pem, -1);
    x509 = PEM_read_bio_X509(bio, NULL, NULL, NULL);
    BIO_free(bio);
    keyid = X509_CRL_get_ext_d2i(crl, NID_authority_key_identifier, NULL, NULL);
    number = X509_CRL_get_ext_d2i(crl, NID_crl_number, NULL, NULL);
    assert_non_null(keyid);
    assert_non_null(keyid->keyid);
    assert_int_equal(ASN1_OCTET_STRING_cmp(keyid->keyid, X509_get0_subject_key_id(x509)), 0);
    assert_non_null(number);
    AUTHORITY_KEYID_free(keyid);
    ASN1_INTEGER_free(number);
    X509_free(x509);
    X509_CRL_free(crl);
    free(pem);
}

int main(void)
{
#define T(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
    const struct CMUnitTest tests[] = {
        T(issued_certificate_says_what_was_wanted),
        T(issued_replica_serves_and_names_its_hosts),
        T(issuing_refuses_what_would_not_be_read_back),
        T(life_that_may_be_shorter_ends_with_the_ca),
        T(ca_with_another_key_is_refused),
        T(request_says_who_and_its_key),
        T(request_that_proves_nothing_is_refused),
        T(list_takes_serials_and_nothing_else),
        T(list_names_the_key_of_its_ca),
    };
    return cmocka_run_group_tests_name("cert_make", tests, NULL, NULL);
}
