#include "leased/engine/raft_guard.h"

#include <stdlib.h>
#include <string.h>

#include "common/mem.h"

static void cut_commit(struct raft_guard *guard, const struct raft *raft,
                       struct raft_append_entries *entries)
{
    if (entries->prev_log_index + entries->n_entries >= raft->commit_index ||
        entries->leader_commit <= raft->commit_index)
        return;
    entries->leader_commit = raft->commit_index;
    guard->n_cut++;
}

/* Of entries the first n are left. */
static void cut_entries(struct raft_append_entries *message, unsigned n)
{
    message->n_entries = n;
    if (n > 0)
        return;
    raft_free(message->entries[0].batch);
    raft_free(message->entries);
    message->entries = NULL;
}

static void skip_snapshot(struct raft_guard *guard, const struct raft *raft,
                          struct raft_append_entries *message)
{
    raft_index known = raft->trail.snapshot.index, behind;
    unsigned left;

    if (message->term < raft->current_term || message->prev_log_index >= known)
        return;
    behind = known - message->prev_log_index;
    left = behind < message->n_entries ? message->n_entries - (unsigned)behind : 0;
    if (left)
        memmove(message->entries, message->entries + behind, left * sizeof *message->entries);
    if (message->n_entries)
        cut_entries(message, left);
    message->prev_log_index = known;
    message->prev_log_term = raft->trail.snapshot.term;
    guard->n_skipped++;
}

static void cut_change(struct raft_guard *guard, struct raft_append_entries *message, unsigned n)
{
    guard->n_split++;
    cut_entries(message, n);
}

static unsigned next_change(const struct raft_append_entries *message, unsigned from)
{
    while (from < message->n_entries && message->entries[from].type != RAFT_CHANGE)
        from++;
    return from;
}

/* The list that counts is committed, whoever has noted it or not. */
static void settle_members(struct raft_guard *guard, struct raft *raft)
{
    struct raft_configuration list;

    raft_configuration_init(&list);
    for (unsigned i = 0; i < raft->configuration.n; i++) {
        const struct raft_server *server = &raft->configuration.servers[i];

        if (raft_configuration_add(&list, server->id, server->address, server->role) != 0)
            abort();
    }
    raft_configuration_close(&raft->configuration_committed);
    raft->configuration_committed = list;
    raft->configuration_committed_index = raft->configuration_uncommitted_index;
    raft->configuration_uncommitted_index = 0;
    guard->n_settled++;
}

/* One that is new comes alone, after all that was before it. */
static void split_at_change(struct raft_guard *guard, struct raft *raft,
                            struct raft_append_entries *message)
{
    raft_index before = raft->configuration_uncommitted_index;
    unsigned at = next_change(message, 0), next;

    if (message->term < raft->current_term || at == message->n_entries)
        return;
    next = at > 0 ? at : next_change(message, 1);
    if (next < message->n_entries)
        cut_change(guard, message, next);
    if (at > 0 || before == 0 || before > message->prev_log_index)
        return;
    /* Once it is known that the leader has that one, too: it has this one, so that one is committed. */
    if (message->term == raft->current_term && raft->state == RAFT_FOLLOWER &&
        raft->follower_state.match >= before)
        settle_members(guard, raft);
    else
        cut_change(guard, message, 0);
}

/* What a follower is known to have it can not miss. */
static bool is_late(struct raft *raft, raft_id from,
                    const struct raft_append_entries_result *result)
{
    raft_index match = 0;

    return result->rejected > 0 && raft->state == RAFT_LEADER &&
           result->term == raft->current_term && raft_match_index(raft, from, &match) == 0 &&
           result->rejected <= match;
}

static struct raft_server *member(const struct raft *raft, raft_id id)
{
    for (unsigned i = 0; i < raft->configuration.n; i++)
        if (raft->configuration.servers[i].id == id)
            return &raft->configuration.servers[i];
    return NULL;
}

static void forget_leader(struct raft *raft)
{
    raft->follower_state.current_leader.id = 0;
    raft_free(raft->follower_state.current_leader.address);
    raft->follower_state.current_leader.address = NULL;
}

static void lend_vote(struct raft_guard *guard, struct raft *raft, raft_id to)
{
    struct raft_server *own = member(raft, raft->id);

    guard->lent = own && own->role == RAFT_SPARE;
    if (!guard->lent)
        return;
    own->role = RAFT_VOTER;
    guard->n_lent++;
    if (raft->state == RAFT_FOLLOWER && (raft->follower_state.current_leader.id == to ||
                                         raft->now - guard->heard_ms >= raft->election_timeout))
        forget_leader(raft);
}

static void take_vote_back(struct raft_guard *guard, const struct raft *raft)
{
    if (guard->lent)
        member(raft, raft->id)->role = RAFT_SPARE;
    guard->lent = false;
}

static void note_leader(struct raft_guard *guard, const struct raft *raft, raft_term term)
{
    guard->refusing = term < raft->current_term;
    if (!guard->refusing)
        guard->heard_ms = raft->now;
}

bool raft_guard_recv(struct raft_guard *guard, struct raft *raft, struct raft_message *message)
{
    struct raft_install_snapshot *install = &message->install_snapshot;

    switch (message->type) {
    case RAFT_APPEND_ENTRIES:
        note_leader(guard, raft, message->append_entries.term);
        skip_snapshot(guard, raft, &message->append_entries);
        split_at_change(guard, raft, &message->append_entries);
        cut_commit(guard, raft, &message->append_entries);
        return true;
    case RAFT_INSTALL_SNAPSHOT:
        note_leader(guard, raft, install->term);
        if (!raft->legacy.snapshot_taking && !raft->snapshot.installing)
            return true;
        guard->refusing = false;
        guard->n_dropped++;
        raft_configuration_close(&install->conf);
        raft_free(install->data.base);
        return false;
    case RAFT_APPEND_ENTRIES_RESULT:
        if (!is_late(raft, message->server_id, &message->append_entries_result))
            return true;
        guard->n_late++;
        return false;
    case RAFT_REQUEST_VOTE:
        lend_vote(guard, raft, message->server_id);
        return true;
    default:
        return true;
    }
}

void raft_guard_tick(struct raft_guard *guard, struct raft *raft)
{
    raft_time waited = raft->io->time(raft->io) - raft->election_timer_start;

    if (!raft->pre_vote || raft->state != RAFT_CANDIDATE || raft->candidate_state.in_pre_vote ||
        waited < raft->candidate_state.randomized_election_timeout)
        return;
    raft->candidate_state.in_pre_vote = true;
    raft->candidate_state.disrupt_leader = false;
    guard->n_humbled++;
}

/* A change that is neither in the log nor waits for somebody to catch up. */
static void end_change(struct raft_guard *guard, struct raft *raft)
{
    struct raft_change *change = raft->legacy.change;

    if (raft->state != RAFT_LEADER || !change || change->catch_up_id ||
        raft->configuration_uncommitted_index)
        return;
    raft->legacy.change = NULL;
    guard->n_unended++;
    if (change->cb)
        change->cb(change, RAFT_NOSPACE);
}

void raft_guard_settle(struct raft_guard *guard, struct raft *raft)
{
    guard->refusing = false;
    take_vote_back(guard, raft);
    end_change(guard, raft);
    /* Applied, so agreed on: by a snapshot that bears the list of before. */
    if (!raft_guard_may_snapshot(raft))
        settle_members(guard, raft);
    if (raft->state != RAFT_LEADER || raft->legacy.prev_state == RAFT_LEADER)
        return;
    raft->legacy.prev_state = RAFT_LEADER;
    guard->n_noted++;
}

static bool is_much(const struct raft_append_entries *entries)
{
    size_t bytes = 0;

    for (unsigned i = 0; i < entries->n_entries; i++)
        bytes += entries->entries[i].buf.len;
    return bytes > RAFT_GUARD_MANY_BYTES;
}

/* Whether these have just been sent to that one; if not, they are now. */
static bool sent_just_now(struct raft_guard *guard, const struct raft *raft, raft_id to,
                          const struct raft_append_entries *entries)
{
    struct raft_guard_sent *sent = &guard->sent[0];

    /* Its own, or that of whom nothing was sent to for longest. */
    for (size_t i = 1; i < RAFT_GUARD_PEERS && sent->to != to; i++)
        if (guard->sent[i].to == to || guard->sent[i].at_ms < sent->at_ms)
            sent = &guard->sent[i];
    if (sent->to == to && sent->term == entries->term && sent->after == entries->prev_log_index &&
        raft->now - sent->at_ms < RAFT_GUARD_AGAIN_AFTER)
        return true;
    *sent = (struct raft_guard_sent){to, entries->term, entries->prev_log_index, raft->now};
    return false;
}

static void tell_term(struct raft_guard *guard, const struct raft *raft,
                      struct raft_request_vote_result *result)
{
    if (!result->pre_vote || result->vote_granted || result->term >= raft->current_term)
        return;
    result->term = raft->current_term;
    guard->n_told++;
}

int raft_guard_send(struct raft_guard *guard, const struct raft *raft,
                    const struct raft_message *message, struct raft_message *ret)
{
    *ret = *message;
    if (message->type == RAFT_REQUEST_VOTE_RESULT) {
        tell_term(guard, raft, &ret->request_vote_result);
    } else if (message->type == RAFT_APPEND_ENTRIES_RESULT && guard->refusing) {
        /* Whatever its leader believes of us, that entry 1 does not match changes nothing. */
        ret->append_entries_result.rejected = 1;
        ret->append_entries_result.last_log_index = 0;
        guard->n_refused++;
    } else if (message->type == RAFT_APPEND_ENTRIES && is_much(&message->append_entries) &&
               sent_just_now(guard, raft, message->server_id, &message->append_entries)) {
        ret->append_entries.n_entries = 0;
        guard->n_spared++;
    } else if (message->type == RAFT_INSTALL_SNAPSHOT) {
        if (message->install_snapshot.last_index != guard->read_index)
            return RAFT_BUSY;
        if (!member(raft, message->server_id))
            return RAFT_NOCONNECTION;
        ret->server_address = member(raft, message->server_id)->address;
        ret->install_snapshot.last_term = guard->read_term;
        guard->n_corrected += ret->install_snapshot.last_term !=
                              message->install_snapshot.last_term;
    }
    return 0;
}

bool raft_guard_hears(const struct raft_guard *guard, const struct raft *raft)
{
    return raft->state == RAFT_LEADER ||
           (raft->state == RAFT_FOLLOWER && member(raft, raft->follower_state.current_leader.id) &&
            raft->now - guard->heard_ms < raft->election_timeout);
}

static bool only_voter(const struct raft_configuration *list, raft_id id)
{
    unsigned others = 0, own = 0;

    for (unsigned i = 0; i < list->n; i++)
        if (list->servers[i].role == RAFT_VOTER)
            *(list->servers[i].id == id ? &own : &others) += 1;
    return own && !others;
}

bool raft_guard_is_alone(raft_id id, const struct raft_snapshot *snapshot,
                         const struct raft_entry *entries, size_t n)
{
    struct raft_configuration list;
    bool alone;

    while (n > 0 && entries[n - 1].type != RAFT_CHANGE)
        n--;
    if (n == 0)
        return snapshot && only_voter(&snapshot->configuration, id);
    if (raft_configuration_decode(&entries[n - 1].buf, &list) != 0)
        abort();
    alone = only_voter(&list, id);
    raft_configuration_close(&list);
    return alone;
}

void raft_guard_own(struct raft_entry *entries, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        struct raft_entry *entry = &entries[i];
        void *batch = mem_take(entry->batch), *own = raft_malloc(entry->buf.len);

        if (!own)
            abort();
        memcpy(own, entry->buf.base, entry->buf.len);
        entry->buf.base = own;
        if (i + 1 == n || entries[i + 1].batch != batch)
            raft_free(batch);
    }
}

bool raft_guard_may_snapshot(const struct raft *raft)
{
    return raft->configuration_uncommitted_index == 0 ||
           raft->configuration_uncommitted_index > raft->last_applied;
}

int raft_guard_promote(struct raft *raft, struct raft_change *req, raft_id id, raft_change_cb cb)
{
    int rv = raft_assign(raft, req, id, RAFT_VOTER, cb);

    if (rv != 0 && raft->legacy.change == req)
        raft->legacy.change = NULL;
    return rv;
}

void raft_guard_read(struct raft_guard *guard, const struct raft_snapshot *snapshot)
{
    guard->read_index = snapshot->index;
    guard->read_term = snapshot->term;
}

void raft_guard_unread(struct raft_snapshot *snapshot)
{
    /* No index that raft_guard_send lets through; what it holds, the library frees. */
    *snapshot = (struct raft_snapshot){
        .index = UINT64_MAX, .bufs = raft_calloc(1, sizeof *snapshot->bufs), .n_bufs = 1};
    if (!snapshot->bufs)
        abort();
}
