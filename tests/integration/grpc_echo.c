/* A server for tests of the gRPC layer with foreign clients. usage: grpc_echo SOCKET [STREAMS [MESSAGE-BYTES]], or
 * with a listening TCP socket on descriptor 3, grpc_echo tls:CERTIFICATE,KEY,CA ...
 *
 * Messages are plain bytes. Methods of test.Echo:
 *   Unary         gives the message back
 *   Stream        "COUNT SIZE": so many messages of so many bytes, each beginning with its number, as the reader takes them
 *   Gather        client stream: the number of messages and of bytes, "3 300"
 *   Bidi          gives each message back, ends with the client
 *   Fail          "CODE TEXT": ends with that status
 *   FailLate      the same after one message "x"
 *   Hang          never answers
 *   Ended         how many calls of Hang have ended so far
 *   Who           "UID PID" of the peer; of one by certificate "user alice"
 *   Metadata      the value of the header named by the message
 *   Left          ms until the deadline, "never" without
 *   Close         closes the server in order; what is under way may end for 2 s
 * Says "ready" on stdout when it listens; ends on SIGTERM and when stdin is closed. */
#include <inttypes.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "common/net/grpc.h"
#include "common/net/loop.h"
#include "common/net/tls_port.h"

enum {
    GRACE_MS = 2000,
    TEXT_MAX = 4096,
};

struct echo {
    struct loop *loop;
    struct grpc_server *server;
    struct tls_keys *keys;
    struct tls_port *port;
    struct loop_signal *term;
    struct loop_poll *input;
    unsigned n_hang_ended;
    bool closing;
};

/* What one call remembers. */
struct state {
    struct echo *echo;
    const struct method *method;
    char text[TEXT_MAX + 1]; /* the request of a unary method, cut */
    unsigned left, number, size;
    uint64_t n_messages, n_bytes;
};

struct method {
    const char *name;
    struct grpc_call_events events;
    void (*answer)(struct grpc_call *call, struct state *state); /* of the unary ones */
};

static void reply(struct grpc_call *call, const char *text)
{
    (void)grpc_call_send(call, (const uint8_t *)text, strlen(text));
    grpc_call_finish(call, GRPC_OK, NULL);
}

static void echo_message(struct grpc_call *call, const uint8_t *data, size_t len, void *arg)
{
    (void)arg;
    (void)grpc_call_send(call, data, len);
}

static void echo_done(struct grpc_call *call, void *arg)
{
    (void)arg;
    grpc_call_finish(call, GRPC_OK, NULL);
}

static void keep_text(struct grpc_call *call, const uint8_t *data, size_t len, void *arg)
{
    struct state *state = arg;
    size_t n = len < TEXT_MAX ? len : TEXT_MAX;

    (void)call;
    memcpy(state->text, data, n);
    state->text[n] = '\0';
}

static void answer(struct grpc_call *call, void *arg)
{
    struct state *state = arg;

    state->method->answer(call, state);
}

static void count(struct grpc_call *call, const uint8_t *data, size_t len, void *arg)
{
    struct state *state = arg;

    (void)call;
    (void)data;
    state->n_messages++;
    state->n_bytes += len;
}

static void end(struct grpc_call *call, void *arg)
{
    struct state *state = arg;

    (void)call;
    if (strcmp(state->method->name, "Hang") == 0)
        state->echo->n_hang_ended++;
    free(state);
}

static void send_stream(struct grpc_call *call, void *arg)
{
    struct state *state = arg;
    int r = 0;

    while (r == 0 && state->number < state->left) {
        uint8_t *message = grpc_message_new(state->size);

        if (!message)
            abort();
        memset(message, 'x', state->size);
        (void)snprintf((char *)message, state->size, "%u ", state->number++);
        r = grpc_call_send_owned(call, message, state->size);
    }
    if (r >= 0 && state->number == state->left)
        grpc_call_finish(call, GRPC_OK, NULL);
}

static void answer_stream(struct grpc_call *call, struct state *state)
{
    if (sscanf(state->text, "%u %u", &state->left, &state->size) == 2)
        send_stream(call, state);
    else
        grpc_call_finish(call, GRPC_INVALID_ARGUMENT, "COUNT SIZE is wanted");
}

static void answer_gather(struct grpc_call *call, struct state *state)
{
    char text[64];

    (void)snprintf(text, sizeof text, "%" PRIu64 " %" PRIu64, state->n_messages, state->n_bytes);
    reply(call, text);
}

static void answer_fail(struct grpc_call *call, struct state *state)
{
    char *text;
    long code = strtol(state->text, &text, 10);

    grpc_call_finish(call, (enum grpc_status)code, *text ? text + 1 : NULL);
}

static void answer_fail_late(struct grpc_call *call, struct state *state)
{
    (void)grpc_call_send(call, (const uint8_t *)"x", 1);
    answer_fail(call, state);
}

static void answer_nothing(struct grpc_call *call, struct state *state)
{
    (void)call;
    (void)state;
}

static void answer_ended(struct grpc_call *call, struct state *state)
{
    char text[32];

    (void)snprintf(text, sizeof text, "%u", state->echo->n_hang_ended);
    reply(call, text);
}

static void answer_who(struct grpc_call *call, struct state *state)
{
    const struct grpc_peer *peer = grpc_call_peer(call);
    char text[CERT_WHO_BUF];

    (void)state;
    if (peer->tls)
        (void)cert_who(peer->tls, text);
    else
        (void)snprintf(text, sizeof text, "%u %d", peer->local ? peer->uid : (uid_t)-1, peer->pid);
    reply(call, text);
}

static void answer_metadata(struct grpc_call *call, struct state *state)
{
    const char *value = grpc_call_metadata(call, state->text);

    if (value)
        reply(call, value);
    else
        grpc_call_finish(call, GRPC_NOT_FOUND, state->text);
}

static void answer_left(struct grpc_call *call, struct state *state)
{
    int64_t deadline = grpc_call_deadline_ms(call);
    char text[32] = "never";

    if (deadline != INT64_MAX)
        (void)snprintf(text, sizeof text, "%" PRId64, deadline - loop_now_ms(state->echo->loop));
    reply(call, text);
}

static void server_closed(void *arg)
{
    struct echo *echo = arg;

    loop_signal_free(echo->term);
    loop_poll_free(echo->input);
}

static void close_server(struct echo *echo)
{
    if (echo->closing)
        return;
    echo->closing = true;
    tls_port_free(echo->port);
    tls_keys_free(echo->keys);
    grpc_server_close(echo->server, GRACE_MS, server_closed, echo);
}

static void answer_close(struct grpc_call *call, struct state *state)
{
    close_server(state->echo);
    reply(call, "closing");
}

#define UNARY                                                                                      \
    {                                                                                              \
        .message = keep_text, .half_closed = answer, .end = end, .unary = true                     \
    }

static const struct method methods[] = {
    {"Unary", {.message = echo_message, .half_closed = echo_done, .end = end, .unary = true}, NULL},
    {"Stream",
     {.message = keep_text,
      .half_closed = answer,
      .writable = send_stream,
      .end = end,
      .unary = true},
     answer_stream},
    {"Gather", {.message = count, .half_closed = answer, .end = end}, answer_gather},
    {"Bidi", {.message = echo_message, .half_closed = echo_done, .end = end}, NULL},
    {"Fail", UNARY, answer_fail},
    {"FailLate", UNARY, answer_fail_late},
    {"Hang", UNARY, answer_nothing},
    {"Ended", UNARY, answer_ended},
    {"Who", UNARY, answer_who},
    {"Metadata", UNARY, answer_metadata},
    {"Left", UNARY, answer_left},
    {"Close", UNARY, answer_close},
};

static void accept_call(struct grpc_call *call, const char *path, void *arg)
{
    static const char service[] = "/test.Echo/";

    if (strncmp(path, service, sizeof service - 1) != 0)
        return;
    for (size_t i = 0; i < sizeof methods / sizeof *methods; i++) {
        struct state *state;

        if (strcmp(path + sizeof service - 1, methods[i].name) != 0)
            continue;
        state = calloc(1, sizeof *state);
        if (!state)
            abort();
        state->echo = arg;
        state->method = &methods[i];
        grpc_call_bind(call, &methods[i].events, state);
    }
}

static void terminated(int signum, void *arg)
{
    (void)signum;
    close_server(arg);
}

static void input_ready(int fd, unsigned events, void *arg)
{
    struct echo *echo = arg;
    char c;

    (void)events;
    if (read(fd, &c, 1) == 0) {
        loop_poll_set(echo->input, 0);
        close_server(echo);
    }
}

static void must(int r, const char *what)
{
    if (r >= 0)
        return;
    (void)fprintf(stderr, "grpc_echo: %s: %s\n", what, strerror(-r));
    exit(1);
}

static void adopt(struct transport *transport, void *arg)
{
    grpc_server_adopt(((struct echo *)arg)->server, transport);
}

static void refused(const char *address, const char *why, void *arg)
{
    (void)arg;
    (void)fprintf(stderr, "%s refused: %s\n", address, why);
}

/* files: "CERTIFICATE,KEY,CA". */
static void listen_tls(struct echo *echo, char *files)
{
    const struct tls_protocol protocol = {
        .alpn = TLS_ALPN_GRPC, .kinds = CERT_USER, .accept = adopt, .arg = echo};
    struct tls_files paths = {.certificate = strsep(&files, ",")};
    struct err err = {{0}};

    paths.key = strsep(&files, ",");
    paths.ca = files;
    if (tls_keys_new(echo->loop, &paths, NULL, NULL, &echo->keys, &err) < 0) {
        (void)fprintf(stderr, "grpc_echo: %s\n", err.text);
        exit(1);
    }
    must(tls_port_new(echo->loop, echo->keys, refused, NULL, &echo->port), "port");
    must(tls_port_protocol(echo->port, &protocol), "protocol");
    must(tls_port_listen_fd(echo->port, 3), "descriptor 3");
}

int main(int argc, char **argv)
{
    struct grpc_limits limits = {0};
    struct echo echo = {0};

    if (argc < 2) {
        (void)fprintf(stderr, "usage: grpc_echo SOCKET [STREAMS [MESSAGE-BYTES]]\n");
        return 2;
    }
    if (argc > 2)
        limits.streams = (unsigned)atoi(argv[2]);
    if (argc > 3)
        limits.message_bytes = (size_t)atol(argv[3]);
    must(loop_new(&echo.loop), "loop");
    must(grpc_server_new(echo.loop, &limits, accept_call, &echo, &echo.server), "server");
    if (strncmp(argv[1], "tls:", 4) == 0)
        listen_tls(&echo, argv[1] + 4);
    else
        must(grpc_server_listen_unix(echo.server, argv[1], 0666), argv[1]);
    must(loop_signal_new(echo.loop, SIGTERM, terminated, &echo, &echo.term), "SIGTERM");
    must(loop_poll_new(echo.loop, STDIN_FILENO, POLLIN, input_ready, &echo, &echo.input), "stdin");
    (void)puts("ready");
    (void)fflush(stdout);
    loop_run(echo.loop);
    loop_free(echo.loop);
    return 0;
}
