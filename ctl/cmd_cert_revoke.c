/* leasectl cert revoke: put a certificate on the list. */
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include "ctl/ca_folder.h"
#include "ctl/ctl.h"
#include "ctl/verb.h"

struct revoke_options {
    const char *ca;
};

static const struct option_entry options[] = {
    {"ca", 0, OPTION_TEXT, offsetof(struct revoke_options, ca), "FOLDER",
     "of the CA (default: " CA_FOLDER_DEFAULT ")", NULL},
    {NULL, 0, 0, 0, NULL, NULL, NULL},
};

static int exec(struct ctl *ctl, void *memory, int n_words, char **words)
{
    const struct revoke_options *given = memory;
    auto_free char *pem = NULL;
    struct cert_identity identity = {0};
    struct ca_folder folder;
    struct err err = {{0}};
    char who[CERT_WHO_BUF];
    bool is_new;
    int status = ca_read(ctl, words[0], false, &pem);

    (void)n_words;
    if (status == EXIT_OK && cert_read(pem, strlen(pem), &identity, NULL, NULL, &err) < 0)
        status = ctl_fail(ctl, XCE_FAILED, "%s: %s", words[0], err.text);
    if (status != EXIT_OK)
        return status;
    status = ca_folder_open(ctl, given->ca, &folder);
    if (status == EXIT_OK) {
        status = ca_folder_made(ctl, &folder, pem, words[0]);
        if (status == EXIT_OK)
            status = ca_folder_revoke(ctl, &folder, &identity, &is_new);
        if (status == EXIT_OK)
            ctl_say(ctl, "%s, serial %s: %s. Bring %s/crl.pem to every replica.",
                    cert_who(&identity, who), identity.serial,
                    is_new ? "revoked" : "was revoked before", folder.path);
        ca_folder_close(&folder);
    }
    cert_identity_done(&identity);
    return status;
}

const struct verb cmd_cert_revoke = {
    .group = "cert",
    .name = "revoke",
    .args = "FILE",
    .summary = "Put a certificate on the CA's revocation list",
    .more =
        "The CA must have made it. It counts where the list is read: CRL= of leased. Streams of\n"
        "who is on it are cut.",
    .options = options,
    .memory = sizeof(struct revoke_options),
    .words_least = 1,
    .words_most = 1,
    .exec = exec,
};
