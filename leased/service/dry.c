#include "leased/service/dry.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/queue.h>

#include "common/digest.h"
#include "common/mem.h"
#include "common/text.h"
#include "leased/service/internal.h"
#include "leased/service/session.h"
#include "leased/service/tell.h"

#define DRY_MS       60000
#define DRIES_MAX    16
#define REMNANTS_MAX 500
#define WORD_MAX     32

struct dry {
    struct service_pending pending;
    TAILQ_ENTRY(dry) link;
    uint64_t question;
    int64_t until_ms;
};

static struct service_request *settle(struct service *service, struct dry *dry)
{
    struct service_request *request = service_settle(&dry->pending);

    TAILQ_REMOVE(&service->dries, dry, link);
    free(dry);
    return request;
}

void dry_begin(struct service *service, struct service_request *request)
{
    const Xce__V1__NodeVerbRequest *message = (const Xce__V1__NodeVerbRequest *)request->message;
    char node[TEXT_NODE_MAX + 1];
    struct dry *dry;
    size_t n = 0;

    TAILQ_FOREACH(dry, &service->dries, link)
    n++;
    if (n >= DRIES_MAX || service->stopping) {
        service_refuse(request, service->stopping ? -ECANCELED : -ENOBUFS,
                       "too many dry runs are under way: ask again");
        return;
    }
    dry = service_pending_new(service, request, sizeof *dry);
    if (!dry)
        return;
    while (!dry->question)
        digest_random(&dry->question, sizeof dry->question);
    dry->until_ms = service->deps.mono_ms() + DRY_MS;
    TAILQ_INSERT_TAIL(&service->dries, dry, link);
    memcpy(node, message->node.data, message->node.len);
    node[message->node.len] = '\0';
    tell_dry(service->tell, node, dry->question, &message->reason);
}

/* ---- the answer ---- */

bool dry_is_sound(const Xce__V1__DryReport *report)
{
    struct err err;

    if (report->n_remnants > REMNANTS_MAX)
        return false;
    for (size_t i = 0; i < report->n_remnants; i++) {
        const Xce__V1__RemnantReport *r = report->remnants[i];
        if (text_require("kind", r->kind.data, r->kind.len, WORD_MAX, &err) < 0 ||
            text_require("would", r->would.data, r->would.len, WORD_MAX, &err) < 0 ||
            text_require("detail", r->detail.data, r->detail.len, TEXT_NOTE_MAX, &err) < 0)
            return false;
    }
    return true;
}

/* One piece of memory: the message, then its texts. */
static Xce__V1__Remnant *remnant_new(const Xce__V1__RemnantReport *report)
{
    const ProtobufCBinaryData *texts[] = {&report->kind, &report->would, &report->detail};
    Xce__V1__Remnant *remnant = mem_must_calloc(1, sizeof *remnant + report->kind.len +
                                                       report->would.len + report->detail.len + 3);
    char **places[] = {&remnant->kind, &remnant->would, &remnant->detail};
    char *at = (char *)(remnant + 1);

    xce__v1__remnant__init(remnant);
    remnant->uid = report->uid;
    remnant->count = report->count;
    for (size_t i = 0; i < ARRAY_LEN(texts); i++) {
        *places[i] = at;
        if (texts[i]->len)
            memcpy(at, texts[i]->data, texts[i]->len);
        at += texts[i]->len + 1;
    }
    return remnant;
}

static void answer(struct service *service, struct service_request *request,
                   const Xce__V1__DryReport *report)
{
    Xce__V1__NodeReply reply = XCE__V1__NODE_REPLY__INIT;
    Xce__V1__Remnant *remnants[REMNANTS_MAX];

    for (size_t i = 0; i < report->n_remnants; i++)
        remnants[i] = remnant_new(report->remnants[i]);
    reply.remnants = remnants;
    reply.n_remnants = report->n_remnants;
    reply.left_out = report->left_out;
    node_reply(service, request, &reply);
    for (size_t i = 0; i < report->n_remnants; i++)
        free(remnants[i]);
}

void dry_heard(struct service *service, const Xce__V1__DryReport *report)
{
    struct dry *dry;
    struct service_request *request;

    TAILQ_FOREACH(dry, &service->dries, link)
    if (dry->question == report->question)
        break;
    if (!dry || !dry_is_sound(report))
        return;
    request = settle(service, dry);
    if (request && service_permits(service, request))
        answer(service, request, report);
}

void dry_elapse(struct service *service)
{
    int64_t now_ms = service->deps.mono_ms();
    struct dry *dry, *next;

    for (dry = TAILQ_FIRST(&service->dries); dry; dry = next) {
        next = TAILQ_NEXT(dry, link);
        if (now_ms < dry->until_ms)
            continue;
        struct service_request *request = settle(service, dry);
        if (request)
            service_refuse(request, FSM_PRECONDITION, "the node did not answer");
    }
}

void dry_stop(struct service *service)
{
    struct service_request *request;

    while (!TAILQ_EMPTY(&service->dries)) {
        request = settle(service, TAILQ_FIRST(&service->dries));
        if (request)
            service_refuse(request, -ECANCELED, NULL);
    }
}
