/* LeaseService.Explain: why is this uid not free: what it waits for, since when, and what one can do. */
#include <errno.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/pb.h"
#include "leased/service/cure.h"
#include "leased/service/find.h"
#include "leased/service/internal.h"
#include "leased/service/ticker.h"
#include "leased/watch/lease_proto.h"

#define ARENA_MAX (8u << 20)
#define WAITS_MAX 4096
#define TEXT_MAX  512

/* The reply as it grows. */
struct explanation {
    struct service *service;
    const struct fsm_lease *lease;
    int64_t offset_ms;
    struct pb_arena arena;
    Xce__V1__Waiting *waits[WAITS_MAX];
    size_t n;
    char summary[TEXT_MAX];
};

__attribute__((format(printf, 2, 3))) static char *say(struct explanation *explanation,
                                                       const char *format, ...)
{
    char text[TEXT_MAX], *copy;
    va_list args;
    size_t len;

    va_start(args, format);
    (void)vsnprintf(text, sizeof text, format, args);
    va_end(args);
    len = strlen(text) + 1;
    copy = pb_arena_alloc(&explanation->arena, len);
    return copy ? memcpy(copy, text, len) : (char *)"";
}

/* One more thing that is waited for; the caller fills the rest. NULL: enough said, or no memory. */
static Xce__V1__Waiting *wait_for(struct explanation *explanation, char *what, const char *state,
                                  const char *cure)
{
    Xce__V1__Waiting *wait = NULL;

    if (explanation->n < WAITS_MAX)
        wait = pb_arena_alloc(&explanation->arena, sizeof *wait);
    if (!wait)
        return NULL;
    xce__v1__waiting__init(wait);
    wait->what = what;
    wait->state = (char *)state;
    wait->cure = (char *)cure;
    if (explanation->lease) {
        wait->since_ms = explanation->lease->changed_wall_ms;
        if (explanation->lease->due_ms)
            wait->until_ms = explanation->lease->due_ms + explanation->offset_ms;
    }
    explanation->waits[explanation->n++] = wait;
    return wait;
}

static const char *proof_word(enum member_proof proof)
{
    static const char *const words[] = {"pending", "ready", "refused", "clean", "dirty", "fenced"};

    return (size_t)proof < sizeof words / sizeof words[0] ? words[proof] : "";
}

static void explain_members(struct explanation *explanation, bool until_ready)
{
    const struct fsm_lease *lease = explanation->lease;

    for (uint32_t i = 0; i < lease->n_members; i++) {
        const struct fsm_member *member = &lease->members[i];
        bool over = until_ready ? member->proof == PROOF_READY || member->released
                                : member->proof == PROOF_CLEAN || member->proof == PROOF_FENCED;
        char cure[CURE_MAX];
        Xce__V1__Waiting *wait;

        if (over)
            continue;
        if (until_ready)
            (void)cure_late(lease, member, cure);
        else
            (void)cure_unproved(member, cure);
        wait = wait_for(explanation, say(explanation, "member %s", member->node->name),
                        proof_word(member->proof), say(explanation, "%s", cure));
        if (!wait)
            return;
        if (member->reason && *member->reason)
            wait->detail = say(explanation, "%s%s%s", member->reason,
                               member->detail && *member->detail ? ": " : "",
                               member->detail ? member->detail : "");
        else if (member->node->state != NODE_READY)
            wait->detail = say(
                explanation, "node is %s%s%s", node_proto_state_word(member->node->state),
                member->node->reason ? ": " : "", member->node->reason ? member->node->reason : "");
    }
}

static void explain_witnesses(struct explanation *explanation)
{
    const struct fsm *fsm = service_fsm(explanation->service);
    const struct fsm_node *node = NULL;

    while ((node = fsm_node_next(fsm, node))) {
        const char *hangs = ticker_hangs(explanation->service->ticker, node->name);
        char cure[CURE_MAX];
        Xce__V1__Waiting *wait;

        if (!fsm_lease_waits_for(fsm, explanation->lease, node))
            continue;
        wait = wait_for(explanation, say(explanation, "witness %s", node->name),
                        node_proto_state_word(node->state),
                        say(explanation, "%s", cure_unseen(node, *hangs, cure)));
        if (!wait)
            return;
        wait->detail = say(explanation,
                           "its pass of the range covers revision %" PRIu64 ", needed is %" PRIu64
                           "%s%s",
                           node->watermark, explanation->lease->retired_revision,
                           *hangs ? "; scan-failed: " : "", hangs);
    }
}

/* A backup was restored: no uid is free, whatever the backup says of it. */
static void explain_restored(struct explanation *explanation)
{
    const struct fsm *fsm = service_fsm(explanation->service);
    const struct fsm_node *node = NULL;
    struct fsm_restored restored;
    Xce__V1__Waiting *wait;
    bool any = false;

    fsm_get_restored(fsm, &restored);
    if (!restored.waits)
        return;
    while ((node = fsm_node_next(fsm, node))) {
        const char *what = fsm_node_awaited(fsm, node);
        const char *hangs = ticker_hangs(explanation->service->ticker, node->name);
        char cure[CURE_MAX];

        if (!what)
            continue;
        any = true;
        wait = wait_for(explanation, say(explanation, "node %s", node->name),
                        node_proto_state_word(node->state),
                        say(explanation, "%s", cure_unseen(node, *hangs, cure)));
        if (!wait)
            return;
        wait->detail = say(explanation, "since a backup was restored: %s%s%s", what,
                           *hangs ? "; scan-failed: " : "", hangs);
        wait->since_ms = restored.wall_ms;
    }
    wait = wait_for(explanation, (char *)"administrator", "pending",
                    any ? "when all nodes are clean: leasectl cluster confirm NODES"
                        : "leasectl cluster confirm NODES");
    if (!wait)
        return;
    wait->detail = say(explanation, "a backup was restored, its nodes are not confirmed");
    wait->since_ms = restored.wall_ms;
}

static void explain_holder(struct explanation *explanation)
{
    const struct fsm_lease *lease = explanation->lease;
    Xce__V1__Waiting *wait = wait_for(
        explanation, say(explanation, "holder %s", lease->owner.name), "active",
        say(explanation, "leasectl release --lease %" PRIu64 ", or: leasectl revoke", lease->id));

    if (wait)
        wait->until_ms = lease->expires_ms ? lease->expires_ms + explanation->offset_ms : 0;
}

/* Reasons that no member shows by itself; they are no further things to wait for. */
static void explain_quarantine(struct explanation *explanation)
{
    const struct fsm_lease *lease = explanation->lease;

    for (const struct cure_reason *reason = cure_reasons; reason->reason; reason++) {
        char cure[CURE_MAX];
        Xce__V1__Waiting *wait;

        if (!(lease->quarantine & reason->reason))
            continue;
        wait = wait_for(explanation, say(explanation, "reason %s", reason->word), "quarantined",
                        say(explanation, "%s", cure_quarantined(lease, reason->reason, cure)));
        if (!wait)
            return;
        wait->detail = (char *)(uintptr_t)reason->detail;
        wait->until_ms = 0;
    }
}

static void explain_state(struct explanation *explanation)
{
    const struct fsm_lease *lease = explanation->lease;

    switch (lease->state) {
    case LEASE_GRANTED:
        explain_members(explanation, true);
        break;
    case LEASE_ACTIVE:
        explain_holder(explanation);
        explain_members(explanation, true);
        break;
    case LEASE_DRAINING:
        explain_members(explanation, false);
        break;
    case LEASE_NORMALISING:
        (void)wait_for(explanation, (char *)"write paths", "pending", "");
        break;
    case LEASE_COOLING:
        (void)wait_for(explanation, (char *)"cool-down", "running", "");
        break;
    case LEASE_RETIRED:
        explain_witnesses(explanation);
        break;
    case LEASE_FREE:
        break;
    }
    explain_restored(explanation);
    (void)snprintf(explanation->summary, sizeof explanation->summary,
                   "uid %u is %s (lease %" PRIu64 ", epoch %u%s%s): %zu thing%s to wait for",
                   lease->uid, lease_proto_state_word(lease->state), lease->id, lease->epoch,
                   lease->cause ? ", ended by " : "", lease_proto_cause(lease->cause),
                   explanation->n, explanation->n == 1 ? "" : "s");
    explain_quarantine(explanation);
}

/* blocked NULL: beyond FSM_BLOCKED_MAX of a pool nobody knows why any more. */
static void explain_finding(struct explanation *explanation, const struct fsm_pool *pool,
                            const struct fsm_blocked *blocked, uint32_t uid)
{
    const struct fsm *fsm = service_fsm(explanation->service);
    bool passes = blocked && blocked->revision;
    char cure[CURE_MAX];
    Xce__V1__Waiting *wait;

    wait = wait_for(explanation,
                    passes ? say(explanation, "node %s", blocked->node) : (char *)"administrator",
                    "blocked", say(explanation, "%s", cure_blocked(fsm, pool, uid, blocked, cure)));
    if (wait && blocked) {
        wait->detail = say(explanation, "%s%s%s%s%s", blocked->reason,
                           blocked->node ? " on node " : "", blocked->node ? blocked->node : "",
                           blocked->detail ? ": " : "", blocked->detail ? blocked->detail : "");
        wait->since_ms = blocked->since_wall_ms;
    }
}

/* Each that has found something is waited for by itself. */
static void explain_blocked(struct explanation *explanation, const struct fsm_pool *pool,
                            uint32_t uid)
{
    const struct fsm_blocked *first = NULL;

    for (uint32_t i = 0; i < pool->n_blocked; i++) {
        if (pool->blocked[i].uid != uid)
            continue;
        if (!first)
            first = &pool->blocked[i];
        explain_finding(explanation, pool, &pool->blocked[i], uid);
    }
    if (!first)
        explain_finding(explanation, pool, NULL, uid);
    (void)snprintf(explanation->summary, sizeof explanation->summary, "uid %u is blocked (%s)", uid,
                   first ? first->reason : "so many are that its reason was not kept");
}

/* A uid that no lease holds: free, or blocked. */
static void explain_unleased(struct explanation *explanation, const struct fsm_pool *pool,
                             uint32_t uid)
{
    const struct fsm *fsm = service_fsm(explanation->service);

    if (fsm_uid_is_blocked(fsm, uid))
        explain_blocked(explanation, pool, uid);
    explain_restored(explanation);
    if (explanation->n && !fsm_uid_is_blocked(fsm, uid))
        (void)snprintf(explanation->summary, sizeof explanation->summary,
                       "uid %u was free in the backup that was restored: %zu thing%s to wait for",
                       uid, explanation->n, explanation->n == 1 ? "" : "s");
    else if (!explanation->n)
        (void)snprintf(explanation->summary, sizeof explanation->summary,
                       "uid %u is free; its last epoch was %u", uid, fsm_epoch_floor(fsm, uid));
}

static void reply(struct explanation *explanation, struct service_request *request)
{
    Xce__V1__ExplainReply message = XCE__V1__EXPLAIN_REPLY__INIT;
    const struct fsm *fsm = service_fsm(explanation->service);
    struct lease_proto proto;

    message.waits = explanation->waits;
    message.n_waits = explanation->n;
    message.summary = explanation->summary;
    message.revision = fsm_revision(fsm);
    message.stale = request->stale;
    if (!explanation->lease) {
        service_reply(request, &message.base);
        return;
    }
    if (lease_proto_init(&proto, fsm, explanation->lease, explanation->offset_ms) < 0) {
        service_refuse(request, -ENOMEM, NULL);
        return;
    }
    message.lease = &proto.message;
    service_reply(request, &message.base);
    lease_proto_done(&proto);
}

static void explain(struct service *service, struct service_request *request)
{
    struct explanation *explanation;
    const struct fsm_pool *pool;
    struct find_key found;
    struct err err = {{0}};
    int r = find_lease(service, request, (const Xce__V1__LeaseKey *)request->message, &found, &err);

    if (r != 0) {
        service_refuse(request, r, "%s", err.text);
        return;
    }
    if (!found.lease)
        found.lease = find_ended(service, request, (const Xce__V1__LeaseKey *)request->message);
    pool = found.uid && !found.epoch && request->scope == SCOPE_ALL
               ? fsm_pool_of_uid(service_fsm(service), found.uid)
               : NULL;
    if (!found.lease && !pool) {
        service_refuse(request, FSM_NOT_FOUND, "no such lease%s",
                       request->scope == SCOPE_ALL && found.uid && !found.epoch
                           ? ", and the uid is in no pool"
                           : "");
        return;
    }
    explanation = calloc(1, sizeof *explanation);
    if (!explanation) {
        service_refuse(request, -ENOMEM, NULL);
        return;
    }
    explanation->service = service;
    explanation->lease = found.lease;
    explanation->offset_ms = service_wall_offset_ms(service);
    pb_arena_init(&explanation->arena, ARENA_MAX);
    if (found.lease)
        explain_state(explanation);
    else
        explain_unleased(explanation, pool, found.uid);
    reply(explanation, request);
    pb_arena_done(&explanation->arena);
    free(explanation);
}

void service_lease_explain(struct service *service, struct service_request *request)
{
    service_read(service, request, explain);
}
