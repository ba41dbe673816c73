/* Who may do what, as replicated state: replaced as a whole, compare and set, kept sorted and packed, so that the same rules
 * are the same bytes. Whether roles and methods exist is not asked here (it differs between versions): leased/rbac does,
 * before the command is proposed. */
#ifndef XCE_LEASED_FSM_RULES_H
#define XCE_LEASED_FSM_RULES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct fsm;
struct rules;

void rules_done(struct rules *rules);
/* The bytes of a snapshot. false = they are no rules, or not as we would have written them. The revision is the caller's to
 * set. */
bool rules_restore(struct fsm *fsm, const uint8_t *bytes, size_t len);

#endif
