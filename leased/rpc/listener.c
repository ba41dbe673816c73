#include "leased/rpc/listener.h"

#include <errno.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/queue.h>

#include "common/net/grpc.h"
#include "common/net/tls_port.h"
#include "common/pb.h"
#include "leased/audit/audit.h"
#include "leased/rpc/door.h"
#include "leased/rpc/health.h"
#include "leased/rpc/method.h"
#include "leased/rpc/record.h"
#include "leased/rpc/status.h"

/* Calls that have ended are kept with their arena for the next ones. */
#define SPARE_MAX 256

struct rpc_server {
    struct loop *loop;
    struct grpc_server *grpc;
    struct grpc_server *strangers; /* who has no certificate; NULL = no TLS */
    unsigned n_open;               /* of the two, while they close */
    struct door door;
    struct health *health;
    struct unary *spare;
    unsigned n_spare;
    LIST_HEAD(, stream) streams;
    void (*closed)(void *arg);
    void *closed_arg;
};

/* ---- unary calls ---- */

/* admitted ─▶ message: decoded ─▶ handed over ─▶ replied ─▶ ended */
struct unary {
    struct incoming incoming; /* first */
    struct rpc_server *server;
    struct pb_arena arena;
    struct service_request request;
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

static void record_unary(const struct unary *unary, int status, const char *message)
{
    record_call(&unary->incoming.door->recorder,
                &(struct record){.principal = &unary->request.principal,
                                 .method = unary->incoming.method->permission,
                                 .request = unary->request.message,
                                 .leases = unary->request.leases,
                                 .n_leases = unary->request.n_leases,
                                 .certificate = unary->request.certificate,
                                 .status = status,
                                 .message = message});
}

static void replied(int r, const char *message, const ProtobufCMessage *reply, void *arg)
{
    struct unary *unary = arg;
    uint8_t *bytes;
    size_t len;

    unary->served = false;
    if (r == -EACCES)
        door_log_denied(unary->incoming.door, &unary->request.principal, unary->incoming.method);
    record_unary(unary, (int)rpc_status(r), message);
    if (r != 0) {
        door_refuse(unary->incoming.call, r, message);
        return;
    }
    len = protobuf_c_message_get_packed_size(reply);
    bytes = grpc_message_new(len);
    if (!bytes) {
        door_refuse(unary->incoming.call, -ENOMEM, NULL);
        return;
    }
    (void)protobuf_c_message_pack(reply, bytes);
    r = grpc_call_send_owned(unary->incoming.call, bytes, len);
    if (r == -EMSGSIZE)
        grpc_call_finish(unary->incoming.call, GRPC_RESOURCE_EXHAUSTED,
                         "the answer is larger than a message may be");
    else
        grpc_call_finish(unary->incoming.call, GRPC_OK, NULL);
}

static void unary_message(struct grpc_call *call, const uint8_t *data, size_t len, void *arg)
{
    struct unary *unary = arg;
    ProtobufCMessage *message;
    struct err err = {{0}};
    int r = pb_unpack(&unary->arena, unary->incoming.method->request, data, len, &message, &err);

    if (r < 0)
        door_refuse(call, r == -E2BIG || r == -ENOBUFS ? -EINVAL : r, err.text);
    else if (grpc_call_keep(call, unary->arena.used))
        unary->request.message = message;
}

/* What an administrator does is written down, or not done. */
static bool may_act(const struct unary *unary)
{
    struct audit *audit = unary->incoming.door->recorder.audit;
    char why[AUDIT_WHY_MAX], message[AUDIT_WHY_MAX + 128];

    if (!audit || methods_kind(unary->incoming.method->permission) != METHOD_ACT ||
        audit_ok(audit, why))
        return true;
    (void)snprintf(message, sizeof message,
                   "the audit file can not be written, and what an administrator does must be: %s",
                   why);
    door_refuse(unary->incoming.call, -ENOSPC, message);
    return false;
}

/* The one message has come. */
static void unary_half_closed(struct grpc_call *call, void *arg)
{
    struct unary *unary = arg;

    (void)call;
    if (!unary->request.message)
        return; /* refused already */
    if (!may_act(unary))
        return;
    unary->served = true;
    service_handle(unary->incoming.door->service, &unary->request, unary->incoming.method->unary,
                   unary->incoming.method->local);
}

static void unary_end(struct grpc_call *call, void *arg)
{
    struct unary *unary = arg;

    (void)call;
    incoming_end(&unary->incoming);
    if (unary->served) {
        record_unary(unary, -1, NULL);
        service_request_cancel(&unary->request);
    }
    unary_give(unary);
}

static const struct grpc_call_events unary_events = {
    .unary = true,
    .message = unary_message,
    .half_closed = unary_half_closed,
    .end = unary_end,
};

static void admit_unary(struct incoming *incoming)
{
    struct service_request *request = &((struct unary *)incoming)->request;

    request->scope = incoming->scope;
    request->policy_count = service_policy_count(incoming->door->service);
}

static void accept_unary(struct rpc_server *server, struct grpc_call *call,
                         const struct rpc_method *method, const struct principal *principal,
                         int known)
{
    struct unary *unary = unary_take(server);

    if (!unary) {
        door_refuse(call, -ENOMEM, NULL);
        return;
    }
    unary->server = server;
    unary->served = false;
    unary->request = (struct service_request){
        .principal = *principal,
        .permission = method->permission,
        .reply = replied,
        .reply_arg = unary,
    };
    unary->incoming = (struct incoming){.door = &server->door,
                                        .call = call,
                                        .method = method,
                                        .principal = &unary->request.principal,
                                        .admit = admit_unary};
    grpc_call_bind(call, &unary_events, unary);
    incoming_receive(&unary->incoming, known);
}

/* ---- streams ---- */

/* admitted ─▶ open ─▶ messages ─▶ ended */
struct stream {
    struct service_stream face; /* first: the service knows no more of us */
    struct incoming incoming;
    const struct service_stream_handler *handler;
    struct pb_arena arena;
    LIST_ENTRY(stream) link;
};

/* Its right may be lost (decide_again): nothing more is told, and what it ends with is not the handler's to say. */
static bool is_being_cut(const struct stream *stream)
{
    return stream->incoming.admitted && stream->incoming.doubt.waits;
}

static int stream_send(struct service_stream *face, const uint8_t *data, size_t len)
{
    struct stream *stream = (struct stream *)face;

    return is_being_cut(stream) ? -EPIPE : grpc_call_send(stream->incoming.call, data, len);
}

static void stream_finish(struct service_stream *face, int r, const char *message)
{
    const struct incoming *incoming = &((struct stream *)face)->incoming;
    struct grpc_call *call = incoming->call;

    if (is_being_cut((struct stream *)face))
        return;
    if (r == -EACCES)
        record_call(&incoming->door->recorder,
                    &(struct record){.principal = incoming->principal,
                                     .method = incoming->method->permission,
                                     .status = GRPC_PERMISSION_DENIED,
                                     .message = message});

    if (r == 0)
        grpc_call_finish(call, GRPC_OK, NULL);
    else
        door_refuse(call, r, message);
}

static void stream_pause(struct service_stream *face)
{
    grpc_call_pause(((struct stream *)face)->incoming.call);
}

static void stream_resume(struct service_stream *face)
{
    struct stream *stream = (struct stream *)face;

    if (!is_being_cut(stream)) /* who decides that lets it go on */
        grpc_call_resume(stream->incoming.call);
}

static const struct service_stream_ops stream_ops = {
    .send = stream_send, .finish = stream_finish, .pause = stream_pause, .resume = stream_resume};

static void stream_message(struct grpc_call *call, const uint8_t *data, size_t len, void *arg)
{
    struct stream *stream = arg;
    ProtobufCMessage *message;
    struct err err = {{0}};
    int r = pb_unpack(&stream->arena, stream->handler->request, data, len, &message, &err);

    if (r < 0)
        door_refuse(call, r == -E2BIG || r == -ENOBUFS ? -EINVAL : r, err.text);
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
    incoming_end(&stream->incoming);
    if (stream->incoming.admitted)
        stream->handler->ended(&stream->face);
    LIST_REMOVE(stream, link);
    pb_arena_done(&stream->arena);
    free(stream);
}

static const struct grpc_call_events stream_events = {
    .message = stream_message,
    .half_closed = stream_half_closed,
    .writable = stream_writable,
    .end = stream_end,
};

static void admit_stream(struct incoming *incoming)
{
    struct stream *stream = (struct stream *)((char *)incoming - offsetof(struct stream, incoming));

    stream->face.scope = incoming->scope;
    stream->handler->open(incoming->door->service, &stream->face);
}

static void accept_stream(struct rpc_server *server, struct grpc_call *call,
                          const struct rpc_method *method, const struct principal *principal,
                          int known)
{
    struct stream *stream = calloc(1, sizeof *stream);

    if (!stream) {
        door_refuse(call, -ENOMEM, NULL);
        return;
    }
    pb_arena_init(&stream->arena, PB_ARENA_MAX);
    stream->handler = method->stream;
    stream->face.principal = *principal;
    stream->face.ops = &stream_ops;
    stream->incoming = (struct incoming){.door = &server->door,
                                         .call = call,
                                         .method = method,
                                         .principal = &stream->face.principal,
                                         .admit = admit_stream};
    LIST_INSERT_HEAD(&server->streams, stream, link);
    grpc_call_bind(call, &stream_events, stream);
    incoming_receive(&stream->incoming, known);
}

static void ask_again(const struct incoming *incoming)
{
    grpc_call_finish(incoming->call, GRPC_UNAVAILABLE, "your rights have changed: ask again");
}

static void loss_confirmed(int r, struct doubt *doubt)
{
    struct incoming *incoming = incoming_of(doubt);

    if (r == 0)
        incoming->scope = door_decide(incoming->door, incoming->principal, incoming->method);
    if (r == 0 && incoming->scope == SCOPE_NONE)
        door_deny(incoming->door, incoming->call, incoming->principal, incoming->method);
    else
        ask_again(incoming);
}

/* Decide a stream anew. The rules that have come may be old ones, which others had followed before the stream began. */
static void decide_again(struct stream *stream)
{
    struct incoming *incoming = &stream->incoming;
    enum policy_scope scope;

    if (!incoming->admitted || is_being_cut(stream))
        return; /* it will be decided by the new rules */
    scope = door_decide(incoming->door, incoming->principal, incoming->method);
    if (scope == incoming->scope)
        return;
    if (scope != SCOPE_NONE) {
        ask_again(incoming);
        return;
    }
    incoming_confirm(incoming, loss_confirmed);
}

void rpc_server_audit(struct rpc_server *server, struct audit *audit)
{
    server->door.recorder.audit = audit;
}

void rpc_server_policy_changed(struct rpc_server *server)
{
    struct stream *stream;

    LIST_FOREACH(stream, &server->streams, link)
    decide_again(stream);
    health_cut(server->health);
}

/* ---- what comes ---- */

/* Health and reflection: nothing of them is anybody's, so nobody's name is needed. */
static void accept_direct(struct rpc_server *server, struct grpc_call *call,
                          const struct rpc_method *method, const struct principal *principal)
{
    if (door_decide(&server->door, principal, method) == SCOPE_NONE)
        door_deny(&server->door, call, principal, method);
    else
        method->direct(call, server);
}

static void accept_call(struct grpc_call *call, const char *path, void *arg)
{
    struct rpc_server *server = arg;
    const struct rpc_method *method = rpc_method_find(path);
    struct principal principal;
    int known;

    if (!method) {
        grpc_call_finish(call, GRPC_UNIMPLEMENTED, "no such method");
        return;
    }
    known = door_identify(&server->door, call, &principal);
    if (known < 0)
        grpc_call_finish(call, GRPC_PERMISSION_DENIED, "not permitted");
    else if (method->direct)
        accept_direct(server, call, method, &principal);
    else if (method->stream)
        accept_stream(server, call, method, &principal, known);
    else
        accept_unary(server, call, method, &principal, known);
}

int rpc_server_new(struct loop *loop, struct service *service, const struct grpc_limits *limits,
                   struct rpc_server **ret)
{
    struct rpc_server *server = calloc(1, sizeof *server);
    int r = server ? rpc_method_check() : -ENOMEM;

    if (r == 0)
        r = door_init(&server->door, loop, service);
    if (r == 0)
        r = health_new(&server->health);
    if (r == 0)
        r = grpc_server_new(loop, limits, accept_call, server, &server->grpc);
    if (r < 0) {
        if (server) {
            door_done(&server->door);
            health_free(server->health);
        }
        free(server);
        return r;
    }
    server->loop = loop;
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

static void adopt(struct transport *transport, void *arg)
{
    grpc_server_adopt(((struct rpc_server *)arg)->grpc, transport);
}

static void adopt_stranger(struct transport *transport, void *arg)
{
    grpc_server_adopt(((struct rpc_server *)arg)->strangers, transport);
}

/* Who shows no certificate may be anybody: what such people hold is theirs alone, small, and not for long, and they can not
 * keep each other out. */
static const struct grpc_limits strangers_limits = {
    .message_bytes = 128 * 1024,
    .streams = 2,
    .connections = 256,
    .oldest_goes = true,
    .send_queue_bytes = 128 * 1024,
    .window_bytes = 128 * 1024,
    .life_ms = 30000,
};

int rpc_server_serve_tls(struct rpc_server *server, struct tls_port *port)
{
    const struct tls_protocol protocol = {
        .alpn = TLS_ALPN_GRPC,
        .kinds = CERT_USER | CERT_NODE | CERT_REPLICA,
        .accept = adopt,
        .arg = server,
    };
    const struct tls_protocol enroll = {
        .alpn = TLS_ALPN_ENROLL, .accept = adopt_stranger, .arg = server};
    int r = grpc_server_new(server->loop, &strangers_limits, accept_call, server,
                            &server->strangers);

    if (r == 0)
        r = tls_port_protocol(port, &protocol);
    return r < 0 ? r : tls_port_protocol(port, &enroll);
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

    if (--server->n_open > 0)
        return;
    while (server->spare) {
        struct unary *next = server->spare->next;

        pb_arena_done(&server->spare->arena);
        free(server->spare);
        server->spare = next;
    }
    door_done(&server->door);
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
    server->n_open = server->strangers ? 2 : 1;
    if (server->strangers)
        grpc_server_close(server->strangers, grace_ms, closed, server);
    grpc_server_close(server->grpc, grace_ms, closed, server);
}
