#include "leased/rbac/principal.h"

#include <stdio.h>
#include <string.h>

void principal_from_peer(uint32_t uid, uint32_t gid, const char *name, struct principal *ret)
{
    memset(ret, 0, sizeof *ret);
    (void)snprintf(ret->key, sizeof ret->key, "uid:%u", uid);
    if (name && *name && strlen(name) <= PRINCIPAL_NAME_MAX)
        (void)snprintf(ret->name, sizeof ret->name, "%s", name);
    else
        (void)snprintf(ret->name, sizeof ret->name, "#%u", uid);
    ret->uid = uid;
    ret->gid = gid;
    ret->local = true;
}
