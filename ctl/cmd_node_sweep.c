/* leasectl node sweep: look for leftovers now; or (--dry-run) tell what that would end and remove. */
#include <stdlib.h>
#include <string.h>

#include "common/hostlist.h"
#include "common/json.h"
#include "common/mem.h"
#include "ctl/ctl.h"
#include "ctl/node_verb.h"
#include "ctl/output.h"
#include "ctl/verb.h"

struct sweep_options {
    struct node_options node;
    bool dry_run;
};

static const struct option_entry options[] = {
    NODE_REASON_OPTION("why"),
    {"dry-run", 0, OPTION_FLAG, offsetof(struct sweep_options, dry_run), NULL,
     "only tell what it would do, for each uid and kind", NULL},
    {NULL, 0, 0, 0, NULL, NULL, NULL},
};
_Static_assert(offsetof(struct sweep_options, node) == 0, "NODE_REASON_OPTION counts from there");

/* ---- as a table, and as JSON ---- */

struct row {
    const char *node;
    const struct xce_remnant *remnant;
};

#define ROW        ((const struct row *)row)
#define CELL(name) static void cell_##name(const void *row, struct buf *buf)

CELL(node)
{
    buf_adds(buf, ROW->node);
}

CELL(uid)
{
    if (ROW->remnant->uid)
        buf_add_u64(buf, ROW->remnant->uid);
}

CELL(kind)
{
    buf_adds(buf, ROW->remnant->kind);
}

CELL(count)
{
    buf_add_u64(buf, ROW->remnant->count);
}

CELL(would)
{
    buf_adds(buf, ROW->remnant->would);
}

CELL(detail)
{
    buf_adds(buf, ROW->remnant->detail);
}

static const struct output_column columns[] = {
    {"node", true, false, cell_node},   {"uid", true, true, cell_uid},
    {"kind", true, false, cell_kind},   {"count", true, true, cell_count},
    {"would", true, false, cell_would}, {"detail", true, false, cell_detail},
};

static const struct output_table view_remnants = {columns, sizeof columns / sizeof columns[0],
                                                  sizeof(struct row)};

static struct json *remnants_json(const struct xce_remnants *of)
{
    struct json *object = json_new_object(), *array = json_new_array();

    for (size_t i = 0; i < of->n; i++) {
        const struct xce_remnant *remnant = &of->items[i];
        struct json *item = json_new_object();

        if (remnant->uid)
            json_set_u64(item, "uid", remnant->uid);
        else
            json_set(item, "uid", json_new_null());
        json_set_string(item, "kind", remnant->kind);
        json_set_u64(item, "count", remnant->count);
        json_set_string(item, "would", remnant->would);
        json_set_string(item, "detail", remnant->detail);
        json_append(array, item);
    }
    json_set_string(object, "node", of->node);
    json_set(object, "remnants", array);
    json_set_u64(object, "left_out", of->left_out);
    return object;
}

/* ---- the nodes, one after another ---- */

struct told {
    struct ctl *ctl;
    struct output *table;
    struct json *nodes, *errors; /* with --json and more than one node */
    int status;
};

static int tell(struct told *told, const struct xce_remnants *of)
{
    int status = EXIT_OK;

    if (told->nodes) {
        json_append(told->nodes, remnants_json(of));
        return EXIT_OK;
    }
    if (told->ctl->globals.json)
        return ctl_print_json(told->ctl, remnants_json(of));
    for (size_t i = 0; status == EXIT_OK && i < of->n; i++)
        status = output_add(told->table, &(struct row){of->node, &of->items[i]}, 1);
    if (of->left_out)
        ctl_say(told->ctl, "%s: more was found than is told", of->node);
    return status;
}

static void ask_all(struct told *told, const struct hostlist *list, const char *reason)
{
    struct xce_call call = ctl_call(told->ctl);

    for (size_t i = 0; i < list->n; i++) {
        struct xce_remnants *of;
        int code = xce_node_sweep_dry(told->ctl->client, &call, list->names[i], reason, &of);
        int status;

        if (code != XCE_OK) {
            node_failed(told->ctl, told->errors, list->names[i], code);
            if (told->status == EXIT_OK)
                told->status = ctl_exit(code);
            if (code == XCE_UNREACHABLE) /* leased itself: nobody answers for the others either */
                return;
            continue;
        }
        status = tell(told, of);
        if (told->status == EXIT_OK)
            told->status = status;
        xce_free(of);
    }
}

static int print(struct told *told)
{
    struct json *object;

    if (told->nodes) {
        object = json_new_object();
        json_set(object, "nodes", mem_take(told->nodes));
        json_set(object, "errors", mem_take(told->errors));
        return ctl_print_json(told->ctl, object);
    }
    return told->table ? output_print(mem_take(told->table)) : EXIT_OK;
}

static int dry_run(struct ctl *ctl, const char *hostlist, const char *reason)
{
    AUTO(hostlist_done) struct hostlist list = {0};
    struct told told = {.ctl = ctl};
    struct err err = {0};
    int status = output_check(ctl, &view_remnants);

    if (status == EXIT_OK && hostlist_expand(hostlist, strlen(hostlist), 0, &list, &err) < 0)
        status = ctl_usage(ctl, "NODES: %s", err.text);
    if (status == EXIT_OK)
        status = ctl_connect(ctl);
    if (status != EXIT_OK)
        return status;
    if (!ctl->globals.json && !(told.table = output_new(ctl, &view_remnants)))
        return EXIT_FAILED;
    if (ctl->globals.json && list.n > 1) {
        told.nodes = json_new_array();
        told.errors = json_new_array();
    }
    ask_all(&told, &list, reason);
    status = print(&told);
    return told.status == EXIT_OK ? status : told.status;
}

static int exec(struct ctl *ctl, void *memory, int n_words, char **words)
{
    const struct sweep_options *given = memory;

    (void)n_words;
    if (given->dry_run)
        return dry_run(ctl, words[0], given->node.reason);
    return node_verb_run(ctl, words[0], given->node.reason, xce_node_sweep);
}

const struct verb cmd_node_sweep = {
    .group = "node",
    .name = "sweep",
    .args = "NODES",
    .summary = "Let nodes look for leftovers now",
    .more =
        "NODES is a hostlist: n[01-16].\n"
        "--dry-run removes nothing: one line for each uid and kind, and what would become of it.",
    .options = options,
    .memory = sizeof(struct sweep_options),
    .words_least = 1,
    .words_most = 1,
    .exec = exec,
};
