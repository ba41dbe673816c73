/* leasectl pool show: one pool, with all its settings and what is blocked in it. */
#include <stdio.h>

#include "ctl/ctl.h"
#include "ctl/verb.h"
#include "ctl/view.h"

/* ---- the uids that must not be leased ---- */

#define BLOCKED ((const struct xce_blocked *)row)

static void cell_uid(const void *row, struct buf *buf)
{
    buf_add_u64(buf, BLOCKED->uid);
}

static void cell_node(const void *row, struct buf *buf)
{
    buf_adds(buf, BLOCKED->node);
}

static void cell_reason(const void *row, struct buf *buf)
{
    buf_adds(buf, BLOCKED->reason);
}

static void cell_since(const void *row, struct buf *buf)
{
    view_time(buf, BLOCKED->since_ms);
}

static void cell_detail(const void *row, struct buf *buf)
{
    buf_adds(buf, BLOCKED->detail);
}

static const struct output_column blocked_columns[] = {
    {"uid", true, true, cell_uid},        {"node", true, false, cell_node},
    {"reason", true, false, cell_reason}, {"since", true, false, cell_since},
    {"detail", true, false, cell_detail},
};

static const struct output_table blocked = {blocked_columns,
                                            sizeof blocked_columns / sizeof blocked_columns[0],
                                            sizeof(struct xce_blocked)};

/* Everything, one "name: value" a line; then the table of what is blocked. */
static int print_whole(struct ctl *ctl, const struct xce_pool *pool)
{
    int status = output_lines(ctl, &view_pools, pool);

    if (status != EXIT_OK || !pool->n_blocked)
        return status;
    printf("\n");
    return output_rows(ctl, &blocked, pool->blocked, pool->n_blocked);
}

static int exec(struct ctl *ctl, void *memory, int n_words, char **words)
{
    struct xce_call call = ctl_call(ctl);
    struct xce_pool *pool;
    int status = output_begin(ctl, &view_pools), code;

    (void)memory;
    (void)n_words;
    if (status != EXIT_OK)
        return status;
    code = xce_pool_get(ctl->client, &call, words[0], &pool);
    if (code != XCE_OK)
        return ctl_failed(ctl, code);
    status = ctl->globals.json || ctl->globals.columns ? view_pool(ctl, pool)
                                                       : print_whole(ctl, pool);
    xce_free(pool);
    return status;
}

const struct verb cmd_pool_show = {
    .group = "pool",
    .name = "show",
    .args = "NAME",
    .summary = "Show one pool, its settings and the uids blocked in it",
    .words_least = 1,
    .words_most = 1,
    .stale = true,
    .exec = exec,
};
