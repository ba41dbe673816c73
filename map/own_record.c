/* Writing one record, and the pair and blocks that it refers to: the writer's half of the seqlock of xce/map.h. */
#include <errno.h>
#include <stddef.h>
#include <string.h>

#include "map/own.h"
#include "map/word.h"

int64_t own_index(const struct own_map *own, uint32_t uid)
{
    const struct xce_map_header *header = &own->layout;

    if (!own->map.base)
        return -ERANGE;
    for (uint32_t i = 0; i < header->n_ranges; i++)
        if (uid - header->ranges[i].first < header->ranges[i].count)
            return header->ranges[i].record + (int64_t)(uid - header->ranges[i].first);
    return -ERANGE;
}

/* Step 1: whoever sees the record odd finds the whole new one here. */
static void store_intent(struct own_map *own, uint32_t index, const struct xce_map_record *image)
{
    struct xce_map_header *header = own_header(own);

    word_store(&header->intent_target, 0);
    __atomic_thread_fence(__ATOMIC_RELEASE);
    words_store(&header->intent, image, sizeof(*image));
    own->count++;
    __atomic_store_n(&header->intent_target, (uint64_t)own->count << 32 | (index + 1),
                     __ATOMIC_RELEASE);
}

void own_store(struct own_map *own, uint32_t index, struct xce_map_record *image)
{
    struct xce_map_record *record = &own_records(own)[index];
    uint32_t odd = word_load(&record->seq) | 1;

    image->seq = odd + 1;
    image->check = 0;
    image->check = words_check(image, sizeof(*image));
    store_intent(own, index, image);

    __atomic_store_n(&record->seq, odd, __ATOMIC_RELEASE);
    __atomic_thread_fence(__ATOMIC_RELEASE);
    word_store(&record->epoch, image->epoch);
    words_store((char *)record + 8, (const char *)image + 8, sizeof(*image) - 8);
    __atomic_store_n(&record->seq, image->seq, __ATOMIC_RELEASE);
    /* Places that the record referred to may be written from here on. */
    __atomic_thread_fence(__ATOMIC_RELEASE);
}

static bool pair_equals(const struct xce_map_pair *pair, const char *home, size_t home_len,
                        const char *shell, size_t shell_len)
{
    return pair->home_len == home_len && pair->shell_len == shell_len &&
           memcmp(pair->text, home, home_len) == 0 &&
           memcmp(pair->text + home_len + 1, shell, shell_len) == 0;
}

int own_take_pair(struct own_map *own, const char *home, const char *shell)
{
    struct xce_map_pair *pairs = own_pairs(own), image = {0};
    size_t home_len = strlen(home), shell_len = strlen(shell);
    int unused = -1;

    for (int i = 0; i < XCE_MAP_PAIRS; i++) {
        if (own->pair_uses[i] == 0) {
            unused = unused < 0 ? i : unused;
        } else if (pair_equals(&pairs[i], home, home_len, shell, shell_len)) {
            own->pair_uses[i]++;
            return i;
        }
    }
    if (unused < 0)
        return -EMLINK;
    image.home_len = (uint16_t)home_len;
    image.shell_len = (uint16_t)shell_len;
    memcpy(image.text, home, home_len + 1);
    memcpy(image.text + home_len + 1, shell, shell_len + 1);
    image.check = words_check(&image, sizeof(image));
    words_store(&pairs[unused], &image, sizeof(image));
    own->pair_uses[unused] = 1;
    return unused;
}

static bool blocks_unused(const struct own_map *own, uint32_t first, uint32_t n)
{
    for (uint32_t i = 0; i < n; i++)
        if (own->block_used[first + i])
            return false;
    return true;
}

int64_t own_take_blocks(struct own_map *own, const uint32_t *gids, uint32_t n)
{
    uint32_t n_blocks = own->layout.n_blocks, need = XCE_MAP_BLOCKS_OF(n);
    uint32_t first = own->block_hint, *at;

    for (uint32_t tried = 0;; tried++, first++) {
        if (tried >= n_blocks)
            return -ENOSPC;
        if (first >= n_blocks)
            first = 0;
        if (first + need <= n_blocks && blocks_unused(own, first, need))
            break;
    }
    memset(own->block_used + first, 1, need);
    own->block_hint = first + need;
    at = own_block(own, first);
    word_store(&at[0], gids_sum(gids, n));
    for (uint32_t i = 0; i < n; i++)
        word_store(&at[i + 1], gids[i]);
    return first;
}

void own_give_back(struct own_map *own, const struct xce_map_record *record)
{
    uint64_t end = (uint64_t)record->block + XCE_MAP_BLOCKS_OF(record->n_gids);

    if (record->state == XCE_MAP_NONE)
        return;
    /* A record that somebody else has written over may say anything. */
    if (record->pair < XCE_MAP_PAIRS && own->pair_uses[record->pair] > 0)
        own->pair_uses[record->pair]--;
    if (record->n_gids > 0 && end <= own->layout.n_blocks)
        memset(own->block_used + record->block, 0, end - record->block);
}

bool own_damaged(const struct own_map *own)
{
    const size_t state = offsetof(struct xce_map_header, state), after = state + sizeof(uint32_t);
    const char *now = own->map.base, *made = (const char *)&own->layout;
    const size_t end = offsetof(struct xce_map_header, revision);

    return memcmp(now, made, state) != 0 || memcmp(now + after, made + after, end - after) != 0;
}
