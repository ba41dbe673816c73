/* RbacService, and the rules made ready for the dispatcher. */
#include "leased/service/rbac.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "common/err.h"
#include "common/text.h"
#include "leased/service/internal.h"

/* ---- the rules in force ---- */

bool service_rules_awaited(const struct service *service)
{
    return service->options.rules_awaited && !fsm_rules(service_fsm(service));
}

static const Xce__V1__Rules *rules_now(const struct service *service)
{
    static const Xce__V1__Rules none = XCE__V1__RULES__INIT;
    const Xce__V1__Rules *rules = fsm_rules(service_fsm(service));

    if (rules)
        return rules;
    return service_rules_awaited(service) ? &none : policy_defaults();
}

void rbac_load(struct service *service)
{
    policy_free(service->policy);
    service->policy = policy_new(rules_now(service));
}

const struct policy *service_policy(const struct service *service)
{
    return service->policy;
}

uint64_t service_policy_count(const struct service *service)
{
    return service->policy_count;
}

static void changed(struct service *service)
{
    rbac_load(service);
    service->policy_count++;
    if (service->deps.policy_changed)
        service->deps.policy_changed(service->deps.policy_arg);
}

void rbac_changed(struct service *service, const struct fsm_change *change)
{
    if (change->kind == CHANGE_RULES)
        changed(service);
}

void rbac_restored(struct service *service)
{
    changed(service);
}

/* ---- get, update ---- */

static void reply_rules(struct service *service, struct service_request *request)
{
    Xce__V1__RulesReply reply = XCE__V1__RULES_REPLY__INIT;
    Xce__V1__ReplyInfo info;

    service_reply_info(service, &info);
    reply.info = &info;
    reply.revision = fsm_rules_revision(service_fsm(service));
    reply.rules = (Xce__V1__Rules *)rules_now(service);
    service_reply(request, &reply.base);
}

void service_rbac_get_config(struct service *service, struct service_request *request)
{
    service_read(service, request, reply_rules);
}

static void updated(struct service *service, struct service_request *request,
                    const struct fsm_outcome *outcome)
{
    (void)outcome;
    reply_rules(service, request);
}

/* Whether the caller could still change the rules: to take that from oneself is an accident. */
static bool keeps(const Xce__V1__Rules *rules, const struct principal *principal)
{
    struct policy_reason reason;

    policy_explain(rules, principal, "RbacService/UpdateConfig", &reason);
    return reason.scope == SCOPE_ALL;
}

void service_rbac_update_config(struct service *service, struct service_request *request)
{
    const Xce__V1__UpdateRulesRequest *message = (const Xce__V1__UpdateRulesRequest *)
                                                     request->message;
    Xce__V1__Command command = XCE__V1__COMMAND__INIT;
    Xce__V1__CmdRules change = XCE__V1__CMD_RULES__INIT;
    struct err err = {{0}};

    if (!message->rules) {
        service_refuse(request, -EINVAL,
                       "rules: are needed (empty ones take every right but "
                       "root's and the nodes')");
        return;
    }
    if (policy_check(message->rules, &err) < 0) {
        service_refuse(request, -EINVAL, "rules: %s", err.text);
        return;
    }
    if (!keeps(message->rules, &request->principal)) {
        service_refuse(request, FSM_PRECONDITION,
                       "rules: under these you could not change them any more; root on a "
                       "controller always can");
        return;
    }
    change.expected = message->expected;
    change.rules = message->rules;
    command.kind_case = XCE__V1__COMMAND__KIND_RULES;
    command.rules = &change;
    service_propose(service, request, message->request, &command, updated);
}

/* ---- roles ---- */

#define LISTED_MAX (N_BUILTIN_ROLES + FSM_ROLES_MAX)

/* A reply as it grows. */
struct listing {
    const Xce__V1__Rules *rules;
    struct service_request *request;
    Xce__V1__ListedRole roles[LISTED_MAX], *pointers[LISTED_MAX];
    char names[LISTED_MAX][40];
    size_t n;
    struct {
        Xce__V1__Right rights[METHODS_MAX], *pointers[METHODS_MAX];
    } builtin[N_BUILTIN_ROLES];
};

/* The next role, if the caller may see it. */
static Xce__V1__ListedRole *list_role(struct listing *listing, const void *name, size_t len)
{
    bool yours = policy_has_role(listing->rules, &listing->request->principal, name, len);
    Xce__V1__ListedRole *role = &listing->roles[listing->n];

    if (listing->n == LISTED_MAX || len >= sizeof listing->names[0] ||
        (!yours && listing->request->scope != SCOPE_ALL))
        return NULL;
    xce__v1__listed_role__init(role);
    memcpy(listing->names[listing->n], name, len);
    role->name = listing->names[listing->n];
    role->yours = yours;
    listing->pointers[listing->n++] = role;
    return role;
}

static void list_builtin(struct listing *listing, enum builtin_role builtin)
{
    const char *name = methods_role_name(builtin);
    Xce__V1__ListedRole *role = list_role(listing, name, strlen(name));
    const struct method_row *row;

    if (!role)
        return;
    role->builtin = true;
    role->rights = listing->builtin[builtin].pointers;
    for (size_t i = 0; (row = methods_at(i)); i++) {
        Xce__V1__Right *right = &listing->builtin[builtin].rights[role->n_rights];

        if (row->scopes[builtin] == SCOPE_NONE)
            continue;
        xce__v1__right__init(right);
        right->method.data = (uint8_t *)row->name;
        right->method.len = strlen(row->name);
        right->scope = (Xce__V1__Scope)row->scopes[builtin];
        role->rights[role->n_rights++] = right;
    }
}

static void list_roles(struct service *service, struct service_request *request)
{
    struct listing *listing = calloc(1, sizeof *listing);
    Xce__V1__ListRolesReply reply = XCE__V1__LIST_ROLES_REPLY__INIT;

    if (!listing) {
        service_refuse(request, -ENOMEM, NULL);
        return;
    }
    listing->rules = rules_now(service);
    listing->request = request;
    for (int i = 0; i < N_BUILTIN_ROLES; i++)
        list_builtin(listing, (enum builtin_role)i);
    for (size_t i = 0; i < listing->rules->n_roles; i++) {
        const Xce__V1__Role *from = listing->rules->roles[i];
        Xce__V1__ListedRole *role = list_role(listing, from->name.data, from->name.len);

        if (role) {
            role->rights = from->rights;
            role->n_rights = from->n_rights;
        }
    }
    reply.roles = listing->pointers;
    reply.n_roles = listing->n;
    service_reply(request, &reply.base);
    free(listing);
}

void service_rbac_list_roles(struct service *service, struct service_request *request)
{
    service_read(service, request, list_roles);
}

/* ---- check ---- */

static int copy_text(const ProtobufCBinaryData *from, char *ret, size_t size, struct err *err)
{
    if (from->len >= size || (from->len && memchr(from->data, '\0', from->len)))
        return err_set(err, -EINVAL, "longer than %zu bytes, or holds a NUL byte", size - 1);
    if (from->len)
        memcpy(ret, from->data, from->len);
    ret[from->len] = '\0';
    return 0;
}

static int asked_user(const Xce__V1__CheckRequest *message, const char *name, struct principal *ret,
                      struct err *err)
{
    char groups[PRINCIPAL_GROUPS_MAX][PRINCIPAL_NAME_MAX + 1];
    const char *pointers[PRINCIPAL_GROUPS_MAX];

    if (message->n_groups > PRINCIPAL_GROUPS_MAX)
        return err_set(err, -EINVAL, "groups: %zu of them, at most %d", message->n_groups,
                       PRINCIPAL_GROUPS_MAX);
    for (size_t i = 0; i < message->n_groups; i++) {
        if (copy_text(&message->groups[i], groups[i], sizeof groups[i], err) < 0)
            return err_prefix(err, -EINVAL, "groups[%zu]", i);
        pointers[i] = groups[i];
    }
    return principal_from_user(name, pointers, message->n_groups, ret, err);
}

/* Who is asked about. */
static int asked_principal(const struct service_request *request, struct principal *ret,
                           struct err *err)
{
    const Xce__V1__CheckRequest *message = (const Xce__V1__CheckRequest *)request->message;
    char name[PRINCIPAL_NAME_MAX + 1];

    if (copy_text(&message->name, name, sizeof name, err) < 0)
        return err_prefix(err, -EINVAL, "name");
    switch (message->kind) {
    case XCE__V1__PRINCIPAL_KIND__PRINCIPAL_KIND_CALLER:
        *ret = request->principal;
        return 0;
    case XCE__V1__PRINCIPAL_KIND__PRINCIPAL_KIND_ROOT:
        principal_from_peer(0, 0, "root", ret);
        return 0;
    case XCE__V1__PRINCIPAL_KIND__PRINCIPAL_KIND_LOCAL:
        /* Any uid but root's: it plays no part in what is asked. */
        principal_from_peer(UINT32_MAX, UINT32_MAX, name, ret);
        return text_check_owner(name, strlen(name), err);
    case XCE__V1__PRINCIPAL_KIND__PRINCIPAL_KIND_USER:
        return asked_user(message, name, ret, err);
    case XCE__V1__PRINCIPAL_KIND__PRINCIPAL_KIND_NODE:
        return principal_from_node(name, ret, err);
    default:
        return err_set(err, -EINVAL, "kind: %d is none", (int)message->kind);
    }
}

static bool is_self(const struct principal *principal, const ProtobufCBinaryData *owner)
{
    size_t len = strlen(principal->name);

    return owner->len == 0 || (owner->len == len && !memcmp(owner->data, principal->name, len));
}

/* What the answer rests on is not here: whoever asks about root or a node needs none. */
static bool rules_missing(const struct service *service, const struct principal *principal,
                          const char *method)
{
    return service_rules_awaited(service) && policy_is_by_rules(principal, method);
}

static void check(struct service *service, struct service_request *request)
{
    const Xce__V1__CheckRequest *message = (const Xce__V1__CheckRequest *)request->message;
    Xce__V1__CheckReply reply = XCE__V1__CHECK_REPLY__INIT;
    Xce__V1__ReplyInfo info;
    struct policy_reason reason;
    struct principal principal;
    char method[METHODS_MAX + 1];
    struct err err = {{0}};
    int r = asked_principal(request, &principal, &err);

    if (r == 0)
        r = copy_text(&message->method, method, sizeof method, &err);
    if (r == 0 && !policy_knows(method))
        r = err_set(&err, -EINVAL, "method: there is no %s", method);
    if (r < 0) {
        service_refuse(request, -EINVAL, "%s", err.text);
        return;
    }
    if (rules_missing(service, &principal, method)) {
        service_refuse(request, -EAGAIN, "the rules of this cluster are not here yet");
        return;
    }
    policy_explain(rules_now(service), &principal, method, &reason);
    service_reply_info(service, &info);
    reply.info = &info;
    reply.scope = (Xce__V1__Scope)reason.scope;
    reply.allowed = reason.scope == SCOPE_ALL ||
                    (reason.scope == SCOPE_OWN && is_self(&principal, &message->owner));
    reply.subject = reason.subject;
    reply.role = reason.role;
    reply.method = reason.right;
    service_reply(request, &reply.base);
}

void service_rbac_check(struct service *service, struct service_request *request)
{
    const Xce__V1__CheckRequest *message = (const Xce__V1__CheckRequest *)request->message;

    if (request->scope != SCOPE_ALL &&
        message->kind != XCE__V1__PRINCIPAL_KIND__PRINCIPAL_KIND_CALLER)
        service_refuse(request, -EACCES, "you may only ask about yourself");
    else
        service_read(service, request, check);
}
