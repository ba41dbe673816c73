#include "leased/watch/hub.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/queue.h>

#include "leased/watch/lease_proto.h"
#include "leased/watch/ring.h"

#define RING_BYTES_DEFAULT (8u << 20)
#define BUCKETS            4096u

/* following: position moves along the ring.
 * skipped ─▶ listing: leases in the order of their ids, each as it is when its turn comes. Before each of them the
 * changes since are given out, but only of leases listed already: so nothing is told twice, nothing goes back in time, and
 * whenever the list is through it shows everything up to position. */
enum stage {
    STAGE_FOLLOWING,
    STAGE_SKIPPED,
    STAGE_LISTING,
};

TAILQ_HEAD(waiters, hub_subscription);

/* idle: in hub->eager or, when it has a node that concerns it, in hub->patient ─▶ hub->waking ─▶ called: in none of them */
struct hub_subscription {
    struct hub *hub;
    struct hub_filter filter;
    char *node;
    uint32_t node_hash, concern_hash;
    hub_ready_fn ready;
    void *arg;
    enum stage stage;
    uint64_t position;
    uint64_t listed;    /* id of the lease listed last */
    struct waiters *on; /* NULL: does not wait to be called */
    TAILQ_ENTRY(hub_subscription) waiter;
    int64_t idle_ms; /* when it had taken all there was */
    LIST_ENTRY(hub_subscription) concerned;
    uint8_t *bytes; /* of the lease listed last */
    size_t room;
    struct hub_subscription *next, **place;
};

struct hub {
    const struct fsm *fsm;
    struct ring ring;
    int64_t (*wall_ms)(void);
    int64_t (*cluster_ms)(void *arg);
    void *cluster_arg;
    struct hub_subscription *subscriptions;
    /* By the time since when they are idle, and so by position. */
    struct waiters eager, patient, waking;
    LIST_HEAD(, hub_subscription) by_concern[BUCKETS];
    uint64_t flushed; /* revision that hub_flush has looked up to */
    int64_t now_ms;   /* of the last flush */
};

int hub_new(const struct fsm *fsm, size_t ring_bytes, int64_t (*wall_ms)(void), struct hub **ret)
{
    struct hub *hub = calloc(1, sizeof *hub);
    int r = hub ? ring_init(&hub->ring, ring_bytes ? ring_bytes : RING_BYTES_DEFAULT) : -ENOMEM;

    if (r < 0) {
        free(hub);
        return r;
    }
    hub->fsm = fsm;
    hub->wall_ms = wall_ms;
    TAILQ_INIT(&hub->eager);
    TAILQ_INIT(&hub->patient);
    TAILQ_INIT(&hub->waking);
    *ret = hub;
    return 0;
}

void hub_set_clock(struct hub *hub, int64_t (*now_ms)(void *arg), void *arg)
{
    hub->cluster_ms = now_ms;
    hub->cluster_arg = arg;
}

void hub_free(struct hub *hub)
{
    if (!hub)
        return;
    while (hub->subscriptions)
        hub_unsubscribe(hub->subscriptions);
    ring_done(&hub->ring);
    free(hub);
}

void hub_changed(struct hub *hub, const struct fsm_change *change)
{
    ring_add(&hub->ring, hub->fsm, change, hub->wall_ms() - change->now_ms);
}

/* ---- who waits ---- */

static void move_to(struct hub_subscription *subscription, struct waiters *to)
{
    if (subscription->on)
        TAILQ_REMOVE(subscription->on, subscription, waiter);
    subscription->on = to;
    if (to)
        TAILQ_INSERT_TAIL(to, subscription, waiter);
}

static void wait_for_more(struct hub_subscription *subscription)
{
    struct hub *hub = subscription->hub;

    subscription->idle_ms = hub->now_ms;
    move_to(subscription, subscription->filter.concerns ? &hub->patient : &hub->eager);
}

static void wake_all(struct waiters *waiters, uint64_t revision)
{
    struct hub_subscription *subscription = TAILQ_FIRST(waiters), *next;

    for (; subscription; subscription = next) {
        next = TAILQ_NEXT(subscription, waiter);
        if (subscription->position < revision)
            move_to(subscription, &subscription->hub->waking);
    }
}

static void wake_concerned(struct hub *hub, uint32_t hash)
{
    struct hub_subscription *subscription;

    LIST_FOREACH(subscription, &hub->by_concern[hash % BUCKETS], concerned)
    if (subscription->concern_hash == hash && subscription->on == &hub->patient)
        move_to(subscription, &hub->waking);
}

static void wake_by(struct hub *hub, const struct ring_entry *entry)
{
    switch (entry->kind) {
    case CHANGE_LEASE:
        for (uint32_t i = 0; i < entry->n_members; i++)
            wake_concerned(hub, entry->members[i]);
        break;
    case CHANGE_NODE:
    case CHANGE_NODE_GONE:
        wake_concerned(hub, ring_hash((const char *)ring_bytes(entry)));
        break;
    case CHANGE_POOL:
    case CHANGE_POOL_GONE:
        wake_all(&hub->patient, entry->revision);
        break;
    case CHANGE_RULES:
        break;
    }
}

/* Those whom a change since the last time concerns. */
static void wake_patient(struct hub *hub, uint64_t revision)
{
    if (TAILQ_EMPTY(&hub->patient))
        hub->flushed = revision;
    while (hub->flushed < revision) {
        const struct ring_entry *entry = ring_at(&hub->ring, hub->flushed + 1);

        if (entry) {
            wake_by(hub, entry);
            hub->flushed++;
        } else {
            wake_all(&hub->patient, revision);
            hub->flushed = revision;
        }
    }
}

static void wake_due(struct hub *hub, uint64_t revision)
{
    struct hub_subscription *subscription;

    while ((subscription = TAILQ_FIRST(&hub->patient)) && subscription->position < revision &&
           hub->now_ms - subscription->idle_ms >= HUB_PATIENCE_MS)
        move_to(subscription, &hub->waking);
}

void hub_flush(struct hub *hub, int64_t now_ms)
{
    uint64_t revision = fsm_revision(hub->fsm);
    struct hub_subscription *subscription;

    hub->now_ms = now_ms;
    if (hub->flushed > revision)
        hub->flushed = revision; /* another state has taken its place */
    wake_all(&hub->eager, revision);
    wake_patient(hub, revision);
    wake_due(hub, revision);
    while ((subscription = TAILQ_FIRST(&hub->waking))) {
        move_to(subscription, NULL);
        subscription->ready(subscription->arg);
    }
}

bool hub_keeps(const struct hub *hub, uint64_t since)
{
    uint64_t revision = fsm_revision(hub->fsm);

    return since == revision || (since < revision && ring_at(&hub->ring, since + 1));
}

int hub_subscribe(struct hub *hub, uint64_t since, const struct hub_filter *filter,
                  hub_ready_fn ready, void *arg, struct hub_subscription **ret)
{
    struct hub_subscription *subscription = calloc(1, sizeof *subscription);

    if (!subscription)
        return -ENOMEM;
    subscription->filter = *filter;
    if (filter->node) {
        subscription->node = strdup(filter->node);
        if (!subscription->node) {
            free(subscription);
            return -ENOMEM;
        }
        subscription->node_hash = ring_hash(filter->node);
    }
    if (filter->concerns) {
        subscription->concern_hash = ring_hash(filter->concerns);
        LIST_INSERT_HEAD(&hub->by_concern[subscription->concern_hash % BUCKETS], subscription,
                         concerned);
    }
    subscription->hub = hub;
    subscription->ready = ready;
    subscription->arg = arg;
    subscription->position = since;
    if (!hub_keeps(hub, since)) {
        subscription->stage = since == HUB_SINCE_LIST ? STAGE_LISTING : STAGE_SKIPPED;
        subscription->position = fsm_revision(hub->fsm);
    }
    subscription->next = hub->subscriptions;
    subscription->place = &hub->subscriptions;
    if (subscription->next)
        subscription->next->place = &subscription->next;
    hub->subscriptions = subscription;
    *ret = subscription;
    return 0;
}

void hub_unsubscribe(struct hub_subscription *subscription)
{
    if (!subscription)
        return;
    move_to(subscription, NULL);
    if (subscription->filter.concerns)
        LIST_REMOVE(subscription, concerned);
    *subscription->place = subscription->next;
    if (subscription->next)
        subscription->next->place = subscription->place;
    free(subscription->node);
    free(subscription->bytes);
    free(subscription);
}

/* ---- from the ring ---- */

static enum hub_event_kind kind_of(enum fsm_change_kind kind)
{
    switch (kind) {
    case CHANGE_LEASE:
        return HUB_LEASE;
    case CHANGE_POOL:
        return HUB_POOL;
    case CHANGE_POOL_GONE:
        return HUB_POOL_GONE;
    case CHANGE_NODE:
        return HUB_NODE;
    case CHANGE_NODE_GONE:
        return HUB_NODE_GONE;
    case CHANGE_RULES:
        break; /* shows() tells nobody */
    }
    abort();
}

static bool sees(const struct hub_subscription *subscription, const char *owner_name,
                 uint32_t owner_uid)
{
    const struct hub_filter *filter = &subscription->filter;

    return !filter->sees || filter->sees(owner_name, owner_uid, filter->sees_arg);
}

static bool shows(const struct hub_subscription *subscription, const struct ring_entry *entry)
{
    if (entry->kind != CHANGE_LEASE)
        return !subscription->filter.leases_only && entry->kind != CHANGE_RULES;
    if (subscription->stage == STAGE_LISTING && entry->lease > subscription->listed)
        return false; /* its turn in the list comes */
    if (!sees(subscription, ring_owner(entry), entry->owner_uid))
        return false;
    return !subscription->node || ring_names(entry, subscription->node_hash);
}

static void fill(const struct ring_entry *entry, struct hub_event *ret)
{
    *ret = (struct hub_event){.kind = kind_of(entry->kind), .revision = entry->revision};
    if (entry->kind != CHANGE_LEASE) {
        ret->name = (const char *)ring_bytes(entry);
        return;
    }
    ret->uid = entry->uid;
    ret->state = entry->state;
    ret->lease = ring_bytes(entry);
    ret->lease_len = entry->len;
}

/* The next change after position that it may see. 1 set; 0 there is none; HUB_SKIPPED the ring has gone on without it. */
static int next_change(struct hub_subscription *subscription, struct hub_event *ret)
{
    uint64_t revision = fsm_revision(subscription->hub->fsm);

    while (subscription->position < revision) {
        const struct ring_entry *entry = ring_at(&subscription->hub->ring,
                                                 subscription->position + 1);

        if (!entry)
            return HUB_SKIPPED;
        subscription->position++;
        if (!shows(subscription, entry))
            continue;
        fill(entry, ret);
        return 1;
    }
    return 0;
}

/* ---- the list ---- */

static bool lists(const struct hub_subscription *subscription, const struct fsm_lease *lease)
{
    if (!sees(subscription, lease->owner.name, lease->owner.uid))
        return false;
    if (!subscription->node)
        return true;
    for (uint32_t i = 0; i < lease->n_members; i++)
        if (!strcmp(lease->members[i].node->name, subscription->node))
            return true;
    return false;
}

static int64_t wall_offset_ms(const struct hub *hub)
{
    return hub->wall_ms() -
           (hub->cluster_ms ? hub->cluster_ms(hub->cluster_arg) : fsm_now_ms(hub->fsm));
}

/* 0; -ENOMEM. */
static int pack(struct hub_subscription *subscription, const struct fsm_lease *lease,
                struct hub_event *ret)
{
    const struct fsm *fsm = subscription->hub->fsm;
    struct lease_proto proto;
    size_t len;
    int r = lease_proto_init(&proto, fsm, lease, wall_offset_ms(subscription->hub));

    if (r < 0)
        return r;
    len = xce__v1__lease__get_packed_size(&proto.message);
    if (len > subscription->room) {
        free(subscription->bytes);
        subscription->bytes = malloc(len);
        subscription->room = subscription->bytes ? len : 0;
    }
    if (subscription->bytes) {
        (void)xce__v1__lease__pack(&proto.message, subscription->bytes);
        *ret = (struct hub_event){
            .kind = HUB_LISTED,
            .revision = subscription->position,
            .uid = lease->uid,
            .state = lease->state,
            .lease = subscription->bytes,
            .lease_len = len,
        };
    }
    lease_proto_done(&proto);
    return subscription->bytes ? 0 : -ENOMEM;
}

static int next_listed(struct hub_subscription *subscription, struct hub_event *ret)
{
    const struct fsm_lease *lease;

    while ((lease = fsm_lease_next(subscription->hub->fsm, subscription->listed))) {
        if (lists(subscription, lease) && pack(subscription, lease, ret) < 0) {
            wait_for_more(subscription); /* no memory now: it goes on with the next change */
            return 0;
        }
        subscription->listed = lease->id;
        if (lists(subscription, lease))
            return 1;
    }
    subscription->stage = STAGE_FOLLOWING;
    *ret = (struct hub_event){.kind = HUB_SYNCED, .revision = subscription->position};
    return 1;
}

static int skip(struct hub_subscription *subscription, struct hub_event *ret)
{
    subscription->stage = STAGE_LISTING;
    subscription->listed = 0;
    subscription->position = fsm_revision(subscription->hub->fsm);
    *ret = (struct hub_event){.kind = HUB_SKIPPED, .revision = subscription->position};
    return 1;
}

int hub_next(struct hub_subscription *subscription, struct hub_event *ret)
{
    int r;

    if (subscription->stage == STAGE_SKIPPED)
        return skip(subscription, ret);
    r = next_change(subscription, ret);
    if (r == HUB_SKIPPED)
        return skip(subscription, ret);
    if (r == 0 && subscription->stage == STAGE_LISTING)
        return next_listed(subscription, ret);
    if (r == 0)
        wait_for_more(subscription);
    else
        move_to(subscription, NULL);
    return r;
}

uint64_t hub_position(const struct hub_subscription *subscription)
{
    return subscription->position;
}
