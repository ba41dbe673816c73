/* A server and what talks to it, on one loop: for tests of common/net.
 *
 * struct kit has a server on a socket in a folder of its own. Its methods ("/k/...") keep what was told in struct call, one
 * per call in order of arrival. struct raw is a peer that sends bytes of the test's choice. */
#ifndef XCE_TESTS_UNIT_NET_KIT_H
#define XCE_TESTS_UNIT_NET_KIT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "common/net/grpc.h"
#include "common/net/loop.h"
#include "common/net/transport.h"

enum {
    KIT_CALLS = 2100,
    KIT_WAIT_MS = 60000,
};

/* One call as the server saw it. */
struct call {
    struct grpc_call *grpc; /* NULL: over */
    char path[128];
    unsigned n_messages, n_writable, n_half_closed, n_end;
    size_t n_bytes, last_len;
    uint8_t last[64];
    uid_t uid;
    int64_t deadline_ms;
};

/* One request as the client saw it. */
struct answer {
    struct grpc_request *grpc; /* NULL: over */
    unsigned n_messages, n_writable, n_end;
    size_t n_bytes, last_len;
    uint8_t last[64];
    enum grpc_status status;
    char message[2048];
    bool sent;
};

struct kit {
    struct loop *loop;
    struct grpc_server *server; /* NULL once closing */
    bool server_closed;
    char folder[64], path[96], target[112];
    struct call calls[KIT_CALLS];
    unsigned n_calls;
    struct grpc_channel *channels[8];
    bool inside; /* a call into the layer is on the stack: no callback may come */
    const struct grpc_limits *limits;
    const struct grpc_metadata *metadata; /* of the requests to come; NULL = none */
};

/* limits may be NULL. */
void kit_init(struct kit *kit, const struct grpc_limits *limits);
/* Closes server and channels, if the test has not, and checks that nothing is left. */
void kit_done(struct kit *kit);
/* grpc_server_close, and until it is done. */
void kit_close_server(struct kit *kit, int64_t grace_ms);
/* Another one at the same path. */
void kit_open_server(struct kit *kit);

/* Run the loop until condition holds; fails the test after KIT_WAIT_MS. */
#define kit_until(kit, condition)                                                                  \
    do {                                                                                           \
        int64_t kit_end_ms_ = loop_now_fresh_ms() + KIT_WAIT_MS;                                   \
        while (!(condition)) {                                                                     \
            if (loop_now_fresh_ms() > kit_end_ms_)                                                 \
                fail_msg("did not come about: %s", #condition);                                    \
            loop_step((kit)->loop, 50);                                                            \
        }                                                                                          \
    } while (0)

/* The server's n-th call, from 1, once it is there. */
struct call *kit_call(struct kit *kit, unsigned n);

/* Run the loop for a while: for what must not happen. */
void kit_elapse(struct kit *kit, int64_t ms);

/* Methods: "/k/echo" unary; "/k/stream" unary request, then the test sends; "/k/bidi" the test does all; "/k/slow" unary, paused
 * from the start; "/k/pause" bidi, paused from the start. */

struct grpc_channel *kit_channel(struct kit *kit, const struct grpc_limits *limits);
void kit_close_channel(struct kit *kit, struct grpc_channel *channel);

/* Start a request; unary sends message and half-closes. */
void kit_start(struct kit *kit, struct grpc_channel *channel, const char *path, int64_t timeout_ms,
               struct answer *answer);
void kit_unary(struct kit *kit, struct grpc_channel *channel, const char *path, int64_t timeout_ms,
               const void *message, size_t len, struct answer *answer);
/* The same, and until the answer is there. */
void kit_ask(struct kit *kit, struct grpc_channel *channel, const char *path, const char *message,
             struct answer *answer);

/* ---- a peer of raw bytes ---- */

struct raw {
    struct kit *kit;
    int fd;
    void *deflater; /* of header blocks sent */
    uint8_t in[1 << 16];
    size_t in_len;
    bool closed;
};

struct raw_frame {
    size_t len;
    uint8_t type, flags;
    uint32_t stream;
    uint8_t payload[16384];
};

void raw_connect(struct kit *kit, struct raw *raw);
/* The same, as whoever is wanted. */
void raw_connect_as(struct kit *kit, struct raw *raw, const struct transport_peer *peer);
void raw_close(struct raw *raw);
/* As much as the socket takes, running the loop in between; false: the server has closed. */
bool raw_send(struct raw *raw, const void *data, size_t len);
bool raw_frame(struct raw *raw, uint8_t type, uint8_t flags, uint32_t stream, const void *payload,
               size_t len);
/* Preface and SETTINGS. */
void raw_hello(struct raw *raw);
/* HEADERS of a request, then n more fields of name, value. */
bool raw_request(struct raw *raw, uint32_t stream, uint8_t flags, const char *path);
bool raw_headers(struct raw *raw, uint32_t stream, uint8_t flags, const char *const *fields,
                 size_t n);
/* DATA with one gRPC message. */
bool raw_message(struct raw *raw, uint32_t stream, uint8_t flags, const void *data, size_t len);
/* The next frame of that type from the server; false: it closed before. Fails after KIT_WAIT_MS. */
bool raw_expect(struct raw *raw, uint8_t type, struct raw_frame *ret);
/* Read until the server has closed; returns the code of its GOAWAY, -1 if there was none. why: its text. */
int64_t raw_until_closed(struct raw *raw, char *ret_why, size_t size);
/* Decode a header block; value of the field, "" if absent. */
void raw_field(const struct raw_frame *frame, void **inflater, const char *name, char *ret,
               size_t size);
void raw_inflater_free(void *inflater);

#endif
