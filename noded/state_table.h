/* The uids this node has ever seen, and the leases it holds. Internal to state_*.c. */
#ifndef XCE_NODED_STATE_TABLE_H
#define XCE_NODED_STATE_TABLE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "noded/state.h"

enum step {
    STEP_NOT = 0,
    STEP_QUEUED,
    STEP_RUNNING,
    STEP_DONE, /* of a sweep: clean */
    STEP_BAD,  /* of a sweep: dirty, waits for its next time */
};

/* A lease that was not admitted yet: what the map will want. */
struct waiting_lease {
    uint16_t home, shell; /* where in text; gecos is at 0 */
    uint32_t n_gids;
    const char *text;
    uint32_t gids[];
};

/* One of these for each lease: kept small. The small numbers are of the enums that are named beside them. */
struct slot {
    uint64_t lease, revision;
    uint32_t uid, epoch, owner;
    uint64_t owner_name; /* its digest */
    int64_t said_ms, retry_ms;
    char *detail; /* of refused or reason; NULL */
    struct waiting_lease *waiting;
    uint8_t phase;      /* state_phase */
    uint8_t proof;      /* state_proof, as leased has it */
    uint8_t vet, sweep; /* step */
    uint8_t said;       /* state_say, in this session */
    uint8_t said_reason;
    uint8_t refused; /* reason, of an admission that was closed by this node itself; 0 */
    uint8_t reason;  /* of the dirty sweep */
    uint8_t tries;
    bool member : 1, released : 1;
    bool closed : 1;      /* admission, for good */
    bool written : 1;     /* the map holds it */
    bool admitted : 1;    /* vetted, and written as a member's: here unless closed */
    bool listed : 1;      /* in the full list that is coming in */
    bool sweep_again : 1; /* what runs is not enough */
    bool was_dirty : 1;
    bool killing : 1; /* is in state->kills */
    bool unseen : 1;  /* is in state->unseen */
};

struct seen {
    uint32_t uid, epoch;
    struct slot *slot; /* of that epoch; NULL = no lease */
    bool closed, swept;
    bool on_disk, closed_on_disk, swept_on_disk;
    bool queued; /* in state->persist_queue */
    bool left;   /* in state->left */
    bool behind; /* and the disk still has the epoch that is */
};

/* Open addressing, never shrinks. Pointers die with the next table_put. */
struct table {
    struct seen *seen;
    size_t n, cap;
};

struct seen *table_find(const struct table *table, uint32_t uid);
/* Find or add (epoch 0). */
struct seen *table_put(struct table *table, uint32_t uid);
void table_done(struct table *table);
/* Walk: the next one at or behind *at that is in use. */
struct seen *table_next(const struct table *table, size_t *at);

/* Which uid a lease has: open addressing, where entries stay when the lease has gone, until the next time that it grows. */
struct lease_index {
    uint32_t *uids; /* 0 = nothing */
    size_t n, cap;
};

/* The uid has a slot of that lease in the table. */
void lease_index_put(struct lease_index *index, const struct table *table, uint64_t lease,
                     uint32_t uid);
/* 0 = none in the table. */
uint32_t lease_index_find(const struct lease_index *index, const struct table *table,
                          uint64_t lease);
void lease_index_done(struct lease_index *index);

/* A growing row of uids. */
struct uids {
    uint32_t *items;
    size_t n, cap;
};

void uids_add(struct uids *uids, uint32_t uid);
void uids_done(struct uids *uids);

struct waiting_lease *waiting_new(const struct state_lease *lease);
void waiting_free(struct waiting_lease *waiting);

#endif
