/* Changes of the members that a replica is asked for that does not lead: passed on to the one that does, by the streams of
 * raft_pass.h. Nothing is passed on twice: who is told that the outcome is unknown looks at the members and asks again. */
#ifndef XCE_LEASED_ENGINE_RAFT_ASK_H
#define XCE_LEASED_ENGINE_RAFT_ASK_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "leased/engine/replica.h"
#include "xce/v1/replica.pb-c.h"

struct replica;

/* ---- here ---- */

/* name NULL: none; address: of the one that is added, else NULL. false: nobody else is known to lead, done will not be called. */
bool raft_ask(struct replica *replica, Xce__V1__MemberChangeKind kind, const char *name,
              const char *address, replica_done_fn done, void *arg);
/* An answer to number has come on that stream. */
void raft_ask_answered(struct replica *replica, uint64_t link, uint64_t number,
                       const Xce__V1__PassReply *reply);
/* No answer comes on that stream any more (0: on any); r is what is said. */
void raft_ask_ended(struct replica *replica, uint64_t link, int r);

/* Nor from one that does not lead any more. */
void raft_ask_tick(struct replica *replica);

/* ---- at the leader ---- */

/* Another replica has passed this on; done is called once, also when it can not be read. */
void raft_ask_take(struct replica *replica, const Xce__V1__MemberChange *change,
                   replica_done_fn done, void *arg);
/* What to answer; borrows why. */
void raft_ask_result(int r, const char *why, Xce__V1__MemberChanged *ret);

#endif
