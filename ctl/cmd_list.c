/* leasectl list: leases, filtered. */
#include <stdio.h>
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
    JSON_MOST = 1 << 30,
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

/* Where the pages go: the table, or the text of a JSON array. A value of every lease at once would take ten times the
 * memory of its text, so each lease is one line. */
struct collected {
    struct output *output;
    struct buf *text;
};

static int add_json(struct ctl *ctl, struct buf *text, const struct xce_lease *lease)
{
    struct json *value = view_lease_json(lease);
    int r;

    buf_adds(text, text->len ? ",\n    " : "    ");
    r = json_print(value, JSON_LINE, text);
    json_free(value);
    return r < 0 ? ctl_fail(ctl, XCE_FAILED, "the list: %s", err_text(r)) : EXIT_OK;
}

static int add_page(struct ctl *ctl, const struct collected *to, const struct xce_leases *leases)
{
    int status = EXIT_OK;

    if (to->output)
        return output_add(to->output, leases->items, leases->n);
    for (size_t i = 0; i < leases->n && status == EXIT_OK; i++)
        status = add_json(ctl, to->text, &leases->items[i]);
    return status;
}

/* Nothing is printed before the last page is there: an error midway is the only thing on stdout then. */
static int collect(struct ctl *ctl, struct xce_lease_filter *filter, const struct collected *to)
{
    struct xce_call call = ctl_call(ctl);

    do {
        struct xce_leases *leases;
        int code = xce_lease_list(ctl->client, &call, filter, &leases), status;

        if (code != XCE_OK)
            return ctl_failed(ctl, code);
        status = add_page(ctl, to, leases);
        filter->after = leases->next;
        xce_free(leases);
        if (status != EXIT_OK)
            return status;
    } while (filter->after);
    return EXIT_OK;
}

static int print_table(struct ctl *ctl, struct xce_lease_filter *filter)
{
    struct output *output = output_new(ctl, &view_leases);
    int status;

    if (!output)
        return EXIT_FAILED;
    status = collect(ctl, filter, &(struct collected){.output = output});
    if (status == EXIT_OK)
        return output_print(output);
    output_free(output);
    return status;
}

static int print_json(struct ctl *ctl, struct xce_lease_filter *filter)
{
    AUTO(buf_done) struct buf text = BUF_INIT(JSON_MOST);
    int status = collect(ctl, filter, &(struct collected){.text = &text});

    if (status != EXIT_OK)
        return status;
    printf("{\n  \"leases\": [%s", text.len ? "\n" : "");
    fwrite(buf_str(&text), 1, text.len, stdout);
    printf("%s]\n}\n", text.len ? "\n  " : "");
    return ctl_finish_stdout(ctl);
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
    .stale = true,
    .exec = exec,
};
