/* The replicated state: pools, leases, nodes, request table, cluster time, as a pure function of the log (I5).
 *
 * Entry in, outcomes and changes out. No clock, chance, locale, hash order, socket or file in here: time comes in the
 * entry. A failure that is not an outcome aborts the process (stopping beats diverging).
 * One thread: the loop's. Pointers that the queries give live until the next fsm_apply, fsm_restore or fsm_free.
 *
 *   granted ─ all READY ─▶ active ─ release, expiry, revoke, member lost ─▶ draining
 *   granted ─ REFUSED, ready timeout, release ─▶ draining ─ every member CLEAN ─▶ normalising ─ paths clean ─▶ cooling
 *   cooling ─ cool-down over ─▶ retired ─ every witness past that revision ─▶ free
 *   normalising, cooling, retired ─ stray found ─▶ draining (that node becomes a member)
 */
#ifndef XCE_LEASED_FSM_FSM_H
#define XCE_LEASED_FSM_FSM_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "leased/fsm/change.h"

struct fsm;

/* How a command ended. Kept in the request table, so numbers never change. rpc/status.c turns them into gRPC's. */
enum fsm_code {
    FSM_OK = 0,
    FSM_INVALID = 1, /* the command can not be right */
    FSM_NOT_FOUND = 2,
    FSM_EXISTS = 3,       /* (owner, job), pool, node name */
    FSM_EXHAUSTED = 4,    /* no free uid; the message counts states and says when the next is due */
    FSM_STALE = 5,        /* epoch or state has gone on: the lease is not that one any more */
    FSM_PRECONDITION = 6, /* overlap, node not ready, pool retiring, ... */
    FSM_REQUEST_REUSED = 7, /* this request id came with another payload */
    FSM_REQUEST_OLD = 8,    /* issued before the oldest forgotten id */
    FSM_QUOTA = 9,          /* max-per-owner */
    FSM_UNSUPPORTED = 10,   /* version or command not known at this feature level */
    FSM_IGNORED = 11,       /* report of an older session, and the like */
};

#define FSM_MESSAGE_MAX 255
#define FSM_BATCH_MAX   1024

struct fsm_outcome {
    enum fsm_code code;
    bool replayed;     /* the answer of an earlier copy of this request */
    uint64_t revision; /* after the command */
    int64_t now_ms;    /* cluster time */
    uint64_t session;  /* of a hello */
    uint32_t n_leases;
    const uint64_t
        *leases; /* ids, in the order asked for; lives until the next command is applied */
    char message[FSM_MESSAGE_MAX + 1]; /* for people; empty with FSM_OK */
};

struct fsm_hooks {
    /* Each change in revision order, during apply; pointers live for the call. May be NULL. */
    fsm_change_fn change;
    /* Outcome of command i of the entry. May be NULL. */
    void (*outcome)(size_t i, const struct fsm_outcome *outcome, void *arg);
    void *arg;
};

/* 0; -ENOMEM. Time 0, revision 0, nothing else. */
int fsm_new(struct fsm **ret);
void fsm_free(struct fsm *fsm);

/* Apply one log entry (bytes of command.h). -EBADMSG: not an entry of ours, nothing applied: the log is damaged. */

int fsm_apply(struct fsm *fsm, const uint8_t *entry, size_t len, const struct fsm_hooks *hooks);

/* Versioned, checksummed, canonical: the same state gives the same bytes. Caller frees. 0; -ENOMEM. */
int fsm_snapshot(const struct fsm *fsm, uint8_t **ret, size_t *ret_len);
/* Replace everything. -EBADMSG damaged or of an unknown version, fsm unchanged; why (may be NULL) says what is wrong. */
int fsm_restore(struct fsm *fsm, const uint8_t *bytes, size_t len, const char **why);
/* The same state has the same digest on every replica. */
uint64_t fsm_digest(const struct fsm *fsm);

/* ---- queries ---- */

uint64_t fsm_revision(const struct fsm *fsm);
int64_t fsm_now_ms(const struct fsm *fsm);
bool fsm_initialised(const struct fsm *fsm);
const char *fsm_prefix(const struct fsm *fsm);
const uint8_t *fsm_incarnation(const struct fsm *fsm); /* 16 bytes */

/* When CmdTick would next have something to do, cluster time; INT64_MAX = nothing. O(1). */
int64_t fsm_next_due_ms(const struct fsm *fsm);

/* Leases that are not free. NULL = no such. */
const struct fsm_lease *fsm_lease(const struct fsm *fsm, uint64_t id);
const struct fsm_lease *fsm_lease_of_uid(const struct fsm *fsm, uint32_t uid);
const struct fsm_lease *fsm_lease_of_job(const struct fsm *fsm, uint32_t owner_uid,
                                         const char *job);
/* The first with an id greater than after; for walking in order. O(log n). */
const struct fsm_lease *fsm_lease_next(const struct fsm *fsm, uint64_t after);

const struct fsm_pool *fsm_pool(const struct fsm *fsm, const char *name);
const struct fsm_pool *fsm_pool_of_uid(const struct fsm *fsm, uint32_t uid);
const struct fsm_pool *fsm_pool_next(const struct fsm *fsm,
                                     const struct fsm_pool *after); /* NULL = first; by name */
void fsm_pool_counts(const struct fsm_pool *pool, struct fsm_counts *ret);
/* When the next uid of the pool is due to be free if nothing hinders it, cluster time; INT64_MAX = not known. */
int64_t fsm_pool_next_due_ms(const struct fsm *fsm, const struct fsm_pool *pool);
/* Up to n uids that would be granted next, oldest first. The number written. */
size_t fsm_pool_ahead(const struct fsm_pool *pool, uint32_t *ret_uids, size_t n);

const struct fsm_node *fsm_node(const struct fsm *fsm, const char *name);
const struct fsm_node *fsm_node_next(const struct fsm *fsm,
                                     const struct fsm_node *after); /* NULL = first; by name */

/* Highest epoch ever granted of a uid; 0 = never. Outlives pools. */
uint32_t fsm_epoch_floor(const struct fsm *fsm, uint32_t uid);

/* Whether witness w must still speak before the lease (state retired) is free; for explain. */
bool fsm_lease_waits_for(const struct fsm *fsm, const struct fsm_lease *lease,
                         const struct fsm_node *node);

#endif
