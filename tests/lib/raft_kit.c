#include "tests/lib/raft_kit.h"

#include <errno.h>
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/clock.h"
#include "common/fsutil.h"
#include "common/mem.h"
#include "common/net/transport.h"
#include "tests/lib/tmp.h"

#define PATIENCE_MS 60000
#define WIRE_FULL   (256u << 10)

static void die(const char *what, const char *more)
{
    fprintf(stderr, "raft kit: %s: %s\n", what, more);
    abort();
}

/* ---- wires ---- */

/* One end; bytes in it are on their way to its owner. */
struct wire_end {
    struct transport base;
    struct raft_wire *wire;
    struct wire_end *other;
    unsigned owner; /* replica */
    uint8_t *bytes;
    size_t len, cap;
    bool told_open, reading, finished,
        told_closed; /* finished: the other end closed or shut down */
    bool starved;    /* the other one waits to be told that it may write */
    bool gone;
};

struct raft_wire {
    struct raft_wire *next;
    struct raft_kit *kit;
    struct wire_end ends[2];
    struct loop_soon *soon;
    bool running;
};

static void wire_free(struct raft_wire *wire)
{
    struct raft_wire **at = &wire->kit->wires;

    while (*at != wire)
        at = &(*at)->next;
    *at = wire->next;
    loop_soon_free(wire->soon);
    free(wire->ends[0].bytes);
    free(wire->ends[1].bytes);
    free(wire);
}

static int end_write(struct transport *transport, const uint8_t *data, size_t len)
{
    struct wire_end *to = ((struct wire_end *)transport)->other;

    if (to->gone)
        return -EPIPE;
    if (to->len + len > to->cap) {
        to->cap = (to->len + len) * 2;
        to->bytes = realloc(to->bytes, to->cap);
    }
    if (len > 0)
        memcpy(to->bytes + to->len, data, len);
    to->len += len;
    loop_soon_start(to->wire->soon);
    to->starved = to->len > WIRE_FULL;
    return to->starved ? TRANSPORT_BLOCKED : 0;
}

static void end_read(struct transport *transport, bool on)
{
    struct wire_end *end = (struct wire_end *)transport;

    end->reading = on;
    if (on)
        loop_soon_start(end->wire->soon);
}

static void end_shutdown(struct transport *transport)
{
    struct wire_end *end = (struct wire_end *)transport;

    end->other->finished = true;
    loop_soon_start(end->wire->soon);
}

static void end_free(struct transport *transport)
{
    struct wire_end *end = (struct wire_end *)transport;

    end->gone = true;
    end_shutdown(transport);
}

static const struct transport_ops wire_ops = {end_write, end_read, end_shutdown, end_free};

static void deliver(struct wire_end *end)
{
    const struct raft_kit *kit = end->wire->kit;
    bool cut = kit->cut[end->other->owner][end->owner] ||
               (end == &end->wire->ends[0] && kit->mute[end->owner][end->other->owner]);
    uint8_t *bytes = end->bytes;
    size_t len = end->len;

    if (!end->gone && !end->told_open) {
        end->told_open = true;
        end->base.events->open(end->base.arg);
    }
    if (!end->gone && end->len > 0 && end->reading && !cut) {
        end->bytes = NULL;
        end->len = end->cap = 0;
        end->base.events->data(bytes, len, end->base.arg);
        free(bytes);
        if (end->starved && !end->other->gone) {
            end->starved = false;
            end->other->base.events->writable(end->other->base.arg);
        }
    }
    if (!end->gone && end->finished && end->len == 0 && end->reading && !cut && !end->told_closed) {
        end->told_closed = true;
        end->base.events->closed(0, end->base.arg);
    }
}

static void wire_run(void *arg)
{
    struct raft_wire *wire = arg;

    deliver(&wire->ends[0]);
    deliver(&wire->ends[1]);
    if (wire->ends[0].gone && wire->ends[1].gone)
        wire_free(wire);
}

static unsigned index_of(const char *address)
{
    return (unsigned)strtoul(address + 1, NULL, 10);
}

static int links_connect(const char *name, const char *address,
                         const struct transport_events *events, void *events_arg,
                         struct transport **ret, void *arg)
{
    struct raft_node *from = arg;
    struct raft_kit *kit = from->cluster;
    unsigned to = index_of(address), us = (unsigned)(from - kit->nodes);
    struct raft_wire *wire;

    (void)name;
    if (to >= kit->n || !kit->nodes[to].kit.engine || kit->cut[us][to] || kit->cut[to][us] ||
        kit->shut[us][to])
        return -ECONNREFUSED;
    wire = calloc(1, sizeof *wire);
    wire->kit = kit;
    wire->next = kit->wires;
    kit->wires = wire;
    if (loop_soon_new(kit->loop, wire_run, wire, &wire->soon) < 0)
        die("no memory", "");
    for (int i = 0; i < 2; i++) {
        wire->ends[i].base.ops = &wire_ops;
        wire->ends[i].wire = wire;
        wire->ends[i].other = &wire->ends[1 - i];
        wire->ends[i].owner = i == 0 ? us : to;
        wire->ends[i].reading = true;
    }
    wire->ends[0].base.events = events;
    wire->ends[0].base.arg = events_arg;
    *ret = &wire->ends[0].base;
    kit->n_calls[us][to]++;
    replica_accept(kit->nodes[to].kit.engine, &wire->ends[1].base);
    loop_soon_start(wire->soon);
    return 0;
}

static bool links_proves(const struct transport *transport, const char *name, void *arg)
{
    const struct wire_end *end = (const struct wire_end *)transport;

    (void)arg;
    return strcmp(end->wire->kit->nodes[end->other->owner].proved, name) == 0;
}

/* ---- life ---- */

void raft_kit_init(struct raft_kit *kit, const char *folder, unsigned n)
{
    memset(kit, 0, sizeof *kit);
    (void)snprintf(kit->folder, sizeof kit->folder, "%s", folder);
    kit->n = n;
    /* As a daemon does: the library writes to streams that may be closed. */
    (void)signal(SIGPIPE, SIG_IGN);
    if (loop_new(&kit->loop) < 0)
        die("no loop", "");
    for (unsigned i = 0; i < n; i++) {
        struct raft_node *node = &kit->nodes[i];
        static struct replica_links links = {links_connect, links_proves, NULL};
        char own[300];

        node->cluster = kit;
        (void)snprintf(own, sizeof own, "%s/r%u", kit->folder, i);
        (void)snprintf(node->name, sizeof node->name, "r%u", i);
        (void)snprintf(node->proved, sizeof node->proved, "r%u", i);
        (void)snprintf(node->address, sizeof node->address, "h%u:7623", i);
        (void)snprintf(node->raft_folder, sizeof node->raft_folder, "%s/raft", own);
        if (fs_mkdir_p(own, 0700) < 0)
            die("no folder", own);
        engine_kit_init_on(&node->kit, own, kit->loop);
        node->options = (struct replica_options){
            .folder = node->raft_folder, .name = node->name, .address = node->address};
        node->links = links;
        node->links.arg = node;
        node->options.links = &node->links;
        node->kit.replica = &node->options;
    }
}

int raft_kit_start(struct raft_kit *kit, unsigned i)
{
    return engine_kit_open(&kit->nodes[i].kit, kit->with_history);
}

void raft_kit_stop(struct raft_kit *kit, unsigned i)
{
    engine_kit_close(&kit->nodes[i].kit);
    kit->nodes[i].kit.leading = false;
}

void raft_kit_wipe(struct raft_kit *kit, unsigned i)
{
    tmp_remove(kit->nodes[i].raft_folder);
}

int raft_kit_setup(void **state, unsigned n)
{
    struct raft_kit *kit = mem_must_calloc(1, sizeof *kit);

    raft_kit_init(kit, tmp_dir(), n);
    *state = kit;
    return 0;
}

int raft_kit_teardown(void **state)
{
    struct raft_kit *kit = *state;

    raft_kit_done(kit);
    tmp_remove(kit->folder);
    free(kit);
    return 0;
}

void raft_kit_done(struct raft_kit *kit)
{
    for (unsigned i = 0; i < kit->n; i++)
        if (kit->nodes[i].kit.loop)
            engine_kit_done(&kit->nodes[i].kit);
    raft_kit_heal(kit);
    for (int i = 0; kit->wires && i < 100; i++)
        loop_step(kit->loop, 10);
    if (kit->wires)
        die("a wire is left", "");
    loop_free(kit->loop);
}

/* ---- the network ---- */

static void set_cut(struct raft_kit *kit, int a, int b)
{
    for (unsigned from = 0; from < kit->n; from++)
        for (unsigned to = 0; to < kit->n; to++)
            if (from != to && (a < 0 || from == (unsigned)a) && (b < 0 || to == (unsigned)b))
                kit->cut[from][to] = true;
}

void raft_kit_cut_one_way(struct raft_kit *kit, int a, int b)
{
    set_cut(kit, a, b);
}

void raft_kit_cut(struct raft_kit *kit, int a, int b)
{
    set_cut(kit, a, b);
    set_cut(kit, b, a);
}

void raft_kit_heal(struct raft_kit *kit)
{
    memset(kit->cut, 0, sizeof kit->cut);
    memset(kit->shut, 0, sizeof kit->shut);
    memset(kit->mute, 0, sizeof kit->mute);
    for (struct raft_wire *wire = kit->wires; wire; wire = wire->next)
        loop_soon_start(wire->soon);
}

static void break_wire(struct raft_wire *wire)
{
    wire->ends[0].finished = wire->ends[1].finished = true;
    wire->ends[0].len = wire->ends[1].len = 0;
    loop_soon_start(wire->soon);
}

void raft_kit_break(struct raft_kit *kit, unsigned i)
{
    for (struct raft_wire *wire = kit->wires; wire; wire = wire->next)
        if (wire->ends[0].owner == i || wire->ends[1].owner == i)
            break_wire(wire);
}

void raft_kit_shut(struct raft_kit *kit, unsigned from, unsigned to, bool on)
{
    kit->shut[from][to] = on;
    for (struct raft_wire *wire = kit->wires; on && wire; wire = wire->next)
        if (wire->ends[0].owner == from && wire->ends[1].owner == to)
            break_wire(wire);
}

void raft_kit_mute(struct raft_kit *kit, unsigned from, unsigned to, bool on)
{
    kit->mute[from][to] = on;
    for (struct raft_wire *wire = kit->wires; wire; wire = wire->next)
        loop_soon_start(wire->soon);
}

/* ---- waiting ---- */

bool raft_kit_until(struct raft_kit *kit, bool (*cond)(struct raft_kit *kit, void *arg), void *arg)
{
    int64_t until = clock_mono_ms() + PATIENCE_MS;

    while (!cond(kit, arg)) {
        if (clock_mono_ms() > until)
            return false;
        loop_step(kit->loop, 20);
    }
    return true;
}

void raft_kit_elapse(struct raft_kit *kit, int64_t ms)
{
    int64_t until = clock_mono_ms() + ms, left;

    while ((left = until - clock_mono_ms()) > 0)
        loop_step(kit->loop, left < 20 ? (int)left : 20);
}

static int leader_now(const struct raft_kit *kit, unsigned among)
{
    for (unsigned i = 0; i < kit->n; i++)
        if (kit->nodes[i].kit.engine && kit->nodes[i].kit.leading && (!among || among & 1u << i))
            return (int)i;
    return -1;
}

static bool somebody_leads(struct raft_kit *kit, void *arg)
{
    return leader_now(kit, *(unsigned *)arg) >= 0;
}

int raft_kit_leader(struct raft_kit *kit, unsigned among)
{
    return raft_kit_until(kit, somebody_leads, &among) ? leader_now(kit, among) : -1;
}

struct engine *raft_kit_engine(struct raft_kit *kit, unsigned i)
{
    return kit->nodes[i].kit.engine;
}

/* All have applied the same last entry. Cheap: it is asked in each round of the loop, and elections do not wait. */
static bool are_level(struct raft_kit *kit, void *arg)
{
    struct replica_status status;
    uint64_t entry = 0;

    (void)arg;
    for (unsigned i = 0; i < kit->n; i++) {
        if (!kit->nodes[i].kit.engine)
            continue;
        replica_get_status(kit->nodes[i].kit.engine, &status);
        if (status.applied != status.last_entry || (entry != 0 && status.applied != entry))
            return false;
        entry = status.applied;
    }
    return true;
}

static bool are_equal(struct raft_kit *kit, void *arg)
{
    uint64_t digest = 0;
    bool first = true;

    if (!are_level(kit, arg))
        return false;
    for (unsigned i = 0; i < kit->n; i++) {
        if (!kit->nodes[i].kit.engine)
            continue;
        if (!first && fsm_digest(kit->nodes[i].kit.fsm) != digest)
            return false;
        digest = fsm_digest(kit->nodes[i].kit.fsm);
        first = false;
    }
    return true;
}

bool raft_kit_has_lease(struct raft_kit *kit, unsigned r, uint64_t i)
{
    char job[24];

    (void)snprintf(job, sizeof job, "j%lu", (unsigned long)i);
    return fsm_lease_of_job(kit->nodes[r].kit.fsm, 1000, job) != NULL;
}

static void print_node(const struct raft_node *node)
{
    struct engine_status engine;
    struct replica_status status;

    engine_get_status(node->kit.engine, &engine);
    replica_get_status(node->kit.engine, &status);
    (void)fprintf(stderr,
                  "%s: term %" PRIu64 ", last entry %" PRIu64 ", applied %" PRIu64
                  ", snapshot %" PRIu64 ", digest %016" PRIx64 ", leader %016" PRIx64
                  ", self %016" PRIx64 ", health %d\n",
                  node->name, status.term, status.last_entry, status.applied, status.snapshot_entry,
                  fsm_digest(node->kit.fsm), status.leader, status.id, engine.health);
    for (size_t i = 0; i < status.n_members; i++) {
        const struct replica_member *member = &status.members[i];

        (void)fprintf(stderr, "    %s %016" PRIx64 ": role %d, %s, last entry %" PRIu64 "\n",
                      member->name, member->id, (int)member->role, member->up ? "up" : "not up",
                      member->last_entry);
    }
}

bool raft_kit_equal(struct raft_kit *kit)
{
    if (raft_kit_until(kit, are_equal, NULL))
        return true;
    for (unsigned i = 0; i < kit->n; i++)
        if (kit->nodes[i].kit.engine)
            print_node(&kit->nodes[i]);
    return false;
}

/* ---- asking ---- */

struct call {
    bool over;
    int r;
    char why[ENGINE_WHY_MAX];
    struct engine_kit *kit;
};

static bool is_over(struct raft_kit *kit, void *arg)
{
    (void)kit;
    return ((struct call *)arg)->over;
}

static void wait_for(struct raft_kit *kit, struct call *call)
{
    if (call->over)
        die("an answer came inside the call", "");
    if (!raft_kit_until(kit, is_over, call))
        die("no answer", "");
}

static void changed(int r, const char *why, void *arg)
{
    struct call *call = arg;

    call->over = true;
    call->r = r;
    (void)snprintf(call->why, sizeof call->why, "%s", why);
}

static int ended(struct raft_kit *kit, struct call *call, char *why)
{
    wait_for(kit, call);
    if (why)
        memcpy(why, call->why, sizeof call->why);
    return call->r;
}

int raft_kit_add(struct raft_kit *kit, unsigned i, char *why)
{
    struct call call = {false};
    int leader = raft_kit_leader(kit, 0);

    if (leader < 0)
        return -EAGAIN;
    replica_add(raft_kit_engine(kit, (unsigned)leader), kit->nodes[i].name, kit->nodes[i].address,
                changed, &call);
    return ended(kit, &call, why);
}

int raft_kit_remove(struct raft_kit *kit, unsigned i, char *why)
{
    struct call call = {false};
    int leader = raft_kit_leader(kit, 0);

    if (leader < 0)
        return -EAGAIN;
    replica_remove(raft_kit_engine(kit, (unsigned)leader), kit->nodes[i].name, changed, &call);
    return ended(kit, &call, why);
}

int raft_kit_transfer(struct raft_kit *kit, int i, char *why)
{
    struct call call = {false};
    int leader = raft_kit_leader(kit, 0);

    if (leader < 0)
        return -EAGAIN;
    replica_transfer(raft_kit_engine(kit, (unsigned)leader), i < 0 ? NULL : kit->nodes[i].name,
                     changed, &call);
    return ended(kit, &call, why);
}

static void ready(int r, void *arg)
{
    struct call *call = arg;

    call->over = true;
    call->r = r;
}

int raft_kit_read(struct raft_kit *kit, unsigned i)
{
    struct call call = {false};

    engine_read_barrier(raft_kit_engine(kit, i), ready, &call);
    wait_for(kit, &call);
    return call.r;
}

static bool may_ask_again(int r)
{
    return r == -EAGAIN || r == -ECONNABORTED || r == -ENOSPC || r == -EIO;
}

int raft_kit_acquire(struct raft_kit *kit, uint64_t i)
{
    int64_t until = clock_mono_ms() + PATIENCE_MS;
    int r = -EAGAIN;

    while (may_ask_again(r) && clock_mono_ms() < until) {
        int leader = raft_kit_leader(kit, 0);

        if (leader < 0)
            return -EAGAIN;
        r = engine_kit_do_acquire(&kit->nodes[leader].kit, i);
        if (r == -EAGAIN)
            loop_step(kit->loop, 10);
    }
    return r;
}

void raft_kit_form(struct raft_kit *kit, uint32_t n_uids)
{
    char why[ENGINE_WHY_MAX] = "";

    for (unsigned i = 0; i < kit->n; i++) {
        if (i == 0 && replica_prepare(kit->nodes[0].raft_folder, "r0", false, why) < 0)
            die("prepare", why);
        if (raft_kit_start(kit, i) < 0)
            die("start", kit->nodes[i].kit.why);
    }
    for (unsigned i = 1; i < kit->n; i++)
        if (raft_kit_add(kit, i, why) < 0)
            die("add", why);
    engine_kit_start(&kit->nodes[raft_kit_leader(kit, 0)].kit, n_uids);
}

/* ---- raw ---- */

static void raw_nothing(void *arg)
{
    (void)arg;
}

static void raw_data(const uint8_t *data, size_t len, void *arg)
{
    (void)data, (void)len, (void)arg;
}

static void raw_closed(int r, void *arg)
{
    ready(r, arg);
}

bool raft_kit_send_raw(struct raft_kit *kit, unsigned from, unsigned i, const void *bytes,
                       size_t len)
{
    static const struct transport_events events = {raw_nothing, raw_data, raw_nothing, raw_closed};
    struct call call = {false};
    struct transport *transport;
    bool closed;

    if (links_connect(kit->nodes[i].name, kit->nodes[i].address, &events, &call, &transport,
                      &kit->nodes[from]) < 0)
        die("no wire", "");
    (void)transport_write(transport, bytes, len);
    closed = raft_kit_until(kit, is_over, &call);
    transport_free(transport);
    return closed;
}
