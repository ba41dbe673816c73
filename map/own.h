/* What the files of the map's writer share. Internal to map/. */
#ifndef XCE_MAP_OWN_H
#define XCE_MAP_OWN_H

#include <limits.h>
#include <stdbool.h>
#include <stdint.h>

#include "map/file.h"
#include "map/write.h"
#include "xce/map.h"

/* A mapped map and what its writer knows of the places in it. */
struct own_map {
    struct map map; /* base NULL: none */
    /* The header as it was made or checked. Where things are is read from here alone, so that damage to the file while it is
     * mapped leads to no write outside of it. */
    struct xce_map_header layout;
    dev_t dev;
    ino_t ino;
    uint32_t pair_uses[XCE_MAP_PAIRS]; /* records that refer to each pair */
    uint8_t *block_used;               /* n_blocks */
    uint32_t block_hint;
    uint32_t count; /* of intents */
};

struct map_writer {
    int lock_fd;
    struct own_map own;
    char path[PATH_MAX - 8]; /* room for the endings of the files beside it */
};

/* What changes in it. */
static inline struct xce_map_header *own_header(const struct own_map *own)
{
    return (struct xce_map_header *)own->map.base;
}

static inline struct xce_map_record *own_records(const struct own_map *own)
{
    return (struct xce_map_record *)((char *)own->map.base + own->layout.records_at);
}

static inline struct xce_map_pair *own_pairs(const struct own_map *own)
{
    return (struct xce_map_pair *)((char *)own->map.base + own->layout.pairs_at);
}

static inline uint32_t *own_block(const struct own_map *own, uint32_t block)
{
    return (uint32_t *)((char *)own->map.base + own->layout.blocks_at +
                        (uint64_t)block * XCE_MAP_BLOCK);
}

/* own_record.c: one record */

/* Index of a uid's record; -ERANGE. */
int64_t own_index(const struct own_map *own, uint32_t uid);
/* Write image (its seq and check are set here) over the record, by intent and seqlock. */
void own_store(struct own_map *own, uint32_t index, struct xce_map_record *image);
/* Find or write the pair, count one more use. Its index; -EMLINK. */
int own_take_pair(struct own_map *own, const char *home, const char *shell);
/* Write the gids, n > 0. Index of their first block; -ENOSPC. */
int64_t own_take_blocks(struct own_map *own, const uint32_t *gids, uint32_t n);
/* Count one use less of what the record refers to. */
void own_give_back(struct own_map *own, const struct xce_map_record *record);
/* Whether somebody else has written over the header. */
bool own_damaged(const struct own_map *own);

/* own_file.c: files */

/* A new map file beside path, not yet in its place: allocated, mapped, header and nothing else. At most XCE_RANGES_MAX
 * ranges, each with last >= first, XCE_UIDS_MAX uids in all. -EINVAL the rest of the shape is impossible. */
int own_create(const char *path, const struct map_shape *shape, uint32_t n_blocks,
               struct own_map *ret);
/* Put it in the place of path and tell the readers of old (base NULL: what is at path, if that is a map). */
int own_publish(const char *path, const struct own_map *own, const struct own_map *old);
/* Give up a map that was not published. */
void own_discard(const char *path, struct own_map *own);
/* Map what is at path for writing if it may be trusted; -ENOENT; any error: ret_why says. Not verified record by record. */
int own_open(const char *path, struct own_map *ret, const char **ret_why);
void own_done(struct own_map *own);
/* Clear away what a writer left that was killed while it published. */
void own_tidy(const char *path);

/* own_repair.c */

/* Look at every record, finish those being written, empty damaged ones, learn which places are used. */
void own_repair(struct own_map *own, struct map_takeover *how);

#endif
