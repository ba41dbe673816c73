#include "nss_xce/cache.h"

#include <errno.h>
#include <pthread.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

#include "map/name.h"
#include "map/word.h"

/* Fixed when built: nothing at run time tells a process where to look. */
#ifndef XCE_MAP_PATH
#define XCE_MAP_PATH XCE_MAP_PATH_DEFAULT
#endif

#define N_SLOTS    8
#define AGAIN_MS   1000
#define TRIES      16
#define REGION_MIN ((size_t)1 << 20)
/* see XCE_RESERVED_UIDS */
#define LIKELY_FIRST 1879048192u

/* A place where a map can be mapped. Its region of addresses is never given back, and readable at any time: a thread that
 * was stopped in the middle of a look-up may go on there whenever it likes. What it then reads is from another map, or
 * zeros, and it learns so from gen.
 *
 *   unused (gen odd) ── claimed, file mapped ─▶ gen even ── published ─▶ current ── replaced ─▶ gen odd, zeros ─▶ unused
 *
 * In a child of fork a slot that another thread was working on stays claimed; with none left, each look-up maps the file
 * for itself. */
struct slot {
    uint32_t claimed;
    uint32_t gen;
    /* base goes to larger regions only, and is stored before size: whoever reads size first never has too much of it */
    const void *base;
    size_t size;
    size_t capacity; /* of the region; whoever claimed the slot */
    dev_t dev;
    ino_t ino;
};

static struct slot slots[N_SLOTS] = {
    {.gen = 1}, {.gen = 1}, {.gen = 1}, {.gen = 1}, {.gen = 1}, {.gen = 1}, {.gen = 1}, {.gen = 1},
};
static struct slot *current;
/* When there was no map to be had, by CLOCK_MONOTONIC_COARSE, ms + 1; 0 = there is one. */
static uint64_t failed_ms;
/* In which second of wall time it was looked whether the path is still that map. */
static time_t looked_s;

/* What one look-up reads from. slot NULL: a mapping of its own, which it takes away at the end. */
struct view {
    struct slot *slot;
    uint32_t gen;
    struct map map;
};

static uint64_t now_ms(void)
{
    struct timespec now;

    if (clock_gettime(CLOCK_MONOTONIC_COARSE, &now) < 0)
        return 1;
    return (uint64_t)now.tv_sec * 1000 + (uint64_t)now.tv_nsec / 1000000 + 1;
}

/* Another second than when the path was last looked at. time(2) is a few instructions, and a clock that is set makes the
 * next look come early. */
static inline bool second_began(time_t *ret_now)
{
    *ret_now = time(NULL);
    return __atomic_load_n(&looked_s, __ATOMIC_RELAXED) != *ret_now;
}

static inline bool view_current(struct view *v)
{
    struct slot *slot = __atomic_load_n(&current, __ATOMIC_ACQUIRE);

    if (!slot)
        return false;
    v->slot = slot;
    v->gen = __atomic_load_n(&slot->gen, __ATOMIC_ACQUIRE);
    v->map.size = __atomic_load_n(&slot->size, __ATOMIC_ACQUIRE);
    v->map.base = __atomic_load_n(&slot->base, __ATOMIC_RELAXED);
    return (v->gen & 1) == 0 && !map_superseded(&v->map);
}

/* Whether all that was read came from the one map. */
static inline bool view_held(const struct view *v)
{
    __atomic_thread_fence(__ATOMIC_ACQUIRE);
    return !v->slot || __atomic_load_n(&v->slot->gen, __ATOMIC_RELAXED) == v->gen;
}

static inline void view_done(struct view *v)
{
    if (!v->slot)
        map_close(&v->map);
}

/* ---- slots ---- */

static struct slot *claim(void)
{
    for (int i = 0; i < N_SLOTS; i++) {
        uint32_t unclaimed = 0;

        if (__atomic_compare_exchange_n(&slots[i].claimed, &unclaimed, 1, false, __ATOMIC_ACQUIRE,
                                        __ATOMIC_RELAXED))
            return &slots[i];
    }
    return NULL;
}

#ifdef MAP_TSAN
/* To the thread sanitizer a mapping is a write; that late readers meet this one is what gen is for. */
void AnnotateIgnoreWritesBegin(const char *file, int line);
void AnnotateIgnoreWritesEnd(const char *file, int line);
#define LATE_READERS(statement)                                                                    \
    do {                                                                                           \
        AnnotateIgnoreWritesBegin(__FILE__, __LINE__);                                             \
        statement;                                                                                 \
        AnnotateIgnoreWritesEnd(__FILE__, __LINE__);                                               \
    } while (0)
#else
#define LATE_READERS(statement) statement
#endif

/* Map something else where a region is, or its beginning. There is never a moment without a mapping. */
static bool map_over(const struct slot *slot, size_t size, int flags, int fd)
{
    void *at;

    LATE_READERS(at = mmap((void *)slot->base, size, PROT_READ, MAP_FIXED | flags, fd, 0));
    return at != MAP_FAILED;
}

/* Zeros all over the region, and the slot is free for the next. Should that fail, it is used no more. */
static void retire(struct slot *slot)
{
    __atomic_store_n(&slot->gen, slot->gen | 1, __ATOMIC_RELEASE);
    __atomic_thread_fence(__ATOMIC_SEQ_CST);
    if (slot->capacity > 0 &&
        !map_over(slot, slot->capacity, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1))
        return;
    __atomic_store_n(&slot->claimed, 0, __ATOMIC_RELEASE);
}

/* Addresses for `size` bytes. The region before stays as it is: zeros. Doubling bounds what all of them take. */
static bool make_region(struct slot *slot, size_t size)
{
    size_t capacity = slot->capacity ? slot->capacity : REGION_MIN;
    void *base;

    if (slot->capacity >= size)
        return true;
    while (capacity < size)
        capacity *= 2;
    base = mmap(NULL, capacity, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (base == MAP_FAILED)
        return false;
    __atomic_store_n(&slot->base, base, __ATOMIC_RELEASE);
    slot->capacity = capacity;
    return true;
}

/* Map the file into a claimed slot, and make it fit to be published. */
static bool fill(struct slot *slot, const struct map_file *file)
{
    if (!make_region(slot, file->size) || !map_over(slot, file->size, MAP_SHARED, file->fd))
        return false;
    __atomic_store_n(&slot->size, file->size, __ATOMIC_RELEASE);
    if (map_fault(slot->base, file->size))
        return false;
    __atomic_store_n(&slot->dev, file->dev, __ATOMIC_RELAXED);
    __atomic_store_n(&slot->ino, file->ino, __ATOMIC_RELAXED);
    __atomic_store_n(&slot->gen, slot->gen + 1, __ATOMIC_RELEASE);
    return true;
}

/* ---- finding the map ---- */

/* Put the file in the place of `old`, or find that another thread has put one there. False: neither, current is still old
 * or as bad. */
static bool publish(struct slot *old, const struct map_file *file)
{
    struct slot *slot = claim();

    if (!slot)
        return false;
    if (!fill(slot, file)) {
        retire(slot);
        return false;
    }
    if (__atomic_compare_exchange_n(&current, &(struct slot *){old}, slot, false, __ATOMIC_ACQ_REL,
                                    __ATOMIC_RELAXED)) {
        if (old)
            retire(old);
    } else {
        retire(slot);
    }
    return true;
}

/* -EAGAIN: by the time that it was mapped it had been replaced once more. */
static int open_once(struct slot *old, struct view *v)
{
    struct map_file file;
    bool published;
    int r = map_file_open(XCE_MAP_PATH, false, &file, NULL);

    if (r < 0)
        return r;
    published = publish(old, &file);
    (void)close(file.fd);
    if (view_current(v))
        return 0;
    if (published)
        return -EAGAIN;
    /* No slot is left, or the file is bad: whichever it is shows when it is mapped for this look-up alone. */
    v->slot = NULL;
    r = map_open(XCE_MAP_PATH, &v->map, NULL, NULL);
    return r == -ESTALE ? -EAGAIN : r;
}

static bool open_anew(struct slot *old, struct view *v)
{
    int r = -EAGAIN;

    for (int i = 0; i < TRIES && r == -EAGAIN; i++) {
        r = open_once(old, v);
        old = __atomic_load_n(&current, __ATOMIC_ACQUIRE);
    }
    return r == 0;
}

/* open(2) and close(2) are points of cancellation, and a thread that ends there would take a slot with it. */
static __attribute__((noinline)) bool view_anew(struct slot *old, struct view *v)
{
    int error = errno, cancel;
    bool found;

    (void)pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &cancel);
    found = open_anew(old, v);
    (void)pthread_setcancelstate(cancel, NULL);
    errno = error;
    return found;
}

/* There is no map that could be used: at most one attempt a second to find one. */
static __attribute__((noinline)) bool view_after_failure(struct view *v)
{
    struct slot *old = __atomic_load_n(&current, __ATOMIC_ACQUIRE);
    uint64_t failed = __atomic_load_n(&failed_ms, __ATOMIC_RELAXED);

    if (failed != 0 && now_ms() - failed < AGAIN_MS)
        return false;
    if (view_anew(old, v)) {
        __atomic_store_n(&failed_ms, 0, __ATOMIC_RELAXED);
        return true;
    }
    __atomic_store_n(&failed_ms, now_ms(), __ATOMIC_RELAXED);
    return false;
}

/* Whether the path is another map by now; if so, that is current when this returns. Of all threads, the first one in a
 * second looks. */
static __attribute__((noinline)) bool moved_on(const struct view *v, time_t now)
{
    time_t then = __atomic_load_n(&looked_s, __ATOMIC_RELAXED);
    struct view anew;
    int error = errno;
    bool moved;

    if (!__atomic_compare_exchange_n(&looked_s, &then, now, false, __ATOMIC_RELAXED,
                                     __ATOMIC_RELAXED))
        return false;
    moved = map_moved(XCE_MAP_PATH, __atomic_load_n(&v->slot->dev, __ATOMIC_RELAXED),
                      __atomic_load_n(&v->slot->ino, __ATOMIC_RELAXED));
    errno = error;
    if (!moved || !view_held(v))
        return false;
    if (view_anew(v->slot, &anew))
        view_done(&anew);
    return __atomic_load_n(&current, __ATOMIC_ACQUIRE) != v->slot;
}

/* ---- look-ups ---- */

/* What is asked for: by name if that is set, else by uid. */
struct question {
    const char *name;
    uint32_t uid;
    unsigned want;
    int (*find)(const struct map *map, const struct question *q, struct map_entry *ret);
};

/* Whether what was asked for is ours, or may be if there are other ranges by now: nobody else has uids above those of
 * containers. */
static inline bool concerns_us(int r, uint32_t uid)
{
    return r != MAP_FOREIGN || (uid >= LIKELY_FIRST && uid <= XCE_UID_MAX);
}

/* After a look-up in v with outcome r: whether it stands. If not, it is to be made again. */
static inline bool settled(struct view *v, int r, uint32_t uid)
{
    time_t now;

    if (!view_held(v))
        return false;
    return !concerns_us(r, uid) || !v->slot || !second_began(&now) || !moved_on(v, now);
}

/* The map was being replaced, or there is none yet. */
static __attribute__((noinline)) bool find_patiently(const struct question *q,
                                                     struct map_entry *ret)
{
    struct view v;

    for (int i = 0; i < TRIES; i++) {
        bool stands;
        int r;

        if (!view_current(&v) && !view_after_failure(&v))
            return false;
        r = q->find(&v.map, q, ret);
        stands = settled(&v, r, q->uid);
        view_done(&v);
        if (stands)
            return r == 0;
    }
    return false;
}

static int find_uid(const struct map *map, const struct question *q, struct map_entry *ret)
{
    return map_find_uid(map, q->uid, q->want, ret);
}

bool cache_find_uid(uint32_t uid, unsigned want, struct map_entry *ret)
{
    struct view v;

    if (view_current(&v)) {
        int r = map_find_uid(&v.map, uid, want, ret);

        if (settled(&v, r, uid))
            return r == 0;
    }
    return !map_reserved(uid, uid) &&
           find_patiently(&(struct question){.uid = uid, .want = want, .find = find_uid}, ret);
}

static int find_name(const struct map *map, const struct question *q, struct map_entry *ret)
{
    return map_find_name(map, q->name, q->want, ret);
}

bool cache_find_name(const char *name, unsigned want, struct map_entry *ret)
{
    struct view v;

    if (view_current(&v)) {
        int r = map_find_name(&v.map, name, want, ret);

        if (settled(&v, r, 0))
            return r == 0;
    }
    return name_possible(name) &&
           find_patiently(&(struct question){.name = name, .want = want, .find = find_name}, ret);
}

static int find_next(const struct map *map, const struct question *q, struct map_entry *ret)
{
    return map_next(map, q->uid, q->want, ret);
}

bool cache_next(uint32_t from, unsigned want, struct map_entry *ret)
{
    return find_patiently(&(struct question){.uid = from, .want = want, .find = find_next}, ret);
}
