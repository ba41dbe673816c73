/* The lease of one exec: got, kept and given back, with an eye on signals all the while. */
#ifndef XCE_CTL_EXEC_LEASE_H
#define XCE_CTL_EXEC_LEASE_H

#include <stdbool.h>

#include "ctl/acquire.h"
#include "xce/client.h"

struct ctl;

/* Acquire and wait until every member is ready. Signals that exec handles are blocked: one that is pending ends the
 * waiting, the lease is given back, and the status is 128 + its number. *ret is the caller's to free. */
int exec_lease_get(struct ctl *ctl, const struct acquire_spec *spec, struct xce_lease **ret);

/* Make it last longer. What fails is told, not returned: the next time may do. */
void exec_lease_renew(struct ctl *ctl, const struct xce_lease *lease);

struct exec_released {
    struct xce_lease *lease; /* after it; NULL = it had ended already, or was handed over */
    bool
        handed; /* no leased answered: noded of this machine has it, and tells leased when it is there */
};

/* Give it back; ret->lease is the caller's to free. An exit status. */
int exec_lease_release(struct ctl *ctl, const struct xce_lease *lease, struct exec_released *ret);

/* The first pending signal of those that exec handles; 0 = none. */
int exec_signal_pending(void);

#endif
