#include "leased/rbac/policy.h"

#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/mem.h"

/* What one subject may: its roles, added up. */
struct grants {
    Xce__V1__Subject subject;
    char name[PRINCIPAL_NAME_MAX + 1];
    uint8_t scopes[METHODS_MAX]; /* by method */
};

struct policy {
    struct grants *grants; /* by subject and name */
    size_t n;
};

/* ---- the defaults ---- */

#define BYTES(text)                                                                                \
    {                                                                                              \
        sizeof(text) - 1, (uint8_t *)(text)                                                        \
    }

static ProtobufCBinaryData role_admin = BYTES("admin"), role_operator = BYTES("operator"),
                           role_scheduler = BYTES("scheduler"), role_user = BYTES("user");

#define BINDING(subject_, name_, role_)                                                            \
    {                                                                                              \
        .base = PROTOBUF_C_MESSAGE_INIT(&xce__v1__binding__descriptor),                            \
        .subject = XCE__V1__SUBJECT__SUBJECT_##subject_, .name = BYTES(name_), .n_roles = 1,       \
        .roles = &(role_)                                                                          \
    }

static Xce__V1__Binding default_bindings[] = {
    BINDING(LOCAL, "*", role_user),
    BINDING(GROUP, "xce-admin", role_admin),
    BINDING(GROUP, "xce-operator", role_operator),
    BINDING(GROUP, "xce-scheduler", role_scheduler),
    BINDING(GROUP, "xce-user", role_user),
};

static Xce__V1__Binding *default_pointers[] = {
    &default_bindings[0], &default_bindings[1], &default_bindings[2],
    &default_bindings[3], &default_bindings[4],
};

static const Xce__V1__Rules default_rules = {
    .base = PROTOBUF_C_MESSAGE_INIT(&xce__v1__rules__descriptor),
    .n_bindings = ARRAY_LEN(default_pointers),
    .bindings = default_pointers,
};

const Xce__V1__Rules *policy_defaults(void)
{
    return &default_rules;
}

/* ---- making ---- */

static void widen(uint8_t *scope, uint8_t by)
{
    if (by > *scope)
        *scope = by;
}

static void add_builtin(struct grants *grants, enum builtin_role role)
{
    const struct method_row *row;

    for (size_t i = 0; (row = methods_at(i)); i++)
        widen(&grants->scopes[i], row->scopes[role]);
}

static void add_right(struct grants *grants, const Xce__V1__Right *right)
{
    uint8_t scope = right->scope == XCE__V1__SCOPE__SCOPE_ALL ? SCOPE_ALL : SCOPE_OWN;
    const struct method_row *row;

    for (size_t i = 0; (row = methods_at(i)); i++)
        if (methods_match(right->method.data, right->method.len, row->name) &&
            (scope == SCOPE_ALL || !row->all_only))
            widen(&grants->scopes[i], scope);
}

static bool same(const ProtobufCBinaryData *a, const ProtobufCBinaryData *b)
{
    return a->len == b->len && !memcmp(a->data, b->data, a->len);
}

static void add_role(struct grants *grants, const Xce__V1__Rules *rules,
                     const ProtobufCBinaryData *name)
{
    enum builtin_role builtin = methods_role_find(name->data, name->len);

    if (builtin != N_BUILTIN_ROLES) {
        add_builtin(grants, builtin);
        return;
    }
    for (size_t i = 0; i < rules->n_roles; i++)
        if (same(&rules->roles[i]->name, name))
            for (size_t k = 0; k < rules->roles[i]->n_rights; k++)
                add_right(grants, rules->roles[i]->rights[k]);
}

static int compare_grants(const void *a, const void *b)
{
    const struct grants *x = a, *y = b;

    return x->subject != y->subject ? (x->subject > y->subject) - (x->subject < y->subject)
                                    : strcmp(x->name, y->name);
}

struct policy *policy_new(const Xce__V1__Rules *rules)
{
    struct policy *policy = mem_must_calloc(1, sizeof *policy);

    if (!rules)
        rules = &default_rules;
    policy->grants = mem_must_calloc(rules->n_bindings + 1, sizeof *policy->grants);
    for (size_t i = 0; i < rules->n_bindings; i++) {
        const Xce__V1__Binding *binding = rules->bindings[i];
        struct grants *grants = &policy->grants[policy->n];

        if (binding->name.len > PRINCIPAL_NAME_MAX)
            continue; /* nobody is called so */
        policy->n++;
        grants->subject = binding->subject;
        memcpy(grants->name, binding->name.data, binding->name.len);
        for (size_t k = 0; k < binding->n_roles; k++)
            add_role(grants, rules, &binding->roles[k]);
    }
    if (policy->n)
        qsort(policy->grants, policy->n, sizeof *policy->grants, compare_grants);
    return policy;
}

void policy_free(struct policy *policy)
{
    if (!policy)
        return;
    free(policy->grants);
    free(policy);
}

/* ---- asking ---- */

static uint8_t granted(const struct policy *policy, Xce__V1__Subject subject, const char *name,
                       size_t method)
{
    size_t low = 0, high = policy->n;

    while (low < high) {
        const struct grants *grants = &policy->grants[low + (high - low) / 2];
        int order = subject != grants->subject ? (subject > grants->subject ? 1 : -1)
                                               : strcmp(name, grants->name);

        if (order == 0)
            return grants->scopes[method];
        if (order < 0)
            high = (size_t)(grants - policy->grants);
        else
            low = (size_t)(grants - policy->grants) + 1;
    }
    return SCOPE_NONE;
}

/* What no rules are needed for. */
static uint8_t given(size_t method)
{
    return !strcmp(methods_at(method)->name, METHODS_OF_ALL_USERS) ? SCOPE_OWN : SCOPE_NONE;
}

static uint8_t decide_local(const struct policy *policy, const struct principal *principal,
                            size_t method)
{
    uint8_t scope = given(method);

    widen(&scope, granted(policy, XCE__V1__SUBJECT__SUBJECT_LOCAL, "*", method));

    widen(&scope, granted(policy, XCE__V1__SUBJECT__SUBJECT_LOCAL, principal->name, method));
    return scope;
}

static uint8_t decide_user(const struct policy *policy, const struct principal *principal,
                           size_t method)
{
    uint8_t scope = given(method);

    widen(&scope, granted(policy, XCE__V1__SUBJECT__SUBJECT_USER, "*", method));
    widen(&scope, granted(policy, XCE__V1__SUBJECT__SUBJECT_USER, principal->name, method));
    for (unsigned i = 0; i < principal->n_groups; i++)
        widen(&scope, granted(policy, XCE__V1__SUBJECT__SUBJECT_GROUP,
                              principal_group(principal, i), method));
    return scope;
}

enum policy_scope policy_decide(const struct policy *policy, const struct principal *principal,
                                const char *method)
{
    size_t i = methods_find(method);

    if (i == METHODS_MAX)
        return SCOPE_NONE;
    if (methods_at(i)->replicas)
        return principal->kind == PRINCIPAL_REPLICA ? SCOPE_ALL : SCOPE_NONE;
    switch (principal->kind) {
    case PRINCIPAL_ROOT:
        return (enum policy_scope)methods_at(i)->scopes[BUILTIN_ADMIN];
    case PRINCIPAL_NODE:
        return (enum policy_scope)methods_at(i)->scopes[BUILTIN_NODE];
    case PRINCIPAL_LOCAL:
        return (enum policy_scope)decide_local(policy, principal, i);
    case PRINCIPAL_USER:
        return (enum policy_scope)decide_user(policy, principal, i);
    case PRINCIPAL_STRANGER:
        return !strcmp(method, METHODS_OF_STRANGERS) ? SCOPE_OWN : SCOPE_NONE;
    case PRINCIPAL_REPLICA:
    case PRINCIPAL_NOBODY:
        break;
    }
    return SCOPE_NONE;
}

bool policy_is_by_rules(const struct principal *principal, const char *method)
{
    size_t i = methods_find(method);

    return (principal->kind == PRINCIPAL_LOCAL || principal->kind == PRINCIPAL_USER) &&
           i != METHODS_MAX && !methods_at(i)->replicas;
}

bool policy_knows(const char *method)
{
    return methods_find(method) != METHODS_MAX;
}

/* ---- whose ---- */

/* "#1000": what stands for a name where there was none. */
static bool nameless(const char *owner_name, uint32_t owner_uid)
{
    char number[16];

    (void)snprintf(number, sizeof number, "#%u", owner_uid);
    return !strcmp(owner_name, number);
}

bool policy_owns(const struct principal *principal, const char *owner_name, uint32_t owner_uid)
{
    if (!principal->has_uid || principal->uid != owner_uid)
        return false;
    return !strcmp(principal->name, owner_name) ||
           (principal->local && nameless(owner_name, owner_uid));
}

bool policy_sees(const struct principal *principal, enum policy_scope scope, const char *owner_name,
                 uint32_t owner_uid)
{
    return scope == SCOPE_ALL ||
           (scope == SCOPE_OWN && policy_owns(principal, owner_name, owner_uid));
}

bool policy_sees_node(const struct principal *principal, enum policy_scope scope, const char *name)
{
    return scope == SCOPE_ALL || (scope == SCOPE_OWN && principal->kind == PRINCIPAL_NODE &&
                                  !strcmp(principal->name, name));
}
