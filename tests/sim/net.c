/* Messages between replicas: copied, then late, lost, or there twice. */
#include <stdlib.h>
#include <string.h>

#include "common/mem.h"
#include "tests/sim/cluster.h"

#define LATE_MS 600 /* longer than two elections */

static void copy_entries(const struct raft_append_entries *from, struct raft_append_entries *to)
{
    uint8_t *batch;
    size_t size = 0;

    to->entries = NULL;
    if (!from->n_entries)
        return;
    for (unsigned i = 0; i < from->n_entries; i++)
        size += from->entries[i].buf.len;
    batch = raft_malloc(size);
    to->entries = raft_calloc(from->n_entries, sizeof(*to->entries));
    size = 0;
    for (unsigned i = 0; i < from->n_entries; i++) {
        const struct raft_buffer *buf = &from->entries[i].buf;

        to->entries[i] = from->entries[i];
        to->entries[i].buf.base = memcpy(batch + size, buf->base, buf->len);
        to->entries[i].batch = batch;
        size += buf->len;
    }
}

static void copy_members(const struct raft_configuration *from, struct raft_configuration *to)
{
    raft_configuration_init(to);
    for (unsigned i = 0; i < from->n; i++)
        if (raft_configuration_add(to, from->servers[i].id, from->servers[i].address,
                                   from->servers[i].role) != 0)
            abort();
}

static struct raft_message *copy(const struct raft_message *from)
{
    struct raft_message *to = mem_must_dup(from, sizeof(*from));

    if (from->type == RAFT_APPEND_ENTRIES) {
        copy_entries(&from->append_entries, &to->append_entries);
    } else if (from->type == RAFT_INSTALL_SNAPSHOT) {
        const struct raft_install_snapshot *install = &from->install_snapshot;

        copy_members(&install->conf, &to->install_snapshot.conf);
        to->install_snapshot.data.base = raft_malloc(install->data.len);
        memcpy(to->install_snapshot.data.base, install->data.base, install->data.len);
    }
    return to;
}

void net_free(struct raft_message *message)
{
    if (message->type == RAFT_APPEND_ENTRIES && message->append_entries.n_entries) {
        raft_free(message->append_entries.entries[0].batch);
        raft_free(message->append_entries.entries);
    } else if (message->type == RAFT_INSTALL_SNAPSHOT) {
        raft_configuration_close(&message->install_snapshot.conf);
        raft_free(message->install_snapshot.data.base);
    }
    free(message);
}

/* ---- sending ---- */

static int64_t travel_ms(struct cluster *c, const struct link *link)
{
    if (!c->w.healing && chance(&c->w, c->late_percent)) {
        c->events[CLUSTER_LATE]++;
        return LATE_MS + (int64_t)roll(&c->w, 2000);
    }
    if (link->slow_until_ms > c->w.now_ms)
        return 20 + (int64_t)roll(&c->w, 300);
    return 1 + (int64_t)roll(&c->w, 4);
}

static void travel(struct replica *r, const struct raft_message *message)
{
    struct cluster *c = r->c;
    int to = cluster_index(message->server_id);
    struct raft_message *copied = copy(message);

    if (strcmp(message->server_address, c->replicas[to].address) != 0)
        violated(&c->w, "replica %d sends what is for %llu to another address", r->index,
                 message->server_id);
    copied->server_id = r->id; /* from now on: who sent it */
    copied->server_address = r->address;
    cluster_at(c, c->w.now_ms + travel_ms(c, &c->links[r->index][to]),
               &(struct event){.kind = AT_MESSAGE,
                               .replica = to,
                               .message = copied,
                               .to = message->server_id,
                               .from = r->generation});
}

static int method_send(struct raft_io *io, struct raft_io_send *req,
                       const struct raft_message *message, raft_io_send_cb cb)
{
    struct replica *r = io->impl;
    struct cluster *c = r->c;
    struct raft_message guarded;
    int status = raft_guard_send(&r->guard, &r->raft, message, &guarded);

    if (status != 0)
        return status;
    if (r->dying) { /* nothing gets out any more */
        cb(req, 0);
        return 0;
    }
    if (!c->w.healing && chance(&c->w, c->drop_percent)) {
        c->events[CLUSTER_DROPPED]++;
    } else {
        travel(r, &guarded);
        if (!c->w.healing && chance(&c->w, c->twice_percent)) {
            c->events[CLUSTER_TWICE]++;
            travel(r, &guarded);
        }
    }
    cb(req, 0);
    return 0;
}

void net_methods(struct raft_io *io)
{
    io->send = method_send;
}

/* ---- receiving ---- */

/* By its name the sanitizer knows it (sim_raft.c): here a member has caught up, and its promotion may be refused. */
static __attribute__((noinline)) void recv_during_change(struct replica *r,
                                                         struct raft_message *message)
{
    r->recv(&r->io, message);
    __asm__ volatile("" ::: "memory"); /* no tail call */
}

void net_deliver(struct cluster *c, const struct event *event)
{
    struct replica *r = &c->replicas[event->replica];
    int from = cluster_index(event->message->server_id);

    if (!r->up || c->links[from][r->index].cut_until_ms > c->w.now_ms ||
        !members_let_through(c, event)) {
        net_free(event->message);
        return;
    }
    if (raft_guard_recv(&r->guard, &r->raft, event->message)) {
        if (r->raft.legacy.change)
            recv_during_change(r, event->message);
        else
            r->recv(&r->io, event->message); /* takes what hangs on it */
    }
    free(event->message);
    raft_guard_settle(&r->guard, &r->raft);
    replica_settle(r);
}
