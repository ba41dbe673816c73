#include "leased/engine/raft_link_inner.h"

#include <string.h>

#include "common/err.h"
#include "common/le.h"
#include "common/mem.h"

/* ---- writing ---- */

void raft_link_begin_frame(uint8_t *frame, enum frame_type type, size_t len)
{
    le_put_u32(frame, (uint32_t)len);
    le_put_u32(frame + 4, type);
}

void raft_link_write(struct link *link, const uint8_t *frames, size_t len)
{
    int r = transport_write(link->net, frames, len);

    if (r < 0)
        raft_link_end(link, err_text(r));
    if (r != TRANSPORT_BLOCKED)
        return;
    link->blocked = true;
    if (link->pair)
        transport_read(link->pair, false);
}

void raft_link_send_pending(struct link *link)
{
    if (link->pending.len == 0 || link->blocked || link->ended)
        return;
    raft_link_write(link, (const uint8_t *)link->pending.data, link->pending.len);
    buf_reset(&link->pending);
}

bool raft_link_send(struct link *link, enum frame_type type, const uint64_t *number,
                    const uint8_t *bytes, size_t len)
{
    size_t number_len = number ? FRAME_NUMBER_LEN : 0;

    if (link->pending.len + FRAME_HEADER_LEN + number_len + len > FRAME_PENDING_MAX)
        return false;
    buf_put_u32(&link->pending, (uint32_t)(number_len + len));
    buf_put_u32(&link->pending, type);
    if (number)
        buf_put_u64(&link->pending, *number);
    if (len > 0)
        buf_add(&link->pending, bytes, len);
    if (buf_error(&link->pending) < 0)
        raft_link_end(link, err_text(buf_error(&link->pending)));
    raft_link_send_pending(link);
    return !link->ended;
}

/* ---- reading ---- */

static void keep_data(struct raft_links *links, const uint8_t *data, size_t len)
{
    mem_must_grow(&links->in, &links->in_cap, links->in_len + len, 1);
    memcpy(links->in + links->in_len, data, len);
    links->in_len += len;
}

static void hand_over_data(struct link *link)
{
    int r = transport_write(link->pair, link->links->in, link->links->in_len);

    if (r < 0)
        raft_link_end(link, err_text(r));
    else if (r == TRANSPORT_BLOCKED)
        transport_read(link->net, false);
}

/* The longest frame of the type that has been read. */
static size_t longest(const struct link *link)
{
    if (link->greeted && (link->type == FRAME_TELL || link->type == FRAME_HEAR))
        return RAFT_TELL_MAX;
    if (link->greeted && (link->type == FRAME_PASS || link->type == FRAME_PASSED))
        return RAFT_PASS_MAX;
    return FRAME_SHORT_MAX;
}

static bool take_header(struct link *link)
{
    size_t len = le_get_u32(link->header);

    link->type = (enum frame_type)link->header[4];
    link->frame_left = len;
    link->frame_at = 0;
    if (link->type == FRAME_DATA)
        return link->kind == LINK_IN && link->pair && len > 0;
    if (link->type < FRAME_HELLO || link->type > FRAME_PASSED || len == 0 || len > longest(link))
        return false;
    mem_must_grow(&link->frame, &link->frame_cap, len + 1, 1);
    return true;
}

/* One piece of what has come; how much of it was used. */
static size_t take_piece(struct link *link, const uint8_t *data, size_t len)
{
    size_t n;

    if (link->header_len < FRAME_HEADER_LEN) {
        n = len < FRAME_HEADER_LEN - link->header_len ? len : FRAME_HEADER_LEN - link->header_len;
        memcpy(link->header + link->header_len, data, n);
        link->header_len += n;
        if (link->header_len == FRAME_HEADER_LEN && !take_header(link))
            raft_link_refuse(link, NOT_OUR_PROTOCOL);
        return n;
    }
    n = len < link->frame_left ? len : link->frame_left;
    link->frame_left -= n;
    if (link->frame_left == 0)
        link->header_len = 0;
    if (link->type == FRAME_DATA) {
        keep_data(link->links, data, n);
        return n;
    }
    memcpy(link->frame + link->frame_at, data, n);
    link->frame_at += n;
    if (link->frame_left == 0)
        raft_link_take(link, link->frame_at);
    return n;
}

void raft_link_read(struct link *link, const uint8_t *data, size_t len)
{
    link->links->in_len = 0;
    while (len > 0 && !link->ended && !link->refused) {
        size_t n = take_piece(link, data, len);

        data += n;
        len -= n;
    }
    if (link->links->in_len > 0 && !link->ended)
        hand_over_data(link);
}
