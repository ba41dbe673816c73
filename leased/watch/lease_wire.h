/* A lease as the bytes of xce.v1.Lease, without protobuf-c: every change of every lease is encoded once for those who watch,
 * and that was a third of what leased did. The bytes are those that protobuf-c makes of lease_proto.h's message.
 * Source of the encoding: protobuf's wire format (varints, length-delimited fields, fields in the order of their numbers,
 * proto3 leaves zeros and empty strings out). */
#ifndef XCE_LEASED_WATCH_LEASE_WIRE_H
#define XCE_LEASED_WATCH_LEASE_WIRE_H

#include <stddef.h>
#include <stdint.h>

#include "leased/fsm/fsm.h"

/* Room that is enough for the lease. O(members). */
size_t lease_wire_bound(const struct fsm *fsm, const struct fsm_lease *lease);

/* Write it to ret, of lease_wire_bound bytes; how many it took. wall_offset_ms as in lease_proto_init. */
size_t lease_wire(const struct fsm *fsm, const struct fsm_lease *lease, int64_t wall_offset_ms,
                  uint8_t *ret);

#endif
