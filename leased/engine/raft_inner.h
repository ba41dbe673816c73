/* Inside of the replicated engine: what raft.c (log, leading, the face), raft_disk.c (between C-Raft and its disk),
 * raft_open.c (opening), raft_read.c (reads) and raft_member.c (members, transfer) share. One thread: the loop's. */
#ifndef XCE_LEASED_ENGINE_RAFT_INNER_H
#define XCE_LEASED_ENGINE_RAFT_INNER_H

#include <raft.h>
#include <raft/uv.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/queue.h>

#include "common/log.h"
#include "leased/engine/batch.h"
#include "leased/engine/engine_inner.h"
#include "leased/engine/raft_folder.h"
#include "leased/engine/raft_guard.h"
#include "leased/engine/raft_kept.h"
#include "leased/engine/raft_link.h"
#include "leased/engine/raft_pass.h"
#include "leased/engine/replica.h"

struct loop_timer;
struct member_change;
struct flight;

/* ---- between C-Raft and its disk ---- */

struct raft_disk {
    /* What raft_uv put into struct raft_io; ours stand there now. */
    struct raft_io uv;
    raft_io_tick_cb tick;
    raft_io_recv_cb recv;
    raft_io_append_cb appended;
    raft_io_snapshot_put_cb put_done;

    struct raft_entry *loaded; /* the library's, until it has started */
    size_t n_loaded;

    /* A snapshot of our own that waits for history and readers, then is being written. */
    struct raft_io_snapshot_put *put;
    const struct raft_snapshot *snapshot;
    unsigned trailing;
    bool held;
    uint64_t snapshot_revision; /* of the state in it */
    uint64_t snapshot_entry;    /* the last one that is on disk */
    unsigned n_gets;            /* that are being read */

    struct raft_guard guard;
    struct raft_message *received; /* while the library has it */

    unsigned n_appends;  /* under way */
    int64_t progress_ms; /* when the last of them ended, or the first began */
};

/* ---- reads ---- */

struct read_waiter {
    engine_ready_fn done;
    void *arg;
};

struct read_round {
    bool under_way;
    uint64_t number;
    uint64_t confirmed[REPLICA_MEMBERS_MAX];
    size_t n_confirmed;
    struct read_waiter *now, *next; /* of this round, and of the one after */
    size_t n_now, now_cap, n_next, next_cap;
};

/* ---- all of it ---- */

struct snapshot_wish {
    uint64_t entry;
    engine_ready_fn done;
    void *arg;
};

struct replica {
    struct engine engine;
    struct raft raft;
    struct raft_io io;
    struct raft_fsm raft_fsm;
    struct raft_disk disk;
    struct raft_links *links;
    struct raft_identity identity;
    char *folder, *name, *address;
    char raft_address[REPLICA_NAME_MAX + REPLICA_ADDRESS_MAX + 2];
    int lock_fd;
    bool has_io, has_raft, started; /* what must be closed */

    struct batch_queue queue;
    struct flight *flying, *last_flying; /* entries of ours in the log, not applied yet */
    unsigned n_flying;
    uint8_t *state; /* to begin with; NULL once it is in the log */
    size_t state_len;

    bool ruling; /* C-Raft's leader, as far as we have seen */
    uint64_t ruled_term;
    bool barrier_flies; /* of this term */
    bool caught_up;     /* it has come back */
    bool over;          /* only a new start helps */
    struct loop_timer *tick;

    struct read_round read;
    LIST_HEAD(, telling) tellings;
    LIST_HEAD(, asking) askings;
    struct raft_pass *pass;
    uint64_t last_telling;
    struct member_change *change;
    struct raft_transfer transfer;
    bool transferring;
    replica_done_fn transferred;
    void *transferred_arg;
    uint64_t transfer_to; /* 0 = anybody */
    int64_t stepped_down_ms;

    struct snapshot_wish *wishes;
    size_t n_wishes, wishes_cap;
    uint64_t bytes_since; /* of entries applied since the last snapshot began */
    struct raft_kept kept;

    struct batch *cancelled;
    bool closing, closed;
    void (*done)(void *arg);
    void *done_arg;
    char restore_why[160], contradiction[ENGINE_WHY_MAX];
};

struct replica *replica_of(const struct engine *engine);

/* raft.c */
extern const struct engine_ops replica_ops;
/* What the library is to call for the state machine. */
void replica_set_fsm(struct replica *replica);
/* It is open: it ticks from now on. 0; -ENOMEM. */
int replica_begin(struct replica *replica, const struct replica_options *options);
/* It could not be opened: what there is of it goes, by way of the loop, before this returns. */
void replica_abandon(struct replica *replica);
/* Look whether the library has made us leader, or unmade. After each call into it. */
void replica_observe(struct replica *replica);
/* A sentence that names the folder, and abort: going on would diverge. */
void replica_die(const struct replica *replica, const char *format, ...)
    __attribute__((format(printf, 2, 3), noreturn));
/* Neither say nor hear anything any more; health tells. */
void replica_give_up(struct replica *replica, const char *why);
void replica_snapshot_ended(struct replica *replica, uint64_t entry, int r);

/* raft_disk.c */
void raft_disk_init(struct replica *replica);
/* Before the library is told that what it has loaded is refused: it would not free the entries. */
void raft_disk_unload(struct replica *replica);
/* Now and then: history may have caught up, writes may hang. */
void raft_disk_tick(struct replica *replica);
/* 0, or why nothing can be written here: health, but -EIO for a full disk where there are others to be asked. */
int raft_disk_refuses(const struct replica *replica);
/* While it is so, at each tick: another one leads, and nobody waits for us. */
void raft_disk_stalled(struct replica *replica);
/* After raft_close: what is held back is cancelled. */
void raft_disk_close(struct replica *replica);

/* raft_read.c */
void raft_read_ask(struct replica *replica, engine_ready_fn done, void *arg);
void raft_read_confirmed(struct replica *replica, uint64_t id, uint64_t number, uint64_t term);
void raft_read_tick(struct replica *replica);
/* Answer all with r. */
void raft_read_fail(struct replica *replica, int r);
void raft_read_done(struct replica *replica);

/* raft_tell.c */
void raft_tell(struct replica *replica, const uint8_t *bytes, size_t len, engine_ready_fn done,
               void *arg);
void raft_tell_answered(struct replica *replica, uint64_t link, uint64_t number, int r);
/* link 0: all of them. */
void raft_tell_ended(struct replica *replica, uint64_t link, int r);
void raft_tell_tick(struct replica *replica);
void raft_tell_taken(struct replica *replica, uint64_t link, uint64_t id, uint64_t number,
                     const uint8_t *bytes, size_t len);

/* raft_member.c */
/* A sentence when the members' list says that another folder has this name, or another name this folder. */
const char *raft_member_contradicts(struct replica *replica, uint64_t id, const char *name);
void raft_member_lost(struct replica *replica, int r);
void raft_member_status(const struct replica *replica, struct replica_status *ret);
bool raft_member_step_down(struct replica *replica);
/* In the next round. */
void raft_member_answer(struct replica *replica, int r, const char *why, replica_done_fn done,
                        void *arg);

#endif
