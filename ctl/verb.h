/* The verbs of leasectl: an entry of this form each, in a file of its own (cmd_node_change.c has those that differ by the
 * call alone). */
#ifndef XCE_CTL_VERB_H
#define XCE_CTL_VERB_H

#include "ctl/option.h"

struct ctl;

struct verb {
    const char *group; /* "pool", "node", "config"; NULL = none */
    const char *name;
    const char *args;    /* for the usage line: "[OPTIONS] TARGET" without the options; "" = none */
    const char *summary; /* one line */
    const char *more;    /* paragraphs of --help, may be NULL */
    const struct option_entry *options; /* NULL = none */
    size_t memory;                      /* size of the struct that they fill */
    int words_least, words_most;        /* -1 = any number */
    bool stale;                         /* a read that may be asked for old: --stale */
    bool rest;                          /* what follows the first word belongs to another program */
    /* The verb's answer is the process's: an enum of ctl.h, or what another program ended with. */
    int (*exec)(struct ctl *ctl, void *options, int n_words, char **words);
};

/* Verb i, NULL past the end; in the order of --help. */
const struct verb *verb_at(size_t i);

/* group NULL: a verb without one. NULL = no such. */
const struct verb *verb_find(const char *group, const char *name);
bool verb_group_exists(const char *group);

extern const struct verb cmd_acquire, cmd_renew, cmd_release, cmd_revoke, cmd_show, cmd_list,
    cmd_watch, cmd_explain, cmd_history, cmd_exec;
extern const struct verb cmd_pool_create, cmd_pool_list, cmd_pool_show, cmd_pool_set,
    cmd_pool_suggest, cmd_pool_unblock, cmd_pool_retire;
extern const struct verb cmd_node_list, cmd_node_show, cmd_node_drain, cmd_node_undrain,
    cmd_node_cordon, cmd_node_sweep, cmd_node_fence, cmd_node_forget;
extern const struct verb cmd_rbac_show, cmd_rbac_apply, cmd_rbac_check, cmd_rbac_roles;
extern const struct verb cmd_cert_init, cmd_cert_issue, cmd_cert_renew, cmd_cert_revoke,
    cmd_cert_show, cmd_cert_token;
extern const struct verb cmd_cluster_status, cmd_cluster_init, cmd_cluster_add, cmd_cluster_remove,
    cmd_cluster_transfer, cmd_cluster_backup, cmd_cluster_restore, cmd_cluster_confirm;
extern const struct verb cmd_doctor, cmd_config_show;

#endif
