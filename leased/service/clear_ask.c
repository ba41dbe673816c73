/* Asking the other replicas, all at once. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/buf.h"
#include "common/err.h"
#include "common/mem.h"
#include "common/pb.h"
#include "leased/engine/replica.h"
#include "leased/service/clear.h"
#include "leased/service/internal.h"
#include "xce/v1/cluster.pb-c.h"

#define METHOD "/xce.v1.ClusterService/Overlap"
/* Less than a client gives one of several servers. */
#define ANSWER_MS 8000
#define WHO_MAX   480
#define ARENA_MAX (4u << 20)

struct asking {
    struct service_pending pending;
    struct fsm_range range;
    clear_fn then;
    unsigned n_waiting;
    bool ending; /* this leased does */
    char taken_text[WHO_MAX], silent_text[WHO_MAX];
    struct buf taken,
        silent; /* who has what; who does not say, and why. What does not fit is left out. */
};

/* To one replica. */
struct question {
    struct asking *asking;
    char name[REPLICA_NAME_MAX + 1];
};

static void verdict(struct asking *asking)
{
    struct service_request *request = service_settle(&asking->pending);
    const struct fsm_range *range = &asking->range;

    if (!request)
        return;
    if (asking->ending)
        service_refuse(request, -ECANCELED, NULL);
    else if (asking->taken.len)
        service_refuse(request, FSM_PRECONDITION, "range %u-%u overlaps %s", range->first,
                       range->last, buf_str(&asking->taken));
    else if (asking->silent.len)
        service_refuse(request, FSM_PRECONDITION,
                       "whether anybody has a uid of %u-%u must be known of every machine, and is "
                       "not of %s",
                       range->first, range->last, buf_str(&asking->silent));
    else
        asking->then(asking->pending.service, request, range);
}

static void note_silent(struct asking *asking, const char *name, const char *why)
{
    buf_addf(&asking->silent, "%sreplica %s (%.128s)", asking->silent.len ? "; " : "", name, why);
}

static void note_taken(struct asking *asking, const char *name, const Xce__V1__OverlapReply *reply)
{
    for (size_t i = 0; i < reply->n_overlaps; i++) {
        const Xce__V1__Overlap *overlap = reply->overlaps[i];

        buf_addf(&asking->taken, "%s%u-%u: ", asking->taken.len ? "; " : "", overlap->first,
                 overlap->last);
        buf_add_escaped(&asking->taken, overlap->what, strlen(overlap->what));
        buf_addf(&asking->taken, ", on replica %s", name);
    }
}

static void read_reply(struct asking *asking, const char *name, const uint8_t *bytes, size_t len)
{
    struct pb_arena arena;
    ProtobufCMessage *message;
    struct err err = {{0}};

    pb_arena_init(&arena, ARENA_MAX);
    if (pb_unpack(&arena, &xce__v1__overlap_reply__descriptor, bytes, len, &message, &err) < 0)
        note_silent(asking, name, err.text);
    else
        note_taken(asking, name, (const Xce__V1__OverlapReply *)message);
    pb_arena_done(&arena);
}

static void answered(int r, const uint8_t *bytes, size_t len, const char *why, void *arg)
{
    struct question *question = arg;
    struct asking *asking = question->asking;

    asking->ending |= r == -ECANCELED;
    if (r < 0)
        note_silent(asking, question->name, why ? why : err_text(r));
    else
        read_reply(asking, question->name, bytes, len);
    free(question);
    if (--asking->n_waiting)
        return;
    verdict(asking);
    free(asking);
}

static void ask(struct asking *asking, const struct replica_member *other, uint64_t self)
{
    const struct service_deps *deps = &asking->pending.service->deps;
    struct question *question = mem_must_calloc(1, sizeof *question);
    Xce__V1__OverlapRequest request = XCE__V1__OVERLAP_REQUEST__INIT;
    uint8_t bytes[64];

    request.replica = self;
    request.first = asking->range.first;
    request.last = asking->range.last;
    question->asking = asking;
    memcpy(question->name, other->name, sizeof question->name);
    asking->n_waiting++;
    deps->ask_replica(
        &(struct service_question){.method = METHOD,
                                   .name = other->name,
                                   .address = other->address,
                                   .bytes = bytes,
                                   .len = xce__v1__overlap_request__pack(&request, bytes),
                                   .timeout_ms = ANSWER_MS},
        answered, question, deps->ask_arg);
}

void clear_elsewhere(struct service *service, struct service_request *request,
                     const struct fsm_range *range, clear_fn then)
{
    struct replica_status status = {0};
    struct asking *asking;

    if (service->stopping) {
        service_refuse(request, -ECANCELED, NULL);
        return;
    }
    if (service->deps.ask_replica && engine_is_replica(service->deps.engine))
        replica_get_status(service->deps.engine, &status);
    if (status.n_members < 2) {
        then(service, request, range);
        return;
    }
    asking = service_pending_new(service, request, sizeof *asking);
    if (!asking)
        return;
    asking->range = *range;
    asking->then = then;
    buf_init_fixed(&asking->taken, asking->taken_text, sizeof asking->taken_text);
    buf_init_fixed(&asking->silent, asking->silent_text, sizeof asking->silent_text);
    for (size_t i = 0; i < status.n_members; i++)
        if (status.members[i].id != status.id)
            ask(asking, &status.members[i], status.id);
}
