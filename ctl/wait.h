/* Wait for what becomes of a lease. */
#ifndef XCE_CTL_WAIT_H
#define XCE_CTL_WAIT_H

#include <stdbool.h>
#include <stdint.h>

#include "xce/client.h"

struct ctl;
struct hostlist;

enum wait_for {
    WAIT_CLEAN = 1, /* every member has proved it clean: it cools, or is further */
    WAIT_FREE = 2,  /* the uid may be leased again */
};

/* How it stood when the waiting ended, in time or not. */
struct wait_end {
    struct xce_event *last; /* about it; NULL = as in the lease that was given */
    bool gone;              /* leased has it no more: it is free, whatever last says */
};

/* Follow a lease that was released until it is so far. deadline_ms: of clock_mono_ms. What hinders it (quarantined) is told once
 * as a message. *ret is for wait_end_done. An exit status. */
int wait_lease(struct ctl *ctl, const struct xce_lease *lease, enum wait_for what,
               int64_t deadline_ms, struct wait_end *ret);
void wait_end_done(struct wait_end *end);

/* Follow a lease until these members of it are ready. One that is let go instead, or the end of the lease, is a failure. */
int wait_members(struct ctl *ctl, const struct xce_lease *lease, const struct hostlist *nodes,
                 int64_t deadline_ms);

#endif
