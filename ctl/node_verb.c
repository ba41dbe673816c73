#include "ctl/node_verb.h"

#include <stdlib.h>
#include <string.h>

#include "common/hostlist.h"
#include "common/json.h"
#include "common/mem.h"
#include "common/text.h"
#include "ctl/ctl.h"
#include "ctl/view.h"

/* What came of the nodes so far. */
struct result {
    struct ctl *ctl;
    struct xce_node *nodes; /* shallow copies; what they point to is kept in `kept` */
    struct xce_node **kept;
    size_t n;
    struct json *errors; /* with --json and more than one node */
    int status;
};

void node_failed(struct ctl *ctl, struct json *errors, const char *node, int code)
{
    char text[CTL_TOLD_MAX];
    struct json *error;

    if (!errors) {
        (void)ctl_fail(ctl, code, "%s: %s", node, ctl_told(ctl, code, text));
        return;
    }
    error = json_new_object();
    json_set_string(error, "node", node);
    json_set_string(error, "code", xce_code_name(code));
    json_set_string(error, "message", ctl_told(ctl, code, text));
    json_append(errors, error);
}

/* Nobody answers for one node: nobody will for the others. */
static bool hopeless(int code)
{
    return code == XCE_UNREACHABLE || code == XCE_TIMEOUT;
}

static void run_all(struct result *result, const struct hostlist *list, const char *reason,
                    node_verb_fn verb)
{
    struct xce_call call = ctl_call(result->ctl);

    for (size_t i = 0; i < list->n; i++) {
        struct xce_node *node;
        int code = verb(result->ctl->client, &call, list->names[i], reason, &node);

        if (code != XCE_OK) {
            node_failed(result->ctl, result->errors, list->names[i], code);
            if (result->status == EXIT_OK)
                result->status = ctl_exit(code);
            if (hopeless(code))
                return;
            continue;
        }
        result->kept[result->n] = node;
        result->nodes[result->n++] = *node;
    }
}

static int print_json(struct result *result)
{
    struct json *object = json_new_object(), *array = json_new_array();

    for (size_t i = 0; i < result->n; i++)
        json_append(array, view_node_json(&result->nodes[i]));
    json_set(object, "nodes", array);
    json_set(object, "errors", mem_take(result->errors));
    return ctl_print_json(result->ctl, object);
}

/* Who else speaks does not belong into a table of nodes, and must not be overlooked. */
static void say_rival(struct ctl *ctl, const struct xce_node *node)
{
    const struct xce_node_rival *rival = &node->rival;
    bool same_machine = !strcmp(rival->machine_id, node->machine_id);
    bool same_node = !strcmp(rival->node, node->node);
    char at[TEXT_TIME_BUF];

    if (!*rival->boot_id)
        return;
    if (rival->cloned)
        ctl_say(ctl,
                "%s: two machines %s speak as it, in boot %s and in boot %s: switch off both, then "
                "leasectl node fence %s",
                node->node, node->machine_id, node->boot_id, rival->boot_id, node->node);
    else
        ctl_say(ctl, "%s: refused at %s: machine %s in boot %s%s%s%s", node->node,
                text_format_time(rival->heard_ms, at), rival->machine_id, rival->boot_id,
                same_node ? "" : ", as node ", same_node ? "" : rival->node,
                same_machine ? ": its machine, or a copy of it" : "");
}

/* Nor must this: no uid becomes free there. */
static void say_hangs(struct ctl *ctl, const struct xce_node *node)
{
    if (*node->hangs)
        ctl_say(ctl, "%s: a look at what lies around hangs: %s", node->node, node->hangs);
}

static int print(struct result *result, bool many)
{
    struct ctl *ctl = result->ctl;

    if (ctl->globals.json && many)
        return print_json(result);
    if (!result->n)
        return EXIT_OK;
    if (ctl->globals.json)
        return ctl_print_json(ctl, view_node_json(&result->nodes[0]));
    for (size_t i = 0; i < result->n; i++) {
        say_rival(ctl, &result->nodes[i]);
        say_hangs(ctl, &result->nodes[i]);
    }
    return output_rows(ctl, &view_nodes, result->nodes, result->n);
}

int node_verb_run(struct ctl *ctl, const char *hostlist, const char *reason, node_verb_fn verb)
{
    AUTO(hostlist_done) struct hostlist list = {0};
    struct result result = {.ctl = ctl};
    struct err err = {0};
    int status = output_check(ctl, &view_nodes);

    if (status == EXIT_OK && hostlist_expand(hostlist, strlen(hostlist), 0, &list, &err) < 0)
        status = ctl_usage(ctl, "NODES: %s", err.text);
    if (status == EXIT_OK)
        status = ctl_connect(ctl);
    if (status != EXIT_OK)
        return status;
    result.nodes = calloc(list.n, sizeof *result.nodes);
    result.kept = calloc(list.n, sizeof(struct xce_node *));
    if (!result.nodes || !result.kept) {
        result.status = ctl_fail(ctl, XCE_FAILED, "out of memory");
    } else {
        if (ctl->globals.json && list.n > 1)
            result.errors = json_new_array();
        run_all(&result, &list, reason, verb);
        status = print(&result, list.n > 1);
        if (result.status == EXIT_OK)
            result.status = status;
    }
    for (size_t i = 0; i < result.n; i++)
        xce_free(result.kept[i]);
    json_free(result.errors);
    free(result.nodes);
    free(result.kept);
    return result.status;
}
