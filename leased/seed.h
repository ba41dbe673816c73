/* RbacSeed=: the rules of a cluster that has none yet, out of a file. Taken once: afterwards the rules are the cluster's. */
#ifndef XCE_LEASED_SEED_H
#define XCE_LEASED_SEED_H

#include "common/err.h"

struct engine;
struct fsm_outcome;
struct seed;

/* Read and check the file. 0; -errno, err names the file, and the line where there is one. */
int seed_read(const char *path, struct seed **ret, struct err *err);
void seed_free(struct seed *seed);

/* Propose them to a state that has no rules; done as engine_done_fn. */
void seed_plant(const struct seed *seed, struct engine *engine,
                void (*done)(int r, const struct fsm_outcome *outcome, void *arg), void *arg);

#endif
