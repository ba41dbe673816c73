/* Leases: where they are kept, and the moves of their state machine. Each move that others may see tells the change hook.
 *
 *   granted ─▶ active ─▶ draining ─▶ cooling ─▶ retired ─▶ free
 *      └────────────────────▲  ▲─────────┴──────────┘  (stray) */
#ifndef XCE_LEASED_FSM_LEASE_H
#define XCE_LEASED_FSM_LEASE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "leased/fsm/fsm.h"

struct lease;
struct node;
struct pool;

/* ---- finding (lease_table.c) ---- */

struct lease *lease_find(const struct fsm *fsm, uint64_t id);
struct lease *lease_of_uid(const struct fsm *fsm, uint32_t uid);
struct lease *lease_at(const struct fsm *fsm, uint32_t number);
/* Granted or active. */
struct lease *lease_of_job(const struct fsm *fsm, uint32_t owner_uid, const void *job, size_t len);
uint32_t lease_job_hash(const struct fsm *fsm, uint32_t owner_uid, const void *job, size_t len);

static inline bool lease_live(const struct fsm_lease *lease)
{
    return lease->state == LEASE_GRANTED || lease->state == LEASE_ACTIVE;
}

/* ---- keeping (lease_table.c) ---- */

/* A zeroed lease with this id (greater than every other) in the table. */
struct lease *lease_table_add(struct fsm *fsm, uint64_t id);
/* Out of the table, all memory of it freed. In no list any more. */
void lease_table_drop(struct fsm *fsm, struct lease *lease);
void lease_table_done(struct fsm *fsm);
void lease_jobs_add(struct fsm *fsm, struct lease *lease);
void lease_jobs_drop(struct fsm *fsm, struct lease *lease);
void lease_reserve_members(struct lease *lease, uint32_t n);
/* The index of the new member. */
uint32_t lease_add_member(struct fsm *fsm, struct lease *lease, struct node *node);
/* NO_SLOT = it is no member. */
uint32_t lease_member_index(const struct lease *lease, const struct node *node);
struct fsm_member *lease_member(struct lease *lease, uint32_t i);
/* Whether its state waits for this member's proof. */
bool lease_owes(const struct lease *lease, const struct fsm_member *member);
/* Whether it was added to a lease that is active, and is not ready yet. */
bool lease_joins(const struct lease *lease, uint32_t i);
/* As it is now it has been told: by its last change, or by the snapshot that it is out of. */
void lease_told(struct lease *lease);
void lease_count_owed(struct lease *lease);
void lease_set_proof(struct fsm *fsm, struct lease *lease, uint32_t i, enum member_proof proof,
                     const char *reason, const char *detail);

/* ---- moves (lease.c) ---- */

struct lease_spec {
    struct pool *pool;
    const void *job;
    size_t job_len;
    const void *owner_name;
    size_t owner_name_len;
    uint32_t owner_uid, owner_gid;
    int64_t ttl_ms; /* 0 = none */
    struct node **nodes;
    uint32_t n_nodes;
    bool all_nodes;
    const uint32_t *gids;
    uint32_t n_gids;
    uint8_t tries;
};

/* The pool must have a free uid. */
struct lease *lease_grant(struct fsm *fsm, const struct lease_spec *spec);
/* The backup that was restored does not know of it, a node does: a lease of that uid and epoch, draining. */
void lease_make_lost(struct fsm *fsm, const struct lease_spec *spec, uint32_t i, uint32_t epoch,
                     const char *detail);
/* A backup was restored: whatever it had got to, it drains, and nothing that was proved before counts. */
void lease_drain_anew(struct fsm *fsm, struct lease *lease);
/* Granted or active: it ends. detail: a sentence, NULL = none. */
void lease_end(struct fsm *fsm, struct lease *lease, enum end_cause cause, const char *detail);
/* Cooling or retired: back to draining, for a member owes a proof again. Tells nobody: lease_proved must follow. */
void lease_back(struct fsm *fsm, struct lease *lease);
/* Proofs have changed: tell it, and go on as far as they allow. */
void lease_proved(struct fsm *fsm, struct lease *lease);
void lease_retire(struct fsm *fsm, struct lease *lease);
void lease_free(struct fsm *fsm, struct lease *lease);
/* Work out the quarantine reasons again; true = they differ. */
bool lease_requarantine(struct fsm *fsm, struct lease *lease);
/* Put the clock of its state into the right heap. */
void lease_set_timer(struct fsm *fsm, struct lease *lease);
/* Count it in its pool as being in its state (n = 1), or not any more (n = -1). */
void lease_count(struct lease *lease, int n);
/* Behind the last retired one. */
void lease_queue_retired(struct fsm *fsm, struct lease *lease);

/* ---- members that come and go while it lives (member.c) ---- */

/* Granted or active: this member goes, and owes its proof. The last one takes the lease with it, which ends as told. */
void lease_let_go(struct fsm *fsm, struct lease *lease, uint32_t i, enum end_cause cause,
                  const char *detail);
/* Its clock to be ready is over: granted, the lease ends; active, those who were added and are late are let go. */
void lease_late(struct fsm *fsm, struct lease *lease);
/* Granted or active: members from now on, not such as are already. Tells nobody. */
void lease_join(struct fsm *fsm, struct lease *lease, struct node *const *nodes, uint32_t n);

#endif
