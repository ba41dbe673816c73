#include "noded/session_decode.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/mem.h"
#include "map/name.h"
#include "noded/reason.h"
#include "xce/limits.h"

#define LOOK_AHEAD_MAX   1024
#define BLOCKED_TOLD_MAX 1000

static bool uid_valid(uint32_t uid)
{
    return uid >= XCE_UID_MIN && uid <= XCE_UID_MAX;
}

/* "lease 12": everybody reads passwd, so neither owner nor job is in it. */
static void gecos_make(const Xce__V1__Lease *lease, char ret[static XCE_GECOS_LEN_MAX + 1])
{
    (void)snprintf(ret, XCE_GECOS_LEN_MAX + 1, "lease %llu", (unsigned long long)lease->lease);
}

static int proof_decode(const Xce__V1__Member *member, struct state_lease *ret, struct err *err)
{
    if ((unsigned)member->proof > PROOF_FENCED)
        return err_set(err, -EBADMSG, "lease %llu: unknown proof %d",
                       (unsigned long long)ret->lease, (int)member->proof);
    ret->member = true;
    ret->released = member->released;
    ret->proof = (enum state_proof)member->proof;
    return 0;
}

static int lease_decode(const Xce__V1__Lease *lease, const char *node, struct state_lease *ret,
                        struct err *err)
{
    *ret = (struct state_lease){
        .lease = lease->lease,
        .revision = lease->revision,
        .uid = lease->uid,
        .epoch = lease->epoch,
        .phase = (enum state_phase)lease->state,
        .owner = lease->owner ? lease->owner->uid : STATE_NO_OWNER,
        .owner_name = lease->owner ? state_name_digest(lease->owner->name) : 0,
        .home = lease->home,
        .shell = lease->shell,
        .gids = lease->gids,
        .n_gids = (uint32_t)lease->n_gids,
    };
    if (!uid_valid(lease->uid) || lease->gid != lease->uid || lease->epoch == 0)
        return err_set(err, -EBADMSG, "lease %llu: uid %u, gid %u, epoch %u can not be",
                       (unsigned long long)lease->lease, lease->uid, lease->gid, lease->epoch);
    if ((unsigned)lease->state < STATE_GRANTED || (unsigned)lease->state > STATE_FREE)
        return err_set(err, -EBADMSG, "lease %llu: unknown state %d",
                       (unsigned long long)lease->lease, (int)lease->state);
    if (strlen(lease->home) > XCE_HOME_LEN_MAX || strlen(lease->shell) > XCE_SHELL_LEN_MAX)
        return err_set(err, -EBADMSG, "lease %llu: home or shell is too long",
                       (unsigned long long)lease->lease);
    if (lease->n_gids > XCE_GIDS_MAX)
        return err_set(err, -EBADMSG, "lease %llu: %zu gids", (unsigned long long)lease->lease,
                       lease->n_gids);
    for (size_t i = 0; i < lease->n_nodes; i++)
        if (strcmp(lease->nodes[i]->node, node) == 0)
            return proof_decode(lease->nodes[i], ret, err);
    return 0;
}

static int pool_decode(const Xce__V1__Pool *pool, struct state_pool *ret, struct err *err)
{
    *ret = (struct state_pool){0};
    if (!pool->range || !uid_valid(pool->range->first) || !uid_valid(pool->range->last) ||
        pool->range->first > pool->range->last || strlen(pool->name) >= sizeof(ret->name) ||
        !*pool->name)
        return err_set(err, -EBADMSG, "pool %.40s: no such range can be", pool->name);
    memcpy(ret->name, pool->name, strlen(pool->name) + 1);
    ret->first = pool->range->first;
    ret->last = pool->range->last;
    ret->validity_ms = pool->settings ? pool->settings->validity_ms : 0;
    return 0;
}

/* A full list may have been cut. */
static void blocked_decode(const Xce__V1__Pool *message, const struct state_pool *pool,
                           const char *node, const struct session_ops *ops, void *arg)
{
    uint32_t uids[BLOCKED_TOLD_MAX], left[BLOCKED_TOLD_MAX];
    size_t n_left = 0;

    if (message->n_blocked >= BLOCKED_TOLD_MAX)
        return;
    for (size_t i = 0; i < message->n_blocked; i++) {
        const Xce__V1__BlockedUid *blocked = message->blocked[i];

        uids[i] = blocked->uid;
        if (!strcmp(blocked->node, node) && !strcmp(blocked->reason, reason_word(REASON_LEFTOVER)))
            left[n_left++] = blocked->uid;
    }
    ops->pool_blocked(pool, uids, message->n_blocked, arg);
    ops->pool_leftover(pool, left, n_left, arg);
}

static int pools_decode(const Xce__V1__Changes *changes, const char *node,
                        const struct session_ops *ops, void *arg, struct err *err)
{
    struct state_pool pool;

    for (size_t i = 0; i < changes->n_pools; i++) {
        int r = pool_decode(changes->pools[i], &pool, err);
        if (r < 0)
            return r;
        ops->pool(&pool, arg);
        blocked_decode(changes->pools[i], &pool, node, ops, arg);
    }
    return 0;
}

int session_decode_changes(const Xce__V1__Changes *changes, const char *node,
                           const struct session_ops *ops, void *arg, struct err *err)
{
    char gecos[XCE_GECOS_LEN_MAX + 1];
    struct state_lease lease;
    int r;

    /* Before those that take their place: a node holds only so many. */
    for (size_t i = 0; i < changes->n_gone_pools; i++)
        ops->pool_gone(changes->gone_pools[i], arg);
    r = pools_decode(changes, node, ops, arg, err);
    for (size_t i = 0; r == 0 && i < changes->n_leases; i++) {
        r = lease_decode(changes->leases[i], node, &lease, err);
        if (r < 0)
            break;
        gecos_make(changes->leases[i], gecos);
        lease.gecos = gecos;
        ops->lease(&lease, arg);
    }
    if (r == 0)
        ops->changed(changes->revision, changes->full_done,
                     (unsigned)changes->node_state <= SESSION_NODE_FENCED
                         ? (enum session_node)changes->node_state
                         : 0,
                     arg);
    return r;
}

int session_decode_welcome(const Xce__V1__Welcome *message, struct session_welcome *ret,
                           struct err *err)
{
    if (!name_prefix_valid(message->prefix))
        return err_set(err, -EBADMSG, "welcome: \"%.40s\" is no prefix of names", message->prefix);
    if (message->incarnation.len > SESSION_INCARNATION_MAX || message->session == 0)
        return err_set(err, -EBADMSG, "welcome: no such session or incarnation can be");
    *ret = (struct session_welcome){
        .session = message->session,
        .revision = message->revision,
        .prefix = message->prefix,
        .full = message->full,
        .epochs_wanted = message->epochs_wanted,
        .incarnation = message->incarnation.data,
        .incarnation_len = message->incarnation.len,
    };
    return 0;
}

int session_decode_look_ahead(const Xce__V1__LookAhead *message, const struct session_ops *ops,
                              void *arg, struct err *err)
{
    auto_free struct state_epoch *uids = NULL;
    size_t n = message->n_uids < LOOK_AHEAD_MAX ? message->n_uids : LOOK_AHEAD_MAX;

    if (message->n_epochs && message->n_epochs != message->n_uids)
        return err_set(err, -EBADMSG, "look-ahead: %zu uids, but %zu epochs", message->n_uids,
                       message->n_epochs);
    uids = calloc(n + 1, sizeof(*uids));
    if (!uids)
        return -ENOMEM;
    for (size_t i = 0; i < n; i++) {
        if (!uid_valid(message->uids[i]))
            return err_set(err, -EBADMSG, "look-ahead: uid %u can not be", message->uids[i]);
        uids[i].uid = message->uids[i];
        uids[i].epoch = message->n_epochs ? message->epochs[i] : 0;
    }
    ops->look_ahead(uids, n, arg);
    return 0;
}
