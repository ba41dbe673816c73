#include "leased/fsm/codec.h"

#include <stdlib.h>

#include "common/text.h"
#include "leased/fsm/hash.h"

#define DIGEST_AT 32768u

static void fold(struct encoder *e)
{
    size_t whole = e->len & ~(size_t)7;
    uint64_t word;

    for (size_t i = 0; i < whole; i += 8) {
        memcpy(&word, e->bytes + i, 8);
        e->digest = hash_word(e->digest, word);
    }
    memmove(e->bytes, e->bytes + whole, e->len - whole);
    e->len -= whole;
}

uint8_t *encoder_room(struct encoder *e, size_t size)
{
    size_t want = e->len + size;
    uint8_t *at;

    if (e->failed)
        return NULL;
    if (e->digesting && e->len >= DIGEST_AT) {
        fold(e);
        want = e->len + size;
    }
    if (want > e->cap) {
        size_t cap = e->cap ? e->cap * 2 : 2 * DIGEST_AT;

        if (cap < want)
            cap = want;
        at = realloc(e->bytes, cap);
        if (!at) {
            e->failed = true;
            return NULL;
        }
        e->bytes = at;
        e->cap = cap;
    }
    at = e->bytes + e->len;
    e->len = want;
    return at;
}

uint64_t encoder_digest(struct encoder *e)
{
    size_t len;

    fold(e);
    len = e->len;
    return hash_mix(hash_bytes(e->digest, e->bytes, len), 0xa0761d6478bd642fu);
}

struct text_view get_text(struct decoder *d, size_t max)
{
    uint32_t len = get_u32(d);
    const uint8_t *bytes;

    if (len == UINT32_MAX)
        return (struct text_view){NULL, 0};
    if (len > max) {
        (void)decoder_fail(d, "a text is too long");
        return (struct text_view){NULL, 0};
    }
    bytes = get_bytes(d, len);
    if (!bytes)
        return (struct text_view){NULL, 0};
    if (text_check(bytes, len, max, NULL) != 0) {
        (void)decoder_fail(d, "a text holds what is no text");
        return (struct text_view){NULL, 0};
    }
    return (struct text_view){(const char *)bytes, len};
}

struct text_view get_name(struct decoder *d, size_t max)
{
    struct text_view text = get_text(d, max);

    if (!text.len)
        (void)decoder_fail(d, "a name is missing");
    return text;
}

bool get_bool(struct decoder *d)
{
    uint8_t value = get_u8(d);

    return value > 1 ? decoder_fail(d, "a flag is neither 0 nor 1") : value;
}

int64_t get_span(struct decoder *d, int64_t max)
{
    uint64_t value = get_u64(d);

    if (value <= (uint64_t)max)
        return (int64_t)value;
    (void)decoder_fail(d, "a time is out of range");
    return 0;
}
