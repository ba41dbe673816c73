/* Rules for people: what is wrong with them, and which of them decided. */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "leased/rbac/policy.h"

/* ---- whether they mean something ---- */

static bool same(const ProtobufCBinaryData *a, const void *name, size_t len)
{
    return a->len == len && !memcmp(a->data, name, len);
}

static int check_right(const Xce__V1__Right *right, struct err *err)
{
    const char *text = (const char *)right->method.data;
    size_t len = right->method.len, n = 0;
    const struct method_row *row, *last = NULL;

    for (size_t i = 0; len && (row = methods_at(i)); i++)
        if (methods_match(text, len, row->name)) {
            last = row;
            n++;
        }
    if (!n || (text[len - 1] == '*' && len > 1 && text[len - 2] != '/'))
        return err_set(err, -EINVAL, "there is no method %.*s", (int)len, text);
    if (n == 1 && last->replicas)
        return err_set(err, -EINVAL, "%s: is for replicas alone", last->name);
    if (n == 1 && last->all_only && right->scope == XCE__V1__SCOPE__SCOPE_OWN)
        return err_set(err, -EINVAL, "%s: nothing of it is anybody's own, the scope must be all",
                       last->name);
    return 0;
}

static int check_role(const Xce__V1__Role *role, struct err *err)
{
    int len = (int)role->name.len;

    if (methods_role_find(role->name.data, role->name.len) != N_BUILTIN_ROLES)
        return err_set(err, -EINVAL, "role %.*s is built in and can not be changed", len,
                       (const char *)role->name.data);
    for (size_t i = 0; i < role->n_rights; i++)
        if (check_right(role->rights[i], err) < 0)
            return err_prefix(err, -EINVAL, "role %.*s", len, (const char *)role->name.data);
    return 0;
}

static bool role_exists(const Xce__V1__Rules *rules, const ProtobufCBinaryData *name)
{
    if (methods_role_find(name->data, name->len) != N_BUILTIN_ROLES)
        return true;
    for (size_t i = 0; i < rules->n_roles; i++)
        if (same(&rules->roles[i]->name, name->data, name->len))
            return true;
    return false;
}

static const char *subject_word(Xce__V1__Subject subject)
{
    switch (subject) {
    case XCE__V1__SUBJECT__SUBJECT_LOCAL:
        return "local";
    case XCE__V1__SUBJECT__SUBJECT_USER:
        return "user";
    case XCE__V1__SUBJECT__SUBJECT_GROUP:
        return "group";
    default:
        return "";
    }
}

static int check_binding(const Xce__V1__Rules *rules, const Xce__V1__Binding *binding,
                         struct err *err)
{
    for (size_t i = 0; i < binding->n_roles; i++)
        if (!role_exists(rules, &binding->roles[i]))
            return err_set(err, -EINVAL, "binding %s:%.*s: there is no role %.*s",
                           subject_word(binding->subject), (int)binding->name.len,
                           (const char *)binding->name.data, (int)binding->roles[i].len,
                           (const char *)binding->roles[i].data);
    return 0;
}

int policy_check(const Xce__V1__Rules *rules, struct err *err)
{
    int r = 0;

    for (size_t i = 0; r == 0 && i < rules->n_roles; i++)
        r = check_role(rules->roles[i], err);
    for (size_t i = 0; r == 0 && i < rules->n_bindings; i++)
        r = check_binding(rules, rules->bindings[i], err);
    return r;
}

/* ---- which of them decides ---- */

static bool named(const Xce__V1__Binding *binding, const char *name)
{
    return same(&binding->name, name, strlen(name));
}

static bool applies(const Xce__V1__Binding *binding, const struct principal *principal)
{
    switch (binding->subject) {
    case XCE__V1__SUBJECT__SUBJECT_LOCAL:
        return principal->kind == PRINCIPAL_LOCAL &&
               (named(binding, "*") || named(binding, principal->name));
    case XCE__V1__SUBJECT__SUBJECT_USER:
        return principal->kind == PRINCIPAL_USER &&
               (named(binding, "*") || named(binding, principal->name));
    case XCE__V1__SUBJECT__SUBJECT_GROUP:
        for (unsigned i = 0; i < principal->n_groups; i++)
            if (named(binding, principal_group(principal, i)))
                return principal->kind == PRINCIPAL_USER;
        return false;
    default:
        return false;
    }
}

/* The reason so far, and one that may be better. */
struct search {
    const char *method;
    const struct method_row *row;
    struct policy_reason *best;
    char subject[POLICY_SUBJECT_BUF];
};

static void offer(struct search *search, enum policy_scope scope, const void *role, size_t role_len,
                  const void *right, size_t right_len)
{
    struct policy_reason *best = search->best;

    if (scope <= best->scope)
        return;
    best->scope = scope;
    (void)snprintf(best->subject, sizeof best->subject, "%s", search->subject);
    (void)snprintf(best->role, sizeof best->role, "%.*s", (int)role_len, (const char *)role);
    (void)snprintf(best->right, sizeof best->right, "%.*s", (int)right_len, (const char *)right);
}

static void offer_builtin(struct search *search, enum builtin_role role)
{
    const char *name = methods_role_name(role);

    offer(search, (enum policy_scope)search->row->scopes[role], name, strlen(name), search->method,
          strlen(search->method));
}

static void offer_role(struct search *search, const Xce__V1__Role *role)
{
    for (size_t i = 0; i < role->n_rights; i++) {
        const Xce__V1__Right *right = role->rights[i];
        bool all = right->scope == XCE__V1__SCOPE__SCOPE_ALL;

        if ((all || !search->row->all_only) &&
            methods_match(right->method.data, right->method.len, search->method))
            offer(search, all ? SCOPE_ALL : SCOPE_OWN, role->name.data, role->name.len,
                  right->method.data, right->method.len);
    }
}

static void offer_binding(struct search *search, const Xce__V1__Rules *rules,
                          const Xce__V1__Binding *binding)
{
    (void)snprintf(search->subject, sizeof search->subject, "%s:%.*s",
                   subject_word(binding->subject), (int)binding->name.len,
                   (const char *)binding->name.data);
    for (size_t i = 0; i < binding->n_roles; i++) {
        const ProtobufCBinaryData *name = &binding->roles[i];
        enum builtin_role builtin = methods_role_find(name->data, name->len);

        if (builtin != N_BUILTIN_ROLES)
            offer_builtin(search, builtin);
        for (size_t k = 0; builtin == N_BUILTIN_ROLES && k < rules->n_roles; k++)
            if (same(&rules->roles[k]->name, name->data, name->len))
                offer_role(search, rules->roles[k]);
    }
}

void policy_explain(const Xce__V1__Rules *rules, const struct principal *principal,
                    const char *method, struct policy_reason *ret)
{
    size_t i = methods_find(method);
    struct search search = {.method = method, .best = ret};

    memset(ret, 0, sizeof *ret);
    if (i == METHODS_MAX)
        return;
    search.row = methods_at(i);
    if (search.row->replicas) {
        if (principal->kind == PRINCIPAL_REPLICA) {
            *ret = (struct policy_reason){SCOPE_ALL, "replica", "replica", ""};
            (void)snprintf(ret->right, sizeof ret->right, "%s", method);
        }
        return;
    }
    if (principal->kind == PRINCIPAL_ROOT || principal->kind == PRINCIPAL_NODE) {
        bool root = principal->kind == PRINCIPAL_ROOT;

        (void)snprintf(search.subject, sizeof search.subject, "%s", root ? "root" : "node");
        offer_builtin(&search, root ? BUILTIN_ADMIN : BUILTIN_NODE);
        return;
    }
    if (!rules)
        rules = policy_defaults();
    if (!strcmp(method, METHODS_OF_ALL_USERS) &&
        (principal->kind == PRINCIPAL_LOCAL || principal->kind == PRINCIPAL_USER))
        offer(&search, SCOPE_OWN, "", 0, method, strlen(method));
    for (size_t k = 0; k < rules->n_bindings; k++)
        if (applies(rules->bindings[k], principal))
            offer_binding(&search, rules, rules->bindings[k]);
}

bool policy_has_role(const Xce__V1__Rules *rules, const struct principal *principal,
                     const void *role, size_t len)
{
    if (!rules)
        rules = policy_defaults();
    if (principal->kind == PRINCIPAL_ROOT)
        return methods_role_find(role, len) == BUILTIN_ADMIN;
    if (principal->kind == PRINCIPAL_NODE)
        return methods_role_find(role, len) == BUILTIN_NODE;
    for (size_t i = 0; i < rules->n_bindings; i++)
        for (size_t k = 0; k < rules->bindings[i]->n_roles; k++)
            if (same(&rules->bindings[i]->roles[k], role, len) &&
                applies(rules->bindings[i], principal))
                return true;
    return false;
}
