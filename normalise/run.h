/* Rounds of change and proof, until there is a verdict. */
#ifndef XCE_NORMALISE_RUN_H
#define XCE_NORMALISE_RUN_H

#include <stddef.h>

#include "normalise/report.h"

/* SIGINT and SIGTERM end it early, with the verdict that nothing is proved; SIGUSR1 has progress told. They are blocked by
 * run_signals, before there are threads. */
int run_signals(void);

/* 0, *ret set; -errno: it could not be carried out. */
int run(const struct options *options, struct root *roots, size_t n_roots, struct report *report,
        struct verdict_info *ret);

#endif
