/* What a replica that does not lead passes on to the one that does: commands and reads. So every replica serves every request.
 *
 *   propose ─▶ line ─ round to the leader ─▶ accepted ─ its entry is applied here ─▶ done(0, outcome)
 *                          │ refused: done(-errno)     │ a snapshot takes its place: done(-ECONNABORTED)
 *                          └ stream or leader gone: done(-ECONNABORTED)
 *   read ─▶ next ─ round to the leader ─▶ confirmed at its entry N ─ N is applied here ─▶ done(0)
 *
 * A command bears its origin: a number of ours, counted from a random one, that comes back with the entry. One round of
 * commands and one of reads is under way at a time, so commands keep their order; what comes meanwhile goes with the next.
 * Nothing is passed on twice: who is told that the outcome is unknown asks again, under the same request id. */
#ifndef XCE_LEASED_ENGINE_RAFT_PASS_H
#define XCE_LEASED_ENGINE_RAFT_PASS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "leased/engine/engine.h"
#include "xce/v1/replica.pb-c.h"

struct raft_pass;
struct replica;

int raft_pass_new(struct replica *replica, struct raft_pass **ret);
/* After raft_pass_close. */
void raft_pass_free(struct raft_pass *pass);

/* ---- here ---- */

/* As engine_propose and engine_read_barrier. */
void raft_pass_propose(struct raft_pass *pass, const uint8_t *command, size_t len,
                       engine_done_fn done, void *arg);
void raft_pass_read(struct raft_pass *pass, engine_ready_fn done, void *arg);
/* Begin rounds, or give them up if somebody else leads by now. From the engine's flush and its tick. */
void raft_pass_flush(struct raft_pass *pass);
/* Send one of another kind to the leader, of which raft_ask.h hears. Its stream and number; 0: nobody else is known to lead,
 * or there is no stream. */
uint64_t raft_pass_send(struct raft_pass *pass, const Xce__V1__PassRequest *request,
                        uint64_t *ret_number);
/* An answer has come; no answer comes on that stream any more. */
void raft_pass_answered(struct raft_pass *pass, uint64_t link, uint64_t number,
                        const uint8_t *bytes, size_t len);
void raft_pass_ended(struct raft_pass *pass, uint64_t link);
/* A command that some replica passed on has been applied. */
void raft_pass_applied(struct raft_pass *pass, const struct fsm_outcome *outcome);
/* Everything up to entry is applied; restored: by a snapshot, which may hold commands of ours. */
void raft_pass_reached(struct raft_pass *pass, uint64_t entry, bool restored);
/* This replica's disk takes nothing: what waits to be applied here is answered -ECONNABORTED (commands) or -EIO (reads). */
void raft_pass_stalled(struct raft_pass *pass);
/* Everything that waits is answered -ECANCELED. */
void raft_pass_close(struct raft_pass *pass);

/* ---- at the leader ---- */

/* Another replica has passed this on; it is answered on that stream. */
void raft_pass_take(struct replica *replica, uint64_t link, uint64_t number, const uint8_t *bytes,
                    size_t len);

/* An errno of the engine in the words of the wire. */
Xce__V1__PassResult raft_pass_result(int r);

#endif
