#include "leased/engine/raft_list.h"

#include <errno.h>
#include <string.h>

#include "leased/engine/raft_link.h"

static bool has_name(const struct raft_server *server, const char *name)
{
    char theirs[REPLICA_NAME_MAX + 1], address[REPLICA_ADDRESS_MAX + 1];

    return raft_address_split(server->address, theirs, address) && strcmp(theirs, name) == 0;
}

const struct raft_server *raft_list_find(const struct raft_configuration *members, const char *name)
{
    for (unsigned i = 0; i < members->n; i++)
        if (has_name(&members->servers[i], name))
            return &members->servers[i];
    return NULL;
}

bool raft_list_has(const struct raft_configuration *members, raft_id id)
{
    for (unsigned i = 0; i < members->n; i++)
        if (members->servers[i].id == id)
            return true;
    return false;
}

const struct raft_server *raft_list_contradicts(const struct raft_configuration *members, bool old,
                                                raft_id id, const char *name)
{
    for (unsigned i = 0; i < members->n; i++) {
        bool same_name = has_name(&members->servers[i], name);
        bool same_folder = members->servers[i].id == id;

        if (same_name != same_folder && (same_folder || !old))
            return &members->servers[i];
    }
    return NULL;
}

enum raft_list_step raft_list_next(const struct raft_configuration *members, raft_id id,
                                   const char *name)
{
    const struct raft_server *server = raft_list_find(members, name);

    if (!server)
        return RAFT_LIST_ADD;
    if (server->id != id)
        return RAFT_LIST_OTHER;
    return server->role == RAFT_VOTER ? RAFT_LIST_DONE : RAFT_LIST_PROMOTE;
}

/* Whether the voters that answer would be a majority without that one, and with so many new ones that do. */
static bool majority_is_up(const struct raft_list *list, raft_id without, unsigned more)
{
    unsigned up = more, n = more;

    for (unsigned i = 0; i < list->members->n; i++) {
        const struct raft_server *server = &list->members->servers[i];

        if (server->role != RAFT_VOTER || server->id == without)
            continue;
        n++;
        up += server->id == list->own || list->up(server->id, list->arg);
    }
    return up > n / 2;
}

static unsigned count_voters(const struct raft_configuration *members)
{
    unsigned n = 0;

    for (unsigned i = 0; i < members->n; i++)
        n += members->servers[i].role == RAFT_VOTER;
    return n;
}

const char *raft_list_may_add(const struct raft_list *list, const char *name, int *r)
{
    *r = -EBUSY;
    if (raft_list_find(list->members, name))
        return NULL;
    if (list->members->n >= REPLICA_MEMBERS_MAX)
        return "the cluster has as many members as it can have";
    if (!majority_is_up(list, 0, 1))
        return "with it the replicas that answer would be no majority";
    return NULL;
}

const char *raft_list_may_remove(const struct raft_list *list, const char *name,
                                 const struct raft_server **ret, int *r)
{
    const struct raft_server *server = raft_list_find(list->members, name);

    *ret = server;
    *r = server ? -EBUSY : -ENOENT;
    if (!server)
        return "no member has this name";
    if (server->id == list->own)
        return count_voters(list->members) == 1
                   ? "the last replica can not be removed"
                   : "it leads: hand over first (leasectl cluster transfer)";
    if (server->role == RAFT_VOTER && !majority_is_up(list, server->id, 0))
        return "without it the replicas that answer would be no majority";
    return NULL;
}
