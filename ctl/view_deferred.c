#include "common/json.h"
#include "ctl/ctl.h"
#include "ctl/view.h"

#define CELL(name) static void cell_##name(const void *row, struct buf *buf)
#define DEFERRED   ((const struct xce_deferred *)row)

CELL(lease)
{
    buf_add_u64(buf, DEFERRED->lease);
}

CELL(uid)
{
    buf_add_u64(buf, DEFERRED->uid);
}

CELL(epoch)
{
    buf_add_u64(buf, DEFERRED->epoch);
}

CELL(passed)
{
    buf_adds(buf, DEFERRED->passed ? "now" : "later");
}

static const struct output_column columns[] = {
    {"lease", true, true, cell_lease},
    {"uid", true, true, cell_uid},
    {"epoch", true, true, cell_epoch},
    {"passed", true, false, cell_passed},
};

const struct output_table view_deferred = {columns, sizeof columns / sizeof columns[0],
                                           sizeof(struct xce_deferred)};

static struct json *one_json(const struct xce_deferred *deferred)
{
    struct json *object = json_new_object();

    json_set_u64(object, "lease", deferred->lease);
    json_set_u64(object, "uid", deferred->uid);
    json_set_u64(object, "epoch", deferred->epoch);
    json_set_bool(object, "passed", deferred->passed);
    return object;
}

int view_deferreds(struct ctl *ctl, const struct xce_deferred *rows, size_t n, bool many)
{
    struct json *object, *array;

    if (!ctl->globals.json)
        return output_rows(ctl, &view_deferred, rows, n);
    if (!many)
        return ctl_print_json(ctl, one_json(&rows[0]));
    object = json_new_object();
    array = json_new_array();
    for (size_t i = 0; i < n; i++)
        json_append(array, one_json(&rows[i]));
    json_set(object, "deferred", array);
    return ctl_print_json(ctl, object);
}
