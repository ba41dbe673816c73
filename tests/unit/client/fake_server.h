/* A leased that does what a test says: a thread with a gRPC server that answers canned bytes, or does not, or dies. */
#ifndef XCE_TESTS_UNIT_CLIENT_FAKE_SERVER_H
#define XCE_TESTS_UNIT_CLIENT_FAKE_SERVER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/net/grpc.h"

#define FAKE_CALLS_MAX 256

enum fake_deed {
    FAKE_ANSWER = 0, /* `reply`, then OK */
    FAKE_STATUS,     /* `status` with `message` */
    FAKE_HANG,       /* never a word */
    FAKE_DIE,        /* take the call, then the whole server goes at once */
    FAKE_TWICE,      /* `reply`, `reply`, OK */
    FAKE_EMPTY,      /* OK without a word */
    FAKE_STREAM,     /* `messages`, then stay open */
    FAKE_STREAM_END, /* `messages`, then `status` */
};

struct fake_message {
    const uint8_t *bytes;
    size_t len;
};

/* What is done with calls whose path ends with `method`. What it points to is borrowed until the server ends: fixture, or
 * static. */
struct fake_rule {
    const char *method;
    enum fake_deed deed;
    unsigned times; /* so many calls, then the next rule of that method; 0 = all */
    const uint8_t *reply;
    size_t reply_len;
    enum grpc_status status;
    const char *message;
    const struct fake_message *messages;
    size_t n_messages;
    unsigned repeat; /* `messages` so many times more */
};

/* One call as it came. */
struct fake_call {
    char method[32];
    uint8_t request[1024];
    size_t request_len;
};

struct fake_server;

/* Listen on path; returns when it does. Fails the test if it cannot. */
struct fake_server *fake_start(const char *path, const struct fake_rule *rules, size_t n_rules);
/* Gone at once: connections are cut, the socket is removed. */
void fake_stop(struct fake_server *server);

/* As leased ends in order: nobody is accepted any more, GOAWAY, what is under way may go on for ten seconds. Returns when
 * that has been said. */
void fake_leave(struct fake_server *server);

/* Calls since the start, in their order; copies. Any thread. */
size_t fake_calls(struct fake_server *server, struct fake_call *ret, size_t n);
/* Messages that were handed to the streams so far. Any thread. */
size_t fake_streamed(struct fake_server *server);
/* Whether it has died by FAKE_DIE. */
bool fake_dead(struct fake_server *server);

#endif
