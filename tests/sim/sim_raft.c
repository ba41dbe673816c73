/* Runs the cluster of cluster.h through many seeds: three or five replicas under C-Raft, and everything that can go wrong.
 *
 * usage: sim_raft [--first N] [--seeds N] [--steps N] [--jobs N] [--trace]
 *
 * Without options: 1,000 seeds; with XCE_TEST_LONG=1 100,000. A seed that violates an invariant is named, and how to run it
 * again; so is one in which the library crashes. */
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "tests/sim/cluster.h"

/* After the world's events and the cluster's. */
enum {
    COUNT_LOST = SIM_EVENTS + CLUSTER_EVENTS, /* leases that only nodes knew of */
    COUNT_CONFIRMED,
    COUNT_PIECES, /* reports of epochs, */
    COUNT_OUT_OF_TURN,
    COUNTS,
};

#define HEAL_ROUNDS 240
#define ROUND_MS    500

/* A change of the members that the library refuses leaves behind the bytes of its entry, some forty. */
const char *__lsan_default_suppressions(void);
__attribute__((visibility("default"))) const char *__lsan_default_suppressions(void)
{
    return "leak:raft_add\nleak:raft_assign\nleak:raft_remove\nleak:recv_during_change\n";
}

static volatile uint64_t seed_now;

static void crashed(int signal)
{
    char line[160];
    int len;

    len = snprintf(line, sizeof(line),
                   "VIOLATION at seed %" PRIu64 ": the library ends with signal %d\n"
                   "again: sim_raft --first %" PRIu64 " --seeds 1 --trace\n",
                   seed_now, signal, seed_now);
    (void)!write(STDERR_FILENO, line, (size_t)len);
    _exit(1);
}

static bool lags(const struct cluster *c, struct replica *r)
{
    return raft_last_applied(&r->raft) < c->n_log - 1 ||
           raft_last_applied(&r->raft) != raft_last_index(&r->raft);
}

static bool any_lags(struct cluster *c)
{
    bool any = false;

    for (int i = 0; i < c->n; i++)
        any |= lags(c, &c->replicas[i]);
    return any;
}

/* All replicas have applied all that was committed, and are in the same state. */
static void check_converged(struct cluster *c)
{
    for (int round = 0; round < HEAL_ROUNDS && any_lags(c); round++)
        cluster_elapse(c, ROUND_MS);
    for (int i = 0; i < c->n; i++) {
        struct replica *r = &c->replicas[i];

        if (lags(c, r))
            violated(&c->w, "replica %d has applied %llu of %zu entries", i,
                     raft_last_applied(&r->raft), c->n_log - 1);
        if (fsm_digest(r->fsm) != fsm_digest(c->w.fsm))
            violated(&c->w, "replica %d is in another state in the end", i);
    }
    members_healed(c);
}

static void heal(struct cluster *c)
{
    bool all;

    fault_heal(c);
    for (int round = 0; round < HEAL_ROUNDS; round++) {
        cluster_elapse(c, ROUND_MS);
        all = members_heal(c);
        if (!play_heal(&c->w) && all && round > 3)
            break;
    }
    if (!c->w.over)
        play_healed(&c->w);
    check_converged(c);
}

static void run(const struct options *options, uint64_t seed, uint64_t *counts)
{
    static struct cluster c;
    struct world *w = &c.w;

    seed_now = seed;
    cluster_init(&c, options, seed, counts, counts + SIM_EVENTS);
    while (!fsm_initialised(w->fsm)) {
        cluster_elapse(&c, 100);
        world_begin(w);
    }
    client_pool(w);
    for (w->step = 1; w->step < options->steps && !w->over; w->step++) {
        cluster_elapse(&c, (int64_t)(chance(w, 1) ? roll(w, 10000) : roll(w, seed & 1 ? 50 : 20)));
        fault_step(&c);
        members_step(&c);
        restore_step(&c);
        play_step(w);
    }
    heal(&c);
    counts[COUNT_LOST] += w->n_lost;
    counts[COUNT_CONFIRMED] += w->n_confirmed;
    counts[COUNT_PIECES] += w->n_pieces;
    counts[COUNT_OUT_OF_TURN] += w->n_out_of_turn;
    cluster_done(&c);
}

static bool print_cluster(const uint64_t *events, bool long_run)
{
    static const char *const names[] = {
        [CLUSTER_ELECTED] = "elected",
        [CLUSTER_LEADER_ALONE] = "leader alone",
        [CLUSTER_MINORITY] = "minority",
        [CLUSTER_ONE_WAY] = "one way",
        [CLUSTER_DROPPED] = "dropped",
        [CLUSTER_TWICE] = "twice",
        [CLUSTER_LATE] = "late",
        [CLUSTER_CRASHED] = "crashed",
        [CLUSTER_TORN] = "torn",
        [CLUSTER_BAD_VOTE] = "bad vote",
        [CLUSTER_SLOW_DISK] = "slow disk",
        [CLUSTER_FULL_DISK] = "full disk",
        [CLUSTER_REFUSED_FULL] = "refused for it",
        [CLUSTER_PAUSED] = "paused",
        [CLUSTER_SUSPENDED] = "suspended",
        [CLUSTER_WALL_JUMP] = "wall jumps",
        [CLUSTER_PASSED_ON] = "passed on",
        [CLUSTER_NO_LEADER] = "no leader",
        [CLUSTER_UNKNOWN] = "unknown outcome",
        [CLUSTER_TRUNCATED] = "truncated",
        [CLUSTER_SNAPSHOT] = "snapshot",
        [CLUSTER_INSTALLED] = "installed",
        [CLUSTER_RESTORED] = "restored",
        [CLUSTER_HELD_OFF] = "held off",
        [CLUSTER_CORRECTED] = "*corrected",
        [CLUSTER_CUT] = "cut",
        [CLUSTER_REFUSED] = "refused",
        [CLUSTER_NOTED] = "noted",
        [CLUSTER_LATE_REFUSAL] = "late refusal",
        [CLUSTER_UNREAD] = "unread",
        [CLUSTER_ADDED] = "added",
        [CLUSTER_PROMOTED] = "promoted",
        [CLUSTER_REMOVED] = "removed",
        [CLUSTER_WIPED] = "wiped",
        [CLUSTER_CHANGE_FAILED] = "change failed",
        [CLUSTER_CONTRADICTED] = "contradicted",
        [CLUSTER_HANDED_OVER] = "handed over",
        [CLUSTER_BACKUP] = "backups restored",
        [CLUSTER_PARTED] = "parted",
        [CLUSTER_SETTLED] = "settled",
        [CLUSTER_UNENDED] = "*unended",
        [CLUSTER_SKIPPED] = "skipped",
        [CLUSTER_LENT] = "lent",
        [CLUSTER_TOLD] = "told",
        [CLUSTER_HUMBLED] = "humbled",
    };

    return play_print(names, CLUSTER_EVENTS, events, long_run);
}

int main(int argc, char **argv)
{
    const char *env = getenv("XCE_TEST_LONG");
    bool many = env && strcmp(env, "1") == 0;
    /* They cost tenfold, and look for something else. */
    bool sanitized = getenv("XCE_TEST_SANITIZED") != NULL;
    struct options options = {.program = "sim_raft",
                              .first = 1,
                              .seeds = many        ? 100000
                                       : sanitized ? 100
                                                   : 1000,
                              .steps = 600,
                              .jobs = many ? (uint64_t)sysconf(_SC_NPROCESSORS_ONLN) : 1};
    uint64_t counts[COUNTS] = {0};
    bool all;

    options_parse(&options, argc, argv);
    if (options.trace)
        setvbuf(stdout, NULL, _IOLBF, 0); /* to the last line, also when the library crashes */
    signal(SIGSEGV, crashed);
    signal(SIGABRT, crashed);
    if (!play_all(&options, run, COUNTS, counts))
        return 1;
    printf("sim_raft: %" PRIu64 " seeds from %" PRIu64 ", %" PRIu64
           " steps each: no invariant violated\n",
           options.seeds, options.first, options.steps);
    all = play_print_events(counts, options.seeds * options.steps >= 30000000);
    all &= print_cluster(counts + SIM_EVENTS, options.seeds * options.steps >= 30000000);
    all &= play_print((const char *const[]){"leases that only nodes knew", "nodes confirmed",
                                            "reports of epochs", "*out of turn"},
                      COUNTS - COUNT_LOST, counts + COUNT_LOST,
                      options.seeds * options.steps >= 30000000);
    /* Only long runs can tell. */
    if (all || options.seeds * options.steps < 600000)
        return 0;
    fprintf(stderr, "sim_raft: something never happened\n");
    return 1;
}
