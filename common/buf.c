#include "common/buf.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/le.h"
#include "common/text.h"

void buf_init(struct buf *buf, size_t max)
{
    *buf = (struct buf)BUF_INIT(max);
}

void buf_init_fixed(struct buf *buf, char *memory, size_t size)
{
    memory[0] = '\0';
    *buf = (struct buf){.data = memory, .cap = size, .max = size - 1, .fixed = true};
}

void buf_done(struct buf *buf)
{
    if (buf->fixed) {
        buf_reset(buf);
        return;
    }
    free(buf->data);
    buf_init(buf, buf->max);
}

void buf_reset(struct buf *buf)
{
    buf->len = 0;
    buf->error = 0;
    if (buf->data)
        buf->data[0] = '\0';
}

void buf_cut(struct buf *buf, size_t len)
{
    if (len >= buf->len)
        return;
    buf->len = len;
    buf->data[len] = '\0';
}

void *buf_reserve(struct buf *buf, size_t len)
{
    int r;

    if (buf->error)
        return NULL;
    /* max may be SIZE_MAX: compare by what is left. */
    if (len > buf->max - buf->len || buf->len + len == SIZE_MAX) {
        buf->error = -ENOBUFS;
        return NULL;
    }
    if (buf->len + len + 1 > buf->cap) {
        r = mem_grow(&buf->data, &buf->cap, buf->len + len + 1,
                     buf->max == SIZE_MAX ? SIZE_MAX : buf->max + 1, 1);
        if (r < 0) {
            buf->error = r;
            return NULL;
        }
        buf->data[buf->len] = '\0';
    }
    return buf->data + buf->len;
}

void buf_commit(struct buf *buf, size_t len)
{
    buf->len += len;
    buf->data[buf->len] = '\0';
}

void buf_add(struct buf *buf, const void *bytes, size_t len)
{
    void *room = buf_reserve(buf, len);

    if (!room)
        return;
    if (len > 0)
        memcpy(room, bytes, len);
    buf_commit(buf, len);
}

void buf_adds(struct buf *buf, const char *text)
{
    buf_add(buf, text, strlen(text));
}

void buf_addc(struct buf *buf, char c)
{
    buf_add(buf, &c, 1);
}

void buf_addf(struct buf *buf, const char *format, ...)
{
    va_list args;

    va_start(args, format);
    buf_addv(buf, format, args);
    va_end(args);
}

void buf_addv(struct buf *buf, const char *format, va_list args)
{
    char small[256];
    va_list again;
    int n;
    char *room;

    if (buf->error)
        return;
    va_copy(again, args);
    n = vsnprintf(small, sizeof(small), format, args);
    if (n < 0) {
        buf->error = -ENOMEM;
    } else if ((size_t)n < sizeof(small)) {
        buf_add(buf, small, (size_t)n);
    } else {
        /* The reserved room has one byte more, for the NUL that vsnprintf writes. */
        room = buf_reserve(buf, (size_t)n);
        if (room) {
            vsnprintf(room, (size_t)n + 1, format, again);
            buf_commit(buf, (size_t)n);
        }
    }
    va_end(again);
}

void buf_add_u64(struct buf *buf, uint64_t value)
{
    char digits[20];
    size_t at = sizeof(digits);

    do {
        digits[--at] = (char)('0' + value % 10);
        value /= 10;
    } while (value > 0);
    buf_add(buf, digits + at, sizeof(digits) - at);
}

void buf_add_hex(struct buf *buf, const void *bytes, size_t len)
{
    static const char digits[] = "0123456789abcdef";
    const uint8_t *in = bytes;
    char *room = NULL;
    size_t i;

    if (len <= SIZE_MAX / 2)
        room = buf_reserve(buf, len * 2);
    else if (!buf->error)
        buf->error = -ENOBUFS;
    if (!room)
        return;
    for (i = 0; i < len; i++) {
        room[2 * i] = digits[in[i] >> 4];
        room[2 * i + 1] = digits[in[i] & 15];
    }
    buf_commit(buf, len * 2);
}

void buf_add_escaped(struct buf *buf, const void *bytes, size_t len)
{
    const char *in = bytes;
    char piece[256];
    size_t step;

    /* In pieces that fit even if every byte becomes \xNN, cut where a character begins. */
    while (len > 0 && !buf->error) {
        step = len < 63 ? len : 60;
        while (step < len && step > 57 && ((uint8_t)in[step] & 0xc0) == 0x80)
            step--;
        buf_add(buf, piece, text_escape(in, step, piece, sizeof(piece)));
        in += step;
        len -= step;
    }
}

static void put_le(struct buf *buf, uint64_t value, size_t n)
{
    uint8_t bytes[8];

    le_put_u64(bytes, value);
    buf_add(buf, bytes, n);
}

void buf_put_u8(struct buf *buf, uint8_t value)
{
    put_le(buf, value, 1);
}

void buf_put_u16(struct buf *buf, uint16_t value)
{
    put_le(buf, value, 2);
}

void buf_put_u32(struct buf *buf, uint32_t value)
{
    put_le(buf, value, 4);
}

void buf_put_u64(struct buf *buf, uint64_t value)
{
    put_le(buf, value, 8);
}

int buf_error(const struct buf *buf)
{
    return buf->error;
}

const char *buf_str(const struct buf *buf)
{
    return buf->data ? buf->data : "";
}

int buf_take(struct buf *buf, char **ret, size_t *ret_len)
{
    int r = buf->error;

    if (r == 0 && !buf_reserve(buf, 0))
        r = buf->error;
    if (r < 0) {
        buf_done(buf);
        return r;
    }
    *ret = mem_take(buf->data);
    if (ret_len)
        *ret_len = buf->len;
    buf_init(buf, buf->max);
    return 0;
}
