/* replica.h without C-Raft: one replica is all there is. */
#include "leased/engine/replica.h"

#include <assert.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

static int absent(char why[static ENGINE_WHY_MAX])
{
    (void)snprintf(why, ENGINE_WHY_MAX,
                   "this leased was built without C-Raft: it has the sqlite engine alone");
    return -EOPNOTSUPP;
}

int replica_prepare(const char *folder, const char *name, bool with_state,
                    char why[static ENGINE_WHY_MAX])
{
    (void)folder, (void)name, (void)with_state;
    return absent(why);
}

/* Nobody whom this leased could be. */
int replica_inhabited(const char *folder, char why[static ENGINE_WHY_MAX])
{
    char path[4096];

    if (snprintf(path, sizeof path, "%s/replica", folder) < (int)sizeof path &&
        access(path, F_OK) == 0)
        return absent(why);
    return 0;
}

int engine_open_raft(struct loop *loop, const struct replica_options *replica,
                     const struct engine_options *options, struct fsm *fsm,
                     const struct engine_hooks *hooks, struct engine **ret,
                     char why[static ENGINE_WHY_MAX])
{
    (void)loop, (void)replica, (void)options, (void)hooks, (void)ret;
    fsm_free(fsm);
    return absent(why);
}

bool engine_is_replica(const struct engine *engine)
{
    (void)engine;
    return false;
}

/* An engine of this kind cannot exist. */
void replica_accept(struct engine *engine, struct transport *transport)
{
    (void)engine, (void)transport;
    abort();
}

bool replica_knows_leader(const struct engine *engine)
{
    (void)engine;
    abort();
}

void replica_get_status(const struct engine *engine, struct replica_status *ret)
{
    (void)engine, (void)ret;
    abort();
}

void replica_add(struct engine *engine, const char *name, const char *address, replica_done_fn done,
                 void *arg)
{
    (void)engine, (void)name, (void)address, (void)done, (void)arg;
    abort();
}

void replica_remove(struct engine *engine, const char *name, replica_done_fn done, void *arg)
{
    (void)engine, (void)name, (void)done, (void)arg;
    abort();
}

void replica_transfer(struct engine *engine, const char *name, replica_done_fn done, void *arg)
{
    (void)engine, (void)name, (void)done, (void)arg;
    abort();
}
