/* What C-Raft 0.22.1 gets wrong with messages, snapshots and changes of the members, kept away from it: a look at each message
 * before it is received and before it is sent, and at what is loaded, read and asked for. Where it has to, it sets fields of
 * struct raft that the library keeps to itself.
 * Used by whoever stands between the library and its raft_io; the simulator (tests/sim) uses the same code, has found most of
 * this, and finds 1, 3, 5, 9, 12, 14 and 15 again when they are taken out (tests/sim/broken). Pure: no loop, no file, no clock.
 *
 * 1. A snapshot that arrives while this replica writes one of its own is kept waiting by the library; until then its log in
 *    memory is one that the leader has replaced. If the commit index moves meanwhile, entries that nobody has agreed to are
 *    applied, and when the own snapshot is done, a null pointer is followed (legacy.c, takeSnapshotCb). Such a
 *    snapshot is dropped; the leader sends it again after its install_snapshot_timeout. So is one that comes while another is
 *    installed: the library would forget to free it.
 * 2. A snapshot is read from disk when it is to be sent; if there is a newer one by then, it goes out with its own index but
 *    with the term of the older one (legacyLoadSnapshotCb). The follower refuses the entries that come next, for ever.
 *    The term is put right. (Not to send it would cost install_snapshot_timeout: the library waits for an answer.)
 * 3. Entries that end below the follower's commit index (a new leader looks for where the logs part) move that index back
 *    when the leader's own is higher (replicationAppend). A snapshot that is taken then bears the lower index, and
 *    after a restart entries are applied twice. The commit index in such a message is cut: it says nothing new.
 * 4. The refusal of entries or of a snapshot of an older term bears a last index that was never set, and for a snapshot it
 *    looks like consent (recvInstallSnapshot). Who has been elected again since takes it as one of the new term: a leader
 *    counts entries as stored that are not, and acknowledges them. Such a refusal is made to say nothing but the term.
 * 5. Who is elected while a majority has no room on its disks is not noted as leader by the library's outer half
 *    (legacyHandleEvent); when it ceases to lead, the requests that wait are never answered. It is noted.
 * 6. A refusal that comes late, of an entry that the follower has meanwhile, puts the leader's next index for it below what it
 *    knows it to have (progressMaybeDecrement): from then on the follower gets no entries any more. It is dropped.
 * 7. When a snapshot that is to be sent cannot be read, the library frees pointers that were never set
 *    (legacyLoadSnapshotCb). It is given an empty one in its place, which is not sent.
 * 8. To a follower whose place in the log is not known yet, the same entries are sent again at each heartbeat (30 ms) until it
 *    answers (progressShouldReplicate), up to 32 of them, whatever their size: megabytes, over and over, that keep leader and
 *    follower from everything else until another leader is elected, who does the same. Where they are many bytes, they are
 *    sent again after a while only; a heartbeat goes in their place.
 * 9. What the members are is lost. A follower that gets a change of them behind other entries in one message notes it at the
 *    index of the first of these (replicationAppend), and forgets one that is not yet known to be committed for the next: the
 *    change that is applied later is not known (replicationApplyConfigurationChange) and the members that count as agreed on
 *    stay those before. And where many entries are applied at once, as after a start, a snapshot is taken before the changes
 *    among them have been noted (legacyHandleEvent). A snapshot bears the members that are agreed on; who starts from one
 *    that bears old ones sends nothing to a newer member and counts too few as a majority. Entries from a change on are cut
 *    from a message unless it comes first and no other waits; the leader sends them again. One that waits is noted once it
 *    is known that the leader has it, too: it was agreed on before the next was written, and who has just been elected may
 *    not get further without us. No snapshot is taken while a change has been applied and not been noted;
 *    one that a snapshot of a replica without these cares has left so is noted.
 * 10. Entries that are loaded at the start lie in one piece of memory for each file, which is freed when the last of them has
 *    left the log (logRelease) even if a message that waits still holds some: what is sent is then whatever has come to lie
 *    there, and the follower keeps it. Each gets memory of its own.
 * 11. The address that a snapshot goes to is read after the snapshot, and may have been freed when members have changed
 *    meanwhile (legacySendMessage). It is looked up anew; to whom is no member any more, nothing is sent.
 * 12. A member that is to vote and can not be noted, for the disks of a majority are full, leaves its request behind, which
 *    the caller has long freed when leadership is lost (raft_assign); or, when it had to catch up first, one that is never
 *    answered (legacyCheckChangeRequest). The first is taken back, the second answered.
 * 13. Entries from the first one on that come late, after a snapshot that holds them, are written behind it as if they
 *    were new (checkConflictingEntries): the log in memory and that on disk are nonsense from then on. And what begins behind
 *    an entry that a snapshot of our own has cut away is refused (checkLogMatchingProperty): a leader that has not heard that
 *    we have more than that sends it again, for ever. What a snapshot holds is left out, and the message goes on behind it:
 *    it is committed, so the leader has it.
 * 14. A learner votes for nobody (electionVote), and does not know yet that it may when the leader that has noted it as a voter
 *    dies. Where that one needs its vote to come back, nobody ever leads again: a cluster that grows from one to two. Nor
 *    does a learner ever forget a leader of which it hears nothing any more (timeoutFollower). While it is asked for its
 *    vote, it passes for a voter, without a leader if that one asks or was not heard for an election timeout; whether its
 *    vote counts is up to the list of who asks (Raft, 4.1).
 * 15. The only voter leads when it starts, in the term that it was in before (maybeSelfElect). What it had sent to a learner
 *    and not yet on its disk is written anew, other entries of the same index and term, and nobody sees that they differ: the
 *    learner goes on with what never was. Its term begins one higher, on disk before it starts.
 * 16. Whoever asks ahead for votes (pre-vote) in a term of long ago is refused with the term that it named itself, and never
 *    learns of the newer one (recvRequestVote). If nobody else has as much in the log, nobody leads. The refusal says which
 *    term it is.
 * 17. Who has got the votes ahead and then not the votes stays a candidate that asks in earnest, and goes one term up at each
 *    timeout (timeoutCandidate). A member that was removed without hearing of it does so for ever: who adds it again ceases to
 *    lead at its first answer, and before the next try the newcomer is a term ahead again. At the timeout it asks ahead anew.
 *
 * Not here, for it is about the disk alone: when term or vote can not be written, the library goes on (the distribution builds
 * it without asserts) and may vote twice in a term. The owner of the raft_io must let nothing out from then on. */
#ifndef XCE_LEASED_ENGINE_RAFT_GUARD_H
#define XCE_LEASED_ENGINE_RAFT_GUARD_H

#include <raft.h>
#include <stdbool.h>
#include <stdint.h>

#define RAFT_GUARD_PEERS       8
#define RAFT_GUARD_MANY_BYTES  (256u << 10)
#define RAFT_GUARD_AGAIN_AFTER 500 /* ms */

/* Many bytes of entries that have been sent. */
struct raft_guard_sent {
    raft_id to; /* 0: nothing yet */
    raft_term term;
    raft_index after;
    raft_time at_ms;
};

/* Zero = nothing has come yet. One for each raft; its thread. The counters are for tests and metrics. */
struct raft_guard {
    bool refusing;        /* the message being received is of an older term */
    bool lent;            /* it is a request for a vote, to a learner */
    raft_time heard_ms;   /* a leader, last */
    uint64_t n_dropped;   /* 1 */
    uint64_t n_corrected; /* 2 */
    uint64_t n_cut;       /* 3 */
    uint64_t n_refused;   /* 4 */
    uint64_t n_noted;     /* 5 */
    uint64_t n_late;      /* 6 */
    uint64_t n_spared;    /* 8 */
    uint64_t n_split;     /* 9 */
    uint64_t n_settled;   /* 9 */
    uint64_t n_unended;   /* 12 */
    uint64_t n_skipped;   /* 13 */
    uint64_t n_lent;      /* 14 */
    uint64_t n_told;      /* 16 */
    uint64_t n_humbled;   /* 17 */
    struct raft_guard_sent sent[RAFT_GUARD_PEERS];
    raft_index read_index; /* of the snapshot that was read last, to be sent */
    raft_term read_term;
};

/* Before a message goes to the library, which may be changed. False: it must not go there, what hangs on it is freed. */
bool raft_guard_recv(struct raft_guard *guard, struct raft *raft, struct raft_message *message);
/* Before each tick of the library. */
void raft_guard_tick(struct raft_guard *guard, struct raft *raft);
/* After the library has received a message, and after each tick. */
void raft_guard_settle(struct raft_guard *guard, struct raft *raft);
/* What to send in the place of a message; borrows from it. 0; RAFT_BUSY: nothing, send says so to the library. */
int raft_guard_send(struct raft_guard *guard, const struct raft *raft,
                    const struct raft_message *message, struct raft_message *ret);
/* Whether this replica leads, or has heard within an election timeout who does, and knows it as a member. */
bool raft_guard_hears(const struct raft_guard *guard, const struct raft *raft);
/* Whether, by what raft_io.load has found, this replica is the only voter: then its term has to go up. snapshot: may be NULL.
 * Aborts without memory. */
bool raft_guard_is_alone(raft_id id, const struct raft_snapshot *snapshot,
                         const struct raft_entry *entries, size_t n);
/* Whether the machine may give its state for a snapshot (raft_fsm.snapshot); if not, it fails and is asked again. */
bool raft_guard_may_snapshot(const struct raft *raft);
/* What raft_io.load gives: the memory of each batch is freed, each entry gets its own. Aborts without memory. */
void raft_guard_own(struct raft_entry *entries, size_t n);
/* In the place of raft_assign: let a member vote. */
int raft_guard_promote(struct raft *raft, struct raft_change *req, raft_id id, raft_change_cb cb);
/* Before the library gets a snapshot that raft_io.snapshot_get has read. */
void raft_guard_read(struct raft_guard *guard, const struct raft_snapshot *snapshot);
/* Make what raft_io.snapshot_get gave with a failure one that may be handed to the library as a success. Aborts without
 * memory. */
void raft_guard_unread(struct raft_snapshot *snapshot);

#endif
