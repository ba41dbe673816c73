/* ClusterService. */
#include <stdlib.h>

#include "client/verb.h"
#include "common/mem.h"
#include "xce/v1/cluster.pb-c.h"

#define SERVICE "ClusterService"

/* An answer that says nothing but that it is done. */
struct done {
    char nothing;
};

static void take_member(const Xce__V1__Replica *from, struct xce_replica *ret)
{
    *ret = (struct xce_replica){
        .name = from->name,
        .address = from->address,
        .role = (int)from->role,
        .leads = from->leads,
        .up = from->up,
        .last_entry = from->last_entry,
        .id = from->id,
        .degraded = from->degraded,
    };
}

static int take_restored(struct xce_client *client, void *result, const Xce__V1__Restored *from,
                         struct xce_cluster *cluster)
{
    struct xce_awaited *awaited;

    if (!from)
        return XCE_OK;
    awaited = pb_arena_alloc(result_arena(result), (from->n_awaited + 1) * sizeof *awaited);
    if (!awaited)
        return OUT_OF_MEMORY(client);
    for (size_t i = 0; i < from->n_awaited; i++)
        awaited[i] = (struct xce_awaited){from->awaited[i]->node, from->awaited[i]->what};
    cluster->restored = true;
    cluster->restored_waits = from->waits;
    cluster->backup_revision = from->backup;
    cluster->restored_wall_ms = from->wall_ms;
    cluster->awaited = awaited;
    cluster->n_awaited = from->n_awaited;
    return XCE_OK;
}

static int take_cluster(struct xce_client *client, const ProtobufCMessage *message, void *result)
{
    const Xce__V1__ClusterReply *reply = (const Xce__V1__ClusterReply *)message;
    const Xce__V1__Cluster *from = reply->cluster;
    struct xce_cluster *cluster = result;
    struct xce_replica *members;

    client_saw_info(client, reply->info);
    if (!from)
        return client_fail(client, XCE_FAILED, "the server's answer holds no cluster");
    members = pb_arena_alloc(result_arena(result), (from->n_members + 1) * sizeof *members);
    if (!members)
        return OUT_OF_MEMORY(client);
    for (size_t i = 0; i < from->n_members; i++)
        take_member(from->members[i], &members[i]);
    *cluster = (struct xce_cluster){
        .engine = from->engine,
        .leader = from->leader,
        .self = from->self,
        .members = members,
        .n_members = from->n_members,
        .term = from->term,
        .applied = from->applied,
        .revision = from->revision,
        .digest = from->digest,
        .health = from->health,
    };
    return take_restored(client, result, from->restored, cluster);
}

int xce_cluster_status(struct xce_client *client, const struct xce_call *call,
                       struct xce_cluster **ret)
{
    struct op_spec spec = VERB(OP_READ, "Status", cluster_reply, take_cluster);
    Xce__V1__StatusRequest request = XCE__V1__STATUS_REQUEST__INIT;

    return verb_run(client, call, &spec, &request.base, sizeof **ret, ret);
}

static int take_begin(struct xce_client *client, const ProtobufCMessage *message, void *result)
{
    (void)result;
    client_saw_info(client, ((const Xce__V1__BeginReply *)message)->info);
    return XCE_OK;
}

int xce_cluster_init(struct xce_client *client, const struct xce_call *call)
{
    struct op_spec spec = VERB(OP_CHANGE, "Begin", begin_reply, take_begin);
    Xce__V1__BeginRequest request = XCE__V1__BEGIN_REQUEST__INIT;
    struct done *done = NULL;
    int code;

    spec.request = &request.base;
    code = op_run(client, call, &spec, result_new(sizeof *done), &done);
    xce_free(done);
    return code;
}

int xce_cluster_add(struct xce_client *client, const struct xce_call *call, const char *name,
                    const char *address, struct xce_cluster **ret)
{
    struct op_spec spec = VERB(OP_CHANGE, "Add", cluster_reply, take_cluster);
    Xce__V1__AddReplicaRequest request = XCE__V1__ADD_REPLICA_REQUEST__INIT;

    request.name = verb_bytes(name);
    request.address = verb_bytes(address);
    return verb_run(client, call, &spec, &request.base, sizeof **ret, ret);
}

int xce_cluster_remove(struct xce_client *client, const struct xce_call *call, const char *name,
                       struct xce_cluster **ret)
{
    struct op_spec spec = VERB(OP_CHANGE, "Remove", cluster_reply, take_cluster);
    Xce__V1__RemoveReplicaRequest request = XCE__V1__REMOVE_REPLICA_REQUEST__INIT;

    request.name = verb_bytes(name);
    return verb_run(client, call, &spec, &request.base, sizeof **ret, ret);
}

int xce_cluster_transfer(struct xce_client *client, const struct xce_call *call, const char *name,
                         struct xce_cluster **ret)
{
    struct op_spec spec = VERB(OP_CHANGE, "Transfer", cluster_reply, take_cluster);
    Xce__V1__TransferRequest request = XCE__V1__TRANSFER_REQUEST__INIT;

    request.name = verb_bytes(name);
    return verb_run(client, call, &spec, &request.base, sizeof **ret, ret);
}

int xce_cluster_confirm(struct xce_client *client, const struct xce_call *call,
                        const char *const *nodes, size_t n_nodes, struct xce_cluster **ret)
{
    struct op_spec spec = VERB(OP_CHANGE, "Confirm", cluster_reply, take_cluster);
    Xce__V1__ConfirmRequest request = XCE__V1__CONFIRM_REQUEST__INIT;
    auto_free ProtobufCBinaryData *list = calloc(n_nodes + 1, sizeof *list);

    if (!list)
        return OUT_OF_MEMORY(client);
    for (size_t i = 0; i < n_nodes; i++)
        list[i] = verb_bytes(nodes[i]);
    request.nodes = list;
    request.n_nodes = n_nodes;
    return verb_run(client, call, &spec, &request.base, sizeof **ret, ret);
}

static int take_backup(struct xce_client *client, const ProtobufCMessage *message, void *result)
{
    const Xce__V1__BackupReply *reply = (const Xce__V1__BackupReply *)message;

    (void)client;
    *(struct xce_backup *)result = (struct xce_backup){
        .copy = reply->copy,
        .revision = reply->revision,
        .size = reply->size,
        .data = reply->data.data,
        .len = reply->data.len,
    };
    return XCE_OK;
}

int xce_cluster_backup(struct xce_client *client, const struct xce_call *call, uint64_t copy,
                       uint64_t offset, struct xce_backup **ret)
{
    struct op_spec spec = VERB(OP_READ, "Backup", backup_reply, take_backup);
    Xce__V1__BackupRequest request = XCE__V1__BACKUP_REQUEST__INIT;

    request.copy = copy;
    request.offset = offset;
    return verb_run(client, call, &spec, &request.base, sizeof **ret, ret);
}
