/* leasectl pool retire: no new leases; gone when empty. */
#include "ctl/ctl.h"
#include "ctl/verb.h"
#include "ctl/view.h"

static int exec(struct ctl *ctl, void *memory, int n_words, char **words)
{
    struct xce_call call = ctl_call(ctl);
    struct xce_pool *pool = NULL;
    int status = output_begin(ctl, &view_pools), code;

    (void)memory;
    (void)n_words;
    if (status != EXIT_OK)
        return status;
    code = xce_pool_retire(ctl->client, &call, words[0], &pool);
    return view_pool_changed(ctl, code, pool);
}

const struct verb cmd_pool_retire = {
    .group = "pool",
    .name = "retire",
    .args = "NAME",
    .summary = "Lease nothing more out of a pool; it is gone when it is empty",
    .more = "There is no way back.",
    .words_least = 1,
    .words_most = 1,
    .exec = exec,
};
