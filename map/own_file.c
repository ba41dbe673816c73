/* Map files: making one, putting it in its place, telling the readers of the one before. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "map/name.h"
#include "map/own.h"
#include "map/word.h"

static const char *beside(const char *path, const char *ending, char ret[static PATH_MAX])
{
    (void)snprintf(ret, PATH_MAX, "%s%s", path, ending);
    return ret;
}

void own_done(struct own_map *own)
{
    map_close(&own->map);
    free(own->block_used);
    *own = (struct own_map){0};
}

/* Map the whole of fd for writing and begin the books. Takes nothing over but the mapping: fd stays the caller's. */
static int own_map_fd(int fd, size_t size, uint32_t n_blocks, struct own_map *ret)
{
    struct own_map own = {0};
    struct stat st;
    void *base;

    if (fstat(fd, &st) < 0)
        return -errno;
    own.block_used = calloc(n_blocks + 1u, 1);
    if (!own.block_used)
        return -ENOMEM;
    base = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    if (base == MAP_FAILED) {
        free(own.block_used);
        return -errno;
    }
    own.map = (struct map){.base = base, .size = size};
    own.dev = st.st_dev;
    own.ino = st.st_ino;
    *ret = own;
    return 0;
}

static int by_first(const void *a, const void *b)
{
    const struct xce_map_range *x = a, *y = b;

    return x->first < y->first ? -1 : x->first > y->first;
}

static void lay_out(struct xce_map_header *header, const struct map_shape *shape, uint32_t n_blocks)
{
    uint32_t n = shape->n_ranges;

    for (uint32_t i = 0; i < n; i++) {
        header->ranges[i].first = shape->ranges[i].first;
        header->ranges[i].count = shape->ranges[i].last - shape->ranges[i].first + 1;
    }
    qsort(header->ranges, n, sizeof(header->ranges[0]), by_first);
    for (uint32_t i = 0; i < n; i++) {
        header->ranges[i].record = header->n_records;
        header->n_records += header->ranges[i].count;
    }
    header->n_ranges = n;
    header->first_uid = n ? header->ranges[0].first : 1;
    header->last_uid = n ? header->ranges[n - 1].first + header->ranges[n - 1].count - 1 : 0;
    header->n_pairs = XCE_MAP_PAIRS;
    header->n_blocks = n_blocks;
    header->pairs_at = XCE_MAP_PAGE;
    header->records_at = header->pairs_at + sizeof(struct xce_map_pair) * XCE_MAP_PAIRS;
    header->blocks_at = header->records_at +
                        (uint64_t)header->n_records * sizeof(struct xce_map_record);
    header->file_size = (header->blocks_at + (uint64_t)n_blocks * XCE_MAP_BLOCK + XCE_MAP_PAGE -
                         1) /
                        XCE_MAP_PAGE * XCE_MAP_PAGE;
}

static void fill_header(struct xce_map_header *header, const struct map_shape *shape,
                        uint32_t n_blocks)
{
    header->magic = XCE_MAP_MAGIC;
    header->version = XCE_MAP_VERSION;
    header->compat = XCE_MAP_VERSION;
    header->header_size = XCE_MAP_PAGE;
    header->record_size = sizeof(struct xce_map_record);
    header->pair_size = sizeof(struct xce_map_pair);
    header->block_size = XCE_MAP_BLOCK;
    header->prefix_len = (uint32_t)strlen(shape->prefix);
    memcpy(header->prefix, shape->prefix, header->prefix_len);
    lay_out(header, shape, n_blocks);
    header->check = words_check(header, offsetof(struct xce_map_header, revision));
    header->state = XCE_MAP_ALIVE;
    header->writer = XCE_MAP_WRITER_RUNNING;
}

/* A file of `size` allocated bytes that only root may write and all may read. */
static int create_file(const char *path, off_t size)
{
    int fd, r = 0;

    (void)unlink(path);
    fd = open(path, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0600);
    if (fd < 0)
        return -errno;
    if (fallocate(fd, 0, 0, size) < 0 || fchmod(fd, 0644) < 0) {
        r = -errno;
        (void)unlink(path);
        (void)close(fd);
        return r;
    }
    return fd;
}

int own_create(const char *path, const struct map_shape *shape, uint32_t n_blocks,
               struct own_map *ret)
{
    struct xce_map_header *header = calloc(1, sizeof(*header));
    char temp[PATH_MAX];
    int fd, r;

    if (!header)
        return -ENOMEM;
    fill_header(header, shape, n_blocks);
    if (map_fault(header, header->file_size)) {
        free(header);
        return -EINVAL;
    }
    fd = create_file(beside(path, ".new", temp), (off_t)header->file_size);
    r = fd < 0 ? fd : own_map_fd(fd, header->file_size, n_blocks, ret);
    if (fd >= 0)
        (void)close(fd);
    if (r == 0)
        ret->layout = *(struct xce_map_header *)memcpy(own_header(ret), header, sizeof(*header));
    else if (fd >= 0)
        (void)unlink(temp);
    free(header);
    return r;
}

/* Say to the readers of the file at path, which may be anything, that it is superseded, if it looks like a map. */
static void supersede_file(const char *path)
{
    static const uint32_t superseded = XCE_MAP_SUPERSEDED;
    uint64_t magic;
    struct stat st;
    int fd = open(path, O_RDWR | O_CLOEXEC | O_NOFOLLOW | O_NOCTTY | O_NONBLOCK);

    if (fd < 0)
        return;
    if (fstat(fd, &st) == 0 && S_ISREG(st.st_mode) && st.st_size >= XCE_MAP_PAGE &&
        pread(fd, &magic, sizeof(magic), 0) == sizeof(magic) && magic == XCE_MAP_MAGIC)
        (void)!pwrite(fd, &superseded, sizeof(superseded), offsetof(struct xce_map_header, state));
    (void)close(fd);
}

/* The old file keeps a second name until its readers have been told: killed in between, the successor tells them. */
int own_publish(const char *path, const struct own_map *own, const struct own_map *old)
{
    char temp[PATH_MAX], aside[PATH_MAX];
    int r = 0;

    (void)beside(path, ".new", temp);
    (void)beside(path, ".old", aside);
    (void)unlink(aside);
    if (link(path, aside) < 0 && errno != ENOENT && errno != EPERM)
        return -errno;
    __atomic_thread_fence(__ATOMIC_SEQ_CST);
    if (rename(temp, path) < 0)
        r = -errno;
    if (r == 0 && old->map.base)
        __atomic_store_n(&own_header(old)->state, XCE_MAP_SUPERSEDED, __ATOMIC_RELEASE);
    if (r == 0)
        supersede_file(aside);
    (void)unlink(aside);
    return r;
}

void own_discard(const char *path, struct own_map *own)
{
    char temp[PATH_MAX];

    (void)unlink(beside(path, ".new", temp));
    own_done(own);
}

void own_tidy(const char *path)
{
    char name[PATH_MAX];
    struct stat now, aside;

    (void)unlink(beside(path, ".new", name));
    if (lstat(beside(path, ".old", name), &aside) < 0)
        return;
    /* The same file: its writer was killed before the rename. */
    if (lstat(path, &now) < 0 || now.st_dev != aside.st_dev || now.st_ino != aside.st_ino)
        supersede_file(name);
    (void)unlink(name);
}

/* Map what was opened; header checked; no holes. */
static int open_checked(int fd, size_t size, struct own_map *ret, const char **ret_why)
{
    struct xce_map_header header;
    int r;

    if (pread(fd, &header, sizeof(header), 0) != sizeof(header)) {
        *ret_why = "cannot be read";
        return -EBADMSG;
    }
    if (header.magic != XCE_MAP_MAGIC || header.n_blocks > size / XCE_MAP_BLOCK) {
        *ret_why = "is not a uid map";
        return -EBADMSG;
    }
    if (fallocate(fd, 0, 0, (off_t)size) < 0 || fchmod(fd, 0644) < 0) {
        *ret_why = "has holes that cannot be filled";
        return -errno;
    }
    r = own_map_fd(fd, size, header.n_blocks, ret);
    if (r < 0)
        return r;
    *ret_why = map_fault(ret->map.base, ret->map.size);
    if (!*ret_why && own_header(ret)->n_pairs != XCE_MAP_PAIRS)
        *ret_why = "is of another version";
    if (!*ret_why && map_superseded(&ret->map))
        *ret_why = "is superseded";
    if (*ret_why)
        own_done(ret);
    else
        ret->layout = *own_header(ret);
    return *ret_why ? -EBADMSG : 0;
}

int own_open(const char *path, struct own_map *ret, const char **ret_why)
{
    struct map_file file;
    int r = map_file_open(path, true, &file, ret_why);

    if (r < 0)
        return r;
    r = open_checked(file.fd, file.size, ret, ret_why);
    (void)close(file.fd);
    return r;
}
