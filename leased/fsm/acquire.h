/* What fsm_apply needs beside the command itself: an acquire's answer is kept first, then it may wait. */
#ifndef XCE_LEASED_FSM_ACQUIRE_H
#define XCE_LEASED_FSM_ACQUIRE_H

#include <stdint.h>

struct fsm;
struct request;

/* The kept answer of an acquire with wait, applied just now: leases with ids above granted_after were made for it. */
void acquire_wait(struct fsm *fsm, struct request *request, uint64_t granted_after);

#endif
