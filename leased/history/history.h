/* Who held which uid when, long after the lease is gone. Home of its SQLite file; written by a thread of its own.
 *
 * Fed from the change feed, never read by the FSM. Feeding is idempotent by revision: after a restart the log's replay
 * feeds changes again and those already on disk are skipped. Calls are for the loop's thread. */
#ifndef XCE_LEASED_HISTORY_HISTORY_H
#define XCE_LEASED_HISTORY_HISTORY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/text.h"
#include "leased/fsm/change.h"

struct history;
struct loop;

struct history_options {
    size_t lag_bytes; /* past so much in memory it is degraded [64 MiB] */
};

/* r: 0 well again; -ENOBUFS it lags too far, -ENOSPC, -EIO, -EBADMSG with a sentence that names the file. On the loop's
 * thread. */
typedef void (*history_health_fn)(int r, const char *what, void *arg);

#define HISTORY_WHY_MAX 512 /* bytes of a sentence, with NUL */

/* Open or make. 0; -EBADMSG damaged or of another version; -errno. why names file and cause. */
int history_open(struct loop *loop, const char *path, const struct history_options *options,
                 history_health_fn health, void *arg, struct history **ret,
                 char why[static HISTORY_WHY_MAX]);

/* Write what is queued, then done. */
void history_close(struct history *history, void (*done)(void *arg), void *arg);

/* The leases of a state that are not free, in order of id: fsm_lease_next. */
typedef const struct fsm_lease *(*history_next_fn)(uint64_t after, void *arg);

/* The state was replaced by a snapshot at this revision (the engine's restored hook), or is open (once engine_open is
 * done). incarnation: 16 bytes. When history has not seen everything up to there, or has followed another state, the leases
 * of next are taken in, and what lies between is noted as not known. */
void history_restored(struct history *history, const uint8_t *incarnation, uint64_t revision,
                      history_next_fn next, void *arg);
void history_opened(struct history *history, const uint8_t *incarnation, uint64_t revision,
                    history_next_fn next, void *arg);

/* Queue a change of the state with this incarnation; copies what it needs. Never blocks. */
void history_changed(struct history *history, const uint8_t *incarnation,
                     const struct fsm_change *change);

/* Durable up to here, of the present incarnation. */
uint64_t history_revision(const struct history *history);
size_t history_lag_bytes(const struct history *history);
/* As history_health_fn was told last; *ret_why is set with r < 0, and lives until the loop goes on. */
int history_health(const struct history *history, const char **ret_why);
/* It lags too far. */
bool history_degraded(const struct history *history);

struct history_query {
    enum {
        HISTORY_BY_UID = 1,
        HISTORY_BY_LEASE,
        HISTORY_BY_UID_EPOCH,
        HISTORY_BY_PERIOD,
        HISTORY_BY_JOB,
    } by;
    uint64_t lease; /* HISTORY_BY_PERIOD: those after it, in ascending order */
    /* HISTORY_BY_PERIOD: number of refill.h; leases up to this one. Fewer than limit when they get long. */
    int64_t period;
    uint64_t until;
    uint32_t uid, epoch;
    char job[TEXT_JOB_MAX + 1]; /* HISTORY_BY_JOB: and whose; among so many of the newest leases */
    uint32_t job_owner_uid, look;
    int64_t at_wall_ms;  /* 0 = any time */
    uint32_t limit;      /* 1..1000 */
    bool own;            /* only those of owner_uid under the name owner_name */
    bool owner_nameless; /* or under no name: "#<owner_uid>" */
    bool nobody;         /* none at all */
    uint32_t owner_uid;
    char owner_name[72];
};

#define HISTORY_PERIOD_BYTES (256u << 10) /* text of an answer by period, but for its last lease */

struct history_entry {
    uint64_t lease;
    uint32_t uid, epoch;
    const char *pool, *job, *owner_name, *nodes; /* nodes: comma separated */
    uint32_t owner_uid, owner_gid;
    enum end_cause cause;
    int64_t granted_wall_ms, ended_wall_ms, retired_wall_ms, freed_wall_ms; /* 0 = not yet */
};

/* r 0: entries, newest first, live for the call; revision = complete up to here; why = "" or what is not known of that time.
 * r < 0: -EIO, -EBADMSG, -ENOMEM, -ECANCELED; why says. */
typedef void (*history_done_fn)(int r, const struct history_entry *entries, size_t n,
                                uint64_t revision, const char *why, void *arg);

/* done runs exactly once, on the loop, never inside this call. "at": held = granted <= at < ended-from-the-map, that is
 * until it was retired, so that a file's owner at that time is found also while the lease drained. */
void history_ask(struct history *history, const struct history_query *query, history_done_fn done,
                 void *arg);

#endif
