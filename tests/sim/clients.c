/* What schedulers, users and administrators do, and what they were told. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/mem.h"
#include "leased/engine/engine.h"
#include "leased/fsm/request.h"
#include "tests/sim/world.h"

static const char *const jobs[] = {"", "", "", "j1", "j2", "j3", "j4"};
static const char *const pool_names[] = {"main", "side"};

/* ---- requests ---- */

/* What was done for one request of this id is done, once (I4): every later copy gets the same answer. But one that waits may
 * hear later that some member refused. */
static bool same_answer(const struct sim_request *r, const struct fsm_outcome *outcome)
{
    if (r->waits && r->code == FSM_OK && outcome->code == FSM_NOT_READY)
        return true;
    if (!r->answered || r->code != outcome->code)
        return false;
    return (r->waits && r->code == FSM_OK) ||
           (r->n_leases == outcome->n_leases &&
            (r->n_leases == 0 ||
             memcmp(r->leases, outcome->leases, r->n_leases * sizeof(uint64_t)) == 0));
}

void client_answer(struct world *w, const struct fsm_outcome *outcome)
{
    struct sim_request *r = &w->requests[w->applying];

    w->events[EVENT_TOO_OLD] += outcome->code == FSM_REQUEST_OLD;
    w->events[EVENT_REPLAYED] += outcome->replayed;
    if (outcome->code == FSM_REQUEST_OLD)
        return;
    if (outcome->code == FSM_INVALID && strstr(outcome->message, "is ahead of cluster time"))
        violated(w, "request r%d is refused as one from the future", w->applying);
    if (outcome->replayed) {
        w->events[EVENT_NOT_READY] += outcome->code == FSM_NOT_READY;
        if (!same_answer(r, outcome))
            violated(w, "I4: request r%d was answered %d, then %d", w->applying, (int)r->code,
                     (int)outcome->code);
        return;
    }
    if (++r->times_done > 1)
        violated(w, "I4: request r%d was done twice", w->applying);
    if (outcome->n_leases > SIM_LEASES)
        violated(w, "request r%d got %u leases", w->applying, outcome->n_leases);
    r->answered = true;
    r->code = outcome->code;
    r->n_leases = outcome->n_leases;
    memcpy(r->leases, outcome->leases, outcome->n_leases * sizeof(uint64_t));
}

/* What a client is told is what the committed log says: nothing that was acknowledged is lost (I4). */
static void told(struct world *w, const struct sim_ask *ask, int r,
                 const struct fsm_outcome *outcome)
{
    struct sim_request *request = &w->requests[ask->request];

    request->again_ms = w->now_ms;
    if (r < 0)
        return;
    request->told = true;
    if (outcome->code == FSM_REQUEST_OLD)
        return;
    if (!same_answer(request, outcome))
        violated(w, "I4: the client of request r%d was told %d, committed is %d", ask->request,
                 (int)outcome->code, (int)request->code);
}

static void send_again(struct world *w, int i)
{
    struct sim_request *r = &w->requests[i];
    struct sim_ask ask = {.done = told, .via = w->ops->any(w), .request = i};

    r->again_ms = w->now_ms + 500;
    w->ops->submit(w, r->bytes, r->len, &ask);
}

/* What a reply told: a leader's time runs on while he writes nothing, and the next one begins anew. */
static int64_t told_ms(struct world *w)
{
    int64_t now_ms = fsm_now_ms(w->fsm);

    return chance(w, 20) ? now_ms + (int64_t)roll(w, ENGINE_TOLD_AHEAD_MS + 1) : now_ms;
}

static int new_request(struct world *w, bool waits)
{
    struct sim_request *r;

    mem_must_grow(&w->requests, &w->cap_requests, w->n_requests + 1, sizeof(*w->requests));
    r = &w->requests[w->n_requests];
    *r = (struct sim_request){.issued_ms = told_ms(w), .waits = waits};
    return (int)w->n_requests++;
}

static void send_request(struct world *w, Xce__V1__Command *command, int i)
{
    struct sim_request *r = &w->requests[i];
    Xce__V1__Request request = XCE__V1__REQUEST__INIT;
    uint8_t digest = (uint8_t)i;
    char id[24];

    snprintf(id, sizeof(id), "r%d", i);
    request.principal = sim_bytes("client");
    request.id = sim_bytes(id);
    request.digest = (ProtobufCBinaryData){1, &digest};
    request.issued_at_ms = r->issued_ms;
    command->request = &request;
    r->len = xce__v1__command__get_packed_size(command);
    r->bytes = mem_must_alloc(r->len);
    xce__v1__command__pack(command, r->bytes);
    if (chance(w, 50))
        send_again(w, i);
    else
        world_send_bytes(w, r->bytes, r->len);
    if (chance(w, 30))
        world_send_bytes(w, r->bytes, r->len);
}

void client_again(struct world *w)
{
    int i = w->n_requests ? (int)roll(w, w->n_requests) : -1;

    if (i >= 0 && !w->requests[i].gone && (!w->requests[i].told || chance(w, 20)) &&
        w->requests[i].again_ms <= w->now_ms)
        send_again(w, i);
}

bool client_insist(struct world *w)
{
    bool left = false;

    for (size_t i = 0; i < w->n_requests; i++) {
        if (!w->requests[i].told && w->requests[i].again_ms <= w->now_ms)
            send_again(w, (int)i);
        left |= !w->requests[i].told;
    }
    return left;
}

int client_request(struct world *w, const Xce__V1__Command *command)
{
    const Xce__V1__Request *request = command->request;
    int i = 0;

    if (!request || !request->id.len)
        return -1;
    for (size_t at = 1; at < request->id.len; at++)
        i = i * 10 + (request->id.data[at] - '0');
    return i;
}

/* ---- acquire ---- */

#define GRANTS 3

struct grants {
    Xce__V1__CmdGrant grants[GRANTS];
    Xce__V1__CmdGrant *list[GRANTS];
    ProtobufCBinaryData nodes[GRANTS][SIM_NODES];
};

static void fill_grant(struct world *w, struct grants *g, size_t i)
{
    Xce__V1__CmdGrant *grant = &g->grants[i];
    unsigned which = 1 + (unsigned)roll(w, (1u << SIM_NODES) - 1);

    xce__v1__cmd_grant__init(grant);
    g->list[i] = grant;
    grant->pool = sim_bytes(pool_names[roll(w, 2)]);
    grant->job = sim_bytes(jobs[roll(w, sizeof(jobs) / sizeof(jobs[0]))]);
    grant->owner_uid = 1000 + (uint32_t)roll(w, 2);
    grant->ttl_ms = chance(w, 20) ? 0 : 1000 + (int64_t)roll(w, 60000);
    grant->all_nodes = chance(w, 10);
    grant->nodes = g->nodes[i];
    for (unsigned n = 0; n < SIM_NODES && !grant->all_nodes; n++)
        if (which & (1u << n) && (grant->n_nodes == 0 || chance(w, 40)))
            g->nodes[i][grant->n_nodes++] = sim_bytes(w->nodes[n].name);
}

void client_acquire(struct world *w)
{
    Xce__V1__CmdAcquire acquire = XCE__V1__CMD_ACQUIRE__INIT;
    Xce__V1__Command command = XCE__V1__COMMAND__INIT;
    struct grants g;
    int request;

    acquire.n_grants = chance(w, 70) ? 1 : 1 + roll(w, GRANTS);
    acquire.grants = g.list;
    acquire.adopt = chance(w, 30);
    acquire.wait = chance(w, 50);
    for (size_t i = 0; i < acquire.n_grants; i++)
        fill_grant(w, &g, i);
    command.kind_case = XCE__V1__COMMAND__KIND_ACQUIRE;
    command.acquire = &acquire;
    request = new_request(w, acquire.wait);
    send_request(w, &command, request);
}

/* ---- one lease ---- */

static const struct fsm_lease *any_lease(struct world *w)
{
    uint32_t at = (uint32_t)roll(w, SIM_UIDS);

    for (uint32_t i = 0; i < SIM_UIDS; i++) {
        const struct fsm_lease *lease = fsm_lease_of_uid(w->fsm, SIM_FIRST + (at + i) % SIM_UIDS);

        if (lease)
            return lease;
    }
    return NULL;
}

/* Members more; among them such as are already, or were let go. */
static void add_nodes(struct world *w, Xce__V1__CmdRenew *renew, ProtobufCBinaryData *nodes)
{
    renew->nodes = nodes;
    for (unsigned n = 0; n < SIM_NODES; n++)
        if (chance(w, 40))
            nodes[renew->n_nodes++] = sim_bytes(w->nodes[n].name);
}

void client_lease(struct world *w)
{
    const struct fsm_lease *lease = any_lease(w);
    ProtobufCBinaryData nodes[SIM_NODES];
    Xce__V1__CmdRenew renew = XCE__V1__CMD_RENEW__INIT;
    Xce__V1__CmdRelease release = XCE__V1__CMD_RELEASE__INIT;
    Xce__V1__CmdRevoke revoke = XCE__V1__CMD_REVOKE__INIT;
    Xce__V1__Command command = XCE__V1__COMMAND__INIT;

    if (!lease)
        return;
    renew.lease = release.lease = revoke.lease = lease->id;
    renew.epoch = release.epoch = revoke.epoch = lease->epoch - (chance(w, 10) ? 1 : 0);
    switch (roll(w, 5)) {
    case 0:
    case 1:
        renew.ttl_ms = chance(w, 50) ? 0 : (int64_t)roll(w, 70000);
        if (chance(w, 40))
            add_nodes(w, &renew, nodes);
        command.kind_case = XCE__V1__COMMAND__KIND_RENEW;
        command.renew = &renew;
        break;
    case 2:
        revoke.reason = sim_bytes("enough");
        command.kind_case = XCE__V1__COMMAND__KIND_REVOKE;
        command.revoke = &revoke;
        break;
    default:
        if (chance(w, 40))
            release.node = sim_bytes(lease->members[roll(w, lease->n_members)].node->name);
        command.kind_case = XCE__V1__COMMAND__KIND_RELEASE;
        command.release = &release;
        break;
    }
    if (chance(w, 70))
        world_tell(w, &command);
    else
        world_send(w, &command);
}

/* ---- pools ---- */

static void create(struct world *w, size_t which)
{
    Xce__V1__CmdRange range = XCE__V1__CMD_RANGE__INIT;
    Xce__V1__CmdPoolSettings settings = XCE__V1__CMD_POOL_SETTINGS__INIT;
    Xce__V1__CmdPoolCreate cmd = XCE__V1__CMD_POOL_CREATE__INIT;
    Xce__V1__Command command = XCE__V1__COMMAND__INIT;

    range.first = SIM_FIRST + (which ? 12 : 0);
    range.last = range.first + (uint32_t)roll(w, which || w->seed % 3 ? 2 : 8);
    settings.cooldown_ms = 1000 + (int64_t)roll(w, w->seed & 1 ? 200 : 3000);
    settings.ready_timeout_ms = 2000 + (int64_t)roll(w, 10000);
    settings.witnesses = chance(w, 30);
    settings.witnesses_set = true;
    settings.max_per_owner = chance(w, 30) ? 3 : 0;
    settings.max_per_owner_set = true;
    cmd.name = sim_bytes(pool_names[which]);
    cmd.range = &range;
    cmd.directory_none = true;
    cmd.settings = &settings;
    command.kind_case = XCE__V1__COMMAND__KIND_POOL_CREATE;
    command.pool_create = &cmd;
    world_tell(w, &command);
}

static void set(struct world *w, size_t which, const struct fsm_pool *pool)
{
    Xce__V1__CmdPoolSettings settings = XCE__V1__CMD_POOL_SETTINGS__INIT;
    Xce__V1__CmdPoolSet cmd = XCE__V1__CMD_POOL_SET__INIT;
    Xce__V1__Command command = XCE__V1__COMMAND__INIT;

    settings.cooldown_ms = 1000 + (int64_t)roll(w, w->seed & 1 ? 200 : 3000);
    settings.ready_timeout_ms = 2000 + (int64_t)roll(w, 10000);
    settings.witnesses = chance(w, 30);
    settings.witnesses_set = true;
    settings.max_per_owner = chance(w, 30) ? 2 : 0;
    settings.max_per_owner_set = chance(w, 50);
    if (chance(w, w->seed % 3 ? 3 : 30) && pool->range.last < SIM_FIRST + (which ? 15 : 11))
        cmd.last = pool->range.last + 1;
    cmd.name = sim_bytes(pool_names[which]);
    cmd.settings = &settings;
    command.kind_case = XCE__V1__COMMAND__KIND_POOL_SET;
    command.pool_set = &cmd;
    world_tell(w, &command);
}

static void retire(struct world *w, const char *name)
{
    Xce__V1__CmdPoolRetire cmd = XCE__V1__CMD_POOL_RETIRE__INIT;
    Xce__V1__Command command = XCE__V1__COMMAND__INIT;

    cmd.name = sim_bytes(name);
    command.kind_case = XCE__V1__COMMAND__KIND_POOL_RETIRE;
    command.pool_retire = &cmd;
    world_tell(w, &command);
}

static void unblock(struct world *w, size_t which, uint32_t uid)
{
    Xce__V1__CmdUnblock cmd = XCE__V1__CMD_UNBLOCK__INIT;
    Xce__V1__Command command = XCE__V1__COMMAND__INIT;

    cmd.name = sim_bytes(pool_names[which]);
    cmd.uid = uid;
    command.kind_case = XCE__V1__COMMAND__KIND_UNBLOCK;
    command.unblock = &cmd;
    world_tell(w, &command);
}

/* What was freed on an oath that was broken: an administrator looks before he says that nothing of it is left; where nobody
 * can look, something may be. */
static bool may_be_left(const struct world *w, const struct fsm_blocked *blocked)
{
    uint32_t uid = blocked->uid - SIM_FIRST;

    for (int n = 0; n < SIM_NODES && strcmp(blocked->reason, "oath") == 0; n++) {
        const struct sim_node *node = &w->nodes[n];
        const struct fsm_node *known = fsm_node(w->fsm, node->name);

        if (node->procs[uid] || node->files[uid] ||
            (known && (known->state == NODE_LOST || known->state == NODE_UNKNOWN)))
            return true;
    }
    return false;
}

static void unblock_one(struct world *w, size_t which, const struct fsm_pool *pool)
{
    const struct fsm_blocked *blocked = &pool->blocked[roll(w, pool->n_blocked)];

    if (!may_be_left(w, blocked))
        unblock(w, which, blocked->uid);
}

void client_pool(struct world *w)
{
    size_t which = roll(w, 2);
    const struct fsm_pool *pool = fsm_pool(w->fsm, pool_names[which]);

    if (!pool)
        create(w, which);
    else if (pool->n_blocked && chance(w, 60))
        unblock_one(w, which, pool);
    else if (chance(w, 15))
        retire(w, pool_names[which]);
    else
        set(w, which, pool);
}

void client_end_all(struct world *w)
{
    for (uint32_t i = 0; i < SIM_UIDS; i++) {
        const struct fsm_lease *lease = fsm_lease_of_uid(w->fsm, SIM_FIRST + i);
        Xce__V1__CmdRelease release = XCE__V1__CMD_RELEASE__INIT;
        Xce__V1__Command command = XCE__V1__COMMAND__INIT;

        if (!lease)
            continue;
        release.lease = lease->id;
        release.epoch = lease->epoch;
        command.kind_case = XCE__V1__COMMAND__KIND_RELEASE;
        command.release = &release;
        world_tell(w, &command);
    }
}

/* ---- backups ---- */

void client_restored(struct world *w)
{
    for (size_t i = 0; i < w->n_requests; i++) {
        struct sim_request *r = &w->requests[i];
        struct fsm_request known;
        char id[24];

        snprintf(id, sizeof(id), "r%zu", i);
        if (fsm_request_find(w->fsm, "client", strlen("client"), id, strlen(id), &known) == 0) {
            r->code = known.code;
            r->n_leases = known.n_leases;
            if (known.n_leases)
                memcpy(r->leases, known.leases, known.n_leases * sizeof(uint64_t));
        } else if (r->issued_ms >= fsm_request_horizon_ms(w->fsm)) {
            /* Whatever became of it is not known any more: it is done anew, if somebody asks again. */
            r->answered = false;
            r->times_done = 0;
            /* Refused until that time has come again. */
            if (r->issued_ms > fsm_now_ms(w->fsm) + REQUEST_AHEAD_MS)
                r->gone = r->told = true;
        }
    }
}

static const char *late_name(char name[static 16], uint32_t i)
{
    snprintf(name, 16, "late%u", i);
    return name;
}

/* Of a pool that the backup does not know: a uid at a time, as the cluster names them. */
static void create_late(struct world *w, uint32_t uid)
{
    Xce__V1__CmdRange range = XCE__V1__CMD_RANGE__INIT;
    Xce__V1__CmdPoolSettings settings = XCE__V1__CMD_POOL_SETTINGS__INIT;
    Xce__V1__CmdPoolCreate cmd = XCE__V1__CMD_POOL_CREATE__INIT;
    Xce__V1__Command command = XCE__V1__COMMAND__INIT;
    char name[16];

    range.first = range.last = uid;
    settings.cooldown_ms = 1000;
    cmd.name = sim_bytes(late_name(name, uid - SIM_FIRST));
    cmd.range = &range;
    cmd.directory_none = true;
    cmd.settings = &settings;
    command.kind_case = XCE__V1__COMMAND__KIND_POOL_CREATE;
    command.pool_create = &cmd;
    world_tell(w, &command);
}

static void retire_late(struct world *w)
{
    char name[16];

    for (uint32_t i = 0; w->incarnation && i < SIM_UIDS; i++)
        if (fsm_pool(w->fsm, late_name(name, i)))
            retire(w, name);
}

void client_confirm(struct world *w)
{
    Xce__V1__CmdConfirm confirm = XCE__V1__CMD_CONFIRM__INIT;
    Xce__V1__Command command = XCE__V1__COMMAND__INIT;
    ProtobufCBinaryData nodes[SIM_NODES];
    struct fsm_restored restored;

    fsm_get_restored(w->fsm, &restored);
    if (!restored.waits) {
        retire_late(w);
        return;
    }
    for (int n = 0; n < SIM_NODES; n++) {
        const struct fsm_node *k = fsm_node(w->fsm, w->nodes[n].name);

        if (!k || k->state != NODE_FENCED)
            nodes[confirm.n_nodes++] = sim_bytes(w->nodes[n].name);
    }
    confirm.nodes = nodes;
    command.kind_case = XCE__V1__COMMAND__KIND_CONFIRM;
    command.confirm = &confirm;
    if (restored.unpooled.first && (w->healing || chance(w, 60))) /* or it is forgotten */
        create_late(w, restored.unpooled.first);
    world_tell(w, &command);
}
