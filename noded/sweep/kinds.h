/* The kinds of remnants: a row in kinds.c each. To add one: a file with a run function, its prototype here, its row. */
#ifndef XCE_NODED_SWEEP_KINDS_H
#define XCE_NODED_SWEEP_KINDS_H

#include <stddef.h>

#include "noded/sweep/sweep.h"

struct sweep_kind {
    const char *name; /* for logs and docs/node.md */
    unsigned stages;  /* enum sweep_stages */
    /* One round: report all that is there, and remove it if sweep->remove. A kind whose removal can not bring forth anything,
     * and which looks again itself, reports only what is left: nobody need look through everything once more for it. */
    void (*run)(struct sweep *sweep);
};

/* In the order in which they are run: within a stage what could make others comes first. */
extern const struct sweep_kind sweep_kinds[];
extern const size_t n_sweep_kinds;

void sweep_slices(struct sweep *sweep);
void sweep_slice_folders(struct sweep *sweep);
void sweep_units(struct sweep *sweep);
void sweep_uids(struct sweep *sweep);
void sweep_processes(struct sweep *sweep);
void sweep_keyrings(struct sweep *sweep);
void sweep_ipc(struct sweep *sweep);
void sweep_mounts(struct sweep *sweep);
void sweep_files(struct sweep *sweep);
void sweep_open_files(struct sweep *sweep);
void sweep_names(struct sweep *sweep);
void sweep_journals(struct sweep *sweep);
void sweep_members(struct sweep *sweep);

#endif
