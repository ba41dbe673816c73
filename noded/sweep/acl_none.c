#include "noded/sweep/acl_none.h"

#include <linux/magic.h>
#include <stdatomic.h>
#include <sys/stat.h>
#include <sys/vfs.h>

#include "common/clock.h"

#define PLACES (1u << 19) /* 4 MiB, taken as they are used */
#define OLD_MS                                                                                     \
    2500 /* more than a second, the coarsest stamp (ext4 with small inodes), and what a clock may go back */
#define BACK_MS    500 /* that a clock may go back unnoticed */
#define NO_CLOCK   INT64_MIN
#define MS_PER_SEC 1000
#define NS_PER_SEC 1000000000u

static _Atomic uint64_t places[PLACES];
static _Atomic uint64_t record;             /* which one counts */
static _Atomic int64_t clock_ms = NO_CLOCK; /* wall time less the time since the boot */

/* Not xfs: two names that are exchanged leave no trace in the files there. */
static bool is_kept(int64_t type)
{
    return type == TMPFS_MAGIC || type == EXT4_SUPER_MAGIC || type == BTRFS_SUPER_MAGIC;
}

struct acl_none acl_none_begin_at(int64_t type, int64_t wall_ms, int64_t mono_ms)
{
    int64_t now = wall_ms - mono_ms;
    int64_t before = atomic_exchange(&clock_ms, now);

    if (before != NO_CLOCK && now < before - BACK_MS)
        atomic_fetch_add(&record, 1);
    return (struct acl_none){is_kept(type), wall_ms - OLD_MS, atomic_load(&record)};
}

struct acl_none acl_none_begin(int fd)
{
    /* In this order: a thread that is held up in between forgets too much, not too little. */
    int64_t mono_ms = clock_mono_ms(), wall_ms = clock_wall_ms();
    struct statfs fs;

    return acl_none_begin_at(fstatfs(fd, &fs) < 0 ? 0 : fs.f_type, wall_ms, mono_ms);
}

/* No two values give the same out of one hash. */
static uint64_t mix(uint64_t hash, uint64_t value)
{
    hash = (hash ^ value) * UINT64_C(0x9e3779b97f4a7c15);
    return hash ^ hash >> 31;
}

static uint64_t device_of(const struct acl_none *none, const struct statx *st)
{
    return mix(none->record, (uint64_t)st->stx_dev_major << 32 | st->stx_dev_minor);
}

/* The time comes last: of one file no two states are alike. */
static uint64_t state_of(const struct acl_none *none, const struct statx *st)
{
    uint64_t changed = (uint64_t)st->stx_ctime.tv_sec * NS_PER_SEC + st->stx_ctime.tv_nsec;

    return mix(mix(device_of(none, st), st->stx_ino), changed);
}

/* Files that were made together have numbers, and so places, side by side. */
static _Atomic uint64_t *place_of(const struct acl_none *none, const struct statx *st)
{
    return &places[(device_of(none, st) + st->stx_ino) % PLACES];
}

bool acl_none_has(const struct acl_none *none, const struct statx *st)
{
    return none->kept &&
           atomic_load_explicit(place_of(none, st), memory_order_relaxed) == state_of(none, st);
}

void acl_none_add(const struct acl_none *none, const struct statx *st)
{
    int64_t changed_ms = st->stx_ctime.tv_sec * MS_PER_SEC + st->stx_ctime.tv_nsec / 1000000;

    if (none->kept && changed_ms < none->old_ms)
        atomic_store_explicit(place_of(none, st), state_of(none, st), memory_order_relaxed);
}
