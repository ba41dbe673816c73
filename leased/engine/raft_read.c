/* Reads that are linearizable without an entry of the log: a majority of the voters says, asked after the read came, that it
 * knows no term newer than ours. Then no newer leader can have been elected before the read came, so nothing was
 * acknowledged that is not in our log; and what we acknowledged ourselves we had applied.
 *
 * A term is on disk before anything is said in it, so the answer holds over a crash of the answerer. One round is under way
 * at a time and serves all who came before it began; who comes later waits for the next one. */
#include <errno.h>
#include <stdlib.h>

#include "common/mem.h"
#include "leased/engine/raft_inner.h"

static void finish(struct replica *replica, struct read_waiter *waiters, size_t n, int r)
{
    for (size_t i = 0; i < n; i++)
        engine_later_ready(&replica->engine, r, waiters[i].done, waiters[i].arg);
}

static bool has_confirmed(const struct read_round *round, uint64_t id)
{
    for (size_t i = 0; i < round->n_confirmed; i++)
        if (round->confirmed[i] == id)
            return true;
    return false;
}

/* Whether enough voters of the present list, ourselves among them, stand behind us. */
static bool is_confirmed(const struct replica *replica)
{
    const struct raft_configuration *members = &replica->raft.configuration;
    unsigned voters = 0, n = 0;

    for (unsigned i = 0; i < members->n; i++) {
        const struct raft_server *server = &members->servers[i];

        if (server->role != RAFT_VOTER)
            continue;
        voters++;
        if (server->id == replica->identity.id || has_confirmed(&replica->read, server->id))
            n++;
    }
    return n > voters / 2;
}

static void ask_all(struct replica *replica)
{
    const struct raft_configuration *members = &replica->raft.configuration;

    for (unsigned i = 0; i < members->n; i++) {
        const struct raft_server *server = &members->servers[i];

        if (server->role == RAFT_VOTER && server->id != replica->identity.id &&
            !has_confirmed(&replica->read, server->id))
            raft_links_confirm(replica->links, server->id, replica->read.number,
                               raft_current_term(&replica->raft));
    }
}

static void begin(struct replica *replica);

static void end_if_confirmed(struct replica *replica)
{
    struct read_round *round = &replica->read;

    if (!round->under_way || !is_confirmed(replica))
        return;
    round->under_way = false;
    finish(replica, round->now, round->n_now, 0);
    round->n_now = 0;
    if (round->n_next > 0)
        begin(replica);
}

static void begin(struct replica *replica)
{
    struct read_round *round = &replica->read;
    struct read_waiter *spare = round->now;
    size_t spare_cap = round->now_cap;

    round->now = round->next;
    round->n_now = round->n_next;
    round->now_cap = round->next_cap;
    round->next = spare;
    round->next_cap = spare_cap;
    round->n_next = 0;
    round->number++;
    round->n_confirmed = 0;
    round->under_way = true;
    ask_all(replica);
    end_if_confirmed(replica);
}

void raft_read_ask(struct replica *replica, engine_ready_fn done, void *arg)
{
    struct read_round *round = &replica->read;

    mem_must_grow(&round->next, &round->next_cap, round->n_next + 1, sizeof *round->next);
    round->next[round->n_next++] = (struct read_waiter){done, arg};
    if (!round->under_way)
        begin(replica);
}

void raft_read_confirmed(struct replica *replica, uint64_t id, uint64_t number, uint64_t term)
{
    struct read_round *round = &replica->read;

    if (!round->under_way || number != round->number || !replica->ruling ||
        term > raft_current_term(&replica->raft) || has_confirmed(round, id) ||
        round->n_confirmed == REPLICA_MEMBERS_MAX)
        return;
    round->confirmed[round->n_confirmed++] = id;
    end_if_confirmed(replica);
}

/* A question may have been lost with its stream. */
void raft_read_tick(struct replica *replica)
{
    if (!replica->read.under_way)
        return;
    ask_all(replica);
    end_if_confirmed(replica);
}

void raft_read_fail(struct replica *replica, int r)
{
    struct read_round *round = &replica->read;

    finish(replica, round->now, round->n_now, r);
    finish(replica, round->next, round->n_next, r);
    round->n_now = round->n_next = 0;
    round->under_way = false;
}

void raft_read_done(struct replica *replica)
{
    free(replica->read.now);
    free(replica->read.next);
}
