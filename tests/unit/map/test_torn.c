/* Readers while the writer changes records under them: each answer is one that was written, whole, and there always is
 * one. Two million reads; a thousand million with XCE_TEST_LONG=1. */
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <cmocka.h>

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
    assert_int_equal(map_writer_set(f->writer, &lease), 0);
    atomic_store(&race->done[at], epoch);
}

/* 10,000 changes a second, in bursts of 10 with none of them waited for by a reader; 0 = as many as there can be. */
static uint64_t write_while_read(struct map_fixture *f, struct race *race, long pause_ns)
{
    const struct timespec pause = {0, pause_ns};
    uint32_t n = 0;

    while (atomic_load(&race->running) > 0) {
        for (int i = 0; i < 10; i++)
            write_one(f, race, n++);
        if (pause_ns > 0)
            (void)nanosleep(&pause, NULL);
    }
    return n;
}

static void run(uint64_t reads, long pause_ns)
{
    static struct race race;
    pthread_t readers[N_READERS];
    struct map_fixture f;
    uint64_t changes;

    memset(&race, 0, sizeof(race));
    fixture_begin(&f);
    fixture_start(&f);
    /* more than it uses: no new file to make room for gids */
    fixture_shape(&f, 1024);
    for (uint32_t i = 0; i < N_UIDS; i++)
        write_one(&f, &race, i);
    for (uint32_t i = 0; i < N_UIDS; i++)
        assert_true(atomic_load(&race.done[i]) > 0);
    assert_int_equal(map_open(f.path, &race.map, NULL, NULL), 0);
    race.reads_each = reads / N_READERS;
    atomic_store(&race.running, N_READERS);
    for (int i = 0; i < N_READERS; i++)
        assert_int_equal(pthread_create(&readers[i], NULL, read_on, &race), 0);
    changes = write_while_read(&f, &race, pause_ns);
    for (int i = 0; i < N_READERS; i++)
        assert_int_equal(pthread_join(readers[i], NULL), 0);
    print_message("%ju reads, %ju changes: %ju torn, %ju missing, %ju stale\n", (uintmax_t)reads,
                  (uintmax_t)changes, (uintmax_t)race.torn, (uintmax_t)race.missing,
                  (uintmax_t)race.stale);
    assert_true(changes > 0);
    assert_int_equal(race.torn + race.missing + race.stale, 0);
    map_close(&race.map);
    fixture_end(&f);
}

static void torn_none_at_10000_changes_a_second(void **state)
{
    (void)state;
    run(fixture_long() ? 1000000000 : 2000000, 900000);
}

static void torn_none_at_full_speed(void **state)
{
    (void)state;
    run(fixture_long() ? 100000000 : 2000000, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(torn_none_at_10000_changes_a_second),
        cmocka_unit_test(torn_none_at_full_speed),
    };

    if (fixture_cannot_run())
        return 77;
    return cmocka_run_group_tests(tests, NULL, NULL);
}
