#include "leased/fsm/incarnation.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "common/mem.h"
#include "leased/fsm/apply.h"
#include "leased/fsm/codec.h"
#include "leased/fsm/command.h"
#include "leased/fsm/lease.h"
#include "leased/fsm/node.h"
#include "leased/fsm/pool.h"
#include "leased/fsm/token.h"

#define FREES_AT_ONCE 1024

static uint32_t add(uint32_t epoch, uint32_t gap)
{
    return epoch > UINT32_MAX - gap ? UINT32_MAX : epoch + gap;
}

uint32_t incarnation_above(const struct fsm *fsm, uint32_t epoch)
{
    return add(epoch, fsm->restored.gap);
}

uint32_t incarnation_above_all(const struct fsm *fsm, uint32_t epoch)
{
    return add(epoch, fsm->restored.least);
}

uint32_t incarnation_least(const struct fsm *fsm)
{
    return fsm->restored.least;
}

bool incarnation_wants(const struct fsm *fsm, const struct node *node)
{
    return fsm->restored.times && !node->epochs_told;
}

bool incarnation_waits(const struct fsm *fsm)
{
    return fsm->restored.waits;
}

/* ---- a backup becomes the state ---- */

static uint64_t leap(uint64_t from, uint64_t by, uint64_t above)
{
    return from + by > above ? from + by : above;
}

static uint64_t leap_lease(const struct fsm *fsm, uint32_t gap, uint64_t above)
{
    return leap(fsm->last_lease,
                INCARNATION_LEAP_LEASE + (uint64_t)gap * INCARNATION_LEASES_AN_EPOCH, above);
}

/* Of all uids, in pools or not; those that are used up do not count. */
static uint32_t highest_epoch(const struct fsm *fsm)
{
    uint32_t highest = 0;

    for (size_t p = 0; p < fsm->n_pools; p++)
        for (uint32_t i = 0; i < fsm->pools[p]->size; i++) {
            uint32_t epoch = fsm->pools[p]->slots[i].epoch;

            if (epoch > highest && epoch != UINT32_MAX)
                highest = epoch;
        }
    for (size_t p = 0; p < fsm->n_floors; p++)
        for (uint32_t i = 0; i < FLOOR_PAGE; i++) {
            uint32_t epoch = fsm->floors[p].epochs[i];

            if (epoch > highest && epoch != UINT32_MAX)
                highest = epoch;
        }
    return highest;
}

/* Those of leases go on when the lease is over. */
static void raise_epochs(struct fsm *fsm)
{
    for (size_t p = 0; p < fsm->n_pools; p++) {
        struct pool *pool = fsm->pools[p];

        for (uint32_t i = 0; i < pool->size; i++) {
            if (pool->states[i] == UID_LEASED)
                continue;
            pool->slots[i].epoch = incarnation_above(fsm, pool->slots[i].epoch);
            if (pool->slots[i].epoch == UINT32_MAX)
                (void)pool_block(fsm, pool, i, NULL, "epochs",
                                 "every epoch of this uid has been used");
        }
    }
    floors_leap(fsm);
}

/* Nobody has said anything to this state. A fence was sworn of the boot of then: it has to be sworn again. */
static void await_node(struct fsm *fsm, struct node *node)
{
    node->epochs_known = fsm->restored.times == 1 || node->epochs_told;
    node->pub.session = ++fsm->last_session;
    node->pub.watermark = 0;
    node->epochs_told = node->epochs_again = false;
    node->n_epochs_said = 0;
    if (node->admin == ADMIN_NONE)
        node_set_reason(fsm, node, "not heard since a backup was restored", NULL);
    node_set(fsm, node, HEALTH_LOST, node->admin);
    fsm_changed_node(fsm, node, CHANGE_NODE);
}

void apply_restore(struct fsm *fsm, const Xce__V1__Command *command, struct fsm_outcome *outcome)
{
    const Xce__V1__CmdRestore *restore = command->restore;
    uint32_t gap = restore->gap ? restore->gap : INCARNATION_GAP;
    uint64_t lease = leap_lease(fsm, gap, restore->above_lease);

    if (restore->incarnation.len != sizeof(fsm->incarnation) ||
        memcmp(restore->incarnation.data, fsm->incarnation, sizeof(fsm->incarnation)) == 0) {
        fsm_fail(outcome, FSM_INVALID, "incarnation: must be %zu bytes, and others than before",
                 sizeof(fsm->incarnation));
        return;
    }
    if (gap < INCARNATION_GAP || gap > INCARNATION_GAP_MAX) {
        fsm_fail(outcome, FSM_INVALID, "gap: %" PRIu32 ", must be %u to %u", gap, INCARNATION_GAP,
                 INCARNATION_GAP_MAX);
        return;
    }
    if (lease > FSM_LEASE_ID_MAX) {
        fsm_fail(outcome, FSM_INVALID,
                 "lease ids would go on above %" PRIu64 ", must be %" PRIu64 " or less", lease,
                 FSM_LEASE_ID_MAX);
        return;
    }
    fsm->restored.gap = gap;
    fsm->restored.least = add(fsm->restored.least, gap);
    fsm->restored.backup = fsm->revision;
    fsm->restored.times++;
    fsm->restored.waits = true;
    fsm->restored.wall_ms = fsm->wall_ms;
    fsm->restored.unpooled = (struct fsm_range){0, 0};
    fsm->restored.strangers = false;
    fsm->restored.n_pages = 0;
    fsm->restored.ceiling = add(highest_epoch(fsm), add(fsm->restored.least, INCARNATION_AHEAD));
    memcpy(fsm->incarnation, restore->incarnation.data, sizeof(fsm->incarnation));
    fsm->revision = leap(fsm->revision, INCARNATION_LEAP, restore->above);
    fsm->last_session = leap(fsm->last_session, INCARNATION_LEAP, restore->above);
    fsm->last_lease = lease;
    fsm->restored.revision = fsm->revision;
    tokens_done(&fsm->tokens); /* one may have been spent since */
    for (size_t i = 0; i < fsm->n_nodes; i++)
        await_node(fsm, fsm->nodes[i]);
    for (size_t i = 0; i < fsm->n_by_id; i++)
        if (fsm->by_id[i].lease)
            lease_drain_anew(fsm, fsm->by_id[i].lease);
    raise_epochs(fsm);
}

/* ---- what nodes know ---- */

static bool believable(const struct fsm *fsm, const struct node *node,
                       const Xce__V1__CmdEpoch *told, struct fsm_outcome *outcome)
{
    const struct pool *pool = pool_of_uid(fsm, told->uid);
    uint32_t known = pool ? pool->slots[told->uid - pool->pub.range.first].epoch
                          : floor_get(fsm, told->uid);
    const char *whose = pool ? NULL : range_of_others(told->uid);

    if (whose) {
        fsm_fail(outcome, FSM_INVALID,
                 "node %s says that it has seen epoch %" PRIu32 " of uid %" PRIu32
                 ", which no pool can have: %s",
                 node->pub.name, told->epoch, told->uid, whose);
        return false;
    }
    if (told->uid && told->epoch && (told->epoch <= known || told->epoch <= fsm->restored.ceiling))
        return true;
    fsm_fail(outcome, FSM_INVALID,
             "node %s says that it has seen epoch %" PRIu32 " of uid %" PRIu32
             ", which is at %" PRIu32 ": that can not be",
             node->pub.name, told->epoch, told->uid, known);
    return false;
}

static int by_number(const void *a, const void *b)
{
    uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;

    return (x > y) - (x < y);
}

/* How many pages the report's uids in no pool would add, and one of those uids. */
static size_t pages_of(const struct fsm *fsm, const Xce__V1__CmdReport *report, uint32_t *ret_uid)
{
    uint32_t *pages = mem_must_alloc((report->n_epochs + 1) * sizeof(*pages));
    size_t n = 0, distinct = 0;

    for (size_t i = 0; i < report->n_epochs; i++) {
        uint32_t uid = report->epochs[i]->uid;

        if (pool_of_uid(fsm, uid) || !floor_wants_page(fsm, uid))
            continue;
        *ret_uid = uid;
        pages[n++] = uid / FLOOR_PAGE;
    }
    qsort(pages, n, sizeof(*pages), by_number);
    for (size_t i = 0; i < n; i++)
        distinct += !i || pages[i] != pages[i - 1];
    free(pages);
    return distinct;
}

static bool has_room(const struct fsm *fsm, const struct node *node,
                     const Xce__V1__CmdReport *report, struct fsm_outcome *outcome)
{
    uint32_t uid = 0;

    if (pages_of(fsm, report, &uid) <= INCARNATION_PAGES - fsm->restored.n_pages)
        return true;
    fsm_fail(outcome, FSM_EXHAUSTED,
             "node %s tells of uid %" PRIu32 ", one of too many that are in no pool: make their "
             "pools again, with the same ranges",
             node->pub.name, uid);
    return false;
}

/* A uid that is in line, or aside, for all the backup knows; the node had a lease of it. */
static void make_lost(struct fsm *fsm, struct pool *pool, uint32_t i, uint32_t epoch,
                      struct node *node)
{
    char detail[FSM_MESSAGE_MAX + 1];
    const struct lease_spec spec = {
        .pool = pool,
        .owner_name = "unknown",
        .owner_name_len = strlen("unknown"),
        .owner_uid = UINT32_MAX,
        .owner_gid = UINT32_MAX,
        .nodes = &node,
        .n_nodes = 1,
    };

    fsm_format(detail, "granted after the backup was made; node %s knows of it", node->pub.name);
    lease_make_lost(fsm, &spec, i, epoch, detail);
}

/* It is the lease of a later epoch: each member proves it clean for that, or its fence stands for the proof. */
static void raise_lease(struct fsm *fsm, struct lease *lease, uint32_t epoch)
{
    if (lease_live(&lease->pub))
        lease_end(fsm, lease, END_RESTORED, "a node has seen a higher epoch of its uid");
    lease->pub.epoch = epoch;
    lease->pool->slots[lease->pub.uid - lease->pool->pub.range.first].epoch = epoch;
    lease->sticky |= QUARANTINE_RESTORED;
    for (uint32_t m = 0; m < lease->pub.n_members; m++) {
        const struct node *node = (const struct node *)lease->pub.members[m].node;

        lease_set_proof(fsm, lease, m, node->health == HEALTH_FENCED ? PROOF_FENCED : PROOF_PENDING,
                        NULL, NULL);
    }
}

/* The node was a member of the lease that the uid has, or of a later one that the backup does not know. */
static void make_member(struct fsm *fsm, struct lease *lease, uint32_t epoch, struct node *node)
{
    uint32_t m = lease_member_index(lease, node);

    if (epoch > lease->pub.epoch)
        raise_lease(fsm, lease, epoch);
    else if (m != NO_SLOT)
        return;
    if (m == NO_SLOT)
        m = lease_add_member(fsm, lease, node);
    if (lease_live(&lease->pub))
        lease_member(lease, m)->released = true;
    lease_set_proof(fsm, lease, m, PROOF_PENDING, NULL, NULL);
    if (!lease_live(&lease->pub) && lease->pub.state != LEASE_DRAINING)
        lease_back(fsm, lease);
    lease_count_owed(lease);
    lease_proved(fsm, lease);
}

/* That of then, with its name and its slice, if it is the highest there is; nodes act on no lower one. */
static uint32_t epoch_of_lost(const struct fsm *fsm, uint32_t known, uint32_t told)
{
    bool leapt = fsm->restored
                     .waits; /* known is: a gap above the highest that the backup knew of */
    bool highest = leapt ? (uint64_t)told + fsm->restored.gap > known : told > known;

    return highest ? told : add(known, 1);
}

/* The backup knows all that the node saw before it was made: no other restore came before, or the node had told what it saw
 * until then. Once the nodes are confirmed a slot may have been granted since, and its epoch says nothing of before. */
static bool backup_knows(const struct fsm *fsm, const struct node *node)
{
    return fsm->restored.waits && (fsm->restored.times == 1 || node->epochs_known);
}

/* The node has proved it clean: it is not above that of the backup (at, which has leapt from there), or a later one of the
 * same incarnation was granted. lease: of the uid, NULL = none. */
static bool tells_nothing_new(const struct fsm *fsm, const struct node *node,
                              const struct lease *lease, uint32_t at, uint32_t epoch)
{
    if (!backup_knows(fsm, node))
        return false;
    if (lease && lease->sticky & QUARANTINE_RESTORED)
        return fsm->restored.strangers ? (uint64_t)epoch + fsm->restored.gap < lease->pub.epoch
                                       : epoch < lease->pub.epoch;
    return (uint64_t)epoch + fsm->restored.gap <= at;
}

static void note_unpooled(struct fsm_range *range, uint32_t uid)
{
    if (!range->first || uid < range->first)
        range->first = uid;
    if (uid > range->last)
        range->last = uid;
}

static void take_epoch(struct fsm *fsm, struct node *node, uint32_t uid, uint32_t epoch)
{
    struct pool *pool = pool_of_uid(fsm, uid);
    struct lease *lease = lease_of_uid(fsm, uid);
    uint32_t i = pool ? uid - pool->pub.range.first : 0;
    uint32_t at = pool ? pool->slots[i].epoch : floor_get(fsm, uid);
    bool nothing_new = tells_nothing_new(fsm, node, lease, at, epoch);

    if (!pool) {
        if (fsm->restored.waits && !nothing_new)
            note_unpooled(&fsm->restored.unpooled, uid);
        fsm->restored.n_pages += floor_wants_page(fsm, uid);
        floor_set(fsm, uid, epoch);
        return;
    }
    if (nothing_new)
        return;
    if (!backup_knows(fsm, node))
        fsm->restored.strangers = true;
    if (lease)
        make_member(fsm, lease, epoch, node);
    else
        make_lost(fsm, pool, i, epoch_of_lost(fsm, at, epoch), node);
}

/* Each report is a command of its own, and may be lost alone: all are there only if each follows the one before. */
static bool follows(const struct node *node, const Xce__V1__CmdReport *report,
                    struct fsm_outcome *outcome)
{
    if (report->epochs_before == node->n_epochs_said)
        return true;
    fsm_fail(outcome, FSM_IGNORED,
             "node %s has told %" PRIu64 " epochs in this session, and this report comes after "
             "%" PRIu64 ": report your epochs again",
             node->pub.name, node->n_epochs_said, report->epochs_before);
    return false;
}

bool incarnation_report(struct fsm *fsm, struct node *node, const Xce__V1__CmdReport *report,
                        struct fsm_outcome *outcome)
{
    /* Said in a state that wants none, or said already: it changes nothing. */
    if (!incarnation_wants(fsm, node) || (!report->n_epochs && !report->epochs_done))
        return true;
    if (!follows(node, report, outcome))
        return false;
    for (size_t i = 0; i < report->n_epochs; i++)
        if (!believable(fsm, node, report->epochs[i], outcome))
            return false;
    if (!has_room(fsm, node, report, outcome))
        return false;
    for (size_t i = 0; i < report->n_epochs; i++)
        take_epoch(fsm, node, report->epochs[i]->uid, report->epochs[i]->epoch);
    node->n_epochs_said += report->n_epochs;
    if (!report->epochs_done)
        return true;
    node->n_epochs_said = 0;
    node->epochs_told = !node->epochs_again;
    node->epochs_again = false;
    node_trust_if_clean(fsm, node);
    return true;
}

void incarnation_ask_again(struct fsm *fsm)
{
    if (fsm->restored.waits)
        fsm->restored.unpooled = (struct fsm_range){0, 0}; /* they will say */
    for (size_t i = 0; fsm->restored.waits && i < fsm->n_nodes; i++) {
        struct node *node = fsm->nodes[i];

        node->epochs_again |= node->n_epochs_said != 0;
        if (!node->epochs_told)
            continue;
        node->epochs_told = false;
        if (node->health == HEALTH_OK) {
            node_set(fsm, node, HEALTH_UNKNOWN, node->admin);
            node->pub.unknown_revision = fsm->revision + 1;
        }
        if (node->admin == ADMIN_NONE)
            node_set_reason(fsm, node, "has to report its epochs again", NULL);
        fsm_changed_node(fsm, node, CHANGE_NODE);
    }
}

/* ---- what is waited for ---- */

const char *fsm_node_awaited(const struct fsm *fsm, const struct fsm_node *pub)
{
    const struct node *node = (const struct node *)pub;

    if (!fsm->restored.waits || node->health == HEALTH_FENCED || node->health == HEALTH_OK)
        return NULL;
    if (pub->hello_revision <= fsm->restored.revision)
        return "its hello";
    if (!node->epochs_told)
        return "the epochs that it has seen";
    return node->health == HEALTH_LOST ? "it to be heard again"
                                       : "a pass over the ranges that finds nothing there";
}

void fsm_get_restored(const struct fsm *fsm, struct fsm_restored *ret)
{
    *ret = fsm->restored;
}

bool fsm_wants_epochs(const struct fsm *fsm, const struct fsm_node *node)
{
    return node && incarnation_wants(fsm, (const struct node *)node);
}

/* Which nodes are missing; false = none is. */
static bool name_awaited(const struct fsm *fsm, char ret[static FSM_MESSAGE_MAX + 1])
{
    const struct node *first = NULL;
    size_t n = 0;

    for (size_t i = 0; i < fsm->n_nodes; i++) {
        if (!fsm_node_awaited(fsm, &fsm->nodes[i]->pub))
            continue;
        first = first ? first : fsm->nodes[i];
        n++;
    }
    if (!first)
        return false;
    if (n == 1)
        fsm_format(ret, "node %s: %s", first->pub.name, fsm_node_awaited(fsm, &first->pub));
    else
        fsm_format(ret, "node %s: %s; and %zu more nodes", first->pub.name,
                   fsm_node_awaited(fsm, &first->pub), n - 1);
    return true;
}

bool incarnation_refuses(const struct fsm *fsm, struct fsm_outcome *outcome)
{
    char what[FSM_MESSAGE_MAX + 1];

    if (!fsm->restored.waits)
        return false;
    if (name_awaited(fsm, what))
        fsm_fail(outcome, FSM_PRECONDITION,
                 "a backup was restored, no uid is given out yet: waits for %s", what);
    else
        fsm_fail(outcome, FSM_PRECONDITION,
                 "a backup was restored, no uid is given out yet: waits for an administrator to "
                 "confirm the nodes (leasectl cluster confirm)");
    return true;
}

/* ---- the administrator's word ---- */

static bool check_named(struct fsm *fsm, const Xce__V1__CmdConfirm *confirm, uint64_t mark,
                        struct fsm_outcome *outcome)
{
    for (size_t i = 0; i < confirm->n_nodes; i++) {
        struct node *node;

        if (!apply_text(confirm->nodes[i], "node", APPLY_NAME_MAX, false, outcome))
            return false;
        node = node_find(fsm, confirm->nodes[i].data, confirm->nodes[i].len);
        if (!node) {
            fsm_fail(outcome, FSM_PRECONDITION,
                     "node %s has never said hello to this state: start its noded, then confirm",
                     apply_string(fsm, confirm->nodes[i]));
            return false;
        }
        if (node->health == HEALTH_FENCED) {
            fsm_fail(outcome, FSM_PRECONDITION, "node %s is fenced: it is none that is there",
                     node->pub.name);
            return false;
        }
        node->mark = mark;
    }
    return true;
}

void apply_confirm(struct fsm *fsm, const Xce__V1__Command *command, struct fsm_outcome *outcome)
{
    const Xce__V1__CmdConfirm *confirm = command->confirm;
    char what[FSM_MESSAGE_MAX + 1];
    uint64_t mark = ++fsm->mark;

    if (!fsm->restored.waits) {
        fsm_fail(outcome, FSM_PRECONDITION,
                 fsm->restored.times ? "the nodes are confirmed already"
                                     : "no backup was restored");
        return;
    }
    if (!check_named(fsm, confirm, mark, outcome))
        return;
    for (size_t i = 0; i < fsm->n_nodes; i++) {
        const struct node *node = fsm->nodes[i];

        if (node->mark == mark || node->health == HEALTH_FENCED)
            continue;
        fsm_fail(outcome, FSM_PRECONDITION,
                 "node %s is registered and not named: name it, or if it is gone for good, "
                 "leasectl node fence it",
                 node->pub.name);
        return;
    }
    if (name_awaited(fsm, what)) {
        fsm_fail(outcome, FSM_PRECONDITION, "not yet: waits for %s", what);
        return;
    }
    if (fsm->restored.unpooled.first) {
        fsm_fail(outcome, FSM_PRECONDITION,
                 "since the backup nodes had leases of uids from %" PRIu32 " to %" PRIu32
                 " that are in no pool: make their pools again, with the same ranges",
                 fsm->restored.unpooled.first, fsm->restored.unpooled.last);
        return;
    }
    fsm->restored.waits = false;
    (void)witness_free(fsm, FREES_AT_ONCE);
}

/* ---- snapshot ---- */

void incarnation_put(struct encoder *e, const struct fsm *fsm)
{
    put_u32(e, fsm->restored.times);
    put_u8(e, fsm->restored.waits);
    put_u64(e, fsm->restored.revision);
    put_u64(e, fsm->restored.backup);
    put_i64(e, fsm->restored.wall_ms);
    put_u32(e, fsm->restored.gap);
    put_u32(e, fsm->restored.least);
    put_u32(e, fsm->restored.unpooled.first);
    put_u32(e, fsm->restored.unpooled.last);
    put_u8(e, fsm->restored.strangers);
    put_u32(e, fsm->restored.ceiling);
    put_u32(e, fsm->restored.n_pages);
    for (size_t i = 0; i < fsm->n_nodes; i++) {
        const struct node *node = fsm->nodes[i];

        put_u8(e, (uint8_t)(node->epochs_told | node->epochs_again << 1 | node->epochs_known << 2));
        put_u64(e, node->n_epochs_said);
    }
}

static void get_told(struct decoder *d, struct node *node)
{
    uint8_t told = get_u8(d);

    node->epochs_told = told & 1;
    node->epochs_again = told & 2;
    node->epochs_known = told & 4;
    node->n_epochs_said = get_u64(d);
    if (told > 7 || (node->epochs_told && (node->epochs_again || node->n_epochs_said)) ||
        (node->epochs_again && !node->n_epochs_said))
        (void)decoder_fail(d, "what a node has told can not be");
}

void incarnation_get(struct decoder *d, struct fsm *fsm)
{
    fsm->restored.times = get_u32(d);
    fsm->restored.waits = get_bool(d);
    fsm->restored.revision = get_u64(d);
    fsm->restored.backup = get_u64(d);
    fsm->restored.wall_ms = get_span(d, COMMAND_TIME_MAX);
    fsm->restored.gap = get_u32(d);
    fsm->restored.least = get_u32(d);
    fsm->restored.unpooled.first = get_u32(d);
    fsm->restored.unpooled.last = get_u32(d);
    fsm->restored.strangers = get_bool(d);
    fsm->restored.ceiling = get_u32(d);
    fsm->restored.n_pages = get_u32(d);
    for (size_t i = 0; i < fsm->n_nodes; i++)
        get_told(d, fsm->nodes[i]);
    if (!d->wrong &&
        (!fsm->restored.times || fsm->restored.revision > fsm->revision ||
         fsm->restored.backup >= fsm->restored.revision || fsm->restored.gap < INCARNATION_GAP ||
         fsm->restored.gap > INCARNATION_GAP_MAX || fsm->restored.least < fsm->restored.gap ||
         fsm->restored.ceiling < INCARNATION_AHEAD || fsm->restored.n_pages > INCARNATION_PAGES ||
         fsm->restored.unpooled.first > fsm->restored.unpooled.last))
        (void)decoder_fail(d, "the restore of this state can not be");
}
