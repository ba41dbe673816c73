#include "tests/lib/map_race.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "map/name.h"
#include "tests/lib/map_fixture.h"

#define N_READERS 8
#define N_UIDS    32
#define BASE      FIXTURE_BASE

struct race {
    struct map map;
    uint64_t reads_each;
    /* epochs of the record that writer has begun to write, and has written */
    _Atomic uint32_t began[N_UIDS], done[N_UIDS];
    _Atomic uint64_t torn, missing, stale;
    _Atomic int running;
};

/* All that is written follows from uid and epoch. */
static void make(uint32_t uid, uint32_t epoch, struct map_lease *lease, char home[32],
                 char gecos[32], uint32_t gids[40])
{
    *lease = fixture_lease(uid, epoch);
    (void)snprintf(home, 32, "/h/%u", epoch % 61);
    (void)snprintf(gecos, 32, "%u", epoch * 2654435761u);
    lease->home = home;
    lease->gecos = gecos;
    lease->state = XCE_MAP_GRANTED + epoch % 5;
    lease->gids = gids;
    lease->n_gids = epoch % 40;
    for (uint32_t i = 0; i < lease->n_gids; i++)
        gids[i] = (epoch ^ uid) + i + 1;
}

static bool whole(const struct map_entry *e, uint32_t uid)
{
    struct map_lease lease;
    char home[32], gecos[32], name[NAME_BUF];
    uint32_t gids[40];

    make(uid, e->record.epoch, &lease, home, gecos, gids);
    (void)name_encode("xce-", uid, e->record.epoch, name);
    return e->record.uid == uid && e->record.lease == lease.lease &&
           e->record.revision == lease.revision && e->record.state == lease.state &&
           strcmp(map_name(e), name) == 0 && strcmp(map_gecos(e), gecos) == 0 &&
           strcmp(map_home(e), home) == 0 && e->record.n_gids == lease.n_gids &&
           memcmp(map_gids(e), gids, 4 * lease.n_gids) == 0;
}

static void *read_on(void *arg)
{
    struct race *race = arg;
    struct map_entry e;

    for (uint64_t i = 0; i < race->reads_each; i++) {
        uint32_t at = (uint32_t)(i * 2654435761u >> 7) % N_UIDS, uid = BASE + at;
        uint32_t before = atomic_load(&race->done[at]);

        if (map_find_uid(&race->map, uid, MAP_WANT_PAIR | MAP_WANT_GIDS, &e) != 0)
            atomic_fetch_add(&race->missing, 1);
        else if (!whole(&e, uid))
            atomic_fetch_add(&race->torn, 1);
        else if (e.record.epoch < before || e.record.epoch > atomic_load(&race->began[at]))
            atomic_fetch_add(&race->stale, 1);
    }
    atomic_fetch_sub(&race->running, 1);
    return NULL;
}

static void write_one(struct map_fixture *f, struct race *race, uint32_t n)
{
    uint32_t at = n * 7 % N_UIDS, epoch = atomic_load(&race->done[at]) + 1, gids[40];
    struct map_lease lease;
    char home[32], gecos[32];

    make(BASE + at, epoch, &lease, home, gecos, gids);
    atomic_store(&race->began[at], epoch);
    if (map_writer_set(f->writer, &lease) != 0)
        abort();
    atomic_store(&race->done[at], epoch);
}

static double now_s(void)
{
    struct timespec now;

    (void)clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + (double)now.tv_nsec / 1e9;
}

/* A burst each millisecond; what a late wake-up left out is made good. */
static uint64_t write_while_read(struct map_fixture *f, struct race *race, uint32_t per_second)
{
    const struct timespec pause = {0, 1000000};
    double from = now_s();
    uint32_t n = 0;

    while (atomic_load(&race->running) > 0) {
        uint32_t goal = per_second ? (uint32_t)((now_s() - from) * per_second) : n + 100;

        while (n < goal)
            write_one(f, race, n++);
        if (per_second)
            (void)nanosleep(&pause, NULL);
    }
    return n;
}

struct race_result race_run(uint64_t reads, uint32_t per_second)
{
    struct race *race = calloc(1, sizeof(*race));
    pthread_t readers[N_READERS];
    struct race_result result = {.reads = reads / N_READERS * N_READERS};
    struct map_fixture f;
    double from;

    if (!race)
        abort();
    fixture_begin(&f);
    fixture_start(&f);
    /* more than it uses: no new file to make room for gids */
    fixture_shape(&f, 1024);
    for (uint32_t i = 0; i < N_UIDS; i++)
        write_one(&f, race, i);
    if (map_open(f.path, &race->map, NULL, NULL) != 0)
        abort();
    race->reads_each = reads / N_READERS;
    atomic_store(&race->running, N_READERS);
    from = now_s();
    for (int i = 0; i < N_READERS; i++)
        if (pthread_create(&readers[i], NULL, read_on, race) != 0)
            abort();
    result.changes = write_while_read(&f, race, per_second);
    for (int i = 0; i < N_READERS; i++)
        (void)pthread_join(readers[i], NULL);
    result.seconds = now_s() - from;
    result.torn = race->torn;
    result.missing = race->missing;
    result.stale = race->stale;
    map_close(&race->map);
    fixture_end(&f);
    free(race);
    return result;
}
