#include "leased/rpc/doubt.h"

#include <assert.h>
#include <errno.h>
#include <stdlib.h>

struct doubts {
    doubts_question_fn question;
    void *arg;
    TAILQ_HEAD(, doubt) waiting; /* as they came, so by question */
    uint64_t last;               /* question that began */
    bool asking;                 /* it is not answered */
    bool over;
};

int doubts_new(doubts_question_fn question, void *arg, struct doubts **ret)
{
    struct doubts *doubts = calloc(1, sizeof *doubts);

    if (!doubts)
        return -ENOMEM;
    doubts->question = question;
    doubts->arg = arg;
    TAILQ_INIT(&doubts->waiting);
    *ret = doubts;
    return 0;
}

void doubts_free(struct doubts *doubts)
{
    if (!doubts)
        return;
    assert(TAILQ_EMPTY(&doubts->waiting));
    doubts->over = true;
    if (!doubts->asking)
        free(doubts);
}

static void answered(int r, void *arg);

static void begin(struct doubts *doubts)
{
    doubts->last++;
    doubts->asking = true;
    doubts->question(answered, doubts, doubts->arg);
}

static void settle(int r, struct doubts *doubts)
{
    uint64_t question = doubts->last;
    struct doubt *doubt;

    while ((doubt = TAILQ_FIRST(&doubts->waiting)) && doubt->question <= question) {
        doubts_forget(doubts, doubt);
        doubt->settled(r, doubt);
    }
}

static void answered(int r, void *arg)
{
    struct doubts *doubts = arg;

    if (doubts->over) {
        free(doubts);
        return;
    }
    settle(r, doubts);
    doubts->asking = false;
    if (!TAILQ_EMPTY(&doubts->waiting))
        begin(doubts);
}

void doubts_ask(struct doubts *doubts, struct doubt *doubt,
                void (*settled)(int r, struct doubt *doubt))
{
    doubt->settled = settled;
    doubt->waits = true;
    doubt->question = doubts->last + 1;
    TAILQ_INSERT_TAIL(&doubts->waiting, doubt, link);
    if (!doubts->asking)
        begin(doubts);
}

void doubts_forget(struct doubts *doubts, struct doubt *doubt)
{
    if (doubt->waits)
        TAILQ_REMOVE(&doubts->waiting, doubt, link);
    doubt->waits = false;
}
