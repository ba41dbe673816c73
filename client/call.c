#include "client/call.h"

#include <assert.h>
#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "client/attempt.h"
#include "client/client.h"
#include "common/pb.h"

enum {
    BACKOFF_FIRST_MS = 20,
    BACKOFF_MOST_MS = 1000,
    /* An attempt that lasted so long had reached its server: patience begins anew. */
    REACHED_MS = 1000,
    /* With several servers none is waited for longer than this part of what is left, nor shorter than that. */
    SHARE = 2,
    SHARE_LEAST_MS = 2000,
    /* How often a caller is asked whether he gives up. */
    GIVE_UP_MS = 100,
};

struct call {
    struct xce_client *client;
    const char *path;
    uint8_t *request;
    size_t request_len;
    int64_t deadline_ms; /* loop time, as all below */
    int64_t tried_ms;    /* when this attempt began */
    int64_t
        out_of_reach_ms; /* since when no server could be reached; 0 = one can, as far as known */
    int64_t backoff_ms;
    struct call_attempt *attempt; /* TRYING */
    struct loop_timer *pause;     /* PAUSED: backoff; TRYING: not started */
    struct loop_timer *end;       /* the deadline */
    char said[XCE_MESSAGE_MAX];   /* by the last attempt that failed */
    call_done_fn done;
    void *arg;
};

static void call_free(struct call *call)
{
    if (call->attempt)
        attempt_cut(call->attempt);
    loop_timer_free(call->pause);
    loop_timer_free(call->end);
    free(call->request);
    free(call);
}

void call_abandon(struct call *call)
{
    if (!call)
        return;
    if (call->attempt)
        call->client->request_seen = true;
    call_free(call);
}

static void finish(struct call *call, int code, const char *message, const uint8_t *reply,
                   size_t len)
{
    call_done_fn done = call->done;
    void *arg = call->arg;
    char text[XCE_MESSAGE_MAX];

    snprintf(text, sizeof text, "%s", message);
    client_awake(call->client);
    call_free(call);
    done(code, text, reply, len, arg);
}

static void try(struct call *call);

static void deadline_over(void *arg)
{
    struct call *call = arg;

    if (call->attempt)
        call->client->request_seen = true;
    if (!call->out_of_reach_ms) {
        finish(call, XCE_TIMEOUT, "the server did not answer in time", NULL, 0);
        return;
    }
    finish(call, XCE_UNREACHABLE, call->said, NULL, 0);
}

static void pause_over(void *arg)
{
    try(arg);
}

/* Whether the same call may come to another end if it is made again. It always may be made again: reads change nothing,
 * and changes bear their request id. */
static bool passing(const struct attempt_end *end)
{
    switch (end->status) {
    case GRPC_UNAVAILABLE:
        return true;
    case GRPC_CANCELLED:
    case GRPC_UNKNOWN:
    case GRPC_INTERNAL:
        /* The connection broke in a way that has no better word. */
        return !end->sent;
    case GRPC_DEADLINE_EXCEEDED:
        /* Of this attempt; the call's own deadline is kept by a timer. */
        return true;
    default:
        return false;
    }
}

static void again(struct call *call, const struct attempt_end *end)
{
    struct xce_client *client = call->client;
    int64_t now = loop_now_ms(client->loop);
    bool reached = end->status == GRPC_DEADLINE_EXCEEDED;

    snprintf(call->said, sizeof call->said, "%s", end->message);
    if (reached)
        call->out_of_reach_ms = 0;
    else if (!call->out_of_reach_ms || (end->sent && now - call->tried_ms >= REACHED_MS))
        call->out_of_reach_ms = now;
    if (call->out_of_reach_ms && now - call->out_of_reach_ms >= client->patience_ms) {
        finish(call, XCE_UNREACHABLE, call->said, NULL, 0);
        return;
    }
    client_leave_server(client, end->server, end->status == GRPC_UNAVAILABLE && !end->sent);
    loop_timer_start(call->pause, client_jitter(client, call->backoff_ms), 0);
    call->backoff_ms *= 2;
    if (call->backoff_ms > BACKOFF_MOST_MS)
        call->backoff_ms = BACKOFF_MOST_MS;
}

static void attempt_ended(const struct attempt_end *end, void *arg)
{
    struct call *call = arg;

    call->attempt = NULL;
    if (end->sent)
        call->client->request_seen = true;
    if (end->status == GRPC_OK)
        finish(call, XCE_OK, "", end->reply, end->reply_len);
    else if (passing(end))
        again(call, end);
    else
        finish(call, (int)client_code(end->status), end->message, NULL, 0);
}

static int64_t share(const struct call *call, int64_t left_ms)
{
    int64_t part = left_ms / SHARE;

    if (call->client->n_servers == 1)
        return left_ms;
    if (part < SHARE_LEAST_MS)
        part = SHARE_LEAST_MS;
    return part < left_ms ? part : left_ms;
}

static void try(struct call *call)
{
    struct attempt_spec spec = {
        .path = call->path, .request = call->request, .request_len = call->request_len};
    char text[XCE_MESSAGE_MAX];
    int64_t left_ms;
    int r;

    call->tried_ms = loop_now_ms(call->client->loop);
    left_ms = call->deadline_ms - call->tried_ms;
    if (left_ms <= 0) {
        deadline_over(call);
        return;
    }
    spec.timeout_ms = share(call, left_ms);
    r = attempt_start(call->client, &spec, attempt_ended, call, &call->attempt);
    if (r < 0) {
        snprintf(text, sizeof text, "the call can not be made: %s", err_text(r));
        finish(call, r == -EMSGSIZE ? XCE_INVALID : XCE_FAILED, text, NULL, 0);
    }
}

int call_start(struct xce_client *client, const struct call_spec *spec, call_done_fn done,
               void *arg, struct call **ret)
{
    struct call *call = calloc(1, sizeof *call);
    int r = -ENOMEM;

    if (!call)
        return -ENOMEM;
    call->client = client;
    call->path = spec->path;
    call->done = done;
    call->arg = arg;
    call->backoff_ms = BACKOFF_FIRST_MS;
    call->deadline_ms = loop_now_fresh_ms() + spec->timeout_ms;
    call->request = malloc(spec->request_len + 1);
    if (!call->request)
        goto fail;
    memcpy(call->request, spec->request, spec->request_len);
    call->request_len = spec->request_len;
    r = loop_timer_new(client->loop, pause_over, call, &call->pause);
    if (r < 0)
        goto fail;
    r = loop_timer_new(client->loop, deadline_over, call, &call->end);
    if (r < 0)
        goto fail;
    loop_timer_start(call->end, spec->timeout_ms, 0);
    /* By the timer, so that no answer comes inside this call. */
    loop_timer_start(call->pause, 0, 0);
    *ret = call;
    return 0;
fail:
    call_free(call);
    return r;
}

/* ---- for a caller that waits ---- */

struct wait {
    struct xce_client *client;
    const struct call_method *method;
    struct pb_arena *arena;
    ProtobufCMessage *reply;
    bool over;
    int code;
    int64_t asked_ms; /* when the caller was asked last whether he gives up */
};

static void answered(int code, const char *message, const uint8_t *reply, size_t len, void *arg)
{
    struct wait *wait = arg;
    struct err err = {0};
    int r;

    wait->over = true;
    wait->code = code;
    if (code != XCE_OK) {
        (void)client_fail(wait->client, code, "%s", message);
        return;
    }
    r = pb_unpack(wait->arena, wait->method->reply, reply, len, &wait->reply, &err);
    if (r < 0)
        wait->code = client_fail(wait->client, XCE_FAILED, "the server's answer: %s",
                                 err.text[0] ? err.text : err_text(r));
}

/* Ask the caller, not more often than was promised: a step of the loop may end early. */
static bool gives_up(struct wait *wait, const struct xce_call *options)
{
    int64_t now_ms = loop_now_fresh_ms();

    if (!options || !options->give_up || now_ms - wait->asked_ms < GIVE_UP_MS)
        return false;
    wait->asked_ms = now_ms;
    return options->give_up(options->give_up_arg);
}

int call_run(struct xce_client *client, const struct xce_call *options,
             const struct call_method *method, const ProtobufCMessage *request,
             struct pb_arena *arena, ProtobufCMessage **ret)
{
    struct wait wait = {
        .client = client, .method = method, .arena = arena, .asked_ms = loop_now_fresh_ms()};
    struct call_spec spec = {.path = method->path, .timeout_ms = client_timeout(client, options)};
    size_t len = protobuf_c_message_get_packed_size(request);
    uint8_t *bytes = malloc(len + 1);
    struct call *call;
    int r;

    if (!bytes)
        return client_fail(client, XCE_FAILED, "out of memory");
    spec.request = bytes;
    spec.request_len = protobuf_c_message_pack(request, bytes);
    client->message[0] = 0;
    r = call_start(client, &spec, answered, &wait, &call);
    free(bytes);
    if (r < 0)
        return client_fail(client, XCE_FAILED, "the call can not be made: %s", err_text(r));
    while (!wait.over) {
        client_step(client, options && options->give_up ? GIVE_UP_MS : 1000);
        if (!wait.over && gives_up(&wait, options)) {
            call_abandon(call);
            return client_fail(client, XCE_CANCELLED, "given up");
        }
    }
    if (wait.code == XCE_OK)
        *ret = wait.reply;
    return wait.code;
}
