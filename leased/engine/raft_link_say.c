#include "leased/engine/raft_link_inner.h"

#include "common/le.h"

#define NUMBERS_LEN 16u /* of CONFIRM, CONFIRMED and TOLD */

/* ---- sent ---- */

static void send_confirmation(struct link *link, struct confirmation *what, enum frame_type type)
{
    uint8_t frame[FRAME_HEADER_LEN + NUMBERS_LEN];

    if (!what->due || link->blocked || link->ended)
        return;
    what->due = false;
    raft_link_begin_frame(frame, type, NUMBERS_LEN);
    le_put_u64(frame + FRAME_HEADER_LEN, what->number);
    le_put_u64(frame + FRAME_HEADER_LEN + 8, what->term);
    raft_link_write(link, frame, sizeof frame);
}

void raft_link_send_confirmations(struct link *link)
{
    send_confirmation(link, &link->question, FRAME_CONFIRM);
    send_confirmation(link, &link->answer, FRAME_CONFIRMED);
}

static struct link *find(const struct raft_links *links, uint64_t id)
{
    struct link *link;

    LIST_FOREACH(link, &links->all, all)
    if (link->kind == LINK_OUT && link->id == id && link->greeted && !link->ended)
        return link;
    return NULL;
}

void raft_links_confirm(struct raft_links *links, uint64_t id, uint64_t number, uint64_t term)
{
    struct link *link = find(links, id);

    if (!link)
        return;
    link->question = (struct confirmation){true, number, term};
    raft_link_send_confirmations(link);
}

uint64_t raft_links_tell(struct raft_links *links, uint64_t id, uint64_t number,
                         const uint8_t *bytes, size_t len)
{
    struct link *link = find(links, id);

    if (!link || len > RAFT_TELL_MAX - FRAME_NUMBER_LEN)
        return 0;
    return raft_link_send(link, FRAME_TELL, &number, bytes, len) ? link->number : 0;
}

uint64_t raft_links_pass(struct raft_links *links, uint64_t id, uint64_t number,
                         const uint8_t *bytes, size_t len)
{
    struct link *link = find(links, id);

    if (!link || len > RAFT_PASS_MAX - FRAME_NUMBER_LEN)
        return 0;
    return raft_link_send(link, FRAME_PASS, &number, bytes, len) ? link->number : 0;
}

void raft_links_passed(struct raft_links *links, uint64_t number, uint64_t passed,
                       const uint8_t *bytes, size_t len)
{
    struct link *link;

    LIST_FOREACH(link, &links->all, all)
    if (link->number == number && !link->ended && !link->refused) {
        /* The other one waits for it: without it the stream is of no use. */
        if (!raft_link_send(link, FRAME_PASSED, &passed, bytes, len))
            raft_link_end(link, "it does not read");
        return;
    }
}

void raft_links_told(struct raft_links *links, uint64_t number, uint64_t told, int r)
{
    uint8_t value[FRAME_NUMBER_LEN];
    struct link *link;

    le_put_u64(value, (uint64_t)-r);
    LIST_FOREACH(link, &links->all, all)
    if (link->number == number && !link->ended && !link->refused)
        (void)raft_link_send(link, FRAME_TOLD, &told, value, sizeof value);
}

void raft_links_hear(struct raft_links *links, uint64_t except, const uint8_t *bytes, size_t len)
{
    struct link *link;

    LIST_FOREACH(link, &links->all, all)
    if (link->kind == LINK_OUT && link->greeted && !link->ended && link->id != except && len > 0 &&
        len <= RAFT_TELL_MAX)
        (void)raft_link_send(link, FRAME_HEAR, NULL, bytes, len);
}

bool raft_links_up(const struct raft_links *links, uint64_t id)
{
    return find(links, id) != NULL;
}

/* ---- taken ---- */

/* Whether the one at the other end may say it, and in so many bytes. */
static bool is_said(const struct link *link, size_t len)
{
    switch (link->type) {
    case FRAME_CONFIRM:
        return link->kind == LINK_IN && len == NUMBERS_LEN;
    case FRAME_CONFIRMED:
        return link->kind == LINK_OUT && len == NUMBERS_LEN;
    case FRAME_TOLD:
        return link->kind == LINK_OUT && len == NUMBERS_LEN && le_get_u64(link->frame + 8) < 4096;
    case FRAME_TELL:
    case FRAME_PASS:
        return link->kind == LINK_IN && len >= FRAME_NUMBER_LEN;
    case FRAME_PASSED:
        return link->kind == LINK_OUT && len >= FRAME_NUMBER_LEN;
    case FRAME_HEAR:
        return link->kind == LINK_IN;
    default:
        return false;
    }
}

static void take_said(struct link *link, size_t len)
{
    const struct raft_links_events *events = &link->links->options.events;
    const uint8_t *bytes = link->frame + FRAME_NUMBER_LEN;
    uint64_t number;

    if (link->type == FRAME_HEAR) {
        events->hear(link->frame, len, events->arg);
        return;
    }
    number = le_get_u64(link->frame);
    len -= FRAME_NUMBER_LEN;
    if (link->type == FRAME_CONFIRM) {
        link->answer = (struct confirmation){true, number, events->term(events->arg)};
        raft_link_send_confirmations(link);
    } else if (link->type == FRAME_CONFIRMED) {
        events->confirmed(link->id, number, le_get_u64(bytes), events->arg);
    } else if (link->type == FRAME_TOLD) {
        events->told(link->number, number, -(int)le_get_u64(bytes), events->arg);
    } else if (link->type == FRAME_TELL) {
        events->tell(link->number, link->id, number, bytes, len, events->arg);
    } else if (link->type == FRAME_PASS) {
        events->pass(link->number, number, bytes, len, events->arg);
    } else {
        events->passed(link->number, number, bytes, len, events->arg);
    }
}

/* Why it refuses us: the sentence goes to the log and to who asked. */
static void take_refusal(struct link *link, size_t len)
{
    for (size_t i = 0; i < len; i++)
        if (link->frame[i] < ' ' || link->frame[i] > '~')
            link->frame[i] = '?';
    raft_link_fail(link, (const char *)link->frame);
}

void raft_link_take(struct link *link, size_t len)
{
    link->frame[len] = '\0';
    if (link->type == FRAME_HELLO)
        raft_link_take_hello(link, len);
    else if (link->type == FRAME_REFUSED)
        take_refusal(link, len);
    else if (link->greeted && is_said(link, len))
        take_said(link, len);
    else
        raft_link_refuse(link, NOT_OUR_PROTOCOL);
}
