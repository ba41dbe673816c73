/* Each allocation of a TLS connection fails once, on either side: what was under way ends and is told, nothing leaks, and the
 * port serves on. */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "tests/lib/fault.h"
#include "tests/unit/net/tls_kit.h"

static struct tls_files files;

/* Keys, a connection, ten bytes there, the end. What fails is left at that. Whether the bytes arrived. */
static bool run_connection(struct tls_kit *f)
{
    const struct tls_target target = {
        .address = f->address, .alpn = TLS_ALPN_GRPC, .peer = CERT_URI_REPLICA};
    struct tls_keys *keys;
    bool arrived = false;

    memset(&f->client, 0, sizeof f->client);
    if (tls_keys_new(f->loop, &files, NULL, NULL, &keys, NULL) < 0)
        return false;
    if (tls_connect(f->loop, keys, &target, f->events, &f->client, &f->client.transport) == 0) {
        until(f, f->client.n_open || f->client.n_closed);
        /* A write that fails is told by its answer alone. */
        if (!f->client.n_closed &&
            transport_write(f->client.transport, tls_kit_pattern(0), 10) == 0)
            until(f, f->client.n_closed || f->server.n_bytes == 10 || f->server.n_closed);
        arrived = f->server.n_bytes == 10;
        transport_free(f->client.transport);
        f->client.transport = NULL;
    }
    tls_keys_free(keys);
    transport_free(f->server.transport);
    memset(&f->server, 0, sizeof f->server);
    tls_kit_settle(f);
    return arrived;
}

static void connection_ends_well_whichever_allocation_fails(void **state)
{
    struct tls_kit *f = *state;
    bool struck, arrived;
    unsigned n = 0;

    files = ca_user(f->ca, "alice");
    do {
        fault_memory(++n);
        arrived = run_connection(f);
        struck = fault_end();
    } while (struck);
    assert_true(arrived);
    assert_true(n > 30);
    assert_true(run_connection(f));
}

static void reload_that_fails_for_memory_keeps_what_there_was(void **state)
{
    struct tls_kit *f = *state;
    struct tls_keys *keys = tls_kit_user(f);
    unsigned n = 0;
    bool struck;

    do {
        int r;

        fault_memory(++n);
        r = tls_keys_reload(f->keys, NULL, NULL);
        struck = fault_end();
        assert_true(r == 0 || struck);
        assert_string_equal(tls_keys_identity(f->keys)->name, "a");
    } while (struck);
    assert_int_equal(transport_write(f->client.transport, tls_kit_pattern(0), 10), 0);
    until(f, f->server.n_bytes == 10);
    tls_kit_hang_up(f, keys);
}

int main(void)
{
#define T(name) cmocka_unit_test_setup_teardown(name, tls_kit_setup, tls_kit_teardown)
    const struct CMUnitTest tests[] = {
        T(connection_ends_well_whichever_allocation_fails),
        T(reload_that_fails_for_memory_keeps_what_there_was),
    };
    return cmocka_run_group_tests_name("tls_memory", tests, NULL, NULL);
}
