#include "leased/history/plan.h"

#include <errno.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/mem.h"
#include "common/text.h"

#define NODES_MAX ((size_t)4 << 20) /* bytes of the names of a lease's nodes */
/* Later than any clock. */
#define WALL_MAX (INT64_C(1) << 53)

static int refuse(char *why, int r, const char *format, ...) __attribute__((format(printf, 3, 4)));

static int refuse(char *why, int r, const char *format, ...)
{
    va_list args;

    va_start(args, format);
    (void)vsnprintf(why, PLAN_WHY_MAX, format, args);
    va_end(args);
    return r;
}

/* ---- outlines ---- */

static bool has_period(const struct history_outline *outline, int64_t number)
{
    for (size_t i = 0; i < outline->n_periods; i++)
        if (outline->periods[i].number == number)
            return true;
    return false;
}

static int check_outline(const struct history_outline *theirs, const struct plan_newest *newest,
                         char *why)
{
    if (theirs->n_periods > PLAN_PERIODS_MAX || theirs->n_gaps > PLAN_PERIODS_MAX)
        return refuse(why, -EBADMSG, "it names more than %d periods or gaps", PLAN_PERIODS_MAX);
    for (size_t i = 0; i < theirs->n_periods; i++) {
        const struct history_period *period = &theirs->periods[i];

        if (period->number == 0 || (i > 0 && period[-1].number >= period->number))
            return refuse(why, -EBADMSG, "its periods are not in order");
        if (period->last_lease > HISTORY_LEASE_MAX || period->last_lease > newest->lease)
            return refuse(why, -EBADMSG,
                          "it speaks of lease %" PRIu64 ", which nobody was granted yet",
                          period->last_lease);
        if (period->revision > newest->revision)
            return refuse(why, -EBADMSG,
                          "it speaks of revision %" PRIu64 ", which has not come yet",
                          period->revision);
    }
    for (size_t i = 0; i < theirs->n_gaps; i++) {
        const struct history_gap *gap = &theirs->gaps[i];

        if (gap->from_revision >= gap->to_revision ||
            (gap->period != 0 && !has_period(theirs, gap->period)))
            return refuse(why, -EBADMSG, "a gap of it is none");
    }
    return 0;
}

static const struct history_period *period_of(const struct history_outline *outline, int64_t number)
{
    for (size_t i = 0; i < outline->n_periods; i++)
        if (outline->periods[i].number == number)
            return &outline->periods[i];
    return NULL;
}

/* The last one of the incarnation. */
static const struct history_period *last_of(const struct history_outline *outline,
                                            const uint8_t *incarnation)
{
    for (size_t i = outline->n_periods; i-- > 0;)
        if (memcmp(outline->periods[i].incarnation, incarnation, HISTORY_INCARNATION_LEN) == 0)
            return &outline->periods[i];
    return NULL;
}

static struct history_foreign foreign(const struct history_outline *theirs,
                                      const struct history_period *period)
{
    struct history_foreign ret = {.revision = period->revision, .wall_ms = period->wall_ms};

    memcpy(ret.incarnation, period->incarnation, sizeof ret.incarnation);
    for (size_t i = 0; i < theirs->n_periods; i++)
        if (theirs->periods[i].number > period->number &&
            memcmp(theirs->periods[i].incarnation, period->incarnation, HISTORY_INCARNATION_LEN) ==
                0)
            ret.later++;
    return ret;
}

/* ---- planning ---- */

/* The period of the gap first: it is what people ask for. Then, where nothing before is known either, older and older ones. */
static void add_parts(struct plan *plan, const struct history_gap *gap,
                      const struct history_outline *theirs, const struct history_period *target)
{
    size_t older = gap->from_revision == 0 ? (size_t)(target - theirs->periods) : 0;

    plan->parts = mem_must_calloc(older + 1, sizeof *plan->parts);
    for (size_t i = 0; i <= older; i++) {
        const struct history_period *period = target - i;

        plan->parts[plan->n_parts++] = (struct plan_part){
            .number = period->number,
            .period = foreign(theirs, period),
            .after = i == 0 && gap->first_lease > 0 ? gap->first_lease - 1 : 0,
            .last = period->last_lease,
        };
    }
}

/* What of their gap lies in ours: 1 and ret; 0 nothing. */
static int overlap(const struct history_gap *gap, const struct history_gap *theirs,
                   const struct history_period *target, struct history_rest *ret)
{
    ret->from_wall_ms = theirs->from_wall_ms;
    ret->to_wall_ms = theirs->to_wall_ms;
    ret->made_up_ms = theirs->made_up_ms;
    ret->from_revision = theirs->from_revision;
    ret->to_revision = theirs->to_revision;
    ret->first_lease = 1;
    if (theirs->period != target->number)
        return gap->from_revision == 0 && theirs->period < target->number;
    if (gap->from_revision > ret->from_revision)
        ret->from_revision = gap->from_revision;
    if (gap->to_revision < ret->to_revision)
        ret->to_revision = gap->to_revision;
    ret->first_lease = gap->first_lease;
    return ret->from_revision < ret->to_revision;
}

/* 0; -ENOENT nothing would be gained. */
static int add_rest(struct plan *plan, const struct history_gap *gap,
                    const struct history_outline *theirs, const struct history_period *target,
                    char *why)
{
    plan->rest = mem_must_calloc(theirs->n_gaps + 1, sizeof *plan->rest);
    for (size_t i = 0; i < theirs->n_gaps; i++) {
        struct history_rest *rest = &plan->rest[plan->n_rest];

        if (theirs->gaps[i].period == 0)
            return refuse(why, -ENOENT, "it has a gap of which it does not know where it is");
        if (!overlap(gap, &theirs->gaps[i], target, rest))
            continue;
        if (theirs->gaps[i].period == target->number && rest->from_revision == gap->from_revision &&
            rest->to_revision == gap->to_revision)
            return refuse(why, -ENOENT, "it has the same gap");
        rest->period = foreign(theirs, period_of(theirs, theirs->gaps[i].period));
        plan->n_rest++;
    }
    return 0;
}

static void mix(uint64_t *id, uint64_t value)
{
    for (int i = 0; i < 8; i++)
        *id = (*id ^ (value >> 8 * i & 0xff)) * 0x100000001b3u;
}

/* What has to be the same when filling goes on later. */
static uint64_t id_of(const struct plan *plan, const struct history_gap *gap)
{
    uint64_t id = 0xcbf29ce484222325u;

    mix(&id, gap->from_revision);
    mix(&id, gap->to_revision);
    for (size_t i = 0; i < plan->n_parts; i++)
        mix(&id, (uint64_t)plan->parts[i].number);
    for (size_t i = 0; i < plan->n_rest; i++) {
        mix(&id, plan->rest[i].period.later);
        mix(&id, plan->rest[i].from_revision);
        mix(&id, plan->rest[i].to_revision);
    }
    return id ? id : 1;
}

int plan_make(const struct history_gap *gap, const struct history_outline *ours,
              const struct history_outline *theirs, const struct plan_newest *newest,
              struct plan *ret, char why[static PLAN_WHY_MAX])
{
    const struct history_period *period = period_of(ours, gap->period), *target;
    int r = check_outline(theirs, newest, why);

    *ret = (struct plan){0};
    if (r < 0)
        return r;
    if (!period)
        return refuse(why, -ENOENT, "of what state the gap is was not written down");
    target = last_of(theirs, period->incarnation);
    if (!target)
        return refuse(why, -ENOENT, "it has not followed that state");
    if (target->revision < gap->to_revision)
        return refuse(why, -ENOENT, "it has come to revision %" PRIu64 " only", target->revision);
    r = add_rest(ret, gap, theirs, target, why);
    if (r < 0) {
        plan_done(ret);
        return r;
    }
    add_parts(ret, gap, theirs, target);
    ret->id = id_of(ret, gap);
    return 0;
}

void plan_done(struct plan *plan)
{
    free(plan->parts);
    free(plan->rest);
    *plan = (struct plan){0};
}

/* ---- pages ---- */

static bool is_text(const char *text, size_t max)
{
    size_t at;

    return text_check(text, strlen(text), max, &at) == 0;
}

static bool are_nodes(const char *text)
{
    struct err err;

    if (!*text)
        return true;
    if (strlen(text) > NODES_MAX)
        return false;
    for (const char *at = text;; at++) {
        size_t len = strcspn(at, ",");

        if (text_check_node(at, len, &err) < 0)
            return false;
        at += len;
        if (!*at)
            return true;
    }
}

static bool is_time(int64_t wall_ms)
{
    return wall_ms >= 0 && wall_ms < WALL_MAX;
}

static const char *wrong_with(const struct history_entry *entry)
{
    if (entry->uid == 0 || entry->uid == UINT32_MAX || entry->epoch == 0)
        return "has a uid or an epoch that there is not";
    if (!is_text(entry->pool, TEXT_POOL_MAX) || !is_text(entry->job, TEXT_JOB_MAX) ||
        !is_text(entry->owner_name, TEXT_OWNER_MAX))
        return "has text that is none";
    if (!are_nodes(entry->nodes))
        return "has a node that can not be called so";
    if ((unsigned)entry->cause > END_RESTORED)
        return "has an end that there is not";
    if (!is_time(entry->granted_wall_ms) || !is_time(entry->ended_wall_ms) ||
        !is_time(entry->retired_wall_ms) || !is_time(entry->freed_wall_ms))
        return "has a time that is none";
    if ((entry->freed_wall_ms && !entry->retired_wall_ms) ||
        (entry->retired_wall_ms && !entry->ended_wall_ms))
        return "is over before it has ended";
    return NULL;
}

int plan_check(const struct plan_part *part, uint64_t after, const struct history_entry *entries,
               size_t n, char why[static PLAN_WHY_MAX])
{
    if (n == 0)
        return refuse(why, -EBADMSG,
                      "no lease comes after %" PRIu64 ", but there should be some up to %" PRIu64,
                      after, part->last);
    if (n > HISTORY_PIECE_MAX)
        return refuse(why, -EBADMSG, "more leases come than were asked for");
    for (size_t i = 0; i < n; i++) {
        const char *wrong = wrong_with(&entries[i]);

        if (entries[i].lease <= after)
            return refuse(why, -EBADMSG, "lease %" PRIu64 " comes after %" PRIu64, entries[i].lease,
                          after);
        if (entries[i].lease > part->last)
            return refuse(why, -EBADMSG, "lease %" PRIu64 " comes, but %" PRIu64 " was the last",
                          entries[i].lease, part->last);
        if (wrong)
            return refuse(why, -EBADMSG, "lease %" PRIu64 " %s", entries[i].lease, wrong);
        after = entries[i].lease;
    }
    return 0;
}
