/* The file in which noded keeps the pools over its own end and a reboot; noded_standby.c reads it, too. */
#ifndef XCE_NODED_NODED_POOLS_FILE_H
#define XCE_NODED_NODED_POOLS_FILE_H

#include <stddef.h>

#include "map/name.h"
#include "noded/state.h"
#include "xce/limits.h"

struct buf;

struct pools_file {
    char prefix[NAME_PREFIX_MAX + 1]; /* "" = not known */
    struct state_pool pools[XCE_RANGES_MAX];
    size_t n_pools;
};

/* 0; -ENOENT there is none; -EBADMSG it is damaged; -errno. */
int pools_file_read(const char *path, struct pools_file *ret);
/* As it is to be written: buf is set up, and the caller's. */
void pools_file_print(const struct pools_file *file, struct buf *buf);

#endif
