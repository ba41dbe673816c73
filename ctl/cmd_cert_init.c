/* leasectl cert init: a small CA in a folder. */
#include <stddef.h>

#include "ctl/ca_folder.h"
#include "ctl/ctl.h"
#include "ctl/verb.h"

#define TEN_YEARS_MS (INT64_C(3650) * 24 * 3600 * 1000)

struct init_options {
    const char *name;
    int64_t life_ms;
};

static const struct option_entry options[] = {
    {"name", 0, OPTION_TEXT, offsetof(struct init_options, name), "NAME",
     "of the CA (default: xce-lease CA and a part of its key's hash)", NULL},
    {"lifetime", 0, OPTION_DURATION, offsetof(struct init_options, life_ms), "TIME",
     "of its certificate (default: 3650d)", NULL},
    {NULL, 0, 0, 0, NULL, NULL, NULL},
};

static int exec(struct ctl *ctl, void *memory, int n_words, char **words)
{
    const struct init_options *given = memory;
    const char *path = n_words ? words[0] : CA_FOLDER_DEFAULT;
    int status = ca_folder_make(ctl, path, given->name,
                                given->life_ms ? given->life_ms : TEN_YEARS_MS);

    if (status == EXIT_OK)
        ctl_say(ctl, "%s: made. Its ca.key is the key to the cluster: keep it where only you are.",
                path);
    return status;
}

const struct verb cmd_cert_init = {
    .group = "cert",
    .name = "init",
    .args = "[FOLDER]",
    .summary = "Make a small certificate authority in a folder",
    .more = "FOLDER is " CA_FOLDER_DEFAULT " if it is not given: ca.pem, ca.key, crl.pem and the\n"
            "index of what was issued. Nothing that is there is written over.",
    .options = options,
    .memory = sizeof(struct init_options),
    .words_least = 0,
    .words_most = 1,
    .exec = exec,
};
