#include "leased/engine/batch.h"

#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "common/log.h"
#include "common/mem.h"
#include "leased/fsm/command.h"

/* Batches kept for reuse: one being written, one gathering, one being applied. */
#define SPARE_MAX 3
/* A spare one larger than this gives its memory back. */
#define SPARE_BYTES (1u << 20)

void batch_queue_init(struct batch_queue *queue, const struct batch_limits *limits,
                      batch_begin_fn begin, void *arg)
{
    memset(queue, 0, sizeof *queue);
    queue->limits = *limits;
    queue->begin = begin;
    queue->arg = arg;
}

static void batch_free(struct batch *batch)
{
    buf_done(&batch->entry);
    free(batch->proposals);
    free(batch);
}

void batch_queue_done(struct batch_queue *queue)
{
    assert(!queue->head);
    while (queue->spare) {
        struct batch *batch = queue->spare;

        queue->spare = batch->next;
        batch_free(batch);
    }
    queue->n_spare = 0;
}

static struct batch *batch_new(struct batch_queue *queue)
{
    struct batch *batch = queue->spare;

    if (batch) {
        queue->spare = batch->next;
        queue->n_spare--;
    } else {
        batch = mem_must_calloc(1, sizeof *batch);
        buf_init(&batch->entry, COMMAND_ENTRY_MAX);
    }
    batch->next = NULL;
    batch->n = 0;
    batch->index = 0;
    batch->r = 0;
    return batch;
}

void batch_add(struct batch *batch, const uint8_t *command, size_t len, engine_done_fn done,
               void *arg)
{
    mem_must_grow(&batch->proposals, &batch->cap, batch->n + 1, sizeof *batch->proposals);
    command_entry_append(&batch->entry, command, len);
    if (buf_error(&batch->entry) < 0) {
        log_error(NULL, "no memory for an entry of the log");
        abort();
    }
    batch->proposals[batch->n++] = (struct batch_proposal){done, arg};
}

struct batch *batch_begin(struct batch_queue *queue)
{
    struct batch *batch = batch_new(queue);

    queue->begin(batch, queue->arg);
    if (queue->tail)
        queue->tail->next = batch;
    else
        queue->head = batch;
    queue->tail = batch;
    queue->n_waiting += batch->n;
    queue->bytes_waiting += batch->entry.len;
    return batch;
}

/* The batch that the command goes into. */
static struct batch *batch_for(struct batch_queue *queue, size_t len)
{
    const struct batch_limits *limits = &queue->limits;
    struct batch *batch = queue->tail;

    if (batch && batch->n < limits->commands &&
        batch->entry.len + COMMAND_OVERHEAD + len <= limits->bytes)
        return batch;
    return batch_begin(queue);
}

int batch_gather(struct batch_queue *queue, const uint8_t *command, size_t len, engine_done_fn done,
                 void *arg)
{
    struct batch *batch;
    size_t before;

    if (len > COMMAND_ENTRY_MAX - 1024)
        return -EMSGSIZE;
    if (queue->n_waiting >= queue->limits.waiting_commands ||
        queue->bytes_waiting >= queue->limits.waiting_bytes)
        return -ENOBUFS;
    batch = batch_for(queue, len);
    before = batch->entry.len;
    batch_add(batch, command, len, done, arg);
    queue->n_waiting++;
    queue->bytes_waiting += batch->entry.len - before;
    return 0;
}

struct batch *batch_take(struct batch_queue *queue)
{
    struct batch *batch = queue->head;

    if (!batch)
        return NULL;
    queue->head = batch->next;
    if (!queue->head)
        queue->tail = NULL;
    batch->next = NULL;
    queue->n_waiting -= batch->n;
    queue->bytes_waiting -= batch->entry.len;
    return batch;
}

struct batch *batch_take_all(struct batch_queue *queue)
{
    struct batch *first = queue->head;

    queue->head = queue->tail = NULL;
    queue->n_waiting = queue->bytes_waiting = 0;
    return first;
}

void batch_recycle(struct batch_queue *queue, struct batch *batch)
{
    if (queue->n_spare >= SPARE_MAX || batch->entry.cap > SPARE_BYTES) {
        batch_free(batch);
        return;
    }
    batch->next = queue->spare;
    queue->spare = batch;
    queue->n_spare++;
}
