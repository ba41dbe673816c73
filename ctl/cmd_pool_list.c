/* leasectl pool list. */
#include "common/json.h"
#include "ctl/ctl.h"
#include "ctl/verb.h"
#include "ctl/view.h"

static int print_json(struct ctl *ctl, const struct xce_pools *pools)
{
    struct json *object = json_new_object(), *array = json_new_array();

    for (size_t i = 0; i < pools->n; i++)
        json_append(array, view_pool_json(&pools->items[i]));
    json_set(object, "pools", array);
    return ctl_print_json(ctl, object);
}

static int exec(struct ctl *ctl, void *memory, int n_words, char **words)
{
    struct xce_call call = ctl_call(ctl);
    struct xce_pools *pools;
    int status = output_begin(ctl, &view_pools), code;

    (void)memory;
    (void)n_words;
    (void)words;
    if (status != EXIT_OK)
        return status;
    code = xce_pool_list(ctl->client, &call, &pools);
    if (code != XCE_OK)
        return ctl_failed(ctl, code);
    status = ctl->globals.json ? print_json(ctl, pools)
                               : output_rows(ctl, &view_pools, pools->items, pools->n);
    xce_free(pools);
    return status;
}

const struct verb cmd_pool_list = {
    .group = "pool",
    .name = "list",
    .args = "",
    .summary = "List the pools",
    .more =
        "Columns: name range size state free granted active draining normalising cooling retired\n"
        "blocked quarantined next_due prefix directory_ranges ttl_min ttl_max ttl_default\n"
        "cooldown ready_timeout validity witnesses max_per_owner home shell revision.",
    .stale = true,
    .exec = exec,
};
