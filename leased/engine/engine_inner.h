/* What both engines share: the face's table, time, applying, and answers that must not come inside the call. */
#ifndef XCE_LEASED_ENGINE_ENGINE_INNER_H
#define XCE_LEASED_ENGINE_ENGINE_INNER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "leased/engine/batch.h"
#include "leased/engine/engine.h"

struct loop_soon;

struct engine_ops {
    void (*close)(struct engine *engine, void (*done)(void *arg), void *arg);
    void (*propose)(struct engine *engine, const uint8_t *command, size_t len, engine_done_fn done,
                    void *arg);
    void (*read_barrier)(struct engine *engine, engine_ready_fn done, void *arg);
    void (*tell)(struct engine *engine, const uint8_t *bytes, size_t len, engine_ready_fn done,
                 void *arg);
    void (*snapshot)(struct engine *engine, engine_ready_fn done, void *arg);
    void (*get_status)(const struct engine *engine, struct engine_status *ret);
    /* The outcome of a command that another replica passed on, this one perhaps. NULL: there are none. */
    void (*passed)(struct engine *engine, const struct fsm_outcome *outcome);
    /* Runs after each round's answers: hand over what was gathered. */
    void (*flush)(struct engine *engine);
};

/* An answer for the next round. */
struct engine_later {
    int r;
    engine_done_fn done;
    engine_ready_fn ready; /* one of the two, or neither */
    void *arg;
    uint8_t *told; /* for the hook, before the answer; owned. NULL = nothing */
    size_t told_len;
};

struct engine {
    const struct engine_ops *ops;
    struct loop *loop;
    struct fsm *fsm;
    struct engine_hooks hooks;
    struct engine_options options;

    bool leading;
    int health;

    /* Cluster time = base_ms + boot-time clock - base_mono_ms. */
    int64_t base_ms, base_mono_ms;
    /* The next batch begins with a grace; then this replica leads. */
    bool grace_due;

    struct loop_soon *soon;
    struct engine_later *later;
    size_t n_later, later_cap;
};

/* Set up the shared part; options are completed with their defaults. 0; -ENOMEM (then nothing to undo). The fsm becomes
 * the engine's own only with engine_done. */
int engine_init(struct engine *engine, const struct engine_ops *ops, struct loop *loop,
                const struct engine_options *options, const struct engine_hooks *hooks,
                struct fsm *fsm);
/* Frees the FSM too. Nothing may wait for an answer. */
void engine_done(struct engine *engine);

/* Cluster time goes on from where the FSM is. */
void engine_begin_time(struct engine *engine);
/* A batch_begin_fn: time, and the grace when one is due. */
void engine_begin_batch(struct batch *batch, void *engine);

void engine_later_done(struct engine *engine, int r, engine_done_fn done, void *arg);
void engine_later_ready(struct engine *engine, int r, engine_ready_fn ready, void *arg);
/* First the hook told, then ready, which may be NULL. */
void engine_later_told(struct engine *engine, int r, const uint8_t *bytes, size_t len,
                       engine_ready_fn ready, void *arg);
/* Have ops->flush called soon. */
void engine_flush_soon(struct engine *engine);

/* Apply a batch that is durable and answer its proposals. An entry that the FSM cannot read aborts. */
void engine_apply(struct engine *engine, struct batch *batch);
/* The same for the bytes of an entry; batch is NULL when nobody here waits for it. */
void engine_apply_entry(struct engine *engine, uint64_t index, const uint8_t *entry, size_t len,
                        const struct batch *batch);
/* Answer a batch that is not. */
void engine_fail(struct batch *batch, int r);

void engine_set_leading(struct engine *engine, bool leading);
void engine_set_health(struct engine *engine, int r, const char *what);

#endif
