/* Dry runs of sweeps: a node is asked what it would end and remove, by whichever replica has its session, and its answer finds the
 * caller wherever he asked. Nothing of it is in the log, and all of it may be lost: then the caller is told so. */
#ifndef XCE_LEASED_SERVICE_DRY_H
#define XCE_LEASED_SERVICE_DRY_H

#include <stdbool.h>

#include "leased/service/service.h"
#include "xce/v1/node.pb-c.h"

/* NodeService.Sweep with dry_run, of a node that is connected: answered when the node does, or after a minute. */
void dry_begin(struct service *service, struct service_request *request);
/* Whether an answer may be told to others. */
bool dry_is_sound(const Xce__V1__DryReport *report);
/* Some node has answered. What is not sound is not kept. */
void dry_heard(struct service *service, const Xce__V1__DryReport *report);
void dry_elapse(struct service *service);
/* End all of them. */
void dry_stop(struct service *service);

#endif
