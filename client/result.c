#include "client/result.h"

#include <errno.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

/* One reply and what is made of it: a page of 2,000 leases with their members. */
#define RESULT_MAX (256u << 20)

struct result {
    struct pb_arena arena;
    max_align_t object[];
};

void *result_new(size_t size)
{
    struct result *result = calloc(1, sizeof *result + size);

    if (!result)
        return NULL;
    pb_arena_init(&result->arena, RESULT_MAX);
    return result->object;
}

static struct result *head(void *object)
{
    return (struct result *)(void *)((char *)object - offsetof(struct result, object));
}

struct pb_arena *result_arena(void *object)
{
    return &head(object)->arena;
}

void xce_free(void *object)
{
    if (!object)
        return;
    pb_arena_done(&head(object)->arena);
    free(head(object));
}

/* Room for n elements; NULL and *ret 0 for none. */
static int array(struct pb_arena *arena, size_t n, size_t size, void *ret_pointer)
{
    void *memory;

    *(void **)ret_pointer = NULL;
    if (!n)
        return 0;
    if (n > SIZE_MAX / size)
        return -ENOMEM;
    memory = pb_arena_alloc(arena, n * size);
    if (!memory)
        return -ENOMEM;
    *(void **)ret_pointer = memory;
    return 0;
}

static struct xce_owner owner(const Xce__V1__Owner *message)
{
    if (!message)
        return (struct xce_owner){.name = ""};
    return (struct xce_owner){.name = message->name, .uid = message->uid, .gid = message->gid};
}

static int members(struct pb_arena *arena, const Xce__V1__Lease *message, struct xce_lease *ret)
{
    struct xce_member *items;

    if (array(arena, message->n_nodes, sizeof *items, &items) < 0)
        return -ENOMEM;
    for (size_t i = 0; i < message->n_nodes; i++) {
        const Xce__V1__Member *member = message->nodes[i];

        items[i] = (struct xce_member){
            .node = member->node,
            .proof = (int)member->proof,
            .reason = member->reason,
            .detail = member->detail,
            .released = member->released,
        };
    }
    ret->members = items;
    ret->n_members = message->n_nodes;
    return 0;
}

static int write_paths(struct pb_arena *arena, const Xce__V1__Lease *message, struct xce_lease *ret)
{
    struct xce_write_path *items;

    if (array(arena, message->n_write_paths, sizeof *items, &items) < 0)
        return -ENOMEM;
    for (size_t i = 0; i < message->n_write_paths; i++) {
        const Xce__V1__WritePath *path = message->write_paths[i];

        items[i] = (struct xce_write_path){
            .path = path->path, .proof = (int)path->proof, .reason = path->reason};
    }
    ret->write_paths = items;
    ret->n_write_paths = message->n_write_paths;
    return 0;
}

int result_lease(struct pb_arena *arena, const Xce__V1__Lease *message, struct xce_lease *ret)
{
    static const Xce__V1__Lease empty = XCE__V1__LEASE__INIT;

    if (!message)
        message = &empty;
    *ret = (struct xce_lease){
        .lease = message->lease,
        .uid = message->uid,
        .gid = message->gid,
        .epoch = message->epoch,
        .name = message->name,
        .pool = message->pool,
        .job = message->job,
        .owner = owner(message->owner),
        .state = (int)message->state,
        .quarantined = message->quarantined,
        .reasons = (const char *const *)message->reasons,
        .n_reasons = message->n_reasons,
        .gids = message->gids,
        .n_gids = message->n_gids,
        .expires_ms = message->expires_ms,
        .ttl_ms = message->ttl_ms,
        .granted_ms = message->granted_ms,
        .changed_ms = message->changed_ms,
        .revision = message->revision,
        .home = message->home,
        .shell = message->shell,
        .end_cause = message->end_cause,
    };
    if (members(arena, message, ret) < 0)
        return -ENOMEM;
    return write_paths(arena, message, ret);
}

void result_past(const Xce__V1__HistoryEntry *message, struct xce_past *ret)
{
    *ret = (struct xce_past){
        .lease = message->lease,
        .uid = message->uid,
        .epoch = message->epoch,
        .name = message->name,
        .pool = message->pool,
        .job = message->job,
        .owner = owner(message->owner),
        .granted_ms = message->granted_ms,
        .ended_ms = message->ended_ms,
        .retired_ms = message->retired_ms,
        .freed_ms = message->freed_ms,
        .end_cause = message->end_cause,
        .nodes = (const char *const *)message->nodes,
        .n_nodes = message->n_nodes,
    };
}

/* ---- pools and nodes ---- */

static struct xce_range range(const Xce__V1__UidRange *message)
{
    if (!message)
        return (struct xce_range){0};
    return (struct xce_range){message->first, message->last};
}

/* `bytes` fields have no NUL of their own. */
static int text(struct pb_arena *arena, ProtobufCBinaryData bytes, const char **ret)
{
    char *copy = pb_arena_alloc(arena, bytes.len + 1);

    if (!copy)
        return -ENOMEM;
    if (bytes.len)
        memcpy(copy, bytes.data, bytes.len);
    copy[bytes.len] = 0;
    *ret = copy;
    return 0;
}

static int settings(struct pb_arena *arena, const Xce__V1__PoolSettings *message,
                    struct xce_pool_settings *ret)
{
    static const Xce__V1__PoolSettings empty = XCE__V1__POOL_SETTINGS__INIT;

    if (!message)
        message = &empty;
    *ret = (struct xce_pool_settings){
        .ttl_min_ms = message->ttl_min_ms,
        .ttl_max_ms = message->ttl_max_ms,
        .ttl_default_ms = message->ttl_default_ms,
        .cooldown_ms = message->cooldown_ms,
        .ready_timeout_ms = message->ready_timeout_ms,
        .validity_ms = message->validity_ms,
        .witnesses_set = true,
        .witnesses = (int)message->witnesses,
        .max_per_owner_set = true,
        .max_per_owner = message->max_per_owner,
    };
    if (text(arena, message->home, &ret->home) < 0)
        return -ENOMEM;
    return text(arena, message->shell, &ret->shell);
}

static struct xce_pool_counts counts(const Xce__V1__PoolCounts *message)
{
    if (!message)
        return (struct xce_pool_counts){0};
    return (struct xce_pool_counts){
        .free = message->free,
        .granted = message->granted,
        .active = message->active,
        .draining = message->draining,
        .normalising = message->normalising,
        .cooling = message->cooling,
        .retired = message->retired,
        .blocked = message->blocked,
        .quarantined = message->quarantined,
    };
}

static int blocked(struct pb_arena *arena, const Xce__V1__Pool *message, struct xce_pool *ret)
{
    struct xce_blocked *items;

    if (array(arena, message->n_blocked, sizeof *items, &items) < 0)
        return -ENOMEM;
    for (size_t i = 0; i < message->n_blocked; i++) {
        const Xce__V1__BlockedUid *uid = message->blocked[i];

        items[i] = (struct xce_blocked){
            .uid = uid->uid,
            .node = uid->node,
            .reason = uid->reason,
            .detail = uid->detail,
            .since_ms = uid->since_ms,
        };
    }
    ret->blocked = items;
    ret->n_blocked = message->n_blocked;
    return 0;
}

int result_pool(struct pb_arena *arena, const Xce__V1__Pool *message, struct xce_pool *ret)
{
    static const Xce__V1__Pool empty = XCE__V1__POOL__INIT;
    struct xce_range *ranges;

    if (!message)
        message = &empty;
    *ret = (struct xce_pool){
        .name = message->name,
        .range = range(message->range),
        .state = (int)message->state,
        .prefix = message->prefix,
        .directory_none = message->directory_none,
        .has_counts = message->counts != NULL,
        .counts = counts(message->counts),
        .revision = message->revision,
        .next_due_ms = message->next_due_ms,
    };
    if (array(arena, message->n_directory_ranges, sizeof *ranges, &ranges) < 0)
        return -ENOMEM;
    for (size_t i = 0; i < message->n_directory_ranges; i++)
        ranges[i] = range(message->directory_ranges[i]);
    ret->directory_ranges = ranges;
    ret->n_directory_ranges = message->n_directory_ranges;
    if (settings(arena, message->settings, &ret->settings) < 0)
        return -ENOMEM;
    return blocked(arena, message, ret);
}

void result_node(const Xce__V1__Node *message, struct xce_node *ret)
{
    static const Xce__V1__Node empty = XCE__V1__NODE__INIT;
    static const Xce__V1__NodeRival nobody = XCE__V1__NODE_RIVAL__INIT;
    const Xce__V1__NodeRival *rival;

    if (!message)
        message = &empty;
    rival = message->rival ? message->rival : &nobody;
    *ret = (struct xce_node){
        .node = message->node,
        .state = (int)message->state,
        .reason = message->reason,
        .actor = message->actor,
        .machine_id = message->machine_id,
        .boot_id = message->boot_id,
        .session = message->session,
        .watermark = message->watermark,
        .leases = message->leases,
        .heard_ms = message->heard_ms,
        .listening_ms = message->listening_ms,
        .revision = message->revision,
        .hello_revision = message->hello_revision,
        .connected = message->connected,
        .drained = message->drained,
        .rival = {rival->node, rival->machine_id, rival->boot_id, rival->heard_ms, rival->cloned},
        .hangs = message->hangs,
    };
}
