/* The thread that writes the history, at low priority: blocks in, numbers of what is written and durable out.
 *
 * The loop's side takes no lock that the thread could hold while it is preempted, save when health has changed. */
#ifndef XCE_LEASED_HISTORY_SCRIBE_H
#define XCE_LEASED_HISTORY_SCRIBE_H

#include <stdbool.h>
#include <stdint.h>

#include "leased/history/feed.h"
#include "leased/history/store.h"

struct scribe;

/* Starts the thread; the store is its own from now on, also on failure. wake: from the thread, something has changed.
 * check: read the whole file first. 0; -ENOMEM, -EAGAIN, -EMFILE. */
int scribe_new(struct store *store, bool check, void (*wake)(void *arg), void *arg,
               struct scribe **ret);

/* Hand over a block; blocks are written in this order. */
void scribe_put(struct scribe *scribe, struct feed_block *block);
/* One that is written and may be used again, or NULL. */
struct feed_block *scribe_spare(struct scribe *scribe);
/* Free those, but for a few: pieces of another's history and what had piled up take none again. */
void scribe_tidy(struct scribe *scribe);
/* Give it more of the processor, or less again. */
void scribe_hurry(struct scribe *scribe, bool hurry);

/* Numbers of the last blocks that were written, and that a crash of the machine would spare. */
uint64_t scribe_written(const struct scribe *scribe);
uint64_t scribe_durable(const struct scribe *scribe);
/* Of the last one that counts as written and was not: it contradicts what stands there. */
uint64_t scribe_foreign(const struct scribe *scribe);
/* Whether health has changed since the last call; then r and why are set. */
bool scribe_health(struct scribe *scribe, int *ret_r, char ret_why[static STORE_WHY_MAX]);

/* Write what it has, unless that fails, and end; wake comes a last time, then scribe_ended. */
void scribe_stop(struct scribe *scribe);
bool scribe_ended(const struct scribe *scribe);
void scribe_free(struct scribe *scribe);

#endif
