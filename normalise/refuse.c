#include "normalise/refuse.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>

#include "common/fsutil.h"
#include "common/mem.h"
#include "map/file.h"
#include "map/read.h"

#define TRIES_MAX 10 /* a new map is written as we look */

static int map_get(const char *path, struct map *ret, struct err *err)
{
    const char *why = "";
    int r = -ESTALE;

    for (int tried = 0; r == -ESTALE && tried < TRIES_MAX; tried++)
        r = map_open(path, ret, NULL, &why);
    if (r < 0 && r != -ENOENT)
        return err_set(err, r, "%s says what the pools are, and can not be believed: %s", path,
                       *why ? why : err_text(r));
    return r;
}

int refuse_pools(const char *map_path, const struct ids *ids, struct err *err)
{
    const struct {
        const char *option, *what;
        uint32_t id;
    } all[] = {
        {"--from", "uid", ids->uid},
        {"--to", "uid", ids->to_uid},
        {"--from", "gid", ids->groups ? ids->gid : 0},
        {"--to", "gid", ids->groups ? ids->to_gid : 0},
    };
    struct map map;
    int r = map_get(map_path, &map, err);

    if (r < 0)
        return r == -ENOENT ? 0 : r;
    for (size_t i = 0; i < ARRAY_LEN(all) && r == 0; i++)
        if (all[i].id && map_covers(&map, all[i].id))
            r = err_set(err, -EPERM,
                        "%s: %s %u is of a pool of leases: who holds it now is not known here",
                        all[i].option, all[i].what, all[i].id);
    map_close(&map);
    return r;
}

static int map_is_whole(const char *path, struct err *err)
{
    auto_free char *text = NULL;
    unsigned inside, outside, count;
    int r = fs_read_file(AT_FDCWD, path, 4096, &text, NULL);

    if (r == -ENOENT) /* a kernel without user namespaces */
        return 0;
    if (r < 0)
        return err_set(err, r, "%s: %s", path, err_text(r));
    if (sscanf(text, "%u %u %u", &inside, &outside, &count) == 3 && inside == 0 && outside == 0 &&
        count == UINT32_MAX)
        return 0;
    return err_set(err, -EPERM, "ids are mapped in this user namespace: run it outside");
}

int refuse_mapped(struct err *err)
{
    int r = map_is_whole("/proc/self/uid_map", err);

    return r < 0 ? r : map_is_whole("/proc/self/gid_map", err);
}
