/* Asking this machine, for a pool and for another replica (ClusterService.Overlap). */
#include "leased/service/clear.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "common/err.h"
#include "common/text.h"
#include "leased/service/internal.h"
#include "leased/service/survey.h"
#include "map/name.h"
#include "xce/v1/cluster.pb-c.h"

/* ---- off the loop ---- */

struct check {
    struct service_pending pending;
    clear_gathered_fn next; /* NULL: range and then */
    struct fsm_range range;
    clear_fn then;
    char prefix[NAME_PREFIX_MAX + 1];
    struct overlap overlap;
    int r;
};

static void check_work(void *arg)
{
    struct check *check = arg;
    const struct overlap_sources sources = {
        .login_defs = "/etc/login.defs",
        .subuid = "/etc/subuid",
        .subgid = "/etc/subgid",
        .prefix = check->prefix,
    };

    check->r = overlap_gather(&sources, &check->overlap);
}

/* What was gathered is looked into: it is clear, or that is the answer. */
static void look(const struct check *check, struct service_request *request)
{
    const struct fsm_range *range = &check->range;
    const struct overlap_taken *taken = overlap_find(&check->overlap, range->first, range->last);

    if (taken)
        service_refuse(request, FSM_PRECONDITION, "range %u-%u overlaps %u-%u: %s", range->first,
                       range->last, taken->first, taken->last, taken->what);
    else
        clear_elsewhere(check->pending.service, request, range, check->then);
}

static void check_done(int r, void *arg)
{
    struct check *check = arg;
    struct service_request *request = service_settle(&check->pending);

    if (r == 0)
        r = check->r;
    if (request && r < 0)
        service_refuse(request, FSM_PRECONDITION,
                       "what uids this machine has could not be read: %s", err_text(r));
    else if (request && check->next)
        check->next(check->pending.service, request, &check->overlap);
    else if (request)
        look(check, request);
    overlap_done(&check->overlap);
    free(check);
}

static struct check *check_new(struct service *service, struct service_request *request)
{
    struct check *check = service_pending_new(service, request, sizeof *check);

    if (check)
        memcpy(check->prefix, fsm_prefix(service_fsm(service)),
               strlen(fsm_prefix(service_fsm(service))) + 1);
    return check;
}

static void check_begin(struct check *check)
{
    const struct service_deps *deps = &check->pending.service->deps;

    if (deps->offload(check_work, check_done, check, deps->offload_arg) < 0)
        check_done(-ENOMEM, check);
}

void clear_gather(struct service *service, struct service_request *request, clear_gathered_fn next)
{
    struct check *check = check_new(service, request);

    if (!check)
        return;
    check->next = next;
    check_begin(check);
}

void clear_everywhere(struct service *service, struct service_request *request,
                      const struct fsm_range *range, clear_fn then)
{
    struct check *check = check_new(service, request);

    if (!check)
        return;
    check->range = *range;
    check->then = then;
    check_begin(check);
}

/* ---- for another replica ---- */

static void surveyed(const Xce__V1__OverlapReply *reply, void *arg)
{
    struct service_pending *pending = arg;
    struct service_request *request = service_settle(pending);

    free(pending);
    if (request && reply)
        service_reply(request, &reply->base);
    else if (request)
        service_refuse(request, -ECANCELED, NULL);
}

static void survey(struct service *service, struct service_request *request)
{
    const Xce__V1__OverlapRequest *message = (const Xce__V1__OverlapRequest *)request->message;
    const struct fsm_range range = {message->first, message->last};
    struct service_pending *pending = service_pending_new(service, request, sizeof *pending);
    int r;

    if (!pending)
        return;
    r = service->stopping ? -ECANCELED : survey_begin(service, &range, surveyed, pending);
    if (r == 0)
        return;
    (void)service_settle(pending);
    free(pending);
    service_refuse(request, r, NULL);
}

/* Its own machine comes first: what is taken there, no node need be asked about. */
static void answer(struct service *service, struct service_request *request,
                   const struct overlap *overlap)
{
    const Xce__V1__OverlapRequest *message = (const Xce__V1__OverlapRequest *)request->message;
    const struct overlap_taken *taken = overlap_find(overlap, message->first, message->last);
    Xce__V1__OverlapReply reply = XCE__V1__OVERLAP_REPLY__INIT;
    Xce__V1__Overlap found = XCE__V1__OVERLAP__INIT, *list[] = {&found};
    char what[4 * sizeof taken->what];

    if (!taken) {
        survey(service, request);
        return;
    }
    (void)text_escape(taken->what, strlen(taken->what), what, sizeof what);
    found.first = taken->first;
    found.last = taken->last;
    found.what = what;
    reply.overlaps = list;
    reply.n_overlaps = 1;
    service_reply(request, &reply.base);
}

void service_cluster_overlap(struct service *service, struct service_request *request)
{
    const Xce__V1__OverlapRequest *message = (const Xce__V1__OverlapRequest *)request->message;

    if (!service_is_member(service, &request->principal, message->replica))
        service_refuse(request, -EACCES, NULL);
    else if (message->first > message->last)
        service_refuse(request, -EINVAL, "first must not be above last");
    else
        clear_gather(service, request, answer);
}
