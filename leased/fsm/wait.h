/* Acquires that wait: one answer may outlive several leases.
 *
 * A request with `wait` goes on until each of its leases is active. When a member refuses one, a new lease (same spec,
 * another uid) takes its place, FSM_TRIES_MAX times; when one ends in any other way, or no further lease can be had, the
 * request has failed, and what it holds besides is ended with it: all or nothing also holds for those who wait. */
#ifndef XCE_LEASED_FSM_WAIT_H
#define XCE_LEASED_FSM_WAIT_H

#include <stdbool.h>
#include <stdint.h>

#include "leased/fsm/fsm.h"

struct lease;
struct request;

struct wait_link {
    struct wait *wait;
    uint32_t i; /* which lease of the request */
    bool own;   /* granted for this request, not adopted by it */
    struct lease *lease;
    struct wait_link *next; /* of the same lease, older requests first */
};

struct wait {
    struct request *request; /* NULL once it has failed */
    struct wait *before, *after;
    struct wait *next_failed;
    uint32_t n_pending; /* leases not yet active */
    uint32_t n;
    struct wait_link links[];
};

/* Begin to wait, for leases in the order of the request's answer; own[i] tells those granted for it. */
struct wait *wait_begin(struct fsm *fsm, struct request *request, struct lease *const *leases,
                        const bool *own);
/* The lease is active: one less to wait for. */
void wait_lease_active(struct fsm *fsm, struct lease *lease);
/* The lease left granted or active. refused: a member did not take it, another lease may follow. */
void wait_lease_ended(struct fsm *fsm, struct lease *lease, bool refused);
/* End what failed requests still hold. After each command. */
void waits_settle(struct fsm *fsm);
/* The record goes: nobody can ask any more. */
void wait_forget(struct fsm *fsm, const struct request *request);
void waits_done(struct fsm *fsm);

#endif
