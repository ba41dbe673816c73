#include "leased/rbac/methods.h"

#include <string.h>

#define N SCOPE_NONE
#define O SCOPE_OWN
#define A SCOPE_ALL

/* Methods of which something can be one's own: leases by their owner, nodes by their certificate. Pools belong to nobody;
 * own shows them without counts. */
#define OWN(name, ...)                                                                             \
    {                                                                                              \
        name, false, false,                                                                        \
        {                                                                                          \
            __VA_ARGS__                                                                            \
        }                                                                                          \
    }
#define ALL(name, ...)                                                                             \
    {                                                                                              \
        name, true, false,                                                                         \
        {                                                                                          \
            __VA_ARGS__                                                                            \
        }                                                                                          \
    }

#define REPLICAS(name)                                                                             \
    {                                                                                              \
        name, true, true,                                                                          \
        {                                                                                          \
            0                                                                                      \
        }                                                                                          \
    }

/* Sorted by name.                                        admin, operator, scheduler, user, node */
static const struct method_row rows[] = {
    ALL("ClusterService/Add", A, N, N, N, N),
    ALL("ClusterService/Backup", A, N, N, N, N),
    ALL("ClusterService/Begin", A, N, N, N, N),
    ALL("ClusterService/Confirm", A, N, N, N, N),
    REPLICAS("ClusterService/Overlap"),
    REPLICAS("ClusterService/Past"),
    ALL("ClusterService/Remove", A, N, N, N, N),
    ALL("ClusterService/Status", A, A, N, N, N),
    ALL("ClusterService/Transfer", A, A, N, N, N),
    OWN("Health/Check", A, O, O, O, O),
    OWN("Health/Watch", A, O, O, O, O),
    OWN("LeaseService/Acquire", A, N, A, O, N),
    OWN("LeaseService/Explain", A, A, A, O, N),
    OWN("LeaseService/Get", A, A, A, O, N),
    OWN("LeaseService/History", A, A, A, O, N),
    OWN("LeaseService/List", A, A, A, O, N),
    OWN("LeaseService/Release", A, A, A, O, N),
    OWN("LeaseService/Renew", A, N, A, O, N),
    OWN("LeaseService/Revoke", A, A, N, N, N),
    OWN("LeaseService/Watch", A, A, A, O, N),
    ALL("NodeService/Cordon", A, A, N, N, N),
    ALL("NodeService/Drain", A, A, N, N, N),
    OWN("NodeService/Enroll", A, N, N, N, O),
    ALL("NodeService/Fence", A, N, N, N, N),
    ALL("NodeService/Forget", A, N, N, N, N),
    OWN("NodeService/Get", A, A, A, N, O),
    OWN("NodeService/List", A, A, A, N, O),
    OWN("NodeService/Session", A, N, N, N, O),
    ALL("NodeService/Sweep", A, A, N, N, N),
    ALL("NodeService/Token", A, N, N, N, N),
    ALL("NodeService/Undrain", A, A, N, N, N),
    ALL("PoolService/Create", A, N, N, N, N),
    OWN("PoolService/Get", A, A, A, O, N),
    OWN("PoolService/List", A, A, A, O, N),
    ALL("PoolService/Overlap", A, A, N, N, N),
    ALL("PoolService/Retire", A, N, N, N, N),
    ALL("PoolService/Set", A, N, N, N, N),
    ALL("PoolService/Suggest", A, A, N, N, N),
    ALL("PoolService/Unblock", A, A, N, N, N),
    OWN("RbacService/Check", A, A, O, O, O),
    ALL("RbacService/GetConfig", A, A, N, N, N),
    OWN("RbacService/ListRoles", A, A, O, O, O),
    ALL("RbacService/UpdateConfig", A, N, N, N, N),
    OWN("ServerReflection/ServerReflectionInfo", A, O, O, O, O),
};

#define N_ROWS (sizeof rows / sizeof rows[0])

_Static_assert(N_ROWS < METHODS_MAX, "METHODS_MAX");

static const char *const role_names[N_BUILTIN_ROLES] = {"admin", "operator", "scheduler", "user",
                                                        "node"};

const struct method_row *methods_at(size_t i)
{
    return i < N_ROWS ? &rows[i] : NULL;
}

size_t methods_find(const char *name)
{
    size_t low = 0, high = N_ROWS;

    while (low < high) {
        size_t middle = low + (high - low) / 2;
        int order = strcmp(name, rows[middle].name);

        if (order == 0)
            return middle;
        if (order < 0)
            high = middle;
        else
            low = middle + 1;
    }
    return METHODS_MAX;
}

const char *methods_role_name(enum builtin_role role)
{
    return role_names[role];
}

enum builtin_role methods_role_find(const void *name, size_t len)
{
    int role = 0;

    while (role < N_BUILTIN_ROLES &&
           (strlen(role_names[role]) != len || memcmp(role_names[role], name, len) != 0))
        role++;
    return (enum builtin_role)role;
}

bool methods_match(const void *right, size_t len, const char *method)
{
    const char *text = right;

    if (len && text[len - 1] == '*')
        return strncmp(text, method, len - 1) == 0;
    return strlen(method) == len && !memcmp(text, method, len);
}

enum method_kind methods_kind(const char *name)
{
    static const char *const read[] = {
        "Check",  "Explain",   "Get",     "GetConfig", "History",
        "List",   "ListRoles", "Overlap", "Past",      "ServerReflectionInfo",
        "Status", "Suggest",   "Watch"};
    static const char *const use[] = {"LeaseService/Acquire", "LeaseService/Release",
                                      "LeaseService/Renew", "NodeService/Enroll",
                                      "NodeService/Session"};
    const char *slash = strchr(name, '/'), *verb = slash ? slash + 1 : name;

    for (size_t i = 0; i < sizeof read / sizeof read[0]; i++)
        if (!strcmp(read[i], verb))
            return METHOD_READ;
    for (size_t i = 0; i < sizeof use / sizeof use[0]; i++)
        if (!strcmp(use[i], name))
            return METHOD_USE;
    return METHOD_ACT;
}
