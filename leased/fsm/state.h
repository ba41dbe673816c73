/* What the state is made of, inside leased/fsm: objects and how they hang together.
 *
 * Each public object (change.h) is the first member of ours, so that one pointer serves both. Objects keep their address
 * while they live. Whatever is kept twice (counts, tables, heaps, floors of watermarks) is marked derived: a snapshot does
 * not hold it, restore builds it again, fsm_verify recounts it. */
#ifndef XCE_LEASED_FSM_STATE_H
#define XCE_LEASED_FSM_STATE_H

#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#define uthash_fatal(what) abort()
#include <uthash.h>

#include "common/pb.h"
#include "leased/fsm/fsm.h"
#include "leased/fsm/intern.h"
#include "leased/fsm/request.h"
#include "leased/fsm/timer.h"

#define NO_SLOT UINT32_MAX

/* ---- leases ---- */

struct lease {
    struct fsm_lease pub;
    struct pool *pool;
    uint32_t number;    /* of its slot in fsm->pages */
    uint32_t sticky;    /* quarantine reasons set by an event: OVERDUE, STRAY, OATH, RESTORED */
    int64_t overdue_ms; /* draining or retired: when that is called overdue */
    uint8_t tries;      /* leases before this one that were refused under the same request */
    bool all_nodes;     /* asked for as such */

    /* derived */
    uint8_t told_state, told_quarantine; /* in the last change */
    /* members whose proof the state waits for: READY when granted or active, CLEAN when draining */
    uint32_t n_owed;
    uint32_t n_dirty; /* members */
    uint32_t job_hash;
    uint32_t timer_place;
    struct timers *timers;
    struct lease *job_next;                       /* granted or active, and job not empty */
    struct lease *retired_before, *retired_after; /* retired, by retired_revision */
    struct wait_link *waits;                      /* requests that wait for it */
    uint32_t *places;                             /* of each member in its node's leases */
    uint32_t cap_members;

    struct fsm_member one; /* pub.members and places point here while there is one member */
    uint32_t one_place;
};

struct lease_by_id {
    uint64_t id;
    struct lease *lease; /* NULL = gone; swept out when half are */
};

/* ---- nodes ---- */

enum node_health {
    HEALTH_OK = 1,
    HEALTH_UNKNOWN = 2,
    HEALTH_LOST = 3,
    HEALTH_FENCED = 4,
};

enum node_admin {
    ADMIN_NONE = 0,
    ADMIN_DRAINING = 1,
    ADMIN_CORDONED = 2,
};

struct node_lease {
    struct lease *lease;
    uint32_t member; /* index */
};

/* A boot of the node's machine that another has followed. */
#define NODE_FORMERS 4     /* that are remembered */
#define FORMER_UIDS  65536 /* of one */
struct former {
    const char *boot_id;
    uint64_t last_lease; /* when it was over: leases up to this one may have something in it */
    uint32_t n_returns;  /* it has spoken again so often */
    uint32_t *uids;      /* of such leases of this node that are free since */
    size_t n_uids, cap_uids;
};

/* pub.state is what health and admin together look like. */
struct node {
    struct fsm_node pub;
    enum node_health health;
    enum node_admin admin;
    uint64_t verb_revision; /* of the last drain or cordon: forget wants a watermark past it */
    /* Since the last restore, which epochs it has seen (incarnation.h): all; or it has to again. */
    bool epochs_told, epochs_again;
    uint64_t n_epochs_said; /* in this session, while it has not told all */
    bool epochs_known; /* the backup that was restored last knew all that it had seen until then */
    int64_t blocked_ms[FSM_NODE_BLOCKS]; /* when it blocked uids, oldest first */
    uint32_t n_blocked;
    struct former formers[NODE_FORMERS]; /* oldest first */
    uint32_t n_formers;

    /* derived */
    uint64_t mark;      /* seen by the check at hand */
    uint32_t place;     /* in fsm->nodes */
    uint32_t n_passing; /* uids that it has blocked and that leave by themselves */
    struct node_lease *leases;
    size_t cap_leases;
    UT_hash_handle hh;
};

/* An administrator swore that this boot of this machine is over. Remembered until the machine shows another boot. */
struct oath {
    const char *node, *machine_id, *boot_id, *actor, *reason; /* machine_id NULL: it was broken */
    uint32_t
        *uids; /* ascending: freed with this node's fence for a proof; broken: and in no pool */
    size_t n_uids, cap_uids;
    struct oath *next; /* younger */
};

/* ---- pools ---- */

enum uid_state {
    UID_FREE = 0, /* in line */
    UID_LEASED = 1,
    UID_ASIDE = 2, /* blocked and not leased */
};

struct uid_slot {
    uint32_t epoch; /* last granted, 0 = never */
    /* in line: neighbours (index or NO_SLOT); leased: before = number of the lease */
    uint32_t before, after;
};

struct owner_count {
    uint32_t uid;
    uint32_t n;     /* granted or active */
    uint32_t batch; /* asked for by the command at hand */
    UT_hash_handle hh;
};

struct pool {
    struct fsm_pool pub;
    uint32_t size;
    struct uid_slot *slots;
    uint8_t *states;  /* enum uid_state */
    uint8_t *blocked; /* bit set, by index */
    uint32_t line_head, line_tail;
    uint32_t asked; /* by the command at hand */

    /* derived */
    struct fsm_counts counts;
    uint32_t n_leases;
    struct timers cooling;
    struct owner_count *owners; /* while max_per_owner counts */
};

/* Epochs of uids whose pool is gone. */
#define FLOOR_PAGE 1024u
struct floor_page {
    uint32_t first; /* multiple of FLOOR_PAGE */
    uint32_t *epochs;
};

/* ---- who may do what (rules.h) ---- */

struct rules {
    uint64_t revision; /* 0 = never set */
    uint8_t *bytes;    /* packed and canonical; NULL = never set */
    size_t len;
    struct pb_arena arena;
    const Xce__V1__Rules *message; /* derived: bytes, unpacked into the arena */
};

/* ---- enrolment (token.h) ---- */

struct token {
    uint8_t hash[FSM_TOKEN_HASH]; /* of the secret */
    uint8_t key[FSM_TOKEN_HASH];  /* of the public key that it was spent on */
    char node[65];
    bool spent;
    int64_t end_ms;
};

struct tokens {
    struct token *items; /* in the order in which they were made */
    size_t n, cap;
};

/* ---- all of it ---- */

#define LEASE_PAGE 64u

/* Decoded, an entry is a few dozen times its bytes at worst. */
#define FSM_ARENA_MAX ((size_t)1 << 30)

struct fsm {
    uint64_t revision;
    int64_t now_ms, wall_ms;
    bool initialised;
    char prefix[20]; /* NAME_PREFIX_MAX and a NUL fit */
    uint8_t incarnation[16];
    uint64_t last_lease, last_session;
    bool frees_left; /* retired leases may be free that no command has looked at yet */

    struct intern strings;
    struct requests requests;

    struct lease **pages; /* of LEASE_PAGE slots each; a free slot has id 0 */
    size_t n_pages, cap_pages;
    uint32_t *free_slots;
    size_t n_free_slots, cap_free_slots;
    struct lease_by_id *by_id; /* ascending */
    size_t n_by_id, cap_by_id, n_gone;
    struct lease **jobs; /* heads of chains by (owner uid, job) */
    uint32_t n_job_heads, n_jobs;
    uint64_t n_members;
    struct timers timers; /* all clocks but cool-downs */
    struct lease *retired_first, *retired_last;

    struct node **nodes; /* by name */
    size_t n_nodes, cap_nodes;
    struct node *nodes_by_name;
    struct oath *oaths; /* oldest first */
    size_t n_oaths, n_oath_uids;
    size_t n_lost;     /* derived: nodes that are lost */
    bool floors_known; /* derived: lowest watermark of the nodes of either kind of witness */
    uint64_t floor_connected, floor_all;

    struct pool *pools[FSM_POOLS_MAX];  /* by name */
    struct pool *ranges[FSM_POOLS_MAX]; /* by first uid */
    size_t n_pools;
    struct floor_page *floors;
    size_t n_floors, cap_floors;

    struct rules rules;
    struct tokens tokens;
    struct fsm_restored restored;

    struct wait *waits, *last_wait;               /* in the order of their requests */
    struct wait *failed_waits, *last_failed_wait; /* only while a command is applied */

    /* for the command at hand */
    uint64_t mark; /* the last one given to nodes */
    const struct fsm_hooks *hooks;
    struct pb_arena arena;
    uint64_t *answer;
    size_t cap_answer;
    struct lease **batch;
    size_t cap_batch;
};

/* ---- outcomes and changes (fsm.c) ---- */

/* As printf; what is too long is cut between characters. */
void fsm_format(char ret[static FSM_MESSAGE_MAX + 1], const char *format, ...)
    __attribute__((format(printf, 2, 3)));
void fsm_vformat(char ret[static FSM_MESSAGE_MAX + 1], const char *format, va_list args)
    __attribute__((format(printf, 2, 0)));
void fsm_fail(struct fsm_outcome *outcome, enum fsm_code code, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
/* One id more in the answer. */
void fsm_answer(struct fsm *fsm, struct fsm_outcome *outcome, uint64_t lease);

/* Give the object the next revision and tell the hook. */
void fsm_changed_lease(struct fsm *fsm, struct lease *lease, bool expiry_only);
void fsm_changed_pool(struct fsm *fsm, struct pool *pool, enum fsm_change_kind kind);
/* It has one blocked uid more. */
void fsm_changed_blocked(struct fsm *fsm, struct pool *pool, const struct fsm_blocked *blocked);
void fsm_changed_node(struct fsm *fsm, struct node *node, enum fsm_change_kind kind);
void fsm_changed_rules(struct fsm *fsm);

#endif
