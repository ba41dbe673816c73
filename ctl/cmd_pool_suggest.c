/* leasectl pool suggest: a range that overlaps with nothing known. */
#include <inttypes.h>
#include <stdio.h>

#include "common/json.h"
#include "ctl/ctl.h"
#include "ctl/pool_options.h"
#include "ctl/verb.h"
#include "ctl/view.h"

struct suggest_options {
    uint32_t count;
    const char *directory_ranges;
};

static const struct option_entry options[] = {
    {"count", 'n', OPTION_U32, offsetof(struct suggest_options, count), "N",
     "so many uids (default 65536)", NULL},
    {"directory-ranges", 0, OPTION_TEXT, offsetof(struct suggest_options, directory_ranges),
     "LIST|none", "uids that your directory service gives out", NULL},
    {NULL, 0, 0, 0, NULL, NULL, NULL},
};

static int print(struct ctl *ctl, const struct xce_suggestion *suggestion)
{
    struct json *object;
    char range[32];

    snprintf(range, sizeof range, "%" PRIu32 "-%" PRIu32, suggestion->range.first,
             suggestion->range.last);
    if (ctl->globals.json) {
        object = json_new_object();
        json_set_string(object, "range", range);
        json_set_u64(object, "first", suggestion->range.first);
        json_set_u64(object, "last", suggestion->range.last);
        json_set(object, "rejected",
                 view_strings_json(suggestion->rejected, suggestion->n_rejected));
        return ctl_print_json(ctl, object);
    }
    for (size_t i = 0; i < suggestion->n_rejected; i++)
        ctl_say(ctl, "passed over: %s", suggestion->rejected[i]);
    printf("%s\n", range);
    return ctl_finish_stdout(ctl);
}

static int exec(struct ctl *ctl, void *memory, int n_words, char **words)
{
    const struct suggest_options *given = memory;
    struct xce_range directory[POOL_DIRECTORY_MAX];
    struct xce_call call = ctl_call(ctl);
    struct xce_suggestion *suggestion;
    size_t n_directory = 0;
    bool none;
    int status = EXIT_OK, code;

    (void)n_words;
    (void)words;
    if (given->directory_ranges)
        status = pool_directory(ctl, given->directory_ranges, directory, &n_directory, &none);
    if (status == EXIT_OK)
        status = ctl_connect(ctl);
    if (status != EXIT_OK)
        return status;
    code = xce_pool_suggest(ctl->client, &call, given->count, directory, n_directory, &suggestion);
    if (code != XCE_OK)
        return ctl_failed(ctl, code);
    status = print(ctl, suggestion);
    xce_free(suggestion);
    return status;
}

const struct verb cmd_pool_suggest = {
    .group = "pool",
    .name = "suggest",
    .args = "",
    .summary = "Propose a range for pool create",
    .options = options,
    .memory = sizeof(struct suggest_options),
    .exec = exec,
};
