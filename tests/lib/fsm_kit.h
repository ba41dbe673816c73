/* A state machine to play with: builds commands and entries, applies them, remembers outcomes and changes.
 *
 * After every entry the kit recounts the state, applies the same bytes to a twin, and carries the state through a snapshot:
 * all three must have one digest. Whatever is wrong ends the test with a message. fsm_kit_backup.h has backups. */
#ifndef XCE_TESTS_LIB_FSM_KIT_H
#define XCE_TESTS_LIB_FSM_KIT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/buf.h"
#include "leased/fsm/fsm.h"
#include "xce/v1/command.pb-c.h"
#include "xce/v1/node.pb-c.h"

#define KIT_FIRST_UID 2013265920u
#define KIT_POOL      "main"

/* A change, with what it said of its object then. */
struct kit_change {
    uint64_t revision;
    enum fsm_change_kind kind;
    bool expiry_only;
    uint64_t lease;
    uint32_t uid;
    enum lease_state state, before;
    uint32_t quarantine, quarantined;
    char blocked[16]; /* why a uid of the pool has just been; "" = none has */
    char name[80];    /* of pool or node */
    enum node_state node_state;
};

struct kit {
    struct fsm *fsm, *twin;
    struct buf entry, command;
    int64_t now_ms;
    bool light; /* no twin, no snapshots: for benches */
    /* Gets each change of fsm as it comes. May be NULL. */
    fsm_change_fn follow;
    void *follow_arg;

    struct fsm_outcome out; /* of the last command; leases point to out_leases */
    uint64_t out_leases[FSM_BATCH_MAX];

    struct kit_change *changes; /* of the last entry */
    size_t n_changes, cap_changes;

    /* Of the next command; ids may be NULL. */
    const char *principal, *id;
    uint8_t digest;
    int64_t issued_ms;
    uint32_t gap;                /* of the next kit_restore; 0 = the least */
    uint64_t above, above_lease; /* as well */
    uint64_t lost;               /* so many epochs were lost on the way before the next kit_epoch */
    struct {
        uint64_t session, n;
    } told[8]; /* epochs, in unfinished reports */
};

/* A fresh state without CmdInit. */
void kit_init(struct kit *kit);
/* Initialised, pool KIT_POOL of n_uids, nodes n1 to nN ready. */
void kit_start(struct kit *kit, uint32_t n_uids, int n_nodes);
void kit_done(struct kit *kit);

/* Apply one command, under the request that was set; the code of its outcome. */
enum fsm_code kit_apply(struct kit *kit, Xce__V1__Command *command);
/* Apply bytes as they are; what fsm_apply said. */
int kit_apply_bytes(struct kit *kit, const uint8_t *bytes, size_t len);
/* The next command bears this request. */
void kit_request(struct kit *kit, const char *id, uint8_t digest, int64_t issued_ms);

struct kit_grant {
    const char *pool;   /* NULL = none named */
    const char *job;    /* NULL = "" */
    const char *nodes;  /* "n1,n2"; "all"; NULL = n1 */
    const char *owner;  /* NULL = alice */
    uint32_t owner_uid; /* 0 = 1000 */
    int64_t ttl_ms;     /* 0 = one minute; -1 = the pool's default; -2 = none */
    bool adopt, wait;
};

enum fsm_code kit_acquire(struct kit *kit, const struct kit_grant *grant);
/* Many in one command; adopt and wait of the first count. */
enum fsm_code kit_acquire_many(struct kit *kit, const struct kit_grant *grants, size_t n);
/* One member n1, made active. Its id. */
uint64_t kit_active(struct kit *kit, const char *nodes);
enum fsm_code kit_renew(struct kit *kit, uint64_t lease, int64_t ttl_ms);
/* Renewed as it was granted, with these members more: "n1,n2". */
enum fsm_code kit_add(struct kit *kit, uint64_t lease, const char *nodes);
enum fsm_code kit_release(struct kit *kit, uint64_t lease, const char *node);
enum fsm_code kit_revoke(struct kit *kit, uint64_t lease, const char *reason);

/* From the node's present session. kind: XCE__V1__REPORT_KIND__REPORT_KIND_... */
enum fsm_code kit_report(struct kit *kit, const char *node, uint64_t lease, int kind,
                         const char *reason);
enum fsm_code kit_report_uid(struct kit *kit, const char *node, uint64_t session, uint32_t uid,
                             uint32_t epoch, int kind, const char *reason);
enum fsm_code kit_block(struct kit *kit, const char *node, uint32_t uid, const char *reason);
enum fsm_code kit_hello(struct kit *kit, const char *node, const char *machine, const char *boot,
                        bool clean_start);
/* A hello from a boot of before, heard when the newer one was known. */
enum fsm_code kit_returns(struct kit *kit, const char *node, const char *machine, const char *boot);
enum fsm_code kit_watermark(struct kit *kit, const char *node, uint64_t revision);
/* Of every node that is not lost or fenced, up to now. */
void kit_watermarks(struct kit *kit);
enum fsm_code kit_lost(struct kit *kit, const char *node, bool heard_again);
enum fsm_code kit_verb(struct kit *kit, const char *node, int verb, const char *reason);
enum fsm_code kit_fence(struct kit *kit, const char *node, const char *machine, const char *boot);
enum fsm_code kit_grace(struct kit *kit, int64_t grace_ms);
enum fsm_code kit_tick(struct kit *kit);
/* Time passes, in steps no longer than the next thing due; what is due happens. */
void kit_elapse(struct kit *kit, int64_t ms);
enum fsm_code kit_pool_create(struct kit *kit, const char *name, uint32_t first, uint32_t last);
/* What is zero or NULL is not set. */
struct kit_pool_set {
    const char *name; /* NULL = KIT_POOL */
    uint32_t last;
    int64_t ttl_min_ms, ttl_max_ms, ttl_default_ms, cooldown_ms, ready_timeout_ms, validity_ms;
    bool witnesses_all, witnesses_connected, max_per_owner_set;
    uint32_t max_per_owner;
    const char *home, *shell;
    struct fsm_range directory; /* last 0 = not given */
    bool directory_none;
};
enum fsm_code kit_pool_set(struct kit *kit, const struct kit_pool_set *set);
/* The same for a new pool. */
enum fsm_code kit_pool_make(struct kit *kit, uint32_t first, const struct kit_pool_set *set);
/* Compare and set; "role=Service/Method:own,...;..." and "user:alice=role,...;...", NULL = none. */
enum fsm_code kit_rules(struct kit *kit, uint64_t expected, const char *roles,
                        const char *bindings);
enum fsm_code kit_pool_retire(struct kit *kit, const char *name);
enum fsm_code kit_unblock(struct kit *kit, uint32_t uid);

/* Everything that a lease needs from now on until its uid is free. */
void kit_finish(struct kit *kit, uint64_t lease);

const struct fsm_lease *kit_lease(const struct kit *kit, uint64_t lease);
enum lease_state kit_state(const struct kit *kit, uint64_t lease); /* LEASE_FREE if it is gone */
const struct fsm_member *kit_member(const struct kit *kit, uint64_t lease, const char *node);
const struct fsm_node *kit_node(const struct kit *kit, const char *node);
const struct fsm_pool *kit_pool(const struct kit *kit);
struct fsm_counts kit_counts(const struct kit *kit);

#define KIT_READY   XCE__V1__REPORT_KIND__REPORT_KIND_READY
#define KIT_REFUSED XCE__V1__REPORT_KIND__REPORT_KIND_REFUSED
#define KIT_CLEAN   XCE__V1__REPORT_KIND__REPORT_KIND_CLEAN
#define KIT_DIRTY   XCE__V1__REPORT_KIND__REPORT_KIND_DIRTY
#define KIT_STRAY   XCE__V1__REPORT_KIND__REPORT_KIND_STRAY

#endif
