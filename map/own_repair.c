/* Taking over the records of a predecessor that may have been killed at any point. */
#include <string.h>

#include "map/name.h"
#include "map/own.h"
#include "map/read.h"
#include "map/word.h"

/* Never leased, or emptied: nothing between seq and check. */
static bool is_empty(const struct xce_map_record *record)
{
    static const struct xce_map_record zero;

    return memcmp((const char *)record + sizeof(record->seq),
                  (const char *)&zero + sizeof(zero.seq),
                  offsetof(struct xce_map_record, check) - sizeof(zero.seq)) == 0;
}

/* The intent, if it is whole and for this record. */
static bool intent_for(const struct own_map *own, uint32_t index, uint32_t uid,
                       struct xce_map_record *ret)
{
    const struct xce_map_header *header = own_header(own);
    const struct xce_map_record *intent = &header->intent;

    if ((uint32_t)header->intent_target != index + 1 || intent->uid != uid ||
        words_check(intent, sizeof(*intent)) != 0)
        return false;
    *ret = *intent;
    return true;
}

/* Whether the name is that of uid and epoch: more than a reader asks, who would show it as it is. */
static bool name_right(const struct own_map *own, const struct xce_map_record *record)
{
    char name[NAME_BUF];
    size_t len = name_encode(own_header(own)->prefix, record->uid, record->epoch, name);

    return len == record->name_len && memcmp(name, record->text, len) == 0;
}

/* Whether home, shell and gids lie in places that the books know, and the gids in no other record's. A reader asks less:
 * to it, a place is anything within the mapping whose sum is right. */
static bool places_right(const struct own_map *own, const struct xce_map_record *record)
{
    uint64_t end = (uint64_t)record->block + XCE_MAP_BLOCKS_OF(record->n_gids);

    if (record->pair >= XCE_MAP_PAIRS)
        return false;
    if (record->n_gids == 0)
        return true;
    if (end > own->layout.n_blocks)
        return false;
    for (uint64_t i = record->block; i < end; i++)
        if (own->block_used[i])
            return false;
    return true;
}

/* Count what the sound record refers to. False: something of it is another record's already. */
static bool keep(struct own_map *own, const struct map_entry *entry)
{
    const struct xce_map_record *record = &entry->record;

    if (record->state == XCE_MAP_NONE)
        return record->pair == XCE_MAP_NOPAIR && record->n_gids == 0;
    if (!map_named(entry) || !name_right(own, record) || !places_right(own, record))
        return false;
    own->pair_uses[record->pair]++;
    if (record->n_gids > 0)
        memset(own->block_used + record->block, 1, XCE_MAP_BLOCKS_OF(record->n_gids));
    return true;
}

static void repair_one(struct own_map *own, uint32_t index, uint32_t uid, struct map_takeover *how)
{
    struct xce_map_record *record = &own_records(own)[index], image = {0};
    struct map_entry entry;

    if ((record->seq & 1) && intent_for(own, index, uid, &image)) {
        own_store(own, index, &image);
        how->repaired++;
    } else if (record->seq % 2 == 0 && is_empty(record)) {
        return;
    }
    if (map_find_uid(&own->map, uid, MAP_WANT_PAIR | MAP_WANT_GIDS | MAP_WANT_ANY, &entry) == 0 &&
        keep(own, &entry))
        return;
    memset(&image, 0, sizeof(image));
    own_store(own, index, &image);
    how->dropped++;
}

void own_repair(struct own_map *own, struct map_takeover *how)
{
    struct xce_map_header *header = own_header(own);

    own->count = (uint32_t)(header->intent_target >> 32);
    how->ended = header->writer == XCE_MAP_WRITER_ENDED;
    for (uint32_t i = 0; i < header->n_ranges; i++)
        for (uint32_t k = 0; k < header->ranges[i].count; k++)
            repair_one(own, header->ranges[i].record + k, header->ranges[i].first + k, how);
    word_store(&header->writer, XCE_MAP_WRITER_RUNNING);
    word_store(&header->writer_starts, header->writer_starts + 1);
}
