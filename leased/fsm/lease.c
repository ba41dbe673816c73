#include "leased/fsm/lease.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "common/mem.h"
#include "leased/fsm/incarnation.h"
#include "leased/fsm/node.h"
#include "leased/fsm/pool.h"
#include "leased/fsm/state.h"
#include "leased/fsm/wait.h"

/* A step is overdue after so many ready timeouts. */
#define OVERDUE_TIMEOUTS 10

#define TO(state) (1u << (state))

/* Which states may follow; an assert looks it up. Normalising is passed through while there are no write paths. */
static const unsigned moves[] __attribute__((unused)) = {
    [LEASE_GRANTED] = TO(LEASE_ACTIVE) | TO(LEASE_DRAINING),
    [LEASE_ACTIVE] = TO(LEASE_DRAINING),
    [LEASE_DRAINING] = TO(LEASE_NORMALISING) | TO(LEASE_COOLING),
    [LEASE_NORMALISING] = TO(LEASE_COOLING) | TO(LEASE_DRAINING),
    [LEASE_COOLING] = TO(LEASE_RETIRED) | TO(LEASE_DRAINING),
    [LEASE_RETIRED] = TO(LEASE_FREE) | TO(LEASE_DRAINING),
};

/* ---- counting ---- */

static uint32_t *count_of(struct fsm_counts *counts, enum lease_state state)
{
    switch (state) {
    case LEASE_GRANTED:
        return &counts->granted;
    case LEASE_ACTIVE:
        return &counts->active;
    case LEASE_DRAINING:
        return &counts->draining;
    case LEASE_NORMALISING:
        return &counts->normalising;
    case LEASE_COOLING:
        return &counts->cooling;
    case LEASE_RETIRED:
        return &counts->retired;
    case LEASE_FREE:
        break;
    }
    abort();
}

void lease_count(struct lease *lease, int n)
{
    struct pool *pool = lease->pool;
    struct owner_count *owner;

    *count_of(&pool->counts, lease->pub.state) += (uint32_t)n;
    if (!pool->pub.settings.max_per_owner || !lease_live(&lease->pub))
        return;
    owner = pool_owner(pool, lease->pub.owner.uid, true);
    owner->n += (uint32_t)n;
    pool_owner_drop_if_zero(pool, owner);
}

static bool lost_and_owing(const struct lease *lease, const struct fsm_member *member)
{
    const struct node *node = (const struct node *)member->node;

    if (node->health != HEALTH_LOST || member->proof == PROOF_FENCED)
        return false;
    if (lease->pub.state == LEASE_RETIRED)
        return node->pub.watermark < lease->pub.retired_revision;
    return lease->pub.state == LEASE_DRAINING && lease_owes(lease, member);
}

bool lease_requarantine(struct fsm *fsm, struct lease *lease)
{
    uint32_t reasons = lease->sticky;
    uint32_t before = lease->pub.quarantine;

    if (lease->n_dirty)
        reasons |= QUARANTINE_DIRTY;
    for (uint32_t i = 0; fsm->n_lost && i < lease->pub.n_members; i++)
        if (lost_and_owing(lease, &lease->pub.members[i])) {
            reasons |= QUARANTINE_MEMBER_LOST;
            break;
        }
    lease->pub.quarantine = reasons;
    lease->pool->counts.quarantined += (reasons != 0) - (before != 0);
    return reasons != before;
}

/* ---- clocks ---- */

/* 0 = never. */
static int64_t sooner(int64_t a_ms, int64_t b_ms)
{
    return !a_ms || (b_ms && b_ms < a_ms) ? b_ms : a_ms;
}

void lease_set_timer(struct fsm *fsm, struct lease *lease)
{
    const struct fsm_lease *pub = &lease->pub;
    int64_t at_ms = 0;

    switch (pub->state) {
    case LEASE_GRANTED:
    case LEASE_ACTIVE:
        at_ms = sooner(pub->expires_ms, pub->due_ms);
        break;
    case LEASE_COOLING:
        timer_set(&lease->pool->cooling, lease, pub->due_ms);
        return;
    case LEASE_DRAINING:
    case LEASE_RETIRED:
        if (!(lease->sticky & QUARANTINE_OVERDUE))
            at_ms = lease->overdue_ms;
        break;
    case LEASE_NORMALISING:
    case LEASE_FREE:
        break;
    }
    if (at_ms)
        timer_set(&fsm->timers, lease, at_ms);
    else
        timer_stop(lease);
}

/* ---- moving ---- */

/* Into the state, with all that is counted and timed by it. Tells nobody. */
static void enter(struct fsm *fsm, struct lease *lease, enum lease_state state)
{
    struct fsm_lease *pub = &lease->pub;
    const struct fsm_settings *settings = &lease->pool->pub.settings;

    pub->state = state;
    pub->since_ms = fsm->now_ms;
    pub->changed_wall_ms = fsm->wall_ms;
    pub->due_ms = 0;
    if (state == LEASE_GRANTED)
        pub->due_ms = fsm->now_ms + settings->ready_timeout_ms;
    if (state == LEASE_COOLING)
        pub->due_ms = fsm->now_ms + settings->cooldown_ms;
    lease->overdue_ms = fsm->now_ms + settings->ready_timeout_ms * OVERDUE_TIMEOUTS;
    lease_count(lease, 1);
    lease_count_owed(lease);
    lease_set_timer(fsm, lease);
}

static void move(struct fsm *fsm, struct lease *lease, enum lease_state state)
{
    assert(moves[lease->pub.state] & TO(state));
    lease_count(lease, -1);
    lease->sticky &= ~(uint32_t)QUARANTINE_OVERDUE;
    enter(fsm, lease, state);
}

static void tell(struct fsm *fsm, struct lease *lease)
{
    (void)lease_requarantine(fsm, lease);
    fsm_changed_lease(fsm, lease, false);
}

static void fill(struct fsm *fsm, struct lease *lease, const struct lease_spec *spec)
{
    struct fsm_lease *pub = &lease->pub;
    uint32_t *gids = NULL;

    lease->pool = spec->pool;
    lease->tries = spec->tries;
    lease->all_nodes = spec->all_nodes;
    pub->pool = spec->pool->pub.name;
    pub->job = mem_must_dup(spec->job, spec->job_len);
    pub->owner = (struct fsm_owner){
        intern_add(&fsm->strings, spec->owner_name, spec->owner_name_len),
        spec->owner_uid,
        spec->owner_gid,
    };
    if (spec->n_gids) {
        gids = mem_must_alloc(spec->n_gids * sizeof(*gids));
        memcpy(gids, spec->gids, spec->n_gids * sizeof(*gids));
    }
    pub->gids = gids;
    pub->n_gids = spec->n_gids;
    pub->ttl_ms = spec->ttl_ms;
    pub->expires_ms = spec->ttl_ms ? fsm->now_ms + spec->ttl_ms : 0;
    pub->granted_ms = fsm->now_ms;
    pub->granted_wall_ms = fsm->wall_ms;
    lease_reserve_members(lease, spec->n_nodes);
    for (uint32_t i = 0; i < spec->n_nodes; i++)
        (void)lease_add_member(fsm, lease, spec->nodes[i]);
}

struct lease *lease_grant(struct fsm *fsm, const struct lease_spec *spec)
{
    struct lease *lease = lease_table_add(fsm, ++fsm->last_lease);
    struct pool *pool = spec->pool;
    uint32_t i = pool_take(pool, lease->number);

    lease->pub.uid = pool->pub.range.first + i;
    lease->pub.epoch = pool->slots[i].epoch;
    pool->n_leases++;
    fill(fsm, lease, spec);
    enter(fsm, lease, LEASE_GRANTED);
    lease_jobs_add(fsm, lease);
    tell(fsm, lease);
    return lease;
}

void lease_make_lost(struct fsm *fsm, const struct lease_spec *spec, uint32_t i, uint32_t epoch,
                     const char *detail)
{
    struct lease *lease = lease_table_add(fsm, ++fsm->last_lease);
    struct pool *pool = spec->pool;

    pool_take_lost(pool, i, lease->number, epoch);
    floor_cap(fsm, pool->pub.range.first + i, epoch);
    lease->pub.uid = pool->pub.range.first + i;
    lease->pub.epoch = epoch;
    pool->n_leases++;
    fill(fsm, lease, spec);
    lease->pub.cause = END_RESTORED;
    lease->pub.end_detail = intern_text(&fsm->strings, detail);
    lease->sticky = QUARANTINE_RESTORED;
    enter(fsm, lease, LEASE_DRAINING);
    tell(fsm, lease);
}

void lease_drain_anew(struct fsm *fsm, struct lease *lease)
{
    for (uint32_t i = 0; i < lease->pub.n_members; i++)
        lease_set_proof(fsm, lease, i, PROOF_PENDING, NULL, NULL);
    lease->sticky = QUARANTINE_RESTORED;
    if (lease_live(&lease->pub)) {
        lease_end(fsm, lease, END_RESTORED, NULL);
        return;
    }
    if (lease->pub.state == LEASE_DRAINING) {
        lease_count(lease, -1);
        enter(fsm, lease, LEASE_DRAINING);
    } else {
        lease_back(fsm, lease);
    }
    lease_proved(fsm, lease);
}

void lease_end(struct fsm *fsm, struct lease *lease, enum end_cause cause, const char *detail)
{
    assert(lease_live(&lease->pub));
    lease_jobs_drop(fsm, lease);
    lease->pub.cause = cause;
    lease->pub.end_detail = intern_text(&fsm->strings, detail);
    for (uint32_t i = 0; i < lease->pub.n_members; i++)
        if (lease->pub.members[i].proof == PROOF_READY)
            lease_set_proof(fsm, lease, i, PROOF_PENDING, NULL, NULL);
    move(fsm, lease, LEASE_DRAINING);
    tell(fsm, lease);
    wait_lease_ended(fsm, lease, cause == END_REFUSED);
    if (!lease->n_owed)
        lease_proved(fsm, lease);
}

static void unqueue_retired(struct fsm *fsm, struct lease *lease)
{
    if (lease->retired_before)
        lease->retired_before->retired_after = lease->retired_after;
    else
        fsm->retired_first = lease->retired_after;
    if (lease->retired_after)
        lease->retired_after->retired_before = lease->retired_before;
    else
        fsm->retired_last = lease->retired_before;
    lease->retired_before = lease->retired_after = NULL;
}

void lease_back(struct fsm *fsm, struct lease *lease)
{
    if (lease->pub.state == LEASE_RETIRED) {
        unqueue_retired(fsm, lease);
        lease->pub.retired_revision = 0;
    }
    move(fsm, lease, LEASE_DRAINING);
}

void lease_proved(struct fsm *fsm, struct lease *lease)
{
    enum lease_state state = lease->pub.state;

    if (state == LEASE_GRANTED && !lease->n_owed) {
        move(fsm, lease, LEASE_ACTIVE);
        tell(fsm, lease);
        wait_lease_active(fsm, lease);
        return;
    }
    if (state == LEASE_ACTIVE && !lease->n_owed && lease->pub.due_ms) {
        lease->pub.due_ms = 0;
        lease_set_timer(fsm, lease);
    }
    if (state == LEASE_DRAINING && !lease->n_owed) {
        lease->sticky &= ~(uint32_t)(QUARANTINE_STRAY | QUARANTINE_OATH);
        move(fsm, lease, LEASE_COOLING);
    }
    tell(fsm, lease);
}

void lease_queue_retired(struct fsm *fsm, struct lease *lease)
{
    lease->retired_before = fsm->retired_last;
    lease->retired_after = NULL;
    if (fsm->retired_last)
        fsm->retired_last->retired_after = lease;
    else
        fsm->retired_first = lease;
    fsm->retired_last = lease;
}

void lease_retire(struct fsm *fsm, struct lease *lease)
{
    move(fsm, lease, LEASE_RETIRED);
    /* The revision of this very change: who has seen it has dropped the record. */
    lease->pub.retired_revision = fsm->revision + 1;
    lease_queue_retired(fsm, lease);
    tell(fsm, lease);
}

void lease_free(struct fsm *fsm, struct lease *lease)
{
    struct pool *pool = lease->pool;
    uint32_t i = lease->pub.uid - pool->pub.range.first;
    bool restored = lease->sticky & QUARANTINE_RESTORED;

    assert(lease->pub.state == LEASE_RETIRED && lease->pub.retired_revision);
    oath_note(fsm, lease);
    boots_note(fsm, lease);
    unqueue_retired(fsm, lease);
    timer_stop(lease);
    lease_count(lease, -1);
    pool->counts.quarantined -= lease->pub.quarantine != 0;
    pool->n_leases--;
    lease->pub.state = LEASE_FREE;
    lease->pub.quarantine = 0;
    lease->pub.since_ms = fsm->now_ms;
    lease->pub.changed_wall_ms = fsm->wall_ms;
    fsm_changed_lease(fsm, lease, false);
    if (restored)
        pool->slots[i].epoch = incarnation_above_all(fsm, pool->slots[i].epoch);
    lease_table_drop(fsm, lease);
    pool_give_back(fsm, pool, i);
    pool_leave_if_empty(fsm, pool);
}
