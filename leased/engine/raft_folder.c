#include "leased/engine/raft_folder.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <raft.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/fsutil.h"
#include "common/le.h"
#include "common/mem.h"
#include "leased/engine/raft_entry.h"

/* The library's files: little endian words of eight bytes (docs/disk-format of C-Raft). */
#define FORMAT        1u
#define NAME_LEN      127u
#define SEGMENT_MAX   ((size_t)256 << 20)
#define SNAPSHOT_MAX  ((size_t)1 << 30)
#define META_MAX      ((size_t)1 << 20)
#define BATCH_ENTRIES (1u << 20)

struct segment {
    char name[NAME_LEN + 1];
    bool open;
    uint64_t first, last; /* closed */
    uint64_t counter;     /* open */
};

struct snapshot {
    char name[NAME_LEN + 1]; /* without .meta */
    uint64_t term, index, time;
    bool data, meta; /* files that are there */
};

struct folder {
    const char *path, *replica;
    char *why;
    struct segment *segments;
    size_t n_segments, segments_cap;
    struct snapshot *snapshots;
    size_t n_snapshots, snapshots_cap;
    bool metadata;
    bool open_used; /* an open segment has a whole batch */
    uint64_t next;  /* index of the entry that comes next; 0 = not known yet */
};

int raft_folder_complain(const char *path, const char *name, const char *file, const char *what,
                         char why[static ENGINE_WHY_MAX])
{
    (void)snprintf(why, ENGINE_WHY_MAX,
                   "%s/%s: damaged: %s; the others have what this replica lost: move %s aside, "
                   "leasectl cluster remove %s "
                   "(asked of another one), start leased, leasectl cluster add %s; a sole replica "
                   "needs a backup",
                   path, file, what, path, name, name);
    return -EBADMSG;
}

static int complain(const struct folder *folder, const char *file, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
static int complain(const struct folder *folder, const char *file, const char *format, ...)
{
    char what[160];
    va_list ap;

    va_start(ap, format);
    (void)vsnprintf(what, sizeof what, format, ap);
    va_end(ap);
    return raft_folder_complain(folder->path, folder->replica, file, what, folder->why);
}

/* The CRC-32 of the library's files: polynomial 0x04C11DB7, first bit first, begins with 0. */
static uint32_t sum(uint32_t crc, const uint8_t *bytes, size_t len)
{
    static uint32_t table[256];

    if (!table[1])
        for (uint32_t i = 0; i < 256; i++) {
            uint32_t value = i << 24;

            for (int bit = 0; bit < 8; bit++)
                value = value << 1 ^ (value & 0x80000000u ? 0x04C11DB7u : 0);
            table[i] = value;
        }
    while (len--)
        crc = crc << 8 ^ table[(crc >> 24 ^ *bytes++) & 255];
    return crc;
}

static int read_file(const struct folder *folder, const char *name, size_t max, char **ret,
                     size_t *ret_len)
{
    char path[4096];
    int r = -ENAMETOOLONG;

    if (snprintf(path, sizeof path, "%s/%s", folder->path, name) < (int)sizeof path)
        r = fs_read_file(AT_FDCWD, path, max, ret, ret_len);
    if (r < 0)
        (void)snprintf(folder->why, ENGINE_WHY_MAX, "%s/%s: %s", folder->path, name, strerror(-r));
    return r;
}

/* ---- what is there ---- */

static struct snapshot *snapshot_of(struct folder *folder, uint64_t term, uint64_t index,
                                    uint64_t time)
{
    struct snapshot *snapshot;

    for (size_t i = 0; i < folder->n_snapshots; i++) {
        snapshot = &folder->snapshots[i];
        if (snapshot->term == term && snapshot->index == index && snapshot->time == time)
            return snapshot;
    }
    mem_must_grow(&folder->snapshots, &folder->snapshots_cap, folder->n_snapshots + 1,
                  sizeof *snapshot);
    snapshot = &folder->snapshots[folder->n_snapshots++];
    *snapshot = (struct snapshot){.term = term, .index = index, .time = time};
    (void)snprintf(snapshot->name, sizeof snapshot->name,
                   "snapshot-%" PRIu64 "-%" PRIu64 "-%" PRIu64, term, index, time);
    return snapshot;
}

static void take_segment(struct folder *folder, const struct segment *segment)
{
    mem_must_grow(&folder->segments, &folder->segments_cap, folder->n_segments + 1,
                  sizeof *segment);
    folder->segments[folder->n_segments++] = *segment;
}

static void take_name(struct folder *folder, const char *name)
{
    struct segment segment = {.open = false};
    uint64_t term, index, time;
    int len = (int)strlen(name), end = 0;

    if ((size_t)len > NAME_LEN)
        return;
    memcpy(segment.name, name, (size_t)len);
    if (sscanf(name, "snapshot-%" SCNu64 "-%" SCNu64 "-%" SCNu64 "%n", &term, &index, &time,
               &end) == 3) {
        struct snapshot *snapshot = snapshot_of(folder, term, index, time);

        snapshot->data = snapshot->data || end == len;
        snapshot->meta = snapshot->meta || !strcmp(name + end, ".meta");
    } else if (sscanf(name, "%" SCNu64 "-%" SCNu64 "%n", &segment.first, &segment.last, &end) ==
                   2 &&
               end == len) {
        take_segment(folder, &segment);
    } else if (sscanf(name, "open-%" SCNu64 "%n", &segment.counter, &end) == 1 && end == len) {
        segment.open = true;
        take_segment(folder, &segment);
    } else if (!strcmp(name, "metadata1") || !strcmp(name, "metadata2")) {
        folder->metadata = true;
    }
}

/* Closed ones by their first entry, then open ones by their number. */
static int compare_segments(const void *a, const void *b)
{
    const struct segment *one = a, *two = b;
    uint64_t left = one->open ? one->counter : one->first;
    uint64_t right = two->open ? two->counter : two->first;

    if (one->open != two->open)
        return one->open ? 1 : -1;
    return left < right ? -1 : left > right;
}

static int compare_snapshots(const void *a, const void *b)
{
    const struct snapshot *one = a, *two = b;

    if (one->term != two->term)
        return one->term < two->term ? -1 : 1;
    if (one->index != two->index)
        return one->index < two->index ? -1 : 1;
    return one->time < two->time ? -1 : one->time > two->time;
}

static int list(struct folder *folder)
{
    auto_closedir DIR *dir = opendir(folder->path);
    const struct dirent *entry;

    if (!dir) {
        (void)snprintf(folder->why, ENGINE_WHY_MAX, "%s: %s", folder->path, strerror(errno));
        return -errno;
    }
    while ((entry = readdir(dir)))
        take_name(folder, entry->d_name);
    if (folder->n_segments)
        qsort(folder->segments, folder->n_segments, sizeof *folder->segments, compare_segments);
    if (folder->n_snapshots)
        qsort(folder->snapshots, folder->n_snapshots, sizeof *folder->snapshots, compare_snapshots);
    return 0;
}

/* ---- snapshots ---- */

static int check_meta(const struct folder *folder, const struct snapshot *snapshot)
{
    char name[NAME_LEN + 8];
    auto_free char *text = NULL;
    const uint8_t *bytes;
    size_t len;
    int r;

    (void)snprintf(name, sizeof name, "%s.meta", snapshot->name);
    r = read_file(folder, name, META_MAX, &text, &len);
    if (r < 0)
        return r;
    bytes = (const uint8_t *)text;
    if (len < 32 || le_get_u64(bytes) != FORMAT)
        return complain(folder, name, "%s",
                        len < 32 ? "it is too short" : "it is of an unknown format");
    if (le_get_u64(bytes + 24) != len - 32)
        return complain(folder, name, "it has %zu bytes instead of %" PRIu64, len,
                        le_get_u64(bytes + 24) + 32);
    if ((uint32_t)le_get_u64(bytes + 8) != sum(0, bytes + 16, len - 16))
        return complain(folder, name, "the checksum is wrong");
    return 0;
}

/* The library keeps two snapshots; an older one it takes away, .meta first, and may have died between. */
static bool is_going(const struct folder *folder, size_t i)
{
    unsigned newer = 0;

    while (++i < folder->n_snapshots)
        newer += folder->snapshots[i].data && folder->snapshots[i].meta;
    return newer >= 2;
}

/* A snapshot is made by two renames, .meta first: one that has only that was never finished. */
static int check_snapshots(struct folder *folder, uint64_t *ret_index)
{
    int r = 0;

    *ret_index = 0;
    for (size_t i = 0; r == 0 && i < folder->n_snapshots; i++) {
        const struct snapshot *snapshot = &folder->snapshots[i];

        if (!snapshot->data || (!snapshot->meta && is_going(folder, i)))
            continue;
        if (!snapshot->meta)
            return complain(folder, snapshot->name, "its .meta is missing");
        r = check_meta(folder, snapshot);
        *ret_index = snapshot->index;
    }
    return r;
}

int raft_folder_newest_snapshot(const char *path, char ret[static 128])
{
    char why[ENGINE_WHY_MAX];
    struct folder folder = {.path = path, .replica = "", .why = why};
    int r = list(&folder);

    ret[0] = '\0';
    for (size_t i = 0; i < folder.n_snapshots; i++)
        if (folder.snapshots[i].data)
            memcpy(ret, folder.snapshots[i].name, NAME_LEN + 1);
    free(folder.segments);
    free(folder.snapshots);
    return r;
}

/* ---- segments ---- */

struct batch_place {
    const uint8_t *headers, *data;
    size_t n, data_len;
};

/* The batch at *at, which moves behind it. What is wrong with it, or NULL. */
static const char *read_batch(const uint8_t *bytes, size_t len, size_t *at, struct batch_place *ret)
{
    const uint8_t *start = bytes + *at;
    size_t left = len - *at, header_len;

    if (left < 16)
        return "it ends within a batch";
    ret->n = (size_t)le_get_u64(start + 8);
    if (ret->n == 0 || ret->n > BATCH_ENTRIES)
        return "impossible number of entries in a batch";
    header_len = 8 + 16 * ret->n;
    if (left < 8 + header_len)
        return "it ends within a batch";
    if (le_get_u32(start) != sum(0, start + 8, header_len))
        return "the checksum of a batch's header is wrong";
    ret->headers = start + 16;
    ret->data = start + 8 + header_len;
    ret->data_len = 0;
    for (size_t i = 0; i < ret->n; i++)
        ret->data_len += (le_get_u32(ret->headers + 16 * i + 12) + (size_t)7) & ~(size_t)7;
    if (left - 8 - header_len < ret->data_len)
        return "it ends within a batch";
    if (le_get_u32(start + 4) != sum(0, ret->data, ret->data_len))
        return "the checksum of a batch is wrong";
    *at += 8 + header_len + ret->data_len;
    return NULL;
}

/* Whether each of our entries lies where it was written for. */
static int check_entries(struct folder *folder, const char *name, const struct batch_place *batch)
{
    const uint8_t *data = batch->data;

    for (size_t i = 0; i < batch->n; i++) {
        const uint8_t *header = batch->headers + 16 * i;
        size_t len = le_get_u32(header + 12);
        struct raft_entry_view entry;

        if (header[8] == RAFT_COMMAND) {
            if (raft_entry_decode(data, len, &entry) < 0 || entry.term != le_get_u64(header))
                return complain(folder, name, "entry %" PRIu64 " is none of ours", folder->next);
            if (folder->next == 0)
                folder->next = entry.index - i;
            if (entry.index != folder->next + i)
                return complain(folder, name,
                                "it has entry %" PRIu64 " where %" PRIu64
                                " should be: a file before it is missing, or it is an old one",
                                entry.index, folder->next + i);
        }
        data += (len + 7) & ~(size_t)7;
    }
    if (folder->next)
        folder->next += batch->n;
    return 0;
}

static int check_closed(struct folder *folder, const struct segment *segment)
{
    auto_free char *text = NULL;
    size_t len, at = 8;
    int r = read_file(folder, segment->name, SEGMENT_MAX, &text, &len);

    if (r < 0)
        return r;
    if (len < 8 || le_get_u64((const uint8_t *)text) != FORMAT)
        return complain(folder, segment->name, "%s",
                        len < 8 ? "it is too short" : "it is of an unknown format");
    folder->next = segment->first;
    while (folder->next <= segment->last) {
        struct batch_place batch;
        const char *what = read_batch((const uint8_t *)text, len, &at, &batch);

        if (what)
            return complain(folder, segment->name, "%s at byte %zu (entry %" PRIu64 ")", what, at,
                            folder->next);
        r = check_entries(folder, segment->name, &batch);
        if (r < 0)
            return r;
    }
    if (folder->next != segment->last + 1 || at != len)
        return complain(folder, segment->name, "it goes on to entry %" PRIu64 ", byte %zu",
                        folder->next - 1, at);
    return 0;
}

/* The first bad batch is where writing was torn. What lies there is not looked at. */
static int check_open(struct folder *folder, const struct segment *segment)
{
    auto_free char *text = NULL;
    struct batch_place batch;
    size_t len, at = 8;
    int r = read_file(folder, segment->name, SEGMENT_MAX, &text, &len);

    if (r < 0)
        return r;
    if (len < 8 || le_get_u64((const uint8_t *)text) == 0)
        return 0; /* made ready, never written */
    if (le_get_u64((const uint8_t *)text) != FORMAT)
        return complain(folder, segment->name, "it is of an unknown format");
    while (r == 0 && at < len && !read_batch((const uint8_t *)text, len, &at, &batch)) {
        folder->open_used = true;
        r = check_entries(folder, segment->name, &batch);
    }
    return r;
}

static int check_segments(struct folder *folder, uint64_t snapshot_index)
{
    uint64_t first = 0;
    int r = 0;

    for (size_t i = 0; r == 0 && i < folder->n_segments; i++) {
        const struct segment *segment = &folder->segments[i];

        if (!segment->open && first && segment->first != folder->next &&
            segment->first > snapshot_index + 1)
            return complain(folder, segment->name,
                            "entries %" PRIu64 " to %" PRIu64 " before it are missing",
                            folder->next, segment->first - 1);
        if (!segment->open && (!first || segment->first != folder->next))
            first = segment->first;
        if (segment->open && folder->next && folder->next <= snapshot_index)
            folder->next = 0; /* it may begin anywhere up to behind the snapshot */
        r = segment->open ? check_open(folder, segment) : check_closed(folder, segment);
    }
    if (r == 0 && first > snapshot_index + 1)
        return complain(folder, folder->segments[0].name,
                        "entries %" PRIu64 " to %" PRIu64 " before it are missing",
                        snapshot_index + 1, first - 1);
    return r;
}

/* A snapshot that was sent to us was installed, and we died before the segments that it replaces were taken away. The
 * library passes over closed ones that end before it, but only when there is no open one: it refuses the folder otherwise
 * (uvFilterSegments). So those go that were made ready and never written. */
static int finish_install(const struct folder *folder, uint64_t snapshot_index)
{
    uint64_t last = 0;
    char path[4096];

    for (size_t i = 0; i < folder->n_segments; i++)
        if (!folder->segments[i].open)
            last = folder->segments[i].last;
    if (last == 0 || last >= snapshot_index || folder->open_used)
        return 0;
    for (size_t i = 0; i < folder->n_segments; i++) {
        if (!folder->segments[i].open)
            continue;
        if (snprintf(path, sizeof path, "%s/%s", folder->path, folder->segments[i].name) >=
                (int)sizeof path ||
            unlink(path) < 0) {
            (void)snprintf(folder->why, ENGINE_WHY_MAX, "%s/%s: %s", folder->path,
                           folder->segments[i].name, strerror(errno));
            return -errno;
        }
    }
    return 0;
}

int raft_folder_check(const char *path, const char *name, char why[static ENGINE_WHY_MAX])
{
    struct folder folder = {.path = path, .replica = name, .why = why};
    uint64_t snapshot_index;
    int r = list(&folder);

    if (r == 0)
        r = check_snapshots(&folder, &snapshot_index);
    if (r == 0)
        r = check_segments(&folder, snapshot_index);
    if (r == 0 && (folder.n_segments || folder.n_snapshots) && !folder.metadata)
        r = complain(&folder, "metadata1",
                     "it and metadata2 are missing, and with them whom this replica voted for");
    if (r == 0)
        r = finish_install(&folder, snapshot_index);
    free(folder.segments);
    free(folder.snapshots);
    return r;
}
