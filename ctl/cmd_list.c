/* leasectl list: leases, filtered. */
#include <string.h>

#include "common/json.h"
#include "common/text.h"
#include "ctl/account.h"
#include "ctl/ctl.h"
#include "ctl/verb.h"
#include "ctl/view.h"

enum {
    STATES_MAX = 8,
    PAGE = 2000,
    SCHEMA_STATES_FIRST = XCE_GRANTED,
    SCHEMA_STATES_LAST = XCE_RETIRED,
};

struct list_options {
    bool all, quarantined;
    const char *state, *node, *owner, *pool, *job;
};

#define AT(field) offsetof(struct list_options, field)

static const struct option_entry options[] = {
    {"all", 'a', OPTION_FLAG, AT(all), NULL, "every lease that is not free", NULL},
    {"state", 's', OPTION_TEXT, AT(state), "STATES",
     "granted, active, draining, normalising, cooling, retired; by commas", NULL},
    {"quarantined", 0, OPTION_FLAG, AT(quarantined), NULL, "only these, in any state", NULL},
    {"node", 0, OPTION_TEXT, AT(node), "NODE", "with this member", NULL},
    {"owner", 0, OPTION_TEXT, AT(owner), "USER", "of this owner", NULL},
    {"pool", 0, OPTION_TEXT, AT(pool), "POOL", "of this pool", NULL},
    {"job", 'j', OPTION_TEXT, AT(job), "JOB", "of this job", NULL},
    {NULL, 0, 0, 0, NULL, NULL, NULL},
};

static int parse_states(struct ctl *ctl, const char *text, int *states, size_t *ret_n)
{
    size_t n = 0;

    for (;;) {
        size_t len = strcspn(text, ",");
        int state = SCHEMA_STATES_FIRST;

        while (state <= SCHEMA_STATES_LAST &&
               (strlen(xce_lease_state_word(state)) != len ||
                strncmp(xce_lease_state_word(state), text, len) != 0))
            state++;
        if (state > SCHEMA_STATES_LAST)
            return ctl_usage(ctl,
                             "--state: %.*s: no such state (granted, active, draining, "
                             "normalising, cooling, retired)",
                             (int)len, text);
        if (n == STATES_MAX)
            return ctl_usage(ctl, "--state: more than there are");
        states[n++] = state;
        if (!text[len])
            break;
        text += len + 1;
    }
    *ret_n = n;
    return EXIT_OK;
}

/* Read page after page; each goes to the table or the array. */
static int collect(struct ctl *ctl, struct xce_lease_filter *filter, struct output *output,
                   struct json *array)
{
    struct xce_call call = ctl_call(ctl);

    do {
        struct xce_leases *leases;
        int code = xce_lease_list(ctl->client, &call, filter, &leases);

        if (code != XCE_OK)
            return ctl_failed(ctl, code);
        for (size_t i = 0; array && i < leases->n; i++)
            json_append(array, view_lease_json(&leases->items[i]));
        if (output && output_add(output, leases->items, leases->n) != EXIT_OK) {
            xce_free(leases);
            return EXIT_FAILED;
        }
        filter->after = leases->next;
        xce_free(leases);
    } while (filter->after);
    return EXIT_OK;
}

static int print_table(struct ctl *ctl, struct xce_lease_filter *filter)
{
    struct output *output = output_new(ctl, &view_leases);
    int status;

    if (!output)
        return EXIT_FAILED;
    status = collect(ctl, filter, output, NULL);
    if (status == EXIT_OK)
        return output_print(output);
    output_free(output);
    return status;
}

static int print_json(struct ctl *ctl, struct xce_lease_filter *filter)
{
    struct json *object = json_new_object(), *array = json_new_array();
    int status = collect(ctl, filter, NULL, array);

    json_set(object, "leases", array);
    if (status == EXIT_OK)
        return ctl_print_json(ctl, object);
    json_free(object);
    return status;
}

static int exec(struct ctl *ctl, void *memory, int n_words, char **words)
{
    const struct list_options *given = memory;
    struct xce_lease_filter filter = {
        .all = given->all || given->state || given->quarantined,
        .quarantined = given->quarantined,
        .node = given->node,
        .pool = given->pool,
        .job = given->job,
        .page_size = PAGE,
    };
    int states[STATES_MAX], status = output_check(ctl, &view_leases);
    struct xce_owner owner;
    char owner_name[256];

    (void)n_words;
    (void)words;
    filter.states = states;
    if (status == EXIT_OK && given->state)
        status = parse_states(ctl, given->state, states, &filter.n_states);
    if (status == EXIT_OK && given->owner) {
        status = account_owner(ctl, given->owner, owner_name, sizeof owner_name, &owner);
        filter.has_owner = true;
        filter.owner_uid = status == EXIT_OK ? owner.uid : 0;
    }
    if (status == EXIT_OK)
        status = ctl_connect(ctl);
    if (status != EXIT_OK)
        return status;
    return ctl->globals.json ? print_json(ctl, &filter) : print_table(ctl, &filter);
}

const struct verb cmd_list = {
    .name = "list",
    .args = "",
    .summary = "List the leases that are granted or active",
    .more = "Columns: lease uid gid epoch name pool job owner nodes members state quarantined\n"
            "reasons write_paths expires ttl granted changed revision cause gids home shell.",
    .options = options,
    .memory = sizeof(struct list_options),
    .exec = exec,
};
