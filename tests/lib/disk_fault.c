#include "tests/lib/disk_fault.h"

#include <dlfcn.h>
#include <errno.h>
#include <limits.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/types.h>
#include <unistd.h>

#define EXPORT __attribute__((visibility("default")))

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct disk_fault armed; /* op 0 = none */
static unsigned seen, hits, sync_count;
static char sync_suffix[64];

void disk_fault_arm(const struct disk_fault *fault)
{
    pthread_mutex_lock(&lock);
    armed = *fault;
    seen = hits = 0;
    pthread_mutex_unlock(&lock);
}

void disk_fault_disarm(void)
{
    pthread_mutex_lock(&lock);
    armed.op = 0;
    pthread_mutex_unlock(&lock);
}

unsigned disk_fault_hits(void)
{
    unsigned n;

    pthread_mutex_lock(&lock);
    n = hits;
    pthread_mutex_unlock(&lock);
    return n;
}

unsigned disk_fault_syncs(const char *suffix)
{
    unsigned n;

    pthread_mutex_lock(&lock);
    n = sync_count;
    sync_count = 0;
    (void)snprintf(sync_suffix, sizeof sync_suffix, "%s", suffix);
    pthread_mutex_unlock(&lock);
    return n;
}

static bool ends_in(int fd, const char *suffix)
{
    char link[64], path[PATH_MAX];
    ssize_t len;
    size_t want = strlen(suffix);

    (void)snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
    len = readlink(link, path, sizeof path);
    return len >= (ssize_t)want && memcmp(path + len - want, suffix, want) == 0;
}

/* 0 = go on; else the errno to fail with. */
static int fate(enum disk_op op, int fd, bool *ret_do_it)
{
    int error = 0;

    pthread_mutex_lock(&lock);
    if (op == DISK_SYNC && sync_suffix[0] && ends_in(fd, sync_suffix))
        sync_count++;
    if (armed.op == op && ends_in(fd, armed.suffix)) {
        seen++;
        if (seen > armed.after && (armed.times == 0 || seen <= armed.after + armed.times)) {
            hits++;
            error = armed.error;
            *ret_do_it = armed.done_all_same;
        }
    }
    pthread_mutex_unlock(&lock);
    return error;
}

#define BEFORE(op, fd, call)                                                                       \
    bool do_it = true;                                                                             \
    int error = fate(op, fd, &do_it);                                                              \
    if (error) {                                                                                   \
        if (do_it)                                                                                 \
            (void)call;                                                                            \
        errno = error;                                                                             \
        return -1;                                                                                 \
    }                                                                                              \
    return call

/* The next definitions of the symbols: libc's. */
static ssize_t (*real_pwrite)(int, const void *, size_t, off_t);
static ssize_t (*real_write)(int, const void *, size_t);
static int (*real_fsync)(int), (*real_fdatasync)(int);

static void __attribute__((constructor)) find_real(void)
{
    *(void **)&real_pwrite = dlsym(RTLD_NEXT, "pwrite64");
    *(void **)&real_write = dlsym(RTLD_NEXT, "write");
    *(void **)&real_fsync = dlsym(RTLD_NEXT, "fsync");
    *(void **)&real_fdatasync = dlsym(RTLD_NEXT, "fdatasync");
}

EXPORT ssize_t pwrite64(int fd, const void *bytes, size_t len, off_t at)
{
    BEFORE(DISK_WRITE, fd, real_pwrite(fd, bytes, len, at));
}

EXPORT ssize_t write(int fd, const void *bytes, size_t len)
{
    BEFORE(DISK_WRITE, fd, real_write(fd, bytes, len));
}

EXPORT int fsync(int fd)
{
    BEFORE(DISK_SYNC, fd, real_fsync(fd));
}

EXPORT int fdatasync(int fd)
{
    BEFORE(DISK_SYNC, fd, real_fdatasync(fd));
}
