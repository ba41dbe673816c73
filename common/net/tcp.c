#include "common/net/tcp.h"

#include <assert.h>
#include <errno.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "common/address.h"
#include "common/net/lookup.h"
#include "common/net/loop.h"

enum {
    /* As long as there is another address to try. */
    ONE_ADDRESS_MS = 3000,
    WHY_BYTES = 400,
};

/* ---- names ---- */

char *tcp_format(const struct sockaddr *address, socklen_t len, char ret[static TCP_PEER_BUF])
{
    char host[64], port[8];

    if (getnameinfo(address, len, host, sizeof host, port, sizeof port,
                    NI_NUMERICHOST | NI_NUMERICSERV) != 0)
        (void)snprintf(ret, TCP_PEER_BUF, "?");
    else
        (void)snprintf(ret, TCP_PEER_BUF, strchr(host, ':') ? "[%s]:%s" : "%s:%s", host, port);
    return ret;
}

char *tcp_peer(int fd, char ret[static TCP_PEER_BUF])
{
    struct sockaddr_storage address;
    socklen_t len = sizeof address;

    if (getpeername(fd, (struct sockaddr *)&address, &len) < 0)
        len = 0;
    return tcp_format((struct sockaddr *)&address, len, ret);
}

/* ---- listening ---- */

static int listen_on(const struct addrinfo *info)
{
    int fd = socket(info->ai_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0), on = 1;
    int r;

    if (fd < 0)
        return -errno;
    if (setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on) < 0 ||
        (info->ai_family == AF_INET6 &&
         setsockopt(fd, IPPROTO_IPV6, IPV6_V6ONLY, &on, sizeof on) < 0) ||
        bind(fd, info->ai_addr, info->ai_addrlen) < 0 || listen(fd, SOMAXCONN) < 0) {
        r = -errno;
        (void)close(fd);
        return r;
    }
    return fd;
}

static void close_all(const int *fds, size_t n)
{
    while (n > 0)
        (void)close(fds[--n]);
}

int tcp_listen(const char *text, int ret_fds[static TCP_LISTEN_MAX], size_t *ret_n, struct err *err)
{
    const struct addrinfo hints = {.ai_socktype = SOCK_STREAM,
                                   .ai_flags = AI_PASSIVE | AI_NUMERICSERV};
    struct addrinfo *list;
    struct address address;
    char peer[TCP_PEER_BUF];
    bool any;
    size_t n = 0;
    int r = address_parse(text, true, &address, err);

    if (r < 0)
        return r;
    any = strcmp(address.host, "*") == 0;
    r = getaddrinfo(any ? NULL : address.host, address.port, &hints, &list);
    if (r != 0)
        return err_set(err, -EINVAL, "%s: %s", text,
                       r == EAI_SYSTEM ? err_text(errno) : gai_strerror(r));
    for (const struct addrinfo *info = list; info && n < TCP_LISTEN_MAX; info = info->ai_next) {
        r = listen_on(info);
        /* A kernel without IPv6 has no address of that kind to listen on. */
        if (r == -EAFNOSUPPORT && any)
            continue;
        if (r < 0) {
            (void)err_set(err, r, "%s: %s", tcp_format(info->ai_addr, info->ai_addrlen, peer),
                          err_text(r));
            break;
        }
        ret_fds[n++] = r;
    }
    freeaddrinfo(list);
    if (r < 0 && r != -EAFNOSUPPORT) {
        close_all(ret_fds, n);
        return r;
    }
    *ret_n = n;
    return n > 0 ? 0 : err_set(err, -EAFNOSUPPORT, "%s: no address to listen on", text);
}

/* ---- connecting ---- */

int tcp_set_up(int fd)
{
    static const struct {
        int level, name, value;
    } options[] = {
        {IPPROTO_TCP, TCP_NODELAY, 1},
        {IPPROTO_TCP, TCP_KEEPIDLE, TCP_KEEP_IDLE_S},
        {IPPROTO_TCP, TCP_KEEPINTVL, TCP_KEEP_PROBE_S},
        {IPPROTO_TCP, TCP_KEEPCNT, TCP_KEEP_PROBES},
        {SOL_SOCKET, SO_KEEPALIVE, 1},
    };

    for (size_t i = 0; i < sizeof options / sizeof *options; i++)
        if (setsockopt(fd, options[i].level, options[i].name, &options[i].value,
                       sizeof options[i].value) < 0)
            return -errno;
    return 0;
}

struct tcp_attempt {
    struct loop *loop;
    tcp_connected_fn fn;
    void *arg;
    struct lookup *lookup;        /* the name is being looked up */
    struct addrinfo *list, *next; /* next: not tried yet */
    int fd;                       /* being connected; -1 = none */
    struct loop_poll *poll;
    struct loop_timer *one, *all;
    char why[WHY_BYTES];
    bool running, dead, told;
};

static void stop_socket(struct tcp_attempt *attempt)
{
    loop_poll_free(attempt->poll);
    attempt->poll = NULL;
    if (attempt->fd >= 0)
        (void)close(attempt->fd);
    attempt->fd = -1;
}

void tcp_attempt_free(struct tcp_attempt *attempt)
{
    if (!attempt || attempt->dead)
        return;
    lookup_cancel(attempt->lookup);
    stop_socket(attempt);
    loop_timer_free(attempt->one);
    loop_timer_free(attempt->all);
    if (attempt->list)
        freeaddrinfo(attempt->list);
    attempt->dead = true;
    if (!attempt->running)
        free(attempt);
}

/* The one callback; the owner may free the attempt in it. */
static void tell(struct tcp_attempt *attempt, int fd)
{
    if (attempt->told)
        return;
    attempt->told = true;
    loop_timer_stop(attempt->one);
    loop_timer_stop(attempt->all);
    lookup_cancel(attempt->lookup);
    attempt->lookup = NULL;
    stop_socket(attempt);
    attempt->running = true;
    attempt->fn(fd, attempt->why, attempt->arg);
    attempt->running = false;
    if (attempt->dead)
        free(attempt);
}

static void set_why(struct tcp_attempt *attempt, const char *what)
{
    (void)snprintf(attempt->why, sizeof attempt->why, "%s", what);
}

static void connected(struct tcp_attempt *attempt)
{
    int fd = attempt->fd;

    loop_poll_free(attempt->poll);
    attempt->poll = NULL;
    attempt->fd = -1;
    tell(attempt, fd);
}

static void try_next(struct tcp_attempt *attempt);

static void failed_one(struct tcp_attempt *attempt, int error)
{
    (void)snprintf(attempt->why, sizeof attempt->why, "connect: %s", err_text(error));
    stop_socket(attempt);
}

static void ready(int fd, unsigned events, void *arg)
{
    struct tcp_attempt *attempt = arg;
    int error = 0;
    socklen_t len = sizeof error;

    (void)events;
    if (getsockopt(fd, SOL_SOCKET, SO_ERROR, &error, &len) < 0)
        error = errno;
    if (error == 0) {
        connected(attempt);
        return;
    }
    failed_one(attempt, error);
    try_next(attempt);
}

/* Whether the attempt at one address is under way. */
static bool begin(struct tcp_attempt *attempt, const struct addrinfo *info)
{
    attempt->fd = socket(info->ai_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (attempt->fd < 0 || tcp_set_up(attempt->fd) < 0 ||
        (connect(attempt->fd, info->ai_addr, info->ai_addrlen) < 0 && errno != EINPROGRESS &&
         errno != EINTR)) {
        failed_one(attempt, errno);
        return false;
    }
    if (loop_poll_new(attempt->loop, attempt->fd, POLLOUT, ready, attempt, &attempt->poll) < 0) {
        failed_one(attempt, ENOMEM);
        return false;
    }
    if (attempt->next)
        loop_timer_start(attempt->one, ONE_ADDRESS_MS, 0);
    return true;
}

static void try_next(struct tcp_attempt *attempt)
{
    loop_timer_stop(attempt->one);
    while (attempt->next) {
        const struct addrinfo *info = attempt->next;

        attempt->next = info->ai_next;
        if (begin(attempt, info))
            return;
    }
    tell(attempt, -EHOSTUNREACH);
}

static void one_is_slow(void *arg)
{
    struct tcp_attempt *attempt = arg;

    set_why(attempt, "connect: no answer");
    stop_socket(attempt);
    try_next(attempt);
}

static void too_late(void *arg)
{
    struct tcp_attempt *attempt = arg;

    set_why(attempt, attempt->lookup ? "the name was not looked up in time" : "connect: no answer");
    tell(attempt, -ETIMEDOUT);
}

static void looked_up(int r, struct addrinfo *list, const char *why, void *arg)
{
    struct tcp_attempt *attempt = arg;

    attempt->lookup = NULL;
    if (r < 0) {
        set_why(attempt, why);
        tell(attempt, r);
        return;
    }
    attempt->list = attempt->next = list;
    try_next(attempt);
}

int tcp_connect(struct loop *loop, const char *text, int64_t timeout_ms, tcp_connected_fn fn,
                void *arg, struct tcp_attempt **ret)
{
    struct address address;
    struct tcp_attempt *attempt;
    int r = address_parse(text, false, &address, NULL);

    if (r < 0)
        return r;
    attempt = calloc(1, sizeof *attempt);
    if (!attempt)
        return -ENOMEM;
    attempt->loop = loop;
    attempt->fn = fn;
    attempt->arg = arg;
    attempt->fd = -1;
    r = loop_timer_new(loop, one_is_slow, attempt, &attempt->one);
    if (r == 0)
        r = loop_timer_new(loop, too_late, attempt, &attempt->all);
    if (r == 0)
        r = lookup_start(loop, address.host, address.port, looked_up, attempt, &attempt->lookup);
    if (r < 0) {
        tcp_attempt_free(attempt);
        return r;
    }
    loop_timer_start(attempt->all, timeout_ms, 0);
    *ret = attempt;
    return 0;
}
