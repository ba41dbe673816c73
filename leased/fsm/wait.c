#include "leased/fsm/wait.h"

#include <assert.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "common/mem.h"
#include "leased/fsm/lease.h"
#include "leased/fsm/node.h"
#include "leased/fsm/pool.h"
#include "leased/fsm/request.h"
#include "leased/fsm/state.h"

/* ---- links ---- */

static void attach(struct lease *lease, struct wait_link *link)
{
    struct wait_link **at = &lease->waits;

    while (*at)
        at = &(*at)->next;
    *at = link;
    link->next = NULL;
    link->lease = lease;
}

static void detach(struct wait_link *link)
{
    struct wait_link **at;

    if (!link->lease)
        return;
    at = &link->lease->waits;
    while (*at != link)
        at = &(*at)->next;
    *at = link->next;
    link->lease = NULL;
}

static void take_out(struct fsm *fsm, struct wait *wait)
{
    if (wait->before)
        wait->before->after = wait->after;
    else
        fsm->waits = wait->after;
    if (wait->after)
        wait->after->before = wait->before;
    else
        fsm->last_wait = wait->before;
    wait->before = wait->after = NULL;
}

/* Nothing is waited for any more, well or because nobody can ask. */
static void finish(struct fsm *fsm, struct wait *wait)
{
    wait->request->waiting = 0;
    take_out(fsm, wait);
    for (uint32_t i = 0; i < wait->n; i++)
        detach(&wait->links[i]);
    free(wait);
}

struct wait *wait_begin(struct fsm *fsm, struct request *request, struct lease *const *leases,
                        const bool *own)
{
    uint32_t n = request->n_slots, n_pending = 0;
    struct wait *wait;

    for (uint32_t i = 0; i < n; i++)
        n_pending += leases[i]->pub.state == LEASE_GRANTED;
    if (!n_pending)
        return NULL;
    wait = mem_must_calloc(1, sizeof(*wait) + n * sizeof(wait->links[0]));
    wait->request = request;
    wait->n = n;
    wait->n_pending = n_pending;
    wait->before = fsm->last_wait;
    if (fsm->last_wait)
        fsm->last_wait->after = wait;
    else
        fsm->waits = wait;
    fsm->last_wait = wait;
    for (uint32_t i = 0; i < n; i++) {
        wait->links[i] = (struct wait_link){.wait = wait, .i = i, .own = own[i]};
        attach(leases[i], &wait->links[i]);
    }
    request->waiting = 1;
    return wait;
}

void wait_lease_active(struct fsm *fsm, struct lease *lease)
{
    for (struct wait_link *link = lease->waits, *next; link; link = next) {
        next = link->next;
        assert(link->wait->n_pending > 0);
        if (--link->wait->n_pending == 0)
            finish(fsm, link->wait);
    }
}

void wait_forget(struct fsm *fsm, const struct request *request)
{
    for (struct wait *wait = fsm->waits; wait; wait = wait->after)
        if (wait->request == request) {
            finish(fsm, wait);
            return;
        }
}

/* ---- another lease for one that was refused ---- */

/* The nodes of the next try; all of them must be ready still. NULL, why is set. */
static struct node **nodes_again(struct fsm *fsm, const struct lease *lease, uint32_t *ret_n,
                                 char *why)
{
    struct node **nodes;
    uint32_t n = 0;

    if (lease->all_nodes)
        return node_all_ready(fsm, ret_n, why);
    nodes = pb_arena_alloc(&fsm->arena, lease->pub.n_members * sizeof(struct node *));
    if (!nodes)
        abort();
    for (uint32_t i = 0; i < lease->pub.n_members; i++) {
        struct node *node = (struct node *)lease->pub.members[i].node;

        if (lease->pub.members[i].released)
            continue;
        if (node_not_ready(node, why))
            return NULL;
        nodes[n++] = node;
    }
    *ret_n = n;
    return nodes;
}

static struct lease *grant_again(struct fsm *fsm, const struct lease *lease, char *why)
{
    const struct fsm_lease *pub = &lease->pub;
    struct lease_spec spec = {
        .pool = lease->pool,
        .job = pub->job,
        .job_len = strlen(pub->job),
        .owner_name = pub->owner.name,
        .owner_name_len = strlen(pub->owner.name),
        .owner_uid = pub->owner.uid,
        .owner_gid = pub->owner.gid,
        .ttl_ms = pub->ttl_ms,
        .all_nodes = lease->all_nodes,
        .gids = pub->gids,
        .n_gids = pub->n_gids,
        .tries = (uint8_t)(lease->tries + 1),
    };

    why[0] = '\0';
    if (lease->tries >= FSM_TRIES_MAX)
        fsm_format(why, "%d further leases were tried", FSM_TRIES_MAX);
    else if (lease->pool->pub.retiring)
        fsm_format(why, "pool %s is retiring", pub->pool);
    else if (!lease->pool->counts.free)
        fsm_format(why, "pool %s has no free uid", pub->pool);
    else
        spec.nodes = nodes_again(fsm, lease, &spec.n_nodes, why);
    if (why[0])
        return NULL;
    if (fsm->n_members + spec.n_nodes > FSM_ALL_MEMBERS) {
        fsm_format(why, "all leases together have too many members");
        return NULL;
    }
    return lease_grant(fsm, &spec);
}

static void replace(struct lease *old, struct lease *new)
{
    new->waits = old->waits;
    old->waits = NULL;
    for (struct wait_link *link = new->waits; link; link = link->next) {
        link->lease = new;
        request_slots(link->wait->request)[link->i] = new->pub.id;
    }
}

/* ---- failing ---- */

static const char *cause_text(enum end_cause cause)
{
    static const char *const texts[] = {
        [END_NONE] = "it ended",
        [END_RELEASE] = "it was released",
        [END_EXPIRED] = "its ttl was over",
        [END_REVOKED] = "it was revoked",
        [END_REFUSED] = "a member refused it",
        [END_READY_TIMEOUT] = "a member was late",
        [END_MEMBER_LOST] = "a member was lost",
        [END_STRAY] = "a stray was found",
        [END_RESTORED] = "a backup was restored",
    };

    return texts[cause];
}

static void fail(struct fsm *fsm, struct wait *wait, const struct lease *lease, const char *why)
{
    const struct fsm_lease *pub = &lease->pub;
    char message[FSM_MESSAGE_MAX + 1];

    fsm_format(message, "lease %" PRIu64 " (uid %" PRIu32 ") never became ready: %s%s%s", pub->id,
               pub->uid, pub->end_detail ? pub->end_detail : cause_text(pub->cause),
               *why ? "; " : "", why);
    request_fail(fsm, wait->request, FSM_NOT_READY, message);
    wait->request->waiting = 0;
    wait->request = NULL;
    take_out(fsm, wait);
    wait->next_failed = NULL;
    if (fsm->last_failed_wait)
        fsm->last_failed_wait->next_failed = wait;
    else
        fsm->failed_waits = wait;
    fsm->last_failed_wait = wait;
}

void wait_lease_ended(struct fsm *fsm, struct lease *lease, bool refused)
{
    char why[FSM_MESSAGE_MAX + 1] = "";
    struct lease *again;

    for (struct wait_link *link = lease->waits, *next; link; link = next) {
        next = link->next;
        if (!link->wait->request) /* failed already in this command */
            detach(link);
    }
    if (!lease->waits)
        return;
    if (refused) {
        again = grant_again(fsm, lease, why);
        if (again) {
            replace(lease, again);
            return;
        }
    }
    while (lease->waits) {
        struct wait *wait = lease->waits->wait;

        detach(lease->waits);
        fail(fsm, wait, lease, why);
    }
}

void waits_settle(struct fsm *fsm)
{
    while (fsm->failed_waits) {
        struct wait *wait = fsm->failed_waits;

        for (uint32_t i = 0; i < wait->n; i++) {
            struct lease *lease = wait->links[i].lease;

            detach(&wait->links[i]);
            if (lease && wait->links[i].own && lease_live(&lease->pub))
                lease_end(fsm, lease, END_RELEASE,
                          "let go with the rest of its request, which failed");
        }
        fsm->failed_waits = wait->next_failed;
        if (!fsm->failed_waits)
            fsm->last_failed_wait = NULL;
        free(wait);
    }
}

void waits_done(struct fsm *fsm)
{
    for (struct wait *wait = fsm->waits, *after; wait; wait = after) {
        after = wait->after;
        free(wait);
    }
    fsm->waits = NULL;
}
