/* A host's name to addresses, on a thread that may hang without holding up anybody: giving up does not wait for it. */
#ifndef XCE_COMMON_NET_LOOKUP_H
#define XCE_COMMON_NET_LOOKUP_H

struct addrinfo;
struct lookup;
struct loop;

/* Once, from the loop. list: freeaddrinfo is the callee's. r < 0: -ENOENT no such name, -EAGAIN the resolver failed,
 * -ENOMEM; why says so in words, static. */
typedef void (*lookup_fn)(int r, struct addrinfo *list, const char *why, void *arg);

/* Stream addresses of host and decimal port. The answer never comes inside this call. 0; -ENOMEM; -EAGAIN: no thread. */
int lookup_start(struct loop *loop, const char *host, const char *port, lookup_fn fn, void *arg,
                 struct lookup **ret);
/* fn will not be called. Not after it was. NULL does nothing. */
void lookup_cancel(struct lookup *lookup);

#endif
