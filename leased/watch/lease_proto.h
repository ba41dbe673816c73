/* FSM objects as messages of the API: the one place where states, proofs and reasons get their words.
 *
 * A filled message borrows its strings from the object; it dies with it or with the done call, whichever is first. */
#ifndef XCE_LEASED_WATCH_LEASE_PROTO_H
#define XCE_LEASED_WATCH_LEASE_PROTO_H

#include <stdint.h>

#include "leased/fsm/fsm.h"
#include "map/name.h"
#include "xce/v1/lease.pb-c.h"
#include "xce/v1/node.pb-c.h"
#include "xce/v1/pool.pb-c.h"

#define LEASE_PROTO_INLINE_MEMBERS 4
#define LEASE_PROTO_REASONS        6

struct lease_proto {
    Xce__V1__Lease message;
    Xce__V1__Owner owner;
    char name[NAME_BUF];
    char *reasons[LEASE_PROTO_REASONS];
    Xce__V1__Member few[LEASE_PROTO_INLINE_MEMBERS];
    Xce__V1__Member *few_pointers[LEASE_PROTO_INLINE_MEMBERS];
    /* Heap when there are more than a few. */
    Xce__V1__Member *many;
    Xce__V1__Member **many_pointers;
};

/* Fill; wall_offset_ms = wall clock minus cluster time now. 0; -ENOMEM (then nothing to undo). O(members). */
int lease_proto_init(struct lease_proto *ret, const struct fsm *fsm, const struct fsm_lease *lease,
                     int64_t wall_offset_ms);
void lease_proto_done(struct lease_proto *proto);

/* The word of an end cause, "" for none. Static. */
const char *lease_proto_cause(enum end_cause cause);
/* The words of a set of enum quarantine bits, and how many. Static. */
size_t lease_proto_reasons(uint32_t quarantine, const char *ret[static LEASE_PROTO_REASONS]);
/* "granted", "active", ... Static. */
const char *lease_proto_state_word(enum lease_state state);

struct pool_proto {
    Xce__V1__Pool message;
    Xce__V1__UidRange range;
    Xce__V1__PoolSettings settings;
    Xce__V1__PoolCounts counts;
    Xce__V1__UidRange *directory;
    Xce__V1__UidRange **directory_pointers;
    Xce__V1__BlockedUid *blocked;
    Xce__V1__BlockedUid **blocked_pointers;
};

/* The same for a pool; inside: counts, blocked uids and due time as well, which only administrators see. */
int pool_proto_init(struct pool_proto *ret, const struct fsm *fsm, const struct fsm_pool *pool,
                    int64_t wall_offset_ms, bool inside);
/* Those of its blocked uids that this node has blocked (NULL = any), in a message that has none. 0; -ENOMEM. */
int pool_proto_blocked(struct pool_proto *ret, const struct fsm_pool *pool, const char *node);
void pool_proto_done(struct pool_proto *proto);

/* A node; heard_ms, listening_ms and connected are the answering replica's to fill. It points into itself. Nothing to undo. */
struct node_proto {
    Xce__V1__Node message;
    Xce__V1__NodeRival rival;
};
void node_proto_init(struct node_proto *ret, const struct fsm_node *node);
/* "ready", "draining", ... Static. */
const char *node_proto_state_word(enum node_state state);

#endif
