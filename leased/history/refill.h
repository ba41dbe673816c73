/* What a history never saw, and how it is filled with what another replica has seen.
 *
 * A period is one state that was followed, named by its incarnation. A gap lies between two revisions of a period: a replica
 * that joins, or was away for longer than the log is kept, gets the state and not what led to it. What was alive at the far end
 * of the gap was listed and is known; what lived and died in it, and when the rest ended, is not.
 *
 *   outline of ours ─▶ a gap;  outline of another's ─▶ a plan;  pieces, in order of lease, period by period ─▶ the gap is gone
 *
 * A piece is written in one transaction with how far it goes, so filling goes on after a restart where it was. A piece can be
 * written twice. What was seen here is never overwritten; only times that the gap made up are. Calls are for the loop's
 * thread. */
#ifndef XCE_LEASED_HISTORY_REFILL_H
#define XCE_LEASED_HISTORY_REFILL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "leased/history/history.h"

#define HISTORY_INCARNATION_LEN 16
/* No lease has a higher id: the state refuses to restore what would need one (FSM_LEASE_ID_MAX). */
#define HISTORY_LEASE_BITS 44
#define HISTORY_LEASE_MAX  ((1ull << HISTORY_LEASE_BITS) - 1)
/* Leases of one piece. */
#define HISTORY_PIECE_MAX 256

struct history_period {
    int64_t number; /* in this file alone; later ones have higher ones; never 0 */
    uint8_t incarnation[HISTORY_INCARNATION_LEN];
    uint64_t revision; /* followed up to here */
    int64_t wall_ms;
    uint64_t last_lease; /* the highest id of it; 0 = none */
};

struct history_gap {
    int64_t id; /* in this file alone */
    int64_t
        period; /* number; 0 = not known: it is of before such was written down, and can not be filled */
    uint64_t from_revision, to_revision; /* from 0: nor is anything known of earlier periods */
    int64_t from_wall_ms, to_wall_ms;
    int64_t made_up_ms;   /* the time that stands where it is not known when a lease ended */
    uint64_t first_lease; /* what is below had ended before */
    /* How far it is filled, of which replica's, by which plan. plan 0 = not begun. */
    uint64_t source, plan;
    int64_t part; /* the source's period that is under way */
    uint64_t after;
};

struct history_outline {
    struct history_period *periods; /* oldest first */
    size_t n_periods;
    struct history_gap *gaps; /* newest first */
    size_t n_gaps;
    bool behind; /* a gap has come that is not written yet */
};

/* r 0: outline lives for the call. r < 0 as history_done_fn; why says. */
typedef void (*history_outline_fn)(int r, const struct history_outline *outline, const char *why,
                                   void *arg);

/* What there is on disk, and what is missing. done runs exactly once, on the loop, never inside this call. */
void history_ask_outline(struct history *history, history_outline_fn done, void *arg);

/* Goes up whenever a gap may have come. */
uint64_t history_gap_count(const struct history *history);

/* A period of another replica: `later` of its later periods are of the same incarnation. */
struct history_foreign {
    uint8_t incarnation[HISTORY_INCARNATION_LEN];
    uint32_t later;
    uint64_t revision; /* it was followed up to */
    int64_t wall_ms;
};

/* What the source does not know either: a gap that stays. */
struct history_rest {
    struct history_foreign period;
    uint64_t from_revision, to_revision;
    int64_t from_wall_ms, to_wall_ms,
        made_up_ms; /* the source's leases have that time now here, too */
    uint64_t first_lease;
};

/* All of it is copied; strings are checked already. */
struct history_piece {
    int64_t gap;
    uint64_t source, plan; /* for history_gap */
    int64_t part;
    uint64_t after; /* with this piece it is filled up to here */
    struct history_foreign period;
    const struct history_entry *entries; /* in ascending order of lease */
    size_t n;
    bool last;                       /* then the gap is gone, but for */
    const struct history_rest *rest; /* these */
    size_t n_rest;
};

/* Write a piece. One is under way at a time. done: 0 it is written; -EBADMSG it has another uid for a lease than we
 * have, or another epoch and another time of its grant (a grant's epoch may rise after a restore), nothing of it was written;
 * -ECANCELED. Exactly once, on the loop, never inside this call. */
void history_fill(struct history *history, const struct history_piece *piece,
                  void (*done)(int r, void *arg), void *arg);

#endif
