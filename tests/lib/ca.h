/* A certificate authority that lives as long as the test: right certificates, and wrong ones of every kind. */
#ifndef XCE_TESTS_LIB_CA_H
#define XCE_TESTS_LIB_CA_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/net/tls_keys.h"

struct ca;

/* Zero is the usual. */
struct ca_spec {
    const char *cn;
    size_t cn_len;             /* 0 = strlen: for what a string can not hold */
    int cn_type;               /* V_ASN1_...; 0 = UTF8String */
    const char *cn2;           /* a second CN */
    const char *const *groups; /* O's; ends with NULL */
    const char *uri, *uri2;    /* SAN URIs */
    size_t uri_len;            /* 0 = strlen */
    const char
        *use; /* "clientAuth", "serverAuth,clientAuth"; NULL = both, "" = no such extension */
    int64_t from_s, until_s; /* counted from now; until 0 = an hour */
};

/* Files lie in a folder of tmp.h. Fails the program if anything does. */
struct ca *ca_new(const char *name);
/* Another CA under it: certificates of it need it in the chain. */
struct ca *ca_below(struct ca *above, const char *name);
void ca_free(struct ca *ca);

/* Its own certificate (of the root, for an intermediate). */
const char *ca_file(const struct ca *ca);

/* Its own certificate once more, of the same name and key. */
const char *ca_again(struct ca *ca);

/* Make certificate (with intermediates) and key; crl as ca_crl gave it last, NULL before. Paths live until the process
 * ends. name: of the files, made anew each time it is used. */
struct tls_files ca_issue(struct ca *ca, const char *name, const struct ca_spec *spec);
/* The usual ones. */
struct tls_files ca_user(struct ca *ca, const char *name);
struct tls_files ca_node(struct ca *ca, const char *name);
struct tls_files ca_replica(struct ca *ca, const char *name);

/* Put the certificate in the files on the list of the next ca_crl. */
void ca_revoke(struct ca *ca, const struct tls_files *files);
/* Write the list (replaces the file whole), good from from_s to until_s from now (0 = an hour). Returns its path. */
const char *ca_crl(struct ca *ca, int64_t from_s, int64_t until_s);

#endif
