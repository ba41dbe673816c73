/* The change feed for everyone who follows it: watchers and node sessions, resumed by revision.
 *
 * The hub keeps recent changes in a ring bounded by bytes, each encoded once. Subscribers pull: they ask for the next
 * event when they can take it, so a slow reader holds nothing but its place. One that falls out of the ring, or resumes
 * from before it, is told so (HUB_SKIPPED) and gets a full list, piece by piece: each lease as it is when its turn comes.
 * Changes of leases listed already come in between, in revision order; so nothing goes back in time, and at HUB_SYNCED
 * everything up to that revision has been told. What is not in the list is gone. One thread: the loop's. */
#ifndef XCE_LEASED_WATCH_HUB_H
#define XCE_LEASED_WATCH_HUB_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "leased/fsm/change.h"

struct fsm;
struct hub;
struct hub_subscription;

enum hub_event_kind {
    HUB_LEASE = 1, /* a change of a lease; lease/lease_len: a packed xce.v1.Lease */
    HUB_POOL = 2,  /* a pool was made or changed: look it up by name */
    HUB_POOL_GONE = 3,
    HUB_NODE = 4, /* likewise */
    HUB_NODE_GONE = 5,
    HUB_SKIPPED = 6, /* changes up to revision are not kept: a full list follows */
    HUB_LISTED = 7,  /* a lease of the full list, as HUB_LEASE */
    HUB_SYNCED = 8,  /* the full list is complete: it shows everything up to revision */
};

struct hub_event {
    enum hub_event_kind kind;
    uint64_t revision;
    uint32_t uid;
    enum lease_state state;
    const uint8_t *lease; /* bytes live until the next call into the hub */
    size_t lease_len;
    const char *name; /* of pool or node */
};

/* What a subscriber sees. All NULL/false = everything. */
struct hub_filter {
    /* Whether he may see leases of this owner; asked for each, with sees_arg. */
    bool (*sees)(const char *owner_name, uint32_t owner_uid, void *arg);
    void *sees_arg;
    const char *node; /* only leases that name this node as a member (copied) */
    bool leases_only; /* no events of pools and nodes */
    /* Called at once for changes of this node, of leases that name it and of pools; for others only when it has had nothing to
     * take for HUB_PATIENCE_MS (copied). NULL: for every change. */
    const char *concerns;
};
#define HUB_PATIENCE_MS 500

/* ready runs from the loop when hub_next has something again after it had nothing. */
typedef void (*hub_ready_fn)(void *arg);

/* ring_bytes: bound of what is kept [8 MiB with 0]. fsm is borrowed. wall_ms: the wall clock, for annotations. */
int hub_new(const struct fsm *fsm, size_t ring_bytes, int64_t (*wall_ms)(void), struct hub **ret);
void hub_free(struct hub *hub);
/* What the cluster time is, for the times of a list: between changes it goes on. Without it, that of the newest change. */
void hub_set_clock(struct hub *hub, int64_t (*now_ms)(void *arg), void *arg);

/* A change has been applied. ready callbacks are NOT called here but by hub_flush, so that a batch wakes each once. */
void hub_changed(struct hub *hub, const struct fsm_change *change);
/* Call who has something to take. now_ms: a clock that only goes on. Also to be called now and then, for those who wait. */
void hub_flush(struct hub *hub, int64_t now_ms);

/* Follow changes after revision since; HUB_SINCE_LIST = a full list first, then what comes. A since in the future of the
 * FSM is a full list too (the caller followed another state). 0; -ENOMEM. */
#define HUB_SINCE_LIST UINT64_MAX
/* The same, but he is told that changes were skipped: what he has must be forgotten. */
#define HUB_SINCE_SKIP (UINT64_MAX - 1)
int hub_subscribe(struct hub *hub, uint64_t since, const struct hub_filter *filter,
                  hub_ready_fn ready, void *arg, struct hub_subscription **ret);
/* Whether a subscription since that revision would begin with changes, not with a full list. */
bool hub_keeps(const struct hub *hub, uint64_t since);
void hub_unsubscribe(struct hub_subscription *subscription);

/* 1 an event is set; 0 nothing now, ready will be called. */
int hub_next(struct hub_subscription *subscription, struct hub_event *ret);

/* Everything up to this revision has been given out by hub_next (also what the filter held back), save what a full list
 * that is not through yet still owes. */
uint64_t hub_position(const struct hub_subscription *subscription);

#endif
