#include "tests/lib/fault.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <unistd.h>

/* -Wl,--wrap=f: our objects' calls of f come to __wrap_f, and __real_f is f. */
#define WRAP(type, name, parameters)                                                               \
    type __real_##name parameters;                                                                 \
    type __wrap_##name parameters;                                                                 \
    type __wrap_##name parameters

/* Set by the test's thread while others may be in a call. */
static struct {
    _Atomic bool memory;
    _Atomic unsigned kinds;
    _Atomic size_t count;
    _Atomic size_t nth; /* 0 = no fault is set */
    _Atomic bool for_good;
    _Atomic int error;
    _Atomic bool struck;
} fault;

static void begin(size_t nth, bool for_good)
{
    fault.count = 0;
    fault.struck = false;
    fault.nth = nth;
    fault.for_good = for_good;
}

void fault_memory(size_t nth)
{
    fault.memory = true;
    fault.kinds = 0;
    begin(nth, false);
}

void fault_memory_from(size_t nth)
{
    fault.memory = true;
    fault.kinds = 0;
    begin(nth, true);
}

void fault_disk(unsigned kinds, size_t nth, int error, bool for_good)
{
    fault.memory = false;
    fault.kinds = kinds;
    fault.error = error;
    begin(nth, for_good);
}

bool fault_end(void)
{
    fault.nth = 0;
    return fault.struck;
}

size_t fault_count(void)
{
    return fault.count;
}

/* One call of the kind that is counted: whether it must fail. */
static bool strikes(size_t nth)
{
    size_t count = atomic_fetch_add(&fault.count, 1) + 1;

    if (count != nth && !(fault.for_good && count > nth))
        return false;
    fault.struck = true;
    return true;
}

static bool no_memory(void)
{
    size_t nth = fault.nth;

    if (nth == 0 || !fault.memory || !strikes(nth))
        return false;
    errno = ENOMEM;
    return true;
}

static bool no_disk(unsigned kind, int fd)
{
    size_t nth = fault.nth;

    if (nth == 0 || fault.memory || !(fault.kinds & kind) || (fd >= 0 && fd <= 2) || !strikes(nth))
        return false;
    errno = fault.error;
    return true;
}

/* ---- memory ---- */

WRAP(void *, malloc, (size_t size))
{
    return no_memory() ? NULL : __real_malloc(size);
}

WRAP(void *, calloc, (size_t n, size_t size))
{
    return no_memory() ? NULL : __real_calloc(n, size);
}

WRAP(void *, realloc, (void *old, size_t size))
{
    return no_memory() ? NULL : __real_realloc(old, size);
}

WRAP(void *, reallocarray, (void *old, size_t n, size_t size))
{
    return no_memory() ? NULL : __real_reallocarray(old, n, size);
}

WRAP(void *, aligned_alloc, (size_t alignment, size_t size))
{
    return no_memory() ? NULL : __real_aligned_alloc(alignment, size);
}

WRAP(int, posix_memalign, (void **ret, size_t alignment, size_t size))
{
    return no_memory() ? ENOMEM : __real_posix_memalign(ret, alignment, size);
}

WRAP(char *, strdup, (const char *text))
{
    return no_memory() ? NULL : __real_strdup(text);
}

WRAP(char *, strndup, (const char *text, size_t n))
{
    return no_memory() ? NULL : __real_strndup(text, n);
}

WRAP(int, vasprintf, (char **ret, const char *format, va_list args))
{
    return no_memory() ? -1 : __real_vasprintf(ret, format, args);
}

WRAP(int, asprintf, (char **ret, const char *format, ...))
{
    va_list args;
    int n;

    if (no_memory())
        return -1;
    va_start(args, format);
    n = __real_vasprintf(ret, format, args);
    va_end(args);
    return n;
}

/* The forms that _FORTIFY_SOURCE puts in their place. */
WRAP(int, __vasprintf_chk, (char **ret, int flag, const char *format, va_list args))
{
    return no_memory() ? -1 : __real_vasprintf(ret, format, args);
}

WRAP(int, __asprintf_chk, (char **ret, int flag, const char *format, ...))
{
    va_list args;
    int n;

    if (no_memory())
        return -1;
    va_start(args, format);
    n = __real_vasprintf(ret, format, args);
    va_end(args);
    return n;
}

/* ---- disk ---- */

/* The bytes of a write that go through: all, half, or -1 = none. */
static ssize_t allowed(int fd, size_t len)
{
    if (!no_disk(FAULT_WRITE, fd))
        return (ssize_t)len;
    if (fault.kinds & FAULT_SHORT && len > 1 && fault.count == fault.nth)
        return (ssize_t)(len / 2);
    return -1;
}

WRAP(ssize_t, write, (int fd, const void *bytes, size_t len))
{
    ssize_t n = allowed(fd, len);

    return n < 0 ? n : __real_write(fd, bytes, (size_t)n);
}

WRAP(ssize_t, pwrite, (int fd, const void *bytes, size_t len, off_t at))
{
    ssize_t n = allowed(fd, len);

    return n < 0 ? n : __real_pwrite(fd, bytes, (size_t)n, at);
}

WRAP(ssize_t, pwrite64, (int fd, const void *bytes, size_t len, off_t at))
{
    ssize_t n = allowed(fd, len);

    return n < 0 ? n : __real_pwrite64(fd, bytes, (size_t)n, at);
}

WRAP(ssize_t, writev, (int fd, const struct iovec *pieces, int n))
{
    return no_disk(FAULT_WRITE, fd) ? -1 : __real_writev(fd, pieces, n);
}

WRAP(ssize_t, pwritev, (int fd, const struct iovec *pieces, int n, off_t at))
{
    return no_disk(FAULT_WRITE, fd) ? -1 : __real_pwritev(fd, pieces, n, at);
}

WRAP(ssize_t, pwritev64, (int fd, const struct iovec *pieces, int n, off_t at))
{
    return no_disk(FAULT_WRITE, fd) ? -1 : __real_pwritev64(fd, pieces, n, at);
}

WRAP(int, fsync, (int fd))
{
    return no_disk(FAULT_SYNC, fd) ? -1 : __real_fsync(fd);
}

WRAP(int, fdatasync, (int fd))
{
    return no_disk(FAULT_SYNC, fd) ? -1 : __real_fdatasync(fd);
}

WRAP(int, syncfs, (int fd))
{
    return no_disk(FAULT_SYNC, fd) ? -1 : __real_syncfs(fd);
}

WRAP(int, msync, (void *at, size_t len, int flags))
{
    return no_disk(FAULT_SYNC, -1) ? -1 : __real_msync(at, len, flags);
}

/* open and openat in each of their forms: the mode is the third or fourth argument, if any. */
static mode_t mode_of(int flags, va_list args)
{
    return flags & O_CREAT || (flags & O_TMPFILE) == O_TMPFILE ? va_arg(args, mode_t) : 0;
}

#define WRAP_OPEN(name)                                                                            \
    WRAP(int, name, (const char *path, int flags, ...))                                            \
    {                                                                                              \
        va_list args;                                                                              \
        mode_t mode;                                                                               \
                                                                                                   \
        va_start(args, flags);                                                                     \
        mode = mode_of(flags, args);                                                               \
        va_end(args);                                                                              \
        return no_disk(FAULT_OPEN, -1) ? -1 : __real_##name(path, flags, mode);                    \
    }
#define WRAP_OPENAT(name)                                                                          \
    WRAP(int, name, (int dirfd, const char *path, int flags, ...))                                 \
    {                                                                                              \
        va_list args;                                                                              \
        mode_t mode;                                                                               \
                                                                                                   \
        va_start(args, flags);                                                                     \
        mode = mode_of(flags, args);                                                               \
        va_end(args);                                                                              \
        return no_disk(FAULT_OPEN, -1) ? -1 : __real_##name(dirfd, path, flags, mode);             \
    }

WRAP_OPEN(open)
WRAP_OPEN(open64)
WRAP_OPENAT(openat)
WRAP_OPENAT(openat64)

/* Again what _FORTIFY_SOURCE makes of calls without a mode. */
WRAP(int, __open64_2, (const char *path, int flags))
{
    return no_disk(FAULT_OPEN, -1) ? -1 : __real___open64_2(path, flags);
}

WRAP(int, __openat64_2, (int dirfd, const char *path, int flags))
{
    return no_disk(FAULT_OPEN, -1) ? -1 : __real___openat64_2(dirfd, path, flags);
}

WRAP(int, mkdir, (const char *path, mode_t mode))
{
    return no_disk(FAULT_OPEN, -1) ? -1 : __real_mkdir(path, mode);
}

WRAP(int, mkdirat, (int dirfd, const char *path, mode_t mode))
{
    return no_disk(FAULT_OPEN, -1) ? -1 : __real_mkdirat(dirfd, path, mode);
}

WRAP(int, rename, (const char *from, const char *to))
{
    return no_disk(FAULT_RENAME, -1) ? -1 : __real_rename(from, to);
}

WRAP(int, renameat, (int from_dir, const char *from, int to_dir, const char *to))
{
    return no_disk(FAULT_RENAME, -1) ? -1 : __real_renameat(from_dir, from, to_dir, to);
}

WRAP(int, renameat2, (int from_dir, const char *from, int to_dir, const char *to, unsigned flags))
{
    return no_disk(FAULT_RENAME, -1) ? -1 : __real_renameat2(from_dir, from, to_dir, to, flags);
}

WRAP(int, unlink, (const char *path))
{
    return no_disk(FAULT_RENAME, -1) ? -1 : __real_unlink(path);
}

WRAP(int, unlinkat, (int dirfd, const char *path, int flags))
{
    return no_disk(FAULT_RENAME, -1) ? -1 : __real_unlinkat(dirfd, path, flags);
}

WRAP(int, ftruncate, (int fd, off_t len))
{
    return no_disk(FAULT_SPACE, fd) ? -1 : __real_ftruncate(fd, len);
}

WRAP(int, ftruncate64, (int fd, off_t len))
{
    return no_disk(FAULT_SPACE, fd) ? -1 : __real_ftruncate64(fd, len);
}

WRAP(int, fallocate64, (int fd, int mode, off_t at, off_t len))
{
    return no_disk(FAULT_SPACE, fd) ? -1 : __real_fallocate64(fd, mode, at, len);
}

WRAP(int, posix_fallocate64, (int fd, off_t at, off_t len))
{
    return no_disk(FAULT_SPACE, fd) ? fault.error : __real_posix_fallocate64(fd, at, len);
}

/* ---- helpers ---- */

size_t fault_each_allocation(int (*body)(void *arg), void *arg, int expected)
{
    size_t run;
    bool struck;
    int r;

    for (run = 1;; run++) {
        fault_memory(run);
        r = body(arg);
        struck = fault_end();
        if (r != (struck ? expected : 0)) {
            fprintf(stderr, "allocation %zu %s: got %d\n", run, struck ? "failed" : "went well", r);
            abort();
        }
        if (!struck)
            return run;
    }
}

bool fault_aborts(void (*body)(void *arg), void *arg)
{
    const struct rlimit no_core = {0, 0};
    int status = 0, null;
    pid_t pid = fork();

    if (pid == 0) {
        setrlimit(RLIMIT_CORE, &no_core);
        signal(SIGABRT, SIG_DFL);
        null = __real_open("/dev/null", O_WRONLY);
        dup2(null, STDERR_FILENO);
        body(arg);
        _exit(0);
    }
    if (pid < 0 || waitpid(pid, &status, 0) != pid)
        return false;
    return WIFSIGNALED(status) && WTERMSIG(status) == SIGABRT;
}
