#include "leased/watch/ring.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "common/mem.h"
#include "leased/watch/lease_wire.h"

#define CAPACITY_FIRST 1024

int ring_init(struct ring *ring, size_t max_bytes)
{
    memset(ring, 0, sizeof *ring);
    ring->max_bytes = max_bytes;
    ring->entries = calloc(CAPACITY_FIRST, sizeof *ring->entries);
    if (!ring->entries)
        return -ENOMEM;
    ring->capacity = CAPACITY_FIRST;
    return 0;
}

static size_t weight(const struct ring_entry *entry)
{
    return sizeof *entry + entry->n_members * sizeof entry->members[0] + entry->len +
           entry->owner_len;
}

static void drop_oldest(struct ring *ring)
{
    struct ring_entry *entry = ring->entries[ring->first];

    ring->first = (ring->first + 1) % ring->capacity;
    ring->n--;
    ring->bytes -= weight(entry);
    free(entry);
}

static void clear(struct ring *ring)
{
    while (ring->n)
        drop_oldest(ring);
}

void ring_done(struct ring *ring)
{
    clear(ring);
    free(ring->entries);
    free(ring->scratch);
    memset(ring, 0, sizeof *ring);
}

/* FNV-1a, 32 bits (Fowler, Noll, Vo). */
uint32_t ring_hash(const char *name)
{
    uint32_t hash = 2166136261u;

    while (*name)
        hash = (hash ^ (uint8_t)*name++) * 16777619u;
    return hash;
}

static struct ring_entry *entry_new(const struct fsm_change *change, size_t len)
{
    uint32_t n_members = change->kind == CHANGE_LEASE ? change->lease->n_members : 0;
    size_t owner_len = change->kind == CHANGE_LEASE ? strlen(change->lease->owner.name) + 1 : 0;
    struct ring_entry *entry = malloc(sizeof *entry + n_members * sizeof entry->members[0] + len +
                                      owner_len);

    if (!entry)
        return NULL;
    memset(entry, 0, sizeof *entry);
    entry->revision = change->revision;
    entry->kind = change->kind;
    entry->n_members = n_members;
    entry->len = len;
    entry->owner_len = owner_len;
    return entry;
}

static uint8_t *bytes_of(struct ring_entry *entry)
{
    return (uint8_t *)(entry->members + entry->n_members);
}

static struct ring_entry *encode_lease(struct ring *ring, const struct fsm *fsm,
                                       const struct fsm_change *change, int64_t wall_offset_ms)
{
    const struct fsm_lease *lease = change->lease;
    struct ring_entry *entry;
    size_t len;

    if (mem_grow(&ring->scratch, &ring->scratch_cap, lease_wire_bound(fsm, lease), SIZE_MAX, 1) < 0)
        return NULL;
    len = lease_wire(fsm, lease, wall_offset_ms, ring->scratch);
    entry = entry_new(change, len);
    if (!entry)
        return NULL;
    entry->state = lease->state;
    entry->lease = lease->id;
    entry->uid = lease->uid;
    entry->owner_uid = lease->owner.uid;
    for (uint32_t i = 0; i < lease->n_members; i++)
        entry->members[i] = ring_hash(lease->members[i].node->name);
    memcpy(bytes_of(entry), ring->scratch, len);
    memcpy(bytes_of(entry) + len, lease->owner.name, entry->owner_len);
    return entry;
}

static struct ring_entry *encode_name(const struct fsm_change *change)
{
    const char *name = change->pool ? change->pool->name : change->node ? change->node->name : "";
    struct ring_entry *entry = entry_new(change, strlen(name) + 1);

    if (entry)
        memcpy(bytes_of(entry), name, entry->len);
    return entry;
}

static int grow(struct ring *ring)
{
    struct ring_entry **entries = calloc(ring->capacity * 2, sizeof *entries);

    if (!entries)
        return -ENOMEM;
    for (size_t i = 0; i < ring->n; i++)
        entries[i] = ring->entries[(ring->first + i) % ring->capacity];
    free(ring->entries);
    ring->entries = entries;
    ring->capacity *= 2;
    ring->first = 0;
    return 0;
}

void ring_add(struct ring *ring, const struct fsm *fsm, const struct fsm_change *change,
              int64_t wall_offset_ms)
{
    struct ring_entry *entry = change->kind == CHANGE_LEASE
                                   ? encode_lease(ring, fsm, change, wall_offset_ms)
                                   : encode_name(change);

    if (ring->next_revision != change->revision || !entry ||
        (ring->n == ring->capacity && grow(ring) < 0))
        clear(ring);
    ring->next_revision = change->revision + 1;
    if (!entry)
        return;
    ring->entries[(ring->first + ring->n++) % ring->capacity] = entry;
    ring->bytes += weight(entry);
    while (ring->bytes > ring->max_bytes)
        drop_oldest(ring);
}

uint64_t ring_oldest(const struct ring *ring)
{
    return ring->next_revision - ring->n;
}

const struct ring_entry *ring_at(const struct ring *ring, uint64_t revision)
{
    uint64_t oldest = ring_oldest(ring);

    if (!ring->n || revision < oldest || revision >= ring->next_revision)
        return NULL;
    return ring->entries[(ring->first + (revision - oldest)) % ring->capacity];
}

const uint8_t *ring_bytes(const struct ring_entry *entry)
{
    return (const uint8_t *)(entry->members + entry->n_members);
}

const char *ring_owner(const struct ring_entry *entry)
{
    return (const char *)ring_bytes(entry) + entry->len;
}

bool ring_names(const struct ring_entry *entry, uint32_t node_hash)
{
    for (uint32_t i = 0; i < entry->n_members; i++)
        if (entry->members[i] == node_hash)
            return true;
    return false;
}
