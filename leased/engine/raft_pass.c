#include "leased/engine/raft_pass.h"

#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <uthash.h>

#include "common/digest.h"
#include "common/mem.h"
#include "common/pb.h"
#include "leased/engine/raft_ask.h"
#include "leased/engine/raft_inner.h"
#include "leased/fsm/command.h"
#include "xce/v1/replica.pb-c.h"

/* Of one round; a command alone may be longer. */
#define ROUND_COMMANDS 1024
#define ROUND_BYTES    (1u << 20)
/* Whatever a request has asked for, which a leader would take: the longest message, and what a command says beside it. */
#define COMMAND_MAX (RAFT_PASS_MAX - (1u << 19))
/* Room for a Command's origin: two bytes of tag more than usual, and eight. */
#define ORIGIN_LEN 11u

/* A command of ours, until its outcome is known. */
struct passed {
    uint64_t origin; /* key */
    uint8_t *bytes;  /* until it is sent */
    size_t len;
    bool accepted; /* applied at the leader */
    bool jumped;   /* a snapshot came since it was sent: its entry may never come */
    engine_done_fn done;
    void *arg;
    struct passed *next; /* in the line, in the round */
    UT_hash_handle hh;
};

struct waiter {
    uint64_t entry; /* that must be applied; 0 = not known yet */
    engine_ready_fn done;
    void *arg;
};

struct waiters {
    struct waiter *items;
    size_t n, cap;
};

/* A request that the leader has not answered. link 0: none. */
struct round {
    uint64_t leader, link, number;
};

struct raft_pass {
    struct replica *replica;
    struct passed *all; /* by origin */
    struct passed *line, *line_last;
    uint64_t next_origin, last_number;

    struct round commanding, reading;
    struct passed *sent, *sent_last;     /* commands in the round */
    struct waiters next, now, confirmed; /* reads: to ask; asked; their entry is not applied yet */

    struct pb_arena arena;
};

int raft_pass_new(struct replica *replica, struct raft_pass **ret)
{
    struct raft_pass *pass = calloc(1, sizeof *pass);

    if (!pass)
        return -ENOMEM;
    pass->replica = replica;
    digest_random(&pass->next_origin, sizeof pass->next_origin);
    pb_arena_init(&pass->arena, PB_ARENA_MAX);
    *ret = pass;
    return 0;
}

static void waiters_done(struct waiters *waiters)
{
    assert(waiters->n == 0);
    free(waiters->items);
}

void raft_pass_free(struct raft_pass *pass)
{
    if (!pass)
        return;
    assert(!pass->all);
    waiters_done(&pass->next);
    waiters_done(&pass->now);
    waiters_done(&pass->confirmed);
    pb_arena_done(&pass->arena);
    free(pass);
}

/* ---- answers, in the next round of the loop ---- */

static void answer(struct raft_pass *pass, struct passed *passed, int r)
{
    engine_later_done(&pass->replica->engine, r, passed->done, passed->arg);
    HASH_DEL(pass->all, passed);
    free(passed->bytes);
    free(passed);
}

static void answer_line(struct raft_pass *pass, int r)
{
    struct passed *passed, *next;

    for (passed = pass->line; passed; passed = next) {
        next = passed->next;
        answer(pass, passed, r);
    }
    pass->line = pass->line_last = NULL;
}

static void add_waiter(struct waiters *to, struct waiter waiter)
{
    mem_must_grow(&to->items, &to->cap, to->n + 1, sizeof *to->items);
    to->items[to->n++] = waiter;
}

static void answer_waiters(struct raft_pass *pass, struct waiters *waiters, int r)
{
    for (size_t i = 0; i < waiters->n; i++)
        engine_later_ready(&pass->replica->engine, r, waiters->items[i].done,
                           waiters->items[i].arg);
    waiters->n = 0;
}

/* ---- the wire ---- */

static int to_errno(Xce__V1__PassResult result)
{
    static const int table[] = {0,    -EAGAIN,  -ECONNABORTED, -ENOSPC,
                                -EIO, -ENOBUFS, -EMSGSIZE,     -EINVAL};

    return (size_t)result < ARRAY_LEN(table) ? table[result] : -ECONNABORTED;
}

Xce__V1__PassResult raft_pass_result(int r)
{
    switch (r) {
    case 0:
        return XCE__V1__PASS_RESULT__PASS_RESULT_OK;
    case -EAGAIN:
    case -ECANCELED:
    case -ESHUTDOWN:
        return XCE__V1__PASS_RESULT__PASS_RESULT_NOT_LEADER;
    case -ENOSPC:
        return XCE__V1__PASS_RESULT__PASS_RESULT_DISK_FULL;
    case -EIO:
        return XCE__V1__PASS_RESULT__PASS_RESULT_DISK_FAILED;
    case -ENOBUFS:
        return XCE__V1__PASS_RESULT__PASS_RESULT_BUSY;
    case -EMSGSIZE:
        return XCE__V1__PASS_RESULT__PASS_RESULT_TOO_LONG;
    case -EINVAL:
        return XCE__V1__PASS_RESULT__PASS_RESULT_INVALID;
    default:
        return XCE__V1__PASS_RESULT__PASS_RESULT_UNKNOWN;
    }
}

/* The member that leads, if it is another one and known. */
static const struct raft_server *leader(const struct raft_pass *pass)
{
    const struct raft *raft = &pass->replica->raft;
    const struct raft_configuration *members = &raft->configuration;
    const char *address;
    raft_id id;

    raft_leader((struct raft *)(uintptr_t)raft, &id, &address);
    if (id == 0 || id == pass->replica->identity.id)
        return NULL;
    for (unsigned i = 0; i < members->n; i++)
        if (members->servers[i].id == id)
            return &members->servers[i];
    return NULL;
}

/* Send it to the leader. false: it was not. */
static bool begin_round(struct raft_pass *pass, struct round *round, const struct raft_server *to,
                        const Xce__V1__PassRequest *request)
{
    size_t len = xce__v1__pass_request__get_packed_size(request);
    uint8_t *bytes = mem_must_calloc(1, len + 1);

    (void)xce__v1__pass_request__pack(request, bytes);
    round->leader = to->id;
    round->number = ++pass->last_number;
    round->link = raft_links_pass(pass->replica->links, to->id, round->number, bytes, len);
    free(bytes);
    return round->link != 0;
}

uint64_t raft_pass_send(struct raft_pass *pass, const Xce__V1__PassRequest *request,
                        uint64_t *ret_number)
{
    const struct raft_server *to = leader(pass);
    struct round round = {0};

    if (!to || !begin_round(pass, &round, to, request))
        return 0;
    *ret_number = round.number;
    return round.link;
}

/* ---- commands ---- */

void raft_pass_propose(struct raft_pass *pass, const uint8_t *command, size_t len,
                       engine_done_fn done, void *arg)
{
    struct engine *engine = &pass->replica->engine;
    Xce__V1__Command origin = XCE__V1__COMMAND__INIT;
    struct passed *passed;
    int r = 0;

    if (!leader(pass))
        r = -EAGAIN;
    else if (HASH_COUNT(pass->all) >= engine->options.waiting_commands)
        r = -ENOBUFS;
    else if (len > COMMAND_MAX)
        r = -EMSGSIZE;
    if (r < 0) {
        engine_later_done(engine, r, done, arg);
        return;
    }
    passed = mem_must_calloc(1, sizeof *passed);
    passed->bytes = mem_must_calloc(1, len + ORIGIN_LEN);
    if (pass->next_origin == 0)
        pass->next_origin = 1;
    passed->origin = origin.origin = pass->next_origin++;
    /* Fields may come in any order: the origin goes behind. */
    memcpy(passed->bytes, command, len);
    passed->len = len + xce__v1__command__pack(&origin, passed->bytes + len);
    passed->done = done;
    passed->arg = arg;
    HASH_ADD(hh, pass->all, origin, sizeof passed->origin, passed);
    if (pass->line_last)
        pass->line_last->next = passed;
    else
        pass->line = passed;
    pass->line_last = passed;
    engine_flush_soon(engine);
}

void raft_pass_applied(struct raft_pass *pass, const struct fsm_outcome *outcome)
{
    struct passed *passed;

    HASH_FIND(hh, pass->all, &outcome->origin, sizeof outcome->origin, passed);
    /* One that waits in the line has not been sent: the number is another's. */
    if (!passed || passed->bytes)
        return;
    if (passed->done)
        passed->done(0, outcome, passed->arg);
    passed->done = NULL;
    if (passed->accepted)
        answer(pass, passed, 0);
}

/* The round is over; r < 0: that is all that is known of its commands (-EAGAIN: not done). */
static void end_commanding(struct raft_pass *pass, int r, const Xce__V1__PassReply *reply)
{
    struct passed *passed, *next;
    size_t i = 0;

    if (r == 0 && reply->result != XCE__V1__PASS_RESULT__PASS_RESULT_OK)
        r = to_errno(reply->result);
    for (passed = pass->sent; passed; passed = next, i++) {
        int result = r;

        next = passed->next;
        passed->next = NULL;
        if (r == 0)
            result = i < reply->n_results ? to_errno(reply->results[i]) : -ECONNABORTED;
        if (result == 0 && passed->done && passed->jumped)
            result = -ECONNABORTED;
        /* Applied here already: it has been answered. */
        if (!passed->done || result < 0)
            answer(pass, passed, result);
        else
            passed->accepted = true;
    }
    pass->sent = pass->sent_last = NULL;
    pass->commanding.link = 0;
}

static void send_commands(struct raft_pass *pass, const struct raft_server *to)
{
    Xce__V1__PassRequest request = XCE__V1__PASS_REQUEST__INIT;
    ProtobufCBinaryData commands[ROUND_COMMANDS];
    size_t bytes = 0;
    bool sent;

    while (pass->line && request.n_commands < ROUND_COMMANDS &&
           (request.n_commands == 0 || bytes + pass->line->len <= ROUND_BYTES)) {
        struct passed *passed = pass->line;

        pass->line = passed->next;
        passed->next = NULL;
        if (pass->sent_last)
            pass->sent_last->next = passed;
        else
            pass->sent = passed;
        pass->sent_last = passed;
        bytes += passed->len;
        commands[request.n_commands++] = (ProtobufCBinaryData){passed->len, passed->bytes};
    }
    if (!pass->line)
        pass->line_last = NULL;
    request.commands = commands;
    sent = begin_round(pass, &pass->commanding, to, &request);
    for (struct passed *passed = pass->sent; passed; passed = passed->next)
        free(mem_take(passed->bytes));
    if (!sent)
        end_commanding(pass, -EAGAIN, NULL);
}

/* ---- reads ---- */

void raft_pass_read(struct raft_pass *pass, engine_ready_fn done, void *arg)
{
    if (!leader(pass)) {
        engine_later_ready(&pass->replica->engine, -EAGAIN, done, arg);
        return;
    }
    add_waiter(&pass->next, (struct waiter){0, done, arg});
    engine_flush_soon(&pass->replica->engine);
}

static void end_reading(struct raft_pass *pass, int r, const Xce__V1__PassReply *reply)
{
    pass->reading.link = 0;
    if (r == 0 && reply->result != XCE__V1__PASS_RESULT__PASS_RESULT_OK)
        r = -EAGAIN;
    if (r < 0) {
        answer_waiters(pass, &pass->now, r);
        return;
    }
    for (size_t i = 0; i < pass->now.n; i++) {
        pass->now.items[i].entry = reply->entry;
        add_waiter(&pass->confirmed, pass->now.items[i]);
    }
    pass->now.n = 0;
    raft_pass_reached(pass, raft_last_applied(&pass->replica->raft), false);
}

static void send_read(struct raft_pass *pass, const struct raft_server *to)
{
    Xce__V1__PassRequest request = XCE__V1__PASS_REQUEST__INIT;
    struct waiters spare = pass->now;

    pass->now = pass->next;
    pass->next = spare;
    request.read = true;
    if (!begin_round(pass, &pass->reading, to, &request))
        end_reading(pass, -EAGAIN, NULL);
}

static void answer_accepted(struct raft_pass *pass)
{
    struct passed *passed, *next;

    HASH_ITER(hh, pass->all, passed, next)
    if (passed->accepted)
        answer(pass, passed, -ECONNABORTED);
}

void raft_pass_stalled(struct raft_pass *pass)
{
    answer_accepted(pass);
    answer_waiters(pass, &pass->confirmed, -EIO);
}

void raft_pass_reached(struct raft_pass *pass, uint64_t entry, bool restored)
{
    struct waiters *waiters = &pass->confirmed;
    size_t kept = 0;

    for (size_t i = 0; i < waiters->n; i++) {
        if (waiters->items[i].entry > entry)
            waiters->items[kept++] = waiters->items[i];
        else
            engine_later_ready(&pass->replica->engine, 0, waiters->items[i].done,
                               waiters->items[i].arg);
    }
    waiters->n = kept;
    if (!restored)
        return;
    answer_accepted(pass);
    for (struct passed *passed = pass->sent; passed; passed = passed->next)
        passed->jumped = true;
}

/* ---- rounds ---- */

static void give_up(struct raft_pass *pass, struct round *round)
{
    if (round == &pass->commanding)
        end_commanding(pass, -ECONNABORTED, NULL);
    else
        end_reading(pass, -EAGAIN, NULL);
}

static bool is(const struct round *round, uint64_t link, uint64_t number)
{
    return round->link == link && round->number == number;
}

void raft_pass_answered(struct raft_pass *pass, uint64_t link, uint64_t number,
                        const uint8_t *bytes, size_t len)
{
    const Xce__V1__PassReply *reply = NULL;
    ProtobufCMessage *message;
    struct err err;

    if (pb_unpack(&pass->arena, &xce__v1__pass_reply__descriptor, bytes, len, &message, &err) == 0)
        reply = (const Xce__V1__PassReply *)message;
    if (is(&pass->commanding, link, number))
        reply ? end_commanding(pass, 0, reply) : give_up(pass, &pass->commanding);
    else if (is(&pass->reading, link, number))
        reply ? end_reading(pass, 0, reply) : give_up(pass, &pass->reading);
    else
        raft_ask_answered(pass->replica, link, number, reply);
    pb_arena_reset(&pass->arena);
    engine_flush_soon(&pass->replica->engine);
}

void raft_pass_ended(struct raft_pass *pass, uint64_t link)
{
    if (pass->commanding.link && (pass->commanding.link == link || !link))
        give_up(pass, &pass->commanding);
    if (pass->reading.link && (pass->reading.link == link || !link))
        give_up(pass, &pass->reading);
    raft_ask_ended(pass->replica, link, link ? -ECONNABORTED : -ECANCELED);
}

void raft_pass_flush(struct raft_pass *pass)
{
    const struct raft_server *to = leader(pass);
    uint64_t id = to ? to->id : 0;

    /* A leader that is none any more may never answer: behind a cut, streams stay open for long. */
    if (pass->commanding.link && pass->commanding.leader != id)
        give_up(pass, &pass->commanding);
    if (pass->reading.link && pass->reading.leader != id)
        give_up(pass, &pass->reading);
    if (!to) {
        answer_line(pass, -EAGAIN);
        answer_waiters(pass, &pass->next, -EAGAIN);
        if (raft_state(&pass->replica->raft) != RAFT_LEADER) {
            /* What was agreed on reaches us with the next leader, whenever that is; another replica may have it now. */
            answer_accepted(pass);
            answer_waiters(pass, &pass->confirmed, -EAGAIN);
        }
        return;
    }
    if (pass->line && !pass->commanding.link)
        send_commands(pass, to);
    if (pass->next.n > 0 && !pass->reading.link)
        send_read(pass, to);
}

void raft_pass_close(struct raft_pass *pass)
{
    struct passed *passed, *next;

    raft_pass_ended(pass, 0);
    answer_line(pass, -ECANCELED);
    answer_waiters(pass, &pass->next, -ECANCELED);
    answer_waiters(pass, &pass->confirmed, -ECANCELED);
    HASH_ITER(hh, pass->all, passed, next)
    answer(pass, passed, -ECANCELED);
}
