#include "common/net/listener.h"

#include <errno.h>
#include <poll.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include "common/net/loop.h"

enum {
    ACCEPTS_AT_ONCE = 64,
    /* Out of descriptors or memory: the connection waits in the backlog, and so do we, or we would spin. */
    PAUSE_MS = 100,
};

struct listener {
    int fd;
    struct loop_poll *poll;
    struct loop_timer *pause;
    listener_fn fn;
    void *arg;
    char *path; /* of our socket file; NULL = none */
    dev_t dev;
    ino_t ino;
    bool running, dead; /* a callback is on the stack; freed in it */
};

static void resume(void *arg)
{
    struct listener *listener = arg;

    loop_poll_set(listener->poll, POLLIN);
}

/* Whether accept may succeed when tried again at once: the peer's fault, not ours. */
static bool passing(int error)
{
    return error == EINTR || error == ECONNABORTED || error == EPROTO;
}

static void ready(int fd, unsigned events, void *arg)
{
    struct listener *listener = arg;

    (void)events;
    listener->running = true;
    for (int i = 0; i < ACCEPTS_AT_ONCE && !listener->dead; i++) {
        int peer = accept4(fd, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);

        if (peer >= 0) {
            listener->fn(peer, listener->arg);
        } else if (errno == EAGAIN) {
            break;
        } else if (!passing(errno)) {
            loop_poll_set(listener->poll, 0);
            loop_timer_start(listener->pause, PAUSE_MS, 0);
            break;
        }
    }
    listener->running = false;
    if (listener->dead)
        free(listener);
}

int listener_fd_new(struct loop *loop, int fd, listener_fn fn, void *arg, struct listener **ret)
{
    struct listener *listener = calloc(1, sizeof *listener);
    int r;

    if (!listener) {
        (void)close(fd);
        return -ENOMEM;
    }
    listener->fd = fd;
    listener->fn = fn;
    listener->arg = arg;
    r = loop_timer_new(loop, resume, listener, &listener->pause);
    if (r == 0)
        r = loop_poll_new(loop, fd, POLLIN, ready, listener, &listener->poll);
    if (r < 0) {
        listener_free(listener);
        return r;
    }
    *ret = listener;
    return 0;
}

/* Whether the socket file at addr may be removed. 0; -EADDRINUSE, -EEXIST, -errno. */
static int check_stale(const struct sockaddr_un *addr)
{
    struct stat st;
    int fd, r;

    if (lstat(addr->sun_path, &st) < 0)
        return errno == ENOENT ? 0 : -errno;
    if (!S_ISSOCK(st.st_mode))
        return -EEXIST;
    fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (fd < 0)
        return -errno;
    r = connect(fd, (const struct sockaddr *)addr, sizeof *addr) < 0 ? -errno : 0;
    (void)close(fd);
    /* Taken, or its backlog is full: somebody is there. */
    if (r == 0 || r == -EAGAIN || r == -EPROTOTYPE)
        return -EADDRINUSE;
    return r == -ECONNREFUSED || r == -ENOENT ? 0 : r;
}

static int bind_unix(int fd, const struct sockaddr_un *addr, mode_t mode)
{
    int r;

    /* The file takes the mode of the socket, cut by umask: too little at first, never too much. */
    if (fchmod(fd, mode) < 0)
        return -errno;
    if (bind(fd, (const struct sockaddr *)addr, sizeof *addr) == 0)
        return chmod(addr->sun_path, mode) < 0 ? -errno : 0;
    if (errno != EADDRINUSE)
        return -errno;
    r = check_stale(addr);
    if (r < 0)
        return r;
    if (unlink(addr->sun_path) < 0 && errno != ENOENT)
        return -errno;
    if (bind(fd, (const struct sockaddr *)addr, sizeof *addr) < 0)
        return -errno;
    return chmod(addr->sun_path, mode) < 0 ? -errno : 0;
}

int listener_unix_new(struct loop *loop, const char *path, mode_t mode, listener_fn fn, void *arg,
                      struct listener **ret)
{
    struct sockaddr_un addr = {.sun_family = AF_UNIX};
    struct listener *listener;
    struct stat st;
    int fd, r;

    if (strlen(path) >= sizeof addr.sun_path)
        return -ENAMETOOLONG;
    memcpy(addr.sun_path, path, strlen(path) + 1);
    fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (fd < 0)
        return -errno;
    r = bind_unix(fd, &addr, mode);
    if (r == 0 && (listen(fd, SOMAXCONN) < 0 || lstat(path, &st) < 0))
        r = -errno;
    if (r < 0) {
        (void)close(fd);
        return r;
    }
    r = listener_fd_new(loop, fd, fn, arg, &listener);
    if (r == 0 && !(listener->path = strdup(path))) {
        listener_free(listener);
        r = -ENOMEM;
    }
    if (r < 0) {
        (void)unlink(path);
        return r;
    }
    listener->dev = st.st_dev;
    listener->ino = st.st_ino;
    *ret = listener;
    return 0;
}

void listener_free(struct listener *listener)
{
    struct stat st;

    if (!listener)
        return;
    loop_poll_free(listener->poll);
    loop_timer_free(listener->pause);
    (void)close(listener->fd);
    if (listener->path && lstat(listener->path, &st) == 0 && st.st_dev == listener->dev &&
        st.st_ino == listener->ino)
        (void)unlink(listener->path);
    free(listener->path);
    listener->dead = true;
    if (!listener->running)
        free(listener);
}
