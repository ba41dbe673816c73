/* A growing byte buffer, or a string being built, that is given its limit when made.
 *
 * Failure sticks: after the first one nothing more is added and the contents are what fitted whole before it. So a run of
 * buf_add* needs one check at its end: buf_error(). data[len] is always NUL; the limit counts bytes without it.
 *     AUTO(buf_done) struct buf b = BUF_INIT(4096);          heap, up to 4096 bytes
 *     char text[64]; struct buf b; buf_init_fixed(&b, text, sizeof(text));    the caller's memory, up to 63
 * One thread at a time. */
#ifndef XCE_COMMON_BUF_H
#define XCE_COMMON_BUF_H

#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/mem.h"

struct buf {
    char *data; /* NULL until something is added; use buf_str() */
    size_t len;
    size_t cap; /* bytes at data, the NUL's included */
    size_t max;
    int error; /* 0, -ENOBUFS, -ENOMEM */
    bool fixed;
};

#define BUF_INIT(max_len)                                                                          \
    {                                                                                              \
        .max = (max_len)                                                                           \
    }

/* Heap memory of up to max bytes; ended by buf_done. */
void buf_init(struct buf *buf, size_t max);
/* The caller's memory of size >= 1 bytes; buf_done is allowed and does nothing to it. */
void buf_init_fixed(struct buf *buf, char *memory, size_t size);
/* Frees. The buffer may be used again, empty. */
void buf_done(struct buf *buf);
AUTO_DEFINE(struct buf, buf_done);

/* Empty, error forgotten, memory kept. */
void buf_reset(struct buf *buf);
/* Cut to len bytes, if it is longer. The error stays. */
void buf_cut(struct buf *buf, size_t len);

void buf_add(struct buf *buf, const void *bytes, size_t len);
void buf_adds(struct buf *buf, const char *text);
void buf_addc(struct buf *buf, char c);
void buf_addf(struct buf *buf, const char *format, ...) __attribute__((format(printf, 2, 3)));
void buf_addv(struct buf *buf, const char *format, va_list args)
    __attribute__((format(printf, 2, 0)));
/* Decimal, without the cost of printf. */
void buf_add_u64(struct buf *buf, uint64_t value);
/* Lowercase hex. */
void buf_add_hex(struct buf *buf, const void *bytes, size_t len);
/* Foreign bytes made safe for a terminal or a log line (text_escape). */
void buf_add_escaped(struct buf *buf, const void *bytes, size_t len);
/* Little endian, for encodings. */
void buf_put_u8(struct buf *buf, uint8_t value);
void buf_put_u16(struct buf *buf, uint16_t value);
void buf_put_u32(struct buf *buf, uint32_t value);
void buf_put_u64(struct buf *buf, uint64_t value);

/* Room for len bytes at the end, to be written by the caller; then buf_commit what was written of it. NULL = failed. */
void *buf_reserve(struct buf *buf, size_t len);
void buf_commit(struct buf *buf, size_t len);

/* 0; -ENOBUFS the limit was reached; -ENOMEM. */
int buf_error(const struct buf *buf);
/* The contents as a string; "" when empty, never NULL. Until the next change. */
const char *buf_str(const struct buf *buf);

/* Hand the memory over (the caller frees it; never NULL on success); the buffer is empty afterwards.
 * 0; the sticky error, contents gone. Heap buffers only. ret_len may be NULL. */
int buf_take(struct buf *buf, char **ret, size_t *ret_len);

#endif
