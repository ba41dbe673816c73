/* ClusterService.Past: what our history holds, for a replica of the cluster that lacks it. For nobody else: it shows every
 * owner's leases. The caller's certificate says which replica he is, the members' list whether that is one of ours, and under
 * which folder. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "leased/engine/replica.h"
#include "leased/service/internal.h"
#include "leased/service/past_wire.h"

/* Who still waits, or NULL. */
static struct service_request *settle(struct service_pending *pending)
{
    struct service_request *request = service_settle(pending);

    free(pending);
    return request;
}

static void reply(struct service_request *request, int r, struct past_wire *wire)
{
    if (r < 0)
        service_refuse(request, r, NULL);
    else
        service_reply(request, &wire->reply.base);
    past_wire_done(wire);
}

static void outlined(int r, const struct history_outline *outline, const char *why, void *arg)
{
    struct service_request *request = settle(arg);
    struct past_wire wire;

    if (!request)
        return;
    if (r < 0) {
        service_refuse(request, r, "history: %s", why);
        return;
    }
    r = past_wire_outline(&wire, outline);
    reply(request, r, &wire);
}

static void found(int r, const struct history_entry *entries, size_t n, uint64_t revision,
                  const char *why, void *arg)
{
    struct service_request *request = settle(arg);
    struct past_wire wire;

    (void)revision;
    if (!request)
        return;
    if (r < 0) {
        service_refuse(request, r, "history: %s", why);
        return;
    }
    r = past_wire_leases(&wire, entries, n);
    reply(request, r, &wire);
}

bool service_is_member(const struct service *service, const struct principal *principal,
                       uint64_t replica)
{
    struct replica_status status;

    if (principal->kind != PRINCIPAL_REPLICA || !engine_is_replica(service->deps.engine))
        return false;
    replica_get_status(service->deps.engine, &status);
    for (size_t i = 0; i < status.n_members; i++)
        if (status.members[i].id == replica && strcmp(status.members[i].name, principal->name) == 0)
            return true;
    return false;
}

void service_cluster_past(struct service *service, struct service_request *request)
{
    const Xce__V1__PastRequest *message = (const Xce__V1__PastRequest *)request->message;
    struct history_query query = {.by = HISTORY_BY_PERIOD,
                                  .period = message->period,
                                  .lease = message->after,
                                  .until = message->until,
                                  .limit = HISTORY_PIECE_MAX};
    struct service_pending *pending;

    if (!service_is_member(service, &request->principal, message->replica)) {
        service_refuse(request, -EACCES, NULL);
        return;
    }
    if (message->until > HISTORY_LEASE_MAX || message->after > message->until) {
        service_refuse(request, -EINVAL, "after, until: no range of leases");
        return;
    }
    pending = service_pending_new(service, request, sizeof *pending);
    if (!pending)
        return;
    if (message->period)
        history_ask(service->deps.history, &query, found, pending);
    else
        history_ask_outline(service->deps.history, outlined, pending);
}
