/* Gaps of a history, filled with what another one has seen: both say the same then; what can not be right is refused. */
#include <errno.h>
#include <malloc.h>
#include <setjmp.h>
#include <sqlite3.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "common/clock.h"
#include "common/net/loop.h"
#include "leased/history/history.h"
#include "leased/history/plan.h"
#include "leased/history/refill.h"
#include "tests/lib/tmp.h"

#define UID_FIRST 2013265920u
#define WALL      1700000000000 /* when revision 0 was */
#define STEPS     4000
#define UIDS      40u

enum { SOURCE, TARGET, THIRD, N_HISTORIES };

static const struct plan_newest newest = {1000000, 1000000};

/* The state that all follow: the leases that are not free, by uid. */
struct world {
    uint8_t incarnation[16];
    uint64_t revision, last_lease;
    struct fsm_lease leases[UIDS]; /* id 0 = free */
    struct fsm_member members[UIDS][2];
    uint32_t epochs[UIDS];
    unsigned chance;
};

struct fixture {
    const char *folder;
    char path[N_HISTORIES][96];
    struct loop *loop;
    struct history *history[N_HISTORIES];
    struct world world;
    bool away[N_HISTORIES];
    size_t page;

    bool done;
    int r;
    char why[HISTORY_WHY_MAX];
    struct history_outline outline[N_HISTORIES];
    struct history_entry entries[HISTORY_PIECE_MAX];
    char text[HISTORY_PIECE_MAX][64];
    size_t n;
    size_t pieces;
};

static struct fsm_node nodes[] = {{.name = "n1"}, {.name = "n2"}, {.name = "n3"}};

/* ---- words ---- */

static void open_one(struct fixture *fx, int which)
{
    char why[HISTORY_WHY_MAX];

    if (history_open(fx->loop, fx->path[which], NULL, NULL, NULL, &fx->history[which], why) < 0)
        fail_msg("%s", why);
}

static void note_closed(void *arg)
{
    *(bool *)arg = true;
}

static void close_one(struct fixture *fx, int which)
{
    bool closed = false;

    if (!fx->history[which])
        return;
    history_close(fx->history[which], note_closed, &closed);
    while (!closed)
        loop_step(fx->loop, 1000);
    fx->history[which] = NULL;
}

static void drop_outline(struct history_outline *outline)
{
    free(outline->periods);
    free(outline->gaps);
    *outline = (struct history_outline){0};
}

static int setup(void **state)
{
    struct fixture *fx = calloc(1, sizeof *fx);

    fx->folder = tmp_dir();
    assert_int_equal(loop_new(&fx->loop), 0);
    for (int i = 0; i < N_HISTORIES; i++) {
        (void)snprintf(fx->path[i], sizeof fx->path[i], "%s/%d.db", fx->folder, i);
        open_one(fx, i);
    }
    memset(fx->world.incarnation, 7, sizeof fx->world.incarnation);
    fx->world.chance = 1;
    fx->page = 7;
    *state = fx;
    return 0;
}

static int teardown(void **state)
{
    struct fixture *fx = *state;

    for (int i = 0; i < N_HISTORIES; i++) {
        close_one(fx, i);
        drop_outline(&fx->outline[i]);
    }
    loop_free(fx->loop);
    tmp_remove(fx->folder);
    free(fx);
    return 0;
}

static unsigned roll(struct world *world, unsigned n)
{
    world->chance = world->chance * 1103515245u + 12345u;
    return (world->chance >> 16) % n;
}

static void grant(struct world *world, unsigned at, int64_t wall_ms)
{
    struct fsm_lease *lease = &world->leases[at];

    world->members[at][0] = (struct fsm_member){.node = &nodes[roll(world, 3)]};
    world->members[at][1] = (struct fsm_member){.node = &nodes[roll(world, 3)]};
    *lease = (struct fsm_lease){
        .id = ++world->last_lease,
        .uid = UID_FIRST + at,
        .epoch = ++world->epochs[at],
        .state = LEASE_GRANTED,
        .pool = "main",
        .job = roll(world, 2) ? "job" : "",
        .owner = {"alice", 1000 + roll(world, 2), 100},
        .members = world->members[at],
        .n_members = 1 + roll(world, 2),
        .granted_wall_ms = wall_ms,
    };
}

/* The next stage of a lease; now and then one drains again. Few live for long. */
static void move_on(struct world *world, struct fsm_lease *lease)
{
    if (lease->state == LEASE_RETIRED && roll(world, 10) == 0)
        lease->state = LEASE_DRAINING;
    else
        lease->state++;
    if (lease->state == LEASE_DRAINING)
        lease->cause = roll(world, 2) ? END_RELEASE : END_EXPIRED;
}

static void step(struct fixture *fx)
{
    struct world *world = &fx->world;
    unsigned at = roll(world, UIDS);
    struct fsm_lease *lease = &world->leases[at];
    struct fsm_change change = {.kind = CHANGE_LEASE, .lease = lease};

    if (at == 0 && lease->state == LEASE_ACTIVE)
        return; /* it lives on */
    change.revision = ++world->revision;
    change.wall_ms = WALL + (int64_t)world->revision * 1000;
    if (!lease->id)
        grant(world, at, change.wall_ms);
    else
        move_on(world, lease);
    lease->revision = change.revision;
    for (int i = 0; i < N_HISTORIES; i++)
        if (!fx->away[i] && fx->history[i])
            history_changed(fx->history[i], world->incarnation, &change);
    if (lease->state == LEASE_FREE)
        *lease = (struct fsm_lease){0};
}

/* After a restore a node tells that it has seen a higher epoch. */
static void raise_epoch(struct fixture *fx, unsigned at)
{
    struct world *world = &fx->world;
    struct fsm_lease *lease = &world->leases[at];
    struct fsm_change change = {.kind = CHANGE_LEASE, .lease = lease};

    assert_true(lease->id != 0);
    change.revision = lease->revision = ++world->revision;
    change.wall_ms = WALL + (int64_t)world->revision * 1000;
    lease->epoch = ++world->epochs[at];
    for (int i = 0; i < N_HISTORIES; i++)
        if (!fx->away[i])
            history_changed(fx->history[i], world->incarnation, &change);
}

static void go_on(struct fixture *fx, unsigned steps)
{
    for (unsigned i = 0; i < steps; i++)
        step(fx);
}

static const struct fsm_lease *next_lease(uint64_t after, void *arg)
{
    const struct world *world = arg;
    const struct fsm_lease *best = NULL;

    for (unsigned i = 0; i < UIDS; i++)
        if (world->leases[i].id > after && (!best || world->leases[i].id < best->id))
            best = &world->leases[i];
    return best;
}

/* One that was away gets the state. */
static void come_back(struct fixture *fx, int which)
{
    fx->away[which] = false;
    history_restored(fx->history[which], fx->world.incarnation, fx->world.revision, next_lease,
                     &fx->world);
}

static void miss(struct fixture *fx, int which, unsigned steps)
{
    fx->away[which] = true;
    go_on(fx, steps);
    come_back(fx, which);
}

static void wait_done(struct fixture *fx)
{
    int64_t until = clock_mono_ms() + 60000;

    while (!fx->done) {
        loop_step(fx->loop, 100);
        if (clock_mono_ms() > until)
            fail_msg("no answer");
    }
}

/* ---- asking ---- */

struct outlining {
    struct fixture *fx;
    int which;
};

static void take_outline(int r, const struct history_outline *outline, const char *why, void *arg)
{
    struct outlining *outlining = arg;
    struct history_outline *ret = &outlining->fx->outline[outlining->which];

    if (r < 0)
        fail_msg("%d %s", r, why);
    drop_outline(ret);
    *ret = *outline;
    ret->periods = calloc(outline->n_periods + 1, sizeof *ret->periods);
    ret->gaps = calloc(outline->n_gaps + 1, sizeof *ret->gaps);
    for (size_t i = 0; i < outline->n_periods; i++)
        ret->periods[i] = outline->periods[i];
    for (size_t i = 0; i < outline->n_gaps; i++)
        ret->gaps[i] = outline->gaps[i];
    outlining->fx->done = true;
}

static const struct history_outline *outline_of(struct fixture *fx, int which)
{
    struct outlining outlining = {fx, which};

    fx->done = false;
    history_ask_outline(fx->history[which], take_outline, &outlining);
    assert_false(fx->done);
    wait_done(fx);
    return &fx->outline[which];
}

static void take_entries(int r, const struct history_entry *entries, size_t n, uint64_t revision,
                         const char *why, void *arg)
{
    struct fixture *fx = arg;

    (void)revision;
    fx->r = r;
    fx->n = n;
    (void)snprintf(fx->why, sizeof fx->why, "%s", why);
    for (size_t i = 0; i < n; i++) {
        struct history_entry *entry = &fx->entries[i];
        char *text = fx->text[i];
        int at = snprintf(text, 64, "%s%c%s%c%s%c%s", entries[i].pool, 0, entries[i].job, 0,
                          entries[i].owner_name, 0, entries[i].nodes);

        assert_true(at < 64);
        *entry = entries[i];
        entry->pool = text;
        entry->job = entry->pool + strlen(entry->pool) + 1;
        entry->owner_name = entry->job + strlen(entry->job) + 1;
        entry->nodes = entry->owner_name + strlen(entry->owner_name) + 1;
    }
    fx->done = true;
}

static void ask(struct fixture *fx, int which, const struct history_query *query)
{
    fx->done = false;
    history_ask(fx->history[which], query, take_entries, fx);
    wait_done(fx);
    if (fx->r < 0)
        fail_msg("%d %s", fx->r, fx->why);
}

/* ---- filling ---- */

static void take_filled(int r, void *arg)
{
    struct fixture *fx = arg;

    fx->r = r;
    fx->done = true;
}

static int fill(struct fixture *fx, const struct history_piece *piece)
{
    fx->done = false;
    history_fill(fx->history[TARGET], piece, take_filled, fx);
    assert_false(fx->done);
    wait_done(fx);
    fx->pieces++;
    return fx->r;
}

/* The next page of a part: how far it goes; -EBADMSG. */
static int fill_page(struct fixture *fx, int source, const struct history_gap *gap,
                     const struct plan *plan, const struct plan_part *part, uint64_t *after)
{
    char why[PLAN_WHY_MAX];
    struct history_piece piece = {.gap = gap->id,
                                  .source = (uint64_t)source,
                                  .plan = plan->id,
                                  .part = part->number,
                                  .period = part->period,
                                  .entries = fx->entries};

    ask(fx, source,
        &(struct history_query){.by = HISTORY_BY_PERIOD,
                                .period = part->number,
                                .lease = *after,
                                .until = part->last,
                                .limit = (uint32_t)fx->page});
    if (plan_check(part, *after, fx->entries, fx->n, why) < 0)
        fail_msg("%s", why);
    piece.n = fx->n;
    piece.after = *after = fx->entries[fx->n - 1].lease;
    piece.last = part == &plan->parts[plan->n_parts - 1] && *after == part->last;
    piece.rest = plan->rest;
    piece.n_rest = piece.last ? plan->n_rest : 0;
    return fill(fx, &piece);
}

/* Fill the newest gap from the source, at most so many pages; other things go on meanwhile. 0; -ENOENT; -EBADMSG. */
static int refill(struct fixture *fx, int source, size_t pages)
{
    const struct history_outline *ours = outline_of(fx, TARGET);
    struct history_gap gap = ours->gaps[0];
    char why[PLAN_WHY_MAX];
    struct plan plan;
    int r;

    assert_true(ours->n_gaps > 0);
    r = plan_make(&gap, ours, outline_of(fx, source), &newest, &plan, why);
    for (size_t i = 0; r == 0 && i < plan.n_parts; i++) {
        const struct plan_part *part = &plan.parts[i];
        uint64_t after = part->after;

        if (gap.plan == plan.id && gap.part == part->number)
            after = gap.after;
        while (r == 0 && after < part->last && pages-- > 0) {
            r = fill_page(fx, source, &gap, &plan, part, &after);
            go_on(fx, 3);
        }
    }
    plan_done(&plan);
    return r;
}

/* ---- comparing ---- */

/* Rows of one that the other has not, as text. */
static void differences(struct fixture *fx, const char *here, const char *there)
{
    static const char sql[] =
        "SELECT hex(p.id), key & 17592186044415, uid, epoch, pool, job, owner_uid, owner_gid, "
        "owner, nodes,"
        " granted, ended, retired, freed, cause FROM %s.lease JOIN %s.period AS p ON p.n = key >> "
        "44"
        " EXCEPT SELECT hex(p.id), key & 17592186044415, uid, epoch, pool, job, owner_uid, "
        "owner_gid,"
        " owner, nodes, granted, ended, retired, freed, cause FROM %s.lease JOIN %s.period AS p"
        " ON p.n = key >> 44";
    char text[1024], attach[160];
    sqlite3_stmt *statement;
    sqlite3 *db;

    assert_int_equal(sqlite3_open(fx->path[TARGET], &db), SQLITE_OK);
    (void)snprintf(attach, sizeof attach, "ATTACH '%s' AS source", fx->path[SOURCE]);
    assert_int_equal(sqlite3_exec(db, attach, NULL, NULL, NULL), SQLITE_OK);
    (void)snprintf(text, sizeof text, sql, here, here, there, there);
    assert_int_equal(sqlite3_prepare_v2(db, text, -1, &statement, NULL), SQLITE_OK);
    if (sqlite3_step(statement) == SQLITE_ROW)
        fail_msg("%s only: lease %s uid %s granted %s ended %s retired %s freed %s", here,
                 sqlite3_column_text(statement, 1), sqlite3_column_text(statement, 2),
                 sqlite3_column_text(statement, 10), sqlite3_column_text(statement, 11),
                 sqlite3_column_text(statement, 12), sqlite3_column_text(statement, 13));
    (void)sqlite3_finalize(statement);
    assert_int_equal(sqlite3_close(db), SQLITE_OK);
}

/* Both know the same, all but so many gaps. */
static void same_but(struct fixture *fx, size_t n_gaps)
{
    assert_int_equal(outline_of(fx, TARGET)->n_gaps, n_gaps);
    assert_int_equal(outline_of(fx, SOURCE)->n_gaps, n_gaps);
    differences(fx, "main", "source");
    differences(fx, "source", "main");
}

static void same(struct fixture *fx)
{
    same_but(fx, 0);
}

static void run_sql(const char *path, const char *sql)
{
    sqlite3 *db;

    assert_int_equal(sqlite3_open(path, &db), SQLITE_OK);
    if (sqlite3_exec(db, sql, NULL, NULL, NULL) != SQLITE_OK)
        fail_msg("%s", sqlite3_errmsg(db));
    assert_int_equal(sqlite3_close(db), SQLITE_OK);
}

/* ---- filling ---- */

static void refill_of_one_that_was_away_makes_both_the_same(void **state)
{
    struct fixture *fx = *state;

    go_on(fx, STEPS);
    miss(fx, TARGET, STEPS);
    go_on(fx, STEPS);
    assert_int_equal(refill(fx, SOURCE, SIZE_MAX), 0);
    assert_true(fx->pieces > 10);
    go_on(fx, STEPS);
    same(fx);
}

static void refill_of_a_short_absence_fetches_little(void **state)
{
    struct fixture *fx = *state;

    fx->world.leases[0].state = LEASE_FREE; /* none lives for ever */
    go_on(fx, STEPS);
    fx->page = HISTORY_PIECE_MAX;
    miss(fx, TARGET, 50);
    outline_of(fx, TARGET);
    assert_true(fx->outline[TARGET].gaps[0].first_lease > 1);
    assert_int_equal(refill(fx, SOURCE, SIZE_MAX), 0);
    same(fx);
}

static void refill_of_one_that_joins_brings_earlier_states_too(void **state)
{
    struct fixture *fx = *state;

    fx->away[TARGET] = true;
    go_on(fx, STEPS);
    for (uint8_t i = 8; i < 10; i++) {
        memset(fx->world.incarnation, i, sizeof fx->world.incarnation);
        come_back(fx, SOURCE);
        go_on(fx, STEPS);
    }
    come_back(fx, TARGET);
    go_on(fx, 100);
    assert_int_equal(refill(fx, SOURCE, SIZE_MAX), 0);
    assert_int_equal(outline_of(fx, TARGET)->n_periods, 3);
    /* What a backup did not hold nobody knows. */
    same_but(fx, 2);
}

static void refill_goes_on_after_a_restart(void **state)
{
    struct fixture *fx = *state;
    size_t whole;

    fx->away[TARGET] = true;
    go_on(fx, STEPS);
    come_back(fx, TARGET);
    assert_int_equal(refill(fx, SOURCE, 20), 0);
    assert_int_equal(fx->pieces, 20);
    whole = (outline_of(fx, SOURCE)->periods[0].last_lease + fx->page - 1) / fx->page;
    close_one(fx, TARGET);
    open_one(fx, TARGET);
    assert_int_equal(outline_of(fx, TARGET)->gaps[0].source, SOURCE);
    assert_int_equal(refill(fx, SOURCE, SIZE_MAX), 0);
    assert_in_range(fx->pieces, whole - 1, whole + 2);
    same(fx);
}

static void refill_written_twice_is_the_same(void **state)
{
    struct fixture *fx = *state;
    struct history_gap gap;

    go_on(fx, STEPS);
    miss(fx, TARGET, STEPS);
    gap = outline_of(fx, TARGET)->gaps[0];
    assert_int_equal(refill(fx, SOURCE, 30), 0);
    /* As if somebody else were asked now. */
    run_sql(fx->path[TARGET], "UPDATE gap SET plan = 1");
    assert_int_equal(refill(fx, SOURCE, SIZE_MAX), 0);
    assert_true(gap.plan == 0);
    same(fx);
}

/* What a piece was written from is not kept: a history of years comes through the memory of an hour. */
static void refill_of_many_pieces_takes_the_memory_of_one(void **state)
{
    struct fixture *fx = *state;
    struct history_piece piece = {.part = 1, .source = SOURCE, .plan = 1, .entries = fx->entries};
    size_t before;

    fx->away[TARGET] = true;
    go_on(fx, STEPS);
    come_back(fx, TARGET);
    piece.gap = outline_of(fx, TARGET)->gaps[0].id;
    memcpy(piece.period.incarnation, fx->world.incarnation, sizeof piece.period.incarnation);
    ask(fx, SOURCE,
        &(struct history_query){.by = HISTORY_BY_PERIOD, .period = 1, .until = 50, .limit = 50});
    piece.n = fx->n;
    piece.after = fx->entries[fx->n - 1].lease;
    assert_int_equal(fill(fx, &piece), 0);
    before = mallinfo2().uordblks;
    for (int i = 0; i < 500; i++)
        assert_int_equal(fill(fx, &piece), 0);
    assert_true(mallinfo2().uordblks < before + ((size_t)2 << 20));
}

static void refill_answers_change_from_not_known_to_known(void **state)
{
    struct fixture *fx = *state;
    struct history_query query = {.by = HISTORY_BY_UID, .uid = UID_FIRST + 3, .limit = 1};

    go_on(fx, STEPS);
    miss(fx, TARGET, STEPS);
    query.at_wall_ms = WALL + (STEPS + STEPS / 2) * 1000;
    ask(fx, TARGET, &query);
    assert_non_null(strstr(fx->why, "not known here"));
    assert_int_equal(refill(fx, SOURCE, 3), 0);
    ask(fx, TARGET, &query);
    assert_non_null(strstr(fx->why, "not known here"));
    assert_int_equal(refill(fx, SOURCE, SIZE_MAX), 0);
    ask(fx, TARGET, &query);
    assert_string_equal(fx->why, "");
}

static void refill_from_one_with_a_gap_leaves_that_gap(void **state)
{
    struct fixture *fx = *state;

    go_on(fx, STEPS);
    fx->away[TARGET] = true;
    go_on(fx, STEPS);
    miss(fx, THIRD, 500);
    go_on(fx, STEPS);
    come_back(fx, TARGET);
    assert_int_equal(refill(fx, THIRD, SIZE_MAX), 0);
    assert_int_equal(outline_of(fx, TARGET)->n_gaps, 1);
    assert_int_equal(fx->outline[TARGET].gaps[0].from_revision,
                     outline_of(fx, THIRD)->gaps[0].from_revision);
    /* There is nothing more to be had of that one. */
    assert_int_equal(refill(fx, THIRD, SIZE_MAX), -ENOENT);
    assert_int_equal(refill(fx, SOURCE, SIZE_MAX), 0);
    same(fx);
}

static void refill_waits_for_one_that_has_come_far_enough(void **state)
{
    struct fixture *fx = *state;

    go_on(fx, 100);
    fx->away[TARGET] = fx->away[SOURCE] = true;
    go_on(fx, 100);
    come_back(fx, TARGET);
    assert_int_equal(refill(fx, SOURCE, SIZE_MAX), -ENOENT);
}

static void refill_of_one_that_joins_after_an_epoch_rose_has_the_higher_one(void **state)
{
    struct fixture *fx = *state;

    fx->away[TARGET] = true;
    go_on(fx, STEPS);
    raise_epoch(fx, 0);
    come_back(fx, TARGET);
    assert_int_equal(refill(fx, SOURCE, SIZE_MAX), 0);
    same(fx);
}

static void refill_of_a_lease_whose_epoch_rose_in_the_gap_has_the_higher_one(void **state)
{
    struct fixture *fx = *state;
    struct history_query query = {.by = HISTORY_BY_UID_EPOCH, .uid = UID_FIRST, .limit = 2};

    go_on(fx, STEPS);
    fx->away[TARGET] = true;
    raise_epoch(fx, 0);
    query.epoch = fx->world.epochs[0];
    fx->world.leases[0].state = LEASE_DRAINING; /* it does not live on */
    go_on(fx, STEPS);
    assert_true(fx->world.epochs[0] > query.epoch);
    come_back(fx, TARGET);
    assert_int_equal(refill(fx, SOURCE, SIZE_MAX), 0);
    same(fx);
    ask(fx, TARGET, &query);
    assert_int_equal(fx->n, 1);
}

/* One of before wrote the epoch down when the lease was granted, and never again. */
static void refill_from_one_that_never_saw_an_epoch_rise_keeps_the_higher_one(void **state)
{
    struct fixture *fx = *state;
    struct history_query query = {.by = HISTORY_BY_UID_EPOCH, .uid = UID_FIRST, .limit = 2};

    fx->away[TARGET] = true;
    go_on(fx, STEPS);
    raise_epoch(fx, 0);
    come_back(fx, TARGET);
    (void)outline_of(fx, SOURCE); /* all is written */
    run_sql(fx->path[SOURCE], "UPDATE lease SET epoch = epoch - 1 WHERE rowid ="
                              " (SELECT max(rowid) FROM lease WHERE uid = 2013265920)");
    query.epoch = fx->world.epochs[0];
    assert_int_equal(refill(fx, SOURCE, SIZE_MAX), 0);
    assert_int_equal(outline_of(fx, TARGET)->n_gaps, 0);
    ask(fx, TARGET, &query);
    assert_int_equal(fx->n, 1);
    assert_int_equal(fx->entries[0].lease, fx->world.leases[0].id);
}

static void another_story_is_refused(struct fixture *fx, const char *set)
{
    char sql[128];

    go_on(fx, STEPS);
    miss(fx, TARGET, 100);
    (void)outline_of(fx, SOURCE); /* all is written */
    (void)snprintf(sql, sizeof sql,
                   "UPDATE lease SET %s WHERE rowid ="
                   " (SELECT min(rowid) FROM lease WHERE freed IS NULL)",
                   set);
    run_sql(fx->path[SOURCE], sql);
    assert_int_equal(refill(fx, SOURCE, SIZE_MAX), -EBADMSG);
    assert_int_equal(outline_of(fx, TARGET)->n_gaps, 1);
    assert_int_equal(fx->outline[TARGET].gaps[0].plan, 0);
}

static void refill_of_another_uid_for_a_lease_is_refused(void **state)
{
    another_story_is_refused(*state, "uid = uid + 1");
}

static void refill_of_another_grant_of_a_lease_is_refused(void **state)
{
    another_story_is_refused(*state, "epoch = epoch + 1, granted = granted + 1");
}

static void refill_closed_meanwhile_is_told(void **state)
{
    struct fixture *fx = *state;
    struct history_piece piece = {.gap = 1, .last = true};

    fx->done = false;
    history_fill(fx->history[TARGET], &piece, take_filled, fx);
    close_one(fx, TARGET);
    assert_true(fx->done);
}

static void refill_of_an_older_file_can_not_be_planned(void **state)
{
    struct fixture *fx = *state;

    go_on(fx, 100);
    miss(fx, TARGET, 100);
    close_one(fx, TARGET);
    run_sql(fx->path[TARGET],
            "ALTER TABLE gap DROP COLUMN period; ALTER TABLE gap DROP COLUMN first_lease;"
            "ALTER TABLE gap DROP COLUMN made_up; ALTER TABLE gap DROP COLUMN source;"
            "ALTER TABLE gap DROP COLUMN plan; ALTER TABLE gap DROP COLUMN part;"
            "ALTER TABLE gap DROP COLUMN after_lease; PRAGMA user_version = 1");
    open_one(fx, TARGET);
    assert_int_equal(outline_of(fx, TARGET)->n_gaps, 1);
    assert_int_equal(fx->outline[TARGET].gaps[0].period, 0);
    assert_int_equal(refill(fx, SOURCE, SIZE_MAX), -ENOENT);
}

/* ---- what can not be right ---- */

static struct history_period period_here(int64_t number, uint64_t revision, uint64_t last)
{
    return (struct history_period){
        .number = number, .incarnation = {7}, .revision = revision, .last_lease = last};
}

static void refuse_outline(struct history_period *periods, size_t n, struct history_gap *gaps,
                           size_t n_gaps, const char *word)
{
    struct history_period ours = period_here(1, 90, 9);
    struct history_gap gap = {.id = 1, .period = 1, .to_revision = 50};
    char why[PLAN_WHY_MAX] = "";
    struct plan plan;

    assert_int_equal(plan_make(&gap, &(struct history_outline){&ours, 1, &gap, 1},
                               &(struct history_outline){periods, n, gaps, n_gaps},
                               &(struct plan_newest){1000, 500}, &plan, why),
                     -EBADMSG);
    if (!strstr(why, word))
        fail_msg("%s", why);
}

static void plan_of_an_impossible_outline_is_refused(void **state)
{
    struct history_period twice[] = {period_here(2, 60, 1), period_here(2, 60, 1)};
    struct history_period ahead = period_here(1, 1001, 1), far = period_here(1, 60, 501);
    struct history_period zero = period_here(0, 60, 1), fine = period_here(1, 60, 1);
    struct history_period *many = calloc(PLAN_PERIODS_MAX + 1, sizeof *many);
    struct history_gap empty = {.period = 1, .from_revision = 5, .to_revision = 5};
    struct history_gap nowhere = {.period = 3, .from_revision = 1, .to_revision = 5};

    (void)state;
    refuse_outline(twice, 2, NULL, 0, "order");
    refuse_outline(&zero, 1, NULL, 0, "order");
    refuse_outline(&ahead, 1, NULL, 0, "1001");
    refuse_outline(&far, 1, NULL, 0, "lease 501");
    refuse_outline(many, PLAN_PERIODS_MAX + 1, NULL, 0, "more than");
    refuse_outline(&fine, 1, &empty, 1, "gap");
    refuse_outline(&fine, 1, &nowhere, 1, "gap");
    free(many);
}

static struct history_entry entry_here(uint64_t lease)
{
    return (struct history_entry){.lease = lease,
                                  .uid = UID_FIRST,
                                  .epoch = 1,
                                  .pool = "main",
                                  .job = "",
                                  .owner_name = "alice",
                                  .nodes = "n1,n2",
                                  .cause = END_RELEASE,
                                  .granted_wall_ms = WALL,
                                  .ended_wall_ms = WALL,
                                  .retired_wall_ms = WALL,
                                  .freed_wall_ms = WALL};
}

static void refuse_page(const struct history_entry *entries, size_t n, const char *word)
{
    const struct plan_part part = {.number = 1, .after = 10, .last = 20};
    char why[PLAN_WHY_MAX] = "";

    assert_int_equal(plan_check(&part, 12, entries, n, why), -EBADMSG);
    if (!strstr(why, word))
        fail_msg("%s", why);
}

static void plan_pages_in_wrong_order_or_without_end_are_refused(void **state)
{
    const struct plan_part part = {.number = 1, .after = 10, .last = 20};
    struct history_entry *many = calloc(HISTORY_PIECE_MAX + 1, sizeof *many);
    struct history_entry back[] = {entry_here(14), entry_here(13)};
    struct history_entry twice[] = {entry_here(13), entry_here(13)};
    struct history_entry again = entry_here(12), beyond = entry_here(21);
    char why[PLAN_WHY_MAX];

    (void)state;
    assert_int_equal(
        plan_check(&part, 12, (struct history_entry[]){entry_here(13), entry_here(20)}, 2, why), 0);
    refuse_page(back, 2, "lease 13 comes after 14");
    refuse_page(twice, 2, "lease 13 comes after 13");
    refuse_page(&again, 1, "lease 12 comes after 12");
    refuse_page(&beyond, 1, "20 was the last");
    refuse_page(NULL, 0, "should be some up to 20");
    refuse_page(many, HISTORY_PIECE_MAX + 1, "more leases");
    free(many);
}

static void plan_leases_that_can_not_be_are_refused(void **state)
{
    struct history_entry bad[10];

    (void)state;
    for (size_t i = 0; i < 10; i++)
        bad[i] = entry_here(13);
    bad[0].uid = 0;
    bad[1].epoch = 0;
    bad[2].pool = "a pool whose name is much longer than any";
    bad[3].job = "a\nline";
    bad[4].owner_name = "\xff";
    bad[5].nodes = "n1,,n2";
    bad[6].nodes = "n1;DROP";
    bad[7].cause = (enum end_cause)99;
    bad[8].freed_wall_ms = -1;
    bad[9].retired_wall_ms = 0;
    for (size_t i = 0; i < 10; i++)
        refuse_page(&bad[i], 1, "lease 13");
}

#define TEST(fn) cmocka_unit_test_setup_teardown(fn, setup, teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(refill_of_one_that_was_away_makes_both_the_same),
        TEST(refill_of_a_short_absence_fetches_little),
        TEST(refill_of_one_that_joins_brings_earlier_states_too),
        TEST(refill_goes_on_after_a_restart),
        TEST(refill_written_twice_is_the_same),
        TEST(refill_of_many_pieces_takes_the_memory_of_one),
        TEST(refill_answers_change_from_not_known_to_known),
        TEST(refill_from_one_with_a_gap_leaves_that_gap),
        TEST(refill_waits_for_one_that_has_come_far_enough),
        TEST(refill_of_one_that_joins_after_an_epoch_rose_has_the_higher_one),
        TEST(refill_of_a_lease_whose_epoch_rose_in_the_gap_has_the_higher_one),
        TEST(refill_from_one_that_never_saw_an_epoch_rise_keeps_the_higher_one),
        TEST(refill_of_another_uid_for_a_lease_is_refused),
        TEST(refill_of_another_grant_of_a_lease_is_refused),
        TEST(refill_closed_meanwhile_is_told),
        TEST(refill_of_an_older_file_can_not_be_planned),
        cmocka_unit_test(plan_of_an_impossible_outline_is_refused),
        cmocka_unit_test(plan_pages_in_wrong_order_or_without_end_are_refused),
        cmocka_unit_test(plan_leases_that_can_not_be_are_refused),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
