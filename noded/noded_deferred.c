/* Releases that are handed to this node: by a job's end, while leased can not be asked. They come over a unix socket, go to disk
 * before they are answered, end at once what is here of the lease, and are told to leased in each session until it shows that
 * the lease is over. */
#include "noded/noded_deferred.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/queue.h>

#include "common/buf.h"
#include "common/clock.h"
#include "common/err.h"
#include "common/log.h"
#include "common/mem.h"
#include "common/net/grpc.h"
#include "common/net/loop.h"
#include "common/pb.h"
#include "noded/deferred.h"
#include "noded/noded_inside.h"
#include "xce/v1/local.pb-c.h"

#define METHOD   "/xce.v1.LocalService/Release"
#define AGAIN_MS 5000
#define ASK_MS   6000

/* A call that waits until what it asks is on disk. */
struct handing {
    struct noded *n;
    struct grpc_call *call;
    Xce__V1__DeferRequest *request; /* in the arena */
    struct pb_arena arena;
    uint32_t uid, epoch;   /* it waits for this one; 0 = not yet */
    struct asking *asking; /* who it is */
    LIST_ENTRY(handing) link;
};

/* A question to the name services outlives the call that it is for. */
struct asking {
    struct handing *h; /* NULL: that has ended */
};

struct deferral {
    struct grpc_server *server;
    struct deferred list;
    char path[256], socket[256];
    bool saving, save_wanted, ended;
    int64_t retry_ms;
    LIST_HEAD(, handing) handings;
};

/* ---- answers ---- */

static void answer(struct handing *h, const struct state_held *held)
{
    Xce__V1__DeferReply reply = XCE__V1__DEFER_REPLY__INIT;
    uint8_t bytes[64];

    reply.lease = held->lease;
    reply.uid = held->uid;
    reply.epoch = held->epoch;
    reply.passed = session_server(h->n->session) != NULL;
    h->uid = 0;
    (void)grpc_call_send(h->call, bytes, xce__v1__defer_reply__pack(&reply, bytes));
    grpc_call_finish(h->call, GRPC_OK, NULL);
}

/* All that wait for it. r: 0 it is on disk; -errno. */
static void settle_handings(struct noded *n, const struct deferred_release *item, int r)
{
    const struct state_held held = {.lease = item->lease, .uid = item->uid, .epoch = item->epoch};
    struct handing *h;
    char why[128];

    LIST_FOREACH(h, &n->deferral->handings, link)
    {
        if (h->uid != item->uid || h->epoch != item->epoch)
            continue;
        if (r == 0) {
            answer(h, &held);
            continue;
        }
        h->uid = 0;
        (void)snprintf(why, sizeof(why), "the release can not be kept: %s", err_text(r));
        grpc_call_finish(h->call, GRPC_UNAVAILABLE, why);
    }
}

/* ---- the file ---- */

struct saving {
    struct noded *n;
    struct buf text;
    int r;
};

static void save_work(void *arg)
{
    struct saving *save = arg;

    save->r = buf_error(&save->text);
    if (save->r == 0)
        save->r = fs_write_file(AT_FDCWD, save->n->deferral->path, buf_str(&save->text),
                                save->text.len, 0600);
}

/* On disk: from now on the lease is over here. */
static void keep(struct noded *n, struct deferred_release *item)
{
    item->kept = true;
    log_notice(
        LOG_FIELDS(.lease = item->lease, .uid = item->uid, .epoch = item->epoch, .node = n->node),
        "released here by uid %u: it ends here now, leased is told %s", item->caller,
        session_server(n->session) ? "at once" : "when it is there");
    state_end_lease(n->state, item->uid, item->epoch);
    settle_handings(n, item, 0);
}

/* What is not on disk was never taken. */
static void saved(struct noded *n, int r)
{
    struct deferred *list = &n->deferral->list;

    for (size_t i = 0; i < list->n;) {
        struct deferred_release *item = &list->items[i];

        if (!item->kept && item->writing && r < 0) {
            settle_handings(n, item, r);
            deferred_drop(list, item);
            continue;
        }
        if (!item->kept && item->writing)
            keep(n, item);
        item->writing = false;
        i++;
    }
}

static void save_done(int r, void *arg)
{
    struct saving *save = arg;
    struct noded *n = save->n;
    struct deferral *d = n->deferral;

    noded_offload_done(n);
    d->saving = false;
    if (r == 0)
        r = save->r;
    if (r < 0 && r != -ECANCELED) {
        log_error(LOG_FIELDS(.message_id = LOG_ID_DISK), "%s: cannot be written: %s", d->path,
                  err_text(r));
        d->save_wanted = true;
        d->retry_ms = loop_now_ms(n->loop) + AGAIN_MS;
    }
    saved(n, r);
    buf_done(&save->text);
    free(save);
    noded_deferred_say(n);
    noded_touch(n);
}

static void save_begin(struct noded *n)
{
    struct saving *save = mem_must_calloc(1, sizeof(*save));

    for (size_t i = 0; i < n->deferral->list.n; i++)
        n->deferral->list.items[i].writing = true;
    save->n = n;
    buf_init(&save->text, DEFERRED_FILE_MAX);
    deferred_write(&n->deferral->list, &save->text);
    n->deferral->saving = true;
    n->deferral->save_wanted = false;
    noded_offload_slow(n, save_work, save_done, save);
}

/* ---- who hands over what ---- */

static uint32_t uid_meant(const struct noded *n, const Xce__V1__DeferRequest *request)
{
    uint32_t uid = 0, epoch = 0;

    switch (request->key_case) {
    case XCE__V1__DEFER_REQUEST__KEY_UID:
        return request->uid;
    case XCE__V1__DEFER_REQUEST__KEY_LEASE:
        return state_uid_of(n->state, request->lease);
    case XCE__V1__DEFER_REQUEST__KEY_NAME:
        if (name_decode(n->prefix, (const char *)request->name.data, request->name.len, &uid,
                        &epoch) != 0)
            return 0;
        return uid;
    default:
        return 0;
    }
}

/* A name that is not the present one means a lease that is over. */
static bool name_is_of(const struct noded *n, const Xce__V1__DeferRequest *request,
                       const struct state_held *held)
{
    uint32_t uid, epoch;

    return request->key_case != XCE__V1__DEFER_REQUEST__KEY_NAME ||
           (name_decode(n->prefix, (const char *)request->name.data, request->name.len, &uid,
                        &epoch) == 0 &&
            epoch == held->epoch);
}

/* Root of this machine can end here what it likes, and a member's word ends the lease anyway; so may who runs under it, which is
 * the holder's job. */
static bool may_always(const struct grpc_peer *peer, const struct state_held *held)
{
    return peer->local && (peer->uid == 0 || peer->uid == held->uid);
}

/* Whether it is the holder's number. Whether it is he his name says, too: another machine's alice would be ours
 * (docs/decisions/0007); one without a name is known by the number. */
static bool may_be_holder(const struct grpc_peer *peer, const struct state_held *held)
{
    return peer->local && held->owned && peer->uid == held->owner;
}

static void take(struct handing *h, const struct state_held *held, const struct grpc_peer *peer)
{
    struct deferral *d = h->n->deferral;
    struct deferred_release *item = deferred_find(&d->list, held->uid, held->epoch);

    if (item && item->kept) {
        answer(h, held);
        return;
    }
    h->uid = held->uid;
    h->epoch = held->epoch;
    if (item)
        return;
    if (d->list.n >= DEFERRED_MAX) {
        h->uid = 0;
        grpc_call_finish(h->call, GRPC_RESOURCE_EXHAUSTED,
                         "so many releases are kept for leased here that no more are taken");
        return;
    }
    item = &d->list.items[d->list.n++];
    *item = (struct deferred_release){.lease = held->lease,
                                      .uid = held->uid,
                                      .epoch = held->epoch,
                                      .caller = peer->uid,
                                      .since_ms = clock_wall_ms(),
                                      .id_len = h->request->request->id.len};
    memcpy(item->id, h->request->request->id.data, item->id_len);
    d->save_wanted = true;
    d->retry_ms = 0;
    noded_touch(h->n);
}

static bool held_here(const struct handing *h, struct state_held *ret)
{
    return state_held(h->n->state, uid_meant(h->n, h->request), ret) && ret->member &&
           name_is_of(h->n, h->request, ret);
}

static void refuse(struct handing *h)
{
    grpc_call_finish(h->call, GRPC_NOT_FOUND,
                     "no such lease is here, or it is not known to be yours");
}

static void allow(struct handing *h, const struct state_held *held)
{
    if (held->live)
        take(h, held, grpc_call_peer(h->call));
    else
        answer(h, held);
}

/* It has taken a while: the lease may be another one by now. */
static void named(int r, const struct collide_answer *answer, void *arg)
{
    auto_free struct asking *asking = arg;
    struct handing *h = asking->h;
    struct state_held held;

    if (!h)
        return;
    h->asking = NULL;
    if (r < 0)
        grpc_call_finish(h->call, GRPC_UNAVAILABLE,
                         "the name services of this machine do not say who you are");
    else if (held_here(h, &held) && may_be_holder(grpc_call_peer(h->call), &held) && answer->n &&
             state_name_digest(answer->found[0].detail) == held.owner_name)
        allow(h, &held);
    else
        refuse(h);
}

static void name_ask(struct handing *h)
{
    struct collide_question q = {.kind = COLLIDE_NAME, .n = 1};

    if (!h->n->accounts) {
        grpc_call_finish(h->call, GRPC_UNAVAILABLE, "noded is ending");
        return;
    }
    q.uids[0].uid = grpc_call_peer(h->call)->uid;
    h->asking = mem_must_calloc(1, sizeof(*h->asking));
    h->asking->h = h;
    accounts_ask(h->n->accounts, &q, ASK_MS, named, h->asking);
}

static void on_half_closed(struct grpc_call *call, void *arg)
{
    struct handing *h = arg;
    const struct grpc_peer *peer = grpc_call_peer(call);
    const Xce__V1__DeferRequest *request = h->request;
    struct state_held held;

    if (!request)
        return;
    if (!request->request || request->request->id.len < DEFERRED_ID_MIN ||
        request->request->id.len > DEFERRED_ID_MAX || !request->key_case) {
        grpc_call_finish(call, GRPC_INVALID_ARGUMENT,
                         "a uid, a lease or a name, and a request.id of 16 to 64 bytes are needed");
        return;
    }
    if (!held_here(h, &held))
        refuse(h);
    else if (may_always(peer, &held) || (may_be_holder(peer, &held) && !held.owner_name))
        allow(h, &held);
    else if (may_be_holder(peer, &held))
        name_ask(h);
    else
        refuse(h);
}

static void on_message(struct grpc_call *call, const uint8_t *data, size_t len, void *arg)
{
    struct handing *h = arg;
    ProtobufCMessage *message = NULL;
    struct err err = {0};

    if (pb_unpack(&h->arena, &xce__v1__defer_request__descriptor, data, len, &message, &err) < 0)
        grpc_call_finish(call, GRPC_INVALID_ARGUMENT, *err.text ? err.text : "not such a message");
    else
        h->request = (Xce__V1__DeferRequest *)message;
}

static void on_end(struct grpc_call *call, void *arg)
{
    struct handing *h = arg;

    LIST_REMOVE(h, link);
    if (h->asking)
        h->asking->h = NULL;
    pb_arena_done(&h->arena);
    free(h);
}

static void on_accept(struct grpc_call *call, const char *path, void *arg)
{
    static const struct grpc_call_events events = {
        .message = on_message, .half_closed = on_half_closed, .end = on_end, .unary = true};
    struct noded *n = arg;
    struct handing *h;

    if (strcmp(path, METHOD) != 0)
        return;
    h = mem_must_calloc(1, sizeof(*h));
    h->n = n;
    h->call = call;
    pb_arena_init(&h->arena, 1 << 16);
    LIST_INSERT_HEAD(&n->deferral->handings, h, link);
    grpc_call_bind(call, &events, h);
}

/* ---- to leased ---- */

void noded_deferred_say(struct noded *n)
{
    struct deferred *list = &n->deferral->list;

    for (size_t i = 0; session_server(n->session) && i < list->n; i++) {
        struct deferred_release *item = &list->items[i];

        if (!item->kept || (item->said_ms && loop_now_ms(n->loop) < item->said_ms + AGAIN_MS))
            continue;
        item->said_ms = loop_now_ms(n->loop);
        session_release(n->session, item);
    }
}

void noded_deferred_session(struct noded *n)
{
    for (size_t i = 0; i < n->deferral->list.n; i++)
        n->deferral->list.items[i].said_ms = 0;
    noded_deferred_say(n);
}

/* What leased shows to be over needs to be told no more. Of a lease that has let this node go it would not be taken. */
static bool is_over(const struct noded *n, const struct deferred_release *item)
{
    struct state_held held;

    if (!state_held(n->state, item->uid, &held) || !held.live || held.lease != item->lease ||
        held.epoch != item->epoch) {
        log_info(LOG_FIELDS(.lease = item->lease, .uid = item->uid, .epoch = item->epoch),
                 "leased has the release that was handed over here");
        return true;
    }
    if (held.member)
        return false;
    log_warning(LOG_FIELDS(.lease = item->lease, .uid = item->uid, .epoch = item->epoch),
                "the lease has let this node go: the release that was handed over here is not "
                "passed on");
    return true;
}

static void drop_over(struct noded *n)
{
    struct deferred *list = &n->deferral->list;

    for (size_t i = 0; i < list->n;) {
        if (!list->items[i].kept || !is_over(n, &list->items[i])) {
            i++;
            continue;
        }
        deferred_drop(list, &list->items[i]);
        n->deferral->save_wanted = true;
    }
}

void noded_deferred_settle(struct noded *n, int64_t now_ms)
{
    struct deferral *d = n->deferral;

    if (d->list.n && session_server(n->session) && n->complete && !n->listing) {
        if (!d->saving)
            drop_over(n);
        noded_deferred_say(n);
    }
    if (d->save_wanted && !d->saving && now_ms >= d->retry_ms)
        save_begin(n);
}

int64_t noded_deferred_next_ms(const struct noded *n)
{
    const struct deferral *d = n->deferral;
    int64_t next_ms = INT64_MAX;

    if (d->save_wanted && !d->saving)
        next_ms = d->retry_ms;
    if (d->list.n && session_server(n->session) && next_ms > loop_now_ms(n->loop) + AGAIN_MS)
        next_ms = loop_now_ms(n->loop) + AGAIN_MS;
    return next_ms;
}

/* ---- beginning and end ---- */

static int load(struct noded *n)
{
    struct deferral *d = n->deferral;
    char aside[DEFERRED_ASIDE_MAX];
    int r = deferred_load(d->path, &d->list);

    if (r == -EBADMSG || r == -EFBIG) {
        r = deferred_set_aside(d->path, aside);
        if (r == 0)
            log_error(LOG_FIELDS(.message_id = LOG_ID_DISK),
                      "%s: is damaged, and is now %s: releases that were handed over here and not "
                      "told to leased yet are lost; what they ended here is over",
                      d->path, aside);
    }
    if (r < 0)
        log_error(LOG_FIELDS(.message_id = LOG_ID_DISK), "%s: %s", d->path, err_text(r));
    for (size_t i = 0; i < d->list.n; i++)
        state_end_lease(n->state, d->list.items[i].uid, d->list.items[i].epoch);
    return r;
}

int noded_deferred_start(struct noded *n)
{
    const struct grpc_limits limits = {.message_bytes = 4096,
                                       .streams = 2,
                                       .connections = 64, /* 16 of one user */
                                       .oldest_goes = true,
                                       .held_bytes = 4 << 20,
                                       .idle_ms = 10000,
                                       .life_ms = 120000};
    struct deferral *d = n->deferral = mem_must_calloc(1, sizeof(*d));
    int r;

    LIST_INIT(&d->handings);
    (void)snprintf(d->path, sizeof(d->path), "%s/deferred", n->settings->state_dir);
    (void)snprintf(d->socket, sizeof(d->socket), "%s/noded.sock", n->settings->runtime_dir);
    r = load(n);
    if (r < 0)
        return r;
    r = grpc_server_new(n->loop, &limits, on_accept, n, &d->server);
    if (r == 0)
        r = grpc_server_listen_unix(d->server, d->socket, 0666);
    if (r < 0)
        log_error(NULL, "%s: %s: no release is taken here for leased", d->socket, err_text(r));
    return 0;
}

static void closed(void *arg)
{
    struct noded *n = arg;

    n->deferral->ended = true;
    noded_touch(n);
}

void noded_deferred_stop(struct noded *n)
{
    if (n->deferral->server)
        grpc_server_close(n->deferral->server, 0, closed, n);
    else
        n->deferral->ended = true;
}

bool noded_deferred_ended(const struct noded *n)
{
    return n->deferral->ended;
}

void noded_deferred_done(struct noded *n)
{
    free(n->deferral);
    n->deferral = NULL;
}
