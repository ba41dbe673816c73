/* The process beside noded that ends what is here when its validity has passed and noded does not do it: it is stopped or
 * masked, hangs where not even SIGKILL reaches it, is killed again and again, or can not start.
 *
 *     every TICK_MS:  when was leased heard (the map), which validity (the pools' file)?
 *                     LATE_MS past a deadline:  whatever the map still calls here of that pool is ended, again each time;
 *                     and what noded has closed, but which still runs in its slice
 *
 * noded has closed admission by then and killed what ran, if it or its successor works: then nothing is done. It writes
 * nothing; what is dead is swept, and said, by the next noded. docs/decisions/0017 */
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/daemon.h"
#include "common/err.h"
#include "common/log.h"
#include "common/mem.h"
#include "common/net/loop.h"
#include "map/read.h"
#include "noded/noded.h"
#include "noded/noded_inside.h"
#include "noded/noded_pools_file.h"

#define TICK_MS     2000
#define LATE_MS     18000
#define VALIDITY_MS 3600000 /* of what is in no pool that is known */
#define WAIT_MS     1000    /* for what was killed to end */
#define POOLS_TICKS 5       /* so long the first look at the pools' file is waited for */
#define ASK_MS      6000
#define BATCH       COLLIDE_UIDS_MAX
#define DUE_MAX     (1u << 20)

struct standby {
    struct loop *loop;
    struct loop_timer *tick;
    struct loop_signal *signals[2];
    struct accounts *accounts;
    char *argv[3];
    char map_path[256], pools_path[256], cgroup[256];
    atomic_bool stopping;
    bool busy;
    int64_t since_ms; /* as long as the map does not say when leased was heard; 0 = it does */

    /* The pools are read on another thread: a disk that dies, as noded may have, holds up that one alone. */
    struct pools_file pools, pools_read; /* the last ones that were sound; that thread's */
    int pools_r;
    bool pools_known, reading;
    unsigned waited; /* ticks */
    bool map_told;   /* that the map can not be read */

    uint32_t *due; /* ascending: what runs in their slices is to end */
    size_t n_due, cap_due;
    uint32_t *here; /* of these, those that are here: all that runs is */
    size_t n_here, cap_here, asked;
    uint32_t *free; /* of these, those that nobody else has */
    size_t n_free;
    unsigned stages; /* of the sweep under way */
    struct looker looker;
    struct sweep sweep;
    struct sweep_list list;
};

/* ---- what is due ---- */

/* Since when leased was not heard, as the map says: mono, ms. */
static int64_t heard_ms(struct standby *s, const struct map *map, int64_t now_ms)
{
    struct map_status status;

    map_status(map, &status);
    if (status.heard_boot_ms > 0 && (int64_t)status.heard_boot_ms <= now_ms) {
        s->since_ms = 0;
        return (int64_t)status.heard_boot_ms;
    }
    if (s->since_ms == 0)
        s->since_ms = now_ms;
    return s->since_ms;
}

static int64_t validity_ms(const struct pools_file *file, uint32_t uid)
{
    for (size_t i = 0; i < file->n_pools; i++)
        if (uid >= file->pools[i].first && uid <= file->pools[i].last)
            return file->pools[i].validity_ms > 0 ? file->pools[i].validity_ms : INT64_MAX / 2;
    return VALIDITY_MS;
}

static void uid_add(uint32_t **uids, size_t *n, size_t *cap, uint32_t uid)
{
    if (mem_grow(uids, cap, *n + 1, DUE_MAX, sizeof(**uids)) == 0)
        (*uids)[(*n)++] = uid;
}

/* Whether it is to end, once its validity has passed. */
static void due_add(struct standby *s, const struct map_entry *entry)
{
    uint32_t uid = entry->record.uid;

    if (map_here(entry))
        uid_add(&s->here, &s->n_here, &s->cap_here, uid);
    else if (!map_ended(entry) || !sweep_slice_runs(&s->looker.places, uid))
        return;
    uid_add(&s->due, &s->n_due, &s->cap_due, uid);
}

static int64_t shortest_ms(const struct pools_file *file)
{
    int64_t shortest = VALIDITY_MS;

    for (size_t i = 0; i < file->n_pools; i++)
        if (file->pools[i].validity_ms > 0 && file->pools[i].validity_ms < shortest)
            shortest = file->pools[i].validity_ms;
    return shortest;
}

/* All that is here, or runs, and should not any more. */
static void due_find(struct standby *s, const struct map *map)
{
    int64_t now_ms = loop_now_fresh_ms(), silent_ms = now_ms - heard_ms(s, map, now_ms) - LATE_MS;
    struct map_entry entry;

    s->n_due = s->n_here = 0;
    if (silent_ms < shortest_ms(&s->pools))
        return;
    for (uint32_t uid = 0; map_next(map, uid, MAP_WANT_RECORD, &entry) == 0;
         uid = entry.record.uid + 1)
        if (silent_ms >= validity_ms(&s->pools, entry.record.uid))
            due_add(s, &entry);
}

/* Again at the last moment: noded may be back, and have closed it, or heard leased. In the slice of what is closed nothing is
 * sanctioned, whoever is back. */
static bool is_due(uint32_t uid, void *arg)
{
    struct standby *s = arg;
    struct node_map_reader *map = &s->looker.map;

    return sweep_list_has(uid, &s->list) && !atomic_load(&s->stopping) &&
           ((s->stages == SWEEP_SLICES && node_map_closed(map, uid)) ||
            (node_map_here(map, uid) && !map->unsure));
}

/* ---- ending it ---- */

static void finish(struct standby *s)
{
    sweep_done(&s->sweep);
    node_map_reader_done(&s->looker.map);
    s->busy = false;
}

static void sweep_set(struct standby *s, unsigned stages, const uint32_t *uids, size_t n_uids)
{
    s->stages = stages;
    s->list = (struct sweep_list){uids, n_uids};
    s->looker.min = uids[0];
    s->looker.max = uids[n_uids - 1];
    s->sweep = (struct sweep){
        .places = &s->looker.places,
        .ids = {uids[0], uids[n_uids - 1], is_due, s},
        .uids = uids,
        .n_uids = n_uids,
        .remove = true,
        .wait_ms = WAIT_MS,
    };
}

static void sweep_work(void *arg)
{
    struct standby *s = arg;

    sweep_run(&s->sweep, s->stages);
}

static void ended(int r, void *arg)
{
    (void)r;
    finish(arg);
}

static void ask(struct standby *s);

/* What somebody else has, or may have, is not touched beyond our own slices. */
static void asked(int r, const struct collide_answer *answer, void *arg)
{
    struct standby *s = arg;
    size_t from = s->asked;

    s->asked += s->n_here - from < BATCH ? s->n_here - from : BATCH;
    for (size_t i = from; r == 0 && answer->total <= answer->n && i < s->asked; i++) {
        bool has = false;
        for (uint32_t j = 0; j < answer->n; j++)
            has |= answer->found[j].uid == s->here[i];
        if (!has)
            s->free[s->n_free++] = s->here[i];
    }
    if (r == 0 && s->asked < s->n_here) {
        ask(s);
        return;
    }
    if (r < 0)
        log_warning(NULL, "the name services of this machine do not answer: what runs beside the "
                          "slices of leases is left alone");
    if (s->n_free == 0 || atomic_load(&s->stopping)) {
        finish(s);
        return;
    }
    sweep_done(&s->sweep);
    sweep_set(s, SWEEP_RUNNING, s->free, s->n_free);
    if (loop_work_submit(s->loop, sweep_work, ended, s) < 0)
        finish(s);
}

static void ask(struct standby *s)
{
    struct collide_question q = {.kind = COLLIDE_UIDS};

    memcpy(q.prefix, s->pools.prefix, sizeof(s->pools.prefix));
    for (size_t i = s->asked; i < s->n_here && q.n < BATCH; i++)
        q.uids[q.n++] = (struct collide_uid){s->here[i], 0};
    accounts_ask(s->accounts, &q, ASK_MS, asked, s);
}

static void slices_ended(int r, void *arg)
{
    struct standby *s = arg;

    s->asked = s->n_free = 0;
    free(s->free);
    s->free = mem_must_calloc(s->n_here + 1, sizeof(*s->free));
    if (r < 0 || s->n_here == 0 || atomic_load(&s->stopping))
        finish(s);
    else
        ask(s);
}

static void end_due(struct standby *s)
{
    log_error(
        NULL,
        "leased was not heard for the validity of %zu leases that are here, and noded has not "
        "ended them; of %zu that it has closed something still runs: all that is killed",
        s->n_here, s->n_due - s->n_here);
    s->busy = true;
    memcpy(s->looker.prefix, s->pools.prefix, sizeof(s->looker.prefix));
    bus_prefix(s->looker.bus, s->looker.prefix);
    s->looker.map = (struct node_map_reader){.path = s->map_path};
    sweep_set(s, SWEEP_SLICES, s->due, s->n_due);
    if (loop_work_submit(s->loop, sweep_work, slices_ended, s) < 0)
        finish(s);
}

/* ---- look ---- */

/* After an upgrade a file of the same name has taken the place of the one that runs. */
static bool is_replaced(void)
{
    static const char gone[] = " (deleted)";
    char path[512];
    ssize_t n = readlink("/proc/self/exe", path, sizeof(path));

    return n >= (ssize_t)strlen(gone) && memcmp(path + n - strlen(gone), gone, strlen(gone)) == 0;
}

/* Without a map nothing is here. One that is just being replaced is read at the next tick. */
static void map_trouble(struct standby *s, int r, const char *why)
{
    if (r == -ENOENT || r == -ESTALE)
        return;
    if (is_replaced()) {
        log_notice(NULL,
                   "%s: %s, and another version of the program is installed: ending, for that "
                   "one to begin",
                   s->map_path, why ? why : err_text(r));
        atomic_store(&s->stopping, true);
        loop_stop(s->loop);
        return;
    }
    if (!s->map_told)
        log_error(NULL, "%s: %s: as long as it is so the stand-by can end nothing here",
                  s->map_path, why ? why : err_text(r));
    s->map_told = true;
}

static void look(struct standby *s)
{
    const char *why = NULL;
    struct map map;
    int r;

    if (s->busy || atomic_load(&s->stopping))
        return;
    r = map_open(s->map_path, &map, NULL, &why);
    if (r < 0) {
        map_trouble(s, r, why);
        return;
    }
    s->map_told = false;
    due_find(s, &map);
    map_close(&map);
    if (s->n_due)
        end_due(s);
}

static void pools_work(void *arg)
{
    struct standby *s = arg;

    s->pools_r = pools_file_read(s->pools_path, &s->pools_read);
}

/* If they can not be read, or are not sound, those that were count. */
static void pools_done(int r, void *arg)
{
    struct standby *s = arg;

    s->reading = false;
    s->pools_known = true;
    if (r == 0 && s->pools_r == 0)
        s->pools = s->pools_read;
    look(s);
}

static void tick(void *arg)
{
    struct standby *s = arg;

    daemon_watchdog();
    if (!s->reading && loop_work_submit(s->loop, pools_work, pools_done, s) == 0)
        s->reading = true;
    else if (s->pools_known || ++s->waited > POOLS_TICKS)
        look(s);
}

/* ---- start and end ---- */

static void on_signal(int signum, void *arg)
{
    struct standby *s = arg;

    (void)signum;
    atomic_store(&s->stopping, true);
    loop_stop(s->loop);
}

static int units_list(sweep_unit_fn found, void *found_arg, void *arg)
{
    struct standby *s = arg;
    int r = bus_units(s->looker.bus, s->looker.min, s->looker.max, found, found_arg);

    return r == BUS_NO_MANAGER ? 0 : r;
}

static int units_stop(const char *unit, int64_t wait_ms, void *arg)
{
    return bus_stop(((struct standby *)arg)->looker.bus, unit, wait_ms);
}

static void looker_start(struct standby *s)
{
    struct looker *looker = &s->looker;

    looker->bus = bus_new("");
    looker->units = (struct sweep_units){units_list, units_stop, NULL, s};
    looker->places = (struct sweep_places){
        .prefix = looker->prefix,
        .cgroup = *s->cgroup ? s->cgroup : NULL,
        .slice = NODED_SLICE,
        .proc = "/proc",
        .units = &looker->units,
    };
}

static void settings_take(struct standby *s, const struct noded_settings *settings)
{
    (void)snprintf(s->map_path, sizeof(s->map_path), "%s/uidmap", settings->runtime_dir);
    (void)snprintf(s->pools_path, sizeof(s->pools_path), "%s/pools", settings->state_dir);
    if (*settings->cgroup)
        (void)snprintf(s->cgroup, sizeof(s->cgroup), "%s", settings->cgroup);
    else if (noded_cgroup_find(s->cgroup, sizeof(s->cgroup)) < 0)
        s->cgroup[0] = '\0';
}

static int settings_read(struct standby *s, const char *conf_path)
{
    AUTO(conf_free) struct conf *conf = NULL;
    struct err err = {{0}};
    int r = conf_load(&noded_conf, conf_path, false, NULL, 0, &conf, &err);

    if (r < 0) {
        log_error(LOG_FIELDS(.message_id = LOG_ID_CONFIG_BAD), "%s; going on with the defaults",
                  err.text);
        r = conf_load_bytes(&noded_conf, "defaults", "", 0, &conf, &err);
    }
    if (r == 0)
        settings_take(s, conf_settings(conf));
    return r;
}

static int start(struct standby *s, const char *program)
{
    static const int signums[] = {SIGTERM, SIGINT};
    int r = loop_new(&s->loop);

    if (r == 0)
        r = loop_timer_new(s->loop, tick, s, &s->tick);
    for (size_t i = 0; r == 0 && i < ARRAY_LEN(signums); i++)
        r = loop_signal_new(s->loop, signums[i], on_signal, s, &s->signals[i]);
    if (r < 0)
        return r;
    s->argv[0] = (char *)(uintptr_t) "noded";
    s->argv[1] = (char *)(uintptr_t)NODED_ACCOUNTS_OPTION;
    s->accounts = accounts_new(s->loop, program, s->argv);
    looker_start(s);
    loop_timer_start(s->tick, 0, TICK_MS);
    return 0;
}

int noded_standby(const char *conf_path, const char *program)
{
    struct standby *s = mem_must_calloc(1, sizeof(*s));
    int r;

    fs_fill_standard();
    (void)umask(0077);
    (void)signal(SIGPIPE, SIG_IGN);
    log_open(&(const struct log_options){.ident = "noded", .level = LOG_INFO, .timestamps = true});
    r = settings_read(s, conf_path);
    if (r == 0)
        r = start(s, program);
    if (r < 0) {
        log_error(NULL, "the stand-by of noded can not start: %s", err_text(r));
        return 1;
    }
    daemon_ready("standing by");
    loop_run(s->loop);
    log_close();
    /* It holds nothing that would have to be put in order, and another thread may be waiting for somebody's end. */
    _exit(0);
}
