/* Everything that is kept twice, counted again. */
#include <string.h>

#include "leased/fsm/incarnation.h"
#include "leased/fsm/lease.h"
#include "leased/fsm/node.h"
#include "leased/fsm/pool.h"
#include "leased/fsm/wait.h"

/* ---- pools ---- */

static const char *check_line(const struct pool *pool)
{
    uint32_t n = 0, before = NO_SLOT;

    for (uint32_t i = pool->line_head; i != NO_SLOT; i = pool->slots[i].after) {
        if (pool->states[i] != UID_FREE || pool->blocked[i] || pool->slots[i].before != before ||
            n++ >= pool->size)
            return "the line of free uids is broken";
        before = i;
    }
    if (pool->line_tail != before || n != pool->counts.free)
        return "the line of free uids does not end where it should";
    return NULL;
}

static void count_lease(struct fsm_counts *counts, const struct fsm_lease *lease)
{
    counts->granted += lease->state == LEASE_GRANTED;
    counts->active += lease->state == LEASE_ACTIVE;
    counts->draining += lease->state == LEASE_DRAINING;
    counts->normalising += lease->state == LEASE_NORMALISING;
    counts->cooling += lease->state == LEASE_COOLING;
    counts->retired += lease->state == LEASE_RETIRED;
    counts->quarantined += lease->quarantine != 0;
}

static const char *check_counts(const struct fsm *fsm, const struct pool *pool)
{
    struct fsm_counts counts = {0};
    uint32_t n_leases = 0;

    for (uint32_t i = 0; i < pool->size; i++) {
        const struct lease *lease;

        counts.free += pool->states[i] == UID_FREE;
        counts.blocked += pool->states[i] == UID_ASIDE;
        if (pool->states[i] == UID_ASIDE && !pool->blocked[i])
            return "a uid is aside and not blocked";
        if (pool->states[i] != UID_LEASED)
            continue;
        lease = lease_at(fsm, pool->slots[i].before);
        if (lease->pub.uid != pool->pub.range.first + i || lease->pool != pool ||
            lease->pub.epoch != pool->slots[i].epoch)
            return "a uid and its lease do not agree";
        n_leases++;
        count_lease(&counts, &lease->pub);
    }
    if (memcmp(&counts, &pool->counts, sizeof(counts)) != 0 || n_leases != pool->n_leases)
        return "the counts of a pool are wrong";
    return NULL;
}

static const char *check_owners(const struct fsm *fsm, const struct pool *pool)
{
    uint32_t live = pool->counts.granted + pool->counts.active, owned = 0;

    if (!pool->pub.settings.max_per_owner)
        return pool->owners ? "owners are counted where none should be" : NULL;
    for (const struct owner_count *owner = pool->owners; owner; owner = owner->hh.next) {
        if (!owner->n || owner->batch)
            return "an owner without leases is counted";
        owned += owner->n;
    }
    for (size_t i = 0; i < fsm->n_by_id; i++) {
        const struct lease *lease = fsm->by_id[i].lease;

        if (lease && lease->pool == pool && lease_live(&lease->pub) &&
            !pool_owner((struct pool *)pool, lease->pub.owner.uid, false))
            return "an owner is not counted";
    }
    return owned == live ? NULL : "the counts of owners are wrong";
}

/* ---- leases ---- */

static const char *check_timer(const struct fsm *fsm, const struct lease *lease)
{
    const struct fsm_lease *pub = &lease->pub;
    const struct timers *timers = pub->state == LEASE_COOLING ? &lease->pool->cooling
                                                              : &fsm->timers;
    int64_t at_ms = 0;

    if (lease_live(pub)) {
        at_ms = pub->expires_ms;
        if (pub->due_ms && (!at_ms || pub->due_ms < at_ms))
            at_ms = pub->due_ms;
    } else if (pub->state == LEASE_COOLING) {
        at_ms = pub->due_ms;
    } else if (!(lease->sticky & QUARANTINE_OVERDUE)) {
        at_ms = lease->overdue_ms;
    }
    if (!at_ms)
        return lease->timers ? "a clock runs that should not" : NULL;
    if (lease->timers != timers || lease->timer_place >= timers->n ||
        timers->heap[lease->timer_place].lease != lease ||
        timers->heap[lease->timer_place].at_ms != at_ms)
        return "a clock is not in its heap, or wrong";
    return NULL;
}

static const char *check_members(const struct lease *lease)
{
    uint32_t n_owed = 0, n_dirty = 0;

    if (!lease->pub.n_members)
        return "a lease without members";
    for (uint32_t i = 0; i < lease->pub.n_members; i++) {
        const struct node *node = (const struct node *)lease->pub.members[i].node;

        n_owed += lease_owes(lease, &lease->pub.members[i]);
        n_dirty += lease->pub.members[i].proof == PROOF_DIRTY;
        if (lease->places[i] >= node->pub.n_leases ||
            node->leases[lease->places[i]].lease != lease ||
            node->leases[lease->places[i]].member != i)
            return "a member does not know its lease";
    }
    if (n_owed != lease->n_owed || n_dirty != lease->n_dirty)
        return "the proofs of a lease are counted wrong";
    if ((lease->pub.state == LEASE_GRANTED || lease->pub.state == LEASE_DRAINING) && !n_owed)
        return "a lease waits for nothing";
    if (lease->pub.state == LEASE_ACTIVE && (n_owed != 0) != (lease->pub.due_ms != 0))
        return "an active lease waits for a member without a clock, or the other way round";
    return NULL;
}

static const char *check_quarantine(struct fsm *fsm, struct lease *lease)
{
    uint32_t before = lease->pub.quarantine;
    bool differs = lease_requarantine(fsm, lease);

    if (!differs)
        return NULL;
    lease->pool->counts.quarantined += (before != 0) - (lease->pub.quarantine != 0);
    lease->pub.quarantine = before;
    return "the quarantine of a lease does not follow from its proofs";
}

static const char *check_lease(const struct fsm *fsm, struct lease *lease)
{
    const char *wrong = check_members(lease);
    const struct fsm_lease *pub = &lease->pub;

    if (!wrong)
        wrong = check_timer(fsm, lease);
    if (!wrong)
        wrong = check_quarantine((struct fsm *)fsm, lease);
    if (wrong)
        return wrong;
    if (lease_of_uid(fsm, pub->uid) != lease)
        return "a lease does not hold its uid";
    if (lease_live(pub) && *pub->job &&
        lease_of_job(fsm, pub->owner.uid, pub->job, strlen(pub->job)) != lease)
        return "a job does not find its lease";
    if ((pub->state == LEASE_RETIRED) != (pub->retired_revision != 0))
        return "a lease is retired without a revision, or the other way round";
    return NULL;
}

static const char *check_leases(const struct fsm *fsm)
{
    uint64_t last = 0, n_members = 0;
    size_t n = 0, n_jobs = 0, n_held = 0;
    const char *wrong;

    for (size_t i = 0; i < fsm->n_by_id; i++) {
        struct lease *lease = fsm->by_id[i].lease;

        if (fsm->by_id[i].id <= last || fsm->by_id[i].id > fsm->last_lease)
            return "lease ids are out of order";
        last = fsm->by_id[i].id;
        if (!lease)
            continue;
        wrong = check_lease(fsm, lease);
        if (wrong)
            return wrong;
        n++;
        n_members += lease->pub.n_members;
        n_jobs += lease_live(&lease->pub) && *lease->pub.job;
    }
    for (size_t i = 0; i < fsm->n_pools; i++)
        n_held += fsm->pools[i]->n_leases;
    if (n != fsm->n_by_id - fsm->n_gone || n != n_held || n_members != fsm->n_members ||
        n_jobs != fsm->n_jobs)
        return "leases, members or jobs are counted wrong";
    return NULL;
}

static const char *check_retired(const struct fsm *fsm)
{
    const struct lease *before = NULL;
    uint32_t n = 0, counted = 0;

    for (const struct lease *lease = fsm->retired_first; lease; lease = lease->retired_after) {
        if (lease->pub.state != LEASE_RETIRED || lease->retired_before != before ||
            (before && before->pub.retired_revision >= lease->pub.retired_revision))
            return "the retired leases are out of order";
        before = lease;
        n++;
    }
    for (size_t i = 0; i < fsm->n_pools; i++)
        counted += fsm->pools[i]->counts.retired;
    return fsm->retired_last == before && n == counted ? NULL : "a retired lease is not in line";
}

/* ---- nodes, waits ---- */

static const char *check_nodes(const struct fsm *fsm)
{
    size_t n_lost = 0;
    uint64_t n_members = 0, n_passing = 0;

    for (size_t i = 0; i < fsm->n_nodes; i++) {
        const struct node *node = fsm->nodes[i];

        if (node->place != i || (i && strcmp(fsm->nodes[i - 1]->pub.name, node->pub.name) >= 0))
            return "the nodes are out of order";
        if (node->pub.watermark > fsm->revision || node->pub.session > fsm->last_session)
            return "a node is ahead of the state";
        if ((node->health == HEALTH_UNKNOWN) != (node->pub.unknown_revision != 0))
            return "a node is unknown without a revision, or the other way round";
        if (node->n_passing && node->n_passing != pool_blocks_passing(fsm, node))
            return "the blocks of a node are counted wrong";
        n_passing += node->n_passing;
        if (node->health == HEALTH_OK && incarnation_wants(fsm, node))
            return "a node is trusted that has not told its epochs";
        n_lost += node->health == HEALTH_LOST;
        n_members += node->pub.n_leases;
    }
    if (n_passing != pool_blocks_passing(fsm, NULL))
        return "a block leaves by itself of which no node knows";
    return n_lost == fsm->n_lost && n_members == fsm->n_members ? NULL : "nodes are counted wrong";
}

static const char *check_waits(const struct fsm *fsm)
{
    for (const struct wait *wait = fsm->waits; wait; wait = wait->after) {
        uint32_t n_pending = 0;

        if (!wait->request || !wait->request->waiting || wait->request->n_slots != wait->n)
            return "a wait without its request";
        for (uint32_t i = 0; i < wait->n; i++) {
            const struct lease *lease = wait->links[i].lease;

            if (!lease || !lease_live(&lease->pub) ||
                lease->pub.id != request_slots(wait->request)[i])
                return "a request waits for another lease than it says";
            n_pending += lease->pub.state == LEASE_GRANTED;
        }
        if (!n_pending || n_pending != wait->n_pending)
            return "a request waits for more or less than it says";
    }
    return fsm->failed_waits ? "a failed request was not settled" : NULL;
}

const char *fsm_verify(const struct fsm *fsm)
{
    const char *wrong = NULL;

    for (size_t i = 0; i < fsm->n_pools && !wrong; i++) {
        wrong = check_line(fsm->pools[i]);
        if (!wrong)
            wrong = check_counts(fsm, fsm->pools[i]);
        if (!wrong)
            wrong = check_owners(fsm, fsm->pools[i]);
    }
    if (!wrong)
        wrong = check_leases(fsm);
    if (!wrong)
        wrong = check_retired(fsm);
    if (!wrong)
        wrong = check_nodes(fsm);
    return wrong ? wrong : check_waits(fsm);
}
