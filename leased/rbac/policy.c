#include "leased/rbac/policy.h"

#include <stddef.h>
#include <stdio.h>
#include <string.h>

/* What role user may do. admin may do all of it, and everything else in this table, on everybody's objects. */
struct rule {
    const char *method;
    enum policy_scope user;
};

static const struct rule rules[] = {
    {"LeaseService/Acquire", SCOPE_OWN}, {"LeaseService/Renew", SCOPE_OWN},
    {"LeaseService/Release", SCOPE_OWN}, {"LeaseService/Revoke", SCOPE_NONE},
    {"LeaseService/Get", SCOPE_OWN},     {"LeaseService/List", SCOPE_OWN},
    {"LeaseService/Watch", SCOPE_OWN},   {"LeaseService/Explain", SCOPE_OWN},
    {"LeaseService/History", SCOPE_OWN}, {"PoolService/Create", SCOPE_NONE},
    {"PoolService/Get", SCOPE_OWN},      {"PoolService/List", SCOPE_OWN},
    {"PoolService/Set", SCOPE_NONE},     {"PoolService/Suggest", SCOPE_NONE},
    {"PoolService/Unblock", SCOPE_NONE}, {"PoolService/Retire", SCOPE_NONE},
    {"NodeService/Session", SCOPE_NONE}, {"NodeService/Get", SCOPE_NONE},
    {"NodeService/List", SCOPE_NONE},    {"NodeService/Drain", SCOPE_NONE},
    {"NodeService/Undrain", SCOPE_NONE}, {"NodeService/Cordon", SCOPE_NONE},
    {"NodeService/Sweep", SCOPE_NONE},   {"NodeService/Fence", SCOPE_NONE},
    {"NodeService/Forget", SCOPE_NONE},  {"Health/Check", SCOPE_OWN},
    {"Health/Watch", SCOPE_OWN},         {"ServerReflection/ServerReflectionInfo", SCOPE_OWN},
};

static const struct rule *find(const char *method)
{
    for (size_t i = 0; i < sizeof rules / sizeof rules[0]; i++)
        if (!strcmp(rules[i].method, method))
            return &rules[i];
    return NULL;
}

static bool is_admin(const struct principal *principal)
{
    return principal->kind == PRINCIPAL_ROOT;
}

enum policy_scope policy_decide(const struct principal *principal, const char *method)
{
    const struct rule *rule = find(method);

    if (!rule)
        return SCOPE_NONE;
    if (is_admin(principal))
        return SCOPE_ALL;
    return principal->kind == PRINCIPAL_LOCAL ? rule->user : SCOPE_NONE;
}

bool policy_knows(const char *method)
{
    return find(method) != NULL;
}

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
