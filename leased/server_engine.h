/* Which engine serves: the single one, a replica, or the single one that is about to become the first replica.
 *
 *   StateDir   engine.db                the single replica's
 *              engine.db.single         the same, after it became the first replica: only a souvenir
 *              raft/                    the replica's folder
 *
 *   Engine     raft/ holds      engine.db     what happens
 *   sqlite     nobody           any           the single one
 *   sqlite     a replica        any           refused: its leases are not in engine.db
 *   raft       nobody           there         the single one goes on until `cluster init`
 *   raft       nobody           none          a replica that waits for `cluster init`, or to be added
 *   raft       one that begins  there         takes the state of engine.db over, once
 *   raft       a replica        any           the replica
 *
 * `cluster init` only makes the folder of the first replica (one rename), then leased starts anew. */
#ifndef XCE_LEASED_SERVER_ENGINE_H
#define XCE_LEASED_SERVER_ENGINE_H

#include <stdbool.h>

#include "leased/engine/engine.h"

struct leased_settings;
struct loop;
struct server_engine;
struct server_tls;

/* Open it; the fsm is taken over, also on failure. What is wrong is said in the log. tls is borrowed. 0; -errno. */
int server_engine_open(struct loop *loop, const struct leased_settings *settings,
                       struct server_tls *tls, struct fsm *fsm, const struct engine_hooks *hooks,
                       struct server_engine **ret);
struct engine *server_engine(const struct server_engine *served);

/* Make the folder of the first replica: r and a sentence. 0: leased has to start anew. -EEXIST; -EINVAL the configuration
 * does not say so; -errno. */
int server_engine_init(struct server_engine *served, char why[static ENGINE_WHY_MAX]);

/* The engine has been closed. */
void server_engine_free(struct server_engine *served);

#endif
