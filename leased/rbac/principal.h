/* Who asks: the one notion of identity behind the rpc layer. A value; copying it is fine.
 *
 *   root     root on this machine's socket, by the kernel's word: always administrator
 *   local    any other user on this machine's socket; name is what NSS says of the uid
 *   user     a certificate without a URI of ours: name is CN, groups are O; uid and gid are those of the account of
 *            exactly that name here, if there is one
 *   node     xce://node/NAME, replica   xce://replica/ID: machines; they own nothing
 *
 * A name is a name only within its kind: a user "root" of a certificate is not root, and a node "alice" is not alice. */
#ifndef XCE_LEASED_RBAC_PRINCIPAL_H
#define XCE_LEASED_RBAC_PRINCIPAL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/err.h"

#define PRINCIPAL_KEY_MAX    80
#define PRINCIPAL_NAME_MAX   64 /* also of a group; TEXT_OWNER_MAX */
#define PRINCIPAL_GROUPS_MAX 16

enum principal_kind {
    PRINCIPAL_NOBODY = 0, /* has no right whatever the rules say */
    PRINCIPAL_ROOT = 1,
    PRINCIPAL_LOCAL = 2,
    PRINCIPAL_USER = 3,
    PRINCIPAL_NODE = 4,
    PRINCIPAL_REPLICA = 5,
    PRINCIPAL_STRANGER = 6, /* came without a certificate, to get one: NodeService/Enroll alone */
};

struct principal {
    enum principal_kind kind;
    /* Unique and stable: "uid:1000", "user:alice", "node:n1", "replica:1". Request ids are kept under it. */
    char key[PRINCIPAL_KEY_MAX];
    /* For people, and half of what makes an owner; "#1000" where no service names the uid. */
    char name[PRINCIPAL_NAME_MAX + 1];
    /* Of a user: each with its NUL behind it. */
    char groups[PRINCIPAL_GROUPS_MAX * (PRINCIPAL_NAME_MAX + 1)];
    unsigned n_groups;
    bool has_uid; /* uid and gid mean something: root, local, and a user with an account */
    uint32_t uid, gid;
    /* On this machine, by the kernel's word: "the calling machine" is this one. */
    bool local;
};

/* The principal of a process on our unix socket. name NULL, empty or too long: "#<uid>". */
void principal_from_peer(uint32_t uid, uint32_t gid, const char *name, struct principal *ret);

/* The principals of certificates, as the TLS layer has verified and taken them apart: a user by CN and each O, without an
 * account so far; a node, a replica by their URI. 0; -EACCES it names nobody: what is no user name, no node name, a group
 * that is empty or no plain text, too many of them; err says which. Nothing is guessed or left out. */
int principal_from_user(const char *name, const char *const *groups, size_t n_groups,
                        struct principal *ret, struct err *err);
int principal_from_node(const char *name, struct principal *ret, struct err *err);
int principal_from_replica(const char *id, struct principal *ret, struct err *err);

/* Who has no certificate yet. */
void principal_stranger(struct principal *ret);

/* A user of a certificate has this account here: NSS was asked for exactly his name. */
void principal_set_account(struct principal *principal, uint32_t uid, uint32_t gid);

/* Group i of 0..n_groups-1. */
const char *principal_group(const struct principal *principal, unsigned i);

#endif
