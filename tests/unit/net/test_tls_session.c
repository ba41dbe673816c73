/* TLS without a socket: two sessions whose bytes the test carries, whole or one by one. */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "common/net/tls.h"
#include "tests/lib/ca.h"

enum {
    PLAIN = 128 * 1024,
    BIG = 3 << 20,
};

struct side {
    struct tls_session *session;
    int r; /* the last, or the first that was not 0 */
    uint8_t *got;
    size_t n_got;
};

struct fixture {
    struct ca *ca;
    struct tls_context *user, *replica;
    struct side client, server;
};

static const char *const alpns[] = {"h2", NULL};

static struct tls_context *context_of(const struct tls_files *files)
{
    struct tls_context *context;
    struct err err = {{0}};

    if (tls_context_new(files, &context, &err) < 0)
        fail_msg("%s", err.text);
    return context;
}

static int setup(void **state)
{
    const struct tls_session_options client = {.alpns = alpns, .peer = "xce://replica/a"};
    const struct tls_session_options server = {.server = true, .alpns = alpns};
    struct fixture *f = calloc(1, sizeof *f);
    struct tls_files files;

    assert_non_null(f);
    f->ca = ca_new("the CA");
    files = ca_user(f->ca, "alice");
    f->user = context_of(&files);
    files = ca_replica(f->ca, "a");
    f->replica = context_of(&files);
    assert_int_equal(tls_session_new(f->user, &client, &f->client.session), 0);
    assert_int_equal(tls_session_new(f->replica, &server, &f->server.session), 0);
    f->client.got = malloc(BIG + PLAIN);
    f->server.got = malloc(BIG + PLAIN);
    *state = f;
    return 0;
}

static int teardown(void **state)
{
    struct fixture *f = *state;

    tls_session_free(f->client.session);
    tls_session_free(f->server.session);
    tls_context_unref(f->user);
    tls_context_unref(f->replica);
    ca_free(f->ca);
    free(f->client.got);
    free(f->server.got);
    free(f);
    return 0;
}

static void receive(struct side *side, const uint8_t *in, size_t len)
{
    size_t n;
    int r = tls_session_receive(side->session, in, len, side->got + side->n_got, PLAIN, &n);

    side->n_got += n;
    if (side->r == 0)
        side->r = r;
}

/* Carry what one owes to the other in pieces of at most so many bytes. */
static bool carry(struct side *from, struct side *to, size_t piece)
{
    size_t len;
    const uint8_t *out = tls_session_out(from->session, &len);

    if (len == 0)
        return false;
    if (len > piece)
        len = piece;
    receive(to, out, len);
    tls_session_sent(from->session, len);
    return true;
}

static void carry_all(struct fixture *f, size_t piece)
{
    bool more = true;

    while (more) {
        more = carry(&f->client, &f->server, piece);
        more |= carry(&f->server, &f->client, piece);
    }
}

static void shake_hands(struct fixture *f, size_t piece)
{
    receive(&f->client, NULL, 0);
    carry_all(f, piece);
    assert_int_equal(f->client.r, 0);
    assert_int_equal(f->server.r, 0);
    assert_true(tls_session_open(f->client.session));
    assert_true(tls_session_open(f->server.session));
}

static void session_handshake_byte_by_byte_opens_both(void **state)
{
    struct fixture *f = *state;

    shake_hands(f, 1);
    assert_string_equal(tls_session_alpn(f->client.session), "h2");
    assert_string_equal(tls_session_alpn(f->server.session), "h2");
    assert_int_equal(tls_session_peer(f->server.session)->kind, CERT_USER);
    assert_string_equal(tls_session_peer(f->server.session)->name, "alice");
    assert_string_equal(tls_session_peer(f->client.session)->name, "a");
}

static void session_data_byte_by_byte_arrives(void **state)
{
    struct fixture *f = *state;

    shake_hands(f, SIZE_MAX);
    assert_int_equal(tls_session_send(f->client.session, (const uint8_t *)"hello", 5), 0);
    assert_int_equal(tls_session_send(f->client.session, (const uint8_t *)" there", 6), 0);
    carry_all(f, 1);
    assert_int_equal(f->server.n_got, 11);
    assert_memory_equal(f->server.got, "hello there", 11);
}

static void session_huge_write_arrives_whole(void **state)
{
    struct fixture *f = *state;
    uint8_t *big = malloc(BIG);

    for (size_t i = 0; i < BIG; i++)
        big[i] = (uint8_t)(i * 7 + i / 251);
    shake_hands(f, SIZE_MAX);
    assert_int_equal(tls_session_send(f->client.session, big, BIG), 0);
    carry_all(f, PLAIN - TLS_RECEIVE_EXTRA);
    assert_int_equal(f->server.n_got, BIG);
    assert_memory_equal(f->server.got, big, BIG);
    free(big);
}

static void session_close_notify_is_the_end_and_writing_goes_on(void **state)
{
    struct fixture *f = *state;

    shake_hands(f, SIZE_MAX);
    assert_int_equal(tls_session_send(f->client.session, (const uint8_t *)"last", 4), 0);
    tls_session_end(f->client.session);
    carry_all(f, SIZE_MAX);
    assert_int_equal(f->server.r, TLS_END);
    assert_int_equal(f->server.n_got, 4);
    assert_int_equal(tls_session_send(f->server.session, (const uint8_t *)"answer", 6), 0);
    carry_all(f, SIZE_MAX);
    assert_int_equal(f->client.n_got, 6);
}

static void session_flipped_byte_fails(void **state)
{
    struct fixture *f = *state;
    uint8_t copy[64];
    const uint8_t *out;
    size_t len;

    shake_hands(f, SIZE_MAX);
    assert_int_equal(tls_session_send(f->client.session, (const uint8_t *)"hello", 5), 0);
    out = tls_session_out(f->client.session, &len);
    assert_true(len <= sizeof copy);
    memcpy(copy, out, len);
    copy[len - 1] ^= 1;
    receive(&f->server, copy, len);
    assert_int_equal(f->server.r, -EPROTO);
    assert_int_equal(f->server.n_got, 0);
    assert_string_not_equal(tls_session_why(f->server.session), "");
    /* The alert; and nothing is taken any more. */
    carry_all(f, SIZE_MAX);
    assert_int_equal(f->client.r, -EPROTO);
    receive(&f->server, copy, len);
    assert_int_equal(f->server.n_got, 0);
}

static void session_has_no_tickets_and_until_is_the_first_end_of_the_chain(void **state)
{
    struct fixture *f = *state;
    size_t len;

    shake_hands(f, SIZE_MAX);
    (void)tls_session_out(f->server.session, &len);
    assert_int_equal(len, 0);
    assert_int_equal(tls_session_until_ms(f->server.session),
                     tls_session_peer(f->server.session)->not_after_ms);
}

static void session_garbage_is_refused_with_bounded_memory(void **state)
{
    struct fixture *f = *state;
    uint8_t garbage[4096];
    size_t len;

    for (size_t i = 0; i < sizeof garbage; i++)
        garbage[i] = (uint8_t)(i * 31 + 5);
    receive(&f->server, garbage, sizeof garbage);
    assert_int_equal(f->server.r, -EPROTO);
    (void)tls_session_out(f->server.session, &len);
    assert_true(len < 64);
}

int main(void)
{
#define T(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
    const struct CMUnitTest tests[] = {
        T(session_handshake_byte_by_byte_opens_both),
        T(session_data_byte_by_byte_arrives),
        T(session_huge_write_arrives_whole),
        T(session_close_notify_is_the_end_and_writing_goes_on),
        T(session_flipped_byte_fails),
        T(session_has_no_tickets_and_until_is_the_first_end_of_the_chain),
        T(session_garbage_is_refused_with_bounded_memory),
    };
    return cmocka_run_group_tests_name("tls_session", tests, NULL, NULL);
}
