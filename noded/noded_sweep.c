/* Sweeps: what runs below our own slices dies at once; then, of uids that nobody else has, everything else goes. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "common/err.h"
#include "common/log.h"
#include "common/mem.h"
#include "common/net/loop.h"
#include "noded/noded_inside.h"
#include "noded/reason.h"
#include "noded/sweep/remnant.h"

#define WAIT_MS       2000 /* for what was killed to end */
#define WAIT_AGAIN_MS 100  /* the same, if it did not end the last time */
#define REST_FACTOR   2
#define REST_MAX_MS   1000

/* ---- places ---- */

static const char *const places_cron[] = {"/var/spool/cron/crontabs", "/var/spool/cron", NULL};
static const char *const places_at[] = {"/var/spool/cron/atjobs", "/var/spool/cron/atspool",
                                        "/var/spool/at", "/var/spool/at/spool", NULL};
static const char *const places_mail[] = {"/var/mail", "/var/spool/mail", NULL};
static const char *const places_linger[] = {"/var/lib/systemd/linger", NULL};
static const char *const places_logins[] = {"/run/faillock", "/run/sudo/ts", "/var/lib/sudo/ts",
                                            "/var/lib/sudo/lectured", NULL};
static const char *const places_journals[] = {"/var/log/journal", "/run/log/journal", NULL};
static const char *const places_files[] = {
    "/tmp", "/var/tmp", "/dev/shm", "/run/lock", "/run/user", "/var/lib/systemd/coredump", NULL};

int noded_cgroup_find(char *ret, size_t size)
{
    auto_free char *line = NULL;
    auto_fclose FILE *file = fopen("/proc/self/mountinfo", "re");
    size_t cap = 0;

    if (!file)
        return -errno;
    while (getline(&line, &cap, file) > 0) {
        char *rest = line, *path = NULL;
        if (!strstr(line, " - cgroup2 "))
            continue;
        for (int i = 0; i < 5; i++)
            path = strsep(&rest, " ");
        if (path && (size_t)snprintf(ret, size, "%s", path) < size)
            return 0;
    }
    return -ENOENT;
}

/* Dumps of a leased uid are root's, with an entry for the uid; and anybody may have let it into a file of his own. */
static void roots_take(struct looker *looker)
{
    const struct conf_list *more = &looker->n->settings->local_roots;
    size_t at = 0;

    for (size_t i = 0; looker->acl_roots[i]; i++)
        free(mem_take(looker->acl_roots[i]));
    for (const char *const *root = places_files; *root; root++)
        looker->acl_roots[at++] = mem_must_strdup(*root);
    for (size_t i = 0; i < more->n && at < ROOTS_MAX - 1; i++)
        looker->acl_roots[at++] = mem_must_strdup(more->items[i]);
}

void noded_sweep_places(struct noded *n)
{
    roots_take(n->sweeper);
    roots_take(n->guarder);
    roots_take(n->walker);
}

/* ---- lookers ---- */

static int units_list(sweep_unit_fn found, void *found_arg, void *arg)
{
    struct looker *looker = arg;
    int r = bus_units(looker->bus, looker->min, looker->max, found, found_arg);

    return r == BUS_NO_MANAGER ? 0 : r;
}

static int units_stop(const char *unit, int64_t wait_ms, void *arg)
{
    struct looker *looker = arg;

    return bus_stop(looker->bus, unit, wait_ms);
}

static int units_loaded(const char *unit, void *arg)
{
    struct looker *looker = arg;

    return bus_loaded(looker->bus, unit);
}

struct looker *looker_new(struct noded *n)
{
    struct looker *looker = mem_must_calloc(1, sizeof(*looker));

    looker->n = n;
    sweep_progress_init(&looker->progress);
    roots_take(looker);
    looker->bus = bus_new("");
    looker->units = (struct sweep_units){units_list, units_stop, units_loaded, looker};
    looker->map.path = n->map_path;
    looker->places = (struct sweep_places){
        .prefix = looker->prefix,
        .cgroup = *n->cgroup ? n->cgroup : NULL,
        .slice = NODED_SLICE,
        .proc = "/proc",
        /* With systemd we may have been given a mount namespace of our own. */
        .mount_namespace = access("/run/systemd/system", F_OK) == 0 ? "/proc/1/ns/mnt" : NULL,
        .acl_roots = (const char *const *)looker->acl_roots,
        .cron = places_cron,
        .at = places_at,
        .mail = places_mail,
        .linger = places_linger,
        .logins = places_logins,
        .journals = places_journals,
        .group_file = "/etc/group",
        .units = &looker->units,
    };
    (void)remnant_find("/etc/passwd", &looker->places.remnant_uid, &looker->places.remnant_gid);
    return looker;
}

void looker_free(struct looker *looker)
{
    if (!looker)
        return;
    bus_free(looker->bus);
    node_map_reader_done(&looker->map);
    for (size_t i = 0; looker->acl_roots[i]; i++)
        free(looker->acl_roots[i]);
    free(looker);
}

void noded_looker_replace(struct noded *n, const struct looker *looker)
{
    if (looker == n->sweeper)
        n->sweeper = looker_new(n);
    if (looker == n->guarder)
        n->guarder = looker_new(n);
    if (looker == n->walker)
        n->walker = looker_new(n);
}

bool looker_may_touch(const struct looker *looker)
{
    return !atomic_load(&looker->given_up) && !atomic_load(&looker->n->stopping);
}

void noded_looker_ready(struct noded *n, struct looker *looker)
{
    if (strcmp(looker->prefix, n->prefix) != 0) {
        memcpy(looker->prefix, n->prefix, sizeof(looker->prefix));
        bus_prefix(looker->bus, looker->prefix);
    }
    looker->map.none = !node_map_exists(n->map);
    looker->map.unsure = false;
}

int noded_sweep_start(struct noded *n)
{
    int r = 0;

    if (*n->settings->cgroup)
        (void)snprintf(n->cgroup, sizeof(n->cgroup), "%s", n->settings->cgroup);
    else
        r = noded_cgroup_find(n->cgroup, sizeof(n->cgroup));
    if (r < 0)
        log_warning(NULL, "cgroup2 is not mounted: processes of leases are killed one by one");
    n->sweeper = looker_new(n);
    n->guarder = looker_new(n);
    n->walker = looker_new(n);
    if (!n->sweeper->places.remnant_uid)
        log_warning(NULL, "/etc/passwd has no user " REMNANT_USER
                          " of the system: a uid is not free as long as something of it "
                          "is left that can not be removed, but only given away");
    return 0;
}

void noded_sweep_halt(struct noded *n)
{
    sweep_progress_stop(&n->sweeper->progress);
    sweep_progress_stop(&n->guarder->progress);
    sweep_progress_stop(&n->walker->progress);
}

void noded_sweep_stop(struct noded *n)
{
    looker_free(n->sweeper);
    looker_free(n->guarder);
    looker_free(n->walker);
}

/* ---- one sweep ---- */

/* Leases that end one after another are swept together: after a sweep a rest, as long as two of them. */
int64_t noded_sweep_next_ms(const struct noded *n)
{
    int64_t rest_ms = n->sweep_took_ms * REST_FACTOR;

    return n->swept_ms + (rest_ms < REST_MAX_MS ? rest_ms : REST_MAX_MS);
}

struct sweeping {
    struct noded *n;
    struct looker *looker;
    int64_t began_ms;
    struct state_epoch *uids; /* sorted */
    size_t n_uids;
    uint32_t *numbers; /* all of them; after the question, those that may be touched */
    size_t n_numbers;
    bool batch; /* of state; else of uids that nobody has */
    struct verdicts dirty;
    struct sweep_list list;
    struct sweep sweep;
    unsigned stages;
    char unseen[SWEEP_DETAIL_MAX]; /* what lies around is not looked at, and why; "" = it is */
    void (*done)(struct noded *n, const struct verdicts *dirty);
};

/* Again at the last moment: what is here now is left alone; and beyond our own slices all is, if the answer about accounts does
 * not hold any more. */
static bool may_touch(uint32_t id, void *arg)
{
    struct sweeping *s = arg;

    return sweep_list_has(id, &s->list) && looker_may_touch(s->looker) &&
           (s->stages == SWEEP_SLICES || !atomic_load(&s->looker->stale)) &&
           !node_map_here(&s->looker->map, id);
}

static const char account_came[] = "somebody has got an account while it was swept";

static void sweep_work(void *arg)
{
    struct sweeping *s = arg;

    sweep_run(&s->sweep, s->stages);
}

static void batch_begin(struct noded *n, const struct state_epoch *uids, size_t n_uids, bool again);

static void sweep_finish(struct sweeping *s)
{
    struct noded *n = s->n;

    n->sweeping = false;
    n->swept_ms = loop_now_ms(n->loop);
    n->sweep_took_ms = n->swept_ms - s->began_ms;
    if (n->sweep_next.n) {
        batch_begin(n, n->sweep_next.items, n->sweep_next.n, n->sweep_next_again);
        n->sweep_next.n = 0;
    }
    if (s->batch)
        state_swept(n->state, s->dirty.items, s->dirty.n, loop_now_ms(n->loop));
    else
        s->done(n, &s->dirty);
    verdicts_done(&s->dirty);
    sweep_done(&s->sweep);
    free(s->uids);
    free(s->numbers);
    free(s);
    noded_touch(n);
}

static void swept(int r, void *arg)
{
    struct sweeping *s = arg;
    struct noded *n = s->n;
    bool stale = atomic_load(&s->looker->stale);
    bool unsure = stale || s->looker->map.unsure || atomic_load(&n->stopping);

    if (*s->unseen)
        sweep_found(&s->sweep, 0, REASON_SCAN_FAILED, "%s", s->unseen);
    for (size_t i = 0; i < s->n_uids; i++) {
        const struct state_epoch *e = &s->uids[i];
        const struct sweep_finding *f = sweep_verdict(&s->sweep, e->uid);
        if (verdicts_of(&s->dirty, e->uid))
            continue;
        if (f)
            verdicts_add(&s->dirty, e->uid, e->epoch, f->reason, f->detail);
        else if (unsure || r < 0)
            verdicts_add(&s->dirty, e->uid, e->epoch, REASON_SCAN_FAILED,
                         stale ? account_came : "the uid map could not be read");
    }
    sweep_finish(s);
}

/* What was to be swept is as it was, and dirty. The thread keeps the one that it works on. */
static void sweep_hung(void *arg, const char *where)
{
    struct sweeping *hung = arg, *s = mem_must_calloc(1, sizeof(*s));

    s->n = hung->n;
    s->looker = s->n->sweeper;
    s->began_ms = hung->began_ms;
    s->uids = mem_must_dup(hung->uids, hung->n_uids * sizeof(*s->uids));
    s->n_uids = hung->n_uids;
    s->batch = hung->batch;
    s->done = hung->done;
    s->dirty = hung->dirty;
    hung->dirty = (struct verdicts){0};
    sweep_found(&s->sweep, 0, REASON_SCAN_FAILED, "%s", where);
    swept(0, s);
}

static void sweep_late(void *arg)
{
    struct sweeping *s = arg;

    sweep_done(&s->sweep);
    free(s->uids);
    free(s->numbers);
    free(s);
}

static void ids_set(struct sweeping *s)
{
    s->list = (struct sweep_list){s->numbers, s->n_numbers};
    s->sweep.ids = (struct sweep_ids){s->numbers[0], s->numbers[s->n_numbers - 1], may_touch, s};
    s->sweep.uids = s->numbers;
    s->sweep.n_uids = s->n_numbers;
    s->looker->min = s->sweep.ids.min;
    s->looker->max = s->sweep.ids.max;
}

/* What nobody has is looked at for as long as it may be leased here: else it is left alone. */
static bool is_wanted(const struct sweeping *s, uint32_t uid)
{
    const struct state_pool *pool = state_pool_of(s->n->state, uid);

    return s->batch || (pool && pool->check == POOL_PASSED && !uid_list_has(&s->n->blocked, uid));
}

static const struct look_fns sweep_look = {sweep_work, swept, sweep_hung, sweep_late,
                                           .walks = true};
static const struct look_fns running_look = {sweep_work, swept, sweep_hung, sweep_late};

/* What runs is ended, whatever hangs. */
static void look_begin(struct sweeping *s)
{
    const char *hangs = noded_look_hangs(s->n);

    s->stages = hangs ? SWEEP_RUNNING : SWEEP_RUNNING | SWEEP_LYING;
    if (hangs)
        (void)snprintf(s->unseen, sizeof(s->unseen), "%s", hangs);
    noded_look(s->n, s->looker, hangs ? &running_look : &sweep_look, s);
}

/* The answer about accounts: what somebody else has, or may have, is not touched. */
static void asked(struct noded *n, bool failed, const struct verdicts *found, void *arg)
{
    struct sweeping *s = arg;
    bool stale = atomic_load(&s->looker->stale);

    s->n_numbers = 0;
    for (size_t i = 0; i < s->n_uids; i++) {
        const struct state_epoch *e = &s->uids[i];
        const struct state_verdict *v = verdicts_of(found, e->uid);
        if (v && v->reason != REASON_SCAN_FAILED)
            noded_block(n, e->uid, v->reason, v->detail);
        if (v)
            verdicts_add(&s->dirty, e->uid, e->epoch, v->reason, v->detail);
        else if (failed)
            verdicts_add(&s->dirty, e->uid, e->epoch, REASON_SCAN_FAILED,
                         "the name services of this machine do not answer");
        else if (stale)
            verdicts_add(&s->dirty, e->uid, e->epoch, REASON_SCAN_FAILED, account_came);
        else if (is_wanted(s, e->uid))
            s->numbers[s->n_numbers++] = e->uid;
        else
            verdicts_add(&s->dirty, e->uid, e->epoch, REASON_SCAN_FAILED,
                         "it may not be leased here now");
    }
    if (s->n_numbers == 0) {
        sweep_finish(s);
        return;
    }
    ids_set(s);
    atomic_store(&s->looker->stale, false); /* what has just been answered is left out */
    look_begin(s);
}

static void ask(struct sweeping *s, const struct state_epoch *uids)
{
    atomic_store(&s->looker->stale, false);
    noded_ask(s->n, uids, s->n_uids, asked, s);
}

/* Epoch 0: of each uid and gid, not of a name that is about to go. */
static void slices_ended(int r, void *arg)
{
    struct sweeping *s = arg;
    auto_free struct state_epoch *uids = mem_must_dup(s->uids, s->n_uids * sizeof(*uids));

    for (size_t i = 0; i < s->n_uids; i++)
        uids[i].epoch = 0;
    ask(s, uids);
}

static const struct look_fns slices_look = {sweep_work, slices_ended, sweep_hung, sweep_late};

static int by_uid(const void *a, const void *b)
{
    uint32_t x = ((const struct state_epoch *)a)->uid, y = ((const struct state_epoch *)b)->uid;

    return x < y ? -1 : x > y;
}

static struct sweeping *sweep_begin(struct noded *n, const struct state_epoch *uids, size_t n_uids,
                                    bool again)
{
    struct sweeping *s = mem_must_calloc(1, sizeof(*s));

    n->sweeping = true;
    noded_looker_ready(n, n->sweeper);
    s->n = n;
    s->looker = n->sweeper;
    s->began_ms = loop_now_ms(n->loop);
    s->uids = mem_must_dup(uids, n_uids * sizeof(*uids));
    s->n_uids = n_uids;
    qsort(s->uids, n_uids, sizeof(*s->uids), by_uid);
    s->numbers = mem_must_calloc(n_uids, sizeof(*s->numbers));
    for (size_t i = 0; i < n_uids; i++)
        s->numbers[i] = s->uids[i].uid;
    s->n_numbers = n_uids;
    s->sweep = (struct sweep){
        .places = &s->looker->places,
        .progress = &s->looker->progress,
        .remove = true,
        .wait_ms = again ? WAIT_AGAIN_MS : WAIT_MS,
    };
    ids_set(s);
    return s;
}

static void batch_begin(struct noded *n, const struct state_epoch *uids, size_t n_uids, bool again)
{
    struct sweeping *s = sweep_begin(n, uids, n_uids, again);

    s->batch = true;
    s->stages = SWEEP_SLICES;
    noded_look(n, s->looker, &slices_look, s);
}

void noded_op_sweep(const struct state_epoch *uids, size_t n_uids, bool again, void *arg)
{
    struct noded *n = arg;

    if (!n->sweeping) {
        batch_begin(n, uids, n_uids, again);
        return;
    }
    /* Behind one of uids that nobody has; of these there is never more than one. */
    for (size_t i = 0; i < n_uids; i++)
        uid_list_add(&n->sweep_next, &uids[i]);
    n->sweep_next_again = again;
}

bool noded_sweep_free(struct noded *n, const struct state_epoch *uids, size_t n_uids,
                      void (*done)(struct noded *n, const struct verdicts *dirty))
{
    struct sweeping *s;

    if (n->sweeping || n_uids == 0)
        return false;
    s = sweep_begin(n, uids, n_uids, false);
    s->done = done;
    /* They may have waited: an account can have come since they were asked about. */
    ask(s, s->uids);
    return true;
}
