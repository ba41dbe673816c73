#include "common/net/transport.h"

#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <poll.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cmocka.h>

#include "common/net/loop.h"

enum {
    BIG = 1 << 20,
};

struct fixture {
    struct loop *loop;
    struct transport *transport;
    int peer;
    unsigned n_open, n_data, n_writable, n_closed;
    size_t n_bytes;
    int r;
    enum {
        FREE_NEVER,
        FREE_IN_OPEN,
        FREE_IN_DATA,
        FREE_IN_WRITABLE,
        FREE_IN_CLOSED,
    } free_in;
};

static void maybe_free(struct fixture *f, int here)
{
    if ((int)f->free_in != here)
        return;
    transport_free(f->transport);
    f->transport = NULL;
}

static void on_open(void *arg)
{
    struct fixture *f = arg;

    f->n_open++;
    maybe_free(f, FREE_IN_OPEN);
}

static void on_data(const uint8_t *data, size_t len, void *arg)
{
    struct fixture *f = arg;

    assert_true(len > 0);
    f->n_data++;
    for (size_t i = 0; i < len; i++)
        assert_int_equal(data[i], (uint8_t)(f->n_bytes + i));
    f->n_bytes += len;
    maybe_free(f, FREE_IN_DATA);
}

static void on_writable(void *arg)
{
    struct fixture *f = arg;

    f->n_writable++;
    maybe_free(f, FREE_IN_WRITABLE);
}

static void on_closed(int r, void *arg)
{
    struct fixture *f = arg;

    f->n_closed++;
    f->r = r;
    maybe_free(f, FREE_IN_CLOSED);
}

static const struct transport_events events = {
    .open = on_open, .data = on_data, .writable = on_writable, .closed = on_closed};

static int setup(void **state)
{
    struct fixture *f = calloc(1, sizeof *f);
    int pair[2];

    assert_non_null(f);
    assert_int_equal(loop_new(&f->loop), 0);
    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair), 0);
    assert_int_equal(transport_unix_new(f->loop, pair[0], &events, f, &f->transport), 0);
    f->peer = pair[1];
    *state = f;
    return 0;
}

static int teardown(void **state)
{
    struct fixture *f = *state;

    transport_free(f->transport);
    (void)close(f->peer);
    loop_free(f->loop);
    free(f);
    return 0;
}

/* Bytes that count up, beginning with from. */
static const uint8_t *pattern(size_t from)
{
    static uint8_t bytes[BIG + 256];

    for (size_t i = 0; i < sizeof bytes; i++)
        bytes[i] = (uint8_t)i;
    return bytes + from % 256;
}

static void settle(struct fixture *f)
{
    for (int i = 0; i < 20; i++)
        loop_step(f->loop, 0);
}

static void transport_opens_from_the_loop_and_knows_its_peer(void **state)
{
    struct fixture *f = *state;

    assert_int_equal(f->n_open, 0);
    settle(f);
    assert_int_equal(f->n_open, 1);
    assert_true(f->transport->peer.local);
    assert_int_equal(f->transport->peer.uid, getuid());
    assert_int_equal(f->transport->peer.gid, getgid());
    assert_int_equal(f->transport->peer.pid, getpid());
}

static void transport_carries_bytes_both_ways(void **state)
{
    struct fixture *f = *state;
    uint8_t in[16];

    settle(f);
    assert_int_equal(transport_write(f->transport, pattern(0), 10), 0);
    assert_int_equal(f->transport->written_bytes, 10);
    assert_int_equal(read(f->peer, in, sizeof in), 10);
    assert_memory_equal(in, pattern(0), 10);
    assert_int_equal(write(f->peer, pattern(0), 10), 10);
    settle(f);
    assert_int_equal(f->n_bytes, 10);
}

static void transport_blocked_write_follows_by_itself(void **state)
{
    struct fixture *f = *state;
    size_t got = 0;

    settle(f);
    assert_int_equal(transport_write(f->transport, pattern(0), BIG), TRANSPORT_BLOCKED);
    assert_true(f->transport->written_bytes < BIG);
    settle(f);
    assert_int_equal(f->n_writable, 0);
    while (got < BIG) {
        static uint8_t in[65536];
        ssize_t n = recv(f->peer, in, sizeof in, MSG_DONTWAIT);

        if (n < 0) {
            loop_step(f->loop, 10);
            continue;
        }
        assert_memory_equal(in, pattern(got), n);
        got += (size_t)n;
    }
    settle(f);
    assert_int_equal(f->n_writable, 1);
    assert_int_equal(f->transport->written_bytes, BIG);
    assert_int_equal(transport_write(f->transport, pattern(0), 1), 0);
}

static void transport_not_reading_leaves_bytes_where_they_are(void **state)
{
    struct fixture *f = *state;

    settle(f);
    transport_read(f->transport, false);
    assert_int_equal(write(f->peer, pattern(0), 10), 10);
    settle(f);
    assert_int_equal(f->n_bytes, 0);
    transport_read(f->transport, true);
    settle(f);
    assert_int_equal(f->n_bytes, 10);
}

static void transport_end_of_the_peer_comes_after_its_bytes(void **state)
{
    struct fixture *f = *state;

    assert_int_equal(write(f->peer, pattern(0), 10), 10);
    assert_int_equal(shutdown(f->peer, SHUT_WR), 0);
    settle(f);
    assert_int_equal(f->n_bytes, 10);
    assert_int_equal(f->n_closed, 1);
    assert_int_equal(f->r, 0);
    settle(f);
    assert_int_equal(f->n_closed, 1);
}

static void transport_reset_by_the_peer_comes_after_its_bytes(void **state)
{
    struct fixture *f = *state;
    static uint8_t many[150000];

    memcpy(many, pattern(0), sizeof many);
    settle(f);
    assert_int_equal(transport_write(f->transport, pattern(0), 10), 0); /* never read */
    assert_int_equal(send(f->peer, many, sizeof many, 0), sizeof many);
    (void)close(f->peer);
    f->peer = -1;
    settle(f);
    assert_int_equal(f->n_bytes, sizeof many);
    assert_int_equal(f->n_closed, 1);
    assert_int_equal(f->r, -ECONNRESET);
}

static void transport_write_to_a_peer_that_is_gone_fails(void **state)
{
    struct fixture *f = *state;

    settle(f);
    (void)close(f->peer);
    f->peer = -1;
    assert_int_equal(transport_write(f->transport, pattern(0), 10), -EPIPE);
}

static void transport_peer_gone_while_blocked_is_told(void **state)
{
    struct fixture *f = *state;

    settle(f);
    transport_read(f->transport, false);
    assert_int_equal(transport_write(f->transport, pattern(0), BIG), TRANSPORT_BLOCKED);
    (void)close(f->peer);
    f->peer = -1;
    settle(f);
    assert_int_equal(f->n_closed, 1);
    assert_true(f->r < 0);
    assert_int_equal(f->n_writable, 0);
}

static void transport_shutdown_lets_the_peer_read_to_the_end(void **state)
{
    struct fixture *f = *state;
    uint8_t in[16];

    settle(f);
    assert_int_equal(transport_write(f->transport, pattern(0), 10), 0);
    transport_shutdown(f->transport);
    assert_int_equal(read(f->peer, in, sizeof in), 10);
    assert_int_equal(read(f->peer, in, sizeof in), 0);
    assert_int_equal(write(f->peer, pattern(0), 10), 10);
    settle(f);
    assert_int_equal(f->n_bytes, 10);
}

static void transport_may_be_freed_in_any_event(void **state)
{
    struct fixture *f = *state;

    (void)f;
    for (int where = FREE_IN_OPEN; where <= FREE_IN_CLOSED; where++) {
        static uint8_t in[BIG];

        teardown(state);
        setup(state);
        f = *state;
        f->free_in = where;
        if (where == FREE_IN_WRITABLE)
            assert_int_equal(transport_write(f->transport, pattern(0), BIG), TRANSPORT_BLOCKED);
        assert_int_equal(write(f->peer, pattern(0), 10), 10);
        if (where == FREE_IN_CLOSED)
            assert_int_equal(shutdown(f->peer, SHUT_WR), 0);
        for (int i = 0; i < 100 && f->transport; i++) {
            loop_step(f->loop, 1);
            (void)!recv(f->peer, in, sizeof in, MSG_DONTWAIT);
        }
        assert_null(f->transport);
        settle(f);
    }
}

static void transport_of_another_family_is_refused(void **state)
{
    struct fixture *f = *state;
    struct transport *transport;
    int fd = socket(AF_INET, SOCK_STREAM, 0);

    assert_int_equal(transport_unix_new(f->loop, fd, &events, f, &transport), -EPROTOTYPE);
    assert_int_equal(fcntl(fd, F_GETFD), -1);
}

static void transport_connect_errors(void **state)
{
    struct fixture *f = *state;
    struct transport *transport;
    char path[200];

    assert_int_equal(transport_unix_connect(f->loop, "/nonexistent/s", &events, f, &transport),
                     -ENOENT);
    memset(path, 'x', sizeof path);
    path[sizeof path - 1] = '\0';
    assert_int_equal(transport_unix_connect(f->loop, path, &events, f, &transport), -ENAMETOOLONG);
}

int main(void)
{
#define T(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
    const struct CMUnitTest tests[] = {
        T(transport_opens_from_the_loop_and_knows_its_peer),
        T(transport_carries_bytes_both_ways),
        T(transport_blocked_write_follows_by_itself),
        T(transport_not_reading_leaves_bytes_where_they_are),
        T(transport_end_of_the_peer_comes_after_its_bytes),
        T(transport_reset_by_the_peer_comes_after_its_bytes),
        T(transport_write_to_a_peer_that_is_gone_fails),
        T(transport_peer_gone_while_blocked_is_told),
        T(transport_shutdown_lets_the_peer_read_to_the_end),
        T(transport_may_be_freed_in_any_event),
        T(transport_of_another_family_is_refused),
        T(transport_connect_errors),
    };
    return cmocka_run_group_tests_name("transport", tests, NULL, NULL);
}
