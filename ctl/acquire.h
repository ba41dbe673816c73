/* Acquire, for the verbs that do: acquire and exec. */
#ifndef XCE_CTL_ACQUIRE_H
#define XCE_CTL_ACQUIRE_H

#include <stdbool.h>
#include <stdint.h>

#include "ctl/option.h"
#include "xce/client.h"

struct ctl;

/* Part of a verb's options. */
struct acquire_spec {
    const char *job, *pool, *nodes, *owner, *gids;
    int64_t ttl_ms;
    struct option_list write_paths;
    bool wait;
};

/* Rows for the verb's table; type has a member `spec`. */
#define ACQUIRE_OPTIONS(type)                                                                      \
    {"job", 'j', OPTION_TEXT, offsetof(type, spec.job), "JOB", "name of the job", NULL},           \
        {"pool",      0,                                                                           \
         OPTION_TEXT, offsetof(type, spec.pool),                                                   \
         "POOL",      "out of this pool (default: the only one)",                                  \
         NULL},                                                                                    \
        {"ttl",       0,                                                                           \
         OPTION_TTL,  offsetof(type, spec.ttl_ms),                                                 \
         "TIME|none", "how long it lasts unless renewed: 30s, 5m (default: the pool's)",           \
         NULL},                                                                                    \
        {"nodes",                                                                                  \
         0,                                                                                        \
         OPTION_TEXT,                                                                              \
         offsetof(type, spec.nodes),                                                               \
         "HOSTLIST|all",                                                                           \
         "member nodes, like n[01-16] (default: this machine)",                                    \
         NULL},                                                                                    \
        {"owner",     0,                                                                           \
         OPTION_TEXT, offsetof(type, spec.owner),                                                  \
         "USER",      "for this user (administrators and schedulers)",                             \
         NULL},                                                                                    \
        {"gids",      0,                                                                           \
         OPTION_TEXT, offsetof(type, spec.gids),                                                   \
         "GROUPS",    "supplementary groups, names or numbers, by commas",                         \
         NULL},                                                                                    \
    {                                                                                              \
        "write-path", 0, OPTION_LIST, offsetof(type, spec.write_paths), "PATH[:create]",           \
            "a directory that the lease may write to; may be repeated", NULL                       \
    }

/* Acquire count leases. A job with %i in it is numbered from 1 when count is above 1. request_id may be NULL.
 * *ret is the caller's to free. An exit status. */
int acquire_run(struct ctl *ctl, const struct acquire_spec *spec, uint32_t count, bool adopt,
                const char *request_id, struct xce_leases **ret);

#endif
