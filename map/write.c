#include "map/write.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "map/name.h"
#include "map/own.h"
#include "map/read.h"
#include "map/word.h"

/* Blocks of gids in a new map: one for every second uid, which is 15 supplementary gids for half of the leases. */
#define BLOCKS_MIN 64u

/* The lock of the writer, in a file of its own: the map's own inode changes hands. */
static int take_lock(const char *path)
{
    char name[PATH_MAX];
    struct stat there, held;
    int fd, r;

    (void)snprintf(name, sizeof(name), "%s.lock", path);
    for (;;) {
        fd = open(name, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW | O_NOCTTY | O_NONBLOCK, 0600);
        if (fd < 0)
            return -errno;
        if (flock(fd, LOCK_EX | LOCK_NB) < 0) {
            r = errno == EWOULDBLOCK ? -EBUSY : -errno;
            (void)close(fd);
            return r;
        }
        /* It may have been removed, and made anew by someone else, between the two calls. */
        if (fstat(fd, &held) == 0 && lstat(name, &there) == 0 && held.st_dev == there.st_dev &&
            held.st_ino == there.st_ino)
            return fd;
        (void)close(fd);
    }
}

int map_writer_new(const char *path, struct map_writer **ret, struct map_takeover *ret_how)
{
    struct map_takeover how = {0};
    struct map_writer *w;
    int r;

    if (strlen(path) >= sizeof(w->path))
        return -ENAMETOOLONG;
    w = calloc(1, sizeof(*w));
    if (!w)
        return -ENOMEM;
    (void)snprintf(w->path, sizeof(w->path), "%s", path);
    w->lock_fd = take_lock(path);
    if (w->lock_fd < 0) {
        r = w->lock_fd;
        free(w);
        return r;
    }
    own_tidy(path);
    r = own_open(path, &w->own, &how.why);
    if (r == 0) {
        how.taken = true;
        own_repair(&w->own, &how);
    } else if (r == -ENOENT) {
        how.why = NULL;
    } else if (r != -EBADMSG && r != -EPERM) {
        (void)close(w->lock_fd);
        free(w);
        return r;
    }
    *ret = w;
    *ret_how = how;
    return 0;
}

void map_writer_free(struct map_writer *w, bool in_order)
{
    if (!w)
        return;
    if (w->own.map.base && in_order)
        word_store(&own_header(&w->own)->writer, XCE_MAP_WRITER_ENDED);
    own_done(&w->own);
    (void)close(w->lock_fd);
    free(w);
}

const struct map *map_writer_map(const struct map_writer *w)
{
    return w->own.map.base ? &w->own.map : NULL;
}

/* ---- records ---- */

/* Bytes of a text that passwd can show, or -1. */
static ssize_t shown(const char *text, size_t max)
{
    size_t len = strnlen(text, max + 1);

    if (len > max)
        return -1;
    for (size_t i = 0; i < len; i++)
        if (text[i] == ':' || (unsigned char)text[i] < ' ' || text[i] == 0x7f)
            return -1;
    return (ssize_t)len;
}

static bool lease_valid(const struct map_lease *lease)
{
    if (lease->state < XCE_MAP_GRANTED || lease->state > XCE_MAP_COOLING || lease->epoch == 0 ||
        lease->n_gids > XCE_GIDS_MAX)
        return false;
    if (shown(lease->gecos, XCE_GECOS_LEN_MAX) < 0 || shown(lease->home, XCE_HOME_LEN_MAX) < 0 ||
        shown(lease->shell, XCE_SHELL_LEN_MAX) < 0)
        return false;
    for (uint32_t i = 0; i < lease->n_gids; i++)
        if (lease->gids[i] == 0 || lease->gids[i] == UINT32_MAX)
            return false;
    return true;
}

/* The record of lease over `before`, its places taken in own. */
static int make_record(struct own_map *own, const struct map_lease *lease,
                       const struct xce_map_record *before, struct xce_map_record *ret)
{
    struct xce_map_record image = {.epoch = lease->epoch,
                                   .uid = lease->uid,
                                   .gid = lease->uid,
                                   .lease = lease->lease,
                                   .revision = lease->revision,
                                   .state = (uint8_t)lease->state,
                                   .flags = lease->flags,
                                   .n_gids = (uint16_t)lease->n_gids};
    char name[NAME_BUF];
    int64_t block = 0;
    int pair = own_take_pair(own, lease->home, lease->shell);

    if (pair < 0)
        return pair;
    if (lease->n_gids > 0)
        block = own_take_blocks(own, lease->gids, lease->n_gids);
    if (block < 0) {
        own->pair_uses[pair]--;
        return (int)block;
    }
    if (before->epoch == lease->epoch)
        image.flags |= before->flags & XCE_MAP_CLOSED;
    image.pair = (uint16_t)pair;
    image.block = (uint32_t)block;
    image.name_len = (uint8_t)name_encode(own->layout.prefix, lease->uid, lease->epoch, name);
    image.gecos_len = (uint8_t)strlen(lease->gecos);
    memcpy(image.text, name, image.name_len);
    image.text[image.name_len + 1] = 'x';
    memcpy(image.text + image.name_len + 3, lease->gecos, image.gecos_len);
    *ret = image;
    return 0;
}

static int put_lease(struct own_map *own, const struct map_lease *lease)
{
    int64_t index = own_index(own, lease->uid);
    struct xce_map_record before, image;
    int r;

    if (index < 0)
        return (int)index;
    before = own_records(own)[index];
    if (before.epoch > lease->epoch)
        return -ESTALE;
    r = make_record(own, lease, &before, &image);
    if (r < 0)
        return r;
    own_store(own, (uint32_t)index, &image);
    own_give_back(own, &before);
    return 0;
}

static int put_retired(struct own_map *own, const struct map_lease *lease)
{
    int64_t index = own_index(own, lease->uid);
    struct xce_map_record before, image = {.epoch = lease->epoch,
                                           .uid = lease->uid,
                                           .gid = lease->uid,
                                           .lease = lease->lease,
                                           .revision = lease->revision,
                                           .flags = lease->flags,
                                           .pair = XCE_MAP_NOPAIR};

    if (index < 0)
        return (int)index;
    before = own_records(own)[index];
    if (before.epoch > lease->epoch)
        return -ESTALE;
    if (before.epoch == lease->epoch) {
        image.lease = before.lease;
        image.flags |= before.flags;
    }
    image.text[1] = 'x';
    own_store(own, (uint32_t)index, &image);
    own_give_back(own, &before);
    return 0;
}

/* ---- files ---- */

static uint32_t blocks_for(uint64_t n_uids)
{
    return n_uids / 2 < BLOCKS_MIN ? BLOCKS_MIN : (uint32_t)(n_uids / 2);
}

static int check_shape(const struct map_shape *shape, uint64_t *ret_uids)
{
    uint64_t n = 0;

    if (!name_prefix_valid(shape->prefix))
        return -EINVAL;
    if (shape->n_ranges > XCE_RANGES_MAX)
        return -E2BIG;
    for (uint32_t i = 0; i < shape->n_ranges; i++) {
        if (shape->ranges[i].last < shape->ranges[i].first)
            return -EINVAL;
        n += (uint64_t)shape->ranges[i].last - shape->ranges[i].first + 1;
    }
    if (n > XCE_UIDS_MAX)
        return -E2BIG;
    *ret_uids = n;
    return 0;
}

static bool same_shape(const struct own_map *own, const struct map_shape *shape)
{
    const struct xce_map_header *header = &own->layout;

    if (strcmp(header->prefix, shape->prefix) != 0 || header->n_ranges != shape->n_ranges)
        return false;
    for (uint32_t i = 0; i < shape->n_ranges; i++) {
        int64_t index = own_index(own, shape->ranges[i].first);
        uint32_t k = 0;

        while (k < header->n_ranges && header->ranges[k].first != shape->ranges[i].first)
            k++;
        if (index < 0 || k == header->n_ranges ||
            header->ranges[k].count != shape->ranges[i].last - shape->ranges[i].first + 1)
            return false;
    }
    return true;
}

/* One record of the old map into the new one, if that has its uid. */
static int carry(struct own_map *to, const struct map_entry *entry)
{
    struct map_lease lease = {.uid = entry->record.uid,
                              .epoch = entry->record.epoch,
                              .lease = entry->record.lease,
                              .revision = entry->record.revision,
                              .state = entry->record.state,
                              .flags = entry->record.flags,
                              .gecos = map_gecos(entry),
                              .home = map_home(entry),
                              .shell = map_shell(entry),
                              .gids = map_gids(entry),
                              .n_gids = entry->record.n_gids};
    int r = map_named(entry) ? put_lease(to, &lease) : put_retired(to, &lease);

    return r == -ERANGE ? 0 : r;
}

static int carry_all(const struct own_map *from, struct own_map *to)
{
    struct xce_map_header *old = own_header(from), *new = own_header(to);
    struct map_entry entry;
    uint32_t next = 0;
    int r;

    while (map_next(&from->map, next, MAP_WANT_PAIR | MAP_WANT_GIDS | MAP_WANT_ANY, &entry) == 0) {
        next = entry.record.uid + 1;
        r = carry(to, &entry);
        if (r < 0)
            return r;
    }
    new->revision = old->revision;
    new->synced = old->synced;
    new->beat_boot_ms = old->beat_boot_ms;
    new->heard_boot_ms = old->heard_boot_ms;
    new->writer_starts = old->writer_starts;
    memcpy(new->incarnation, old->incarnation, sizeof(new->incarnation));
    return 0;
}

static int replace(struct map_writer *w, const struct map_shape *shape, uint32_t n_blocks)
{
    struct own_map own;
    int r = own_create(w->path, shape, n_blocks, &own);

    if (r < 0)
        return r;
    if (w->own.map.base)
        r = carry_all(&w->own, &own);
    else
        own_header(&own)->writer_starts = 1;
    if (r == 0)
        r = own_publish(w->path, &own, &w->own);
    if (r < 0) {
        own_discard(w->path, &own);
        return r;
    }
    own_done(&w->own);
    w->own = own;
    return MAP_REPLACED;
}

/* A new file of the shape that there is, with n_blocks. */
static int replace_same(struct map_writer *w, uint32_t n_blocks)
{
    const struct xce_map_header *header = &w->own.layout;
    struct map_span ranges[XCE_RANGES_MAX];
    struct map_shape shape = {header->prefix, ranges, header->n_ranges};

    for (uint32_t i = 0; i < header->n_ranges; i++)
        ranges[i] = (struct map_span){header->ranges[i].first,
                                      header->ranges[i].first + header->ranges[i].count - 1};
    return replace(w, &shape, n_blocks);
}

int map_writer_shape(struct map_writer *w, const struct map_shape *shape)
{
    uint64_t n_uids;
    uint32_t n_blocks;
    int r = check_shape(shape, &n_uids);

    if (r < 0)
        return r;
    if (w->own.map.base && same_shape(&w->own, shape))
        return MAP_SAME;
    n_blocks = blocks_for(n_uids);
    /* At least the room that its records have now. */
    if (w->own.map.base && w->own.layout.n_blocks > n_blocks)
        n_blocks = w->own.layout.n_blocks;
    return replace(w, shape, n_blocks);
}

/* ---- what noded calls ---- */

/* Twice the room for gids, up to what the largest leases need and one of them while it is being replaced; without gaps. */
static int make_room(struct map_writer *w)
{
    const struct xce_map_header *header = &w->own.layout;
    uint64_t most = ((uint64_t)header->n_records + 1) * XCE_MAP_BLOCKS_OF(XCE_GIDS_MAX);
    uint64_t n = (uint64_t)header->n_blocks * 2;

    n = n > BLOCKS_MIN ? n : BLOCKS_MIN;
    return replace_same(w, (uint32_t)(n < most ? n : most));
}

int map_writer_set(struct map_writer *w, const struct map_lease *lease)
{
    int r;

    if (!lease_valid(lease))
        return -EINVAL;
    /* Doubled so often, there is room for all that there can be. */
    for (int i = 0; (r = put_lease(&w->own, lease)) == -ENOSPC && i < 32; i++) {
        r = make_room(w);
        if (r < 0)
            return r;
    }
    return r;
}

int map_writer_mark(struct map_writer *w, uint32_t uid, uint32_t epoch, uint8_t add, uint8_t drop)
{
    int64_t index = own_index(&w->own, uid);
    struct xce_map_record image;
    int flags;

    if (index < 0)
        return (int)index;
    image = own_records(&w->own)[index];
    if (image.epoch != epoch || epoch == 0)
        return MAP_NOT_HELD;
    flags = (image.flags & ~(drop & ~XCE_MAP_CLOSED)) | add;
    if (flags == image.flags)
        return 0;
    image.flags = (uint8_t)flags;
    own_store(&w->own, (uint32_t)index, &image);
    return 0;
}

int map_writer_retire(struct map_writer *w, uint32_t uid, uint32_t epoch, uint64_t revision)
{
    struct map_lease lease = {.uid = uid, .epoch = epoch, .revision = revision};

    return epoch == 0 ? -EINVAL : put_retired(&w->own, &lease);
}

void map_writer_progress(struct map_writer *w, uint64_t revision, bool synced)
{
    struct xce_map_header *header;

    if (!w->own.map.base)
        return;
    header = own_header(&w->own);
    if (!synced)
        word_store(&header->synced, 0);
    __atomic_store_n(&header->revision, revision, __ATOMIC_RELEASE);
    if (synced)
        __atomic_store_n(&header->synced, 1, __ATOMIC_RELEASE);
}

void map_writer_incarnation(struct map_writer *w, const void *incarnation, size_t len)
{
    uint8_t all[sizeof(own_header(&w->own)->incarnation)] = {0};

    if (!w->own.map.base || len > sizeof(all))
        return;
    memcpy(all, incarnation, len);
    words_store(own_header(&w->own)->incarnation, all, sizeof(all));
}

int map_writer_beat(struct map_writer *w, uint64_t boot_ms, uint64_t heard_boot_ms)
{
    struct xce_map_header *header;
    struct stat st;
    bool there;

    if (!w->own.map.base)
        return MAP_SAME;
    /* Before anything is touched: the pages of a file that was cut are gone. */
    there = lstat(w->path, &st) == 0 && st.st_dev == w->own.dev && st.st_ino == w->own.ino;
    if (there && ((size_t)st.st_size < w->own.map.size || own_damaged(&w->own)))
        return MAP_DAMAGED;
    header = own_header(&w->own);
    word_store(&header->beat_boot_ms, boot_ms);
    if (heard_boot_ms != 0)
        word_store(&header->heard_boot_ms, heard_boot_ms);
    return there ? MAP_SAME : replace_same(w, w->own.layout.n_blocks);
}
