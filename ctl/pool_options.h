/* What pool create, set and suggest have in common. */
#ifndef XCE_CTL_POOL_OPTIONS_H
#define XCE_CTL_POOL_OPTIONS_H

#include "ctl/option.h"
#include "xce/client.h"

struct ctl;

struct pool_settings_options {
    int64_t ttl_min_ms, ttl_max_ms, ttl_default_ms, cooldown_ms, ready_timeout_ms, validity_ms;
    const char *witnesses;
    struct option_number max_per_owner;
    const char *home, *shell;
};

/* Rows for the verb's table; type has a member `settings`. */
#define POOL_SETTINGS_OPTIONS(type)                                                                \
    {"ttl-min",                                                                                    \
     0,                                                                                            \
     OPTION_DURATION,                                                                              \
     offsetof(type, settings.ttl_min_ms),                                                          \
     "TIME",                                                                                       \
     "shortest ttl (default 1s)",                                                                  \
     NULL},                                                                                        \
        {"ttl-max",                                                                                \
         0,                                                                                        \
         OPTION_DURATION,                                                                          \
         offsetof(type, settings.ttl_max_ms),                                                      \
         "TIME",                                                                                   \
         "longest ttl (default 30d)",                                                              \
         NULL},                                                                                    \
        {"ttl-default",                                                                            \
         0,                                                                                        \
         OPTION_DURATION,                                                                          \
         offsetof(type, settings.ttl_default_ms),                                                  \
         "TIME",                                                                                   \
         "ttl of a lease that names none (default 1h)",                                            \
         NULL},                                                                                    \
        {"cooldown",                                                                               \
         0,                                                                                        \
         OPTION_DURATION,                                                                          \
         offsetof(type, settings.cooldown_ms),                                                     \
         "TIME",                                                                                   \
         "rest of a uid that is proved clean (default 5m)",                                        \
         NULL},                                                                                    \
        {"ready-timeout",                                                                          \
         0,                                                                                        \
         OPTION_DURATION,                                                                          \
         offsetof(type, settings.ready_timeout_ms),                                                \
         "TIME",                                                                                   \
         "members must be ready in that time (default 10s)",                                       \
         NULL},                                                                                    \
        {"validity",                                                                               \
         0,                                                                                        \
         OPTION_DURATION,                                                                          \
         offsetof(type, settings.validity_ms),                                                     \
         "TIME",                                                                                   \
         "a node that hears nothing so long ends what is there (default 1h)",                      \
         NULL},                                                                                    \
        {"witnesses",     0,                                                                       \
         OPTION_WORD,     offsetof(type, settings.witnesses),                                      \
         "connected|all", "which nodes must have looked before a uid is free",                     \
         pool_witnesses},                                                                          \
        {"max-per-owner",                                                                          \
         0,                                                                                        \
         OPTION_NUMBER,                                                                            \
         offsetof(type, settings.max_per_owner),                                                   \
         "N",                                                                                      \
         "leases of one owner (default 0: no limit)",                                              \
         NULL},                                                                                    \
        {"home",      0,                                                                           \
         OPTION_TEXT, offsetof(type, settings.home),                                               \
         "PATH",      "home directory of its users (default /nonexistent)",                        \
         NULL},                                                                                    \
    {                                                                                              \
        "shell", 0, OPTION_TEXT, offsetof(type, settings.shell), "PATH",                           \
            "login shell of its users (default /usr/sbin/nologin)", NULL                           \
    }

extern const char *const pool_witnesses[];

void pool_settings(const struct pool_settings_options *given, struct xce_pool_settings *ret);

#define POOL_DIRECTORY_MAX 256

/* "A-B,C-D" or "none". An exit status. */
int pool_directory(struct ctl *ctl, const char *text, struct xce_range *ranges, size_t *ret_n,
                   bool *ret_none);

#endif
