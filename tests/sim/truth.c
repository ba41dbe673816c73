/* The invariants, against what really runs. */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "tests/sim/world.h"

#define BIT(grant) ((uint64_t)1 << (grant))
#define TO(state)  (1u << (state))

static const unsigned moves[] = {
    [0] = TO(LEASE_GRANTED),
    [LEASE_GRANTED] = TO(LEASE_ACTIVE) | TO(LEASE_DRAINING),
    [LEASE_ACTIVE] = TO(LEASE_DRAINING),
    [LEASE_DRAINING] = TO(LEASE_COOLING),
    [LEASE_COOLING] = TO(LEASE_RETIRED) | TO(LEASE_DRAINING),
    [LEASE_RETIRED] = TO(LEASE_FREE) | TO(LEASE_DRAINING),
};

static struct sim_node *truth_of(struct world *w, const struct fsm_node *node)
{
    for (int i = 0; i < SIM_NODES; i++)
        if (strcmp(w->nodes[i].name, node->name) == 0)
            return &w->nodes[i];
    violated(w, "node %s is not one of ours", node->name);
}

uint64_t truth_grant(struct world *w, uint32_t i, uint64_t epoch)
{
    uint64_t n = w->n_grants[i];

    if (!epoch)
        return 0;
    while (n && w->epochs[i][n] != epoch)
        n--;
    if (!n)
        violated(w, "epoch %" PRIu64 " of uid %u was never granted", epoch, SIM_FIRST + i);
    return n;
}

/* A stray that root started on a node that was no member and is cut off now is outside the promise (model: WIT_CONN); so
 * is what runs where somebody swore falsely that nothing does. */
static bool exempt(const struct world *w, const struct sim_node *node, uint32_t i, uint64_t grant,
                   uint64_t now)
{
    const struct fsm_node *known = fsm_node(w->fsm, node->name);

    if (node->lied_about || now <= node->lied_until[i])
        return true;
    if (!known || known->state == NODE_LOST || known->state == NODE_UNKNOWN ||
        known->unknown_revision)
        return !(node->was_member[i] & BIT(grant));
    return false;
}

static void check_remains(struct world *w, uint32_t i, uint64_t grant)
{
    for (int n = 0; n < SIM_NODES; n++) {
        const struct sim_node *node = &w->nodes[n];

        if (node->files[i] & (BIT(grant) - 1) && !node->lied_about && grant > node->lied_until[i])
            violated(w,
                     "I2: uid %u is granted under epoch %" PRIu64
                     ", a file of an epoch before is left on %s",
                     SIM_FIRST + i, w->epochs[i][grant], node->name);
        for (uint64_t old = 1; old < grant; old++)
            if (node->procs[i] & BIT(old) && !exempt(w, node, i, old, grant))
                violated(w,
                         "I2: uid %u is granted under epoch %" PRIu64
                         ", a process of epoch %" PRIu64 " runs on %s",
                         SIM_FIRST + i, w->epochs[i][grant], w->epochs[i][old], node->name);
    }
}

void truth_setuid(struct world *w, struct sim_node *node, uint32_t i, uint64_t grant)
{
    const struct fsm_lease *lease = fsm_lease_of_uid(w->fsm, SIM_FIRST + i);
    uint64_t now = lease ? truth_grant(w, i, lease->epoch) : 0;

    node->procs[i] |= BIT(grant);
    if (now > grant && lease->state <= LEASE_ACTIVE && !exempt(w, node, i, grant, now))
        violated(w, "I2: a process of epoch %" PRIu64 " of uid %u starts on %s under epoch %u",
                 w->epochs[i][grant], SIM_FIRST + i, node->name, lease->epoch);
}

/* What a member has proved it has said, of this very epoch. */
static void check_proofs(struct world *w, const struct fsm_lease *lease, uint32_t i)
{
    for (uint32_t m = 0; m < lease->n_members; m++) {
        const struct fsm_member *member = &lease->members[m];
        const struct sim_node *node = truth_of(w, member->node);
        uint64_t said = ~(uint64_t)0;

        if (member->proof == PROOF_READY)
            said = node->readied[i];
        else if (member->proof == PROOF_CLEAN)
            said = node->cleaned[i];
        if (!(said & BIT(truth_grant(w, i, lease->epoch))))
            violated(w,
                     "I2: lease %" PRIu64 " (epoch %u) counts a proof that %s has not given for it",
                     lease->id, lease->epoch, node->name);
    }
}

/* Every member's proof, the cool-down, every witness. */
static void check_free(struct world *w, const struct fsm_lease *lease, const struct sim_life *life)
{
    const struct fsm_pool *pool = fsm_pool(w->fsm, lease->pool);

    if (fsm_now_ms(w->fsm) - life->cooling_since_ms < life->cooldown_ms)
        violated(w, "I2: lease %" PRIu64 " is free before its cool-down is over", lease->id);
    for (uint32_t i = 0; i < lease->n_members; i++) {
        const struct fsm_member *member = &lease->members[i];

        if (member->proof != PROOF_CLEAN && member->proof != PROOF_FENCED)
            violated(w, "I2: lease %" PRIu64 " is free without a proof of %s", lease->id,
                     member->node->name);
        if (member->proof != PROOF_FENCED && member->node->watermark < life->retired_revision)
            violated(w, "I2: lease %" PRIu64 " is free without a watermark of %s", lease->id,
                     member->node->name);
    }
    for (const struct fsm_node *node = fsm_node_next(w->fsm, NULL); node;
         node = fsm_node_next(w->fsm, node))
        if (node->state != NODE_FENCED &&
            (node->state != NODE_LOST || pool->settings.witnesses_all) &&
            node->watermark < life->retired_revision)
            violated(w, "I2: lease %" PRIu64 " is free though witness %s is not past it", lease->id,
                     node->name);
}

/* What counts is a READY under the session that the state knows: there, the name resolves now. */
static void check_resolves(struct world *w, const struct fsm_lease *lease, uint32_t i,
                           const struct fsm_node *known)
{
    const struct sim_node *node = truth_of(w, known);
    const struct sim_record *record = &node->map[i];

    if (node->runs && node->session == known->session &&
        (record->epoch != lease->epoch || record->phase == PHASE_ABSENT))
        violated(w, "barrier: lease %" PRIu64 " is active and does not resolve on %s", lease->id,
                 node->name);
}

/* All live members, and those let go, are ready to be active: the barrier. */
static void check_active(struct world *w, const struct fsm_lease *lease, uint32_t i)
{
    for (uint32_t m = 0; m < lease->n_members; m++) {
        const struct fsm_member *member = &lease->members[m];

        if (member->released)
            continue;
        if (member->proof != PROOF_READY)
            violated(w, "lease %" PRIu64 " is active without READY of %s", lease->id,
                     member->node->name);
        check_resolves(w, lease, i, member->node);
    }
}

/* Members that have come to it since. */
static void check_joined(struct world *w, const struct fsm_lease *lease, struct sim_life *life,
                         uint32_t i, bool moved)
{
    unsigned ready = 0;
    bool waits = false;

    for (uint32_t m = 0; m < lease->n_members; m++) {
        const struct fsm_member *member = &lease->members[m];
        unsigned bit = 1u << (truth_of(w, member->node) - w->nodes);

        ready |= member->proof == PROOF_READY && !member->released ? bit : 0;
        waits |= member->proof != PROOF_READY && !member->released;
        if (lease->state != LEASE_ACTIVE || moved)
            continue;
        if (ready & bit && !(life->ready & bit)) {
            check_resolves(w, lease, i, member->node);
            w->events[EVENT_JOINED]++;
        }
        w->events[EVENT_LET_GO] += member->released && member->proof == PROOF_REFUSED;
    }
    if (lease->state == LEASE_ACTIVE && waits != (lease->due_ms != 0))
        violated(w, "lease %" PRIu64 " is active, and %s", lease->id,
                 waits ? "waits for a member for ever" : "a clock runs for nobody");
    life->ready = ready;
}

/* Longest unused first: nobody in line was put there before the one who is taken. */
static void check_order(struct world *w, uint32_t i)
{
    const struct fsm_pool *pool = fsm_pool_of_uid(w->fsm, SIM_FIRST + i);

    for (uint32_t other = 0; other < SIM_UIDS; other++)
        if (other != i && !w->lives[other].lease && !w->lives[other].aside &&
            w->lives[other].in_pool && w->lives[other].place < w->lives[i].place &&
            fsm_pool_of_uid(w->fsm, SIM_FIRST + other) == pool)
            violated(w, "uid +%u is taken before uid +%u, which has been unused for longer", i,
                     other);
}

/* By an administrator, or by a pass of the node that had found something there. */
static void unblocked(struct world *w, struct sim_life *life, bool by_pass)
{
    if (!by_pass && w->kind != XCE__V1__COMMAND__KIND_UNBLOCK)
        violated(w, "a uid is not blocked any more, and nobody has said that it may be used");
    w->events[EVENT_PASSED] += by_pass;
    life->place = ++w->back;
}

/* New uids before all others, in order of number; unblocked ones behind all. */
static void pool_changed(struct world *w, const struct fsm_pool *pool)
{
    bool blocked[SIM_UIDS] = {false};
    bool by_pass = w->kind == XCE__V1__COMMAND__KIND_WATERMARKS;

    for (uint32_t b = 0; b < pool->n_blocked; b++)
        blocked[pool->blocked[b].uid - SIM_FIRST] = true;
    w->events[EVENT_BLOCKED] += pool->n_blocked != 0;
    for (uint32_t i = SIM_UIDS; i-- > 0;) {
        struct sim_life *life = &w->lives[i];

        if (SIM_FIRST + i < pool->range.first || SIM_FIRST + i > pool->range.last)
            continue;
        if (!life->in_pool)
            life->place = --w->front;
        else if (life->aside && !blocked[i])
            unblocked(w, life, by_pass);
        life->in_pool = true;
        life->aside = blocked[i];
    }
}

static void pool_gone(struct world *w, const struct fsm_pool *pool)
{
    for (uint32_t i = 0; i < SIM_UIDS; i++)
        if (SIM_FIRST + i >= pool->range.first && SIM_FIRST + i <= pool->range.last)
            w->lives[i].in_pool = w->lives[i].aside = false;
}

/* No election, restart or clock makes a lease expire before its time. */
static void check_expiry(struct world *w, const struct fsm_lease *lease, struct sim_life *life,
                         bool moved)
{
    if (lease->state <= LEASE_ACTIVE && lease->expires_ms != life->expires_ms) {
        life->expires_ms = lease->expires_ms;
        life->due_real_ms = w->written_ms + (lease->expires_ms - fsm_now_ms(w->fsm));
    }
    if (!moved || lease->state != LEASE_DRAINING || lease->cause != END_EXPIRED ||
        life->state > LEASE_ACTIVE)
        return;
    w->events[EVENT_EXPIRED]++;
    if (w->written_ms >= 0 && w->written_ms < life->due_real_ms)
        violated(w, "lease %" PRIu64 " expires %" PRId64 " ms too early", lease->id,
                 life->due_real_ms - w->written_ms);
}

static void count_lease(struct world *w, const struct fsm_lease *lease, bool moved)
{
    static const struct {
        uint32_t reason;
        enum sim_event event;
    } reasons[] = {
        {QUARANTINE_OATH, EVENT_OATH},   {QUARANTINE_MEMBER_LOST, EVENT_MEMBER_LOST},
        {QUARANTINE_DIRTY, EVENT_DIRTY}, {QUARANTINE_OVERDUE, EVENT_OVERDUE},
        {QUARANTINE_STRAY, EVENT_STRAY},
    };

    for (size_t i = 0; i < sizeof(reasons) / sizeof(reasons[0]); i++)
        w->events[reasons[i].event] += (lease->quarantine & reasons[i].reason) != 0;
    w->events[EVENT_GRANTED] += moved && lease->state == LEASE_GRANTED;
    /* Not by an acquire: in the place of one that was refused. */
    w->events[EVENT_REPLACED] += moved && lease->state == LEASE_GRANTED && w->applying < 0;
    w->events[EVENT_ACTIVE] += moved && lease->state == LEASE_ACTIVE;
    w->events[EVENT_FREE] += moved && lease->state == LEASE_FREE;
}

static bool waits(const struct world *w)
{
    struct fsm_restored restored;

    fsm_get_restored(w->fsm, &restored);
    return restored.waits;
}

/* No name is given twice, in no incarnation. */
static void note_epoch(struct world *w, const struct fsm_lease *lease, uint32_t i)
{
    for (uint64_t n = 1; n <= w->n_grants[i]; n++)
        if (w->epochs[i][n] == lease->epoch)
            violated(w, "uid %u gets epoch %u, which it had before", lease->uid, lease->epoch);
    w->epochs[i][++w->n_grants[i]] = lease->epoch;
    w->over |= w->n_grants[i] + 1 >= SIM_EPOCHS;
}

/* Under the next epoch, or after a restore one that leapt. */
static void granted(struct world *w, const struct fsm_lease *lease, struct sim_life *life,
                    uint32_t i)
{
    if (waits(w))
        violated(w, "uid %u is granted before the nodes are confirmed", lease->uid);
    if (life->leapt ? lease->epoch <= life->epoch : lease->epoch != life->epoch + 1)
        violated(w, "uid %u goes from epoch %" PRIu64 " to %u", lease->uid, life->epoch,
                 lease->epoch);
    note_epoch(w, lease, i);
    life->epoch = lease->epoch;
    life->leapt = false;
}

/* A node has told of a lease that the backup does not know: under the epoch of then, or under a new one. */
static void told_of(struct world *w, const struct fsm_lease *lease, struct sim_life *life,
                    uint32_t i)
{
    uint64_t n = w->n_grants[i];

    while (n && w->epochs[i][n] != lease->epoch)
        n--;
    if (!n)
        note_epoch(w, lease, i);
    else if (!waits(w) && lease->epoch <= life->epoch)
        violated(w, "uid %u goes back from epoch %" PRIu64 " to %u", lease->uid, life->epoch,
                 lease->epoch);
    w->n_lost++;
    life->lease = lease->id;
    life->state = LEASE_DRAINING;
    life->epoch = lease->epoch;
    life->leapt = true;
}

/* A node has told of a higher one: never back, and what comes after leaps. */
static void raised(struct world *w, const struct fsm_lease *lease, struct sim_life *life)
{
    if (lease->epoch < life->epoch)
        violated(w, "lease %" PRIu64 " goes back from epoch %" PRIu64 " to %u", lease->id,
                 life->epoch, lease->epoch);
    life->epoch = lease->epoch;
    life->leapt = true;
}

static void lease_changed(struct world *w, const struct fsm_lease *lease)
{
    uint32_t i = lease->uid - SIM_FIRST;
    struct sim_life *life = &w->lives[i];
    bool moved = life->lease != lease->id || life->state != lease->state;

    if (i >= SIM_UIDS)
        violated(w, "uid %u is in no pool", lease->uid);
    if (life->lease && life->lease != lease->id)
        violated(w, "I1: uid %u is held by leases %" PRIu64 " and %" PRIu64, lease->uid,
                 life->lease, lease->id);
    if (lease->state == LEASE_GRANTED && moved)
        granted(w, lease, life, i);
    if (!life->lease && lease->cause == END_RESTORED) { /* a node has told of it */
        told_of(w, lease, life, i);
    }
    if (lease->quarantine & QUARANTINE_RESTORED)
        raised(w, lease, life);
    if (moved && !(moves[life->lease ? life->state : 0] & TO(lease->state)) &&
        !(life->state == LEASE_DRAINING && lease->state == LEASE_DRAINING))
        violated(w, "lease %" PRIu64 " goes from state %d to %d", lease->id,
                 life->lease ? (int)life->state : 0, (int)lease->state);
    count_lease(w, lease, moved);
    check_proofs(w, lease, i);
    check_joined(w, lease, life, i, moved);
    check_expiry(w, lease, life, moved);
    w->events[EVENT_BACK] += moved && lease->state == LEASE_DRAINING && life->state > LEASE_ACTIVE;
    for (uint32_t m = 0; m < lease->n_members; m++)
        truth_of(w, lease->members[m].node)->was_member[i] |= BIT(truth_grant(w, i, lease->epoch));
    if (!moved)
        return;
    say(w, "lease %" PRIu64 " uid +%u epoch %u state %d cause %d", lease->id, i, lease->epoch,
        (int)lease->state, (int)lease->cause);
    if (lease->state == LEASE_GRANTED) {
        check_remains(w, i, w->n_grants[i]);
        check_order(w, i);
        life->lease = lease->id;
    }
    if (lease->state == LEASE_ACTIVE)
        check_active(w, lease, i);
    if (lease->state == LEASE_COOLING) {
        life->cooling_since_ms = fsm_now_ms(w->fsm);
        life->cooldown_ms = fsm_pool(w->fsm, lease->pool)->settings.cooldown_ms;
    }
    if (lease->state == LEASE_RETIRED)
        life->retired_revision = lease->retired_revision;
    if (lease->state == LEASE_FREE) {
        check_free(w, lease, life);
        if (waits(w))
            violated(w, "uid %u becomes free before the nodes are confirmed", lease->uid);
        life->lease = 0;
        life->place = ++w->back;
    }
    life->state = lease->state;
}

/* Trusted (again): nothing of an older epoch is left on it where a newer one is live. */
static void check_trusted(struct world *w, const struct fsm_node *known)
{
    const struct sim_node *node = truth_of(w, known);

    for (uint32_t i = 0; i < SIM_UIDS; i++) {
        const struct fsm_lease *lease = fsm_lease_of_uid(w->fsm, SIM_FIRST + i);

        if (!lease || lease->state > LEASE_ACTIVE || w->n_grants[i] <= node->lied_until[i])
            continue;
        for (uint64_t old = 1; old < w->n_grants[i]; old++)
            if (node->procs[i] & BIT(old) && !node->lied_about)
                violated(w,
                         "node %s is trusted, a process of epoch %" PRIu64
                         " of uid %u runs there under epoch %u",
                         node->name, w->epochs[i][old], lease->uid, lease->epoch);
    }
}

void truth_change(struct world *w, const struct fsm_change *change)
{
    if (change->revision != fsm_revision(w->fsm))
        violated(w, "a change with revision %" PRIu64 ", the state is at %" PRIu64,
                 change->revision, fsm_revision(w->fsm));
    switch (change->kind) {
    case CHANGE_LEASE:
        lease_changed(w, change->lease);
        break;
    case CHANGE_POOL:
        say(w, "pool %s", change->pool->name);
        pool_changed(w, change->pool);
        break;
    case CHANGE_POOL_GONE:
        say(w, "pool %s is gone", change->pool->name);
        w->events[EVENT_POOL_GONE]++;
        pool_gone(w, change->pool);
        break;
    case CHANGE_NODE:
        say(w, "node %s state %d watermark %" PRIu64 " unknown until %" PRIu64, change->node->name,
            (int)change->node->state, change->node->watermark, change->node->unknown_revision);
        if (change->node->state == NODE_FENCED) { /* with what its disk holds */
            w->events[EVENT_FENCED]++;
            memset(truth_of(w, change->node)->files, 0, sizeof(w->nodes[0].files));
        }
        w->events[EVENT_CORDONED] += change->node->state == NODE_CORDONED && change->node->actor &&
                                     strcmp(change->node->actor, "leased") == 0;
        if (change->node->state == NODE_READY)
            check_trusted(w, change->node);
        break;
    case CHANGE_NODE_GONE:
        say(w, "node %s is gone", change->node->name);
        w->events[EVENT_FORGOTTEN]++;
        break;
    case CHANGE_RULES:
        break;
    }
}

static void life_restored(struct world *w, uint32_t i)
{
    const struct fsm_lease *lease = fsm_lease_of_uid(w->fsm, SIM_FIRST + i);
    const struct fsm_pool *pool = fsm_pool_of_uid(w->fsm, SIM_FIRST + i);

    w->lives[i] = (struct sim_life){
        .epoch = fsm_epoch_floor(w->fsm, SIM_FIRST + i),
        .leapt = true,
        .in_pool = pool != NULL,
        .aside = pool && fsm_uid_is_blocked(w->fsm, SIM_FIRST + i),
    };
    if (!lease)
        return;
    w->lives[i].lease = lease->id;
    w->lives[i].state = lease->state;
    w->lives[i].expires_ms = lease->expires_ms;
    w->lives[i].retired_revision = lease->retired_revision;
}

/* What nodes proved to the state of before they have to prove again. */
void truth_restored(struct world *w)
{
    uint32_t line[SIM_UIDS];

    w->incarnation++;
    for (uint32_t i = 0; i < SIM_UIDS; i++)
        life_restored(w, i);
    for (const struct fsm_pool *pool = fsm_pool_next(w->fsm, NULL); pool;
         pool = fsm_pool_next(w->fsm, pool))
        for (size_t n = fsm_pool_ahead(pool, line, SIM_UIDS), at = 0; at < n; at++)
            w->lives[line[at] - SIM_FIRST].place = ++w->back;
    for (int n = 0; n < SIM_NODES; n++) {
        memset(w->nodes[n].readied, 0, sizeof(w->nodes[n].readied));
        memset(w->nodes[n].cleaned, 0, sizeof(w->nodes[n].cleaned));
    }
}

void truth_check(struct world *w)
{
    for (const struct fsm_lease *lease = fsm_lease_next(w->fsm, 0); lease;
         lease = fsm_lease_next(w->fsm, lease->id))
        for (uint32_t m = 0; m < lease->n_members && lease->state <= LEASE_ACTIVE; m++) {
            const struct fsm_member *member = &lease->members[m];

            if (!member->released &&
                (member->node->state == NODE_LOST || member->node->state == NODE_FENCED))
                violated(w, "lease %" PRIu64 " lives on though member %s is lost", lease->id,
                         member->node->name);
        }
}

/* ---- around each command ---- */

static const char *text_of(struct world *w, ProtobufCBinaryData bytes)
{
    char *text = pb_arena_alloc(&w->arena, bytes.len + 1);

    memcpy(text, bytes.data, bytes.len);
    text[bytes.len] = '\0';
    return text;
}

/* What must hold before a fence, a forget, a hello of somebody else, or a report of a session may be granted. */
static bool may_be_granted(struct world *w, const Xce__V1__Command *command)
{
    const struct fsm_node *k;

    if (command->kind_case == XCE__V1__COMMAND__KIND_HELLO) {
        k = fsm_node(w->fsm, text_of(w, command->hello->node));
        return !k || k->state == NODE_FENCED ||
               strcmp(k->machine_id, text_of(w, command->hello->machine_id)) == 0;
    }
    if (command->kind_case == XCE__V1__COMMAND__KIND_REPORT) {
        k = fsm_node(w->fsm, text_of(w, command->report->node));
        return k && k->session == command->report->session;
    }
    if (command->kind_case != XCE__V1__COMMAND__KIND_NODE_VERB)
        return true;
    k = fsm_node(w->fsm, text_of(w, command->node_verb->node));
    if (command->node_verb->verb == XCE__V1__NODE_VERB__NODE_VERB_FENCE)
        return k && (k->state == NODE_LOST || k->state == NODE_FENCED);
    if (command->node_verb->verb == XCE__V1__NODE_VERB__NODE_VERB_FORGET)
        return k && (k->state == NODE_FENCED ||
                     (k->state == NODE_DRAINING && !k->unknown_revision && !k->n_leases));
    return true;
}

void truth_before(struct world *w, const Xce__V1__Command *command)
{
    w->applying = client_request(w, command);
    w->kind = command->kind_case;
    w->may = may_be_granted(w, command);
    w->wanted = w->may && command->kind_case == XCE__V1__COMMAND__KIND_REPORT &&
                fsm_wants_epochs(w->fsm, fsm_node(w->fsm, text_of(w, command->report->node)));
}

/* No live lease counts on a READY of another boot. */
static void check_hello(struct world *w, const Xce__V1__CmdHello *hello)
{
    const struct fsm_node *k = fsm_node(w->fsm, text_of(w, hello->node));
    struct sim_node *node = truth_of(w, k);
    const char *boot = strstr(k->boot_id, "-boot-");

    memset(node->heard, 0, sizeof(node->heard));
    for (uint32_t i = 0; boot && i < SIM_UIDS; i++) {
        const struct fsm_lease *lease = fsm_lease_of_uid(w->fsm, SIM_FIRST + i);

        for (uint32_t m = 0; lease && lease->state <= LEASE_ACTIVE && m < lease->n_members; m++)
            if (strcmp(lease->members[m].node->name, node->name) == 0 &&
                lease->members[m].proof == PROOF_READY && node->ready_boot[i] != atoi(boot + 6))
                violated(w, "lease %" PRIu64 " lives on though %s was restarted", lease->id,
                         node->name);
    }
}

static const char *why_not(const Xce__V1__Command *command)
{
    if (command->kind_case == XCE__V1__COMMAND__KIND_HELLO)
        return "another machine took the name of a node that is not fenced";
    if (command->kind_case == XCE__V1__COMMAND__KIND_REPORT)
        return "a report of another session counts";
    return "a node is fenced or forgotten that is heard or in use";
}

/* Who counts as one that has told all was heard to the last one, whatever was lost or came twice. */
static void told_epochs(struct world *w, const Xce__V1__CmdReport *report, bool granted)
{
    const struct fsm_node *known = fsm_node(w->fsm, text_of(w, report->node));
    struct sim_node *node = truth_of(w, known);

    w->n_out_of_turn += w->outcome.code == FSM_IGNORED && report->n_epochs;
    for (size_t i = 0; i < report->n_epochs && granted; i++)
        node->heard[report->epochs[i]->uid - SIM_FIRST] = report->epochs[i]->epoch;
    for (uint32_t i = 0; i < SIM_UIDS && !fsm_wants_epochs(w->fsm, known); i++)
        if (node->heard[i] != node->tell[i])
            violated(w,
                     "node %s is done with telling, but of uid %u epoch %" PRIu64
                     " was heard, not %" PRIu64,
                     node->name, SIM_FIRST + i, node->heard[i], node->tell[i]);
}

/* When the nodes are confirmed already, what is in no pool is nobody's (decision 14, price). */
static void told_late(struct world *w, const Xce__V1__CmdReport *report)
{
    const struct fsm_node *known = fsm_node(w->fsm, text_of(w, report->node));

    for (size_t i = 0; i < report->n_epochs; i++)
        if (!w->lives[report->epochs[i]->uid - SIM_FIRST].in_pool)
            truth_of(w, known)->files[report->epochs[i]->uid - SIM_FIRST] = 0;
}

void truth_after(struct world *w, const Xce__V1__Command *command)
{
    bool granted = w->outcome.code == FSM_OK;

    w->n_confirmed += granted && command->kind_case == XCE__V1__COMMAND__KIND_CONFIRM;
    if (command->kind_case == XCE__V1__COMMAND__KIND_REPORT && w->wanted)
        told_epochs(w, command->report, granted);
    if (granted && command->kind_case == XCE__V1__COMMAND__KIND_REPORT && !waits(w))
        told_late(w, command->report);

    if (granted && !w->may)
        violated(w, "%s", why_not(command));
    if (command->kind_case == XCE__V1__COMMAND__KIND_HELLO &&
        command->hello->seen > fsm_revision(w->fsm))
        violated(w, "a node was shown revision %" PRIu64 ", which is not committed",
                 command->hello->seen);
    if (w->applying >= 0)
        client_answer(w, &w->outcome);
    if (granted && command->kind_case == XCE__V1__COMMAND__KIND_HELLO)
        check_hello(w, command->hello);
}
