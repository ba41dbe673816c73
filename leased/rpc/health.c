#include "leased/rpc/health.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/queue.h>

#include "common/net/grpc.h"
#include "common/pb.h"
#include "grpc/health/v1/health.pb-c.h"
#include "leased/rpc/listener.h"
#include "leased/rpc/method.h"

#define STATUS(name) GRPC__HEALTH__V1__HEALTH_CHECK_RESPONSE__SERVING_STATUS__##name

struct query;

struct health {
    bool serving, ended;
    LIST_HEAD(, query) watchers;
    struct pb_arena arena; /* of the request at hand */
};

/* One call. */
struct query {
    LIST_ENTRY(query) link; /* of watchers alone */
    struct health *health;
    struct grpc_call *call;
    bool known; /* the service it asks for */
    bool watching;
    bool full; /* its reader lags: it is told the latest state when it has caught up */
    int told;  /* -1 = nothing yet */
};

int health_new(struct health **ret)
{
    struct health *health = calloc(1, sizeof *health);

    if (!health)
        return -ENOMEM;
    LIST_INIT(&health->watchers);
    pb_arena_init(&health->arena, PB_ARENA_MAX);
    *ret = health;
    return 0;
}

void health_free(struct health *health)
{
    if (!health)
        return;
    pb_arena_done(&health->arena);
    free(health);
}

static bool known_service(const char *name)
{
    const struct rpc_method *method;
    size_t len = strlen(name);

    if (len == 0)
        return true;
    for (size_t i = 0; (method = rpc_method_at(i)); i++)
        if (strncmp(method->path + 1, name, len) == 0 && method->path[1 + len] == '/')
            return true;
    return false;
}

static int send_status(struct grpc_call *call, int status)
{
    Grpc__Health__V1__HealthCheckResponse response = GRPC__HEALTH__V1__HEALTH_CHECK_RESPONSE__INIT;
    uint8_t bytes[16];

    response.status = (Grpc__Health__V1__HealthCheckResponse__ServingStatus)status;
    return grpc_call_send(call, bytes, protobuf_c_message_pack(&response.base, bytes));
}

static int status_of(const struct query *query)
{
    if (!query->known)
        return STATUS(SERVICE_UNKNOWN);
    return query->health->serving ? STATUS(SERVING) : STATUS(NOT_SERVING);
}

static void tell(struct query *query)
{
    int status = status_of(query);

    if (query->full || query->told == status)
        return;
    query->told = status;
    query->full = send_status(query->call, status) == GRPC_FULL;
}

void health_set(struct health *health, bool serving)
{
    struct query *query;

    if (health->ended)
        return;
    health->serving = serving;
    LIST_FOREACH(query, &health->watchers, link)
    tell(query);
}

void health_end(struct health *health)
{
    struct query *query;

    health_set(health, false);
    health->ended = true;
    LIST_FOREACH(query, &health->watchers, link)
    grpc_call_finish(query->call, GRPC_UNAVAILABLE, "leased is shutting down");
}

void health_cut(struct health *health)
{
    struct query *query;

    LIST_FOREACH(query, &health->watchers, link)
    grpc_call_finish(query->call, GRPC_UNAVAILABLE, "rights have changed: ask again");
}

/* ---- the calls ---- */

static void query_message(struct grpc_call *call, const uint8_t *data, size_t len, void *arg)
{
    struct query *query = arg;
    struct pb_arena *arena = &query->health->arena;
    ProtobufCMessage *message;
    struct err err = {{0}};

    if (pb_unpack(arena, &grpc__health__v1__health_check_request__descriptor, data, len, &message,
                  &err) < 0)
        grpc_call_finish(call, GRPC_INVALID_ARGUMENT, err.text);
    else
        query->known = known_service(((Grpc__Health__V1__HealthCheckRequest *)message)->service);
    pb_arena_reset(arena);
}

static void check_half_closed(struct grpc_call *call, void *arg)
{
    struct query *query = arg;

    if (!query->known) {
        grpc_call_finish(call, GRPC_NOT_FOUND, "no such service");
        return;
    }
    (void)send_status(call, status_of(query));
    grpc_call_finish(call, GRPC_OK, NULL);
}

static void watch_half_closed(struct grpc_call *call, void *arg)
{
    struct query *query = arg;

    query->watching = true;
    LIST_INSERT_HEAD(&query->health->watchers, query, link);
    tell(query);
    if (query->health->ended)
        grpc_call_finish(call, GRPC_UNAVAILABLE, "leased is shutting down");
}

static void watch_writable(struct grpc_call *call, void *arg)
{
    struct query *query = arg;

    (void)call;
    query->full = false;
    tell(query);
}

static void query_end(struct grpc_call *call, void *arg)
{
    struct query *query = arg;

    (void)call;
    if (query->watching)
        LIST_REMOVE(query, link);
    free(query);
}

static const struct grpc_call_events check_events = {
    .message = query_message,
    .half_closed = check_half_closed,
    .end = query_end,
    .unary = true,
};

static const struct grpc_call_events watch_events = {
    .message = query_message,
    .half_closed = watch_half_closed,
    .writable = watch_writable,
    .end = query_end,
    .unary = true,
};

static void bind(struct grpc_call *call, struct rpc_server *server,
                 const struct grpc_call_events *events)
{
    struct query *query = calloc(1, sizeof *query);

    if (!query) {
        grpc_call_finish(call, GRPC_RESOURCE_EXHAUSTED, "out of memory");
        return;
    }
    query->health = rpc_server_health(server);
    query->call = call;
    query->told = -1;
    grpc_call_bind(call, events, query);
}

void health_check(struct grpc_call *call, struct rpc_server *server)
{
    bind(call, server, &check_events);
}

void health_watch(struct grpc_call *call, struct rpc_server *server)
{
    bind(call, server, &watch_events);
}
