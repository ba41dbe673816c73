/* leasectl pool create: a range of uids to lease. */
#include "common/text.h"
#include "ctl/ctl.h"
#include "ctl/pool_options.h"
#include "ctl/verb.h"
#include "ctl/view.h"

struct create_options {
    const char *range, *directory_ranges;
    struct pool_settings_options settings;
};

static const struct option_entry options[] = {
    {"range", 0, OPTION_TEXT, offsetof(struct create_options, range), "A-B",
     "its uids, first and last; must be given", NULL},
    {"directory-ranges", 0, OPTION_TEXT, offsetof(struct create_options, directory_ranges),
     "LIST|none", "uids that your directory service gives out; must be given", NULL},
    POOL_SETTINGS_OPTIONS(struct create_options),
    {NULL, 0, 0, 0, NULL, NULL, NULL},
};

static int parse_range(struct ctl *ctl, const char *text, struct xce_range *ret)
{
    struct text_range range;
    struct err err = {0};
    size_t n;
    int r = text_parse_ranges(text, &range, 1, &n, &err);

    if (r < 0 || n != 1)
        return ctl_usage(ctl, "--range: %s", r < 0 && err.text[0] ? err.text : "must be one A-B");
    *ret = (struct xce_range){range.first, range.last};
    return EXIT_OK;
}

static int exec(struct ctl *ctl, void *memory, int n_words, char **words)
{
    const struct create_options *given = memory;
    struct xce_range directory[POOL_DIRECTORY_MAX];
    struct xce_pool_spec spec = {.name = words[0], .directory_ranges = directory};
    struct xce_call call = ctl_call(ctl);
    struct xce_pool *pool = NULL;
    int status = output_check(ctl, &view_pools), code;

    (void)n_words;
    if (status == EXIT_OK && !given->range)
        status = ctl_usage(ctl, "--range: must be given (leasectl pool suggest proposes one)");
    if (status == EXIT_OK && !given->directory_ranges)
        status = ctl_usage(ctl, "--directory-ranges: must be given: which uids does your directory "
                                "service (LDAP, AD) give out? \"none\" is an answer");
    if (status == EXIT_OK)
        status = parse_range(ctl, given->range, &spec.range);
    if (status == EXIT_OK)
        status = pool_directory(ctl, given->directory_ranges, directory, &spec.n_directory_ranges,
                                &spec.directory_none);
    if (status == EXIT_OK)
        status = ctl_connect(ctl);
    if (status != EXIT_OK)
        return status;
    pool_settings(&given->settings, &spec.settings);
    code = xce_pool_create(ctl->client, &call, &spec, &pool);
    return view_pool_changed(ctl, code, pool);
}

const struct verb cmd_pool_create = {
    .group = "pool",
    .name = "create",
    .args = "NAME",
    .summary = "Make a pool of uids to lease",
    .more =
        "Refused on any overlap with system users, login.defs, subuid, systemd's ranges, another\n"
        "pool, what the directory service gives out, or an account that exists.",
    .options = options,
    .memory = sizeof(struct create_options),
    .words_least = 1,
    .words_most = 1,
    .exec = exec,
};
