#include "tests/lib/disk_fault.h"

#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
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

/* ---- power cuts ---- */

#define SECTOR 512

struct sector {
    ino_t file; /* 0 = free */
    off_t at;
    bool beyond; /* the file did not reach here */
    uint8_t old[SECTOR];
};

struct watched {
    ino_t file;
    int fd;
    off_t synced_size;
};

static bool watching;
static struct sector *sectors; /* open addressing */
static size_t n_sectors, sectors_cap;
static struct watched watched[16];
static size_t n_watched;

void disk_power_watch(void)
{
    pthread_mutex_lock(&lock);
    watching = true;
    pthread_mutex_unlock(&lock);
}

static size_t slot_of(ino_t file, off_t at)
{
    size_t slot = ((size_t)file * 31 + (size_t)(at / SECTOR)) * 0x9e3779b97f4a7c15u % sectors_cap;

    while (sectors[slot].file && (sectors[slot].file != file || sectors[slot].at != at))
        slot = (slot + 1) % sectors_cap;
    return slot;
}

static void grow_sectors(void)
{
    struct sector *old = sectors;
    size_t old_cap = sectors_cap;

    sectors_cap = sectors_cap ? sectors_cap * 2 : 4096;
    sectors = calloc(sectors_cap, sizeof *sectors);
    if (!sectors)
        abort();
    for (size_t i = 0; i < old_cap; i++)
        if (old[i].file)
            sectors[slot_of(old[i].file, old[i].at)] = old[i];
    free(old);
}

/* The file as it is, seen for the first time or synced. */
static struct watched *watched_of(int fd, ino_t file, off_t size)
{
    for (size_t i = 0; i < n_watched; i++)
        if (watched[i].file == file)
            return &watched[i];
    if (n_watched == sizeof watched / sizeof watched[0])
        abort();
    watched[n_watched] = (struct watched){file, fcntl(fd, F_DUPFD_CLOEXEC, 100), size};
    return &watched[n_watched++];
}

static void remember(int fd, off_t at, size_t len)
{
    struct stat st;

    if (fstat(fd, &st) < 0 || !S_ISREG(st.st_mode))
        return;
    (void)watched_of(fd, st.st_ino, st.st_size);
    for (off_t sector = at / SECTOR * SECTOR; sector < at + (off_t)len; sector += SECTOR) {
        struct sector *place;

        if (n_sectors * 2 >= sectors_cap)
            grow_sectors();
        place = &sectors[slot_of(st.st_ino, sector)];
        if (place->file)
            continue;
        n_sectors++;
        place->file = st.st_ino;
        place->at = sector;
        place->beyond = sector >= st.st_size;
        memset(place->old, 0, SECTOR);
        if (!place->beyond && pread(fd, place->old, SECTOR, sector) < 0)
            abort();
    }
}

static void forget(int fd)
{
    struct sector *old = sectors;
    size_t old_cap = sectors_cap;
    struct stat st;

    if (fstat(fd, &st) < 0 || !S_ISREG(st.st_mode) || !sectors_cap)
        return;
    watched_of(fd, st.st_ino, st.st_size)->synced_size = st.st_size;
    sectors = calloc(sectors_cap, sizeof *sectors);
    if (!sectors)
        abort();
    n_sectors = 0;
    for (size_t i = 0; i < old_cap; i++)
        if (old[i].file && old[i].file != st.st_ino) {
            sectors[slot_of(old[i].file, old[i].at)] = old[i];
            n_sectors++;
        }
    free(old);
}

static void before_write(int fd, off_t at, size_t len)
{
    pthread_mutex_lock(&lock);
    if (watching && fd > 2)
        remember(fd, at, len);
    pthread_mutex_unlock(&lock);
}

static void after_sync(int fd)
{
    pthread_mutex_lock(&lock);
    if (watching)
        forget(fd);
    pthread_mutex_unlock(&lock);
}

static int synced(int fd, int r)
{
    if (r == 0)
        after_sync(fd);
    return r;
}

void disk_power_cut(unsigned seed)
{
    /* Nothing, a little, half, much or all of it is lost. */
    static const unsigned losses[] = {0, 5, 50, 95, 100};
    unsigned loss = losses[seed % 5];

    pthread_mutex_lock(&lock);
    for (size_t i = 0; i < sectors_cap; i++) {
        const struct sector *sector = &sectors[i];

        if (!sector->file || (unsigned)rand_r(&seed) % 100 >= loss)
            continue;
        for (size_t f = 0; f < n_watched; f++)
            if (watched[f].file == sector->file &&
                real_pwrite(watched[f].fd, sector->old, SECTOR, sector->at) < 0)
                abort();
    }
    for (size_t f = 0; f < n_watched; f++) {
        struct stat st;

        if (fstat(watched[f].fd, &st) == 0 && st.st_size > watched[f].synced_size &&
            (loss == 100 || rand_r(&seed) % 2) &&
            ftruncate(watched[f].fd, watched[f].synced_size) < 0)
            abort();
    }
    /* Kept: nothing more may be written. */
}

EXPORT ssize_t pwrite64(int fd, const void *bytes, size_t len, off_t at)
{
    before_write(fd, at, len);
    BEFORE(DISK_WRITE, fd, real_pwrite(fd, bytes, len, at));
}

EXPORT ssize_t write(int fd, const void *bytes, size_t len)
{
    BEFORE(DISK_WRITE, fd, real_write(fd, bytes, len));
}

EXPORT int fsync(int fd)
{
    BEFORE(DISK_SYNC, fd, synced(fd, real_fsync(fd)));
}

EXPORT int fdatasync(int fd)
{
    BEFORE(DISK_SYNC, fd, synced(fd, real_fdatasync(fd)));
}
