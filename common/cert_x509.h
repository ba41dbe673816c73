/* For the files that are OpenSSL's home: X.509 objects in, ours out. Errors of libcrypto are taken off its queue here. */
#ifndef XCE_COMMON_CERT_X509_H
#define XCE_COMMON_CERT_X509_H

#include <openssl/x509.h>

#include "common/cert.h"

/* Who the certificate names. 0; -EINVAL with err, -ENOMEM. */
int cert_identity_read(X509 *x509, struct cert_identity *ret, struct err *err);

/* Wall clock; INT64_MIN for what is no time. */
int64_t cert_time_ms(const ASN1_TIME *time);

/* The nearest cause that libcrypto knows of ("key values mismatch"), and its queue emptied. Static. */
const char *cert_crypto_why(void);

/* PEM in memory. All certificates in the order of the file, at most max. sk_X509_pop_free. 0; -EINVAL with err ("PATH: ..."
 * is the caller's to add), -ENOMEM. */
int cert_read_chain(const char *pem, size_t len, STACK_OF(X509) * *ret, struct err *err);
int cert_read_key(const char *pem, size_t len, EVP_PKEY **ret, struct err *err);
int cert_read_crls(const char *pem, size_t len, STACK_OF(X509_CRL) * *ret, struct err *err);

/* Read a PEM file whole. secret: refuse one that others than owner and group can read, or group or others write.
 * *ret: zeroed and freed by cert_forget. 0; -EINVAL with err naming path. */
int cert_read_file(const char *path, bool secret, char **ret, size_t *ret_len, struct err *err);
void cert_forget(char *bytes, size_t len);

#endif
