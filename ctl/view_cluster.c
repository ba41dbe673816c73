/* Replicas as a table and as JSON. */
#include <inttypes.h>
#include <stdio.h>

#include "common/json.h"
#include "ctl/ctl.h"
#include "ctl/view.h"

#define CELL(name) static void cell_##name(const void *row, struct buf *buf)
#define ROW        ((const struct xce_replica *)row)

CELL(name)
{
    buf_adds(buf, ROW->name);
}

CELL(address)
{
    buf_adds(buf, ROW->address);
}

CELL(role)
{
    buf_adds(buf, xce_replica_role_word(ROW->role));
}

CELL(leads)
{
    buf_adds(buf, ROW->leads ? "yes" : "no");
}

CELL(up)
{
    buf_adds(buf, ROW->up ? "yes" : "no");
}

CELL(last_entry)
{
    if (ROW->last_entry)
        buf_add_u64(buf, ROW->last_entry);
}

CELL(id)
{
    buf_addf(buf, "%016" PRIx64, ROW->id);
}

CELL(degraded)
{
    buf_adds(buf, ROW->degraded);
}

static const struct output_column columns[] = {
    {"name", true, false, cell_name},
    {"address", true, false, cell_address},
    {"role", true, false, cell_role},
    {"leads", true, false, cell_leads},
    {"up", true, false, cell_up},
    {"last_entry", true, true, cell_last_entry},
    {"degraded", true, false, cell_degraded},
    {"id", false, false, cell_id},
};

const struct output_table view_replicas = {columns, sizeof columns / sizeof columns[0],
                                           sizeof(struct xce_replica)};

static struct json *member_json(const struct xce_replica *member)
{
    struct json *object = json_new_object();
    char id[20];

    (void)snprintf(id, sizeof id, "%016" PRIx64, member->id);
    json_set_string(object, "name", member->name);
    json_set_string(object, "address", member->address);
    json_set_string(object, "role", xce_replica_role_word(member->role));
    json_set_bool(object, "leads", member->leads);
    json_set_bool(object, "up", member->up);
    json_set_u64(object, "last_entry", member->last_entry);
    json_set_string(object, "id", id);
    json_set_string(object, "degraded", *member->degraded ? member->degraded : NULL);
    return object;
}

static struct json *restored_json(const struct xce_cluster *cluster)
{
    struct json *object, *awaited;

    if (!cluster->restored)
        return json_new_null();
    object = json_new_object();
    awaited = json_new_array();
    for (size_t i = 0; i < cluster->n_awaited; i++) {
        struct json *node = json_new_object();

        json_set_string(node, "node", cluster->awaited[i].node);
        json_set_string(node, "what", cluster->awaited[i].what);
        json_append(awaited, node);
    }
    json_set_u64(object, "backup_revision", cluster->backup_revision);
    json_set_time(object, "time", cluster->restored_wall_ms);
    json_set_bool(object, "waits", cluster->restored_waits);
    json_set(object, "awaited", awaited);
    return object;
}

static struct json *cluster_json(const struct xce_cluster *cluster)
{
    struct json *object = json_new_object(), *members = json_new_array();
    char digest[20];

    (void)snprintf(digest, sizeof digest, "%016" PRIx64, cluster->digest);
    for (size_t i = 0; i < cluster->n_members; i++)
        json_append(members, member_json(&cluster->members[i]));
    json_set_string(object, "engine", cluster->engine);
    json_set_string(object, "leader", *cluster->leader ? cluster->leader : NULL);
    json_set_string(object, "self", *cluster->self ? cluster->self : NULL);
    json_set(object, "members", members);
    json_set_u64(object, "term", cluster->term);
    json_set_u64(object, "applied", cluster->applied);
    json_set_u64(object, "revision", cluster->revision);
    json_set_string(object, "digest", digest);
    json_set_string(object, "health", *cluster->health ? cluster->health : NULL);
    json_set(object, "restored", restored_json(cluster));
    return object;
}

static void say_restored(struct ctl *ctl, const struct xce_cluster *cluster)
{
    if (!cluster->restored_waits)
        return;
    ctl_say(ctl, "a backup (revision %" PRIu64 ") was restored: no uid is given out yet",
            cluster->backup_revision);
    for (size_t i = 0; i < cluster->n_awaited; i++)
        ctl_say(ctl, "node %s: waits for %s", cluster->awaited[i].node, cluster->awaited[i].what);
    ctl_say(ctl, cluster->n_awaited ? "then: leasectl cluster confirm NODES"
                                    : "all nodes are clean: leasectl cluster confirm NODES");
}

int view_cluster(struct ctl *ctl, const struct xce_cluster *cluster)
{
    if (ctl->globals.json)
        return ctl_print_json(ctl, cluster_json(cluster));
    if (*cluster->health)
        ctl_say(ctl, "%s refuses writes: %s", *cluster->self ? cluster->self : "leased",
                cluster->health);
    say_restored(ctl, cluster);
    if (cluster->n_members == 0)
        ctl_say(ctl, "no replica: the engine is %s", cluster->engine);
    return output_rows(ctl, &view_replicas, cluster->members, cluster->n_members);
}

int view_cluster_changed(struct ctl *ctl, int code, struct xce_cluster *cluster)
{
    int status;

    if (code != XCE_OK)
        return ctl_failed_change(ctl, code);
    status = view_cluster(ctl, cluster);
    xce_free(cluster);
    return status;
}
