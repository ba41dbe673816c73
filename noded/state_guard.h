/* When the guard looks, and what its looks are worth: the cadence of passes and the watermark. Pure.
 *
 * A pass that began at revision R (everything up to R was in the map) and found nothing that is not here lets this node say
 * the watermark R. It says it under the session in which the pass was made alone. */
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
    bool running;
    bool wanted;             /* at once */
    uint64_t awaited;        /* somebody waits for a watermark of at least this */
    uint64_t watermark;      /* 0 = none in this session */
    uint64_t began_revision; /* of the pass that runs */
    bool session_is_newer;   /* than the pass that runs */
    int64_t began_ms, looked_ms, ended_ms, took_ms; /* looked_ms 0: not yet; took_ms: to look */
    unsigned dirty_in_a_row;
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
 * INT64_MAX while one runs. Passes take at most about a tenth of one processor, however much they are wanted. */
int64_t guard_next_ms(const struct guard *guard, bool named, bool complete);

void guard_begin(struct guard *guard, int64_t now_ms, uint64_t revision);
/* It has looked at everything: whatever it does until its end is waiting. */
void guard_looked(struct guard *guard, int64_t now_ms);
/* clean: it looked at everything and found nothing that is not here. True if the watermark rose. */
bool guard_end(struct guard *guard, int64_t now_ms, bool clean);

#endif
