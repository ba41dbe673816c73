/* The lease of one exec: got, kept and given back, with an eye on signals all the while. */
#ifndef XCE_CTL_EXEC_LEASE_H
#define XCE_CTL_EXEC_LEASE_H

#include "ctl/acquire.h"
#include "xce/client.h"

struct ctl;

/* Acquire and wait until every member is ready. Signals that exec handles are blocked: one that is pending ends the
 * waiting, the lease is given back, and the status is 128 + its number. *ret is the caller's to free. */
int exec_lease_get(struct ctl *ctl, const struct acquire_spec *spec, struct xce_lease **ret);

/* Make it last longer. What fails is told, not returned: the next time may do. */
void exec_lease_renew(struct ctl *ctl, const struct xce_lease *lease);

/* Give it back; *ret = the lease after it, or NULL if it had ended already. An exit status. */
int exec_lease_release(struct ctl *ctl, const struct xce_lease *lease, struct xce_lease **ret);

/* The first pending signal of those that exec handles; 0 = none. */
int exec_signal_pending(void);

#endif
