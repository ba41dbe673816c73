#include "nss_xce/nss_xce.h"

#include <errno.h>
#include <stdint.h>
#include <stdlib.h>

#include "nss_xce/cache.h"
#include "nss_xce/pack.h"

/* The uid to go on with in each enumeration. */
static uint32_t next_passwd, next_group;

static inline enum nss_status outer(int r, int *errnop)
{
    if (r == 0)
        return NSS_STATUS_SUCCESS;
    *errnop = -r;
    return NSS_STATUS_TRYAGAIN;
}

enum nss_status _nss_xce_getpwuid_r(uid_t uid, struct passwd *ret, char *buf, size_t len,
                                    int *errnop)
{
    struct map_entry entry;

    if (!cache_find_uid(uid, MAP_WANT_PAIR, &entry))
        return NSS_STATUS_NOTFOUND;
    return outer(pack_passwd(&entry, ret, buf, len), errnop);
}

enum nss_status _nss_xce_getpwnam_r(const char *name, struct passwd *ret, char *buf, size_t len,
                                    int *errnop)
{
    struct map_entry entry;

    if (!cache_find_name(name, MAP_WANT_PAIR, &entry))
        return NSS_STATUS_NOTFOUND;
    return outer(pack_passwd(&entry, ret, buf, len), errnop);
}

enum nss_status _nss_xce_getgrgid_r(gid_t gid, struct group *ret, char *buf, size_t len,
                                    int *errnop)
{
    struct map_entry entry;

    if (!cache_find_uid(gid, MAP_WANT_RECORD, &entry))
        return NSS_STATUS_NOTFOUND;
    return outer(pack_group(&entry, ret, buf, len), errnop);
}

enum nss_status _nss_xce_getgrnam_r(const char *name, struct group *ret, char *buf, size_t len,
                                    int *errnop)
{
    struct map_entry entry;

    if (!cache_find_name(name, MAP_WANT_RECORD, &entry))
        return NSS_STATUS_NOTFOUND;
    return outer(pack_group(&entry, ret, buf, len), errnop);
}

/* Room for one more. 0; 1 the limit is reached; -ENOMEM. */
static int make_room(long int start, long int *size, gid_t **groups, long int limit)
{
    long int more = *size > 16 ? *size * 2 : 32;
    gid_t *larger;

    if (start < *size)
        return 0;
    if (limit > 0 && *size >= limit)
        return 1;
    if (limit > 0 && more > limit)
        more = limit;
    larger = realloc(*groups, (size_t)more * sizeof(**groups));
    if (!larger)
        return -ENOMEM;
    *groups = larger;
    *size = more;
    return 0;
}

enum nss_status _nss_xce_initgroups_dyn(const char *user, gid_t group, long int *start,
                                        long int *size, gid_t **groups, long int limit, int *errnop)
{
    struct map_entry entry;

    if (!cache_find_name(user, MAP_WANT_GIDS, &entry))
        return NSS_STATUS_NOTFOUND;
    for (uint32_t i = 0; i < entry.record.n_gids; i++) {
        gid_t gid = map_gids(&entry)[i];
        int r;

        if (gid == group)
            continue;
        r = make_room(*start, size, groups, limit);
        if (r < 0)
            return outer(r, errnop);
        if (r > 0)
            break;
        (*groups)[(*start)++] = gid;
    }
    return NSS_STATUS_SUCCESS;
}

/* Go on only behind what the caller got, and only if no other thread took it meanwhile. */
static bool step(uint32_t *next, uint32_t from, uint32_t uid)
{
    return __atomic_compare_exchange_n(next, &from, uid + 1, false, __ATOMIC_RELAXED,
                                       __ATOMIC_RELAXED);
}

static enum nss_status rewind_to_first(uint32_t *next)
{
    __atomic_store_n(next, 0, __ATOMIC_RELAXED);
    return NSS_STATUS_SUCCESS;
}

enum nss_status _nss_xce_setpwent(int stayopen)
{
    (void)stayopen;
    return rewind_to_first(&next_passwd);
}

enum nss_status _nss_xce_endpwent(void)
{
    return rewind_to_first(&next_passwd);
}

enum nss_status _nss_xce_getpwent_r(struct passwd *ret, char *buf, size_t len, int *errnop)
{
    struct map_entry entry;
    uint32_t from;
    int r;

    do {
        from = __atomic_load_n(&next_passwd, __ATOMIC_RELAXED);
        if (!cache_next(from, MAP_WANT_PAIR, &entry))
            return NSS_STATUS_NOTFOUND;
        r = pack_passwd(&entry, ret, buf, len);
    } while (r == 0 && !step(&next_passwd, from, entry.record.uid));
    return outer(r, errnop);
}

enum nss_status _nss_xce_setgrent(int stayopen)
{
    (void)stayopen;
    return rewind_to_first(&next_group);
}

enum nss_status _nss_xce_endgrent(void)
{
    return rewind_to_first(&next_group);
}

enum nss_status _nss_xce_getgrent_r(struct group *ret, char *buf, size_t len, int *errnop)
{
    struct map_entry entry;
    uint32_t from;
    int r;

    do {
        from = __atomic_load_n(&next_group, __ATOMIC_RELAXED);
        if (!cache_next(from, MAP_WANT_RECORD, &entry))
            return NSS_STATUS_NOTFOUND;
        r = pack_group(&entry, ret, buf, len);
    } while (r == 0 && !step(&next_group, from, entry.record.uid));
    return outer(r, errnop);
}
