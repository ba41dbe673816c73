/* Raw bytes into the gRPC server, over a socket as always. The first byte: bit 0 says whether a preface and SETTINGS come
 * before the rest, the others into what pieces it is cut. Afterwards every call has ended, and the server has closed. */
#include <errno.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "common/net/grpc.h"
#include "common/net/loop.h"

static const char hello[] = "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\x04\0\0\0\0";
static struct loop *loop;
static struct grpc_server *server;
static char folder[] = "/tmp/xce-fuzz-h2-XXXXXX", path[64];
static unsigned n_calls;

static void must(bool holds)
{
    if (!holds)
        abort();
}

static void echo(struct grpc_call *call, const uint8_t *data, size_t len, void *arg)
{
    (void)arg;
    (void)grpc_call_send(call, data, len);
}

static void stop(struct grpc_call *call, const uint8_t *data, size_t len, void *arg)
{
    echo(call, data, len, arg);
    grpc_call_pause(call);
}

static void go_on(struct grpc_call *call, void *arg)
{
    (void)arg;
    grpc_call_resume(call);
}

static void done(struct grpc_call *call, void *arg)
{
    (void)arg;
    grpc_call_finish(call, GRPC_OK, NULL);
}

static void end(struct grpc_call *call, void *arg)
{
    (void)call;
    (void)arg;
    n_calls--;
}

static const struct {
    const char *path;
    struct grpc_call_events events;
} methods[] = {
    {"/f/u", {.message = echo, .half_closed = done, .end = end, .unary = true}},
    {"/f/b", {.message = echo, .half_closed = done, .writable = go_on, .end = end}},
    {"/f/p", {.message = stop, .half_closed = done, .writable = go_on, .end = end}},
};

static void accept_call(struct grpc_call *call, const char *name, void *arg)
{
    (void)arg;
    (void)grpc_call_metadata(call, "x");
    for (size_t i = 0; i < sizeof methods / sizeof *methods; i++) {
        if (strcmp(methods[i].path, name) != 0)
            continue;
        n_calls++;
        grpc_call_bind(call, &methods[i].events, NULL);
    }
}

static void clean(void)
{
    grpc_server_close(server, 0, NULL, NULL);
    loop_run(loop);
    loop_free(loop);
    (void)rmdir(folder);
}

static void start(void)
{
    static const struct grpc_limits limits = {
        .message_bytes = 10000, .streams = 20, .window_bytes = 65536};

    must(mkdtemp(folder) && loop_new(&loop) == 0);
    (void)snprintf(path, sizeof path, "%s/s", folder);
    must(grpc_server_new(loop, &limits, accept_call, NULL, &server) == 0);
    must(grpc_server_listen_unix(server, path, 0600) == 0);
    (void)atexit(clean);
}

/* false: the server has closed. */
static bool drain(int fd)
{
    static uint8_t in[65536];
    ssize_t n;

    while ((n = recv(fd, in, sizeof in, MSG_DONTWAIT)) > 0)
        ;
    return n < 0 && errno == EAGAIN;
}

static void feed(int fd, const uint8_t *data, size_t size, size_t piece)
{
    while (size > 0) {
        ssize_t n = send(fd, data, size < piece ? size : piece, MSG_NOSIGNAL | MSG_DONTWAIT);

        if (n < 0 && errno != EAGAIN)
            return;
        if (n > 0) {
            data += n;
            size -= (size_t)n;
        }
        loop_step(loop, 0);
        if (!drain(fd))
            return;
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct sockaddr_un addr = {.sun_family = AF_UNIX};
    int fd;

    if (size == 0)
        return 0;
    if (!loop)
        start();
    fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    (void)snprintf(addr.sun_path, sizeof addr.sun_path, "%s", path);
    must(fd >= 0 && connect(fd, (struct sockaddr *)&addr, sizeof addr) == 0);
    if (data[0] & 1)
        feed(fd, (const uint8_t *)hello, sizeof hello, sizeof hello);
    feed(fd, data + 1, size - 1, data[0] < 16 ? (size_t)1 << (data[0] >> 1) : SIZE_MAX);
    (void)shutdown(fd, SHUT_WR);
    for (int i = 0; drain(fd); i++) {
        must(i < 1000);
        loop_step(loop, 10);
    }
    (void)close(fd);
    for (int i = 0; n_calls > 0; i++) {
        must(i < 1000);
        loop_step(loop, 1);
    }
    return 0;
}
