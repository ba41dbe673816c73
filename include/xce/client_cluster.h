/* libxce: pools, nodes and replicas, for administrators. Read client.h first. */
#ifndef XCE_CLIENT_CLUSTER_H
#define XCE_CLIENT_CLUSTER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "xce/client_base.h"

#ifdef __cplusplus
extern "C" {
#endif

/* ---- pools ---- */

enum xce_pool_state {
    XCE_POOL_OPEN = 1,
    XCE_POOL_RETIRING = 2, /* no new leases; gone when empty */
};
/* "open", "retiring"; "unknown". Static. */
XCE_API const char *xce_pool_state_word(int state);

struct xce_range {
    uint32_t first, last; /* both belong to it */
};

enum xce_witnesses {
    XCE_WITNESSES_CONNECTED = 0,
    XCE_WITNESSES_ALL = 1,
};

/* 0 and NULL in a request: the default (create), unchanged (set). */
struct xce_pool_settings {
    int64_t ttl_min_ms, ttl_max_ms, ttl_default_ms, cooldown_ms, ready_timeout_ms, validity_ms;
    bool witnesses_set; /* request: witnesses counts */
    int witnesses;      /* enum xce_witnesses */
    bool max_per_owner_set;
    uint32_t max_per_owner; /* 0 = no limit */
    const char *home, *shell;
};

struct xce_pool_counts {
    uint32_t free, granted, active, draining, normalising, cooling, retired, blocked, quarantined;
};

struct xce_blocked {
    uint32_t uid;
    const char *node; /* who saw it */
    const char *reason, *detail;
    int64_t since_ms; /* wall time */
};

struct xce_pool {
    const char *name;
    struct xce_range range;
    int state; /* enum xce_pool_state */
    const char *prefix;
    struct xce_pool_settings settings;
    const struct xce_range *directory_ranges;
    size_t n_directory_ranges;
    bool directory_none;
    bool has_counts; /* false: not shown to this caller */
    struct xce_pool_counts counts;
    const struct xce_blocked *blocked; /* at most 1000 */
    size_t n_blocked;
    uint64_t revision;
    /* wall time when the next uid becomes free if nothing hinders it; 0 = not known */
    int64_t next_due_ms;
};

struct xce_pools {
    const struct xce_pool *items;
    size_t n;
    uint64_t revision;
};

struct xce_pool_spec {
    const char *name;
    struct xce_range range;
    /* Exactly one of the two is the administrator's answer to: which uids does your directory service give out? */
    const struct xce_range *directory_ranges;
    size_t n_directory_ranges;
    bool directory_none;
    struct xce_pool_settings settings;
};

/* XCE_INVALID or XCE_PRECONDITION: an overlap; the message names it. XCE_EXISTS: there is a pool of that name. */
XCE_API int xce_pool_create(struct xce_client *client, const struct xce_call *call,
                            const struct xce_pool_spec *spec, struct xce_pool **ret);
/* spec->range.last: grow to it, 0 = unchanged (range.first must be 0); no directory answer = unchanged. */
XCE_API int xce_pool_set(struct xce_client *client, const struct xce_call *call,
                         const struct xce_pool_spec *spec, struct xce_pool **ret);

/* Reads. */
XCE_API int xce_pool_get(struct xce_client *client, const struct xce_call *call, const char *name,
                         struct xce_pool **ret);
XCE_API int xce_pool_list(struct xce_client *client, const struct xce_call *call,
                          struct xce_pools **ret);

/* Somebody on some machine who has a uid of a pool. */
struct xce_overlap {
    struct xce_range range; /* last 0: whether anybody has one is not known there */
    const char *what;       /* who; or why it is not known */
    const char *node;       /* where */
    const char *
        replica; /* if node is "": on the machine of this one; "", too: of the one that was asked */
};

struct xce_overlaps {
    const struct xce_overlap
        *items; /* of each machine at most one, and not of all where there are many */
    size_t n;
};

/* Ask all machines. Takes up to ten seconds, where one does not answer. XCE_NOT_FOUND: no such pool. */
XCE_API int xce_pool_overlap(struct xce_client *client, const struct xce_call *call,
                             const char *name, struct xce_overlaps **ret);

/* A uid that was blocked may be leased again; reason is for people, is audited and must be there. */
XCE_API int xce_pool_unblock(struct xce_client *client, const struct xce_call *call,
                             const char *name, uint32_t uid, const char *reason,
                             struct xce_pool **ret);
/* A pool leases nothing more and is gone when it is empty. */
XCE_API int xce_pool_retire(struct xce_client *client, const struct xce_call *call,
                            const char *name, struct xce_pool **ret);

struct xce_suggestion {
    struct xce_range range;
    const char *const *rejected; /* why lower candidates were passed over */
    size_t n_rejected;
};

/* A range of count uids (0 = 65536) that overlaps with nothing known. */
XCE_API int xce_pool_suggest(struct xce_client *client, const struct xce_call *call, uint32_t count,
                             const struct xce_range *directory_ranges, size_t n_directory_ranges,
                             struct xce_suggestion **ret);

/* ---- nodes ---- */

enum xce_node_state {
    XCE_NODE_READY = 1,
    XCE_NODE_DRAINING = 2,
    XCE_NODE_CORDONED = 3,
    XCE_NODE_LOST = 4,
    XCE_NODE_UNKNOWN = 5,
    XCE_NODE_FENCED = 6,
};
/* "ready", ...; "unknown" also for a number that this library does not know. Static. */
XCE_API const char *xce_node_state_word(int state);

/* Who else has said that it is the node, or that it is its machine under another name, and was refused. */
struct xce_node_rival {
    const char *node, *machine_id, *boot_id; /* boot_id "": nobody */
    int64_t heard_ms;                        /* wall time, last time */
    bool cloned;                             /* both speak: the node is lost until it is fenced */
};

struct xce_node {
    const char *node;
    int state;                  /* enum xce_node_state */
    const char *reason, *actor; /* of the last verb or of the state; who gave the verb */
    const char *machine_id, *boot_id;
    uint64_t session, watermark;
    uint32_t leases; /* not free, this node a member */
    /* Wall time of the last heartbeat that the replica that answers knows of, and since when it listens for them: who leads,
     * since it does. heard_ms 0, or before that: it has not heard of the node since then, and can not know what others did. */
    int64_t heard_ms, listening_ms;
    uint64_t revision, hello_revision;
    bool connected;
    bool drained; /* draining and no lease left on it */
    struct xce_node_rival rival;
    const char *hangs; /* what a look hangs at there, kind and place; "" = nothing */
};

struct xce_nodes {
    const struct xce_node *items;
    size_t n;
    uint64_t revision;
};

/* One node; all of them, by name. XCE_NOT_FOUND: not registered. */
XCE_API int xce_node_get(struct xce_client *client, const struct xce_call *call, const char *node,
                         struct xce_node **ret);
XCE_API int xce_node_list(struct xce_client *client, const struct xce_call *call,
                          struct xce_nodes **ret);

/* drain: finish what is there, no new leases, then `drained`. cordon: no new leases. undrain: take either back.
 * sweep: look now. forget: only a fenced node, or a drained one with a clean watermark. reason may be NULL. */
XCE_API int xce_node_drain(struct xce_client *client, const struct xce_call *call, const char *node,
                           const char *reason, struct xce_node **ret);
XCE_API int xce_node_undrain(struct xce_client *client, const struct xce_call *call,
                             const char *node, const char *reason, struct xce_node **ret);
XCE_API int xce_node_cordon(struct xce_client *client, const struct xce_call *call,
                            const char *node, const char *reason, struct xce_node **ret);
XCE_API int xce_node_sweep(struct xce_client *client, const struct xce_call *call, const char *node,
                           const char *reason, struct xce_node **ret);
XCE_API int xce_node_forget(struct xce_client *client, const struct xce_call *call,
                            const char *node, const char *reason, struct xce_node **ret);

/* What a sweep of the node would do now, of all that runs or lies around under uids that are not here; nothing is done. It may
 * take as long as a sweep. */
struct xce_remnant {
    uint32_t uid;     /* 0: of every uid; something could not be looked at */
    const char *kind; /* a word of docs/node.md: "process", "file", ... */
    uint32_t count;
    /* "end", "remove"; "later": before the uid's next lease; "leave": it is somebody else's, or can only be done by hand */
    const char *would;
    const char *detail; /* of the first: where */
};

struct xce_remnants {
    const char *node;
    const struct xce_remnant *items;
    size_t n;
    uint32_t left_out; /* more were found */
};
XCE_API int xce_node_sweep_dry(struct xce_client *client, const struct xce_call *call,
                               const char *node, const char *reason, struct xce_remnants **ret);

/* The caller swears that this machine, in this boot, is off: its leases are freed on that word. */
struct xce_oath {
    const char *node, *reason, *machine_id, *boot_id;
};
XCE_API int xce_node_fence(struct xce_client *client, const struct xce_call *call,
                           const struct xce_oath *oath, struct xce_node **ret);

#define XCE_TOKEN_HASH_LEN 32

/* A token with which one machine may become the node, once: NodeService.Enroll. The secret stays with the caller, who gives
 * its SHA-256. ttl_ms: 0 = one hour, at most 30 days. XCE_EXISTS: that hash was given before; XCE_UNSUPPORTED: no server
 * there makes certificates. */
struct xce_token {
    const char *ca; /* PEM: whose certificates the servers have */
    int64_t ttl_ms;
};
XCE_API int xce_node_token(struct xce_client *client, const struct xce_call *call, const char *node,
                           const uint8_t hash[XCE_TOKEN_HASH_LEN], int64_t ttl_ms,
                           struct xce_token **ret);

/* ---- replicas ---- */

enum xce_replica_role {
    XCE_REPLICA_VOTER = 1,
    XCE_REPLICA_LEARNER = 2, /* catches up, does not vote yet */
};
/* "voter", "learner"; "unknown". Static. */
XCE_API const char *xce_replica_role_word(int role);

struct xce_replica {
    const char *name, *address;
    int role; /* enum xce_replica_role */
    bool leads;
    bool up;             /* the replica that was asked has a stream to it */
    uint64_t last_entry; /* on its disk; 0 = not known: only the leader knows */
    uint64_t id;         /* of its folder */
    /* Why its history lags; "" = it does not, or the replica that was asked does not know. */
    const char *degraded;
};

/* What the replica that was asked knows. */
/* A node that a restored backup waits for. */
struct xce_awaited {
    const char *node;
    const char *what; /* a phrase for people, behind "waits for" */
};

struct xce_cluster {
    const char *engine; /* "sqlite", "raft" */
    const char *leader; /* "" = none is known */
    const char *self;   /* "" = it belongs to no cluster */
    const struct xce_replica *members;
    size_t n_members;
    uint64_t term, applied, revision, digest;
    const char *health; /* why writes are refused there; "" = they are not */
    /* The state was a backup: of which revision, and when it was restored (wall clock, ms). While it waits no uid is given
     * out: for the nodes in awaited, and then for an administrator (xce_cluster_confirm). */
    bool restored, restored_waits;
    uint64_t backup_revision;
    int64_t restored_wall_ms;
    const struct xce_awaited *awaited;
    size_t n_awaited;
};

/* Any replica answers, also while there is no leader. */
XCE_API int xce_cluster_status(struct xce_client *client, const struct xce_call *call,
                               struct xce_cluster **ret);
/* Make the one replica that is asked the first of a cluster, with the state that it has. It begins anew as that: calls that
 * follow may find nobody for a moment. XCE_EXISTS: it belongs to one already. XCE_PRECONDITION: its configuration. */
XCE_API int xce_cluster_init(struct xce_client *client, const struct xce_call *call);
/* Add the leased at address ("host:port") whose certificate says name; it has the state when the call returns.
 * XCE_EXISTS: a member of that name has another folder. XCE_PRECONDITION: it does not answer or catch up, another change is
 * under way, or there would be no majority. */
XCE_API int xce_cluster_add(struct xce_client *client, const struct xce_call *call,
                            const char *name, const char *address, struct xce_cluster **ret);
/* Take one out of the members, also one that is gone for good. XCE_NOT_FOUND: no member of that name. XCE_PRECONDITION:
 * another change is under way. */
XCE_API int xce_cluster_remove(struct xce_client *client, const struct xce_call *call,
                               const char *name, struct xce_cluster **ret);
/* Have another one lead; name NULL or "": whoever is best. XCE_NOT_FOUND: no member of that name. XCE_PRECONDITION: it does
 * not come to that in time. */
XCE_API int xce_cluster_transfer(struct xce_client *client, const struct xce_call *call,
                                 const char *name, struct xce_cluster **ret);

/* These are all nodes that there are, after a backup was restored: each that is registered and not fenced. XCE_PRECONDITION:
 * one is missing in the list or not registered, has not said hello, reported and been found clean since, or there is nothing
 * to confirm; the client's error says which. */
XCE_API int xce_cluster_confirm(struct xce_client *client, const struct xce_call *call,
                                const char *const *nodes, size_t n_nodes, struct xce_cluster **ret);

/* A piece of a copy of the state. */
struct xce_backup {
    uint64_t copy;     /* to be named for the next piece, from the same server */
    uint64_t revision; /* of the state */
    uint64_t size;     /* of the whole copy */
    const uint8_t *data;
    size_t len; /* from offset on */
};
/* copy 0: a new one. XCE_PRECONDITION: this server does not have that copy; begin anew. */
XCE_API int xce_cluster_backup(struct xce_client *client, const struct xce_call *call,
                               uint64_t copy, uint64_t offset, struct xce_backup **ret);

#ifdef __cplusplus
}
#endif

#endif
