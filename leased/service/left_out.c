#include "leased/service/left_out.h"

#include <stdlib.h>

#include "common/mem.h"
#include "leased/watch/lease_proto.h"

/* Members are in the order of nodes, but for those that were added later. *at: the first that was not met yet. */
static bool is_member(const struct fsm_lease *lease, const struct fsm_node *node, uint32_t *at)
{
    if (*at < lease->n_members && lease->members[*at].node == node) {
        ++*at;
        return true;
    }
    for (uint32_t i = 0; i < lease->n_members; i++)
        if (lease->members[i].node == node)
            return true;
    return false;
}

static void add(struct left_out *left_out, size_t *cap, const struct fsm_node *node, bool reasons)
{
    Xce__V1__LeftOut *item;

    mem_must_grow(&left_out->items, cap, left_out->n + 1, sizeof *item);
    item = &left_out->items[left_out->n++];
    xce__v1__left_out__init(item);
    item->node = (char *)node->name;
    item->state = (char *)node_proto_state_word(node->state);
    item->reason = (char *)(reasons && node->reason ? node->reason : "");
}

void left_out_find(const struct fsm *fsm, const struct fsm_lease *lease, bool reasons,
                   struct left_out *ret)
{
    const struct fsm_node *node = NULL;
    size_t cap = 0;
    uint32_t at = 0;

    *ret = (struct left_out){0};
    while ((node = fsm_node_next(fsm, node)))
        if (!is_member(lease, node, &at))
            add(ret, &cap, node, reasons);
    if (ret->n)
        ret->pointers = mem_must_calloc(ret->n, sizeof *ret->pointers);
    for (size_t i = 0; i < ret->n; i++)
        ret->pointers[i] = &ret->items[i];
}

void left_out_done(struct left_out *left_out)
{
    free(left_out->items);
    free(left_out->pointers);
    *left_out = (struct left_out){0};
}
