/* Making certificates: keys, requests, a small CA and its revocation list. Bytes in, bytes out (PEM, NUL behind); files are
 * the caller's. Keys are P-256; certificates bear what common/cert.h reads: a user's CN and O, a machine's SAN URI, and the
 * extended key usage of its kind. Wall clock. Any thread, one at a time per object. */
#ifndef XCE_COMMON_CERT_MAKE_H
#define XCE_COMMON_CERT_MAKE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/cert.h"
#include "common/err.h"
#include "common/mem.h"

struct cert_ca;
struct cert_request;

#define CERT_HOSTS_MAX    16
#define CERT_PEM_MAX      (64 * 1024)
#define CERT_KEY_HASH_LEN 32
/* Clocks of a cluster differ a little: a certificate is good from so long before it is made. */
#define CERT_SKEW_MS 300000

/* Zeroes and frees; NULL is fine. */
void cert_pem_free(char *pem);
AUTO_DEFINE_PTR(char, cert_pem_free);

/* Read a PEM file whole. secret: refuse one that others than owner and group can read, or group or others write.
 * 0; -EINVAL with err naming path; -ENOMEM. */
int cert_read_pem(const char *path, bool secret, char **ret, struct err *err);

/* A new private key. 0; -ENOMEM. */
int cert_key_make(char **ret_pem);

/* ---- a CA ---- */

/* A self-signed certificate for the key. name: its CN, text of 1..64 bytes. 0; -EINVAL with err, -ENOMEM. */
int cert_ca_make(const char *name, const char *key_pem, int64_t life_ms, char **ret_pem,
                 struct err *err);
/* Its first certificate and its key. 0; -EINVAL with err, -ENOMEM. */
int cert_ca_load(const char *pem, const char *key_pem, struct cert_ca **ret, struct err *err);
void cert_ca_free(struct cert_ca *ca);
AUTO_DEFINE_PTR(struct cert_ca, cert_ca_free);
/* When the CA's certificate ends. */
int64_t cert_ca_until_ms(const struct cert_ca *ca);
/* Its certificate alone. 0; -ENOMEM. */
int cert_ca_pem(const struct cert_ca *ca, char **ret_pem);

/* Whether the first certificate of a PEM was made with the CA's key, and is none of a CA. 0; -EINVAL with err, -ENOMEM. */
int cert_ca_made(const struct cert_ca *ca, const char *pem, struct err *err);

/* What a certificate shall say. */
struct cert_want {
    enum cert_kind kind;
    const char *name;
    const char *const *groups; /* of a user */
    size_t n_groups;
    const char *const
        *hosts; /* of a replica: names and addresses, for clients that know servers by them */
    size_t n_hosts;
    int64_t life_ms; /* not beyond the CA's */
    bool or_shorter; /* ends with the CA where that is sooner; else it is refused then */
};

/* A certificate for the key of a request, or of a private key. identity (may be NULL) is what it says; done is the
 * caller's. 0; -EINVAL with err, -ENOMEM. */
int cert_issue(const struct cert_ca *ca, const struct cert_want *want,
               const struct cert_request *request, char **ret_pem, struct cert_identity *identity,
               struct err *err);

/* A list of these serials (hex), good as long as the CA; it names the CA's key. 0; -EINVAL with err, -ENOMEM. */
int cert_crl_make(const struct cert_ca *ca, const char *const *serials, size_t n, char **ret_pem,
                  struct err *err);

/* ---- requests ---- */

/* A signing request of the key for a node of that name. 0; -EINVAL with err, -ENOMEM. */
int cert_request_make(const char *key_pem, enum cert_kind kind, const char *name, char **ret_pem,
                      struct err *err);
/* Read one: its signature must be its key's, the key one that is good enough, and its one SAN URI of ours a name; subject
 * and whatever else it asks for count for nothing. 0; -EINVAL with err, -ENOMEM. */
int cert_request_read(const void *pem, size_t len, struct cert_request **ret, struct err *err);
/* The key of a private key, or of a certificate, as if it had been asked for by a request; identity is empty then. */
int cert_request_of_key(const char *key_pem, struct cert_request **ret, struct err *err);
int cert_request_of_certificate(const char *pem, struct cert_request **ret, struct err *err);
void cert_request_free(struct cert_request *request);
AUTO_DEFINE_PTR(struct cert_request, cert_request_free);
/* kind and name. */
const struct cert_identity *cert_request_identity(const struct cert_request *request);
/* SHA-256 of the public key. */
void cert_request_key_hash(const struct cert_request *request,
                           uint8_t ret[static CERT_KEY_HASH_LEN]);

/* ---- what there is ---- */

/* Who the first certificate of a PEM names; uses (may be NULL): CERT_USE_* ORed; issuer (may be NULL): CN or all of its
 * name, for people. 0; -EINVAL with err. */
enum {
    CERT_USE_SERVER = 1,
    CERT_USE_CLIENT = 2,
};
#define CERT_ISSUER_BUF 256
int cert_read(const char *pem, size_t len, struct cert_identity *ret, unsigned *uses,
              char issuer[CERT_ISSUER_BUF], struct err *err);
/* Its SAN's DNS names and addresses, as cert_want.hosts would have them; each is the caller's to free. 0; -ENOMEM. */
int cert_read_hosts(const char *pem, size_t len, char *ret[static CERT_HOSTS_MAX], size_t *ret_n);

/* Whether text is a host that a certificate may name. 0; -EINVAL with err. */
int cert_check_host(const char *text, struct err *err);

#endif
