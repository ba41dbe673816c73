/* What happens in which order, how it ends, and what a run must have seen. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/sim/world.h"

static struct sim_node *any_node(struct world *w)
{
    return &w->nodes[roll(w, SIM_NODES)];
}

/* Half of the seeds are brisk: uids come round often, so that what is late meets the next lease of its uid. */
static void go_on(struct world *w)
{
    node_behave(w, any_node(w));
    node_report(w, any_node(w));
    node_pass(w, any_node(w));
    if (chance(w, 30))
        world_tick(w);
    if (!fsm_pool_next(w->fsm, NULL) && chance(w, 20))
        client_pool(w);
}

/* How often what happens differs from seed to seed: quiet clusters get further, wild ones get into more trouble. */
void play_step(struct world *w)
{
    unsigned trouble = (unsigned)(w->seed % 6);
    uint64_t what = roll(w, 100);

    if (w->seed & 1)
        go_on(w);
    if (w->seed % 16 == 6 && chance(w, 30)) /* accounts come and go in the ranges */
        chance(w, 60) ? node_block(w, any_node(w)) : client_pool(w);
    else if (w->seed % 16 == 11 && chance(w, 12)) /* nodes are given up, sworn off, replaced */
        node_verbs(w, any_node(w));
    else if (what < 9)
        client_acquire(w);
    else if (what < 10)
        client_again(w);
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
}

bool play_heal(struct world *w)
{
    bool waiting;

    w->healing = true;
    waiting = client_insist(w);
    client_end_all(w);
    for (int n = 0; n < SIM_NODES; n++)
        node_heal(w, &w->nodes[n]);
    client_confirm(w);
    world_forget_messages(w);
    world_tick(w);
    return waiting || fsm_lease_next(w->fsm, 0);
}

void play_healed(struct world *w)
{
    struct fsm_counts counts;

    for (size_t i = 0; i < w->n_requests; i++)
        if (!w->requests[i].told)
            violated(w, "request r%zu is never answered", i);
    if (fsm_lease_next(w->fsm, 0))
        violated(w, "lease %" PRIu64 " never becomes free", fsm_lease_next(w->fsm, 0)->id);
    for (const struct fsm_pool *pool = fsm_pool_next(w->fsm, NULL); pool;
         pool = fsm_pool_next(w->fsm, pool)) {
        fsm_pool_counts(pool, &counts);
        if (counts.free + counts.blocked != pool->range.last - pool->range.first + 1)
            violated(w, "pool %s has lost a uid", pool->name);
    }
}

bool play_print(const char *const *names, size_t n, const uint64_t *counts, bool long_run)
{
    bool all = true;

    for (size_t i = 0; i < n; i++) {
        printf("%s%s %" PRIu64, i ? ", " : "  ", names[i], counts[i]);
        all &= counts[i] > 0 || (names[i][0] == '*' && !long_run);
    }
    printf("\n");
    return all;
}

bool play_print_events(const uint64_t *events, bool long_run)
{
    static const char *const names[] = {
        [EVENT_GRANTED] = "granted",
        [EVENT_ACTIVE] = "active",
        [EVENT_FREE] = "free",
        [EVENT_EXPIRED] = "expired",
        [EVENT_BACK] = "draining again",
        [EVENT_OATH] = "*oath",
        [EVENT_MEMBER_LOST] = "member lost",
        [EVENT_DIRTY] = "dirty",
        [EVENT_OVERDUE] = "overdue",
        [EVENT_STRAY] = "stray",
        [EVENT_FENCED] = "fenced",
        [EVENT_FORGOTTEN] = "forgotten",
        [EVENT_CORDONED] = "cordoned",
        [EVENT_BLOCKED] = "blocked",
        [EVENT_POOL_GONE] = "pool gone",
        [EVENT_REPLAYED] = "replayed",
        [EVENT_TOO_OLD] = "too old",
        [EVENT_NOT_READY] = "not ready",
        [EVENT_REPLACED] = "replaced",
        [EVENT_JOINED] = "joined",
        [EVENT_LET_GO] = "*let-go",
        [EVENT_PASSED] = "*unblocked by a pass",
    };

    return play_print(names, SIM_EVENTS, events, long_run);
}

/* ---- many seeds ---- */

static void run_share(const struct options *options, seed_fn run, uint64_t job, uint64_t *counts)
{
    for (uint64_t seed = options->first + job; seed < options->first + options->seeds;
         seed += options->jobs)
        run(options, seed, counts);
}

static uint64_t *shared_counts(size_t n)
{
    void *counts = mmap(NULL, n * sizeof(uint64_t), PROT_READ | PROT_WRITE,
                        MAP_SHARED | MAP_ANONYMOUS, -1, 0);

    if (counts == MAP_FAILED) {
        perror("mmap");
        exit(1);
    }
    return counts;
}

/* Each process takes every so manieth seed: a seed runs alike in any of them. */
bool play_all(const struct options *options, seed_fn run, size_t n_counts, uint64_t *counts)
{
    uint64_t *shared;
    bool well = true;
    int status;

    if (options->jobs < 2) {
        run_share(options, run, 0, counts);
        return true;
    }
    shared = shared_counts(options->jobs * n_counts);
    for (uint64_t job = 0; job < options->jobs; job++) {
        pid_t pid = fork();

        if (pid < 0) {
            perror("fork");
            exit(1);
        }
        if (pid == 0) {
            run_share(options, run, job, shared + job * n_counts);
            exit(0);
        }
    }
    while (wait(&status) > 0)
        well &= WIFEXITED(status) && WEXITSTATUS(status) == 0;
    for (size_t i = 0; i < options->jobs * n_counts; i++)
        counts[i % n_counts] += shared[i];
    (void)munmap(shared, options->jobs * n_counts * sizeof(uint64_t));
    return well;
}

/* ---- options ---- */

static uint64_t number(const struct options *options, const char *text)
{
    char *end = NULL;
    uint64_t value = text ? strtoull(text, &end, 10) : 0;

    if (!text || !*text || *end) {
        fprintf(stderr, "%s: a number is missing\n", options->program);
        exit(2);
    }
    return value;
}

void options_parse(struct options *options, int argc, char **argv)
{
    for (int i = 1; i < argc; i++) {
        if (strcmp(argv[i], "--trace") == 0) {
            options->trace = true;
        } else if (strcmp(argv[i], "--first") == 0) {
            options->first = number(options, argv[++i]);
        } else if (strcmp(argv[i], "--seeds") == 0) {
            options->seeds = number(options, argv[++i]);
        } else if (strcmp(argv[i], "--steps") == 0) {
            options->steps = number(options, argv[++i]);
        } else if (strcmp(argv[i], "--jobs") == 0) {
            options->jobs = number(options, argv[++i]);
        } else {
            fprintf(stderr, "usage: %s [--first N] [--seeds N] [--steps N] [--jobs N] [--trace]\n",
                    options->program);
            exit(2);
        }
    }
}
