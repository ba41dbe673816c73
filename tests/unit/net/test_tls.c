/* What a transport promises, kept by TLS over TCP: both ends ours, on one loop. */
#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

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
        T(tls_not_reading_tells_nothing),
        T(tls_end_waits_for_a_reader),
        T(tls_half_close_goes_on_reading),
        T(tls_client_may_be_freed_in_any_event),
        T(tls_server_may_be_freed_in_open_data_closed),
        T(tls_peer_that_is_silent_is_asked_by_tcp),
    };
    return cmocka_run_group_tests_name("tls", tests, NULL, NULL);
}
