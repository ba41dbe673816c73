#include "leased/fsm/acquire.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "common/mem.h"
#include "leased/fsm/apply.h"
#include "leased/fsm/incarnation.h"
#include "leased/fsm/lease.h"
#include "leased/fsm/node.h"
#include "leased/fsm/pool.h"
#include "leased/fsm/wait.h"

/* All or nothing: first every grant is checked against the state and against the grants before it, then all are made, and
 * nothing can fail in between. */
struct planned {
    struct lease_spec spec;
    struct lease *adopt; /* answers with this one instead */
    struct owner_count *owner;
    uint32_t job_hash;
};

struct plan {
    struct fsm *fsm;
    const Xce__V1__CmdAcquire *acquire;
    struct fsm_outcome *outcome;
    struct planned *leases;
    size_t n; /* planned so far */
    uint64_t n_members;
};

/* ---- one grant ---- */

static bool choose_pool(struct plan *plan, const Xce__V1__CmdGrant *grant, struct lease_spec *spec)
{
    struct fsm *fsm = plan->fsm;

    if (grant->pool.len) {
        spec->pool = apply_pool(fsm, grant->pool, plan->outcome);
        if (!spec->pool)
            return false;
    } else if (fsm->n_pools == 1) {
        spec->pool = fsm->pools[0];
    } else if (!fsm->n_pools) {
        fsm_fail(plan->outcome, FSM_PRECONDITION, "there is no pool yet");
        return false;
    } else {
        fsm_fail(plan->outcome, FSM_INVALID, "pool: there are %zu, name one of them (%s, %s, ...)",
                 fsm->n_pools, fsm->pools[0]->pub.name, fsm->pools[1]->pub.name);
        return false;
    }
    if (spec->pool->pub.retiring) {
        fsm_fail(plan->outcome, FSM_PRECONDITION, "pool %s is retiring: it grants nothing more",
                 spec->pool->pub.name);
        return false;
    }
    return true;
}

static bool choose_ttl(struct plan *plan, const Xce__V1__CmdGrant *grant, struct lease_spec *spec)
{
    const struct fsm_settings *settings = &spec->pool->pub.settings;

    spec->ttl_ms = grant->ttl_ms == -1 ? settings->ttl_default_ms : grant->ttl_ms;
    return !spec->ttl_ms || apply_ttl(&spec->pool->pub, spec->ttl_ms, plan->outcome);
}

static bool choose_owner(struct plan *plan, const Xce__V1__CmdGrant *grant, struct lease_spec *spec)
{
    char *name;

    if (!apply_text(grant->job, "job", APPLY_JOB_MAX, true, plan->outcome) ||
        !apply_text(grant->owner_name, "owner", APPLY_OWNER_MAX, true, plan->outcome))
        return false;
    spec->job = grant->job.data;
    spec->job_len = grant->job.len;
    spec->owner_uid = grant->owner_uid;
    spec->owner_gid = grant->owner_gid;
    spec->owner_name = grant->owner_name.data;
    spec->owner_name_len = grant->owner_name.len;
    if (grant->owner_name.len)
        return true;
    name = apply_alloc(plan->fsm, FSM_MESSAGE_MAX + 1);
    fsm_format(name, "#%" PRIu32, grant->owner_uid);
    spec->owner_name = name;
    spec->owner_name_len = strlen(name);
    return true;
}

/* Named more than once is meant once. The list is marked in the nodes, so that long ones cost no more than they must. */
static bool choose_named(struct plan *plan, const Xce__V1__CmdGrant *grant, struct lease_spec *spec)
{
    char why[FSM_MESSAGE_MAX + 1];
    uint64_t mark = ++plan->fsm->mark;

    spec->nodes = apply_alloc(plan->fsm, grant->n_nodes * sizeof(struct node *));
    for (size_t i = 0; i < grant->n_nodes; i++) {
        struct node *node = apply_node(plan->fsm, grant->nodes[i], plan->outcome);

        if (!node)
            return false;
        if (node->mark == mark)
            continue;
        node->mark = mark;
        if (node_not_ready(node, why)) {
            fsm_fail(plan->outcome, FSM_PRECONDITION, "%s", why);
            return false;
        }
        spec->nodes[spec->n_nodes++] = node;
    }
    return true;
}

static bool choose_nodes(struct plan *plan, const Xce__V1__CmdGrant *grant, struct lease_spec *spec)
{
    char why[FSM_MESSAGE_MAX + 1];

    spec->all_nodes = grant->all_nodes;
    if ((grant->n_nodes > 0) == (grant->all_nodes != 0)) {
        fsm_fail(plan->outcome, FSM_INVALID,
                 grant->n_nodes ? "nodes: either a list or all, not both"
                                : "nodes: a lease needs at least one member");
        return false;
    }
    if (grant->n_nodes)
        return choose_named(plan, grant, spec);
    spec->nodes = node_all_ready(plan->fsm, &spec->n_nodes, why);
    if (spec->nodes)
        return true;
    fsm_fail(plan->outcome, FSM_PRECONDITION, "%s", why);
    return false;
}

static bool choose_gids(struct plan *plan, const Xce__V1__CmdGrant *grant, struct lease_spec *spec)
{
    if (grant->n_gids > FSM_GIDS_MAX) {
        fsm_fail(plan->outcome, FSM_INVALID, "gids: %zu, at most %d", grant->n_gids, FSM_GIDS_MAX);
        return false;
    }
    spec->gids = grant->gids;
    spec->n_gids = (uint32_t)grant->n_gids;
    return true;
}

/* ---- (owner, job) ---- */

/* Whether the lease that has the job is the one that is asked for. */
static bool same_spec(struct plan *plan, const Xce__V1__CmdGrant *grant, const struct lease *lease,
                      const char **ret_differs)
{
    uint64_t here = ++plan->fsm->mark, asked = ++plan->fsm->mark;
    uint32_t n_here = 0, n_asked = 0;

    *ret_differs = "in another pool";
    if (grant->pool.len && (strlen(lease->pub.pool) != grant->pool.len ||
                            memcmp(lease->pub.pool, grant->pool.data, grant->pool.len) != 0))
        return false;
    *ret_differs = "on other nodes";
    if (grant->all_nodes)
        return true;
    for (uint32_t i = 0; i < lease->pub.n_members; i++) {
        struct node *node = (struct node *)lease->pub.members[i].node;

        if (lease->pub.members[i].released)
            continue;
        node->mark = here;
        n_here++;
    }
    for (size_t i = 0; i < grant->n_nodes; i++) {
        struct node *node = node_find(plan->fsm, grant->nodes[i].data, grant->nodes[i].len);

        if (!node || (node->mark != here && node->mark != asked))
            return false;
        n_asked += node->mark == here;
        node->mark = asked;
    }
    return n_asked == n_here;
}

/* Whether a lease earlier in this command has the same owner and job. */
static bool in_batch(const struct plan *plan, const Xce__V1__CmdGrant *grant, uint32_t job_hash)
{
    for (size_t i = 0; i < plan->n; i++) {
        const Xce__V1__CmdGrant *other = plan->acquire->grants[i];

        if (plan->leases[i].job_hash == job_hash && other->owner_uid == grant->owner_uid &&
            other->job.len == grant->job.len &&
            memcmp(other->job.data, grant->job.data, grant->job.len) == 0)
            return true;
    }
    return false;
}

/* false = refused. With adopt set, the lease that has the job already is the answer. */
static bool check_job(struct plan *plan, const Xce__V1__CmdGrant *grant, struct planned *planned)
{
    const char *differs;
    struct lease *lease;

    if (!grant->job.len)
        return true;
    planned->job_hash = lease_job_hash(plan->fsm, grant->owner_uid, grant->job.data,
                                       grant->job.len);
    if (in_batch(plan, grant, planned->job_hash)) {
        fsm_fail(plan->outcome, FSM_INVALID, "job %s is named twice in one request",
                 apply_string(plan->fsm, grant->job));
        return false;
    }
    lease = lease_of_job(plan->fsm, grant->owner_uid, grant->job.data, grant->job.len);
    if (!lease)
        return true;
    if (!plan->acquire->adopt) {
        fsm_fail(plan->outcome, FSM_EXISTS,
                 "job %s of uid %" PRIu32 " has lease %" PRIu64 " (uid %" PRIu32 ") already",
                 lease->pub.job, grant->owner_uid, lease->pub.id, lease->pub.uid);
        return false;
    }
    if (!same_spec(plan, grant, lease, &differs)) {
        fsm_fail(plan->outcome, FSM_EXISTS,
                 "job %s of uid %" PRIu32 " has lease %" PRIu64 " already, but %s", lease->pub.job,
                 grant->owner_uid, lease->pub.id, differs);
        return false;
    }
    planned->adopt = lease;
    return true;
}

/* ---- what the whole command asks for ---- */

static bool check_quota(struct plan *plan, struct planned *planned)
{
    struct pool *pool = planned->spec.pool;
    uint32_t max = pool->pub.settings.max_per_owner;

    if (!max)
        return true;
    planned->owner = pool_owner(pool, planned->spec.owner_uid, true);
    planned->owner->batch++;
    if (planned->owner->n + planned->owner->batch <= max)
        return true;
    fsm_fail(plan->outcome, FSM_QUOTA,
             "uid %" PRIu32 " has %" PRIu32 " leases in pool %s, at most %" PRIu32 " are allowed",
             planned->spec.owner_uid, planned->owner->n, pool->pub.name, max);
    return false;
}

static void fail_exhausted(struct plan *plan, const struct pool *pool)
{
    const struct fsm_counts *counts = &pool->counts;
    int64_t due_ms = fsm_pool_next_due_ms(plan->fsm, &pool->pub);
    char when[FSM_MESSAGE_MAX + 1] = "none is on its way back";

    if (due_ms <= plan->fsm->now_ms)
        fsm_format(when, "next due any moment");
    else if (due_ms != INT64_MAX)
        fsm_format(when, "next due in %" PRId64 " s", (due_ms - plan->fsm->now_ms + 999) / 1000);
    fsm_fail(plan->outcome, FSM_EXHAUSTED,
             "pool %s: %" PRIu32 " free, %" PRIu32 " asked (granted %" PRIu32 ", active %" PRIu32
             ", draining %" PRIu32 ", normalising %" PRIu32 ", cooling %" PRIu32
             ", retired %" PRIu32 ", blocked %" PRIu32 "); %s",
             pool->pub.name, counts->free, pool->asked, counts->granted, counts->active,
             counts->draining, counts->normalising, counts->cooling, counts->retired,
             counts->blocked, when);
}

static bool check_room(struct plan *plan)
{
    for (size_t i = 0; i < plan->fsm->n_pools; i++)
        if (plan->fsm->pools[i]->asked > plan->fsm->pools[i]->counts.free) {
            fail_exhausted(plan, plan->fsm->pools[i]);
            return false;
        }
    if (plan->fsm->n_members + plan->n_members > FSM_ALL_MEMBERS) {
        fsm_fail(plan->outcome, FSM_EXHAUSTED,
                 "all leases together have %" PRIu64
                 " members, at most %d: wait until some are free",
                 plan->fsm->n_members, FSM_ALL_MEMBERS);
        return false;
    }
    return true;
}

static bool check_grant(struct plan *plan, const Xce__V1__CmdGrant *grant, struct planned *planned)
{
    struct lease_spec *spec = &planned->spec;

    if (!choose_owner(plan, grant, spec) || !check_job(plan, grant, planned))
        return false;
    if (planned->adopt)
        return true;
    if (!choose_pool(plan, grant, spec) || !choose_ttl(plan, grant, spec) ||
        !choose_gids(plan, grant, spec) || !choose_nodes(plan, grant, spec) ||
        !check_quota(plan, planned))
        return false;
    spec->pool->asked++;
    plan->n_members += spec->n_nodes;
    if (plan->n_members <= FSM_MEMBERS_MAX)
        return true;
    fsm_fail(plan->outcome, FSM_INVALID, "nodes: more than %d members in one request",
             FSM_MEMBERS_MAX);
    return false;
}

static bool make_plan(struct plan *plan)
{
    const Xce__V1__CmdAcquire *acquire = plan->acquire;

    if (!acquire->n_grants || acquire->n_grants > FSM_BATCH_MAX) {
        fsm_fail(plan->outcome, FSM_INVALID, "leases: %zu, must be 1 to %d", acquire->n_grants,
                 FSM_BATCH_MAX);
        return false;
    }
    plan->leases = apply_alloc(plan->fsm, acquire->n_grants * sizeof(*plan->leases));
    for (size_t i = 0; i < acquire->n_grants; i++) {
        plan->leases[i] = (struct planned){0};
        if (!check_grant(plan, acquire->grants[i], &plan->leases[i])) {
            plan->n += plan->leases[i].owner != NULL;
            return false;
        }
        plan->n++;
    }
    return check_room(plan);
}

/* What was counted while planning is counted for good when the leases are made. */
static void forget_plan(struct plan *plan)
{
    for (size_t i = 0; i < plan->fsm->n_pools; i++)
        plan->fsm->pools[i]->asked = 0;
    for (size_t i = 0; i < plan->n; i++)
        if (plan->leases[i].owner)
            plan->leases[i].owner->batch = 0;
    for (size_t i = 0; i < plan->n; i++)
        if (plan->leases[i].owner) {
            struct pool *pool = plan->leases[i].spec.pool;
            struct owner_count *owner = pool_owner(pool, plan->leases[i].spec.owner_uid, false);

            if (owner)
                pool_owner_drop_if_zero(pool, owner);
        }
}

void apply_acquire(struct fsm *fsm, const Xce__V1__Command *command, struct fsm_outcome *outcome)
{
    struct plan plan = {.fsm = fsm, .acquire = command->acquire, .outcome = outcome};
    bool ok;

    if (incarnation_refuses(fsm, outcome))
        return;
    ok = make_plan(&plan);
    for (size_t i = 0; ok && i < plan.n; i++) {
        struct lease *lease = plan.leases[i].adopt;

        if (!lease)
            lease = lease_grant(fsm, &plan.leases[i].spec);
        fsm_answer(fsm, outcome, lease->pub.id);
    }
    forget_plan(&plan);
}

void acquire_wait(struct fsm *fsm, struct request *request, uint64_t granted_after)
{
    uint32_t n = request->n_slots;
    struct lease **leases = apply_alloc(fsm, n * sizeof(struct lease *));
    bool *own = apply_alloc(fsm, n * sizeof(bool));

    for (uint32_t i = 0; i < n; i++) {
        leases[i] = lease_find(fsm, request_slots(request)[i]);
        own[i] = leases[i]->pub.id > granted_after;
    }
    (void)wait_begin(fsm, request, leases, own);
}
