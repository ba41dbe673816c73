#include "leased/watch/lease_proto.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

static const struct {
    uint32_t bit;
    const char *word;
} reason_words[LEASE_PROTO_REASONS] = {
    {QUARANTINE_DIRTY, "dirty"},      {QUARANTINE_MEMBER_LOST, "member-lost"},
    {QUARANTINE_OVERDUE, "overdue"},  {QUARANTINE_STRAY, "stray"},
    {QUARANTINE_OATH, "oath-broken"}, {QUARANTINE_RESTORED, "restored"},
};

const char *lease_proto_cause(enum end_cause cause)
{
    static const char *const words[] = {"",        "release",       "expired",     "revoked",
                                        "refused", "ready-timeout", "member-lost", "stray",
                                        "restored"};

    return (size_t)cause < sizeof words / sizeof words[0] ? words[cause] : "";
}

const char *lease_proto_state_word(enum lease_state state)
{
    static const char *const words[] = {"",        "granted", "active", "draining", "normalising",
                                        "cooling", "retired", "free"};

    return (size_t)state < sizeof words / sizeof words[0] ? words[state] : "";
}

const char *node_proto_state_word(enum node_state state)
{
    static const char *const words[] = {"",     "ready",   "draining", "cordoned",
                                        "lost", "unknown", "fenced"};

    return (size_t)state < sizeof words / sizeof words[0] ? words[state] : "";
}

/* protobuf-c's strings are not const; packing only reads them. */
static char *borrow(const char *text)
{
    return text ? (char *)text : (char *)"";
}

static int64_t wall(int64_t cluster_ms, int64_t offset_ms)
{
    return cluster_ms ? cluster_ms + offset_ms : 0;
}

static int fill_members(struct lease_proto *ret, const struct fsm_lease *lease)
{
    Xce__V1__Member *members = ret->few;
    Xce__V1__Member **pointers = ret->few_pointers;

    if (lease->n_members > LEASE_PROTO_INLINE_MEMBERS) {
        ret->many = members = calloc(lease->n_members, sizeof *members);
        ret->many_pointers = pointers = calloc(lease->n_members, sizeof *pointers);
        if (!members || !pointers) {
            lease_proto_done(ret);
            return -ENOMEM;
        }
    }
    for (uint32_t i = 0; i < lease->n_members; i++) {
        const struct fsm_member *member = &lease->members[i];

        xce__v1__member__init(&members[i]);
        members[i].node = borrow(member->node->name);
        members[i].proof = (Xce__V1__MemberProof)member->proof;
        members[i].reason = borrow(member->reason);
        members[i].detail = borrow(member->detail);
        members[i].released = member->released;
        pointers[i] = &members[i];
    }
    ret->message.nodes = pointers;
    ret->message.n_nodes = lease->n_members;
    return 0;
}

size_t lease_proto_reasons(uint32_t quarantine, const char *ret[static LEASE_PROTO_REASONS])
{
    size_t n = 0;

    for (size_t i = 0; i < LEASE_PROTO_REASONS; i++)
        if (quarantine & reason_words[i].bit)
            ret[n++] = reason_words[i].word;
    return n;
}

static void fill_reasons(struct lease_proto *ret, uint32_t quarantine)
{
    const char *words[LEASE_PROTO_REASONS];
    size_t n = lease_proto_reasons(quarantine, words);

    for (size_t i = 0; i < n; i++)
        ret->reasons[i] = borrow(words[i]);
    ret->message.reasons = ret->reasons;
    ret->message.n_reasons = n;
    ret->message.quarantined = n > 0;
}

static void fill_times(Xce__V1__Lease *message, const struct fsm_lease *lease, int64_t offset_ms)
{
    message->expires_ms = wall(lease->expires_ms, offset_ms);
    message->ttl_ms = lease->ttl_ms;
    message->granted_ms = lease->granted_wall_ms;
    message->changed_ms = lease->changed_wall_ms;
}

int lease_proto_init(struct lease_proto *ret, const struct fsm *fsm, const struct fsm_lease *lease,
                     int64_t wall_offset_ms)
{
    Xce__V1__Lease *message = &ret->message;
    const struct fsm_pool *pool = fsm_pool(fsm, lease->pool);

    ret->many = NULL;
    ret->many_pointers = NULL;
    xce__v1__lease__init(message);
    xce__v1__owner__init(&ret->owner);
    (void)name_encode(fsm_prefix(fsm), lease->uid, lease->epoch, ret->name);
    message->lease = lease->id;
    message->uid = message->gid = lease->uid;
    message->epoch = lease->epoch;
    message->name = ret->name;
    message->pool = borrow(lease->pool);
    message->job = borrow(lease->job);
    ret->owner.name = borrow(lease->owner.name);
    ret->owner.uid = lease->owner.uid;
    ret->owner.gid = lease->owner.gid;
    message->owner = &ret->owner;
    message->state = (Xce__V1__LeaseState)lease->state;
    message->revision = lease->revision;
    message->gids = (uint32_t *)lease->gids;
    message->n_gids = lease->n_gids;
    message->home = borrow(pool ? pool->settings.home : NULL);
    message->shell = borrow(pool ? pool->settings.shell : NULL);
    message->end_cause = borrow(lease_proto_cause(lease->cause));
    fill_times(message, lease, wall_offset_ms);
    fill_reasons(ret, lease->quarantine);
    return fill_members(ret, lease);
}

void lease_proto_done(struct lease_proto *proto)
{
    free(proto->many);
    free(proto->many_pointers);
    proto->many = NULL;
    proto->many_pointers = NULL;
}

static ProtobufCBinaryData borrow_bytes(const char *text)
{
    return (ProtobufCBinaryData){.len = text ? strlen(text) : 0, .data = (uint8_t *)borrow(text)};
}

static void fill_settings(Xce__V1__PoolSettings *message, const struct fsm_settings *settings)
{
    xce__v1__pool_settings__init(message);
    message->ttl_min_ms = settings->ttl_min_ms;
    message->ttl_max_ms = settings->ttl_max_ms;
    message->ttl_default_ms = settings->ttl_default_ms;
    message->cooldown_ms = settings->cooldown_ms;
    message->ready_timeout_ms = settings->ready_timeout_ms;
    message->validity_ms = settings->validity_ms;
    message->witnesses = settings->witnesses_all ? XCE__V1__WITNESSES__WITNESSES_ALL
                                                 : XCE__V1__WITNESSES__WITNESSES_CONNECTED;
    message->witnesses_set = true;
    message->max_per_owner = settings->max_per_owner;
    message->max_per_owner_set = true;
    message->home = borrow_bytes(settings->home);
    message->shell = borrow_bytes(settings->shell);
}

static void fill_range(Xce__V1__UidRange *message, const struct fsm_range *range)
{
    xce__v1__uid_range__init(message);
    message->first = range->first;
    message->last = range->last;
}

static int fill_directory(struct pool_proto *ret, const struct fsm_pool *pool)
{
    uint32_t n = pool->n_directory;

    ret->message.directory_none = n == 0;
    if (!n)
        return 0;
    ret->directory = calloc(n, sizeof *ret->directory);
    ret->directory_pointers = calloc(n, sizeof *ret->directory_pointers);
    if (!ret->directory || !ret->directory_pointers)
        return -ENOMEM;
    for (uint32_t i = 0; i < n; i++) {
        fill_range(&ret->directory[i], &pool->directory[i]);
        ret->directory_pointers[i] = &ret->directory[i];
    }
    ret->message.directory_ranges = ret->directory_pointers;
    ret->message.n_directory_ranges = n;
    return 0;
}

static bool is_of(const struct fsm_blocked *blocked, const char *node)
{
    return !node || (blocked->node && !strcmp(blocked->node, node));
}

static void fill_blocked(Xce__V1__BlockedUid *ret, const struct fsm_blocked *blocked)
{
    xce__v1__blocked_uid__init(ret);
    ret->uid = blocked->uid;
    ret->node = borrow(blocked->node);
    ret->reason = borrow(blocked->reason);
    ret->detail = borrow(blocked->detail);
    ret->since_ms = blocked->since_wall_ms;
}

int pool_proto_blocked(struct pool_proto *ret, const struct fsm_pool *pool, const char *node)
{
    size_t n = 0;

    for (uint32_t i = 0; i < pool->n_blocked; i++)
        n += is_of(&pool->blocked[i], node);
    if (!n)
        return 0;
    ret->blocked = calloc(n, sizeof *ret->blocked);
    ret->blocked_pointers = calloc(n, sizeof *ret->blocked_pointers);
    if (!ret->blocked || !ret->blocked_pointers)
        return -ENOMEM;
    for (uint32_t i = 0, at = 0; i < pool->n_blocked; i++)
        if (is_of(&pool->blocked[i], node)) {
            fill_blocked(&ret->blocked[at], &pool->blocked[i]);
            ret->blocked_pointers[at] = &ret->blocked[at];
            at++;
        }
    ret->message.blocked = ret->blocked_pointers;
    ret->message.n_blocked = n;
    return 0;
}

static void fill_counts(struct pool_proto *ret, const struct fsm_pool *pool)
{
    struct fsm_counts counts;

    fsm_pool_counts(pool, &counts);
    xce__v1__pool_counts__init(&ret->counts);
    ret->counts.free = counts.free;
    ret->counts.granted = counts.granted;
    ret->counts.active = counts.active;
    ret->counts.draining = counts.draining;
    ret->counts.normalising = counts.normalising;
    ret->counts.cooling = counts.cooling;
    ret->counts.retired = counts.retired;
    ret->counts.blocked = counts.blocked;
    ret->counts.quarantined = counts.quarantined;
    ret->message.counts = &ret->counts;
}

int pool_proto_init(struct pool_proto *ret, const struct fsm *fsm, const struct fsm_pool *pool,
                    int64_t wall_offset_ms, bool inside)
{
    int64_t due_ms;
    int r;

    memset(ret, 0, sizeof *ret);
    xce__v1__pool__init(&ret->message);
    ret->message.name = borrow(pool->name);
    ret->message.state = pool->retiring ? XCE__V1__POOL_STATE__POOL_STATE_RETIRING
                                        : XCE__V1__POOL_STATE__POOL_STATE_OPEN;
    ret->message.prefix = borrow(fsm_prefix(fsm));
    ret->message.revision = pool->revision;
    fill_range(&ret->range, &pool->range);
    ret->message.range = &ret->range;
    fill_settings(&ret->settings, &pool->settings);
    ret->message.settings = &ret->settings;
    r = fill_directory(ret, pool);
    if (r == 0 && inside)
        r = pool_proto_blocked(ret, pool, NULL);
    if (r < 0) {
        pool_proto_done(ret);
        return r;
    }
    if (!inside)
        return 0;
    fill_counts(ret, pool);
    due_ms = fsm_pool_next_due_ms(fsm, pool);
    ret->message.next_due_ms = due_ms == INT64_MAX ? 0 : wall(due_ms, wall_offset_ms);
    return 0;
}

void pool_proto_done(struct pool_proto *proto)
{
    free(proto->directory);
    free(proto->directory_pointers);
    free(proto->blocked);
    free(proto->blocked_pointers);
    memset(proto, 0, sizeof *proto);
}

static void fill_rival(struct node_proto *ret, const struct fsm_node *node)
{
    xce__v1__node_rival__init(&ret->rival);
    if (!node->rival.boot_id)
        return;
    ret->rival.node = borrow(node->rival.node);
    ret->rival.machine_id = borrow(node->rival.machine_id);
    ret->rival.boot_id = borrow(node->rival.boot_id);
    ret->rival.heard_ms = node->rival.heard_wall_ms;
    ret->rival.cloned = node->cloned;
    ret->message.rival = &ret->rival;
}

void node_proto_init(struct node_proto *proto, const struct fsm_node *node)
{
    Xce__V1__Node *ret = &proto->message;

    xce__v1__node__init(ret);
    ret->node = borrow(node->name);
    ret->state = (Xce__V1__NodeState)node->state;
    ret->reason = borrow(node->reason);
    ret->actor = borrow(node->actor);
    ret->machine_id = borrow(node->machine_id);
    ret->boot_id = borrow(node->boot_id);
    ret->session = node->session;
    ret->watermark = node->watermark;
    ret->leases = node->n_leases;
    ret->revision = node->revision;
    ret->hello_revision = node->hello_revision;
    ret->drained = node->state == NODE_DRAINING && node->n_leases == 0;
    fill_rival(proto, node);
}
