#include "leased/service/events.h"

#include <stdio.h>
#include <string.h>

#include "common/log.h"
#include "leased/fsm/change.h"
#include "leased/watch/lease_proto.h"

/* A node that is lost may have tens of thousands of leases. */
static struct log_limit quarantines = {.interval_ms = 10000, .burst = 100};
static struct log_limit oaths = {.interval_ms = 10000, .burst = 100};

static struct log_fields fields_of(const struct fsm_lease *lease, const char *message_id)
{
    return (struct log_fields){
        .message_id = message_id,
        .lease = lease->id,
        .uid = lease->uid,
        .epoch = lease->epoch,
        .node = lease->n_members == 1 ? lease->members[0].node->name : NULL,
        .job = lease->job,
    };
}

/* ---- the life of a lease ---- */

static void moved(const struct fsm_lease *lease, enum lease_state before)
{
    const char *detail = lease->end_detail;
    struct log_fields fields;

    if (log_level() < LOG_DEBUG)
        return;
    if (lease->state == LEASE_GRANTED) {
        fields = fields_of(lease, LOG_ID_LEASE_GRANTED);
        log_debug(&fields, "granted to %s on %u nodes", lease->owner.name, lease->n_members);
    } else if (lease->state == LEASE_ACTIVE) {
        fields = fields_of(lease, LOG_ID_LEASE_ACTIVE);
        log_debug(&fields, "active: every member is ready");
    } else if (lease->state == LEASE_DRAINING && before <= LEASE_ACTIVE) {
        fields = fields_of(lease, LOG_ID_LEASE_ENDED);
        log_debug(&fields, "ended by %s%s%s", lease_proto_cause(lease->cause), detail ? ": " : "",
                  detail ? detail : "");
    } else if (lease->state == LEASE_FREE) {
        fields = fields_of(lease, LOG_ID_LEASE_FREE);
        log_debug(&fields, "the uid is free");
    }
}

/* ---- what hinders it ---- */

/* The member that is the reason: dirty, or lost, or back under an oath, with its proof still owed. */
static const struct fsm_member *culprit(const struct fsm_lease *lease, uint32_t reasons)
{
    for (uint32_t i = 0; i < lease->n_members; i++) {
        const struct fsm_member *member = &lease->members[i];
        bool owes = member->proof != PROOF_CLEAN && member->proof != PROOF_FENCED;

        if (((reasons & QUARANTINE_DIRTY) && member->proof == PROOF_DIRTY) ||
            ((reasons & QUARANTINE_MEMBER_LOST) && member->node->state == NODE_LOST) ||
            ((reasons & QUARANTINE_OATH) && owes && member->node->state == NODE_UNKNOWN) ||
            ((reasons & QUARANTINE_OVERDUE) && owes))
            return member;
    }
    return NULL;
}

static void join(char *ret, size_t size, uint32_t reasons)
{
    const char *words[LEASE_PROTO_REASONS];
    size_t n = lease_proto_reasons(reasons, words), at = 0;

    ret[0] = '\0';
    for (size_t i = 0; i < n && at < size; i++)
        at += (size_t)snprintf(ret + at, size - at, "%s%s", i ? ", " : "", words[i]);
}

static void held_back(char *ret, size_t size, unsigned held)
{
    ret[0] = '\0';
    if (held)
        (void)snprintf(ret, size, " (%u like it were not written)", held);
}

static void quarantined(const struct fsm_lease *lease, uint32_t reasons)
{
    struct log_fields fields = fields_of(lease, LOG_ID_QUARANTINED);
    const struct fsm_member *member = culprit(lease, reasons);
    bool broken = reasons & QUARANTINE_OATH;
    char words[128], more[64];
    unsigned held;

    if (!log_limit_ok(broken ? &oaths : &quarantines, &held))
        return;
    held_back(more, sizeof more, held);
    join(words, sizeof words, reasons);
    if (member)
        fields.node = member->node->name;
    if (broken)
        log_error(&fields,
                  "quarantined: %s: a machine that was sworn to be off speaks; what was proved by "
                  "that does not count%s",
                  words, more);
    else
        log_warning(
            &fields, "quarantined: %s%s%s%s%s%s", words, member && member->reason ? ": " : "",
            member && member->reason ? member->reason : "", member && member->detail ? ": " : "",
            member && member->detail ? member->detail : "", more);
}

/* It was free already, or is somebody else's by now. */
static void blocked_by_oath(const struct fsm_blocked *blocked)
{
    char more[64];
    unsigned held;

    if (!log_limit_ok(&oaths, &held))
        return;
    held_back(more, sizeof more, held);
    log_error(LOG_FIELDS(.message_id = LOG_ID_BLOCKED, .uid = blocked->uid),
              "blocked: the uid %s%s", blocked->detail ? blocked->detail : "rests on a false oath",
              more);
}

void events_changed(const struct fsm_change *change)
{
    if (change->kind == CHANGE_POOL && change->blocked &&
        (!strcmp(change->blocked->reason, "oath") || !strcmp(change->blocked->reason, "clone")))
        blocked_by_oath(change->blocked);
    if (change->kind != CHANGE_LEASE)
        return;
    if (change->before != change->lease->state)
        moved(change->lease, change->before);
    if (change->quarantined)
        quarantined(change->lease, change->quarantined);
}
