/* What replicas tell each other beside the log: which nodes speak and have done so under which session, and what a node is
 * to do at once.
 *
 * A node's heartbeat is answered when the leader has been told of it and has made sure that it still leads: a node that is
 * answered is one that the cluster hears. Beats that come while one round is under way go together in the next. */
#ifndef XCE_LEASED_SERVICE_TELL_H
#define XCE_LEASED_SERVICE_TELL_H

#include <stdint.h>
#include <sys/queue.h>

#include "leased/service/service.h"
#include "leased/service/ticker.h"
#include "xce/v1/node.pb-c.h"

struct tell;

/* A heartbeat that waits for its answer; lives in its session. All zero: none waits. */
struct beat {
    TAILQ_ENTRY(beat) link;
    struct beat_list *on;
    const char *node; /* the session's */
    uint64_t session, watermark, seq;
    char hangs[TICKER_HANGS_MAX + 1];
};
TAILQ_HEAD(beat_list, beat);

/* ack is called for each beat that was told and confirmed, never inside tell_beat. 0; -ENOMEM. */
int tell_new(struct service *service, void (*ack)(struct beat *beat), struct tell **ret);
void tell_free(struct tell *tell);

/* node, session, watermark, seq and hangs are set. A beat of the same session that still waits is replaced. */
void tell_beat(struct tell *tell, struct beat *beat);
/* The session ends: it is not answered any more, and the others hear that the node has hung up. */
void tell_gone(struct tell *tell, struct beat *beat);
/* Ask whoever has the node's session to have it swept. */
void tell_sweep(struct tell *tell, const char *node, const ProtobufCBinaryData *reason);

/* The same for a dry run; its answer is told with tell_dry_found, to all. */
void tell_dry(struct tell *tell, const char *node, uint64_t question,
              const ProtobufCBinaryData *reason);
void tell_dry_found(struct tell *tell, const Xce__V1__DryReport *report);

/* Say that the history of a replica lags, and why; or, with "", that it does no more. */
void tell_degraded(struct tell *tell, uint64_t replica, const char *why);

/* Try again what could not be said. */
void tell_elapse(struct tell *tell);

#endif
