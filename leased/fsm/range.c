/* Where a pool may lie, as far as arithmetic can tell. What lies between 1000 and 60000, subuid and subgid files, and
 * what NSS shows are looked up by the service before it proposes. Classes: systemd's UIDS-GIDS document. */
#include <inttypes.h>

#include "common/mem.h"
#include "leased/fsm/pool.h"

static const struct {
    struct fsm_range range;
    const char *what;
} classes[] = {
    {{0, 999}, "system accounts"},
    {{60001, 60577}, "systemd-homed and mapped users"},
    {{61184, 65519}, "DynamicUser= of systemd"},
    {{65534, 65535}, "nobody and the 16-bit -1"},
    {{524288, 1879048191}, "containers of systemd-nspawn"},
    {{0x7ffe0000, UINT32_MAX}, "the foreign range and all above it"},
};

static bool overlap(struct fsm_range a, struct fsm_range b)
{
    return a.first <= b.last && b.first <= a.last;
}

const char *range_of_others(uint32_t uid)
{
    for (size_t i = 0; i < ARRAY_LEN(classes); i++)
        if (uid >= classes[i].range.first && uid <= classes[i].range.last)
            return classes[i].what;
    return NULL;
}

static const char *against_classes(struct fsm_range range, char *why)
{
    for (size_t i = 0; i < ARRAY_LEN(classes); i++)
        if (overlap(range, classes[i].range)) {
            fsm_format(why, "%" PRIu32 "-%" PRIu32 " overlaps %" PRIu32 "-%" PRIu32 ": %s",
                       range.first, range.last, classes[i].range.first, classes[i].range.last,
                       classes[i].what);
            return why;
        }
    return NULL;
}

static const char *against_directory(struct fsm_range range, const struct fsm_range *directory,
                                     size_t n, const char *whose, char *why)
{
    for (size_t i = 0; i < n; i++)
        if (overlap(range, directory[i])) {
            fsm_format(why,
                       "%" PRIu32 "-%" PRIu32 " overlaps the directory range %" PRIu32 "-%" PRIu32
                       " %s%s",
                       range.first, range.last, directory[i].first, directory[i].last,
                       *whose ? "of pool " : "that was given", whose);
            return why;
        }
    return NULL;
}

/* The range against one other pool and its directory ranges, and that pool against the directory ranges given now. */
static const char *against_pool(struct fsm_range range, const struct pool *other,
                                const struct fsm_range *own, size_t n_own, char *why)
{
    const struct fsm_pool *pub = &other->pub;

    if (overlap(range, pub->range)) {
        fsm_format(why, "%" PRIu32 "-%" PRIu32 " overlaps pool %s: %" PRIu32 "-%" PRIu32,
                   range.first, range.last, pub->name, pub->range.first, pub->range.last);
        return why;
    }
    if (against_directory(range, pub->directory, pub->n_directory, pub->name, why))
        return why;
    for (size_t i = 0; i < n_own; i++)
        if (overlap(own[i], pub->range)) {
            fsm_format(why,
                       "the directory range %" PRIu32 "-%" PRIu32 " overlaps pool %s: %" PRIu32
                       "-%" PRIu32,
                       own[i].first, own[i].last, pub->name, pub->range.first, pub->range.last);
            return why;
        }
    return NULL;
}

const char *range_refused(const struct fsm *fsm, struct fsm_range range, const struct pool *self,
                          const struct fsm_range *own, size_t n_own,
                          char why[static FSM_MESSAGE_MAX + 1])
{
    if (against_classes(range, why) || against_directory(range, own, n_own, "", why))
        return why;
    for (size_t i = 0; i < fsm->n_pools; i++)
        if (fsm->pools[i] != self && against_pool(range, fsm->pools[i], own, n_own, why))
            return why;
    return NULL;
}
