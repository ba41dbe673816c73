/* LeaseService, save Watch. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "client/verb.h"
#include "xce/v1/local.pb-c.h"

#define SERVICE "LeaseService"

static const char create_suffix[] = ":create";

static void fill_owner(const struct xce_owner *owner, Xce__V1__OwnerSpec *ret)
{
    xce__v1__owner_spec__init(ret);
    ret->name = verb_bytes(owner->name);
    ret->uid = owner->uid;
    ret->gid = owner->gid;
}

/* ---- acquire ---- */

/* One spec as a message: the message first, so that an array of these can be walked. */
struct spec_message {
    Xce__V1__LeaseSpec spec;
    Xce__V1__OwnerSpec owner;
};

static int fill_nodes(struct pb_arena *arena, const char *const *nodes, size_t n,
                      ProtobufCBinaryData **ret, size_t *ret_n)
{
    if (!n)
        return 0;
    *ret = pb_arena_alloc(arena, n * sizeof **ret);
    if (!*ret)
        return -ENOMEM;
    for (size_t i = 0; i < n; i++)
        (*ret)[i] = verb_bytes(nodes[i]);
    *ret_n = n;
    return 0;
}

static void fill_write_path(const char *text, Xce__V1__WritePathSpec *ret)
{
    size_t suffix = sizeof create_suffix - 1;

    xce__v1__write_path_spec__init(ret);
    ret->path = verb_bytes(text);
    if (ret->path.len > suffix && !strcmp(text + ret->path.len - suffix, create_suffix)) {
        ret->path.len -= suffix;
        ret->create = true;
    }
}

static int fill_write_paths(struct pb_arena *arena, const struct xce_spec *spec,
                            Xce__V1__LeaseSpec *ret)
{
    Xce__V1__WritePathSpec *items;

    if (!spec->n_write_paths)
        return 0;
    items = pb_arena_alloc(arena, spec->n_write_paths * sizeof *items);
    ret->write_paths = pb_arena_alloc(arena, spec->n_write_paths * sizeof *ret->write_paths);
    if (!items || !ret->write_paths)
        return -ENOMEM;
    for (size_t i = 0; i < spec->n_write_paths; i++) {
        fill_write_path(spec->write_paths[i], &items[i]);
        ret->write_paths[i] = &items[i];
    }
    ret->n_write_paths = spec->n_write_paths;
    return 0;
}

static int fill_spec(struct pb_arena *arena, const struct xce_spec *spec, struct spec_message *ret)
{
    Xce__V1__LeaseSpec *message = &ret->spec;

    xce__v1__lease_spec__init(message);
    message->pool = verb_bytes(spec->pool);
    message->job = verb_bytes(spec->job);
    message->all_nodes = spec->all_nodes;
    message->gids = (uint32_t *)(uintptr_t)spec->gids;
    message->n_gids = spec->n_gids;
    if (spec->ttl_ms == XCE_TTL_NONE) {
        message->lifetime_case = XCE__V1__LEASE_SPEC__LIFETIME_TTL_NONE;
        message->ttl_none = true;
    } else if (spec->ttl_ms) {
        message->lifetime_case = XCE__V1__LEASE_SPEC__LIFETIME_TTL_MS;
        message->ttl_ms = spec->ttl_ms;
    }
    if (spec->owner) {
        fill_owner(spec->owner, &ret->owner);
        message->owner = &ret->owner;
    }
    if (fill_nodes(arena, spec->nodes, spec->n_nodes, &message->nodes, &message->n_nodes) < 0)
        return -ENOMEM;
    return fill_write_paths(arena, spec, message);
}

static int fill_acquire(struct pb_arena *arena, const struct xce_acquire *acquire,
                        Xce__V1__AcquireRequest *ret)
{
    size_t n = acquire->n_specs;
    struct spec_message *specs = pb_arena_alloc(arena, n * sizeof *specs);

    ret->leases = pb_arena_alloc(arena, n * sizeof *ret->leases);
    if (!specs || !ret->leases)
        return -ENOMEM;
    for (size_t i = 0; i < n; i++) {
        if (fill_spec(arena, &acquire->specs[i], &specs[i]) < 0)
            return -ENOMEM;
        ret->leases[i] = &specs[i].spec;
    }
    ret->n_leases = n;
    ret->wait = acquire->wait;
    ret->adopt = acquire->adopt;
    return 0;
}

/* ret->items out of n messages. */
static int take_leases(struct pb_arena *arena, Xce__V1__Lease *const *messages, size_t n,
                       struct xce_leases *ret)
{
    struct xce_lease *items = pb_arena_alloc(arena, (n + 1) * sizeof *items);

    if (!items)
        return -ENOMEM;
    for (size_t i = 0; i < n; i++)
        if (result_lease(arena, messages[i], &items[i]) < 0)
            return -ENOMEM;
    ret->items = items;
    ret->n = n;
    return 0;
}

static int take_left_out(struct pb_arena *arena, const Xce__V1__AcquireReply *reply,
                         struct xce_leases *ret)
{
    struct xce_left_out *items = pb_arena_alloc(arena, (reply->n_left_out + 1) * sizeof *items);

    if (!items)
        return -ENOMEM;
    for (size_t i = 0; i < reply->n_left_out; i++) {
        const Xce__V1__LeftOut *left_out = reply->left_out[i];

        items[i] = (struct xce_left_out){left_out->node, left_out->state, left_out->reason};
    }
    ret->left_out = items;
    ret->n_left_out = reply->n_left_out;
    return 0;
}

/* result->n holds how many were asked for. */
static int take_acquired(struct xce_client *client, const ProtobufCMessage *message, void *result)
{
    const Xce__V1__AcquireReply *reply = (const Xce__V1__AcquireReply *)message;
    struct xce_leases *leases = result;

    client_saw_info(client, reply->info);
    if (reply->n_leases != leases->n)
        return client_fail(client, XCE_FAILED, "the server answered with %zu leases, not %zu",
                           reply->n_leases, leases->n);
    if (take_leases(result_arena(leases), reply->leases, reply->n_leases, leases) < 0 ||
        take_left_out(result_arena(leases), reply, leases) < 0)
        return OUT_OF_MEMORY(client);
    if (reply->info) {
        leases->revision = reply->info->revision;
        leases->now_ms = reply->info->now_ms;
    }
    return XCE_OK;
}

int xce_lease_acquire(struct xce_client *client, const struct xce_call *call,
                      const struct xce_acquire *acquire, struct xce_leases **ret)
{
    struct op_spec spec = VERB(OP_GRANT, "Acquire", acquire_reply, take_acquired);
    Xce__V1__AcquireRequest request = XCE__V1__ACQUIRE_REQUEST__INIT;
    struct xce_leases *leases;

    if (acquire->n_specs < 1 || acquire->n_specs > XCE_BATCH_MAX)
        return client_fail(client, XCE_INVALID, "%zu leases at once: must be 1 to %d",
                           acquire->n_specs, XCE_BATCH_MAX);
    leases = result_new(sizeof *leases);
    if (!leases || fill_acquire(result_arena(leases), acquire, &request) < 0) {
        xce_free(leases);
        return OUT_OF_MEMORY(client);
    }
    leases->n = acquire->n_specs;
    spec.request = &request.base;
    return op_run(client, call, &spec, leases, ret);
}

/* ---- what answers with one lease ---- */

static int take_lease(struct xce_client *client, const ProtobufCMessage *message, void *result)
{
    const Xce__V1__LeaseReply *reply = (const Xce__V1__LeaseReply *)message;

    client_saw_info(client, reply->info);
    if (!reply->lease)
        return client_fail(client, XCE_FAILED, "the server's answer holds no lease");
    if (result_lease(result_arena(result), reply->lease, result) < 0)
        return OUT_OF_MEMORY(client);
    return XCE_OK;
}

int xce_lease_renew(struct xce_client *client, const struct xce_call *call, uint64_t lease,
                    uint32_t epoch, int64_t ttl_ms, struct xce_lease **ret)
{
    struct xce_renewal renewal = {.ttl_ms = ttl_ms};

    return xce_lease_renew_with(client, call, lease, epoch, &renewal, ret);
}

int xce_lease_renew_with(struct xce_client *client, const struct xce_call *call, uint64_t lease,
                         uint32_t epoch, const struct xce_renewal *renewal, struct xce_lease **ret)
{
    struct op_spec spec = VERB(OP_CHANGE, "Renew", lease_reply, take_lease);
    Xce__V1__RenewRequest request = XCE__V1__RENEW_REQUEST__INIT;
    struct xce_lease *result = result_new(sizeof *result);

    if (!result || fill_nodes(result_arena(result), renewal->nodes, renewal->n_nodes,
                              &request.nodes, &request.n_nodes) < 0) {
        xce_free(result);
        return OUT_OF_MEMORY(client);
    }
    request.lease = lease;
    request.epoch = epoch;
    request.ttl_ms = renewal->ttl_ms;
    spec.request = &request.base;
    return op_run(client, call, &spec, result, ret);
}

int xce_lease_release(struct xce_client *client, const struct xce_call *call, uint64_t lease,
                      uint32_t epoch, const char *node, struct xce_lease **ret)
{
    struct op_spec spec = VERB(OP_CHANGE, "Release", lease_reply, take_lease);
    Xce__V1__ReleaseRequest request = XCE__V1__RELEASE_REQUEST__INIT;

    request.lease = lease;
    request.epoch = epoch;
    request.node = verb_bytes(node);
    return verb_run(client, call, &spec, &request.base, sizeof **ret, ret);
}

static int take_deferred(struct xce_client *client, const ProtobufCMessage *message, void *result)
{
    const Xce__V1__DeferReply *reply = (const Xce__V1__DeferReply *)message;

    (void)client;
    *(struct xce_deferred *)result = (struct xce_deferred){
        .lease = reply->lease, .uid = reply->uid, .epoch = reply->epoch, .passed = reply->passed};
    return XCE_OK;
}

int xce_lease_release_deferred(struct xce_client *client, const struct xce_call *call,
                               const struct xce_key *key, struct xce_deferred **ret)
{
    struct op_spec spec = {.kind = OP_CHANGE,
                           .path = "/xce.v1.LocalService/Release",
                           .reply = &xce__v1__defer_reply__descriptor,
                           .take = take_deferred};
    Xce__V1__DeferRequest request = XCE__V1__DEFER_REQUEST__INIT;

    switch (key->kind) {
    case XCE_BY_UID:
        request.key_case = XCE__V1__DEFER_REQUEST__KEY_UID;
        request.uid = key->uid;
        break;
    case XCE_BY_LEASE:
        request.key_case = XCE__V1__DEFER_REQUEST__KEY_LEASE;
        request.lease = key->lease;
        break;
    case XCE_BY_NAME:
        request.key_case = XCE__V1__DEFER_REQUEST__KEY_NAME;
        request.name = verb_bytes(key->text);
        break;
    default:
        return client_fail(client, XCE_INVALID, "noded knows leases by uid, number and name alone");
    }
    return verb_run(client, call, &spec, &request.base, sizeof **ret, ret);
}

int xce_lease_revoke(struct xce_client *client, const struct xce_call *call, uint64_t lease,
                     uint32_t epoch, const char *reason, struct xce_lease **ret)
{
    struct op_spec spec = VERB(OP_CHANGE, "Revoke", lease_reply, take_lease);
    Xce__V1__RevokeRequest request = XCE__V1__REVOKE_REQUEST__INIT;

    request.lease = lease;
    request.epoch = epoch;
    request.reason = verb_bytes(reason);
    return verb_run(client, call, &spec, &request.base, sizeof **ret, ret);
}

/* ---- reads ---- */

static int fill_key(struct xce_client *client, const struct xce_key *key, Xce__V1__OwnerSpec *owner,
                    Xce__V1__LeaseKey *ret)
{
    switch (key->kind) {
    case XCE_BY_LEASE:
        ret->key_case = XCE__V1__LEASE_KEY__KEY_LEASE;
        ret->lease = key->lease;
        return XCE_OK;
    case XCE_BY_UID:
        ret->key_case = XCE__V1__LEASE_KEY__KEY_UID;
        ret->uid = key->uid;
        return XCE_OK;
    case XCE_BY_NAME:
        ret->key_case = XCE__V1__LEASE_KEY__KEY_NAME;
        ret->name = verb_bytes(key->text);
        return XCE_OK;
    case XCE_BY_JOB:
        ret->key_case = XCE__V1__LEASE_KEY__KEY_JOB;
        ret->job = verb_bytes(key->text);
        if (key->owner) {
            fill_owner(key->owner, owner);
            ret->owner = owner;
        }
        return XCE_OK;
    }
    return client_fail(client, XCE_INVALID, "no such kind of key: %d", (int)key->kind);
}

static int run_by_key(struct xce_client *client, const struct xce_call *call, struct op_spec *spec,
                      const struct xce_key *key, size_t size, void *ret)
{
    Xce__V1__LeaseKey request = XCE__V1__LEASE_KEY__INIT;
    Xce__V1__OwnerSpec owner;
    int code = fill_key(client, key, &owner, &request);

    return code == XCE_OK ? verb_run(client, call, spec, &request.base, size, ret) : code;
}

int xce_lease_get(struct xce_client *client, const struct xce_call *call, const struct xce_key *key,
                  struct xce_lease **ret)
{
    struct op_spec spec = VERB(OP_READ, "Get", lease_reply, take_lease);

    return run_by_key(client, call, &spec, key, sizeof **ret, ret);
}

static int fill_filter(struct pb_arena *arena, const struct xce_lease_filter *filter,
                       Xce__V1__ListLeasesRequest *ret)
{
    ret->all = filter->all;
    ret->pool = verb_bytes(filter->pool);
    ret->job = verb_bytes(filter->job);
    ret->node = verb_bytes(filter->node);
    ret->quarantined = filter->quarantined;
    ret->page_size = filter->page_size;
    ret->after = filter->after;
    if (filter->has_owner) {
        ret->owner_filter_case = XCE__V1__LIST_LEASES_REQUEST__OWNER_FILTER_OWNER_UID;
        ret->owner_uid = filter->owner_uid;
    }
    if (!filter->n_states)
        return 0;
    ret->states = pb_arena_alloc(arena, filter->n_states * sizeof *ret->states);
    if (!ret->states)
        return -ENOMEM;
    for (size_t i = 0; i < filter->n_states; i++)
        ret->states[i] = (Xce__V1__LeaseState)filter->states[i];
    ret->n_states = filter->n_states;
    return 0;
}

static int take_list(struct xce_client *client, const ProtobufCMessage *message, void *result)
{
    const Xce__V1__ListLeasesReply *reply = (const Xce__V1__ListLeasesReply *)message;
    struct xce_leases *leases = result;

    if (!reply->stale)
        client_saw_time(client, reply->now_ms);
    leases->next = reply->next;
    leases->revision = reply->revision;
    leases->now_ms = reply->now_ms;
    if (take_leases(result_arena(leases), reply->leases, reply->n_leases, leases) < 0)
        return OUT_OF_MEMORY(client);
    return XCE_OK;
}

int xce_lease_list(struct xce_client *client, const struct xce_call *call,
                   const struct xce_lease_filter *filter, struct xce_leases **ret)
{
    static const struct xce_lease_filter everything;
    struct op_spec spec = VERB(OP_READ, "List", list_leases_reply, take_list);
    Xce__V1__ListLeasesRequest request = XCE__V1__LIST_LEASES_REQUEST__INIT;
    struct xce_leases *leases = result_new(sizeof *leases);

    if (!leases || fill_filter(result_arena(leases), filter ? filter : &everything, &request) < 0) {
        xce_free(leases);
        return OUT_OF_MEMORY(client);
    }
    spec.request = &request.base;
    return op_run(client, call, &spec, leases, ret);
}

/* ---- explain and history ---- */

static int fill_explanation(struct pb_arena *arena, const Xce__V1__ExplainReply *reply,
                            struct xce_explanation *ret)
{
    struct xce_waiting *waits = pb_arena_alloc(arena, (reply->n_waits + 1) * sizeof *waits);

    if (!waits)
        return -ENOMEM;
    for (size_t i = 0; i < reply->n_waits; i++) {
        const Xce__V1__Waiting *wait = reply->waits[i];

        waits[i] = (struct xce_waiting){
            .what = wait->what,
            .state = wait->state,
            .detail = wait->detail,
            .since_ms = wait->since_ms,
            .until_ms = wait->until_ms,
            .cure = wait->cure,
        };
    }
    ret->waits = waits;
    ret->n_waits = reply->n_waits;
    ret->summary = reply->summary;
    ret->revision = reply->revision;
    if (reply->lease) {
        struct xce_lease *lease = pb_arena_alloc(arena, sizeof *lease);

        if (!lease || result_lease(arena, reply->lease, lease) < 0)
            return -ENOMEM;
        ret->lease = lease;
    }
    return 0;
}

static int take_explanation(struct xce_client *client, const ProtobufCMessage *reply, void *result)
{
    if (fill_explanation(result_arena(result), (const Xce__V1__ExplainReply *)reply, result) < 0)
        return OUT_OF_MEMORY(client);
    return XCE_OK;
}

int xce_lease_explain(struct xce_client *client, const struct xce_call *call,
                      const struct xce_key *key, struct xce_explanation **ret)
{
    struct op_spec spec = VERB(OP_READ, "Explain", explain_reply, take_explanation);

    return run_by_key(client, call, &spec, key, sizeof **ret, ret);
}

static int fill_history(struct xce_client *client, const struct xce_key *key,
                        Xce__V1__OwnerSpec *owner, Xce__V1__HistoryRequest *ret)
{
    switch (key->kind) {
    case XCE_BY_LEASE:
        ret->who_case = XCE__V1__HISTORY_REQUEST__WHO_LEASE;
        ret->lease = key->lease;
        return XCE_OK;
    case XCE_BY_UID:
        ret->who_case = XCE__V1__HISTORY_REQUEST__WHO_UID;
        ret->uid = key->uid;
        return XCE_OK;
    case XCE_BY_NAME:
        ret->who_case = XCE__V1__HISTORY_REQUEST__WHO_NAME;
        ret->name = verb_bytes(key->text);
        return XCE_OK;
    case XCE_BY_JOB:
        ret->who_case = XCE__V1__HISTORY_REQUEST__WHO_JOB;
        ret->job = verb_bytes(key->text);
        if (key->owner) {
            fill_owner(key->owner, owner);
            ret->owner = owner;
        }
        return XCE_OK;
    }
    return client_fail(client, XCE_INVALID, "no such kind of key: %d", (int)key->kind);
}

static int take_history(struct xce_client *client, const ProtobufCMessage *message, void *result)
{
    const Xce__V1__HistoryReply *reply = (const Xce__V1__HistoryReply *)message;
    struct xce_history *history = result;
    struct xce_past *items = pb_arena_alloc(result_arena(history),
                                            (reply->n_entries + 1) * sizeof *items);

    if (!items)
        return OUT_OF_MEMORY(client);
    for (size_t i = 0; i < reply->n_entries; i++)
        result_past(reply->entries[i], &items[i]);
    history->items = items;
    history->n = reply->n_entries;
    history->revision = reply->revision;
    history->complete = reply->complete;
    history->unknown = reply->note;
    return XCE_OK;
}

int xce_lease_history(struct xce_client *client, const struct xce_call *call,
                      const struct xce_key *key, int64_t at_ms, uint32_t limit,
                      struct xce_history **ret)
{
    struct op_spec spec = VERB(OP_READ, "History", history_reply, take_history);
    Xce__V1__HistoryRequest request = XCE__V1__HISTORY_REQUEST__INIT;
    Xce__V1__OwnerSpec owner;
    int code = fill_history(client, key, &owner, &request);

    if (code != XCE_OK)
        return code;
    request.at_ms = at_ms;
    request.limit = limit;
    return verb_run(client, call, &spec, &request.base, sizeof **ret, ret);
}
