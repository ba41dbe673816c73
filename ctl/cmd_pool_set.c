/* leasectl pool set: change or grow a pool. */
#include <string.h>

#include "common/text.h"
#include "ctl/ctl.h"
#include "ctl/pool_options.h"
#include "ctl/verb.h"
#include "ctl/view.h"

struct set_options {
    uint32_t last;
    const char *directory_ranges;
    struct pool_settings_options settings;
};

static const struct option_entry options[] = {
    {"last", 0, OPTION_U32, offsetof(struct set_options, last), "UID",
     "grow it to this last uid (a pool never shrinks)", NULL},
    {"directory-ranges", 0, OPTION_TEXT, offsetof(struct set_options, directory_ranges),
     "LIST|none", "uids that your directory service gives out", NULL},
    POOL_SETTINGS_OPTIONS(struct set_options),
    {NULL, 0, 0, 0, NULL, NULL, NULL},
};

static int exec(struct ctl *ctl, void *memory, int n_words, char **words)
{
    static const struct set_options nothing;
    const struct set_options *given = memory;
    struct xce_range directory[POOL_DIRECTORY_MAX];
    struct xce_pool_spec spec = {.name = words[0], .directory_ranges = directory};
    struct xce_call call = ctl_call(ctl);
    struct xce_pool *pool = NULL;
    int status = output_check(ctl, &view_pools), code;

    (void)n_words;
    if (status == EXIT_OK && !memcmp(given, &nothing, sizeof nothing))
        status = ctl_usage(ctl, "set: nothing to set: give an option");
    if (status == EXIT_OK && given->directory_ranges)
        status = pool_directory(ctl, given->directory_ranges, directory, &spec.n_directory_ranges,
                                &spec.directory_none);
    if (status == EXIT_OK)
        status = ctl_connect(ctl);
    if (status != EXIT_OK)
        return status;
    spec.range.last = given->last;
    pool_settings(&given->settings, &spec.settings);
    code = xce_pool_set(ctl->client, &call, &spec, &pool);
    return view_pool_changed(ctl, code, pool);
}

const struct verb cmd_pool_set = {
    .group = "pool",
    .name = "set",
    .args = "NAME",
    .summary = "Change the settings of a pool, or let it grow",
    .more = "What is not given stays as it is.",
    .options = options,
    .memory = sizeof(struct set_options),
    .words_least = 1,
    .words_most = 1,
    .exec = exec,
};
