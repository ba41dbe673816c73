/* Raw bytes from a server into the gRPC client. The first byte: bit 0 says whether SETTINGS come before the rest, bit 1
 * whether the call is unary, the others into what pieces it is cut. The request ends, whatever came. */
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

static const uint8_t settings[] = {0, 0, 0, 4, 0, 0, 0, 0, 0};
static struct loop *loop;
static char folder[] = "/tmp/xce-fuzz-h2-XXXXXX", path[64], target[80];
static int listening;
static bool ended, closed;

static void must(bool holds)
{
    if (!holds)
        abort();
}

static void clean(void)
{
    loop_free(loop);
    (void)close(listening);
    (void)unlink(path);
    (void)rmdir(folder);
}

static void start(void)
{
    struct sockaddr_un addr = {.sun_family = AF_UNIX};

    must(mkdtemp(folder) && loop_new(&loop) == 0);
    (void)snprintf(path, sizeof path, "%s/s", folder);
    (void)snprintf(target, sizeof target, "unix:%s", path);
    (void)snprintf(addr.sun_path, sizeof addr.sun_path, "%s", path);
    listening = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    must(listening >= 0 && bind(listening, (struct sockaddr *)&addr, sizeof addr) == 0 &&
         listen(listening, 10) == 0);
    (void)atexit(clean);
}

static void message(struct grpc_request *request, const uint8_t *data, size_t len, void *arg)
{
    (void)arg;
    must(!ended);
    if (len > 0 && data[0] == 'p') {
        grpc_request_pause(request);
        grpc_request_resume(request);
    }
    (void)grpc_request_send(request, data, len < 100 ? len : 100);
}

static void end(struct grpc_request *request, enum grpc_status status, const char *text, bool sent,
                void *arg)
{
    (void)request;
    (void)sent;
    (void)arg;
    must(!ended && status <= GRPC_UNAUTHENTICATED && text);
    (void)strlen(text);
    ended = true;
}

static const struct grpc_request_events unary = {.message = message, .end = end, .unary = true};
static const struct grpc_request_events stream = {.message = message, .end = end};

static void set_true(void *arg)
{
    *(bool *)arg = true;
}

static void feed(int fd, const uint8_t *data, size_t size, size_t piece)
{
    static uint8_t in[65536];

    while (size > 0) {
        ssize_t n = send(fd, data, size < piece ? size : piece, MSG_NOSIGNAL | MSG_DONTWAIT);

        if (n < 0 && errno != EAGAIN)
            return;
        if (n > 0) {
            data += n;
            size -= (size_t)n;
        }
        loop_step(loop, 0);
        while (recv(fd, in, sizeof in, MSG_DONTWAIT) > 0)
            ;
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct grpc_channel *channel;
    struct grpc_request *request;
    int fd;

    if (size == 0)
        return 0;
    if (!loop)
        start();
    ended = closed = false;
    must(grpc_channel_new(loop, target, NULL, &channel) == 0);
    must(grpc_request_start(channel, "/f/u", 10000, NULL, data[0] & 2 ? &unary : &stream, NULL,
                            &request) == 0);
    (void)grpc_request_send(request, (const uint8_t *)"x", 1);
    if (data[0] & 2)
        grpc_request_half_close(request);
    loop_step(loop, 0);
    fd = accept(listening, NULL, NULL);
    must(fd >= 0);
    if (data[0] & 1)
        feed(fd, settings, sizeof settings, sizeof settings);
    feed(fd, data + 1, size - 1, data[0] < 32 ? (size_t)1 << (data[0] >> 2) : SIZE_MAX);
    (void)close(fd);
    for (int i = 0; !ended; i++) {
        must(i < 1000);
        loop_step(loop, 10);
    }
    grpc_channel_close(channel, set_true, &closed);
    for (int i = 0; !closed; i++) {
        must(i < 1000);
        loop_step(loop, 10);
    }
    return 0;
}
