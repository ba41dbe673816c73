#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include "common/net/h2_conn.h"

/* nghttp2's memory, for all connections of a server or channel.
 *
 * It asks some ten times for each call, mostly for the same few sizes: what it gives back is kept by size, at most
 * H2_KEPT_MAX blocks in all. And it does not survive each failure (nghttp2_submit_data of 1.52 frees an item that its
 * stream still has): when malloc fails, small blocks come out of a reserve, and the connection that took one is ended
 * before it can ask for much more. */

enum {
    GRAIN = 64,
    CLASSES = 16, /* up to 1 KiB */
    LARGE = CLASSES,
    RESERVED,
    RESERVE_BLOCKS = 32,
    RESERVE_BYTES = GRAIN * CLASSES,
};

/* Before each block; as large as malloc aligns. */
union head {
    struct {
        size_t class;
        size_t size;
    } s;
    union head *next; /* of a kept block */
    max_align_t align;
};

struct reserved {
    union head head;
    uint8_t bytes[RESERVE_BYTES];
};

struct h2_pool {
    union head *kept[CLASSES];
    unsigned n_kept;
    union head *reserve; /* what is left of it */
    unsigned n_reserved; /* in use */
    struct reserved blocks[RESERVE_BLOCKS];
};

struct h2_pool *h2_pool_new(void)
{
    struct h2_pool *pool = calloc(1, sizeof *pool);

    for (size_t i = 0; pool && i < RESERVE_BLOCKS; i++) {
        pool->blocks[i].head.next = pool->reserve;
        pool->reserve = &pool->blocks[i].head;
    }
    return pool;
}

void h2_pool_free(struct h2_pool *pool)
{
    for (size_t class = 0; pool && class < CLASSES; class ++) {
        while (pool->kept[class]) {
            union head *head = pool->kept[class];

            pool->kept[class] = head->next;
            free(head);
        }
    }
    free(pool);
}

bool h2_pool_short(const struct h2_pool *pool)
{
    return pool->n_reserved > 0;
}

static union head *take(union head **list)
{
    union head *head = *list;

    if (head)
        *list = head->next;
    return head;
}

void *h2_pool_malloc(size_t size, void *arg)
{
    struct h2_pool *pool = arg;
    size_t class = size ? (size - 1) / GRAIN : 0;
    union head *head = class < CLASSES ? take(&pool->kept[class]) : NULL;

    if (class > LARGE)
        class = LARGE;
    if (head) {
        pool->n_kept--;
    } else {
        head = malloc(sizeof *head + (class < CLASSES ? (class + 1) * GRAIN : size));
        if (!head && class < CLASSES && (head = take(&pool->reserve))) {
            class = RESERVED;
            pool->n_reserved++;
        }
        if (!head)
            return NULL;
    }
    head->s.class = class;
    head->s.size = size;
    return head + 1;
}

void h2_pool_release(void *block, void *arg)
{
    struct h2_pool *pool = arg;
    union head *head;
    size_t class;

    if (!block)
        return;
    head = (union head *)block - 1;
    class = head->s.class;
    if (class == RESERVED) {
        head->next = pool->reserve;
        pool->reserve = head;
        pool->n_reserved--;
    } else if (class == LARGE || pool->n_kept >= H2_KEPT_MAX) {
        free(head);
    } else {
        head->next = pool->kept[class];
        pool->kept[class] = head;
        pool->n_kept++;
    }
}

void *h2_pool_calloc(size_t n, size_t size, void *arg)
{
    void *block = size && n > SIZE_MAX / size ? NULL : h2_pool_malloc(n * size, arg);

    return block ? memset(block, 0, n * size) : NULL;
}

void *h2_pool_realloc(void *block, size_t size, void *arg)
{
    size_t old = block ? ((union head *)block - 1)->s.size : 0;
    void *new = h2_pool_malloc(size, arg);

    if (!new || !block)
        return new;
    memcpy(new, block, old < size ? old : size);
    h2_pool_release(block, arg);
    return new;
}
