/* libxce: leases and the stream of their changes. Read client.h first. */
#ifndef XCE_CLIENT_LEASE_H
#define XCE_CLIENT_LEASE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "xce/client_base.h"

#ifdef __cplusplus
extern "C" {
#endif

enum xce_lease_state {
    XCE_GRANTED = 1,
    XCE_ACTIVE = 2,
    XCE_DRAINING = 3,
    XCE_NORMALISING = 4,
    XCE_COOLING = 5,
    XCE_RETIRED = 6,
    XCE_FREE = 7,
};

enum xce_proof {
    XCE_PROOF_PENDING = 0,
    XCE_PROOF_READY = 1,
    XCE_PROOF_REFUSED = 2,
    XCE_PROOF_CLEAN = 3,
    XCE_PROOF_DIRTY = 4,
    XCE_PROOF_FENCED = 5,
};

enum xce_path_proof {
    XCE_PATH_PENDING = 0,
    XCE_PATH_CLEAN = 1,
    XCE_PATH_BLOCKED = 2,
    XCE_PATH_UNPROVEN = 3,
    XCE_PATH_WAIVED = 4,
};

/* "granted", ...; "pending", ...; "unknown" for a number that this library does not know. Static. */
XCE_API const char *xce_lease_state_word(int state);
XCE_API const char *xce_proof_word(int proof);
XCE_API const char *xce_path_proof_word(int proof);

struct xce_owner {
    const char *name;
    uint32_t uid, gid;
};

struct xce_member {
    const char *node;
    int proof;          /* enum xce_proof */
    const char *reason; /* of refused and dirty: a word of a fixed vocabulary */
    const char *detail; /* what was found, for people */
    bool released;      /* let go by a release of this node alone */
};

struct xce_write_path {
    const char *path;
    int proof; /* enum xce_path_proof */
    const char *reason;
};

struct xce_lease {
    uint64_t lease; /* serial, never reused */
    uint32_t uid, gid;
    uint32_t epoch; /* per uid, one more at each grant */
    const char *name, *pool, *job;
    struct xce_owner owner;
    const struct xce_member *members;
    size_t n_members;
    int state; /* enum xce_lease_state */
    bool quarantined;
    const char *const *reasons; /* why quarantined */
    size_t n_reasons;
    const struct xce_write_path *write_paths;
    size_t n_write_paths;
    const uint32_t *gids; /* supplementary */
    size_t n_gids;
    int64_t expires_ms; /* wall time; 0 = has no ttl */
    int64_t ttl_ms;     /* 0 = none */
    int64_t granted_ms; /* wall time */
    int64_t changed_ms; /* wall time of the last change of state */
    uint64_t revision;  /* of the last change */
    const char *home, *shell;
    /* release, expired, revoked, refused, ready-timeout, member-lost, stray, restored; "" while live */
    const char *end_cause;
};

/* A registered node that a lease for all nodes does not have. */
struct xce_left_out {
    const char *node;
    const char *state;  /* now: draining, cordoned, lost, unknown, fenced; ready: it came later */
    const char *reason; /* of that, for people; may be empty */
};

struct xce_leases {
    const struct xce_lease *items;
    size_t n;
    uint64_t next;     /* lists: give as `after`; 0 = that was all */
    uint64_t revision; /* of leased's state */
    int64_t now_ms;    /* cluster time; 0 = not said */
    /* Of an acquire: whom the first spec with all_nodes did not get. */
    const struct xce_left_out *left_out;
    size_t n_left_out;
};

#define XCE_TTL_NONE (-1)

struct xce_spec {
    const char *pool; /* NULL: the only pool there is */
    const char *job;
    int64_t ttl_ms;           /* 0: the pool's default; XCE_TTL_NONE: no ttl */
    const char *const *nodes; /* none and not all_nodes: this machine, if it is a registered node */
    size_t n_nodes;
    bool all_nodes;
    const struct xce_owner *owner;  /* NULL: the caller */
    const char *const *write_paths; /* "/path" or "/path:create" */
    size_t n_write_paths;
    const uint32_t *gids;
    size_t n_gids;
};

#define XCE_BATCH_MAX 1024

struct xce_acquire {
    const struct xce_spec *specs; /* 1 to XCE_BATCH_MAX: all of them or none */
    size_t n_specs;
    bool wait;  /* answer when every member is ready: the uid resolves there now */
    bool adopt; /* (owner, job) exists: answer with that lease */
};

/* Leases in the order of the specs. XCE_EXHAUSTED: the message counts the states and says when the next uid is due. */
XCE_API int xce_lease_acquire(struct xce_client *client, const struct xce_call *call,
                              const struct xce_acquire *acquire, struct xce_leases **ret);

/* The next four act on (lease, epoch), so one that is another's by now is never touched. Result: the lease after it.
 * ttl_ms 0: as it was granted. XCE_PRECONDITION: not granted or active any more. */
XCE_API int xce_lease_renew(struct xce_client *client, const struct xce_call *call, uint64_t lease,
                            uint32_t epoch, int64_t ttl_ms, struct xce_lease **ret);

struct xce_renewal {
    int64_t ttl_ms;           /* 0: as it was granted */
    const char *const *nodes; /* members from now on, too */
    size_t n_nodes;
};

/* The same with more members. It does not wait until they are ready (their proof is XCE_PROOF_READY then). One that
 * refuses, is late or is lost is let go (released), it alone. Who is a member already may be named again. XCE_PRECONDITION:
 * also when one was let go under this epoch, or takes no new leases now; then none is added. */
XCE_API int xce_lease_renew_with(struct xce_client *client, const struct xce_call *call,
                                 uint64_t lease, uint32_t epoch, const struct xce_renewal *renewal,
                                 struct xce_lease **ret);

/* node NULL: the lease ends. Else only that member is let go. */
XCE_API int xce_lease_release(struct xce_client *client, const struct xce_call *call,
                              uint64_t lease, uint32_t epoch, const char *node,
                              struct xce_lease **ret);

/* End somebody else's lease; reason is for people and must be there. */
XCE_API int xce_lease_revoke(struct xce_client *client, const struct xce_call *call, uint64_t lease,
                             uint32_t epoch, const char *reason, struct xce_lease **ret);

enum xce_key_kind {
    XCE_BY_LEASE = 1,
    XCE_BY_UID = 2,
    XCE_BY_NAME = 3,
    XCE_BY_JOB = 4,
};

struct xce_key {
    enum xce_key_kind kind;
    uint64_t lease;
    uint32_t uid;
    const char *text;              /* name or job */
    const struct xce_owner *owner; /* with a job: whose; NULL: the caller's */
};

/* The lease that holds it now and is not free; of a job: that is granted or active. */
XCE_API int xce_lease_get(struct xce_client *client, const struct xce_call *call,
                          const struct xce_key *key, struct xce_lease **ret);

/* The release of a lease of this machine, to be kept by its noded until leased is there, and passed on by it. What is here of the
 * lease ends now; it is on disk when this returns. client: of noded's socket ("unix:/run/xce/noded.sock"), not of leased.
 * key: by uid, lease or name. By root, by who holds the lease (if noded has heard of it since its start), or by its uid; for
 * all others XCE_NOT_FOUND. XCE_EXHAUSTED: it keeps as many as it can. */
struct xce_deferred {
    uint64_t lease;
    uint32_t uid, epoch;
    bool passed; /* leased is there, and is told now */
};
XCE_API int xce_lease_release_deferred(struct xce_client *client, const struct xce_call *call,
                                       const struct xce_key *key, struct xce_deferred **ret);

/* All zero = everything that is granted or active. */
struct xce_lease_filter {
    bool all; /* every lease that is not free */
    const char *pool, *job, *node;
    bool has_owner;
    uint32_t owner_uid;
    const int *states; /* enum xce_lease_state */
    size_t n_states;
    bool quarantined;   /* only these */
    uint32_t page_size; /* 0 = 1000, at most 2000 */
    uint64_t after;     /* `next` of the page before */
};

/* One page, by ascending lease id. A lease is on one page at most; pages are read one after the other, so what changes
 * meanwhile may be seen before or after. */
XCE_API int xce_lease_list(struct xce_client *client, const struct xce_call *call,
                           const struct xce_lease_filter *filter, struct xce_leases **ret);

struct xce_waiting {
    const char *what;  /* "member n1", "cool-down", "witness n2", "reason stray", ... */
    const char *state; /* the word for where it stands */
    const char *detail;
    int64_t since_ms; /* wall time */
    int64_t until_ms; /* wall time when it is due; 0 = not known */
    const char *cure; /* what one can do, or when it goes by itself */
};

struct xce_explanation {
    const struct xce_lease *lease; /* the one that holds it; NULL = none does */
    const struct xce_waiting *waits;
    size_t n_waits; /* 0 = the uid is free */
    const char *summary;
    uint64_t revision;
};

/* Why is this uid not free. Of a job that has no lease any more: the newest of it that has ended and is not free yet. */
XCE_API int xce_lease_explain(struct xce_client *client, const struct xce_call *call,
                              const struct xce_key *key, struct xce_explanation **ret);

struct xce_past {
    uint64_t lease;
    uint32_t uid, epoch;
    const char *name, *pool, *job;
    struct xce_owner owner;
    int64_t granted_ms; /* wall time, as the rest; 0 = not yet */
    int64_t ended_ms, retired_ms, freed_ms;
    const char *end_cause;
    const char *const *nodes;
    size_t n_nodes;
};

struct xce_history {
    const struct xce_past *items; /* newest first */
    size_t n;
    uint64_t revision; /* it is complete up to here */
    bool complete;     /* that is all there is */
    /* What the replica that was asked does not know of the time that was asked for: no item does not mean nobody. "" = it
     * knows all. */
    const char *unknown;
};

/* Who held it. A job is looked for among the newest million leases; unknown says where there are more. at_ms: wall time, 0 = ever. limit: 0 = 100, at most 1000. */
XCE_API int xce_lease_history(struct xce_client *client, const struct xce_call *call,
                              const struct xce_key *key, int64_t at_ms, uint32_t limit,
                              struct xce_history **ret);

/* ---- watch ---- */

enum xce_event_kind {
    XCE_EVENT_LEASE = 1, /* a lease changed; the last one of a lease has state XCE_FREE */
    /* changes up to revision are lost; a whole list follows: forget what is not in it */
    XCE_EVENT_SKIPPED = 2,
    XCE_EVENT_LISTED = 3, /* a lease of the list */
    XCE_EVENT_SYNCED = 4, /* the list is complete and shows everything up to revision */
};

struct xce_event {
    enum xce_event_kind kind;
    uint64_t revision;
    const struct xce_lease *lease; /* XCE_EVENT_LEASE, XCE_EVENT_LISTED */
};

/* Follow all leases that the caller may see, in the order of their changes. since: changes after this revision; 0 = a
 * whole list first, then what comes. Nothing is sent before the first xce_watch_next.
 * A lost connection is made again and the stream resumed where it was, without an event where nothing was lost. At most
 * a few hundred events wait in memory; a reader that is slower is skipped by leased. */
XCE_API int xce_watch_new(struct xce_client *client, uint64_t since, struct xce_watch **ret);

/* The next event. timeout_ms: 0 = only what is there; XCE_TIMEOUT when there was none in time, and the watch goes on.
 * XCE_UNREACHABLE: no server for the client's patience; the watch goes on trying at the next call.
 * Other codes end the watch. */
XCE_API int xce_watch_next(struct xce_watch *watch, int64_t timeout_ms, struct xce_event **ret);

/* Everything up to here was given out: what a later watch may go on from. 0 = a list was not complete yet. */
XCE_API uint64_t xce_watch_revision(const struct xce_watch *watch);

/* End it. NULL is fine, and so is a client that was freed before. */
XCE_API void xce_watch_free(struct xce_watch *watch);

#ifdef __cplusplus
}
#endif

#endif
