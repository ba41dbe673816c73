#include "leased/service/wait.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "leased/service/internal.h"
#include "leased/watch/lease_proto.h"
#include "xce/v1/lease.pb-c.h"

struct waiter {
    struct service *service;
    struct service_request *request;
    struct waiter *next, **place; /* in service->waiters; place = what points here */
};

/* ---- the answer ---- */

static void reply_protos(struct service *service, struct service_request *request,
                         struct lease_proto *protos, size_t n)
{
    Xce__V1__AcquireReply reply = XCE__V1__ACQUIRE_REPLY__INIT;
    Xce__V1__Lease *one, **pointers = n == 1 ? &one : malloc(n * sizeof *pointers);
    Xce__V1__ReplyInfo info;

    if (!pointers) {
        service_refuse(request, -ENOMEM, NULL);
        return;
    }
    for (size_t i = 0; i < n; i++)
        pointers[i] = &protos[i].message;
    service_reply_info(service, &info);
    reply.info = &info;
    reply.leases = pointers;
    reply.n_leases = n;
    service_reply(request, &reply.base);
    if (pointers != &one)
        free(pointers);
}

void wait_reply_acquired(struct service *service, struct service_request *request,
                         const uint64_t *leases, size_t n)
{
    struct lease_proto one, *protos = n == 1 ? &one : malloc(n * sizeof *protos);
    int64_t offset_ms = service_wall_offset_ms(service);
    size_t filled = 0;
    int r = protos ? 0 : -ENOMEM;

    for (; r == 0 && filled < n; filled++) {
        const struct fsm_lease *lease = fsm_lease(service_fsm(service), leases[filled]);

        r = lease ? lease_proto_init(&protos[filled], service_fsm(service), lease, offset_ms)
                  : -ENOENT;
        if (r < 0)
            break;
    }
    if (r == -ENOENT)
        service_refuse(request, FSM_STALE,
                       "lease %llu of this request is over: acquire under a new request id",
                       (unsigned long long)leases[filled]);
    else if (r < 0)
        service_refuse(request, r, NULL);
    else
        reply_protos(service, request, protos, n);
    for (size_t i = 0; i < filled; i++)
        lease_proto_done(&protos[i]);
    if (protos != &one)
        free(protos);
}

/* ---- waiting ---- */

static void unlink_waiter(struct waiter *waiter)
{
    *waiter->place = waiter->next;
    if (waiter->next)
        waiter->next->place = waiter->place;
    free(waiter);
}

static void forget(struct service_request *request)
{
    unlink_waiter(request->pending);
}

/* Answer if the matter is decided. */
static bool settle(struct service *service, struct service_request *request)
{
    const Xce__V1__AcquireRequest *message = (const Xce__V1__AcquireRequest *)request->message;
    const ProtobufCBinaryData *id = &message->request->id;
    struct fsm_request state;
    int r = fsm_request_find(service_fsm(service), request->principal.key,
                             strlen(request->principal.key), id->data, id->len, &state);

    if (r < 0)
        service_refuse(request, FSM_REQUEST_OLD, "the request was forgotten while it waited");
    else if (state.waiting)
        return false;
    else if (state.code != FSM_OK)
        service_refuse(request, (int)state.code, "%s", state.message);
    else
        wait_reply_acquired(service, request, state.leases, state.n_leases);
    return true;
}

void wait_for_ready(struct service *service, struct service_request *request,
                    const struct fsm_outcome *outcome)
{
    struct waiter *waiter;

    (void)outcome;
    if (settle(service, request))
        return;
    waiter = calloc(1, sizeof *waiter);
    if (!waiter) {
        service_refuse(request, -ENOMEM, NULL);
        return;
    }
    waiter->service = service;
    waiter->request = request;
    waiter->next = service->waiters;
    waiter->place = &service->waiters;
    if (waiter->next)
        waiter->next->place = &waiter->next;
    service->waiters = waiter;
    request->pending = waiter;
    request->cancel = forget;
}

void wait_changed(struct service *service, const struct fsm_change *change)
{
    if (change->kind == CHANGE_LEASE && change->lease->state != LEASE_GRANTED)
        service->waiters_stale = true;
}

void wait_flush(struct service *service)
{
    struct waiter *next;

    if (!service->waiters_stale)
        return;
    service->waiters_stale = false;
    for (struct waiter *waiter = service->waiters; waiter; waiter = next) {
        struct service_request *request = waiter->request;

        next = waiter->next;
        if (settle(service, request))
            unlink_waiter(waiter);
    }
}
