/* Questions about accounts of many uids, a packet at a time. */
#include <stdlib.h>
#include <string.h>

#include "common/mem.h"
#include "noded/noded_inside.h"
#include "noded/reason.h"

#define ASK_MS 20000

struct ask {
    struct noded *n;
    noded_asked_fn done;
    void *arg;
    struct state_epoch *uids;
    size_t n_uids, asked;
    struct verdicts found;
};

static void ask_next(struct ask *ask);

static void ask_finish(struct ask *ask, bool failed)
{
    ask->done(ask->n, failed, &ask->found, ask->arg);
    verdicts_done(&ask->found);
    free(ask->uids);
    free(ask);
}

static uint32_t epoch_of(const struct ask *ask, uint32_t uid)
{
    for (size_t i = 0; i < ask->n_uids; i++)
        if (ask->uids[i].uid == uid)
            return ask->uids[i].epoch;
    return 0;
}

static void answered(int r, const struct collide_answer *answer, void *arg)
{
    struct ask *ask = arg;

    /* More than fit into the answer: the rest is not known. */
    if (r < 0 || answer->total > answer->n) {
        ask_finish(ask, true);
        return;
    }
    for (uint32_t i = 0; i < answer->n; i++) {
        const struct collide_found *found = &answer->found[i];
        verdicts_add(&ask->found, found->uid, epoch_of(ask, found->uid), found->reason,
                     found->detail);
    }
    ask_next(ask);
}

static void ask_next(struct ask *ask)
{
    struct collide_question q = {.kind = COLLIDE_UIDS};
    size_t left = ask->n_uids - ask->asked;

    if (left == 0 || atomic_load(&ask->n->stopping)) {
        ask_finish(ask, left > 0);
        return;
    }
    q.n = left < COLLIDE_UIDS_MAX ? (uint32_t)left : COLLIDE_UIDS_MAX;
    memcpy(q.prefix, ask->n->prefix, sizeof(ask->n->prefix));
    for (uint32_t i = 0; i < q.n; i++)
        q.uids[i] = (struct collide_uid){ask->uids[ask->asked + i].uid,
                                         ask->uids[ask->asked + i].epoch};
    ask->asked += q.n;
    accounts_ask(ask->n->accounts, &q, ASK_MS, answered, ask);
}

void noded_ask(struct noded *n, const struct state_epoch *uids, size_t n_uids, noded_asked_fn done,
               void *arg)
{
    struct ask *ask = mem_must_calloc(1, sizeof(*ask));

    ask->n = n;
    ask->done = done;
    ask->arg = arg;
    ask->uids = mem_must_dup(uids, n_uids * sizeof(*uids));
    ask->n_uids = n_uids;
    ask_next(ask);
}
