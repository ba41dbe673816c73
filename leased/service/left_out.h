/* What an acquire for all nodes did not get: those that take no new leases, or came when it was granted. */
#ifndef XCE_LEASED_SERVICE_LEFT_OUT_H
#define XCE_LEASED_SERVICE_LEFT_OUT_H

#include <stdbool.h>

#include "leased/fsm/fsm.h"
#include "xce/v1/lease.pb-c.h"

/* Names and words stay the state's. Zero = nobody; left_out_done. */
struct left_out {
    Xce__V1__LeftOut *items;
    Xce__V1__LeftOut **pointers;
    size_t n;
};

/* The registered nodes that are no members of the lease, by name; reasons: with those, which are for who may list nodes. */
void left_out_find(const struct fsm *fsm, const struct fsm_lease *lease, bool reasons,
                   struct left_out *ret);
void left_out_done(struct left_out *left_out);

#endif
