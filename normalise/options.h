/* What xce-normalise was asked to do, and the ids it is about. */
#ifndef XCE_NORMALISE_OPTIONS_H
#define XCE_NORMALISE_OPTIONS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/err.h"

/* Whose files go to whom. Without groups no file's group is touched. */
struct ids {
    uint32_t uid, to_uid;
    bool groups;
    uint32_t gid, to_gid;
};

/* How well it is shown that nothing is left; a later one is worth more. */
enum proof {
    PROOF_NONE,
    PROOF_DOUBLE_COLLECT, /* all looked at, and no folder has changed meanwhile */
    PROOF_INODE_SCAN,     /* the file system's own list of inodes */
    PROOF_QUOTA,          /* the file system's own count of them */
};

#define OPTIONS_THREADS_MAX  64
#define OPTIONS_RATE_MAX     1000000
#define OPTIONS_DEADLINE_MAX 31536000 /* a year */

struct options {
    struct ids ids;
    char **paths; /* of argv */
    size_t n_paths;
    const char *map; /* the uid map, which says what the pools are */
    enum proof least;
    unsigned threads;
    uint32_t rate;       /* changes a second; 0 = no limit */
    uint32_t deadline_s; /* it ends by then; 0 = none */
    uint64_t max_exceptions;
    bool json, dry_run, allow_overlay;
    bool acl_owned; /* access lists of theirs alone, before and after, not of everybody's */
};

enum options_outcome {
    OPTIONS_DONE = 1, /* help or the version has been printed */
};

/* 0; OPTIONS_DONE; -EINVAL, err says what is wrong. */
int options_parse(int argc, char **argv, struct options *ret, struct err *err);

const char *proof_name(enum proof proof);

/* Whether file systems' own lists of inodes are to be looked at: they tell of all files there, not of the paths alone. */
static inline bool options_scan(const struct options *options)
{
    return options->least == PROOF_INODE_SCAN;
}

#endif
