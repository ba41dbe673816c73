#include "tests/sim/world.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/mem.h"

/* ---- chance ---- */

uint64_t roll(struct world *w, uint64_t n)
{
    uint64_t x = w->random += 0x9e3779b97f4a7c15u;

    x = (x ^ x >> 30) * 0xbf58476d1ce4e5b9u;
    x = (x ^ x >> 27) * 0x94d049bb133111ebu;
    return (x ^ x >> 31) % n;
}

bool chance(struct world *w, unsigned percent)
{
    return roll(w, 100) < percent;
}

/* ---- words ---- */

void say(struct world *w, const char *format, ...)
{
    va_list args;

    if (!w->trace)
        return;
    printf("%6" PRIu64 " %8" PRId64 "  ", w->step, w->now_ms);
    va_start(args, format);
    vprintf(format, args);
    va_end(args);
    putchar('\n');
}

void violated(struct world *w, const char *format, ...)
{
    va_list args;

    fflush(stdout);
    fprintf(stderr, "VIOLATION at seed %" PRIu64 ", step %" PRIu64 ": ", w->seed, w->step);
    va_start(args, format);
    vfprintf(stderr, format, args);
    va_end(args);
    fprintf(stderr, "\nagain: %s --first %" PRIu64 " --seeds 1 --steps %" PRIu64 " --trace\n",
            w->program, w->seed, w->step < w->steps ? w->step + 1 : w->steps);
    exit(1);
}

/* ---- life ---- */

void world_begin(struct world *w)
{
    Xce__V1__CmdInit init = XCE__V1__CMD_INIT__INIT;
    Xce__V1__Command command = XCE__V1__COMMAND__INIT;
    uint8_t incarnation[16];

    for (size_t i = 0; i < sizeof(incarnation); i++)
        incarnation[i] = (uint8_t)roll(w, 256);
    init.prefix = sim_bytes("xce-");
    init.incarnation = (ProtobufCBinaryData){sizeof(incarnation), incarnation};
    command.kind_case = XCE__V1__COMMAND__KIND_INIT;
    command.init = &init;
    world_tell_leader(w, &command);
}

void world_init(struct world *w, const struct options *options, uint64_t seed, uint64_t *events,
                const struct world_ops *ops)
{
    *w = (struct world){.program = options->program,
                        .steps = options->steps,
                        .ops = ops,
                        .events = events,
                        .seed = seed,
                        .random = seed * 0x2545f4914f6cdd1du,
                        .trace = options->trace,
                        .now_ms = 1000};
    buf_init(&w->command, COMMAND_ENTRY_MAX);
    pb_arena_init(&w->arena, PB_ARENA_MAX);
    if (fsm_new(&w->fsm) < 0)
        abort();
    for (int i = 0; i < SIM_NODES; i++) {
        struct sim_node *node = &w->nodes[i];

        snprintf(node->name, sizeof(node->name), "n%d", i);
        snprintf(node->machine, sizeof(node->machine), "m%d-0", i);
        node->power = node->runs = true;
    }
}

void world_forget_messages(struct world *w)
{
    for (size_t i = 0; i < w->n_bag; i++)
        free(w->bag[i].bytes);
    w->n_bag = 0;
}

void world_done(struct world *w)
{
    fsm_free(w->fsm);
    world_forget_messages(w);
    for (size_t i = 0; i < w->n_requests; i++)
        free(w->requests[i].bytes);
    free(w->requests);
    free(w->backup);
    pb_arena_done(&w->arena);
    buf_done(&w->command);
}

/* ---- committing ---- */

static void on_change(const struct fsm_change *change, void *arg)
{
    truth_change(arg, change);
}

static void on_outcome(size_t i, const struct fsm_outcome *outcome, void *arg)
{
    struct world *w = arg;

    w->outcome = *outcome;
    if (outcome->n_leases)
        memcpy(w->outcome_leases, outcome->leases, outcome->n_leases * sizeof(uint64_t));
    w->outcome.leases = w->outcome_leases;
    if ((outcome->code == FSM_OK) != !*outcome->message)
        violated(w, "code %d with message '%s'", (int)outcome->code, outcome->message);
    if (outcome->code != FSM_OK)
        say(w, "code %d: %s", (int)outcome->code, outcome->message);
    truth_after(w, w->entry.commands[i]);
    if (i + 1 < w->entry.n)
        truth_before(w, w->entry.commands[i + 1]);
}

void world_commit(struct world *w, const uint8_t *entry, size_t len, int64_t written_ms)
{
    struct fsm_hooks hooks = {on_change, on_outcome, w};
    const char *wrong = NULL;

    if (command_entry_decode(&w->arena, entry, len, &w->entry, &wrong) != 0)
        violated(w, "a committed entry is none: %s", wrong);
    w->written_ms = written_ms;
    truth_before(w, w->entry.commands[0]);
    if (fsm_apply(w->fsm, entry, len, &hooks) != 0)
        violated(w, "an entry was not taken");
    wrong = fsm_verify(w->fsm);
    if (wrong)
        violated(w, "%s", wrong);
    truth_check(w);
}

/* ---- asking ---- */

static void pack(struct world *w, const Xce__V1__Command *command)
{
    size_t len = xce__v1__command__get_packed_size(command);

    buf_reset(&w->command);
    xce__v1__command__pack(command, buf_reserve(&w->command, len));
    buf_commit(&w->command, len);
}

void world_ask(struct world *w, const Xce__V1__Command *command, const struct sim_ask *ask)
{
    pack(w, command);
    w->ops->submit(w, (const uint8_t *)w->command.data, w->command.len, ask);
}

void world_tell(struct world *w, const Xce__V1__Command *command)
{
    world_ask(w, command, &(struct sim_ask){.via = w->ops->any(w)});
}

void world_tell_leader(struct world *w, const Xce__V1__Command *command)
{
    int lead = w->ops->lead(w);

    if (lead >= 0)
        world_ask(w, command, &(struct sim_ask){.via = lead});
}

void world_send_bytes(struct world *w, const uint8_t *bytes, size_t len)
{
    size_t i = w->n_bag;

    if (w->n_bag == SIM_BAG) {
        i = roll(w, SIM_BAG); /* one is lost */
        free(w->bag[i].bytes);
    } else {
        w->n_bag++;
    }
    w->bag[i] = (struct sim_message){mem_must_dup(bytes, len), len};
}

void world_send(struct world *w, const Xce__V1__Command *command)
{
    pack(w, command);
    world_send_bytes(w, (const uint8_t *)w->command.data, w->command.len);
}

void world_deliver(struct world *w)
{
    struct sim_message message;
    size_t i;

    if (!w->n_bag)
        return;
    i = roll(w, w->n_bag);
    message = w->bag[i];
    w->bag[i] = w->bag[--w->n_bag];
    if (chance(w, 15)) /* delivered, and delivered again some time */
        world_send_bytes(w, message.bytes, message.len);
    if (chance(w, 85))
        w->ops->submit(w, message.bytes, message.len, &(struct sim_ask){.via = w->ops->any(w)});
    free(message.bytes);
}

void world_tick(struct world *w)
{
    Xce__V1__CmdTick tick = XCE__V1__CMD_TICK__INIT;
    Xce__V1__Command command = XCE__V1__COMMAND__INIT;

    tick.at_most = (uint32_t)roll(w, 8);
    command.kind_case = XCE__V1__COMMAND__KIND_TICK;
    command.tick = &tick;
    world_tell_leader(w, &command);
}
