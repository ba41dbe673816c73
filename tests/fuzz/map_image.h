/* A sound map of three leases as bytes, and changes to it out of a fuzzer's input. Included by the targets of the map. */
#ifndef XCE_TESTS_FUZZ_MAP_IMAGE_H
#define XCE_TESTS_FUZZ_MAP_IMAGE_H

#include <stdio.h>
#include <string.h>

#include "map/name.h"
#include "map/word.h"
#include "xce/map.h"

#define IMAGE_BASE   0x78000000u
#define IMAGE_UIDS   8u
#define IMAGE_BLOCKS 8u
#define IMAGE_PAIRS  ((size_t)XCE_MAP_PAIRS * sizeof(struct xce_map_pair))
#define IMAGE_BYTES                                                                                \
    ((XCE_MAP_PAGE + IMAGE_PAIRS + IMAGE_UIDS * sizeof(struct xce_map_record) +                    \
      IMAGE_BLOCKS * XCE_MAP_BLOCK + XCE_MAP_PAGE - 1) /                                           \
     XCE_MAP_PAGE * XCE_MAP_PAGE)

static inline void image_header(struct xce_map_header *header)
{
    header->magic = XCE_MAP_MAGIC;
    header->version = header->compat = XCE_MAP_VERSION;
    header->header_size = XCE_MAP_PAGE;
    header->file_size = IMAGE_BYTES;
    header->record_size = sizeof(struct xce_map_record);
    header->pair_size = sizeof(struct xce_map_pair);
    header->block_size = XCE_MAP_BLOCK;
    header->n_pairs = XCE_MAP_PAIRS;
    header->n_blocks = IMAGE_BLOCKS;
    header->pairs_at = XCE_MAP_PAGE;
    header->records_at = header->pairs_at + IMAGE_PAIRS;
    header->blocks_at = header->records_at + IMAGE_UIDS * sizeof(struct xce_map_record);
    header->n_ranges = 2;
    header->n_records = IMAGE_UIDS;
    header->ranges[0] = (struct xce_map_range){IMAGE_BASE, 4, 0, 0};
    header->ranges[1] = (struct xce_map_range){IMAGE_BASE + 100, 4, 4, 0};
    header->first_uid = IMAGE_BASE;
    header->last_uid = IMAGE_BASE + 103;
    header->prefix_len = 4;
    memcpy(header->prefix, "xce-", 4);
    header->check = 0;
    header->check = words_check(header, offsetof(struct xce_map_header, revision));
    header->state = XCE_MAP_ALIVE;
}

static inline void image_record(struct xce_map_record *record, uint32_t uid, uint32_t n_gids)
{
    *record = (struct xce_map_record){.seq = 2,
                                      .epoch = uid & 0xff,
                                      .uid = uid,
                                      .gid = uid,
                                      .lease = 7,
                                      .state = XCE_MAP_ACTIVE,
                                      .flags = XCE_MAP_MEMBER,
                                      .n_gids = (uint16_t)n_gids};
    record->epoch += record->epoch == 0;
    record->name_len = (uint8_t)name_encode("xce-", uid, record->epoch, record->text);
    memset(record->text + record->name_len, 0, sizeof(record->text) - record->name_len);
    record->text[record->name_len + 1] = 'x';
    record->check = words_check(record, sizeof(*record));
}

static inline void image_make(char image[IMAGE_BYTES])
{
    struct xce_map_header *header = (void *)image;
    struct xce_map_pair *pair;
    struct xce_map_record *records;
    uint32_t *block;

    memset(image, 0, IMAGE_BYTES);
    image_header(header);
    pair = (void *)(image + header->pairs_at);
    records = (void *)(image + header->records_at);
    block = (void *)(image + header->blocks_at);
    pair->home_len = 5;
    pair->shell_len = 4;
    memcpy(pair->text, "/home\0/bin", 11);
    pair->check = words_check(pair, sizeof(*pair));
    block[1] = 100;
    block[2] = 101;
    block[0] = gids_sum(block + 1, 2);
    image_record(&records[0], IMAGE_BASE, 0);
    image_record(&records[3], IMAGE_BASE + 3, 2);
    image_record(&records[5], IMAGE_BASE + 101, 0);
}

/* Input: a byte of what to make right again afterwards, then changes: place (3 bytes), length (1), bytes. */
enum { MEND_HEADER = 1, MEND_RECORDS = 2, MEND_PAIRS = 4 };

static inline void image_change(char image[IMAGE_BYTES], const uint8_t *data, size_t size)
{
    struct xce_map_header *header = (void *)image;
    struct xce_map_record *records = (void *)(image + XCE_MAP_PAGE + IMAGE_PAIRS);
    struct xce_map_pair *pairs = (void *)(image + XCE_MAP_PAGE);
    uint8_t mend = size > 0 ? data[0] : 0;

    for (size_t i = 1; i + 4 < size;) {
        size_t at = (data[i] | (size_t)data[i + 1] << 8 | (size_t)data[i + 2] << 16) % IMAGE_BYTES;
        size_t n = data[i + 3];

        i += 4;
        n = n < size - i ? n : size - i;
        n = n < IMAGE_BYTES - at ? n : IMAGE_BYTES - at;
        memcpy(image + at, data + i, n);
        i += n;
    }
    for (uint32_t i = 0; i < IMAGE_UIDS && (mend & MEND_RECORDS); i++) {
        records[i].check = 0;
        records[i].check = words_check(&records[i], sizeof(records[i]));
    }
    for (uint32_t i = 0; i < 4 && (mend & MEND_PAIRS); i++) {
        pairs[i].check = 0;
        pairs[i].check = words_check(&pairs[i], sizeof(pairs[i]));
    }
    if (mend & MEND_HEADER) {
        uint32_t state = header->state;

        header->state = 0;
        header->check = 0;
        header->check = words_check(header, offsetof(struct xce_map_header, revision));
        header->state = state;
    }
}

#endif
