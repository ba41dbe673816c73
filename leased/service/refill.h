/* What our history never saw is fetched from another replica, in the background: one page at a time, a page in 50 ms at most.
 *
 *   our outline ─▶ the newest gap ─▶ each other replica in turn: its outline ─▶ a plan ─▶ page, written, page, ... ─▶ gone
 *       └─ no gap: rest until there may be one           └─ no plan, no answer, a page that is none: the next one
 *
 * How far it is stands in the history's file: after a restart it goes on there, if the same replica can go on. */
#ifndef XCE_LEASED_SERVICE_REFILL_H
#define XCE_LEASED_SERVICE_REFILL_H

#include "leased/service/service.h"

struct refill;

/* 0; -ENOMEM. */
int refill_new(struct service *service, struct refill **ret);
/* What is under way ends by itself. */
void refill_free(struct refill *refill);
void refill_elapse(struct refill *refill);

#endif
