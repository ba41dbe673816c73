/* What nodes say about leases and uids. Each item stands for itself; saying a thing twice changes nothing,
 * but for a stray under a uid that nobody has: a pass must come after the last time. */
#include <string.h>

#include "common/mem.h"
#include "common/text.h"
#include "leased/fsm/apply.h"
#include "leased/fsm/incarnation.h"
#include "leased/fsm/lease.h"
#include "leased/fsm/node.h"
#include "leased/fsm/pool.h"
#include "xce/v1/node.pb-c.h"

static bool same_text(const char *a, const char *b)
{
    return a == b || (a && b && strcmp(a, b) == 0);
}

/* A real account has the number or the name: no node can clean that away. */
static bool is_account(const char *reason)
{
    return reason && (!strcmp(reason, "account") || !strcmp(reason, "group") ||
                      !strcmp(reason, "group-member"));
}

/* Whether the node may add to what blocks uids; it is cordoned when it has too much. What it has to clean up of a uid that is
 * blocked already is never left out: what others say of it must not end it. */
static bool may_block(struct fsm *fsm, struct node *node, struct pool *pool, uint32_t uid,
                      const char *reason)
{
    bool blocked = pool->blocked[uid - pool->pub.range.first];

    if (pool_block_passes(reason) && (blocked || pool_block_leaves(pool, reason)))
        return pool_block_knows(pool, uid, node, reason) || node_may_hold(fsm, node) || blocked;
    return node_may_block(fsm, node);
}

static void block(struct fsm *fsm, struct node *node, uint32_t uid, const char *reason,
                  const char *detail)
{
    struct pool *pool = pool_of_uid(fsm, uid);
    bool leaves = pool && pool_block_leaves(pool, reason);

    if (!pool || !may_block(fsm, node, pool, uid, reason))
        return;
    if (pool_block(fsm, pool, uid - pool->pub.range.first, node, reason, detail) && !leaves)
        node_note_block(fsm, node);
}

/* ---- one kind each ---- */

struct saying {
    struct lease *lease;
    uint32_t member; /* NO_SLOT = the node is none */
    bool joins;      /* it was added, and has not been ready */
    const char *reason, *detail;
};

static void say_ready(struct fsm *fsm, struct node *node, const struct saying *s)
{
    const struct fsm_member *member;

    if (s->member == NO_SLOT || !lease_live(&s->lease->pub) || node->health == HEALTH_LOST)
        return;
    member = lease_member(s->lease, s->member);
    if (member->proof != PROOF_PENDING || member->released)
        return;
    lease_set_proof(fsm, s->lease, s->member, PROOF_READY, NULL, NULL);
    lease_proved(fsm, s->lease);
}

/* The lease goes on without a member that only was to join it; without another it ends. What that is put down to: "node n1
 * refused it: account (user bob)". */
static void end_by_node(struct fsm *fsm, struct node *node, const struct saying *s,
                        enum end_cause cause, const char *what)
{
    char detail[FSM_MESSAGE_MAX + 1];

    fsm_format(detail, "node %s %s%s%s%s%s%s", node->pub.name, what, s->reason ? ": " : "",
               s->reason ? s->reason : "", s->detail ? " (" : "", s->detail ? s->detail : "",
               s->detail ? ")" : "");
    if (s->joins)
        lease_let_go(fsm, s->lease, s->member, cause, detail);
    else
        lease_end(fsm, s->lease, cause, detail);
}

static void say_refused(struct fsm *fsm, struct node *node, const struct saying *s)
{
    const struct fsm_member *member;
    enum lease_state state = s->lease->pub.state;

    if (s->member == NO_SLOT || !lease_live(&s->lease->pub))
        return;
    member = lease_member(s->lease, s->member);
    if (member->released)
        return;
    if (is_account(s->reason))
        block(fsm, node, s->lease->pub.uid, s->reason, s->detail);
    lease_set_proof(fsm, s->lease, s->member, PROOF_REFUSED, s->reason, s->detail);
    if (state == LEASE_GRANTED || s->joins)
        end_by_node(fsm, node, s, END_REFUSED, "refused it");
    else
        end_by_node(fsm, node, s, END_MEMBER_LOST, "ended it by itself");
}

static void say_clean(struct fsm *fsm, struct node *node, const struct saying *s)
{
    const struct fsm_member *member;

    if (s->member == NO_SLOT)
        return;
    member = lease_member(s->lease, s->member);
    if (member->proof == PROOF_CLEAN || member->proof == PROOF_FENCED)
        return;
    lease_set_proof(fsm, s->lease, s->member, PROOF_CLEAN, NULL, NULL);
    /* It has closed admission, for good: without this member the lease is over. */
    if (lease_live(&s->lease->pub) && !member->released)
        end_by_node(fsm, node, s, END_MEMBER_LOST, "ended it by itself");
    else
        lease_proved(fsm, s->lease);
}

/* The node owes a proof, be it a member or not. false = nothing has changed by that. */
static bool owe(struct fsm *fsm, struct node *node, struct saying *s, enum member_proof proof)
{
    struct fsm_member *member;
    bool live = lease_live(&s->lease->pub);

    if (s->member == NO_SLOT) {
        s->member = lease_add_member(fsm, s->lease, node);
        lease_member(s->lease, s->member)->released = live;
        lease_count_owed(s->lease);
    }
    member = lease_member(s->lease, s->member);
    if (member->proof == proof && same_text(member->reason, s->reason) &&
        same_text(member->detail, s->detail) && proof == PROOF_DIRTY)
        return false;
    lease_set_proof(fsm, s->lease, s->member, proof, s->reason, s->detail);
    if (s->lease->pub.state == LEASE_NORMALISING || s->lease->pub.state == LEASE_COOLING ||
        s->lease->pub.state == LEASE_RETIRED)
        lease_back(fsm, s->lease);
    return true;
}

static void say_dirty(struct fsm *fsm, struct node *node, struct saying *s)
{
    const struct fsm_member *member;

    if (!owe(fsm, node, s, PROOF_DIRTY))
        return;
    member = lease_member(s->lease, s->member);
    if (lease_live(&s->lease->pub) && !member->released)
        end_by_node(fsm, node, s, END_MEMBER_LOST, "ended it by itself");
    else
        lease_proved(fsm, s->lease);
}

/* While the lease is live, the guard of a node where it is not here has done what was to do. A member that has not
 * proved anything yet finds what it is looking for. */
static void say_stray(struct fsm *fsm, struct node *node, struct saying *s)
{
    enum member_proof proof = PROOF_CLEAN;

    if (s->member != NO_SLOT)
        proof = lease_member(s->lease, s->member)->proof;
    if (lease_live(&s->lease->pub) || (proof != PROOF_CLEAN && proof != PROOF_FENCED))
        return;
    s->lease->sticky |= QUARANTINE_STRAY;
    (void)owe(fsm, node, s, PROOF_PENDING);
    lease_proved(fsm, s->lease);
}

void report_member(struct fsm *fsm, struct node *node, const Xce__V1__CmdMember *report)
{
    struct saying s = {
        .lease = lease_of_uid(fsm, report->uid),
        .reason = apply_note(fsm, report->reason),
        .detail = apply_note(fsm, report->detail),
    };
    bool stray = report->kind == XCE__V1__REPORT_KIND__REPORT_KIND_STRAY;

    if (!s.lease) {
        if (stray)
            block(fsm, node, report->uid, "stray", s.detail ? s.detail : s.reason);
        else if (report->kind == XCE__V1__REPORT_KIND__REPORT_KIND_CLEAN)
            pool_leftover_gone(fsm, node, report->uid);
        return;
    }
    if (report->epoch != s.lease->pub.epoch && !(stray && !report->epoch))
        return;
    s.member = lease_member_index(s.lease, node);
    s.joins = s.member != NO_SLOT && lease_joins(s.lease, s.member);
    switch (report->kind) {
    case XCE__V1__REPORT_KIND__REPORT_KIND_READY:
        say_ready(fsm, node, &s);
        break;
    case XCE__V1__REPORT_KIND__REPORT_KIND_REFUSED:
        say_refused(fsm, node, &s);
        break;
    case XCE__V1__REPORT_KIND__REPORT_KIND_CLEAN:
        say_clean(fsm, node, &s);
        break;
    case XCE__V1__REPORT_KIND__REPORT_KIND_DIRTY:
        say_dirty(fsm, node, &s);
        break;
    case XCE__V1__REPORT_KIND__REPORT_KIND_STRAY:
        say_stray(fsm, node, &s);
        break;
    default:
        break;
    }
}

void apply_report(struct fsm *fsm, const Xce__V1__Command *command, struct fsm_outcome *outcome)
{
    const Xce__V1__CmdReport *report = command->report;
    struct node *node = apply_session(fsm, report->node, report->session, outcome);

    if (!node || !incarnation_report(fsm, node, report, outcome))
        return;
    for (size_t i = 0; i < report->n_members; i++)
        report_member(fsm, node, report->members[i]);
    for (size_t i = 0; i < report->n_blocks; i++) {
        const Xce__V1__CmdBlock *item = report->blocks[i];
        const char *reason = apply_note(fsm, item->reason);

        block(fsm, node, item->uid, reason ? reason : "account", apply_note(fsm, item->detail));
    }
}
