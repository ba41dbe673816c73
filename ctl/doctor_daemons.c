/* Whether the daemons answer: leased by asking it, noded by what leased and the map say of it. */
#include <stdio.h>
#include <string.h>

#include "common/clock.h"
#include "common/fsutil.h"
#include "ctl/ctl.h"
#include "ctl/doctor.h"

enum {
    ASK_MS = 5000,
};

/* Each is listed once for each node that has found something. */
static size_t n_blocked_uids(const struct xce_pool *pool)
{
    size_t n = 0;

    for (size_t i = 0, j; i < pool->n_blocked; i++) {
        for (j = 0; pool->blocked[j].uid != pool->blocked[i].uid;)
            j++;
        n += j == i;
    }
    return n;
}

static void look_at_pools(struct doctor *doctor)
{
    struct xce_call call = {.timeout_ms = ASK_MS};
    struct xce_client *client = doctor->ctl->client;
    struct xce_pools *pools;

    if (xce_pool_list(client, &call, &pools) != XCE_OK) {
        doctor_found(doctor, SEVERITY_WARNING, "leased-unlisted", "ask as root",
                     "the pools can not be listed: %s", xce_client_message(client));
        return;
    }
    if (!pools->n)
        doctor_found(doctor, SEVERITY_WARNING, "leased-no-pool", "leasectl pool create",
                     "there is no pool: nothing can be leased");
    for (size_t i = 0; i < pools->n; i++) {
        const struct xce_pool *pool = &pools->items[i];

        doctor_add_range(doctor, pool->range.first, pool->range.last);
        if (pool->has_counts && pool->n_blocked)
            doctor_found(doctor, SEVERITY_WARNING, "leased-blocked",
                         "leasectl pool show NAME names them; remove what is there, then leasectl "
                         "pool unblock NAME UID --reason WHY",
                         "pool %s: %zu uids are blocked", pool->name, n_blocked_uids(pool));
        if (pool->has_counts && pool->counts.quarantined)
            doctor_found(doctor, SEVERITY_WARNING, "leased-quarantined",
                         "leasectl list --quarantined, then leasectl explain UID",
                         "pool %s: %u leases are quarantined", pool->name,
                         pool->counts.quarantined);
    }
    xce_free(pools);
}

void doctor_check_leased(struct doctor *doctor)
{
    struct xce_lease_filter filter = {.page_size = 1};
    struct xce_call call = {.timeout_ms = ASK_MS};
    struct xce_client_options options = {
        .server = doctor->ctl->globals.server,
        .conf = doctor->ctl->globals.conf,
        .patience_ms = 1000,
    };
    struct xce_leases *leases;
    char why[XCE_MESSAGE_MAX];

    if (xce_client_new(&options, &doctor->ctl->client, why) != XCE_OK) {
        doctor_found(doctor, SEVERITY_ERROR, "leased-conf", "correct client.conf", "%s", why);
        return;
    }
    if (xce_lease_list(doctor->ctl->client, &call, &filter, &leases) != XCE_OK) {
        doctor_found(doctor, SEVERITY_ERROR, "leased-silent",
                     "systemctl status leased; or set Server= in /etc/xce/client.conf",
                     "leased does not answer: %s", xce_client_message(doctor->ctl->client));
        return;
    }
    doctor_found(doctor, SEVERITY_OK, "leased-ok", NULL, "leased answers at %s (revision %llu)",
                 xce_client_servers(doctor->ctl->client), (unsigned long long)leases->revision);
    xce_free(leases);
    look_at_pools(doctor);
}

static void judge_node(struct doctor *doctor, const struct xce_node *node)
{
    if (!node->connected)
        doctor_found(doctor, SEVERITY_ERROR, "node-disconnected", "systemctl status noded",
                     "this machine is node %s (%s), and its noded is not connected", node->node,
                     xce_node_state_word(node->state));
    else if (node->state != XCE_NODE_READY)
        doctor_found(doctor, SEVERITY_WARNING, "node-not-ready",
                     "unknown: wait for its first pass; draining, cordoned: leasectl node undrain",
                     "this machine is node %s, which is %s%s%s: it gets no new leases", node->node,
                     xce_node_state_word(node->state), node->reason[0] ? ": " : "", node->reason);
    else
        doctor_found(doctor, SEVERITY_OK, "node-ok", NULL, "this machine is node %s, ready",
                     node->node);
}

void doctor_check_node(struct doctor *doctor)
{
    struct xce_call call = {.timeout_ms = ASK_MS};
    char machine_id[FS_ID_BUF];
    struct xce_nodes *nodes;
    bool seen = false;

    if (!doctor->ctl->client)
        return;
    if (fs_machine_id(machine_id) < 0) {
        doctor_found(doctor, SEVERITY_ERROR, "node-machine-id", "systemd-machine-id-setup",
                     "/etc/machine-id is missing or no id");
        return;
    }
    if (xce_node_list(doctor->ctl->client, &call, &nodes) != XCE_OK)
        return;
    for (size_t i = 0; i < nodes->n; i++) {
        if (strcmp(nodes->items[i].machine_id, machine_id) != 0)
            continue;
        judge_node(doctor, &nodes->items[i]);
        seen = true;
    }
    if (!seen)
        doctor_found(doctor, doctor->have_map ? SEVERITY_WARNING : SEVERITY_NOTE,
                     "node-unregistered", "start noded, if jobs are to run here",
                     "this machine is no registered node");
    xce_free(nodes);
}
