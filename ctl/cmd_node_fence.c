/* leasectl node fence: an oath that a machine is off. */
#include <string.h>

#include "ctl/ctl.h"
#include "ctl/verb.h"
#include "ctl/view.h"

struct fence_options {
    const char *reason, *machine_id, *boot_id;
};

static const struct option_entry options[] = {
    {"reason", 'r', OPTION_TEXT, offsetof(struct fence_options, reason), "TEXT",
     "why, and how you know that it is off; must be given", NULL},
    {"machine-id", 0, OPTION_TEXT, offsetof(struct fence_options, machine_id), "ID",
     "of the machine that is off (default: the one last heard of)", NULL},
    {"boot-id", 0, OPTION_TEXT, offsetof(struct fence_options, boot_id), "ID",
     "of its boot that is over (default: the one last heard of)", NULL},
    {NULL, 0, 0, 0, NULL, NULL, NULL},
};

/* A node that is not lost may be off all the same: who leads calls it lost in a while. What it knows of it is told. */
static int not_lost(struct ctl *ctl, int code, const struct xce_node *known)
{
    AUTO(buf_done) struct buf heard = BUF_INIT(256);

    if (!view_heard(&heard, known))
        buf_adds(&heard, ", when this leader began");
    return ctl_fail(ctl, code, "%s; last heard of: %s", xce_client_message(ctl->client),
                    buf_str(&heard));
}

/* The oath is on what leased knows, where nothing else is said; what that is, is told. */
static int fence(struct ctl *ctl, const struct fence_options *given, const struct xce_node *known,
                 struct xce_node **ret)
{
    struct xce_oath oath = {
        .node = known->node,
        .reason = given->reason,
        .machine_id = given->machine_id ? given->machine_id : known->machine_id,
        .boot_id = given->boot_id ? given->boot_id : known->boot_id,
    };
    struct xce_call call = ctl_call(ctl);
    int code;

    code = xce_node_fence(ctl->client, &call, &oath, ret);
    if (code == XCE_PRECONDITION && known->state != XCE_NODE_LOST)
        return not_lost(ctl, code, known);
    if (code != XCE_OK)
        return ctl_failed_change(ctl, code);
    ctl_say(ctl, "%s: machine %s, boot %s is sworn to be off", oath.node, oath.machine_id,
            oath.boot_id);
    return EXIT_OK;
}

static int exec(struct ctl *ctl, void *memory, int n_words, char **words)
{
    const struct fence_options *given = memory;
    struct xce_call call = ctl_call(ctl);
    struct xce_node *known, *fenced;
    int status = output_check(ctl, &view_nodes), code;

    (void)n_words;
    if (status == EXIT_OK && !given->reason)
        status = ctl_usage(ctl, "--reason: must be given");
    if (status == EXIT_OK)
        status = ctl_connect(ctl);
    if (status != EXIT_OK)
        return status;
    code = xce_node_get(ctl->client, &call, words[0], &known);
    if (code != XCE_OK)
        return ctl_failed(ctl, code);
    status = fence(ctl, given, known, &fenced);
    xce_free(known);
    if (status != EXIT_OK)
        return status;
    status = view_node(ctl, fenced);
    xce_free(fenced);
    return status;
}

const struct verb cmd_node_fence = {
    .group = "node",
    .name = "fence",
    .args = "NODE",
    .summary = "Swear that a node is off, so that its leases may be freed",
    .more = "If that boot of that machine ever speaks again, what was freed on this word is\n"
            "quarantined and alarmed. Power it off first, and make sure that it stays off.",
    .options = options,
    .memory = sizeof(struct fence_options),
    .words_least = 1,
    .words_most = 1,
    .exec = exec,
};
