/* From a request to the log and back: packing a command, its request id, the barrier of a read. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "common/digest.h"
#include "common/mem.h"
#include "common/pb.h"
#include "leased/engine/replica.h"
#include "leased/service/internal.h"

#define REQUEST_ID_MIN 16
#define REQUEST_ID_MAX 64
/* field 1 of Command, length delimited */
#define REQUEST_TAG 0x0a
/* key, id, digest, issued_at, their tags and lengths: always one length byte at most 2 */
#define REQUEST_ROOM (PRINCIPAL_KEY_MAX + REQUEST_ID_MAX + DIGEST_LEN + 32)

/* Waits for the engine. */
struct pending {
    struct service_pending base;
    service_then_fn then;
    service_unary_fn query;
};

/* The engine did. A replica may pass on what another one has said; of that one's disk we know nothing. */
static void refuse(struct service *service, struct service_request *request, int r)
{
    bool ailing = (r == -ENOSPC || r == -EIO) && *service->health;
    struct engine_status status;

    engine_get_status(service->deps.engine, &status);
    if (status.health == 0 && engine_is_replica(service->deps.engine))
        ailing = false;
    service_refuse(request, r, ailing ? "%s" : NULL, service->health);
}

static void proposed(int r, const struct fsm_outcome *outcome, void *arg)
{
    struct pending *pending = arg;
    struct service *service = pending->base.service;
    service_then_fn then = pending->then;
    struct service_request *request = service_settle(&pending->base);

    free(pending);
    if (!request)
        return;
    if (r < 0) {
        refuse(service, request, r);
    } else if (outcome->code == FSM_NOT_FOUND && request->scope != SCOPE_ALL) {
        /* What was and what never was look the same to whom it never belonged. */
        service_refuse(request, FSM_NOT_FOUND, NULL);
    } else if (outcome->code != FSM_OK) {
        service_refuse(request, (int)outcome->code, "%s", outcome->message);
    } else {
        then(service, request, outcome);
    }
}

/* field 1 of Command: who asked, under which id, and what exactly (command without its request: body). */
static size_t pack_request(const struct principal *principal, const Xce__V1__RequestId *id,
                           const uint8_t *body, size_t body_len, uint8_t *ret)
{
    Xce__V1__Request meta = XCE__V1__REQUEST__INIT;
    uint8_t digest[DIGEST_LEN];
    size_t len;

    digest_bytes(body, body_len, digest);
    meta.principal.data = (uint8_t *)principal->key;
    meta.principal.len = strlen(principal->key);
    meta.id = id->id;
    meta.digest.data = digest;
    meta.digest.len = sizeof digest;
    meta.issued_at_ms = id->issued_at_ms;
    len = xce__v1__request__get_packed_size(&meta);
    *ret++ = REQUEST_TAG;
    if (len >= 0x80) {
        *ret++ = (uint8_t)(len | 0x80);
        *ret++ = (uint8_t)(len >> 7);
        return 3 + xce__v1__request__pack(&meta, ret);
    }
    *ret++ = (uint8_t)len;
    return 2 + xce__v1__request__pack(&meta, ret);
}

bool service_check_id(struct service_request *request, const Xce__V1__RequestId *id)
{
    if (id && id->id.len >= REQUEST_ID_MIN && id->id.len <= REQUEST_ID_MAX)
        return true;
    service_refuse(
        request, -EINVAL,
        "request.id: %zu bytes, must be %d to %d (any value, the same again for a retry)",
        id ? id->id.len : 0, REQUEST_ID_MIN, REQUEST_ID_MAX);
    return false;
}

bool service_answered(const struct service *service, const struct service_request *request,
                      const Xce__V1__RequestId *id)
{
    const char *key = request->principal.key;
    struct fsm_request known;

    return id && fsm_request_find(service_fsm(service), key, strlen(key), id->id.data, id->id.len,
                                  &known) == 0;
}

void service_propose(struct service *service, struct service_request *request,
                     const Xce__V1__RequestId *id, Xce__V1__Command *command, service_then_fn then)
{
    size_t body_len = xce__v1__command__get_packed_size(command), head_len;
    struct pending *pending;
    uint8_t *bytes;

    if (!service_check_id(request, id))
        return;
    bytes = malloc(REQUEST_ROOM + body_len);
    if (!bytes) {
        service_refuse(request, -ENOMEM, NULL);
        return;
    }
    (void)xce__v1__command__pack(command, bytes + REQUEST_ROOM);
    head_len = pack_request(&request->principal, id, bytes + REQUEST_ROOM, body_len, bytes);
    memmove(bytes + REQUEST_ROOM - head_len, bytes, head_len);
    pending = service_pending_new(service, request, sizeof *pending);
    if (pending) {
        pending->then = then;
        engine_propose(service->deps.engine, bytes + REQUEST_ROOM - head_len, head_len + body_len,
                       proposed, pending);
    }
    free(bytes);
}

void service_propose_for(struct service *service, struct service_request *request,
                         const Xce__V1__Command *command, service_then_fn then)
{
    size_t len = xce__v1__command__get_packed_size(command);
    uint8_t *bytes = malloc(len + 1);
    struct pending *pending;

    if (!bytes) {
        service_refuse(request, -ENOMEM, NULL);
        return;
    }
    (void)xce__v1__command__pack(command, bytes);
    pending = service_pending_new(service, request, sizeof *pending);
    if (pending) {
        pending->then = then;
        engine_propose(service->deps.engine, bytes, len, proposed, pending);
    }
    free(bytes);
}

static void ignore_outcome(int r, const struct fsm_outcome *outcome, void *arg)
{
    (void)r, (void)outcome, (void)arg;
}

void service_propose_own(struct service *service, Xce__V1__Command *command, engine_done_fn done,
                         void *arg)
{
    size_t len = xce__v1__command__get_packed_size(command);
    uint8_t *bytes = mem_must_alloc(len);

    (void)xce__v1__command__pack(command, bytes);
    engine_propose(service->deps.engine, bytes, len, done ? done : ignore_outcome, arg);
    free(bytes);
}

/* The rules may have changed since the dispatcher asked them: on the leader while the message was on its way, elsewhere also
 * long before, which is only known now. */
static void decide_again(const struct service *service, struct service_request *request)
{
    if (!request->permission || request->policy_count == service->policy_count)
        return;
    request->policy_count = service->policy_count;
    request->scope = policy_decide(service->policy, &request->principal, request->permission);
}

bool service_permits(const struct service *service, struct service_request *request)
{
    decide_again(service, request);
    if (request->scope == SCOPE_NONE)
        service_refuse(request, -EACCES, "not permitted");
    return request->scope != SCOPE_NONE;
}

static void run(struct service *service, struct service_request *request, service_unary_fn handler)
{
    if (service_permits(service, request))
        handler(service, request);
}

static void confirmed(int r, void *arg)
{
    struct pending *pending = arg;
    struct service *service = pending->base.service;
    service_unary_fn query = pending->query;
    struct service_request *request = service_settle(&pending->base);

    free(pending);
    if (!request)
        return;
    if (r < 0) {
        refuse(service, request, r);
        return;
    }
    request->fresh = true;
    run(service, request, query);
}

void service_confirm(struct service *service, void (*done)(int r, void *arg), void *arg)
{
    engine_read_barrier(service->deps.engine, done, arg);
}

/* Messages of reads have a field of this name; common.proto says what it means. */
static bool wants_stale(const ProtobufCMessage *message)
{
    const protobuf_c_boolean *stale = pb_flag(message, "stale");

    return stale && *stale;
}

static void read_stale(struct service *service, struct service_request *request,
                       service_unary_fn handler)
{
    request->stale = true;
    if (fsm_initialised(service_fsm(service)))
        run(service, request, handler);
    else
        service_refuse(request, -EAGAIN, "this replica has no state yet, not even an old one");
}

void service_handle(struct service *service, struct service_request *request,
                    service_unary_fn handler, bool local)
{
    request->handler = handler;
    if (wants_stale(request->message))
        read_stale(service, request, handler);
    else if (local || service->leading)
        run(service, request, handler);
    else
        service_read(service, request, handler);
}

void service_read(struct service *service, struct service_request *request, service_unary_fn query)
{
    struct pending *pending;

    if (request->fresh || request->stale) {
        query(service, request);
        return;
    }
    pending = service_pending_new(service, request, sizeof *pending);
    if (!pending)
        return;
    pending->query = query;
    engine_read_barrier(service->deps.engine, confirmed, pending);
}

bool service_doubts(struct service *service, struct service_request *request)
{
    if (request->fresh || request->stale)
        return false;
    service_read(service, request, request->handler);
    return true;
}
