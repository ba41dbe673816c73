#include <string.h>

#include "common/json.h"
#include "ctl/ctl.h"
#include "ctl/view.h"

#define CELL(name) static void cell_##name(const void *row, struct buf *buf)
#define NODE       ((const struct xce_node *)row)

CELL(node)
{
    buf_adds(buf, NODE->node);
}

CELL(state)
{
    buf_adds(buf, xce_node_state_word(NODE->state));
}

CELL(drained)
{
    buf_adds(buf, NODE->drained ? "yes" : "no");
}

CELL(connected)
{
    buf_adds(buf, NODE->connected ? "yes" : "no");
}

CELL(leases)
{
    buf_add_u64(buf, NODE->leases);
}

bool view_heard(struct buf *buf, const struct xce_node *node)
{
    bool heard = node->heard_ms && node->heard_ms >= node->listening_ms;

    if (!heard)
        buf_adds(buf, "not since ");
    view_time(buf, heard ? node->heard_ms : node->listening_ms);
    return heard;
}

CELL(heard)
{
    (void)view_heard(buf, NODE);
}

CELL(watermark)
{
    buf_add_u64(buf, NODE->watermark);
}

CELL(session)
{
    buf_add_u64(buf, NODE->session);
}

CELL(reason)
{
    buf_adds(buf, NODE->reason);
}

CELL(actor)
{
    buf_adds(buf, NODE->actor);
}

CELL(machine_id)
{
    buf_adds(buf, NODE->machine_id);
}

CELL(boot_id)
{
    buf_adds(buf, NODE->boot_id);
}

CELL(hello_revision)
{
    buf_add_u64(buf, NODE->hello_revision);
}

CELL(revision)
{
    buf_add_u64(buf, NODE->revision);
}

/* "boot X of machine Y as node n2", of the node's machine or name no more than the boot or the machine. */
CELL(rival)
{
    const struct xce_node_rival *rival = &NODE->rival;

    if (!*rival->boot_id)
        return;
    buf_addf(buf, "boot %s", rival->boot_id);
    if (strcmp(rival->machine_id, NODE->machine_id) != 0)
        buf_addf(buf, " of machine %s", rival->machine_id);
    if (strcmp(rival->node, NODE->node) != 0)
        buf_addf(buf, " as node %s", rival->node);
}

CELL(hangs)
{
    buf_adds(buf, NODE->hangs);
}

static const struct output_column columns[] = {
    {"node", true, false, cell_node},
    {"state", true, false, cell_state},
    {"connected", true, false, cell_connected},
    {"drained", false, false, cell_drained},
    {"leases", true, true, cell_leases},
    {"heard", true, false, cell_heard},
    {"watermark", false, true, cell_watermark},
    {"session", false, true, cell_session},
    {"actor", false, false, cell_actor},
    {"machine_id", false, false, cell_machine_id},
    {"boot_id", false, false, cell_boot_id},
    {"hello_revision", false, true, cell_hello_revision},
    {"revision", false, true, cell_revision},
    {"rival", false, false, cell_rival},
    {"hangs", false, false, cell_hangs},
    {"reason", true, false, cell_reason},
};

const struct output_table view_nodes = {columns, sizeof columns / sizeof columns[0],
                                        sizeof(struct xce_node)};

static struct json *rival_json(const struct xce_node_rival *rival)
{
    struct json *object = json_new_object();

    json_set_string(object, "node", rival->node);
    json_set_string(object, "machine_id", rival->machine_id);
    json_set_string(object, "boot_id", rival->boot_id);
    json_set_time(object, "heard", rival->heard_ms);
    json_set_bool(object, "cloned", rival->cloned);
    return object;
}

struct json *view_node_json(const struct xce_node *node)
{
    struct json *object = json_new_object();

    json_set_string(object, "node", node->node);
    json_set_string(object, "state", xce_node_state_word(node->state));
    json_set_string(object, "reason", node->reason);
    json_set_string(object, "actor", node->actor);
    json_set_string(object, "machine_id", node->machine_id);
    json_set_string(object, "boot_id", node->boot_id);
    json_set_bool(object, "connected", node->connected);
    json_set_bool(object, "drained", node->drained);
    json_set_u64(object, "leases", node->leases);
    json_set_time(object, "heard", node->heard_ms);
    json_set_time(object, "listening", node->listening_ms);
    json_set_u64(object, "session", node->session);
    json_set_u64(object, "watermark", node->watermark);
    json_set_u64(object, "hello_revision", node->hello_revision);
    json_set_u64(object, "revision", node->revision);
    json_set_string(object, "hangs", node->hangs);
    json_set(object, "rival", *node->rival.boot_id ? rival_json(&node->rival) : json_new_null());
    return object;
}

int view_node(struct ctl *ctl, const struct xce_node *node)
{
    if (ctl->globals.json)
        return ctl_print_json(ctl, view_node_json(node));
    return output_rows(ctl, &view_nodes, node, 1);
}
