/* Little-endian bytes of a snapshot: written into memory or folded into a digest, read with every length checked.
 *
 * A string is its length (u32) and its bytes; NULL has length UINT32_MAX. */
#ifndef XCE_LEASED_FSM_CODEC_H
#define XCE_LEASED_FSM_CODEC_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "common/le.h"

/* ---- writing ---- */

struct encoder {
    uint8_t *bytes;
    size_t len, cap;
    bool failed; /* no memory; nothing more is written */
    bool digesting;
    uint64_t digest;
};

/* Room for size bytes at the end; NULL when it has failed. */
uint8_t *encoder_room(struct encoder *e, size_t size);
/* What is left over goes into the digest too. */
uint64_t encoder_digest(struct encoder *e);

static inline void put_u8(struct encoder *e, uint8_t value)
{
    uint8_t *at = encoder_room(e, 1);

    if (at)
        *at = value;
}

static inline void put_u32(struct encoder *e, uint32_t value)
{
    uint8_t *at = encoder_room(e, 4);

    if (at)
        le_put_u32(at, value);
}

static inline void put_u64(struct encoder *e, uint64_t value)
{
    uint8_t *at = encoder_room(e, 8);

    if (at)
        le_put_u64(at, value);
}

static inline void put_i64(struct encoder *e, int64_t value)
{
    put_u64(e, (uint64_t)value);
}

static inline void put_bytes(struct encoder *e, const void *bytes, size_t len)
{
    uint8_t *at = encoder_room(e, len);

    if (at && len)
        memcpy(at, bytes, len);
}

static inline void put_text(struct encoder *e, const char *text)
{
    size_t len = text ? strlen(text) : 0;

    put_u32(e, text ? (uint32_t)len : UINT32_MAX);
    put_bytes(e, text, len);
}

/* ---- reading ---- */

struct decoder {
    const uint8_t *at, *end;
    const char *wrong; /* the first thing that was; everything read after that is zero */
};

static inline bool decoder_fail(struct decoder *d, const char *wrong)
{
    if (!d->wrong)
        d->wrong = wrong;
    d->at = d->end;
    return false;
}

/* size bytes; NULL = there are not so many. */
static inline const uint8_t *get_bytes(struct decoder *d, size_t size)
{
    const uint8_t *at = d->at;

    if (size > (size_t)(d->end - d->at)) {
        (void)decoder_fail(d, "cut short");
        return NULL;
    }
    d->at += size;
    return at;
}

static inline uint8_t get_u8(struct decoder *d)
{
    const uint8_t *at = get_bytes(d, 1);

    return at ? *at : 0;
}

static inline uint32_t get_u32(struct decoder *d)
{
    const uint8_t *at = get_bytes(d, 4);

    return at ? le_get_u32(at) : 0;
}

static inline uint64_t get_u64(struct decoder *d)
{
    uint64_t low = get_u32(d);

    return low | (uint64_t)get_u32(d) << 32;
}

/* A number of things of at least size bytes each: no more than there are bytes for. */
static inline uint32_t get_count(struct decoder *d, size_t size, uint32_t max)
{
    uint32_t n = get_u32(d);

    if (n > max || n > (size_t)(d->end - d->at) / size) {
        (void)decoder_fail(d, "a count is too high");
        return 0;
    }
    return n;
}

struct text_view {
    const char *text; /* NULL = NULL */
    size_t len;
};

/* Text without control characters, at most max bytes. */
struct text_view get_text(struct decoder *d, size_t max);
/* The same, and it must be there and not be empty. */
struct text_view get_name(struct decoder *d, size_t max);
bool get_bool(struct decoder *d);
/* 0..max. */
int64_t get_span(struct decoder *d, int64_t max);

#endif
