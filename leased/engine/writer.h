/* The thread that writes for the single replica: entries in order, one commit each, and between them the snapshot in
 * parts, the cut and the checkpoint. No lock is held over a write.
 *
 * The loop gathers commands and flushes; the thread takes what waits as one entry, writes it, and wakes the loop, which
 * collects. While a commit is under way the next batch gathers, and the thread takes it without asking the loop.
 * When a write fails the thread looks what is on disk (sqlite_recover) and tries once more; if that fails too, everything
 * that waits is failed, and it looks again twice a second. All functions are for the loop's thread. */
#ifndef XCE_LEASED_ENGINE_WRITER_H
#define XCE_LEASED_ENGINE_WRITER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "leased/engine/batch.h"
#include "leased/engine/sqlite.h"

struct writer;

struct writer_options {
    struct batch_limits limits;
    /* On the loop's thread, inside writer_gather. */
    batch_begin_fn begin;
    /* From the thread: writer_collect has something. */
    void (*wake)(void *arg);
    void *arg;
};

/* Starts the thread. The file is the writer's from now on, also on failure. 0; -ENOMEM, -EAGAIN. */
int writer_new(struct sqlite_file *file, const struct writer_options *options, struct writer **ret);

/* 0; -ENOBUFS, -EMSGSIZE of batch_gather. Nothing is written before writer_flush, unless a commit is under way. */
int writer_gather(struct writer *writer, const uint8_t *command, size_t len, engine_done_fn done,
                  void *arg);
/* Begin a batch for the sake of what its begin adds. */
void writer_begin(struct writer *writer);
void writer_flush(struct writer *writer);

/* Write this snapshot of the state after entry, in parts. Takes bytes. None may be under way. */
void writer_snapshot(struct writer *writer, uint64_t entry, uint8_t *bytes, size_t len);
/* It may take the place of the one before, and the log be cut. */
void writer_snapshot_allow(struct writer *writer);

struct writer_news {
    /* Batches that ended, linked, in order; to be given back one by one with writer_recycle. r 0: durable, apply it.
     * -ECONNABORTED: unknown; if it proves durable it comes again, without proposals. */
    struct batch *batches;
    /* Health has changed since the last time; failure: what the last failure was, also when it is over. */
    bool health_changed;
    int health, failure;
    char why[SQLFILE_WHY_MAX];
    /* A snapshot ended: 0 it is the one to restart from, or why not. */
    bool snapshot_ended;
    int snapshot_r;
    struct sqlite_position position;
};

void writer_collect(struct writer *writer, struct writer_news *ret);
void writer_recycle(struct writer *writer, struct batch *batch);

/* Take back all that waits and is not being written; linked. */
struct batch *writer_withdraw(struct writer *writer);
/* Finish what is being written, close the file, end the thread; the loop is woken a last time, then writer_ended. */
void writer_stop(struct writer *writer);
bool writer_ended(struct writer *writer);
/* After writer_ended and a last writer_collect. */
void writer_free(struct writer *writer);

#endif
