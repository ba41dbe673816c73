/* PoolService. */
#include <stdlib.h>

#include "client/verb.h"
#include "common/mem.h"

#define SERVICE "PoolService"

static int take_pool(struct xce_client *client, const ProtobufCMessage *message, void *result)
{
    const Xce__V1__PoolReply *reply = (const Xce__V1__PoolReply *)message;

    client_saw_info(client, reply->info);
    if (!reply->pool)
        return client_fail(client, XCE_FAILED, "the server's answer holds no pool");
    if (result_pool(result_arena(result), reply->pool, result) < 0)
        return OUT_OF_MEMORY(client);
    return XCE_OK;
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
                    const struct xce_pool_spec *pool, struct xce_pool **ret)
{
    struct op_spec spec = VERB(OP_CHANGE, "Create", pool_reply, take_pool);
    Xce__V1__CreatePoolRequest request = XCE__V1__CREATE_POOL_REQUEST__INIT;
    Xce__V1__UidRange range = XCE__V1__UID_RANGE__INIT;
    Xce__V1__PoolSettings settings;
    auto_free Xce__V1__UidRange **directory = fill_ranges(pool->directory_ranges,
                                                          pool->n_directory_ranges);

    if (!directory)
        return OUT_OF_MEMORY(client);
    range.first = pool->range.first;
    range.last = pool->range.last;
    fill_settings(&pool->settings, &settings);
    request.name = verb_bytes(pool->name);
    request.range = &range;
    request.settings = &settings;
    request.directory_none = pool->directory_none;
    request.n_directory_ranges = pool->n_directory_ranges;
    request.directory_ranges = directory;
    return verb_run(client, call, &spec, &request.base, sizeof **ret, ret);
}

int xce_pool_set(struct xce_client *client, const struct xce_call *call,
                 const struct xce_pool_spec *pool, struct xce_pool **ret)
{
    struct op_spec spec = VERB(OP_CHANGE, "Set", pool_reply, take_pool);
    Xce__V1__SetPoolRequest request = XCE__V1__SET_POOL_REQUEST__INIT;
    Xce__V1__PoolSettings settings;
    auto_free Xce__V1__UidRange **directory = fill_ranges(pool->directory_ranges,
                                                          pool->n_directory_ranges);

    if (pool->range.first)
        return client_fail(client, XCE_INVALID, "the first uid of a pool is fixed");
    if (!directory)
        return OUT_OF_MEMORY(client);
    fill_settings(&pool->settings, &settings);
    request.name = verb_bytes(pool->name);
    request.settings = &settings;
    request.last = pool->range.last;
    request.directory_none = pool->directory_none;
    request.n_directory_ranges = pool->n_directory_ranges;
    request.directory_ranges = directory;
    return verb_run(client, call, &spec, &request.base, sizeof **ret, ret);
}

int xce_pool_get(struct xce_client *client, const struct xce_call *call, const char *name,
                 struct xce_pool **ret)
{
    struct op_spec spec = VERB(OP_READ, "Get", pool_reply, take_pool);
    Xce__V1__PoolKey request = XCE__V1__POOL_KEY__INIT;

    request.name = verb_bytes(name);
    return verb_run(client, call, &spec, &request.base, sizeof **ret, ret);
}

static int take_list(struct xce_client *client, const ProtobufCMessage *message, void *result)
{
    const Xce__V1__ListPoolsReply *reply = (const Xce__V1__ListPoolsReply *)message;
    struct pb_arena *arena = result_arena(result);
    struct xce_pools *pools = result;
    struct xce_pool *items = pb_arena_alloc(arena, (reply->n_pools + 1) * sizeof *items);

    if (!items)
        return OUT_OF_MEMORY(client);
    for (size_t i = 0; i < reply->n_pools; i++)
        if (result_pool(arena, reply->pools[i], &items[i]) < 0)
            return OUT_OF_MEMORY(client);
    pools->items = items;
    pools->n = reply->n_pools;
    pools->revision = reply->revision;
    return XCE_OK;
}

int xce_pool_list(struct xce_client *client, const struct xce_call *call, struct xce_pools **ret)
{
    struct op_spec spec = VERB(OP_READ, "List", list_pools_reply, take_list);
    Xce__V1__ListPoolsRequest request = XCE__V1__LIST_POOLS_REQUEST__INIT;

    return verb_run(client, call, &spec, &request.base, sizeof **ret, ret);
}

static int take_overlaps(struct xce_client *client, const ProtobufCMessage *message, void *result)
{
    const Xce__V1__PoolOverlapReply *reply = (const Xce__V1__PoolOverlapReply *)message;
    struct xce_overlap *items = pb_arena_alloc(result_arena(result),
                                               (reply->n_overlaps + 1) * sizeof *items);
    struct xce_overlaps *overlaps = result;

    if (!items)
        return OUT_OF_MEMORY(client);
    for (size_t i = 0; i < reply->n_overlaps; i++) {
        const Xce__V1__PoolOverlap *from = reply->overlaps[i];

        items[i] = (struct xce_overlap){
            {from->first, from->last}, from->what, from->node, from->replica};
    }
    overlaps->items = items;
    overlaps->n = reply->n_overlaps;
    return XCE_OK;
}

int xce_pool_overlap(struct xce_client *client, const struct xce_call *call, const char *name,
                     struct xce_overlaps **ret)
{
    struct op_spec spec = VERB(OP_READ, "Overlap", pool_overlap_reply, take_overlaps);
    Xce__V1__PoolKey request = XCE__V1__POOL_KEY__INIT;

    request.name = verb_bytes(name);
    return verb_run(client, call, &spec, &request.base, sizeof **ret, ret);
}

int xce_pool_unblock(struct xce_client *client, const struct xce_call *call, const char *name,
                     uint32_t uid, const char *reason, struct xce_pool **ret)
{
    struct op_spec spec = VERB(OP_CHANGE, "Unblock", pool_reply, take_pool);
    Xce__V1__UnblockRequest request = XCE__V1__UNBLOCK_REQUEST__INIT;

    request.name = verb_bytes(name);
    request.uid = uid;
    request.reason = verb_bytes(reason);
    return verb_run(client, call, &spec, &request.base, sizeof **ret, ret);
}

int xce_pool_retire(struct xce_client *client, const struct xce_call *call, const char *name,
                    struct xce_pool **ret)
{
    struct op_spec spec = VERB(OP_CHANGE, "Retire", pool_reply, take_pool);
    Xce__V1__RetirePoolRequest request = XCE__V1__RETIRE_POOL_REQUEST__INIT;

    request.name = verb_bytes(name);
    return verb_run(client, call, &spec, &request.base, sizeof **ret, ret);
}

static int take_suggestion(struct xce_client *client, const ProtobufCMessage *message, void *result)
{
    const Xce__V1__SuggestPoolReply *reply = (const Xce__V1__SuggestPoolReply *)message;
    struct xce_suggestion *suggestion = result;

    (void)client;
    if (reply->range)
        suggestion->range = (struct xce_range){reply->range->first, reply->range->last};
    suggestion->rejected = (const char *const *)reply->rejected;
    suggestion->n_rejected = reply->n_rejected;
    return XCE_OK;
}

int xce_pool_suggest(struct xce_client *client, const struct xce_call *call, uint32_t count,
                     const struct xce_range *directory_ranges, size_t n_directory_ranges,
                     struct xce_suggestion **ret)
{
    struct op_spec spec = VERB(OP_READ, "Suggest", suggest_pool_reply, take_suggestion);
    Xce__V1__SuggestPoolRequest request = XCE__V1__SUGGEST_POOL_REQUEST__INIT;
    auto_free Xce__V1__UidRange **directory = fill_ranges(directory_ranges, n_directory_ranges);

    if (!directory)
        return OUT_OF_MEMORY(client);
    request.count = count;
    request.n_directory_ranges = n_directory_ranges;
    request.directory_ranges = directory;
    return verb_run(client, call, &spec, &request.base, sizeof **ret, ret);
}
