/* Whom TLS lets in, and what it says of those whom it does not; and what happens to streams when that changes. */
#include <errno.h>
#include <fcntl.h>
#include <openssl/ssl.h>
#include <openssl/x509v3.h>
#include <poll.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#include "tests/lib/tmp.h"
#include "tests/unit/net/tls_kit.h"

/* ---- a client of OpenSSL's own, that shows whatever it is given ---- */

struct odd {
    SSL_CTX *context;
    SSL *ssl;
    int fd;
};

/* files NULL = no certificate; alpn in the wire's form, NULL = none. */
static void odd_start(struct tls_kit *f, struct odd *odd, const struct tls_files *files,
                      const char *alpn, int version)
{
    odd->context = SSL_CTX_new(TLS_client_method());
    odd->ssl = SSL_new(odd->context);
    SSL_set_security_level(odd->ssl, 0);
    assert_int_equal(SSL_set_max_proto_version(odd->ssl, version), 1);
    if (files) {
        assert_int_equal(SSL_use_certificate_chain_file(odd->ssl, files->certificate), 1);
        assert_int_equal(SSL_use_PrivateKey_file(odd->ssl, files->key, SSL_FILETYPE_PEM), 1);
    }
    if (alpn)
        assert_int_equal(
            SSL_set_alpn_protos(odd->ssl, (const unsigned char *)alpn, (unsigned)strlen(alpn)), 0);
    odd->fd = tls_kit_dial(f);
    assert_int_equal(fcntl(odd->fd, F_SETFL, O_NONBLOCK), 0);
    assert_int_equal(SSL_set_fd(odd->ssl, odd->fd), 1);
    f->n_refused = f->n_accepted = 0;
    f->refused[0] = '\0';
}

static void odd_end(struct odd *odd)
{
    SSL_free(odd->ssl);
    SSL_CTX_free(odd->context);
    (void)close(odd->fd);
}

static bool wants(const struct odd *odd, int n)
{
    return n != 1 && SSL_get_error(odd->ssl, n) == SSL_ERROR_WANT_READ;
}

/* Until the port has refused it, saying why, and it has read an alert. */
static void expect_refusal(struct tls_kit *f, struct odd *odd, const char *why)
{
    char byte;
    int n;

    until(f, (n = SSL_connect(odd->ssl), !wants(odd, n)));
    if (n == 1)
        until(f, (n = SSL_read(odd->ssl, &byte, 1), !wants(odd, n)));
    assert_int_equal(SSL_get_error(odd->ssl, n), SSL_ERROR_SSL);
    until(f, f->n_refused == 1);
    assert_int_equal(f->n_accepted, 0);
    if (!strstr(f->refused, why))
        fail_msg("\"%s\" does not say \"%s\"", f->refused, why);
    odd_end(odd);
}

static void expect_refused(struct tls_kit *f, const struct tls_files *files, const char *why)
{
    struct odd odd;

    odd_start(f, &odd, files, "\2h2", TLS1_3_VERSION);
    expect_refusal(f, &odd, why);
}

/* ---- whom the port refuses ---- */

static void refusal_of_wrong_chains_and_dates(void **state)
{
    struct tls_kit *f = *state;
    struct ca *other = ca_new("the CA");
    struct tls_files files = ca_user(other, "alice");

    expect_refused(f, &files, "certificate signature failure");
    ca_free(other);
    other = ca_new("another CA");
    files = ca_user(other, "alice");
    expect_refused(f, &files, "unable to get local issuer certificate");
    ca_free(other);
    files = ca_issue(f->ca, "old",
                     &(struct ca_spec){.cn = "alice", .from_s = -7200, .until_s = -60});
    expect_refused(f, &files, "certificate has expired (/CN=alice)");
    files = ca_issue(f->ca, "new",
                     &(struct ca_spec){.cn = "alice", .from_s = 3600, .until_s = 7200});
    expect_refused(f, &files, "certificate is not yet valid");
}

static void refusal_of_wrong_uses(void **state)
{
    struct tls_kit *f = *state;
    struct tls_files files;

    files = ca_issue(f->ca, "x", &(struct ca_spec){.cn = "alice", .use = "serverAuth"});
    expect_refused(f, &files, "purpose");
    files = ca_issue(f->ca, "x", &(struct ca_spec){.cn = "alice", .use = "emailProtection"});
    expect_refused(f, &files, "purpose");
    files = ca_issue(f->ca, "x", &(struct ca_spec){.cn = "alice", .use = "anyExtendedKeyUsage"});
    expect_refused(f, &files, "purpose");
    files = ca_issue(f->ca, "x", &(struct ca_spec){.cn = "alice", .use = ""});
    expect_refused(f, &files, "the extended key usage is not clientAuth");
}

static void refusal_of_names(void **state)
{
    static const char *const groups[] = {"physics", "", NULL};
    static const char long_name[] =
        "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa";
    static const struct {
        struct ca_spec spec;
        const char *why;
    } cases[] = {
        {{.cn = ""}, "CN: is empty"},
        {{.cn = NULL}, "the subject has no CN"},
        {{.cn = "root\0.example", .cn_len = 13}, "CN: holds a NUL byte"},
        {{.cn = "al\nice"}, "CN: holds a control character"},
        {{.cn = "al\xff", .cn_len = 3, .cn_type = V_ASN1_PRINTABLESTRING}, "CN: is not UTF-8"},
        {{.cn = long_name}, "CN: "},
        {{.cn = "alice", .cn2 = "root"}, "more than one CN"},
        {{.cn = "alice bob"}, "CN: "},
        {{.cn = "alice", .cn_type = V_ASN1_T61STRING}, "ASN.1 type"},
        {{.cn = "alice", .groups = groups}, "O: is empty"},
        {{.cn = "alice", .uri = "xce://admin/x"}, "neither xce://replica/ID nor"},
        {{.cn = "alice", .uri = "XCE://node/x"}, "neither xce://replica/ID nor"},
        {{.cn = "alice", .uri = "xce:node/x"}, "neither xce://replica/ID nor"},
        {{.cn = "alice", .uri = "xce://node/"}, "xce://node/: "},
        {{.cn = "alice", .uri = "xce://node/a/b"}, "xce://node/a/b: "},
        {{.cn = "alice", .uri = "xce://node/a\0b", .uri_len = 14}, "a URI holds a NUL byte"},
        {{.cn = "alice", .uri = "\0xce://node/a", .uri_len = 13}, "a URI holds a NUL byte"},
        {{.cn = "alice", .uri = "xce://node/a", .uri2 = "xce://replica/a"}, "more than one xce://"},
    };
    struct tls_kit *f = *state;

    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct tls_files files = ca_issue(f->ca, "x", &cases[i].spec);

        expect_refused(f, &files, cases[i].why);
    }
}

static void refusal_of_no_certificate_old_tls_and_no_protocol(void **state)
{
    struct tls_kit *f = *state;
    struct tls_files files = ca_user(f->ca, "alice");
    struct odd odd;
    char in[64];
    int fd;

    odd_start(f, &odd, NULL, "\2h2", TLS1_3_VERSION);
    expect_refusal(f, &odd, "shows no certificate");
    odd_start(f, &odd, &files, "\2h2", TLS1_2_VERSION);
    expect_refusal(f, &odd, "speaks no TLS 1.3");
    odd_start(f, &odd, &files, "\10http/1.1", TLS1_3_VERSION);
    expect_refusal(f, &odd, "offers no protocol that is served here (ALPN)");
    /* Without ALPN nobody knows what is meant: the connection just ends. */
    odd_start(f, &odd, &files, NULL, TLS1_3_VERSION);
    until(f, (SSL_connect(odd.ssl), f->n_refused == 1));
    assert_string_equal(f->refused, "offers no protocol (ALPN)");
    odd_end(&odd);
    fd = tls_kit_dial(f);
    f->n_refused = 0;
    assert_int_equal(write(fd, "GET / HTTP/1.1\r\n\r\n", 18), 18);
    until(f, f->n_refused == 1);
    assert_string_equal(f->refused, "speaks HTTP without TLS");
    until(f, recv(fd, in, sizeof in, MSG_DONTWAIT) == 0);
    (void)close(fd);
}

/* Roles: what a certificate says, not what its holder would like. */
static void refusal_of_raft_for_all_but_replicas(void **state)
{
    struct tls_kit *f = *state;
    struct tls_files files = ca_user(f->ca, "alice");
    struct tls_keys *keys = tls_kit_keys(f, &files);

    tls_kit_connect(f, keys, TLS_ALPN_RAFT, "xce://replica/a");
    until(f, f->client.n_closed == 1);
    assert_string_equal(f->refused, "user alice may not speak xce-raft/1 here");
    tls_kit_hang_up(f, keys);
    files = ca_node(f->ca, "n1");
    keys = tls_kit_keys(f, &files);
    tls_kit_connect(f, keys, TLS_ALPN_RAFT, "xce://replica/a");
    until(f, f->client.n_closed == 1);
    assert_string_equal(f->refused, "node n1 may not speak xce-raft/1 here");
    assert_int_equal(f->n_accepted, 0);
    tls_kit_hang_up(f, keys);
    files = ca_replica(f->ca, "b");
    keys = tls_kit_keys(f, &files);
    tls_kit_connect(f, keys, TLS_ALPN_RAFT, "xce://replica/a");
    until(f, f->server.n_open == 1 && f->client.n_open == 1);
    assert_string_equal(f->server.who, "replica b");
    tls_kit_hang_up(f, keys);
}

static void machine_is_no_user_whatever_its_subject_says(void **state)
{
    static const char *const groups[] = {"admin", NULL};
    struct tls_kit *f = *state;
    struct tls_files files = ca_issue(
        f->ca, "n1", &(struct ca_spec){.cn = "root", .groups = groups, .uri = "xce://node/n1"});
    struct tls_keys *keys = tls_kit_keys(f, &files);

    tls_kit_connect(f, keys, TLS_ALPN_GRPC, CERT_URI_REPLICA);
    until(f, f->server.n_open == 1);
    assert_string_equal(f->server.who, "node n1");
    assert_int_equal(f->server.transport->peer.tls->n_groups, 0);
    tls_kit_hang_up(f, keys);
}

static void user_has_each_group_once(void **state)
{
    static const char *const groups[] = {"Physics, all of it", "admin", "Physics, all of it", NULL};
    struct tls_kit *f = *state;
    struct tls_files files = ca_issue(f->ca, "u",
                                      &(struct ca_spec){.cn = "\xc3\xa4lice",
                                                        .groups = groups,
                                                        .uri = "https://example.org/alice"});
    struct tls_keys *keys = tls_kit_keys(f, &files);
    const struct cert_identity *peer;

    tls_kit_connect(f, keys, TLS_ALPN_GRPC, CERT_URI_REPLICA);
    until(f, f->server.n_open == 1);
    peer = f->server.transport->peer.tls;
    assert_string_equal(peer->name, "\xc3\xa4lice");
    assert_int_equal(peer->n_groups, 2);
    assert_string_equal(peer->groups[0], "Physics, all of it");
    assert_string_equal(peer->groups[1], "admin");
    tls_kit_hang_up(f, keys);
}

static void certificate_of_an_intermediate_passes_with_its_chain(void **state)
{
    struct tls_kit *f = *state;
    struct ca *below = ca_below(f->ca, "the CA below");
    struct tls_files files = ca_user(below, "alice");
    struct tls_keys *keys = tls_kit_keys(f, &files);

    tls_kit_connect(f, keys, TLS_ALPN_GRPC, CERT_URI_REPLICA);
    until(f, f->server.n_open == 1);
    tls_kit_hang_up(f, keys);
    ca_free(below);
}

/* ---- servers that a client refuses ---- */

static void expect_client_refuses(struct tls_kit *f, const struct ca_spec *spec, const char *peer,
                                  const char *why)
{
    struct tls_files files = ca_issue(f->ca, "s", spec), own = ca_user(f->ca, "alice");
    struct tls_keys *keys = tls_kit_keys(f, &own);

    tls_kit_serve(f, &files);
    tls_kit_connect(f, keys, TLS_ALPN_GRPC, peer);
    until(f, f->client.n_closed == 1);
    assert_int_equal(f->client.r, -EKEYREJECTED);
    if (!strstr(f->client.why, why))
        fail_msg("\"%s\" does not say \"%s\"", f->client.why, why);
    assert_int_equal(f->client.n_open, 0);
    until(f, f->n_refused > 0);
    tls_kit_hang_up(f, keys);
}

static void client_refuses_who_is_not_the_replica_it_wants(void **state)
{
    struct tls_kit *f = *state;

    expect_client_refuses(f, &(struct ca_spec){.cn = "x", .uri = "xce://node/a"}, CERT_URI_REPLICA,
                          "the server is node a, not xce://replica/");
    expect_client_refuses(f, &(struct ca_spec){.cn = "xce"}, CERT_URI_REPLICA,
                          "the server is user xce, not xce://replica/");
    expect_client_refuses(f, &(struct ca_spec){.uri = "xce://replica/a"}, "xce://replica/b",
                          "the server is replica a, not xce://replica/b");
    expect_client_refuses(f, &(struct ca_spec){.uri = "xce://replica/ab"}, "xce://replica/a",
                          "the server is replica ab, not xce://replica/a");
    expect_client_refuses(f, &(struct ca_spec){.uri = "xce://replica/a", .use = "clientAuth"},
                          CERT_URI_REPLICA, "purpose");
}

static void client_says_why_the_server_refused_it_and_that_nothing_was_read(void **state)
{
    struct tls_kit *f = *state;
    struct tls_files files = ca_user(f->ca, "alice");
    struct tls_keys *keys;

    ca_revoke(f->ca, &files);
    keys = tls_kit_keys(f, &files);
    files = ca_replica(f->ca, "a");
    files.crl = ca_crl(f->ca, 0, 0);
    assert_int_equal(tls_keys_reload(f->keys, &files, NULL), 0);
    tls_kit_connect(f, keys, TLS_ALPN_GRPC, CERT_URI_REPLICA);
    until(f, f->client.n_open == 1);
    assert_false(tls_keys_refused(keys));
    (void)transport_write(f->client.transport, tls_kit_pattern(0), 10);
    until(f, f->client.n_closed == 1);
    assert_int_equal(f->client.r, -EPROTO);
    assert_string_equal(f->client.why, "the peer refuses us: certificate revoked");
    assert_true(tls_keys_refused(keys));
    assert_int_equal(tls_keys_reload(keys, NULL, NULL), 0);
    assert_false(tls_keys_refused(keys));
    assert_int_equal(f->client.transport->written_bytes, 0);
    assert_non_null(strstr(f->refused, "certificate revoked (/CN=alice)"));
    tls_kit_hang_up(f, keys);
}

/* What is no word on our certificate: another one would be turned away as well. */
static void client_whose_protocol_is_not_spoken_has_a_good_certificate(void **state)
{
    struct tls_kit *f = *state;
    struct tls_files files = ca_user(f->ca, "alice");
    struct tls_keys *keys = tls_kit_keys(f, &files);

    tls_kit_connect(f, keys, "xce-nonsense/1", CERT_URI_REPLICA);
    until(f, f->client.n_closed == 1);
    assert_string_equal(f->client.why, "the peer refuses us: no application protocol");
    assert_false(tls_keys_refused(keys));
    tls_kit_hang_up(f, keys);
}

/* Anybody on the way can say so in plain text; it counts only from who has proved to be a server of ours. */
static void client_does_not_believe_a_stranger_that_its_certificate_is_bad(void **state)
{
    static const uint8_t revoked[] = {21, 3, 3, 0, 2, 2, SSL_AD_CERTIFICATE_REVOKED};
    struct tls_kit *f = *state;
    struct tls_files files = ca_user(f->ca, "alice");
    struct tls_keys *keys = tls_kit_keys(f, &files);
    char address[64];
    struct tls_target target = {
        .address = address, .alpn = "h2", .peer = CERT_URI_REPLICA, .timeout_ms = WAIT_MS};
    int port = tls_kit_listen(address, sizeof address), fd;

    assert_int_equal(
        tls_connect(f->loop, keys, &target, f->events, &f->client, &f->client.transport), 0);
    until(f, (fd = accept(port, NULL, NULL)) >= 0);
    assert_int_equal(write(fd, revoked, sizeof revoked), sizeof revoked);
    until(f, f->client.n_closed == 1);
    assert_string_equal(f->client.why, "the peer refuses us: certificate revoked");
    assert_false(tls_keys_refused(keys));
    (void)close(fd);
    (void)close(port);
    tls_kit_hang_up(f, keys);
}

static void client_of_nobody_and_of_a_mute_server_ends_in_time(void **state)
{
    struct tls_kit *f = *state;
    struct tls_files files = ca_user(f->ca, "alice");
    struct tls_keys *keys = tls_kit_keys(f, &files);
    struct tls_target target = {
        .address = "127.0.0.1:1", .alpn = "h2", .peer = CERT_URI_REPLICA, .timeout_ms = 200};
    char mute[64];
    int fd;

    assert_int_equal(
        tls_connect(f->loop, keys, &target, f->events, &f->client, &f->client.transport), 0);
    until(f, f->client.n_closed == 1);
    assert_string_equal(f->client.why, "connect: Connection refused");
    transport_free(f->client.transport);
    f->client.n_closed = 0;
    fd = tls_kit_listen(mute, sizeof mute);
    target.address = mute;
    assert_int_equal(
        tls_connect(f->loop, keys, &target, f->events, &f->client, &f->client.transport), 0);
    until(f, f->client.n_closed == 1);
    assert_int_equal(f->client.r, -ETIMEDOUT);
    assert_string_equal(f->client.why, "no TLS handshake in time");
    target.address = "no port here:x";
    (void)close(fd);
    tls_kit_hang_up(f, keys);
    assert_int_equal(
        tls_connect(f->loop, f->keys, &target, f->events, &f->client, &f->client.transport),
        -EINVAL);
}

/* ---- files change ---- */

static void replace(const char *to, const char *from)
{
    char *bytes = tmp_read(from);
    FILE *out = fopen(to, "w");

    assert_non_null(out);
    assert_int_equal(fwrite(bytes, 1, strlen(bytes), out), strlen(bytes));
    assert_int_equal(fclose(out), 0);
    free(bytes);
}

static void changed_files_are_taken_and_streams_go_on(void **state)
{
    struct tls_kit *f = *state;
    struct tls_keys *keys = tls_kit_user(f);
    struct tls_files now = ca_replica(f->ca, "a");
    char *old = tmp_read(now.certificate), *new_one;
    struct tls_files again;

    /* The same paths, one after the other: between the two they do not fit. */
    f->n_news[TLS_RELOADED] = f->n_news[TLS_FAILED] = 0;
    again = ca_issue(f->ca, "other", &(struct ca_spec){.uri = "xce://replica/a"});
    replace(now.certificate, again.certificate);
    tls_kit_settle(f);
    replace(now.key, again.key);
    until(f, f->n_news[TLS_RELOADED] == 1);
    assert_int_equal(f->n_news[TLS_FAILED], 0);
    new_one = tmp_read(now.certificate);
    assert_string_not_equal(old, new_one);
    assert_int_equal(transport_write(f->client.transport, tls_kit_pattern(0), 10), 0);
    until(f, f->server.n_bytes == 10);
    assert_int_equal(f->n_news[TLS_CUT], 0);
    free(old);
    free(new_one);
    tls_kit_hang_up(f, keys);
}

static void bad_files_leave_the_old_ones_in_use(void **state)
{
    struct tls_kit *f = *state;
    struct tls_files files = ca_replica(f->ca, "a");
    struct tls_keys *keys;
    struct err err = {{0}};

    until(f, f->n_news[TLS_RELOADED] == 1); /* the kit's files have just been made anew */
    (void)tmp_write(tmp_dir(), "unused", "");
    assert_int_equal(truncate(files.key, 10), 0);
    until(f, f->n_news[TLS_FAILED] == 1);
    assert_non_null(strstr(f->news_text, files.key));
    assert_int_equal(tls_keys_reload(f->keys, NULL, &err), -EINVAL);
    assert_non_null(strstr(err.text, "holds no private key"));
    keys = tls_kit_user(f);
    assert_string_equal(f->client.who, "replica a");
    tls_kit_hang_up(f, keys);
}

/* Any certificate of the CA would pass: whose it is, and what it is good for, must not change under those who asked us. */
static void files_of_somebody_else_leave_the_old_ones_in_use(void **state)
{
    static const struct {
        struct ca_spec spec;
        const char *why;
    } cases[] = {
        {{.uri = "xce://replica/b"}, "is the certificate of replica b, and this is replica a"},
        {{.uri = "xce://node/a"}, "is the certificate of node a, and this is replica a"},
        {{.cn = "a"}, "is the certificate of user a, and this is replica a"},
        {{.uri = "xce://replica/a", .use = "clientAuth"}, "no extended key usage serverAuth"},
        {{.uri = "xce://replica/a", .use = "serverAuth"}, "no extended key usage clientAuth"},
    };
    struct tls_kit *f = *state;
    struct tls_files now = ca_replica(f->ca, "a"), files;
    struct tls_keys *keys;

    until(f, f->n_news[TLS_RELOADED] == 1);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct err err = {{0}};

        files = ca_issue(f->ca, "other", &cases[i].spec);
        assert_int_equal(tls_keys_reload(f->keys, &files, &err), -EINVAL);
        if (!strstr(err.text, cases[i].why))
            fail_msg("\"%s\" does not say \"%s\"", err.text, cases[i].why);
    }
    files = ca_node(f->ca, "n1");
    replace(now.certificate, files.certificate);
    replace(now.key, files.key);
    until(f, f->n_news[TLS_FAILED] == 1);
    assert_non_null(strstr(f->news_text, "is the certificate of node n1, and this is replica a"));
    assert_non_null(strstr(f->news_text, now.certificate));
    keys = tls_kit_user(f);
    assert_string_equal(f->client.who, "replica a");
    tls_kit_hang_up(f, keys);
}

static void revoked_peer_is_cut_and_the_others_are_not(void **state)
{
    struct tls_kit *f = *state;
    struct tls_files alice = ca_user(f->ca, "alice"), bob = ca_user(f->ca, "bob"), own;
    struct tls_keys *alice_keys = tls_kit_keys(f, &alice), *bob_keys = tls_kit_keys(f, &bob);
    struct end other = {0};

    tls_kit_connect(f, alice_keys, TLS_ALPN_GRPC, CERT_URI_REPLICA);
    until(f, f->server.n_open == 1);
    tls_kit_second(f, bob_keys, &other);
    ca_revoke(f->ca, &alice);
    own = ca_replica(f->ca, "a");
    own.crl = ca_crl(f->ca, 0, 0);
    assert_int_equal(tls_keys_reload(f->keys, &own, NULL), 0);
    assert_int_equal(f->second.n_closed, 0); /* from the loop */
    until(f, f->second.n_closed == 1);
    assert_int_equal(f->second.r, -EKEYREVOKED);
    assert_non_null(strstr(f->second.why, "certificate revoked"));
    assert_int_equal(f->n_news[TLS_CUT], 1);
    transport_free(f->second.transport);
    f->second.transport = NULL;
    until(f, f->client.n_closed == 1);
    assert_int_equal(transport_write(other.transport, tls_kit_pattern(0), 10), 0);
    until(f, f->server.n_bytes == 10);
    assert_int_equal(other.n_closed, 0);
    transport_free(other.transport);
    tls_kit_hang_up(f, alice_keys);
    tls_keys_free(bob_keys);
}

/* The new list is loaded after the port has said its part of the handshake. */
static void peer_revoked_within_its_handshake_is_refused(void **state)
{
    struct tls_kit *f = *state;
    struct tls_files alice = ca_user(f->ca, "alice"), own;
    struct pollfd heard = {.events = POLLIN};
    struct odd odd;

    odd_start(f, &odd, &alice, "\2h2", TLS1_3_VERSION);
    heard.fd = odd.fd;
    assert_true(wants(&odd, SSL_connect(odd.ssl)));
    until(f, poll(&heard, 1, 0) == 1);
    ca_revoke(f->ca, &alice);
    own = ca_replica(f->ca, "a");
    own.crl = ca_crl(f->ca, 0, 0);
    assert_int_equal(tls_keys_reload(f->keys, &own, NULL), 0);
    expect_refusal(f, &odd, "certificate revoked (/CN=alice)");
}

static void server_revoked_within_its_handshake_is_refused(void **state)
{
    struct tls_kit *f = *state;
    struct tls_files files = ca_user(f->ca, "alice"), server = ca_replica(f->ca, "a");
    struct tls_keys *keys = tls_kit_keys(f, &files);

    assert_int_equal(tls_keys_reload(f->keys, &server, NULL), 0);
    tls_kit_connect(f, keys, TLS_ALPN_GRPC, CERT_URI_REPLICA);
    ca_revoke(f->ca, &server);
    files.crl = ca_crl(f->ca, 0, 0);
    assert_int_equal(tls_keys_reload(keys, &files, NULL), 0);
    until(f, f->client.n_closed == 1 || f->client.n_open == 1);
    assert_int_equal(f->client.n_open, 0);
    assert_int_equal(f->client.r, -EKEYREVOKED);
    assert_non_null(strstr(f->client.why, "certificate revoked"));
    tls_kit_hang_up(f, keys);
}

static void peer_of_a_ca_that_is_trusted_no_more_is_cut(void **state)
{
    struct tls_kit *f = *state;
    struct tls_keys *keys = tls_kit_user(f);
    struct ca *other = ca_new("another CA");
    struct tls_files files = ca_replica(other, "a");

    assert_int_equal(tls_keys_reload(f->keys, &files, NULL), 0);
    until(f, f->server.n_closed == 1);
    assert_int_equal(f->server.r, -EKEYREJECTED);
    ca_free(other);
    tls_kit_hang_up(f, keys);
}

static void expired_peer_is_cut_while_not_reading(void **state)
{
    struct tls_kit *f = *state;
    struct tls_files files = ca_issue(f->ca, "short",
                                      &(struct ca_spec){.cn = "alice", .until_s = 2});
    struct tls_keys *keys = tls_kit_keys(f, &files);

    tls_kit_connect(f, keys, TLS_ALPN_GRPC, CERT_URI_REPLICA);
    until(f, f->server.n_open == 1);
    transport_read(f->server.transport, false);
    until(f, f->server.n_closed == 1);
    assert_int_equal(f->server.r, -EKEYEXPIRED);
    assert_string_equal(f->server.why, "certificate: has expired");
    tls_kit_hang_up(f, keys);
}

static void own_certificate_that_ends_soon_is_told_of(void **state)
{
    struct tls_kit *f = *state;
    struct tls_files files = ca_issue(
        f->ca, "soon",
        &(struct ca_spec){.uri = "xce://replica/a", .from_s = -3600, .until_s = 1700});

    tls_kit_settle(f);
    assert_int_equal(f->n_news[TLS_ENDING], 0);
    assert_int_equal(tls_keys_reload(f->keys, &files, NULL), 0);
    until(f, f->n_news[TLS_ENDING] == 1);
    assert_non_null(strstr(f->news_text, "ends at 20"));
}

/* ---- files that do not hold together ---- */

static void expect_bad_files(const struct tls_files *files, unsigned uses, const char *path,
                             const char *why)
{
    struct err err = {{0}};

    assert_int_equal(tls_files_check(files, uses, NULL, &err), -EINVAL);
    if (!strstr(err.text, why) || (path && !strstr(err.text, path)))
        fail_msg("\"%s\" does not say \"%s\"", err.text, why);
}

static void files_that_do_not_hold_together_are_refused_by_name(void **state)
{
    struct tls_kit *f = *state;
    struct ca *other = ca_new("another CA");
    const struct tls_files good = ca_replica(f->ca, "good"), user = ca_user(f->ca, "alice"),
                           foreign = ca_replica(other, "foreign");
    struct tls_files files = good;

    assert_int_equal(tls_files_check(&good, TLS_SERVER | TLS_CLIENT, NULL, NULL), 0);
    files.key = user.key;
    expect_bad_files(&files, 0, user.key, "is not the key of the certificate");
    files = good;
    files.certificate = "/nonexistent/cert.pem";
    expect_bad_files(&files, 0, files.certificate, "No such file");
    files = good;
    files.ca = good.certificate;
    expect_bad_files(&files, 0, good.certificate, "is no CA certificate");
    files.ca = foreign.ca;
    expect_bad_files(&files, 0, NULL, "our certificate does not pass");
    files = good;
    files.crl = ca_crl(other, 0, 0);
    expect_bad_files(&files, 0, files.crl, "signed by none of the CAs");
    files.crl = ca_crl(f->ca, -7200, -3600);
    expect_bad_files(&files, 0, files.crl, "out of date");
    files.crl = ca_crl(f->ca, 3600, 7200);
    expect_bad_files(&files, 0, files.crl, "not valid yet");
    files.crl = ca_file(f->ca);
    expect_bad_files(&files, 0, files.crl, "holds no revocation list");
    expect_bad_files(&user, TLS_SERVER, NULL, "no extended key usage serverAuth");
    files = ca_issue(f->ca, "old", &(struct ca_spec){.cn = "x", .from_s = -100, .until_s = -50});
    files.crl = NULL;
    expect_bad_files(&files, 0, NULL, "certificate has expired");
    files = good;
    assert_int_equal(chmod(good.key, 0644), 0);
    expect_bad_files(&files, 0, good.key, "lets others than its owner and group read the key");
    assert_int_equal(chmod(good.key, 0640), 0);
    assert_int_equal(tls_files_check(&good, 0, NULL, NULL), 0);
    ca_free(other);
}

static const char *joined(const char *name, const char *a, const char *b)
{
    char *first = tmp_read(a), *second = tmp_read(b), *both;
    const char *path;

    assert_true(asprintf(&both, "%s%s", first, second) > 0);
    path = tmp_write(tmp_dir(), name, both);
    free(both);
    free(first);
    free(second);
    return path;
}

/* The lists of this kit's CAs name no key. */
static void lists_that_could_be_another_cas_are_refused(void **state)
{
    struct tls_kit *f = *state;
    struct ca *same = ca_new("the CA"), *other = ca_new("another CA");
    struct tls_files files = ca_replica(other, "a");
    struct err err = {{0}};

    files.ca = joined("two.pem", ca_file(f->ca), ca_file(other));
    files.crl = joined("two.crl", ca_crl(f->ca, 0, 0), ca_crl(other, 0, 0));
    assert_int_equal(tls_files_check(&files, 0, NULL, NULL), 0);
    files.ca = joined("three.pem", files.ca, ca_file(same));
    files.crl = joined("three.crl", files.crl, ca_crl(same, 0, 0));
    expect_bad_files(&files, 0, files.crl,
                     "there is another CA with the name /CN=the CA, and this list does not say by "
                     "its authorityKeyIdentifier whose it is");
    /* A second list of one CA is no such thing. */
    files.ca = joined("two.pem", ca_file(f->ca), ca_file(other));
    files.crl = joined("four.crl", joined("two.crl", ca_crl(f->ca, 0, 0), ca_crl(other, 0, 0)),
                       ca_crl(f->ca, 0, 0));
    assert_int_equal(tls_files_check(&files, 0, NULL, NULL), 0);
    /* Nor is one list for two certificates of one CA. */
    files = ca_replica(f->ca, "a");
    files.ca = joined("two.pem", ca_file(f->ca), ca_again(f->ca));
    files.crl = ca_crl(f->ca, 0, 0);
    if (tls_files_check(&files, 0, NULL, &err) < 0)
        fail_msg("%s", err.text);
    ca_free(same);
    ca_free(other);
}

/* ---- many that never finish ---- */

static void half_open_peers_do_not_keep_others_out(void **state)
{
    enum { MANY = TLS_PORT_HANDSHAKES + 100 };
    struct tls_kit *f = *state;
    struct tls_keys *keys;
    int fds[MANY];

    for (int i = 0; i < MANY; i++) {
        fds[i] = tls_kit_dial(f);
        if (i % 2)
            assert_int_equal(write(fds[i], "\x16\x03\x01", 3), 3);
        if (i % 50 == 0)
            tls_kit_settle(f);
    }
    until(f, f->n_refused == MANY - TLS_PORT_HANDSHAKES);
    assert_string_equal(f->refused, "too many handshakes under way");
    keys = tls_kit_user(f);
    assert_int_equal(transport_write(f->client.transport, tls_kit_pattern(0), 10), 0);
    until(f, f->server.n_bytes == 10);
    tls_kit_hang_up(f, keys);
    for (int i = 0; i < MANY; i++)
        (void)close(fds[i]);
}

int main(void)
{
#define T(name) cmocka_unit_test_setup_teardown(name, tls_kit_setup, tls_kit_teardown)
    const struct CMUnitTest tests[] = {
        T(refusal_of_wrong_chains_and_dates),
        T(refusal_of_wrong_uses),
        T(refusal_of_names),
        T(refusal_of_no_certificate_old_tls_and_no_protocol),
        T(refusal_of_raft_for_all_but_replicas),
        T(machine_is_no_user_whatever_its_subject_says),
        T(user_has_each_group_once),
        T(certificate_of_an_intermediate_passes_with_its_chain),
        T(client_refuses_who_is_not_the_replica_it_wants),
        T(client_says_why_the_server_refused_it_and_that_nothing_was_read),
        T(client_whose_protocol_is_not_spoken_has_a_good_certificate),
        T(client_does_not_believe_a_stranger_that_its_certificate_is_bad),
        T(client_of_nobody_and_of_a_mute_server_ends_in_time),
        T(changed_files_are_taken_and_streams_go_on),
        T(bad_files_leave_the_old_ones_in_use),
        T(files_of_somebody_else_leave_the_old_ones_in_use),
        T(revoked_peer_is_cut_and_the_others_are_not),
        T(peer_revoked_within_its_handshake_is_refused),
        T(server_revoked_within_its_handshake_is_refused),
        T(peer_of_a_ca_that_is_trusted_no_more_is_cut),
        T(expired_peer_is_cut_while_not_reading),
        T(own_certificate_that_ends_soon_is_told_of),
        T(files_that_do_not_hold_together_are_refused_by_name),
        T(lists_that_could_be_another_cas_are_refused),
        T(half_open_peers_do_not_keep_others_out),
    };
    return cmocka_run_group_tests_name("tls_refusal", tests, NULL, NULL);
}
