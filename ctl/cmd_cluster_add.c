/* leasectl cluster add. */
#include <stdio.h>

#include "ctl/ctl.h"
#include "ctl/verb.h"
#include "ctl/view.h"

struct add_options {
    const char *address;
};

static const struct option_entry options[] = {
    {"address", 'a', OPTION_TEXT, offsetof(struct add_options, address), "HOST:PORT",
     "where it listens (default: NAME, port 7623)", NULL},
    {NULL, 0, 0, 0, NULL, NULL, NULL},
};

static int exec(struct ctl *ctl, void *memory, int n_words, char **words)
{
    const struct add_options *given = memory;
    struct xce_call call = ctl_call(ctl);
    struct xce_cluster *cluster = NULL;
    int status = output_begin(ctl, &view_replicas), code;

    (void)n_words;
    if (status != EXIT_OK)
        return status;
    code = xce_cluster_add(ctl->client, &call, words[0], given->address ? given->address : words[0],
                           &cluster);
    return view_cluster_changed(ctl, code, cluster);
}

const struct verb cmd_cluster_add = {
    .group = "cluster",
    .name = "add",
    .args = "NAME",
    .summary = "Add a replica",
    .more =
        "NAME is what its certificate says (xce://replica/NAME). It must run, with Engine = raft "
        "and\n"
        "an empty state; it has the state when this returns. One whose folder was lost is removed\n"
        "first. Any replica may be asked.",
    .options = options,
    .memory = sizeof(struct add_options),
    .words_least = 1,
    .words_most = 1,
    .exec = exec,
};
