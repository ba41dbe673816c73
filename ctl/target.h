/* Which lease is meant: by what a person may say of it. */
#ifndef XCE_CTL_TARGET_H
#define XCE_CTL_TARGET_H

#include <stdint.h>

#include "ctl/option.h"
#include "xce/client.h"

struct ctl;

/* Part of a verb's options. */
struct target {
    uint32_t uid;
    uint64_t lease;
    const char *name, *job, *owner;
};

/* Rows for the verb's table; type has a member `target`. */
#define TARGET_OPTIONS(type)                                                                       \
    {"uid", 0, OPTION_U32, offsetof(type, target.uid), "UID", "the lease that holds this uid",     \
     NULL},                                                                                        \
        {"lease", 0, OPTION_U64, offsetof(type, target.lease), "ID", "by its number", NULL},       \
    {                                                                                              \
        "name", 0, OPTION_TEXT, offsetof(type, target.name), "NAME", "by its name", NULL           \
    }
#define TARGET_OPTIONS_JOB(type)                                                                   \
    {"job", 0, OPTION_TEXT, offsetof(type, target.job), "JOB", "the lease of this job", NULL},     \
    {                                                                                              \
        "owner", 0, OPTION_TEXT, offsetof(type, target.owner), "USER",                             \
            "with --job: whose (default: your own)", NULL                                          \
    }

#define TARGET_HELP                                                                                \
    "TARGET is a uid, the name of a lease, or the number of a lease. A number is looked up as a\n" \
    "uid and as a lease; where both are there, say --uid or --lease."

/* What is meant; word: the TARGET, NULL = none was given. n_ret 1, or 2 for a bare number (uid first). Text stays the
 * caller's; owner is memory for a key by job, with OWNER_NAME_MAX + 1 bytes for its name. An exit status. */
struct target_keys {
    struct xce_key keys[2];
    size_t n;
    struct xce_owner owner;
    char owner_name[256];
};
int target_keys(struct ctl *ctl, const struct target *target, const char *word,
                struct target_keys *ret);

/* ctl_failed for a call with this key; what is not there is named. */
int target_failed(struct ctl *ctl, int code, const struct xce_key *key);

/* The lease itself, as leased knows it now; of a job that has none any more, the newest that is not free yet. The caller frees it. An exit status. */
int target_find(struct ctl *ctl, const struct target *target, const char *word,
                struct xce_lease **ret);

#endif
