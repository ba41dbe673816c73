/* What would release what `explain` names, in words that can be typed: with the node, the lease and the uid that are meant. */
#ifndef XCE_LEASED_SERVICE_CURE_H
#define XCE_LEASED_SERVICE_CURE_H

#include "leased/fsm/fsm.h"

#define CURE_MAX 320

/* A member that is not ready yet. */
const char *cure_late(const struct fsm_lease *lease, const struct fsm_member *member,
                      char ret[static CURE_MAX]);
/* A member that has not proved it clean. */
const char *cure_unproved(const struct fsm_member *member, char ret[static CURE_MAX]);
/* A node that has not passed over the range, or is waited for since a backup was restored. hangs: a look there does. */
const char *cure_unseen(const struct fsm_node *node, bool hangs, char ret[static CURE_MAX]);
/* A uid that no lease holds; blocked NULL = nobody knows why. */
const char *cure_blocked(const struct fsm *fsm, const struct fsm_pool *pool, uint32_t uid,
                         const struct fsm_blocked *blocked, char ret[static CURE_MAX]);

/* One of a lease's quarantine reasons that no member shows by itself: stray, oath-broken, overdue, restored. */
struct cure_reason {
    uint32_t reason; /* enum quarantine; 0 ends the table */
    const char *word, *detail;
};
extern const struct cure_reason cure_reasons[];
const char *cure_quarantined(const struct fsm_lease *lease, uint32_t reason,
                             char ret[static CURE_MAX]);

#endif
