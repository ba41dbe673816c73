/* What is said of uids without a lease here that would show whether leased has heard it: kept, and said again in the next
 * session. Of an older epoch until leased shows that it knows; of a stray until a session has gone on for a while after. */
#include <stdlib.h>

#include "common/mem.h"
#include "noded/state_inside.h"

static void again_cut(struct state *state, size_t i)
{
    free(state->agains[i].detail);
    state->agains[i] = state->agains[--state->n_agains];
}

void again_drop(struct state *state, uint32_t uid)
{
    for (size_t i = state->n_agains; i-- > 0;)
        if (state->agains[i].uid == uid)
            again_cut(state, i);
}

void again_done(struct state *state)
{
    while (state->n_agains)
        again_cut(state, state->n_agains - 1);
    free(state->agains);
}

static void again_tell(struct state *state, struct again *again)
{
    struct state_verdict about = {again->uid, again->epoch, again->reason, again->detail};

    again->said = true;
    again->said_ms = state->now_ms;
    state->ops.say(again->what, &about, state->arg);
    if (again->what == SAY_STRAY)
        state_due(state, state->now_ms + state->limits.resay_ms);
}

void again_say(struct state *state, enum state_say what, const struct state_verdict *about)
{
    struct again *again;

    again_drop(state, about->uid);
    mem_must_grow(&state->agains, &state->cap_agains, state->n_agains + 1, sizeof(*state->agains));
    again = &state->agains[state->n_agains++];
    *again = (struct again){about->uid,
                            about->epoch,
                            about->reason,
                            what,
                            about->detail ? mem_must_strdup(about->detail) : NULL,
                            0};
    if (state->in_session)
        again_tell(state, again);
}

void again_session(struct state *state, bool full)
{
    for (size_t i = state->n_agains; i-- > 0;) {
        state->agains[i].said = false;
        if (full && state->agains[i].what != SAY_STRAY) /* the list shows it again */
            again_cut(state, i);
    }
}

void again_flush(struct state *state)
{
    for (size_t i = 0; i < state->n_agains; i++)
        if (!state->agains[i].said)
            again_tell(state, &state->agains[i]);
}

void again_elapse(struct state *state)
{
    for (size_t i = state->n_agains; i-- > 0;) {
        const struct again *again = &state->agains[i];
        if (again->what != SAY_STRAY)
            continue;
        if (again->said_ms + state->limits.resay_ms <= state->now_ms)
            again_cut(state, i);
        else
            state_due(state, again->said_ms + state->limits.resay_ms);
    }
}
