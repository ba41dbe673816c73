/* Releases that are handed to this node while leased is away: what noded.c calls of noded_deferred.c. */
#ifndef XCE_NODED_NODED_DEFERRED_H
#define XCE_NODED_NODED_DEFERRED_H

#include <stdbool.h>
#include <stdint.h>

struct noded;

/* What was kept before, then the socket. 0; -errno: what was kept is damaged and can not be set aside; it is logged. */
int noded_deferred_start(struct noded *n);
/* A session has begun: before anything else is said in it. */
void noded_deferred_session(struct noded *n);
void noded_deferred_say(struct noded *n);
void noded_deferred_settle(struct noded *n, int64_t now_ms);
int64_t noded_deferred_next_ms(const struct noded *n);
/* No more are taken; ended once all who waited have been sent away. */
void noded_deferred_stop(struct noded *n);
bool noded_deferred_ended(const struct noded *n);
void noded_deferred_done(struct noded *n);

#endif
