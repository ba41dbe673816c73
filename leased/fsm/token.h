/* Enrolment tokens: which machine may become which node, once. Kept by hash, in the order in which they were made; what has
 * ended goes when the next is made. */
#ifndef XCE_LEASED_FSM_TOKEN_H
#define XCE_LEASED_FSM_TOKEN_H

#include "leased/fsm/codec.h"
#include "leased/fsm/state.h"

void tokens_done(struct tokens *tokens);
void tokens_put(struct encoder *e, const struct tokens *tokens);
void tokens_get(struct decoder *d, struct tokens *ret);

#endif
