/* What nodes do: as noded would, with everything that can go wrong around it. */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "tests/sim/world.h"
#include "xce/v1/node.pb-c.h"

#define BIT(grant) ((uint64_t)1 << (grant))

/* The state at the other end of the node's stream; NULL = there is none. */
static const struct fsm *seen(struct world *w, const struct sim_node *node)
{
    return node->power && node->runs && !node->cut ? w->ops->view(w, node->via) : NULL;
}

static const struct fsm_node *known(struct world *w, const struct sim_node *node)
{
    const struct fsm *fsm = seen(w, node);

    return fsm ? fsm_node(fsm, node->name) : NULL;
}

/* Its session is the one that counts, and something gets through. */
static bool attached(struct world *w, const struct sim_node *node)
{
    const struct fsm_node *k = node->session ? known(w, node) : NULL;

    return k && k->session == node->session;
}

/* It has no session, or the replica that serves it says that it is over. */
static bool must_say_hello(struct world *w, const struct sim_node *node)
{
    const struct fsm *fsm = seen(w, node);
    const struct fsm_node *k = fsm ? fsm_node(fsm, node->name) : NULL;

    if (!node->session)
        return w->now_ms >= node->patience_ms;
    if (!fsm)
        return true;
    if (fsm_revision(fsm) < node->session_revision)
        return false; /* it does not know that session yet */
    return !k || k->session != node->session;
}

/* What it says goes by its stream; when nothing is heard of it any more, it begins another. */
static struct sim_ask by_stream(const struct sim_node *node, sim_done_fn done)
{
    return (struct sim_ask){
        .done = done, .via = node->via, .node = (struct sim_node *)node, .stream = node->stream};
}

static void stream_ended(struct world *w, const struct sim_ask *ask, int r,
                         const struct fsm_outcome *outcome)
{
    if (r < 0 && ask->node->stream == ask->stream)
        ask->node->session = 0;
}

/* ---- hello, feed ---- */

static void hello_answered(struct world *w, const struct sim_ask *ask, int r,
                           const struct fsm_outcome *outcome)
{
    struct sim_node *node = ask->node;

    if (node->stream != ask->stream)
        return;
    node->patience_ms = w->now_ms + (r < 0 ? 200 : 0);
    if (r < 0 || outcome->code != FSM_OK)
        return;
    node->session = outcome->session;
    node->session_revision = outcome->revision;
    for (uint32_t i = 0; i < SIM_UIDS && node->lied_about; i++)
        node->lied_until[i] = w->n_grants[i];
    node->lied_about = false;
}

void node_hello(struct world *w, struct sim_node *node, bool clean)
{
    Xce__V1__CmdHello hello = XCE__V1__CMD_HELLO__INIT;
    Xce__V1__Command command = XCE__V1__COMMAND__INIT;
    struct sim_ask ask;
    char boot[24];

    if (!node->power || !node->runs || node->cut)
        return;
    snprintf(boot, sizeof(boot), "%s-boot-%d", node->machine, node->n_boot);
    hello.node = sim_bytes(node->name);
    hello.machine_id = sim_bytes(node->machine);
    hello.boot_id = sim_bytes(boot);
    hello.clean_start = clean;
    hello.seen = node->followed == w->incarnation ? node->seen : 0;
    command.kind_case = XCE__V1__COMMAND__KIND_HELLO;
    command.hello = &hello;
    node->session = node->tell_session = 0;
    node->stream++;
    node->via = w->ops->any(w);
    node->patience_ms = w->now_ms + 1000;
    memset(node->said_ready, 0, sizeof(node->said_ready));
    say(w, "%s says hello from %s", node->name, boot);
    if (!w->healing && chance(w, 10)) { /* its stream breaks, the command may still come */
        node->patience_ms = w->now_ms;
        world_send(w, &command);
        return;
    }
    ask = by_stream(node, hello_answered);
    world_ask(w, &command, &ask);
}

/* Another machine says that it is this node. Only when the real one is fenced may it be. */
static void impostor(struct world *w, const struct sim_node *node)
{
    const struct fsm_node *k = fsm_node(w->fsm, node->name);
    Xce__V1__CmdHello hello = XCE__V1__CMD_HELLO__INIT;
    Xce__V1__Command command = XCE__V1__COMMAND__INIT;

    if (!k || k->state == NODE_FENCED)
        return;
    hello.node = sim_bytes(node->name);
    hello.machine_id = sim_bytes("impostor");
    hello.boot_id = sim_bytes("impostor-boot");
    command.kind_case = XCE__V1__COMMAND__KIND_HELLO;
    command.hello = &hello;
    world_tell(w, &command);
}

static enum sim_phase phase_of(enum lease_state state)
{
    if (state <= LEASE_ACTIVE)
        return PHASE_LIVE;
    return state <= LEASE_COOLING ? PHASE_ENDED : PHASE_ABSENT;
}

/* Closing admission is for good, and on disk. */
static void write_record(struct sim_record *record, const struct fsm_lease *lease,
                         const struct fsm_member *member)
{
    bool was_here = record->here && record->epoch == lease->epoch;

    if (lease->epoch < record->epoch)
        return;
    record->epoch = lease->epoch;
    record->state = lease->state;
    record->phase = phase_of(lease->state);
    record->member = member != NULL;
    if (member)
        record->disk = record->epoch;
    record->proof = member ? member->proof : PROOF_PENDING;
    record->here = record->phase == PHASE_LIVE && member && !member->released &&
                   record->closed < lease->epoch;
    if ((was_here && !record->here) || (member && record->phase != PHASE_LIVE))
        record->closed = lease->epoch;
}

/* Another incarnation: what it was no member of means nothing, and what is not listed is not here. */
static void begin_anew(struct world *w, struct sim_node *node)
{
    for (uint32_t i = 0; i < SIM_UIDS; i++) {
        struct sim_record *record = &node->map[i];
        const struct fsm_lease *lease;

        record->epoch = record->disk;
        lease = fsm_lease_of_uid(w->fsm, SIM_FIRST + i);
        if (lease && lease->epoch >= record->epoch)
            continue;
        record->phase = PHASE_ABSENT;
        record->here = record->member = false;
        record->closed = record->epoch;
    }
    node->followed = w->incarnation;
    node->seen = 0;
}

/* ---- what a restored backup wants to know before it gives anything out ---- */

/* The last report of them ends with request 1. */
static void epochs_answered(struct world *w, const struct sim_ask *ask, int r,
                            const struct fsm_outcome *outcome)
{
    struct sim_node *node = ask->node;

    if (node->stream != ask->stream)
        return;
    if (r < 0 || outcome->code != FSM_OK)
        node->session = 0;
    else if (ask->request)
        node->told_revision = outcome->revision;
}

static void begin_to_tell(struct sim_node *node)
{
    for (uint32_t i = 0; i < SIM_UIDS; i++)
        node->tell[i] = node->map[i].disk;
    node->tell_session = node->session;
    node->tell_at = node->n_told = 0;
    node->tell_fails = false;
    node->told_revision = UINT64_MAX;
}

/* Reports follow each other without waiting for answers, so one may be lost and the next one come. */
static void send_piece(struct world *w, struct sim_node *node, const Xce__V1__Command *command)
{
    struct sim_ask ask = by_stream(node, epochs_answered);

    ask.request = command->report->epochs_done;
    w->n_pieces++;
    if (w->healing || chance(w, 85)) {
        if (!w->healing && chance(w, 10)) /* a copy comes late */
            world_send(w, command);
        world_ask(w, command, &ask);
        return;
    }
    node->tell_fails = true;
    if (chance(w, 50))
        world_send(w, command);
}

static void tell_piece(struct world *w, struct sim_node *node, size_t most)
{
    Xce__V1__CmdEpoch epochs[SIM_UIDS], *list[SIM_UIDS];
    Xce__V1__CmdReport cmd = XCE__V1__CMD_REPORT__INIT;
    Xce__V1__Command command = XCE__V1__COMMAND__INIT;

    for (; node->tell_at < SIM_UIDS && cmd.n_epochs < most; node->tell_at++) {
        if (!node->tell[node->tell_at])
            continue;
        xce__v1__cmd_epoch__init(&epochs[cmd.n_epochs]);
        epochs[cmd.n_epochs].uid = SIM_FIRST + node->tell_at;
        epochs[cmd.n_epochs].epoch = (uint32_t)node->tell[node->tell_at];
        list[cmd.n_epochs] = &epochs[cmd.n_epochs];
        cmd.n_epochs++;
    }
    cmd.node = sim_bytes(node->name);
    cmd.session = node->session;
    cmd.epochs = list;
    cmd.epochs_before = node->n_told;
    cmd.epochs_done = node->tell_at == SIM_UIDS;
    node->n_told += (uint32_t)cmd.n_epochs;
    command.kind_case = XCE__V1__COMMAND__KIND_REPORT;
    command.report = &cmd;
    say(w, "%s tells %zu epochs after %" PRIu64, node->name, cmd.n_epochs, cmd.epochs_before);
    send_piece(w, node, &command);
}

/* All of them once in a session; when that was not enough, another one begins (service/session.c). */
static void tell_epochs(struct world *w, struct sim_node *node)
{
    if (!attached(w, node))
        return;
    if (node->tell_session == node->session &&
        (node->tell_fails || (fsm_revision(seen(w, node)) >= node->told_revision &&
                              fsm_wants_epochs(seen(w, node), known(w, node))))) {
        node->session = 0;
        return;
    }
    if (node->tell_session != node->session) {
        if (!fsm_wants_epochs(seen(w, node), known(w, node)))
            return;
        begin_to_tell(node);
    }
    while (node->tell_at < SIM_UIDS && attached(w, node)) {
        tell_piece(w, node, 1 + roll(w, SIM_UIDS / 2));
        if (!w->healing && chance(w, 30)) /* the rest later */
            break;
    }
}

void node_restored(struct world *w, struct sim_node *node)
{
    node->session = 0;
    node->stream++;
    node->patience_ms = w->now_ms;
}

void nodes_lose_replica(struct world *w, int via)
{
    for (int n = 0; n < SIM_NODES; n++)
        if (w->nodes[n].session && w->nodes[n].via == via)
            node_restored(w, &w->nodes[n]);
}

void node_feed(struct world *w, struct sim_node *node)
{
    const struct fsm *fsm = seen(w, node);

    if (!attached(w, node))
        return;
    if (node->followed != w->incarnation)
        begin_anew(w, node);
    for (uint32_t i = 0; i < SIM_UIDS; i++) {
        const struct fsm_lease *lease = fsm_lease_of_uid(fsm, SIM_FIRST + i);
        const struct fsm_member *member = NULL;

        if (!lease) {
            node->map[i].phase = PHASE_ABSENT;
            node->map[i].here = node->map[i].member = false;
            continue;
        }
        for (uint32_t m = 0; m < lease->n_members; m++)
            if (strcmp(lease->members[m].node->name, node->name) == 0)
                member = &lease->members[m];
        write_record(&node->map[i], lease, member);
    }
    node->revision = fsm_revision(fsm);
    if (node->seen < node->revision)
        node->seen = node->revision;
}

/* ---- reports ---- */

static void report(struct world *w, struct sim_node *node, uint32_t i, int kind, uint64_t epoch,
                   const char *reason)
{
    Xce__V1__CmdMember member = XCE__V1__CMD_MEMBER__INIT;
    Xce__V1__CmdMember *list[] = {&member};
    Xce__V1__CmdReport cmd = XCE__V1__CMD_REPORT__INIT;
    Xce__V1__Command command = XCE__V1__COMMAND__INIT;
    struct sim_ask ask = by_stream(node, stream_ended);

    member.uid = SIM_FIRST + i;
    member.epoch = (uint32_t)epoch;
    member.kind = (uint32_t)kind;
    member.reason = sim_bytes(reason);
    cmd.node = sim_bytes(node->name);
    cmd.session = node->session;
    cmd.n_members = 1;
    cmd.members = list;
    command.kind_case = XCE__V1__COMMAND__KIND_REPORT;
    command.report = &cmd;
    say(w, "%s says kind %d of uid +%u epoch %" PRIu64, node->name, kind, i, epoch);
    if (w->healing || chance(w, 60))
        world_ask(w, &command, &ask);
    else
        world_send(w, &command);
}

static void say_ready_or_not(struct world *w, struct sim_node *node, uint32_t i)
{
    struct sim_record *record = &node->map[i];

    if (chance(w, 12)) {
        record->here = false;
        record->closed = record->epoch;
        report(w, node, i, XCE__V1__REPORT_KIND__REPORT_KIND_REFUSED, record->epoch,
               chance(w, 30) ? "account" : "disk");
        return;
    }
    node->procs[i] &= BIT(truth_grant(w, i, record->epoch));
    node->said_ready[i] = record->epoch;
    node->ready_boot[i] = node->n_boot;
    node->readied[i] |= BIT(truth_grant(w, i, record->epoch));
    report(w, node, i, XCE__V1__REPORT_KIND__REPORT_KIND_READY, record->epoch, NULL);
}

/* Admission is closed; sweep, then say what was left. */
static void say_clean_or_not(struct world *w, struct sim_node *node, uint32_t i)
{
    struct sim_record *record = &node->map[i];

    record->here = false;
    record->closed = record->epoch;
    node->procs[i] &= node->stuck[i];
    node->launches[i] = 0;
    if (node->procs[i]) {
        report(w, node, i, XCE__V1__REPORT_KIND__REPORT_KIND_DIRTY, record->epoch,
               chance(w, 50) ? "unkillable" : "file");
        return;
    }
    node->files[i] = 0;
    node->cleaned[i] |= BIT(truth_grant(w, i, record->epoch));
    report(w, node, i, XCE__V1__REPORT_KIND__REPORT_KIND_CLEAN, record->epoch, NULL);
}

void node_report(struct world *w, struct sim_node *node)
{
    for (uint32_t i = 0; i < SIM_UIDS; i++) {
        struct sim_record *record = &node->map[i];

        if (!attached(w, node) || !record->member || record->phase == PHASE_ABSENT || chance(w, 20))
            continue;
        if (record->here && node->said_ready[i] != record->epoch)
            say_ready_or_not(w, node, i);
        else if (!record->here && record->proof != PROOF_CLEAN)
            say_clean_or_not(w, node, i);
    }
}

/* ---- guard pass ---- */

static void watermark(struct world *w, struct sim_node *node)
{
    Xce__V1__CmdWatermark mark = XCE__V1__CMD_WATERMARK__INIT;
    Xce__V1__CmdWatermark *list[] = {&mark};
    Xce__V1__CmdWatermarks cmd = XCE__V1__CMD_WATERMARKS__INIT;
    Xce__V1__Command command = XCE__V1__COMMAND__INIT;
    struct sim_ask ask = by_stream(node, stream_ended);

    mark.node = sim_bytes(node->name);
    mark.session = node->session;
    /* Once in a while one that can not be: it must not count. */
    mark.revision = chance(w, 2) ? (uint64_t)1 << 40 : node->revision;
    cmd.n_marks = 1;
    cmd.marks = list;
    command.kind_case = XCE__V1__COMMAND__KIND_WATERMARKS;
    command.watermarks = &cmd;
    if (w->healing || chance(w, 70))
        world_ask(w, &command, &ask);
    else
        world_send(w, &command);
}

/* Whatever is not here ends, launches under way too. A pass that found something is not a clean one. */
void node_pass(struct world *w, struct sim_node *node)
{
    uint64_t found[SIM_UIDS] = {0};
    bool any = false;

    if (!node->power || !node->runs)
        return;
    for (uint32_t i = 0; i < SIM_UIDS; i++) {
        uint64_t keep = node->map[i].here ? BIT(truth_grant(w, i, node->map[i].epoch)) : 0;

        found[i] = node->procs[i] & ~keep;
        node->procs[i] &= keep | node->stuck[i];
        node->launches[i] &= keep;
        any |= found[i] != 0;
    }
    if (!attached(w, node))
        return;
    for (uint32_t i = 0; i < SIM_UIDS; i++)
        if (found[i] && !(node->procs[i] & found[i]) && attached(w, node))
            report(w, node, i, XCE__V1__REPORT_KIND__REPORT_KIND_STRAY,
                   chance(w, 50) ? 0 : node->map[i].epoch, "process");
    if (!any && node->revision && attached(w, node))
        watermark(w, node);
}

/* ---- processes ---- */

/* Root by name, wherever the name resolves; a job where the lease is here. The look-up comes first, the setuid some time. */
static void launch(struct world *w, struct sim_node *node, uint32_t i)
{
    struct sim_record *record = &node->map[i];

    for (uint64_t grant = 1; grant <= SIM_EPOCHS; grant++)
        if (node->launches[i] & BIT(grant) && chance(w, 60)) {
            node->launches[i] &= ~BIT(grant);
            say(w, "%s: a process of uid +%u epoch %" PRIu64, node->name, i, w->epochs[i][grant]);
            truth_setuid(w, node, i, grant);
            if (record->here && w->epochs[i][grant] == record->epoch)
                node->files[i] |= BIT(grant);
        }
    if (record->phase != PHASE_ABSENT && (record->here || chance(w, attached(w, node) ? 4 : 40)))
        node->launches[i] |= BIT(truth_grant(w, i, record->epoch));
    if (chance(w, 4))
        node->stuck[i] = node->procs[i];
}

void node_launch(struct world *w, struct sim_node *node)
{
    if (!node->power)
        return;
    for (uint32_t i = 0; i < SIM_UIDS; i++)
        if (node->map[i].phase != PHASE_ABSENT || node->launches[i])
            launch(w, node, i);
    if (chance(w, 20))
        memset(node->stuck, 0, sizeof(node->stuck));
}

/* ---- bad luck ---- */

static void power_cycle(struct world *w, struct sim_node *node, bool wipe)
{
    say(w, "%s loses power%s", node->name, wipe ? " and its disk" : "");
    for (uint32_t i = 0; i < SIM_UIDS; i++) {
        node->procs[i] = node->launches[i] = node->stuck[i] = 0;
        node->map[i].phase = PHASE_ABSENT;
        node->map[i].here = node->map[i].member = false;
        if (wipe)
            node->files[i] = node->seen = node->map[i].epoch = node->map[i].disk = node->map[i]
                                                                                       .closed = 0;
    }
    node->n_boot++;
    node->stream++;
    node->patience_ms = w->now_ms;
    node->revision = node->session = 0;
    node->power = node->runs = true;
}

/* Nobody was heard for so long that it ends what is here by itself. */
static void end_by_itself(struct world *w, struct sim_node *node)
{
    for (uint32_t i = 0; i < SIM_UIDS; i++)
        if (node->map[i].here) {
            node->map[i].here = false;
            node->map[i].closed = node->map[i].epoch;
            node->procs[i] &= node->stuck[i];
            node->launches[i] = 0;
            if (attached(w, node))
                report(w, node, i, XCE__V1__REPORT_KIND__REPORT_KIND_REFUSED, node->map[i].epoch,
                       "validity");
        }
}

void node_fail(struct world *w, struct sim_node *node)
{
    switch (roll(w, 8)) {
    case 0:
        node->runs = false;
        break;
    case 1:
    case 2:
        if (node->power) {
            bool clean = node->runs && chance(w, 50);

            node->runs = true;
            node_hello(w, node, clean);
        }
        break;
    case 3:
        power_cycle(w, node, chance(w, 20));
        break;
    case 4:
        node->cut = true;
        break;
    case 5:
    case 6:
        node->cut = false;
        break;
    default:
        if (chance(w, 30))
            impostor(w, node);
        else if (node->power && node->runs)
            end_by_itself(w, node);
        break;
    }
}

/* ---- what leased and administrators do about nodes ---- */

static void lost(struct world *w, const struct fsm_node *k, bool heard_again)
{
    Xce__V1__CmdNodeLost cmd = XCE__V1__CMD_NODE_LOST__INIT;
    Xce__V1__Command command = XCE__V1__COMMAND__INIT;

    cmd.node = sim_bytes(k->name);
    cmd.session = k->session;
    cmd.heard_again = heard_again;
    command.kind_case = XCE__V1__COMMAND__KIND_NODE_LOST;
    command.node_lost = &cmd;
    if (w->healing || chance(w, 80))
        world_tell_leader(w, &command);
    else
        world_send(w, &command);
}

static void verb(struct world *w, const struct fsm_node *k, int which)
{
    Xce__V1__CmdNodeVerb cmd = XCE__V1__CMD_NODE_VERB__INIT;
    Xce__V1__Command command = XCE__V1__COMMAND__INIT;

    cmd.node = sim_bytes(k->name);
    cmd.verb = (Xce__V1__NodeVerb)which;
    cmd.reason = sim_bytes("because");
    cmd.machine_id = sim_bytes(k->machine_id);
    cmd.boot_id = sim_bytes(k->boot_id);
    command.kind_case = XCE__V1__COMMAND__KIND_NODE_VERB;
    command.node_verb = &cmd;
    say(w, "verb %d on %s", which, k->name);
    world_tell(w, &command);
}

static void fence(struct world *w, struct sim_node *node, const struct fsm_node *k)
{
    bool lie = chance(w, w->seed % 16 == 11 ? 75 : 25);

    if (!lie) { /* first the power, then the oath */
        power_cycle(w, node, false);
        node->power = node->runs = false;
    }
    node->lied_about |= lie;
    verb(w, k, XCE__V1__NODE_VERB__NODE_VERB_FENCE);
    if (chance(w, 30))
        node->power = node->runs = true;
    if (!lie && chance(w, 30)) { /* a new machine takes its place and its name */
        snprintf(node->machine, sizeof(node->machine), "m%c-%d", node->name[1], ++node->n_machine);
        power_cycle(w, node, true);
    }
}

void node_verbs(struct world *w, struct sim_node *node)
{
    int lead = w->ops->lead(w);
    const struct fsm_node *k = lead >= 0 ? fsm_node(w->ops->view(w, lead), node->name) : NULL;

    if (!k)
        return;
    switch (roll(w, 7)) {
    case 0:
        if (k->session && (!attached(w, node) || chance(w, 30)))
            lost(w, k, false);
        break;
    case 1:
        if (attached(w, node))
            lost(w, k, true);
        break;
    case 2:
    case 6:
        if (k->state == NODE_LOST)
            fence(w, node, k);
        else if (k->state != NODE_FENCED)
            verb(w, k, XCE__V1__NODE_VERB__NODE_VERB_FENCE); /* is heard: refused */
        break;
    case 3:
        if (chance(w, 40))
            verb(w, k, XCE__V1__NODE_VERB__NODE_VERB_FORGET);
        break;
    case 4:
        if (chance(w, 70))
            break;
        verb(w, k,
             chance(w, 50) ? XCE__V1__NODE_VERB__NODE_VERB_DRAIN
                           : XCE__V1__NODE_VERB__NODE_VERB_CORDON);
        break;
    default:
        verb(w, k, XCE__V1__NODE_VERB__NODE_VERB_UNDRAIN);
        break;
    }
}

void node_block(struct world *w, struct sim_node *node)
{
    Xce__V1__CmdBlock block = XCE__V1__CMD_BLOCK__INIT;
    Xce__V1__CmdBlock *list[] = {&block};
    Xce__V1__CmdReport cmd = XCE__V1__CMD_REPORT__INIT;
    Xce__V1__Command command = XCE__V1__COMMAND__INIT;
    struct sim_ask ask = by_stream(node, stream_ended);

    if (!attached(w, node))
        return;
    block.uid = SIM_FIRST + (uint32_t)roll(w, SIM_UIDS);
    block.reason = sim_bytes("account");
    cmd.node = sim_bytes(node->name);
    cmd.session = node->session;
    cmd.n_blocks = 1;
    cmd.blocks = list;
    command.kind_case = XCE__V1__COMMAND__KIND_REPORT;
    command.report = &cmd;
    world_ask(w, &command, &ask);
}

/* ---- in order ---- */

void node_behave(struct world *w, struct sim_node *node)
{
    const struct fsm_node *k;

    if (node->cut && chance(w, 10))
        node->cut = false;
    if (node->power && !node->runs && chance(w, 20))
        node->runs = true;
    if (must_say_hello(w, node))
        node_hello(w, node, false);
    tell_epochs(w, node);
    node_feed(w, node);
    k = known(w, node);
    if (k && k->state == NODE_LOST && attached(w, node) && chance(w, 20))
        lost(w, k, true);
}

/* A late hello of the machine of before, which is gone, undid its fence, or an impostor took the name: fence it again. */
static bool fence_usurper(struct world *w, const struct sim_node *node)
{
    const struct fsm_node *k = fsm_node(w->fsm, node->name);

    if (!k || strcmp(k->machine_id, node->machine) == 0 || k->state == NODE_FENCED)
        return false;
    lost(w, k, false);
    verb(w, k, XCE__V1__NODE_VERB__NODE_VERB_FENCE);
    return true;
}

void node_heal(struct world *w, struct sim_node *node)
{
    const struct fsm_node *k;

    if (!node->power)
        power_cycle(w, node, false);
    node->cut = false;
    node->runs = true;
    memset(node->stuck, 0, sizeof(node->stuck));
    if (fence_usurper(w, node))
        return;
    if (must_say_hello(w, node))
        node_hello(w, node, false);
    tell_epochs(w, node);
    k = known(w, node);
    if (k && k->state == NODE_LOST && attached(w, node))
        lost(w, k, true);
    node_feed(w, node);
    for (uint32_t i = 0; i < SIM_UIDS; i++)
        if (attached(w, node) && node->map[i].member && !node->map[i].here &&
            node->map[i].phase != PHASE_ABSENT && node->map[i].proof != PROOF_CLEAN)
            say_clean_or_not(w, node, i);
    node_pass(w, node);
}
