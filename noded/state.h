/* What this node holds of leases, and what is to be done about them: events in, actions out. Pure: no clock, file, socket
 * or thread; time comes in with the events, actions go out through struct state_ops.
 *
 *              vet, persist             READY                  close, sweep         CLEAN
 *   granted ─────────────────▶ here ──────────────▶ (active) ──────────────▶ ended ──────▶ kept until retired
 *        └── vetted badly, no room, older epoch: REFUSED (admission closed) ──▶ ended
 *
 * What it promises:
 *   - a uid is acted on under the highest epoch ever seen for it alone (I3); READY only when that epoch is on disk, the map
 *     holds the record, and nothing else was found under the uid;
 *   - admission, once closed for an epoch, stays closed: in the map, and on disk before CLEAN;
 *   - CLEAN only after a sweep that began after admission was closed and, in a new session, after the session began;
 *   - nothing but our own slices is touched in a pool whose overlap check has not passed here.
 * One thread. Pointers given to ops die with the call. Without memory it aborts: its successor takes over what is in the map
 * and on disk, which is whole at any time. */
#ifndef XCE_NODED_STATE_H
#define XCE_NODED_STATE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "xce/limits.h"

struct state;

/* In the numbers of the API and of the map. */
enum state_phase {
    STATE_GRANTED = 1,
    STATE_ACTIVE = 2,
    STATE_DRAINING = 3,
    STATE_NORMALISING = 4,
    STATE_COOLING = 5,
    STATE_RETIRED = 6,
    STATE_FREE = 7,
};

enum state_proof {
    PROOF_NONE = 0, /* pending */
    PROOF_READY = 1,
    PROOF_REFUSED = 2,
    PROOF_CLEAN = 3,
    PROOF_DIRTY = 4,
    PROOF_FENCED = 5,
};

enum state_say {
    SAY_NOTHING = 0,
    SAY_READY = 1,
    SAY_REFUSED = 2,
    SAY_CLEAN = 3,
    SAY_DIRTY = 4,
    SAY_STRAY = 5,
};

#define STATE_NO_OWNER UINT32_MAX

/* A lease as leased shows it, checked at the edge. */
struct state_lease {
    uint64_t lease, revision;
    uint32_t uid, epoch;
    enum state_phase phase;
    bool member;            /* this node is one */
    bool released;          /* and was let go */
    enum state_proof proof; /* of this node, as leased has it */
    uint32_t owner;         /* uid; STATE_NO_OWNER = not known */
    uint64_t owner_name;    /* state_name_digest */
    const char *gecos, *home, *shell;
    const uint32_t *gids;
    uint32_t n_gids;
};

struct state_epoch {
    uint32_t uid, epoch;
    bool closed;
    bool swept; /* since, and nothing of it was found then or later */
};

/* What was found of a uid. reason: a word of noded/reason.h, as its number; 0 = nothing. */
struct state_verdict {
    uint32_t uid, epoch;
    unsigned reason;
    const char *detail;
};

struct state_ops {
    /* The map, at once. 0; -ENOSPC; -errno. flags: enum xce_map_flag. */
    int (*map_set)(const struct state_lease *lease, uint8_t flags, void *arg);
    void (*map_mark)(uint32_t uid, uint32_t epoch, uint8_t add, uint8_t drop, void *arg);
    void (*map_retire)(uint32_t uid, uint32_t epoch, uint64_t revision, void *arg);
    /* Begun here, answered later by state_persisted, state_vetted, state_swept; one of each at a time. */
    void (*persist)(const struct state_epoch *entries, size_t n, void *arg);
    void (*vet)(const struct state_epoch *uids, size_t n, void *arg);
    /* again: the uids were dirty before: no long waits for them. */
    void (*sweep)(const struct state_epoch *uids, size_t n, bool again, void *arg);
    /* Kill what runs below our slices of these, at once; nobody answers. Of all that has ended, as its sweep may wait: for one
     * before it, or for name services, which are asked before anything else of a uid is touched. Again and again while it waits
     * for the check of its pool. */
    void (*kill)(const struct state_epoch *uids, size_t n, void *arg);
    /* To leased, in order. Only between state_session_begin and state_session_end. */
    void (*say)(enum state_say what, const struct state_verdict *about, void *arg);
};

struct state_limits {
    size_t batch;         /* uids in one persist, vet or sweep [4096] */
    int64_t resay_ms;     /* said and not seen in the feed: say it again [5000] */
    int64_t retry_ms;     /* first wait after a dirty sweep, doubled each time [1000] */
    int64_t retry_max_ms; /* [30000] */
};

/* ops and limits are copied; a zero limit takes the default in brackets. Never NULL. */
struct state *state_new(const struct state_limits *limits, const struct state_ops *ops, void *arg);
void state_free(struct state *state);

/* ---- what a predecessor left, before anything else ---- */

void state_recall_epoch(struct state *state, const struct state_epoch *entry);
/* A record of the map; phase granted..cooling. Its epoch counts as on disk if recall_epoch told so before. */
void state_recall_lease(struct state *state, const struct state_lease *lease, bool closed);

/* ---- pools ---- */

enum state_pool_check {
    POOL_UNCHECKED = 0, /* grants and sweeps in it wait */
    POOL_PASSED = 1,
    POOL_FAILED = 2, /* grants are refused, sweeps are dirty */
};

struct state_pool {
    char name[33];
    uint32_t first, last;
    int64_t validity_ms;
    enum state_pool_check check;
    /* The caller's notes, kept while the range stays the same. */
    bool passed_once;    /* on this machine */
    int64_t check_at_ms; /* it is to be looked at then; INT64_MAX: with all others */
    bool listed;         /* in a full list that is coming in */
    bool over;           /* its validity has passed, and what was here was ended */
};

enum {
    STATE_POOL_SAME = 0,
    STATE_POOL_CHANGED = 1, /* new, or with another range: unchecked now */
};

/* Add or change; check in it is not looked at, notes are taken when it is new or changed.
 * STATE_POOL_*; -ENOBUFS more than XCE_RANGES_MAX. */
int state_pool_set(struct state *state, const struct state_pool *pool);
void state_pool_gone(struct state *state, const char *name);
void state_pool_checked(struct state *state, const char *name, bool passed);
const struct state_pool *state_pools(const struct state *state, size_t *ret_n);
/* For its notes. NULL = no such. */
struct state_pool *state_pool_named(struct state *state, const char *name);
struct state_pool *state_pool_at(struct state *state, size_t i);
/* NULL = of no pool. */
const struct state_pool *state_pool_of(const struct state *state, uint32_t uid);

/* ---- events; nothing goes out before state_flush, save writes to the map ---- */

/* leased has another state than the one that is known here: what it numbers begins anew, and what this node had no part in
 * is forgotten. Its own leases stay as they are until the full list is there. Before state_session_begin. */
void state_begin_anew(struct state *state, uint64_t revision);
/* A session was accepted: what is known is said anew. full: a full list comes, ended by state_full_done. */
void state_session_begin(struct state *state, bool full);
void state_session_end(struct state *state);
void state_change(struct state *state, const struct state_lease *lease);
/* What was not in the list is gone. */
void state_full_done(struct state *state, uint64_t revision);

void state_persisted(struct state *state, int r);
/* Verdicts of those that did not pass; all others of the batch did. */
void state_vetted(struct state *state, const struct state_verdict *bad, size_t n);
/* Verdicts of those that are dirty; all others of the batch are clean. */
void state_swept(struct state *state, const struct state_verdict *dirty, size_t n, int64_t now_ms);
/* The guard ended something of uid that was not here, or something of it came after it was clean. */
void state_stray(struct state *state, uint32_t uid, unsigned reason, const char *detail);
/* This node ends by itself what is here in that pool (validity has passed). */
void state_end_pool(struct state *state, const char *name);

/* Its release was handed over here: what is here of it ends now. Nothing, if it is not this node's, or over. */
void state_end_lease(struct state *state, uint32_t uid, uint32_t epoch);

/* This node ends, and nobody sweeps for a while: what runs in the slices of all that is over is killed once more. */
void state_kill_ended(struct state *state);

/* Somebody wants to know: what is dirty is looked at again now. */
void state_sweep_now(struct state *state);

void state_elapse(struct state *state, int64_t now_ms);
/* Begin what is waiting. now_ms: for the time of what is said; may_sweep: else sweeps go on waiting. */
void state_flush(struct state *state, int64_t now_ms, bool may_sweep);

/* ---- questions ---- */

enum state_standing {
    STANDS_NOT = 0,  /* no lease has the uid here */
    STANDS_HERE = 1, /* member, granted or active, admission open, in the map */
    /* ended here, and leased has not seen our CLEAN: the sweeps' business; it can not become free */
    STANDS_SWEPT = 2,
    STANDS_NAMED = 3, /* only its name is here, or it was clean already */
};

enum state_standing state_standing(const struct state *state, uint32_t uid);
/* leased waits for a pass of witnesses before the uid is free: its lease has retired, and nothing has come after it. */
bool state_is_retired(const struct state *state, uint32_t uid);
/* It was admitted here and not closed since, as the epochs on disk have it, and is not known to be others' now: until leased
 * has told all leases, and it is in the map again, its lease may stand. */
bool state_was_admitted(const struct state *state, uint32_t uid);

/* Whether the map holds all that has a name. */
bool state_is_in_map(const struct state *state);

struct state_held {
    uint64_t lease;
    uint32_t uid, epoch;
    bool member, live; /* granted or active, as leased was heard to say */
    bool owned;        /* owner is known */
    uint32_t owner;    /* uid */
    uint64_t owner_name;
};

/* The lease that has the uid, as far as it is known here. false = none. */
bool state_held(const struct state *state, uint32_t uid, struct state_held *ret);
/* The uid of that lease; 0 = not known here. It does not matter how many there are: anybody of this
 * machine may ask. */
uint32_t state_uid_of(const struct state *state, uint64_t lease);

/* What is kept of an owner's name, to be compared: 0 for "". */
uint64_t state_name_digest(const char *name);

struct state_counts {
    size_t leases, here, ended, named, retired, dirty;
    bool busy;    /* a persist, vet or sweep is under way or waiting */
    bool vetting; /* a vet is */
    bool sweeps;  /* wait, and not for the check of their pool */
};

/* O(1). */
void state_count(const struct state *state, struct state_counts *ret);
/* When state_elapse would next have something to do; INT64_MAX = nothing. */
int64_t state_next_due_ms(const struct state *state);

/* What was admitted here, not swept since, and is over: leased had somebody's word for this node, which was off. Whatever it
 * left is to be swept before a watermark is said, and before the uid is admitted again. Dies with the next event. */
const struct state_epoch *state_left(const struct state *state, size_t *ret_n);
/* It was swept, or is not to be. swept: nothing is left; also of a uid of which leased was told that something is. */
void state_left_done(struct state *state, uint32_t uid, bool swept);
/* Something lies here of a uid that no lease of this node answers for: it is left, too, with epoch 0. */
void state_left_add(struct state *state, uint32_t uid);
/* What is left can not be swept: if a lease waits to be admitted over it, it is refused, and answers for all of it. */
void state_left_refuse(struct state *state, uint32_t uid, unsigned reason, const char *detail);

/* Every epoch ever seen that is on disk, for a rewrite of the file: the caller frees. */
struct state_epoch *state_epochs(const struct state *state, size_t *ret_n);
size_t state_n_epochs(const struct state *state);
/* The highest epoch of each uid of which this node is or was a member: the caller frees. */
struct state_epoch *state_member_epochs(const struct state *state, size_t *ret_n);

#endif
