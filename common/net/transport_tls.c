#include "common/net/transport_tls.h"

#include <assert.h>
#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "common/mem.h"
#include "common/net/loop.h"
#include "common/net/tcp.h"

/*  client: CONNECTING ─ connected ─▶ SHAKING ─ handshake over ─▶ OPEN ─ end, failure ─▶ CLOSED
 *  server:                           SHAKING ─ the same
 *  Before OPEN a failure leads to CLOSED, too; a server's stream then swallows what still comes. */
enum state {
    CONNECTING,
    SHAKING,
    OPEN,
    CLOSED,
};

enum {
    /* The scratch buffer of the loop in two: what is read from the socket, and what comes out of it. */
    READ_BYTES = 112 * 1024,
    PLAIN_BYTES = LOOP_SCRATCH_BYTES - READ_BYTES,
};
_Static_assert(PLAIN_BYTES >= READ_BYTES + TLS_RECEIVE_EXTRA, "room for a record begun before");

struct tls_stream {
    struct transport base;
    struct tls_member member; /* of the keys, while OPEN */
    struct loop *loop;
    struct tls_keys *keys;
    struct tls_session *session;
    struct tcp_attempt *attempt; /* CONNECTING */
    struct loop_timer *timer;    /* client, until OPEN */
    enum state state;
    bool server;
    int fd;
    struct loop_poll *poll;
    struct loop_soon
        *soon; /* tells an end that was found outside of the loop, or while reading was off */
    bool reading;
    bool blocked; /* `writable` is owed, also when nothing is left: what is read pushes, too */
    bool fin, fin_sent; /* close_notify said; our direction of the socket ended, too */
    bool clean;         /* the peer said close_notify: it gets ours */
    bool ending;        /* `closed` is to be told with end_r */
    bool forced;        /* even if nobody reads */
    int end_r;
    bool running, dead, member_in;
    /* Of bytes of the program: given to us; known to be with the kernel when nothing was left; and wire bytes since. */
    uint64_t given_bytes, base_bytes, wire_bytes;
    void (*established)(struct transport *transport, void *arg);
    const char *alpns[2]; /* client: the one wanted */
    char *alpn, *peer;
    int64_t user_timeout_ms;
    char why[TLS_WHY_MAX];
};

static struct tls_stream *stream_of(struct transport *transport)
{
    return (struct tls_stream *)transport;
}

/* ---- the socket ---- */

static bool owes(const struct tls_stream *stream)
{
    size_t len;

    (void)tls_session_out(stream->session, &len);
    return len > 0;
}

static void watch(struct tls_stream *stream)
{
    bool in = stream->state == CLOSED ? stream->server : stream->reading && !stream->ending;
    bool out = stream->state != CLOSED && (owes(stream) || stream->blocked);

    if (stream->poll)
        loop_poll_set(stream->poll,
                      (in || stream->state == SHAKING ? POLLIN : 0u) | (out ? POLLOUT : 0u));
}

static void count(struct tls_stream *stream, size_t n)
{
    uint64_t seen;

    stream->wire_bytes += n;
    if (!owes(stream)) {
        stream->base_bytes = stream->given_bytes;
        stream->wire_bytes = 0;
    }
    /* A record is longer than what is in it: no more bytes than that can have been seen. */
    seen = stream->base_bytes + stream->wire_bytes;
    stream->base.written_bytes = seen < stream->given_bytes ? seen : stream->given_bytes;
}

/* Give the kernel what it takes. 0, more may be owed; -errno. */
static int push(struct tls_stream *stream)
{
    size_t len;
    const uint8_t *out;

    while ((out = tls_session_out(stream->session, &len)), len > 0) {
        ssize_t n = send(stream->fd, out, len, MSG_NOSIGNAL | MSG_DONTWAIT);

        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0)
            return errno == EAGAIN ? 0 : -errno;
        tls_session_sent(stream->session, (size_t)n);
        count(stream, (size_t)n);
    }
    if (stream->fin && !stream->fin_sent) {
        stream->fin_sent = true;
        (void)shutdown(stream->fd, SHUT_WR);
    }
    return 0;
}

/* ---- the end ---- */

static void leave_keys(struct tls_stream *stream)
{
    if (stream->member_in)
        tls_keys_leave(stream->keys, &stream->member);
    stream->member_in = false;
}

/* Last event. */
static void closed(struct tls_stream *stream, int r)
{
    bool shaking = stream->state == SHAKING;

    leave_keys(stream);
    stream->clean = stream->state == OPEN && r == 0;
    stream->state = CLOSED;
    stream->ending = false;
    if (stream->timer)
        loop_timer_stop(stream->timer);
    loop_soon_stop(stream->soon);
    if (r < 0 && stream->why[0])
        stream->base.why = stream->why;
    /* A peer that was turned away shall be able to read why, which a reset would undo. */
    stream->server = stream->server && shaking;
    if (stream->server) {
        (void)push(stream);
        (void)shutdown(stream->fd, SHUT_WR);
    }
    watch(stream);
    stream->base.events->closed(r, stream->base.arg);
}

/* The end was found; told now, or when somebody reads again. */
static void end(struct tls_stream *stream, int r)
{
    if (stream->reading || stream->state != OPEN) {
        closed(stream, r);
        return;
    }
    stream->ending = true;
    stream->end_r = r;
    watch(stream);
}

static void failed(struct tls_stream *stream, int r)
{
    const char *why = tls_session_why(stream->session);

    if (!stream->why[0] && why[0])
        (void)snprintf(stream->why, sizeof stream->why, "%s", why);
    (void)push(stream);
    /* It has read nothing of what we said. */
    if (tls_session_refused(stream->session)) {
        stream->base.written_bytes = 0;
        tls_keys_note_refusal(stream->keys);
    }
    end(stream, r);
}

static void end_soon(void *arg)
{
    struct tls_stream *stream = arg;

    if (!stream->ending || !(stream->reading || stream->forced))
        return;
    stream->running = true;
    closed(stream, stream->end_r);
    stream->running = false;
    if (stream->dead)
        free(stream);
}

void transport_tls_cut(struct tls_member *member, int r, const char *why)
{
    struct tls_stream *stream = CONTAINER_OF(member, struct tls_stream, member);

    (void)snprintf(stream->why, sizeof stream->why, "%s", why);
    stream->ending = stream->forced = true;
    stream->end_r = r;
    watch(stream);
    loop_soon_start(stream->soon);
}

/* ---- receiving ---- */

static void opened(struct tls_stream *stream)
{
    stream->state = OPEN;
    if (tls_session_peer(stream->session)->kind)
        stream->base.peer.tls = tls_session_peer(stream->session);
    if (stream->timer)
        loop_timer_stop(stream->timer);
    stream->member.session = stream->session;
    stream->member_in = true;
    tls_keys_enter(stream->keys, &stream->member);
    if (stream->established)
        stream->established(&stream->base, stream->base.arg);
    if (!stream->dead)
        stream->base.events->open(stream->base.arg);
}

/* Bytes of the wire, len 0 = a client's beginning. */
static void take(struct tls_stream *stream, const uint8_t *in, size_t len)
{
    bool was_open = tls_session_open(stream->session);
    uint8_t *plain = loop_scratch(stream->loop);
    size_t n;
    int r = tls_session_receive(stream->session, in, len, plain, PLAIN_BYTES, &n), pushed = 0;

    if (r >= 0)
        pushed = push(stream);
    if (!was_open && tls_session_open(stream->session)) {
        /* The files may have been loaded anew since the handshake began, which stands on the old ones. */
        int checked = tls_session_check(stream->session, tls_keys_context(stream->keys));
        /* What came with the last of the handshake is kept over the callbacks. */
        auto_free uint8_t *kept = checked == 0 && n > 0 ? mem_dup(plain, n) : NULL;

        if (checked < 0) {
            failed(stream, checked);
            return;
        }
        if (n > 0 && !kept) {
            closed(stream, -ENOMEM);
            return;
        }
        opened(stream);
        if (n > 0 && !stream->dead && stream->state == OPEN)
            stream->base.events->data(kept, n, stream->base.arg);
    } else if (n > 0) {
        stream->base.events->data(plain, n, stream->base.arg);
    }
    if (stream->dead || stream->state == CLOSED || stream->ending)
        return;
    if (r < 0)
        failed(stream, r);
    else if (r == TLS_END)
        end(stream, 0);
    else if (pushed < 0)
        end(stream, pushed);
}

static void swallow(struct tls_stream *stream)
{
    ssize_t n = recv(stream->fd, loop_scratch(stream->loop), LOOP_SCRATCH_BYTES, MSG_DONTWAIT);

    if (n > 0 || (n < 0 && (errno == EAGAIN || errno == EINTR)))
        return;
    stream->server = false;
    watch(stream);
}

static void receive(struct tls_stream *stream)
{
    uint8_t *in = loop_scratch(stream->loop) + PLAIN_BYTES;
    ssize_t n = recv(stream->fd, in, READ_BYTES, MSG_DONTWAIT);

    if (n > 0) {
        take(stream, in, (size_t)n);
    } else if (n == 0) {
        (void)snprintf(stream->why, sizeof stream->why,
                       stream->state == SHAKING ? "ended the connection within the handshake"
                                                : "the connection was cut short");
        end(stream, -ECONNABORTED);
    } else if (errno != EAGAIN && errno != EINTR) {
        end(stream, -errno);
    }
}

static void send_more(struct tls_stream *stream)
{
    int r = push(stream);

    if (r < 0) {
        closed(stream, r);
        return;
    }
    if (owes(stream) || !stream->blocked)
        return;
    stream->blocked = false;
    stream->base.events->writable(stream->base.arg);
}

static void ready(int fd, unsigned events, void *arg)
{
    struct tls_stream *stream = arg;

    (void)fd;
    stream->running = true;
    if (stream->state == CLOSED) {
        swallow(stream);
        events = 0;
    }
    if ((events & POLLOUT) && (owes(stream) || stream->blocked))
        send_more(stream);
    /* POLLERR: reading tells what it is. */
    if (!stream->dead && stream->state != CLOSED && !stream->ending) {
        bool reads = stream->reading || stream->state == SHAKING;

        if ((events & (POLLIN | POLLERR)) && reads)
            receive(stream);
        else if (events & POLLERR)
            closed(stream, -ECONNRESET);
    } else if (!stream->dead && stream->state != CLOSED && (events & POLLERR)) {
        closed(stream, stream->end_r);
    }
    if (!stream->dead && stream->state != CLOSED)
        watch(stream);
    stream->running = false;
    if (stream->dead)
        free(stream);
}

/* ---- what the owner asks for ---- */

static int tls_write(struct transport *transport, const uint8_t *data, size_t len)
{
    struct tls_stream *stream = stream_of(transport);
    int r;

    assert(!stream->blocked);
    if (stream->state != OPEN)
        return -EPIPE;
    r = tls_session_send(stream->session, data, len);
    if (r < 0)
        return r;
    stream->given_bytes += len;
    r = push(stream);
    if (r < 0)
        return r;
    if (!owes(stream))
        return 0;
    stream->blocked = true;
    watch(stream);
    return TRANSPORT_BLOCKED;
}

static void tls_read(struct transport *transport, bool on)
{
    struct tls_stream *stream = stream_of(transport);

    if (stream->reading == on)
        return;
    stream->reading = on;
    watch(stream);
    if (on && stream->ending)
        loop_soon_start(stream->soon);
}

static void tls_shutdown(struct transport *transport)
{
    struct tls_stream *stream = stream_of(transport);

    if (stream->state != OPEN || stream->fin)
        return;
    tls_session_end(stream->session);
    stream->fin = true;
    (void)push(stream);
    watch(stream);
}

static void tls_free(struct transport *transport)
{
    struct tls_stream *stream = stream_of(transport);

    if (stream->dead)
        return;
    leave_keys(stream);
    tcp_attempt_free(stream->attempt);
    if ((stream->state == OPEN || stream->clean) && !stream->fin && !owes(stream)) {
        tls_session_end(stream->session);
        (void)push(stream);
    }
    loop_poll_free(stream->poll);
    loop_soon_free(stream->soon);
    loop_timer_free(stream->timer);
    if (stream->fd >= 0)
        (void)close(stream->fd);
    tls_session_free(stream->session);
    tls_keys_release(stream->keys);
    free(stream->alpn);
    free(stream->peer);
    stream->dead = true;
    if (!stream->running)
        free(stream);
}

static const struct transport_ops tls_ops = {
    .write = tls_write,
    .read = tls_read,
    .shutdown = tls_shutdown,
    .free = tls_free,
};

const char *transport_tls_alpn(const struct transport *transport)
{
    return tls_session_alpn(((const struct tls_stream *)(const void *)transport)->session);
}

void transport_tls_user_timeout(struct transport *transport, int64_t timeout_ms)
{
    unsigned ms = (unsigned)timeout_ms;

    (void)setsockopt(stream_of(transport)->fd, IPPROTO_TCP, TCP_USER_TIMEOUT, &ms, sizeof ms);
}

/* ---- birth ---- */

static struct tls_stream *stream_new(struct loop *loop, struct tls_keys *keys,
                                     const struct transport_events *events, void *arg)
{
    struct tls_stream *stream = calloc(1, sizeof *stream);

    if (!stream)
        return NULL;
    stream->base = (struct transport){.ops = &tls_ops, .events = events, .arg = arg};
    stream->loop = loop;
    stream->keys = keys;
    stream->fd = -1;
    stream->reading = true;
    tls_keys_hold(keys);
    return stream;
}

static int begin_session(struct tls_stream *stream, const struct tls_session_options *options)
{
    int r = tls_session_new(tls_keys_context(stream->keys), options, &stream->session);

    return r < 0 ? r : loop_soon_new(stream->loop, end_soon, stream, &stream->soon);
}

int transport_tls_accept(struct loop *loop, const struct transport_tls_server *server, int fd,
                         const struct transport_events *events, void *arg, struct transport **ret)
{
    const struct tls_session_options options = {.server = true, .alpns = server->alpns};
    struct tls_stream *stream = stream_new(loop, server->keys, events, arg);
    int r;

    if (!stream) {
        (void)close(fd);
        return -ENOMEM;
    }
    stream->fd = fd;
    stream->server = true;
    stream->state = SHAKING;
    stream->established = server->established;
    (void)tcp_set_up(fd);
    r = begin_session(stream, &options);
    if (r == 0)
        r = loop_poll_new(loop, fd, POLLIN, ready, stream, &stream->poll);
    if (r < 0) {
        tls_free(&stream->base);
        return r;
    }
    *ret = &stream->base;
    return 0;
}

/* ---- a client ---- */

static void connect_failed(struct tls_stream *stream, int r, const char *why)
{
    (void)snprintf(stream->why, sizeof stream->why, "%s", why);
    closed(stream, r);
}

static void tcp_done(int fd, const char *why, void *arg)
{
    struct tls_stream *stream = arg;
    int r;

    stream->running = true;
    tcp_attempt_free(stream->attempt);
    stream->attempt = NULL;
    if (fd < 0) {
        connect_failed(stream, fd, why);
    } else {
        stream->fd = fd;
        stream->state = SHAKING;
        if (stream->user_timeout_ms > 0)
            transport_tls_user_timeout(&stream->base, stream->user_timeout_ms);
        r = loop_poll_new(stream->loop, fd, POLLIN, ready, stream, &stream->poll);
        if (r < 0)
            connect_failed(stream, r, "out of memory");
        else
            take(stream, NULL, 0);
        if (!stream->dead && stream->state != CLOSED)
            watch(stream);
    }
    stream->running = false;
    if (stream->dead)
        free(stream);
}

static void too_slow(void *arg)
{
    struct tls_stream *stream = arg;

    stream->running = true;
    if (stream->state < OPEN)
        connect_failed(stream, -ETIMEDOUT, "no TLS handshake in time");
    stream->running = false;
    if (stream->dead)
        free(stream);
}

int tls_connect(struct loop *loop, struct tls_keys *keys, const struct tls_target *target,
                const struct transport_events *events, void *arg, struct transport **ret)
{
    struct tls_stream *stream = stream_new(loop, keys, events, arg);
    int64_t timeout_ms = target->timeout_ms > 0 ? target->timeout_ms : TLS_HANDSHAKE_MS;
    struct tls_session_options options = {.server = false};
    int r;

    if (!stream)
        return -ENOMEM;
    stream->user_timeout_ms = target->user_timeout_ms;
    stream->alpn = strdup(target->alpn);
    stream->peer = strdup(target->peer);
    stream->alpns[0] = stream->alpn;
    options.alpns = stream->alpns;
    options.peer = stream->peer;
    r = stream->alpn && stream->peer ? begin_session(stream, &options) : -ENOMEM;
    if (r == 0)
        r = loop_timer_new(loop, too_slow, stream, &stream->timer);
    if (r == 0)
        r = tcp_connect(loop, target->address, timeout_ms, tcp_done, stream, &stream->attempt);
    if (r < 0) {
        tls_free(&stream->base);
        return r;
    }
    loop_timer_start(stream->timer, timeout_ms, 0);
    *ret = &stream->base;
    return 0;
}
