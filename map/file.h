/* The map as a file: whether it may be trusted, and mapping it read only.
 *
 * libc only; no allocation, lock, environment or output, so that it may run inside a foreign process. Any thread. */
#ifndef XCE_MAP_FILE_H
#define XCE_MAP_FILE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "xce/map.h"

/* A mapping of a whole map file, or of bytes of that form. Plain value: copies are equal, one of them is closed. */
struct map {
    const void *base;
    size_t size; /* no look-up reads behind it, whatever the file says; at least a page */
};

struct map_file {
    int fd;
    size_t size;
    dev_t dev;
    ino_t ino;
};

/* Open the file and look at its inode: regular, root's, not writable for group or others, not empty, not huge.
 *   writable  for the writer
 *   ret       on success; its fd (close-on-exec) is the caller's to close
 *   ret_why   NULL or set on failure: what is wrong, a constant text
 * 0; -EPERM not to be trusted; -EBADMSG no possible size; any error of open(2): -ENOENT there is none. */
int map_file_open(const char *path, bool writable, struct map_file *ret, const char **ret_why);

/* What is wrong with the header of size bytes at base: a constant text; NULL if nothing. A superseded map is as good as
 * a live one here. */
const char *map_fault(const void *base, size_t size);

/* Open, map, check, close the descriptor. The mapping is the caller's, until map_close.
 *   ret_file  NULL or set on success: which file it is; its fd is -1
 * 0; as map_file_open; -EBADMSG damaged; -ESTALE superseded; any error of mmap(2). */
int map_open(const char *path, struct map *ret, struct map_file *ret_file, const char **ret_why);
void map_close(struct map *map);

/* Whether one of these uids is never leased on any cluster (XCE_RESERVED_UIDS): no map has it in a range. */
bool map_reserved(uint64_t first, uint64_t last);

/* Whether another file has taken the place of this one. One load, no system call; see also map_moved. */
static inline bool map_superseded(const struct map *map)
{
    const struct xce_map_header *header = map->base;

    return __atomic_load_n(&header->state, __ATOMIC_ACQUIRE) != XCE_MAP_ALIVE;
}

/* Whether path is another file than this one now: for a map that was removed behind its writer's back. Not if there is
 * none: then this one is as good as before. */
bool map_moved(const char *path, dev_t dev, ino_t ino);

#endif
