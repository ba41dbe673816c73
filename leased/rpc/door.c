#include "leased/rpc/door.h"

#include <errno.h>
#include <stddef.h>

#include "common/cert.h"
#include "common/clock.h"
#include "common/net/grpc.h"
#include "leased/rpc/method.h"
#include "leased/rpc/status.h"
#include "leased/rpc/username.h"

static void confirm(void (*done)(int r, void *arg), void *done_arg, void *arg)
{
    service_confirm(((struct door *)arg)->service, done, done_arg);
}

int door_init(struct door *door, struct loop *loop, struct service *service)
{
    int r;

    *door = (struct door){.service = service, .denied = {.interval_ms = 10000, .burst = 10}};
    recorder_init(&door->recorder);
    r = usernames_new(loop, &clock_real, usernames_nss, &door->usernames);
    return r < 0 ? r : doubts_new(confirm, door, &door->doubts);
}

void door_done(struct door *door)
{
    usernames_free(door->usernames);
    doubts_free(door->doubts);
    recorder_done(&door->recorder);
}

void door_refuse(struct grpc_call *call, int r, const char *message)
{
    grpc_call_finish(call, rpc_status(r), message && *message ? message : rpc_status_text(r));
}

/* ---- who ---- */

/* The account of a certificate's name here. 0; 1 = NSS is to be asked. */
static int find_account(struct door *door, struct principal *principal)
{
    const struct username *who;
    int r = usernames_known(door->usernames, principal->name, 0, &who);

    if (r == 0)
        principal_set_account(principal, who->uid, who->gid);
    return r < 0;
}

static int identify_by_certificate(struct door *door, const struct cert_identity *peer,
                                   struct principal *ret)
{
    switch (peer->kind) {
    case CERT_USER:
        if (principal_from_user(peer->name, (const char *const *)peer->groups, peer->n_groups, ret,
                                NULL) < 0)
            return -EACCES;
        return find_account(door, ret);
    case CERT_NODE:
        return principal_from_node(peer->name, ret, NULL);
    case CERT_REPLICA:
        return principal_from_replica(peer->name, ret, NULL);
    }
    return -EACCES;
}

int door_identify(struct door *door, const struct grpc_call *call, struct principal *ret)
{
    const struct grpc_peer *peer = grpc_call_peer(call);
    const struct username *who;
    int r;

    if (peer->tls)
        return identify_by_certificate(door, peer->tls, ret);
    if (!peer->local) {
        principal_stranger(ret);
        return 0;
    }
    r = usernames_known(door->usernames, NULL, peer->uid, &who);
    principal_from_peer(peer->uid, peer->gid, r == 0 ? who->name : NULL, ret);
    return r < 0;
}

/* NSS has answered: a name for a local uid, an account for a certificate's name, or that there is none. */
static void complete(struct principal *principal, const struct username *who)
{
    if (!who)
        return; /* stays a number; has no account */
    if (principal->kind == PRINCIPAL_USER)
        principal_set_account(principal, who->uid, who->gid);
    else
        principal_from_peer(principal->uid, principal->gid, who->name, principal);
}

/* ---- whether he may ---- */

void door_log_denied(struct door *door, const struct principal *principal,
                     const struct rpc_method *method)
{
    unsigned held;

    if (log_limit_ok(&door->denied, &held))
        log_notice(LOG_FIELDS(.message_id = LOG_ID_DENIED, .actor = principal->name), "%s denied%s",
                   method->permission, held ? " (and others before it)" : "");
}

void door_deny(struct door *door, struct grpc_call *call, const struct principal *principal,
               const struct rpc_method *method)
{
    door_log_denied(door, principal, method);
    record_call(&door->recorder, &(struct record){.principal = principal,
                                                  .method = method->permission,
                                                  .status = GRPC_PERMISSION_DENIED,
                                                  .message = "not permitted"});
    grpc_call_finish(call, GRPC_PERMISSION_DENIED, "not permitted");
}

enum policy_scope door_decide(const struct door *door, const struct principal *principal,
                              const struct rpc_method *method)
{
    return policy_decide(service_policy(door->service), principal, method->permission);
}

/* The scope is known: to go by it, or that there is none. */
static void settle(struct incoming *incoming)
{
    if (incoming->scope != SCOPE_NONE) {
        incoming->admitted = true;
        incoming->admit(incoming);
    } else if (service_rules_awaited(incoming->door->service)) {
        door_refuse(incoming->call, -EAGAIN, "the rules of this cluster are not here yet");
    } else {
        door_deny(incoming->door, incoming->call, incoming->principal, incoming->method);
    }
}

/* Whether other rules, which another replica may have, could give him the right. */
static bool is_doubtful(const struct incoming *incoming)
{
    return !service_rules_awaited(incoming->door->service) &&
           policy_is_by_rules(incoming->principal, incoming->method->permission);
}

struct incoming *incoming_of(struct doubt *doubt)
{
    return (struct incoming *)((char *)doubt - offsetof(struct incoming, doubt));
}

static void rules_confirmed(int r, struct doubt *doubt)
{
    struct incoming *incoming = incoming_of(doubt);

    /* What is about this replica it decides alone where it must. */
    if (r < 0 && !incoming->method->local) {
        door_refuse(
            incoming->call, -EAGAIN,
            "not permitted by the rules that this replica knows, which may be old: there is no "
            "leader to ask");
        return;
    }
    grpc_call_resume(incoming->call);
    incoming->scope = door_decide(incoming->door, incoming->principal, incoming->method);
    settle(incoming);
}

void incoming_confirm(struct incoming *incoming, void (*settled)(int r, struct doubt *doubt))
{
    grpc_call_pause(incoming->call);
    doubts_ask(incoming->door->doubts, &incoming->doubt, settled);
}

static void decide(struct incoming *incoming)
{
    incoming->scope = door_decide(incoming->door, incoming->principal, incoming->method);
    if (incoming->scope == SCOPE_NONE && is_doubtful(incoming)) {
        incoming_confirm(incoming, rules_confirmed);
    } else {
        settle(incoming);
    }
}

static void answered(int r, const struct username *who, void *arg)
{
    struct incoming *incoming = arg;

    incoming->asking = false;
    if (r < 0) {
        /* Whose objects he may see is not known: not even whether they are his own. */
        door_refuse(incoming->call, -EAGAIN,
                    "the name service of this machine does not say who you are");
        return;
    }
    grpc_call_resume(incoming->call);
    complete(incoming->principal, who);
    decide(incoming);
}

void incoming_receive(struct incoming *incoming, int known)
{
    const struct principal *principal = incoming->principal;
    const char *name = principal->kind == PRINCIPAL_USER ? principal->name : NULL;

    if (known == 0) {
        decide(incoming);
        return;
    }
    if (usernames_ask(incoming->door->usernames, name, principal->uid, answered, incoming) < 0) {
        door_refuse(incoming->call, -ENOMEM, NULL);
        return;
    }
    incoming->asking = true;
    grpc_call_pause(incoming->call);
}

void incoming_end(struct incoming *incoming)
{
    if (incoming->asking)
        usernames_forget(incoming->door->usernames, incoming);
    doubts_forget(incoming->door->doubts, &incoming->doubt);
}
