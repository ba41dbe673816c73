/* leasectl pool unblock: a uid may be leased again. */
#include "common/text.h"
#include "ctl/ctl.h"
#include "ctl/verb.h"
#include "ctl/view.h"

static int exec(struct ctl *ctl, void *memory, int n_words, char **words)
{
    struct xce_call call = ctl_call(ctl);
    struct xce_pool *pool = NULL;
    struct err err = {0};
    uint32_t uid;
    int status = output_check(ctl, &view_pools), code;

    (void)memory;
    (void)n_words;
    if (status == EXIT_OK && text_parse_u32(words[1], &uid, &err) < 0)
        status = ctl_usage(ctl, "UID: %s", err.text);
    if (status == EXIT_OK)
        status = ctl_connect(ctl);
    if (status != EXIT_OK)
        return status;
    code = xce_pool_unblock(ctl->client, &call, words[0], uid, &pool);
    return view_pool_changed(ctl, code, pool);
}

const struct verb cmd_pool_unblock = {
    .group = "pool",
    .name = "unblock",
    .args = "NAME UID",
    .summary = "Say that a blocked uid may be leased again",
    .more = "First remove what blocks it (leasectl pool show NAME); else it is blocked again.",
    .words_least = 2,
    .words_most = 2,
    .exec = exec,
};
