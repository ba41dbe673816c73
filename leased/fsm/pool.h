/* Pools: ranges of uids, who is next in line, which uids are aside, and the rules of where a range may lie. */
#ifndef XCE_LEASED_FSM_POOL_H
#define XCE_LEASED_FSM_POOL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "leased/fsm/state.h"

struct pool *pool_find(const struct fsm *fsm, const void *name, size_t len);
struct pool *pool_of_uid(const struct fsm *fsm, uint32_t uid);

/* ---- the line: free uids, longest unused first (pool_line.c). Indexes count from range.first. ---- */

void pool_line_append(struct pool *pool, uint32_t i);
/* Before all others: uids that were never used. Give them last to first. */
void pool_line_prepend(struct pool *pool, uint32_t i);
/* Out of the middle. */
void pool_line_remove(struct pool *pool, uint32_t i);
/* The first, out of line, for this lease; its epoch is one higher. The line must not be empty. Returns its index. */
uint32_t pool_take(struct pool *pool, uint32_t lease_number);
/* That one, in line or aside, for a lease that was granted before in another incarnation, under this epoch. */
void pool_take_lost(struct pool *pool, uint32_t i, uint32_t lease_number, uint32_t epoch);
/* A lease is over: to the end of the line, or aside. */
void pool_give_back(struct fsm *fsm, struct pool *pool, uint32_t i);
void pool_put_aside(struct pool *pool, uint32_t i);
/* It retires, and holds no lease and no uid that rests on a false oath: */
bool pool_is_over(const struct pool *pool);
/* it goes. */
void pool_leave_if_empty(struct fsm *fsm, struct pool *pool);

/* ---- blocked uids (pool_block.c) ---- */

/* Never give it out (again) until an administrator says so, or what its nodes had to clean up is gone: each of them says for
 * itself, and for each reason, that it is. Where there is no room to remember one more finding, one that is known stays.
 * true: the uid stays blocked, or is so at all, by this alone. Tells the change. */
bool pool_block(struct fsm *fsm, struct pool *pool, uint32_t i, const struct node *node,
                const char *reason, const char *detail);
/* Whether that finding of the node is listed. */
bool pool_block_knows(struct pool *pool, uint32_t uid, const struct node *node, const char *reason);
/* Blocked, whatever for: to the end of the line, unless it is leased. Tells the change. */
void pool_unblock(struct fsm *fsm, struct pool *pool, uint32_t i);
/* Whether what a node blocks for this reason is a thing that it cleans up, and so leaves by itself. */
bool pool_block_passes(const char *reason);
/* Whether there is room for it to leave by itself: only so many are listed, and only what is listed can. */
bool pool_block_leaves(const struct pool *pool, const char *reason);
/* The node has another watermark: what it had blocked before for a stray is not blocked by it any more. */
void pool_strays_gone(struct fsm *fsm, const struct node *node);
/* It has nothing of that uid any more. */
void pool_leftover_gone(struct fsm *fsm, const struct node *node, uint32_t uid);
/* It is forgotten, and says nothing of them any more. */
void pool_blocks_stay(struct fsm *fsm, struct node *node);
/* How many leave by themselves, of this node or (NULL) of all. */
size_t pool_blocks_passing(const struct fsm *fsm, const struct node *node);
/* Whether some uid is in a list more than once. */
bool pool_blocks_doubled(const struct fsm *fsm);

/* ---- making and ending (pool_table.c) ---- */

/* A pool in the tables, its uids neither in line nor aside. All strings copied. Tells nobody. */
struct pool *pool_table_add(struct fsm *fsm, const void *name, size_t len, struct fsm_range range);
/* last is greater than before; the new uids are in no line yet. */
void pool_table_grow(struct fsm *fsm, struct pool *pool, uint32_t last);
void pool_table_drop(struct fsm *fsm, struct pool *pool);
void pool_table_done(struct fsm *fsm);
void pool_set_directory(struct pool *pool, const struct fsm_range *ranges, size_t n);
/* One entry more in the list that is shown, if it is not full. Strings copied. */
void pool_add_blocked(struct fsm *fsm, struct pool *pool, const struct fsm_blocked *blocked);
/* It is in the list of the pool. */
void pool_drop_blocked(struct fsm *fsm, struct pool *pool, const struct fsm_blocked *blocked);
/* Owners with leases granted or active; only kept while max_per_owner counts. NULL = none. */
struct owner_count *pool_owner(struct pool *pool, uint32_t uid, bool make);
void pool_owner_drop_if_zero(struct pool *pool, struct owner_count *owner);
void pool_recount_owners(struct fsm *fsm, struct pool *pool);

/* Epochs of uids that are in no pool (floor.c). */
uint32_t floor_get(const struct fsm *fsm, uint32_t uid);
/* Whether floor_set would need another page. */
bool floor_wants_page(const struct fsm *fsm, uint32_t uid);
/* Raise it; epoch 0 does nothing. */
void floor_set(struct fsm *fsm, uint32_t uid, uint32_t epoch);
/* Of a uid that is in a pool now: what is known here may not stand above its epoch there. */
void floor_cap(struct fsm *fsm, uint32_t uid, uint32_t epoch);
/* Those of uids that are in no pool go on above the gap (incarnation.h). */
void floors_leap(struct fsm *fsm);
void floors_done(struct fsm *fsm);

/* ---- rules (range.c; pure) ---- */

/* NULL = the uid may be in a pool as far as its number tells; else whose it is. Static. */
const char *range_of_others(uint32_t uid);
/* NULL = a pool may lie there as far as arithmetic can tell; else what stands in its way, a sentence in why.
 *   self      the pool that grows, NULL = a new one
 *   own       directory ranges that come with the request */
const char *range_refused(const struct fsm *fsm, struct fsm_range range, const struct pool *self,
                          const struct fsm_range *own, size_t n_own,
                          char why[static FSM_MESSAGE_MAX + 1]);

#endif
