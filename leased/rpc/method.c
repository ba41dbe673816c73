#include "leased/rpc/method.h"

#include <errno.h>
#include <stddef.h>
#include <string.h>

#include "leased/rpc/health.h"
#include "leased/rpc/reflection.h"
#include "xce/v1/cluster.pb-c.h"
#include "xce/v1/lease.pb-c.h"
#include "xce/v1/node.pb-c.h"
#include "xce/v1/pool.pb-c.h"
#include "xce/v1/rbac.pb-c.h"

#define UNARY(service, verb, type, handler)                                                        \
    {                                                                                              \
        .path = "/xce.v1." service "/" verb, .permission = service "/" verb,                       \
        .request = &xce__v1__##type##__descriptor, .unary = handler                                \
    }
#define LOCAL(service, verb, type, handler)                                                        \
    {                                                                                              \
        .path = "/xce.v1." service "/" verb, .permission = service "/" verb,                       \
        .request = &xce__v1__##type##__descriptor, .unary = handler, .local = true                 \
    }
#define STREAM(service, verb, type, handler_)                                                      \
    {                                                                                              \
        .path = "/xce.v1." service "/" verb, .permission = service "/" verb,                       \
        .request = &xce__v1__##type##__descriptor, .stream = &handler_                             \
    }
#define DIRECT(package, service, verb, handler)                                                    \
    {                                                                                              \
        .path = "/" package "." service "/" verb, .permission = service "/" verb,                  \
        .direct = handler                                                                          \
    }

/* Sorted by path. */
static const struct rpc_method methods[] = {
    DIRECT("grpc.health.v1", "Health", "Check", health_check),
    DIRECT("grpc.health.v1", "Health", "Watch", health_watch),
    DIRECT("grpc.reflection.v1", "ServerReflection", "ServerReflectionInfo", reflection_info),
    DIRECT("grpc.reflection.v1alpha", "ServerReflection", "ServerReflectionInfo", reflection_info),
    LOCAL("ClusterService", "Add", add_replica_request, service_cluster_add),
    LOCAL("ClusterService", "Backup", backup_request, service_cluster_backup),
    LOCAL("ClusterService", "Begin", begin_request, service_cluster_begin),
    UNARY("ClusterService", "Confirm", confirm_request, service_cluster_confirm),
    UNARY("ClusterService", "Overlap", overlap_request, service_cluster_overlap),
    LOCAL("ClusterService", "Past", past_request, service_cluster_past),
    LOCAL("ClusterService", "Remove", remove_replica_request, service_cluster_remove),
    LOCAL("ClusterService", "Status", status_request, service_cluster_status),
    LOCAL("ClusterService", "Transfer", transfer_request, service_cluster_transfer),
    UNARY("LeaseService", "Acquire", acquire_request, service_lease_acquire),
    UNARY("LeaseService", "Explain", lease_key, service_lease_explain),
    UNARY("LeaseService", "Get", lease_key, service_lease_get),
    UNARY("LeaseService", "History", history_request, service_lease_history),
    UNARY("LeaseService", "List", list_leases_request, service_lease_list),
    UNARY("LeaseService", "Release", release_request, service_lease_release),
    UNARY("LeaseService", "Renew", renew_request, service_lease_renew),
    UNARY("LeaseService", "Revoke", revoke_request, service_lease_revoke),
    STREAM("LeaseService", "Watch", watch_request, service_lease_watch),
    UNARY("NodeService", "Cordon", node_verb_request, service_node_cordon),
    UNARY("NodeService", "Drain", node_verb_request, service_node_drain),
    UNARY("NodeService", "Enroll", enroll_request, service_node_enroll),
    UNARY("NodeService", "Fence", fence_request, service_node_fence),
    UNARY("NodeService", "Forget", node_verb_request, service_node_forget),
    UNARY("NodeService", "Get", node_key, service_node_get),
    UNARY("NodeService", "List", list_nodes_request, service_node_list),
    STREAM("NodeService", "Session", session_up, service_node_session),
    UNARY("NodeService", "Sweep", node_verb_request, service_node_sweep),
    UNARY("NodeService", "Token", token_request, service_node_token),
    UNARY("NodeService", "Undrain", node_verb_request, service_node_undrain),
    UNARY("PoolService", "Create", create_pool_request, service_pool_create),
    UNARY("PoolService", "Get", pool_key, service_pool_get),
    UNARY("PoolService", "List", list_pools_request, service_pool_list),
    UNARY("PoolService", "Overlap", pool_key, service_pool_overlap),
    UNARY("PoolService", "Retire", retire_pool_request, service_pool_retire),
    UNARY("PoolService", "Set", set_pool_request, service_pool_set),
    UNARY("PoolService", "Suggest", suggest_pool_request, service_pool_suggest),
    UNARY("PoolService", "Unblock", unblock_request, service_pool_unblock),
    UNARY("RbacService", "Check", check_request, service_rbac_check),
    UNARY("RbacService", "GetConfig", get_rules_request, service_rbac_get_config),
    UNARY("RbacService", "ListRoles", list_roles_request, service_rbac_list_roles),
    UNARY("RbacService", "UpdateConfig", update_rules_request, service_rbac_update_config),
};

#define N_METHODS (sizeof methods / sizeof methods[0])

const struct rpc_method *rpc_method_find(const char *path)
{
    size_t low = 0, high = N_METHODS;

    while (low < high) {
        size_t middle = low + (high - low) / 2;
        int order = strcmp(path, methods[middle].path);

        if (order == 0)
            return &methods[middle];
        if (order < 0)
            high = middle;
        else
            low = middle + 1;
    }
    return NULL;
}

int rpc_method_check(void)
{
    for (size_t i = 0; i < N_METHODS; i++) {
        const struct rpc_method *method = &methods[i];

        if (!policy_knows(method->permission))
            return -EINVAL;
        if (!!method->unary + !!method->stream + !!method->direct != 1)
            return -EINVAL;
        if (i && strcmp(methods[i - 1].path, method->path) >= 0)
            return -EINVAL;
    }
    return 0;
}

const struct rpc_method *rpc_method_at(size_t i)
{
    return i < N_METHODS ? &methods[i] : NULL;
}
