/* The replicated engine: three or five leased that keep one log (C-Raft). Behind engine.h like the other one; here is what
 * only it can do.
 *
 * All of it runs on the loop's thread: consensus, applying, sockets; disk writes are asynchronous. A command is acknowledged
 * when a majority has it on disk and it is applied here. A new leader answers nothing before everything older is applied
 * (a barrier) and its grace is in the log. A read is linearizable: a majority says, after the read came, that it knows
 * no newer term.
 *
 * Replicas are bound to their folder: the raft id is the folder's random id, the certificate names the replica, and the
 * members' list (replicated) joins the two. Each end of each stream checks all three.
 *
 * Without the library (XCE_HAVE_RAFT) everything here says -EOPNOTSUPP. */
#ifndef XCE_LEASED_ENGINE_REPLICA_H
#define XCE_LEASED_ENGINE_REPLICA_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "leased/engine/engine.h"

struct transport;
struct transport_events;

#define REPLICA_NAME_MAX    64
#define REPLICA_ADDRESS_MAX 255
#define REPLICA_CLUSTER_LEN 16
#define REPLICA_MEMBERS_MAX 16

/* How replicas reach each other. The streams must be private and both ends proved: in leased they are mutual TLS. */
struct replica_links {
    /* Begin a stream to the leased at address ("host:port"); events follow. 0; -errno, no event follows. */
    int (*connect)(const char *name, const char *address, const struct transport_events *events,
                   void *events_arg, struct transport **ret, void *arg);
    /* Whether the other end of an open stream has proved to be the replica of that name. */
    bool (*proves)(const struct transport *transport, const char *name, void *arg);
    void *arg;
};

struct replica_options {
    const char *folder;
    const char *name;                   /* ours: what the certificate says */
    const char *address;                /* where others reach us */
    unsigned election_ms, heartbeat_ms; /* [150, 30] */
    const struct replica_links *links;
    /* The state of the single replica before (fsm_snapshot), for a folder that was made to begin with one. Borrowed. */
    const uint8_t *state;
    size_t state_len;
};

enum replica_role {
    REPLICA_VOTER = 1,
    REPLICA_LEARNER = 2, /* catching up, does not vote */
};

struct replica_member {
    uint64_t id;
    char name[REPLICA_NAME_MAX + 1], address[REPLICA_ADDRESS_MAX + 1];
    enum replica_role role;
    bool leads;
    bool up;             /* a stream to it is open (of others); true for ourselves */
    uint64_t last_entry; /* on its disk, as far as the leader knows; 0 = not known */
};

struct replica_status {
    uint64_t id, term, last_entry, applied, snapshot_entry;
    bool begun; /* it is a member of a cluster, or was one */
    uint8_t cluster[REPLICA_CLUSTER_LEN];
    uint64_t leader; /* 0 = none is known */
    size_t n_members;
    struct replica_member members[REPLICA_MEMBERS_MAX];
};

/* Make the folder of the first replica of a new cluster; what is to become of it when leased starts. with_state: the state
 * of the single replica comes along. Doing it again is fine as long as it has not begun.
 * 0; -EEXIST it belongs to a cluster already; -errno. why: a sentence. */
int replica_prepare(const char *folder, const char *name, bool with_state,
                    char why[static ENGINE_WHY_MAX]);
/* Whether somebody lives in the folder: 0 no, or one that waits and has never heard of a cluster; 1 yes; 2 it waits for the
 * state of the single replica; -errno, why. */
int replica_inhabited(const char *folder, char why[static ENGINE_WHY_MAX]);

/* Open or make the folder. Takes fsm over, also on failure. 0; -EBADMSG damaged, another's, or of another name; -EBUSY in
 * use; -EINVAL; -EOPNOTSUPP; -errno. why: a sentence that names file and way back. */
int engine_open_raft(struct loop *loop, const struct replica_options *replica,
                     const struct engine_options *options, struct fsm *fsm,
                     const struct engine_hooks *hooks, struct engine **ret,
                     char why[static ENGINE_WHY_MAX]);

/* Whether it is a replicated one: only then may it be given to what follows. */
bool engine_is_replica(const struct engine *engine);

/* A stream that another replica has opened to us, open or not yet. Takes it. Its events become ours. */
void replica_accept(struct engine *engine, struct transport *transport);

/* Whether it leads, or follows one that it has heard of within an election's time. */
bool replica_knows_leader(const struct engine *engine);
void replica_get_status(const struct engine *engine, struct replica_status *ret);

/* Where another one leads, it is asked. r: 0; -EAGAIN nobody is known to lead; -EBUSY a change is under way; -EEXIST,
 * -ENOENT by name; -EHOSTUNREACH it does not answer, or is not who it should be; -ETIMEDOUT it did not catch up;
 * -ECONNABORTED leadership was lost, outcome unknown; -ECANCELED. why: a sentence, lives for the call. */
typedef void (*replica_done_fn)(int r, const char *why, void *arg);

/* Add the leased at address under this name: ask it for its id, let it catch up, let it vote. */
void replica_add(struct engine *engine, const char *name, const char *address, replica_done_fn done,
                 void *arg);
void replica_remove(struct engine *engine, const char *name, replica_done_fn done, void *arg);
/* Hand leadership over, to the member of that name or (NULL) to the best. Nothing that waits is lost. */
void replica_transfer(struct engine *engine, const char *name, replica_done_fn done, void *arg);

#endif
