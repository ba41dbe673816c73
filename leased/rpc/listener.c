#include "leased/rpc/listener.h"

#include <errno.h>
#include <stdlib.h>

#include "common/log.h"
#include "common/net/grpc.h"
#include "common/pb.h"
#include "leased/rpc/health.h"
#include "leased/rpc/method.h"
#include "leased/rpc/status.h"
#include "leased/rpc/username.h"

/* Calls that have ended are kept with their arena for the next ones. */
#define SPARE_MAX 256

struct rpc_server {
    struct service *service;
    struct grpc_server *grpc;
    struct usernames *usernames;
    struct health *health;
    struct unary *spare;
    unsigned n_spare;
    struct log_limit denied;
    void (*closed)(void *arg);
    void *closed_arg;
};

/* ---- who ---- */

static void identify(struct rpc_server *server, const struct grpc_call *call, struct principal *ret)
{
    const struct grpc_peer *peer = grpc_call_peer(call);
    const char *name;

    (void)usernames_known(server->usernames, peer->uid, &name);
    principal_from_peer(peer->uid, peer->gid, name, ret);
}

/* ---- unary calls ---- */

/* accepted ─▶ message: decoded ─▶ named (owner's name known) ─▶ handed over ─▶ replied ─▶ ended */
struct unary {
    struct rpc_server *server;
    struct grpc_call *call;
    const struct rpc_method *method;
    struct pb_arena arena;
    struct service_request request;
    bool naming; /* its caller's name is being asked for */
    bool served; /* the service has it */
    struct unary *next;
};

static struct unary *unary_take(struct rpc_server *server)
{
    struct unary *unary = server->spare;

    if (unary) {
        server->spare = unary->next;
        server->n_spare--;
        return unary;
    }
    unary = calloc(1, sizeof *unary);
    if (unary)
        pb_arena_init(&unary->arena, PB_ARENA_MAX);
    return unary;
}

static void unary_give(struct unary *unary)
{
    struct rpc_server *server = unary->server;

    if (server->n_spare == SPARE_MAX) {
        pb_arena_done(&unary->arena);
        free(unary);
        return;
    }
    pb_arena_reset(&unary->arena);
    unary->next = server->spare;
    server->spare = unary;
    server->n_spare++;
}

static void refuse(struct grpc_call *call, int r, const char *message)
{
    grpc_call_finish(call, rpc_status(r), message && *message ? message : rpc_status_text(r));
}

static void replied(int r, const char *message, const ProtobufCMessage *reply, void *arg)
{
    struct unary *unary = arg;
    uint8_t *bytes;
    size_t len;

    unary->served = false;
    if (r != 0) {
        refuse(unary->call, r, message);
        return;
    }
    len = protobuf_c_message_get_packed_size(reply);
    bytes = grpc_message_new(len);
    if (!bytes) {
        refuse(unary->call, -ENOMEM, NULL);
        return;
    }
    (void)protobuf_c_message_pack(reply, bytes);
    r = grpc_call_send_owned(unary->call, bytes, len);
    if (r == -EMSGSIZE)
        grpc_call_finish(unary->call, GRPC_RESOURCE_EXHAUSTED,
                         "the answer is larger than a message may be");
    else
        grpc_call_finish(unary->call, GRPC_OK, NULL);
}

static void hand_over(struct unary *unary)
{
    unary->served = true;
    unary->method->unary(unary->server->service, &unary->request);
}

static void named(const char *name, void *arg)
{
    struct unary *unary = arg;
    const struct grpc_peer *peer = grpc_call_peer(unary->call);

    unary->naming = false;
    principal_from_peer(peer->uid, peer->gid, name, &unary->request.principal);
    hand_over(unary);
}

static void unary_message(struct grpc_call *call, const uint8_t *data, size_t len, void *arg)
{
    struct unary *unary = arg;
    ProtobufCMessage *message;
    struct err err = {{0}};
    int r = pb_unpack(&unary->arena, unary->method->request, data, len, &message, &err);

    if (r < 0)
        refuse(call, r == -E2BIG || r == -ENOBUFS ? -EINVAL : r, err.text);
    else
        unary->request.message = message;
}

/* The one message has come. */
static void unary_half_closed(struct grpc_call *call, void *arg)
{
    struct unary *unary = arg;
    struct usernames *usernames = unary->server->usernames;
    uint32_t uid = unary->request.principal.uid;
    const char *name;

    (void)call;
    if (!unary->request.message)
        return; /* refused already */
    if (!usernames_known(usernames, uid, &name) && usernames_ask(usernames, uid, named, unary) == 0)
        unary->naming = true;
    else
        hand_over(unary);
}

static void unary_end(struct grpc_call *call, void *arg)
{
    struct unary *unary = arg;

    (void)call;
    if (unary->naming)
        usernames_forget(unary->server->usernames, unary);
    if (unary->served)
        service_request_cancel(&unary->request);
    unary_give(unary);
}

static const struct grpc_call_events unary_events = {
    .unary = true,
    .message = unary_message,
    .half_closed = unary_half_closed,
    .end = unary_end,
};

static void accept_unary(struct rpc_server *server, struct grpc_call *call,
                         const struct rpc_method *method, const struct principal *principal,
                         enum policy_scope scope)
{
    struct unary *unary = unary_take(server);

    if (!unary) {
        refuse(call, -ENOMEM, NULL);
        return;
    }
    unary->server = server;
    unary->call = call;
    unary->method = method;
    unary->naming = unary->served = false;
    unary->request = (struct service_request){
        .principal = *principal,
        .scope = scope,
        .reply = replied,
        .reply_arg = unary,
    };
    grpc_call_bind(call, &unary_events, unary);
}

/* ---- streams ---- */

struct stream {
    struct service_stream face; /* first: the service knows no more of us */
    struct grpc_call *call;
    const struct service_stream_handler *handler;
    struct pb_arena arena;
};

static int stream_send(struct service_stream *face, const uint8_t *data, size_t len)
{
    return grpc_call_send(((struct stream *)face)->call, data, len);
}

static void stream_finish(struct service_stream *face, int r, const char *message)
{
    struct grpc_call *call = ((struct stream *)face)->call;

    if (r == 0)
        grpc_call_finish(call, GRPC_OK, NULL);
    else
        refuse(call, r, message);
}

static const struct service_stream_ops stream_ops = {.send = stream_send, .finish = stream_finish};

static void stream_message(struct grpc_call *call, const uint8_t *data, size_t len, void *arg)
{
    struct stream *stream = arg;
    ProtobufCMessage *message;
    struct err err = {{0}};
    int r = pb_unpack(&stream->arena, stream->handler->request, data, len, &message, &err);

    if (r < 0)
        refuse(call, r == -E2BIG || r == -ENOBUFS ? -EINVAL : r, err.text);
    else
        stream->handler->message(&stream->face, message);
    pb_arena_reset(&stream->arena);
}

static void stream_half_closed(struct grpc_call *call, void *arg)
{
    struct stream *stream = arg;

    (void)call;
    stream->handler->half_closed(&stream->face);
}

static void stream_writable(struct grpc_call *call, void *arg)
{
    struct stream *stream = arg;

    (void)call;
    stream->handler->writable(&stream->face);
}

static void stream_end(struct grpc_call *call, void *arg)
{
    struct stream *stream = arg;

    (void)call;
    stream->handler->ended(&stream->face);
    pb_arena_done(&stream->arena);
    free(stream);
}

static const struct grpc_call_events stream_events = {
    .message = stream_message,
    .half_closed = stream_half_closed,
    .writable = stream_writable,
    .end = stream_end,
};

static void accept_stream(struct rpc_server *server, struct grpc_call *call,
                          const struct rpc_method *method, const struct principal *principal,
                          enum policy_scope scope)
{
    struct stream *stream = calloc(1, sizeof *stream);

    if (!stream) {
        refuse(call, -ENOMEM, NULL);
        return;
    }
    pb_arena_init(&stream->arena, PB_ARENA_MAX);
    stream->call = call;
    stream->handler = method->stream;
    stream->face.principal = *principal;
    stream->face.scope = scope;
    stream->face.ops = &stream_ops;
    grpc_call_bind(call, &stream_events, stream);
    stream->handler->open(server->service, &stream->face);
}

/* ---- the door ---- */

static void deny(struct rpc_server *server, struct grpc_call *call,
                 const struct principal *principal, const struct rpc_method *method)
{
    unsigned held;

    if (log_limit_ok(&server->denied, &held))
        log_notice(LOG_FIELDS(.message_id = LOG_ID_DENIED, .actor = principal->name), "%s denied%s",
                   method->permission, held ? " (and others before it)" : "");
    grpc_call_finish(call, GRPC_PERMISSION_DENIED, "not permitted");
}

static void accept_call(struct grpc_call *call, const char *path, void *arg)
{
    struct rpc_server *server = arg;
    const struct rpc_method *method = rpc_method_find(path);
    struct principal principal;
    enum policy_scope scope;

    if (!method) {
        grpc_call_finish(call, GRPC_UNIMPLEMENTED, "no such method");
        return;
    }
    identify(server, call, &principal);
    scope = policy_decide(&principal, method->permission);
    if (scope == SCOPE_NONE)
        deny(server, call, &principal, method);
    else if (method->direct)
        method->direct(call, server);
    else if (method->stream)
        accept_stream(server, call, method, &principal, scope);
    else
        accept_unary(server, call, method, &principal, scope);
}

int rpc_server_new(struct loop *loop, struct service *service, const struct grpc_limits *limits,
                   struct rpc_server **ret)
{
    struct rpc_server *server = calloc(1, sizeof *server);
    int r = server ? rpc_method_check() : -ENOMEM;

    if (r == 0)
        r = health_new(&server->health);
    if (r == 0)
        r = usernames_new(loop, usernames_nss, &server->usernames);
    if (r == 0)
        r = grpc_server_new(loop, limits, accept_call, server, &server->grpc);
    if (r < 0) {
        if (server) {
            usernames_free(server->usernames);
            health_free(server->health);
        }
        free(server);
        return r;
    }
    server->service = service;
    server->denied.interval_ms = 10000;
    server->denied.burst = 10;
    *ret = server;
    return 0;
}

int rpc_server_listen_unix(struct rpc_server *server, const char *path, mode_t mode)
{
    return grpc_server_listen_unix(server->grpc, path, mode);
}

int rpc_server_listen_fd(struct rpc_server *server, int fd)
{
    return grpc_server_listen_fd(server->grpc, fd);
}

void rpc_server_serving(struct rpc_server *server, bool serving)
{
    health_set(server->health, serving);
}

struct health *rpc_server_health(struct rpc_server *server)
{
    return server->health;
}

static void closed(void *arg)
{
    struct rpc_server *server = arg;
    void (*done)(void *arg) = server->closed;
    void *done_arg = server->closed_arg;

    while (server->spare) {
        struct unary *next = server->spare->next;

        pb_arena_done(&server->spare->arena);
        free(server->spare);
        server->spare = next;
    }
    usernames_free(server->usernames);
    health_free(server->health);
    free(server);
    done(done_arg);
}

void rpc_server_close(struct rpc_server *server, int64_t grace_ms, void (*done)(void *arg),
                      void *arg)
{
    server->closed = done;
    server->closed_arg = arg;
    health_end(server->health);
    grpc_server_close(server->grpc, grace_ms, closed, server);
}
