/* The inside of struct noded, shared by noded.c and its parts: each part is a group of members and the functions below it.
 *
 * One thread: the loop's. What blocks is a job on a thread of the pool, at most one of each kind at a time, or, for sweeps
 * and passes, which may hang, on a thread of its own (noded_look.c). A job has a struct of its own and touches nothing of
 * struct noded but what is said here. */
#ifndef XCE_NODED_NODED_INSIDE_H
#define XCE_NODED_NODED_INSIDE_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/queue.h>
#include <sys/types.h>
#include <time.h>

#include "common/fsutil.h"
#include "map/name.h"
#include "noded/accounts.h"
#include "noded/conf.h"
#include "noded/epochs.h"
#include "noded/map_writer.h"
#include "noded/noded_look.h"
#include "noded/retired.h"
#include "noded/session.h"
#include "noded/state.h"
#include "noded/state_guard.h"

struct deferral;
struct loop;
struct loop_soon;
struct loop_timer;
struct loop_signal;

#define INCARNATIONS_MAX  32
#define DRY_QUESTIONS_MAX 16
#define NODED_SLICE       "xce.slice" /* below it runs all that is sanctioned */

/* Which accounts were asked about lately and are nobody's: what was looked at ahead of its grant. */
struct ahead {
    uint32_t uid, epoch;
    int64_t checked_ms;
};
#define AHEAD_PLACES 4096 /* a power of two; a uid has one place */

/* Since when leased was told in this session. */
struct found {
    uint32_t uid;
    int64_t since_ms;
};

struct uid_list {
    struct state_epoch *items;
    size_t n, cap;
};

/* Findings about uids. */
struct verdicts {
    struct state_verdict *items; /* details are owned */
    size_t n, cap;
};

struct noded {
    struct loop *loop;
    struct conf **conf;
    const struct noded_settings *settings;
    char node[TEXT_NODE_MAX + 1];
    char machine_id[FS_ID_BUF], boot_id[FS_ID_BUF];
    char map_path[256], pools_path[256], epochs_path[256], clean_path[256], name_path[256];
    char incarnations_path[256];
    char prefix[NAME_PREFIX_MAX + 1]; /* "" = not known yet */
    const char *program;
    char *argv_accounts[3];
    int lock_fd;

    struct state *state;
    struct epochs *epochs;
    struct node_map *map;
    struct tls_keys *keys; /* NULL: no server over TCP, or no certificate yet */
    char tls_trouble[256];
    int64_t tls_retry_ms;
    struct enrolment *enrolment; /* under way */
    size_t enrol_server;         /* to be asked next */
    int64_t renew_ms;            /* loop time: not before */
    struct session *session;
    struct accounts *accounts;
    struct loop_soon *soon;   /* noded_settle */
    struct loop_timer *timer; /* noded_settle at a certain time */
    struct loop_timer *beat;
    struct loop_timer *watchdog, *patience;
    struct loop_signal *signals[3];
    atomic_bool stopping;
    unsigned n_jobs; /* on other threads */
    bool reload_wanted;
    bool burst; /* leases have come since memory was given back */

    /* what leased has told */
    bool had_session;
    uint64_t revision, written; /* of the state, and noted in the map */
    uint8_t incarnation[SESSION_INCARNATION_MAX];
    size_t incarnation_len;
    bool complete; /* the state holds all up to revision: a resume is possible */
    bool listing;  /* a full list is coming in */
    bool clean_start;
    bool list_wanted; /* the one before ended in order, but knew something that is not in the map */
    int64_t heard_ms, started_ms; /* boot time */
    /* noded_incarnation.c: states that leased had, the last is the present one */
    char incarnations[INCARNATIONS_MAX][2 * SESSION_INCARNATION_MAX + 1];
    size_t n_incarnations;
    enum session_node as_node;
    char status[200];

    /* noded_map.c */
    bool map_failing; /* its shape could not be made: retried with each beat */
    bool map_missed;  /* and leases were lost over it */
    bool shape_wanted;

    /* noded_nscd.c */
    bool nscd_wanted; /* the map has changed since nscd was told */
    bool nscd_running, nscd_failing;
    int64_t nscd_next_ms; /* after a failure not at once again */
    /* READY, not said before nscd has forgotten and the uid is not in hand (noded/sweep/uids.h) */
    struct verdicts held;

    /* noded_pools.c */
    bool pools_guessed;  /* out of the map: no pool of leased's has these names */
    char checking[33];   /* the pool whose check is under way; "" = none */
    bool checking_files; /* and only of files */
    bool saving, save_wanted;
    int64_t checked_ms, save_retry_ms;
    struct timespec account_mtimes[6];

    /* noded_overlap.c */
    struct {
        uint64_t question, asked;  /* the last one; the one whose check is under way */
        uint32_t first, last;      /* of the last one */
        bool asking, files;        /* a check is under way; of files alone */
        struct accounts *accounts; /* of its own: it must not wait for a check that takes long */
    } overlap;

    /* noded_vet.c */
    struct ahead *ahead;         /* AHEAD_PLACES */
    struct uid_list ahead_told;  /* next in line, as leased said last */
    bool ahead_wanted, aheading; /* to be looked at; under way */
    struct uid_list ahead_sweep; /* looked at ahead, to be swept when there is nothing else to do */
    int64_t ahead_swept_ms;

    /* noded_left.c */
    struct uid_list left_sweep; /* of state_left, being swept */
    int64_t left_next_ms;       /* after a failure not at once again */
    struct found
        *found; /* something of it could not be removed: said in this session, if there is one */
    size_t n_found, cap_found;
    int64_t found_next_ms;          /* they are swept again, and said again */
    struct uid_list leftover;       /* what leased has blocked until this node has cleaned it */
    struct uid_list leftover_sweep; /* of these, being swept */
    int64_t leftover_next_ms;

    struct deferral *deferral; /* noded_deferred.c */

    /* noded_sweep.c */
    char cgroup[256];
    struct looker *sweeper, *guarder, *walker;
    bool sweeping;              /* a batch, or what was looked at ahead */
    struct uid_list sweep_next; /* the batch that waits for it */
    bool sweep_next_again;
    int64_t swept_ms, sweep_took_ms;

    /* noded_look.c */
    LIST_HEAD(, look) hung; /* threads that have been given up, and are not back */
    unsigned n_hung;

    /* noded_dry.c */
    struct {
        bool running;
        struct dry *look; /* that one; NULL = what it looked at hangs, or it is through */
        uint64_t questions[DRY_QUESTIONS_MAX]; /* that came meanwhile */
        size_t n_questions;
    } dry;

    /* noded_kill.c */
    bool killing;
    bool killed_last;          /* at noded's end */
    struct uid_list kill_next; /* when that is done */

    /* noded_guard.c */
    struct guard guard;
    struct uid_list blocked; /* uids that were reported in this session, and not unblocked since */

    /* noded_walk.c */
    struct retired_list retired; /* since the last walk that counted */
    uint64_t walked_nr;          /* up to which the last one went that a pass has to confirm */
};

/* ---- noded.c ---- */

/* Something has happened: do what follows from it, soon. */
void noded_touch(struct noded *n);
void noded_session_start(struct noded *n);
/* A job on another thread: work(arg) there, then done(r, arg) here. */
void noded_offload(struct noded *n, void (*work)(void *arg), void (*done)(int r, void *arg),
                   void *arg);
/* The same for what writes to the disk, or starts programs, and may hang: what ends processes does not wait for it. */
void noded_offload_slow(struct noded *n, void (*work)(void *arg), void (*done)(int r, void *arg),
                        void *arg);
void noded_offload_done(struct noded *n);

/* ---- noded_map.c: what goes into the map, and who is told ---- */

int noded_map_start(struct noded *n, bool torn);
int noded_op_map_set(const struct state_lease *lease, uint8_t flags, void *arg);
void noded_op_map_mark(uint32_t uid, uint32_t epoch, uint8_t add, uint8_t drop, void *arg);
void noded_op_map_retire(uint32_t uid, uint32_t epoch, uint64_t revision, void *arg);
void noded_op_say(enum state_say what, const struct state_verdict *about, void *arg);
/* Give the map the pools' ranges, if it has not got them. */
void noded_map_shape(struct noded *n);
void noded_map_beat(struct noded *n);
/* Note how far the map is. */
void noded_map_settle(struct noded *n);

/* ---- noded_nscd.c ---- */

/* nscd runs and has not forgotten yet what the map does not say any more. */
bool noded_nscd_behind(const struct noded *n);
/* Say READY when nscd is behind no more and the uid is not in hand (noded/sweep/uids.h). */
void noded_nscd_hold(struct noded *n, const struct state_verdict *ready);
/* Tell nscd, if the map has changed. */
void noded_nscd_settle(struct noded *n, int64_t now_ms);
int64_t noded_nscd_next_ms(const struct noded *n);

/* ---- noded_tls.c ---- */

/* Begin the session; where a server over TCP asks for a certificate, when there is one: what is wrong is in the log, and
 * it is tried again. All else that noded does goes on meanwhile. */
void noded_tls_start(struct noded *n);
void noded_tls_beat(struct noded *n);
void noded_tls_reload(struct noded *n);
void noded_tls_end(struct noded *n);

/* ---- noded_enroll.c: getting a certificate, and a newer one ---- */

/* Ask for a certificate of this node with the token, or (renew) for a newer one with what it has; ended is called from
 * the loop: 0 it is in its file. -errno: it did not begin, and ended will not be called; err says why. */
typedef void (*noded_enrolled_fn)(struct noded *n, int r, const char *why);
int noded_enroll(struct noded *n, bool renew, noded_enrolled_fn ended, struct err *err);
/* noded ends: so does what is under way. */
void noded_enroll_cancel(struct noded *n);

/* ---- noded_epochs.c ---- */

int noded_epochs_start(struct noded *n, bool *ret_torn);
void noded_op_persist(const struct state_epoch *entries, size_t n, void *arg);
/* Report the highest epochs that were seen here: leased's state is a backup. */
void noded_epochs_say(struct noded *n);

/* ---- noded_incarnation.c ---- */

/* The states of before. 0, also where there is no file yet; -errno the file is not sound: the node could follow a state that
 * it has left, so it must not start. What is wrong is in the log. */
int noded_incarnation_start(struct noded *n);
/* leased shows this state. 0; -ESTALE this node has left it for another, and never goes back; -errno that it is left can
 * not be noted. What is wrong is in the log. */
int noded_incarnation_take(struct noded *n, const struct session_welcome *welcome);

/* ---- noded_pools.c ---- */

/* The pools of the last time. false: their file is lost, or not sound. */
bool noded_pools_start(struct noded *n);
/* Then until leased tells them they are what the map has, and leased is asked for everything. */
void noded_pools_guess(struct noded *n);
/* Look whether the files of accounts have changed. */
void noded_pools_beat(struct noded *n);
void noded_op_pool(const struct state_pool *pool, void *arg);
void noded_op_pool_blocked(const struct state_pool *pool, const uint32_t *uids, size_t n,
                           void *arg);
void noded_op_pool_gone(const char *name, void *arg);
/* Pools that a full list did not name are gone. */
void noded_pools_listed(struct noded *n);
/* Tell leased how all of them stand. */
void noded_pools_say(struct noded *n);
/* Begin the next check that is due. */
void noded_pools_settle(struct noded *n, int64_t now_ms);
int64_t noded_pools_next_ms(const struct noded *n);

/* ---- noded_overlap.c ---- */

void noded_op_overlap(uint64_t question, uint32_t first, uint32_t last, void *arg);

/* ---- noded_vet.c ---- */

void noded_op_vet(const struct state_epoch *uids, size_t n, void *arg);
void noded_op_look_ahead(const struct state_epoch *uids, size_t n, void *arg);
void noded_vet_forget(struct noded *n); /* accounts have changed */
void noded_vet_settle(struct noded *n, int64_t now_ms);

/* ---- noded_left.c ---- */

void noded_op_pool_leftover(const struct state_pool *pool, const uint32_t *uids, size_t n,
                            void *arg);
/* Something of a uid that nobody has, which could not be removed: leased is told, and again in each session until it knows. */
void noded_left_found(struct noded *n, const struct state_verdict *v);
/* Whether there is something like that of the uid. */
bool noded_left_lies(const struct noded *n, uint32_t uid);
/* Whether a pass has to wait for it. */
bool noded_left_holds(const struct noded *n);
void noded_left_session(struct noded *n);
void noded_left_sweep_now(struct noded *n);
void noded_left_settle(struct noded *n, int64_t now_ms);

/* ---- noded_sweep.c ---- */

int noded_sweep_start(struct noded *n);
/* noded ends: looks that are under way need not be gone through with. */
void noded_sweep_halt(struct noded *n);
void noded_sweep_stop(struct noded *n);
/* Where cgroup2 is mounted: the first that the mount table names. 0; -ENOENT; -errno. */
int noded_cgroup_find(char *ret, size_t size);
/* Configured folders and the prefix have changed. */
void noded_sweep_places(struct noded *n);
void noded_op_sweep(const struct state_epoch *uids, size_t n, bool again, void *arg);
/* Not before then. */
int64_t noded_sweep_next_ms(const struct noded *n);
/* Sweep uids that nobody has, once the name services say again that it is so: done(n, dirty) from the loop.
 * false = the sweeper is busy. */
bool noded_sweep_free(struct noded *n, const struct state_epoch *uids, size_t n_uids,
                      void (*done)(struct noded *n, const struct verdicts *dirty));

/* ---- noded_dry.c ---- */

/* Look for all that is not here, and tell it: session_dry. */
void noded_op_dry_run(uint64_t question, const char *reason, void *arg);
/* Whoever asks does not wait for what does not go on. */
void noded_dry_beat(struct noded *n);
/* The look ends where it is. */
void noded_dry_halt(struct noded *n);

/* ---- noded_kill.c ---- */

void noded_op_kill(const struct state_epoch *uids, size_t n, void *arg);

/* ---- noded_guard.c ---- */

void noded_guard_settle(struct noded *n, int64_t now_ms);
int64_t noded_guard_next_ms(const struct noded *n);
/* Somebody else has it: tell leased and the log, once. */
void noded_block(struct noded *n, uint32_t uid, unsigned reason, const char *detail);

/* ---- noded_walk.c ---- */

/* Whether a pass that began when that one was the last has to wait for a walk. */
bool noded_walk_wanted(struct noded *n, uint64_t nr);
/* A pass has confirmed the last walk: what that was for is done with. */
void noded_walk_counts(struct noded *n);
/* A walk for all of these. */
void noded_walk_begin(struct noded *n, uint64_t nr);

/* ---- noded_ask.c: asking about the accounts of many uids ---- */

/* found: of those that somebody has, or that could not be looked at; failed: nothing is known of any. Exactly once, also
 * at the end of the program (failed). */
typedef void (*noded_asked_fn)(struct noded *n, bool failed, const struct verdicts *found,
                               void *arg);
void noded_ask(struct noded *n, const struct state_epoch *uids, size_t n_uids, noded_asked_fn done,
               void *arg);

/* ---- noded_lists.c ---- */

void uid_list_add(struct uid_list *list, const struct state_epoch *entry);
bool uid_list_has(const struct uid_list *list, uint32_t uid);
/* detail is copied. */
void verdicts_add(struct verdicts *v, uint32_t uid, uint32_t epoch, unsigned reason,
                  const char *detail);
/* The first about uid; NULL = none. */
const struct state_verdict *verdicts_of(const struct verdicts *v, uint32_t uid);
/* Free what it holds: it is empty then. */
void verdicts_done(struct verdicts *v);

#endif
