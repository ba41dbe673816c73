/* Whether a range of uids is clear: nobody has any of them, on this machine or another one of the cluster. What has
 * something in its way is refused here, with a sentence that says who and where; so is what some machine does not say. */
#ifndef XCE_LEASED_SERVICE_CLEAR_H
#define XCE_LEASED_SERVICE_CLEAR_H

#include "common/text.h"
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

/* Who has a uid of a range, or of which machine that is not known. */
struct clear_told {
    uint32_t first, last; /* last 0: not known, and what says why */
    char what[256];
    char node[TEXT_NODE_MAX + 1], replica[TEXT_NODE_MAX + 1]; /* both "": this machine */
};

typedef void (*clear_told_fn)(struct service *service, struct service_request *request,
                              const struct clear_told *told, size_t n);
/* Ask them all in any case, and tell what they said; the caller has still the right to it. */
void clear_tell(struct service *service, struct service_request *request,
                const struct fsm_range *range, clear_told_fn then);

#endif
