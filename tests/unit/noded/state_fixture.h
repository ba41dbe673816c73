/* A node's state without a node: what it would do is written down, a word each, and compared as a story. */
#ifndef TESTS_UNIT_NODED_STATE_FIXTURE_H
#define TESTS_UNIT_NODED_STATE_FIXTURE_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "noded/reason.h"
#include "noded/state.h"

#define UID 2013265921u

/* What the node would do is written down, a word each, and compared as a story. */
struct fixture {
    struct state *state;
    char log[4096];
    size_t len;
    int map_r;
    uint8_t set_flags, flags; /* of the record as it was last set; and with what was marked since */
    struct state_epoch batch[8]; /* of the last persist, vet or sweep */
    size_t n_batch;
    int64_t now;
    uint64_t revision;
};

int setup(void **state);
int teardown(void **state);

/* Write something more into the story. */
void note(struct fixture *f, const char *format, ...) __attribute__((format(printf, 2, 3)));
/* The story since the last call is exactly this. */
void expect(struct fixture *f, const char *story);

/* What leased shows of UID + i. */
struct state_lease lease_of(struct fixture *f, uint32_t i, uint32_t epoch, enum state_phase phase,
                            enum state_proof proof);
void shows(struct fixture *f, uint32_t i, uint32_t epoch, enum state_phase phase,
           enum state_proof proof);
void shows_foreign(struct fixture *f, uint32_t i, uint32_t epoch, enum state_phase phase);

/* What becomes of the vetting, or the sweep, that was begun. */
void vetted(struct fixture *f);
void vetted_badly(struct fixture *f, uint32_t i, uint32_t epoch, enum reason reason);
void swept(struct fixture *f);
void swept_dirty(struct fixture *f, uint32_t i, uint32_t epoch, enum reason reason);

void elapse(struct fixture *f, int64_t ms);
void session(struct fixture *f, bool full);
/* A lease that is here, in a session. */
void make_here(struct fixture *f, uint32_t i, uint32_t epoch);

#endif
