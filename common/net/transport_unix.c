#include "common/net/transport.h"

#include <assert.h>
#include <errno.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "common/net/loop.h"

struct unix_stream {
    struct transport base;
    struct loop *loop;
    int fd;
    struct loop_poll *poll;
    struct loop_soon *opening;
    bool reading, closed;
    bool running, dead; /* a callback is on the stack; freed in it */
    /* What the kernel did not take yet. */
    uint8_t *rest;
    size_t rest_len, rest_at;
};

static struct unix_stream *stream_of(struct transport *transport)
{
    return (struct unix_stream *)transport;
}

static void watch(struct unix_stream *stream)
{
    loop_poll_set(stream->poll, (stream->reading ? POLLIN : 0u) | (stream->rest ? POLLOUT : 0u));
}

/* How many bytes the kernel took; 0 = none now. */
static ssize_t send_some(struct unix_stream *stream, const uint8_t *data, size_t len)
{
    ssize_t n;

    do
        n = send(stream->fd, data, len, MSG_NOSIGNAL | MSG_DONTWAIT);
    while (n < 0 && errno == EINTR);
    if (n < 0)
        return errno == EAGAIN ? 0 : -errno;
    stream->base.written_bytes += (uint64_t)n;
    return n;
}

static int unix_write(struct transport *transport, const uint8_t *data, size_t len)
{
    struct unix_stream *stream = stream_of(transport);
    ssize_t n;

    assert(!stream->rest);
    n = send_some(stream, data, len);
    if (n < 0)
        return (int)n;
    if ((size_t)n == len)
        return 0;
    stream->rest_len = len - (size_t)n;
    stream->rest_at = 0;
    stream->rest = malloc(stream->rest_len);
    if (!stream->rest)
        return -ENOMEM;
    memcpy(stream->rest, data + n, stream->rest_len);
    watch(stream);
    return TRANSPORT_BLOCKED;
}

static void unix_read(struct transport *transport, bool on)
{
    struct unix_stream *stream = stream_of(transport);

    if (stream->reading == on)
        return;
    stream->reading = on;
    watch(stream);
}

static void unix_shutdown(struct transport *transport)
{
    (void)shutdown(stream_of(transport)->fd, SHUT_WR);
}

static void unix_free(struct transport *transport)
{
    struct unix_stream *stream = stream_of(transport);

    loop_poll_free(stream->poll);
    loop_soon_free(stream->opening);
    (void)close(stream->fd);
    free(stream->rest);
    stream->dead = true;
    if (!stream->running)
        free(stream);
}

static const struct transport_ops unix_ops = {
    .write = unix_write,
    .read = unix_read,
    .shutdown = unix_shutdown,
    .free = unix_free,
};

/* Last event: nothing is watched any more. */
static void closed(struct unix_stream *stream, int r)
{
    stream->reading = false;
    stream->closed = true;
    loop_poll_set(stream->poll, 0);
    stream->base.events->closed(r, stream->base.arg);
}

static void send_rest(struct unix_stream *stream)
{
    ssize_t n = send_some(stream, stream->rest + stream->rest_at, stream->rest_len);

    if (n < 0) {
        closed(stream, (int)n);
        return;
    }
    stream->rest_at += (size_t)n;
    stream->rest_len -= (size_t)n;
    if (stream->rest_len > 0)
        return;
    free(stream->rest);
    stream->rest = NULL;
    watch(stream);
    stream->base.events->writable(stream->base.arg);
}

static void receive(struct unix_stream *stream)
{
    uint8_t *buffer = loop_scratch(stream->loop);
    ssize_t n = recv(stream->fd, buffer, LOOP_SCRATCH_BYTES, MSG_DONTWAIT);

    if (n > 0)
        stream->base.events->data(buffer, (size_t)n, stream->base.arg);
    else if (n == 0)
        closed(stream, 0);
    else if (errno != EAGAIN && errno != EINTR)
        closed(stream, -errno);
}

static void ready(int fd, unsigned events, void *arg)
{
    struct unix_stream *stream = arg;

    (void)fd;
    stream->running = true;
    if ((events & POLLOUT) && stream->rest)
        send_rest(stream);
    /* POLLERR: reading tells what it is. */
    if ((events & (POLLIN | POLLERR)) && !stream->dead && stream->reading)
        receive(stream);
    else if ((events & POLLERR) && !stream->dead && !stream->closed)
        closed(stream, -ECONNRESET);
    stream->running = false;
    if (stream->dead)
        free(stream);
}

static void opened(void *arg)
{
    struct unix_stream *stream = arg;

    stream->base.events->open(stream->base.arg);
}

static int peer_of(int fd, struct transport_peer *ret)
{
    struct ucred cred;
    int domain;
    socklen_t len = sizeof domain;

    /* On another kind of socket SO_PEERCRED answers too, with nobody. */
    if (getsockopt(fd, SOL_SOCKET, SO_DOMAIN, &domain, &len) < 0)
        return -errno;
    if (domain != AF_UNIX)
        return -EPROTOTYPE;
    len = sizeof cred;
    if (getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &cred, &len) < 0)
        return -errno;
    *ret = (struct transport_peer){
        .local = true, .uid = cred.uid, .gid = cred.gid, .pid = cred.pid};
    return 0;
}

int transport_unix_new(struct loop *loop, int fd, const struct transport_events *events, void *arg,
                       struct transport **ret)
{
    struct unix_stream *stream = calloc(1, sizeof *stream);
    int r;

    if (!stream) {
        (void)close(fd);
        return -ENOMEM;
    }
    stream->base = (struct transport){.ops = &unix_ops, .events = events, .arg = arg};
    stream->loop = loop;
    stream->fd = fd;
    stream->reading = true;
    r = peer_of(fd, &stream->base.peer);
    if (r == 0)
        r = loop_soon_new(loop, opened, stream, &stream->opening);
    if (r == 0)
        r = loop_poll_new(loop, fd, POLLIN, ready, stream, &stream->poll);
    if (r < 0) {
        unix_free(&stream->base);
        return r;
    }
    loop_soon_start(stream->opening);
    *ret = &stream->base;
    return 0;
}

int transport_unix_connect(struct loop *loop, const char *path,
                           const struct transport_events *events, void *arg, struct transport **ret)
{
    struct sockaddr_un addr = {.sun_family = AF_UNIX};
    int fd, r;

    if (strlen(path) >= sizeof addr.sun_path)
        return -ENAMETOOLONG;
    memcpy(addr.sun_path, path, strlen(path) + 1);
    fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (fd < 0)
        return -errno;
    do
        r = connect(fd, (struct sockaddr *)&addr, sizeof addr);
    while (r < 0 && errno == EINTR);
    if (r < 0) {
        r = -errno;
        (void)close(fd);
        return r;
    }
    return transport_unix_new(loop, fd, events, arg, ret);
}
