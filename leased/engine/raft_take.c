/* What another replica has passed on to us: the leader's side of raft_pass.h. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "common/mem.h"
#include "common/pb.h"
#include "leased/engine/raft_ask.h"
#include "leased/engine/raft_inner.h"
#include "leased/engine/raft_pass.h"
#include "xce/v1/command.pb-c.h"
#include "xce/v1/replica.pb-c.h"

/* One command of it. */
struct taken_command {
    struct taken *taken;
    size_t at;
};

struct taken {
    struct replica *replica;
    uint64_t link, number; /* where the answer goes */
    size_t waiting;        /* for so many answers of the engine */
    int result;            /* of the read */
    Xce__V1__PassResult *results;
    struct taken_command *commands;
    size_t n;
    bool asked; /* for a change of the members; its why is borrowed, so it is told at once */
    Xce__V1__MemberChanged changed;
};

static void settle(struct taken *taken)
{
    Xce__V1__PassReply reply = XCE__V1__PASS_REPLY__INIT;
    size_t len;
    uint8_t *bytes;

    if (--taken->waiting > 0)
        return;
    reply.result = raft_pass_result(taken->result);
    reply.results = taken->results;
    reply.n_results = taken->n;
    reply.changed = taken->asked ? &taken->changed : NULL;
    reply.entry = raft_last_applied(&taken->replica->raft);
    len = xce__v1__pass_reply__get_packed_size(&reply);
    bytes = mem_must_calloc(1, len + 1);
    (void)xce__v1__pass_reply__pack(&reply, bytes);
    raft_links_passed(taken->replica->links, taken->link, taken->number, bytes, len);
    free(bytes);
    free(taken->results);
    free(taken->commands);
    free(taken);
}

static void commanded(int r, const struct fsm_outcome *outcome, void *arg)
{
    const struct taken_command *command = arg;

    (void)outcome; /* whatever it was: the other one sees it when it applies the entry */
    command->taken->results[command->at] = raft_pass_result(r);
    settle(command->taken);
}

static void confirmed(int r, void *arg)
{
    struct taken *taken = arg;

    taken->result = r;
    settle(taken);
}

static void changed(int r, const char *why, void *arg)
{
    struct taken *taken = arg;

    raft_ask_result(r, why, &taken->changed);
    taken->asked = true;
    settle(taken);
}

static void take_commands(struct taken *taken, const Xce__V1__PassRequest *request)
{
    struct engine *engine = &taken->replica->engine;

    taken->n = request->n_commands;
    taken->results = mem_must_calloc(taken->n + 1, sizeof *taken->results);
    taken->commands = mem_must_calloc(taken->n + 1, sizeof *taken->commands);
    for (size_t i = 0; i < taken->n; i++) {
        const ProtobufCBinaryData *command = &request->commands[i];
        struct err err;

        taken->commands[i] = (struct taken_command){taken, i};
        taken->waiting++;
        /* An entry that can not be read would end every replica. */
        if (pb_check(&xce__v1__command__descriptor, command->data, command->len, &err) < 0)
            engine_later_done(engine, -EINVAL, commanded, &taken->commands[i]);
        else
            engine_propose(engine, command->data, command->len, commanded, &taken->commands[i]);
    }
}

void raft_pass_take(struct replica *replica, uint64_t link, uint64_t number, const uint8_t *bytes,
                    size_t len)
{
    struct engine *engine = &replica->engine;
    struct taken *taken = mem_must_calloc(1, sizeof *taken);
    const Xce__V1__PassRequest *request;
    ProtobufCMessage *message;
    struct pb_arena arena;
    struct err err;
    int r;

    *taken = (struct taken){.replica = replica, .link = link, .number = number, .waiting = 1};
    pb_arena_init(&arena, PB_ARENA_MAX);
    r = pb_unpack(&arena, &xce__v1__pass_request__descriptor, bytes, len, &message, &err);
    /* Not further than here: two that take each other for the leader would send it to and fro. */
    if (r == 0 && !engine->leading)
        r = -EAGAIN;
    if (r == 0) {
        request = (const Xce__V1__PassRequest *)message;
        if (request->change) {
            raft_ask_take(replica, request->change, changed, taken);
            pb_arena_done(&arena);
            return;
        }
        take_commands(taken, request);
        if (request->read) {
            engine_read_barrier(engine, confirmed, taken);
            pb_arena_done(&arena);
            return;
        }
    }
    engine_later_ready(engine, r == -EAGAIN || r == 0 ? r : -EINVAL, confirmed, taken);
    pb_arena_done(&arena);
}
