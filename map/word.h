/* How bytes of the map are read and written while the other side does the same: whole words, no order of their own.
 * For map/, and nss_xce/cache.c. */
#ifndef XCE_MAP_WORD_H
#define XCE_MAP_WORD_H

#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "xce/map.h"

#if defined(__has_feature)
#if __has_feature(thread_sanitizer)
#define MAP_TSAN
#endif
#elif defined(__SANITIZE_THREAD__)
#define MAP_TSAN
/* It knows no fences and says so. All that they order is atomic, so it has nothing to miss. */
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

/* The sum of 64-bit words, in two halves: those at even and at odd places. */
struct lanes {
    uint64_t v __attribute__((vector_size(16)));
};

/* Copy whole pairs of words, and add them up. bytes: a multiple of 16; both sides aligned to 16. A pair may be torn in the
 * middle, as anything of a seqlock may; each word of it is read once. */
static inline void lanes_load(struct lanes *sum, void *to, const void *from, size_t bytes)
{
#if defined(MAP_TSAN) || !defined(__SSE2__)
    words_load(to, from, bytes);
    for (size_t i = 0; i < bytes / sizeof(*sum); i++)
        sum->v += ((const struct lanes *)to)[i].v;
#else
    struct lanes *t = to;
    const volatile struct lanes *f = from;

    for (size_t i = 0; i < bytes / sizeof(*t); i++) {
        struct lanes both = {f[i].v};

        t[i] = both;
        sum->v += both.v;
    }
#endif
}

static inline uint64_t lanes_total(const struct lanes *sum)
{
    return sum->v[0] + sum->v[1];
}

/* The check for private bytes, a multiple of 8, in which its own place is still 0. */
static inline uint64_t words_check(const void *from, size_t bytes)
{
    const uint64_t *f = from;
    uint64_t check = XCE_MAP_SUM;

    for (size_t i = 0; i < bytes / 8; i++)
        check -= f[i];
    return check;
}

static inline uint32_t gids_sum(const uint32_t *gids, uint32_t n)
{
    uint32_t sum = n + (uint32_t)XCE_MAP_SUM;

    for (uint32_t i = 0; i < n; i++)
        sum += gids[i];
    return sum;
}

#endif
