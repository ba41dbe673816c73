/* What runs below our slices is ended at once, whatever a sweep waits for: a name service, or what another sweep looks at. Only
 * sanctioned things are in there, so nobody is asked. */
#include <stdlib.h>
#include <string.h>

#include "common/mem.h"
#include "noded/noded_inside.h"

struct killing {
    struct noded *n;
    uint32_t *uids;
    size_t n_uids;
    struct sweep_places places;
    struct node_map_reader map;
    struct sweep sweep;
};

/* Of a uid that is here again nothing is meant. */
static bool is_over(uint32_t id, void *arg)
{
    struct killing *k = arg;

    return !node_map_here(&k->map, id);
}

static void work(void *arg)
{
    struct killing *k = arg;

    sweep_run(&k->sweep, SWEEP_SLICES);
}

static void begin(struct noded *n);

static void done(int r, void *arg)
{
    struct killing *k = arg;
    struct noded *n = k->n;

    noded_offload_done(n);
    node_map_reader_done(&k->map);
    sweep_done(&k->sweep);
    free(k->uids);
    free(k);
    n->killing = false;
    if (n->kill_next.n) /* also at noded's end: nothing of it can hang */
        begin(n);
    noded_touch(n);
}

static void begin(struct noded *n)
{
    struct killing *k = mem_must_calloc(1, sizeof(*k));

    n->killing = true;
    k->n = n;
    k->n_uids = n->kill_next.n;
    k->uids = mem_must_calloc(k->n_uids, sizeof(*k->uids));
    for (size_t i = 0; i < k->n_uids; i++)
        k->uids[i] = n->kill_next.items[i].uid;
    n->kill_next.n = 0;
    k->map = (struct node_map_reader){.path = n->map_path, .none = !node_map_exists(n->map)};
    k->places = (struct sweep_places){
        .prefix = "",
        .cgroup = *n->cgroup ? n->cgroup : NULL,
        .slice = NODED_SLICE,
    };
    k->sweep = (struct sweep){
        .places = &k->places,
        .ids = {0, UINT32_MAX, is_over, k},
        .uids = k->uids,
        .n_uids = k->n_uids,
        .remove = true,
    };
    noded_offload(n, work, done, k);
}

void noded_op_kill(const struct state_epoch *uids, size_t n_uids, void *arg)
{
    struct noded *n = arg;

    for (size_t i = 0; i < n_uids; i++)
        if (!n->killing || !uid_list_has(&n->kill_next, uids[i].uid))
            uid_list_add(&n->kill_next, &uids[i]);
    if (!n->killing)
        begin(n);
}
