/* What a transport promises, kept by TLS over TCP: both ends ours, on one loop. */
#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cmocka.h>

#include "common/net/tcp.h"
#include "tests/unit/net/tls_kit.h"

/* ---- what a transport promises ---- */

static void tls_both_ends_know_each_other(void **state)
{
    struct tls_kit *f = *state;
    struct tls_keys *keys = tls_kit_user(f);

    assert_string_equal(f->server.who, "user alice");
    assert_string_equal(f->client.who, "replica a");
    assert_false(f->server.transport->peer.local);
    assert_int_equal(f->n_refused, 0);
    tls_kit_hang_up(f, keys);
}

static void tls_carries_bytes_both_ways(void **state)
{
    struct tls_kit *f = *state;
    struct tls_keys *keys = tls_kit_user(f);

    assert_int_equal(transport_write(f->client.transport, tls_kit_pattern(0), 10), 0);
    assert_int_equal(f->client.transport->written_bytes, 10);
    assert_int_equal(transport_write(f->server.transport, tls_kit_pattern(0), 100), 0);
    until(f, f->server.n_bytes == 10 && f->client.n_bytes == 100);
    tls_kit_hang_up(f, keys);
}

static void tls_blocked_write_follows_by_itself(void **state)
{
    struct tls_kit *f = *state;
    struct tls_keys *keys = tls_kit_user(f);
    size_t given = 0;

    transport_read(f->server.transport, false);
    /* The kernel's buffers take some megabytes on loopback. */
    for (;;) {
        int r = transport_write(f->client.transport, tls_kit_pattern(given), 4 * BIG);

        given += 4 * BIG;
        if (r == TRANSPORT_BLOCKED)
            break;
        assert_int_equal(r, 0);
        assert_true(given < 400u * BIG);
    }
    assert_true(f->client.transport->written_bytes < given);
    tls_kit_settle(f);
    assert_int_equal(f->client.n_writable, 0);
    transport_read(f->server.transport, true);
    until(f, f->client.n_writable == 1);
    until(f, f->server.n_bytes == given);
    assert_int_equal(f->client.transport->written_bytes, given);
    assert_int_equal(transport_write(f->client.transport, tls_kit_pattern(given), 1), 0);
    tls_kit_hang_up(f, keys);
}

/* One moment in which the loop finds two descriptors ready: `first`, then the client's socket. */
struct moment {
    int first, client, server;
};

/* The socket of the client, or the server's, on the one connection there is. */
static int socket_of(const struct tls_kit *f, bool client)
{
    in_port_t port = htons((uint16_t)atoi(strrchr(f->address, ':') + 1));

    for (int fd = 0; fd < 1024; fd++) {
        struct sockaddr_in own, peer;
        socklen_t own_len = sizeof own, peer_len = sizeof peer;

        if (getpeername(fd, (struct sockaddr *)&peer, &peer_len) == 0 &&
            getsockname(fd, (struct sockaddr *)&own, &own_len) == 0 && peer.sin_family == AF_INET &&
            (client ? peer : own).sin_port == port)
            return fd;
    }
    fail_msg("no such socket");
    return -1;
}

static bool is_ready(int fd, short events, int timeout_ms)
{
    struct pollfd pollfd = {.fd = fd, .events = events};

    return poll(&pollfd, 1, timeout_ms) == 1 && (pollfd.revents & events);
}

/* The peer takes bytes until the client's socket has room again, which the loop has not seen yet. */
static void take_some(int fd, unsigned events, void *arg)
{
    struct moment *moment = arg;
    int64_t end_ms = loop_now_fresh_ms() + WAIT_MS;
    static uint8_t in[BIG];
    uint64_t n;

    (void)events;
    assert_int_equal(read(fd, &n, sizeof n), sizeof n);
    while (!is_ready(moment->client, POLLOUT, 1)) {
        assert_true(loop_now_fresh_ms() < end_ms);
        (void)recv(moment->server, in, sizeof in, MSG_DONTWAIT);
    }
}

/* A socket that was full when the loop asked has room by the time that bytes which came are read. What was owed leaves with
 * them, and the writer still has to be told. */
static void tls_blocked_write_that_leaves_while_reading_is_told(void **state)
{
    struct tls_kit *f = *state;
    struct tls_keys *keys = tls_kit_user(f);
    struct moment moment = {eventfd(0, EFD_CLOEXEC), socket_of(f, true), socket_of(f, false)};
    struct loop_poll *first;
    size_t given = 0;

    assert_int_equal(loop_poll_new(f->loop, moment.first, POLLIN, take_some, &moment, &first), 0);
    transport_read(f->server.transport, false);
    /* Little pieces: little is owed. The kernel may yet take it while its buffers grow. */
    do {
        f->client.n_writable = 0;
        while (transport_write(f->client.transport, tls_kit_pattern(given), 4096) == 0)
            given += 4096;
        given += 4096;
        tls_kit_settle(f);
    } while (f->client.n_writable > 0);
    assert_true(f->client.transport->written_bytes < given);

    assert_int_equal(eventfd_write(moment.first, 1), 0);
    assert_int_equal(transport_write(f->server.transport, tls_kit_pattern(0), 1), 0);
    assert_true(is_ready(moment.client, POLLIN, WAIT_MS));
    until(f, f->client.n_bytes == 1);
    assert_int_equal(f->client.transport->written_bytes, given);
    until(f, f->client.n_writable == 1);

    loop_poll_free(first);
    (void)close(moment.first);
    tls_kit_hang_up(f, keys);
}

static void tls_not_reading_tells_nothing(void **state)
{
    struct tls_kit *f = *state;
    struct tls_keys *keys = tls_kit_user(f);

    transport_read(f->server.transport, false);
    assert_int_equal(transport_write(f->client.transport, tls_kit_pattern(0), 10), 0);
    tls_kit_settle(f);
    assert_int_equal(f->server.n_bytes, 0);
    transport_read(f->server.transport, true);
    until(f, f->server.n_bytes == 10);
    tls_kit_hang_up(f, keys);
}

static void tls_end_waits_for_a_reader(void **state)
{
    struct tls_kit *f = *state;
    struct tls_keys *keys = tls_kit_user(f);

    f->server.pause_in_data = true;
    assert_int_equal(transport_write(f->client.transport, tls_kit_pattern(0), 10), 0);
    transport_shutdown(f->client.transport);
    until(f, f->server.n_bytes == 10);
    tls_kit_settle(f);
    assert_int_equal(f->server.n_closed, 0);
    transport_read(f->server.transport, true);
    assert_int_equal(f->server.n_closed, 0);
    until(f, f->server.n_closed == 1);
    assert_int_equal(f->server.r, 0);
    f->server.pause_in_data = false;
    tls_kit_hang_up(f, keys);
}

static void tls_half_close_goes_on_reading(void **state)
{
    struct tls_kit *f = *state;
    struct tls_keys *keys = tls_kit_user(f);
    struct transport *server = f->server.transport;

    /* The server ends its direction; the client hears the end and has nothing to say back, but may be asked before. */
    transport_shutdown(server);
    assert_int_equal(transport_write(f->client.transport, tls_kit_pattern(0), 10), 0);
    until(f, f->server.n_bytes == 10 && f->client.n_closed == 1);
    assert_int_equal(f->client.r, 0);
    tls_kit_hang_up(f, keys);
    until(f, f->server.n_closed == 1);
    assert_int_equal(f->server.r, 0);
}

static void make_it_come(struct tls_kit *f, int where)
{
    if (where == FREE_IN_DATA)
        assert_int_equal(transport_write(f->server.transport, tls_kit_pattern(0), 10), 0);
    else if (where == FREE_IN_CLOSED)
        transport_shutdown(f->server.transport);
    else
        while (transport_write(f->client.transport, tls_kit_pattern(0), BIG) != TRANSPORT_BLOCKED)
            ;
}

static void tls_client_may_be_freed_in_any_event(void **state)
{
    struct tls_kit *f = *state;
    unsigned n = 0;

    for (int where = FREE_IN_OPEN; where <= FREE_IN_CLOSED; where++) {
        struct tls_files files = ca_user(f->ca, "alice");
        struct tls_keys *keys = tls_kit_keys(f, &files);

        n++;
        f->client.free_in = where;
        tls_kit_connect(f, keys, TLS_ALPN_GRPC, CERT_URI_REPLICA);
        if (where != FREE_IN_OPEN) {
            until(f, f->client.n_open && f->n_accepted == n && f->server.n_open);
            make_it_come(f, where);
        }
        until(f, !f->client.transport);
        until(f, f->n_accepted == n && f->server.n_closed);
        f->client.free_in = FREE_NEVER;
        tls_keys_free(keys);
    }
}

static void tls_server_may_be_freed_in_open_data_closed(void **state)
{
    static const int places[] = {FREE_IN_OPEN, FREE_IN_DATA, FREE_IN_CLOSED};
    struct tls_kit *f = *state;

    for (size_t i = 0; i < sizeof places / sizeof *places; i++) {
        struct tls_files files = ca_user(f->ca, "alice");
        struct tls_keys *keys = tls_kit_keys(f, &files);

        f->server.free_in = places[i];
        tls_kit_connect(f, keys, TLS_ALPN_GRPC, CERT_URI_REPLICA);
        until(f, f->client.n_open);
        if (places[i] != FREE_IN_OPEN)
            assert_int_equal(transport_write(f->client.transport, tls_kit_pattern(0), 10), 0);
        if (places[i] == FREE_IN_CLOSED)
            transport_shutdown(f->client.transport);
        until(f, f->n_accepted == i + 1 && !f->server.transport);
        until(f, f->client.n_closed);
        f->server.free_in = FREE_NEVER;
        tls_kit_hang_up(f, keys);
    }
}

/* How many connected TCP sockets this process has; each must be kept alive. */
static unsigned count_kept_alive(void)
{
    static const struct {
        int level, name, value;
    } want[] = {{SOL_SOCKET, SO_KEEPALIVE, 1},
                {IPPROTO_TCP, TCP_KEEPIDLE, TCP_KEEP_IDLE_S},
                {IPPROTO_TCP, TCP_KEEPINTVL, TCP_KEEP_PROBE_S},
                {IPPROTO_TCP, TCP_KEEPCNT, TCP_KEEP_PROBES},
                {IPPROTO_TCP, TCP_NODELAY, 1}};
    unsigned n = 0;

    for (int fd = 0; fd < 1024; fd++) {
        struct sockaddr_in peer;
        socklen_t len = sizeof peer;

        if (getpeername(fd, (struct sockaddr *)&peer, &len) < 0 || peer.sin_family != AF_INET)
            continue;
        for (size_t i = 0; i < sizeof want / sizeof *want; i++) {
            int value = 0;

            len = sizeof value;
            assert_int_equal(getsockopt(fd, want[i].level, want[i].name, &value, &len), 0);
            assert_int_equal(value, want[i].value);
        }
        n++;
    }
    return n;
}

/* Who lost power says nothing any more: an idle connection would stay, and count, for ever. */
static void tls_peer_that_is_silent_is_asked_by_tcp(void **state)
{
    struct tls_kit *f = *state;
    struct tls_keys *keys = tls_kit_user(f);

    assert_int_equal(count_kept_alive(), 2);
    tls_kit_hang_up(f, keys);
}

int main(void)
{
#define T(name) cmocka_unit_test_setup_teardown(name, tls_kit_setup, tls_kit_teardown)
    const struct CMUnitTest tests[] = {
        T(tls_both_ends_know_each_other),
        T(tls_carries_bytes_both_ways),
        T(tls_blocked_write_follows_by_itself),
        T(tls_blocked_write_that_leaves_while_reading_is_told),
        T(tls_not_reading_tells_nothing),
        T(tls_end_waits_for_a_reader),
        T(tls_half_close_goes_on_reading),
        T(tls_client_may_be_freed_in_any_event),
        T(tls_server_may_be_freed_in_open_data_closed),
        T(tls_peer_that_is_silent_is_asked_by_tcp),
    };
    return cmocka_run_group_tests_name("tls", tests, NULL, NULL);
}
