#include "leased/server_ask.h"

#include <assert.h>
#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/cert.h"
#include "common/err.h"
#include "common/mem.h"
#include "common/net/grpc.h"
#include "common/net/loop.h"

#define PAST    "/xce.v1.ClusterService/Past"
#define CALL_MS 10000
#define IDLE_MS 10000

struct server_ask {
    struct loop *loop;
    struct tls_keys *keys;
    struct grpc_channel *channel; /* to whoever was asked last */
    char *name, *address;
    bool over;

    service_asked_fn done; /* NULL: nothing is under way */
    void *done_arg;
    uint8_t *answer;
    size_t answer_len;
    int failed; /* before it began */
};

int server_ask_new(struct loop *loop, struct tls_keys *keys, struct server_ask **ret)
{
    struct server_ask *ask = calloc(1, sizeof *ask);

    if (!ask)
        return -ENOMEM;
    ask->loop = loop;
    ask->keys = keys;
    *ret = ask;
    return 0;
}

static void hang_up(struct server_ask *ask)
{
    if (ask->channel)
        grpc_channel_close(mem_take(ask->channel), NULL, NULL);
    free(mem_take(ask->name));
    free(mem_take(ask->address));
}

void server_ask_free(struct server_ask *ask)
{
    if (!ask)
        return;
    ask->over = true;
    hang_up(ask);
    if (!ask->done)
        free(ask);
}

static void answer(struct server_ask *ask, int r, const char *why)
{
    service_asked_fn done = mem_take(ask->done);
    uint8_t *bytes = mem_take(ask->answer);

    done(ask->over ? -ECANCELED : r, bytes, ask->answer_len, why, ask->done_arg);
    free(bytes);
    if (ask->over)
        free(ask);
}

static void message(struct grpc_request *request, const uint8_t *data, size_t len, void *arg)
{
    struct server_ask *ask = arg;

    (void)request;
    free(ask->answer);
    ask->answer = mem_must_alloc(len + 1);
    memcpy(ask->answer, data, len);
    ask->answer_len = len;
}

static void ended(struct grpc_request *request, enum grpc_status status, const char *why, bool sent,
                  void *arg)
{
    (void)request, (void)sent;
    answer(arg, status == GRPC_OK ? 0 : -EHOSTUNREACH, why);
}

static const struct grpc_request_events events = {.message = message, .end = ended, .unary = true};

/* A stream to that one: the one there is, or a new one. */
static int dial(struct server_ask *ask, const char *name, const char *address)
{
    const struct grpc_limits limits = {.idle_ms = IDLE_MS};
    char peer[CERT_URI_MAX + 1];
    int r;

    if (ask->channel && strcmp(ask->name, name) == 0 && strcmp(ask->address, address) == 0)
        return 0;
    hang_up(ask);
    if (!ask->keys)
        return -ENOKEY;
    if (snprintf(peer, sizeof peer, CERT_URI_REPLICA "%s", name) >= (int)sizeof peer)
        return -EINVAL;
    r = grpc_channel_tls_new(ask->loop, address, ask->keys, peer, NULL, &limits, &ask->channel);
    if (r < 0) {
        ask->channel = NULL;
        return r;
    }
    ask->name = mem_must_dup(name, strlen(name) + 1);
    ask->address = mem_must_dup(address, strlen(address) + 1);
    return 0;
}

static void fail(void *arg)
{
    struct server_ask *ask = arg;

    answer(ask, ask->failed, err_text(ask->failed));
}

void server_ask_past(const char *name, const char *address, const uint8_t *bytes, size_t len,
                     service_asked_fn done, void *done_arg, void *arg)
{
    struct server_ask *ask = arg;
    struct grpc_request *request;
    int r;

    assert(!ask->done && !ask->over);
    ask->done = done;
    ask->done_arg = done_arg;
    r = dial(ask, name, address);
    if (r == 0)
        r = grpc_request_start(ask->channel, PAST, CALL_MS, NULL, &events, ask, &request);
    if (r < 0) {
        ask->failed = r;
        if (loop_defer(ask->loop, fail, ask) < 0)
            abort();
        return;
    }
    (void)grpc_request_send(request, bytes, len);
    grpc_request_half_close(request);
}
