#include "leased/service/cure.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#define SAY(...) ((void)snprintf(ret, CURE_MAX, __VA_ARGS__), (const char *)ret)

#define CLONED                                                                                     \
    "two machines speak as %s: switch off both, then leasectl node fence %s; what comes back "     \
    "must "                                                                                        \
    "have a machine-id, a name and a certificate of its own"

const char *cure_late(const struct fsm_lease *lease, const struct fsm_member *member,
                      char ret[static CURE_MAX])
{
    const char *name = member->node->name;

    if (member->node->state == NODE_LOST)
        return SAY("bring %s back, or let it go: leasectl release --lease %" PRIu64 " --node %s",
                   name, lease->id, name);
    return SAY("%s says it by itself; else let it go: leasectl release --lease %" PRIu64
               " --node %s",
               name, lease->id, name);
}

const char *cure_unproved(const struct fsm_member *member, char ret[static CURE_MAX])
{
    const char *name = member->node->name;

    if (member->node->cloned)
        return SAY(CLONED, name, name);
    if (member->node->state == NODE_LOST)
        return SAY("bring %s back, or swear that it is off: leasectl node fence %s", name, name);
    if (member->proof == PROOF_DIRTY)
        return SAY("remove what the detail names on %s, then: leasectl node sweep %s", name, name);
    return SAY("%s sweeps and says CLEAN by itself; at once: leasectl node sweep %s; why not: "
               "journalctl -u noded on %s",
               name, name, name);
}

const char *cure_unseen(const struct fsm_node *node, bool hangs, char ret[static CURE_MAX])
{
    if (node->cloned)
        return SAY(CLONED, node->name, node->name);
    if (node->state == NODE_LOST)
        return SAY("bring %s back, or swear that it is off: leasectl node fence %s", node->name,
                   node->name);
    if (hangs)
        return SAY("%s says it by itself when what hangs there answers: mend that, or reboot %s",
                   node->name, node->name);
    return SAY("%s says it by itself when it has looked; at once: leasectl node sweep %s",
               node->name, node->name);
}

/* Whether the node can still say that what it had to clean up is gone. */
static bool is_heard(const struct fsm *fsm, const char *name)
{
    const struct fsm_node *node = fsm_node(fsm, name);

    return node && node->state != NODE_LOST && node->state != NODE_FENCED;
}

const char *cure_blocked(const struct fsm *fsm, const struct fsm_pool *pool, uint32_t uid,
                         const struct fsm_blocked *blocked, char ret[static CURE_MAX])
{
    const char *node = blocked && blocked->node ? blocked->node : NULL;
    bool passes = blocked && blocked->revision;

    if (passes && !is_heard(fsm, node))
        return SAY("bring %s back; or when you have looked there: leasectl pool unblock %s %" PRIu32
                   " --reason WHY",
                   node, pool->name, uid);
    if (passes && !strcmp(blocked->reason, "stray"))
        return SAY("goes with the next pass of %s that finds nothing; at once: leasectl node sweep "
                   "%s",
                   node, node);
    if (passes)
        return SAY("remove it on %s, then: leasectl node sweep %s", node, node);
    return SAY("remove what is there%s%s, then: leasectl pool unblock %s %" PRIu32 " --reason WHY",
               node ? " on " : "", node ? node : "", pool->name, uid);
}

/* ---- why it is quarantined ---- */

const struct cure_reason cure_reasons[] = {
    {QUARANTINE_STRAY, "stray", "something of the uid was found after it had been proved clean"},
    {QUARANTINE_OATH, "oath-broken",
     "a node that was sworn to be off speaks: what was proved by that does not count"},
    {QUARANTINE_OVERDUE, "overdue", "it waits for longer than ten ready timeouts of its pool"},
    {QUARANTINE_RESTORED, "restored", "it is of before a backup was restored"},
    {0, NULL, NULL},
};

/* The first whose proof it waits for; NULL = none. */
static const struct fsm_member *first_owing(const struct fsm_lease *lease)
{
    for (uint32_t i = 0; lease->state == LEASE_DRAINING && i < lease->n_members; i++)
        if (lease->members[i].proof != PROOF_CLEAN && lease->members[i].proof != PROOF_FENCED)
            return &lease->members[i];
    return NULL;
}

const char *cure_quarantined(const struct fsm_lease *lease, uint32_t reason,
                             char ret[static CURE_MAX])
{
    const struct fsm_member *member = first_owing(lease);
    const char *name = member ? member->node->name : NULL;

    if (reason == QUARANTINE_RESTORED)
        return SAY("goes when the uid is free");
    if (reason == QUARANTINE_OVERDUE)
        return SAY("goes when the rest of this list does");
    if (!name)
        return SAY("goes when every member has proved it clean");
    if (reason == QUARANTINE_STRAY)
        return SAY("goes when every member has proved it clean, %s first; who starts it: "
                   "journalctl -u noded on %s",
                   name, name);
    return SAY("goes when every member has proved it clean, %s first; power off for good what was "
               "fenced",
               name);
}
