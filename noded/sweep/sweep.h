/* One run over everything that a uid can leave behind on this machine: look, remove, look again.
 *
 * Each kind of remnant is a file and a row of the table in kinds.c. A run is for many uids at once: every kind walks its
 * things once, whatever the number of uids. It knows nothing of leases: whose ids are meant is asked through `ids`, again
 * just before each removal, so that what has become sanctioned meanwhile is left alone.
 *
 * A run is clean for a uid when, after the last removal, one whole round over all kinds found nothing of it. What can not be
 * looked at is a finding, too (REASON_SCAN_FAILED, of every uid). Fail closed.
 * Blocks: runs on a thread of its own, one run per struct. Everything it touches is in struct sweep or the kernel. */
#ifndef XCE_NODED_SWEEP_SWEEP_H
#define XCE_NODED_SWEEP_SWEEP_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "noded/reason.h"

#define SWEEP_DETAIL_MAX   120
#define SWEEP_FINDINGS_MAX 1024 /* (uid, reason) pairs that are told apart in one round */

/* Which ids are looked for. min and max are a quick first test, has decides. Called from the run's thread. */
struct sweep_ids {
    uint32_t min, max;
    bool (*has)(uint32_t id, void *arg);
    void *arg;
};

struct sweep_finding {
    uint32_t uid; /* 0 = of every uid of the run */
    enum reason reason;
    char detail[SWEEP_DETAIL_MAX];
    uint32_t count; /* of such things; detail is the first one's */
    uint32_t last;  /* digest of the last one's: several ids of one process are one */
};

typedef void (*sweep_unit_fn)(uint32_t uid, const char *unit, bool failed, void *found_arg);

/* Units live behind these, so that nothing in this folder knows of a bus. */
struct sweep_units {
    /* Call found for each unit, timer or queued job whose user is that uid (or a name of it); failed: it runs nothing, its
     * failure is only remembered. 0; -errno could not look. */
    int (*list)(sweep_unit_fn found, void *found_arg, void *arg);
    /* Stop it, cancel its job, wait until that is done, and forget its failure. 0; -errno. */
    int (*stop)(const char *unit, int64_t wait_ms, void *arg);
    /* 1 the manager has it in mind, 0 not, -errno it does not say. NULL = nobody knows. */
    int (*loaded)(const char *unit, void *arg);
    void *arg;
};

/* Where to look. Strings are borrowed and outlive the run. NULL = do not look there (the pool of kinds stays whole in
 * production: noded_sweep.c sets them all). */
struct sweep_places {
    const char *prefix; /* of lease names, never NULL */
    const char *cgroup; /* mount point of cgroup2 */
    const char *slice;  /* top slice in it, "xce.slice" */
    const char *proc;   /* "/proc" */
    /* The machine's mount namespace when ours may be a private one (ProtectSystem=), where detaching would change nothing
     * for others: "/proc/1/ns/mnt". NULL = ours is it. */
    const char *mount_namespace;
    const char *const *roots;     /* folders whose files are removed by owner; ends with NULL */
    const char *const *acl_roots; /* the same, where access lists may name the uid, too */
    const char *const *cron, *const *at, *const *mail, *const *linger; /* files by name and owner */
    const char *const *logins;   /* the same, also by the uid in digits */
    const char *const *journals; /* folders that hold the folders of journald */
    const char *group_file;      /* members by name: /etc/group */
    const struct sweep_units *units;
    /* To whom goes what can not be removed (remnant.h). 0 = nobody: then that is dirty. */
    uint32_t remnant_uid, remnant_gid;
};

enum sweep_stages {
    /* what runs below our own slice of the uid: killed without any question */
    SWEEP_SLICES = 1 << 0,
    SWEEP_RUNNING = 1 << 1, /* units first, then processes: what could still make files */
    SWEEP_LYING = 1 << 2,   /* all the rest */
    SWEEP_BRIEF = 1 << 3, /* of what runs, what takes no look at each process. For sweep.c itself */
};

/* How far runs are, for who watches from another thread: a look into the kernel may hang. */
struct sweep_progress {
    atomic_uint_fast64_t steps; /* grows as long as it goes on */
    atomic_bool stop;           /* from outside: it is to end soon, and is worth nothing */
    pthread_mutex_t lock;       /* of what follows */
    const char *kind;           /* static; NULL = none runs */
    char at[SWEEP_DETAIL_MAX];
};

void sweep_progress_init(struct sweep_progress *progress);
/* Nobody waits for it any more: what it walks through is not walked through to its end. ids.has must wish for nothing from then on.
 * A stopped run has found that it could not look. Any thread. */
void sweep_progress_stop(struct sweep_progress *progress);
/* "files: /mnt/scratch". Any thread. */
void sweep_progress_where(struct sweep_progress *progress, char *ret, size_t size);

struct sweep {
    const struct sweep_places *places;
    struct sweep_progress *progress; /* NULL = nobody watches */
    struct sweep_ids ids;
    /* SWEEP_SLICES needs to name them: the uids themselves. SWEEP_RUNNING ends all of them at one blow. Borrowed; without
     * them the processes are ended one by one. */
    const uint32_t *uids;
    size_t n_uids;
    bool remove;     /* else only look */
    int64_t wait_ms; /* for killed things to end */

    /* Result: of the last round. */
    struct sweep_finding *findings;
    size_t n_findings, cap_findings;
    bool overflow; /* more than SWEEP_FINDINGS_MAX: every uid counts as found */
    /* Of all rounds. */
    uint64_t n_removed;
    uint64_t slow; /* bits by reason: was waited for in vain */
    /* Before this round. */
    uint64_t n_removed_before;
    size_t n_found_before;
};

/* A list of uids as sweep_ids: sorted, ascending, borrowed. */
struct sweep_list {
    const uint32_t *uids;
    size_t n;
};
bool sweep_list_has(uint32_t id, void *list);

/* Run the stages. Findings left in it are what is still there. Without `remove` one round. */
void sweep_run(struct sweep *sweep, unsigned stages);
void sweep_done(struct sweep *sweep);

/* The finding that stands in the way of calling uid clean; NULL = clean. A finding of its own before a common one. */
const struct sweep_finding *sweep_verdict(const struct sweep *sweep, uint32_t uid);

/* Whether anything runs below the slice of the uid, as far as can be seen. */
bool sweep_slice_runs(const struct sweep_places *places, uint32_t uid);

/* ---- for the kinds ---- */

static inline bool sweep_wants(const struct sweep *sweep, uint32_t id)
{
    return id >= sweep->ids.min && id <= sweep->ids.max && sweep->ids.has(id, sweep->ids.arg);
}

/* Something of uid is there (or was, and has just been removed: the next round tells). */
void sweep_found(struct sweep *sweep, uint32_t uid, enum reason reason, const char *format, ...)
    __attribute__((format(printf, 4, 5)));
/* Could not look: all uids. */
void sweep_failed(struct sweep *sweep, const char *what, int error);
/* It is about to look there, which may hang. */
void sweep_at(struct sweep *sweep, const char *where);
/* It goes on. */
static inline void sweep_step(struct sweep *sweep)
{
    if (sweep->progress)
        atomic_fetch_add_explicit(&sweep->progress->steps, 1, memory_order_relaxed);
}
static inline bool sweep_stopped(const struct sweep *sweep)
{
    return sweep->progress && atomic_load_explicit(&sweep->progress->stop, memory_order_relaxed);
}
/* Something has been removed. */
void sweep_removed(struct sweep *sweep);
/* A process was killed and does not end: says so in place of REASON_PROCESS. */
void sweep_unkillable(struct sweep *sweep, uint32_t uid, int pid);
/* How long to wait for what was told to end; and that it did not in that time: nothing of that sort is given as long again. */
int64_t sweep_patience_ms(const struct sweep *sweep, enum reason reason);
void sweep_waited_in_vain(struct sweep *sweep, enum reason reason);
/* Whether something was found and removed in this round: there will be another, and what is costly to find may be left to that. */
bool sweep_goes_on(const struct sweep *sweep);

#endif
