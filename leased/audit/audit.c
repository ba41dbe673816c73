#include "leased/audit/audit.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "common/clock.h"
#include "common/fsutil.h"
#include "common/log.h"
#include "common/mem.h"
#include "common/text.h"
#include "common/thread.h"

#define QUEUE_MAX    (2u << 20) /* lines that wait for the disk */
#define GATHER_MS    50
#define SYNC_MS      1000
#define RESERVE      (1u << 20)      /* so much is reserved at a time, */
#define RESERVE_LEFT (2 * QUEUE_MAX) /* when there is less left than lines can be under way */
#define MODE         0600

struct lines {
    char *bytes; /* QUEUE_MAX of them */
    size_t len;
};

struct audit {
    char *path;
    uint64_t size_bytes;
    unsigned keep;
    pthread_t thread;

    /* the thread's own */
    int fd; /* -1: could not be opened again */
    uint64_t written, reserved;
    bool unreservable; /* this file system can not */
    bool torn;         /* the file ends within a line */
    int64_t dirty_ms;  /* since when something is not synced; 0 = all is */
    struct lines batch;

    /* shared */
    pthread_mutex_t lock;
    pthread_cond_t moved;
    struct lines queue;
    uint64_t lost; /* lines */
    bool urgent, stopping;
    int r; /* 0: lines are kept */
};

/* ---- the file (thread; before it runs: audit_open) ---- */

static int open_file(const char *path, int flags)
{
    int fd = open(path, O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK | flags,
                  MODE);

    return fd < 0 ? -errno : fd;
}

/* Room behind `written` for all lines that can be under way. */
static int reserve(struct audit *audit, int fd, uint64_t written, uint64_t *reserved)
{
    while (!audit->unreservable && *reserved < written + RESERVE_LEFT) {
        if (fallocate(fd, FALLOC_FL_KEEP_SIZE, (off_t)*reserved, RESERVE) == 0)
            *reserved += RESERVE;
        else if (errno == EOPNOTSUPP || errno == ENOSYS)
            audit->unreservable = true;
        else if (errno != EINTR)
            return -errno;
    }
    return 0;
}

static int sync_file(struct audit *audit)
{
    audit->dirty_ms = 0;
    return audit->fd >= 0 && fdatasync(audit->fd) < 0 ? -errno : 0;
}

/* PATH.1 becomes PATH.2 and so on, PATH becomes PATH.1. */
static int move_up(const struct audit *audit)
{
    char from[TEXT_PATH_MAX + 8], to[TEXT_PATH_MAX + 8];

    for (unsigned i = audit->keep; i > 0; i--) {
        (void)snprintf(to, sizeof to, "%s.%u", audit->path, i);
        if (i > 1)
            (void)snprintf(from, sizeof from, "%s.%u", audit->path, i - 1);
        else
            (void)snprintf(from, sizeof from, "%s", audit->path);
        if (rename(from, to) < 0 && errno != ENOENT)
            return -errno;
    }
    return 0;
}

/* A new PATH begins, if there is room for it; else the old one goes on. */
static int rotate(struct audit *audit)
{
    char next[TEXT_PATH_MAX + 8];
    uint64_t reserved = 0;
    int fd, r;

    (void)snprintf(next, sizeof next, "%s.new", audit->path);
    if (unlink(next) < 0 && errno != ENOENT)
        return -errno;
    fd = open_file(next, O_EXCL);
    if (fd < 0)
        return fd;
    r = reserve(audit, fd, 0, &reserved);
    if (r == 0)
        r = sync_file(audit);
    if (r == 0 && ftruncate(audit->fd, (off_t)audit->written) < 0) /* what was reserved */
        r = -errno;
    if (r == 0)
        r = move_up(audit);
    if (r == 0 && rename(next, audit->path) < 0)
        r = -errno;
    if (r < 0) {
        (void)close(fd);
        (void)unlink(next);
        return r;
    }
    (void)close(audit->fd);
    audit->fd = fd;
    audit->written = 0;
    audit->reserved = reserved;
    return fs_sync_parent(AT_FDCWD, audit->path);
}

/* All of it, or nothing: a line that was begun is taken back. */
static int append(struct audit *audit, const char *bytes, size_t len)
{
    int r = fs_write_all(audit->fd, bytes, len);

    if (r < 0) {
        struct stat st;

        audit->torn = ftruncate(audit->fd, (off_t)audit->written) < 0;
        if (audit->torn && fstat(audit->fd, &st) == 0)
            audit->written = (uint64_t)st.st_size;
        return r;
    }
    audit->written += len;
    if (audit->reserved < audit->written)
        audit->reserved = audit->written;
    if (!audit->dirty_ms)
        audit->dirty_ms = clock_mono_ms();
    return 0;
}

static int say_lost(struct audit *audit, uint64_t lost)
{
    char line[128], time[TEXT_TIME_BUF];
    int len = snprintf(line, sizeof line, "%s{\"time\":\"%s\",\"lost\":%llu}\n",
                       audit->torn ? "\n" : "", text_format_time(clock_wall_ms(), time),
                       (unsigned long long)lost);
    int r = append(audit, line, (size_t)len);

    if (r == 0)
        audit->torn = false;
    return r;
}

static uint64_t count(const struct lines *lines)
{
    uint64_t n = 0;

    for (size_t i = 0; i < lines->len; i++)
        n += lines->bytes[i] == '\n';
    return n;
}

/* Write a batch after what is to be said of lines that were lost before; *lost = those that are still to be said. A file that
 * could not be rotated goes on. */
static int write_batch(struct audit *audit, const struct lines *batch, uint64_t *lost)
{
    int r = 0, rotated = 0;

    if (audit->fd < 0)
        audit->fd = open_file(audit->path, 0);
    if (audit->fd < 0)
        return audit->fd;
    if (audit->written && audit->written + batch->len > audit->size_bytes)
        rotated = rotate(audit);
    if (*lost) {
        r = say_lost(audit, *lost);
        if (r == 0)
            *lost = 0;
    }
    if (r == 0 && batch->len)
        r = append(audit, batch->bytes, batch->len);
    if (r < 0)
        *lost += count(batch);
    return r < 0 ? r : rotated;
}

/* ---- the thread ---- */

/* Until something moves, at most so long. */
static void wait_for(struct audit *audit, int64_t ms)
{
    struct timespec until;

    (void)clock_gettime(CLOCK_MONOTONIC, &until);
    until.tv_sec += ms / 1000;
    until.tv_nsec += (ms % 1000) * 1000000;
    if (until.tv_nsec >= 1000000000) {
        until.tv_nsec -= 1000000000;
        until.tv_sec++;
    }
    (void)pthread_cond_timedwait(&audit->moved, &audit->lock, &until);
}

/* Locked. Lines, or the time to sync or to try again, or the end. */
static void wait_for_work(struct audit *audit)
{
    if (!audit->queue.len && !audit->stopping)
        wait_for(audit, SYNC_MS);
    if (audit->queue.len && !audit->urgent && !audit->stopping)
        wait_for(audit, GATHER_MS);
}

static void tell(struct audit *audit, int r)
{
    if (r < 0)
        log_error(LOG_FIELDS(.message_id = LOG_ID_DISK),
                  "%s: %s: administrators' acts are refused until it is written again", audit->path,
                  err_text(r));
    else
        log_notice(LOG_FIELDS(.message_id = LOG_ID_DISK), "%s is written again", audit->path);
}

/* Unlocked: the disk. The outcome, and in *lost the lines that are still to be confessed. */
static int work_off(struct audit *audit, bool urgent, uint64_t *lost)
{
    int r = write_batch(audit, &audit->batch, lost);

    if (audit->dirty_ms && (urgent || clock_mono_ms() - audit->dirty_ms >= SYNC_MS))
        r = r < 0 ? r : sync_file(audit);
    if (audit->fd >= 0 && r == 0)
        r = reserve(audit, audit->fd, audit->written, &audit->reserved);
    return r;
}

static void *run(void *arg)
{
    struct audit *audit = arg;
    bool over = false;

    pthread_mutex_lock(&audit->lock);
    while (!over) {
        struct lines batch;
        uint64_t lost;
        bool urgent;
        int r;

        wait_for_work(audit);
        batch = audit->queue;
        audit->queue = audit->batch;
        audit->queue.len = 0;
        audit->batch = batch;
        urgent = audit->urgent;
        lost = audit->lost;
        audit->urgent = false;
        audit->lost = 0;
        over = audit->stopping;
        pthread_mutex_unlock(&audit->lock);
        r = work_off(audit, urgent || over, &lost);
        pthread_mutex_lock(&audit->lock);
        audit->lost += lost;
        if ((r < 0) != (audit->r < 0))
            tell(audit, r);
        audit->r = r;
    }
    pthread_mutex_unlock(&audit->lock);
    return NULL;
}

/* ---- for the loop ---- */

void audit_write(struct audit *audit, const char *line, size_t len, bool urgent)
{
    pthread_mutex_lock(&audit->lock);
    if (audit->queue.len + len > QUEUE_MAX) {
        audit->lost++;
    } else {
        bool wake = !audit->queue.len || (urgent && !audit->urgent);

        memcpy(audit->queue.bytes + audit->queue.len, line, len);
        audit->queue.len += len;
        audit->urgent = audit->urgent || urgent || audit->queue.len > QUEUE_MAX / 2;
        if (wake || audit->urgent)
            pthread_cond_signal(&audit->moved);
    }
    pthread_mutex_unlock(&audit->lock);
}

bool audit_ok(struct audit *audit, char why[static AUDIT_WHY_MAX])
{
    int r;

    pthread_mutex_lock(&audit->lock);
    r = audit->queue.len > QUEUE_MAX / 2 ? -ENOBUFS : audit->r;
    pthread_mutex_unlock(&audit->lock);
    if (r < 0)
        (void)snprintf(why, AUDIT_WHY_MAX, "%s: %s", audit->path, err_text(r));
    return r == 0;
}

/* ---- beginning and end ---- */

static int check_file(struct audit *audit, struct err *err)
{
    struct stat st;
    char last;
    int fd;

    if (fstat(audit->fd, &st) < 0)
        return err_set(err, -errno, "%s: %s", audit->path, err_text(-errno));
    if (!S_ISREG(st.st_mode))
        return err_set(err, -EPERM, "%s: is no regular file", audit->path);
    if (st.st_uid != geteuid() || (st.st_mode & 077))
        return err_set(err, -EPERM,
                       "%s: others than its owner may read or write it (uid %u, mode %04o)",
                       audit->path, st.st_uid, st.st_mode & 07777u);
    audit->written = audit->reserved = (uint64_t)st.st_size;
    if (!st.st_size)
        return 0;
    fd = open(audit->path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
    audit->torn = fd >= 0 && pread(fd, &last, 1, st.st_size - 1) == 1 && last != '\n';
    if (fd >= 0)
        (void)close(fd);
    return 0;
}

static void audit_free(struct audit *audit)
{
    if (audit->fd >= 0)
        (void)close(audit->fd);
    (void)pthread_cond_destroy(&audit->moved);
    (void)pthread_mutex_destroy(&audit->lock);
    free(audit->queue.bytes);
    free(audit->batch.bytes);
    free(audit->path);
    free(audit);
}

static int start(struct audit *audit, struct err *err)
{
    int r;

    audit->fd = open_file(audit->path, 0);
    r = audit->fd < 0 ? audit->fd : 0;
    if (r < 0 && r != -ENOSPC)
        return err_set(err, r, "%s: %s", audit->path, err_text(r));
    r = audit->fd >= 0 ? check_file(audit, err) : 0;
    if (r < 0)
        return r;
    /* A crash may have left half a line: it is ended, and said. */
    audit->lost = audit->torn;
    audit->r = audit->fd < 0 ? -ENOSPC
                             : reserve(audit, audit->fd, audit->written, &audit->reserved);
    if (audit->r < 0)
        tell(audit, audit->r);
    r = thread_start("audit", 0, run, audit, &audit->thread);
    return r < 0 ? err_set(err, r, "a thread: %s", err_text(r)) : 0;
}

int audit_open(const struct audit_options *options, struct audit **ret, struct err *err)
{
    struct audit *audit = mem_must_calloc(1, sizeof *audit);
    pthread_condattr_t attributes;
    int r;

    audit->fd = -1;
    audit->path = mem_must_strdup(options->path);
    audit->size_bytes = options->size_bytes;
    audit->keep = options->keep;
    audit->queue.bytes = mem_must_alloc(QUEUE_MAX);
    audit->batch.bytes = mem_must_alloc(QUEUE_MAX);
    (void)pthread_condattr_init(&attributes);
    (void)pthread_condattr_setclock(&attributes, CLOCK_MONOTONIC);
    (void)pthread_mutex_init(&audit->lock, NULL);
    (void)pthread_cond_init(&audit->moved, &attributes);
    (void)pthread_condattr_destroy(&attributes);
    r = start(audit, err);
    if (r < 0) {
        audit_free(audit);
        return r;
    }
    *ret = audit;
    return 0;
}

void audit_close(struct audit *audit)
{
    if (!audit)
        return;
    pthread_mutex_lock(&audit->lock);
    audit->stopping = true;
    pthread_cond_signal(&audit->moved);
    pthread_mutex_unlock(&audit->lock);
    (void)pthread_join(audit->thread, NULL);
    /* What was reserved goes back to the disk. */
    if (audit->fd >= 0 && ftruncate(audit->fd, (off_t)audit->written) < 0)
        log_warning(NULL, "%s: %s", audit->path, err_text(-errno));
    audit_free(audit);
}
