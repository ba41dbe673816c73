/* When the guard looks, and what its looks are worth: the cadence of passes and of walks, and the watermark. Pure.
 *
 * A pass that began at revision R (everything up to R was in the map) and found nothing that is not here lets this node say
 * the watermark R. It says it under the session in which the pass was made alone. If something has retired the pass is
 * followed by a walk through all that lies around, and the watermark is said after that, when a pass that began after the
 * walk has found nothing either: the last look is at what runs.
 *
 *   pass ─▶ clean, nothing has retired ─▶ watermark
 *       └─▶ clean, something has ─▶ walk ─▶ clean ─▶ pass ─▶ clean, and so was each meanwhile ─▶ watermark of the pass before it
 *
 * A walk may take long, or hang. Passes go on meanwhile, and how soon the next one begins depends on passes alone: what runs and
 * must not is ended by them. */
#ifndef XCE_NODED_STATE_GUARD_H
#define XCE_NODED_STATE_GUARD_H

#include <stdbool.h>
#include <stdint.h>

struct guard_limits {
    int64_t fast_ms; /* while a lease has its name here but is not here, or something is retired */
    int64_t idle_ms; /* else */
};

struct guard {
    struct guard_limits limits;
    bool running;            /* a pass */
    bool wanted;             /* at once */
    uint64_t awaited;        /* somebody waits for a watermark of at least this */
    uint64_t watermark;      /* 0 = none in this session */
    uint64_t began_revision; /* of the pass that runs */
    bool session_is_newer;   /* than the pass that runs */
    int64_t began_ms, looked_ms, ended_ms, took_ms; /* looked_ms 0: not yet; took_ms: to look */
    unsigned dirty_in_a_row;
    struct {
        bool running;
        bool wanted; /* the last clean pass waits for one */
        bool spoilt; /* since it began a pass was dirty, or a session has begun */
        bool done;   /* clean, and not spoilt: it waits for a clean pass that began after it */
        bool proved; /* the pass that runs did */
        uint64_t revision;        /* of the pass before it */
        int64_t began_ms, due_ms; /* due: not before then */
        int64_t took_ms;
        unsigned dirty_in_a_row;
    } walk;
};

/* limits may be changed at any time. */
void guard_init(struct guard *guard, const struct guard_limits *limits);

/* A pass is wanted at once. */
void guard_want(struct guard *guard);
/* Somebody waits until the watermark is at revision. */
void guard_await(struct guard *guard, uint64_t revision);
/* What was looked at before counts no more. */
void guard_session(struct guard *guard);

/* When the next pass is to begin, with what is known now.
 *   named     leases have names here without being here, or are retired
 *   complete  all up to some revision is known, so a pass can raise the watermark
 * INT64_MAX while one runs. Passes take at most about a tenth of one processor, however much they are wanted; so do walks. */
int64_t guard_next_ms(const struct guard *guard, bool named, bool complete);

void guard_begin(struct guard *guard, int64_t now_ms, uint64_t revision);
/* It has looked at everything: whatever it does until its end is waiting. */
void guard_looked(struct guard *guard, int64_t now_ms);

/* Any of: */
enum guard_outcome {
    GUARD_NOTHING = 0,
    GUARD_RISEN = 1 << 0, /* the watermark has */
    GUARD_WALK = 1 << 1,  /* it waits for a walk: guard_walk_begin is to be called now */
};

enum guard_verdict {
    GUARD_CLEAN, /* it looked at everything and found nothing that is not here */
    GUARD_HELD,  /* so it did, but for another reason it proves nothing */
    GUARD_DIRTY,
};

/* Whether what the last walk was for is done with, if the pass that runs ends so. To be asked before guard_end. */
bool guard_walk_counts(const struct guard *guard, enum guard_verdict verdict);
/* retired: what has retired when it began was not walked for yet. */
unsigned guard_end(struct guard *guard, int64_t now_ms, enum guard_verdict verdict, bool retired);
/* It hangs, and is given up. What runs is not left alone for long by that. */
void guard_hung(struct guard *guard, int64_t now_ms);

void guard_walk_begin(struct guard *guard, int64_t now_ms);
/* clean: it went through everything and found nothing. True if that counts, once a pass has said so. */
bool guard_walk_end(struct guard *guard, int64_t now_ms, bool clean);
/* It hangs, or would. */
void guard_walk_hung(struct guard *guard, int64_t now_ms);
/* What it hung at answers again: the next one may begin. */
void guard_walk_want(struct guard *guard);

#endif
