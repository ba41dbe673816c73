/* Commands on their way to the log: gathered into entries, in order, under limits.
 *
 * The last batch of the queue grows until it is taken or full; commands of one batch are one entry of the log. No thread
 * of its own: whoever shares a queue between threads holds a lock around each call. */
#ifndef XCE_LEASED_ENGINE_BATCH_H
#define XCE_LEASED_ENGINE_BATCH_H

#include <stddef.h>
#include <stdint.h>

#include "common/buf.h"
#include "leased/engine/engine.h"

struct batch_proposal {
    engine_done_fn done; /* NULL = nobody waits */
    void *arg;
};

struct batch {
    struct batch *next;
    struct buf entry;
    struct batch_proposal *proposals;
    size_t n, cap;
    uint64_t index; /* in the log, once it is there */
    int r;          /* how writing ended */
};

struct batch_limits {
    size_t commands, bytes; /* of one batch; a command that is longer alone makes a batch alone */
    size_t waiting_commands, waiting_bytes;
};

/* Begin the entry of a new batch: its time, and commands of the engine's own (batch_add with done NULL). */
typedef void (*batch_begin_fn)(struct batch *batch, void *arg);

struct batch_queue {
    struct batch *head, *tail;
    struct batch *spare;
    unsigned n_spare;
    size_t n_waiting, bytes_waiting;
    struct batch_limits limits;
    batch_begin_fn begin;
    void *arg;
};

void batch_queue_init(struct batch_queue *queue, const struct batch_limits *limits,
                      batch_begin_fn begin, void *arg);
/* The queue must be empty. */
void batch_queue_done(struct batch_queue *queue);

/* Put one packed command (copied) behind the others. 0; -EMSGSIZE longer than any entry; -ENOBUFS too much waits. */
int batch_gather(struct batch_queue *queue, const uint8_t *command, size_t len, engine_done_fn done,
                 void *arg);
/* A new batch behind the others, with what its begin adds. */
struct batch *batch_begin(struct batch_queue *queue);
/* The first batch, now the caller's; NULL when nothing waits. */
struct batch *batch_take(struct batch_queue *queue);
/* All of them, linked. */
struct batch *batch_take_all(struct batch_queue *queue);
/* Give a batch back. */
void batch_recycle(struct batch_queue *queue, struct batch *batch);

/* One more command into a batch. */
void batch_add(struct batch *batch, const uint8_t *command, size_t len, engine_done_fn done,
               void *arg);

#endif
