#include "tests/unit/net/tls_kit.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cmocka.h>

static void maybe_free(struct end *end, int here)
{
    if ((int)end->free_in != here)
        return;
    transport_free(end->transport);
    end->transport = NULL;
}

static void on_open(void *arg)
{
    struct end *end = arg;

    end->n_open++;
    (void)cert_who(end->transport->peer.tls, end->who);
    maybe_free(end, FREE_IN_OPEN);
}

static void on_data(const uint8_t *data, size_t len, void *arg)
{
    struct end *end = arg;

    assert_true(len > 0);
    assert_int_equal(end->n_open, 1);
    assert_int_equal(end->n_closed, 0);
    end->n_data++;
    for (size_t i = 0; i < len; i++)
        assert_int_equal(data[i], (uint8_t)(end->n_bytes + i));
    end->n_bytes += len;
    if (end->pause_in_data)
        transport_read(end->transport, false);
    maybe_free(end, FREE_IN_DATA);
}

static void on_writable(void *arg)
{
    struct end *end = arg;

    end->n_writable++;
    maybe_free(end, FREE_IN_WRITABLE);
}

static void on_closed(int r, void *arg)
{
    struct end *end = arg;

    end->n_closed++;
    end->r = r;
    (void)snprintf(end->why, sizeof end->why, "%s",
                   end->transport && end->transport->why ? end->transport->why : "");
    maybe_free(end, FREE_IN_CLOSED);
}

static const struct transport_events events = {
    .open = on_open, .data = on_data, .writable = on_writable, .closed = on_closed};

static void on_accept(struct transport *transport, void *arg)
{
    struct tls_kit *f = arg;

    f->n_accepted++;
    if (f->keep_second) {
        f->keep_second = false;
        f->second = f->server;
        f->second.transport->arg = &f->second;
    } else {
        transport_free(f->server.transport);
    }
    memset(&f->server, 0, offsetof(struct end, free_in));
    f->server.transport = transport;
    transport->events = &events;
    transport->arg = &f->server;
}

static void on_refused(const char *address, const char *why, void *arg)
{
    struct tls_kit *f = arg;

    assert_true(strncmp(address, "127.0.0.1:", 10) == 0);
    f->n_refused++;
    (void)snprintf(f->refused, sizeof f->refused, "%s", why);
}

static void on_news(enum tls_news news, const struct cert_identity *peer, const char *text,
                    void *arg)
{
    struct tls_kit *f = arg;

    assert_int_equal(news == TLS_CUT, peer != NULL);
    f->n_news[news]++;
    (void)snprintf(f->news_text, sizeof f->news_text, "%s", text);
}

void tls_kit_settle(struct tls_kit *f)
{
    for (int i = 0; i < 20; i++)
        loop_step(f->loop, 1);
}

int tls_kit_listen(char *ret_address, size_t size)
{
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t len = sizeof address;
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);

    assert_int_equal(bind(fd, (struct sockaddr *)&address, sizeof address), 0);
    assert_int_equal(listen(fd, 1024), 0);
    assert_int_equal(getsockname(fd, (struct sockaddr *)&address, &len), 0);
    (void)snprintf(ret_address, size, "127.0.0.1:%u", ntohs(address.sin_port));
    return fd;
}

static void start_port(struct tls_kit *f, const struct tls_files *files)
{
    const struct tls_protocol grpc = {.alpn = TLS_ALPN_GRPC,
                                      .kinds = CERT_USER | CERT_NODE | CERT_REPLICA,
                                      .accept = on_accept,
                                      .arg = f};
    const struct tls_protocol raft = {.alpn = TLS_ALPN_RAFT,
                                      .kinds = CERT_REPLICA,
                                      .accept = on_accept,
                                      .arg = f,
                                      .user_timeout_ms = 1000};
    struct err err = {{0}};
    int r = tls_keys_new(f->loop, files, on_news, f, &f->keys, &err);

    if (r < 0)
        fail_msg("%s", err.text);
    assert_int_equal(tls_port_new(f->loop, f->keys, on_refused, f, &f->port), 0);
    assert_int_equal(tls_port_protocol(f->port, &grpc), 0);
    assert_int_equal(tls_port_protocol(f->port, &raft), 0);
    f->listener = tls_kit_listen(f->address, sizeof f->address);
    assert_int_equal(tls_port_listen_fd(f->port, f->listener), 0);
}

void tls_kit_serve(struct tls_kit *f, const struct tls_files *files)
{
    transport_free(f->server.transport);
    f->server.transport = NULL;
    tls_port_free(f->port);
    tls_keys_free(f->keys);
    start_port(f, files);
}

int tls_kit_setup(void **state)
{
    struct tls_kit *f = calloc(1, sizeof *f);
    struct tls_files files;

    assert_non_null(f);
    assert_int_equal(loop_new(&f->loop), 0);
    f->events = &events;
    f->ca = ca_new("the CA");
    files = ca_replica(f->ca, "a");
    start_port(f, &files);
    *state = f;
    return 0;
}

int tls_kit_teardown(void **state)
{
    struct tls_kit *f = *state;

    transport_free(f->client.transport);
    transport_free(f->server.transport);
    transport_free(f->second.transport);
    tls_port_free(f->port);
    tls_keys_free(f->keys);
    ca_free(f->ca);
    loop_free(f->loop);
    free(f);
    return 0;
}

struct tls_keys *tls_kit_keys(struct tls_kit *f, const struct tls_files *files)
{
    struct tls_keys *keys;
    struct err err = {{0}};

    if (tls_keys_new(f->loop, files, NULL, NULL, &keys, &err) < 0)
        fail_msg("%s", err.text);
    return keys;
}

void tls_kit_connect(struct tls_kit *f, struct tls_keys *keys, const char *alpn, const char *peer)
{
    const struct tls_target target = {.address = f->address, .alpn = alpn, .peer = peer};

    transport_free(f->client.transport);
    memset(&f->client, 0, offsetof(struct end, free_in));
    assert_int_equal(tls_connect(f->loop, keys, &target, &events, &f->client, &f->client.transport),
                     0);
}

/* A user's client and the server's end of it. */
struct tls_keys *tls_kit_user(struct tls_kit *f)
{
    struct tls_files files = ca_user(f->ca, "alice");
    struct tls_keys *keys = tls_kit_keys(f, &files);

    tls_kit_connect(f, keys, TLS_ALPN_GRPC, CERT_URI_REPLICA);
    until(f, f->client.n_open && f->server.n_open);
    return keys;
}

void tls_kit_hang_up(struct tls_kit *f, struct tls_keys *keys)
{
    transport_free(f->client.transport);
    f->client.transport = NULL;
    tls_keys_free(keys);
}

/* Bytes that count up, beginning with from. */
const uint8_t *tls_kit_pattern(size_t from)
{
    static uint8_t bytes[4 * BIG + 256];

    for (size_t i = 0; i < sizeof bytes; i++)
        bytes[i] = (uint8_t)i;
    return bytes + from % 256;
}

int tls_kit_dial(const struct tls_kit *f)
{
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

    address.sin_port = htons((uint16_t)atoi(strrchr(f->address, ':') + 1));
    assert_int_equal(connect(fd, (struct sockaddr *)&address, sizeof address), 0);
    return fd;
}

void tls_kit_second(struct tls_kit *f, struct tls_keys *keys, struct end *end)
{
    const struct tls_target target = {
        .address = f->address, .alpn = TLS_ALPN_GRPC, .peer = CERT_URI_REPLICA};

    f->keep_second = true;
    assert_int_equal(tls_connect(f->loop, keys, &target, &events, end, &end->transport), 0);
    until(f, end->n_open == 1 && f->server.n_open == 1 && !f->keep_second);
}
