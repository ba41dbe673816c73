/* PoolService. */
#include <errno.h>
#include <stdlib.h>

#include "client/call.h"
#include "client/client.h"
#include "client/request.h"
#include "client/result.h"
#include "client/verb.h"

#define OUT_OF_MEMORY(client) client_fail(client, XCE_FAILED, "out of memory")

#define METHOD(verb, reply)                                                                        \
    {                                                                                              \
        "/xce.v1.PoolService/" verb, &xce__v1__##reply##__descriptor                               \
    }

static int run_for_pool(struct xce_client *client, const struct xce_call *call,
                        const struct call_method *method, const ProtobufCMessage *request,
                        struct xce_pool **ret)
{
    struct xce_pool *pool = result_new(sizeof *pool);
    const Xce__V1__PoolReply *reply;
    ProtobufCMessage *message;
    int code;

    if (!pool)
        return OUT_OF_MEMORY(client);
    code = call_run(client, call, method, request, result_arena(pool), &message);
    if (code == XCE_OK) {
        reply = (Xce__V1__PoolReply *)message;
        request_answered(client, reply->info);
        if (!reply->pool)
            code = client_fail(client, XCE_FAILED, "the server's answer holds no pool");
        else if (result_pool(result_arena(pool), reply->pool, pool) < 0)
            code = OUT_OF_MEMORY(client);
    }
    if (code != XCE_OK)
        xce_free(pool);
    else
        *ret = pool;
    return code;
}

static void fill_settings(const struct xce_pool_settings *settings, Xce__V1__PoolSettings *ret)
{
    xce__v1__pool_settings__init(ret);
    ret->ttl_min_ms = settings->ttl_min_ms;
    ret->ttl_max_ms = settings->ttl_max_ms;
    ret->ttl_default_ms = settings->ttl_default_ms;
    ret->cooldown_ms = settings->cooldown_ms;
    ret->ready_timeout_ms = settings->ready_timeout_ms;
    ret->validity_ms = settings->validity_ms;
    ret->witnesses = (Xce__V1__Witnesses)settings->witnesses;
    ret->witnesses_set = settings->witnesses_set;
    ret->max_per_owner = settings->max_per_owner;
    ret->max_per_owner_set = settings->max_per_owner_set;
    ret->home = verb_bytes(settings->home);
    ret->shell = verb_bytes(settings->shell);
}

/* Messages for an array of ranges: one block, pointers first. NULL: none, or no memory. */
static Xce__V1__UidRange **fill_ranges(const struct xce_range *ranges, size_t n)
{
    Xce__V1__UidRange **pointers, *messages;

    pointers = calloc(n + 1, sizeof *pointers + sizeof *messages);
    if (!pointers)
        return NULL;
    messages = (Xce__V1__UidRange *)(void *)(pointers + n + 1);
    for (size_t i = 0; i < n; i++) {
        xce__v1__uid_range__init(&messages[i]);
        messages[i].first = ranges[i].first;
        messages[i].last = ranges[i].last;
        pointers[i] = &messages[i];
    }
    return pointers;
}

int xce_pool_create(struct xce_client *client, const struct xce_call *call,
                    const struct xce_pool_spec *spec, struct xce_pool **ret)
{
    static const struct call_method method = METHOD("Create", pool_reply);
    Xce__V1__CreatePoolRequest request = XCE__V1__CREATE_POOL_REQUEST__INIT;
    Xce__V1__RequestId id = XCE__V1__REQUEST_ID__INIT;
    Xce__V1__UidRange range = XCE__V1__UID_RANGE__INIT;
    Xce__V1__PoolSettings settings;
    int code = request_prepare(client, call, false, &id);

    if (code != XCE_OK)
        return code;
    range.first = spec->range.first;
    range.last = spec->range.last;
    fill_settings(&spec->settings, &settings);
    request.request = &id;
    request.name = verb_bytes(spec->name);
    request.range = &range;
    request.settings = &settings;
    request.directory_none = spec->directory_none;
    request.n_directory_ranges = spec->n_directory_ranges;
    request.directory_ranges = fill_ranges(spec->directory_ranges, spec->n_directory_ranges);
    if (!request.directory_ranges)
        return OUT_OF_MEMORY(client);
    code = run_for_pool(client, call, &method, &request.base, ret);
    free(request.directory_ranges);
    return code;
}

int xce_pool_set(struct xce_client *client, const struct xce_call *call,
                 const struct xce_pool_spec *spec, struct xce_pool **ret)
{
    static const struct call_method method = METHOD("Set", pool_reply);
    Xce__V1__SetPoolRequest request = XCE__V1__SET_POOL_REQUEST__INIT;
    Xce__V1__RequestId id = XCE__V1__REQUEST_ID__INIT;
    Xce__V1__PoolSettings settings;
    int code;

    if (spec->range.first)
        return client_fail(client, XCE_INVALID, "the first uid of a pool is fixed");
    code = request_prepare(client, call, false, &id);
    if (code != XCE_OK)
        return code;
    fill_settings(&spec->settings, &settings);
    request.request = &id;
    request.name = verb_bytes(spec->name);
    request.settings = &settings;
    request.last = spec->range.last;
    request.directory_none = spec->directory_none;
    request.n_directory_ranges = spec->n_directory_ranges;
    request.directory_ranges = fill_ranges(spec->directory_ranges, spec->n_directory_ranges);
    if (!request.directory_ranges)
        return OUT_OF_MEMORY(client);
    code = run_for_pool(client, call, &method, &request.base, ret);
    free(request.directory_ranges);
    return code;
}

int xce_pool_get(struct xce_client *client, const struct xce_call *call, const char *name,
                 struct xce_pool **ret)
{
    static const struct call_method method = METHOD("Get", pool_reply);
    Xce__V1__PoolKey request = XCE__V1__POOL_KEY__INIT;

    request.name = verb_bytes(name);
    return run_for_pool(client, call, &method, &request.base, ret);
}

static int list_reply(struct pb_arena *arena, const Xce__V1__ListPoolsReply *reply,
                      struct xce_pools *ret)
{
    struct xce_pool *items = pb_arena_alloc(arena, (reply->n_pools + 1) * sizeof *items);

    if (!items)
        return -ENOMEM;
    for (size_t i = 0; i < reply->n_pools; i++)
        if (result_pool(arena, reply->pools[i], &items[i]) < 0)
            return -ENOMEM;
    ret->items = items;
    ret->n = reply->n_pools;
    ret->revision = reply->revision;
    return 0;
}

int xce_pool_list(struct xce_client *client, const struct xce_call *call, struct xce_pools **ret)
{
    static const struct call_method method = METHOD("List", list_pools_reply);
    Xce__V1__ListPoolsRequest request = XCE__V1__LIST_POOLS_REQUEST__INIT;
    struct xce_pools *pools = result_new(sizeof *pools);
    ProtobufCMessage *reply;
    int code;

    if (!pools)
        return OUT_OF_MEMORY(client);
    code = call_run(client, call, &method, &request.base, result_arena(pools), &reply);
    if (code == XCE_OK &&
        list_reply(result_arena(pools), (Xce__V1__ListPoolsReply *)reply, pools) < 0)
        code = OUT_OF_MEMORY(client);
    if (code != XCE_OK)
        xce_free(pools);
    else
        *ret = pools;
    return code;
}

int xce_pool_unblock(struct xce_client *client, const struct xce_call *call, const char *name,
                     uint32_t uid, struct xce_pool **ret)
{
    static const struct call_method method = METHOD("Unblock", pool_reply);
    Xce__V1__UnblockRequest request = XCE__V1__UNBLOCK_REQUEST__INIT;
    Xce__V1__RequestId id = XCE__V1__REQUEST_ID__INIT;
    int code = request_prepare(client, call, false, &id);

    if (code != XCE_OK)
        return code;
    request.request = &id;
    request.name = verb_bytes(name);
    request.uid = uid;
    return run_for_pool(client, call, &method, &request.base, ret);
}

int xce_pool_retire(struct xce_client *client, const struct xce_call *call, const char *name,
                    struct xce_pool **ret)
{
    static const struct call_method method = METHOD("Retire", pool_reply);
    Xce__V1__RetirePoolRequest request = XCE__V1__RETIRE_POOL_REQUEST__INIT;
    Xce__V1__RequestId id = XCE__V1__REQUEST_ID__INIT;
    int code = request_prepare(client, call, false, &id);

    if (code != XCE_OK)
        return code;
    request.request = &id;
    request.name = verb_bytes(name);
    return run_for_pool(client, call, &method, &request.base, ret);
}

static void suggest_reply(const Xce__V1__SuggestPoolReply *reply, struct xce_suggestion *ret)
{
    if (reply->range)
        ret->range = (struct xce_range){reply->range->first, reply->range->last};
    ret->rejected = (const char *const *)reply->rejected;
    ret->n_rejected = reply->n_rejected;
}

int xce_pool_suggest(struct xce_client *client, const struct xce_call *call, uint32_t count,
                     const struct xce_range *directory_ranges, size_t n_directory_ranges,
                     struct xce_suggestion **ret)
{
    static const struct call_method method = METHOD("Suggest", suggest_pool_reply);
    Xce__V1__SuggestPoolRequest request = XCE__V1__SUGGEST_POOL_REQUEST__INIT;
    struct xce_suggestion *suggestion = result_new(sizeof *suggestion);
    ProtobufCMessage *reply;
    int code;

    request.count = count;
    request.n_directory_ranges = n_directory_ranges;
    request.directory_ranges = fill_ranges(directory_ranges, n_directory_ranges);
    if (!suggestion || !request.directory_ranges)
        code = OUT_OF_MEMORY(client);
    else
        code = call_run(client, call, &method, &request.base, result_arena(suggestion), &reply);
    free(request.directory_ranges);
    if (code != XCE_OK) {
        xce_free(suggestion);
        return code;
    }
    suggest_reply((Xce__V1__SuggestPoolReply *)reply, suggestion);
    *ret = suggestion;
    return XCE_OK;
}
