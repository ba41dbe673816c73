#include "leased/fsm/snapshot.h"

#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "common/digest.h"
#include "common/le.h"
#include "leased/fsm/codec.h"
#include "leased/fsm/incarnation.h"
#include "leased/fsm/lease.h"
#include "leased/fsm/node.h"
#include "leased/fsm/pool.h"
#include "leased/fsm/token.h"
#include "leased/fsm/wait.h"

static void put_head(struct encoder *e, const struct fsm *fsm)
{
    put_u8(e, fsm->initialised);
    put_u64(e, fsm->revision);
    put_i64(e, fsm->now_ms);
    put_text(e, fsm->prefix);
    put_bytes(e, fsm->incarnation, sizeof(fsm->incarnation));
    put_u64(e, fsm->last_lease);
    put_u64(e, fsm->last_session);
    put_u8(e, fsm->frees_left);
    put_i64(e, fsm->requests.horizon_ms);
}

static void put_floors(struct encoder *e, const struct fsm *fsm)
{
    put_u32(e, (uint32_t)fsm->n_floors);
    for (size_t i = 0; i < fsm->n_floors; i++) {
        put_u32(e, fsm->floors[i].first);
        for (uint32_t j = 0; j < FLOOR_PAGE; j++)
            put_u32(e, fsm->floors[i].epochs[j]);
    }
}

static void put_settings(struct encoder *e, const struct fsm_settings *settings)
{
    put_i64(e, settings->ttl_min_ms);
    put_i64(e, settings->ttl_max_ms);
    put_i64(e, settings->ttl_default_ms);
    put_i64(e, settings->cooldown_ms);
    put_i64(e, settings->ready_timeout_ms);
    put_i64(e, settings->validity_ms);
    put_u8(e, settings->witnesses_all);
    put_u32(e, settings->max_per_owner);
    put_text(e, settings->home);
    put_text(e, settings->shell);
}

static void put_uids(struct encoder *e, const struct pool *pool)
{
    for (uint32_t i = 0; i < pool->size; i++)
        put_u32(e, pool->slots[i].epoch);
    put_u32(e, pool->counts.free);
    for (uint32_t i = pool->line_head; i != NO_SLOT; i = pool->slots[i].after)
        put_u32(e, i);
    for (uint32_t i = 0; i < pool->size; i += 8) {
        uint8_t bits = 0;

        for (uint32_t j = 0; j < 8 && i + j < pool->size; j++)
            bits |= (uint8_t)(pool->blocked[i + j] << j);
        put_u8(e, bits);
    }
    put_u32(e, pool->pub.n_blocked);
    for (uint32_t i = 0; i < pool->pub.n_blocked; i++) {
        const struct fsm_blocked *blocked = &pool->pub.blocked[i];

        put_u32(e, blocked->uid);
        put_text(e, blocked->node);
        put_text(e, blocked->reason);
        put_text(e, blocked->detail);
        put_i64(e, blocked->since_wall_ms);
    }
}

static void put_pools(struct encoder *e, const struct fsm *fsm)
{
    put_u32(e, (uint32_t)fsm->n_pools);
    for (size_t i = 0; i < fsm->n_pools; i++) {
        const struct pool *pool = fsm->pools[i];

        put_text(e, pool->pub.name);
        put_u32(e, pool->pub.range.first);
        put_u32(e, pool->pub.range.last);
        put_u8(e, pool->pub.retiring);
        put_u64(e, pool->pub.revision);
        put_settings(e, &pool->pub.settings);
        put_u32(e, pool->pub.n_directory);
        for (uint32_t j = 0; j < pool->pub.n_directory; j++) {
            put_u32(e, pool->pub.directory[j].first);
            put_u32(e, pool->pub.directory[j].last);
        }
        put_uids(e, pool);
    }
}

static void put_nodes(struct encoder *e, const struct fsm *fsm)
{
    put_u32(e, (uint32_t)fsm->n_nodes);
    for (size_t i = 0; i < fsm->n_nodes; i++) {
        const struct node *node = fsm->nodes[i];

        put_text(e, node->pub.name);
        put_text(e, node->pub.machine_id);
        put_text(e, node->pub.boot_id);
        put_text(e, node->pub.reason);
        put_text(e, node->pub.actor);
        put_u8(e, (uint8_t)node->health);
        put_u8(e, (uint8_t)node->admin);
        put_u64(e, node->pub.session);
        put_u64(e, node->pub.hello_revision);
        put_u64(e, node->pub.unknown_revision);
        put_u64(e, node->pub.watermark);
        put_u64(e, node->pub.revision);
        put_u64(e, node->verb_revision);
        put_u32(e, node->n_blocked);
        for (uint32_t j = 0; j < node->n_blocked; j++)
            put_i64(e, node->blocked_ms[j]);
    }
}

static void put_oaths(struct encoder *e, const struct fsm *fsm)
{
    put_u32(e, (uint32_t)fsm->n_oaths);
    for (const struct oath *oath = fsm->oaths; oath; oath = oath->next) {
        put_text(e, oath->node);
        put_text(e, oath->machine_id);
        put_text(e, oath->boot_id);
        put_text(e, oath->actor);
        put_text(e, oath->reason);
        put_u32(e, (uint32_t)oath->n_uids);
        for (size_t i = 0; i < oath->n_uids; i++)
            put_u32(e, oath->uids[i]);
    }
}

static void put_members(struct encoder *e, const struct fsm_lease *lease)
{
    put_u32(e, lease->n_members);
    for (uint32_t i = 0; i < lease->n_members; i++) {
        const struct fsm_member *member = &lease->members[i];

        put_u32(e, ((const struct node *)member->node)->place);
        put_u8(e, (uint8_t)member->proof);
        put_u8(e, member->released);
        put_text(e, member->reason);
        put_text(e, member->detail);
    }
}

static void put_lease(struct encoder *e, const struct lease *lease)
{
    const struct fsm_lease *pub = &lease->pub;

    put_u64(e, pub->id);
    put_u32(e, pub->uid);
    put_u32(e, pub->epoch);
    put_u8(e, (uint8_t)pub->state);
    put_u32(e, pub->quarantine);
    put_u32(e, lease->sticky);
    put_u8(e, (uint8_t)pub->cause);
    put_text(e, pub->end_detail);
    put_text(e, pub->job);
    put_text(e, pub->owner.name);
    put_u32(e, pub->owner.uid);
    put_u32(e, pub->owner.gid);
    put_i64(e, pub->ttl_ms);
    put_i64(e, pub->expires_ms);
    put_i64(e, pub->due_ms);
    put_i64(e, pub->since_ms);
    put_i64(e, lease->overdue_ms);
    put_i64(e, pub->granted_ms);
    put_i64(e, pub->granted_wall_ms);
    put_i64(e, pub->changed_wall_ms);
    put_u64(e, pub->revision);
    put_u64(e, pub->retired_revision);
    put_u8(e, lease->tries);
    put_u8(e, lease->all_nodes);
    put_u32(e, pub->n_gids);
    for (uint32_t i = 0; i < pub->n_gids; i++)
        put_u32(e, pub->gids[i]);
    put_members(e, pub);
}

static void put_leases(struct encoder *e, const struct fsm *fsm)
{
    put_u32(e, (uint32_t)(fsm->n_by_id - fsm->n_gone));
    for (size_t i = 0; i < fsm->n_by_id; i++)
        if (fsm->by_id[i].lease)
            put_lease(e, fsm->by_id[i].lease);
}

/* Which of the leases of a waiting request were made for it. Waits are in the order of their requests. */
static const struct wait *put_own(struct encoder *e, const struct wait *wait,
                                  const struct request *request)
{
    assert(wait->request == request);
    for (uint32_t i = 0; i < wait->n; i++)
        put_u8(e, wait->links[i].own);
    return wait->after;
}

static void put_requests(struct encoder *e, const struct fsm *fsm, enum request_ring ring)
{
    struct request_walk walk = {.ring = ring};
    const struct request *request;
    const struct wait *wait = fsm->waits;

    put_u32(e, fsm->requests.rings[ring].n);
    while ((request = request_next(&fsm->requests, &walk))) {
        put_text(e, request_principal(fsm, request));
        put_u8(e, request->id_len);
        put_bytes(e, request->id, request->id_len);
        put_bytes(e, request->digest, REQUEST_DIGEST);
        put_u64(e, request->at_ms);
        put_u8(e, request->code);
        put_u8(e, request->waiting);
        put_u32(e, request->n_slots);
        if (request->code != FSM_OK)
            put_text(e, request_message(fsm, request));
        else
            for (uint32_t i = 0; i < request->n_slots; i++)
                put_u64(e, request_slots(request)[i]);
        if (request->waiting)
            wait = put_own(e, wait, request);
    }
}

static void put_rules(struct encoder *e, const struct fsm *fsm)
{
    put_u64(e, fsm->rules.revision);
    put_u32(e, (uint32_t)fsm->rules.len);
    put_bytes(e, fsm->rules.bytes, fsm->rules.len);
}

static void put_passing(struct encoder *e, const struct fsm *fsm, uint32_t version)
{
    put_u32(e, (uint32_t)pool_blocks_passing(fsm, NULL));
    for (size_t p = 0; p < fsm->n_pools; p++)
        for (uint32_t i = 0; i < fsm->pools[p]->pub.n_blocked; i++) {
            const struct fsm_blocked *blocked = &fsm->pools[p]->pub.blocked[i];

            if (!blocked->revision)
                continue;
            if (version > SNAPSHOT_PASSING)
                put_u32(e, i);
            put_u32(e, blocked->uid);
            put_u64(e, blocked->revision);
        }
}

static bool has_boots(const struct node *node)
{
    return node->n_formers || node->pub.rival.boot_id;
}

static uint32_t count_boots(const struct fsm *fsm)
{
    uint32_t n = 0;

    for (size_t i = 0; i < fsm->n_nodes; i++)
        n += has_boots(fsm->nodes[i]);
    return n;
}

static void put_former(struct encoder *e, const struct former *former)
{
    put_text(e, former->boot_id);
    put_u64(e, former->last_lease);
    put_u32(e, former->n_returns);
    put_u32(e, (uint32_t)former->n_uids);
    for (size_t i = 0; i < former->n_uids; i++)
        put_u32(e, former->uids[i]);
}

static void put_boots(struct encoder *e, const struct fsm *fsm)
{
    put_u32(e, count_boots(fsm));
    for (size_t i = 0; i < fsm->n_nodes; i++) {
        const struct node *node = fsm->nodes[i];

        if (!has_boots(node))
            continue;
        put_text(e, node->pub.name);
        put_u8(e, node->pub.cloned);
        put_text(e, node->pub.rival.node);
        put_text(e, node->pub.rival.machine_id);
        put_text(e, node->pub.rival.boot_id);
        put_i64(e, node->pub.rival.heard_wall_ms);
        put_u32(e, node->n_formers);
        for (uint32_t f = 0; f < node->n_formers; f++)
            put_former(e, &node->formers[f]);
    }
}

static uint32_t version_of(const struct fsm *fsm)
{
    if (count_boots(fsm))
        return SNAPSHOT_VERSION;
    if (pool_blocks_doubled(fsm))
        return SNAPSHOT_DOUBLED;
    if (pool_blocks_passing(fsm, NULL))
        return SNAPSHOT_PASSING;
    return fsm->restored.times ? SNAPSHOT_RESTORED : SNAPSHOT_PLAIN;
}

static void put_all(struct encoder *e, const struct fsm *fsm)
{
    uint32_t version = version_of(fsm);

    put_head(e, fsm);
    if (!fsm->initialised)
        return;
    put_floors(e, fsm);
    put_pools(e, fsm);
    put_nodes(e, fsm);
    put_oaths(e, fsm);
    put_leases(e, fsm);
    put_requests(e, fsm, RING_ONCE);
    put_requests(e, fsm, RING_REPEATABLE);
    put_rules(e, fsm);
    tokens_put(e, &fsm->tokens);
    if (version > SNAPSHOT_RESTORED)
        put_u8(e, fsm->restored.times != 0);
    if (fsm->restored.times)
        incarnation_put(e, fsm);
    if (version > SNAPSHOT_RESTORED)
        put_passing(e, fsm, version);
    if (version > SNAPSHOT_DOUBLED)
        put_boots(e, fsm);
}

int fsm_snapshot(const struct fsm *fsm, uint8_t **ret, size_t *ret_len)
{
    struct encoder e = {0};

    (void)encoder_room(&e, SNAPSHOT_HEAD);
    put_all(&e, fsm);
    if (e.failed) {
        free(e.bytes);
        return -ENOMEM;
    }
    memcpy(e.bytes, SNAPSHOT_MAGIC, 8);
    le_put_u32(e.bytes + 8, version_of(fsm));
    le_put_u64(e.bytes + 16, e.len - SNAPSHOT_HEAD);
    le_put_u32(e.bytes + 12,
               digest_crc32c(0, e.bytes + SNAPSHOT_CRC_FROM, e.len - SNAPSHOT_CRC_FROM));
    *ret = e.bytes;
    *ret_len = e.len;
    return 0;
}

uint64_t fsm_digest(const struct fsm *fsm)
{
    struct encoder e = {.digesting = true};
    uint64_t digest;

    put_all(&e, fsm);
    if (e.failed)
        abort();
    digest = encoder_digest(&e);
    free(e.bytes);
    return digest;
}
