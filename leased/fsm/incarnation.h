/* The state is a backup of an earlier time: a new incarnation, which does not know what the one before granted after that.
 *
 *   CmdRestore ─▶ waits: nothing is granted, nothing becomes free ─ each node has said hello, told its epochs, and was
 *   clean; an administrator has confirmed the list of nodes (CmdConfirm) ─▶ goes on
 *
 * What the backup does not know of a uid its nodes do: whoever was a member has the epoch on disk (I3). So:
 *   - every lease of the backup drains, and each member proves anew;
 *   - a node that reports an epoch above that of the backup held a lease that the backup does not know: such a lease is made
 *     again, as draining, with that node a member, so that the uid goes the way of every other (I2);
 *   - each uid goes on a gap of epochs (INCARNATION_GAP or more) above the highest known of it: names that were given out and that no member
 *     ever put on its disk are not given again;
 *   - revisions, lease ids and sessions go on far above any of before; lease ids less far, the history has 44 bits for them.
 * docs/decisions/0014 */
#ifndef XCE_LEASED_FSM_INCARNATION_H
#define XCE_LEASED_FSM_INCARNATION_H

#include <stdbool.h>
#include <stdint.h>

#include "leased/fsm/state.h"
#include "xce/v1/command.pb-c.h"

/* Epochs that are left out: so many, or more if CmdRestore says so. */
#define INCARNATION_GAP     1024u
#define INCARNATION_GAP_MAX (1u << 21)
/* So far revisions and sessions leap at least; decimal, for whoever reads them. */
#define INCARNATION_LEAP UINT64_C(1000000000000)
/* Lease ids: so far, and a number for each epoch that is left out, so that two restores of one backup differ. */
#define INCARNATION_LEAP_LEASE      UINT64_C(1000000000)
#define INCARNATION_LEASES_AN_EPOCH 1000u

/* An epoch so far above the highest of the backup and all gaps is not believed: a uid would soon be used up. The limit is
 * set when the backup is restored, and no report moves it. */
#define INCARNATION_AHEAD (1u << 24)

/* So many pages (FLOOR_PAGE uids) of uids that are in no pool are kept for what nodes tell, so that no node fills the memory
 * of all replicas: as many as two pools of the largest size have. */
#define INCARNATION_PAGES 2048u

struct decoder;
struct encoder;

/* Epoch + gap, never beyond the last one. */
uint32_t incarnation_above(const struct fsm *fsm, uint32_t epoch);
/* Of a lease that was restored, perhaps several times before it was over: all gaps. */
uint32_t incarnation_above_all(const struct fsm *fsm, uint32_t epoch);
/* The least that the epochs of a pool's new uids begin with. */
uint32_t incarnation_least(const struct fsm *fsm);
/* Whether the node must still tell its epochs. */
bool incarnation_wants(const struct fsm *fsm, const struct node *node);
/* Nothing is granted or freed yet. */
bool incarnation_waits(const struct fsm *fsm);
/* There: the outcome says what is waited for. */
bool incarnation_refuses(const struct fsm *fsm, struct fsm_outcome *outcome);
/* The epochs in a node's report. false = one can not be or one before is missing, nothing of the report was taken, the outcome says so. */
bool incarnation_report(struct fsm *fsm, struct node *node, const Xce__V1__CmdReport *report,
                        struct fsm_outcome *outcome);
/* A pool has got uids that the nodes' earlier reports could not be about: they must report again. */
void incarnation_ask_again(struct fsm *fsm);

/* In a snapshot, at the end of it, from version 4 on. */
void incarnation_put(struct encoder *e, const struct fsm *fsm);
void incarnation_get(struct decoder *d, struct fsm *fsm);

#endif
