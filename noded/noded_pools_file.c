/* The pools as leased told them last: lines "prefix P" and "pool NAME FIRST LAST VALIDITY PASSED", then "sum CRC" of all before. */
#include "noded/noded_pools_file.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/buf.h"
#include "common/digest.h"
#include "common/fsutil.h"
#include "common/mem.h"

#define FILE_MAX  65536
#define FILE_HEAD "xce-pools 1\n"

static bool sum_is_right(char *text)
{
    char *sum = strstr(text, "\nsum ");

    if (!sum || strncmp(text, FILE_HEAD, strlen(FILE_HEAD)) != 0)
        return false;
    sum[1] = '\0';
    return strtoul(sum + 5, NULL, 16) == digest_crc32c(0, text, strlen(text));
}

static void line_read(const char *line, struct pools_file *ret)
{
    struct state_pool pool = {.check_at_ms = 0};
    int passed = 0;

    if (sscanf(line, "pool %32s %u %u %ld %d", pool.name, &pool.first, &pool.last,
               &pool.validity_ms, &passed) == 5) {
        pool.passed_once = passed;
        if (ret->n_pools < ARRAY_LEN(ret->pools))
            ret->pools[ret->n_pools++] = pool;
    } else if (strncmp(line, "prefix ", 7) == 0 && name_prefix_valid(line + 7)) {
        (void)snprintf(ret->prefix, sizeof(ret->prefix), "%s", line + 7);
    }
}

int pools_file_read(const char *path, struct pools_file *ret)
{
    auto_free char *text = NULL;
    int r = fs_read_file(AT_FDCWD, path, FILE_MAX, &text, NULL);
    char *rest = text;

    if (r < 0)
        return r;
    if (!sum_is_right(text))
        return -EBADMSG;
    *ret = (struct pools_file){.n_pools = 0};
    for (char *line; (line = strsep(&rest, "\n"));)
        line_read(line, ret);
    return 0;
}

void pools_file_print(const struct pools_file *file, struct buf *buf)
{
    buf_init(buf, FILE_MAX);
    buf_addf(buf, FILE_HEAD "prefix %s\n", file->prefix);
    for (size_t i = 0; i < file->n_pools; i++) {
        const struct state_pool *pool = &file->pools[i];
        buf_addf(buf, "pool %s %u %u %ld %d\n", pool->name, pool->first, pool->last,
                 (long)pool->validity_ms, pool->passed_once);
    }
    buf_addf(buf, "sum %08x\n", digest_crc32c(0, buf_str(buf), buf->len));
}
