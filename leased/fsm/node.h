/* Nodes: registry, sessions, what they are trusted with, watermarks, oaths. */
#ifndef XCE_LEASED_FSM_NODE_H
#define XCE_LEASED_FSM_NODE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "leased/fsm/state.h"
#include "xce/v1/command.pb-c.h"

struct node *node_find(const struct fsm *fsm, const void *name, size_t len);
const char *node_state_text(enum node_state state);

/* ---- the table (node_table.c) ---- */

/* A node in the table, lost until told otherwise. Strings copied. Tells nobody. */
struct node *node_table_add(struct fsm *fsm, const void *name, size_t len);
/* It must be no member of any lease. */
void node_table_drop(struct fsm *fsm, struct node *node);
void node_table_done(struct fsm *fsm);
/* One more lease with this node a member; the place to give to node_drop_lease. */
uint32_t node_add_lease(struct node *node, struct lease *lease, uint32_t member);
void node_drop_lease(struct node *node, uint32_t place);
/* Its leases by id, in the arena; their number is n_leases. */
struct lease **node_leases_sorted(struct fsm *fsm, const struct node *node);
/* All that can be leased to, by name, in the arena. NULL = none, why is set. */
struct node **node_all_ready(struct fsm *fsm, uint32_t *ret_n,
                             char why[static FSM_MESSAGE_MAX + 1]);
/* Whether no new lease may name it; why says so, with name and state. */
bool node_not_ready(const struct node *node, char why[static FSM_MESSAGE_MAX + 1]);

/* ---- what it is (node.c) ---- */

/* Set health and admin, and the state that they look like. Tells nobody. */
void node_set(struct fsm *fsm, struct node *node, enum node_health health, enum node_admin admin);
void node_set_reason(struct fsm *fsm, struct node *node, const char *reason, const char *actor);
/* The quarantine of its leases may depend on what has changed about it: tell those that differ. */
void node_requarantine(struct fsm *fsm, struct node *node);
/* End what is granted or active with this node a member; where it was added and is not ready yet, it alone goes. */
void node_end_leases(struct fsm *fsm, struct node *node, const char *detail);
/* It was unknown, and has been looked through since, and has told its epochs: it is so no more. */
void node_trust_if_clean(struct fsm *fsm, struct node *node);
/* It has blocked one uid more: false = it may not, it did so too often of late. */
bool node_may_block(struct fsm *fsm, struct node *node);
void node_note_block(struct fsm *fsm, struct node *node);
/* Whether one more uid may be blocked for what the node has to clean up; if not it is cordoned. */
bool node_may_hold(struct fsm *fsm, struct node *node);

/* ---- witnesses (witness.c) ---- */

/* Watermarks or the set of witnesses have changed. */
void witness_changed(struct fsm *fsm);
/* Free what every witness lets go, at most so many; what is left over is noted for the next tick. The number freed. */
uint32_t witness_free(struct fsm *fsm, uint32_t at_most);

/* ---- oaths (oath.c) ---- */

void oath_swear(struct fsm *fsm, const struct node *node, const char *boot_id, const char *reason,
                const char *actor);
/* The lease becomes free: remember which oaths it rests on. */
void oath_note(struct fsm *fsm, const struct lease *lease);
/* This machine says hello in this boot: an oath about the same boot was false, one about another boot is proved true. */
void oath_hello(struct fsm *fsm, struct node *node, const char *machine_id, const char *boot_id);
/* A pool is made or grows: block what rests on an oath that was broken when no pool had it. */
void oath_take_in(struct fsm *fsm, const struct pool *pool);
struct oath *oath_add(struct fsm *fsm, const char *node, const char *machine_id,
                      const char *boot_id, const char *reason, const char *actor);
void oath_add_uid(struct fsm *fsm, struct oath *oath, uint32_t uid);
void oaths_done(struct fsm *fsm);

/* ---- boots (boot.c) ---- */

/* Who says hello. */
struct speaker {
    const char *name, *machine_id, *boot_id;
    bool returned; /* when it was heard, a newer boot of the machine was known */
};

/* Whether it may speak as the node (NULL = not registered); else the outcome says why, and it is remembered. */
bool boots_admit(struct fsm *fsm, struct node *node, const struct speaker *speaker,
                 struct fsm_outcome *outcome);
/* The machine's boot is over: it has spoken in another. */
void boots_next(struct fsm *fsm, struct node *node);
/* Another machine takes the name, or nobody has it any more. */
void boots_forget(struct fsm *fsm, struct node *node);
/* An administrator swears that it is off: so is each of two. After its oath_swear. */
void boots_fenced(struct fsm *fsm, struct node *node, const char *reason, const char *actor);
/* The lease becomes free: remember what rests on it that boots of before are over. */
void boots_note(struct fsm *fsm, const struct lease *lease);
/* What rested on the oath rests on it that the boot is over. */
void boots_take(struct node *node, const struct oath *oath);
void boots_done(struct node *node);
struct former *former_add(struct fsm *fsm, struct node *node, const char *boot_id);
void former_add_uid(struct former *former, uint32_t uid);

/* ---- reports (report.c) ---- */

void report_member(struct fsm *fsm, struct node *node, const Xce__V1__CmdMember *report);

#endif
