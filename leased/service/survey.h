/* Asking what can be asked from here whether somebody has a uid of a range: this machine, and the nodes whose sessions are
 * here. The nodes are asked about one range at a time, for six seconds at most. The others wait in order, but not long: a
 * second, so that there is time left to answer whoever wants to know. */
#ifndef XCE_LEASED_SERVICE_SURVEY_H
#define XCE_LEASED_SERVICE_SURVEY_H

#include "leased/fsm/fsm.h"
#include "leased/service/service.h"
#include "xce/v1/cluster.pb-c.h"
#include "xce/v1/node.pb-c.h"

struct survey;

/* r: 0 and what was heard, which dies with the call; else nothing is known: -ECANCELED this leased ends; -EAGAIN the nodes
 * were asked about other ranges all the time. */
typedef void (*survey_fn)(int r, const Xce__V1__OverlapReply *reply, void *arg);
/* What to say of -EAGAIN. */
#define SURVEY_BUSY "its nodes are being asked about other ranges: ask again"

/* all: ask the nodes also if this machine has a uid there.
 * done exactly once, never inside this call. 0; -ENOBUFS too many wait; -ENOMEM. Not to be called after service_stop. */
int survey_begin(struct service *service, const struct fsm_range *range, bool all, survey_fn done,
                 void *arg);
void survey_elapse(struct service *service);
/* End all of them. */
void survey_stop(struct service *service);

/* A node has answered the question that it was asked last. */
void survey_heard(struct service *service, const char *node, const Xce__V1__OverlapAnswer *answer);

#endif
