/* What it asserts holds without asserts, too. */
#undef NDEBUG
#include "tests/unit/client/fake_server.h"

#include <assert.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "common/net/loop.h"

/* For what is under way when the server leaves. */
#define GRACE_MS 10000

struct fake_server {
    pthread_t thread;
    pthread_mutex_t lock;
    pthread_cond_t changed;
    bool listens, stop, dead;
    bool leave, left; /* fake_leave: asked for; said */
    char path[108];
    struct loop *loop;
    struct grpc_server *grpc;
    struct loop_wake *wake;
    struct fake_rule *rules; /* a copy: a test that fails leaves its own behind */
    unsigned *used;
    size_t n_rules;
    struct fake_call calls[FAKE_CALLS_MAX];
    size_t n_calls, streamed;
};

struct serving {
    struct fake_server *server;
    const struct fake_rule *rule;
    size_t call, next; /* next: message of a stream, repeats counted */
};

/* ---- what is done ---- */

static void die(struct fake_server *server)
{
    pthread_mutex_lock(&server->lock);
    server->dead = true;
    pthread_mutex_unlock(&server->lock);
    loop_stop(server->loop);
}

static void stream(struct serving *serving, struct grpc_call *call)
{
    const struct fake_rule *rule = serving->rule;
    size_t all = rule->n_messages * (rule->repeat + 1);

    while (serving->next < all) {
        const struct fake_message *message = &rule->messages[serving->next % rule->n_messages];
        int r = grpc_call_send(call, message->bytes, message->len);

        if (r < 0)
            return;
        serving->next++;
        pthread_mutex_lock(&serving->server->lock);
        serving->server->streamed++;
        pthread_mutex_unlock(&serving->server->lock);
        if (r == GRPC_FULL)
            return;
    }
    if (rule->deed == FAKE_STREAM_END)
        grpc_call_finish(call, rule->status, rule->message);
}

static void serve(struct serving *serving, struct grpc_call *call)
{
    const struct fake_rule *rule = serving->rule;

    switch (rule->deed) {
    case FAKE_TWICE:
        (void)grpc_call_send(call, rule->reply, rule->reply_len);
        /* fall through */
    case FAKE_ANSWER:
        (void)grpc_call_send(call, rule->reply, rule->reply_len);
        /* fall through */
    case FAKE_EMPTY:
        grpc_call_finish(call, GRPC_OK, NULL);
        break;
    case FAKE_STATUS:
        grpc_call_finish(call, rule->status, rule->message);
        break;
    case FAKE_HANG:
        break;
    case FAKE_DIE:
        die(serving->server);
        break;
    case FAKE_STREAM:
    case FAKE_STREAM_END:
        stream(serving, call);
        break;
    }
}

/* ---- gRPC ---- */

static void on_message(struct grpc_call *call, const uint8_t *data, size_t len, void *arg)
{
    struct serving *serving = arg;
    struct fake_server *server = serving->server;

    (void)call;
    pthread_mutex_lock(&server->lock);
    if (serving->call < FAKE_CALLS_MAX && len <= sizeof server->calls[0].request) {
        memcpy(server->calls[serving->call].request, data, len);
        server->calls[serving->call].request_len = len;
    }
    pthread_mutex_unlock(&server->lock);
}

static void on_half_closed(struct grpc_call *call, void *arg)
{
    serve(arg, call);
}

static void on_writable(struct grpc_call *call, void *arg)
{
    struct serving *serving = arg;

    if (serving->rule->deed == FAKE_STREAM || serving->rule->deed == FAKE_STREAM_END)
        stream(serving, call);
}

static void on_end(struct grpc_call *call, void *arg)
{
    (void)call;
    free(arg);
}

static const struct fake_rule *choose(struct fake_server *server, const char *method)
{
    for (size_t i = 0; i < server->n_rules; i++) {
        if (strcmp(server->rules[i].method, method) != 0)
            continue;
        if (server->rules[i].times && server->used[i] == server->rules[i].times)
            continue;
        server->used[i]++;
        return &server->rules[i];
    }
    return NULL;
}

static void on_accept(struct grpc_call *call, const char *path, void *arg)
{
    static const struct grpc_call_events events = {
        .message = on_message,
        .half_closed = on_half_closed,
        .writable = on_writable,
        .end = on_end,
    };
    struct fake_server *server = arg;
    const char *method = strrchr(path, '/') + 1;
    struct serving *serving = calloc(1, sizeof *serving);

    assert(serving);
    serving->server = server;
    serving->rule = choose(server, method);
    if (!serving->rule) {
        free(serving);
        grpc_call_finish(call, GRPC_UNIMPLEMENTED, "no rule");
        return;
    }
    pthread_mutex_lock(&server->lock);
    serving->call = server->n_calls;
    if (server->n_calls < FAKE_CALLS_MAX)
        snprintf(server->calls[server->n_calls++].method, sizeof server->calls[0].method, "%s",
                 method);
    pthread_mutex_unlock(&server->lock);
    grpc_call_bind(call, &events, serving);
}

/* ---- the thread ---- */

static void closed(void *arg)
{
    loop_stop(arg);
}

static void on_wake(void *arg)
{
    struct fake_server *server = arg;
    bool stop, leave;

    pthread_mutex_lock(&server->lock);
    stop = server->stop;
    leave = server->leave && !server->left;
    pthread_mutex_unlock(&server->lock);
    if (leave)
        grpc_server_close(server->grpc, GRACE_MS, closed, server->loop);
    else if (stop && !server->left)
        loop_stop(server->loop);
    pthread_mutex_lock(&server->lock);
    server->left |= leave;
    pthread_cond_signal(&server->changed);
    pthread_mutex_unlock(&server->lock);
}

static void *run(void *arg)
{
    struct fake_server *server = arg;
    int r = loop_new(&server->loop);

    assert(r == 0);
    r = loop_wake_new(server->loop, on_wake, server, &server->wake);
    assert(r == 0);
    r = grpc_server_new(server->loop, NULL, on_accept, server, &server->grpc);
    assert(r == 0);
    r = grpc_server_listen_unix(server->grpc, server->path, 0600);
    assert(r == 0);
    pthread_mutex_lock(&server->lock);
    server->listens = true;
    pthread_cond_signal(&server->changed);
    pthread_mutex_unlock(&server->lock);
    loop_run(server->loop);
    if (!server->left) {
        grpc_server_close(server->grpc, 0, closed, server->loop);
        loop_run(server->loop);
    }
    pthread_mutex_lock(&server->lock);
    loop_wake_free(server->wake);
    server->wake = NULL;
    pthread_mutex_unlock(&server->lock);
    loop_free(server->loop);
    return NULL;
}

struct fake_server *fake_start(const char *path, const struct fake_rule *rules, size_t n_rules)
{
    struct fake_server *server = calloc(1, sizeof *server);
    int r;

    assert(server);
    snprintf(server->path, sizeof server->path, "%s", path);
    server->rules = calloc(n_rules + 1, sizeof *rules);
    assert(server->rules);
    memcpy(server->rules, rules, n_rules * sizeof *rules);
    server->n_rules = n_rules;
    server->used = calloc(n_rules + 1, sizeof *server->used);
    pthread_mutex_init(&server->lock, NULL);
    pthread_cond_init(&server->changed, NULL);
    r = pthread_create(&server->thread, NULL, run, server);
    assert(r == 0);
    pthread_mutex_lock(&server->lock);
    while (!server->listens)
        pthread_cond_wait(&server->changed, &server->lock);
    pthread_mutex_unlock(&server->lock);
    return server;
}

void fake_leave(struct fake_server *server)
{
    pthread_mutex_lock(&server->lock);
    server->leave = true;
    loop_wake_send(server->wake);
    while (!server->left)
        pthread_cond_wait(&server->changed, &server->lock);
    pthread_mutex_unlock(&server->lock);
}

void fake_stop(struct fake_server *server)
{
    if (!server)
        return;
    pthread_mutex_lock(&server->lock);
    server->stop = true;
    if (server->wake)
        loop_wake_send(server->wake);
    pthread_mutex_unlock(&server->lock);
    pthread_join(server->thread, NULL);
    (void)unlink(server->path);
    pthread_mutex_destroy(&server->lock);
    pthread_cond_destroy(&server->changed);
    free(server->rules);
    free(server->used);
    free(server);
}

size_t fake_calls(struct fake_server *server, struct fake_call *ret, size_t n)
{
    size_t all;

    pthread_mutex_lock(&server->lock);
    all = server->n_calls;
    memcpy(ret, server->calls, (n < all ? n : all) * sizeof *ret);
    pthread_mutex_unlock(&server->lock);
    return all;
}

size_t fake_streamed(struct fake_server *server)
{
    size_t streamed;

    pthread_mutex_lock(&server->lock);
    streamed = server->streamed;
    pthread_mutex_unlock(&server->lock);
    return streamed;
}

bool fake_dead(struct fake_server *server)
{
    bool dead;

    pthread_mutex_lock(&server->lock);
    dead = server->dead;
    pthread_mutex_unlock(&server->lock);
    return dead;
}
