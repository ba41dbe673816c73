/* What each peer of a server holds, over all its connections: how many there are, and how many bytes its calls keep.
 *
 * A user, a node, a replica is one peer, however often it connects; so are all who show no certificate (TLS_ALPN_ENROLL).
 * One peer has at most a quarter of the bytes, and a user a quarter of the connections; users leave a quarter of either
 * to root and to machines: nobody can lock the others out. Internal to grpc_server.c. One thread. */
#ifndef XCE_COMMON_NET_GRPC_ACCOUNT_H
#define XCE_COMMON_NET_GRPC_ACCOUNT_H

#include <stdbool.h>
#include <sys/queue.h>
#include <sys/types.h>

#include "common/net/grpc_frame.h"

struct transport_peer;

struct grpc_account {
    LIST_ENTRY(grpc_account) link;
    unsigned n_refs, n_connections;
    struct grpc_budget held;
    bool user; /* of this machine or by certificate: not root here, not a node or replica */
    bool local;
    uid_t uid;
    unsigned kind; /* enum cert_kind; 0 = shows no certificate */
    char *name;    /* of the certificate */
};

struct grpc_accounts {
    LIST_HEAD(, grpc_account) list;
    unsigned connections_max, n_connections, n_users; /* n_users: connections of users */
    struct grpc_budget *all, users;
};

/* all: outlives them. */
void grpc_accounts_init(struct grpc_accounts *accounts, unsigned connections_max,
                        struct grpc_budget *all);

/* The account of who is at the other end, made if there is none. NULL: no memory. */
struct grpc_account *grpc_account_ref(struct grpc_accounts *accounts,
                                      const struct transport_peer *peer);
/* It goes with the last reference, and holds nothing then. NULL does nothing. */
void grpc_account_unref(struct grpc_account *account);

/* Whether there may be one more connection of it. */
bool grpc_account_has_room(const struct grpc_accounts *accounts,
                           const struct grpc_account *account);
void grpc_account_connected(struct grpc_accounts *accounts, struct grpc_account *account);
void grpc_account_lost(struct grpc_accounts *accounts, struct grpc_account *account);

#endif
