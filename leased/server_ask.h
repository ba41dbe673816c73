/* One replica asks another one by gRPC, as itself: over mutual TLS, and only if who answers proves to be the one that is
 * meant. */
#ifndef XCE_LEASED_SERVER_ASK_H
#define XCE_LEASED_SERVER_ASK_H

#include <stddef.h>
#include <stdint.h>

#include "leased/service/service.h"

struct loop;
struct replica_status;
struct server_ask;
struct tls_keys;

/* keys outlive it; NULL: nobody can be asked. 0; -ENOMEM. */
int server_ask_new(struct loop *loop, struct tls_keys *keys, struct server_ask **ret);
/* What is under way is answered -ECANCELED by the loop, later. NULL does nothing. */
void server_ask_free(struct server_ask *ask);

/* Hang up on who is no member any more; what was asked of him is answered -EHOSTUNREACH, later. */
void server_ask_keep(struct server_ask *ask, const struct replica_status *members);

/* ask_replica of struct service_deps; arg is the server_ask. */
void server_ask_replica(const struct service_question *question, service_asked_fn done,
                        void *done_arg, void *arg);

#endif
