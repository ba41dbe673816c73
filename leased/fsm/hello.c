/* Sessions of nodes: they begin with a hello, end with the next one, and bring watermarks. */
#include <string.h>

#include "leased/fsm/apply.h"
#include "leased/fsm/incarnation.h"
#include "leased/fsm/lease.h"
#include "leased/fsm/node.h"
#include "leased/fsm/pool.h"

/* Frees in one command, so that applying an entry never takes long; the next tick goes on. */
#define FREES_AT_ONCE 1024

struct hello {
    const char *machine_id, *boot_id;
    bool fresh;       /* not registered before */
    bool new_machine; /* another one takes the name of a fenced one */
    bool rebooted;    /* no process of before can be left */
    bool trusted;     /* took over in order from one that was trusted */
};

/* ---- hello ---- */

static bool is_text(const Xce__V1__CmdHello *cmd, struct fsm_outcome *outcome)
{
    return apply_text(cmd->node, "node", APPLY_NAME_MAX, false, outcome) &&
           apply_text(cmd->machine_id, "machine-id", APPLY_NAME_MAX, false, outcome) &&
           apply_text(cmd->boot_id, "boot-id", APPLY_NAME_MAX, false, outcome);
}

/* What a node has seen was acknowledged: a state that does not go so far is an old one. To go on from there would give the
 * same epochs, and so the same names, to others. */
static bool is_old(const struct fsm *fsm, const Xce__V1__CmdHello *cmd, struct fsm_outcome *outcome)
{
    if (cmd->seen <= fsm->revision)
        return false;
    fsm_fail(outcome, FSM_PRECONDITION,
             "the state of leased ends at revision %llu, and this node has seen %llu of it: it is "
             "an old one that was "
             "put back",
             (unsigned long long)fsm->revision, (unsigned long long)cmd->seen);
    return true;
}

/* The node that says hello, registered if need be; NULL = refused. */
static struct node *admit(struct fsm *fsm, const Xce__V1__CmdHello *cmd, struct hello *hello,
                          struct fsm_outcome *outcome)
{
    struct node *node = node_find(fsm, cmd->node.data, cmd->node.len);
    struct speaker speaker = {apply_string(fsm, cmd->node), hello->machine_id, hello->boot_id,
                              cmd->returned};

    if (!boots_admit(fsm, node, &speaker, outcome))
        return NULL;
    if (!node) {
        if (fsm->n_nodes >= FSM_NODES_MAX) {
            fsm_fail(outcome, FSM_EXHAUSTED, "%d nodes are registered, no more are taken",
                     FSM_NODES_MAX);
            return NULL;
        }
        hello->fresh = true;
        return node_table_add(fsm, cmd->node.data, cmd->node.len);
    }
    hello->new_machine = strcmp(node->pub.machine_id, hello->machine_id) != 0;
    hello->rebooted = hello->new_machine || strcmp(node->pub.boot_id, hello->boot_id) != 0;
    hello->trusted = cmd->clean_start && !hello->rebooted && node->health == HEALTH_OK;
    return node;
}

static const char *why_unknown(const struct hello *hello, const struct node *node)
{
    if (hello->fresh)
        return "registered, not yet looked through";
    if (hello->rebooted)
        return "its machine was restarted, not yet looked through";
    return node->health == HEALTH_LOST ? "was lost, not yet looked through"
                                       : "noded was restarted, not yet looked through";
}

static void begin_session(struct fsm *fsm, struct node *node, const struct hello *hello,
                          struct fsm_outcome *outcome)
{
    struct intern *strings = &fsm->strings;
    const char *machine_id = intern_text(strings, hello->machine_id);
    const char *boot_id = intern_text(strings, hello->boot_id);

    if (hello->new_machine)
        boots_forget(fsm, node);
    else if (hello->rebooted)
        boots_next(fsm, node);
    intern_put(strings, node->pub.machine_id);
    intern_put(strings, node->pub.boot_id);
    node->pub.machine_id = machine_id;
    node->pub.boot_id = boot_id;
    node->pub.session = outcome->session = ++fsm->last_session;
    node->epochs_told = node->epochs_told && !hello->new_machine;
    node->epochs_known = node->epochs_known && !hello->new_machine;
    node->epochs_again = false;
    node->n_epochs_said = 0;
    if (node->admin == ADMIN_NONE)
        node_set_reason(fsm, node, hello->trusted ? NULL : why_unknown(hello, node), NULL);
    node_set(fsm, node, hello->trusted ? HEALTH_OK : HEALTH_UNKNOWN, node->admin);
}

/* Only a watermark that knows of all that this command has changed ends `unknown`: so this change comes last. */
static void changed_last(struct fsm *fsm, struct node *node, bool hello)
{
    if (hello)
        node->pub.hello_revision = fsm->revision + 1;
    if (node->health == HEALTH_UNKNOWN)
        node->pub.unknown_revision = fsm->revision + 1;
    fsm_changed_node(fsm, node, CHANGE_NODE);
}

/* READY counts under the session that said it: who is not yet active hears it again. */
static void take_back_ready(struct fsm *fsm, struct node *node)
{
    struct lease **leases = node_leases_sorted(fsm, node);

    for (uint32_t i = 0, n = node->pub.n_leases; i < n; i++) {
        uint32_t m = lease_member_index(leases[i], node);

        if (leases[i]->pub.state != LEASE_GRANTED || leases[i]->pub.members[m].proof != PROOF_READY)
            continue;
        lease_set_proof(fsm, leases[i], m, PROOF_PENDING, NULL, NULL);
        lease_proved(fsm, leases[i]);
    }
}

void apply_hello(struct fsm *fsm, const Xce__V1__Command *command, struct fsm_outcome *outcome)
{
    const Xce__V1__CmdHello *cmd = command->hello;
    struct hello hello = {0};
    struct node *node;
    char detail[FSM_MESSAGE_MAX + 1];

    if (!is_text(cmd, outcome) || is_old(fsm, cmd, outcome))
        return;
    hello.machine_id = apply_string(fsm, cmd->machine_id);
    hello.boot_id = apply_string(fsm, cmd->boot_id);
    node = admit(fsm, cmd, &hello, outcome);
    if (!node)
        return;
    begin_session(fsm, node, &hello, outcome);
    if (hello.rebooted) {
        fsm_format(detail, "the machine of node %s was restarted", node->pub.name);
        node_end_leases(fsm, node, detail);
    } else {
        take_back_ready(fsm, node);
    }
    oath_hello(fsm, node, hello.machine_id, hello.boot_id);
    for (size_t i = 0; i < cmd->n_proofs; i++)
        report_member(fsm, node, cmd->proofs[i]);
    node_requarantine(fsm, node);
    changed_last(fsm, node, true);
}

/* ---- lost and heard again ---- */

static void lose(struct fsm *fsm, struct node *node)
{
    char detail[FSM_MESSAGE_MAX + 1];

    node_set(fsm, node, HEALTH_LOST, node->admin);
    if (node->admin == ADMIN_NONE)
        node_set_reason(fsm, node, "not heard", NULL);
    fsm_changed_node(fsm, node, CHANGE_NODE);
    fsm_format(detail, "node %s was lost", node->pub.name);
    node_end_leases(fsm, node, detail);
    node_requarantine(fsm, node);
    (void)witness_free(fsm, FREES_AT_ONCE);
}

void apply_node_lost(struct fsm *fsm, const Xce__V1__Command *command, struct fsm_outcome *outcome)
{
    const Xce__V1__CmdNodeLost *lost = command->node_lost;
    struct node *node = apply_session(fsm, lost->node, lost->session, outcome);

    if (!node || (node->health == HEALTH_LOST) == !lost->heard_again)
        return;
    if (!lost->heard_again) {
        lose(fsm, node);
        return;
    }
    node_set(fsm, node, HEALTH_UNKNOWN, node->admin);
    if (node->admin == ADMIN_NONE)
        node_set_reason(fsm, node, "was lost, not yet looked through", NULL);
    node_requarantine(fsm, node);
    changed_last(fsm, node, false);
}

/* ---- watermarks ---- */

/* A pass that knew of all up to its revision found nothing that is not here. */
static void take_watermark(struct fsm *fsm, struct node *node, uint64_t revision)
{
    if (revision > fsm->revision)
        return;
    if (revision > node->pub.watermark) {
        node->pub.watermark = revision;
        witness_changed(fsm);
        pool_strays_gone(fsm, node);
        if (node->health == HEALTH_LOST)
            node_requarantine(fsm, node);
    }
    node_trust_if_clean(fsm, node);
}

void node_trust_if_clean(struct fsm *fsm, struct node *node)
{
    if (node->health != HEALTH_UNKNOWN || node->pub.watermark < node->pub.unknown_revision ||
        incarnation_wants(fsm, node))
        return;
    node_set(fsm, node, HEALTH_OK, node->admin);
    if (node->admin == ADMIN_NONE)
        node_set_reason(fsm, node, NULL, NULL);
    fsm_changed_node(fsm, node, CHANGE_NODE);
}

void apply_watermarks(struct fsm *fsm, const Xce__V1__Command *command, struct fsm_outcome *outcome)
{
    const Xce__V1__CmdWatermarks *marks = command->watermarks;

    (void)outcome;
    for (size_t i = 0; i < marks->n_marks; i++) {
        const Xce__V1__CmdWatermark *mark = marks->marks[i];
        struct node *node = node_find(fsm, mark->node.data, mark->node.len);

        if (node && mark->session && mark->session == node->pub.session)
            take_watermark(fsm, node, mark->revision);
    }
    (void)witness_free(fsm, FREES_AT_ONCE);
}
