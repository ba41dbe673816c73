#include "normalise/verify.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "common/digest.h"
#include "common/le.h"
#include "common/mem.h"
#include "normalise/report.h"

/* A change is stamped with the time of the last tick of the kernel's clock: of a machine with 100 of them a second, 10 ms ago. */
#define TICK_NS   INT64_C(20000000)
#define MS_NS     INT64_C(1000000)
#define SECOND_NS INT64_C(1000000000)

/* A server's clock that is further ahead than this is not waited for. */
#define AHEAD_NS (10 * SECOND_NS)

static int64_t now_ns(void)
{
    struct timespec now;

    (void)clock_gettime(CLOCK_REALTIME, &now);
    return now.tv_sec * SECOND_NS + now.tv_nsec;
}

int64_t verify_wait_ms(const struct verify *verify, bool whole_seconds)
{
    int64_t now = now_ns(), until = now;

    if (whole_seconds)
        until += SECOND_NS - now % SECOND_NS;
    if (verify->youngest > until && verify->youngest - now <= AHEAD_NS)
        until = verify->youngest;
    return (until - now + 2 * TICK_NS) / MS_NS;
}

bool verify_is_ahead(const struct verify *verify)
{
    return verify->youngest - now_ns() > AHEAD_NS;
}

void verify_begin(struct verify *verify)
{
    int64_t since = now_ns() - TICK_NS;

    verify->since.tv_sec = since / SECOND_NS;
    verify->since.tv_nsec = (uint32_t)(since % SECOND_NS);
    verify->youngest = 0;
    digest_random(verify->key, sizeof verify->key);
    verify->looked.low = verify->looked.high = 0;
    verify->compared.low = verify->compared.high = 0;
}

bool verify_is_same(const struct verify *verify)
{
    return verify->looked.low == verify->compared.low &&
           verify->looked.high == verify->compared.high;
}

static void sum_add(const struct verify *verify, struct verify_sum *sum, const struct statx *st)
{
    const uint64_t values[] = {st->stx_ino, st->stx_dev_major, st->stx_dev_minor,
                               (uint64_t)st->stx_ctime.tv_sec, st->stx_ctime.tv_nsec};
    const struct digest_piece pieces[] = {{verify->key, sizeof verify->key},
                                          {values, sizeof values}};
    uint8_t digest[DIGEST_LEN];

    digest_pieces(pieces, ARRAY_LEN(pieces), digest);
    sum->low += le_get_u64(digest);
    sum->high += le_get_u64(digest + 8);
}

/* What the server has now, not what we know. */
static int folder_stat(int fd, struct statx *ret)
{
    return statx(fd, "", AT_EMPTY_PATH | AT_STATX_FORCE_SYNC, STATX_BASIC_STATS, ret) < 0 ? -errno
                                                                                          : 0;
}

static void tell(const struct verify *verify, const struct walk_at *at, const char *name,
                 const struct statx *st, enum exception class)
{
    const struct exception_info info = {
        .class = class,
        .root = at->root,
        .dir_fd = at->fd,
        .name = name,
        .dev_major = st->stx_dev_major,
        .dev_minor = st->stx_dev_minor,
        .ino = st->stx_ino,
    };

    report_exception(verify->task.report, &info);
}

static void left(const struct verify *verify, const struct walk_at *at, const char *name,
                 const struct statx *st)
{
    at->root->tally.left++;
    tell(verify, at, name, st, EXCEPTION_LEFT);
}

/* What is gone may also be hidden by its server (a stale handle): then nobody has seen it. As little a proof as a change. */
static void entry_failed(const struct verify *verify, const struct walk_at *at, const char *name,
                         const char *op, int error)
{
    const struct statx unknown = {0};

    inode_failed(&verify->task, at->root, at->fd, name, op, error);
    if (!inode_is_gone(error))
        return;
    at->root->tally.moved++;
    tell(verify, at, name, &unknown, EXCEPTION_MOVED);
}

static void failed(void *arg, const struct walk_at *at, const char *op, int error)
{
    entry_failed(arg, at, "", op, error);
}

/* ---- look ---- */

static bool look_begin(void *arg, const struct walk_at *at, const struct statx *known)
{
    struct verify *verify = arg;
    const struct ids *ids = &verify->task.options->ids;
    struct statx st;
    int n = folder_stat(at->fd, &st);

    at->root->tally.seen++;
    if (n == 0) {
        root_time_met(at->root, &st);
        sum_add(verify, &verify->looked, &st);
        if (inode_matches(ids, &st)) {
            left(verify, at, "", &st);
            return false;
        }
        n = inode_lists_matter(verify->task.options, &st) ? inode_has_lists(".") : 0;
    }
    if (n > 0)
        n = inode_lists_name(ids, at->fd, true);
    if (n < 0)
        entry_failed(verify, at, "", "look", n);
    else if (n > 0)
        left(verify, at, "", &st);
    return false;
}

/* A file with lists: once more, pinned. */
static int list_look(const struct verify *verify, const struct walk_at *at, const char *name)
{
    const struct ids *ids = &verify->task.options->ids;
    struct statx st;
    auto_close int fd = inode_pin(at->fd, name, &st);
    int n = fd < 0 ? fd : S_ISLNK(st.stx_mode) ? 0 : inode_lists_name(ids, fd, false);

    if (n > 0)
        left(verify, at, name, &st);
    return n < 0 ? n : 0;
}

/* Whether a folder is to be entered; else it is told that it is not. */
static bool folder_look(const struct verify *verify, const struct walk_at *at, const char *name,
                        const struct statx *st)
{
    if (!inode_is_snapshot(at->root, at->fd, name, st))
        return true;
    at->root->tally.snapshots++;
    tell(verify, at, name, st, EXCEPTION_SNAPSHOT);
    return false;
}

static bool look_entry(void *arg, struct walk_at *at, const struct dirent64 *entry)
{
    const struct verify *verify = arg;
    const struct ids *ids = &verify->task.options->ids;
    const char *name = entry->d_name;
    struct statx st;
    int r = inode_stat(at->fd, name, &st);

    at->root->tally.seen++;
    if (r == 0) {
        if (st.stx_mnt_id != at->root->mount) {
            at->root->tally.hidden++;
            tell(verify, at, name, &st, EXCEPTION_MOUNT);
            return false;
        }
        if (S_ISDIR(st.stx_mode))
            return folder_look(verify, at, name, &st);
        if (inode_matches(ids, &st)) {
            left(verify, at, name, &st);
            return false;
        }
        if (!S_ISLNK(st.stx_mode) && inode_lists_matter(verify->task.options, &st))
            r = inode_has_lists(name);
        if (r > 0)
            r = list_look(verify, at, name);
    }
    if (r < 0)
        entry_failed(verify, at, name, "look", r);
    return false;
}

const struct walk_ops verify_look_ops = {
    .begin = look_begin,
    .entry = look_entry,
    .failed = failed,
};

/* ---- compare ---- */

/* Or may be: a whole second may stand for any instant in it. */
static bool is_younger(const struct statx_timestamp *time, const struct statx_timestamp *than)
{
    return time->tv_sec > than->tv_sec ||
           (time->tv_sec == than->tv_sec && (time->tv_nsec >= than->tv_nsec || time->tv_nsec == 0));
}

/* The time of the youngest so far. */
static void youngest_met(struct verify *verify, const struct statx_timestamp *time)
{
    int64_t ns = time->tv_sec * SECOND_NS + (time->tv_nsec ? time->tv_nsec : SECOND_NS);
    int64_t known = verify->youngest;

    while (ns > known && !atomic_compare_exchange_weak(&verify->youngest, &known, ns))
        ;
}

static bool compare_begin(void *arg, const struct walk_at *at, const struct statx *known)
{
    struct verify *verify = arg;
    struct statx st;
    int r = folder_stat(at->fd, &st);

    if (r < 0) {
        entry_failed(verify, at, "", "look", r);
        return false;
    }
    sum_add(verify, &verify->compared, &st);
    if (is_younger(&st.stx_ctime, &verify->since)) {
        youngest_met(verify, &st.stx_ctime);
        at->root->tally.moved++;
        tell(verify, at, "", &st, EXCEPTION_MOVED);
    }
    return false;
}

static bool compare_entry(void *arg, struct walk_at *at, const struct dirent64 *entry)
{
    const struct verify *verify = arg;
    struct statx st;
    int r;

    if (entry->d_type != DT_DIR && entry->d_type != DT_UNKNOWN)
        return false;
    r = inode_stat(at->fd, entry->d_name, &st);
    if (r < 0)
        entry_failed(verify, at, entry->d_name, "look", r);
    return r == 0 && S_ISDIR(st.stx_mode) && st.stx_mnt_id == at->root->mount &&
           !inode_is_snapshot(at->root, at->fd, entry->d_name, &st);
}

const struct walk_ops verify_compare_ops = {
    .begin = compare_begin,
    .entry = compare_entry,
    .failed = failed,
};
