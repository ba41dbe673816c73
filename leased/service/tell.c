#include "leased/service/tell.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/log.h"
#include "common/mem.h"
#include "common/pb.h"
#include "common/text.h"
#include "leased/service/degraded.h"
#include "leased/service/dry.h"
#include "leased/service/internal.h"
#include "leased/service/session.h"
#include "leased/service/ticker.h"
#include "xce/v1/replica.pb-c.h"

/* In one message. */
#define BEATS_MAX 4096
#define GONE_MAX  4096

struct gone {
    char node[TEXT_NODE_MAX + 1];
    uint64_t session;
};

struct tell {
    struct service *service;
    void (*ack)(struct beat *beat);
    struct beat_list now, next; /* in the round under way; after it */
    struct gone *gone;
    size_t n_gone, gone_cap;
    bool under_way;
    struct pb_arena arena;
};

int tell_new(struct service *service, void (*ack)(struct beat *beat), struct tell **ret)
{
    struct tell *tell = calloc(1, sizeof *tell);

    if (!tell)
        return -ENOMEM;
    tell->service = service;
    tell->ack = ack;
    TAILQ_INIT(&tell->now);
    TAILQ_INIT(&tell->next);
    pb_arena_init(&tell->arena, PB_ARENA_MAX);
    *ret = tell;
    return 0;
}

void tell_free(struct tell *tell)
{
    if (!tell)
        return;
    free(tell->gone);
    pb_arena_done(&tell->arena);
    free(tell);
}

/* ---- speaking ---- */

static void say(struct service *service, const Xce__V1__Told *told, engine_ready_fn done, void *arg)
{
    size_t len = xce__v1__told__get_packed_size(told);
    uint8_t *bytes = mem_must_calloc(1, len + 1);

    (void)xce__v1__told__pack(told, bytes);
    engine_tell(service->deps.engine, bytes, len, done, arg);
    free(bytes);
}

static ProtobufCBinaryData text_of(const char *text)
{
    return (ProtobufCBinaryData){strlen(text), (uint8_t *)(uintptr_t)text};
}

static void fill(Xce__V1__Heard *ret, const char *node, uint64_t session)
{
    xce__v1__heard__init(ret);
    ret->node = text_of(node);
    ret->session = session;
}

static void fill_beat(Xce__V1__Heard *ret, const struct beat *beat)
{
    fill(ret, beat->node, beat->session);
    ret->watermark = beat->watermark;
    ret->hangs = text_of(beat->hangs);
}

static void begin_round(struct tell *tell);

static void confirmed(int r, void *arg)
{
    struct tell *tell = arg;
    struct beat *beat;

    tell->under_way = false;
    while ((beat = TAILQ_FIRST(&tell->now))) {
        TAILQ_REMOVE(&tell->now, beat, link);
        beat->on = NULL;
        if (r == 0) {
            tell->ack(beat);
        } else if (r != -ECANCELED) {
            /* No leader is heard: the next round tries again, and a node that waits too long goes elsewhere. */
            TAILQ_INSERT_TAIL(&tell->next, beat, link);
            beat->on = &tell->next;
        }
    }
    if (r == 0)
        begin_round(tell);
}

/* How many of those that wait go with the next message; they are in the round now. */
static size_t take_beats(struct tell *tell)
{
    struct beat *beat;
    size_t n = 0;

    while (n < BEATS_MAX && (beat = TAILQ_FIRST(&tell->next))) {
        TAILQ_REMOVE(&tell->next, beat, link);
        TAILQ_INSERT_TAIL(&tell->now, beat, link);
        beat->on = &tell->now;
        n++;
    }
    return n;
}

/* What has gathered, as far as one message goes. */
static void begin_round(struct tell *tell)
{
    Xce__V1__Told told = XCE__V1__TOLD__INIT;
    size_t n_gone = tell->n_gone < GONE_MAX ? tell->n_gone : GONE_MAX, n;
    Xce__V1__Heard *items, **pointers;
    struct beat *beat;

    if (tell->under_way || (TAILQ_EMPTY(&tell->next) && !n_gone))
        return;
    n = take_beats(tell) + n_gone;
    items = mem_must_calloc(n, sizeof *items);
    pointers = mem_must_calloc(n, sizeof *pointers);
    for (size_t i = 0; i < n; i++)
        pointers[i] = &items[i];
    told.heard = pointers;
    TAILQ_FOREACH(beat, &tell->now, link)
    fill_beat(pointers[told.n_heard++], beat);
    told.gone = pointers + told.n_heard;
    for (const struct gone *gone = tell->gone; told.n_gone < n_gone; gone++)
        fill(told.gone[told.n_gone++], gone->node, gone->session);
    tell->under_way = true;
    say(tell->service, &told, confirmed, tell);
    if (n_gone > 0) {
        tell->n_gone -= n_gone;
        memmove(tell->gone, tell->gone + n_gone, tell->n_gone * sizeof *tell->gone);
    }
    free(items);
    free(pointers);
}

void tell_beat(struct tell *tell, struct beat *beat)
{
    if (beat->on)
        TAILQ_REMOVE(beat->on, beat, link);
    TAILQ_INSERT_TAIL(&tell->next, beat, link);
    beat->on = &tell->next;
    begin_round(tell);
}

void tell_gone(struct tell *tell, struct beat *beat)
{
    struct gone *gone;

    if (beat->on)
        TAILQ_REMOVE(beat->on, beat, link);
    beat->on = NULL;
    mem_must_grow(&tell->gone, &tell->gone_cap, tell->n_gone + 1, sizeof *tell->gone);
    gone = &tell->gone[tell->n_gone++];
    (void)snprintf(gone->node, sizeof gone->node, "%s", beat->node);
    gone->session = beat->session;
    begin_round(tell);
}

void tell_sweep(struct tell *tell, const char *node, const ProtobufCBinaryData *reason)
{
    Xce__V1__Told told = XCE__V1__TOLD__INIT;
    Xce__V1__SweepAsked sweep = XCE__V1__SWEEP_ASKED__INIT;

    sweep.node.data = (uint8_t *)(uintptr_t)node;
    sweep.node.len = strlen(node);
    sweep.reason = *reason;
    told.sweep = &sweep;
    say(tell->service, &told, NULL, NULL);
}

void tell_dry(struct tell *tell, const char *node, uint64_t question,
              const ProtobufCBinaryData *reason)
{
    Xce__V1__Told told = XCE__V1__TOLD__INIT;
    Xce__V1__DryAsked dry = XCE__V1__DRY_ASKED__INIT;

    dry.question = question;
    dry.node.data = (uint8_t *)(uintptr_t)node;
    dry.node.len = strlen(node);
    dry.reason = *reason;
    told.dry = &dry;
    say(tell->service, &told, NULL, NULL);
}

void tell_dry_found(struct tell *tell, const Xce__V1__DryReport *report)
{
    Xce__V1__Told told = XCE__V1__TOLD__INIT;

    told.dry_found = (Xce__V1__DryReport *)(uintptr_t)report;
    say(tell->service, &told, NULL, NULL);
}

void tell_degraded(struct tell *tell, uint64_t replica, const char *why)
{
    Xce__V1__Told told = XCE__V1__TOLD__INIT;
    Xce__V1__Degraded degraded = XCE__V1__DEGRADED__INIT;

    degraded.replica = replica;
    degraded.why.data = (uint8_t *)(uintptr_t)why;
    degraded.why.len = strlen(why);
    told.degraded = &degraded;
    say(tell->service, &told, NULL, NULL);
}

void tell_elapse(struct tell *tell)
{
    begin_round(tell);
}

/* ---- hearing ---- */

static bool name_of(const ProtobufCBinaryData *bytes, char ret[static TEXT_NODE_MAX + 1])
{
    struct err err;

    if (text_check_node((const char *)bytes->data, bytes->len, &err) < 0)
        return false;
    memcpy(ret, bytes->data, bytes->len);
    ret[bytes->len] = '\0';
    return true;
}

static void hear_beat(struct service *service, const Xce__V1__Heard *heard)
{
    char node[TEXT_NODE_MAX + 1], hangs[TICKER_HANGS_MAX + 1] = "";

    if (!name_of(&heard->node, node) || heard->hangs.len > TICKER_HANGS_MAX)
        return;
    if (heard->hangs.len)
        memcpy(hangs, heard->hangs.data, heard->hangs.len);
    ticker_heard(service->ticker, node, heard->session, heard->watermark, hangs);
}

static void hear(struct service *service, const Xce__V1__Told *told)
{
    char node[TEXT_NODE_MAX + 1];

    for (size_t i = 0; i < told->n_heard; i++)
        hear_beat(service, told->heard[i]);
    for (size_t i = 0; i < told->n_gone; i++)
        if (name_of(&told->gone[i]->node, node))
            ticker_gone(service->ticker, node, told->gone[i]->session);
    if (told->sweep && told->sweep->reason.len <= TEXT_NOTE_MAX &&
        name_of(&told->sweep->node, node))
        session_sweep(service, node, &told->sweep->reason, 0);
    if (told->dry && told->dry->reason.len <= TEXT_NOTE_MAX && told->dry->question &&
        name_of(&told->dry->node, node))
        session_sweep(service, node, &told->dry->reason, told->dry->question);
    if (told->dry_found)
        dry_heard(service, told->dry_found);
    if (told->degraded)
        degraded_heard(service->degraded, told->degraded->replica, &told->degraded->why);
}

void service_told(struct service *service, const uint8_t *bytes, size_t len)
{
    struct pb_arena *arena = &service->tell->arena;
    ProtobufCMessage *message;
    struct err err = {{0}};

    if (pb_unpack(arena, &xce__v1__told__descriptor, bytes, len, &message, &err) < 0)
        log_warning(NULL, "what another replica tells can not be read: %s", err.text);
    else
        hear(service, (const Xce__V1__Told *)message);
    pb_arena_reset(arena);
}
