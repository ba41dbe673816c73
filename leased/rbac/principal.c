#include "leased/rbac/principal.h"

#include <assert.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "common/text.h"

_Static_assert(PRINCIPAL_NAME_MAX == TEXT_OWNER_MAX, "a caller can be an owner");
_Static_assert(PRINCIPAL_NAME_MAX >= TEXT_NODE_MAX, "a node can be a caller");

static void set_name(struct principal *principal, const char *prefix, const char *name)
{
    (void)snprintf(principal->name, sizeof principal->name, "%s", name);
    (void)snprintf(principal->key, sizeof principal->key, "%s:%s", prefix, name);
}

void principal_from_peer(uint32_t uid, uint32_t gid, const char *name, struct principal *ret)
{
    memset(ret, 0, sizeof *ret);
    ret->kind = uid == 0 ? PRINCIPAL_ROOT : PRINCIPAL_LOCAL;
    (void)snprintf(ret->key, sizeof ret->key, "uid:%u", uid);
    if (name && *name && strlen(name) <= PRINCIPAL_NAME_MAX)
        (void)snprintf(ret->name, sizeof ret->name, "%s", name);
    else
        (void)snprintf(ret->name, sizeof ret->name, "#%u", uid);
    ret->has_uid = true;
    ret->uid = uid;
    ret->gid = gid;
    ret->local = true;
}

static int from_machine(enum principal_kind kind, const char *prefix, const char *name,
                        struct principal *ret, struct err *err)
{
    if (text_check_node(name, strlen(name), err) < 0)
        return err_prefix(err, -EACCES, "certificate: %s", prefix);
    memset(ret, 0, sizeof *ret);
    ret->kind = kind;
    set_name(ret, prefix, name);
    return 0;
}

int principal_from_node(const char *name, struct principal *ret, struct err *err)
{
    return from_machine(PRINCIPAL_NODE, "node", name, ret, err);
}

int principal_from_replica(const char *id, struct principal *ret, struct err *err)
{
    return from_machine(PRINCIPAL_REPLICA, "replica", id, ret, err);
}

static int set_groups(struct principal *principal, const char *const *groups, size_t n,
                      struct err *err)
{
    char *at = principal->groups;

    if (n > PRINCIPAL_GROUPS_MAX)
        return err_set(err, -EACCES, "certificate: %zu organizations (O), at most %d", n,
                       PRINCIPAL_GROUPS_MAX);
    for (size_t i = 0; i < n; i++) {
        size_t len = strlen(groups[i]);

        if (!len || text_check(groups[i], len, PRINCIPAL_NAME_MAX, NULL) != 0)
            return err_set(err, -EACCES,
                           "certificate: an organization (O) that is empty, longer than %d bytes, "
                           "or no plain text",
                           PRINCIPAL_NAME_MAX);
        memcpy(at, groups[i], len + 1);
        at += len + 1;
    }
    principal->n_groups = (unsigned)n;
    return 0;
}

int principal_from_user(const char *name, const char *const *groups, size_t n_groups,
                        struct principal *ret, struct err *err)
{
    struct principal principal = {.kind = PRINCIPAL_USER};
    int r;

    if (text_check_owner(name, strlen(name), err) < 0)
        return err_prefix(err, -EACCES, "certificate: common name (CN)");
    set_name(&principal, "user", name);
    r = set_groups(&principal, groups, n_groups, err);
    if (r == 0)
        *ret = principal;
    return r;
}

void principal_set_account(struct principal *principal, uint32_t uid, uint32_t gid)
{
    assert(principal->kind == PRINCIPAL_USER);
    principal->has_uid = true;
    principal->uid = uid;
    principal->gid = gid;
}

const char *principal_group(const struct principal *principal, unsigned i)
{
    const char *group = principal->groups;

    assert(i < principal->n_groups);
    while (i--)
        group += strlen(group) + 1;
    return group;
}

void principal_stranger(struct principal *ret)
{
    memset(ret, 0, sizeof *ret);
    ret->kind = PRINCIPAL_STRANGER;
    (void)snprintf(ret->key, sizeof ret->key, "stranger");
    (void)snprintf(ret->name, sizeof ret->name, "stranger");
}
