/* Takes calls, has them let in or refused at the door (door.h), decodes, and hands over to the service.
 * One thread: the loop's. */
#ifndef XCE_LEASED_RPC_LISTENER_H
#define XCE_LEASED_RPC_LISTENER_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

struct audit;
struct grpc_limits;
struct health;
struct loop;
struct rpc_server;
struct service;
struct tls_port;

/* service is borrowed and outlives the server. 0; -ENOMEM. */
int rpc_server_new(struct loop *loop, struct service *service, const struct grpc_limits *limits,
                   struct rpc_server **ret);

/* Serve a unix socket, or a listening descriptor that was passed in. Errors as grpc_server_listen_*. */
int rpc_server_listen_unix(struct rpc_server *server, const char *path, mode_t mode);
int rpc_server_listen_fd(struct rpc_server *server, int fd);
/* Serve those, too, who come to the port and speak HTTP/2. 0; -ENOBUFS. */
int rpc_server_serve_tls(struct rpc_server *server, struct tls_port *port);

/* Where to write what is done and denied; borrowed, outlives the server. NULL, and from the start: nowhere. While it can not be
 * written, administrators' acts are refused. */
void rpc_server_audit(struct rpc_server *server, struct audit *audit);

/* The rules have changed: nothing more is told on streams whose caller has lost the right to them, which end with
 * PERMISSION_DENIED once it is known that these are no rules of yesterday, nor on those whose caller's scope is another one,
 * which end now with UNAVAILABLE, so that he asks again. */
void rpc_server_policy_changed(struct rpc_server *server);

/* What grpc.health.v1 tells: whether requests are served as they should be. False from the start. */
void rpc_server_serving(struct rpc_server *server, bool serving);
struct health *rpc_server_health(struct rpc_server *server);

/* Finish what is under way for at most grace_ms, then cut; then done. The server is gone then. */
void rpc_server_close(struct rpc_server *server, int64_t grace_ms, void (*done)(void *arg),
                      void *arg);

#endif
