/* leasectl cert issue: a certificate and its key. */
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "ctl/ca_folder.h"
#include "ctl/ctl.h"
#include "ctl/verb.h"
#include "ctl/view_cert.h"

#define NINETY_DAYS_MS (INT64_C(90) * 24 * 3600 * 1000)

struct issue_options {
    const char *ca, *out;
    struct option_list groups, hosts;
    int64_t life_ms;
};

static const struct option_entry options[] = {
    {"ca", 0, OPTION_TEXT, offsetof(struct issue_options, ca), "FOLDER",
     "of the CA (default: " CA_FOLDER_DEFAULT ")", NULL},
    {"out", 0, OPTION_TEXT, offsetof(struct issue_options, out), "FOLDER",
     "where NAME.pem and NAME.key go (default: here)", NULL},
    {"group", 0, OPTION_LIST, offsetof(struct issue_options, groups), "NAME",
     "of a user; may be repeated", NULL},
    {"host", 0, OPTION_LIST, offsetof(struct issue_options, hosts), "NAME|ADDRESS",
     "where a replica serves, for foreign gRPC clients; may be repeated", NULL},
    {"lifetime", 0, OPTION_DURATION, offsetof(struct issue_options, life_ms), "TIME",
     "of the certificate (default: 90d)", NULL},
    {NULL, 0, 0, 0, NULL, NULL, NULL},
};

static int parse_kind(struct ctl *ctl, const char *word, enum cert_kind *ret)
{
    static const enum cert_kind kinds[] = {CERT_USER, CERT_REPLICA, CERT_NODE};

    for (size_t i = 0; i < sizeof kinds / sizeof kinds[0]; i++)
        if (!strcmp(word, cert_kind_name(kinds[i]))) {
            *ret = kinds[i];
            return EXIT_OK;
        }
    return ctl_usage(ctl, "%s: is none of user, replica, node", word);
}

/* Before anything is signed: what is there stays. */
static int check_absent(struct ctl *ctl, const char *base)
{
    static const char *const ends[] = {"key", "pem"};
    char path[CA_PATH_BUF];

    for (size_t i = 0; i < sizeof ends / sizeof ends[0]; i++) {
        (void)snprintf(path, sizeof path, "%s.%s", base, ends[i]);
        if (access(path, F_OK) == 0)
            return ctl_fail(ctl, XCE_EXISTS, "%s: is there already, and is not written over", path);
    }
    return EXIT_OK;
}

/* Both files, or none. */
static int write_both(struct ctl *ctl, const char *base, const char *pem, const char *key)
{
    char pem_path[CA_PATH_BUF], key_path[CA_PATH_BUF];
    int status;

    (void)snprintf(pem_path, sizeof pem_path, "%s.pem", base);
    (void)snprintf(key_path, sizeof key_path, "%s.key", base);
    status = ca_write_new(ctl, key_path, key, 0600);
    if (status != EXIT_OK)
        return status;
    status = ca_write_new(ctl, pem_path, pem, 0644);
    if (status != EXIT_OK) {
        (void)unlink(key_path);
        return status;
    }
    return view_cert_pem(ctl, pem, pem_path, key_path);
}

static int issue(struct ctl *ctl, struct ca_folder *folder, const struct cert_want *want,
                 const char *base)
{
    AUTO(cert_pem_free) char *key = NULL;
    AUTO(cert_pem_free) char *pem = NULL;
    AUTO(cert_request_free) struct cert_request *request = NULL;
    struct cert_identity identity = {0};
    struct err err = {{0}};
    int status = EXIT_OK;

    if (cert_key_make(&key) < 0 || cert_request_of_key(key, &request, &err) < 0)
        return ctl_fail(ctl, XCE_FAILED, "the key could not be made");
    if (cert_issue(folder->ca, want, request, &pem, &identity, &err) < 0)
        return ctl_usage(ctl, "%s", err.text);
    status = ca_folder_note(ctl, folder, &identity);
    if (status == EXIT_OK)
        status = write_both(ctl, base, pem, key);
    cert_identity_done(&identity);
    return status;
}

static int exec(struct ctl *ctl, void *memory, int n_words, char **words)
{
    const struct issue_options *given = memory;
    struct cert_want want = {
        .name = words[1],
        .groups = given->groups.items,
        .n_groups = given->groups.n,
        .hosts = given->hosts.items,
        .n_hosts = given->hosts.n,
        .life_ms = given->life_ms ? given->life_ms : NINETY_DAYS_MS,
    };
    struct ca_folder folder;
    struct err err = {{0}};
    char base[4100];
    int status = parse_kind(ctl, words[0], &want.kind);

    (void)n_words;
    if (status == EXIT_OK && cert_check_name(want.kind, want.name, &err) < 0)
        status = ctl_usage(ctl, "%s", err.text);
    if (status == EXIT_OK &&
        (strchr(want.name, '/') || (given->out && strlen(given->out) > sizeof base - 80)))
        status = ctl_usage(ctl, "%s: can not name a file", want.name);
    if (status == EXIT_OK)
        status = ca_folder_open(ctl, given->ca, &folder);
    if (status != EXIT_OK)
        return status;
    (void)snprintf(base, sizeof base, "%s/%s", given->out ? given->out : ".", want.name);
    status = check_absent(ctl, base);
    if (status == EXIT_OK)
        status = issue(ctl, &folder, &want, base);
    ca_folder_close(&folder);
    return status;
}

const struct verb cmd_cert_issue = {
    .group = "cert",
    .name = "issue",
    .args = "user|replica|node NAME",
    .summary = "Make a certificate and its key",
    .more = "Writes NAME.pem and NAME.key; neither may be there. A user is known by NAME and the\n"
            "groups, a replica and a node by xce://replica/NAME and xce://node/NAME.",
    .options = options,
    .memory = sizeof(struct issue_options),
    .words_least = 2,
    .words_most = 2,
    .exec = exec,
};
