#include "client/call.h"

#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "client/attempt.h"
#include "client/client.h"
#include "common/err.h"

enum {
    BACKOFF_FIRST_MS = 20,
    BACKOFF_MOST_MS = 1000,
    /* An attempt that lasted so long had reached its server: patience begins anew. */
    REACHED_MS = 1000,
    /* With several servers none is waited for longer than this part of what is left, nor shorter than that. */
    SHARE = 2,
    SHARE_LEAST_MS = 2000,
    /* A server that says that nobody leads is likely to have a leader before another server could be asked: so long it is
     * asked again, often. Then it may be the one that is cut off. */
    STAY_MS = 1000,
    BACKOFF_STAY_MS = 80,
};

struct call {
    struct xce_client *client;
    const char *path;
    uint8_t *request;
    size_t request_len;
    int64_t deadline_ms; /* loop time, as all below */
    int64_t tried_ms;    /* when this attempt began */
    /* since when no server could be reached; 0 = one can, as far as is known */
    int64_t out_of_reach_ms;
    int64_t backoff_ms;
    struct call_attempt *attempt; /* TRYING */
    struct loop_timer *pause;     /* PAUSED: backoff; TRYING: not started */
    struct loop_timer *end;       /* the deadline */
    bool seen;                    /* a server may have seen it */
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
    if (call)
        call_free(call);
}

bool call_seen(const struct call *call)
{
    return call->seen || call->attempt;
}

static void finish(struct call *call, int code, const char *message, const uint8_t *reply,
                   size_t len)
{
    struct call_end end = {code, message, reply, len, call_seen(call)};
    call_done_fn done = call->done;
    void *arg = call->arg;
    char text[XCE_MESSAGE_MAX];

    /* It may lie in the call. */
    snprintf(text, sizeof text, "%s", message);
    end.message = text;
    client_awake(call->client);
    call_free(call);
    done(&end, arg);
}

static void try(struct call *call);

static void deadline_over(void *arg)
{
    struct call *call = arg;

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
        /* The way to that server was dropped, for another call that found nobody at its end. */
        return !end->sent || !end->answered;
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
    bool reached = end->status == GRPC_DEADLINE_EXCEEDED, stay;

    snprintf(call->said, sizeof call->said, "%s", end->message);
    if (reached)
        call->out_of_reach_ms = 0;
    else if (!call->out_of_reach_ms || (end->sent && now - call->tried_ms >= REACHED_MS))
        call->out_of_reach_ms = now;
    if (call->out_of_reach_ms && now - call->out_of_reach_ms >= client->patience_ms) {
        finish(call, XCE_UNREACHABLE, call->said, NULL, 0);
        return;
    }
    stay = end->answered && now - call->out_of_reach_ms < STAY_MS;
    if (!stay)
        client_leave_server(client, end->server,
                            client_left(end->status, end->sent, end->answered));
    loop_timer_start(call->pause, client_jitter(client, call->backoff_ms), 0);
    call->backoff_ms *= 2;
    if (call->backoff_ms > (stay ? BACKOFF_STAY_MS : BACKOFF_MOST_MS))
        call->backoff_ms = stay ? BACKOFF_STAY_MS : BACKOFF_MOST_MS;
}

static void attempt_ended(const struct attempt_end *end, void *arg)
{
    struct call *call = arg;

    call->attempt = NULL;
    if (end->sent)
        call->seen = true;
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
