#include "leased/history/feed.h"

#include <stdlib.h>
#include <string.h>

#include "common/mem.h"

/* Some 1500 leases; a transaction of a few milliseconds. */
#define BLOCK_BYTES (256u << 10)

void feed_put(struct feed_channel *channel, struct feed_block *block)
{
    struct feed_block *newest = atomic_load_explicit(&channel->newest, memory_order_relaxed);

    do
        block->next = newest;
    while (!atomic_compare_exchange_weak_explicit(&channel->newest, &newest, block,
                                                  memory_order_release, memory_order_relaxed));
}

struct feed_block *feed_take_all(struct feed_channel *channel)
{
    struct feed_block *block = atomic_exchange_explicit(&channel->newest, NULL,
                                                        memory_order_acquire);
    struct feed_block *oldest = NULL;

    while (block) {
        struct feed_block *next = block->next;

        block->next = oldest;
        oldest = block;
        block = next;
    }
    return oldest;
}

struct feed_block *feed_block_new(size_t bytes)
{
    size_t cap = bytes > BLOCK_BYTES ? bytes : BLOCK_BYTES;
    struct feed_block *block = mem_must_alloc(sizeof *block + cap);

    memset(block, 0, sizeof *block);
    block->cap = cap;
    return block;
}

static size_t rounded(size_t size)
{
    return (size + 7) & ~(size_t)7;
}

static size_t nodes_len(const struct fsm_lease *lease)
{
    size_t len = 0;

    for (uint32_t i = 0; i < lease->n_members; i++)
        len += strlen(lease->members[i].node->name) + 1;
    return len ? len : 1;
}

size_t feed_size(const struct fsm_lease *lease)
{
    return rounded(sizeof(struct feed_item) + strlen(lease->pool) + 1 + strlen(lease->job) + 1 +
                   strlen(lease->owner.name) + 1 + nodes_len(lease));
}

static struct feed_item *add(struct feed_block *block, enum feed_kind kind, size_t size)
{
    struct feed_item *item = (struct feed_item *)(void *)(block->bytes + block->len);

    if (size > block->cap - block->len)
        return NULL;
    block->len += size;
    memset(item, 0, sizeof *item);
    item->size = (uint32_t)size;
    item->kind = kind;
    return item;
}

static uint32_t add_text(struct feed_item *item, uint32_t *at, const char *text)
{
    uint32_t begin = *at;
    size_t len = strlen(text) + 1;

    memcpy(item->text + begin, text, len);
    *at += (uint32_t)len;
    return begin;
}

/* "n1,n2,n3" */
static uint32_t add_nodes(struct feed_item *item, uint32_t *at, const struct fsm_lease *lease)
{
    uint32_t begin = *at;

    item->text[begin] = '\0';
    for (uint32_t i = 0; i < lease->n_members; i++) {
        (void)add_text(item, at, lease->members[i].node->name);
        item->text[*at - 1] = i + 1 < lease->n_members ? ',' : '\0';
    }
    return begin;
}

struct feed_item *feed_add_lease(struct feed_block *block, enum feed_kind kind,
                                 const struct fsm_lease *lease, size_t size)
{
    struct feed_item *item = add(block, kind, size);
    uint32_t at = 0;

    if (!item)
        return NULL;
    item->state = lease->state;
    item->cause = lease->cause;
    item->granted_wall_ms = lease->granted_wall_ms;
    item->lease = lease->id;
    item->uid = lease->uid;
    item->epoch = lease->epoch;
    item->owner_uid = lease->owner.uid;
    item->owner_gid = lease->owner.gid;
    item->pool = add_text(item, &at, lease->pool);
    item->job = add_text(item, &at, lease->job);
    item->owner = add_text(item, &at, lease->owner.name);
    item->nodes = add_nodes(item, &at, lease);
    return item;
}

struct feed_item *feed_add_mark(struct feed_block *block, enum feed_kind kind,
                                const uint8_t *incarnation)
{
    struct feed_item *item = add(block, kind, rounded(sizeof *item + FEED_INCARNATION_LEN));

    if (item && incarnation)
        memcpy(item->text, incarnation, FEED_INCARNATION_LEN);
    return item;
}

/* ---- pieces ---- */

static size_t past_size(const struct history_entry *entry)
{
    return rounded(sizeof(struct feed_item) + sizeof(struct feed_times) + strlen(entry->pool) + 1 +
                   strlen(entry->job) + 1 + strlen(entry->owner_name) + 1 + strlen(entry->nodes) +
                   1);
}

static void add_past(struct feed_block *block, const struct history_entry *entry)
{
    const struct feed_times times = {entry->ended_wall_ms, entry->retired_wall_ms,
                                     entry->freed_wall_ms};
    struct feed_item *item = add(block, FEED_PAST, past_size(entry));
    uint32_t at = sizeof times;

    item->cause = entry->cause;
    item->granted_wall_ms = entry->granted_wall_ms;
    item->lease = entry->lease;
    item->uid = entry->uid;
    item->epoch = entry->epoch;
    item->owner_uid = entry->owner_uid;
    item->owner_gid = entry->owner_gid;
    memcpy(item->text, &times, sizeof times);
    item->pool = add_text(item, &at, entry->pool);
    item->job = add_text(item, &at, entry->job);
    item->owner = add_text(item, &at, entry->owner_name);
    item->nodes = add_text(item, &at, entry->nodes);
}

static void add_struct(struct feed_block *block, enum feed_kind kind, const void *what, size_t len)
{
    memcpy(add(block, kind, rounded(sizeof(struct feed_item) + len))->text, what, len);
}

struct feed_block *feed_piece_new(const struct history_piece *piece)
{
    size_t size = rounded(sizeof(struct feed_item) + sizeof *piece);
    struct feed_block *block;

    for (size_t i = 0; i < piece->n; i++)
        size += past_size(&piece->entries[i]);
    size += piece->n_rest * rounded(sizeof(struct feed_item) + sizeof *piece->rest);
    block = feed_block_new(size);
    add_struct(block, FEED_PIECE, piece, sizeof *piece);
    for (size_t i = 0; i < piece->n; i++)
        add_past(block, &piece->entries[i]);
    for (size_t i = 0; i < piece->n_rest; i++)
        add_struct(block, FEED_REST, &piece->rest[i], sizeof piece->rest[i]);
    return block;
}

struct history_piece feed_get_piece(const struct feed_item *item)
{
    struct history_piece piece;

    memcpy(&piece, item->text, sizeof piece);
    piece.entries = NULL;
    piece.rest = NULL;
    return piece;
}

struct feed_times feed_get_times(const struct feed_item *item)
{
    struct feed_times times;

    memcpy(&times, item->text, sizeof times);
    return times;
}

struct history_rest feed_get_rest(const struct feed_item *item)
{
    struct history_rest rest;

    memcpy(&rest, item->text, sizeof rest);
    return rest;
}

const struct feed_item *feed_first(const struct feed_block *block)
{
    return block->len ? (const struct feed_item *)(const void *)block->bytes : NULL;
}

const struct feed_item *feed_next(const struct feed_block *block, const struct feed_item *item)
{
    const uint8_t *next = (const uint8_t *)item + item->size;

    return next < block->bytes + block->len ? (const struct feed_item *)(const void *)next : NULL;
}

/* The stages that history tells apart. */
static unsigned stage(enum lease_state state)
{
    switch (state) {
    case LEASE_GRANTED:
    case LEASE_ACTIVE:
        return 1;
    case LEASE_RETIRED:
        return 3;
    case LEASE_FREE:
        return 4;
    default:
        return 2;
    }
}

uint64_t feed_fingerprint(const struct fsm_lease *lease)
{
    uint64_t print = (uint64_t)lease->epoch << 32 |
                     (stage(lease->state) + 8u * (unsigned)lease->cause);

    for (uint32_t i = 0; i < lease->n_members; i++)
        print = (print ^ (uint64_t)(uintptr_t)lease->members[i].node) * 0x9e3779b97f4a7c15u;
    return print;
}
