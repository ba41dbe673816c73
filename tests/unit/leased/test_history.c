/* History: who had a uid at a time; told again, crashed, full, damaged, lagging. */
#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <sqlite3.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "common/clock.h"
#include "common/net/loop.h"
#include "leased/history/history.h"
#include "tests/lib/disk_fault.h"

#define UID_FIRST 2013265920u
#define WALL      1700000000000 /* when revision 0 was */

/* A child is forked while this program has had threads. */
__attribute__((visibility("default"))) const char *__tsan_default_options(void);
const char *__tsan_default_options(void)
{
    return "die_after_fork=0";
}

struct fixture {
    char folder[64], path[96];
    struct loop *loop;
    struct history *history;
    uint8_t incarnation[16];
    uint64_t revision;
    int64_t wall_ms;
    int health;
    char what[HISTORY_WHY_MAX], why[HISTORY_WHY_MAX];
    bool closed;

    /* The last answer. */
    bool answered;
    int r;
    size_t n;
    uint64_t answer_revision;
    struct history_entry first;
    char pool[64], job[64], owner[64], nodes[256], note[HISTORY_WHY_MAX];
};

static struct fsm_node nodes[] = {{.name = "n1"}, {.name = "n2"}, {.name = "n3"}};

/* ---- words ---- */

static void health_changed(int r, const char *what, void *arg)
{
    struct fixture *fx = arg;

    fx->health = r;
    (void)snprintf(fx->what, sizeof fx->what, "%s", what);
}

static int open_history(struct fixture *fx, size_t lag)
{
    struct history_options options = {.lag_bytes = lag};
    int r = history_open(fx->loop, fx->path, &options, health_changed, fx, &fx->history, fx->why);

    if (r < 0)
        fx->history = NULL;
    return r;
}

static void note_closed(void *arg)
{
    ((struct fixture *)arg)->closed = true;
}

static void close_history(struct fixture *fx)
{
    if (!fx->history)
        return;
    fx->closed = false;
    history_close(fx->history, note_closed, fx);
    while (!fx->closed)
        loop_step(fx->loop, 1000);
    fx->history = NULL;
}

static int setup(void **state)
{
    struct fixture *fx = calloc(1, sizeof *fx);

    (void)snprintf(fx->folder, sizeof fx->folder, "/var/tmp/xce-history.XXXXXX");
    assert_non_null(mkdtemp(fx->folder));
    (void)snprintf(fx->path, sizeof fx->path, "%s/history.db", fx->folder);
    assert_int_equal(loop_new(&fx->loop), 0);
    memset(fx->incarnation, 7, sizeof fx->incarnation);
    fx->wall_ms = WALL;
    if (open_history(fx, 0) < 0)
        fail_msg("%s", fx->why);
    *state = fx;
    return 0;
}

static void remove_file(const struct fixture *fx, const char *suffix)
{
    char name[128];

    (void)snprintf(name, sizeof name, "%s%s", fx->path, suffix);
    (void)unlink(name);
}

static void remove_files(const struct fixture *fx)
{
    remove_file(fx, "");
    remove_file(fx, "-wal");
    remove_file(fx, "-shm");
}

static int teardown(void **state)
{
    struct fixture *fx = *state;

    disk_fault_disarm();
    close_history(fx);
    loop_free(fx->loop);
    remove_files(fx);
    assert_int_equal(rmdir(fx->folder), 0);
    free(fx);
    return 0;
}

/* Lease id (from 1) of a pool of n uids that are given out in turn. */
static void fill(struct fsm_lease *lease, struct fsm_member *members, uint64_t id, uint32_t n,
                 enum lease_state state)
{
    memset(members, 0, 2 * sizeof *members);
    members[0].node = &nodes[id % 3];
    members[1].node = &nodes[(id + 1) % 3];
    *lease = (struct fsm_lease){
        .id = id,
        .uid = UID_FIRST + (uint32_t)((id - 1) % n),
        .epoch = (uint32_t)((id - 1) / n) + 1,
        .state = state,
        .cause = state >= LEASE_DRAINING ? END_RELEASE : END_NONE,
        .pool = "main",
        .job = id % 2 ? "job" : "",
        .owner = {"alice", 1000 + (uint32_t)(id % 2), 100},
        .members = members,
        .n_members = id % 2 ? 2 : 1,
    };
}

/* One change, a second after the one before. raised: how far its epoch has risen since it was granted. */
static void tell_raised(struct fixture *fx, uint64_t id, uint32_t n, enum lease_state state,
                        int64_t granted_wall_ms, uint32_t raised)
{
    struct fsm_member members[2];
    struct fsm_lease lease;
    struct fsm_change change = {.kind = CHANGE_LEASE, .lease = &lease};

    fill(&lease, members, id, n, state);
    lease.epoch += raised;
    fx->revision++;
    fx->wall_ms = WALL + (int64_t)fx->revision * 1000;
    lease.granted_wall_ms = granted_wall_ms ? granted_wall_ms : fx->wall_ms;
    lease.revision = change.revision = fx->revision;
    change.wall_ms = fx->wall_ms;
    history_changed(fx->history, fx->incarnation, &change);
}

static void tell(struct fixture *fx, uint64_t id, uint32_t n, enum lease_state state,
                 int64_t granted_wall_ms)
{
    tell_raised(fx, id, n, state, granted_wall_ms, 0);
}

#define CHANGES 6 /* of a whole life */

/* The whole life of a lease, six changes. */
static void live(struct fixture *fx, uint64_t id, uint32_t n)
{
    static const enum lease_state states[CHANGES] = {LEASE_GRANTED, LEASE_ACTIVE,  LEASE_DRAINING,
                                                     LEASE_COOLING, LEASE_RETIRED, LEASE_FREE};
    int64_t granted = WALL + (int64_t)(fx->revision + 1) * 1000;

    for (size_t i = 0; i < CHANGES; i++)
        tell(fx, id, n, states[i], granted);
}

static void take_answer(int r, const struct history_entry *entries, size_t n, uint64_t revision,
                        const char *why, void *arg)
{
    struct fixture *fx = arg;

    assert_false(fx->answered);
    fx->answered = true;
    fx->r = r;
    fx->n = n;
    fx->answer_revision = revision;
    (void)snprintf(fx->note, sizeof fx->note, "%s", why);
    if (n == 0)
        return;
    fx->first = entries[0];
    (void)snprintf(fx->pool, sizeof fx->pool, "%s", entries[0].pool);
    (void)snprintf(fx->job, sizeof fx->job, "%s", entries[0].job);
    (void)snprintf(fx->owner, sizeof fx->owner, "%s", entries[0].owner_name);
    (void)snprintf(fx->nodes, sizeof fx->nodes, "%s", entries[0].nodes);
    for (size_t i = 1; i < n; i++)
        assert_true(entries[i].granted_wall_ms <= entries[i - 1].granted_wall_ms);
}

static void ask(struct fixture *fx, const struct history_query *query)
{
    fx->answered = false;
    fx->n = 0;
    history_ask(fx->history, query, take_answer, fx);
    assert_false(fx->answered);
    while (!fx->answered)
        loop_step(fx->loop, 1000);
    if (fx->r < 0 && !disk_fault_hits())
        fail_msg("%d %s", fx->r, fx->note);
}

/* Who had the uid then; 0 = nobody. */
static uint64_t who(struct fixture *fx, uint32_t uid, int64_t at)
{
    ask(fx,
        &(struct history_query){.by = HISTORY_BY_UID, .uid = uid, .at_wall_ms = at, .limit = 100});
    assert_true(fx->n <= 1);
    return fx->n ? fx->first.lease : 0;
}

/* Run the loop until the revision is durable and all is well. */
static void wait_durable(struct fixture *fx)
{
    int64_t until = clock_mono_ms() + 60000;

    while (history_revision(fx->history) < fx->revision || fx->health < 0) {
        loop_step(fx->loop, 100);
        if (clock_mono_ms() > until)
            fail_msg("revision %lu stays at %lu: %s", fx->revision, history_revision(fx->history),
                     fx->what);
    }
}

static int64_t sql_number(const struct fixture *fx, const char *sql)
{
    sqlite3 *db;
    sqlite3_stmt *statement;
    int64_t value;

    assert_int_equal(sqlite3_open(fx->path, &db), SQLITE_OK);
    assert_int_equal(sqlite3_prepare_v2(db, sql, -1, &statement, NULL), SQLITE_OK);
    assert_int_equal(sqlite3_step(statement), SQLITE_ROW);
    value = sqlite3_column_int64(statement, 0);
    (void)sqlite3_finalize(statement);
    assert_int_equal(sqlite3_close(db), SQLITE_OK);
    return value;
}

/* ---- answers ---- */

static void history_knows_who_had_a_uid_at_a_time(void **state)
{
    struct fixture *fx = *state;
    uint32_t uid = UID_FIRST;

    live(fx, 1, 1);                   /* granted at +1 s, retired at +5 s */
    live(fx, 2, 1);                   /* +7 to +11 */
    tell(fx, 3, 1, LEASE_GRANTED, 0); /* +13 */
    assert_int_equal(who(fx, uid, WALL + 999), 0);
    assert_int_equal(who(fx, uid, WALL + 1000), 1);
    assert_int_equal(who(fx, uid, WALL + 4999), 1);
    assert_int_equal(who(fx, uid, WALL + 5000), 0);
    assert_int_equal(who(fx, uid, WALL + 7000), 2);
    assert_int_equal(who(fx, uid, WALL + 11000), 0);
    assert_int_equal(who(fx, uid, WALL + 13000), 3);
    assert_int_equal(who(fx, uid, INT64_MAX), 3);
    assert_int_equal(who(fx, uid + 1, WALL + 7000), 0);
}

static void history_gives_all_of_a_lease(void **state)
{
    struct fixture *fx = *state;

    live(fx, 1, 1);
    ask(fx, &(struct history_query){.by = HISTORY_BY_LEASE, .lease = 1, .limit = 10});
    assert_int_equal(fx->n, 1);
    assert_int_equal(fx->first.uid, UID_FIRST);
    assert_int_equal(fx->first.epoch, 1);
    assert_string_equal(fx->pool, "main");
    assert_string_equal(fx->job, "job");
    assert_string_equal(fx->owner, "alice");
    assert_string_equal(fx->nodes, "n2,n3");
    assert_int_equal(fx->first.owner_uid, 1001);
    assert_int_equal(fx->first.owner_gid, 100);
    assert_int_equal(fx->first.cause, END_RELEASE);
    assert_int_equal(fx->first.granted_wall_ms, WALL + 1000);
    assert_int_equal(fx->first.ended_wall_ms, WALL + 3000);
    assert_int_equal(fx->first.retired_wall_ms, WALL + 5000);
    assert_int_equal(fx->first.freed_wall_ms, WALL + 6000);
    assert_int_equal(fx->answer_revision, 6);
    assert_string_equal(fx->note, "");
}

static void history_lists_newest_first(void **state)
{
    struct fixture *fx = *state;

    for (uint64_t id = 1; id <= 30; id++)
        live(fx, id, 3);
    ask(fx, &(struct history_query){.by = HISTORY_BY_UID, .uid = UID_FIRST, .limit = 4});
    assert_int_equal(fx->n, 4);
    assert_int_equal(fx->first.lease, 28);
    ask(fx, &(struct history_query){.by = HISTORY_BY_UID, .uid = UID_FIRST, .limit = 100});
    assert_int_equal(fx->n, 10);
    ask(fx, &(struct history_query){
                .by = HISTORY_BY_UID_EPOCH, .uid = UID_FIRST + 1, .epoch = 4, .limit = 100});
    assert_int_equal(fx->n, 1);
    assert_int_equal(fx->first.lease, 11);
}

/* After a restore, when a node has seen a higher one: nothing else of the lease need change with it. */
static void history_finds_a_lease_under_the_epoch_that_it_was_raised_to(void **state)
{
    struct fixture *fx = *state;

    tell(fx, 1, 1, LEASE_DRAINING, WALL);
    for (uint32_t raised = 1; raised <= 2; raised++) {
        tell_raised(fx, 1, 1, LEASE_DRAINING, WALL, raised);
        ask(fx, &(struct history_query){
                    .by = HISTORY_BY_UID_EPOCH, .uid = UID_FIRST, .epoch = 1 + raised, .limit = 9});
        assert_int_equal(fx->n, 1);
        assert_int_equal(fx->first.lease, 1);
    }
    ask(fx, &(struct history_query){.by = HISTORY_BY_LEASE, .lease = 1, .limit = 9});
    assert_int_equal(fx->n, 1);
    assert_int_equal(fx->first.epoch, 3);
}

static void history_shows_an_owner_his_own_alone(void **state)
{
    struct fixture *fx = *state;

    live(fx, 1, 1);
    live(fx, 2, 1);
    for (uint32_t owner = 999; owner <= 1001; owner++) {
        struct history_query query = {
            .by = HISTORY_BY_UID, .uid = UID_FIRST, .limit = 10, .own = true, .owner_uid = owner};

        (void)snprintf(query.owner_name, sizeof query.owner_name, "alice");
        ask(fx, &query);
        assert_int_equal(fx->n, owner == 999 ? 0 : 1);
        query.at_wall_ms = WALL + 7000;
        ask(fx, &query);
        assert_int_equal(fx->n, owner == 1000 ? 1 : 0);
        query = (struct history_query){
            .by = HISTORY_BY_LEASE, .lease = 2, .limit = 1, .own = true, .owner_uid = owner};
        (void)snprintf(query.owner_name, sizeof query.owner_name, "alice");
        ask(fx, &query);
        assert_int_equal(fx->n, owner == 1000 ? 1 : 0);
    }
}

/* Of every second lease the job is "job", of owner 1001. */
static void history_finds_a_job_of_its_owner(void **state)
{
    struct fixture *fx = *state;
    struct history_query query = {
        .by = HISTORY_BY_JOB, .limit = 10, .look = 10, .job = "job", .job_owner_uid = 1001};

    for (uint64_t id = 1; id <= 4; id++)
        live(fx, id, 1);
    ask(fx, &query);
    assert_int_equal(fx->n, 2);
    assert_int_equal(fx->first.lease, 3);
    query.at_wall_ms = fx->first.granted_wall_ms - 1;
    ask(fx, &query);
    assert_int_equal(fx->n, 0);
    query.at_wall_ms++;
    ask(fx, &query);
    assert_int_equal(fx->n, 1);
    query.job_owner_uid = 1000;
    ask(fx, &query);
    assert_int_equal(fx->n, 0);
    query = (struct history_query){
        .by = HISTORY_BY_JOB, .limit = 10, .look = 10, .job = "jo", .job_owner_uid = 1001};
    ask(fx, &query);
    assert_int_equal(fx->n, 0);
    assert_string_equal(fx->note, "");
}

/* What is older than it looks is said to be unknown, but where the answer is full without it. */
static void history_of_a_job_says_how_far_it_looked(void **state)
{
    static const struct {
        uint32_t look, limit;
        size_t n;
        bool said;
    } rows[] = {{1, 2, 1, true}, {1, 1, 1, false}, {2, 3, 1, true}, {3, 3, 2, false}};
    struct fixture *fx = *state;

    for (uint64_t id = 1; id <= 3; id++)
        live(fx, id, 1);
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        struct history_query query = {.by = HISTORY_BY_JOB,
                                      .limit = rows[i].limit,
                                      .look = rows[i].look,
                                      .job = "job",
                                      .job_owner_uid = 1001};

        ask(fx, &query);
        assert_int_equal(fx->n, rows[i].n);
        assert_int_equal(strstr(fx->note, "leases were looked through") != NULL, rows[i].said);
    }
}

/* The same uid under another name is another owner; "#1000" only whom the kernel knows by his number. */
static void history_shows_nothing_to_who_has_only_the_owners_uid(void **state)
{
    static const struct {
        const char *name;
        bool nameless, nobody;
        size_t n;
    } rows[] = {{"alice", false, false, 1},
                {"bob", true, false, 0},
                {"#1000", true, false, 0},
                {"", false, false, 0},
                {"alice", true, true, 0}};
    struct fixture *fx = *state;

    live(fx, 2, 1);
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        struct history_query query = {.by = HISTORY_BY_LEASE,
                                      .lease = 2,
                                      .limit = 1,
                                      .own = true,
                                      .owner_nameless = rows[i].nameless,
                                      .nobody = rows[i].nobody,
                                      .owner_uid = 1000};

        (void)snprintf(query.owner_name, sizeof query.owner_name, "%s", rows[i].name);
        ask(fx, &query);
        assert_int_equal(fx->n, rows[i].n);
    }
}

/* A stray found after it was retired: it is in the maps again until it is retired anew. */
static void history_follows_a_lease_back_into_draining(void **state)
{
    struct fixture *fx = *state;
    int64_t granted = WALL + 1000;

    tell(fx, 1, 1, LEASE_GRANTED, granted);
    tell(fx, 1, 1, LEASE_DRAINING, granted); /* +2 s */
    tell(fx, 1, 1, LEASE_RETIRED, granted);  /* +3 */
    tell(fx, 1, 1, LEASE_DRAINING, granted); /* +4 */
    assert_int_equal(who(fx, UID_FIRST, WALL + 4000), 1);
    tell(fx, 1, 1, LEASE_RETIRED, granted); /* +5 */
    tell(fx, 1, 1, LEASE_FREE, granted);
    assert_int_equal(who(fx, UID_FIRST, WALL + 4500), 1);
    assert_int_equal(who(fx, UID_FIRST, WALL + 5000), 0);
    assert_int_equal(fx->n, 0);
    ask(fx, &(struct history_query){.by = HISTORY_BY_LEASE, .lease = 1, .limit = 1});
    assert_int_equal(fx->first.ended_wall_ms, WALL + 2000);
    assert_int_equal(fx->first.retired_wall_ms, WALL + 5000);
    assert_int_equal(fx->first.freed_wall_ms, WALL + 6000);
}

static void history_is_not_written_for_what_it_does_not_keep(void **state)
{
    struct fixture *fx = *state;
    size_t lag;

    tell(fx, 1, 1, LEASE_GRANTED, 0);
    lag = history_lag_bytes(fx->history);
    assert_true(lag > 0);
    for (int i = 0; i < 1000; i++)
        tell(fx, 1, 1, i % 2 ? LEASE_ACTIVE : LEASE_GRANTED, WALL + 1000);
    assert_int_equal(history_lag_bytes(fx->history), lag);
    wait_durable(fx);
    assert_int_equal(history_lag_bytes(fx->history), 0);
}

/* ---- restarts ---- */

static void history_told_again_after_a_restart_is_the_same(void **state)
{
    struct fixture *fx = *state;

    for (uint64_t id = 1; id <= 50; id++)
        live(fx, id, 5);
    close_history(fx);
    assert_int_equal(open_history(fx, 0), 0);
    assert_int_equal(history_revision(fx->history), 300);
    /* The log is replayed from its beginning, then goes on. */
    fx->revision = 0;
    for (uint64_t id = 1; id <= 51; id++)
        live(fx, id, 5);
    wait_durable(fx);
    assert_int_equal(sql_number(fx, "SELECT count(*) FROM lease"), 51);
    assert_int_equal(sql_number(fx, "SELECT count(*) FROM gap"), 0);
    assert_int_equal(sql_number(fx, "SELECT count(*) FROM lease WHERE freed IS NULL"), 0);
    assert_int_equal(who(fx, UID_FIRST, WALL + 1000), 1);
}

/* In a child that dies without closing anything, at some point of its work. */
static void tell_and_die(struct fixture *fx, uint64_t first, uint64_t last)
{
    pid_t pid = fork();
    int status;

    assert_true(pid >= 0);
    if (pid == 0) {
        if (loop_new(&fx->loop) < 0 || open_history(fx, 0) < 0)
            _exit(1);
        for (uint64_t id = first; id <= last; id++) {
            live(fx, id, 5);
            loop_step(fx->loop, 0);
        }
        _exit(0);
    }
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_int_equal(status, 0);
}

static void history_killed_is_filled_from_the_log(void **state)
{
    struct fixture *fx = *state;

    close_history(fx);
    for (int round = 0; round < 5; round++) {
        fx->revision = 0;
        tell_and_die(fx, 1, 400);
    }
    assert_int_equal(open_history(fx, 0), 0);
    fx->revision = 0;
    for (uint64_t id = 1; id <= 400; id++)
        live(fx, id, 5);
    wait_durable(fx);
    assert_int_equal(sql_number(fx, "SELECT count(*) FROM lease"), 400);
    assert_int_equal(sql_number(fx, "SELECT count(*) FROM lease WHERE freed IS NULL"), 0);
}

/* The state as it is: leases first..last, all active. */
struct listing {
    struct fixture *fx;
    uint64_t first, last;
    struct fsm_lease lease;
    struct fsm_member members[2];
    int64_t changed_wall_ms;
};

static const struct fsm_lease *next_listed(uint64_t after, void *arg)
{
    struct listing *listing = arg;
    uint64_t id = after + 1 > listing->first ? after + 1 : listing->first;

    if (id > listing->last)
        return NULL;
    fill(&listing->lease, listing->members, id, 5, LEASE_ACTIVE);
    listing->lease.granted_wall_ms = WALL + 1000 * (int64_t)id;
    listing->lease.changed_wall_ms = listing->changed_wall_ms;
    return &listing->lease;
}

static void history_moved_aside_says_what_it_does_not_know(void **state)
{
    struct fixture *fx = *state;
    struct listing listing = {fx, 38, 40, {0}, {{0}}, 0};

    live(fx, 1, 5);
    close_history(fx);
    remove_files(fx);
    assert_int_equal(open_history(fx, 0), 0);
    /* The engine restores a snapshot of revision 900. */
    history_restored(fx->history, fx->incarnation, 900, next_listed, &listing);
    fx->revision = 900;
    tell(fx, 40, 5, LEASE_DRAINING, WALL + 40000);
    assert_int_equal(who(fx, UID_FIRST + 4, WALL + 50000), 40);
    assert_non_null(strstr(fx->note, "revisions 0 and 900"));
    assert_int_equal(who(fx, UID_FIRST, WALL + 1000), 0);
    assert_non_null(strstr(fx->note, "not known"));
    wait_durable(fx);
    history_opened(fx->history, fx->incarnation, 901, next_listed, &listing);
    assert_int_equal(sql_number(fx, "SELECT count(*) FROM gap"), 1);
}

/* The file is locked by somebody else: what the list left out is not in it, and the answer says so all the same. */
static void history_gap_that_is_not_written_yet_is_named(void **state)
{
    struct fixture *fx = *state;
    struct listing listing = {fx, 2, 3, {0}, {{0}}, 0};
    sqlite3 *db;

    live(fx, 1, 5);
    wait_durable(fx);
    assert_int_equal(sqlite3_open(fx->path, &db), SQLITE_OK);
    assert_int_equal(sqlite3_exec(db, "BEGIN IMMEDIATE", NULL, NULL, NULL), SQLITE_OK);
    history_restored(fx->history, fx->incarnation, 500, next_listed, &listing);
    fx->revision = 500;
    assert_int_equal(who(fx, UID_FIRST + 4, WALL + 9000), 0);
    assert_non_null(strstr(fx->note, "500 is not known here yet"));
    assert_int_equal(sqlite3_exec(db, "ROLLBACK", NULL, NULL, NULL), SQLITE_OK);
    assert_int_equal(sqlite3_close(db), SQLITE_OK);
    wait_durable(fx);
    assert_int_equal(who(fx, UID_FIRST + 4, WALL + 9000), 0);
    assert_non_null(strstr(fx->note, "500 is not known here"));
    assert_int_equal(who(fx, UID_FIRST, WALL + 1000), 1);
    assert_string_equal(fx->note, "");
}

/* The leader's clock is two hours ahead of ours, and so is the end of what was missed. */
static void history_gap_reaches_to_what_was_listed_by_any_clock(void **state)
{
    struct fixture *fx = *state;
    struct listing listing = {fx, 2, 3, {0}, {{0}}, 0};
    int64_t ahead = clock_wall_ms() + 7200000;

    tell(fx, 1, 5, LEASE_GRANTED, 0);
    listing.changed_wall_ms = ahead;
    history_restored(fx->history, fx->incarnation, 500, next_listed, &listing);
    assert_int_equal(who(fx, UID_FIRST + 4, ahead), 0);
    assert_non_null(strstr(fx->note, "not known"));
    assert_int_equal(who(fx, UID_FIRST + 4, ahead + 1), 0);
    assert_string_equal(fx->note, "");
    fx->revision = 500;
}

static void history_that_missed_changes_closes_what_is_gone(void **state)
{
    struct fixture *fx = *state;
    struct listing listing = {fx, 2, 3, {0}, {{0}}, 0};

    for (uint64_t id = 1; id <= 3; id++)
        tell(fx, id, 5, LEASE_GRANTED, 0);
    history_restored(fx->history, fx->incarnation, 500, next_listed, &listing);
    fx->revision = 500;
    wait_durable(fx);
    assert_int_equal(who(fx, UID_FIRST, WALL + 1500), 1);
    assert_int_equal(who(fx, UID_FIRST, INT64_MAX), 0);
    assert_int_equal(who(fx, UID_FIRST + 1, INT64_MAX), 2);
    assert_int_equal(sql_number(fx, "SELECT count(*) FROM lease"), 3);
    /* Snapshots that history is ahead of are nothing new. */
    history_restored(fx->history, fx->incarnation, 400, next_listed, &listing);
    history_opened(fx->history, fx->incarnation, 500, next_listed, &listing);
    assert_int_equal(sql_number(fx, "SELECT count(*) FROM gap"), 1);
    assert_int_equal(sql_number(fx, "SELECT count(*) FROM period"), 1);
}

/* A backup is restored: a new incarnation, in which leases of the old one go on and ids are given anew. */
static void history_of_a_restored_backup_keeps_both_stories(void **state)
{
    struct fixture *fx = *state;
    struct listing listing = {fx, 2, 3, {0}, {{0}}, 0};

    for (uint64_t id = 1; id <= 6; id++)
        tell(fx, id, 5, LEASE_GRANTED, 0);
    memset(fx->incarnation, 8, sizeof fx->incarnation);
    fx->revision = 3;
    history_opened(fx->history, fx->incarnation, 3, next_listed, &listing);
    fx->revision = 3;
    tell(fx, 4, 5, LEASE_GRANTED, WALL + 90000);
    wait_durable(fx);
    assert_int_equal(history_revision(fx->history), 4);
    /* 1, 4, 5, 6 of the old story have ended; 2 and 3 went over; 4 of the new one is another. */
    assert_int_equal(sql_number(fx, "SELECT count(*) FROM lease"), 7);
    assert_int_equal(sql_number(fx, "SELECT count(*) FROM lease WHERE freed IS NULL"), 3);
    ask(fx, &(struct history_query){.by = HISTORY_BY_LEASE, .lease = 4, .limit = 10});
    assert_int_equal(fx->n, 2);
    assert_int_equal(fx->first.granted_wall_ms, WALL + 90000);
    ask(fx, &(struct history_query){.by = HISTORY_BY_LEASE, .lease = 2, .limit = 10});
    assert_int_equal(fx->n, 1);
}

static void history_of_an_older_copy_of_the_state_begins_anew(void **state)
{
    struct fixture *fx = *state;
    struct listing listing = {fx, 1, 2, {0}, {{0}}, 0};

    for (uint64_t id = 1; id <= 6; id++)
        tell(fx, id, 5, LEASE_GRANTED, 0);
    history_opened(fx->history, fx->incarnation, 2, next_listed, &listing);
    fx->revision = 2;
    tell(fx, 3, 5, LEASE_GRANTED, WALL + 90000);
    wait_durable(fx);
    assert_int_equal(history_revision(fx->history), 3);
    assert_int_equal(sql_number(fx, "SELECT count(*) FROM period"), 2);
    assert_int_equal(sql_number(fx, "SELECT count(*) FROM lease WHERE freed IS NULL"), 3);
}

/* ---- trouble ---- */

static void history_on_a_full_disk_lags_and_recovers(void **state)
{
    struct fixture *fx = *state;
    int64_t until = clock_mono_ms() + 60000;

    live(fx, 1, 5);
    wait_durable(fx);
    disk_fault_arm(
        &(struct disk_fault){.op = DISK_WRITE, .suffix = "history.db-wal", .error = ENOSPC});
    for (uint64_t id = 2; id <= 100; id++)
        live(fx, id, 5);
    while (fx->health != -ENOSPC && clock_mono_ms() < until)
        loop_step(fx->loop, 100);
    assert_int_equal(fx->health, -ENOSPC);
    assert_non_null(strstr(fx->what, fx->path));
    assert_true(history_lag_bytes(fx->history) > 0);
    assert_false(history_degraded(fx->history));
    assert_int_equal(history_revision(fx->history), 6);
    disk_fault_disarm();
    wait_durable(fx);
    assert_int_equal(fx->health, 0);
    assert_int_equal(history_lag_bytes(fx->history), 0);
    assert_int_equal(sql_number(fx, "SELECT count(*) FROM lease WHERE freed IS NOT NULL"), 100);
}

static void history_with_io_errors_loses_nothing(void **state)
{
    struct fixture *fx = *state;
    static const struct disk_fault faults[] = {
        {DISK_WRITE, "history.db-wal", 3, 2, EIO, false},
        {DISK_WRITE, "history.db", 0, 1, EIO, false},
        {DISK_SYNC, "history.db-wal", 0, 1, EIO, true},
        {DISK_SYNC, "history.db", 0, 1, EIO, true},
    };

    for (uint64_t i = 0; i < 4; i++) {
        disk_fault_arm(&faults[i]);
        for (uint64_t id = 100 * i + 1; id <= 100 * i + 100; id++)
            live(fx, id, 5);
        wait_durable(fx);
        assert_true(disk_fault_hits() > 0);
        assert_int_equal(fx->health, 0);
    }
    disk_fault_disarm();
    assert_int_equal(sql_number(fx, "SELECT count(*) FROM lease WHERE freed IS NOT NULL"), 400);
}

static void history_too_far_behind_is_degraded(void **state)
{
    struct fixture *fx = *state;
    int64_t until = clock_mono_ms() + 60000;

    close_history(fx);
    assert_int_equal(open_history(fx, 100000), 0);
    disk_fault_arm(
        &(struct disk_fault){.op = DISK_WRITE, .suffix = "history.db-wal", .error = EIO});
    for (uint64_t id = 1; !history_degraded(fx->history); id++)
        live(fx, id, 5);
    assert_true(history_lag_bytes(fx->history) > 100000);
    while (fx->health == 0 && clock_mono_ms() < until)
        loop_step(fx->loop, 100);
    assert_int_not_equal(fx->health, 0);
    disk_fault_disarm();
    wait_durable(fx);
    assert_false(history_degraded(fx->history));
    assert_int_equal(fx->health, 0);
}

/* Its memory is bounded: what it drops is filled in from the log after the next start. */
static void history_far_beyond_its_limit_drops_and_is_filled_later(void **state)
{
    struct fixture *fx = *state;
    uint64_t id;

    close_history(fx);
    assert_int_equal(open_history(fx, 50000), 0);
    disk_fault_arm(
        &(struct disk_fault){.op = DISK_WRITE, .suffix = "history.db-wal", .error = EIO});
    for (id = 1; id <= 2000; id++)
        live(fx, id, 5);
    assert_true(history_lag_bytes(fx->history) < 200000);
    disk_fault_disarm();
    while (history_degraded(fx->history))
        loop_step(fx->loop, 1000);
    assert_true(history_revision(fx->history) < fx->revision);
    close_history(fx);
    assert_int_equal(open_history(fx, 0), 0);
    fx->revision = 0;
    for (id = 1; id <= 2000; id++)
        live(fx, id, 5);
    wait_durable(fx);
    assert_int_equal(sql_number(fx, "SELECT count(*) FROM lease WHERE freed IS NOT NULL"), 2000);
}

static void expect_refused(struct fixture *fx, const char *word)
{
    assert_int_equal(open_history(fx, 0), -EBADMSG);
    assert_non_null(strstr(fx->why, fx->path));
    if (!strstr(fx->why, word))
        fail_msg("no \"%s\" in: %s", word, fx->why);
}

static void flip_byte(const char *path, off_t at)
{
    int fd = open(path, O_RDWR | O_CLOEXEC);
    uint8_t byte;

    assert_true(fd >= 0);
    assert_int_equal(pread(fd, &byte, 1, at), 1);
    byte ^= 0x40;
    assert_int_equal(pwrite(fd, &byte, 1, at), 1);
    (void)close(fd);
}

static void history_damaged_is_refused_with_the_way_back(void **state)
{
    struct fixture *fx = *state;

    for (uint64_t id = 1; id <= 300; id++)
        live(fx, id, 5);
    close_history(fx);
    flip_byte(fx->path, 3); /* "SQLite format 3" */
    expect_refused(fx, "move it");
    flip_byte(fx->path, 3);
    flip_byte(fx->path, 4096 * 6 + 3); /* the head of a page */
    expect_refused(fx, "move it");
    flip_byte(fx->path, 4096 * 6 + 3);
    assert_int_equal(truncate(fx->path, 4096 * 4), 0);
    expect_refused(fx, "move it");
}

static void history_of_another_kind_is_refused(void **state)
{
    struct fixture *fx = *state;
    sqlite3 *db;

    close_history(fx);
    assert_int_equal(sqlite3_open(fx->path, &db), SQLITE_OK);
    assert_int_equal(sqlite3_exec(db, "PRAGMA user_version = 9", NULL, NULL, NULL), SQLITE_OK);
    assert_int_equal(sqlite3_close(db), SQLITE_OK);
    expect_refused(fx, "format 9");
    remove_files(fx);
    assert_int_equal(sqlite3_open(fx->path, &db), SQLITE_OK);
    assert_int_equal(sqlite3_exec(db, "CREATE TABLE t(x)", NULL, NULL, NULL), SQLITE_OK);
    assert_int_equal(sqlite3_close(db), SQLITE_OK);
    expect_refused(fx, "not a history");
}

static void history_closed_while_asked_answers_first(void **state)
{
    struct fixture *fx = *state;

    live(fx, 1, 5);
    fx->answered = false;
    history_ask(fx->history,
                &(struct history_query){.by = HISTORY_BY_LEASE, .lease = 1, .limit = 1},
                take_answer, fx);
    close_history(fx);
    assert_true(fx->answered);
    assert_true(fx->r == 0 || fx->r == -ECANCELED);
}

enum {
    MANY = 100,
};

static unsigned n_told;

/* arg: how many are to be answered before it. */
static void take_turn(int r, const struct history_entry *entries, size_t n, uint64_t revision,
                      const char *why, void *arg)
{
    (void)entries;
    (void)n;
    (void)revision;
    (void)why;
    assert_int_equal(r, 0);
    assert_int_equal(n_told++, *(unsigned *)arg);
}

static void nothing(void *arg)
{
    (void)arg;
}

static void note_turn(int r, void *arg)
{
    assert_int_equal(r, 0);
    *(unsigned *)arg = n_told;
}

/* The disk of the log has the same threads. */
static void history_asked_by_many_answers_in_turn_and_leaves_threads_to_the_rest(void **state)
{
    struct fixture *fx = *state;
    unsigned turns[MANY], told_before = MANY;

    live(fx, 1, 5);
    wait_durable(fx);
    n_told = 0;
    for (unsigned i = 0; i < MANY; i++) {
        turns[i] = i;
        history_ask(fx->history,
                    &(struct history_query){.by = HISTORY_BY_LEASE, .lease = 1, .limit = 1},
                    take_turn, &turns[i]);
    }
    loop_step(fx->loop, 0);
    assert_int_equal(loop_work_submit(fx->loop, nothing, note_turn, &told_before), 0);
    while (n_told < MANY)
        loop_step(fx->loop, 1000);
    assert_in_range(told_before, 0, MANY / 2);
}

/* ---- how fast ---- */

static int compare(const void *a, const void *b)
{
    const int64_t *x = a, *y = b;

    return *x < *y ? -1 : *x > *y;
}

/* One of four of 41 questions: others may use the machine too, and the thread that answers steps back for them. */
static void history_answers_within_10_ms(void **state)
{
    struct fixture *fx = *state;
    uint64_t n = getenv("XCE_TEST_LONG") ? 1000000 : 10000;
    int64_t took[41];

    for (uint64_t id = 1; id <= n; id++) {
        live(fx, id, 64);
        if (id % 1000 == 0)
            while (history_lag_bytes(fx->history) > 1 << 20)
                loop_step(fx->loop, 100);
    }
    wait_durable(fx);
    for (uint64_t i = 0; i <= 40; i++) {
        uint64_t id = 1 + i * (n - 1) / 40;
        int64_t at = WALL + ((int64_t)(id - 1) * CHANGES + 3) * 1000, began = clock_mono_us();

        assert_int_equal(who(fx, UID_FIRST + (uint32_t)((id - 1) % 64), at), id);
        took[i] = clock_mono_us() - began;
    }
    qsort(took, 41, sizeof took[0], compare);
    print_message("after %lu leases: a quarter within %ld us, median %ld us, worst %ld us\n",
                  (unsigned long)n, (long)took[10], (long)took[20], (long)took[40]);
    assert_true(took[10] < 10000);
}

int main(void)
{
#define TEST(fn) cmocka_unit_test_setup_teardown(fn, setup, teardown)
    const struct CMUnitTest tests[] = {
        TEST(history_knows_who_had_a_uid_at_a_time),
        TEST(history_gives_all_of_a_lease),
        TEST(history_lists_newest_first),
        TEST(history_finds_a_lease_under_the_epoch_that_it_was_raised_to),
        TEST(history_shows_an_owner_his_own_alone),
        TEST(history_finds_a_job_of_its_owner),
        TEST(history_of_a_job_says_how_far_it_looked),
        TEST(history_shows_nothing_to_who_has_only_the_owners_uid),
        TEST(history_follows_a_lease_back_into_draining),
        TEST(history_is_not_written_for_what_it_does_not_keep),
        TEST(history_told_again_after_a_restart_is_the_same),
        TEST(history_killed_is_filled_from_the_log),
        TEST(history_moved_aside_says_what_it_does_not_know),
        TEST(history_gap_that_is_not_written_yet_is_named),
        TEST(history_gap_reaches_to_what_was_listed_by_any_clock),
        TEST(history_that_missed_changes_closes_what_is_gone),
        TEST(history_of_a_restored_backup_keeps_both_stories),
        TEST(history_of_an_older_copy_of_the_state_begins_anew),
        TEST(history_on_a_full_disk_lags_and_recovers),
        TEST(history_with_io_errors_loses_nothing),
        TEST(history_too_far_behind_is_degraded),
        TEST(history_far_beyond_its_limit_drops_and_is_filled_later),
        TEST(history_damaged_is_refused_with_the_way_back),
        TEST(history_of_another_kind_is_refused),
        TEST(history_closed_while_asked_answers_first),
        TEST(history_asked_by_many_answers_in_turn_and_leaves_threads_to_the_rest),
        TEST(history_answers_within_10_ms),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
