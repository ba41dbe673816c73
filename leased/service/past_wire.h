/* History between replicas, as ClusterService.Past has it: messages to values and back. Pure. */
#ifndef XCE_LEASED_SERVICE_PAST_WIRE_H
#define XCE_LEASED_SERVICE_PAST_WIRE_H

#include "common/pb.h"
#include "leased/history/refill.h"
#include "xce/v1/cluster.pb-c.h"

/* A reply with its parts; all of it points into what it was made of. */
struct past_wire {
    Xce__V1__PastReply reply;
    void *parts, *pointers, *more_parts, *more_pointers;
};

/* 0; -ENOMEM. past_wire_done in either case. */
int past_wire_outline(struct past_wire *ret, const struct history_outline *outline);
int past_wire_leases(struct past_wire *ret, const struct history_entry *entries, size_t n);
void past_wire_done(struct past_wire *wire);

/* What another replica has answered, unpacked into the arena; ret points into it. Nothing is believed: plan.h checks.
 * 0; -EBADMSG, -E2BIG, -ENOBUFS, -ENOMEM as pb_unpack. */
int past_wire_take_outline(struct pb_arena *arena, const uint8_t *bytes, size_t len,
                           struct history_outline *ret, struct err *err);
int past_wire_take_leases(struct pb_arena *arena, const uint8_t *bytes, size_t len,
                          struct history_entry **ret, size_t *ret_n, struct err *err);

#endif
