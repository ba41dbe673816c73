/* /etc/xce/leased.conf: the keys, their defaults and their meaning are the table in conf.c. */
#ifndef XCE_LEASED_CONF_H
#define XCE_LEASED_CONF_H

#include <stdint.h>

#include "common/conf.h"

struct leased_settings {
    const char *socket;    /* unix socket of this machine's clients */
    const char *state_dir; /* engine.db, history.db */
    const char *prefix;    /* of lease names; fixed when the state is made */
    int64_t heartbeat_ms, lost_after_ms, grace_ms;
    uint64_t history_lag;    /* bytes */
    uint32_t connections;    /* at once */
    struct conf_list listen; /* "HOST:PORT" */
    const char *certificate, *key, *ca, *crl, *ca_key;
    int64_t node_life_ms;   /* of certificates that nodes get here */
    const char *audit_file; /* "" = audit.log in state_dir */
    uint64_t audit_size;    /* bytes of one; 0 = no audit file */
    uint32_t audit_keep;
    int engine;            /* enum leased_engine */
    const char *advertise; /* "HOST:PORT", "" = the first of listen */
    int64_t election_ms, raft_heartbeat_ms;
    const char *rbac_seed; /* file of the first rules; "" = none */
    int log_level;         /* 0 error ... 4 debug */
};

enum leased_engine {
    LEASED_SQLITE = 0,
    LEASED_RAFT = 1,
};

#define LEASED_CONF_PATH "/etc/xce/leased.conf"

extern const struct conf_table leased_conf;

/* Where other replicas reach this one, "HOST:PORT"; NULL = nowhere. */
const char *leased_conf_address(const struct leased_settings *settings);

/* The syslog level of a place in the table's words. */
int leased_conf_log_level(const void *settings);

#endif
