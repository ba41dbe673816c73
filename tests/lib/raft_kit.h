/* A cluster of replicas in one process, on one loop, over wires that can be cut: for tests.
 *
 * Replica i is called r0, r1, ... and lives in FOLDER/r<i>/raft. Bytes on a cut wire wait and come late when it heals, as
 * on a network that has lost packets; a wire that is broken closes. Time is real: election 150 ms, heartbeat 30 ms. */
#ifndef XCE_TESTS_LIB_RAFT_KIT_H
#define XCE_TESTS_LIB_RAFT_KIT_H

#include <stdbool.h>

#include "tests/lib/engine_kit.h"

#define RAFT_KIT_MAX 7

struct raft_wire;

struct raft_node {
    struct engine_kit kit;
    struct raft_kit *cluster;
    struct replica_options options;
    struct replica_links links;
    char name[8], address[16], raft_folder[320];
    char proved[8]; /* what its certificate says */
};

struct raft_kit {
    char folder[256];
    struct loop *loop;
    unsigned n;
    struct raft_node nodes[RAFT_KIT_MAX];
    bool cut[RAFT_KIT_MAX][RAFT_KIT_MAX];         /* from, to */
    bool shut[RAFT_KIT_MAX][RAFT_KIT_MAX];        /* from, to: no streams that from opens */
    bool mute[RAFT_KIT_MAX][RAFT_KIT_MAX];        /* from, to: no answers on those */
    unsigned n_calls[RAFT_KIT_MAX][RAFT_KIT_MAX]; /* streams opened from, to */
    struct raft_wire *wires;
    bool with_history;
};

/* n replicas that do not run yet, in folder. */
void raft_kit_init(struct raft_kit *kit, const char *folder, unsigned n);
/* Ends what runs; the folder stays. */
void raft_kit_done(struct raft_kit *kit);
/* For cmocka: a kit of n in a folder of its own; all of it gone. 0. */
int raft_kit_setup(void **state, unsigned n);
int raft_kit_teardown(void **state);

/* Start, stop. start: what engine_open_raft said. */
int raft_kit_start(struct raft_kit *kit, unsigned i);
void raft_kit_stop(struct raft_kit *kit, unsigned i);
/* Forget the folder of one that does not run. */
void raft_kit_wipe(struct raft_kit *kit, unsigned i);

/* Start all, the first as the first of a cluster, add the others; then a pool of n_uids and a node. */
void raft_kit_form(struct raft_kit *kit, uint32_t n_uids);

/* Nothing gets from a to b; both ways. -1: from or to everybody. */
void raft_kit_cut_one_way(struct raft_kit *kit, int a, int b);
void raft_kit_cut(struct raft_kit *kit, int a, int b);
void raft_kit_heal(struct raft_kit *kit);
/* Close the streams that from opened to to, and refuse new ones; answers on them do not get back. Until healed. */
void raft_kit_shut(struct raft_kit *kit, unsigned from, unsigned to, bool on);
void raft_kit_mute(struct raft_kit *kit, unsigned from, unsigned to, bool on);
/* Close every stream of i. */
void raft_kit_break(struct raft_kit *kit, unsigned i);

/* Run for so long, or until cond; false: not within ten seconds. */
void raft_kit_elapse(struct raft_kit *kit, int64_t ms);
bool raft_kit_until(struct raft_kit *kit, bool (*cond)(struct raft_kit *kit, void *arg), void *arg);

/* The one that leads (engine hook), waited for; among = bits of replicas, 0 = any. -1: none. */
int raft_kit_leader(struct raft_kit *kit, unsigned among);
struct engine *raft_kit_engine(struct raft_kit *kit, unsigned i);
/* Ask the leader; again when leadership was lost or there is none, as clients do. 0 and the outcome in kit; -errno after
 * ten seconds. */
int raft_kit_acquire(struct raft_kit *kit, uint64_t i);
/* Request i of those has a lease in the state of replica r. */
bool raft_kit_has_lease(struct raft_kit *kit, unsigned r, uint64_t i);
/* All that run have applied the same and have the same digest; waited for. */
bool raft_kit_equal(struct raft_kit *kit);
/* One membership call, waited for; why (may be NULL) has room for ENGINE_WHY_MAX. */
int raft_kit_add(struct raft_kit *kit, unsigned i, char *why);
int raft_kit_remove(struct raft_kit *kit, unsigned i, char *why);
int raft_kit_transfer(struct raft_kit *kit, int i, char *why);
/* A linearizable read asked of i; what it said. */
int raft_kit_read(struct raft_kit *kit, unsigned i);
/* Open a stream to replica i as replica from would and send these bytes; whether it was closed then. */
bool raft_kit_send_raw(struct raft_kit *kit, unsigned from, unsigned i, const void *bytes,
                       size_t len);

#endif
