/* Whether a range of uids is clear: nobody has any of them, on this machine or another one of the cluster. What has
 * something in its way is refused here, with a sentence that says who and where; so is what some machine does not say. */
#ifndef XCE_LEASED_SERVICE_CLEAR_H
#define XCE_LEASED_SERVICE_CLEAR_H

#include "leased/fsm/fsm.h"
#include "leased/service/overlap.h"
#include "leased/service/service.h"

typedef void (*clear_gathered_fn)(struct service *service, struct service_request *request,
                                  const struct overlap *overlap);
/* What this machine has (gather.h); then next, while the caller is still there. */
void clear_gather(struct service *service, struct service_request *request, clear_gathered_fn next);

typedef void (*clear_fn)(struct service *service, struct service_request *request,
                         const struct fsm_range *range);
/* Ask this machine and each other one; then runs only if all have said that the range is clear. clear_ask.c. */
void clear_everywhere(struct service *service, struct service_request *request,
                      const struct fsm_range *range, clear_fn then);

#endif
