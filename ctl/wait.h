/* Wait for what becomes of a lease. */
#ifndef XCE_CTL_WAIT_H
#define XCE_CTL_WAIT_H

#include <stdint.h>

#include "xce/client.h"

struct ctl;
struct hostlist;

enum wait_for {
    WAIT_CLEAN = 1, /* every member has proved it clean: it cools, or is further */
    WAIT_FREE = 2,  /* the uid may be leased again */
};

/* Follow a lease that was released until it is so far. since: a revision at or before which it was not; deadline_ms: of
 * clock_mono_ms. What hinders it (quarantined) is told once as a message. An exit status. */
int wait_lease(struct ctl *ctl, const struct xce_lease *lease, enum wait_for what,
               int64_t deadline_ms);

/* Follow a lease until these members of it are ready. One that is let go instead, or the end of the lease, is a failure. */
int wait_members(struct ctl *ctl, const struct xce_lease *lease, const struct hostlist *nodes,
                 int64_t deadline_ms);

#endif
