/* noded.conf: the table of its keys, and the values in force. See noded.conf(5). */
#ifndef XCE_NODED_CONF_H
#define XCE_NODED_CONF_H

#include <stdbool.h>
#include <stdint.h>

#include "common/conf.h"

#define NODED_CONF_PATH "/etc/xce/noded.conf"

enum noded_mirror {
    MIRROR_ALL = 0,
    MIRROR_OWN = 1,
};

struct noded_settings {
    struct conf_list servers;                                /* "unix:/path", "host:port" */
    const char *certificate, *key, *ca, *crl, *enroll_token; /* "" = none */
    bool renew;
    const char *node; /* "" = the host's name */
    const char *runtime_dir, *state_dir;
    int mirror; /* enum noded_mirror */
    struct conf_list local_roots;
    int64_t guard_ms, guard_idle_ms, look_limit_ms;
    int64_t account_check_ms;
    const char *nscd; /* program; "" = there is none to be told */
    const char *cgroup;
    int log_level; /* a place in words[] */
};

extern const struct conf_table noded_conf;

/* LOG_ERR..LOG_DEBUG. */
int noded_conf_log_level(const void *settings);

#endif
