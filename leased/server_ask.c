#include "leased/server_ask.h"

#include <assert.h>
#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/queue.h>

#include "common/cert.h"
#include "common/err.h"
#include "common/mem.h"
#include "common/net/grpc.h"
#include "common/net/loop.h"
#include "leased/engine/replica.h"

#define IDLE_MS 10000

/* To a replica that was asked once; kept. */
struct link {
    LIST_ENTRY(link) entry;
    struct grpc_channel *channel;
    char *name, *address;
};

struct server_ask {
    struct loop *loop;
    struct tls_keys *keys;
    LIST_HEAD(, link) links;
    size_t n_calls; /* under way */
    bool over;
};

struct call {
    struct server_ask *ask;
    service_asked_fn done;
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
    LIST_INIT(&ask->links);
    *ret = ask;
    return 0;
}

static void hang_up(struct link *link)
{
    LIST_REMOVE(link, entry);
    grpc_channel_close(link->channel, NULL, NULL);
    free(link->name);
    free(link->address);
    free(link);
}

void server_ask_free(struct server_ask *ask)
{
    if (!ask)
        return;
    ask->over = true;
    while (!LIST_EMPTY(&ask->links))
        hang_up(LIST_FIRST(&ask->links));
    if (!ask->n_calls)
        free(ask);
}

static void answer(struct call *call, int r, const char *why)
{
    struct server_ask *ask = call->ask;

    call->done(ask->over ? -ECANCELED : r, call->answer, call->answer_len, why, call->done_arg);
    free(call->answer);
    free(call);
    if (--ask->n_calls == 0 && ask->over)
        free(ask);
}

static void message(struct grpc_request *request, const uint8_t *data, size_t len, void *arg)
{
    struct call *call = arg;

    (void)request;
    free(call->answer);
    call->answer = mem_must_alloc(len + 1);
    memcpy(call->answer, data, len);
    call->answer_len = len;
}

static void ended(struct grpc_request *request, enum grpc_status status, const char *why, bool sent,
                  void *arg)
{
    int r = status == GRPC_OK ? 0 : status == GRPC_UNAVAILABLE && sent ? -EAGAIN : -EHOSTUNREACH;

    (void)request;
    answer(arg, r, why);
}

static const struct grpc_request_events events = {.message = message, .end = ended, .unary = true};

static int dial(struct server_ask *ask, const char *name, const char *address,
                struct link **ret_link)
{
    const struct grpc_limits limits = {.idle_ms = IDLE_MS};
    char peer[CERT_URI_MAX + 1];
    struct grpc_channel *channel;
    struct link *link;
    int r;

    if (!ask->keys)
        return -ENOKEY;
    if (snprintf(peer, sizeof peer, CERT_URI_REPLICA "%s", name) >= (int)sizeof peer)
        return -EINVAL;
    r = grpc_channel_tls_new(ask->loop, address, ask->keys, peer, NULL, &limits, &channel);
    if (r < 0)
        return r;
    link = mem_must_calloc(1, sizeof *link);
    link->channel = channel;
    link->name = mem_must_strdup(name);
    link->address = mem_must_strdup(address);
    LIST_INSERT_HEAD(&ask->links, link, entry);
    *ret_link = link;
    return 0;
}

/* The one there is, or a new one. Who has another address now is not asked at the old one any more. */
static int find_link(struct server_ask *ask, const char *name, const char *address,
                     struct link **ret)
{
    struct link *link;

    LIST_FOREACH(link, &ask->links, entry)
    {
        if (strcmp(link->name, name) != 0)
            continue;
        if (strcmp(link->address, address) == 0) {
            *ret = link;
            return 0;
        }
        hang_up(link);
        break;
    }
    return dial(ask, name, address, ret);
}

static bool is_member(const struct replica_status *status, const char *name)
{
    for (size_t i = 0; i < status->n_members; i++)
        if (strcmp(status->members[i].name, name) == 0)
            return true;
    return false;
}

void server_ask_keep(struct server_ask *ask, const struct replica_status *members)
{
    struct link *link = LIST_FIRST(&ask->links);

    while (link) {
        struct link *next = LIST_NEXT(link, entry);

        if (!is_member(members, link->name))
            hang_up(link);
        link = next;
    }
}

static void fail(void *arg)
{
    struct call *call = arg;

    answer(call, call->failed, err_text(call->failed));
}

void server_ask_replica(const struct service_question *question, service_asked_fn done,
                        void *done_arg, void *arg)
{
    struct server_ask *ask = arg;
    struct call *call = mem_must_calloc(1, sizeof *call);
    struct grpc_request *request;
    struct link *link;
    int r;

    assert(!ask->over);
    ask->n_calls++;
    *call = (struct call){.ask = ask, .done = done, .done_arg = done_arg};
    r = find_link(ask, question->name, question->address, &link);
    if (r == 0)
        r = grpc_request_start(link->channel, question->method, question->timeout_ms, NULL, &events,
                               call, &request);
    if (r < 0) {
        call->failed = r;
        if (loop_defer(ask->loop, fail, call) < 0)
            abort();
        return;
    }
    (void)grpc_request_send(request, question->bytes, question->len);
    grpc_request_half_close(request);
}
