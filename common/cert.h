/* What a certificate says of its holder: the one place where bytes of X.509 become an identity. Home of libcrypto's X.509,
 * together with common/cert_*.c and common/net/tls*.c.
 *
 * A SAN URI of scheme xce:// makes a machine: xce://replica/<id> or xce://node/<name>; then subject and groups mean nothing.
 * Without one it is a user: the one CN is the name, each O a group. Whatever is not exactly so is refused: two URIs, an
 * unknown kind, no CN or two, an empty name, a NUL, bad UTF-8, what is too long. What a certificate may be used for (EKU,
 * dates, chain, CRL) is not asked here: see common/net/tls.h. */
#ifndef XCE_COMMON_CERT_H
#define XCE_COMMON_CERT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/err.h"

#define CERT_NAME_MAX    64 /* bytes of a user's name, a replica's id, a node's name */
#define CERT_GROUP_MAX   64
#define CERT_GROUPS_MAX  16
#define CERT_SERIAL_BUF  48 /* hex digits and NUL */
#define CERT_URI_MAX     (14 + CERT_NAME_MAX)
#define CERT_URI_REPLICA "xce://replica/"
#define CERT_URI_NODE    "xce://node/"

enum cert_kind {
    CERT_USER = 1,
    CERT_REPLICA = 2,
    CERT_NODE = 4,
};

/* All zero is empty. Valid text throughout: no NUL, no control characters. */
struct cert_identity {
    enum cert_kind kind;
    char name[CERT_NAME_MAX + 1]; /* CN, replica id or node name */
    char **groups;                /* of a user: every O, each once; else none */
    size_t n_groups;
    char serial[CERT_SERIAL_BUF];
    int64_t not_before_ms, not_after_ms; /* wall clock */
};

void cert_identity_done(struct cert_identity *identity);
/* 0; -ENOMEM, *ret is empty then. */
int cert_identity_copy(const struct cert_identity *identity, struct cert_identity *ret);

/* "user", "replica", "node". Static. */
const char *cert_kind_name(enum cert_kind kind);

/* "user alice", "node n1": for logs. Returns ret. */
#define CERT_WHO_BUF (CERT_NAME_MAX + 16)
char *cert_who(const struct cert_identity *identity, char ret[static CERT_WHO_BUF]);

/* Whether name can stand in a certificate of that kind: users as text_check_owner, nodes as text_check_node, replicas like
 * nodes. 0; -EINVAL with err. */
int cert_check_name(enum cert_kind kind, const char *name, struct err *err);

#endif
