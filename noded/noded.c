#include "noded/noded.h"

#include <errno.h>
#include <fcntl.h>
#include <malloc.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#include "common/daemon.h"
#include "common/err.h"
#include "common/log.h"
#include "common/mem.h"
#include "common/net/loop.h"
#include "noded/noded_deferred.h"
#include "noded/noded_inside.h"

#define BEAT_MS     1000
#define PATIENCE_MS 8000 /* for jobs on other threads, when told to stop */
#define FILES_MAX   65536

/* ---- jobs ---- */

void noded_touch(struct noded *n)
{
    loop_soon_start(n->soon);
}

static void offloaded(struct noded *n, int r)
{
    if (r < 0) {
        log_error(NULL, "no memory for another thread's work");
        abort();
    }
    n->n_jobs++;
}

void noded_offload(struct noded *n, void (*work)(void *arg), void (*done)(int r, void *arg),
                   void *arg)
{
    offloaded(n, loop_work_submit(n->loop, work, done, arg));
}

void noded_offload_slow(struct noded *n, void (*work)(void *arg), void (*done)(int r, void *arg),
                        void *arg)
{
    offloaded(n, loop_work_submit_slow(n->loop, work, done, arg));
}

void noded_offload_done(struct noded *n)
{
    n->n_jobs--;
}

/* ---- validity ---- */

static int64_t validity_deadline_ms(const struct noded *n, const struct state_pool *pool)
{
    int64_t since_ms = n->heard_ms ? n->heard_ms : n->started_ms;

    return pool->validity_ms > 0 && !pool->over ? since_ms + pool->validity_ms : INT64_MAX;
}

static int64_t validity_settle(struct noded *n, int64_t now_ms)
{
    int64_t next_ms = INT64_MAX;
    struct state_pool *pool;

    for (size_t i = 0; (pool = state_pool_at(n->state, i)); i++) {
        int64_t deadline_ms = validity_deadline_ms(n, pool);
        if (deadline_ms > now_ms) {
            next_ms = deadline_ms < next_ms ? deadline_ms : next_ms;
            continue;
        }
        pool->over = true;
        log_error(
            LOG_FIELDS(.node = n->node),
            "pool %s: leased has not been heard for its validity: what is here of it is ended",
            pool->name);
        state_end_pool(n->state, pool->name);
    }
    return next_ms;
}

/* ---- whatever has happened ---- */

static int64_t earlier(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

static int64_t sweeps_next_ms(const struct noded *n)
{
    struct state_counts c;

    state_count(n->state, &c);
    return c.sweeps && !n->sweeping ? noded_sweep_next_ms(n) : INT64_MAX;
}

/* One round of all parts: each begins what it has to. Then when to come back. */
static void settle(void *arg)
{
    struct noded *n = arg;
    int64_t now_ms = loop_now_fresh_ms(), next_ms;

    if (atomic_load(&n->stopping)) {
        if (!n->session && !n->killed_last) {
            n->killed_last = true; /* what ended while the session did */
            state_kill_ended(n->state);
        }
        if (n->n_jobs == 0 && !n->session && noded_deferred_ended(n))
            loop_stop(n->loop);
        return;
    }
    state_elapse(n->state, now_ms);
    next_ms = validity_settle(n, now_ms);
    noded_pools_settle(n, now_ms);
    if (n->shape_wanted)
        noded_map_shape(n);
    noded_left_settle(n, now_ms);
    noded_vet_settle(n, now_ms);
    noded_guard_settle(n, now_ms);
    noded_deferred_settle(n, now_ms);
    state_flush(n->state, now_ms, now_ms >= noded_sweep_next_ms(n));
    noded_nscd_settle(n, now_ms);
    noded_map_settle(n);
    next_ms = earlier(next_ms, state_next_due_ms(n->state));
    next_ms = earlier(next_ms, noded_pools_next_ms(n));
    next_ms = earlier(next_ms, noded_guard_next_ms(n));
    next_ms = earlier(next_ms, noded_deferred_next_ms(n));
    next_ms = earlier(next_ms, sweeps_next_ms(n));
    next_ms = earlier(next_ms, noded_nscd_next_ms(n));
    loop_timer_start(n->timer, next_ms > now_ms ? earlier(next_ms - now_ms, BEAT_MS) : 1, 0);
}

/* ---- what leased says ---- */

/* The map holds the leases that have a name. What is retired, and that leased has seen a proof, it does not hold. */
static bool list_wanted(const struct noded *n)
{
    return !n->had_session && (n->list_wanted || !n->clean_start);
}

static void op_hello(struct session_hello *ret, void *arg)
{
    struct noded *n = arg;

    *ret = (struct session_hello){
        .machine_id = n->machine_id,
        .boot_id = n->boot_id,
        /* This process goes on from where it was, or from where one was that ended in order. */
        .clean_start = n->clean_start || n->had_session,
        .mirror_own = n->settings->mirror == MIRROR_OWN,
        .resume = n->complete ? n->revision : 0,
        .list = list_wanted(n),
        .incarnation = n->incarnation,
        .incarnation_len = n->complete ? n->incarnation_len : 0,
    };
}

static bool same_incarnation(const struct noded *n, const struct session_welcome *w)
{
    return w->incarnation_len == n->incarnation_len &&
           memcmp(w->incarnation, n->incarnation, w->incarnation_len) == 0;
}

static void prefix_take(struct noded *n, const char *prefix)
{
    if (strcmp(n->prefix, prefix) == 0)
        return;
    (void)snprintf(n->prefix, sizeof(n->prefix), "%s", prefix);
    n->save_wanted = true;
}

static int op_welcome(const struct session_welcome *welcome, void *arg)
{
    struct noded *n = arg;
    struct state_pool *pool;
    int r;

    if (!welcome->full && (!n->complete || !same_incarnation(n, welcome))) {
        n->complete = false;
        return -ESTALE;
    }
    r = noded_incarnation_take(n, welcome);
    if (r < 0)
        return r;
    if (n->incarnation_len && !same_incarnation(n, welcome))
        state_begin_anew(n->state, welcome->revision);
    if (welcome->epochs_wanted)
        noded_epochs_say(n);
    if (welcome->full) {
        n->complete = false;
        n->listing = true;
        n->written = 0;
        node_map_progress(n->map, 0, false);
        for (size_t i = 0; (pool = state_pool_at(n->state, i)); i++)
            pool->listed = false;
    }
    memcpy(n->incarnation, welcome->incarnation, welcome->incarnation_len);
    n->incarnation_len = welcome->incarnation_len;
    node_map_incarnation(n->map, n->incarnation, n->incarnation_len);
    prefix_take(n, welcome->prefix);
    n->shape_wanted = true;
    n->had_session = true;
    n->blocked.n = 0;
    noded_left_session(n);
    session_hangs(n->session, noded_look_hangs(n));
    state_session_begin(n->state, welcome->full);
    noded_deferred_session(n);
    guard_session(&n->guard);
    guard_await(&n->guard, welcome->revision);
    noded_pools_say(n);
    noded_touch(n);
    return 0;
}

static void op_lease(const struct state_lease *lease, void *arg)
{
    struct noded *n = arg;

    state_change(n->state, lease);
    if (lease->phase == STATE_RETIRED) {
        guard_await(&n->guard, lease->revision);
        retired_add(&n->retired, lease->uid);
    }
    noded_touch(n);
}

static void op_changed(uint64_t revision, bool full_done, enum session_node node, void *arg)
{
    struct noded *n = arg;

    if (n->listing && full_done) {
        n->listing = false;
        n->complete = true;
        n->revision = revision;
        state_full_done(n->state, revision);
        noded_pools_listed(n);
    } else if (!n->listing && revision > n->revision) {
        n->revision = revision;
    }
    if (node && node != n->as_node)
        n->as_node = node;
    /* A new pass ends the one, and is asked for before the other is forgotten. */
    if ((node == SESSION_NODE_UNKNOWN || node == SESSION_NODE_DRAINING) && !n->listing)
        guard_await(&n->guard, n->revision);
    noded_touch(n);
}

static void op_sweep_now(const char *reason, void *arg)
{
    struct noded *n = arg;

    log_info(LOG_FIELDS(.node = n->node), "told to look at once: %s", reason);
    guard_want(&n->guard);
    state_sweep_now(n->state);
    noded_left_sweep_now(n);
    noded_touch(n);
}

static void op_heard(int64_t sent_ms, void *arg)
{
    struct noded *n = arg;
    struct state_pool *pool;

    if (sent_ms > n->heard_ms)
        n->heard_ms = sent_ms;
    for (size_t i = 0; (pool = state_pool_at(n->state, i)); i++)
        pool->over = false;
}

static void op_ended(void *arg)
{
    struct noded *n = arg;

    state_session_end(n->state);
    verdicts_done(&n->held);
    if (n->listing)
        n->listing = n->complete = false;
    n->as_node = 0;
    noded_touch(n);
}

/* ---- beats ---- */

/* What a burst of leases needed for a moment goes back when it is over. */
static void memory_give_back(struct noded *n)
{
    struct state_counts c;

    state_count(n->state, &c);
    n->burst = n->burst || c.vetting;
    if (c.busy || n->listing || !n->burst)
        return;
    n->burst = false;
    (void)malloc_trim(0);
}

static const char *node_word(enum session_node node)
{
    static const char *const words[] = {"",     "ready",   "draining", "cordoned",
                                        "lost", "unknown", "fenced"};

    return words[node];
}

static void status_tell(struct noded *n)
{
    const char *server = session_server(n->session);
    struct state_counts c;
    char text[sizeof(n->status)];

    state_count(n->state, &c);
    (void)snprintf(text, sizeof(text),
                   "%s%s%.120s; %zu leases, %zu here, %zu to be swept, %zu dirty",
                   server ? node_word(n->as_node) : "no session: ", server ? " at " : "",
                   server       ? server
                   : n->session ? session_trouble(n->session)
                                : n->tls_trouble,
                   c.leases, c.here, c.ended, c.dirty);
    if (strcmp(text, n->status) != 0)
        daemon_status("%s", text);
    memcpy(n->status, text, sizeof(text));
}

static void reload(struct noded *n);

static void beat(void *arg)
{
    struct noded *n = arg;

    if (atomic_load(&n->stopping))
        return;
    if (n->reload_wanted)
        reload(n);
    noded_map_beat(n);
    noded_pools_beat(n);
    noded_dry_beat(n);
    noded_tls_beat(n);
    status_tell(n);
    memory_give_back(n);
    noded_touch(n);
}

static void watchdog(void *arg)
{
    daemon_watchdog();
}

/* ---- signals ---- */

static void settings_take(struct noded *n)
{
    n->settings = conf_settings(*n->conf);
    log_set_level(noded_conf_log_level(n->settings));
    n->guard.limits = (struct guard_limits){n->settings->guard_ms, n->settings->guard_idle_ms};
}

static void reload(struct noded *n)
{
    AUTO(buf_done) struct buf pending = BUF_INIT(1024);
    struct err err = {0};

    /* Nobody on another thread may hold a string of the old ones. */
    n->reload_wanted = n->sweeping || n->guard.running || n->guard.walk.running || n->dry.running;
    if (n->reload_wanted)
        return;
    if (conf_reload(n->conf, &pending, &err) < 0) {
        log_error(LOG_FIELDS(.message_id = LOG_ID_CONFIG_BAD), "%s; the old settings go on",
                  err.text);
    } else {
        settings_take(n);
        noded_sweep_places(n);
        noded_tls_reload(n);
        log_notice(LOG_FIELDS(.message_id = LOG_ID_RELOADED), "settings have been read again%s%s",
                   pending.len ? "; these need a restart: " : "", buf_str(&pending));
    }
    daemon_ready("%s", n->status);
}

static void out_of_patience(void *arg)
{
    log_warning(NULL, "what runs on other threads does not end; ending without it");
    log_close();
    _exit(0);
}

static void session_closed(void *arg)
{
    struct noded *n = arg;

    n->session = NULL;
    noded_touch(n);
}

static void stop(struct noded *n)
{
    if (atomic_exchange(&n->stopping, true))
        return;
    daemon_stopping("ending");
    log_notice(LOG_FIELDS(.message_id = LOG_ID_STOPPING), "ending; the map stays");
    loop_timer_start(n->patience, PATIENCE_MS, 0);
    accounts_free(n->accounts);
    accounts_free(n->overlap.accounts);
    n->accounts = n->overlap.accounts = NULL;
    noded_enroll_cancel(n);
    state_kill_ended(n->state);
    noded_sweep_halt(n);
    noded_dry_halt(n);
    noded_deferred_stop(n);
    if (n->session)
        session_close(n->session, session_closed, n);
    else
        noded_touch(n);
}

static void on_signal(int signum, void *arg)
{
    struct noded *n = arg;

    if (signum != SIGHUP) {
        stop(n);
        return;
    }
    if (atomic_load(&n->stopping))
        return;
    daemon_reloading();
    reload(n);
}

/* ---- start ---- */

static void files_limit_raise(void)
{
    struct rlimit limit;

    if (getrlimit(RLIMIT_NOFILE, &limit) < 0 || limit.rlim_cur >= FILES_MAX)
        return;
    limit.rlim_cur = limit.rlim_max < FILES_MAX ? limit.rlim_max : FILES_MAX;
    (void)setrlimit(RLIMIT_NOFILE, &limit);
}

static int who_am_i(struct noded *n)
{
    struct err err = {0};
    int r;

    if (*n->settings->node)
        (void)snprintf(n->node, sizeof(n->node), "%s", n->settings->node);
    else if (gethostname(n->node, sizeof(n->node) - 1) < 0)
        return -errno;
    r = text_check_node(n->node, strlen(n->node), &err);
    if (r < 0) {
        log_error(NULL, "%s; give noded.Node", err.text);
        return r;
    }
    r = fs_machine_id(n->machine_id);
    if (r < 0)
        log_error(NULL, "/etc/machine-id: %s", err_text(r));
    else if ((r = fs_boot_id(n->boot_id)) < 0)
        log_error(NULL, "the boot id: %s", err_text(r));
    return r;
}

static int folder_make(const char *path, mode_t mode)
{
    int r = fs_mkdir_p(path, mode);

    if (r < 0)
        log_error(NULL, "%s: %s", path, err_text(r));
    return r;
}

static int folders_start(struct noded *n)
{
    const struct noded_settings *s = n->settings;
    char lock[256];
    struct err err = {0};
    int r = folder_make(s->runtime_dir, 0755);

    if (r == 0)
        r = folder_make(s->state_dir, 0700);
    if (r < 0)
        return r;
    (void)snprintf(n->map_path, sizeof(n->map_path), "%s/uidmap", s->runtime_dir);
    (void)snprintf(n->pools_path, sizeof(n->pools_path), "%s/pools", s->state_dir);
    (void)snprintf(n->epochs_path, sizeof(n->epochs_path), "%s/epochs", s->state_dir);
    (void)snprintf(n->clean_path, sizeof(n->clean_path), "%s/clean", s->state_dir);
    (void)snprintf(n->name_path, sizeof(n->name_path), "%s/name", s->state_dir);
    (void)snprintf(n->incarnations_path, sizeof(n->incarnations_path), "%s/incarnations",
                   s->state_dir);
    (void)snprintf(lock, sizeof(lock), "%s/lock", s->state_dir);
    r = fs_lock_file(lock, &n->lock_fd, &err);
    if (r < 0)
        log_error(NULL, "%s", err.text);
    return r;
}

/* Whether the one before ended in order in this very boot; it is asked once. */
static void clean_take(struct noded *n)
{
    auto_free char *text = NULL;

    n->clean_start = fs_read_file(AT_FDCWD, n->clean_path, 64, &text, NULL) == 0 &&
                     strncmp(text, n->boot_id, strlen(n->boot_id)) == 0;
    n->list_wanted = n->clean_start && strcmp(text, n->boot_id) != 0;
    if (unlink(n->clean_path) == 0)
        (void)fs_sync_parent(AT_FDCWD, n->clean_path);
}

/* What the map holds was told to a node of that name and that Mirror=. To another one everything is told anew, or it would
 * go on from a revision whose changes were not meant for it. */
static void name_take(struct noded *n)
{
    auto_free char *text = NULL;
    char now[TEXT_NODE_MAX + 16];
    int r;

    (void)snprintf(now, sizeof(now), "%s %s\n", n->node,
                   n->settings->mirror == MIRROR_OWN ? "own" : "all");
    r = fs_read_file(AT_FDCWD, n->name_path, sizeof(now), &text, NULL);
    if (r == 0 && strcmp(text, now) == 0)
        return;
    if (n->complete)
        log_notice(
            LOG_FIELDS(.node = n->node),
            "the map is of another name of this node, or of another Mirror: leased tells all "
            "leases anew");
    n->complete = n->clean_start = false;
    n->revision = n->written = 0;
    node_map_progress(n->map, 0, false); /* first: we may die before leased has told */
    r = fs_write_file(AT_FDCWD, n->name_path, now, strlen(now), 0600);
    if (r < 0)
        log_error(NULL, "%s: cannot be written: %s; the next start will ask leased for all leases",
                  n->name_path, err_text(r));
}

static int past_start(struct noded *n)
{
    bool torn = false, pools;
    int r;

    clean_take(n);
    r = noded_epochs_start(n, &torn);
    if (r < 0)
        return r;
    pools = noded_pools_start(n);
    r = noded_incarnation_start(n);
    if (r == 0)
        r = noded_map_start(n, torn);
    if (r < 0)
        return r;
    if (!pools)
        noded_pools_guess(n);
    name_take(n);
    /* A map of the ranges that were known last: names of the range are ours, whether leased is there or not. */
    if (!node_map_exists(n->map))
        noded_map_shape(n);
    r = noded_sweep_start(n);
    return r < 0 ? r : noded_deferred_start(n);
}

static void must(int r)
{
    if (r < 0) {
        log_error(NULL, "the event loop: %s", err_text(r));
        abort();
    }
}

void noded_session_start(struct noded *n)
{
    static const struct session_ops ops = {
        .hello = op_hello,
        .welcome = op_welcome,
        .pool = noded_op_pool,
        .pool_blocked = noded_op_pool_blocked,
        .pool_leftover = noded_op_pool_leftover,
        .pool_gone = noded_op_pool_gone,
        .lease = op_lease,
        .changed = op_changed,
        .look_ahead = noded_op_look_ahead,
        .sweep_now = op_sweep_now,
        .dry_run = noded_op_dry_run,
        .overlap = noded_op_overlap,
        .heard = op_heard,
        .ended = op_ended,
    };
    struct session_options options = {
        .node = n->node,
        .servers = n->settings->servers.items,
        .n_servers = n->settings->servers.n,
        .keys = n->keys,
    };
    must(session_new(n->loop, &options, &ops, n, &n->session));
}

static void loop_start(struct noded *n)
{
    static const int signums[] = {SIGTERM, SIGINT, SIGHUP};

    must(loop_new(&n->loop));
    must(loop_soon_new(n->loop, settle, n, &n->soon));
    must(loop_timer_new(n->loop, settle, n, &n->timer));
    must(loop_timer_new(n->loop, beat, n, &n->beat));
    must(loop_timer_new(n->loop, watchdog, n, &n->watchdog));
    must(loop_timer_new(n->loop, out_of_patience, n, &n->patience));
    for (size_t i = 0; i < ARRAY_LEN(signums); i++)
        must(loop_signal_new(n->loop, signums[i], on_signal, n, &n->signals[i]));
    n->accounts = accounts_new(n->loop, n->program, n->argv_accounts);
    n->overlap.accounts = accounts_new(n->loop, n->program, n->argv_accounts);
}

static void loop_end(struct noded *n)
{
    if (!n->loop)
        return;
    accounts_free(n->accounts);
    accounts_free(n->overlap.accounts);
    noded_tls_end(n);
    for (size_t i = 0; i < ARRAY_LEN(n->signals); i++)
        loop_signal_free(n->signals[i]);
    loop_timer_free(n->patience);
    loop_timer_free(n->watchdog);
    loop_timer_free(n->beat);
    loop_timer_free(n->timer);
    loop_soon_free(n->soon);
    loop_free(n->loop);
}

static int start(struct noded *n)
{
    static const struct state_ops ops = {
        .map_set = noded_op_map_set,
        .map_mark = noded_op_map_mark,
        .map_retire = noded_op_map_retire,
        .persist = noded_op_persist,
        .vet = noded_op_vet,
        .sweep = noded_op_sweep,
        .kill = noded_op_kill,
        .say = noded_op_say,
    };
    const struct state_limits limits = {0};
    int r;

    if (geteuid() != 0) {
        log_error(NULL, "noded must run as root");
        return -EPERM;
    }
    files_limit_raise();
    r = who_am_i(n);
    if (r == 0)
        r = folders_start(n);
    if (r < 0)
        return r;
    n->state = state_new(&limits, &ops, n);
    n->ahead = mem_must_calloc(AHEAD_PLACES, sizeof(*n->ahead));
    loop_start(n);
    n->started_ms = loop_now_fresh_ms();
    n->checked_ms = n->started_ms;
    guard_init(&n->guard,
               &(struct guard_limits){n->settings->guard_ms, n->settings->guard_idle_ms});
    r = past_start(n);
    if (r == 0)
        noded_tls_start(n);
    return r;
}

static void run(struct noded *n)
{
    int64_t watchdog_ms = daemon_watchdog_ms();

    if (watchdog_ms > 0)
        loop_timer_start(n->watchdog, watchdog_ms, watchdog_ms);
    loop_timer_start(n->beat, 0, BEAT_MS);
    log_notice(LOG_FIELDS(.message_id = LOG_ID_STARTED, .node = n->node), "started%s",
               n->clean_start ? ", where the one before ended in order" : "");
    daemon_ready("started");
    noded_touch(n);
    loop_run(n->loop);
}

/* In order: what the map and the disk hold is all there is, and the next one may say so. If it is not all (what has retired
 * is not looked through yet, what this node left, what the map had no room for), leased is asked for the rest. */
static void leave_in_order(struct noded *n)
{
    char text[FS_ID_BUF + 8];
    size_t n_left;
    bool all;

    (void)state_left(n->state, &n_left);
    all = !n->retired.n && !n_left && !list_wanted(n) && state_is_in_map(n->state);
    node_map_close(n->map, true);
    n->map = NULL;
    /* leased has not heard yet that the one before us did not end so. */
    if (!n->clean_start && !n->had_session)
        return;
    (void)snprintf(text, sizeof(text), "%s%s", n->boot_id, all ? "" : " list");
    if (fs_write_file(AT_FDCWD, n->clean_path, text, strlen(text), 0600) < 0)
        log_warning(NULL, "%s: cannot be written: the next start counts as one after a crash",
                    n->clean_path);
}

static void end(struct noded *n)
{
    loop_end(n);
    if (n->sweeper)
        noded_sweep_stop(n);
    node_map_close(n->map, false);
    epochs_close(n->epochs);
    state_free(n->state);
    verdicts_done(&n->held);
    noded_deferred_done(n);
    free(n->ahead);
    free(n->ahead_told.items);
    free(n->ahead_sweep.items);
    free(n->left_sweep.items);
    free(n->found);
    free(n->leftover.items);
    free(n->leftover_sweep.items);
    retired_done(&n->retired);
    free(n->sweep_next.items);
    free(n->kill_next.items);
    free(n->blocked.items);
    (void)mem_close(n->lock_fd);
    free(n);
}

int noded_run(struct conf **conf, const char *program)
{
    struct noded *n = mem_must_calloc(1, sizeof(*n));
    int r;

    n->lock_fd = -1;
    n->conf = conf;
    n->settings = conf_settings(*conf);
    n->program = program;
    n->argv_accounts[0] = (char *)(uintptr_t) "noded";
    n->argv_accounts[1] = (char *)(uintptr_t)NODED_ACCOUNTS_OPTION;
    r = start(n);
    if (r == 0) {
        run(n);
        leave_in_order(n);
        if (n->n_hung) { /* threads that can not be waited for use what would be freed */
            log_close();
            _exit(0);
        }
    }
    end(n);
    return r < 0 ? 1 : 0;
}
