/* Tables that hang on the incarnation: made by CmdInit and by restore. */
#ifndef XCE_LEASED_FSM_TABLES_H
#define XCE_LEASED_FSM_TABLES_H

struct fsm;

void tables_init(struct fsm *fsm);

#endif
