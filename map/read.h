/* Look-ups in a mapped uid map: the reader's algorithm of xce/map.h.
 *
 * libc only; no allocation, lock, thread-local storage, environment, output, abort or system call. Any number of threads.
 * Constant time and stack. Nothing but the mapping is read, and never behind map.size, whatever the file says.
 * MAP_ABSENT is an answer; the negative ones tell an administrator more, for a look-up they mean the same. */
#ifndef XCE_MAP_READ_H
#define XCE_MAP_READ_H

#include <stdbool.h>
#include <stdint.h>

#include "map/file.h"
#include "xce/map.h"

enum {
    MAP_FOREIGN = 1, /* a uid of no range, a name of another form: nobody's business here */
    MAP_ABSENT = 2,  /* ours, but no lease has it; or, in a walk, the end */
};

/* What to copy beside the record. */
enum map_want {
    MAP_WANT_RECORD = 0,
    MAP_WANT_PAIR = 1 << 0, /* home and shell */
    MAP_WANT_GIDS = 1 << 1,
    MAP_WANT_ANY = 1 << 2, /* also records without a name, as long as they were leased once */
};

/* A private, checked copy. pair and gids are set only if wanted, and if the record has a name. */
struct map_entry {
    struct xce_map_record record __attribute__((aligned(16)));
    struct xce_map_pair pair;
    /* a sum, then n_gids of record; room for whole blocks, copied by words */
    uint32_t gids[XCE_GIDS_MAX + 1 + 15] __attribute__((aligned(8)));
};

/* 0, ret set; MAP_FOREIGN; MAP_ABSENT; -EBADMSG the record is damaged; -EAGAIN it was changing all the while. ret is
 * scratch when another than 0 is returned. */
int map_find_uid(const struct map *map, uint32_t uid, unsigned want, struct map_entry *ret);

/* As map_find_uid; a name of our form is never foreign. name ends in NUL; at most 32 bytes of it are read. */
int map_find_name(const struct map *map, const char *name, unsigned want, struct map_entry *ret);

/* The first record with a name, or any that was leased once (MAP_WANT_ANY), at uid `from` or above: 0; MAP_ABSENT there is
 * none. Damaged ones are passed over. A walk that goes on behind each uid it gets sees each lease once, also if the map
 * is replaced in the middle; what comes and goes meanwhile it may see or not. */
int map_next(const struct map *map, uint32_t from, unsigned want, struct map_entry *ret);

/* Whether the uid is in one of the ranges. */
bool map_covers(const struct map *map, uint32_t uid);

/* What the header says, for those who look after the map. */
struct map_status {
    /* these two first and aligned: they are copied by words */
    struct xce_map_range ranges[XCE_RANGES_MAX] __attribute__((aligned(8)));
    uint8_t incarnation[32] __attribute__((aligned(8)));
    uint64_t revision, beat_boot_ms, heard_boot_ms;
    uint32_t n_ranges, n_records, n_blocks;
    uint32_t writer_starts;
    bool superseded, synced;
    /* the process that wrote it last went in order */
    bool ended;
    char prefix[XCE_PREFIX_LEN_MAX + 1];
};

/* Any time; the words of the header are not from one moment, but synced never says more than revision holds. */
void map_status(const struct map *map, struct map_status *ret);

static inline bool map_named(const struct map_entry *entry)
{
    return entry->record.state >= XCE_MAP_GRANTED && entry->record.state <= XCE_MAP_COOLING;
}

/* Whether the lease is *here*: the one thing that lets anything run under its uid on this machine. */
static inline bool map_here(const struct map_entry *entry)
{
    return (entry->record.state == XCE_MAP_GRANTED || entry->record.state == XCE_MAP_ACTIVE) &&
           (entry->record.flags & (XCE_MAP_MEMBER | XCE_MAP_CLOSED)) == XCE_MAP_MEMBER;
}

/* Whether the lease was let in on this machine and is not any more: what still runs in its slice is nobody's. */
static inline bool map_ended(const struct map_entry *entry)
{
    return map_named(entry) && (entry->record.flags & (XCE_MAP_MEMBER | XCE_MAP_CLOSED)) ==
                                   (XCE_MAP_MEMBER | XCE_MAP_CLOSED);
}

/* Strings of a copy; they live as long as it does. home and shell only if wanted. */
static inline const char *map_name(const struct map_entry *entry)
{
    return entry->record.text;
}

static inline const char *map_gecos(const struct map_entry *entry)
{
    return entry->record.text + entry->record.name_len + 3;
}

static inline const char *map_home(const struct map_entry *entry)
{
    return entry->pair.text;
}

static inline const char *map_shell(const struct map_entry *entry)
{
    return entry->pair.text + entry->pair.home_len + 1;
}

static inline const uint32_t *map_gids(const struct map_entry *entry)
{
    return entry->gids + 1;
}

#endif
