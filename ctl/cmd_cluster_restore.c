/* leasectl cluster restore: leased does it, for the state is its. */
#include <errno.h>
#include <string.h>
#include <unistd.h>

#include "ctl/ctl.h"
#include "ctl/verb.h"

struct restore_options {
    bool set_aside;
    const char *config, *program;
};

static const struct option_entry options[] = {
    {"set-aside", 0, OPTION_FLAG, offsetof(struct restore_options, set_aside), NULL,
     "move the state that is there away, and keep it", NULL},
    {"leased-conf", 0, OPTION_TEXT, offsetof(struct restore_options, config), "FILE",
     "configuration of leased (default: /etc/xce/leased.conf)", NULL},
    {"leased", 0, OPTION_TEXT, offsetof(struct restore_options, program), "PROGRAM",
     "leased itself (default: the one in PATH)", NULL},
    {NULL, 0, 0, 0, NULL, NULL, NULL},
};

static int exec(struct ctl *ctl, void *memory, int n_words, char **words)
{
    const struct restore_options *given = memory;
    const char *program = given->program ? given->program : "leased";
    const char *args[8] = {program, "--restore", words[0]};
    size_t n = 3;

    (void)n_words;
    if (given->set_aside)
        args[n++] = "--set-aside";
    if (ctl->globals.json)
        args[n++] = "--json";
    if (given->config) {
        args[n++] = "--config";
        args[n++] = given->config;
    }
    (void)execvp(program, (char **)(uintptr_t)args);
    return ctl_fail(ctl, XCE_FAILED, "%s: cannot be run: %s", program, strerror(errno));
}

const struct verb cmd_cluster_restore = {
    .group = "cluster",
    .name = "restore",
    .args = "FILE",
    .summary = "Begin anew with a backup, on this machine",
    .more =
        "FILE is what leasectl cluster backup wrote. leased must be stopped here and everywhere, "
        "and start\n"
        "here alone afterwards; other replicas join with empty folders. Every lease drains, and no "
        "uid "
        "is given\n"
        "out before all nodes have reported, are clean, and leasectl cluster confirm names them.",
    .options = options,
    .memory = sizeof(struct restore_options),
    .words_least = 1,
    .words_most = 1,
    .exec = exec,
};
