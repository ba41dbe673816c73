/* Runs the cluster of world.h through many seeds.
 *
 * usage: sim_fsm [--first N] [--seeds N] [--steps N] [--trace]
 *
 * Without options: a few seeds, for the unit suite; with XCE_TEST_LONG=1 many. A seed that violates an invariant is named,
 * and how to run it again. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/sim/world.h"

struct options {
    uint64_t first, seeds, steps;
    bool trace;
};

static struct sim_node *any_node(struct world *w)
{
    return &w->nodes[roll(w, SIM_NODES)];
}

/* How often what happens differs from seed to seed: quiet clusters get further, wild ones get into more trouble. */
static void step(struct world *w)
{
    unsigned trouble = (unsigned)(w->seed % 6);
    uint64_t what = roll(w, 100);

    if (roll(w, 600) == 0) /* long enough for answers to be forgotten */
        w->now_ms += FSM_REQUEST_MS + (int64_t)roll(w, 60000);
    w->now_ms += (int64_t)(chance(w, 1) ? roll(w, 10000) : roll(w, 50));
    if (what < 10)
        client_acquire(w);
    else if (what < 15)
        client_lease(w);
    else if (what < 16)
        client_pool(w);
    else if (what < 22)
        world_deliver(w);
    else if (what < 30)
        world_tick(w);
    else if (what < 46)
        node_behave(w, any_node(w));
    else if (what < 68)
        node_report(w, any_node(w));
    else if (what < 80)
        node_pass(w, any_node(w));
    else if (what < 92)
        node_launch(w, any_node(w));
    else if (what < 92 + trouble)
        chance(w, 60) ? node_fail(w, any_node(w)) : node_verbs(w, any_node(w));
    else if (chance(w, 10))
        node_block(w, any_node(w));
    else if (chance(w, 20))
        world_swap_twin(w);
}

/* All nodes are well, nobody asks for anything: then nothing may be left, whatever happened before. */
static void heal(struct world *w)
{
    struct fsm_counts counts;
    size_t left = 0;

    world_forget_messages(w);
    for (int round = 0; round < 400; round++) {
        client_end_all(w);
        for (int n = 0; n < SIM_NODES; n++)
            node_heal(w, &w->nodes[n]);
        world_forget_messages(w);
        w->now_ms += 500;
        world_tick(w);
        left = fsm_lease_next(w->fsm, 0) != NULL;
        if (!left && round > 20)
            break;
    }
    if (left)
        violated(w, "lease %" PRIu64 " never becomes free", fsm_lease_next(w->fsm, 0)->id);
    for (const struct fsm_pool *pool = fsm_pool_next(w->fsm, NULL); pool;
         pool = fsm_pool_next(w->fsm, pool)) {
        fsm_pool_counts(pool, &counts);
        if (counts.free + counts.blocked != pool->range.last - pool->range.first + 1)
            violated(w, "pool %s has lost a uid", pool->name);
    }
}

static void run(const struct options *options, uint64_t seed, uint64_t *events)
{
    struct world w;

    world_init(&w, seed, events);
    w.trace = options->trace;
    client_pool(&w);
    for (w.step = 1; w.step < options->steps && !w.over; w.step++)
        step(&w);
    if (!w.over)
        heal(&w);
    world_replay(&w);
    world_done(&w);
}

/* Whether everything that can happen did. Only long runs can tell. */
static bool saw_all(const struct options *options, const uint64_t *events)
{
    static const char *const names[] = {
        [EVENT_GRANTED] = "granted",     [EVENT_ACTIVE] = "active",
        [EVENT_FREE] = "free",           [EVENT_BACK] = "draining again",
        [EVENT_OATH] = "oath",           [EVENT_MEMBER_LOST] = "member lost",
        [EVENT_DIRTY] = "dirty",         [EVENT_OVERDUE] = "overdue",
        [EVENT_STRAY] = "stray",         [EVENT_FENCED] = "fenced",
        [EVENT_FORGOTTEN] = "forgotten", [EVENT_CORDONED] = "cordoned",
        [EVENT_BLOCKED] = "blocked",     [EVENT_POOL_GONE] = "pool gone",
        [EVENT_REPLAYED] = "replayed",   [EVENT_TOO_OLD] = "too old",
        [EVENT_NOT_READY] = "not ready", [EVENT_REPLACED] = "replaced",
        [EVENT_SWAPPED] = "snapshot",
    };
    bool all = true;

    for (int i = 0; i < SIM_EVENTS; i++) {
        printf("%s%s %" PRIu64, i ? ", " : "  ", names[i], events[i]);
        all &= events[i] > 0;
    }
    printf("\n");
    return all || options->seeds * options->steps < 1000000;
}

static uint64_t number(const char *text)
{
    char *end = NULL;
    uint64_t value = text ? strtoull(text, &end, 10) : 0;

    if (!text || !*text || *end) {
        fprintf(stderr, "sim_fsm: a number is missing\n");
        exit(2);
    }
    return value;
}

static void parse(struct options *options, int argc, char **argv)
{
    for (int i = 1; i < argc; i++) {
        if (strcmp(argv[i], "--trace") == 0) {
            options->trace = true;
        } else if (strcmp(argv[i], "--first") == 0) {
            options->first = number(argv[++i]);
        } else if (strcmp(argv[i], "--seeds") == 0) {
            options->seeds = number(argv[++i]);
        } else if (strcmp(argv[i], "--steps") == 0) {
            options->steps = number(argv[++i]);
        } else {
            fprintf(stderr, "usage: sim_fsm [--first N] [--seeds N] [--steps N] [--trace]\n");
            exit(2);
        }
    }
}

int main(int argc, char **argv)
{
    const char *env = getenv("XCE_TEST_LONG");
    bool many = env && strcmp(env, "1") == 0;
    struct options options = {.first = 1, .seeds = many ? 4000 : 120, .steps = many ? 6000 : 1500};
    uint64_t events[SIM_EVENTS] = {0};

    parse(&options, argc, argv);
    for (uint64_t seed = options.first; seed < options.first + options.seeds; seed++)
        run(&options, seed, events);
    printf("sim_fsm: %" PRIu64 " seeds from %" PRIu64 ", %" PRIu64
           " steps each: no invariant violated\n",
           options.seeds, options.first, options.steps);
    if (saw_all(&options, events))
        return 0;
    fprintf(stderr, "sim_fsm: something never happened\n");
    return 1;
}
