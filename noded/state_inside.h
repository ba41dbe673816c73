/* The inside of struct state, shared by state.c and its parts. */
#ifndef XCE_NODED_STATE_INSIDE_H
#define XCE_NODED_STATE_INSIDE_H

#include "noded/state_table.h"

/* One kind of work that is done elsewhere, a batch at a time. */
struct step_queue {
    struct uids waiting;
    struct state_epoch *running;
    size_t n_running;
};

/* state_again.c */
struct again {
    uint32_t uid, epoch;
    unsigned reason;
    enum state_say what;
    char *detail;
    bool said; /* in this session */
    int64_t said_ms;
};

struct state {
    struct state_limits limits;
    struct state_ops ops;
    void *arg;

    struct table table;
    struct lease_index by_lease;
    struct state_pool pools[XCE_RANGES_MAX];
    size_t n_pools;

    bool in_session;
    bool say_all; /* a session has begun: everything is to be said at the next flush */

    struct step_queue persists, vets, sweeps, sweeps_again;
    bool again_next;
    bool sweeps_kept;    /* those that wait are of pools that are not checked yet */
    bool persist_failed; /* wait until persist_retry_ms */
    int64_t persist_retry_ms;
    unsigned persist_reason; /* why the last one failed; 0 = it did not */

    struct uids unseen; /* said, not seen in the feed yet */
    struct uids dirty;  /* wait for their next sweep */
    struct uids kills;  /* what runs in our slices of these is to end now */
    struct state_epoch *left;
    size_t n_left, cap_left;
    struct again *agains; /* one of a uid */
    size_t n_agains, cap_agains;
    int64_t next_due_ms;
    int64_t now_ms; /* of the last flush, elapse or sweep */

    struct state_counts counts;
};

static inline bool phase_live(enum state_phase phase)
{
    return phase == STATE_GRANTED || phase == STATE_ACTIVE;
}

/* state_slot.c: the life of one lease */

/* Take a slot out of the counts before it is changed, and back in after. */
void slot_count(struct state *state, const struct slot *slot, int sign);
enum state_standing slot_standing(const struct slot *slot);

/* Close admission, for good; what follows from it is queued: to disk, the end of what runs, the sweep. */
void slot_close(struct state *state, struct seen *seen);
/* Close it because this node will not have it, and say so. */
void slot_refuse(struct state *state, struct seen *seen, unsigned reason, const char *detail);
/* Into the map: it is here from now on. */
void slot_admit(struct state *state, struct seen *seen);
/* Say what is true now, if that was not said yet. */
void slot_say(struct state *state, struct seen *seen);
void slot_drop(struct state *state, struct seen *seen);
void slot_want_sweep(struct state *state, struct slot *slot);
/* It is over, and its sweep may wait for long: what runs below its slices ends at the next flush. */
void slot_want_kill(struct state *state, struct slot *slot);
void slot_detail(struct slot *slot, const char *detail);
/* Whether the end of its epoch has been swept, and nothing of it was found since. */
void seen_swept(struct state *state, struct seen *seen, bool swept);
void state_want_persist(struct state *state, struct seen *seen);
void state_due(struct state *state, int64_t at_ms);

/* state_left.c */

/* The lease of that epoch is over. off: on somebody's word that this node is off. If it was here, and was not swept since,
 * it is left. */
void left_take(struct state *state, struct seen *seen, bool off);
/* It is left no more. What was left; all zero = nothing. */
struct state_epoch left_drop(struct state *state, struct seen *seen);
/* Epochs whose place in the table was taken over by another, but not on disk yet; ret has room for all. How many. */
size_t left_for_rewrite(const struct state *state, struct state_epoch *ret);

/* state_again.c */

/* Say it, and again. The last one of a uid counts. */
void again_say(struct state *state, enum state_say what, const struct state_verdict *about);
void again_drop(struct state *state, uint32_t uid);
/* A session begins; all is to be said anew; it goes on. */
void again_session(struct state *state, bool full);
void again_flush(struct state *state);
void again_elapse(struct state *state);
void again_done(struct state *state);

#endif
