#include "leased/service/wait.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/queue.h>
#include <uthash.h>

#include "common/mem.h"
#include "leased/service/internal.h"
#include "leased/service/left_out.h"
#include "leased/watch/lease_wire.h"
#include "xce/v1/lease.pb-c.h"

/* Found by the leases that it waits for, so that what changes elsewhere costs it nothing. */
struct waiter {
    struct service *service;
    struct service_request *request;
    bool stale; /* one of its leases has changed */
    TAILQ_ENTRY(waiter) stale_link;
    uint32_t n;
    struct wait_link {
        LIST_ENTRY(wait_link) link;
        struct waited *waited; /* NULL: not hooked */
        struct waiter *waiter;
    } links[];
};

/* A lease, and who waits for it. */
struct waited {
    uint64_t lease;
    LIST_HEAD(, wait_link) links;
    UT_hash_handle hh;
};

struct waits {
    struct waited *leases;
    TAILQ_HEAD(, waiter) stale;
};

int waits_new(struct waits **ret)
{
    struct waits *waits = calloc(1, sizeof *waits);

    if (!waits)
        return -ENOMEM;
    TAILQ_INIT(&waits->stale);
    *ret = waits;
    return 0;
}

void waits_free(struct waits *waits)
{
    free(waits);
}

/* ---- the answer ---- */

enum {
    LEASES_FIELD = 2, /* of AcquireReply */
    PREFIX_MAX = 5,   /* a length as a varint */
};

/* The lease, encoded behind its length, as a field that protobuf-c passes through as it is; the end of it. */
static uint8_t *encode(struct service *service, const struct fsm_lease *lease, int64_t offset_ms,
                       uint8_t *at, ProtobufCMessageUnknownField *field)
{
    uint8_t prefix[PREFIX_MAX], *bytes = at + PREFIX_MAX;
    size_t len = lease_wire(service_fsm(service), lease, offset_ms, bytes), n = 0;

    for (size_t rest = len; n == 0 || rest; rest >>= 7)
        prefix[n++] = (uint8_t)((rest & 0x7f) | (rest >> 7 ? 0x80 : 0));
    memcpy(bytes - n, prefix, n);
    *field = (ProtobufCMessageUnknownField){
        .tag = LEASES_FIELD,
        .wire_type = PROTOBUF_C_WIRE_TYPE_LENGTH_PREFIXED,
        .len = n + len,
        .data = bytes - n,
    };
    return bytes + len;
}

/* Who has no part in the first lease that was asked for all nodes. */
static void find_left_out(const struct service *service, const struct service_request *request,
                          const struct fsm_lease *const *leases, size_t n, struct left_out *ret)
{
    const Xce__V1__AcquireRequest *message = (const Xce__V1__AcquireRequest *)request->message;
    bool reasons = policy_decide(service->policy, &request->principal, "NodeService/List") ==
                   SCOPE_ALL;

    *ret = (struct left_out){0};
    for (size_t i = 0; i < n && i < message->n_leases; i++)
        if (message->leases[i]->all_nodes) {
            left_out_find(service_fsm(service), leases[i], reasons, ret);
            return;
        }
}

static void reply_leases(struct service *service, struct service_request *request,
                         const struct fsm_lease *const *leases, size_t n)
{
    Xce__V1__AcquireReply reply = XCE__V1__ACQUIRE_REPLY__INIT;
    ProtobufCMessageUnknownField one, *fields = n == 1 ? &one : mem_must_calloc(n, sizeof one);
    int64_t offset_ms = service_wall_offset_ms(service);
    size_t room = 0;
    Xce__V1__ReplyInfo info;
    struct left_out left_out;
    uint8_t *bytes, *at;

    for (size_t i = 0; i < n; i++)
        room += PREFIX_MAX + lease_wire_bound(service_fsm(service), leases[i]);
    at = bytes = mem_must_calloc(1, room);
    for (size_t i = 0; i < n; i++)
        at = encode(service, leases[i], offset_ms, at, &fields[i]);
    service_reply_info(service, &info);
    reply.info = &info;
    reply.base.n_unknown_fields = (unsigned)n;
    reply.base.unknown_fields = fields;
    find_left_out(service, request, leases, n, &left_out);
    reply.left_out = left_out.pointers;
    reply.n_left_out = left_out.n;
    service_reply(request, &reply.base);
    left_out_done(&left_out);
    free(bytes);
    if (fields != &one)
        free(fields);
}

void wait_reply_acquired(struct service *service, struct service_request *request,
                         const uint64_t *leases, size_t n)
{
    const struct fsm_lease *one, **found = n == 1 ? &one : mem_must_calloc(n, sizeof one);
    size_t i;

    for (i = 0; i < n; i++) {
        found[i] = fsm_lease(service_fsm(service), leases[i]);
        /* An answer that was kept for who had this uid before is not for who has it now. */
        if (!found[i] || !service_sees(request, &found[i]->owner))
            break;
    }
    request->leases = leases;
    request->n_leases = i == n ? n : 0;
    if (i == n)
        reply_leases(service, request, found, n);
    else
        service_refuse(request, FSM_STALE,
                       "lease %llu of this request is over: acquire under a new request id",
                       (unsigned long long)leases[i]);
    if (found != &one)
        free(found);
}

/* ---- who waits for what ---- */

static void unhook(struct waiter *waiter)
{
    struct waits *waits = waiter->service->waits;

    for (uint32_t i = 0; i < waiter->n; i++) {
        struct waited *waited = waiter->links[i].waited;

        if (!waited)
            continue;
        LIST_REMOVE(&waiter->links[i], link);
        waiter->links[i].waited = NULL;
        if (!LIST_EMPTY(&waited->links))
            continue;
        HASH_DEL(waits->leases, waited);
        free(waited);
    }
}

static struct waited *find_or_make(struct waits *waits, uint64_t lease)
{
    struct waited *waited;

    HASH_FIND(hh, waits->leases, &lease, sizeof lease, waited);
    if (waited)
        return waited;
    waited = calloc(1, sizeof *waited);
    if (!waited)
        return NULL;
    waited->lease = lease;
    LIST_INIT(&waited->links);
    HASH_ADD(hh, waits->leases, lease, sizeof waited->lease, waited);
    return waited;
}

/* Wait for these leases, and no longer for those of before. */
static int hook(struct waiter *waiter, const uint64_t *leases)
{
    for (uint32_t i = 0; i < waiter->n; i++) {
        struct wait_link *link = &waiter->links[i];

        if (link->waited && link->waited->lease == leases[i])
            continue;
        unhook(waiter);
        break;
    }
    for (uint32_t i = 0; i < waiter->n; i++) {
        struct wait_link *link = &waiter->links[i];

        if (link->waited)
            continue;
        link->waited = find_or_make(waiter->service->waits, leases[i]);
        if (!link->waited)
            return -ENOMEM;
        link->waiter = waiter;
        LIST_INSERT_HEAD(&link->waited->links, link, link);
    }
    return 0;
}

static void waiter_free(struct waiter *waiter)
{
    unhook(waiter);
    if (waiter->stale)
        TAILQ_REMOVE(&waiter->service->waits->stale, waiter, stale_link);
    free(waiter);
}

static void forget(struct service_request *request)
{
    waiter_free(request->pending);
}

/* ---- waiting ---- */

/* Answer if the matter is decided; else what it waits for is in *ret. */
static bool settle(struct service *service, struct service_request *request,
                   struct fsm_request *ret)
{
    const Xce__V1__AcquireRequest *message = (const Xce__V1__AcquireRequest *)request->message;
    const ProtobufCBinaryData *id = &message->request->id;
    int r = fsm_request_find(service_fsm(service), request->principal.key,
                             strlen(request->principal.key), id->data, id->len, ret);

    if (r < 0)
        service_refuse(request, FSM_REQUEST_OLD, "the request was forgotten while it waited");
    else if (ret->waiting)
        return false;
    else if (ret->code != FSM_OK)
        service_refuse(request, (int)ret->code, "%s", ret->message);
    else
        wait_reply_acquired(service, request, ret->leases, ret->n_leases);
    return true;
}

static struct waiter *waiter_new(struct service *service, struct service_request *request,
                                 const struct fsm_request *state)
{
    struct waiter *waiter = calloc(1, sizeof *waiter + state->n_leases * sizeof waiter->links[0]);

    if (!waiter)
        return NULL;
    waiter->service = service;
    waiter->request = request;
    waiter->n = state->n_leases;
    if (hook(waiter, state->leases) == 0)
        return waiter;
    waiter_free(waiter);
    return NULL;
}

void wait_for_ready(struct service *service, struct service_request *request,
                    const struct fsm_outcome *outcome)
{
    struct fsm_request state;
    struct waiter *waiter;

    (void)outcome;
    if (settle(service, request, &state))
        return;
    waiter = waiter_new(service, request, &state);
    if (!waiter) {
        service_refuse(request, -ENOMEM, NULL);
        return;
    }
    request->pending = waiter;
    request->cancel = forget;
}

static void note_waited(struct waits *waits, const struct waited *waited)
{
    struct wait_link *link;

    LIST_FOREACH(link, &waited->links, link)
    {
        if (link->waiter->stale)
            continue;
        link->waiter->stale = true;
        TAILQ_INSERT_TAIL(&waits->stale, link->waiter, stale_link);
    }
}

void wait_changed(struct service *service, const struct fsm_change *change)
{
    struct waits *waits = service->waits;
    struct waited *waited;

    if (change->kind != CHANGE_LEASE || change->lease->state == LEASE_GRANTED)
        return;
    HASH_FIND(hh, waits->leases, &change->lease->id, sizeof change->lease->id, waited);
    if (waited)
        note_waited(waits, waited);
}

void wait_restored(struct service *service)
{
    struct waited *waited, *next;

    HASH_ITER(hh, service->waits->leases, waited, next)
    note_waited(service->waits, waited);
    wait_flush(service);
}

void wait_flush(struct service *service)
{
    struct waiter *waiter;

    while ((waiter = TAILQ_FIRST(&service->waits->stale))) {
        struct fsm_request state;
        bool over;

        TAILQ_REMOVE(&service->waits->stale, waiter, stale_link);
        waiter->stale = false;
        over = settle(service, waiter->request, &state);
        if (!over && hook(waiter, state.leases) < 0) {
            service_refuse(waiter->request, -ENOMEM, NULL);
            over = true;
        }
        if (over)
            waiter_free(waiter);
    }
}

void wait_stop(struct service *service)
{
    while (service->waits->leases) {
        struct waiter *waiter = LIST_FIRST(&service->waits->leases->links)->waiter;

        service_refuse(waiter->request, -ECANCELED, NULL);
        waiter_free(waiter);
    }
}
