/* The table of verbs. */
#include "ctl/verb.h"

#include <string.h>

static const struct verb *const verbs[] = {
    &cmd_acquire,
    &cmd_renew,
    &cmd_release,
    &cmd_revoke,
    &cmd_show,
    &cmd_list,
    &cmd_watch,
    &cmd_explain,
    &cmd_history,
    &cmd_exec,
    &cmd_pool_create,
    &cmd_pool_list,
    &cmd_pool_show,
    &cmd_pool_set,
    &cmd_pool_suggest,
    &cmd_pool_unblock,
    &cmd_pool_retire,
    &cmd_node_list,
    &cmd_node_show,
    &cmd_node_drain,
    &cmd_node_undrain,
    &cmd_node_cordon,
    &cmd_node_sweep,
    &cmd_node_fence,
    &cmd_node_forget,
    &cmd_rbac_show,
    &cmd_rbac_apply,
    &cmd_rbac_check,
    &cmd_rbac_roles,
    &cmd_cert_init,
    &cmd_cert_issue,
    &cmd_cert_show,
    &cmd_cert_renew,
    &cmd_cert_revoke,
    &cmd_cert_token,
    &cmd_cluster_status,
    &cmd_cluster_init,
    &cmd_cluster_add,
    &cmd_cluster_remove,
    &cmd_cluster_transfer,
    &cmd_cluster_backup,
    &cmd_cluster_restore,
    &cmd_cluster_confirm,
    &cmd_doctor,
    &cmd_config_show,
};

const struct verb *verb_at(size_t i)
{
    return i < sizeof verbs / sizeof verbs[0] ? verbs[i] : NULL;
}

static bool same(const char *a, const char *b)
{
    return a == b || (a && b && !strcmp(a, b));
}

const struct verb *verb_find(const char *group, const char *name)
{
    const struct verb *verb;

    for (size_t i = 0; (verb = verb_at(i)); i++)
        if (same(verb->group, group) && !strcmp(verb->name, name))
            return verb;
    return NULL;
}

bool verb_group_exists(const char *group)
{
    const struct verb *verb;

    for (size_t i = 0; (verb = verb_at(i)); i++)
        if (verb->group && !strcmp(verb->group, group))
            return true;
    return false;
}
