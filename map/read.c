#include "map/read.h"

#include <errno.h>
#include <string.h>

#include "map/name.h"
#include "map/word.h"

/* A write takes some 100 ns; the intent answers for a writer that stopped in one. */
#define ROUNDS 100

#define PAIR_USUAL 64

static inline void pause_a_little(void)
{
#if defined(__x86_64__) || defined(__i386__)
    __builtin_ia32_pause();
#elif defined(__aarch64__)
    __asm__ volatile("yield");
#endif
}

/* Item `index` of a section, or NULL where the mapping ends. The header is read anew by each look-up and trusted by none:
 * whatever it says, what comes out is aligned and within the mapping, and the copy tells whether it was the right one. */
static inline const void *item(const struct map *map, uint64_t section, uint64_t index, size_t size)
{
    uint64_t at = section / 64 * 64 + index * size;

    return at <= map->size - size ? (const char *)map->base + at : NULL;
}

static const struct xce_map_header *header_of(const struct map *map)
{
    return map->base;
}

/* The last range that begins at uid or below; n > 0. */
static const struct xce_map_range *range_below(const struct xce_map_header *header, uint32_t n,
                                               uint32_t uid)
{
    const struct xce_map_range *ranges = header->ranges;
    uint32_t low = 0;

    while (n > 1) {
        uint32_t half = n / 2;

        if (word_load(&ranges[low + half].first) <= uid)
            low += half;
        n -= half;
    }
    return &ranges[low];
}

static inline bool find_index(const struct map *map, uint32_t uid, uint32_t *ret_index)
{
    const struct xce_map_header *header = header_of(map);
    uint32_t first = word_load(&header->first_uid), n = word_load(&header->n_ranges),
             off = uid - first;
    const struct xce_map_range *range;

    if (off > word_load(&header->last_uid) - first || n == 0)
        return false;
    if (n > 1) {
        range = range_below(header, n < XCE_RANGES_MAX ? n : XCE_RANGES_MAX, uid);
        off = uid - word_load(&range->first);
        if (off >= word_load(&range->count))
            return false;
        off += word_load(&range->record);
    }
    *ret_index = off;
    return true;
}

bool map_covers(const struct map *map, uint32_t uid)
{
    uint32_t index;

    return find_index(map, uid, &index);
}

/* The sum over what one look-up copied, and what it must be. */
struct tally {
    struct lanes sum;
    uint64_t expected;
};

/* Home and shell of the copied record. False: no such place. */
static inline bool copy_pair(const struct map *map, struct map_entry *entry, struct tally *tally)
{
    const struct xce_map_pair *pair = item(map, word_load(&header_of(map)->pairs_at),
                                           entry->record.pair, sizeof(*pair));
    size_t used;

    if (!pair)
        return false;
    tally->expected += XCE_MAP_SUM;
    /* All of a pair of usual length at once: there are only zeros behind, which change no sum. */
    lanes_load(&tally->sum, &entry->pair, pair, PAIR_USUAL);
    used = offsetof(struct xce_map_pair, text) + entry->pair.home_len + 1 + entry->pair.shell_len +
           1;
    if (used > sizeof(*pair))
        return false;
    if (used > PAIR_USUAL)
        lanes_load(&tally->sum, (char *)&entry->pair + PAIR_USUAL, (const char *)pair + PAIR_USUAL,
                   (used - PAIR_USUAL + 15) / 16 * 16);
    return true;
}

static inline bool pair_ends(const struct xce_map_pair *pair)
{
    const char *home_end = pair->text + pair->home_len;

    return (home_end[0] | home_end[1 + pair->shell_len]) == 0;
}

static bool copy_gids(const struct map *map, struct map_entry *entry)
{
    const struct xce_map_header *header = header_of(map);
    uint32_t n = entry->record.n_gids, blocks = XCE_MAP_BLOCKS_OF(n);
    const void *last, *first;

    if (n == 0)
        return true;
    if (n > XCE_GIDS_MAX || entry->record.block > word_load(&header->n_blocks))
        return false;
    first = item(map, word_load(&header->blocks_at), entry->record.block, XCE_MAP_BLOCK);
    last = item(map, word_load(&header->blocks_at), (uint64_t)entry->record.block + blocks - 1,
                XCE_MAP_BLOCK);
    if (!first || !last)
        return false;
    words_load(entry->gids, first, (size_t)blocks * XCE_MAP_BLOCK);
    return true;
}

static bool gids_sound(const struct map_entry *entry)
{
    uint32_t n = entry->record.n_gids;

    if (n == 0)
        return true;
    for (uint32_t i = 1; i <= n; i++)
        if (entry->gids[i] == 0 || entry->gids[i] == UINT32_MAX)
            return false;
    return entry->gids[0] == gids_sum(entry->gids + 1, n);
}

/* Few branches, since none is ever taken. */
static inline bool record_sound(const struct xce_map_record *record, uint32_t uid)
{
    const char *name_end, *end;

    if (((record->uid ^ uid) | (record->gid ^ uid)) != 0 || record->epoch == 0 ||
        record->name_len > XCE_NAME_LEN_MAX || record->gecos_len > XCE_GECOS_LEN_MAX)
        return false;
    name_end = record->text + record->name_len;
    end = name_end + 3 + record->gecos_len;
    return (name_end[0] | (name_end[1] ^ 'x') | name_end[2] | end[0]) == 0;
}

enum part { PART_NONE, PART_COPIED, PART_BAD };

/* What the copied record refers to; before the record's seq, or the intent's target, is looked at again. */
static inline enum part copy_parts(const struct map *map, unsigned want, struct map_entry *entry,
                                   struct tally *tally)
{
    if (!map_named(entry))
        return PART_NONE;
    if ((want & MAP_WANT_PAIR) && !copy_pair(map, entry, tally))
        return PART_BAD;
    if ((want & MAP_WANT_GIDS) && !copy_gids(map, entry))
        return PART_BAD;
    return PART_COPIED;
}

static inline int judge(enum part parts, const struct tally *tally, uint32_t uid, unsigned want,
                        const struct map_entry *entry)
{
    if (parts == PART_NONE && (!(want & MAP_WANT_ANY) || entry->record.uid == 0))
        return MAP_ABSENT;
    if (parts == PART_BAD || lanes_total(&tally->sum) != tally->expected ||
        !record_sound(&entry->record, uid))
        return -EBADMSG;
    if (parts == PART_NONE)
        return 0;
    if (((want & MAP_WANT_PAIR) && !pair_ends(&entry->pair)) ||
        ((want & MAP_WANT_GIDS) && !gids_sound(entry)))
        return -EBADMSG;
    return 0;
}

/* The record is odd: what its writer is about to make of it. -EAGAIN: it moved on. */
static int take_intent(const struct map *map, uint32_t index, uint32_t uid, unsigned want,
                       struct map_entry *entry)
{
    const struct xce_map_header *header = header_of(map);
    uint64_t target = __atomic_load_n(&header->intent_target, __ATOMIC_ACQUIRE);
    struct tally tally = {.expected = XCE_MAP_SUM};
    enum part parts;

    if ((uint32_t)target != index + 1)
        return -EAGAIN;
    lanes_load(&tally.sum, &entry->record, &header->intent, sizeof(entry->record));
    parts = copy_parts(map, want, entry, &tally);
    __atomic_thread_fence(__ATOMIC_ACQUIRE);
    if (word_load(&header->intent_target) != target)
        return -EAGAIN;
    return judge(parts, &tally, uid, want, entry);
}

/* Once; -EAGAIN it changed meanwhile. */
static inline __attribute__((always_inline)) int take_record(const struct map *map,
                                                             const struct xce_map_record *record,
                                                             uint32_t uid, unsigned want,
                                                             struct map_entry *entry)
{
    uint32_t seq = __atomic_load_n(&record->seq, __ATOMIC_ACQUIRE);
    struct tally tally = {.expected = XCE_MAP_SUM};
    enum part parts;

    if (seq & 1)
        return -EAGAIN;
    lanes_load(&tally.sum, &entry->record, record, sizeof(entry->record));
    parts = copy_parts(map, want, entry, &tally);
    __atomic_thread_fence(__ATOMIC_ACQUIRE);
    if (word_load(&record->seq) != seq)
        return -EAGAIN;
    return judge(parts, &tally, uid, want, entry);
}

static __attribute__((noinline)) int take_patiently(const struct map *map,
                                                    const struct xce_map_record *record,
                                                    uint32_t index, uint32_t uid, unsigned want,
                                                    struct map_entry *entry)
{
    int r = -EAGAIN;

    for (int i = 0; i < ROUNDS && r == -EAGAIN; i++) {
        r = word_load(&record->seq) & 1 ? take_intent(map, index, uid, want, entry)
                                        : take_record(map, record, uid, want, entry);
        if (r == -EAGAIN)
            pause_a_little();
    }
    return r;
}

static inline __attribute__((always_inline)) int
take(const struct map *map, uint32_t index, uint32_t uid, unsigned want, struct map_entry *entry)
{
    const struct xce_map_record *record = item(map, word_load(&header_of(map)->records_at), index,
                                               sizeof(*record));
    int r;

    if (!record)
        return -EBADMSG;
    r = take_record(map, record, uid, want, entry);
    return r == -EAGAIN ? take_patiently(map, record, index, uid, want, entry) : r;
}

static __attribute__((noinline)) int take_any(const struct map *map, uint32_t index, uint32_t uid,
                                              unsigned want, struct map_entry *entry)
{
    return take(map, index, uid, want, entry);
}

int map_find_uid(const struct map *map, uint32_t uid, unsigned want, struct map_entry *ret)
{
    uint32_t index;

    if (!find_index(map, uid, &index))
        return MAP_FOREIGN;
    /* The common question, for which the compiler can leave out the others. */
    return want == MAP_WANT_PAIR ? take(map, index, uid, MAP_WANT_PAIR, ret)
                                 : take_any(map, index, uid, want, ret);
}

/* Bytes of the prefix, or 0 if name begins otherwise. Ends at the name's NUL at the latest. */
static inline size_t match_prefix(const struct xce_map_header *header, const char *name)
{
    uint32_t len = word_load(&header->prefix_len);

    if (len > XCE_PREFIX_LEN_MAX)
        return 0;
    for (uint32_t i = 0; i < len; i++)
        if (name[i] != word_load(&header->prefix[i]) || name[i] == '\0')
            return 0;
    return len;
}

/* The uid alone is taken out of the name. That the rest is right, and nothing is written in another way, shows when it is
 * compared with the one name that the record has. */
int map_find_name(const struct map *map, const char *name, unsigned want, struct map_entry *ret)
{
    size_t prefix_len = match_prefix(header_of(map), name);
    uint32_t uid;
    int r;

    if (prefix_len == 0 || name_decode_uid(name + prefix_len, &uid) != 0)
        return MAP_FOREIGN;
    r = map_find_uid(map, uid, want & ~(unsigned)MAP_WANT_ANY, ret);
    if (r != 0)
        return r == MAP_FOREIGN ? MAP_ABSENT : r;
    return strcmp(ret->record.text, name) == 0 ? 0 : MAP_ABSENT;
}

/* Cheap look before the copy: a walk passes over most records of a large map. */
static bool worth_taking(const struct map *map, uint32_t index, unsigned want)
{
    const struct xce_map_record *record = item(map, word_load(&header_of(map)->records_at), index,
                                               sizeof(*record));

    if (!record)
        return false;
    return word_load(&record->state) != XCE_MAP_NONE || (word_load(&record->seq) & 1) ||
           ((want & MAP_WANT_ANY) && word_load(&record->uid) != 0);
}

int map_next(const struct map *map, uint32_t from, unsigned want, struct map_entry *ret)
{
    const struct xce_map_header *header = header_of(map);
    uint32_t n = word_load(&header->n_ranges);

    for (uint32_t i = 0; i < n && i < XCE_RANGES_MAX; i++) {
        const struct xce_map_range *range = &header->ranges[i];
        uint32_t first = word_load(&range->first), count = word_load(&range->count),
                 record = word_load(&range->record), off = from > first ? from - first : 0;

        /* A count that is damaged ends where the mapping does. */
        for (; off < count && item(map, word_load(&header->records_at), (uint64_t)record + off,
                                   sizeof(struct xce_map_record));
             off++)
            if (worth_taking(map, record + off, want) &&
                take_any(map, record + off, first + off, want, ret) == 0)
                return 0;
    }
    return MAP_ABSENT;
}

void map_status(const struct map *map, struct map_status *ret)
{
    const struct xce_map_header *header = header_of(map);
    uint32_t n = word_load(&header->n_ranges);

    *ret = (struct map_status){
        .n_ranges = n < XCE_RANGES_MAX ? n : XCE_RANGES_MAX,
        .n_records = word_load(&header->n_records),
        .n_blocks = word_load(&header->n_blocks),
        .superseded = map_superseded(map),
        .ended = word_load(&header->writer) == XCE_MAP_WRITER_ENDED,
        .beat_boot_ms = word_load(&header->beat_boot_ms),
        .heard_boot_ms = word_load(&header->heard_boot_ms),
        .writer_starts = word_load(&header->writer_starts),
    };
    for (int i = 0; i < XCE_PREFIX_LEN_MAX; i++)
        ret->prefix[i] = word_load(&header->prefix[i]);
    words_load(ret->ranges, header->ranges, sizeof(ret->ranges[0]) * ret->n_ranges);
    /* synced is taken away before, and given after, a revision that it does not hold for. */
    ret->synced = __atomic_load_n(&header->synced, __ATOMIC_ACQUIRE) == 1;
    ret->revision = word_load(&header->revision);
    words_load(ret->incarnation, header->incarnation, sizeof(ret->incarnation));
}
