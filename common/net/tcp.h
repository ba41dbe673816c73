/* TCP on the loop: names looked up off it, connecting, listening. Descriptors only; what is spoken on them is tls_port.h's.
 * All sockets are non-blocking, close on exec; connected ones are set up by tcp_set_up. One loop, one thread. */
#ifndef XCE_COMMON_NET_TCP_H
#define XCE_COMMON_NET_TCP_H

#include <stddef.h>
#include <stdint.h>
#include <sys/socket.h>

#include "common/err.h"

struct loop;
struct tcp_attempt;

#define TCP_LISTEN_MAX  16 /* addresses of one name */
#define TCP_PEER_BUF    80
#define TCP_LOOKUPS_MAX 16 /* threads of this process that wait for a resolver */

#define TCP_KEEP_IDLE_S  60
#define TCP_KEEP_PROBE_S 15
#define TCP_KEEP_PROBES  4

/* Bind and listen on every address that "host:port" means ("*" = all of IPv4 and of IPv6). Waits for the resolver where
 * the host is a name. *ret_n descriptors, the caller's. 0; -EINVAL, -EADDRINUSE, -errno with err, none left open. */
int tcp_listen(const char *address, int ret_fds[static TCP_LISTEN_MAX], size_t *ret_n,
               struct err *err);

/* What every connection wants: TCP_NODELAY; and a peer that lost power, or its way to us, is found out within
 * TCP_KEEP_IDLE_S + TCP_KEEP_PROBES * TCP_KEEP_PROBE_S although nothing is said. 0; -errno. */
int tcp_set_up(int fd);

/* Once, from the loop. fd >= 0: connected, the callee's; else a negative errno, why says more. */
typedef void (*tcp_connected_fn)(int fd, const char *why, void *arg);

/* Connect to the first address of "host:port" that takes it, within timeout_ms in all. A look-up that hangs keeps a thread,
 * not the loop, and not tcp_attempt_free. 0; -EINVAL, -ENOMEM, -EMFILE, -EAGAIN TCP_LOOKUPS_MAX look-ups hang. */
int tcp_connect(struct loop *loop, const char *address, int64_t timeout_ms, tcp_connected_fn fn,
                void *arg, struct tcp_attempt **ret);
/* Give up, or clean up after the callback (which may call it). fn is not called any more. NULL does nothing. */
void tcp_attempt_free(struct tcp_attempt *attempt);

/* "192.0.2.1:4711", "[::1]:4711": who is at the other end; "?" where nobody is. Returns ret. */
char *tcp_peer(int fd, char ret[static TCP_PEER_BUF]);
char *tcp_format(const struct sockaddr *address, socklen_t len, char ret[static TCP_PEER_BUF]);

#endif
