/* From the key of a request to a lease. */
#ifndef XCE_LEASED_SERVICE_FIND_H
#define XCE_LEASED_SERVICE_FIND_H

#include "common/err.h"
#include "leased/fsm/fsm.h"
#include "leased/service/service.h"
#include "xce/v1/lease.pb-c.h"

struct find_key {
    const struct fsm_lease *lease; /* NULL: there is none, or none that the caller may see */
    uint32_t uid;                  /* of a uid or name key, also without a lease; else 0 */
    uint32_t epoch;                /* of a name key */
};

/* 0; -EINVAL no or a malformed key; FSM_NOT_FOUND a name that can be nobody's; err says which. */
int find_lease(struct service *service, const struct service_request *request,
               const Xce__V1__LeaseKey *key, struct find_key *ret, struct err *err);

/* A key by job that find_lease took: the newest lease of it that has ended, its uid not free yet, and that the caller may see;
 * NULL = none. Looks at every lease. */
const struct fsm_lease *find_ended(struct service *service, const struct service_request *request,
                                   const Xce__V1__LeaseKey *key);

#endif
