/* How bytes of the map are read and written while the other side does the same: whole words, no order of their own.
 * Internal to map/. */
#ifndef XCE_MAP_WORD_H
#define XCE_MAP_WORD_H

#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "xce/map.h"

/* gcc's thread sanitizer knows no fences and says so. All that they order is atomic, so it has nothing to miss. */
#if defined(__SANITIZE_THREAD__) && !defined(__clang__)
#pragma GCC diagnostic ignored "-Wtsan"
#endif

#define word_load(at)         __atomic_load_n((at), __ATOMIC_RELAXED)
#define word_store(at, value) __atomic_store_n((at), (value), __ATOMIC_RELAXED)

/* bytes: a multiple of 8; the map's side aligned to 8. */
static inline void words_load(void *to, const void *from, size_t bytes)
{
    const unsigned long *f = from;

    for (size_t i = 0; i < bytes / sizeof(*f); i++) {
        unsigned long word = word_load(f + i);

        memcpy((char *)to + i * sizeof(word), &word, sizeof(word));
    }
}

static inline void words_store(void *to, const void *from, size_t bytes)
{
    unsigned long *t = to;
    const unsigned long *f = from;

    for (size_t i = 0; i < bytes / sizeof(*t); i++)
        word_store(t + i, f[i]);
}

static inline uint64_t words_finish(uint64_t even, uint64_t odd)
{
    return even + (odd << 29 | odd >> 35) + XCE_MAP_SUM;
}

/* The check over private bytes, a multiple of 8. */
static inline uint64_t words_sum(const void *from, size_t bytes)
{
    const uint64_t *f = from;
    uint64_t lane[2] = {0, 0};

    for (size_t i = 0; i < bytes / 8; i++)
        lane[i & 1] += f[i];
    return words_finish(lane[0], lane[1]);
}

static inline uint32_t gids_sum(const uint32_t *gids, uint32_t n)
{
    uint32_t sum = n + (uint32_t)XCE_MAP_SUM;

    for (uint32_t i = 0; i < n; i++)
        sum += gids[i];
    return sum;
}

/* Bytes of a pair that its check covers, from offset 8 on. */
static inline size_t pair_covered(uint32_t home_len, uint32_t shell_len)
{
    return (8 + home_len + 1 + shell_len + 1 + 7) / 8 * 8;
}

#endif
