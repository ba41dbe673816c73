#include "leased/fsm/lease.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "common/mem.h"
#include "leased/fsm/hash.h"
#include "leased/fsm/node.h"
#include "leased/fsm/pool.h"
#include "leased/fsm/state.h"

/* ---- slots ---- */

struct lease *lease_at(const struct fsm *fsm, uint32_t number)
{
    return &fsm->pages[number / LEASE_PAGE][number % LEASE_PAGE];
}

static void new_page(struct fsm *fsm)
{
    uint32_t first = (uint32_t)fsm->n_pages * LEASE_PAGE;

    mem_must_grow(&fsm->pages, &fsm->cap_pages, fsm->n_pages + 1, sizeof(*fsm->pages));
    fsm->pages[fsm->n_pages++] = mem_must_calloc(LEASE_PAGE, sizeof(struct lease));
    /* Room for the day on which every slot is free. */
    mem_must_grow(&fsm->free_slots, &fsm->cap_free_slots, fsm->n_pages * LEASE_PAGE,
                  sizeof(*fsm->free_slots));
    for (uint32_t i = LEASE_PAGE; i-- > 0;)
        fsm->free_slots[fsm->n_free_slots++] = first + i;
}

struct lease *lease_table_add(struct fsm *fsm, uint64_t id)
{
    struct lease *lease;
    uint32_t number;

    if (!fsm->n_free_slots)
        new_page(fsm);
    number = fsm->free_slots[--fsm->n_free_slots];
    lease = lease_at(fsm, number);
    lease->number = number;
    lease->pub.id = id;
    mem_must_grow(&fsm->by_id, &fsm->cap_by_id, fsm->n_by_id + 1, sizeof(*fsm->by_id));
    assert(!fsm->n_by_id || fsm->by_id[fsm->n_by_id - 1].id < id);
    fsm->by_id[fsm->n_by_id++] = (struct lease_by_id){id, lease};
    return lease;
}

/* ---- by id ---- */

/* Index of the first with an id >= id. */
static size_t lower_bound(const struct fsm *fsm, uint64_t id)
{
    size_t low = 0, high = fsm->n_by_id;

    while (low < high) {
        size_t middle = low + (high - low) / 2;

        if (fsm->by_id[middle].id < id)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

struct lease *lease_find(const struct fsm *fsm, uint64_t id)
{
    size_t i = lower_bound(fsm, id);

    return i < fsm->n_by_id && fsm->by_id[i].id == id ? fsm->by_id[i].lease : NULL;
}

static void sweep_by_id(struct fsm *fsm)
{
    size_t kept = 0;

    for (size_t i = 0; i < fsm->n_by_id; i++)
        if (fsm->by_id[i].lease)
            fsm->by_id[kept++] = fsm->by_id[i];
    fsm->n_by_id = kept;
    fsm->n_gone = 0;
}

const struct fsm_lease *fsm_lease(const struct fsm *fsm, uint64_t id)
{
    const struct lease *lease = lease_find(fsm, id);

    return lease ? &lease->pub : NULL;
}

const struct fsm_lease *fsm_lease_next(const struct fsm *fsm, uint64_t after)
{
    if (after == UINT64_MAX)
        return NULL;
    for (size_t i = lower_bound(fsm, after + 1); i < fsm->n_by_id; i++)
        if (fsm->by_id[i].lease)
            return &fsm->by_id[i].lease->pub;
    return NULL;
}

/* ---- by uid ---- */

struct lease *lease_of_uid(const struct fsm *fsm, uint32_t uid)
{
    const struct pool *pool = pool_of_uid(fsm, uid);
    uint32_t i;

    if (!pool)
        return NULL;
    i = uid - pool->pub.range.first;
    return pool->states[i] == UID_LEASED ? lease_at(fsm, pool->slots[i].before) : NULL;
}

const struct fsm_lease *fsm_lease_of_uid(const struct fsm *fsm, uint32_t uid)
{
    const struct lease *lease = lease_of_uid(fsm, uid);

    return lease ? &lease->pub : NULL;
}

/* ---- by owner and job ---- */

uint32_t lease_job_hash(const struct fsm *fsm, uint32_t owner_uid, const void *job, size_t len)
{
    return (uint32_t)hash_bytes(fsm->requests.key + owner_uid, job, len);
}

struct lease *lease_of_job(const struct fsm *fsm, uint32_t owner_uid, const void *job, size_t len)
{
    uint32_t hash = lease_job_hash(fsm, owner_uid, job, len);

    if (!fsm->n_job_heads)
        return NULL;
    for (struct lease *lease = fsm->jobs[hash & (fsm->n_job_heads - 1)]; lease;
         lease = lease->job_next)
        if (lease->job_hash == hash && lease->pub.owner.uid == owner_uid &&
            strncmp(lease->pub.job, job, len) == 0 && !lease->pub.job[len])
            return lease;
    return NULL;
}

const struct fsm_lease *fsm_lease_of_job(const struct fsm *fsm, uint32_t owner_uid, const char *job)
{
    const struct lease *lease = *job ? lease_of_job(fsm, owner_uid, job, strlen(job)) : NULL;

    return lease ? &lease->pub : NULL;
}

static void grow_jobs(struct fsm *fsm)
{
    uint32_t n = fsm->n_job_heads ? fsm->n_job_heads * 2 : 64;
    struct lease **heads = mem_must_calloc(n, sizeof(struct lease *));

    for (uint32_t i = 0; i < fsm->n_job_heads; i++)
        for (struct lease *lease = fsm->jobs[i], *next; lease; lease = next) {
            next = lease->job_next;
            lease->job_next = heads[lease->job_hash & (n - 1)];
            heads[lease->job_hash & (n - 1)] = lease;
        }
    free(fsm->jobs);
    fsm->jobs = heads;
    fsm->n_job_heads = n;
}

void lease_jobs_add(struct fsm *fsm, struct lease *lease)
{
    struct lease **head;

    if (!*lease->pub.job)
        return;
    if (fsm->n_jobs >= fsm->n_job_heads)
        grow_jobs(fsm);
    lease->job_hash = lease_job_hash(fsm, lease->pub.owner.uid, lease->pub.job,
                                     strlen(lease->pub.job));
    head = &fsm->jobs[lease->job_hash & (fsm->n_job_heads - 1)];
    lease->job_next = *head;
    *head = lease;
    fsm->n_jobs++;
}

void lease_jobs_drop(struct fsm *fsm, struct lease *lease)
{
    struct lease **link;

    if (!*lease->pub.job)
        return;
    link = &fsm->jobs[lease->job_hash & (fsm->n_job_heads - 1)];
    while (*link != lease)
        link = &(*link)->job_next;
    *link = lease->job_next;
    lease->job_next = NULL;
    fsm->n_jobs--;
}

/* ---- members ---- */

struct fsm_member *lease_member(struct lease *lease, uint32_t i)
{
    assert(i < lease->pub.n_members);
    return (struct fsm_member *)lease->pub.members + i;
}

void lease_reserve_members(struct lease *lease, uint32_t n)
{
    struct fsm_member *members;
    uint32_t *places;

    if (!lease->cap_members) {
        lease->pub.members = &lease->one;
        lease->places = &lease->one_place;
        lease->cap_members = 1;
    }
    if (n <= lease->cap_members)
        return;
    members = mem_must_alloc(n * sizeof(*members));
    places = mem_must_alloc(n * sizeof(*places));
    memcpy(members, lease->pub.members, lease->pub.n_members * sizeof(*members));
    memcpy(places, lease->places, lease->pub.n_members * sizeof(*places));
    if (lease->cap_members > 1) {
        free((void *)lease->pub.members);
        free(lease->places);
    }
    lease->pub.members = members;
    lease->places = places;
    lease->cap_members = n;
}

uint32_t lease_add_member(struct fsm *fsm, struct lease *lease, struct node *node)
{
    uint32_t i = lease->pub.n_members;

    lease_reserve_members(lease, i + 1);
    lease->pub.n_members++;
    fsm->n_members++;
    *lease_member(lease, i) = (struct fsm_member){.node = &node->pub};
    lease->n_owed += lease_owes(lease, lease_member(lease, i));
    lease->places[i] = node_add_lease(node, lease, i);
    return i;
}

uint32_t lease_member_index(const struct lease *lease, const struct node *node)
{
    if (lease->pub.n_members <= node->pub.n_leases) {
        for (uint32_t i = 0; i < lease->pub.n_members; i++)
            if (lease->pub.members[i].node == &node->pub)
                return i;
    } else {
        for (uint32_t i = 0; i < node->pub.n_leases; i++)
            if (node->leases[i].lease == lease)
                return node->leases[i].member;
    }
    return NO_SLOT;
}

bool lease_owes(const struct lease *lease, const struct fsm_member *member)
{
    switch (lease->pub.state) {
    case LEASE_GRANTED:
    case LEASE_ACTIVE: /* one that was added */
        return !member->released && member->proof != PROOF_READY;
    case LEASE_DRAINING:
        return member->proof != PROOF_CLEAN && member->proof != PROOF_FENCED;
    default:
        return false;
    }
}

bool lease_joins(const struct lease *lease, uint32_t i)
{
    return lease->pub.state == LEASE_ACTIVE && lease_owes(lease, &lease->pub.members[i]);
}

void lease_count_owed(struct lease *lease)
{
    lease->n_owed = lease->n_dirty = 0;
    for (uint32_t i = 0; i < lease->pub.n_members; i++) {
        lease->n_owed += lease_owes(lease, lease_member(lease, i));
        lease->n_dirty += lease_member(lease, i)->proof == PROOF_DIRTY;
    }
}

void lease_set_proof(struct fsm *fsm, struct lease *lease, uint32_t i, enum member_proof proof,
                     const char *reason, const char *detail)
{
    struct fsm_member *member = lease_member(lease, i);

    reason = intern_text(&fsm->strings, reason);
    detail = intern_text(&fsm->strings, detail);
    intern_put(&fsm->strings, member->reason);
    intern_put(&fsm->strings, member->detail);
    lease->n_owed -= lease_owes(lease, member);
    lease->n_dirty -= member->proof == PROOF_DIRTY;
    member->proof = proof;
    member->reason = reason;
    member->detail = detail;
    lease->n_owed += lease_owes(lease, member);
    lease->n_dirty += proof == PROOF_DIRTY;
}

/* ---- the end ---- */

static void free_memory(struct lease *lease)
{
    if (lease->cap_members > 1) {
        free((void *)lease->pub.members);
        free(lease->places);
    }
    free((void *)lease->pub.gids);
    free((void *)lease->pub.job);
}

void lease_table_drop(struct fsm *fsm, struct lease *lease)
{
    size_t i = lower_bound(fsm, lease->pub.id);
    uint32_t number = lease->number;

    for (uint32_t m = 0; m < lease->pub.n_members; m++) {
        const struct fsm_member *member = lease_member(lease, m);

        intern_put(&fsm->strings, member->reason);
        intern_put(&fsm->strings, member->detail);
        node_drop_lease((struct node *)member->node, lease->places[m]);
    }
    fsm->n_members -= lease->pub.n_members;
    intern_put(&fsm->strings, lease->pub.owner.name);
    intern_put(&fsm->strings, lease->pub.end_detail);
    free_memory(lease);
    *lease = (struct lease){0};
    fsm->by_id[i].lease = NULL;
    if (++fsm->n_gone > 64 && fsm->n_gone > fsm->n_by_id / 2)
        sweep_by_id(fsm);
    fsm->free_slots[fsm->n_free_slots++] = number;
}

void lease_table_done(struct fsm *fsm)
{
    for (size_t i = 0; i < fsm->n_by_id; i++)
        if (fsm->by_id[i].lease)
            free_memory(fsm->by_id[i].lease);
    for (size_t i = 0; i < fsm->n_pages; i++)
        free(fsm->pages[i]);
    free(fsm->pages);
    free(fsm->free_slots);
    free(fsm->by_id);
    free(fsm->jobs);
}
