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

static void cut_entries(struct raft_append_entries *entries, unsigned n)
{
    if (n == 0) {
        raft_free(entries->entries[0].batch);
        raft_free(mem_take(entries->entries));
    }
    entries->n_entries = n;
}

/* A change of the members comes first in its message, and after the one before it is noted as agreed on. */
static void split_at_change(struct raft_guard *guard, const struct raft *raft,
                            struct raft_append_entries *entries)
{
    raft_index waits = raft->configuration_uncommitted_index;

    for (unsigned i = 0; i < entries->n_entries; i++) {
        raft_index index = entries->prev_log_index + 1 + i;

        if (entries->entries[i].type != RAFT_CHANGE)
            continue;
        if (i > 0 || (waits != 0 && waits < index)) {
            cut_entries(entries, i);
            guard->n_split++;
            return;
        }
    }
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

bool raft_guard_recv(struct raft_guard *guard, struct raft *raft, struct raft_message *message)
{
    struct raft_install_snapshot *install = &message->install_snapshot;

    switch (message->type) {
    case RAFT_APPEND_ENTRIES:
        guard->refusing = message->append_entries.term < raft->current_term;
        split_at_change(guard, raft, &message->append_entries);
        cut_commit(guard, raft, &message->append_entries);
        return true;
    case RAFT_INSTALL_SNAPSHOT:
        guard->refusing = install->term < raft->current_term;
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
    default:
        return true;
    }
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

void raft_guard_settle(struct raft_guard *guard, struct raft *raft)
{
    guard->refusing = false;
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

int raft_guard_send(struct raft_guard *guard, const struct raft *raft,
                    const struct raft_message *message, struct raft_message *ret)
{
    *ret = *message;
    if (message->type == RAFT_APPEND_ENTRIES_RESULT && guard->refusing) {
        /* Whatever its leader believes of us, that entry 1 does not match changes nothing. */
        ret->append_entries_result.rejected = 1;
        ret->append_entries_result.last_log_index = 0;
        guard->n_refused++;
    } else if (message->type == RAFT_APPEND_ENTRIES && is_much(&message->append_entries) &&
               sent_just_now(guard, raft, message->server_id, &message->append_entries)) {
        ret->append_entries.n_entries = 0;
        guard->n_spared++;
    } else if (message->type == RAFT_INSTALL_SNAPSHOT) {
        if (message->install_snapshot.last_index != raft->trail.snapshot.index)
            return RAFT_BUSY;
        ret->install_snapshot.last_term = raft->trail.snapshot.term;
        guard->n_corrected += ret->install_snapshot.last_term !=
                              message->install_snapshot.last_term;
    }
    return 0;
}

void raft_guard_unread(struct raft_snapshot *snapshot)
{
    /* No index that raft_guard_send lets through; what it holds, the library frees. */
    *snapshot = (struct raft_snapshot){
        .index = UINT64_MAX, .bufs = raft_calloc(1, sizeof *snapshot->bufs), .n_bufs = 1};
    if (!snapshot->bufs)
        abort();
}
