/* Makes commands durable and applies them in order: the only way into the FSM.
 *
 * Two engines behind one face: sqlite (this replica alone) and raft. The engine owns the FSM and calls fsm_apply on the
 * loop thread; writing to disk happens on a thread of its own, so the loop never waits for a disk.
 *
 * Promise: done runs with r = 0 only when the command is durable (I4). After -ECONNABORTED (raft: leadership lost) the
 * outcome is unknown and the caller asks again under the same request id. */
#ifndef XCE_LEASED_ENGINE_ENGINE_H
#define XCE_LEASED_ENGINE_ENGINE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "leased/fsm/fsm.h"

struct engine;
struct loop;

/* r: 0, outcome is set and lives for the call; -ENOSPC the disk is full (of a majority of replicas), nothing was done; -EIO
 * a write failed, or this replica's disk is full and others can be asked, nothing was done; -EAGAIN no leader;
 * -ECONNABORTED unknown; -ENOBUFS too much waits already; -EMSGSIZE longer than any log entry; -ECANCELED the engine
 * closes. Runs while the FSM is exactly as after this command. */
typedef void (*engine_done_fn)(int r, const struct fsm_outcome *outcome, void *arg);
typedef void (*engine_ready_fn)(int r, void *arg);

/* Any of them may be NULL. */
struct engine_hooks {
    /* The FSM has been replaced by a snapshot, at open or later: followers of changes begin anew from its revision. */
    void (*restored)(const struct fsm *fsm, void *arg);
    /* Each change, after it is durable, in order. During open also those that are replayed from the log. */
    fsm_change_fn change;
    /* A whole entry has been applied, its changes told, its proposals answered. Not during open. */
    void (*applied)(void *arg);
    /* This replica begins or ceases to lead; runs first when the engine has opened. */
    void (*leader)(bool leading, void *arg);
    /* Revision up to which history is on disk: the log is not cut beyond it. */
    uint64_t (*history_revision)(void *arg);
    /* What a replica, this one too, has said by engine_tell. */
    void (*told)(const uint8_t *bytes, size_t len, void *arg);
    /* Health has changed: r = 0 well; -ENOSPC, -EIO writes are refused; -ESHUTDOWN for good: leased must start anew; what
     * names the file and the reason. */
    void (*health)(int r, const char *what, void *arg);
    void *arg;
};

struct engine_options {
    size_t batch_commands;     /* in one entry at most [1024] */
    size_t batch_bytes;        /* [256 KiB] */
    size_t waiting_commands;   /* proposals that wait at most [65536] */
    uint64_t snapshot_entries; /* a snapshot every so many entries [16384] */
    uint64_t snapshot_bytes;   /* or log bytes [64 MiB]; replicas keep a quarter behind it */
    /* After an election or a restart no lease expires for so long; 0 to one hour. CmdGrace, before this replica leads. */
    int64_t grace_ms;
};

struct engine_status {
    bool leading;
    int health; /* 0, -ENOSPC, -EIO, -ESHUTDOWN */
    uint64_t last_entry, snapshot_entry;
    uint64_t log_bytes;
    uint64_t fsm_revision;
};

#define ENGINE_WHY_MAX 512 /* bytes of a sentence, with NUL */

/* The replicated one: replica.h. */

/* Open or make the file at path, check it whole, restore and replay. Takes fsm over, also on failure.
 * 0; -EBADMSG damaged; -EBUSY another process has it open; -errno of the file system. why gets a sentence that names file
 * and place. A full disk is no failure here: health tells. */
int engine_open_sqlite(struct loop *loop, const char *path, const struct engine_options *options,
                       struct fsm *fsm, const struct engine_hooks *hooks, struct engine **ret,
                       char why[static ENGINE_WHY_MAX]);

/* Make the file of a single replica that begins with this state (fsm_snapshot), whole, on disk and read back; what an earlier
 * attempt left at path is taken away first. Synchronous. 0; -ENOSPC, -EIO, -errno; why as above. */
int engine_make_sqlite(const char *path, const uint8_t *state, size_t len,
                       char why[static ENGINE_WHY_MAX]);

/* Every waiting proposal ends with -ECANCELED, what is being written is finished, then done. */
void engine_close(struct engine *engine, void (*done)(void *arg), void *arg);

struct fsm *engine_fsm(struct engine *engine);

/* Propose one packed Command (command.proto). The bytes are copied. done runs exactly once, never inside this call. */
void engine_propose(struct engine *engine, const uint8_t *command, size_t len, engine_done_fn done,
                    void *arg);

/* done(0) when a read after it sees everything acknowledged before this call (linearizable). */
void engine_read_barrier(struct engine *engine, engine_ready_fn done, void *arg);

/* Tell every replica something that has no place in the log, by the hook told; a replica that is out of reach does not
 * hear it. done(0) as engine_read_barrier: the leader has heard it, and led after that. The bytes are copied; done may be
 * NULL. */
void engine_tell(struct engine *engine, const uint8_t *bytes, size_t len, engine_ready_fn done,
                 void *arg);

/* Ask for a snapshot of what is applied now; done(r) when it is the one to restart from: not before history is durable up
 * to it. */
void engine_snapshot(struct engine *engine, engine_ready_fn done, void *arg);

/* Cluster time now: the FSM's time at election plus the boot-time clock since. Only meaningful while leading. */
int64_t engine_now_ms(const struct engine *engine);

/* The same for others to keep: never more than ENGINE_TOLD_AHEAD_MS ahead of what the log says, which is where the next
 * leader's time begins, also after a restart. Whoever leads writes his time often enough to stay below that. */
#define ENGINE_TOLD_AHEAD_MS 30000
int64_t engine_told_ms(const struct engine *engine);

void engine_get_status(const struct engine *engine, struct engine_status *ret);

#endif
