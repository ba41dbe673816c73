#include "leased/service/wire.h"

enum {
    WIRE_VARINT = 0,
    WIRE_BYTES = 2,
};

static void put_varint(struct buf *buf, uint64_t value)
{
    while (value >= 0x80) {
        buf_put_u8(buf, (uint8_t)(value | 0x80));
        value >>= 7;
    }
    buf_put_u8(buf, (uint8_t)value);
}

void wire_varint(struct buf *buf, unsigned field, uint64_t value)
{
    buf_put_u8(buf, (uint8_t)(field << 3 | WIRE_VARINT));
    put_varint(buf, value);
}

void wire_bytes(struct buf *buf, unsigned field, const void *bytes, size_t len)
{
    buf_put_u8(buf, (uint8_t)(field << 3 | WIRE_BYTES));
    put_varint(buf, len);
    buf_add(buf, bytes, len);
}
