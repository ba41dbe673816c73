/* leased's certificate and its TCP port: gRPC for users, nodes and replicas, and whatever else is served there by ALPN. */
#ifndef XCE_LEASED_SERVER_TLS_H
#define XCE_LEASED_SERVER_TLS_H

#include "common/err.h"

struct leased_settings;
struct loop;
struct rpc_server;
struct server_tls;
struct service;
struct tls_keys;
struct tls_port;

/* Load the certificate, if there is one to load: else *ret is NULL, which every function here takes. Says in the log what
 * is wrong. 0; -EINVAL, -ENOMEM. */
int server_tls_new(struct loop *loop, const struct leased_settings *settings,
                   struct server_tls **ret);

/* For others that serve, or connect, as this replica. Protocols are added before server_tls_listen. NULL without TLS. */
struct tls_keys *server_tls_keys(struct server_tls *tls);
struct tls_port *server_tls_port(struct server_tls *tls);

/* Serve gRPC, too, and listen where settings say; more than once does nothing. 0; -errno, said in the log. */
int server_tls_serve(struct server_tls *tls, struct rpc_server *rpc,
                     const struct leased_settings *settings);

/* Give the service the CA, if this replica holds its key. 0; -EINVAL with err, the service keeps what it had. */
int server_tls_set_ca(const struct leased_settings *settings, struct service *service,
                      struct err *err);

/* To be told when files have changed, CAKey too, and what they hold now is in use. NULL: nobody any more. */
typedef void (*server_tls_changed_fn)(void *arg);
void server_tls_on_change(struct server_tls *tls, server_tls_changed_fn changed, void *arg);

/* Read the files again. 0; -EINVAL: the old ones stay, said in the log. */
int server_tls_reload(struct server_tls *tls, const struct leased_settings *settings);

/* Accept nothing any more; what was accepted lives on. */
void server_tls_stop(struct server_tls *tls);
/* When every stream has ended. */
void server_tls_free(struct server_tls *tls);

/* For --check-config: whether the files that settings name could be used. 0; -EINVAL with err. */
int server_tls_check(const void *settings, struct err *err);

#endif
