/* Denials that wait. The rules here may be old: another replica may have given the right a moment ago. So the cluster is
 * asked first, and the call is decided by the rules as they are when it has answered.
 *
 * One question is under way at a time and serves all who came before it began; who comes later waits for the next one. So
 * who has no rights can ask for no more than that, however often he calls. One thread: the loop's. */
#ifndef XCE_LEASED_RPC_DOUBT_H
#define XCE_LEASED_RPC_DOUBT_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/queue.h>

struct doubts;

/* Lives in its owner: zeroed, then doubts_ask. */
struct doubt {
    TAILQ_ENTRY(doubt) link;
    uint64_t question; /* that answers it */
    bool waits;
    void (*settled)(
        int r, struct doubt *doubt); /* r: 0 the rules here are current; -errno they may be old */
};

/* Ask whether the state here is current; done exactly once, never inside the call, also after doubts_free. */
typedef void (*doubts_question_fn)(void (*done)(int r, void *arg), void *done_arg, void *arg);

/* 0; -ENOMEM. */
int doubts_new(doubts_question_fn question, void *arg, struct doubts **ret);
/* When nobody waits any more; a question may be under way. NULL does nothing. */
void doubts_free(struct doubts *doubts);

/* settled runs once, later. */
void doubts_ask(struct doubts *doubts, struct doubt *doubt,
                void (*settled)(int r, struct doubt *doubt));
/* It will not. Also of one that does not wait. */
void doubts_forget(struct doubts *doubts, struct doubt *doubt);

#endif
