/* grpc.health.v1: whether this leased serves, for load balancers, probes and scripts.
 *
 * It serves from the moment it listens; it does not while it refuses writes (a failing or full disk), and when it closes.
 * The state is one for "" (the whole server) and for every service of the method table; other names are unknown. */
#ifndef XCE_LEASED_RPC_HEALTH_H
#define XCE_LEASED_RPC_HEALTH_H

#include <stdbool.h>

struct grpc_call;
struct health;
struct rpc_server;

/* 0; -ENOMEM. Serving from the start. */
int health_new(struct health **ret);
/* No call may be under way. NULL does nothing. */
void health_free(struct health *health);

/* Tells whoever watches. */
void health_set(struct health *health, bool serving);
/* Not serving any more, ever: tells, then ends the calls that watch, so that they hold up no shutdown. */
void health_end(struct health *health);

/* End the calls that watch: who may will ask again. */
void health_cut(struct health *health);

/* Check and Watch: bind the call. */
void health_check(struct grpc_call *call, struct rpc_server *server);
void health_watch(struct grpc_call *call, struct rpc_server *server);

#endif
