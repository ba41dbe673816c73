/* leasectl node list. */
#include <string.h>

#include "common/json.h"
#include "common/mem.h"
#include "ctl/ctl.h"
#include "ctl/verb.h"
#include "ctl/view.h"

struct list_options {
    const char *state;
};

static const char *const states[] = {"ready",   "draining", "cordoned", "lost",
                                     "unknown", "fenced",   NULL};

static const struct option_entry options[] = {
    {"state", 's', OPTION_WORD, offsetof(struct list_options, state), "STATE",
     "only these: ready, draining, cordoned, lost, unknown, fenced", states},
    {NULL, 0, 0, 0, NULL, NULL, NULL},
};

static bool wanted(const struct list_options *given, const struct xce_node *node)
{
    return !given->state || !strcmp(given->state, xce_node_state_word(node->state));
}

static int print_json(struct ctl *ctl, const struct list_options *given,
                      const struct xce_nodes *nodes)
{
    struct json *object = json_new_object(), *array = json_new_array();

    for (size_t i = 0; i < nodes->n; i++)
        if (wanted(given, &nodes->items[i]))
            json_append(array, view_node_json(&nodes->items[i]));
    json_set(object, "nodes", array);
    return ctl_print_json(ctl, object);
}

static int print_table(struct ctl *ctl, const struct list_options *given,
                       const struct xce_nodes *nodes)
{
    struct output *output = output_new(ctl, &view_nodes);
    int status = output ? EXIT_OK : EXIT_FAILED;

    for (size_t i = 0; i < nodes->n && status == EXIT_OK; i++)
        if (wanted(given, &nodes->items[i]))
            status = output_add(output, &nodes->items[i], 1);
    if (status == EXIT_OK)
        return output_print(output);
    output_free(output);
    return status;
}

static int exec(struct ctl *ctl, void *memory, int n_words, char **words)
{
    const struct list_options *given = memory;
    struct xce_call call = ctl_call(ctl);
    struct xce_nodes *nodes;
    int status = output_begin(ctl, &view_nodes), code;

    (void)n_words;
    (void)words;
    if (status != EXIT_OK)
        return status;
    code = xce_node_list(ctl->client, &call, &nodes);
    if (code != XCE_OK)
        return ctl_failed(ctl, code);
    status = ctl->globals.json ? print_json(ctl, given, nodes) : print_table(ctl, given, nodes);
    xce_free(nodes);
    return status;
}

const struct verb cmd_node_list = {
    .group = "node",
    .name = "list",
    .args = "",
    .summary = "List the registered nodes",
    .more =
        "Columns: node state connected drained leases heard watermark session actor machine_id\n"
        "boot_id hello_revision revision rival hangs reason.",
    .options = options,
    .memory = sizeof(struct list_options),
    .stale = true,
    .exec = exec,
};
