/* Asking the nodes whose sessions are here whether they know somebody who has a uid of a range. One survey is under way at a
 * time, the others wait in order; each is over when its time is. */
#ifndef XCE_LEASED_SERVICE_SURVEY_H
#define XCE_LEASED_SERVICE_SURVEY_H

#include "leased/fsm/fsm.h"
#include "leased/service/service.h"
#include "xce/v1/cluster.pb-c.h"
#include "xce/v1/node.pb-c.h"

struct survey;

/* What was heard; dies with the call. NULL: this leased ends, and nothing is known. */
typedef void (*survey_fn)(const Xce__V1__OverlapReply *reply, void *arg);

/* done exactly once, never inside this call. 0; -ENOBUFS too many wait; -ENOMEM. Not to be called after service_stop. */
int survey_begin(struct service *service, const struct fsm_range *range, survey_fn done, void *arg);
void survey_elapse(struct service *service);
/* End all of them. */
void survey_stop(struct service *service);

/* A node has answered the question that it was asked last. */
void survey_heard(struct service *service, const char *node, const Xce__V1__OverlapAnswer *answer);

#endif
