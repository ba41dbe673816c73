/* A listening socket: hands out connected descriptors. Knows nothing of what is spoken on them. */
#ifndef XCE_COMMON_NET_LISTENER_H
#define XCE_COMMON_NET_LISTENER_H

#include <sys/types.h>

struct loop;
struct listener;

/* A connection has come; fd is the callee's. */
typedef void (*listener_fn)(int fd, void *arg);

/* Listen on a unix socket at path. A stale socket file is replaced; one that somebody listens on is -EADDRINUSE, a file
 * that is no socket -EEXIST. The file has mode from its first moment on and goes with the listener. Else -errno. */
int listener_unix_new(struct loop *loop, const char *path, mode_t mode, listener_fn fn, void *arg,
                      struct listener **ret);

/* Take over a listening descriptor; closed with the listener, and when this fails. */
int listener_fd_new(struct loop *loop, int fd, listener_fn fn, void *arg, struct listener **ret);

/* Closes; removes the file if it is still ours. NULL does nothing. */
void listener_free(struct listener *listener);

#endif
