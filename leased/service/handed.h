/* Releases that were handed to a node while leased was away, and are passed on in its session. */
#ifndef XCE_LEASED_SERVICE_HANDED_H
#define XCE_LEASED_SERVICE_HANDED_H

#include "leased/engine/engine.h"
#include "leased/service/service.h"
#include "xce/v1/node.pb-c.h"

enum {
    HANDED_PROPOSED = 1, /* done(arg) will be called */
};

/* Once for each id, however often it is said. Nobody is answered: the node sees in the feed that the lease is over.
 * 0 it is over already, or is not taken; HANDED_PROPOSED; -EINVAL it can not be, and message says why. */
int handed_release(struct service *service, const char *node,
                   const Xce__V1__DeferredRelease *release, engine_done_fn done, void *arg,
                   const char **message);

#endif
