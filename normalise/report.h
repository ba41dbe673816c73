/* What is told: NDJSON on stdout, a record a line, or plain lines when stdout is a terminal. Any thread. */
#ifndef XCE_NORMALISE_REPORT_H
#define XCE_NORMALISE_REPORT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "normalise/options.h"
#include "normalise/root.h"

struct report;

/* Why a file is told of. */
enum exception {
    EXCEPTION_IMMUTABLE, /* a flag of it is in the way */
    EXCEPTION_DEVICE,    /* a device is given to nobody */
    EXCEPTION_READ_ONLY, /* the file system */
    EXCEPTION_QUOTA,     /* the new owner has no room */
    EXCEPTION_REFUSED,   /* the file system, or its server, does not let us */
    EXCEPTION_UNKNOWN,   /* could not be looked at */
    EXCEPTION_LEFT,      /* of the uid or gid, after all */
    EXCEPTION_MOVED,     /* a folder that changed as it was to be proved */
    EXCEPTION_SNAPSHOT,  /* left out */
    EXCEPTION_MOUNT,     /* left out */
    N_EXCEPTIONS,
};

struct exception_info {
    enum exception class;
    int error;               /* negative errno; 0 = none */
    const char *op;          /* what was tried */
    const struct root *root; /* NULL = it has no path that is known, but an inode number */
    const char *path;        /* all of it, if it is known; NULL = name in dir_fd */
    int dir_fd;              /* where name is; -1 = somewhere in the root */
    const char *name;        /* "" = the folder itself */
    uint32_t dev_major, dev_minor;
    uint64_t ino; /* 0 = not known */
};

enum verdict {
    VERDICT_CLEAN,
    VERDICT_DIRTY,
    VERDICT_BLOCKED,
    VERDICT_UNPROVEN,
};

struct verdict_info {
    enum verdict verdict;
    enum proof proof;
    const char *reason; /* NULL for clean */
    unsigned rounds;
    int64_t took_ms;
    int64_t estimate_ms; /* of a dry run: what a run would take; -1 = none */
};

/* Borrows options and roots. NULL: no memory. */
struct report *report_new(const struct options *options, struct root *roots, size_t n_roots);
void report_free(struct report *report);

void report_start(struct report *report);
/* What goes on now: "change", "prove", "compare", "scan". */
void report_phase(struct report *report, const char *phase);
void report_progress(struct report *report);
void report_exception(struct report *report, const struct exception_info *info);
/* The roots, then the verdict. */
void report_end(struct report *report, const struct verdict_info *info);

/* Whether progress is drawn once a second on a terminal, rather than told every ten. */
bool report_is_drawn(const struct report *report);

/* 0; -errno of the first line that could not be written. */
int report_error(const struct report *report);

#endif
