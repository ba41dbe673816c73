#include "common/net/grpc_frame.h"

#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

enum {
    FIRST_SIZE = 4096,
};

/* ---- budgets ---- */

const struct grpc_budget *grpc_budget_take(struct grpc_budget *budget, size_t n)
{
    for (const struct grpc_budget *at = budget; at; at = at->above)
        if (n > at->limit - at->bytes)
            return at;
    for (; budget; budget = budget->above)
        budget->bytes += n;
    return NULL;
}

void grpc_budget_give(struct grpc_budget *budget, size_t n)
{
    for (; budget; budget = budget->above) {
        assert(budget->bytes >= n);
        budget->bytes -= n;
    }
}

/* ---- reading ---- */

static void forget(struct grpc_frame_reader *reader)
{
    grpc_budget_give(reader->budget, reader->size);
    free(reader->body);
    reader->body = NULL;
    reader->len = reader->size = 0;
    reader->head_len = 0;
    reader->whole = false;
}

/* Room for what has come, at most twice that: a length alone is no reason to allocate. */
static int grow(struct grpc_frame_reader *reader, size_t len)
{
    size_t size = reader->size ? reader->size : FIRST_SIZE;
    uint8_t *body;

    if (len <= reader->size)
        return 0;
    while (size < len)
        size *= 2;
    if (size > reader->need)
        size = reader->need;
    reader->full = grpc_budget_take(reader->budget, size - reader->size);
    if (reader->full)
        return GRPC_FRAME_HELD;
    body = realloc(reader->body, size);
    if (!body) {
        grpc_budget_give(reader->budget, size - reader->size);
        return -ENOMEM;
    }
    reader->body = body;
    reader->size = size;
    return 0;
}

static size_t take_head(struct grpc_frame_reader *reader, const uint8_t *data, size_t len)
{
    size_t n = GRPC_FRAME_HEAD - reader->head_len;

    if (n > len)
        n = len;
    memcpy(reader->head + reader->head_len, data, n);
    reader->head_len += n;
    return n;
}

static int check_head(struct grpc_frame_reader *reader)
{
    const uint8_t *head = reader->head;

    reader->need = (uint32_t)head[1] << 24 | (uint32_t)head[2] << 16 | (uint32_t)head[3] << 8 |
                   head[4];
    if (head[0] == 1)
        return GRPC_FRAME_COMPRESSED;
    if (head[0] != 0)
        return GRPC_FRAME_BAD_FLAG;
    return reader->need > reader->limit_bytes ? GRPC_FRAME_TOO_LARGE : 0;
}

/* Add to the message in hand. */
static int gather(struct grpc_frame_reader *reader, const uint8_t **data, size_t *len)
{
    size_t n = reader->need - reader->len;
    int r;

    if (n > *len)
        n = *len;
    if (n == 0)
        return 0;
    r = grow(reader, reader->len + n);
    if (r != 0)
        return r;
    memcpy(reader->body + reader->len, *data, n);
    reader->len += n;
    *data += n;
    *len -= n;
    return 0;
}

int grpc_frame_take(struct grpc_frame_reader *reader, const uint8_t **data, size_t *len,
                    const uint8_t **ret_message, size_t *ret_len)
{
    int r;

    if (reader->whole)
        forget(reader);
    if (reader->head_len < GRPC_FRAME_HEAD) {
        size_t n = take_head(reader, *data, *len);

        *data += n;
        *len -= n;
        if (reader->head_len < GRPC_FRAME_HEAD)
            return GRPC_FRAME_MORE;
        r = check_head(reader);
        if (r != 0)
            return r;
    }
    if (reader->len == 0 && *len >= reader->need) {
        *ret_message = *data;
        *ret_len = reader->need;
        *data += reader->need;
        *len -= reader->need;
        reader->head_len = 0;
        return GRPC_FRAME_MESSAGE;
    }
    r = gather(reader, data, len);
    if (r != 0)
        return r;
    if (reader->len < reader->need)
        return GRPC_FRAME_MORE;
    *ret_message = reader->body;
    *ret_len = reader->need;
    reader->whole = true;
    return GRPC_FRAME_MESSAGE;
}

bool grpc_frame_at_boundary(const struct grpc_frame_reader *reader)
{
    return reader->whole || reader->head_len == 0;
}

void grpc_frame_done(struct grpc_frame_reader *reader)
{
    forget(reader);
}

void grpc_frame_head(uint8_t head[GRPC_FRAME_HEAD], uint32_t len)
{
    head[0] = 0;
    head[1] = (uint8_t)(len >> 24);
    head[2] = (uint8_t)(len >> 16);
    head[3] = (uint8_t)(len >> 8);
    head[4] = (uint8_t)len;
}
