/* Ownership made visible, growth that cannot overflow, and allocation that may not fail.
 *
 * Cleanup attributes (for synchronous code):
 *     auto_free char *path = NULL;               freed at the end of the scope
 *     auto_close int fd = -1;                    closed if >= 0, errno kept
 *     auto_fclose FILE *f = NULL;                auto_closedir DIR *d = NULL;
 *     AUTO(buf_done) struct buf b = BUF_INIT(4096);     after AUTO_DEFINE(struct buf, buf_done)
 * What has found another owner is taken out: return mem_take_fd(&fd); *ret = mem_take(p).
 *
 * Ordinary code uses malloc, calloc and strdup and passes -ENOMEM up. mem_must_* are for where a failure that is not an
 * outcome aborts (the FSM while it applies an entry): they never give NULL.
 * Any thread. */
#ifndef XCE_COMMON_MEM_H
#define XCE_COMMON_MEM_H

#include <dirent.h>
#include <stddef.h>
#include <stdio.h>

#define auto_free     __attribute__((cleanup(mem_auto_free)))
#define auto_close    __attribute__((cleanup(mem_auto_close)))
#define auto_fclose   __attribute__((cleanup(mem_auto_fclose)))
#define auto_closedir __attribute__((cleanup(mem_auto_closedir)))

/* AUTO(fn) calls fn(&variable) at the end of the scope; fn##_auto comes from one of these two, beside fn's prototype.
 * AUTO_DEFINE: fn takes the address of an object (_done). AUTO_DEFINE_PTR: fn takes the pointer itself (_free). */
#define AUTO(fn) __attribute__((cleanup(fn##_auto)))
#define AUTO_DEFINE(type, fn)                                                                      \
    static inline void fn##_auto(type *object)                                                     \
    {                                                                                              \
        fn(object);                                                                                \
    }                                                                                              \
    struct mem_semicolon
#define AUTO_DEFINE_PTR(type, fn)                                                                  \
    static inline void fn##_auto(type **object)                                                    \
    {                                                                                              \
        if (*object)                                                                               \
            fn(*object);                                                                           \
    }                                                                                              \
    struct mem_semicolon

void mem_auto_free(void *pointer_to_pointer);
void mem_auto_close(int *fd);
void mem_auto_fclose(FILE **file);
void mem_auto_closedir(DIR **dir);

/* The value, its place left empty. */
int mem_take_fd(int *fd);
#define mem_take(pointer)                                                                          \
    __extension__({                                                                                \
        __typeof__(pointer) mem_taken_ = (pointer);                                                \
        (pointer) = NULL;                                                                          \
        mem_taken_;                                                                                \
    })

/* Close, keeping errno; -1 is taken and given back: fd = mem_close(fd). */
int mem_close(int fd);

/* Bytes of the array, or -EOVERFLOW. */
int mem_size(size_t n, size_t size, size_t *ret_bytes);

/* Make room in a growing array: afterwards *cap >= want. Growth is by half, so adding one at a time is O(1) each.
 *   array  address of the pointer (NULL at first), its elements of `size` bytes; moved, old elements kept
 *   max    the limit that the owner gave it, in elements
 * 0; -ENOBUFS want is above max; -ENOMEM. On failure array and cap are as before. */
int mem_grow(void *array, size_t *cap, size_t want, size_t max, size_t size);

/* A copy with a NUL behind it. NULL when there is no memory. */
void *mem_dup(const void *bytes, size_t len) __attribute__((malloc));

/* As their namesakes, but they log and abort instead of giving NULL. n * size is checked. len 0 gives a pointer. */
void *mem_must_alloc(size_t len) __attribute__((malloc, returns_nonnull));
void *mem_must_calloc(size_t n, size_t size) __attribute__((malloc, returns_nonnull));
void *mem_must_realloc(void *old, size_t n, size_t size) __attribute__((returns_nonnull));
char *mem_must_strdup(const char *text) __attribute__((malloc, returns_nonnull));
/* With a NUL behind it. */
void *mem_must_dup(const void *bytes, size_t len) __attribute__((malloc, returns_nonnull));
/* mem_grow without a limit. */
void mem_must_grow(void *array, size_t *cap, size_t want, size_t size);

/* Number of elements of an array (not of a pointer). */
#define ARRAY_LEN(array) (sizeof(array) / sizeof((array)[0]))

/* The struct that holds a member. */
#define CONTAINER_OF(pointer, type, member)                                                        \
    ((type *)(void *)((char *)(pointer)-offsetof(type, member)))

#endif
