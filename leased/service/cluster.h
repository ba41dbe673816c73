/* What ClusterService keeps between calls. */
#ifndef XCE_LEASED_SERVICE_CLUSTER_H
#define XCE_LEASED_SERVICE_CLUSTER_H

struct service;

/* A copy of the state that nobody fetches any more goes. */
void cluster_elapse(struct service *service);
void cluster_done(struct service *service);

#endif
