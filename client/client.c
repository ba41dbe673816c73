#include "client/client.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

#include "client/op.h"
#include "client/settings.h"
#include "common/address.h"
#include "common/buf.h"
#include "common/net/tls_keys.h"
#include "common/text.h"

/* Where there is another server to ask, one that does not answer is not waited for: neither a stranger's handshake, nor, twice
 * so long, one that has fallen silent with a call open (its machine has lost its power, or is behind a cut). */
enum {
    SHAKE_MS = 3000,
    SILENT_MS = 1000,
    /* One that was lost so long ago may be back. */
    LOST_MS = 10000,
    /* A grant whose time is older than the oldest answer that leased still knows is refused. At the highest rates the
     * table of answers is full after five seconds, so a time is not taken when it is this old. A grant keeps its time while
     * it is tried again: at such rates a late copy is refused as too old, and what became of the first is to be looked up. */
    FRESH_MS = 2000,
};

static int64_t pick(int64_t asked, int64_t configured)
{
    return asked > 0 ? asked : configured;
}

/* The servers outlive the caller's option, the environment and the configuration object: they are in it. */
static int take_servers(struct xce_client *client, const struct client_settings *settings)
{
    AUTO(buf_done) struct buf text = BUF_INIT(64 * 1024);

    client->n_servers = settings->servers.n;
    client->servers = calloc(client->n_servers, sizeof *client->servers);
    if (!client->servers)
        return -ENOMEM;
    for (size_t i = 0; i < client->n_servers; i++) {
        client->servers[i].target = settings->servers.items[i];
        if (i)
            buf_addc(&text, ',');
        buf_adds(&text, settings->servers.items[i]);
    }
    return buf_take(&text, &client->servers_text, NULL);
}

static int load_keys(struct xce_client *client, const struct client_settings *settings,
                     struct err *err)
{
    const struct tls_files files = {.certificate = settings->certificate,
                                    .key = settings->key,
                                    .ca = settings->ca,
                                    .crl = settings->crl};
    bool needed = false;

    for (size_t i = 0; i < settings->servers.n; i++)
        needed = needed || !address_is_unix(settings->servers.items[i]);
    return needed ? tls_keys_new(client->loop, &files, NULL, NULL, &client->keys, err) : 0;
}

static int client_make(const struct xce_client_options *options, struct xce_client *client,
                       struct err *err)
{
    const struct client_settings *settings;
    int r;

    r = client_settings_load(options->conf, options->server, &client->conf, err);
    if (r < 0)
        return r;
    settings = conf_settings(client->conf);
    client->timeout_ms = pick(options->timeout_ms, settings->timeout_ms);
    client->patience_ms = pick(options->patience_ms, settings->connect_timeout_ms);
    r = take_servers(client, settings);
    if (r < 0)
        return r;
    r = loop_new(&client->loop);
    return r < 0 ? r : load_keys(client, settings, err);
}

int xce_client_new(const struct xce_client_options *options, struct xce_client **ret,
                   char why[XCE_MESSAGE_MAX])
{
    static const struct xce_client_options defaults;
    struct xce_client *client = calloc(1, sizeof *client);
    struct err err = {0};
    int r = client ? 0 : -ENOMEM;

    if (client) {
        LIST_INIT(&client->watches);
        LIST_INIT(&client->attempts);
        LIST_INIT(&client->ops);
        r = client_make(options ? options : &defaults, client, &err);
    }
    if (r < 0) {
        if (why)
            snprintf(why, XCE_MESSAGE_MAX, "%s", err.text[0] ? err.text : err_text(r));
        xce_client_free(client);
        return r == -ENOMEM || r == -EMFILE || r == -ENFILE ? XCE_FAILED : XCE_INVALID;
    }
    if (getrandom(&client->random, sizeof client->random, GRND_NONBLOCK) < 0)
        client->random = (uint64_t)(uintptr_t)client;
    *ret = client;
    return XCE_OK;
}

static void channel_closed(void *arg)
{
    struct xce_client *client = arg;

    client->n_closing--;
    client_awake(client);
}

static void drop_channel(struct xce_client *client, struct client_server *server)
{
    if (!server->channel)
        return;
    client->n_closing++;
    grpc_channel_close(server->channel, channel_closed, client);
    server->channel = NULL;
}

static void close_channels(struct xce_client *client)
{
    for (size_t i = 0; i < client->n_servers; i++)
        drop_channel(client, &client->servers[i]);
    while (client->n_closing)
        loop_step(client->loop, 1000);
}

void xce_client_free(struct xce_client *client)
{
    if (!client)
        return;
    if (client->calling_back || client->closing) {
        client->doomed = true;
        return;
    }
    client->closing = true;
    op_cancel_all(client);
    while (!LIST_EMPTY(&client->watches))
        watch_orphan(LIST_FIRST(&client->watches));
    if (client->servers)
        close_channels(client);
    tls_keys_free(client->keys);
    if (client->loop)
        loop_free(client->loop);
    conf_free(client->conf);
    free(client->servers);
    free(client->servers_text);
    free(client);
}

const char *xce_client_message(const struct xce_client *client)
{
    return client->message;
}

const char *xce_client_servers(const struct xce_client *client)
{
    return client->servers_text;
}

int client_fail(struct xce_client *client, int code, const char *format, ...)
{
    char text[2 * XCE_MESSAGE_MAX];
    va_list args;
    int n;

    va_start(args, format);
    n = vsnprintf(text, sizeof text, format, args);
    va_end(args);
    if (n < 0)
        n = 0;
    if ((size_t)n >= sizeof text)
        n = sizeof text - 1;
    text_escape(text, (size_t)n, client->message, sizeof client->message);
    return code;
}

int64_t client_timeout(const struct xce_client *client, const struct xce_call *call)
{
    return pick(call ? call->timeout_ms : 0, client->timeout_ms);
}

bool client_step(struct xce_client *client, int timeout_ms)
{
    loop_step(client->loop, timeout_ms);
    if (!client->doomed)
        return true;
    xce_client_free(client);
    return false;
}

int xce_client_fd(const struct xce_client *client)
{
    return loop_fd(client->loop);
}

int xce_client_dispatch(struct xce_client *client)
{
    if (client->calling_back)
        return client_fail(client, XCE_INVALID, "dispatch inside a callback");
    return client_step(client, 0) ? XCE_OK : XCE_CANCELLED;
}

void client_name_server(const struct xce_client *client, size_t i, const char *message,
                        char ret[static XCE_MESSAGE_MAX])
{
    const char *target = client->servers[i].target;

    if (!message || !*message)
        message = "out of reach";
    if (strncmp(message, target, strlen(target)) == 0)
        snprintf(ret, XCE_MESSAGE_MAX, "%s", message);
    else
        snprintf(ret, XCE_MESSAGE_MAX, "%s: %s", target, message);
}

void client_awake(struct xce_client *client)
{
    loop_stop(client->loop);
}

int client_channel(struct xce_client *client, struct grpc_channel **ret)
{
    struct client_server *server = &client->servers[client->current];

    if (!server->channel) {
        bool several = client->n_servers > 1;
        const struct grpc_limits limits = {.handshake_ms = several ? SHAKE_MS : 0,
                                           .keepalive_ms = several ? SILENT_MS : 0};
        int r = grpc_channel_open(client->loop, server->target, client->keys, &limits,
                                  &server->channel);

        if (r < 0)
            return r;
    }
    *ret = server->channel;
    return 0;
}

enum client_left client_left(enum grpc_status status, bool sent, bool answered)
{
    if (answered || status == GRPC_DEADLINE_EXCEEDED)
        return CLIENT_LEFT_SPOKE;
    return status == GRPC_UNAVAILABLE && !sent ? CLIENT_LEFT_UNREACHED : CLIENT_LEFT_LOST;
}

static bool lost_lately(const struct client_server *server, int64_t now)
{
    return server->lost_ms && now - server->lost_ms < LOST_MS;
}

void client_leave_server(struct xce_client *client, size_t i, enum client_left why)
{
    int64_t now = loop_now_ms(client->loop);

    if (why != CLIENT_LEFT_SPOKE) {
        client->servers[i].lost_ms = now;
        /* What comes next may be a restored backup, whose time is an earlier one. */
        client->cluster_ms = 0;
    }
    if (why == CLIENT_LEFT_UNREACHED)
        drop_channel(client, &client->servers[i]);
    /* Several calls may say so of the same one. */
    if (client->current != i)
        return;
    client->current = (i + 1) % client->n_servers;
    for (size_t n = 1; n < client->n_servers; n++) {
        size_t other = (i + n) % client->n_servers;

        if (!lost_lately(&client->servers[other], now)) {
            client->current = other;
            return;
        }
    }
}

bool client_time_is_fresh(const struct xce_client *client)
{
    return client->cluster_ms && loop_now_fresh_ms() - client->cluster_seen_ms < FRESH_MS;
}

void client_saw_time(struct xce_client *client, int64_t cluster_ms)
{
    if (cluster_ms < client->cluster_ms && client_time_is_fresh(client))
        return;
    client->cluster_ms = cluster_ms;
    client->cluster_seen_ms = loop_now_fresh_ms();
}

void client_saw_info(struct xce_client *client, const Xce__V1__ReplyInfo *info)
{
    if (info && !info->stale)
        client_saw_time(client, info->now_ms);
}

int64_t client_jitter(struct xce_client *client, int64_t delay_ms)
{
    int64_t quarter = delay_ms / 4;

    /* xorshift64: spreading needs no more. */
    client->random ^= client->random << 13;
    client->random ^= client->random >> 7;
    client->random ^= client->random << 17;
    if (!quarter)
        return delay_ms;
    return delay_ms - quarter + (int64_t)(client->random % (uint64_t)(2 * quarter + 1));
}

enum xce_code client_code(enum grpc_status status)
{
    switch (status) {
    case GRPC_OK:
        return XCE_OK;
    case GRPC_INVALID_ARGUMENT:
    case GRPC_OUT_OF_RANGE:
        return XCE_INVALID;
    case GRPC_NOT_FOUND:
    case GRPC_PERMISSION_DENIED:
    case GRPC_UNAUTHENTICATED:
        return XCE_NOT_FOUND;
    case GRPC_UNAVAILABLE:
        return XCE_UNREACHABLE;
    case GRPC_DEADLINE_EXCEEDED:
        return XCE_TIMEOUT;
    case GRPC_RESOURCE_EXHAUSTED:
        return XCE_EXHAUSTED;
    case GRPC_ALREADY_EXISTS:
        return XCE_EXISTS;
    case GRPC_FAILED_PRECONDITION:
    case GRPC_ABORTED:
        return XCE_PRECONDITION;
    case GRPC_UNIMPLEMENTED:
        return XCE_UNSUPPORTED;
    default:
        return XCE_FAILED;
    }
}
