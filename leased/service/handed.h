/* Releases that were handed to a node while leased was away, and are passed on in its session. */
#ifndef XCE_LEASED_SERVICE_HANDED_H
#define XCE_LEASED_SERVICE_HANDED_H

#include "leased/service/service.h"
#include "xce/v1/node.pb-c.h"

/* Once for each id, however often it is said. Nobody is answered: the node sees in the feed that the lease is over.
 * 0; -EINVAL it can not be, and message (may be NULL) says why. */
int handed_release(struct service *service, const char *node,
                   const Xce__V1__DeferredRelease *release, const char **message);

#endif
