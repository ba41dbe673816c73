/* Acquires that wait until every member is READY, and the answer of an acquire. */
#ifndef XCE_LEASED_SERVICE_WAIT_H
#define XCE_LEASED_SERVICE_WAIT_H

#include "leased/fsm/fsm.h"
#include "leased/service/service.h"

struct waits;

/* 0; -ENOMEM. Free when nobody waits any more. */
int waits_new(struct waits **ret);
void waits_free(struct waits *waits);

/* Answer now if the leases of the outcome are active already, else when they are. A member that refuses is followed by
 * another lease of the same request (the FSM grants it); when that is over too, the answer names node and reason. */
void wait_for_ready(struct service *service, struct service_request *request,
                    const struct fsm_outcome *outcome);

/* AcquireReply with these leases as they are now. */
void wait_reply_acquired(struct service *service, struct service_request *request,
                         const uint64_t *leases, size_t n);

/* A lease has changed: note who waits for it. wait_flush looks at those, once for all changes of an entry. */
void wait_changed(struct service *service, const struct fsm_change *change);
void wait_flush(struct service *service);
/* A snapshot has taken the place of changes: whatever is decided by now is answered. */
void wait_restored(struct service *service);

/* End all of them with -ECANCELED. */
void wait_stop(struct service *service);

#endif
