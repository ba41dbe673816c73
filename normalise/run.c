#include "normalise/run.h"

#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <sys/eventfd.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include "common/clock.h"
#include "common/fsutil.h"
#include "common/mem.h"
#include "common/thread.h"
#include "normalise/change.h"
#include "normalise/rate.h"
#include "normalise/scan.h"
#include "normalise/verify.h"

#define ROUNDS_MAX 5
#define TELL_MS    10000
#define DRAW_MS    1000
#define CHANGE_NS  INT64_C(15000) /* about what one takes, on a local disk */
#define PER_MS     INT64_C(1000000)

struct state {
    const struct options *options;
    struct root *roots;
    size_t n_roots;
    struct report *report;
    struct verify verify; /* its task is that of the changes, too */
    struct rate rate;
    int signals, done;
    int64_t ends_ms; /* of the monotonic clock: no later; 0 = whenever */
    bool late;       /* it has not been done by then */
    bool scanned;    /* the lists of inodes of all, and nothing is on them */
    _Atomic bool stop;
};

/* ---- signals ---- */

static void signals_ours(sigset_t *ret)
{
    (void)sigemptyset(ret);
    (void)sigaddset(ret, SIGINT);
    (void)sigaddset(ret, SIGTERM);
    (void)sigaddset(ret, SIGUSR1);
}

int run_signals(void)
{
    sigset_t set;

    signals_ours(&set);
    (void)signal(SIGPIPE, SIG_IGN);
    return -pthread_sigmask(SIG_BLOCK, &set, NULL);
}

static void signal_take(struct state *s)
{
    struct signalfd_siginfo info;

    while (read(s->signals, &info, sizeof info) == (ssize_t)sizeof info) {
        if (info.ssi_signo == SIGUSR1)
            report_progress(s->report);
        else
            atomic_store(&s->stop, true);
    }
}

/* ---- a walk ---- */

/* For a signal, and the deadline. */
static void wait_signal(struct state *s, struct pollfd *fds, nfds_t n, int64_t ms)
{
    int64_t left = s->ends_ms && !s->stop ? s->ends_ms - clock_mono_ms() : ms;

    left = left < 0 ? 0 : left < ms ? left : ms;
    (void)poll(fds, n, (int)left);
    signal_take(s);
    if (s->ends_ms && !s->stop && clock_mono_ms() >= s->ends_ms) {
        s->late = true;
        atomic_store(&s->stop, true);
    }
}

static void wait_done(struct state *s)
{
    struct pollfd fds[] = {{s->done, POLLIN, 0}, {s->signals, POLLIN, 0}};
    int every = report_is_drawn(s->report) ? DRAW_MS : TELL_MS;
    int64_t next = clock_mono_ms() + every;
    uint64_t count;

    while (read(s->done, &count, sizeof count) < 0) {
        int64_t left = next - clock_mono_ms();
        if (left <= 0) {
            report_progress(s->report);
            next = clock_mono_ms() + every;
            continue;
        }
        wait_signal(s, fds, ARRAY_LEN(fds), left);
    }
    signal_take(s); /* also in the shortest walk */
}

static void pause_ms(struct state *s, int64_t ms)
{
    struct pollfd signals = {s->signals, POLLIN, 0};
    int64_t end = clock_mono_ms() + ms;

    for (; !s->stop && ms > 0; ms = end - clock_mono_ms())
        wait_signal(s, &signals, 1, ms);
}

static int walk_do(struct state *s, const char *phase, const struct walk_ops *ops, void *arg)
{
    const struct walk walk = {
        .roots = s->roots,
        .n_roots = s->n_roots,
        .n_threads = s->options->threads,
        .ops = ops,
        .arg = arg,
        .stop = &s->stop,
        .done_fd = s->done,
    };
    struct walk_run *walking;
    int r;

    report_phase(s->report, phase);
    r = walk_start(&walk, &walking);
    if (r < 0)
        return r;
    wait_done(s);
    return walk_finish(walking);
}

/* ---- rounds ---- */

struct sums {
    uint64_t blocked, unknown, left, hidden, moved;
};

static struct sums sums_of(const struct state *s)
{
    struct sums sums = {0};

    for (size_t i = 0; i < s->n_roots; i++) {
        const struct tally *t = &s->roots[i].tally;
        sums.blocked += t->blocked;
        sums.unknown += t->unknown;
        sums.left += t->left;
        sums.hidden += t->hidden;
        sums.moved += t->moved;
    }
    return sums;
}

static void proof_forget(struct state *s)
{
    for (size_t i = 0; i < s->n_roots; i++) {
        struct tally *t = &s->roots[i].tally;
        t->left = t->hidden = t->moved = t->snapshots = 0;
    }
}

static bool has_whole_seconds(const struct state *s)
{
    bool any = false;

    for (size_t i = 0; i < s->n_roots; i++)
        any |= s->roots[i].whole_seconds;
    return any;
}

static bool has_times(const struct state *s)
{
    bool all = true;

    for (size_t i = 0; i < s->n_roots; i++)
        all &= s->roots[i].times;
    return all;
}

enum { AGAIN = 1 };

struct root_arg {
    const struct state *s;
    struct root *root;
};

static void scan_found(void *arg, uint64_t ino, uint32_t links)
{
    const struct root_arg *a = arg;
    const struct exception_info info = {
        .class = EXCEPTION_LEFT,
        .dir_fd = -1,
        .name = "",
        .dev_major = a->root->dev_major,
        .dev_minor = a->root->dev_minor,
        .ino = ino,
    };

    (void)links;
    a->root->tally.left++;
    report_exception(a->s->report, &info);
}

static bool is_scanned(const struct state *s, size_t i)
{
    for (size_t k = 0; k < i; k++)
        if (s->roots[k].dev_major == s->roots[i].dev_major &&
            s->roots[k].dev_minor == s->roots[i].dev_minor)
            return true;
    return false;
}

struct scanning {
    struct state *s;
    int r; /* 0; SCAN_NONE; -errno */
};

static void *scan_run(void *arg)
{
    const uint64_t one = 1;
    struct scanning *scanning = arg;
    struct state *s = scanning->s;

    for (size_t i = 0; i < s->n_roots && scanning->r == 0; i++) {
        struct root_arg root = {s, &s->roots[i]};
        if (!is_scanned(s, i))
            scanning->r = scan_inodes(s->roots[i].fd, &s->options->ids, &s->stop, scan_found,
                                      &root);
    }
    (void)fs_write_all(s->done, &one, sizeof one);
    return NULL;
}

/* Each file system's own list, once; on a thread, as a walk is. 0; -errno. */
static int scan_all(struct state *s)
{
    struct scanning scanning = {.s = s};
    pthread_t thread;
    int r;

    s->scanned = false;
    report_phase(s->report, "scan");
    r = thread_start("scan", 0, scan_run, &scanning, &thread);
    if (r < 0)
        return r;
    wait_done(s);
    (void)pthread_join(thread, NULL);
    s->scanned = scanning.r == 0;
    return scanning.r < 0 && scanning.r != -ECANCELED ? scanning.r : 0;
}

/* 0; AGAIN another round may show more; -errno. */
static int round_do(struct state *s)
{
    struct sums sums;
    int r = 0;

    proof_forget(s);
    if (!s->options->dry_run)
        r = walk_do(s, "change", &change_ops, &s->verify.task);
    if (r < 0 || s->stop)
        return r;
    pause_ms(s, verify_wait_ms(&s->verify, has_whole_seconds(s)));
    if (s->stop)
        return 0;
    verify_begin(&s->verify);
    r = walk_do(s, "prove", &verify_look_ops, &s->verify);
    sums = sums_of(s);
    if (r < 0 || s->stop || sums.blocked || sums.unknown)
        return r;
    if (sums.left)
        return s->options->dry_run ? 0 : AGAIN;
    if (sums.hidden)
        return 0;
    if (sums.moved)
        return AGAIN;
    if (!has_times(s))
        return 0;
    r = walk_do(s, "compare", &verify_compare_ops, &s->verify);
    sums = sums_of(s);
    if (r < 0 || s->stop || sums.unknown)
        return r;
    if (sums.moved || !verify_is_same(&s->verify))
        return AGAIN;
    return options_scan(s->options) ? scan_all(s) : 0;
}

/* Why it is not clean; NULL: it is. */
static const char *judge(const struct state *s, bool settled, struct verdict_info *info)
{
    struct sums sums = sums_of(s);

    info->verdict = VERDICT_UNPROVEN;
    info->proof = PROOF_NONE;
    if (s->stop)
        return s->late ? "not done by its --deadline: run it again" : "interrupted: run it again";
    if (sums.blocked) {
        info->verdict = VERDICT_BLOCKED;
        return "something could not be changed";
    }
    if (sums.left) {
        info->verdict = VERDICT_DIRTY;
        return s->options->dry_run ? "there is something to be changed"
               : sums.unknown      ? "something failed, and is left"
               : s->scanned        ? "the file system has more of it than is in the paths"
                                   : "something of it came up again and again";
    }
    if (sums.unknown)
        return "something could not be looked at";
    if (sums.hidden)
        return "what lies under mounts in the paths could not be seen: run it with CAP_SYS_ADMIN";
    if (!settled)
        return verify_is_ahead(&s->verify)
                   ? "a file system's clock is ahead of this machine's: set it right"
                   : "folders change all the time";
    if (!has_times(s))
        return "the times of a file system in the paths are not known to tell of every change";
    info->proof = s->scanned ? PROOF_INODE_SCAN : PROOF_DOUBLE_COLLECT;
    if (info->proof < s->options->least)
        return "a better proof is asked for than there is for these paths";
    info->verdict = VERDICT_CLEAN;
    return NULL;
}

static void mount_found(void *arg, const char *path)
{
    const struct root_arg *a = arg;
    const struct exception_info info = {
        .class = EXCEPTION_MOUNT,
        .root = a->root,
        .path = path,
        .dir_fd = -1,
        .name = "",
    };

    report_exception(a->s->report, &info);
}

/* What is not looked at, as the paths are seen by mounts of their own; without, the look meets and tells them. 0; -errno. */
static int mounts_tell(struct state *s)
{
    int r = 0;

    for (size_t i = 0; i < s->n_roots && r == 0; i++) {
        struct root_arg arg = {s, &s->roots[i]};
        if (s->roots[i].own_mount && s->roots[i].tally.mounts)
            r = root_mounts(&s->roots[i], mount_found, &arg);
    }
    return r;
}

static int rounds(struct state *s, struct verdict_info *ret)
{
    int64_t began_ms = clock_mono_ms();
    int r = AGAIN;

    *ret = (struct verdict_info){.estimate_ms = -1};
    while (r == AGAIN && ret->rounds < ROUNDS_MAX) {
        r = round_do(s);
        ret->rounds++;
    }
    if (r < 0)
        return r;
    ret->took_ms = clock_mono_ms() - began_ms;
    ret->reason = judge(s, r == 0, ret);
    /* A run looks three times, and changes. */
    if (s->options->dry_run && !s->stop)
        ret->estimate_ms = 3 * ret->took_ms + (int64_t)(sums_of(s).left) * CHANGE_NS / PER_MS;
    return 0;
}

int run(const struct options *options, struct root *roots, size_t n_roots, struct report *report,
        struct verdict_info *ret)
{
    auto_close int done = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    auto_close int signals = -1;
    sigset_t set;
    struct state s = {
        .options = options,
        .roots = roots,
        .n_roots = n_roots,
        .report = report,
    };
    int r;

    signals_ours(&set);
    signals = signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK);
    if (done < 0 || signals < 0)
        return -errno;
    s.done = done;
    s.signals = signals;
    s.verify.task = (struct inode_task){options, report, &s.rate, &s.stop};
    if (options->deadline_s)
        s.ends_ms = clock_mono_ms() + (int64_t)options->deadline_s * 1000;
    rate_init(&s.rate, options->rate);
    r = mounts_tell(&s);
    if (r == 0)
        r = rounds(&s, ret);
    rate_done(&s.rate);
    return r;
}
