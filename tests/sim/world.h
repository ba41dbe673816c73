/* A cluster in one thread: the state machine, its twin, and nodes with processes, maps, boots and bad luck.
 *
 * Everything that happens comes out of one seed. What nodes and clients say goes into a bag, out of which it is delivered
 * late, twice, out of order, or never. The world knows the truth (which process runs where under which epoch) and checks
 * the invariants of DESIGN 3 against it after every step; a violation ends the run with seed and step. */
#ifndef XCE_TESTS_SIM_WORLD_H
#define XCE_TESTS_SIM_WORLD_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/buf.h"
#include "leased/fsm/fsm.h"
#include "xce/v1/command.pb-c.h"

#define SIM_NODES    3
#define SIM_UIDS     16
#define SIM_EPOCHS   63 /* of a uid in one run; then the run ends */
#define SIM_REQUESTS 48
#define SIM_BAG      64
#define SIM_FIRST    2013265920u

/* ---- truth ---- */

enum sim_phase {
    PHASE_ABSENT = 0, /* the name does not resolve there */
    PHASE_LIVE = 1,
    PHASE_ENDED = 2, /* still named */
};

/* A record in a node's map. */
struct sim_record {
    uint64_t epoch;  /* highest seen; on disk */
    uint64_t closed; /* admission was closed for epochs up to this */
    enum sim_phase phase;
    bool member; /* named by the lease */
    bool here;
    enum member_proof proof; /* as the feed last said of this node */
    enum lease_state state;
};

struct sim_node {
    char name[8], machine[16];
    int n_machine, n_boot;
    bool power, runs;              /* noded */
    bool cut;                      /* nothing gets through */
    uint64_t session;              /* 0 = none accepted yet */
    uint64_t revision;             /* its map holds all changes up to here */
    bool lied_about;               /* fenced while it was alive, and has not spoken since */
    uint64_t lied_until[SIM_UIDS]; /* epochs granted while it was */
    struct sim_record map[SIM_UIDS];
    /* Truth, a bit for each epoch. */
    uint64_t procs[SIM_UIDS], launches[SIM_UIDS], stuck[SIM_UIDS];
    uint64_t was_member[SIM_UIDS];
    uint64_t said_ready[SIM_UIDS]; /* epoch, in this session */
    int ready_boot[SIM_UIDS];      /* in which boot it last was ready for it */
};

/* A request of a client, and what it was answered. */
struct sim_request {
    char id[24];
    uint8_t digest;
    int64_t issued_ms;
    bool waits, answered;
    int times_done; /* applied, not replayed */
    enum fsm_code code;
    uint32_t n_leases;
    uint64_t leases[4];
};

/* What the change feed has said of a uid. */
struct sim_life {
    uint64_t lease; /* that holds it, 0 = free */
    uint64_t epoch;
    enum lease_state state;
    int64_t cooling_since_ms, cooldown_ms;
    uint64_t retired_revision;
    bool in_pool, aside;
    int64_t place; /* in line: the lowest is next */
};

struct sim_message {
    uint8_t *bytes; /* a packed Command */
    size_t len;
    int request; /* -1 = none */
};

/* What has happened, over all seeds: a simulation in which something never happens proves nothing about it. */
enum sim_event {
    EVENT_GRANTED,
    EVENT_ACTIVE,
    EVENT_FREE,
    EVENT_BACK,        /* from cooling or retired to draining */
    EVENT_OATH,        /* a lease quarantined for a false oath */
    EVENT_MEMBER_LOST, /* a lease quarantined for it */
    EVENT_DIRTY,
    EVENT_OVERDUE,
    EVENT_STRAY,
    EVENT_FENCED,
    EVENT_FORGOTTEN,
    EVENT_CORDONED,
    EVENT_BLOCKED,
    EVENT_POOL_GONE,
    EVENT_REPLAYED,
    EVENT_TOO_OLD,
    EVENT_NOT_READY, /* a request that waited has failed */
    EVENT_REPLACED,  /* a lease of a waiting request */
    EVENT_SWAPPED,   /* the twin came out of a snapshot */
    SIM_EVENTS,
};

struct world {
    uint64_t *events; /* [SIM_EVENTS] */
    uint64_t seed, step, random;
    bool trace;
    struct fsm *fsm, *twin;
    int64_t now_ms;
    bool over; /* an epoch has come to its end */

    uint8_t **log; /* entries */
    size_t *log_len;
    size_t n_log, cap_log, cap_log_len;
    struct buf entry, command;

    struct sim_node nodes[SIM_NODES];
    struct sim_life lives[SIM_UIDS];
    int64_t front, back; /* places in line that were given out */
    struct sim_request requests[SIM_REQUESTS];
    size_t n_requests;
    struct sim_message bag[SIM_BAG];
    size_t n_bag;

    int applying; /* request of the command being applied, -1 = none */
    struct fsm_outcome outcome;
    uint64_t outcome_leases[FSM_BATCH_MAX];
};

/* ---- world.c ---- */

void world_init(struct world *w, uint64_t seed, uint64_t *events);
void world_done(struct world *w);
/* Evenly below n. */
uint64_t roll(struct world *w, uint64_t n);
bool chance(struct world *w, unsigned percent);
void say(struct world *w, const char *format, ...) __attribute__((format(printf, 2, 3)));
void violated(struct world *w, const char *format, ...)
    __attribute__((format(printf, 2, 3), noreturn));
/* Into the log, applied everywhere, checked. */
enum fsm_code world_apply(struct world *w, const Xce__V1__Command *command, int request);
/* Into the bag, to be delivered some time. */
void world_send(struct world *w, const Xce__V1__Command *command, int request);
void world_deliver(struct world *w);
void world_forget_messages(struct world *w);
/* From now on the twin is one that came out of a snapshot. */
void world_swap_twin(struct world *w);
/* The whole log again, from nothing. */
void world_replay(struct world *w);
void world_tick(struct world *w);

static inline ProtobufCBinaryData sim_bytes(const char *text)
{
    size_t len = 0;

    while (text && text[len])
        len++;
    return (ProtobufCBinaryData){len, (uint8_t *)text};
}

/* ---- truth.c: called by world.c ---- */

void truth_change(struct world *w, const struct fsm_change *change);
/* After each command: what must hold of any state. */
void truth_check(struct world *w);
/* The node's hello was accepted. */
void truth_hello(struct world *w, const struct sim_node *node);
/* A launch under way becomes a process. */
void truth_setuid(struct world *w, struct sim_node *node, uint32_t uid, uint64_t epoch);

/* ---- nodes.c: one thing that happens to or on a node ---- */

void node_hello(struct world *w, struct sim_node *node, bool clean);
void node_feed(struct world *w, struct sim_node *node);
void node_report(struct world *w, struct sim_node *node);
void node_pass(struct world *w, struct sim_node *node);
void node_launch(struct world *w, struct sim_node *node);
void node_fail(struct world *w, struct sim_node *node);
void node_verbs(struct world *w, struct sim_node *node);
void node_block(struct world *w, struct sim_node *node);
/* Everything in order, at once: for the end. */
void node_heal(struct world *w, struct sim_node *node);
void node_behave(struct world *w, struct sim_node *node);

/* ---- clients.c ---- */

void client_acquire(struct world *w);
void client_again(struct world *w);
void client_lease(struct world *w);
void client_pool(struct world *w);
void client_end_all(struct world *w);
/* An outcome for a request: at most once, and always the same (I4). */
void client_answer(struct world *w, int request, const struct fsm_outcome *outcome);

#endif
