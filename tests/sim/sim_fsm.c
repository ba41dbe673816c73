/* Runs the cluster of world.h through many seeds, with one state machine and its twin: no consensus, many steps.
 *
 * usage: sim_fsm [--first N] [--seeds N] [--steps N] [--jobs N] [--trace]
 *
 * Without options: a few seeds, for the unit suite; with XCE_TEST_LONG=1 many. A seed that violates an invariant is named,
 * and how to run it again. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "common/mem.h"
#include "tests/sim/world.h"

/* The world, the twin, and the log to replay. */
struct alone {
    struct world w;
    struct fsm *twin;
    struct buf entry;
    uint8_t **log; /* entries */
    size_t *log_len;
    size_t n_log, cap_log, cap_log_len;
    uint8_t *begin; /* the state that it began with: a restored backup; NULL = none */
    size_t begin_len;
    uint64_t swapped, restored; /* the twin came out of a snapshot; a backup was restored */
};

static struct alone *alone_of(struct world *w)
{
    return (struct alone *)(void *)w;
}

static const struct fsm *view(struct world *w, int via)
{
    (void)via;
    return w->fsm;
}

static int the_one(struct world *w)
{
    (void)w;
    return 0;
}

static void check_twin(struct alone *a)
{
    if (fsm_digest(a->w.fsm) != fsm_digest(a->twin))
        violated(&a->w, "I5: the twin has another digest");
}

static void keep(struct alone *a)
{
    mem_must_grow(&a->log, &a->cap_log, a->n_log + 1, sizeof(*a->log));
    mem_must_grow(&a->log_len, &a->cap_log_len, a->n_log + 1, sizeof(*a->log_len));
    a->log[a->n_log] = mem_must_dup(a->entry.data, a->entry.len);
    a->log_len[a->n_log++] = a->entry.len;
}

static void submit(struct world *w, const uint8_t *bytes, size_t len, const struct sim_ask *ask)
{
    struct alone *a = alone_of(w);
    /* Leaders do not agree on the time: the state takes the later one. */
    int64_t back_ms = chance(w, 10) ? (int64_t)roll(w, 5000) : 0;

    command_entry_begin(&a->entry, w->now_ms > back_ms ? w->now_ms - back_ms : 0,
                        (int64_t)roll(w, 1000000));
    command_entry_append(&a->entry, bytes, len);
    if (command_entry_finish(&a->entry) < 0)
        violated(w, "an entry is not whole");
    keep(a);
    world_commit(w, (const uint8_t *)a->entry.data, a->entry.len, -1);
    if (fsm_apply(a->twin, (const uint8_t *)a->entry.data, a->entry.len, NULL) != 0)
        violated(w, "the twin does not take an entry");
    check_twin(a);
    if (ask->done)
        ask->done(w, ask, 0, &w->outcome);
}

static const struct world_ops ops = {view, the_one, the_one, submit};

/* From now on the twin is one that came out of a snapshot. */
static void swap_twin(struct alone *a)
{
    const char *why = NULL;
    uint8_t *bytes;
    size_t len;

    if (fsm_snapshot(a->w.fsm, &bytes, &len) < 0)
        abort();
    if (fsm_restore(a->twin, bytes, len, &why) < 0)
        violated(&a->w, "a snapshot does not restore: %s", why);
    free(bytes);
    a->swapped++;
    check_twin(a);
}

/* The whole log again, from nothing. */
static void replay(struct alone *a)
{
    struct fsm *fsm;

    if (fsm_new(&fsm) < 0)
        abort();
    if (a->begin && fsm_restore(fsm, a->begin, a->begin_len, NULL) < 0)
        violated(&a->w, "a backup does not restore");
    for (size_t i = 0; i < a->n_log; i++)
        if (fsm_apply(fsm, a->log[i], a->log_len[i], NULL) != 0)
            violated(&a->w, "the log does not replay");
    if (fsm_digest(fsm) != fsm_digest(a->w.fsm))
        violated(&a->w, "I5: the log replayed has another digest");
    fsm_free(fsm);
}

/* ---- backups ---- */

static void forget_log(struct alone *a)
{
    for (size_t i = 0; i < a->n_log; i++)
        free(a->log[i]);
    a->n_log = 0;
}

static void restore_backup(struct alone *a)
{
    struct world *w = &a->w;
    uint8_t bytes[BACKUP_COMMAND_MAX];
    const char *why = "";

    replay(a);
    forget_log(a);
    free(a->begin);
    a->begin = mem_must_dup(w->backup, w->backup_len);
    a->begin_len = w->backup_len;
    backup_restore(w);
    if (fsm_restore(a->twin, w->backup, w->backup_len, &why) < 0)
        violated(w, "a backup does not restore: %s", why);
    submit(w, bytes, backup_command(w, bytes), &(struct sim_ask){0});
    a->restored++;
}

/* In every third seed. */
static void backup_step(struct alone *a)
{
    if (a->w.seed % 3)
        return;
    if (roll(&a->w, 300) == 0)
        backup_make(&a->w, a->w.fsm);
    if (a->w.backup && roll(&a->w, 500) == 0)
        restore_backup(a);
    backup_behave(&a->w);
}

static void pass_time(struct world *w)
{
    if (roll(w, 600) == 0) /* long enough for answers to be forgotten */
        w->now_ms += FSM_REQUEST_MS + (int64_t)roll(w, 60000);
    w->now_ms += (int64_t)(chance(w, 1) ? roll(w, 10000) : roll(w, 50));
}

static void alone_done(struct alone *a)
{
    fsm_free(a->twin);
    for (size_t i = 0; i < a->n_log; i++)
        free(a->log[i]);
    free(a->log);
    free(a->log_len);
    free(a->begin);
    buf_done(&a->entry);
    world_done(&a->w);
}

/* Beside the world's events. */
enum {
    COUNT_SWAPPED = SIM_EVENTS,
    COUNT_RESTORED,
    COUNT_LOST, /* leases that only nodes knew of */
    COUNT_CONFIRMED,
    COUNT_PIECES, /* reports of epochs, */
    COUNT_OUT_OF_TURN,
    COUNTS,
};

static void run(const struct options *options, uint64_t seed, uint64_t *counts)
{
    struct alone a = {0};
    struct world *w = &a.w;

    world_init(w, options, seed, counts, &ops);
    buf_init(&a.entry, COMMAND_ENTRY_MAX);
    if (fsm_new(&a.twin) < 0)
        abort();
    world_begin(w);
    client_pool(w);
    for (w->step = 1; w->step < options->steps && !w->over; w->step++) {
        pass_time(w);
        play_step(w);
        backup_step(&a);
        if (chance(w, 1))
            swap_twin(&a);
    }
    for (int round = 0; !w->over && round < 400; round++) {
        w->now_ms += 500;
        if (!play_heal(w) && round > 20)
            break;
    }
    if (!w->over)
        play_healed(w);
    replay(&a);
    counts[COUNT_SWAPPED] += a.swapped;
    counts[COUNT_RESTORED] += a.restored;
    counts[COUNT_LOST] += w->n_lost;
    counts[COUNT_CONFIRMED] += w->n_confirmed;
    counts[COUNT_PIECES] += w->n_pieces;
    counts[COUNT_OUT_OF_TURN] += w->n_out_of_turn;
    alone_done(&a);
}

int main(int argc, char **argv)
{
    const char *env = getenv("XCE_TEST_LONG");
    bool many = env && strcmp(env, "1") == 0;
    struct options options = {.program = "sim_fsm",
                              .first = 1,
                              .seeds = many ? 4000 : 120,
                              .steps = many ? 6000 : 1500,
                              .jobs = many ? (uint64_t)sysconf(_SC_NPROCESSORS_ONLN) : 1};
    uint64_t counts[COUNTS] = {0};
    bool all;

    options_parse(&options, argc, argv);
    if (!play_all(&options, run, COUNTS, counts))
        return 1;
    printf("sim_fsm: %" PRIu64 " seeds from %" PRIu64 ", %" PRIu64
           " steps each: no invariant violated\n",
           options.seeds, options.first, options.steps);
    all = play_print_events(counts, options.seeds * options.steps >= 10000000);
    all &= play_print((const char *const[]){"snapshots", "backups restored",
                                            "leases that only nodes knew", "nodes confirmed",
                                            "reports of epochs", "out of turn"},
                      COUNTS - COUNT_SWAPPED, counts + COUNT_SWAPPED, true);
    /* Only long runs can tell. */
    if (all || options.seeds * options.steps < 1000000)
        return 0;
    fprintf(stderr, "sim_fsm: something never happened\n");
    return 1;
}
