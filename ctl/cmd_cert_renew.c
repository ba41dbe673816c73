/* leasectl cert renew: the same certificate with another end. */
#include <errno.h>
#include <fcntl.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include "common/fsutil.h"
#include "ctl/ca_folder.h"
#include "ctl/ctl.h"
#include "ctl/verb.h"
#include "ctl/view_cert.h"

struct renew_options {
    const char *ca;
    int64_t life_ms;
};

static const struct option_entry options[] = {
    {"ca", 0, OPTION_TEXT, offsetof(struct renew_options, ca), "FOLDER",
     "of the CA (default: " CA_FOLDER_DEFAULT ")", NULL},
    {"lifetime", 0, OPTION_DURATION, offsetof(struct renew_options, life_ms), "TIME",
     "from now (default: as long as it was good before)", NULL},
    {NULL, 0, 0, 0, NULL, NULL, NULL},
};

/* What the old one says, to be said again. */
struct old {
    char *pem;
    struct cert_identity identity;
    char *hosts[CERT_HOSTS_MAX];
    size_t n_hosts;
};

static void old_done(struct old *old)
{
    free(old->pem);
    cert_identity_done(&old->identity);
    while (old->n_hosts > 0)
        free(old->hosts[--old->n_hosts]);
}

/* The file is written anew: a key or a chain in it would be gone. */
static int check_alone(struct ctl *ctl, const char *pem, const char *path)
{
    static const char begin[] = "-----BEGIN ", certificate[] = "CERTIFICATE-----";
    bool seen = false;

    for (const char *at = pem; (at = strstr(at, begin));) {
        size_t len = strcspn(at += strlen(begin), "-\r\n");
        bool is_one = strncmp(at, certificate, strlen(certificate)) == 0;

        if (!is_one || seen)
            return ctl_fail(ctl, XCE_FAILED,
                            "%s: holds more than a certificate (%.*s), which would be lost: renew "
                            "it in a file of its own",
                            path, (int)(len < 40 ? len : 40), at);
        seen = true;
    }
    return EXIT_OK;
}

static int read_old(struct ctl *ctl, const char *path, struct old *ret)
{
    struct err err = {{0}};
    int status = ca_read(ctl, path, false, &ret->pem);

    if (status == EXIT_OK)
        status = check_alone(ctl, ret->pem, path);
    if (status != EXIT_OK)
        return status;
    if (cert_read(ret->pem, strlen(ret->pem), &ret->identity, NULL, NULL, &err) < 0 ||
        cert_read_hosts(ret->pem, strlen(ret->pem), ret->hosts, &ret->n_hosts) < 0)
        return ctl_fail(ctl, XCE_FAILED, "%s: %s", path, err.text);
    return EXIT_OK;
}

/* What the file claims is said again only if it is the CA's word, and still stands. */
static int check_old(struct ctl *ctl, const struct ca_folder *folder, const struct old *old,
                     const char *path)
{
    char since[TEXT_TIME_BUF];
    int status = ca_folder_made(ctl, folder, old->pem, path);

    if (status == EXIT_OK && ca_folder_revoked(folder, old->identity.serial, since))
        status = ctl_fail(ctl, XCE_FAILED, "%s: is revoked since %s", path, since);
    return status;
}

static int renew(struct ctl *ctl, struct ca_folder *folder, const struct old *old, int64_t life_ms,
                 const char *path)
{
    const struct cert_identity *was = &old->identity;
    const struct cert_want want = {
        .kind = was->kind,
        .name = was->name,
        .groups = (const char *const *)was->groups,
        .n_groups = was->n_groups,
        .hosts = (const char *const *)old->hosts,
        .n_hosts = was->kind == CERT_REPLICA ? old->n_hosts : 0,
        .life_ms = life_ms ? life_ms : was->not_after_ms - was->not_before_ms - CERT_SKEW_MS,
    };
    AUTO(cert_request_free) struct cert_request *request = NULL;
    AUTO(cert_pem_free) char *pem = NULL;
    struct cert_identity identity = {0};
    struct err err = {{0}};
    int status, r;

    if (cert_request_of_certificate(old->pem, &request, &err) < 0 ||
        cert_issue(folder->ca, &want, request, &pem, &identity, &err) < 0)
        return ctl_fail(ctl, XCE_FAILED, "%s: %s", path, err.text);
    status = ca_folder_note(ctl, folder, &identity);
    cert_identity_done(&identity);
    if (status != EXIT_OK)
        return status;
    r = fs_write_file(AT_FDCWD, path, pem, strlen(pem), 0644);
    if (r < 0)
        return ctl_fail(ctl, XCE_FAILED, "%s: %s", path, err_text(r));
    return view_cert_pem(ctl, pem, path, NULL);
}

static int exec(struct ctl *ctl, void *memory, int n_words, char **words)
{
    const struct renew_options *given = memory;
    struct ca_folder folder;
    struct old old = {0};
    int status = read_old(ctl, words[0], &old);

    (void)n_words;
    if (status == EXIT_OK)
        status = ca_folder_open(ctl, given->ca, &folder);
    if (status == EXIT_OK) {
        status = check_old(ctl, &folder, &old, words[0]);
        if (status == EXIT_OK)
            status = renew(ctl, &folder, &old, given->life_ms, words[0]);
        ca_folder_close(&folder);
    }
    old_done(&old);
    return status;
}

const struct verb cmd_cert_renew = {
    .group = "cert",
    .name = "renew",
    .args = "FILE",
    .summary = "Replace a certificate by one that says the same and ends later",
    .more =
        "The CA must have made it, and not revoked it. The key stays. Daemons see the new file by\n"
        "themselves. Nodes that enrolled renew their own.",
    .options = options,
    .memory = sizeof(struct renew_options),
    .words_least = 1,
    .words_most = 1,
    .exec = exec,
};
