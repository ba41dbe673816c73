/* An engine with its state machine and history in a folder, on a loop of its own: for tests and benches.
 *
 * Pool "main" from ENGINE_KIT_UID on, node n1. Request number i acquires job "j<i>"; its id is i in 16 bytes. */
#ifndef XCE_TESTS_LIB_ENGINE_KIT_H
#define XCE_TESTS_LIB_ENGINE_KIT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/net/loop.h"
#include "leased/engine/engine.h"
#include "leased/engine/replica.h"
#include "leased/history/history.h"

#define ENGINE_KIT_UID 2013265920u
/* Room for any command that is made here. */
#define ENGINE_KIT_BYTES 256

struct engine_kit {
    char folder[256], path[320], history_path[320];
    struct loop *loop;
    struct fsm *fsm;
    struct engine *engine;
    struct history *history; /* NULL: without */
    struct engine_options options;
    const struct replica_options *replica; /* not NULL: a replica (raft_kit.h) */
    bool loop_is_shared;                   /* not ours to free */
    /* Called, too: change, applied and, if there are such, restored, leader, told. May be NULL. */
    const struct engine_hooks *also;
    bool leading, closed;
    int health;
    unsigned n_health; /* changes of it */
    char what[ENGINE_WHY_MAX], why[ENGINE_WHY_MAX];
    uint64_t n_changes, last_change; /* seen since it was opened, graces not counted; revision */
    uint64_t n_applied;              /* entries, not in open */
    uint64_t history_at;             /* what history is said to have, when there is none */
    /* Of the last engine_kit_do. */
    int r;
    struct fsm_outcome out;
    uint64_t lease;
};

void engine_kit_init(struct engine_kit *kit, const char *folder);
/* On a loop that others use, too. */
void engine_kit_init_on(struct engine_kit *kit, const char *folder, struct loop *loop);
/* Open and wait until it leads (a replica: do not wait), if the disk is well. What engine_open_* said, the sentence in
 * kit->why. */
int engine_kit_open(struct engine_kit *kit, bool with_history);
void engine_kit_close(struct engine_kit *kit);
void engine_kit_done(struct engine_kit *kit);

/* Init, pool of n uids, node n1, on a new state. */
void engine_kit_start(struct engine_kit *kit, uint32_t n_uids);

/* Packed commands; the length. */
size_t engine_kit_acquire(uint64_t i, uint8_t ret[static ENGINE_KIT_BYTES]);
size_t engine_kit_release(uint64_t lease, uint32_t epoch, uint8_t ret[static ENGINE_KIT_BYTES]);

/* Propose and wait for the end of it, kept in r, out, lease (the first). */
int engine_kit_do(struct engine_kit *kit, const uint8_t *command, size_t len);
int engine_kit_do_acquire(struct engine_kit *kit, uint64_t i);
int engine_kit_snapshot(struct engine_kit *kit);
/* So much has passed by the clock that cluster time goes on by. */
void engine_kit_pass(struct engine_kit *kit, int64_t ms);

/* Run the loop until cond(kit); false when it has not come within ten seconds. */
bool engine_kit_until(struct engine_kit *kit, bool (*cond)(const struct engine_kit *kit));

#endif
