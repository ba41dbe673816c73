/* What the FSM shows of itself: its objects, and the feed of their changes. Read only for everyone else.
 *
 * Strings are valid UTF-8 without control bytes, checked before they came into a command. Times are cluster time, ms,
 * save wall_ms, which only annotates. */
#ifndef XCE_LEASED_FSM_CHANGE_H
#define XCE_LEASED_FSM_CHANGE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum lease_state {
    LEASE_GRANTED = 1,
    LEASE_ACTIVE = 2,
    LEASE_DRAINING = 3,
    LEASE_NORMALISING = 4,
    LEASE_COOLING = 5,
    LEASE_RETIRED = 6,
    LEASE_FREE = 7,
};

enum member_proof {
    PROOF_PENDING = 0,
    PROOF_READY = 1,
    PROOF_REFUSED = 2,
    PROOF_CLEAN = 3,
    PROOF_DIRTY = 4,
    PROOF_FENCED = 5,
};

/* Bits: a lease with any of them is called quarantined. */
enum quarantine {
    QUARANTINE_DIRTY = 1 << 0,       /* a member found what it could not remove */
    QUARANTINE_MEMBER_LOST = 1 << 1, /* a member is lost and has not proved it clean */
    QUARANTINE_OVERDUE = 1 << 2,     /* draining or retired for longer than ten ready timeouts */
    QUARANTINE_STRAY = 1 << 3,       /* something ran under the uid after it was proved clean */
    QUARANTINE_OATH = 1 << 4,        /* fenced on an oath that turned out false */
    QUARANTINE_RESTORED = 1 << 5,    /* of before a backup was restored; until the uid is free */
};

enum end_cause {
    END_NONE = 0,
    END_RELEASE = 1,
    END_EXPIRED = 2,
    END_REVOKED = 3,
    END_REFUSED = 4,
    END_READY_TIMEOUT = 5,
    END_MEMBER_LOST = 6,
    END_STRAY = 7,
    END_RESTORED = 8, /* a backup was restored: it is not known what became of it */
};

enum node_state {
    NODE_READY = 1,
    NODE_DRAINING = 2,
    NODE_CORDONED = 3,
    NODE_LOST = 4,
    NODE_UNKNOWN = 5,
    NODE_FENCED = 6,
};

/* Who else has said of late that he is the node, or that he is its machine under another name, and was refused. */
struct fsm_rival {
    const char *node, *machine_id, *boot_id; /* boot_id NULL = nobody */
    int64_t heard_wall_ms;
};

struct fsm_node {
    const char *name, *machine_id, *boot_id, *reason, *actor;
    enum node_state state;
    uint64_t session; /* of the last accepted hello; 0 once it is fenced: nothing it says counts */
    uint64_t hello_revision;
    /* Not yet trusted with new leases (state unknown, or hidden behind draining and cordoned): the watermark of this
     * session that ends it. 0 = trusted. */
    uint64_t unknown_revision;
    uint64_t watermark;
    uint32_t n_leases; /* not free, this node a member */
    struct fsm_rival rival;
    bool
        cloned; /* two of its machine speak: lost, and nobody has its sessions until it is fenced */
    uint64_t revision;
};

struct fsm_member {
    const struct fsm_node *node;
    enum member_proof proof;
    bool released;               /* let go, still owes its proof */
    const char *reason, *detail; /* NULL = none */
};

struct fsm_owner {
    const char *name;
    uint32_t uid, gid;
};

struct fsm_lease {
    uint64_t id;
    uint32_t uid, epoch; /* gid = uid */
    enum lease_state state;
    uint32_t quarantine;
    enum end_cause cause;
    const char *end_detail; /* a sentence for people: which node, who; NULL = the cause says all */
    const char *pool, *job; /* job may be "" */
    struct fsm_owner owner;
    const struct fsm_member *members;
    uint32_t n_members;
    const uint32_t *gids;
    uint32_t n_gids;
    int64_t ttl_ms;     /* 0 = none */
    int64_t expires_ms; /* 0 = never */
    /* When its state's own clock is over (ready timeout, in active of members added; cool-down); 0 = none. */
    int64_t due_ms;
    int64_t since_ms; /* in this state */
    int64_t granted_ms;
    int64_t granted_wall_ms, changed_wall_ms;
    uint64_t revision; /* of the last change */
    uint64_t retired_revision;
};

struct fsm_range {
    uint32_t first, last;
};

struct fsm_settings {
    int64_t ttl_min_ms, ttl_max_ms, ttl_default_ms, cooldown_ms, ready_timeout_ms, validity_ms;
    bool witnesses_all;
    uint32_t max_per_owner; /* 0 = no limit */
    const char *home, *shell;
};

/* Why a uid is not given out: one of these for each node and reason. Also of one that is leased now: it goes aside when that
 * lease is over. reason: account, group, group-member, leftover (as nodes report them), stray, oath, clone, epochs. An administrator
 * unblocks the uid; but what a node only has to clean up leaves by itself: a stray with that node's first watermark from the
 * last finding on, a leftover when it says CLEAN of it; and with the last of them the uid is blocked no more. */
struct fsm_blocked {
    uint32_t uid;
    const char *node, *reason,
        *detail; /* node NULL = no node saw it, leased itself decided; detail NULL = none */
    int64_t since_wall_ms;
    uint64_t
        revision; /* of the finding (or its last stray), if it leaves by itself; 0 = it stays */
};

/* free + granted + ... + retired + blocked = uids of the pool. */
struct fsm_counts {
    uint32_t free, granted, active, draining, normalising, cooling, retired, blocked, quarantined;
};

struct fsm_pool {
    const char *name;
    struct fsm_range range;
    bool retiring;
    struct fsm_settings settings;
    const struct fsm_range *directory; /* none = the administrator answered none */
    uint32_t n_directory;
    const struct fsm_blocked *
        blocked; /* the first FSM_BLOCKED_MAX, oldest first; a uid may be in it more than once; counts tell all */
    uint32_t n_blocked;
    uint64_t revision;
};

enum fsm_change_kind {
    CHANGE_LEASE = 1,
    CHANGE_POOL = 2,
    CHANGE_POOL_GONE = 3,
    CHANGE_NODE = 4,
    CHANGE_NODE_GONE = 5,
    CHANGE_RULES = 6, /* who may do what: fsm_rules() */
};

/* Every change has a revision of its own: one more than the change before it. */
struct fsm_change {
    uint64_t revision;
    enum fsm_change_kind kind;
    int64_t now_ms, wall_ms;
    bool expiry_only; /* a lease of which nothing but the expiry has moved (Renew, grace) */
    /* Of a lease: its state as it was told before (0 = never; the same = it has not moved), and reasons of its quarantine that
     * are new. Of a pool: what has just been blocked, NULL = nothing. */
    enum lease_state before;
    uint32_t quarantined;
    const struct fsm_blocked *blocked;
    /* The one that changed, as it is now; NULL with the other kinds. */
    const struct fsm_lease *lease;
    const struct fsm_pool *pool;
    const struct fsm_node *node;
};

typedef void (*fsm_change_fn)(const struct fsm_change *change, void *arg);

#endif
