/* A state out of a snapshot. Every number is checked before it is used: a snapshot comes from a disk or from a peer. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "common/digest.h"
#include "common/mem.h"
#include "leased/fsm/apply.h"
#include "leased/fsm/codec.h"
#include "leased/fsm/command.h"
#include "leased/fsm/incarnation.h"
#include "leased/fsm/lease.h"
#include "leased/fsm/node.h"
#include "leased/fsm/pool.h"
#include "leased/fsm/rules.h"
#include "leased/fsm/snapshot.h"
#include "leased/fsm/tables.h"
#include "leased/fsm/token.h"
#include "leased/fsm/wait.h"

struct restore {
    struct decoder d;
    uint32_t version;
    struct fsm *fsm;
    struct lease **retired;
    size_t n_retired, cap_retired;
};

static const char *copy_text(struct fsm *fsm, struct text_view text)
{
    return text.text ? intern_add(&fsm->strings, text.text, text.len) : NULL;
}

static int64_t get_time(struct decoder *d)
{
    return get_span(d, 2 * COMMAND_TIME_MAX);
}

/* A revision that has been given out. */
static uint64_t get_revision(struct restore *r)
{
    uint64_t revision = get_u64(&r->d);

    if (revision > r->fsm->revision)
        (void)decoder_fail(&r->d, "a revision is ahead of the state's");
    return revision;
}

/* ---- head, floors ---- */

static void get_head(struct restore *r)
{
    struct fsm *fsm = r->fsm;
    struct decoder *d = &r->d;
    bool initialised = get_bool(d);
    struct text_view prefix;
    const uint8_t *incarnation;

    fsm->revision = get_u64(d);
    fsm->now_ms = get_span(d, COMMAND_TIME_MAX);
    prefix = get_text(d, sizeof(fsm->prefix) - 1);
    incarnation = get_bytes(d, sizeof(fsm->incarnation));
    fsm->last_lease = get_u64(d);
    fsm->last_session = get_u64(d);
    fsm->frees_left = get_bool(d);
    if (d->wrong)
        return;
    if (prefix.len)
        memcpy(fsm->prefix, prefix.text, prefix.len);
    memcpy(fsm->incarnation, incarnation, sizeof(fsm->incarnation));
    if (initialised)
        tables_init(fsm);
    fsm->requests.horizon_ms = get_time(d);
    if (initialised != (prefix.len > 0))
        (void)decoder_fail(d, "a state without a prefix");
}

static void get_floors(struct restore *r)
{
    uint32_t n = get_count(&r->d, 4 + 4 * FLOOR_PAGE, UINT32_MAX / FLOOR_PAGE + 1);
    uint64_t least = 0;

    for (uint32_t i = 0; i < n && !r->d.wrong; i++) {
        uint32_t first = get_u32(&r->d);

        if (first % FLOOR_PAGE || first < least) {
            (void)decoder_fail(&r->d, "pages of epochs out of order");
            return;
        }
        least = (uint64_t)first + FLOOR_PAGE;
        for (uint32_t j = 0; j < FLOOR_PAGE; j++)
            floor_set(r->fsm, first + j, get_u32(&r->d));
    }
}

/* ---- pools ---- */

static void get_settings(struct decoder *d, struct fsm_settings *settings)
{
    struct text_view home, shell;

    settings->ttl_min_ms = get_span(d, COMMAND_TIME_MAX);
    settings->ttl_max_ms = get_span(d, COMMAND_TIME_MAX);
    settings->ttl_default_ms = get_span(d, COMMAND_TIME_MAX);
    settings->cooldown_ms = get_span(d, COMMAND_TIME_MAX);
    settings->ready_timeout_ms = get_span(d, COMMAND_TIME_MAX / 1024);
    settings->validity_ms = get_span(d, COMMAND_TIME_MAX);
    settings->witnesses_all = get_bool(d);
    settings->max_per_owner = get_u32(d);
    home = get_name(d, APPLY_PATH_MAX);
    shell = get_name(d, APPLY_PATH_MAX);
    if (d->wrong)
        return;
    settings->home = mem_must_dup(home.text, home.len);
    settings->shell = mem_must_dup(shell.text, shell.len);
}

static void get_directory(struct decoder *d, struct pool *pool)
{
    struct fsm_range ranges[FSM_DIRECTORY_MAX];
    uint32_t n = get_count(d, 8, FSM_DIRECTORY_MAX);

    for (uint32_t i = 0; i < n; i++) {
        ranges[i].first = get_u32(d);
        ranges[i].last = get_u32(d);
        if (ranges[i].first > ranges[i].last)
            (void)decoder_fail(d, "a directory range ends before it begins");
    }
    if (!d->wrong)
        pool_set_directory(pool, ranges, n);
}

static void get_blocked(struct restore *r, struct pool *pool)
{
    struct decoder *d = &r->d;
    const uint8_t *bits = get_bytes(d, (pool->size + 7) / 8);
    uint32_t n;

    for (uint32_t i = 0; bits && i < pool->size; i++)
        pool->blocked[i] = bits[i / 8] >> (i % 8) & 1;
    n = get_count(d, 24, FSM_BLOCKED_MAX);
    for (uint32_t i = 0; i < n && !d->wrong; i++) {
        struct fsm_blocked blocked = {.uid = get_u32(d)};
        struct text_view node = get_text(d, APPLY_NAME_MAX);
        struct text_view reason = get_name(d, APPLY_NOTE_MAX);
        struct text_view detail = get_text(d, FSM_MESSAGE_MAX);

        blocked.since_wall_ms = get_time(d);
        if (!d->wrong && pool_of_uid(r->fsm, blocked.uid) != pool)
            (void)decoder_fail(d, "a blocked uid is not in its pool");
        if (d->wrong)
            return;
        blocked.node = copy_text(r->fsm, node);
        blocked.reason = copy_text(r->fsm, reason);
        blocked.detail = copy_text(r->fsm, detail);
        pool_add_blocked(r->fsm, pool, &blocked);
        intern_put(&r->fsm->strings, blocked.node);
        intern_put(&r->fsm->strings, blocked.reason);
        intern_put(&r->fsm->strings, blocked.detail);
    }
}

/* Epochs, and the line. Whatever is not in line is taken for leased until the leases have been read. */
static void get_uids(struct restore *r, struct pool *pool)
{
    struct decoder *d = &r->d;
    uint32_t n, i;

    for (i = 0; i < pool->size; i++) {
        uint32_t epoch = get_u32(d);

        if (epoch < pool->slots[i].epoch)
            (void)decoder_fail(d, "an epoch went back");
        pool->slots[i].epoch = epoch;
        pool->states[i] = UID_ASIDE;
    }
    n = get_count(d, 4, pool->size);
    for (uint32_t j = 0; j < n && !d->wrong; j++) {
        i = get_u32(d);
        if (i >= pool->size || pool->states[i] == UID_FREE)
            (void)decoder_fail(d, "a uid is in line twice, or in none of its pool");
        else
            pool_line_append(pool, i);
    }
    get_blocked(r, pool);
}

static bool may_stand(const struct fsm *fsm, const struct fsm_range *range)
{
    if (range->first < 1000 || range->last < range->first ||
        range->last - range->first >= FSM_POOL_UIDS)
        return false;
    for (size_t i = 0; i < fsm->n_pools; i++)
        if (range->first <= fsm->pools[i]->pub.range.last &&
            fsm->pools[i]->pub.range.first <= range->last)
            return false;
    return true;
}

static void get_pool(struct restore *r)
{
    struct decoder *d = &r->d;
    struct fsm *fsm = r->fsm;
    struct text_view name = get_name(d, APPLY_POOL_MAX);
    struct fsm_range range = {get_u32(d), 0};
    struct pool *pool;

    range.last = get_u32(d);
    if (!d->wrong && (!may_stand(fsm, &range) ||
                      (size_t)(range.last - range.first) > (size_t)(d->end - d->at) / 4))
        (void)decoder_fail(d, "a pool's range can not be");
    if (!d->wrong && pool_find(fsm, name.text, name.len))
        (void)decoder_fail(d, "two pools of one name");
    if (d->wrong)
        return;
    pool = pool_table_add(fsm, name.text, name.len, range);
    pool->pub.retiring = get_bool(d);
    pool->pub.revision = get_revision(r);
    get_settings(d, &pool->pub.settings);
    get_directory(d, pool);
    get_uids(r, pool);
}

/* ---- nodes, oaths ---- */

static void get_node(struct restore *r)
{
    struct decoder *d = &r->d;
    struct fsm *fsm = r->fsm;
    struct text_view name = get_name(d, APPLY_NAME_MAX);
    struct text_view machine_id = get_name(d, APPLY_NAME_MAX);
    struct text_view boot_id = get_name(d, APPLY_NAME_MAX);
    struct text_view reason = get_text(d, FSM_MESSAGE_MAX);
    struct text_view actor = get_text(d, APPLY_NOTE_MAX);
    uint8_t health = get_u8(d), admin = get_u8(d);
    struct node *node;

    if (!d->wrong && (health < HEALTH_OK || health > HEALTH_FENCED || admin > ADMIN_CORDONED))
        (void)decoder_fail(d, "a node's state is not known");
    if (!d->wrong && node_find(fsm, name.text, name.len))
        (void)decoder_fail(d, "two nodes of one name");
    if (d->wrong)
        return;
    node = node_table_add(fsm, name.text, name.len);
    node->pub.machine_id = copy_text(fsm, machine_id);
    node->pub.boot_id = copy_text(fsm, boot_id);
    node->pub.reason = copy_text(fsm, reason);
    node->pub.actor = copy_text(fsm, actor);
    node_set(fsm, node, (enum node_health)health, (enum node_admin)admin);
    node->pub.session = get_u64(d);
    node->pub.hello_revision = get_revision(r);
    node->pub.unknown_revision = get_revision(r);
    node->pub.watermark = get_revision(r);
    node->pub.revision = get_revision(r);
    node->verb_revision = get_revision(r);
    node->n_blocked = get_count(d, 8, FSM_NODE_BLOCKS);
    for (uint32_t i = 0; i < node->n_blocked; i++)
        node->blocked_ms[i] = get_time(d);
    if ((health == HEALTH_UNKNOWN) != (node->pub.unknown_revision != 0))
        (void)decoder_fail(d, "a node is unknown without a revision, or the other way round");
    if (node->pub.session > fsm->last_session ||
        (health == HEALTH_FENCED) != (node->pub.session == 0))
        (void)decoder_fail(d, "a node's session can not be");
}

static void get_oath(struct restore *r)
{
    struct decoder *d = &r->d;
    struct text_view texts[5];
    struct oath *oath;
    uint32_t n;

    for (int i = 0; i < 5; i++)
        texts[i] = i == 1  ? get_text(d, APPLY_NAME_MAX)
                   : i < 3 ? get_name(d, APPLY_NAME_MAX)
                           : get_text(d, APPLY_NOTE_MAX);
    if (d->wrong)
        return;
    oath = oath_add(r->fsm, NULL, NULL, NULL, NULL, NULL);
    oath->node = copy_text(r->fsm, texts[0]);
    oath->machine_id = copy_text(r->fsm, texts[1]);
    oath->boot_id = copy_text(r->fsm, texts[2]);
    oath->actor = copy_text(r->fsm, texts[3]);
    oath->reason = copy_text(r->fsm, texts[4]);
    n = get_count(d, 4, UINT32_MAX);
    for (uint32_t i = 0; i < n && !d->wrong; i++) {
        uint32_t uid = get_u32(d);

        if (oath->n_uids && oath->uids[oath->n_uids - 1] >= uid)
            (void)decoder_fail(d, "the uids of an oath are out of order");
        oath_add_uid(r->fsm, oath, uid);
    }
}

/* ---- leases ---- */

static void get_members(struct restore *r, struct lease *lease)
{
    struct decoder *d = &r->d;
    uint32_t n = get_count(d, 14, FSM_ALL_MEMBERS);
    uint64_t mark = ++r->fsm->mark;

    lease_reserve_members(lease, n ? n : 1);
    for (uint32_t i = 0; i < n && !d->wrong; i++) {
        uint32_t place = get_u32(d);
        uint8_t proof = get_u8(d);
        bool released = get_bool(d);
        struct text_view reason = get_text(d, APPLY_NOTE_MAX);
        struct text_view detail = get_text(d, APPLY_NOTE_MAX);
        struct fsm_member *member;

        if (!d->wrong && (place >= r->fsm->n_nodes || r->fsm->nodes[place]->mark == mark ||
                          proof > PROOF_FENCED))
            (void)decoder_fail(d, "a member of a lease can not be");
        if (d->wrong)
            return;
        r->fsm->nodes[place]->mark = mark;
        member = lease_member(lease, lease_add_member(r->fsm, lease, r->fsm->nodes[place]));
        member->proof = (enum member_proof)proof;
        member->released = released;
        member->reason = copy_text(r->fsm, reason);
        member->detail = copy_text(r->fsm, detail);
    }
    if (!n)
        (void)decoder_fail(d, "a lease without members");
}

static void get_gids(struct decoder *d, struct fsm_lease *lease)
{
    uint32_t n = get_count(d, 4, FSM_GIDS_MAX);
    uint32_t *gids = n ? mem_must_alloc(n * sizeof(*gids)) : NULL;

    for (uint32_t i = 0; i < n; i++)
        gids[i] = get_u32(d);
    lease->gids = gids;
    lease->n_gids = n;
}

static void get_texts(struct restore *r, struct lease *lease)
{
    struct decoder *d = &r->d;
    struct text_view end_detail = get_text(d, FSM_MESSAGE_MAX);
    struct text_view job = get_text(d, APPLY_JOB_MAX);
    struct text_view owner = get_name(d, APPLY_OWNER_MAX);

    lease->pub.job = mem_must_dup(job.text ? job.text : "", job.len);
    if (d->wrong)
        return;
    lease->pub.end_detail = copy_text(r->fsm, end_detail);
    lease->pub.owner.name = copy_text(r->fsm, owner);
}

static void get_fields(struct restore *r, struct lease *lease)
{
    struct decoder *d = &r->d;
    struct fsm_lease *pub = &lease->pub;

    pub->owner.uid = get_u32(d);
    pub->owner.gid = get_u32(d);
    pub->ttl_ms = get_time(d);
    pub->expires_ms = get_time(d);
    pub->due_ms = get_time(d);
    pub->since_ms = get_time(d);
    lease->overdue_ms = get_time(d);
    pub->granted_ms = get_time(d);
    pub->granted_wall_ms = get_time(d);
    pub->changed_wall_ms = get_time(d);
    pub->revision = get_revision(r);
    pub->retired_revision = get_revision(r);
    lease->tries = get_u8(d);
    lease->all_nodes = get_bool(d);
    get_gids(d, pub);
    get_members(r, lease);
}

/* The uid becomes leased; the tables that hang on the state are filled. */
static void settle(struct restore *r, struct lease *lease)
{
    struct fsm *fsm = r->fsm;
    struct fsm_lease *pub = &lease->pub;
    struct pool *pool = pool_of_uid(fsm, pub->uid);
    uint32_t i = pool ? pub->uid - pool->pub.range.first : 0;

    if (!pool || pool->states[i] != UID_ASIDE || !pub->epoch ||
        pool->slots[i].epoch != pub->epoch) {
        (void)decoder_fail(
            &r->d, "a lease holds a uid that is in line, held already, or of another epoch");
        return;
    }
    if ((pub->state == LEASE_RETIRED) != (pub->retired_revision != 0) ||
        (pub->state == LEASE_COOLING && !pub->due_ms) ||
        (lease_live(pub) && *pub->job &&
         lease_of_job(fsm, pub->owner.uid, pub->job, strlen(pub->job)))) {
        (void)decoder_fail(&r->d, "a lease's state does not fit the rest of it");
        return;
    }
    lease->pool = pool;
    pub->pool = pool->pub.name;
    pool->states[i] = UID_LEASED;
    pool->slots[i].before = lease->number;
    pool->n_leases++;
    lease_count(lease, 1);
    lease_count_owed(lease);
    lease_set_timer(fsm, lease);
    (void)lease_requarantine(fsm, lease);
    lease_told(lease);
    if (lease_live(pub))
        lease_jobs_add(fsm, lease);
    if (pub->state != LEASE_RETIRED)
        return;
    mem_must_grow(&r->retired, &r->cap_retired, r->n_retired + 1, sizeof(*r->retired));
    r->retired[r->n_retired++] = lease;
}

static void get_lease(struct restore *r)
{
    struct decoder *d = &r->d;
    struct fsm *fsm = r->fsm;
    uint64_t id = get_u64(d);
    uint64_t last = fsm->n_by_id ? fsm->by_id[fsm->n_by_id - 1].id : 0;
    uint32_t uid = get_u32(d), epoch = get_u32(d);
    uint8_t state = get_u8(d), cause;
    uint32_t quarantine = get_u32(d), sticky = get_u32(d);
    struct lease *lease;

    cause = get_u8(d);
    if (!d->wrong && (id <= last || id > fsm->last_lease || state < LEASE_GRANTED ||
                      state > LEASE_RETIRED || cause > END_RESTORED ||
                      sticky & ~(uint32_t)(QUARANTINE_OVERDUE | QUARANTINE_STRAY | QUARANTINE_OATH |
                                           QUARANTINE_RESTORED)))
        (void)decoder_fail(d, "a lease's id, state or reasons can not be");
    if (d->wrong)
        return;
    lease = lease_table_add(fsm, id);
    lease->pub.uid = uid;
    lease->pub.epoch = epoch;
    lease->pub.state = (enum lease_state)state;
    lease->pub.cause = (enum end_cause)cause;
    lease->sticky = sticky;
    get_texts(r, lease);
    get_fields(r, lease);
    if (!d->wrong)
        settle(r, lease);
    if (!d->wrong && lease->pub.quarantine != quarantine)
        (void)decoder_fail(d, "a lease's quarantine does not follow from its proofs");
}

static int by_retirement(const void *a, const void *b)
{
    uint64_t x = (*(struct lease *const *)a)->pub.retired_revision;
    uint64_t y = (*(struct lease *const *)b)->pub.retired_revision;

    return (x > y) - (x < y);
}

static void get_leases(struct restore *r)
{
    uint32_t n = get_count(&r->d, 128, UINT32_MAX);

    for (uint32_t i = 0; i < n && !r->d.wrong; i++)
        get_lease(r);
    if (r->n_retired)
        qsort(r->retired, r->n_retired, sizeof(struct lease *), by_retirement);
    for (size_t i = 0; i < r->n_retired; i++)
        lease_queue_retired(r->fsm, r->retired[i]);
}

/* What is in no line and not leased is aside, and only what is blocked may be. */
static void check_aside(struct restore *r)
{
    for (size_t p = 0; p < r->fsm->n_pools; p++) {
        struct pool *pool = r->fsm->pools[p];

        for (uint32_t i = 0; i < pool->size; i++) {
            bool aside = pool->states[i] == UID_ASIDE;

            if (aside ? !pool->blocked[i] : pool->states[i] == UID_FREE && pool->blocked[i])
                (void)decoder_fail(&r->d, "a uid is neither in line, nor leased, nor blocked");
            pool->counts.blocked += aside;
        }
        if (pool_is_over(pool))
            (void)decoder_fail(&r->d, "a retiring pool without leases");
    }
}

/* ---- requests ---- */

static void get_waits(struct restore *r, struct request *request)
{
    struct decoder *d = &r->d;
    uint32_t n = request->n_slots;
    struct lease **leases = mem_must_alloc(n * sizeof(struct lease *));
    bool *own = mem_must_alloc(n * sizeof(bool));

    for (uint32_t i = 0; i < n; i++) {
        leases[i] = lease_find(r->fsm, request_slots(request)[i]);
        own[i] = get_bool(d);
        if (!leases[i] || !lease_live(&leases[i]->pub))
            (void)decoder_fail(d, "a request waits for a lease that is over");
    }
    if (!d->wrong && !wait_begin(r->fsm, request, leases, own))
        (void)decoder_fail(d, "a request waits for nothing");
    free(leases);
    free(own);
}

/* Lease ids into slots, or a message. */
static bool get_answer(struct decoder *d, struct request_answer *answer,
                       uint64_t slots[static FSM_BATCH_MAX],
                       char message[static FSM_MESSAGE_MAX + 1])
{
    struct text_view text;
    uint32_t n = get_u32(d);

    if (n > FSM_BATCH_MAX || answer->code > FSM_NOT_READY || (answer->code != FSM_OK && !n))
        return decoder_fail(d, "an answer can not be");
    answer->slots = slots;
    answer->n_slots = n;
    answer->message = message;
    if (answer->code == FSM_OK) {
        for (uint32_t i = 0; i < n; i++)
            slots[i] = get_u64(d);
        return !d->wrong;
    }
    text = get_name(d, FSM_MESSAGE_MAX);
    if (d->wrong)
        return false;
    memcpy(message, text.text, text.len);
    message[text.len] = '\0';
    return true;
}

static void get_request(struct restore *r, enum request_ring ring)
{
    struct decoder *d = &r->d;
    struct text_view principal = get_text(d, REQUEST_PRINCIPAL_MAX);
    struct request_key key = {.principal = principal.text, .principal_len = principal.len};
    struct request_answer answer = {0};
    uint64_t slots[FSM_BATCH_MAX];
    char message[FSM_MESSAGE_MAX + 1];
    struct request *request;
    const uint8_t *digest;
    bool waiting;

    key.id_len = get_u8(d);
    key.id = get_bytes(d, key.id_len);
    digest = get_bytes(d, REQUEST_DIGEST);
    answer.at_ms = get_span(d, 2 * COMMAND_TIME_MAX - 1);
    answer.code = get_u8(d);
    waiting = get_bool(d);
    if (!d->wrong && (!key.id_len || key.id_len > REQUEST_ID_MAX ||
                      (waiting && (answer.code != FSM_OK || ring != RING_ONCE))))
        (void)decoder_fail(d, "a request can not be");
    if (!get_answer(d, &answer, slots, message))
        return;
    memcpy(key.digest, digest, REQUEST_DIGEST);
    if (request_find(r->fsm, &key)) {
        (void)decoder_fail(d, "a request is there twice");
        return;
    }
    request = request_restore(r->fsm, ring, &key, &answer);
    if (waiting)
        get_waits(r, request);
}

/* ---- rules ---- */

static void get_rules(struct restore *r)
{
    struct decoder *d = &r->d;
    uint64_t revision = get_revision(r);
    uint32_t len = get_count(d, 1, FSM_RULES_BYTES);
    const uint8_t *bytes = get_bytes(d, len);

    if (d->wrong || !revision) {
        if (!d->wrong && len)
            (void)decoder_fail(d, "rules without a revision");
        return;
    }
    if (!rules_restore(r->fsm, bytes, len))
        (void)decoder_fail(d, "the rules can not be");
    r->fsm->rules.revision = revision;
}

/* ---- findings that leave by themselves ---- */

/* The place of a uid that is in the list but once. */
static uint32_t place_of(const struct pool *pool, uint32_t uid)
{
    uint32_t i = 0;

    while (pool && i < pool->pub.n_blocked && pool->pub.blocked[i].uid != uid)
        i++;
    return i;
}

static void get_passing_one(struct restore *r)
{
    bool placed = r->version > SNAPSHOT_PASSING;
    uint32_t i = placed ? get_u32(&r->d) : 0;
    uint32_t uid = get_u32(&r->d);
    uint64_t revision = get_revision(r);
    struct pool *pool = pool_of_uid(r->fsm, uid);
    struct fsm_blocked *one = NULL;
    struct node *node = NULL;

    if (!placed)
        i = place_of(pool, uid);
    if (pool && i < pool->pub.n_blocked)
        one = (struct fsm_blocked *)&pool->pub.blocked[i];
    if (one && one->uid == uid && !one->revision && one->node && pool_block_passes(one->reason))
        node = node_find(r->fsm, one->node, strlen(one->node));
    if (!node || !revision) {
        (void)decoder_fail(&r->d, "a block that leaves by itself can not be");
        return;
    }
    one->revision = revision;
    node->n_passing++;
}

static void get_passing(struct restore *r)
{
    uint32_t n = get_count(&r->d, 12, FSM_POOLS_MAX * FSM_BLOCKED_MAX);

    if (!n && r->version == SNAPSHOT_PASSING)
        (void)decoder_fail(&r->d, "no block leaves by itself");
    for (; n && !r->d.wrong; n--)
        get_passing_one(r);
}

/* ---- boots ---- */

static void get_former(struct restore *r, struct node *node)
{
    struct decoder *d = &r->d;
    struct text_view boot_id = get_name(d, APPLY_NAME_MAX);
    uint64_t last_lease = get_u64(d);
    uint32_t n_returns = get_u32(d);
    uint32_t n = get_count(d, 4, FORMER_UIDS);
    struct former *former;

    if (!d->wrong && last_lease > r->fsm->last_lease)
        (void)decoder_fail(d, "a boot of before knows of a lease that was not");
    if (d->wrong)
        return;
    former = former_add(r->fsm, node, NULL);
    former->boot_id = copy_text(r->fsm, boot_id);
    former->last_lease = last_lease;
    former->n_returns = n_returns;
    for (; n; n--)
        former_add_uid(former, get_u32(d));
}

static void get_boots(struct restore *r)
{
    struct decoder *d = &r->d;
    struct text_view name = get_name(d, APPLY_NAME_MAX);
    struct node *node = d->wrong ? NULL : node_find(r->fsm, name.text, name.len);
    bool cloned = get_bool(d);
    struct text_view texts[3] = {get_text(d, APPLY_NAME_MAX), get_text(d, APPLY_NAME_MAX),
                                 get_text(d, APPLY_NAME_MAX)};
    int64_t heard_wall_ms = get_time(d);
    uint32_t n = get_count(d, 16, NODE_FORMERS);

    if (!d->wrong && (!node || node->n_formers || node->pub.rival.boot_id ||
                      (!n && !texts[2].len) || (cloned && node->health != HEALTH_LOST)))
        (void)decoder_fail(d, "the boots of a node can not be");
    if (d->wrong)
        return;
    node->pub.cloned = cloned;
    node->pub.rival = (struct fsm_rival){copy_text(r->fsm, texts[0]), copy_text(r->fsm, texts[1]),
                                         copy_text(r->fsm, texts[2]), heard_wall_ms};
    for (; n && !d->wrong; n--)
        get_former(r, node);
}

/* ---- all of it ---- */

static void get_all(struct restore *r)
{
    struct decoder *d = &r->d;

    get_head(r);
    if (!r->fsm->initialised || d->wrong)
        return;
    get_floors(r);
    for (uint32_t n = get_count(d, 64, FSM_POOLS_MAX); n && !d->wrong; n--)
        get_pool(r);
    for (uint32_t n = get_count(d, 64, FSM_NODES_MAX); n && !d->wrong; n--)
        get_node(r);
    for (uint32_t n = get_count(d, 24, UINT32_MAX); n && !d->wrong; n--)
        get_oath(r);
    get_leases(r);
    check_aside(r);
    for (size_t i = 0; i < r->fsm->n_pools; i++)
        pool_recount_owners(r->fsm, r->fsm->pools[i]);
    for (int ring = 0; ring < 2; ring++)
        for (uint32_t n = get_count(d, 40, UINT32_MAX); n && !d->wrong; n--)
            get_request(r, (enum request_ring)ring);
    if (r->version > 1)
        get_rules(r);
    if (r->version > 2)
        tokens_get(d, &r->fsm->tokens);
    if (r->version == SNAPSHOT_RESTORED || (r->version > SNAPSHOT_RESTORED && get_bool(d)))
        incarnation_get(d, r->fsm);
    if (r->version > SNAPSHOT_RESTORED)
        get_passing(r);
    if (r->version > SNAPSHOT_DOUBLED)
        for (uint32_t n = get_count(d, 24, FSM_NODES_MAX); n && !d->wrong; n--)
            get_boots(r);
}

static const char *check_frame(const uint8_t *bytes, size_t len, uint32_t *ret_version)
{
    struct decoder d = {bytes, bytes + len, NULL};
    uint32_t version, crc;
    uint64_t body;

    if (len < SNAPSHOT_HEAD || memcmp(bytes, SNAPSHOT_MAGIC, 8) != 0)
        return "not a snapshot of ours";
    d.at += 8;
    version = get_u32(&d);
    crc = get_u32(&d);
    body = get_u64(&d);
    if (version < SNAPSHOT_OLDEST || version > SNAPSHOT_VERSION)
        return "of a version that is not known";
    if (body != len - SNAPSHOT_HEAD)
        return "shorter or longer than it says";
    if (digest_crc32c(0, bytes + SNAPSHOT_CRC_FROM, len - SNAPSHOT_CRC_FROM) != crc)
        return "its checksum does not match";
    *ret_version = version;
    return NULL;
}

/* The new state takes the old one's place under the same address. */
static void replace(struct fsm *fsm, struct fsm *new)
{
    struct fsm old;

    pb_arena_done(&fsm->arena);
    pb_arena_done(&new->arena);
    old = *fsm;
    *fsm = *new;
    *new = old;
    pb_arena_init(&fsm->arena, FSM_ARENA_MAX);
    pb_arena_init(&new->arena, FSM_ARENA_MAX);
    for (size_t i = 0; i < fsm->timers.n; i++)
        fsm->timers.heap[i].lease->timers = &fsm->timers;
}

int fsm_restore(struct fsm *fsm, const uint8_t *bytes, size_t len, const char **why)
{
    struct restore r = {0};

    r.d.wrong = check_frame(bytes, len, &r.version);
    if (fsm_new(&r.fsm) < 0)
        return -ENOMEM;
    if (!r.d.wrong) {
        r.d = (struct decoder){bytes + SNAPSHOT_HEAD, bytes + len, NULL};
        get_all(&r);
        if (!r.d.wrong && r.d.at != r.d.end)
            r.d.wrong = "bytes are left over";
        if (!r.d.wrong)
            r.d.wrong = fsm_verify(r.fsm);
    }
    if (!r.d.wrong)
        replace(fsm, r.fsm);
    fsm_free(r.fsm);
    free(r.retired);
    if (!r.d.wrong)
        return 0;
    if (why)
        *why = r.d.wrong;
    return -EBADMSG;
}
