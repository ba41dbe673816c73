/* leasectl pool unblock: a uid may be leased again. */
#include "common/text.h"
#include "ctl/ctl.h"
#include "ctl/verb.h"
#include "ctl/view.h"

struct unblock_options {
    const char *reason;
};

static const struct option_entry options[] = {
    {"reason", 'r', OPTION_TEXT, offsetof(struct unblock_options, reason), "TEXT",
     "why it may be leased again; must be given", NULL},
    {NULL, 0, 0, 0, NULL, NULL, NULL},
};

static int exec(struct ctl *ctl, void *memory, int n_words, char **words)
{
    const struct unblock_options *given = memory;
    struct xce_call call = ctl_call(ctl);
    struct xce_pool *pool = NULL;
    struct err err = {0};
    uint32_t uid;
    int status = output_check(ctl, &view_pools), code;

    (void)n_words;
    if (status == EXIT_OK && !given->reason)
        status = ctl_usage(ctl, "--reason: must be given");
    if (status == EXIT_OK && text_parse_u32(words[1], &uid, &err) < 0)
        status = ctl_usage(ctl, "UID: %s", err.text);
    if (status == EXIT_OK)
        status = ctl_connect(ctl);
    if (status != EXIT_OK)
        return status;
    code = xce_pool_unblock(ctl->client, &call, words[0], uid, given->reason, &pool);
    return view_pool_changed(ctl, code, pool);
}

const struct verb cmd_pool_unblock = {
    .group = "pool",
    .name = "unblock",
    .args = "NAME UID",
    .summary = "Say that a blocked uid may be leased again",
    .more = "First remove what blocks it (leasectl pool show NAME); else it is blocked again.",
    .options = options,
    .memory = sizeof(struct unblock_options),
    .words_least = 2,
    .words_most = 2,
    .exec = exec,
};
