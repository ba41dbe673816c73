/* Replicas under C-Raft in one thread, with a network, disks and clocks that fail, for the world of world.h.
 *
 * The library runs as it is, below its raft_io (docs/decisions tells why not below its own fixture): events in order of
 * time, out of one queue; what happens at the same time happens in the order in which it was brought about. Nothing asks the
 * real clock, and no pointer decides anything, so a seed replays exactly. In half of the seeds members come and
 * go, in every fifth backups are restored. */
#ifndef XCE_TESTS_SIM_CLUSTER_H
#define XCE_TESTS_SIM_CLUSTER_H

#include <raft.h>

#include "leased/engine/batch.h"
#include "leased/engine/raft_entry.h"
#include "leased/engine/raft_guard.h"
#include "leased/engine/raft_list.h"
#include "tests/sim/world.h"

#define SIM_REPLICAS 5

/* What has happened to replicas, over all seeds. */
enum cluster_event {
    CLUSTER_ELECTED,
    CLUSTER_LEADER_ALONE, /* faults: who leads is cut off, */
    CLUSTER_MINORITY,     /* some follower, or two of five, are, */
    CLUSTER_ONE_WAY,      /* or one direction of one link */
    CLUSTER_DROPPED,      /* messages */
    CLUSTER_TWICE,
    CLUSTER_LATE, /* longer under way than an election takes */
    CLUSTER_CRASHED,
    CLUSTER_TORN,      /* and lost what was not yet on its disk */
    CLUSTER_BAD_VOTE,  /* term or vote did not get to its disk: it must crash */
    CLUSTER_SLOW_DISK, /* writes fail for a while, and are done again */
    CLUSTER_FULL_DISK,
    CLUSTER_REFUSED_FULL, /* a command was refused for it */
    CLUSTER_PAUSED,
    CLUSTER_SUSPENDED, /* all of them, for longer than any answer is kept */
    CLUSTER_WALL_JUMP,
    CLUSTER_PASSED_ON, /* a follower has passed a command to the leader */
    CLUSTER_NO_LEADER, /* a command was refused: nobody leads */
    CLUSTER_UNKNOWN,   /* nobody knows what became of a command */
    CLUSTER_TRUNCATED, /* entries that others did not agree to */
    CLUSTER_SNAPSHOT,
    CLUSTER_INSTALLED, /* on one who lagged */
    CLUSTER_RESTORED,  /* at a start */
    CLUSTER_HELD_OFF, /* messages that C-Raft does not get, or not like that: 1 to 7 of raft_guard.h */
    CLUSTER_CORRECTED,
    CLUSTER_CUT,
    CLUSTER_REFUSED,
    CLUSTER_NOTED,
    CLUSTER_LATE_REFUSAL,
    CLUSTER_UNREAD,
    CLUSTER_ADDED, /* members: as learners, */
    CLUSTER_PROMOTED,
    CLUSTER_REMOVED,
    CLUSTER_WIPED,         /* that were removed, or never added: another folder */
    CLUSTER_CHANGE_FAILED, /* a change that did not come to be, or nobody knows */
    CLUSTER_CONTRADICTED,  /* streams that the list of members forbids */
    CLUSTER_HANDED_OVER,
    CLUSTER_BACKUP, /* was restored */
    CLUSTER_PARTED, /* 9, 12 to 14, 16 and 17 of raft_guard.h */
    CLUSTER_SETTLED,
    CLUSTER_UNENDED,
    CLUSTER_SKIPPED,
    CLUSTER_LENT,
    CLUSTER_TOLD,
    CLUSTER_HUMBLED,
    CLUSTER_EVENTS,
};

/* ---- disk ---- */

struct disk_entry {
    raft_term term;
    enum raft_entry_type type;
    uint8_t *bytes;
    size_t len;
};

struct disk_snapshot {
    raft_index index, members_index;
    raft_term term;
    struct raft_buffer members; /* encoded */
    uint8_t *bytes;
    size_t len;
};

enum disk_kind { DISK_APPEND, DISK_TRUNCATE, DISK_PUT, DISK_GET };

/* A write (or the reading of a snapshot) under way; they are done in order. */
struct disk_work {
    struct disk_work *next;
    enum disk_kind kind;
    bool too_late; /* begun when its replica was dead already */
    struct raft_io_append *append;
    const struct raft_entry *entries; /* the library's, until it is told */
    unsigned n;
    raft_index index; /* of the truncation, of the first entry */
    struct raft_io_snapshot_put *put;
    const struct raft_snapshot *snapshot;
    unsigned trailing;
    struct raft_io_snapshot_get *get;
};

struct disk {
    raft_term term;
    raft_id vote;
    bool has_snapshot;
    struct disk_snapshot snapshot;
    raft_index first; /* of entries */
    struct disk_entry *entries;
    size_t n, cap;
    raft_index next; /* that the next write of entries begins with, once all is done */
};

/* ---- replica ---- */

struct cluster;
struct flight;
struct change;

struct replica {
    struct cluster *c;
    int index;
    raft_id id; /* of its folder: a wiped one has another */
    char name[2], address[8];
    bool up, dying;
    unsigned generation; /* counts starts and crashes: events of an earlier one are void */
    int64_t paused_until_ms, start_at_ms;
    int64_t behind_ms; /* its monotonic clock against the world's */
    int64_t wall_ms;   /* its wall clock, likewise */

    struct raft raft;
    struct raft_io io;
    struct raft_fsm machine;
    struct raft_guard guard;
    struct raft_tracer tracer;
    raft_io_tick_cb tick;
    raft_io_recv_cb recv;
    unsigned tick_ms;
    struct fsm *fsm;
    bool restored; /* the state has just been replaced */

    struct disk disk;
    struct disk_work *work, **work_end;
    int64_t disk_ms; /* of one write */
    int64_t stuck_until_ms, full_until_ms;
    bool bad_vote; /* the next write of term or vote fails */

    /* The rules of the raft engine. */
    struct batch_queue queue;
    struct flight *flights, **flights_end; /* entries that the library has, in order */
    unsigned n_flights;
    raft_term led; /* the last term in which it was elected; */
    bool leads;    /* and everything older is applied, and the grace is in the log */
    bool barrier, grace_due;
    raft_index committed; /* the highest that it has said to be committed */

    struct change *change; /* of the members, that it has under way as leader */
    struct raft_transfer transfer;
    bool transferring;
    uint8_t *state; /* of a backup, to begin with; on disk. NULL = none, or it is in the log */
    size_t state_len;
    bool spare; /* whoever leads has said that it is no member: it may be wiped */
};

/* ---- cluster ---- */

/* One direction. A stream is looked at when it is opened, and lives as long as both ends do. */
struct link {
    int64_t cut_until_ms, slow_until_ms;
    unsigned from, to; /* generations of the ends between which it was opened */
};

/* What the index of the log holds once it is committed. */
struct committed {
    uint8_t *bytes; /* NULL: no command */
    size_t len;
    raft_term term;
    uint64_t digest; /* of the state after it */
};

/* The list of members from this entry on. */
struct members {
    raft_index index;
    struct raft_buffer list; /* encoded */
};

/* Who was elected, and how its cluster time goes on. */
struct term {
    raft_id leader;               /* 0 = nobody */
    int64_t base_ms, base_now_ms; /* cluster time = base_ms + the world's clock - base_now_ms */
};

enum event_kind { AT_TICK, AT_DISK, AT_MESSAGE, AT_START, AT_RESUME, AT_CRASH };

struct event {
    int64_t at_ms;
    uint64_t order;
    enum event_kind kind;
    int replica;
    unsigned generation;
    struct raft_message *message;
    raft_id to;    /* of a message: whose folder is meant, */
    unsigned from; /* generation of who sent it */
};

struct cluster {
    struct world w;
    uint64_t *events; /* [CLUSTER_EVENTS] */
    int n;
    struct replica replicas[SIM_REPLICAS];
    struct link links[SIM_REPLICAS][SIM_REPLICAS]; /* from, to */
    unsigned drop_percent, twice_percent, late_percent, unread_percent;

    struct event *heap;
    size_t n_heap, cap_heap;
    uint64_t order;

    struct committed *log; /* by index; 0 is not used */
    size_t n_log, cap_log;
    struct members *members; /* committed, in order */
    size_t n_members, cap_members;
    bool changing; /* members come and go */
    struct term *terms;
    size_t n_terms, cap_terms;
};

/* ---- cluster.c ---- */

void cluster_init(struct cluster *c, const struct options *options, uint64_t seed, uint64_t *events,
                  uint64_t *cluster_events);
void cluster_done(struct cluster *c);
void cluster_at(struct cluster *c, int64_t at_ms, const struct event *event);
/* Replicas first to first + n - 1 begin a cluster, others wait to be added. */
void cluster_bootstrap(struct cluster *c, int first, int n);
/* Another cluster begins: what was committed and who led is that of the one before. */
void cluster_forget(struct cluster *c);
/* Let so much time pass, with all that happens in it. */
void cluster_elapse(struct cluster *c, int64_t ms);
/* All machines stand still for so long, and none of them notices. */
void cluster_suspend(struct cluster *c, int64_t ms);
/* A replica applies the entry. */
void cluster_applied(struct cluster *c, struct replica *r, const struct raft_entry_view *entry);
/* The state of the replica is that of this index. */
void cluster_check_digest(struct cluster *c, const struct replica *r, raft_index index);
void cluster_elected(struct cluster *c, const struct replica *r);
struct term *cluster_term(struct cluster *c, raft_term term);
/* What must hold of what a replica believes. */
void cluster_check_beliefs(struct cluster *c, struct replica *r);
/* Whose folder has or had this id. */
static inline int cluster_index(raft_id id)
{
    return (int)((id - 1) % SIM_REPLICAS);
}

/* It runs, and is not paused. */
bool cluster_answers(const struct cluster *c, const struct replica *r);
bool cluster_linked(const struct cluster *c, int a, int b);

/* ---- disk.c: storage of raft_io ---- */

void disk_methods(struct raft_io *io);
/* The first thing that it has to do is done. */
void disk_step(struct replica *r);
/* Power goes: some of what is under way got there, in order; the rest is told to the library as canceled. */
void disk_crash(struct replica *r);
void disk_cancel(struct replica *r);
/* An entry as the library has it, on the disk or on its way there. Lives until the next call. NULL = it is not there (any
 * more). */
const struct disk_entry *disk_find(const struct replica *r, raft_index index);
void disk_done(struct disk *disk);

/* ---- net.c: messages of raft_io ---- */

void net_methods(struct raft_io *io);
void net_deliver(struct cluster *c, const struct event *event);
void net_free(struct raft_message *message);

/* ---- replica.c: a leased with the rules of the raft engine ---- */

void replica_init(struct cluster *c, int index);
void replica_start(struct replica *r);
void replica_crash(struct replica *r);
/* It is down: its folder is lost, or cleared away. */
void replica_wipe(struct replica *r);
/* After whatever the library was told: answers, leadership, what waits. */
void replica_settle(struct replica *r);
void replica_propose(struct replica *r, const uint8_t *bytes, size_t len, engine_done_fn done,
                     void *arg);
/* It has stood still for so long that everybody gets a grace. */
void replica_stalled(struct replica *r);

/* ---- members.c: who belongs to the cluster, by the rules of raft_member.c ---- */

/* Once in a while an administrator wants a change. */
void members_step(struct cluster *c);
/* One change on the way to where all replicas vote. Whether they do. */
bool members_heal(struct cluster *c);
/* What must hold in the end. */
void members_healed(struct cluster *c);
/* The replica has these entries committed: note and check what they say of members. */
void members_committed(struct cluster *c, const struct replica *r, raft_index first,
                       raft_index last);
/* A snapshot bears the list of its index. */
void members_check_snapshot(struct cluster *c, const struct replica *r,
                            const struct raft_snapshot *snapshot);
/* What a replica believes of the members. */
void members_check_beliefs(struct cluster *c, struct replica *r);
/* A stream from one to another: whether what comes on it is heard. */
bool members_let_through(struct cluster *c, const struct event *event);
/* None is committed: another cluster begins. */
void members_forget(struct cluster *c);

/* ---- restore.c ---- */

/* Once in a while a backup is made, or restored. */
void restore_step(struct cluster *c);

/* ---- fault.c ---- */

/* Once in a while something bad happens. */
void fault_step(struct cluster *c);
/* So does it while a leader changes the members. */
void fault_change(struct cluster *c, struct replica *leader);
/* Nothing bad happens any more, what is down starts. */
void fault_heal(struct cluster *c);

#endif
