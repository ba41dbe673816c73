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
 *
 * A lease without write paths has nothing to normalise: it goes from draining to cooling in one change.
 */
#ifndef XCE_LEASED_FSM_FSM_H
#define XCE_LEASED_FSM_FSM_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "leased/fsm/change.h"
#include "xce/v1/rbac.pb-c.h"

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
    /* acquire with wait: a member refused, was late or was lost; nothing is held */
    FSM_NOT_READY = 12,
};

/* Limits. What is above is FSM_INVALID or FSM_EXHAUSTED, with a message that names the limit. */
#define FSM_MESSAGE_MAX   255
#define FSM_BATCH_MAX     1024                      /* leases of one acquire */
#define FSM_LEASE_ID_MAX  ((UINT64_C(1) << 44) - 1) /* the history's keys have no room for more */
#define FSM_MEMBERS_MAX   65536                     /* members of all leases of one acquire */
#define FSM_ALL_MEMBERS   (4 << 20)                 /* members of all leases */
#define FSM_GIDS_MAX      1024                      /* of a lease */
#define FSM_NODES_MAX     65536
#define FSM_POOLS_MAX     64
#define FSM_POOL_UIDS     (1 << 20) /* of a pool */
#define FSM_DIRECTORY_MAX 64        /* directory ranges of a pool */
#define FSM_BLOCKED_MAX   1000      /* findings of blocked uids of a pool that are kept */
#define FSM_UID_FINDINGS  64        /* of one uid that are remembered: with more it stays blocked */
#define FSM_TRIES_MAX     8  /* further leases for one that a member refused (acquire with wait) */
#define FSM_NODE_BLOCKS   16 /* so many uids blocked by a node in an hour: it is cordoned */
#define FSM_NODE_PASSING                                                                           \
    256 /* blocked by a node at a time for what it cleans up: with more it is cordoned */
#define FSM_ROLES_MAX     64   /* beside the built-in ones */
#define FSM_RIGHTS_MAX    256  /* of a role */
#define FSM_BINDINGS_MAX  1024 /* of roles to whom */
#define FSM_BOUND_MAX     16   /* roles of a binding */
#define FSM_TOKENS_MAX    4096 /* good at once */
#define FSM_TOKEN_HASH    32   /* bytes: SHA-256 */
#define FSM_RULES_BYTES   (256 << 10)
#define FSM_REQUEST_MS    600000     /* an answer is kept so long, unless the table is full */
#define FSM_REQUEST_BYTES (16 << 20) /* table of answers to acquire and administrators' commands */
#define FSM_REPEATABLE_BYTES                                                                       \
    (8 << 20) /* and to those that may be done twice: renew, release, revoke */

struct fsm_outcome {
    enum fsm_code code;
    bool replayed;     /* the answer of an earlier copy of this request */
    uint64_t revision; /* after the command */
    int64_t now_ms;    /* cluster time */
    uint64_t session;  /* of a hello */
    uint64_t origin;   /* which replica's command it was, and which of its own; 0 = the leader's */
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

/* Apply one log entry (bytes of command.h). 0; -EBADMSG not an entry of ours, nothing applied: the log is damaged;
 * FSM_UNSUPPORTED written by a newer leased, nothing applied: this one must stop, or it would diverge. hooks may be NULL. */
int fsm_apply(struct fsm *fsm, const uint8_t *entry, size_t len, const struct fsm_hooks *hooks);

/* Versioned, checksummed, canonical: the same state gives the same bytes. Caller frees. 0; -ENOMEM. */
int fsm_snapshot(const struct fsm *fsm, uint8_t **ret, size_t *ret_len);
/* Replace everything. -EBADMSG damaged or of an unknown version, fsm unchanged; why (may be NULL) says what is wrong. */
int fsm_restore(struct fsm *fsm, const uint8_t *bytes, size_t len, const char **why);
/* The same state has the same digest on every replica. */
uint64_t fsm_digest(const struct fsm *fsm);

/* Recount everything that is kept twice. NULL = whole; else what is wrong, static. O(state); for after a restore. */
const char *fsm_verify(const struct fsm *fsm);

/* ---- queries ---- */

uint64_t fsm_revision(const struct fsm *fsm);
int64_t fsm_now_ms(const struct fsm *fsm);
bool fsm_initialised(const struct fsm *fsm);
const char *fsm_prefix(const struct fsm *fsm);
const uint8_t *fsm_incarnation(const struct fsm *fsm); /* 16 bytes */

/* When CmdTick would next have something to do, cluster time; INT64_MAX = nothing. O(1). */
int64_t fsm_next_due_ms(const struct fsm *fsm);

/* The highest id that was ever given to a lease; 0 = none. */
uint64_t fsm_last_lease(const struct fsm *fsm);

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

/* Whether the node's machine has spoken in another boot since it spoke in this one. */
bool fsm_node_has_left(const struct fsm *fsm, const char *name, const char *boot_id);

/* Who may do what, sorted; NULL = never set. fsm_rules_revision: of their last change, 0 = never set. What a role's rights
 * mean is leased/rbac's to say: here they are text. */
const Xce__V1__Rules *fsm_rules(const struct fsm *fsm);
uint64_t fsm_rules_revision(const struct fsm *fsm);

/* Whether a token of that hash lets a machine with that key become the node at that time. */
bool fsm_token_good(const struct fsm *fsm, int64_t now_ms, const uint8_t *hash, const uint8_t *key,
                    const char *node);

/* What became of a request. While waiting (acquire with wait, some lease not yet active) the leases may still be
 * replaced by others; afterwards the answer is final. */
struct fsm_request {
    enum fsm_code code;
    bool waiting;
    int64_t at_ms; /* when it was applied */
    uint32_t n_leases;
    const uint64_t *leases; /* ids in the order asked for; with FSM_OK */
    const char *message;    /* "" with FSM_OK */
};

/* 0; -ENOENT never seen, or forgotten. */
int fsm_request_find(const struct fsm *fsm, const void *principal, size_t principal_len,
                     const void *id, size_t id_len, struct fsm_request *ret);
/* A request that is not known and was issued before this cluster time is refused (acquire). 0 = nothing forgotten yet. */
int64_t fsm_request_horizon_ms(const struct fsm *fsm);

/* What a restored backup has left behind (docs/decisions/0014). */
struct fsm_restored {
    uint32_t times; /* 0 = this state never was a backup; what else is here is of the last time */
    bool waits; /* nothing is granted or becomes free before an administrator confirms the nodes */
    uint64_t revision; /* from which on the new incarnation counts */
    uint64_t backup;   /* revision of the backup */
    int64_t wall_ms;
    uint32_t gap;   /* epochs that each uid leaves out */
    uint32_t least; /* all gaps: what the epochs of a new uid begin above */
    /* Of which nodes had leases since the backup, and which are in no pool: nobody would prove them clean. first 0 = none */
    struct fsm_range unpooled;
    /* Nodes of which the backup does not know all have told of old epochs: uids may stand above any that a node has seen. */
    bool strangers;
    uint32_t ceiling; /* no node is believed a higher epoch, unless the uid has got there since */
    uint32_t n_pages; /* of uids that are in no pool, made for what nodes told */
};

void fsm_get_restored(const struct fsm *fsm, struct fsm_restored *ret);
/* What this node is waited for before the nodes can be confirmed, to be put behind "waits for"; NULL = nothing. Static. */
const char *fsm_node_awaited(const struct fsm *fsm, const struct fsm_node *node);
/* Whether the node has to report the epochs that it has seen. node may be NULL. */
bool fsm_wants_epochs(const struct fsm *fsm, const struct fsm_node *node);

/* Highest epoch ever granted of a uid; 0 = never. Outlives pools. */
uint32_t fsm_epoch_floor(const struct fsm *fsm, uint32_t uid);

/* Whether the uid is blocked in its pool; with more than FSM_BLOCKED_MAX of them not all have their reason in fsm_pool. */
bool fsm_uid_is_blocked(const struct fsm *fsm, uint32_t uid);

/* Whether witness w must still speak before the lease (state retired) is free; for explain. */
bool fsm_lease_waits_for(const struct fsm *fsm, const struct fsm_lease *lease,
                         const struct fsm_node *node);

#endif
