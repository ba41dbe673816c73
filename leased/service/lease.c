/* LeaseService: the verbs that change something. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "common/err.h"
#include "common/pb.h"
#include "common/text.h"
#include "leased/service/degraded.h"
#include "leased/service/groups.h"
#include "leased/service/internal.h"
#include "leased/service/wait.h"
#include "xce/v1/lease.pb-c.h"

#define GRANTS_ARENA_MAX (16u << 20)
#define NODES_MAX        65536
#define GIDS_MAX         64

/* ---- acquire: from the request's words to the command's ---- */

/* Where the pieces of a command live until it is packed. */
struct draft {
    struct service *service;
    struct service_request *request;
    struct pb_arena arena;
    Xce__V1__CmdAcquire acquire;
    const struct fsm_node *here; /* the calling machine, once it was looked for */
};

static bool empty(const ProtobufCBinaryData *bytes)
{
    return bytes->len == 0;
}

static int draft_self(const struct principal *caller, Xce__V1__CmdGrant *ret, struct err *err)
{
    if (!caller->has_uid)
        return err_set(err, FSM_PRECONDITION,
                       "owner: %s has no account on this machine, so no uid: name the owner",
                       caller->name);
    ret->owner_uid = caller->uid;
    ret->owner_gid = caller->gid;
    ret->owner_name.data = (uint8_t *)caller->name;
    ret->owner_name.len = strlen(caller->name);
    return 0;
}

/* Whether somebody who may only act for himself names himself. */
static bool names_self(const struct principal *caller, const Xce__V1__OwnerSpec *spec)
{
    size_t len = strlen(caller->name);

    return caller->has_uid && spec->uid == caller->uid && spec->gid == caller->gid &&
           (empty(&spec->name) ||
            (spec->name.len == len && !memcmp(spec->name.data, caller->name, len)));
}

/* Whose the lease is to be: the caller's own, or whom he may name. */
static int draft_owner(const struct draft *draft, const Xce__V1__OwnerSpec *spec,
                       Xce__V1__CmdGrant *ret, struct err *err)
{
    const struct principal *caller = &draft->request->principal;
    int r;

    if (!spec || (draft->request->scope != SCOPE_ALL && names_self(caller, spec)))
        return draft_self(caller, ret, err);
    if (draft->request->scope != SCOPE_ALL)
        return err_set(err, -EACCES, "owner: you may not acquire for somebody else");
    if (spec->uid == UINT32_MAX || spec->gid == UINT32_MAX)
        return err_set(err, -EINVAL, "owner: 4294967295 is no uid or gid");
    if (!empty(&spec->name)) {
        r = text_check_owner((const char *)spec->name.data, spec->name.len, err);
        if (r < 0)
            return err_prefix(err, r, "owner");
    }
    ret->owner_uid = spec->uid;
    ret->owner_gid = spec->gid;
    ret->owner_name = spec->name;
    return 0;
}

static const struct fsm_node *calling_machine(struct draft *draft)
{
    const struct fsm *fsm = service_fsm(draft->service);
    const struct fsm_node *node = NULL;

    if (draft->here || !draft->request->principal.local)
        return draft->here;
    while ((node = fsm_node_next(fsm, node)) && !draft->here)
        if (!strcmp(node->machine_id, draft->service->options.machine_id))
            draft->here = node;
    return draft->here;
}

static int check_nodes(const ProtobufCBinaryData *nodes, size_t n, struct err *err)
{
    if (n > NODES_MAX)
        return err_set(err, -EINVAL, "nodes: %zu of them, at most %d", n, NODES_MAX);
    for (size_t i = 0; i < n; i++) {
        int r = text_check_node((const char *)nodes[i].data, nodes[i].len, err);

        if (r < 0)
            return err_prefix(err, r, "nodes[%zu]", i);
    }
    return 0;
}

static int draft_nodes(struct draft *draft, const Xce__V1__LeaseSpec *spec, Xce__V1__CmdGrant *ret,
                       struct err *err)
{
    const struct fsm_node *here;
    int r;

    if (spec->all_nodes && spec->n_nodes)
        return err_set(err, -EINVAL, "nodes: either a list or all_nodes, not both");
    r = check_nodes(spec->nodes, spec->n_nodes, err);
    if (r < 0)
        return r;
    ret->all_nodes = spec->all_nodes;
    ret->nodes = spec->nodes;
    ret->n_nodes = spec->n_nodes;
    if (spec->all_nodes || spec->n_nodes)
        return 0;
    here = calling_machine(draft);
    if (!here)
        return err_set(err, -EINVAL,
                       "nodes: name the member nodes; the calling machine is no registered node");
    ret->nodes = pb_arena_alloc(&draft->arena, sizeof *ret->nodes);
    if (!ret->nodes)
        return -ENOMEM;
    ret->nodes[0].data = (uint8_t *)here->name;
    ret->nodes[0].len = strlen(here->name);
    ret->n_nodes = 1;
    return 0;
}

static int draft_lifetime(const Xce__V1__LeaseSpec *spec, Xce__V1__CmdGrant *ret, struct err *err)
{
    switch (spec->lifetime_case) {
    case XCE__V1__LEASE_SPEC__LIFETIME_TTL_MS:
        if (spec->ttl_ms <= 0)
            return err_set(err, -EINVAL, "ttl_ms: %lld, must be above 0 (or ttl_none)",
                           (long long)spec->ttl_ms);
        ret->ttl_ms = spec->ttl_ms;
        return 0;
    case XCE__V1__LEASE_SPEC__LIFETIME_TTL_NONE:
        if (!spec->ttl_none)
            return err_set(err, -EINVAL, "ttl_none: must be true when given");
        ret->ttl_ms = 0;
        return 0;
    default:
        ret->ttl_ms = -1;
        return 0;
    }
}

static int draft_gids(const struct draft *draft, const Xce__V1__LeaseSpec *spec,
                      Xce__V1__CmdGrant *ret, struct err *err)
{
    if (spec->n_gids > GIDS_MAX)
        return err_set(err, -EINVAL, "gids: %zu of them, at most %d", spec->n_gids, GIDS_MAX);
    for (size_t i = 0; i < spec->n_gids; i++) {
        if (spec->gids[i] == 0 || spec->gids[i] == UINT32_MAX)
            return err_set(err, -EINVAL, "gids: %u can not be given to a lease", spec->gids[i]);
        if (fsm_pool_of_uid(service_fsm(draft->service), spec->gids[i]))
            return err_set(err, -EINVAL, "gids: %u lies in a pool", spec->gids[i]);
    }
    ret->gids = spec->gids;
    ret->n_gids = spec->n_gids;
    return 0;
}

static int draft_names(const Xce__V1__LeaseSpec *spec, Xce__V1__CmdGrant *ret, struct err *err)
{
    int r;

    if (!empty(&spec->pool)) {
        r = text_check_pool((const char *)spec->pool.data, spec->pool.len, err);
        if (r < 0)
            return err_prefix(err, r, "pool");
    }
    if (!empty(&spec->job)) {
        r = text_check_job((const char *)spec->job.data, spec->job.len, err);
        if (r < 0)
            return err_prefix(err, r, "job");
    }
    ret->pool = spec->pool;
    ret->job = spec->job;
    return 0;
}

static int draft_pool(const struct draft *draft, Xce__V1__CmdGrant *ret, struct err *err)
{
    const struct fsm *fsm = service_fsm(draft->service);
    const struct fsm_pool *only = fsm_pool_next(fsm, NULL);

    if (!empty(&ret->pool))
        return 0;
    if (!only)
        return err_set(err, FSM_PRECONDITION, "there is no pool yet: leasectl pool create");
    if (fsm_pool_next(fsm, only))
        return err_set(err, -EINVAL, "pool: name one, there are several");
    ret->pool.data = (uint8_t *)only->name;
    ret->pool.len = strlen(only->name);
    return 0;
}

/* (uid, job) names one lease. One that was left under this uid by whom it belonged to before is not the caller's to adopt. */
static int draft_job(const struct draft *draft, const Xce__V1__CmdGrant *grant, struct err *err)
{
    const struct fsm_lease *lease;
    char job[TEXT_JOB_MAX + 1];

    if (empty(&grant->job))
        return 0;
    memcpy(job, grant->job.data, grant->job.len);
    job[grant->job.len] = '\0';
    lease = fsm_lease_of_job(service_fsm(draft->service), grant->owner_uid, job);
    if (!lease || service_sees(draft->request, &lease->owner))
        return 0;
    return err_set(err, FSM_PRECONDITION,
                   "owner: uid %u belonged to somebody else, who left a lease for a job of this "
                   "name: an administrator must end it first",
                   grant->owner_uid);
}

static int draft_grant(struct draft *draft, const Xce__V1__LeaseSpec *spec, Xce__V1__CmdGrant *ret,
                       struct err *err)
{
    int r;

    xce__v1__cmd_grant__init(ret);
    if (spec->n_write_paths)
        return err_set(err, -EOPNOTSUPP, "write_paths: not yet available");
    if ((r = draft_names(spec, ret, err)) != 0 || (r = draft_pool(draft, ret, err)) != 0 ||
        (r = draft_owner(draft, spec->owner, ret, err)) != 0 ||
        (r = draft_job(draft, ret, err)) != 0 || (r = draft_lifetime(spec, ret, err)) != 0 ||
        (r = draft_gids(draft, spec, ret, err)) != 0)
        return r;
    return draft_nodes(draft, spec, ret, err);
}

static int draft_acquire(struct draft *draft, const Xce__V1__AcquireRequest *message,
                         struct err *err)
{
    size_t n = message->n_leases;
    Xce__V1__CmdGrant *grants;

    if (n == 0 || n > FSM_BATCH_MAX)
        return err_set(err, -EINVAL, "leases: %zu of them, must be 1 to %d", n, FSM_BATCH_MAX);
    xce__v1__cmd_acquire__init(&draft->acquire);
    grants = pb_arena_alloc(&draft->arena, n * sizeof *grants);
    draft->acquire.grants = pb_arena_alloc(&draft->arena, n * sizeof *draft->acquire.grants);
    if (!grants || !draft->acquire.grants)
        return -ENOMEM;
    for (size_t i = 0; i < n; i++) {
        int r = draft_grant(draft, message->leases[i], &grants[i], err);

        if (r != 0)
            return n > 1 ? err_prefix(err, r, "leases[%zu]", i) : r;
        draft->acquire.grants[i] = &grants[i];
    }
    draft->acquire.n_grants = n;
    draft->acquire.adopt = message->adopt;
    draft->acquire.wait = message->wait;
    return 0;
}

static void acquired(struct service *service, struct service_request *request,
                     const struct fsm_outcome *outcome)
{
    const Xce__V1__AcquireRequest *message = (const Xce__V1__AcquireRequest *)request->message;

    if (message->wait)
        wait_for_ready(service, request, outcome);
    else
        wait_reply_acquired(service, request, outcome->leases, outcome->n_leases);
}

/* Check and convert; false: refused, or not yet. In either case the arena is the caller's to end. */
static bool begin_draft(struct draft *draft)
{
    const Xce__V1__AcquireRequest *message = (const Xce__V1__AcquireRequest *)
                                                 draft->request->message;
    struct err err = {{0}};
    int r;

    pb_arena_init(&draft->arena, GRANTS_ARENA_MAX);
    r = draft_acquire(draft, message, &err);
    if (r != 0 && !service_doubts(draft->service, draft->request))
        service_refuse(draft->request, r, *err.text ? "%s" : NULL, err.text);
    return r == 0;
}

static void propose_acquire(struct service *service, struct service_request *request)
{
    const Xce__V1__AcquireRequest *message = (const Xce__V1__AcquireRequest *)request->message;
    Xce__V1__Command command = XCE__V1__COMMAND__INIT;
    struct draft draft = {.service = service, .request = request};

    if (begin_draft(&draft)) {
        command.kind_case = XCE__V1__COMMAND__KIND_ACQUIRE;
        command.acquire = &draft.acquire;
        service_propose(service, request, message->request, &command, acquired);
    }
    pb_arena_done(&draft.arena);
}

/* NSS is asked last, and only for what is in order otherwise; the state may have gone on when it answers. */
static void check_gids(struct service *service, struct service_request *request)
{
    const Xce__V1__AcquireRequest *message = (const Xce__V1__AcquireRequest *)request->message;
    struct draft draft = {.service = service, .request = request};
    bool fine = begin_draft(&draft);

    pb_arena_done(&draft.arena);
    if (fine && service_check_id(request, message->request))
        groups_check(service, request, propose_acquire);
}

void service_lease_acquire(struct service *service, struct service_request *request)
{
    const Xce__V1__AcquireRequest *message = (const Xce__V1__AcquireRequest *)request->message;

    char why[2 * DEGRADED_WHY_MAX + 256];

    if (!service_answered(service, request, message->request) &&
        degraded_refuses(service->degraded, why, sizeof why)) {
        service_refuse(request, -ENOBUFS, "%s", why);
        return;
    }
    for (size_t i = 0; i < message->n_leases; i++)
        if (message->leases[i]->n_gids) {
            check_gids(service, request);
            return;
        }
    propose_acquire(service, request);
}

/* ---- the others: one lease, by id and epoch ---- */

/* Whether the command may be proposed for this lease; *ret_lease = the id to name in it.
 *
 * What is not there and what is somebody else's are one: both are refused here, and leave nothing in the log. Only an
 * answer kept under the request id is given again: asked for with lease 0, which is nobody's, if this one is another's
 * by now. */
static bool may_change(struct service *service, struct service_request *request,
                       const Xce__V1__RequestId *id, uint64_t *ret_lease)
{
    const struct fsm_lease *lease = fsm_lease(service_fsm(service), *ret_lease);

    if (!service_check_id(request, id))
        return false;
    if (request->scope == SCOPE_ALL || (lease && service_sees(request, &lease->owner)))
        return true;
    if (lease)
        *ret_lease = 0;
    if (service_answered(service, request, id))
        return true;
    if (!service_doubts(service, request))
        service_refuse(request, FSM_NOT_FOUND, NULL);
    return false;
}

static void reply_changed(struct service *service, struct service_request *request,
                          const struct fsm_outcome *outcome)
{
    service_reply_lease(service, request, outcome->n_leases ? outcome->leases[0] : 0);
}

/* Propose it, if that may be. lease: where the command has the id. */
static void change(struct service *service, struct service_request *request,
                   const Xce__V1__RequestId *id, uint64_t *lease, Xce__V1__Command *command)
{
    if (may_change(service, request, id, lease))
        service_propose(service, request, id, command, reply_changed);
}

void service_lease_renew(struct service *service, struct service_request *request)
{
    const Xce__V1__RenewRequest *message = (const Xce__V1__RenewRequest *)request->message;
    Xce__V1__Command command = XCE__V1__COMMAND__INIT;
    Xce__V1__CmdRenew renew = XCE__V1__CMD_RENEW__INIT;
    struct err err = {{0}};

    if (message->ttl_ms < 0) {
        service_refuse(request, -EINVAL, "ttl_ms: %lld is negative", (long long)message->ttl_ms);
        return;
    }
    if (check_nodes(message->nodes, message->n_nodes, &err) < 0) {
        service_refuse(request, -EINVAL, "%s", err.text);
        return;
    }
    renew.lease = message->lease;
    renew.epoch = message->epoch;
    renew.ttl_ms = message->ttl_ms;
    renew.nodes = message->nodes;
    renew.n_nodes = message->n_nodes;
    command.kind_case = XCE__V1__COMMAND__KIND_RENEW;
    command.renew = &renew;
    change(service, request, message->request, &renew.lease, &command);
}

void service_lease_release(struct service *service, struct service_request *request)
{
    const Xce__V1__ReleaseRequest *message = (const Xce__V1__ReleaseRequest *)request->message;
    Xce__V1__Command command = XCE__V1__COMMAND__INIT;
    Xce__V1__CmdRelease release = XCE__V1__CMD_RELEASE__INIT;
    struct err err = {{0}};

    if (!empty(&message->node) &&
        text_check_node((const char *)message->node.data, message->node.len, &err) < 0) {
        service_refuse(request, -EINVAL, "%s", err.text);
        return;
    }
    release.lease = message->lease;
    release.epoch = message->epoch;
    release.node = message->node;
    command.kind_case = XCE__V1__COMMAND__KIND_RELEASE;
    command.release = &release;
    change(service, request, message->request, &release.lease, &command);
}

void service_lease_revoke(struct service *service, struct service_request *request)
{
    const Xce__V1__RevokeRequest *message = (const Xce__V1__RevokeRequest *)request->message;
    Xce__V1__Command command = XCE__V1__COMMAND__INIT;
    Xce__V1__CmdRevoke revoke = XCE__V1__CMD_REVOKE__INIT;
    struct err err = {{0}};

    if (text_require("reason", message->reason.data, message->reason.len, TEXT_NOTE_MAX, &err) <
        0) {
        service_refuse(request, -EINVAL, "%s", err.text);
        return;
    }
    revoke.lease = message->lease;
    revoke.epoch = message->epoch;
    revoke.reason = message->reason;
    command.kind_case = XCE__V1__COMMAND__KIND_REVOKE;
    command.revoke = &revoke;
    change(service, request, message->request, &revoke.lease, &command);
}
