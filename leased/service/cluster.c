/* ClusterService: who the replicas are, and what administrators do with them. */
#include "leased/service/cluster.h"

#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "common/address.h"
#include "common/digest.h"
#include "common/mem.h"
#include "common/text.h"
#include "leased/engine/replica.h"
#include "leased/service/degraded.h"
#include "leased/service/internal.h"
#include "xce/v1/cluster.pb-c.h"

#define BACKUP_PIECE   (1u << 20)
#define BACKUP_KEPT_MS 60000

static_assert(CLUSTER_WHY_MAX == ENGINE_WHY_MAX, "sentences are handed on");

/* ---- status ---- */

/* A reply as it grows. */
struct picture {
    Xce__V1__ClusterReply reply;
    Xce__V1__Cluster cluster;
    Xce__V1__ReplyInfo info;
    Xce__V1__Replica members[REPLICA_MEMBERS_MAX], *pointers[REPLICA_MEMBERS_MAX];
    struct replica_status status;
    Xce__V1__Restored restored;
    Xce__V1__Awaited *awaited, **awaited_pointers; /* owned */
};

static void draw_member(struct picture *picture, const struct degraded *degraded, size_t i)
{
    struct replica_member *member = &picture->status.members[i];
    Xce__V1__Replica *proto = &picture->members[i];

    xce__v1__replica__init(proto);
    proto->name = member->name;
    proto->address = member->address;
    proto->role = member->role == REPLICA_VOTER ? XCE__V1__REPLICA_ROLE__REPLICA_ROLE_VOTER
                                                : XCE__V1__REPLICA_ROLE__REPLICA_ROLE_LEARNER;
    proto->leads = member->leads;
    proto->up = member->up;
    proto->last_entry = member->last_entry;
    proto->id = member->id;
    proto->degraded = (char *)(uintptr_t)degraded_why(degraded, member->id);
    if (member->leads)
        picture->cluster.leader = member->name;
    if (member->id == picture->status.id)
        picture->cluster.self = member->name;
    picture->pointers[i] = proto;
}

static void draw_replicas(struct picture *picture, const struct service *service)
{
    const struct engine *engine = service->deps.engine;

    replica_get_status(engine, &picture->status);
    picture->cluster.engine = (char *)"raft";
    picture->cluster.term = picture->status.term;
    for (size_t i = 0; i < picture->status.n_members; i++)
        draw_member(picture, service->degraded, i);
    picture->cluster.members = picture->pointers;
    picture->cluster.n_members = picture->status.n_members;
}

static void draw_awaited(struct picture *picture, const struct fsm *fsm)
{
    Xce__V1__Restored *restored = &picture->restored;
    const struct fsm_node *node = NULL;
    size_t n = 0;

    while ((node = fsm_node_next(fsm, node)))
        n += fsm_node_awaited(fsm, node) != NULL;
    if (n == 0)
        return;
    picture->awaited = mem_must_calloc(n, sizeof *picture->awaited);
    picture->awaited_pointers = mem_must_calloc(n, sizeof(Xce__V1__Awaited *));
    restored->awaited = picture->awaited_pointers;
    while ((node = fsm_node_next(fsm, node))) {
        const char *what = fsm_node_awaited(fsm, node);
        Xce__V1__Awaited *awaited = &picture->awaited[restored->n_awaited];

        if (!what)
            continue;
        xce__v1__awaited__init(awaited);
        awaited->node = (char *)(uintptr_t)node->name;
        awaited->what = (char *)(uintptr_t)what;
        restored->awaited[restored->n_awaited++] = awaited;
    }
}

static void draw_restored(struct picture *picture, const struct fsm *fsm)
{
    struct fsm_restored restored;

    fsm_get_restored(fsm, &restored);
    if (!restored.times)
        return;
    xce__v1__restored__init(&picture->restored);
    picture->restored.backup = restored.backup;
    picture->restored.wall_ms = restored.wall_ms;
    picture->restored.waits = restored.waits;
    draw_awaited(picture, fsm);
    picture->cluster.restored = &picture->restored;
}

static void reply_status(struct service *service, struct service_request *request)
{
    struct picture *picture = mem_must_calloc(1, sizeof *picture);
    struct engine *engine = service->deps.engine;
    struct engine_status status;

    xce__v1__cluster_reply__init(&picture->reply);
    xce__v1__cluster__init(&picture->cluster);
    engine_get_status(engine, &status);
    picture->cluster.engine = (char *)"sqlite";
    if (engine_is_replica(engine))
        draw_replicas(picture, service);
    picture->cluster.applied = status.last_entry;
    picture->cluster.revision = status.fsm_revision;
    picture->cluster.digest = fsm_digest(service_fsm(service));
    picture->cluster.health = status.health < 0 ? service->health : (char *)"";
    draw_restored(picture, service_fsm(service));
    service_reply_info(service, &picture->info);
    picture->reply.info = &picture->info;
    picture->reply.cluster = &picture->cluster;
    service_reply(request, &picture->reply.base);
    free(picture->awaited);
    free(picture->awaited_pointers);
    free(picture);
}

void service_cluster_status(struct service *service, struct service_request *request)
{
    reply_status(service, request);
}

/* ---- changes ---- */

/* Waits for the engine. */
static struct service_pending *change_new(struct service *service, struct service_request *request)
{
    struct service_pending *change = mem_must_calloc(1, sizeof *change);

    service_pend(change, service, request);
    return change;
}

/* What the engine says, as the outside world is told. */
static int code_of(int r)
{
    switch (r) {
    case -EEXIST:
        return FSM_EXISTS;
    case -ENOENT:
        return FSM_NOT_FOUND;
    case -EBUSY:
    case -EHOSTUNREACH:
    case -ETIMEDOUT:
        return FSM_PRECONDITION;
    default:
        return r;
    }
}

static void answer_change(struct service *service, struct service_request *request, int r,
                          const char *why)
{
    if (r < 0)
        service_refuse(request, code_of(r), *why ? "%s" : NULL, why);
    else
        reply_status(service, request);
}

static void changed(int r, const char *why, void *arg)
{
    struct service_pending *change = arg;
    struct service_request *request = service_settle(change);
    struct service *service = change->service;

    free(change);
    if (request)
        answer_change(service, request, r, why);
}

static bool is_cluster(struct service *service, struct service_request *request)
{
    if (engine_is_replica(service->deps.engine))
        return true;
    service_refuse(request, FSM_PRECONDITION,
                   "this leased is alone (Engine sqlite): leasectl cluster init makes it the first "
                   "replica");
    return false;
}

/* A name with its NUL, if it is one; else that is the answer. */
static bool read_name(struct service_request *request, const ProtobufCBinaryData *name,
                      char ret[static TEXT_NODE_MAX + 1])
{
    struct err err = {{0}};

    if (text_check_node((const char *)name->data, name->len, &err) < 0) {
        service_refuse(request, -EINVAL, "name: %s", err.text);
        return false;
    }
    memcpy(ret, name->data, name->len);
    ret[name->len] = '\0';
    return true;
}

static bool read_address(struct service_request *request, const ProtobufCBinaryData *bytes,
                         char ret[static ADDRESS_TEXT_BUF])
{
    char text[ADDRESS_TEXT_BUF];
    struct address address;
    struct err err = {{0}};

    if (bytes->len >= sizeof text || (bytes->len && memchr(bytes->data, '\0', bytes->len))) {
        service_refuse(request, -EINVAL, "address: is no HOST:PORT");
        return false;
    }
    if (bytes->len)
        memcpy(text, bytes->data, bytes->len);
    text[bytes->len] = '\0';
    if (address_parse(text, false, &address, &err) < 0) {
        service_refuse(request, -EINVAL, "address: %s", err.text);
        return false;
    }
    (void)address_format(&address, ret);
    return true;
}

/* These methods are local so that a replica that is in no cluster says so. One that is in one knows its caller's rights and
 * its members only when it has made sure. */

void service_cluster_add(struct service *service, struct service_request *request)
{
    const Xce__V1__AddReplicaRequest *message = (const Xce__V1__AddReplicaRequest *)
                                                    request->message;
    char name[TEXT_NODE_MAX + 1], address[ADDRESS_TEXT_BUF];

    if (service_check_id(request, message->request) && is_cluster(service, request) &&
        read_name(request, &message->name, name) &&
        read_address(request, &message->address, address) && !service_doubts(service, request))
        replica_add(service->deps.engine, name, address, changed, change_new(service, request));
}

/* ---- removal ---- */

/* The request is in the log before the member goes: whoever is asked again under its id knows that its absence is what was
 * asked for. */
struct removal {
    struct service_pending base;
    bool again;
    char name[TEXT_NODE_MAX + 1];
};

static void removed(int r, const char *why, void *arg)
{
    struct removal *removal = arg;
    struct service *service = removal->base.service;
    struct service_request *request = service_settle(&removal->base);

    if (request)
        answer_change(service, request, r == -ENOENT && removal->again ? 0 : r, why);
    free(removal);
}

static void remove_now(int r, void *arg)
{
    struct removal *removal = arg;

    if (r < 0)
        removed(r, "", removal);
    else
        replica_remove(removal->base.service->deps.engine, removal->name, removed, removal);
}

/* Not in the midst of what was applied: the library is asked after a barrier. */
static void removal_noted(struct service *service, struct service_request *request,
                          const struct fsm_outcome *outcome)
{
    const Xce__V1__RemoveReplicaRequest *message = (const Xce__V1__RemoveReplicaRequest *)
                                                       request->message;
    struct removal *removal = mem_must_calloc(1, sizeof *removal);

    removal->again = outcome->replayed;
    memcpy(removal->name, message->name.data, message->name.len);
    service_pend(&removal->base, service, request);
    engine_read_barrier(service->deps.engine, remove_now, removal);
}

static bool is_member(const struct service *service, const char *name)
{
    struct replica_status status;

    replica_get_status(service->deps.engine, &status);
    for (size_t i = 0; i < status.n_members; i++)
        if (!strcmp(status.members[i].name, name))
            return true;
    return false;
}

void service_cluster_remove(struct service *service, struct service_request *request)
{
    const Xce__V1__RemoveReplicaRequest *message = (const Xce__V1__RemoveReplicaRequest *)
                                                       request->message;
    Xce__V1__Command command = XCE__V1__COMMAND__INIT;
    Xce__V1__CmdRemoving removing = XCE__V1__CMD_REMOVING__INIT;
    char name[TEXT_NODE_MAX + 1];

    if (!service_check_id(request, message->request) || !is_cluster(service, request) ||
        !read_name(request, &message->name, name) || service_doubts(service, request))
        return;
    if (!is_member(service, name) && !service_answered(service, request, message->request)) {
        service_refuse(request, FSM_NOT_FOUND, "no member has this name");
        return;
    }
    removing.name = message->name;
    command.kind_case = XCE__V1__COMMAND__KIND_REMOVING;
    command.removing = &removing;
    service_propose(service, request, message->request, &command, removal_noted);
}

/* ---- others ---- */

void service_cluster_transfer(struct service *service, struct service_request *request)
{
    const Xce__V1__TransferRequest *message = (const Xce__V1__TransferRequest *)request->message;
    char name[TEXT_NODE_MAX + 1];

    if (!service_check_id(request, message->request) || !is_cluster(service, request) ||
        (message->name.len > 0 && !read_name(request, &message->name, name)) ||
        service_doubts(service, request))
        return;
    replica_transfer(service->deps.engine, message->name.len > 0 ? name : NULL, changed,
                     change_new(service, request));
}

void service_cluster_begin(struct service *service, struct service_request *request)
{
    const Xce__V1__BeginRequest *message = (const Xce__V1__BeginRequest *)request->message;
    Xce__V1__BeginReply reply = XCE__V1__BEGIN_REPLY__INIT;
    Xce__V1__ReplyInfo info;
    char why[CLUSTER_WHY_MAX] = "";
    int r;

    if (!service_check_id(request, message->request))
        return;
    r = service->deps.cluster_init ? service->deps.cluster_init(why, service->deps.cluster_arg)
                                   : -EOPNOTSUPP;
    if (r < 0) {
        service_refuse(request, r == -EINVAL ? FSM_PRECONDITION : code_of(r), *why ? "%s" : NULL,
                       why);
        return;
    }
    service_reply_info(service, &info);
    reply.info = &info;
    service_reply(request, &reply.base);
}

/* ---- confirm ---- */

static void nodes_confirmed(struct service *service, struct service_request *request,
                            const struct fsm_outcome *outcome)
{
    (void)outcome;
    reply_status(service, request);
}

void service_cluster_confirm(struct service *service, struct service_request *request)
{
    const Xce__V1__ConfirmRequest *message = (const Xce__V1__ConfirmRequest *)request->message;
    Xce__V1__Command command = XCE__V1__COMMAND__INIT;
    Xce__V1__CmdConfirm confirm = XCE__V1__CMD_CONFIRM__INIT;

    if (message->n_nodes == 0 || message->n_nodes > FSM_NODES_MAX) {
        service_refuse(request, -EINVAL, "nodes: %zu named, must be 1 to %d", message->n_nodes,
                       FSM_NODES_MAX);
        return;
    }
    for (size_t i = 0; i < message->n_nodes; i++) {
        struct err err = {{0}};

        if (text_check_node((const char *)message->nodes[i].data, message->nodes[i].len, &err) <
            0) {
            service_refuse(request, -EINVAL, "nodes[%zu]: %s", i, err.text);
            return;
        }
    }
    confirm.nodes = message->nodes;
    confirm.n_nodes = message->n_nodes;
    command.kind_case = XCE__V1__COMMAND__KIND_CONFIRM;
    command.confirm = &confirm;
    service_propose(service, request, message->request, &command, nodes_confirmed);
}

/* ---- backup ---- */

struct backup {
    uint64_t copy, revision;
    uint8_t *bytes;
    size_t len;
    bool whole; /* its last piece was given, and may be asked for again */
    int64_t until_mono_ms;
};

static void drop_backup(struct backup **backup)
{
    if (*backup)
        free((*backup)->bytes);
    free(mem_take(*backup));
}

void cluster_elapse(struct service *service)
{
    for (int i = 0; i < BACKUPS_MAX; i++)
        if (service->backups[i] && service->deps.mono_ms() >= service->backups[i]->until_mono_ms)
            drop_backup(&service->backups[i]);
}

void cluster_done(struct service *service)
{
    for (int i = 0; i < BACKUPS_MAX; i++)
        drop_backup(&service->backups[i]);
}

/* Where another one may be kept; NULL: all are being fetched. */
static struct backup **room_for_backup(struct service *service)
{
    struct backup **room = NULL;

    for (int i = 0; i < BACKUPS_MAX; i++)
        if (!service->backups[i] || (!room && service->backups[i]->whole))
            room = &service->backups[i];
    return room;
}

static int make_backup(struct service *service, struct backup **room, struct backup **ret)
{
    struct backup *backup = mem_must_calloc(1, sizeof *backup);
    int r = fsm_snapshot(service_fsm(service), &backup->bytes, &backup->len);

    if (r < 0) {
        free(backup);
        return r;
    }
    drop_backup(room);
    while (backup->copy == 0)
        digest_random(&backup->copy, sizeof backup->copy);
    backup->revision = fsm_revision(service_fsm(service));
    *ret = *room = backup;
    return 0;
}

static struct backup *find_backup(const struct service *service, uint64_t copy)
{
    for (int i = 0; i < BACKUPS_MAX; i++)
        if (service->backups[i] && service->backups[i]->copy == copy)
            return service->backups[i];
    return NULL;
}

static void reply_piece(struct service *service, struct service_request *request,
                        struct backup *backup)
{
    const Xce__V1__BackupRequest *message = (const Xce__V1__BackupRequest *)request->message;
    Xce__V1__BackupReply reply = XCE__V1__BACKUP_REPLY__INIT;
    size_t left;

    if (message->offset > backup->len) {
        service_refuse(request, -EINVAL, "offset: behind the end");
        return;
    }
    backup->until_mono_ms = service->deps.mono_ms() + BACKUP_KEPT_MS;
    left = backup->len - (size_t)message->offset;
    backup->whole |= left <= BACKUP_PIECE;
    reply.copy = backup->copy;
    reply.revision = backup->revision;
    reply.size = backup->len;
    reply.data.data = backup->bytes + message->offset;
    reply.data.len = left < BACKUP_PIECE ? left : BACKUP_PIECE;
    service_reply(request, &reply.base);
}

static void begin_backup(struct service *service, struct service_request *request)
{
    struct backup **room = room_for_backup(service), *backup;
    struct fsm_restored restored;
    int r;

    fsm_get_restored(service_fsm(service), &restored);
    if (restored.waits) {
        service_refuse(request, FSM_PRECONDITION,
                       "a backup was restored and its nodes are not confirmed yet: keep that "
                       "backup, confirm, then make the next one");
        return;
    }
    if (!room) {
        service_refuse(request, FSM_PRECONDITION,
                       "%d copies are being fetched from this replica: ask again when one is "
                       "through, or %d s after it was given up",
                       BACKUPS_MAX, BACKUP_KEPT_MS / 1000);
        return;
    }
    r = make_backup(service, room, &backup);
    if (r < 0)
        service_refuse(request, r, NULL);
    else
        reply_piece(service, request, backup);
}

static void give_backup(struct service *service, struct service_request *request)
{
    const Xce__V1__BackupRequest *message = (const Xce__V1__BackupRequest *)request->message;
    struct backup *backup = find_backup(service, message->copy);

    if (message->copy == 0)
        begin_backup(service, request);
    else if (backup)
        reply_piece(service, request, backup);
    else
        service_refuse(request, FSM_PRECONDITION,
                       "copy: this replica has it not, or not any more; begin anew");
}

/* A new copy holds everything that was acknowledged before it was asked for. The pieces of one lie here, but whether he may
 * still have them the cluster knows. */
void service_cluster_backup(struct service *service, struct service_request *request)
{
    service_read(service, request, give_backup);
}
