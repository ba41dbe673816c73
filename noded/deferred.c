#include "noded/deferred.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "common/buf.h"
#include "common/digest.h"
#include "common/fsutil.h"
#include "common/mem.h"

#define HEAD "xce-deferred 1\n"

struct deferred_release *deferred_find(struct deferred *list, uint32_t uid, uint32_t epoch)
{
    for (size_t i = 0; i < list->n; i++)
        if (list->items[i].uid == uid && list->items[i].epoch == epoch)
            return &list->items[i];
    return NULL;
}

void deferred_drop(struct deferred *list, struct deferred_release *item)
{
    size_t i = (size_t)(item - list->items);

    list->n--;
    memmove(item, item + 1, (list->n - i) * sizeof(*item));
}

/* ---- the file ---- */

void deferred_write(const struct deferred *list, struct buf *ret)
{
    buf_adds(ret, HEAD);
    for (size_t i = 0; i < list->n; i++) {
        const struct deferred_release *r = &list->items[i];

        buf_addf(ret, "release %" PRIu64 " %" PRIu32 " %" PRIu32 " %" PRIu32 " %" PRId64 " ",
                 r->lease, r->uid, r->epoch, r->caller, r->since_ms);
        for (size_t b = 0; b < r->id_len; b++)
            buf_addf(ret, "%02x", r->id[b]);
        buf_adds(ret, "\n");
    }
    buf_addf(ret, "sum %08x\n", digest_crc32c(0, buf_str(ret), ret->len));
}

static bool read_id(const char *hex, struct deferred_release *ret)
{
    size_t len = strlen(hex);
    unsigned byte;

    if (len % 2 || len / 2 < DEFERRED_ID_MIN || len / 2 > DEFERRED_ID_MAX ||
        strspn(hex, "0123456789abcdef") != len)
        return false;
    for (size_t b = 0; b < len / 2; b++) {
        if (sscanf(hex + 2 * b, "%2x", &byte) != 1)
            return false;
        ret->id[b] = (uint8_t)byte;
    }
    ret->id_len = len / 2;
    return true;
}

static bool read_line(const char *line, struct deferred *ret)
{
    struct deferred_release *r = &ret->items[ret->n];
    char hex[2 * DEFERRED_ID_MAX + 2];

    if (ret->n >= DEFERRED_MAX)
        return false;
    *r = (struct deferred_release){.kept = true};
    if (sscanf(line, "release %" SCNu64 " %" SCNu32 " %" SCNu32 " %" SCNu32 " %" SCNd64 " %129s",
               &r->lease, &r->uid, &r->epoch, &r->caller, &r->since_ms, hex) != 6 ||
        !read_id(hex, r))
        return false;
    ret->n++;
    return true;
}

static bool sum_is_right(char *text)
{
    char *sum = strstr(text, "\nsum ");
    char *end;

    if (!sum || strncmp(text, HEAD, strlen(HEAD)) != 0)
        return false;
    if (strtoul(sum + 5, &end, 16) != digest_crc32c(0, text, (size_t)(sum + 1 - text)) ||
        strcmp(end, "\n") != 0)
        return false;
    sum[1] = '\0';
    return true;
}

int deferred_read(char *text, struct deferred *ret)
{
    char *rest = text + strlen(HEAD);

    ret->n = 0;
    if (!sum_is_right(text))
        return -EBADMSG;
    for (char *line; (line = strsep(&rest, "\n"));) {
        if (*line && !read_line(line, ret)) {
            ret->n = 0;
            return -EBADMSG;
        }
    }
    return 0;
}

int deferred_load(const char *path, struct deferred *ret)
{
    auto_free char *text = NULL;
    int r = fs_read_file(AT_FDCWD, path, DEFERRED_FILE_MAX, &text, NULL);

    ret->n = 0;
    if (r == -ENOENT)
        return 0;
    return r < 0 ? r : deferred_read(text, ret);
}

int deferred_set_aside(const char *path, char ret[static DEFERRED_ASIDE_MAX])
{
    (void)snprintf(ret, DEFERRED_ASIDE_MAX, "%s.damaged-%lld", path, (long long)time(NULL));
    if (rename(path, ret) < 0)
        return -errno;
    return fs_sync_parent(AT_FDCWD, path);
}
