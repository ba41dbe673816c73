/* The rules in force, kept ready for the dispatcher. */
#ifndef XCE_LEASED_SERVICE_RBAC_H
#define XCE_LEASED_SERVICE_RBAC_H

#include "leased/service/service.h"

/* Take the rules of the FSM as it is now. */
void rbac_load(struct service *service);
/* After a change of the rules: take them, and tell who has calls under way. */
void rbac_changed(struct service *service, const struct fsm_change *change);
/* A snapshot has taken the place of the state: likewise. */
void rbac_restored(struct service *service);

#endif
