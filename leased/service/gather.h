/* What uids this machine has, listed off the loop: one listing at a time, for all who wait. Where a directory takes long, one
 * for each would never be over, and would keep the threads that look up callers.
 *
 * Who has not waited for its end finds the result when he asks again: then, and only then, it is kept for half a minute.
 * What he is told may be as old as that. Nobody else is told anything from before the listing that he found under way. */
#ifndef XCE_LEASED_SERVICE_GATHER_H
#define XCE_LEASED_SERVICE_GATHER_H

#include "leased/service/overlap.h"
#include "leased/service/service.h"

struct gather;

/* 0; -ENOMEM. The service is borrowed. */
int gather_new(struct service *service, struct gather **ret);
/* A listing that is under way is not waited for. Whoever still waits is forgotten. */
void gather_free(struct gather *gather);

/* r: 0 and what there is, which dies with the call; -ETIMEDOUT the listing takes longer than six seconds, and goes on;
 * -ECANCELED; -errno it failed, and nothing is known. */
typedef void (*gather_fn)(int r, const struct overlap *overlap, void *arg);
/* What to say of r < 0. */
const char *gather_why(int r);

/* done exactly once, never inside this call, unless gather_forget comes first. 0; -ENOBUFS too many wait; -ENOMEM. */
int gather_wait(struct gather *gather, gather_fn done, void *arg);
/* Whoever waits with arg does no more. */
void gather_forget(struct gather *gather, const void *arg);
void gather_elapse(struct gather *gather);
/* Nobody waits any more: all end with -ECANCELED. */
void gather_stop(struct gather *gather);

#endif
