/* What the files of leased/service share. */
#ifndef XCE_LEASED_SERVICE_INTERNAL_H
#define XCE_LEASED_SERVICE_INTERNAL_H

#include <sys/queue.h>

#include "leased/engine/engine.h"
#include "leased/fsm/fsm.h"
#include "leased/service/service.h"
#include "xce/v1/command.pb-c.h"
#include "xce/v1/common.pb-c.h"
#include "xce/v1/node.pb-c.h"

/* Held in memory whole. */
#define BACKUPS_MAX 2

TAILQ_HEAD(survey_list, survey);
TAILQ_HEAD(dry_list, dry);

struct backup;
struct degraded;
struct enroll;
struct gather;
struct refill;
struct session;
struct tell;
struct ticker;
struct waits;
struct watcher;

struct service {
    struct service_options options;
    struct service_deps deps;
    bool leading;
    bool stopping;         /* no other replica is asked any more */
    struct policy *policy; /* the rules in force; rbac.c */
    uint64_t policy_count; /* how often they have changed */
    struct enroll *enroll; /* NULL: no CA here; enroll.c */
    struct ticker *ticker;
    struct tell *tell;
    struct degraded *degraded;           /* replicas whose history lags */
    struct refill *refill;               /* what our history lacks */
    struct session *sessions;            /* of nodes, linked; session.c */
    struct watcher *watchers;            /* linked; watch.c */
    struct waits *waits;                 /* acquires that wait for READY; wait.c */
    struct look_ahead *look_ahead;       /* what nodes are to check next; session.c */
    struct survey_list surveys;          /* of nodes; survey.c */
    struct dry_list dries;               /* sweeps that only look; dry.c */
    struct gather *gather;               /* what this machine has */
    struct backup *backups[BACKUPS_MAX]; /* copies of the state that are being fetched; cluster.c */
    char health[256]; /* what the engine said last when it failed to write; names the file */
};

struct fsm *service_fsm(const struct service *service);

/* Whether the caller may see what is this owner's. */
static inline bool service_sees(const struct service_request *request,
                                const struct fsm_owner *owner)
{
    return policy_sees(&request->principal, request->scope, owner->name, owner->uid);
}

static inline bool service_sees_node(const struct service_request *request, const char *name)
{
    return policy_sees_node(&request->principal, request->scope, name);
}

/* Answer with the node that a NodeVerbRequest names, beside what is in the reply already; node.c. */
void node_reply(struct service *service, struct service_request *request,
                Xce__V1__NodeReply *reply);

/* Whether the caller is the replica of this cluster with that folder; past_page.c. */
bool service_is_member(const struct service *service, const struct principal *principal,
                       uint64_t replica);

/* Wall clock minus cluster time, now: what turns one into the other for people. */
int64_t service_wall_offset_ms(const struct service *service);

/* End every watch with -ECANCELED; watch.c. */
void watch_stop(struct service *service);

/* ---- answers ---- */

void service_reply(struct service_request *request, const ProtobufCMessage *reply);
/* r and a sentence; printf form. The sentence may be NULL: the table of rpc/status.c has one. */
void service_refuse(struct service_request *request, int r, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
void service_reply_info(struct service *service, Xce__V1__ReplyInfo *ret);
/* LeaseReply of one lease; of one that the caller may not see as if it were over. */
void service_reply_lease(struct service *service, struct service_request *request, uint64_t lease);

/* ---- what takes its time ---- */

/* What waits on behalf of a request, for the engine, the history or NSS, begins with this. It outlives a caller that goes
 * away: what was begun goes its way, and when that has come, whoever is told of it frees this. */
struct service_pending {
    struct service *service;
    struct service_request *request; /* NULL: the caller has gone */
};

/* The request waits for it from now on. pending: its first member, or all of it. */
void service_pend(struct service_pending *pending, struct service *service,
                  struct service_request *request);
/* The same with size zeroed bytes of its own. NULL: no memory, the request is refused. */
void *service_pending_new(struct service *service, struct service_request *request, size_t size);
/* It has come: the request, if its caller is still there, or NULL. pending is the caller's to free. */
struct service_request *service_settle(const struct service_pending *pending);

/* Whether the caller has still the right to it, by the rules as they are now; else that is the answer. For what has waited
 * and comes to act. */
bool service_permits(const struct service *service, struct service_request *request);

/* ---- commands ---- */

/* What a mutating request does with its outcome; only called while the caller is still there. */
typedef void (*service_then_fn)(struct service *service, struct service_request *request,
                                const struct fsm_outcome *outcome);

/* Whether the caller gave a request id that can be kept; else that is the answer. */
bool service_check_id(struct service_request *request, const Xce__V1__RequestId *id);

/* Whether an earlier attempt of the request was answered, as the state here knows: then it only asks for that answer. */
bool service_answered(const struct service *service, const struct service_request *request,
                      const Xce__V1__RequestId *id);

/* Propose command (its request field unset) for request under the id the caller gave. A missing or odd id is refused.
 * then runs with FSM_OK only; other outcomes are answered here. */
void service_propose(struct service *service, struct service_request *request,
                     const Xce__V1__RequestId *id, Xce__V1__Command *command, service_then_fn then);

/* Propose a command on behalf of request that is the same if it is done twice: it bears no id of the caller's. */
void service_propose_for(struct service *service, struct service_request *request,
                         const Xce__V1__Command *command, service_then_fn then);

/* Propose a command that leased itself makes; done may be NULL. */
void service_propose_own(struct service *service, Xce__V1__Command *command, engine_done_fn done,
                         void *arg);

/* ---- queries ---- */

/* Run query when a read is linearizable; only called while the caller is still there. */
void service_read(struct service *service, struct service_request *request, service_unary_fn query);

/* The state here speaks against the request, or what it asks for does not go by the log. Who leads is not asked whether he
 * still does before he proposes, and one who was stopped or cut off may lead no more: so it is only refused, or done, when
 * that is known.
 * true: it is not, the handler runs again when it is, by the rules of then; false: go on. */
bool service_doubts(struct service *service, struct service_request *request);

#endif
