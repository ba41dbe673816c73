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

static void take_numbers(struct link *link)
{
    const struct raft_links_events *events = &link->links->options.events;
    uint64_t number = le_get_u64(link->frame), value = le_get_u64(link->frame + 8);

    if (link->type == FRAME_CONFIRM && link->kind == LINK_IN) {
        link->answer = (struct confirmation){true, number, events->term(events->arg)};
        raft_link_send_confirmations(link);
    } else if (link->type == FRAME_CONFIRMED && link->kind == LINK_OUT) {
        events->confirmed(link->id, number, value, events->arg);
    } else if (link->type == FRAME_TOLD && link->kind == LINK_OUT && value < 4096) {
        events->told(link->number, number, -(int)value, events->arg);
    } else {
        raft_link_refuse(link, NOT_OUR_PROTOCOL);
    }
}

void raft_link_take(struct link *link, size_t len)
{
    const struct raft_links_events *events = &link->links->options.events;

    link->frame[len] = '\0';
    if (link->type == FRAME_HELLO) {
        raft_link_take_hello(link, len);
    } else if (link->type == FRAME_REFUSED) {
        for (size_t i = 0; i < len; i++)
            if (link->frame[i] < ' ' || link->frame[i] > '~')
                link->frame[i] = '?';
        raft_link_fail(link, (const char *)link->frame);
    } else if (link->greeted && link->type == FRAME_TELL && link->kind == LINK_IN &&
               len >= FRAME_NUMBER_LEN) {
        events->tell(link->number, link->id, le_get_u64(link->frame),
                     link->frame + FRAME_NUMBER_LEN, len - FRAME_NUMBER_LEN, events->arg);
    } else if (link->greeted && link->type == FRAME_HEAR && link->kind == LINK_IN) {
        events->hear(link->frame, len, events->arg);
    } else if (link->greeted && link->type == FRAME_PASS && link->kind == LINK_IN &&
               len >= FRAME_NUMBER_LEN) {
        events->pass(link->number, le_get_u64(link->frame), link->frame + FRAME_NUMBER_LEN,
                     len - FRAME_NUMBER_LEN, events->arg);
    } else if (link->greeted && link->type == FRAME_PASSED && link->kind == LINK_OUT &&
               len >= FRAME_NUMBER_LEN) {
        events->passed(link->number, le_get_u64(link->frame), link->frame + FRAME_NUMBER_LEN,
                       len - FRAME_NUMBER_LEN, events->arg);
    } else if (link->greeted && len == NUMBERS_LEN) {
        take_numbers(link);
    } else {
        raft_link_refuse(link, NOT_OUR_PROTOCOL);
    }
}
