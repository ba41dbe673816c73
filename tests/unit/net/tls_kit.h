/* A TLS port and a client of it, on one loop, with a CA that lives as long as the test. */
#ifndef XCE_TESTS_UNIT_NET_TLS_KIT_H
#define XCE_TESTS_UNIT_NET_TLS_KIT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/net/loop.h"
#include "common/net/tls_port.h"
#include "common/net/transport.h"
#include "tests/lib/ca.h"

enum {
    BIG = 1 << 20,
    WAIT_MS = 60000,
};

/* One end of a stream. */
struct end {
    struct transport *transport;
    unsigned n_open, n_data, n_writable, n_closed;
    size_t n_bytes;
    int r;
    char why[500];
    char who[CERT_WHO_BUF];
    enum {
        FREE_NEVER,
        FREE_IN_OPEN,
        FREE_IN_DATA,
        FREE_IN_WRITABLE,
        FREE_IN_CLOSED,
    } free_in;
    bool pause_in_data;
};

struct tls_kit {
    struct loop *loop;
    struct ca *ca;
    struct tls_keys *keys;
    struct tls_port *port;
    int listener;
    char address[64];
    const struct transport_events *events; /* of an end */
    struct end client, server, second;     /* second: the end of the one accepted before */
    bool keep_second;
    unsigned n_accepted, n_refused;
    char refused[500];
    enum tls_news news;
    unsigned n_news[5];
    char news_text[500];
};

/* cmocka's. The port serves h2 to everybody and raft to replicas, as replica "a". */
int tls_kit_setup(void **state);
int tls_kit_teardown(void **state);

#define until(f, condition)                                                                        \
    do {                                                                                           \
        int64_t end_ms_ = loop_now_fresh_ms() + WAIT_MS;                                           \
        while (!(condition)) {                                                                     \
            if (loop_now_fresh_ms() > end_ms_)                                                     \
                fail_msg("did not come about: %s", #condition);                                    \
            loop_step((f)->loop, 20);                                                              \
        }                                                                                          \
    } while (0)

/* The port anew, as whoever the files name. */
void tls_kit_serve(struct tls_kit *f, const struct tls_files *files);
void tls_kit_settle(struct tls_kit *f);
struct tls_keys *tls_kit_keys(struct tls_kit *f, const struct tls_files *files);
/* Begin to connect; the end is f->client. */
void tls_kit_connect(struct tls_kit *f, struct tls_keys *keys, const char *alpn, const char *peer);
/* User alice, both ends open. The keys are the caller's to end with tls_kit_hang_up. */
struct tls_keys *tls_kit_user(struct tls_kit *f);
void tls_kit_hang_up(struct tls_kit *f, struct tls_keys *keys);
/* One more client; the end that was f->server is f->second from then on. */
void tls_kit_second(struct tls_kit *f, struct tls_keys *keys, struct end *end);
/* A listening socket of nobody. */
int tls_kit_listen(char *ret_address, size_t size);
/* A plain TCP connection to the port. */
int tls_kit_dial(const struct tls_kit *f);
/* Bytes that count up, beginning with from; 4 * BIG of them. */
const uint8_t *tls_kit_pattern(size_t from);

#endif
