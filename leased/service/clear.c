/* This machine alone, for a suggestion; and it with the nodes whose sessions are here, for another replica. */
#include "leased/service/clear.h"

#include <errno.h>
#include <stdlib.h>

#include "leased/service/gather.h"
#include "leased/service/internal.h"
#include "leased/service/survey.h"
#include "xce/v1/cluster.pb-c.h"

/* ---- this machine ---- */

struct check {
    struct service_pending pending;
    clear_gathered_fn next;
};

static void gathered(int r, const struct overlap *overlap, void *arg)
{
    struct check *check = arg;
    struct service_request *request = service_settle(&check->pending);

    if (request && r == -ECANCELED)
        service_refuse(request, r, NULL);
    else if (request && r < 0)
        service_refuse(request, FSM_PRECONDITION,
                       "what uids this machine has could not be read: %s", gather_why(r));
    else if (request && service_permits(check->pending.service, request))
        check->next(check->pending.service, request, overlap);
    free(check);
}

void clear_gather(struct service *service, struct service_request *request, clear_gathered_fn next)
{
    struct check *check;
    int r;

    if (service->stopping) {
        service_refuse(request, -ECANCELED, NULL);
        return;
    }
    check = service_pending_new(service, request, sizeof *check);
    if (!check)
        return;
    check->next = next;
    r = gather_wait(service->gather, gathered, check);
    if (r == 0)
        return;
    (void)service_settle(&check->pending);
    free(check);
    service_refuse(request, r, NULL);
}

/* ---- for another replica ---- */

static void surveyed(int r, const Xce__V1__OverlapReply *reply, void *arg)
{
    struct service_pending *pending = arg;
    struct service_request *request = service_settle(pending);

    free(pending);
    if (request && r == 0)
        service_reply(request, &reply->base);
    else if (request)
        service_refuse(request, r, r == -EAGAIN ? SURVEY_BUSY : NULL);
}

static void survey(struct service *service, struct service_request *request)
{
    const Xce__V1__OverlapRequest *message = (const Xce__V1__OverlapRequest *)request->message;
    const struct fsm_range range = {message->first, message->last};
    struct service_pending *pending = service_pending_new(service, request, sizeof *pending);
    int r;

    if (!pending)
        return;
    r = service->stopping ? -ECANCELED
                          : survey_begin(service, &range, message->all, surveyed, pending);
    if (r == 0)
        return;
    (void)service_settle(pending);
    free(pending);
    service_refuse(request, r, NULL);
}

void service_cluster_overlap(struct service *service, struct service_request *request)
{
    const Xce__V1__OverlapRequest *message = (const Xce__V1__OverlapRequest *)request->message;

    if (!service_is_member(service, &request->principal, message->replica))
        service_refuse(request, -EACCES, NULL);
    else if (message->first > message->last)
        service_refuse(request, -EINVAL, "first must not be above last");
    else
        survey(service, request);
}
