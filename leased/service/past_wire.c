#include "leased/service/past_wire.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

/* ---- saying ---- */

/* n messages of that size, all zero, and pointers to them. */
static int make(void **ret_parts, void **ret_pointers, size_t n, size_t size)
{
    char *parts = calloc(n + 1, size);
    void **pointers = calloc(n + 1, sizeof *pointers);

    *ret_parts = parts;
    *ret_pointers = (void *)pointers;
    if (!parts || !pointers)
        return -ENOMEM;
    for (size_t i = 0; i < n; i++)
        pointers[i] = parts + i * size;
    return 0;
}

static void fill_period(Xce__V1__PastPeriod *ret, const struct history_period *period)
{
    xce__v1__past_period__init(ret);
    ret->number = period->number;
    ret->incarnation.data = (uint8_t *)(uintptr_t)period->incarnation;
    ret->incarnation.len = sizeof period->incarnation;
    ret->revision = period->revision;
    ret->wall_ms = period->wall_ms;
    ret->last_lease = period->last_lease;
}

static void fill_gap(Xce__V1__PastGap *ret, const struct history_gap *gap)
{
    xce__v1__past_gap__init(ret);
    ret->period = gap->period;
    ret->from_revision = gap->from_revision;
    ret->to_revision = gap->to_revision;
    ret->from_ms = gap->from_wall_ms;
    ret->to_ms = gap->to_wall_ms;
    ret->made_up_ms = gap->made_up_ms;
}

int past_wire_outline(struct past_wire *ret, const struct history_outline *outline)
{
    Xce__V1__PastPeriod *periods;
    Xce__V1__PastGap *gaps;
    int r;

    *ret = (struct past_wire){.reply = XCE__V1__PAST_REPLY__INIT};
    r = make(&ret->parts, &ret->pointers, outline->n_periods, sizeof *periods);
    if (r == 0)
        r = make(&ret->more_parts, &ret->more_pointers, outline->n_gaps, sizeof *gaps);
    if (r < 0)
        return r;
    periods = ret->parts;
    gaps = ret->more_parts;
    for (size_t i = 0; i < outline->n_periods; i++)
        fill_period(&periods[i], &outline->periods[i]);
    for (size_t i = 0; i < outline->n_gaps; i++)
        fill_gap(&gaps[i], &outline->gaps[i]);
    ret->reply.periods = ret->pointers;
    ret->reply.n_periods = outline->n_periods;
    ret->reply.gaps = ret->more_pointers;
    ret->reply.n_gaps = outline->n_gaps;
    return 0;
}

static void fill_lease(Xce__V1__PastLease *ret, const struct history_entry *entry)
{
    xce__v1__past_lease__init(ret);
    ret->lease = entry->lease;
    ret->uid = entry->uid;
    ret->epoch = entry->epoch;
    ret->pool = (char *)(uintptr_t)entry->pool;
    ret->job = (char *)(uintptr_t)entry->job;
    ret->owner = (char *)(uintptr_t)entry->owner_name;
    ret->owner_uid = entry->owner_uid;
    ret->owner_gid = entry->owner_gid;
    ret->nodes = (char *)(uintptr_t)entry->nodes;
    ret->cause = (uint32_t)entry->cause;
    ret->granted_ms = entry->granted_wall_ms;
    ret->ended_ms = entry->ended_wall_ms;
    ret->retired_ms = entry->retired_wall_ms;
    ret->freed_ms = entry->freed_wall_ms;
}

int past_wire_leases(struct past_wire *ret, const struct history_entry *entries, size_t n)
{
    Xce__V1__PastLease *leases;
    int r;

    *ret = (struct past_wire){.reply = XCE__V1__PAST_REPLY__INIT};
    r = make(&ret->parts, &ret->pointers, n, sizeof *leases);
    if (r < 0)
        return r;
    leases = ret->parts;
    for (size_t i = 0; i < n; i++)
        fill_lease(&leases[i], &entries[i]);
    ret->reply.leases = ret->pointers;
    ret->reply.n_leases = n;
    return 0;
}

void past_wire_done(struct past_wire *wire)
{
    free(wire->parts);
    free(wire->pointers);
    free(wire->more_parts);
    free(wire->more_pointers);
}

/* ---- hearing ---- */

static int unpack(struct pb_arena *arena, const uint8_t *bytes, size_t len,
                  const Xce__V1__PastReply **ret, struct err *err)
{
    ProtobufCMessage *message;
    int r = pb_unpack(arena, &xce__v1__past_reply__descriptor, bytes, len, &message, err);

    if (r == 0)
        *ret = (const Xce__V1__PastReply *)message;
    return r;
}

static int take_period(const Xce__V1__PastPeriod *message, struct history_period *ret,
                       struct err *err)
{
    if (message->incarnation.len != sizeof ret->incarnation)
        return err_set(err, -EBADMSG, "an incarnation is no 16 bytes");
    *ret = (struct history_period){.number = message->number,
                                   .revision = message->revision,
                                   .wall_ms = message->wall_ms,
                                   .last_lease = message->last_lease};
    memcpy(ret->incarnation, message->incarnation.data, sizeof ret->incarnation);
    return 0;
}

static void take_gap(const Xce__V1__PastGap *message, struct history_gap *ret)
{
    *ret = (struct history_gap){.period = message->period,
                                .from_revision = message->from_revision,
                                .to_revision = message->to_revision,
                                .from_wall_ms = message->from_ms,
                                .to_wall_ms = message->to_ms,
                                .made_up_ms = message->made_up_ms};
}

int past_wire_take_outline(struct pb_arena *arena, const uint8_t *bytes, size_t len,
                           struct history_outline *ret, struct err *err)
{
    const Xce__V1__PastReply *reply = NULL;
    int r = unpack(arena, bytes, len, &reply, err);

    if (r < 0)
        return r;
    *ret = (struct history_outline){
        .periods = pb_arena_alloc(arena, (reply->n_periods + 1) * sizeof *ret->periods),
        .gaps = pb_arena_alloc(arena, (reply->n_gaps + 1) * sizeof *ret->gaps),
        .n_periods = reply->n_periods,
        .n_gaps = reply->n_gaps,
    };
    if (!ret->periods || !ret->gaps)
        return err_set(err, -ENOBUFS, "it says too much");
    for (size_t i = 0; r == 0 && i < reply->n_periods; i++)
        r = take_period(reply->periods[i], &ret->periods[i], err);
    for (size_t i = 0; i < reply->n_gaps; i++)
        take_gap(reply->gaps[i], &ret->gaps[i]);
    return r;
}

static void take_lease(const Xce__V1__PastLease *message, struct history_entry *ret)
{
    *ret = (struct history_entry){.lease = message->lease,
                                  .uid = message->uid,
                                  .epoch = message->epoch,
                                  .pool = message->pool,
                                  .job = message->job,
                                  .owner_name = message->owner,
                                  .nodes = message->nodes,
                                  .owner_uid = message->owner_uid,
                                  .owner_gid = message->owner_gid,
                                  .cause = (enum end_cause)message->cause,
                                  .granted_wall_ms = message->granted_ms,
                                  .ended_wall_ms = message->ended_ms,
                                  .retired_wall_ms = message->retired_ms,
                                  .freed_wall_ms = message->freed_ms};
}

int past_wire_take_leases(struct pb_arena *arena, const uint8_t *bytes, size_t len,
                          struct history_entry **ret, size_t *ret_n, struct err *err)
{
    const Xce__V1__PastReply *reply = NULL;
    int r = unpack(arena, bytes, len, &reply, err);

    if (r < 0)
        return r;
    *ret = pb_arena_alloc(arena, (reply->n_leases + 1) * sizeof **ret);
    if (!*ret)
        return err_set(err, -ENOBUFS, "it says too much");
    for (size_t i = 0; i < reply->n_leases; i++)
        take_lease(reply->leases[i], &(*ret)[i]);
    *ret_n = reply->n_leases;
    return 0;
}
