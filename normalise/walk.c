#include "normalise/walk.h"

#include <assert.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <sched.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/fsutil.h"
#include "common/mem.h"
#include "common/thread.h"
#include "normalise/inode.h"
#include "normalise/unit.h"

#define ENTRIES_LEN (256 << 10)
#define ENTRIES_FEW (1 << 10)
#define ENTRY_LEN                                                                                  \
    sizeof(struct dirent64) /* the largest: so much room left says that there was no more */
#define STACK_HIGH   16384  /* folders: from here on few are found at once */
#define THREAD_STACK (512 << 10)

struct walk_run {
    struct walk walk;
    pthread_mutex_t lock;
    pthread_cond_t changed;
    struct unit *stack;
    size_t n_stack;
    unsigned n_busy; /* threads that may still add to the stack */
    unsigned n_running;
    _Atomic int error;
    pthread_t threads[];
};

struct worker {
    struct walk_run *run;
    struct walk_at at;
    char entries[ENTRIES_LEN] __attribute__((aligned(8)));
};

static void run_failed(struct walk_run *run, int error)
{
    (void)pthread_mutex_lock(&run->lock);
    if (run->error == 0)
        run->error = error;
    (void)pthread_cond_broadcast(&run->changed);
    (void)pthread_mutex_unlock(&run->lock);
}

static bool is_over(const struct walk_run *run)
{
    return run->error < 0 || atomic_load(run->walk.stop);
}

/* ---- the stack ---- */

static void push(struct walk_run *run, struct unit *unit)
{
    (void)pthread_mutex_lock(&run->lock);
    unit->next = run->stack;
    run->stack = unit;
    run->n_stack++;
    (void)pthread_cond_signal(&run->changed);
    (void)pthread_mutex_unlock(&run->lock);
}

/* The next; NULL: there is no more. Whoever has one is busy until it asks again. */
static struct unit *pop(struct walk_run *run, bool was_busy)
{
    struct unit *unit = NULL;

    (void)pthread_mutex_lock(&run->lock);
    run->n_busy -= was_busy;
    while (!run->stack && run->n_busy && !is_over(run))
        (void)pthread_cond_wait(&run->changed, &run->lock);
    if (run->stack && !is_over(run)) {
        unit = run->stack;
        run->stack = unit->next;
        run->n_stack--;
        run->n_busy++;
    } else {
        (void)pthread_cond_broadcast(&run->changed);
    }
    (void)pthread_mutex_unlock(&run->lock);
    return unit;
}

static bool is_high(struct walk_run *run)
{
    bool high;

    (void)pthread_mutex_lock(&run->lock);
    high = run->n_stack >= STACK_HIGH;
    (void)pthread_mutex_unlock(&run->lock);
    return high;
}

/* ---- folders ---- */

static void failed(struct worker *w, struct root *root, const char *op, int error)
{
    struct walk_at at = {.root = root, .fd = w->at.fd};

    w->run->walk.ops->failed(w->run->walk.arg, &at, op, error);
}

/* Open it and be in it. 0; -errno. */
static int enter(struct worker *w, const struct unit *unit)
{
    int fd = unit_open(unit);

    w->at.root = unit->root;
    w->at.fd = fd;
    if (fd >= 0 && fchdir(fd) == 0)
        return 0;
    if (fd >= 0) {
        fd = -errno;
        w->at.fd = mem_close(w->at.fd);
    }
    w->at.fd = -1;
    return fd;
}

static void leave(struct worker *w)
{
    w->at.fd = mem_close(w->at.fd);
}

/* All below it is done. It is open in at.fd, or else opened. */
static void folder_end(struct worker *w, const struct unit *unit)
{
    int r = w->at.fd >= 0 ? 0 : enter(w, unit);

    if (r < 0)
        failed(w, unit->root, "open", r);
    else
        w->run->walk.ops->end(w->run->walk.arg, &w->at);
}

/* One thing less that it waits for; those above it that wait for nothing more end, too. */
static void release(struct worker *w, struct unit *unit)
{
    while (unit && atomic_fetch_sub(&unit->waits, 1) == 1) {
        struct unit *parent = unit->parent;
        if (unit->wants_end && !is_over(w->run))
            folder_end(w, unit);
        leave(w);
        unit_free(unit);
        unit = parent;
    }
}

/* First time: what it is. 0; -errno. */
static int folder_begin(struct worker *w, struct unit *unit)
{
    struct statx st;
    int r = inode_stat(w->at.fd, "", &st);

    if (r < 0)
        return r;
    if (st.stx_mnt_id != unit->root->mount)
        return -EXDEV;
    unit->begun = true;
    unit->wants_end = w->run->walk.ops->begin(w->run->walk.arg, &w->at, &st);
    return 0;
}

static void child_push(struct worker *w, struct unit *unit, const char *name)
{
    struct unit *child;
    int r = unit_new(unit, w->at.fd, name, &child);

    if (r == -ENOMEM) {
        run_failed(w->run, r);
        return;
    }
    if (r < 0) {
        failed(w, unit->root, "handle", r);
        return;
    }
    atomic_fetch_add(&unit->waits, 1);
    push(w->run, child);
}

static bool is_dots(const char *name)
{
    return name[0] == '.' && (!name[1] || (name[1] == '.' && !name[2]));
}

/* Where the last entry of what has been read says to go on. */
static off_t entries_end(const struct worker *w, size_t n)
{
    const struct dirent64 *entry = NULL;

    for (size_t at = 0; at < n; at += entry->d_reclen)
        entry = (const struct dirent64 *)(const void *)(w->entries + at);
    return entry->d_off;
}

static void entries_do(struct worker *w, struct unit *unit, size_t n)
{
    const struct walk *walk = &w->run->walk;

    for (size_t at = 0; at < n && !is_over(w->run);) {
        struct dirent64 *entry = (struct dirent64 *)(void *)(w->entries + at);
        at += entry->d_reclen;
        if (!is_dots(entry->d_name) && walk->ops->entry(walk->arg, &w->at, entry))
            child_push(w, unit, entry->d_name);
    }
}

/* Read on. When there may be much more, the rest is put on the stack before this part is done: another thread takes it, or it
 * waits under the folders that are found here. When the stack is high these are few. */
static void folder_read(struct worker *w, struct unit *unit)
{
    size_t room = is_high(w->run) ? ENTRIES_FEW : ENTRIES_LEN;
    bool rest = false;
    ssize_t n = lseek(w->at.fd, unit->next_at, SEEK_SET) < 0 ? -1 : 1;

    w->at.seen = false;
    while (n > 0 && !rest && !is_over(w->run)) {
        n = getdents64(w->at.fd, w->entries, room);
        if (n <= 0)
            break;
        rest = (size_t)n + ENTRY_LEN > room;
        if (rest) {
            unit->next_at = entries_end(w, (size_t)n);
            atomic_fetch_add(&unit->waits, 1);
            push(w->run, unit);
        }
        entries_do(w, unit, (size_t)n);
    }
    if (n < 0 && errno != ENOENT) /* ENOENT: removed under us */
        failed(w, unit->root, "read", -errno);
}

static void unit_do(struct worker *w, struct unit *unit)
{
    int r = enter(w, unit);

    if (r == 0 && !unit->begun)
        r = folder_begin(w, unit);
    if (r < 0)
        failed(w, unit->root, "open", r);
    else
        folder_read(w, unit);
    release(w, unit);
    leave(w);
}

/* ---- threads ---- */

static void over(struct walk_run *run)
{
    const uint64_t one = 1;
    bool last;

    (void)pthread_mutex_lock(&run->lock);
    last = --run->n_running == 0;
    (void)pthread_mutex_unlock(&run->lock);
    if (last)
        (void)fs_write_all(run->walk.done_fd, &one, sizeof one);
}

static void *worker_run(void *arg)
{
    struct walk_run *run = arg;
    struct worker *w = malloc(sizeof *w);
    bool busy = false;

    /* Each thread is in a folder of its own: access lists are looked at by names in it. */
    if (!w || unshare(CLONE_FS) < 0) {
        run_failed(run, w ? -errno : -ENOMEM);
    } else {
        w->run = run;
        w->at = (struct walk_at){.fd = -1};
        for (struct unit *unit; (unit = pop(run, busy)); busy = true)
            unit_do(w, unit);
    }
    free(w);
    over(run);
    return NULL;
}

/* What was left on the stack, when it was left off early. */
static void drain(struct walk_run *run)
{
    while (run->stack) {
        struct unit *unit = run->stack;
        run->stack = unit->next;
        while (unit && atomic_fetch_sub(&unit->waits, 1) == 1) {
            struct unit *parent = unit->parent;
            unit_free(unit);
            unit = parent;
        }
    }
}

static int roots_push(struct walk_run *run)
{
    for (size_t i = run->walk.n_roots; i-- > 0;) {
        struct unit *unit;
        int r = unit_new_root(&run->walk.roots[i], &unit);
        if (r < 0)
            return r;
        push(run, unit);
    }
    return 0;
}

static void run_free(struct walk_run *run)
{
    drain(run);
    (void)pthread_cond_destroy(&run->changed);
    (void)pthread_mutex_destroy(&run->lock);
    free(run);
}

int walk_start(const struct walk *walk, struct walk_run **ret)
{
    struct walk_run *run = calloc(1, sizeof *run + walk->n_threads * sizeof(run->threads[0]));
    unsigned began = 0;
    int r;

    if (!run)
        return -ENOMEM;
    run->walk = *walk;
    (void)pthread_mutex_init(&run->lock, NULL);
    (void)pthread_cond_init(&run->changed, NULL);
    r = roots_push(run);
    run->n_running = walk->n_threads;
    while (r == 0 && began < walk->n_threads) {
        r = thread_start("walk", THREAD_STACK, worker_run, run, &run->threads[began]);
        began += r == 0;
    }
    if (r < 0 && began == 0) {
        run_free(run);
        return r;
    }
    /* Fewer than wanted will do. */
    for (unsigned i = began; i < walk->n_threads; i++)
        over(run);
    run->walk.n_threads = began;
    *ret = run;
    return 0;
}

int walk_finish(struct walk_run *run)
{
    int r;

    for (unsigned i = 0; i < run->walk.n_threads; i++)
        (void)pthread_join(run->threads[i], NULL);
    r = run->error;
    run_free(run);
    return r;
}
