/* Whom one replica goes on asking, over TLS as itself. */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "leased/engine/replica.h"
#include "leased/server_ask.h"
#include "tests/unit/net/tls_kit.h"

struct answer {
    unsigned n;
    int r;
};

/* Another replica, that takes whatever it is asked and never answers. */
struct mute {
    const char *name;
    struct tls_keys *keys;
    struct tls_port *port;
    char address[64];
    struct transport *transport;
    size_t n_bytes;
    unsigned n_closed;
};

static void on_open(void *arg)
{
    (void)arg;
}

static void on_data(const uint8_t *data, size_t len, void *arg)
{
    struct mute *mute = arg;

    (void)data;
    mute->n_bytes += len;
}

static void on_closed(int r, void *arg)
{
    struct mute *mute = arg;

    (void)r;
    mute->n_closed++;
}

static void on_accept(struct transport *transport, void *arg)
{
    static const struct transport_events events = {
        .open = on_open, .data = on_data, .writable = on_open, .closed = on_closed};
    struct mute *mute = arg;

    mute->transport = transport;
    transport->events = &events;
    transport->arg = mute;
}

static void begin(struct tls_kit *f, struct mute *mute, const char *name)
{
    const struct tls_protocol h2 = {
        .alpn = TLS_ALPN_GRPC, .kinds = CERT_REPLICA, .accept = on_accept, .arg = mute};
    struct tls_files files = ca_replica(f->ca, name);

    mute->name = name;
    mute->keys = tls_kit_keys(f, &files);
    assert_int_equal(tls_port_new(f->loop, mute->keys, NULL, NULL, &mute->port), 0);
    assert_int_equal(tls_port_protocol(mute->port, &h2), 0);
    assert_int_equal(
        tls_port_listen_fd(mute->port, tls_kit_listen(mute->address, sizeof mute->address)), 0);
}

static void end(struct mute *mute)
{
    transport_free(mute->transport);
    tls_port_free(mute->port);
    tls_keys_free(mute->keys);
}

static void answered(int r, const uint8_t *bytes, size_t len, const char *why, void *arg)
{
    struct answer *answer = arg;

    (void)bytes, (void)len, (void)why;
    answer->n++;
    answer->r = r;
}

static struct replica_status members(const char *name, const char *other)
{
    struct replica_status status = {.n_members = 2};

    (void)snprintf(status.members[0].name, sizeof status.members[0].name, "%s", name);
    (void)snprintf(status.members[1].name, sizeof status.members[1].name, "%s", other);
    return status;
}

static void ask(const struct mute *mute, struct server_ask *asking, struct answer *answer)
{
    server_ask_replica(&(struct service_question){.method = "/xce.v1.ClusterService/Past",
                                                  .name = mute->name,
                                                  .address = mute->address,
                                                  .bytes = (const uint8_t *)"",
                                                  .timeout_ms = 10 * WAIT_MS},
                       answered, answer, asking);
}

static void server_ask_of_who_is_removed_hangs_up(void **state)
{
    struct tls_kit *f = *state;
    struct tls_files files = ca_replica(f->ca, "b");
    struct tls_keys *keys = tls_kit_keys(f, &files);
    struct replica_status before = members("a", "c"), after = members("a", "d");
    struct answer of_a = {0}, of_c = {0};
    struct mute a = {0}, c = {0};
    struct server_ask *asking;

    begin(f, &a, "a");
    begin(f, &c, "c");
    assert_int_equal(server_ask_new(f->loop, keys, &asking), 0);
    ask(&a, asking, &of_a);
    until(f, a.n_bytes > 0);
    ask(&c, asking, &of_c);
    until(f, c.n_bytes > 0);
    server_ask_keep(asking, &before);
    tls_kit_settle(f);
    assert_int_equal(of_c.n, 0);
    server_ask_keep(asking, &after);
    assert_int_equal(of_c.n, 0);
    until(f, of_c.n == 1 && c.n_closed == 1);
    assert_int_equal(of_c.r, -EHOSTUNREACH);
    /* Who was asked earlier and stays would have been given up as silent before. */
    assert_int_equal(of_a.n, 0);
    server_ask_free(asking);
    end(&a);
    end(&c);
    tls_keys_free(keys);
    tls_kit_settle(f);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(server_ask_of_who_is_removed_hangs_up, tls_kit_setup,
                                        tls_kit_teardown),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
