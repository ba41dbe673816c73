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
    doctor->leased_answers = true;
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

    if (!doctor->leased_answers)
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
        snprintf(doctor->node, sizeof doctor->node, "%s", nodes->items[i].node);
        seen = true;
    }
    if (!seen && doctor_knows_no_leases(doctor))
        doctor_found(doctor, SEVERITY_OK, "node-ok", NULL, "this machine is no node");
    else if (!seen)
        doctor_found(doctor, doctor->have_map ? SEVERITY_WARNING : SEVERITY_NOTE,
                     "node-unregistered", "start noded, if jobs are to run here",
                     "this machine is no registered node");
    xce_free(nodes);
}
