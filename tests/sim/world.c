#include "tests/sim/world.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/mem.h"
#include "leased/fsm/command.h"

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
    fprintf(stderr, "\nagain: sim_fsm --first %" PRIu64 " --seeds 1 --steps %" PRIu64 " --trace\n",
            w->seed, w->step + 1);
    exit(1);
}

/* ---- life ---- */

static void init_state(struct world *w)
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
    world_apply(w, &command, -1);
}

void world_init(struct world *w, uint64_t seed, uint64_t *events)
{
    *w = (struct world){
        .events = events, .seed = seed, .random = seed * 0x2545f4914f6cdd1du, .now_ms = 1000};
    buf_init(&w->entry, COMMAND_ENTRY_MAX);
    buf_init(&w->command, COMMAND_ENTRY_MAX);
    if (fsm_new(&w->fsm) < 0 || fsm_new(&w->twin) < 0)
        abort();
    for (int i = 0; i < SIM_NODES; i++) {
        struct sim_node *node = &w->nodes[i];

        snprintf(node->name, sizeof(node->name), "n%d", i);
        snprintf(node->machine, sizeof(node->machine), "m%d-0", i);
        node->power = node->runs = true;
    }
    init_state(w);
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
    fsm_free(w->twin);
    for (size_t i = 0; i < w->n_log; i++)
        free(w->log[i]);
    free(w->log);
    free(w->log_len);
    world_forget_messages(w);
    buf_done(&w->entry);
    buf_done(&w->command);
}

/* ---- applying ---- */

static void on_change(const struct fsm_change *change, void *arg)
{
    truth_change(arg, change);
}

static void on_outcome(size_t i, const struct fsm_outcome *outcome, void *arg)
{
    struct world *w = arg;

    (void)i;
    w->outcome = *outcome;
    if (outcome->n_leases)
        memcpy(w->outcome_leases, outcome->leases, outcome->n_leases * sizeof(uint64_t));
    w->outcome.leases = w->outcome_leases;
    if ((outcome->code == FSM_OK) != !*outcome->message)
        violated(w, "code %d with message '%s'", (int)outcome->code, outcome->message);
}

/* I5 and what is kept twice; then the rest. */
static void check_all(struct world *w)
{
    const char *wrong = fsm_verify(w->fsm);

    if (wrong)
        violated(w, "%s", wrong);
    if (fsm_digest(w->fsm) != fsm_digest(w->twin))
        violated(w, "I5: the twin has another digest");
    truth_check(w);
}

static void keep(struct world *w)
{
    mem_must_grow(&w->log, &w->cap_log, w->n_log + 1, sizeof(*w->log));
    mem_must_grow(&w->log_len, &w->cap_log_len, w->n_log + 1, sizeof(*w->log_len));
    w->log[w->n_log] = mem_must_dup(w->entry.data, w->entry.len);
    w->log_len[w->n_log++] = w->entry.len;
}

static void apply_packed(struct world *w, const uint8_t *bytes, size_t len, int request)
{
    struct fsm_hooks hooks = {on_change, on_outcome, w};
    /* Leaders do not agree on the time: the state takes the later one. */
    int64_t back_ms = chance(w, 10) ? (int64_t)roll(w, 5000) : 0;

    command_entry_begin(&w->entry, w->now_ms > back_ms ? w->now_ms - back_ms : 0,
                        (int64_t)roll(w, 1000000));
    command_entry_append(&w->entry, bytes, len);
    if (command_entry_finish(&w->entry) < 0)
        violated(w, "an entry is not whole");
    keep(w);
    w->applying = request;
    if (fsm_apply(w->fsm, (const uint8_t *)w->entry.data, w->entry.len, &hooks) != 0 ||
        fsm_apply(w->twin, (const uint8_t *)w->entry.data, w->entry.len, NULL) != 0)
        violated(w, "an entry was not taken");
    if (w->outcome.code != FSM_OK)
        say(w, "code %d: %s", (int)w->outcome.code, w->outcome.message);
    if (request >= 0)
        client_answer(w, request, &w->outcome);
    check_all(w);
}

static void pack(struct world *w, const Xce__V1__Command *command)
{
    size_t len = xce__v1__command__get_packed_size(command);

    buf_reset(&w->command);
    xce__v1__command__pack(command, buf_reserve(&w->command, len));
    buf_commit(&w->command, len);
}

enum fsm_code world_apply(struct world *w, const Xce__V1__Command *command, int request)
{
    pack(w, command);
    apply_packed(w, (const uint8_t *)w->command.data, w->command.len, request);
    return w->outcome.code;
}

void world_send(struct world *w, const Xce__V1__Command *command, int request)
{
    size_t i = w->n_bag;

    pack(w, command);
    if (w->n_bag == SIM_BAG) {
        i = roll(w, SIM_BAG); /* one is lost */
        free(w->bag[i].bytes);
    } else {
        w->n_bag++;
    }
    w->bag[i] = (struct sim_message){mem_must_dup(w->command.data, w->command.len), w->command.len,
                                     request};
}

void world_deliver(struct world *w)
{
    struct sim_message message;
    size_t i;

    if (!w->n_bag)
        return;
    i = roll(w, w->n_bag);
    message = w->bag[i];
    if (chance(w, 85))
        apply_packed(w, message.bytes, message.len, message.request);
    if (chance(w, 15)) /* delivered, and delivered again some time */
        return;
    free(message.bytes);
    w->bag[i] = w->bag[--w->n_bag];
}

void world_swap_twin(struct world *w)
{
    const char *why = NULL;
    uint8_t *bytes;
    size_t len;

    if (fsm_snapshot(w->fsm, &bytes, &len) < 0)
        abort();
    if (fsm_restore(w->twin, bytes, len, &why) < 0)
        violated(w, "a snapshot does not restore: %s", why);
    free(bytes);
    w->events[EVENT_SWAPPED]++;
    check_all(w);
}

void world_replay(struct world *w)
{
    struct fsm *fsm;

    if (fsm_new(&fsm) < 0)
        abort();
    for (size_t i = 0; i < w->n_log; i++)
        if (fsm_apply(fsm, w->log[i], w->log_len[i], NULL) != 0)
            violated(w, "the log does not replay");
    if (fsm_digest(fsm) != fsm_digest(w->fsm))
        violated(w, "I5: the log replayed has another digest");
    fsm_free(fsm);
}

void world_tick(struct world *w)
{
    Xce__V1__CmdTick tick = XCE__V1__CMD_TICK__INIT;
    Xce__V1__Command command = XCE__V1__COMMAND__INIT;

    tick.at_most = (uint32_t)roll(w, 8);
    command.kind_case = XCE__V1__COMMAND__KIND_TICK;
    command.tick = &tick;
    world_apply(w, &command, -1);
}
