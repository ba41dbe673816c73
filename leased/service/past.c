/* LeaseService.History: who held a uid, also long ago. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/err.h"
#include "common/text.h"
#include "leased/history/history.h"
#include "leased/service/internal.h"
#include "leased/watch/lease_proto.h"
#include "map/name.h"
#include "xce/v1/lease.pb-c.h"

#define LIMIT_DEFAULT 100
#define LIMIT_MAX     1000
#define NODES_SHOWN   65536
#define JOB_LEASES    1000000

struct entry_proto {
    Xce__V1__HistoryEntry message;
    Xce__V1__Owner owner;
    char name[NAME_BUF];
    char *nodes_text;
    char **nodes;
};

/* Split "n1,n2" in place. */
static int split_nodes(struct entry_proto *ret, const char *text)
{
    size_t n = 1;
    char *rest;

    if (!text || !*text)
        return 0;
    for (const char *p = text; *p; p++)
        n += *p == ',';
    ret->nodes_text = strdup(text);
    ret->nodes = calloc(n, sizeof *ret->nodes);
    if (!ret->nodes_text || !ret->nodes)
        return -ENOMEM;
    rest = ret->nodes_text;
    for (size_t i = 0; i < n; i++)
        ret->nodes[i] = strsep(&rest, ",");
    ret->message.nodes = ret->nodes;
    ret->message.n_nodes = n;
    return 0;
}

static int fill(struct entry_proto *ret, const char *prefix, const struct history_entry *entry)
{
    memset(ret, 0, sizeof *ret);
    xce__v1__history_entry__init(&ret->message);
    xce__v1__owner__init(&ret->owner);
    (void)name_encode(prefix, entry->uid, entry->epoch, ret->name);
    ret->message.lease = entry->lease;
    ret->message.uid = entry->uid;
    ret->message.epoch = entry->epoch;
    ret->message.name = ret->name;
    ret->message.pool = (char *)entry->pool;
    ret->message.job = (char *)entry->job;
    ret->owner.name = (char *)entry->owner_name;
    ret->owner.uid = entry->owner_uid;
    ret->owner.gid = entry->owner_gid;
    ret->message.owner = &ret->owner;
    ret->message.granted_ms = entry->granted_wall_ms;
    ret->message.ended_ms = entry->ended_wall_ms;
    ret->message.retired_ms = entry->retired_wall_ms;
    ret->message.freed_ms = entry->freed_wall_ms;
    ret->message.end_cause = (char *)lease_proto_cause(entry->cause);
    return split_nodes(ret, entry->nodes);
}

static void reply_entries(const struct fsm *fsm, struct service_request *request,
                          const struct history_entry *entries, size_t n, uint64_t revision,
                          const char *note)
{
    Xce__V1__HistoryReply reply = XCE__V1__HISTORY_REPLY__INIT;
    struct entry_proto *protos = calloc(n ? n : 1, sizeof *protos);
    Xce__V1__HistoryEntry **pointers = calloc(n ? n : 1, sizeof *pointers);
    int r = protos && pointers ? 0 : -ENOMEM;

    for (size_t i = 0; r == 0 && i < n; i++) {
        r = fill(&protos[i], fsm_prefix(fsm), &entries[i]);
        pointers[i] = &protos[i].message;
    }
    if (r < 0) {
        service_refuse(request, r, NULL);
    } else {
        reply.entries = pointers;
        reply.n_entries = n;
        reply.revision = revision;
        reply.complete = revision >= fsm_revision(fsm);
        reply.note = (char *)(note ? note : "");
        reply.stale = request->stale;
        service_reply(request, &reply.base);
    }
    for (size_t i = 0; protos && i < n; i++) {
        free(protos[i].nodes_text);
        free(protos[i].nodes);
    }
    free(protos);
    free(pointers);
}

static void answered(int r, const struct history_entry *entries, size_t n, uint64_t revision,
                     const char *why, void *arg)
{
    struct service_pending *pending = arg;
    struct service_request *request = service_settle(pending);
    struct service *service = pending->service;

    free(pending);
    if (!request)
        return;
    if (r < 0)
        service_refuse(request, r, why ? "history: %s" : NULL, why);
    else
        reply_entries(service_fsm(service), request, entries, n, revision, why);
}

/* Nobody's, for a caller without a uid who names no owner. */
static int query_of_job(const struct service_request *request,
                        const Xce__V1__HistoryRequest *message, struct history_query *ret,
                        struct err *err)
{
    int r = text_check_job((const char *)message->job.data, message->job.len, err);

    if (r < 0)
        return r;
    ret->by = HISTORY_BY_JOB;
    memcpy(ret->job, message->job.data, message->job.len);
    ret->look = JOB_LEASES;
    ret->job_owner_uid = message->owner ? message->owner->uid : request->principal.uid;
    ret->nobody = !message->owner && !request->principal.has_uid;
    return 0;
}

/* 0; -EINVAL no or a malformed key; FSM_NOT_FOUND a name that can be nobody's; err says which. */
static int query_of(struct service *service, const struct service_request *request,
                    struct history_query *ret, struct err *err)
{
    const Xce__V1__HistoryRequest *message = (const Xce__V1__HistoryRequest *)request->message;

    memset(ret, 0, sizeof *ret);
    switch (message->who_case) {
    case XCE__V1__HISTORY_REQUEST__WHO_UID:
        ret->by = HISTORY_BY_UID;
        ret->uid = message->uid;
        break;
    case XCE__V1__HISTORY_REQUEST__WHO_LEASE:
        ret->by = HISTORY_BY_LEASE;
        ret->lease = message->lease;
        break;
    case XCE__V1__HISTORY_REQUEST__WHO_NAME:
        ret->by = HISTORY_BY_UID_EPOCH;
        if (name_decode(fsm_prefix(service_fsm(service)), (const char *)message->name.data,
                        message->name.len, &ret->uid, &ret->epoch) != 0)
            return err_set(err, FSM_NOT_FOUND, "no lease ever had that name");
        break;
    case XCE__V1__HISTORY_REQUEST__WHO_JOB:
        if (query_of_job(request, message, ret, err) < 0)
            return -EINVAL;
        break;
    default:
        return err_set(err, -EINVAL, "who: one of uid, lease, name, job is needed");
    }
    ret->at_wall_ms = message->at_ms;
    ret->limit = message->limit ? message->limit : LIMIT_DEFAULT;
    if (ret->limit > LIMIT_MAX)
        ret->limit = LIMIT_MAX;
    ret->own = request->scope != SCOPE_ALL;
    ret->nobody |= ret->own && !request->principal.has_uid;
    ret->owner_uid = request->principal.uid;
    (void)snprintf(ret->owner_name, sizeof ret->owner_name, "%s", request->principal.name);
    ret->owner_nameless = request->principal.local;
    return 0;
}

static void ask(struct service *service, struct service_request *request)
{
    struct history_query query;
    struct service_pending *pending;
    struct err err = {{0}};
    int r = query_of(service, request, &query, &err);

    if (r != 0) {
        service_refuse(request, r, "%s", err.text);
        return;
    }
    pending = service_pending_new(service, request, sizeof *pending);
    if (pending)
        history_ask(service->deps.history, &query, answered, pending);
}

void service_lease_history(struct service *service, struct service_request *request)
{
    service_read(service, request, ask);
}
