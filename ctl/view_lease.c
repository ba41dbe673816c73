#include <stdlib.h>

#include "common/hostlist.h"
#include "common/json.h"
#include "common/mem.h"
#include "common/text.h"
#include "ctl/ctl.h"
#include "ctl/view.h"

/* ---- pieces ---- */

void view_time(struct buf *buf, int64_t wall_ms)
{
    char text[TEXT_TIME_BUF];

    if (wall_ms)
        buf_adds(buf, text_format_time(wall_ms, text));
}

void view_strings(struct buf *buf, const char *const *items, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        if (i)
            buf_addc(buf, ',');
        buf_adds(buf, items[i]);
    }
}

struct json *view_strings_json(const char *const *items, size_t n)
{
    struct json *array = json_new_array();

    for (size_t i = 0; i < n; i++)
        json_append(array, json_new_string(items[i]));
    return array;
}

struct json *view_owner_json(const struct xce_owner *owner)
{
    struct json *object = json_new_object();

    json_set_string(object, "name", owner->name);
    json_set_u64(object, "uid", owner->uid);
    json_set_u64(object, "gid", owner->gid);
    return object;
}

/* ---- the table ---- */

#define CELL(name) static void cell_##name(const void *row, struct buf *buf)
#define LEASE      ((const struct xce_lease *)row)

CELL(lease)
{
    buf_add_u64(buf, LEASE->lease);
}

CELL(uid)
{
    buf_add_u64(buf, LEASE->uid);
}

CELL(gid)
{
    buf_add_u64(buf, LEASE->gid);
}

CELL(epoch)
{
    buf_add_u64(buf, LEASE->epoch);
}

CELL(name)
{
    buf_adds(buf, LEASE->name);
}

CELL(pool)
{
    buf_adds(buf, LEASE->pool);
}

CELL(job)
{
    buf_adds(buf, LEASE->job);
}

CELL(owner)
{
    if (LEASE->owner.name[0])
        buf_adds(buf, LEASE->owner.name);
    else
        buf_addf(buf, "#%u", LEASE->owner.uid);
}

/* Where it is, or still owes its proof; a short form of the list. */
CELL(nodes)
{
    const struct xce_lease *lease = LEASE;
    auto_free const char **names = calloc(lease->n_members + 1, sizeof *names);

    if (!names) {
        buf_adds(buf, "?");
        return;
    }
    for (size_t i = 0; i < lease->n_members; i++)
        names[i] = lease->members[i].node;
    if (lease->n_members)
        (void)hostlist_collapse(names, lease->n_members, buf);
}

CELL(members)
{
    for (size_t i = 0; i < LEASE->n_members; i++) {
        const struct xce_member *member = &LEASE->members[i];

        buf_addf(buf, "%s%s=%s", i ? "," : "", member->node, xce_proof_word(member->proof));
        if (member->reason[0])
            buf_addf(buf, "(%s)", member->reason);
    }
}

CELL(state)
{
    buf_adds(buf, xce_lease_state_word(LEASE->state));
}

CELL(quarantined)
{
    buf_adds(buf, LEASE->quarantined ? "yes" : "no");
}

CELL(reasons)
{
    view_strings(buf, LEASE->reasons, LEASE->n_reasons);
}

CELL(write_paths)
{
    for (size_t i = 0; i < LEASE->n_write_paths; i++)
        buf_addf(buf, "%s%s=%s", i ? "," : "", LEASE->write_paths[i].path,
                 xce_path_proof_word(LEASE->write_paths[i].proof));
}

CELL(expires)
{
    if (LEASE->expires_ms)
        view_time(buf, LEASE->expires_ms);
    else
        buf_adds(buf, "never");
}

CELL(ttl)
{
    char text[TEXT_DURATION_BUF];

    buf_adds(buf, LEASE->ttl_ms ? text_format_duration(LEASE->ttl_ms, text) : "none");
}

CELL(granted)
{
    view_time(buf, LEASE->granted_ms);
}

CELL(changed)
{
    view_time(buf, LEASE->changed_ms);
}

CELL(revision)
{
    buf_add_u64(buf, LEASE->revision);
}

CELL(cause)
{
    buf_adds(buf, LEASE->end_cause);
}

CELL(gids)
{
    for (size_t i = 0; i < LEASE->n_gids; i++)
        buf_addf(buf, "%s%u", i ? "," : "", LEASE->gids[i]);
}

CELL(home)
{
    buf_adds(buf, LEASE->home);
}

CELL(shell)
{
    buf_adds(buf, LEASE->shell);
}

static const struct output_column columns[] = {
    {"lease", true, true, cell_lease, 6},
    {"uid", true, true, cell_uid, 10},
    {"gid", false, true, cell_gid, 10},
    {"epoch", false, true, cell_epoch},
    {"name", true, false, cell_name, 14},
    {"pool", false, false, cell_pool},
    {"job", true, false, cell_job, 12},
    {"owner", true, false, cell_owner, 8},
    {"nodes", true, false, cell_nodes, 12},
    {"members", false, false, cell_members, 24},
    {"state", true, false, cell_state, 11},
    {"quarantined", false, false, cell_quarantined},
    {"reasons", true, false, cell_reasons, 12},
    {"write_paths", false, false, cell_write_paths, 16},
    {"expires", true, false, cell_expires, 24},
    {"ttl", false, false, cell_ttl},
    {"granted", false, false, cell_granted, 24},
    {"changed", false, false, cell_changed, 24},
    {"revision", false, true, cell_revision, 8},
    {"cause", false, false, cell_cause, 13},
    {"gids", false, false, cell_gids},
    {"home", false, false, cell_home, 12},
    {"shell", false, false, cell_shell, 17},
};

const struct output_table view_leases = {columns, sizeof columns / sizeof columns[0],
                                         sizeof(struct xce_lease)};

/* ---- JSON ---- */

static struct json *members_json(const struct xce_lease *lease)
{
    struct json *array = json_new_array();

    for (size_t i = 0; i < lease->n_members; i++) {
        const struct xce_member *member = &lease->members[i];
        struct json *object = json_new_object();

        json_set_string(object, "node", member->node);
        json_set_string(object, "proof", xce_proof_word(member->proof));
        json_set_string(object, "reason", member->reason);
        json_set_string(object, "detail", member->detail);
        json_set_bool(object, "released", member->released);
        json_append(array, object);
    }
    return array;
}

static struct json *nodes_json(const struct xce_lease *lease)
{
    struct json *array = json_new_array();

    for (size_t i = 0; i < lease->n_members; i++)
        json_append(array, json_new_string(lease->members[i].node));
    return array;
}

static struct json *write_paths_json(const struct xce_lease *lease)
{
    struct json *array = json_new_array();

    for (size_t i = 0; i < lease->n_write_paths; i++) {
        struct json *object = json_new_object();

        json_set_string(object, "path", lease->write_paths[i].path);
        json_set_string(object, "proof", xce_path_proof_word(lease->write_paths[i].proof));
        json_set_string(object, "reason", lease->write_paths[i].reason);
        json_append(array, object);
    }
    return array;
}

static struct json *gids_json(const struct xce_lease *lease)
{
    struct json *array = json_new_array();

    for (size_t i = 0; i < lease->n_gids; i++)
        json_append(array, json_new_u64(lease->gids[i]));
    return array;
}

struct json *view_lease_json(const struct xce_lease *lease)
{
    struct json *object = json_new_object();

    json_set_u64(object, "lease", lease->lease);
    json_set_u64(object, "uid", lease->uid);
    json_set_u64(object, "gid", lease->gid);
    json_set_u64(object, "epoch", lease->epoch);
    json_set_string(object, "name", lease->name);
    json_set_string(object, "pool", lease->pool);
    json_set_string(object, "job", lease->job);
    json_set(object, "owner", view_owner_json(&lease->owner));
    json_set(object, "nodes", nodes_json(lease));
    json_set(object, "members", members_json(lease));
    json_set_string(object, "state", xce_lease_state_word(lease->state));
    json_set_bool(object, "quarantined", lease->quarantined);
    json_set(object, "reasons", view_strings_json(lease->reasons, lease->n_reasons));
    json_set(object, "write_paths", write_paths_json(lease));
    json_set(object, "gids", gids_json(lease));
    json_set_time(object, "expires", lease->expires_ms);
    json_set_i64(object, "ttl_ms", lease->ttl_ms);
    json_set_time(object, "granted", lease->granted_ms);
    json_set_time(object, "changed", lease->changed_ms);
    json_set_string(object, "cause", lease->end_cause);
    json_set_string(object, "home", lease->home);
    json_set_string(object, "shell", lease->shell);
    json_set_u64(object, "revision", lease->revision);
    return object;
}

int view_lease(struct ctl *ctl, const struct xce_lease *lease)
{
    if (ctl->globals.json)
        return ctl_print_json(ctl, view_lease_json(lease));
    return output_rows(ctl, &view_leases, lease, 1);
}

int view_lease_changed(struct ctl *ctl, int code, struct xce_lease *lease)
{
    int status;

    if (code != XCE_OK)
        return ctl_failed_change(ctl, code);
    status = view_lease(ctl, lease);
    xce_free(lease);
    return status;
}
