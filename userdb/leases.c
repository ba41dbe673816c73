#include "userdb/leases.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>

#include "common/err.h"
#include "common/log.h"
#include "common/text.h"

#define LOOK_MS 1000
#define TRIES   16
/* A look-up touches a few places, and the kernel maps 64 KiB around each. */
#define TOUCHED_MAX 16
#define SLICE       256 /* uids */

void leases_done(struct leases *leases)
{
    if (leases->path)
        map_close(&leases->map);
}

/* ---- the map ---- */

static void tell(struct leases *leases, int r, const char *fault)
{
    if (leases->fault && fault && strcmp(leases->fault, fault) == 0)
        return;
    if (fault)
        log_warning(NULL, "%s %s (%s)", leases->path, fault, err_text(r));
    else if (leases->fault)
        log_notice(NULL, "%s is good again", leases->path);
    leases->fault = fault;
}

static void open_anew(struct leases *leases)
{
    const char *why = NULL;
    struct map_file file;
    struct map map;
    int r = -ESTALE;

    for (int i = 0; i < TRIES && r == -ESTALE; i++)
        r = map_open(leases->path, &map, &file, &why);
    /* That noded has not made it yet is no fault. */
    tell(leases, r, r < 0 && r != -ENOENT ? why : NULL);
    /* What can not be believed takes the place of nothing. */
    if (r == 0 || (leases->map.base && map_superseded(&leases->map)))
        map_close(&leases->map);
    if (r < 0)
        return;
    leases->map = map;
    leases->file = file;
    leases->touched = 0;
}

void leases_refresh(struct leases *leases, int64_t now_ms)
{
    bool have = leases->map.base != NULL;

    if (!leases->path)
        return;
    if (have && map_superseded(&leases->map)) {
        open_anew(leases);
        return;
    }
    /* Without a map each row of look-ups tries: noded may have made it just now. */
    if (have && now_ms - leases->looked_ms < LOOK_MS)
        return;
    leases->looked_ms = now_ms;
    if (!have || map_moved(leases->path, leases->file.dev, leases->file.ino))
        open_anew(leases);
}

/* Pages of a shared file: what is given back here stays where it is, and comes again when it is touched. */
static void touch(struct leases *leases)
{
    if (!leases->path || ++leases->touched < TOUCHED_MAX)
        return;
    leases->touched = 0;
    (void)madvise((void *)leases->map.base, leases->map.size, MADV_DONTNEED);
}

/* ---- look-ups ---- */

int leases_by_uid(struct leases *leases, uint32_t uid, unsigned want, struct map_entry *ret)
{
    int r;

    if (!leases->map.base)
        return map_reserved(uid, uid) ? LEASES_NONE : LEASES_AWAY;
    r = map_find_uid(&leases->map, uid, want, ret);
    if (r != MAP_FOREIGN)
        touch(leases);
    return r == 0 ? 0 : LEASES_NONE;
}

int leases_by_name(struct leases *leases, const char *name, unsigned want, struct map_entry *ret)
{
    int r;

    if (!leases->map.base)
        return name_possible(name) ? LEASES_AWAY : LEASES_NONE;
    r = map_find_name(&leases->map, name, want, ret);
    if (r != MAP_FOREIGN)
        touch(leases);
    return r == 0 ? 0 : LEASES_NONE;
}

/* The range that uid is in, or the next one. */
static bool range_at(const struct map_status *status, uint32_t uid, uint32_t *ret_first,
                     uint32_t *ret_last)
{
    for (uint32_t i = 0; i < status->n_ranges; i++) {
        *ret_first = status->ranges[i].first;
        *ret_last = status->ranges[i].first + (status->ranges[i].count - 1);
        if (uid <= *ret_last)
            return true;
    }
    return false;
}

int leases_next(struct leases *leases, uint32_t *uid, unsigned want, struct map_entry *ret)
{
    struct map_status status;
    uint32_t first, last;

    if (!leases->map.base)
        return LEASES_AWAY;
    map_status(&leases->map, &status);
    if (!range_at(&status, *uid, &first, &last))
        return LEASES_NONE;
    if (*uid < first)
        *uid = first;
    touch(leases);
    for (int i = 0; i < SLICE && *uid <= last; i++)
        if (map_find_uid(&leases->map, (*uid)++, want, ret) == 0)
            return 0;
    return LEASES_MORE;
}

/* ---- names for supplementary gids ---- */

#define GID_WORD "gid-"

bool leases_group_name(struct leases *leases, uint32_t gid, char ret[static NAME_BUF])
{
    struct map_status status;
    struct map_entry entry;

    if (!leases->map.base)
        return false;
    if (leases_by_uid(leases, gid, MAP_WANT_RECORD, &entry) == 0) {
        (void)snprintf(ret, NAME_BUF, "%.*s", NAME_MAX_LEN, map_name(&entry));
        return true;
    }
    map_status(&leases->map, &status);
    (void)snprintf(ret, NAME_BUF, "%s" GID_WORD "%u", status.prefix, gid);
    return true;
}

int leases_group_gid(struct leases *leases, const char *name, uint32_t *ret_gid)
{
    struct map_status status;
    size_t len;

    if (!leases->map.base)
        return LEASES_NONE;
    map_status(&leases->map, &status);
    len = strlen(status.prefix);
    if (strncmp(name, status.prefix, len) != 0 || strncmp(name + len, GID_WORD, 4) != 0 ||
        text_parse_u32(name + len + 4, ret_gid, NULL) < 0)
        return LEASES_NONE;
    /* root's group is given to no lease, and a lease's own has its own name. */
    if (*ret_gid == 0 || *ret_gid == UINT32_MAX || map_covers(&leases->map, *ret_gid))
        return LEASES_NONE;
    return 0;
}
