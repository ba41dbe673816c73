/* Supplementary groups of a lease: only such as its owner has, asked of NSS away from the loop. */
#ifndef XCE_LEASED_SERVICE_GROUPS_H
#define XCE_LEASED_SERVICE_GROUPS_H

#include "leased/service/service.h"

/* Check each spec of an AcquireRequest; then next, or a refusal that names the gid. */
void groups_check(struct service *service, struct service_request *request, service_unary_fn next);

#endif
