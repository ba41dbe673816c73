/* What becomes of leases, in the log: once, by who leads when it happens, so neither when a log is read again nor by who only
 * follows. What goes well is told at debug: at 100,000 leases a second it would cost more than the leases. */
#ifndef XCE_LEASED_SERVICE_EVENTS_H
#define XCE_LEASED_SERVICE_EVENTS_H

struct fsm_change;

void events_changed(const struct fsm_change *change);

#endif
