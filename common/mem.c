#include "common/mem.h"

#include <errno.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "common/log.h"

void mem_auto_free(void *pointer_to_pointer)
{
    void *pointer;

    /* The attribute gives a T **, whatever T is: read the pointer by its bytes. */
    memcpy(&pointer, pointer_to_pointer, sizeof(pointer));
    free(pointer);
}

void mem_auto_close(int *fd)
{
    mem_close(*fd);
}

void mem_auto_fclose(FILE **file)
{
    int saved = errno;

    if (*file)
        fclose(*file);
    errno = saved;
}

void mem_auto_closedir(DIR **dir)
{
    int saved = errno;

    if (*dir)
        closedir(*dir);
    errno = saved;
}

int mem_take_fd(int *fd)
{
    int taken = *fd;

    *fd = -1;
    return taken;
}

int mem_close(int fd)
{
    int saved = errno;

    /* No retry on EINTR: on Linux the descriptor is gone all the same. */
    if (fd >= 0)
        close(fd);
    errno = saved;
    return -1;
}

int mem_size(size_t n, size_t size, size_t *ret_bytes)
{
    size_t bytes;

    if (__builtin_mul_overflow(n, size, &bytes) || bytes > PTRDIFF_MAX)
        return -EOVERFLOW;
    *ret_bytes = bytes;
    return 0;
}

/* The capacity that a growing array takes next: half again as much, at least 8, within max. */
static size_t next_cap(size_t cap, size_t want, size_t max)
{
    size_t next = cap + cap / 2;

    if (next < 8)
        next = 8;
    if (next < want)
        next = want;
    return next < max ? next : max;
}

int mem_grow(void *array, size_t *cap, size_t want, size_t max, size_t size)
{
    void *old, *new;
    size_t n, bytes;
    int r;

    if (want <= *cap)
        return 0;
    if (want > max)
        return -ENOBUFS;
    n = next_cap(*cap, want, max);
    r = mem_size(n, size, &bytes);
    if (r < 0)
        return -ENOMEM;
    memcpy(&old, array, sizeof(old));
    new = realloc(old, bytes);
    if (!new)
        return -ENOMEM;
    memcpy(array, &new, sizeof(new));
    *cap = n;
    return 0;
}

void *mem_dup(const void *bytes, size_t len)
{
    char *copy;

    if (len >= PTRDIFF_MAX)
        return NULL;
    copy = malloc(len + 1);
    if (!copy)
        return NULL;
    if (len > 0)
        memcpy(copy, bytes, len);
    copy[len] = '\0';
    return copy;
}

__attribute__((noreturn)) static void die(size_t bytes)
{
    log_error(NULL, "out of memory: no %zu bytes where that cannot be undone", bytes);
    abort();
}

void *mem_must_alloc(size_t len)
{
    void *p = malloc(len ? len : 1);

    if (!p)
        die(len);
    return p;
}

void *mem_must_calloc(size_t n, size_t size)
{
    void *p = calloc(n ? n : 1, size ? size : 1);

    if (!p)
        die(n * size);
    return p;
}

void *mem_must_realloc(void *old, size_t n, size_t size)
{
    size_t bytes;
    void *p;

    if (mem_size(n, size, &bytes) < 0)
        die(SIZE_MAX);
    p = realloc(old, bytes ? bytes : 1);
    if (!p)
        die(bytes);
    return p;
}

char *mem_must_strdup(const char *text)
{
    return mem_must_dup(text, strlen(text));
}

void *mem_must_dup(const void *bytes, size_t len)
{
    void *p = mem_dup(bytes, len);

    if (!p)
        die(len);
    return p;
}

void mem_must_grow(void *array, size_t *cap, size_t want, size_t size)
{
    if (mem_grow(array, cap, want, SIZE_MAX, size) < 0)
        die(want * size);
}
