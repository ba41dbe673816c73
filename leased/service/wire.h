/* Messages built around bytes that are encoded already: tag and length in front, no second packing.
 * Source of the encoding: protobuf's wire format (varints, length-delimited fields). */
#ifndef XCE_LEASED_SERVICE_WIRE_H
#define XCE_LEASED_SERVICE_WIRE_H

#include <stddef.h>
#include <stdint.h>

#include "common/buf.h"

/* Field number 1..15. */
void wire_varint(struct buf *buf, unsigned field, uint64_t value);
void wire_bytes(struct buf *buf, unsigned field, const void *bytes, size_t len);

#endif
