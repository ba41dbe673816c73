/* What may still lie here of uids that no lease of this node answers for any more. */
#include <stdlib.h>

#include "common/mem.h"
#include "noded/state_inside.h"

static void left_put(struct state *state, struct seen *seen, const struct state_epoch *entry)
{
    seen->left = true;
    mem_must_grow(&state->left, &state->cap_left, state->n_left + 1, sizeof(*state->left));
    state->left[state->n_left++] = *entry;
}

void left_take(struct state *state, struct seen *seen, bool off)
{
    const struct slot *slot = seen->slot;
    bool ours = seen->on_disk || (slot && slot->member && (slot->admitted || slot->closed));

    if (seen->left || !(ours || off) || (seen->closed && seen->swept))
        return;
    left_put(state, seen, &(struct state_epoch){seen->uid, seen->epoch, seen->closed, false});
}

struct state_epoch left_drop(struct state *state, struct seen *seen)
{
    struct state_epoch left = {0};
    size_t i = state->n_left;

    if (!seen->left)
        return left;
    while (state->left[--i].uid != seen->uid) {
    }
    left = state->left[i];
    seen->left = seen->behind = false;
    state->left[i] = state->left[--state->n_left];
    return left;
}

const struct state_epoch *state_left(const struct state *state, size_t *ret_n)
{
    *ret_n = state->n_left;
    return state->left;
}

void state_left_done(struct state *state, uint32_t uid, bool swept)
{
    struct seen *seen = table_find(&state->table, uid);
    struct state_epoch left;
    bool over;

    if (!seen)
        return;
    left = left_drop(state, seen);
    over = !seen->slot || seen->slot->phase >= STATE_RETIRED;
    /* Not if the uid is another lease's now: of that one nothing has been swept. */
    if (!swept || !over || (left.epoch && left.epoch != seen->epoch) ||
        !(seen->on_disk || (seen->slot && seen->slot->member)))
        return;
    if (!seen->closed)
        state_want_persist(state, seen);
    seen->closed = true;
    seen_swept(state, seen, true);
}

void state_left_add(struct state *state, uint32_t uid)
{
    struct seen *seen = table_put(&state->table, uid);

    if (seen->left)
        return;
    left_put(state, seen, &(struct state_epoch){.uid = uid});
    seen_swept(state, seen, false);
}

void state_left_refuse(struct state *state, uint32_t uid, unsigned reason, const char *detail)
{
    struct seen *seen = table_find(&state->table, uid);

    if (seen && seen->left && seen->slot && seen->slot->waiting)
        slot_refuse(state, seen, reason, detail);
}

size_t left_for_rewrite(const struct state *state, struct state_epoch *ret)
{
    size_t n = 0;

    for (size_t i = 0; i < state->n_left; i++) {
        const struct seen *seen = table_find(&state->table, state->left[i].uid);
        if (state->left[i].epoch && seen && !seen->on_disk)
            ret[n++] = state->left[i];
    }
    return n;
}
