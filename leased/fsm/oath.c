/* Fences: an administrator swears that a machine is off, and that stands for its proofs. What rests on an oath is written
 * down until the machine shows another boot (the oath was true) or the same one (it was not). */
#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "common/mem.h"
#include "leased/fsm/lease.h"
#include "leased/fsm/node.h"
#include "leased/fsm/pool.h"

#define OATHS_MAX     16384
#define OATH_UIDS_MAX (1 << 20) /* of all oaths together */

static void drop(struct fsm *fsm, struct oath *oath)
{
    struct oath **at = &fsm->oaths;

    while (*at != oath)
        at = &(*at)->next;
    *at = oath->next;
    fsm->n_oaths--;
    fsm->n_oath_uids -= oath->n_uids;
    intern_put(&fsm->strings, oath->node);
    intern_put(&fsm->strings, oath->machine_id);
    intern_put(&fsm->strings, oath->boot_id);
    intern_put(&fsm->strings, oath->actor);
    intern_put(&fsm->strings, oath->reason);
    free(oath->uids);
    free(oath);
}

struct oath *oath_add(struct fsm *fsm, const char *node, const char *machine_id,
                      const char *boot_id, const char *reason, const char *actor)
{
    struct oath *oath = mem_must_calloc(1, sizeof(*oath));
    struct oath **at = &fsm->oaths;

    oath->node = intern_text(&fsm->strings, node);
    oath->machine_id = intern_text(&fsm->strings, machine_id);
    oath->boot_id = intern_text(&fsm->strings, boot_id);
    oath->reason = intern_text(&fsm->strings, reason);
    oath->actor = intern_text(&fsm->strings, actor);
    while (*at)
        at = &(*at)->next;
    *at = oath;
    fsm->n_oaths++;
    return oath;
}

void oath_add_uid(struct fsm *fsm, struct oath *oath, uint32_t uid)
{
    size_t low = 0, high = oath->n_uids;

    while (low < high) {
        size_t middle = low + (high - low) / 2;

        if (oath->uids[middle] < uid)
            low = middle + 1;
        else
            high = middle;
    }
    if (low < oath->n_uids && oath->uids[low] == uid)
        return;
    mem_must_grow(&oath->uids, &oath->cap_uids, oath->n_uids + 1, sizeof(*oath->uids));
    memmove(&oath->uids[low + 1], &oath->uids[low], (oath->n_uids - low) * sizeof(*oath->uids));
    oath->uids[low] = uid;
    oath->n_uids++;
    fsm->n_oath_uids++;
}

void oath_swear(struct fsm *fsm, const struct node *node, const char *boot_id, const char *reason,
                const char *actor)
{
    if (fsm->n_oaths >= OATHS_MAX)
        drop(fsm, fsm->oaths);
    (void)oath_add(fsm, node->pub.name, node->pub.machine_id, boot_id, reason, actor);
}

void oath_note(struct fsm *fsm, const struct lease *lease)
{
    for (uint32_t i = 0; fsm->oaths && i < lease->pub.n_members; i++) {
        const struct fsm_member *member = &lease->pub.members[i];

        if (member->proof != PROOF_FENCED)
            continue;
        for (struct oath *oath = fsm->oaths; oath; oath = oath->next)
            if (oath->node == member->node->name)
                oath_add_uid(fsm, oath, lease->pub.uid);
    }
    while (fsm->n_oath_uids > OATH_UIDS_MAX)
        drop(fsm, fsm->oaths);
}

/* ---- a false oath ---- */

/* The node owes a proof for this lease, whatever the lease had got to. */
static void owe(struct fsm *fsm, struct lease *lease, struct node *node)
{
    uint32_t m = lease_member_index(lease, node);

    lease->sticky |= QUARANTINE_OATH;
    if (lease_live(&lease->pub)) {
        if (m == NO_SLOT) {
            m = lease_add_member(fsm, lease, node);
            lease_member(lease, m)->released = true;
            lease_count_owed(lease);
        } else if (lease->pub.members[m].proof == PROOF_FENCED) {
            lease_set_proof(fsm, lease, m, PROOF_PENDING, NULL, NULL);
        }
    } else {
        if (m == NO_SLOT)
            m = lease_add_member(fsm, lease, node);
        lease_set_proof(fsm, lease, m, PROOF_PENDING, NULL, NULL);
        if (lease->pub.state != LEASE_DRAINING)
            lease_back(fsm, lease);
    }
    lease_proved(fsm, lease);
}

/* The same node is back and can prove: it owes every proof that the oath stood for. */
static void owe_all(struct fsm *fsm, struct oath *oath, struct node *node)
{
    struct lease **leases = node_leases_sorted(fsm, node);

    for (uint32_t i = 0, n = node->pub.n_leases; i < n; i++) {
        uint32_t m = lease_member_index(leases[i], node);

        if (leases[i]->pub.members[m].proof == PROOF_FENCED)
            owe(fsm, leases[i], node);
    }
    for (size_t i = 0; i < oath->n_uids; i++) {
        struct lease *lease = lease_of_uid(fsm, oath->uids[i]);
        uint32_t m = lease ? lease_member_index(lease, node) : NO_SLOT;

        if (lease && (m == NO_SLOT || lease->pub.members[m].proof == PROOF_FENCED))
            owe(fsm, lease, node);
    }
}

static void block_uid(struct fsm *fsm, const struct oath *oath, uint32_t uid)
{
    struct pool *pool = pool_of_uid(fsm, uid);
    char detail[FSM_MESSAGE_MAX + 1];

    if (!pool)
        return;
    fsm_format(detail,
               "was freed because %s swore that node %s, boot %s, is off; that boot is alive",
               oath->actor ? oath->actor : "somebody", oath->node, oath->boot_id);
    (void)pool_block(fsm, pool, uid - pool->pub.range.first, NULL, "oath", detail);
}

/* Of a broken oath what is in no pool is left: it is blocked when a pool takes it in. */
static void keep_homeless(struct fsm *fsm, struct oath *oath)
{
    size_t kept = 0;

    for (size_t i = 0; i < oath->n_uids; i++)
        if (!pool_of_uid(fsm, oath->uids[i]))
            oath->uids[kept++] = oath->uids[i];
    fsm->n_oath_uids -= oath->n_uids - kept;
    oath->n_uids = kept;
    intern_put(&fsm->strings, oath->machine_id);
    oath->machine_id = NULL;
    if (kept == 0)
        drop(fsm, oath);
}

void oath_take_in(struct fsm *fsm, const struct pool *pool)
{
    for (struct oath *oath = fsm->oaths, *next; oath; oath = next) {
        next = oath->next;
        if (oath->machine_id)
            continue;
        for (size_t i = 0; i < oath->n_uids; i++)
            if (pool_of_uid(fsm, oath->uids[i]) == pool)
                block_uid(fsm, oath, oath->uids[i]);
        keep_homeless(fsm, oath);
    }
}

/* Nobody can prove for that node any more: what rests on the oath is not given out until an administrator says so. */
static void block_unproved(struct fsm *fsm, const struct oath *oath)
{
    struct node *sworn = node_find(fsm, oath->node, strlen(oath->node));
    struct lease **leases = sworn ? node_leases_sorted(fsm, sworn) : NULL;

    for (uint32_t i = 0, n = sworn ? sworn->pub.n_leases : 0; i < n; i++) {
        uint32_t m = lease_member_index(leases[i], sworn);

        if (leases[i]->pub.members[m].proof == PROOF_FENCED)
            block_uid(fsm, oath, leases[i]->pub.uid);
    }
}

static void broken(struct fsm *fsm, struct oath *oath, struct node *node)
{
    bool same = node && node->pub.name == oath->node;

    for (size_t i = 0; i < oath->n_uids; i++)
        if (!same || !lease_of_uid(fsm, oath->uids[i]))
            block_uid(fsm, oath, oath->uids[i]);
    if (same)
        owe_all(fsm, oath, node);
    else
        block_unproved(fsm, oath);
    if (node) {
        char reason[FSM_MESSAGE_MAX + 1];

        fsm_format(reason, "speaks in boot %s, of which %s swore that it is off", oath->boot_id,
                   oath->actor ? oath->actor : "somebody");
        node_set_reason(fsm, node, reason, "leased");
    }
}

void oath_hello(struct fsm *fsm, struct node *node, const char *machine_id, const char *boot_id)
{
    for (struct oath *oath = fsm->oaths, *next; oath; oath = next) {
        next = oath->next;
        if (!oath->machine_id)
            continue;
        if (strcmp(oath->boot_id, boot_id) == 0) {
            broken(fsm, oath, node);
            keep_homeless(fsm, oath);
        } else if (node && node->pub.name == oath->node &&
                   strcmp(oath->machine_id, machine_id) == 0) {
            boots_take(node, oath);
            drop(fsm, oath);
        }
    }
}

void oaths_done(struct fsm *fsm)
{
    for (struct oath *oath = fsm->oaths, *next; oath; oath = next) {
        next = oath->next;
        free(oath->uids);
        free(oath);
    }
    fsm->oaths = NULL;
}
