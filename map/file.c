#include "map/file.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "map/name.h"
#include "map/word.h"
#include "xce/map.h"

static_assert(NAME_MAX_LEN == XCE_NAME_LEN_MAX, "one limit");
static_assert(NAME_PREFIX_MAX == XCE_PREFIX_LEN_MAX, "one limit");

/* The largest allowed map, with as many gids as there may be for every uid. */
#define RECORD_WITH_GIDS                                                                           \
    (sizeof(struct xce_map_record) + XCE_MAP_BLOCKS_OF(XCE_GIDS_MAX) * XCE_MAP_BLOCK)
#define SIZE_MAX_MAP ((uint64_t)XCE_UIDS_MAX * RECORD_WITH_GIDS + (1u << 20))

static int refuse(int fd, int error, const char *why, const char **ret_why)
{
    if (fd >= 0)
        (void)close(fd);
    if (ret_why)
        *ret_why = why;
    return error;
}

int map_file_open(const char *path, bool writable, struct map_file *ret, const char **ret_why)
{
    struct stat st;
    /* Nonblocking: were it a fifo or a device, open itself must not wait. */
    const int flags = O_CLOEXEC | O_NOFOLLOW | O_NOCTTY | O_NONBLOCK;
    int fd = writable ? open(path, O_RDWR | flags) : open(path, O_RDONLY | flags);

    if (fd < 0 && errno == ELOOP)
        return refuse(fd, -EPERM, "is a symbolic link", ret_why);
    if (fd < 0 && (errno == ENXIO || errno == ENODEV))
        return refuse(fd, -EPERM, "is not a regular file", ret_why);
    if (fd < 0)
        return refuse(fd, -errno, "cannot be opened", ret_why);
    if (fstat(fd, &st) < 0)
        return refuse(fd, -errno, "cannot be looked at", ret_why);
    if (!S_ISREG(st.st_mode))
        return refuse(fd, -EPERM, "is not a regular file", ret_why);
    if (st.st_uid != 0)
        return refuse(fd, -EPERM, "does not belong to root", ret_why);
    if (st.st_mode & (S_IWGRP | S_IWOTH))
        return refuse(fd, -EPERM, "others than root may write it", ret_why);
    if (st.st_size < XCE_MAP_PAGE || (uint64_t)st.st_size > SIZE_MAX_MAP ||
        (uint64_t)st.st_size > SIZE_MAX / 2)
        return refuse(fd, -EBADMSG, "its size is not that of a map", ret_why);
    *ret = (struct map_file){
        .fd = fd, .size = (size_t)st.st_size, .dev = st.st_dev, .ino = st.st_ino};
    return 0;
}

bool map_reserved(uint64_t first, uint64_t last)
{
    static const struct {
        uint32_t first, last;
    } classes[] = {XCE_RESERVED_UIDS};

    for (size_t i = 0; i < sizeof(classes) / sizeof(classes[0]); i++)
        if (first <= classes[i].last && last >= classes[i].first)
            return true;
    return false;
}

static const char *fault_in_ranges(const struct xce_map_header *header)
{
    uint64_t next_uid = 0, next_record = 0;
    uint32_t n = header->n_ranges;

    if (n > XCE_RANGES_MAX)
        return "number of ranges";
    for (uint32_t i = 0; i < n; i++) {
        const struct xce_map_range *range = &header->ranges[i];

        if (range->count == 0 || range->first < next_uid || range->record != next_record)
            return "order of its ranges";
        next_uid = (uint64_t)range->first + range->count;
        next_record += range->count;
        if (map_reserved(range->first, next_uid - 1))
            return "a range holds reserved uids";
    }
    if (next_record != header->n_records || next_record > XCE_UIDS_MAX)
        return "number of records";
    if (header->first_uid != (n ? header->ranges[0].first : 1) ||
        header->last_uid != (n ? next_uid - 1 : 0))
        return "ends of its ranges";
    return NULL;
}

/* Sections one behind the other, aligned, within the file. */
static const char *fault_in_sections(const struct xce_map_header *header, uint64_t size)
{
    uint64_t at[4] = {header->pairs_at, header->records_at, header->blocks_at, size};
    uint64_t bytes[3] = {(uint64_t)header->n_pairs * sizeof(struct xce_map_pair),
                         (uint64_t)header->n_records * sizeof(struct xce_map_record),
                         (uint64_t)header->n_blocks * XCE_MAP_BLOCK};

    if (header->header_size != XCE_MAP_PAGE ||
        header->record_size != sizeof(struct xce_map_record) ||
        header->pair_size != sizeof(struct xce_map_pair) || header->block_size != XCE_MAP_BLOCK)
        return "size of its parts";
    if (at[0] < XCE_MAP_PAGE)
        return "place of its parts";
    for (int i = 0; i < 3; i++)
        if (at[i] % sizeof(struct xce_map_record) != 0 || at[i] > at[i + 1] ||
            at[i + 1] - at[i] < bytes[i])
            return "place of its parts";
    return NULL;
}

static const char *fault_in_prefix(const struct xce_map_header *header)
{
    char prefix[sizeof(header->prefix) + 1] = "";
    uint32_t len = header->prefix_len;

    if (len > XCE_PREFIX_LEN_MAX)
        return "prefix";
    for (uint32_t i = 0; i < len; i++)
        prefix[i] = header->prefix[i];
    return name_prefix_valid(prefix) && prefix[len - 1] == '-' ? NULL : "prefix";
}

static bool header_sound(const struct xce_map_header *header)
{
    const uint64_t *at = (const uint64_t *)header;
    uint64_t sum = 0;

    for (size_t i = 0; i < offsetof(struct xce_map_header, revision) / 8; i++) {
        uint32_t half[2] = {0, word_load(&header->first_uid)};

        sum += i == offsetof(struct xce_map_header, state) / 8 ? *(uint64_t *)half
                                                               : word_load(at + i);
    }
    return sum == XCE_MAP_SUM;
}

const char *map_fault(const void *base, size_t size)
{
    const struct xce_map_header *header = base;
    uint32_t state;
    const char *fault;

    if (size < XCE_MAP_PAGE || header->magic != XCE_MAP_MAGIC)
        return "is not a uid map";
    if (header->compat > XCE_MAP_VERSION || header->version < 1)
        return "is of another version";
    if (header->file_size != size)
        return "is damaged: size";
    if (!header_sound(header))
        return "is damaged: check of the header";
    state = word_load(&header->state);
    if (state != XCE_MAP_ALIVE && state != XCE_MAP_SUPERSEDED)
        return "is damaged: state";
    if ((fault = fault_in_sections(header, size)) || (fault = fault_in_ranges(header)) ||
        (fault = fault_in_prefix(header)))
        return fault;
    return NULL;
}

int map_open(const char *path, struct map *ret, struct map_file *ret_file, const char **ret_why)
{
    struct map_file file;
    struct map map;
    const char *why;
    void *base;
    int r = map_file_open(path, false, &file, ret_why);

    if (r < 0)
        return r;
    base = mmap(NULL, file.size, PROT_READ, MAP_SHARED, file.fd, 0);
    if (base == MAP_FAILED)
        return refuse(file.fd, -errno, "cannot be mapped", ret_why);
    (void)close(file.fd);
    file.fd = -1;
    map = (struct map){.base = base, .size = file.size};
    why = map_fault(base, file.size);
    r = why ? -EBADMSG : 0;
    if (!why && map_superseded(&map)) {
        why = "is superseded";
        r = -ESTALE;
    }
    if (r < 0) {
        map_close(&map);
        return refuse(-1, r, why, ret_why);
    }
    *ret = map;
    if (ret_file)
        *ret_file = file;
    return 0;
}

void map_close(struct map *map)
{
    if (map->base)
        (void)munmap((void *)map->base, map->size);
    *map = (struct map){0};
}

bool map_moved(const char *path, dev_t dev, ino_t ino)
{
    struct stat st;

    return lstat(path, &st) == 0 && (st.st_dev != dev || st.st_ino != ino);
}
