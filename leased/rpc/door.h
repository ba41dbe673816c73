/* Who calls, and whether he may: what becomes of a call until the service has it.
 *
 *   accepted ─▶ known (NSS was asked, if need be) ─▶ decided ─▶ admitted: the call goes its way
 *                                                       │ not permitted
 *                                                       └─▶ the rules are current (doubt.h) ─▶ decided again:
 *                                                                                               admitted, or denied
 *
 * Nothing is read from the caller before he is admitted. One thread: the loop's. */
#ifndef XCE_LEASED_RPC_DOOR_H
#define XCE_LEASED_RPC_DOOR_H

#include <stdbool.h>

#include "common/log.h"
#include "leased/rbac/policy.h"
#include "leased/rpc/doubt.h"
#include "leased/rpc/record.h"

struct grpc_call;
struct loop;
struct rpc_method;
struct service;
struct usernames;

struct door {
    struct service *service; /* borrowed */
    struct usernames *usernames;
    struct doubts *doubts;
    struct recorder recorder;
    struct log_limit denied;
};

/* 0; -ENOMEM. Done when no call is under way, also after a failure, and of a zeroed one. */
int door_init(struct door *door, struct loop *loop, struct service *service);
void door_done(struct door *door);

/* 0; 1 = NSS is to be asked for the account; -EACCES nobody we know. */
int door_identify(struct door *door, const struct grpc_call *call, struct principal *ret);

/* By the rules as they are here now. */
enum policy_scope door_decide(const struct door *door, const struct principal *principal,
                              const struct rpc_method *method);

/* End the call as denied, and write that down. */
void door_deny(struct door *door, struct grpc_call *call, const struct principal *principal,
               const struct rpc_method *method);
/* The journal's part of that. */
void door_log_denied(struct door *door, const struct principal *principal,
                     const struct rpc_method *method);

/* End the call with an outcome or an errno; message may be NULL or empty: the table of status.h has one. */
void door_refuse(struct grpc_call *call, int r, const char *message);

/* A call on its way in. Lives in what its owner has bound to the call, zeroed but for these five. */
struct incoming {
    struct door *door;
    struct grpc_call *call;
    const struct rpc_method *method;
    struct principal *principal;              /* where the service will look for it */
    void (*admit)(struct incoming *incoming); /* its scope is known; not run when it is denied */

    enum policy_scope scope;
    bool asking;        /* NSS */
    struct doubt doubt; /* of a denial, also of a stream that has begun */
    bool admitted;
};

/* The call is bound; known as door_identify had it. */
void incoming_receive(struct incoming *incoming, int known);

/* Pause the call and have settled told when the rules here are current (doubts_ask). */
void incoming_confirm(struct incoming *incoming, void (*settled)(int r, struct doubt *doubt));
struct incoming *incoming_of(struct doubt *doubt);

/* The call has ended: nobody is told of it any more. */
void incoming_end(struct incoming *incoming);

#endif
