/* Changes of the members, as raft_member.c makes them: whoever leads adds a learner, and lets it vote when it has caught up;
 * it removes a member, hands over. One change at a time, none before what is older is applied. An administrator wipes a
 * replica only when a leader has said that it is removed, and adds it again under the id of its new folder. */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "common/mem.h"
#include "tests/sim/cluster.h"

struct change {
    struct raft_change req;
    struct replica *r; /* who leads */
    struct replica *other;
    raft_id id; /* of the other one */
    bool noted; /* it is in the log */
    enum { CHANGE_ADD, CHANGE_PROMOTE, CHANGE_REMOVE } kind;
};

/* ---- the list that is committed ---- */

static void decode(const struct raft_buffer *bytes, struct raft_configuration *ret)
{
    if (raft_configuration_decode(bytes, ret) != 0)
        abort();
}

static unsigned count_voters(const struct raft_configuration *list)
{
    unsigned n = 0;

    for (unsigned i = 0; i < list->n; i++)
        n += list->servers[i].role == RAFT_VOTER;
    return n;
}

static bool votes_in(const struct raft_configuration *list, raft_id id)
{
    for (unsigned i = 0; i < list->n; i++)
        if (list->servers[i].id == id)
            return list->servers[i].role == RAFT_VOTER;
    return false;
}

/* Every majority of the one has somebody of every majority of the other: at most one voter comes or goes. */
static void check_one_step(struct cluster *c, const struct raft_buffer *from,
                           const struct raft_buffer *to)
{
    struct raft_configuration before, after;
    unsigned came = 0, stayed = 0;

    decode(from, &before);
    decode(to, &after);
    for (unsigned i = 0; i < after.n; i++) {
        if (after.servers[i].role != RAFT_VOTER)
            continue;
        stayed += votes_in(&before, after.servers[i].id);
        came += !votes_in(&before, after.servers[i].id);
    }
    if (came + (count_voters(&before) - stayed) > 1)
        violated(&c->w, "two voters changed at once");
    raft_configuration_close(&before);
    raft_configuration_close(&after);
}

/* The newest list up to this entry; NULL = none is known. */
static const struct members *members_at(const struct cluster *c, raft_index index)
{
    size_t n = c->n_members;

    while (n && c->members[n - 1].index > index)
        n--;
    return n ? &c->members[n - 1] : NULL;
}

static void note(struct cluster *c, raft_index index, const struct disk_entry *entry)
{
    struct members *last = c->n_members ? &c->members[c->n_members - 1] : NULL;
    struct raft_buffer list = {mem_must_dup(entry->bytes, entry->len), entry->len};

    if (last)
        check_one_step(c, &last->list, &list);
    mem_must_grow(&c->members, &c->cap_members, c->n_members + 1, sizeof(*c->members));
    c->members[c->n_members++] = (struct members){index, list};
}

void members_committed(struct cluster *c, const struct replica *r, raft_index first,
                       raft_index last)
{
    if (first < r->disk.first)
        first = r->disk.first;
    for (raft_index i = first; i <= last; i++) {
        const struct disk_entry *entry = disk_find(r, i);
        const struct members *known = members_at(c, i);

        if (!entry || entry->type != RAFT_CHANGE)
            continue;
        if (!c->n_members || i > c->members[c->n_members - 1].index)
            note(c, i, entry);
        else if (!known || known->index != i || known->list.len != entry->len ||
                 memcmp(known->list.base, entry->bytes, entry->len) != 0)
            violated(&c->w, "replica %d has another list of members at entry %llu than others",
                     r->index, i);
    }
}

static bool is_list(const struct raft_configuration *list, const struct raft_buffer *encoded)
{
    struct raft_buffer bytes;
    bool same;

    if (raft_configuration_encode(list, &bytes) != 0)
        abort();
    same = bytes.len == encoded->len && memcmp(bytes.base, encoded->base, bytes.len) == 0;
    raft_free(bytes.base);
    return same;
}

void members_check_snapshot(struct cluster *c, const struct replica *r,
                            const struct raft_snapshot *snapshot)
{
    const struct members *known = members_at(c, snapshot->index);

    /* A replica that starts takes the list before its last one for committed, rightly, and may not have got there yet. */
    if (known && snapshot->configuration_index > snapshot->index)
        known = members_at(c, snapshot->configuration_index);
    if (snapshot->configuration_index > c->members[c->n_members - 1].index)
        return;
    if (!known || known->index != snapshot->configuration_index ||
        !is_list(&snapshot->configuration, &known->list))
        violated(&c->w,
                 "replica %d writes a snapshot of entry %llu with the members of entry %llu, not "
                 "%llu",
                 r->index, snapshot->index, snapshot->configuration_index,
                 known ? known->index : 0);
}

void members_check_beliefs(struct cluster *c, struct replica *r)
{
    const struct members *known = members_at(c, raft_last_applied(&r->raft));

    if (r->change && !r->change->noted && r->raft.configuration_uncommitted_index) {
        r->change->noted = true;
        fault_change(c, r);
    }
    if (known && r->raft.configuration_committed_index < known->index)
        violated(&c->w,
                 "replica %d goes back to the members of entry %llu, committed are those of "
                 "%llu",
                 r->index, r->raft.configuration_committed_index, known->index);
}

/* ---- streams ---- */

static bool contradicts(const struct replica *r, raft_id id, const char *name)
{
    return raft_list_contradicts(&r->raft.configuration, !raft_guard_hears(&r->guard, &r->raft), id,
                                 name);
}

/* The checks of raft_link.c, when a stream is opened: folder and name fit, here and there. */
static bool fits(struct cluster *c, const struct event *event)
{
    const struct replica *to = &c->replicas[event->replica];
    const struct replica *from = &c->replicas[cluster_index(event->message->server_id)];

    if (contradicts(to, event->message->server_id, from->name))
        return false;
    return from->generation != event->from || !from->up || !contradicts(from, to->id, to->name);
}

bool members_let_through(struct cluster *c, const struct event *event)
{
    const struct replica *to = &c->replicas[event->replica];
    struct link *link = &c->links[cluster_index(event->message->server_id)][event->replica];

    if (event->to == to->id && link->from == event->from && link->to == to->generation)
        return true;
    if (event->to != to->id || !fits(c, event)) {
        c->events[CLUSTER_CONTRADICTED]++;
        return false;
    }
    link->from = event->from;
    link->to = to->generation;
    return true;
}

/* ---- changes ---- */

static bool is_up(raft_id id, void *arg)
{
    const struct replica *r = arg;
    const struct replica *other = &r->c->replicas[cluster_index(id)];

    return other->id == id && other->up && cluster_linked(r->c, r->index, other->index);
}

static void end_change(struct change *change, int status)
{
    struct cluster *c = change->r->c;

    if (change->r->raft.legacy.change == &change->req)
        violated(&c->w, "replica %d keeps a change of the members that is over", change->r->index);
    c->events[CLUSTER_CHANGE_FAILED] += status != 0;
    if (status == 0) {
        say(&c->w, "replica %d: change %d of %llu is done", change->r->index, (int)change->kind,
            change->id);
        c->events[change->kind == CHANGE_REMOVE ? CLUSTER_REMOVED : CLUSTER_PROMOTED]++;
        if (change->kind == CHANGE_REMOVE && change->id == change->other->id)
            change->other->spare = true;
    }
    change->r->change = NULL;
    free(change);
}

static void changed(struct raft_change *req, int status);

static void promote(struct change *change)
{
    int status;

    change->kind = CHANGE_PROMOTE;
    change->noted = false;
    status = raft_guard_promote(&change->r->raft, &change->req, change->id, changed);
    if (status != 0)
        end_change(change, status);
}

static void changed(struct raft_change *req, int status)
{
    struct change *change = req->data;

    if (status != 0 || change->kind != CHANGE_ADD) {
        end_change(change, status);
        return;
    }
    change->r->c->events[CLUSTER_ADDED]++;
    promote(change);
}

static struct change *begin_change(struct replica *r, struct replica *other, raft_id id)
{
    struct change *change = mem_must_calloc(1, sizeof(*change));

    *change = (struct change){.r = r, .other = other, .id = id};
    fault_change(r->c, r);
    change->req.data = change;
    r->change = change;
    return change;
}

static void add(struct replica *r, struct replica *other)
{
    const struct raft_list list = {&r->raft.configuration, r->id, is_up, r};
    struct change *change;
    int status;

    if (r->change || raft_list_may_add(&list, other->name, &status) ||
        !cluster_linked(r->c, r->index, other->index) || !cluster_answers(r->c, other))
        return;
    say(&r->c->w, "replica %d adds %llu", r->index, other->id);
    other->spare = false;
    switch (raft_list_next(list.members, other->id, other->name)) {
    case RAFT_LIST_PROMOTE:
        promote(begin_change(r, other, other->id));
        break;
    case RAFT_LIST_ADD:
        change = begin_change(r, other, other->id);
        change->kind = CHANGE_ADD;
        status = raft_add(&r->raft, &change->req, other->id, other->address, changed);
        if (status != 0)
            end_change(change, status);
        break;
    case RAFT_LIST_DONE:
    case RAFT_LIST_OTHER:
        break;
    }
}

static void take_out(struct replica *r, struct replica *other)
{
    const struct raft_list list = {&r->raft.configuration, r->id, is_up, r};
    const struct raft_server *server;
    struct change *change;
    int status;

    if (r->change || raft_list_may_remove(&list, other->name, &server, &status))
        return;
    say(&r->c->w, "replica %d removes %llu", r->index, server->id);
    change = begin_change(r, other, server->id);
    change->kind = CHANGE_REMOVE;
    status = raft_remove(&r->raft, &change->req, server->id, changed);
    if (status != 0)
        end_change(change, status);
}

static void transferred(struct raft_transfer *req)
{
    struct replica *r = req->data;

    r->c->events[CLUSTER_HANDED_OVER] += raft_state(&r->raft) != RAFT_LEADER;
    r->transferring = false;
}

static void hand_over(struct replica *r, const struct replica *other)
{
    const struct raft_server *server = raft_list_find(&r->raft.configuration, other->name);
    raft_id id = chance(&r->c->w, 50) && server ? server->id : 0;

    if (r->transferring || id == r->id || (id && server->role != RAFT_VOTER))
        return;
    say(&r->c->w, "replica %d hands over to %llu", r->index, id);
    r->transfer.data = r;
    r->transferring = raft_transfer(&r->raft, &r->transfer, id, transferred) == 0;
}

static void wipe(struct replica *r)
{
    if (r->up)
        replica_crash(r);
    replica_wipe(r);
    r->spare = false;
}

void members_step(struct cluster *c)
{
    struct world *w = &c->w;
    struct replica *r, *other;
    int lead;

    if (!c->changing || roll(w, 12))
        return;
    other = &c->replicas[roll(w, (uint64_t)c->n)];
    if (other->spare && chance(w, 50)) {
        wipe(other);
        return;
    }
    lead = w->ops->lead(w);
    if (lead < 0)
        return;
    r = &c->replicas[lead];
    switch (roll(w, 5)) {
    case 0:
        hand_over(r, other);
        break;
    case 1:
    case 2:
        take_out(r, other);
        break;
    default:
        add(r, other);
        break;
    }
    replica_settle(r);
}

/* ---- the end ---- */

bool members_heal(struct cluster *c)
{
    int lead = c->w.ops->lead(&c->w);
    struct replica *r = lead < 0 ? NULL : &c->replicas[lead];

    if (!r)
        return false;
    for (int i = 0; i < c->n; i++) {
        struct replica *other = &c->replicas[i];
        enum raft_list_step next = raft_list_next(&r->raft.configuration, other->id, other->name);

        if (next == RAFT_LIST_DONE)
            continue;
        if (next == RAFT_LIST_OTHER)
            take_out(r, other);
        else
            add(r, other);
        replica_settle(r);
        return false;
    }
    return !r->change;
}

void members_healed(struct cluster *c)
{
    for (int i = 0; i < c->n; i++) {
        struct replica *r = &c->replicas[i];
        const struct members *last = &c->members[c->n_members - 1];

        if (r->change)
            violated(&c->w, "replica %d never ends a change of the members", i);
        if (r->raft.configuration_uncommitted_index ||
            r->raft.configuration_committed_index != last->index ||
            !is_list(&r->raft.configuration, &last->list))
            violated(&c->w, "replica %d has another list of members in the end", i);
        for (int n = 0; n < c->n; n++)
            if (raft_list_next(&r->raft.configuration, c->replicas[n].id, c->replicas[n].name) !=
                RAFT_LIST_DONE)
                violated(&c->w, "replica %d does not have replica %d as a voter in the end", i, n);
    }
}

void members_forget(struct cluster *c)
{
    for (size_t i = 0; i < c->n_members; i++)
        free(c->members[i].list.base);
    c->n_members = 0;
}
