/* A cluster in one thread: the replicated state, and nodes with processes, maps, boots and bad luck, and clients.
 *
 * Everything that happens comes out of one seed. What nodes and clients say goes to a replica at once, or into a bag out of
 * which it is delivered late, twice, out of order, or never. `fsm` is what has been committed, in order: the measure of
 * all replicas. The world knows the truth (which process runs where under which epoch, who was told what) and checks the
 * invariants of DESIGN 3 against it after every step; a violation ends the run with seed and step.
 *
 * Two programs drive it: sim_fsm has one state machine and a twin, sim_raft replicas under C-Raft (world_ops). */
#ifndef XCE_TESTS_SIM_WORLD_H
#define XCE_TESTS_SIM_WORLD_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/buf.h"
#include "common/pb.h"
#include "leased/fsm/command.h"
#include "leased/fsm/fsm.h"
#include "xce/v1/command.pb-c.h"

#define SIM_NODES  3
#define SIM_UIDS   16
#define SIM_EPOCHS 63 /* grants of a uid in one run; then the run ends */
#define SIM_BAG    64
#define SIM_LEASES 4 /* of one request, at most */
#define SIM_FIRST  2013265920u

/* ---- truth ----
 *
 * Sets of epochs are bits: the n-th grant of a uid is bit n, whatever its epoch (they leap when a backup is restored). */

enum sim_phase {
    PHASE_ABSENT = 0, /* the name does not resolve there */
    PHASE_LIVE = 1,
    PHASE_ENDED = 2, /* still named */
};

/* A record in a node's map. */
struct sim_record {
    uint64_t epoch;  /* highest seen */
    uint64_t disk;   /* highest of which the node ever was a member; on disk */
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
    int via;                       /* the replica that it speaks to */
    unsigned stream;               /* counts its streams: an answer to an older one is not heard */
    int64_t patience_ms;           /* until when it waits for the answer to its hello */
    uint64_t session;              /* 0 = none accepted yet */
    uint64_t session_revision;     /* from which on a replica may serve it */
    uint64_t revision;             /* its map holds all changes up to here */
    uint64_t seen;                 /* the highest revision that it ever was shown; on disk */
    unsigned followed;             /* the incarnation in which; on disk */
    uint64_t tell[SIM_UIDS];       /* the epochs that it tells in this session, */
    uint64_t tell_session;         /* this one; */
    uint32_t tell_at, n_told;      /* so many uids have been looked at, so many epochs told */
    bool tell_fails;               /* a report did not get through, which it will hear */
    uint64_t told_revision;        /* all of them had been told */
    uint64_t heard[SIM_UIDS];      /* those that the state has got in the session that it knows */
    bool lied_about;               /* fenced while it was alive, and has not spoken since */
    uint64_t lied_until[SIM_UIDS]; /* grants while it was */
    struct sim_record map[SIM_UIDS];
    /* Truth, a bit for each grant. */
    uint64_t procs[SIM_UIDS], launches[SIM_UIDS], stuck[SIM_UIDS];
    uint64_t files[SIM_UIDS]; /* what only a sweep finds */
    uint64_t was_member[SIM_UIDS];
    uint64_t readied[SIM_UIDS], cleaned[SIM_UIDS]; /* it has said so */
    uint64_t said_ready[SIM_UIDS];                 /* epoch, in this session */
    int ready_boot[SIM_UIDS];                      /* in which boot it last was ready for it */
};

/* A request of a client: what was done for it, and what the client was told. Its id is "r" and its place in the array. */
struct sim_request {
    uint8_t *bytes; /* the packed Command: again the same */
    size_t len;
    int64_t issued_ms, again_ms;
    bool waits;
    bool answered;  /* by the committed state: */
    int times_done; /* applied, not replayed */
    enum fsm_code code;
    uint32_t n_leases;
    uint64_t leases[SIM_LEASES];
    bool told; /* to the client */
    bool gone; /* its time lies ahead of that of a restored state: it is given up */
};

/* What the change feed has said of a uid. */
struct sim_life {
    uint64_t lease; /* that holds it, 0 = free */
    uint64_t epoch;
    bool leapt; /* the next epoch is not the next number */
    enum lease_state state;
    unsigned ready; /* members that are, by node */
    int64_t cooling_since_ms, cooldown_ms;
    int64_t expires_ms, due_real_ms; /* in cluster time, and when that is */
    uint64_t retired_revision;
    bool in_pool, aside;
    int64_t place; /* in line: the lowest is next */
};

struct sim_message {
    uint8_t *bytes; /* a packed Command */
    size_t len;
};

/* What has happened, over all seeds: a simulation in which something never happens proves nothing about it. */
enum sim_event {
    EVENT_GRANTED,
    EVENT_ACTIVE,
    EVENT_FREE,
    EVENT_EXPIRED,
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
    EVENT_JOINED,    /* a member of an active lease is ready now */
    EVENT_LET_GO,    /* one was to join, and refused */
    EVENT_PASSED,    /* a block that left by itself */
    SIM_EVENTS,
};

/* ---- the way in ---- */

struct world;
struct sim_ask;

/* r: 0, outcome lives for the call; -EAGAIN nobody leads, nothing was done; -ECONNABORTED the outcome is unknown. Must not
 * ask anything: it may run inside of consensus. */
typedef void (*sim_done_fn)(struct world *w, const struct sim_ask *ask, int r,
                            const struct fsm_outcome *outcome);

struct sim_ask {
    sim_done_fn done; /* exactly once; may be NULL */
    int via;          /* the replica that is asked */
    struct sim_node *node;
    unsigned stream;
    int request;
};

struct world_ops {
    /* What this replica knows; NULL = it does not answer. */
    const struct fsm *(*view)(struct world *w, int via);
    /* Some replica. */
    int (*any)(struct world *w);
    /* One that believes to lead; -1 = none does. */
    int (*lead)(struct world *w);
    void (*submit)(struct world *w, const uint8_t *bytes, size_t len, const struct sim_ask *ask);
};

struct world {
    const char *program;
    uint64_t steps; /* at most, then all heals */
    const struct world_ops *ops;
    uint64_t *events; /* [SIM_EVENTS] */
    uint64_t seed, step, random;
    bool trace;
    bool healing; /* nothing bad happens any more */
    bool over;    /* an epoch has come to its end */
    int64_t now_ms;

    struct fsm *fsm;
    struct buf command;
    struct pb_arena arena;

    struct sim_node nodes[SIM_NODES];
    struct sim_life lives[SIM_UIDS];
    uint64_t epochs[SIM_UIDS][SIM_EPOCHS + 1]; /* of the n-th grant, from 1 on */
    uint64_t n_grants[SIM_UIDS];
    uint8_t *backup; /* NULL = none was made */
    size_t backup_len;
    unsigned incarnation; /* counts restores of a backup; what has come of them: */
    uint64_t n_lost, n_confirmed;
    uint64_t n_pieces,
        n_out_of_turn;   /* reports of epochs; those that did not follow the one before */
    int64_t front, back; /* places in line that were given out */
    struct sim_request *requests;
    size_t n_requests, cap_requests;
    struct sim_message bag[SIM_BAG];
    size_t n_bag;

    /* Of the entry that is being committed. */
    struct command_entry entry;
    int64_t written_ms;         /* when its time was written into it; -1 = that time may be wrong */
    int applying;               /* request of the command being applied, -1 = none */
    int kind;                   /* of that command */
    bool may;                   /* the command may be granted */
    bool wanted;                /* the node whose report it is has to tell its epochs */
    struct fsm_outcome outcome; /* of the last command */
    uint64_t outcome_leases[FSM_BATCH_MAX];
};

/* ---- world.c ---- */

struct options;

void world_init(struct world *w, const struct options *options, uint64_t seed, uint64_t *events,
                const struct world_ops *ops);
/* The first command: the state begins. */
void world_begin(struct world *w);
void world_done(struct world *w);
/* Evenly below n. */
uint64_t roll(struct world *w, uint64_t n);
bool chance(struct world *w, unsigned percent);
void say(struct world *w, const char *format, ...) __attribute__((format(printf, 2, 3)));
void violated(struct world *w, const char *format, ...)
    __attribute__((format(printf, 2, 3), noreturn));

/* To the replica that the ask names. */
void world_ask(struct world *w, const Xce__V1__Command *command, const struct sim_ask *ask);
/* The same, of an administrator or a client who does not wait for the answer. */
void world_tell(struct world *w, const Xce__V1__Command *command);
/* Of the leader itself; nothing when nobody leads. */
void world_tell_leader(struct world *w, const Xce__V1__Command *command);
/* Into the bag, to be delivered some time. */
void world_send(struct world *w, const Xce__V1__Command *command);
void world_send_bytes(struct world *w, const uint8_t *bytes, size_t len);
void world_deliver(struct world *w);
void world_forget_messages(struct world *w);
void world_tick(struct world *w);

/* An entry is committed: apply it to the measure, check everything. */
void world_commit(struct world *w, const uint8_t *entry, size_t len, int64_t written_ms);

static inline ProtobufCBinaryData sim_bytes(const char *text)
{
    size_t len = 0;

    while (text && text[len])
        len++;
    return (ProtobufCBinaryData){len, (uint8_t *)text};
}

/* ---- truth.c: called by world.c ---- */

void truth_change(struct world *w, const struct fsm_change *change);
/* Around each command. */
void truth_before(struct world *w, const Xce__V1__Command *command);
void truth_after(struct world *w, const Xce__V1__Command *command);
/* After each entry: what must hold of any state. */
void truth_check(struct world *w);
/* Which grant of the uid had this epoch; 0 = epoch 0. */
uint64_t truth_grant(struct world *w, uint32_t uid, uint64_t epoch);
/* A launch under way becomes a process. */
void truth_setuid(struct world *w, struct sim_node *node, uint32_t uid, uint64_t grant);
/* The state has been replaced by that of a backup. */
void truth_restored(struct world *w);

/* ---- nodes.c: one thing that happens to or on a node ---- */

void node_hello(struct world *w, struct sim_node *node, bool clean);
void node_feed(struct world *w, struct sim_node *node);
void node_report(struct world *w, struct sim_node *node);
void node_pass(struct world *w, struct sim_node *node);
void node_launch(struct world *w, struct sim_node *node);
void node_fail(struct world *w, struct sim_node *node);
void node_verbs(struct world *w, struct sim_node *node);
void node_block(struct world *w, struct sim_node *node);
/* Whoever followed the state before begins another session. */
void node_restored(struct world *w, struct sim_node *node);
/* The replica has died, and with it the streams to it, whether or not a node waits for an answer. */
void nodes_lose_replica(struct world *w, int via);
/* Everything in order, at once: for the end. */
void node_heal(struct world *w, struct sim_node *node);
void node_behave(struct world *w, struct sim_node *node);

/* ---- clients.c ---- */

void client_acquire(struct world *w);
/* Who was not answered asks again; so does, now and then, who was. */
void client_again(struct world *w);
void client_lease(struct world *w);
void client_pool(struct world *w);
void client_end_all(struct world *w);
/* What is known of requests is what the backup knows. */
void client_restored(struct world *w);
/* The administrator names every node there is. */
void client_confirm(struct world *w);
/* Everybody who waits for an answer asks again. Whether there was anybody. */
bool client_insist(struct world *w);
/* The state has an outcome for a request: at most once, and always the same (I4). */
void client_answer(struct world *w, const struct fsm_outcome *outcome);
/* Which request a command is a copy of; -1 = none. */
int client_request(struct world *w, const Xce__V1__Command *command);

/* ---- backup.c ---- */

#define BACKUP_COMMAND_MAX 64

/* Of this state; the one before is forgotten. Nothing while the state waits for its nodes. */
void backup_make(struct world *w, const struct fsm *fsm);
/* The backup is the state from now on, and nobody has heard of it yet. CmdRestore has to follow, as the first command. */
void backup_restore(struct world *w);
/* CmdRestore, packed. Its length. */
size_t backup_command(struct world *w, uint8_t bytes[static BACKUP_COMMAND_MAX]);
/* Now and then an administrator tries whether the nodes can be confirmed, makes pools, or gives a node up. */
void backup_behave(struct world *w);

/* ---- play.c: what happens in which order; options and counts of a program ---- */

struct options {
    const char *program;
    uint64_t first, seeds, steps, jobs;
    bool trace;
};

/* Runs one seed; adds what has happened to the counts. Does not return when an invariant is violated. */
typedef void (*seed_fn)(const struct options *options, uint64_t seed, uint64_t *counts);

void options_parse(struct options *options, int argc, char **argv);
/* Run them all, in as many processes as the options say. False when one of them has failed. */
bool play_all(const struct options *options, seed_fn run, size_t n_counts, uint64_t *counts);
/* One thing that somebody does. */
void play_step(struct world *w);
/* All nodes are well, nobody asks for anything: one round of that. Whether something is left. */
bool play_heal(struct world *w);
/* After the last round: nothing may be left. */
void play_healed(struct world *w);
/* Print what has happened; names[n]. Whether everything did; what is named with a star is rare, and has to in a long run only. */
bool play_print(const char *const *names, size_t n, const uint64_t *counts, bool long_run);
bool play_print_events(const uint64_t *events, bool long_run);

#endif
