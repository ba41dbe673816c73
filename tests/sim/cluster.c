#include "tests/sim/cluster.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "common/mem.h"

/* ---- time ---- */

static bool before(const struct event *a, const struct event *b)
{
    return a->at_ms < b->at_ms || (a->at_ms == b->at_ms && a->order < b->order);
}

void cluster_at(struct cluster *c, int64_t at_ms, const struct event *event)
{
    size_t i = c->n_heap++;

    mem_must_grow(&c->heap, &c->cap_heap, c->n_heap, sizeof(*c->heap));
    c->heap[i] = *event;
    c->heap[i].at_ms = at_ms;
    c->heap[i].order = ++c->order;
    c->heap[i].generation = c->replicas[event->replica].generation;
    for (; i && before(&c->heap[i], &c->heap[(i - 1) / 2]); i = (i - 1) / 2) {
        struct event up = c->heap[i];

        c->heap[i] = c->heap[(i - 1) / 2];
        c->heap[(i - 1) / 2] = up;
    }
}

static struct event take_event(struct cluster *c)
{
    struct event first = c->heap[0], last = c->heap[--c->n_heap];
    size_t i = 0;

    for (size_t child = 1; child < c->n_heap; child = 2 * i + 1) {
        child += child + 1 < c->n_heap && before(&c->heap[child + 1], &c->heap[child]);
        if (before(&last, &c->heap[child]))
            break;
        c->heap[i] = c->heap[child];
        i = child;
    }
    if (c->n_heap)
        c->heap[i] = last;
    return first;
}

bool cluster_answers(const struct cluster *c, const struct replica *r)
{
    return r->up && r->paused_until_ms <= c->w.now_ms;
}

bool cluster_linked(const struct cluster *c, int a, int b)
{
    return c->links[a][b].cut_until_ms <= c->w.now_ms && c->links[b][a].cut_until_ms <= c->w.now_ms;
}

static void run_event(struct cluster *c, const struct event *event)
{
    struct replica *r = &c->replicas[event->replica];

    if (event->kind == AT_MESSAGE) {
        net_deliver(c, event);
        return;
    }
    switch (event->kind) {
    case AT_TICK:
        cluster_at(c, c->w.now_ms + r->tick_ms,
                   &(struct event){.kind = AT_TICK, .replica = r->index});
        r->io.capacity = r->full_until_ms > c->w.now_ms ? 0 : UINT16_MAX;
        raft_guard_tick(&r->guard, &r->raft);
        r->tick(&r->io);
        raft_guard_settle(&r->guard, &r->raft);
        break;
    case AT_DISK:
        disk_step(r);
        break;
    case AT_START:
        if (!r->up)
            replica_start(r);
        break;
    case AT_RESUME:
        replica_stalled(r);
        break;
    case AT_CRASH:
        if (r->up && !c->w.healing)
            replica_crash(r);
        break;
    case AT_MESSAGE:
        break;
    }
    replica_settle(r);
}

void cluster_elapse(struct cluster *c, int64_t ms)
{
    int64_t until_ms = c->w.now_ms + ms;

    while (c->n_heap && c->heap[0].at_ms <= until_ms) {
        struct event event = take_event(c);
        const struct replica *r = &c->replicas[event.replica];

        c->w.now_ms = event.at_ms;
        if (event.kind != AT_MESSAGE && event.generation != r->generation)
            continue;
        if (r->up && r->paused_until_ms > event.at_ms) /* it waits, in its turn */
            cluster_at(c, r->paused_until_ms, &event);
        else
            run_event(c, &event);
    }
    c->w.now_ms = until_ms;
}

void cluster_suspend(struct cluster *c, int64_t ms)
{
    c->events[CLUSTER_SUSPENDED]++;
    c->w.now_ms += ms;
    for (size_t i = 0; i < c->n_heap; i++)
        c->heap[i].at_ms += ms;
    for (int i = 0; i < c->n; i++) {
        struct replica *r = &c->replicas[i];

        r->behind_ms += ms;
        r->paused_until_ms += ms;
        r->stuck_until_ms += ms;
        r->full_until_ms += ms;
        if (r->up)
            replica_stalled(r);
    }
}

/* ---- what is committed ---- */

static struct committed *committed(struct cluster *c, raft_index index)
{
    while (c->n_log <= index) {
        mem_must_grow(&c->log, &c->cap_log, c->n_log + 1, sizeof(*c->log));
        /* What is no command leaves the state as it is. */
        c->log[c->n_log] = (struct committed){.digest = fsm_digest(c->w.fsm)};
        c->n_log++;
    }
    return &c->log[index];
}

/* When its time was written into it, by the world's clock. */
static int64_t written_ms(struct cluster *c, const struct raft_entry_view *entry)
{
    const struct term *term = cluster_term(c, entry->term);
    struct command_entry commands;
    const char *what = NULL;

    if (command_entry_decode(&c->w.arena, entry->bytes, entry->len, &commands, &what) != 0)
        violated(&c->w, "entry %" PRIu64 " is none: %s", entry->index, what);
    return term->base_now_ms + (commands.now_ms - term->base_ms);
}

void cluster_applied(struct cluster *c, struct replica *r, const struct raft_entry_view *entry)
{
    bool first = entry->index >= c->n_log;
    struct committed *known = committed(c, entry->index);

    if (!first && (known->len != entry->len || known->term != entry->term ||
                   memcmp(known->bytes, entry->bytes, entry->len) != 0))
        violated(&c->w, "replica %d has another entry %" PRIu64 " committed than others", r->index,
                 entry->index);
    if (!first)
        return;
    known->bytes = mem_must_dup(entry->bytes, entry->len);
    known->len = entry->len;
    known->term = entry->term;
    if (entry->kind == RAFT_ENTRY_COMMANDS) /* or it is the state that the measure has already */
        world_commit(&c->w, entry->bytes, entry->len, written_ms(c, entry));
    known->digest = fsm_digest(c->w.fsm);
}

void cluster_check_digest(struct cluster *c, const struct replica *r, raft_index index)
{
    if (fsm_digest(r->fsm) != committed(c, index)->digest)
        violated(&c->w, "I5: replica %d has another state at entry %llu than others", r->index,
                 index);
}

struct term *cluster_term(struct cluster *c, raft_term term)
{
    while (c->n_terms <= term) {
        mem_must_grow(&c->terms, &c->cap_terms, c->n_terms + 1, sizeof(*c->terms));
        c->terms[c->n_terms++] = (struct term){0};
    }
    return &c->terms[term];
}

void cluster_elected(struct cluster *c, const struct replica *r)
{
    struct term *term = cluster_term(c, r->led);

    c->events[CLUSTER_ELECTED]++;
    say(&c->w, "replica %d is elected in term %llu", r->index, r->led);
    if (term->leader && term->leader != r->id)
        violated(&c->w, "term %llu has two leaders, %llu and %llu", r->led, term->leader, r->id);
    term->leader = r->id;
}

/* A leader counts entries only on disks on which they are. */
static void check_matches(struct cluster *c, struct replica *r)
{
    for (int i = 0; i < c->n; i++) {
        const struct replica *other = &c->replicas[i];
        raft_index match = 0;

        if (other == r || !other->up || raft_current_term((struct raft *)&other->raft) != r->led ||
            raft_match_index(&r->raft, other->id, &match) != 0)
            continue;
        if (match >= other->disk.first + other->disk.n &&
            (!other->disk.has_snapshot || match > other->disk.snapshot.index))
            violated(&c->w, "replica %d leads and believes that replica %d has entry %llu",
                     r->index, i, match);
    }
}

void cluster_check_beliefs(struct cluster *c, struct replica *r)
{
    raft_index index = raft_commit_index(&r->raft);

    if (index < r->committed)
        violated(&c->w, "replica %d has committed up to %llu, now up to %llu", r->index,
                 r->committed, index);
    members_committed(c, r, r->committed + 1, index);
    r->committed = index;
    members_check_beliefs(c, r);
    if (raft_state(&r->raft) == RAFT_LEADER)
        check_matches(c, r);
    else if (r->n_flights)
        violated(&c->w, "replica %d does not lead any more, %u entries are not answered", r->index,
                 r->n_flights);
}

/* ---- the way in ---- */

static struct cluster *cluster_of(struct world *w)
{
    return (struct cluster *)(void *)w;
}

static const struct fsm *view(struct world *w, int via)
{
    const struct replica *r = &cluster_of(w)->replicas[via];

    return cluster_answers(cluster_of(w), r) && fsm_initialised(r->fsm) ? r->fsm : NULL;
}

static int any(struct world *w)
{
    return (int)roll(w, (uint64_t)cluster_of(w)->n);
}

static int lead(struct world *w)
{
    struct cluster *c = cluster_of(w);
    int found[SIM_REPLICAS], n = 0;

    for (int i = 0; i < c->n; i++)
        if (cluster_answers(c, &c->replicas[i]) && c->replicas[i].leads)
            found[n++] = i;
    return n ? found[roll(w, (uint64_t)n)] : -1;
}

/* On its way back to who asked. */
struct proposal {
    struct cluster *c;
    struct sim_ask ask;
    int leader;
    unsigned generation; /* of the replica that was asked */
};

static void answered(int r, const struct fsm_outcome *outcome, void *arg)
{
    struct proposal *p = arg;
    struct cluster *c = p->c;
    const struct replica *via = &c->replicas[p->ask.via];

    if (via->generation != p->generation ||
        (p->leader != p->ask.via && !cluster_linked(c, p->leader, p->ask.via)))
        r = -ECONNABORTED;
    c->events[CLUSTER_UNKNOWN] += r == -ECONNABORTED;
    c->events[CLUSTER_NO_LEADER] += r == -EAGAIN;
    if (p->ask.done)
        p->ask.done(&c->w, &p->ask, r, r < 0 ? NULL : outcome);
    free(p);
}

/* Who leads, as the replica that is asked believes; -1 = it knows nobody whom it can reach. */
static int leader_for(struct cluster *c, struct replica *via)
{
    const char *address;
    raft_id id = 0;
    int leader;

    if (via->leads)
        return via->index;
    raft_leader(&via->raft, &id, &address);
    leader = id ? cluster_index(id) : -1;
    if (leader < 0 || c->replicas[leader].id != id || leader == via->index ||
        !cluster_linked(c, leader, via->index) || !cluster_answers(c, &c->replicas[leader]))
        return -1;
    c->events[CLUSTER_PASSED_ON]++;
    return leader;
}

static void submit(struct world *w, const uint8_t *bytes, size_t len, const struct sim_ask *ask)
{
    struct cluster *c = cluster_of(w);
    struct replica *via = &c->replicas[ask->via];
    struct proposal *p = mem_must_calloc(1, sizeof(*p));

    *p = (struct proposal){.c = c, .ask = *ask, .leader = ask->via, .generation = via->generation};
    if (!cluster_answers(c, via)) {
        if (via->up && !w->healing && chance(w, 50)) /* it will read it when it goes on */
            world_send_bytes(w, bytes, len);
        answered(-ECONNABORTED, NULL, p);
        return;
    }
    p->leader = leader_for(c, via);
    if (p->leader < 0) {
        p->leader = ask->via;
        answered(-EAGAIN, NULL, p);
        return;
    }
    replica_propose(&c->replicas[p->leader], bytes, len, answered, p);
}

static const struct world_ops ops = {view, any, lead, submit};

/* ---- life ---- */

void cluster_bootstrap(struct cluster *c, int first, int n)
{
    struct raft_configuration members;

    raft_configuration_init(&members);
    for (int i = first; i < first + n; i++)
        if (raft_configuration_add(&members, c->replicas[i].id, c->replicas[i].address, RAFT_VOTER))
            abort();
    for (int i = first; i < first + n; i++)
        c->replicas[i].io.bootstrap(&c->replicas[i].io, &members);
    raft_configuration_close(&members);
}

void cluster_init(struct cluster *c, const struct options *options, uint64_t seed, uint64_t *events,
                  uint64_t *cluster_events)
{
    *c = (struct cluster){
        .events = cluster_events, .n = seed % 3 == 0 ? 5 : 3, .changing = seed % 4 < 2};
    world_init(&c->w, options, seed, events, &ops);
    for (int i = 0; i < c->n; i++)
        replica_init(c, i);
    cluster_bootstrap(c, 0, c->changing && seed % 8 >= 4 ? 1 : c->n);
    for (int i = 0; i < c->n; i++)
        replica_start(&c->replicas[i]);
}

void cluster_forget(struct cluster *c)
{
    for (size_t i = 0; i < c->n_log; i++)
        free(c->log[i].bytes);
    c->n_log = 0;
    c->n_terms = 0;
    members_forget(c);
}

void cluster_done(struct cluster *c)
{
    for (int i = 0; i < c->n; i++) {
        if (c->replicas[i].up)
            replica_crash(&c->replicas[i]);
        batch_queue_done(&c->replicas[i].queue);
        disk_done(&c->replicas[i].disk);
        free(c->replicas[i].state);
    }
    for (size_t i = 0; i < c->n_heap; i++)
        if (c->heap[i].kind == AT_MESSAGE)
            net_free(c->heap[i].message);
    cluster_forget(c);
    free(c->members);
    free(c->heap);
    free(c->log);
    free(c->terms);
    world_done(&c->w);
}
