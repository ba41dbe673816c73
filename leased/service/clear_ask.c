/* Asking all machines at once: each replica its own and the nodes whose sessions it has. Which nodes must have
 * answered the replicated state says: all but those that are lost, fenced, or not yet looked through, which guard nothing and
 * say READY of nothing before they have looked for themselves. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/buf.h"
#include "common/err.h"
#include "common/hostlist.h"
#include "common/mem.h"
#include "common/pb.h"
#include "leased/engine/replica.h"
#include "leased/service/clear.h"
#include "leased/service/internal.h"
#include "leased/service/survey.h"
#include "xce/v1/cluster.pb-c.h"

#define METHOD "/xce.v1.ClusterService/Overlap"
/* Less than a client gives one of several servers, and more than a survey takes. */
#define ANSWER_MS     8000
#define WHO_MAX       480
#define ARENA_MAX     (4u << 20)
#define ROUNDS_MAX    3
#define MISSING_SHOWN 4
#define TOLD_MAX      256

struct asking {
    struct service_pending pending;
    struct fsm_range range;
    clear_fn then;
    clear_told_fn tell; /* in its place: what stands in the way is told, and refuses nothing */
    struct clear_told *told;
    size_t n_told, cap_told;
    unsigned n_waiting, n_rounds;
    uint64_t newest; /* session, when they were asked */
    int failed;      /* -errno: this leased ends, or can ask nobody */
    bool later;      /* a replica is there, but knows no leader just now */
    struct hostlist answered[1 + REPLICA_MEMBERS_MAX];
    size_t n_answered;
    size_t n_taken, n_silent; /* what stands in the way; who does not say */
    char taken_text[WHO_MAX], silent_text[WHO_MAX];
    struct buf taken, silent; /* as far as it fits */
};

/* To one replica. */
struct question {
    struct asking *asking;
    char name[REPLICA_NAME_MAX + 1];
};

/* For who wants to be told. Places that there is no room for are left out. */
static void keep(struct asking *asking, const char *replica, const char *node, const char *what,
                 const struct fsm_range *taken)
{
    struct clear_told *told;

    if (mem_grow(&asking->told, &asking->cap_told, asking->n_told + 1, TOLD_MAX,
                 sizeof *asking->told) < 0)
        return;
    told = &asking->told[asking->n_told++];
    *told = (struct clear_told){.first = taken ? taken->first : 0, .last = taken ? taken->last : 0};
    (void)snprintf(told->replica, sizeof told->replica, "%s", replica);
    (void)snprintf(told->node, sizeof told->node, "%s", node);
    (void)snprintf(told->what, sizeof told->what, "%s", what);
}

/* ---- nodes ---- */

static int by_name(const void *a, const void *b)
{
    return strcmp(*(const char *const *)a, *(const char *const *)b);
}

static bool must_answer(const struct fsm_node *node)
{
    return node->state == NODE_READY || node->state == NODE_DRAINING ||
           node->state == NODE_CORDONED;
}

static bool has_answered(const struct asking *asking, const char *name)
{
    for (size_t i = 0; i < asking->n_answered; i++)
        if (bsearch(&name, asking->answered[i].names, asking->answered[i].n, sizeof name, by_name))
            return true;
    return false;
}

static uint64_t newest_session(const struct service *service)
{
    const struct fsm_node *node = NULL;
    uint64_t newest = 0;

    while ((node = fsm_node_next(service_fsm(service), node)))
        if (node->session > newest)
            newest = node->session;
    return newest;
}

/* Those that have not answered become silent ones. true: one of them has begun a session meanwhile. */
static bool find_missing(struct asking *asking)
{
    const struct fsm_node *node = NULL;
    size_t n = 0;
    bool newer = false;

    while ((node = fsm_node_next(service_fsm(asking->pending.service), node))) {
        if (!must_answer(node) || has_answered(asking, node->name))
            continue;
        newer |= node->session > asking->newest;
        if (asking->tell)
            keep(asking, "", node->name, "no answer", NULL);
        if (n++ < MISSING_SHOWN)
            buf_addf(&asking->silent, "%s%s", n > 1 ? ", " : "node ", node->name);
    }
    if (n > MISSING_SHOWN)
        buf_addf(&asking->silent, " and %zu more nodes", n - MISSING_SHOWN);
    if (n)
        buf_adds(&asking->silent, " (no answer)");
    asking->n_silent = n;
    return newer;
}

/* ---- the end ---- */

static void settle(const struct asking *asking, struct service_request *request)
{
    const struct fsm_range *range = &asking->range;

    if (asking->failed)
        service_refuse(request, asking->failed, asking->failed == -EAGAIN ? SURVEY_BUSY : NULL);
    else if (asking->tell && service_permits(asking->pending.service, request))
        asking->tell(asking->pending.service, request, asking->told, asking->n_told);
    else if (asking->tell)
        return;
    else if (asking->n_taken)
        service_refuse(request, FSM_PRECONDITION, "range %u-%u overlaps %s", range->first,
                       range->last, buf_str(&asking->taken));
    else if (asking->n_silent)
        service_refuse(request, asking->later ? -EAGAIN : (int)FSM_PRECONDITION,
                       "whether anybody has a uid of %u-%u must be known of every machine, and is "
                       "not of %s",
                       range->first, range->last, buf_str(&asking->silent));
    else if (service_permits(asking->pending.service, request))
        asking->then(asking->pending.service, request, range);
}

static void forget(struct asking *asking)
{
    for (size_t i = 0; i < asking->n_answered; i++)
        hostlist_done(&asking->answered[i]);
    asking->n_answered = asking->n_taken = asking->n_silent = asking->n_told = 0;
    asking->later = false;
    buf_reset(&asking->taken);
    buf_reset(&asking->silent);
}

/* Whoever has not answered yet is waited for, but not by the caller. */
static void answer_now(struct asking *asking)
{
    struct service_request *request = service_settle(&asking->pending);

    asking->pending.request = NULL;
    if (request)
        settle(asking, request);
}

static void end(struct asking *asking)
{
    answer_now(asking);
    forget(asking);
    free(asking->told);
    free(asking);
}

static void begin(struct asking *asking);

static void verdict(struct asking *asking)
{
    bool said = asking->failed || (!asking->tell && (asking->n_taken || asking->n_silent));

    /* One that came while the others were asked: all are asked once more. */
    if (!said && asking->pending.request && find_missing(asking) && asking->n_rounds < ROUNDS_MAX &&
        !asking->pending.service->stopping) {
        begin(asking);
        return;
    }
    end(asking);
}

static void come_back(struct asking *asking)
{
    if (--asking->n_waiting == 0)
        verdict(asking);
}

/* ---- answers ---- */

static void note_silent(struct asking *asking, const char *kind, const char *name, const char *why)
{
    bool node = !strcmp(kind, "node");

    if (asking->tell)
        keep(asking, node ? "" : name, node ? name : "", why, NULL);
    buf_addf(&asking->silent, "%s%s%s%s (%.128s)", asking->n_silent++ ? "; " : "", kind,
             *name ? " " : "", name, why);
}

/* Of a node that need not answer it does not matter what is not known. */
static bool matters(const struct asking *asking, const Xce__V1__Overlap *overlap)
{
    const struct fsm_node *node = fsm_node(service_fsm(asking->pending.service), overlap->node);

    return !*overlap->node || overlap->last || (node && must_answer(node));
}

static void note(struct asking *asking, const char *replica, const Xce__V1__Overlap *overlap)
{
    const char *kind = *overlap->node ? "node"
                       : *replica     ? "replica"
                                      : "the machine that was asked";
    const char *name = *overlap->node ? overlap->node : replica;
    struct buf *taken = &asking->taken;

    if (!overlap->last) {
        note_silent(asking, kind, name, overlap->what);
        return;
    }
    if (asking->tell) {
        keep(asking, replica, overlap->node, overlap->what,
             &(struct fsm_range){overlap->first, overlap->last});
        return;
    }
    buf_addf(taken, "%s%u", asking->n_taken++ ? "; " : "", overlap->first);
    if (overlap->last != overlap->first)
        buf_addf(taken, "-%u", overlap->last);
    /* Made safe by who says it. */
    buf_addf(taken, ": %.256s, on %s%s%s", overlap->what, kind, *name ? " " : "", name);
}

/* replica: "" for this one. */
static void hear(struct asking *asking, const char *replica, const Xce__V1__OverlapReply *reply)
{
    struct hostlist *list = &asking->answered[asking->n_answered];
    struct err err = {{0}};

    for (size_t i = 0; i < reply->n_overlaps; i++)
        if (matters(asking, reply->overlaps[i]))
            note(asking, replica, reply->overlaps[i]);
    if (!*reply->answered)
        return;
    if (hostlist_expand(reply->answered, strlen(reply->answered), 0, list, &err) < 0) {
        note_silent(asking, "replica", replica, err.text);
        return;
    }
    qsort((void *)list->names, list->n, sizeof *list->names, by_name);
    asking->n_answered++;
}

static void read_reply(struct asking *asking, const char *replica, const uint8_t *bytes, size_t len)
{
    struct pb_arena arena;
    ProtobufCMessage *message;
    struct err err = {{0}};

    pb_arena_init(&arena, ARENA_MAX);
    if (pb_unpack(&arena, &xce__v1__overlap_reply__descriptor, bytes, len, &message, &err) < 0)
        note_silent(asking, "replica", replica, err.text);
    else
        hear(asking, replica, (const Xce__V1__OverlapReply *)message);
    pb_arena_done(&arena);
}

static void answered(int r, const uint8_t *bytes, size_t len, const char *why, void *arg)
{
    struct question *question = arg;
    struct asking *asking = question->asking;

    if (r == -ECANCELED)
        asking->failed = r;
    asking->later |= r == -EAGAIN;
    if (r < 0)
        note_silent(asking, "replica", question->name, why ? why : err_text(r));
    else
        read_reply(asking, question->name, bytes, len);
    free(question);
    come_back(asking);
}

/* What is said here is said at once: the machine that was asked knows enough. */
static void surveyed(int r, const Xce__V1__OverlapReply *reply, void *arg)
{
    struct asking *asking = arg;

    if (r == 0)
        hear(asking, "", reply);
    else
        asking->failed = r;
    if (asking->n_taken)
        answer_now(asking);
    come_back(asking);
}

/* ---- asking ---- */

static void ask(struct asking *asking, const struct replica_member *other, uint64_t self)
{
    const struct service_deps *deps = &asking->pending.service->deps;
    struct question *question = mem_must_calloc(1, sizeof *question);
    Xce__V1__OverlapRequest request = XCE__V1__OVERLAP_REQUEST__INIT;
    uint8_t bytes[64];

    request.replica = self;
    request.first = asking->range.first;
    request.last = asking->range.last;
    request.all = asking->tell != NULL;
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

static void ask_others(struct asking *asking)
{
    const struct service_deps *deps = &asking->pending.service->deps;
    struct replica_status status;

    if (!deps->ask_replica || !engine_is_replica(deps->engine))
        return;
    replica_get_status(deps->engine, &status);
    for (size_t i = 0; i < status.n_members; i++)
        if (status.members[i].id != status.id)
            ask(asking, &status.members[i], status.id);
}

static void begin(struct asking *asking)
{
    struct service *service = asking->pending.service;

    forget(asking);
    asking->n_rounds++;
    asking->newest = newest_session(service);
    /* Nobody answers before all have been asked. */
    asking->n_waiting = 1;
    asking->failed = survey_begin(service, &asking->range, asking->tell, surveyed, asking);
    if (asking->failed)
        end(asking);
    else
        ask_others(asking);
}

static void ask_all(struct service *service, struct service_request *request,
                    const struct fsm_range *range, clear_fn then, clear_told_fn tell)
{
    struct asking *asking;

    if (service->stopping) {
        service_refuse(request, -ECANCELED, NULL);
        return;
    }
    asking = service_pending_new(service, request, sizeof *asking);
    if (!asking)
        return;
    asking->range = *range;
    asking->then = then;
    asking->tell = tell;
    buf_init_fixed(&asking->taken, asking->taken_text, sizeof asking->taken_text);
    buf_init_fixed(&asking->silent, asking->silent_text, sizeof asking->silent_text);
    begin(asking);
}

void clear_everywhere(struct service *service, struct service_request *request,
                      const struct fsm_range *range, clear_fn then)
{
    ask_all(service, request, range, then, NULL);
}

void clear_tell(struct service *service, struct service_request *request,
                const struct fsm_range *range, clear_told_fn then)
{
    ask_all(service, request, range, NULL, then);
}
