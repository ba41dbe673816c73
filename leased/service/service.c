#include "leased/service/service.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include "leased/service/cluster.h"
#include "leased/service/degraded.h"
#include "leased/service/dry.h"
#include "leased/service/enroll.h"
#include "leased/service/events.h"
#include "leased/service/gather.h"
#include "leased/service/internal.h"
#include "leased/service/rbac.h"
#include "leased/service/refill.h"
#include "leased/service/session.h"
#include "leased/service/survey.h"
#include "leased/service/tell.h"
#include "leased/service/ticker.h"
#include "leased/service/wait.h"
#include "leased/watch/lease_proto.h"

#define MESSAGE_MAX 1024

int service_new(const struct service_options *options, const struct service_deps *deps,
                struct service **ret)
{
    struct service *service = calloc(1, sizeof *service);
    int r;

    if (!service)
        return -ENOMEM;
    service->options = *options;
    service->deps = *deps;
    TAILQ_INIT(&service->surveys);
    TAILQ_INIT(&service->dries);
    rbac_load(service);
    r = ticker_new(service, &service->ticker);
    if (r == 0)
        r = tell_new(service, session_ack, &service->tell);
    if (r == 0)
        r = waits_new(&service->waits);
    if (r == 0)
        r = degraded_new(service, &service->degraded);
    if (r == 0)
        r = refill_new(service, &service->refill);
    if (r == 0)
        r = gather_new(service, &service->gather);
    if (r < 0) {
        refill_free(service->refill);
        degraded_free(service->degraded);
        waits_free(service->waits);
        tell_free(service->tell);
        ticker_free(service->ticker);
        policy_free(service->policy);
        free(service);
        return r;
    }
    *ret = service;
    return 0;
}

void service_free(struct service *service)
{
    if (!service)
        return;
    cluster_done(service);
    gather_free(service->gather);
    refill_free(service->refill);
    degraded_free(service->degraded);
    waits_free(service->waits);
    tell_free(service->tell);
    ticker_free(service->ticker);
    free(service->look_ahead);
    policy_free(service->policy);
    enroll_free(service->enroll);
    free(service);
}

struct fsm *service_fsm(const struct service *service)
{
    return engine_fsm(service->deps.engine);
}

int64_t service_wall_offset_ms(const struct service *service)
{
    return service->deps.wall_ms() - engine_now_ms(service->deps.engine);
}

void service_changed(struct service *service, const struct fsm_change *change)
{
    rbac_changed(service, change);
    wait_changed(service, change);
    if (service->leading)
        events_changed(change);
}

void service_restored(struct service *service)
{
    rbac_restored(service);
    wait_restored(service);
}

void service_flush(struct service *service)
{
    wait_flush(service);
}

void service_elapse(struct service *service)
{
    if (service->leading)
        ticker_elapse(service->ticker);
    session_elapse(service);
    gather_elapse(service->gather);
    survey_elapse(service);
    dry_elapse(service);
    tell_elapse(service->tell);
    degraded_elapse(service->degraded);
    refill_elapse(service->refill);
    cluster_elapse(service);
}

void service_health(struct service *service, int r, const char *what)
{
    if (r < 0)
        (void)snprintf(service->health, sizeof service->health, "%s", what);
}

void service_set_times(struct service *service, int64_t heartbeat_ms, int64_t lost_after_ms,
                       int64_t grace_ms)
{
    service->options.heartbeat_ms = heartbeat_ms;
    service->options.lost_after_ms = lost_after_ms;
    service->options.grace_ms = grace_ms;
}

void service_leading(struct service *service, bool leading)
{
    service->leading = leading;
    ticker_leading(service->ticker);
}

void service_stop(struct service *service)
{
    service->stopping = true;
    session_stop(service);
    survey_stop(service);
    dry_stop(service);
    gather_stop(service->gather);
    watch_stop(service);
    wait_stop(service);
}

void service_request_cancel(struct service_request *request)
{
    request->reply = NULL;
    if (request->cancel)
        request->cancel(request);
    request->cancel = NULL;
    request->pending = NULL;
}

static void forget(struct service_request *request)
{
    ((struct service_pending *)request->pending)->request = NULL;
}

void service_pend(struct service_pending *pending, struct service *service,
                  struct service_request *request)
{
    *pending = (struct service_pending){service, request};
    request->pending = pending;
    request->cancel = forget;
}

void *service_pending_new(struct service *service, struct service_request *request, size_t size)
{
    struct service_pending *pending = calloc(1, size);

    if (pending)
        service_pend(pending, service, request);
    else
        service_refuse(request, -ENOMEM, NULL);
    return pending;
}

struct service_request *service_settle(const struct service_pending *pending)
{
    struct service_request *request = pending->request;

    if (request) {
        request->pending = NULL;
        request->cancel = NULL;
    }
    return request;
}

static void answer(struct service_request *request, int r, const char *message,
                   const ProtobufCMessage *reply)
{
    service_reply_fn fn = request->reply;

    request->reply = NULL;
    request->cancel = NULL;
    request->pending = NULL;
    if (fn)
        fn(r, message, reply, request->reply_arg);
}

void service_reply(struct service_request *request, const ProtobufCMessage *reply)
{
    answer(request, 0, NULL, reply);
}

void service_refuse(struct service_request *request, int r, const char *format, ...)
{
    char message[MESSAGE_MAX];
    va_list args;

    if (!format) {
        answer(request, r, NULL, NULL);
        return;
    }
    va_start(args, format);
    (void)vsnprintf(message, sizeof message, format, args);
    va_end(args);
    answer(request, r, message, NULL);
}

void service_reply_info(struct service *service, Xce__V1__ReplyInfo *ret)
{
    xce__v1__reply_info__init(ret);
    ret->revision = fsm_revision(service_fsm(service));
    ret->now_ms = engine_told_ms(service->deps.engine);
}

void service_reply_lease(struct service *service, struct service_request *request, uint64_t id)
{
    Xce__V1__LeaseReply reply = XCE__V1__LEASE_REPLY__INIT;
    Xce__V1__ReplyInfo info;
    const struct fsm_lease *lease = fsm_lease(service_fsm(service), id);
    struct lease_proto proto;

    if (lease && !service_sees(request, &lease->owner)) {
        service_refuse(request, FSM_NOT_FOUND, NULL);
        return;
    }
    if (!lease) {
        service_refuse(request, -ENOENT, "lease %llu is over and its uid is free again",
                       (unsigned long long)id);
        return;
    }
    if (lease_proto_init(&proto, service_fsm(service), lease, service_wall_offset_ms(service)) <
        0) {
        service_refuse(request, -ENOMEM, NULL);
        return;
    }
    service_reply_info(service, &info);
    info.stale = request->stale;
    reply.info = &info;
    reply.lease = &proto.message;
    service_reply(request, &reply.base);
    lease_proto_done(&proto);
}
