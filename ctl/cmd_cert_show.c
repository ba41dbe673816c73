/* leasectl cert show: who a certificate names. */
#include <stdlib.h>

#include "ctl/ca_folder.h"
#include "ctl/ctl.h"
#include "ctl/verb.h"
#include "ctl/view_cert.h"

static int exec(struct ctl *ctl, void *memory, int n_words, char **words)
{
    auto_free char *pem = NULL;
    int status = ca_read(ctl, words[0], false, &pem);

    (void)memory;
    (void)n_words;
    return status == EXIT_OK ? view_cert_pem(ctl, pem, words[0], NULL) : status;
}

const struct verb cmd_cert_show = {
    .group = "cert",
    .name = "show",
    .args = "FILE",
    .summary = "Say whom a certificate names, as leased would read it",
    .words_least = 1,
    .words_most = 1,
    .exec = exec,
};
