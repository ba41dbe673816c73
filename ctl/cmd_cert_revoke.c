/* leasectl cert revoke: put certificates on the list. */
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include "ctl/ca_folder.h"
#include "ctl/ctl.h"
#include "ctl/verb.h"

struct revoke_options {
    const char *ca, *node;
    struct option_list serials;
};

static const struct option_entry options[] = {
    {"ca", 0, OPTION_TEXT, offsetof(struct revoke_options, ca), "FOLDER",
     "of the CA (default: " CA_FOLDER_DEFAULT ")", NULL},
    {"serial", 0, OPTION_LIST, offsetof(struct revoke_options, serials), "HEX",
     "what has that number, wherever it was made; may be repeated", NULL},
    {"node", 0, OPTION_TEXT, offsetof(struct revoke_options, node), "NAME",
     "all that this folder has issued or renewed for a node", NULL},
    {NULL, 0, 0, 0, NULL, NULL, NULL},
};

/* In the way certificates say it: hex digits, two for each byte, none in vain. false: it is no such number. */
static bool read_serial(const char *text, char ret[static CERT_SERIAL_BUF])
{
    static const char digits[] = "0123456789abcdef";
    size_t n = 0, lead;

    for (; *text; text++) {
        const char *digit;

        if (*text == ':')
            continue;
        digit = strchr(digits, *text >= 'A' && *text <= 'F' ? *text - 'A' + 'a' : *text);
        if (!digit || n + 2 >= CERT_SERIAL_BUF)
            return false;
        if (*digit != '0' || n > 0)
            ret[n++] = *digit;
    }
    lead = n % 2;
    memmove(ret + lead, ret, n);
    memset(ret, '0', lead);
    ret[n + lead] = '\0';
    return n > 0;
}

static void say(struct ctl *ctl, const struct ca_folder *folder, const char *who,
                const char *serial, bool is_new)
{
    ctl_say(ctl, "%s%sserial %s: %s. Bring %s/crl.pem to every replica.", who, *who ? ", " : "",
            serial, is_new ? "revoked" : "was revoked before", folder->path);
}

static int revoke_file(struct ctl *ctl, struct ca_folder *folder, const char *path)
{
    auto_free char *pem = NULL;
    struct cert_identity identity = {0};
    struct err err = {{0}};
    char who[CERT_WHO_BUF];
    bool is_new;
    int status = ca_read(ctl, path, false, &pem);

    if (status == EXIT_OK && cert_read(pem, strlen(pem), &identity, NULL, NULL, &err) < 0)
        status = ctl_fail(ctl, XCE_FAILED, "%s: %s", path, err.text);
    if (status == EXIT_OK)
        status = ca_folder_made(ctl, folder, pem, path);
    if (status == EXIT_OK)
        status = ca_folder_revoke(ctl, folder, identity.serial, &identity, &is_new);
    if (status == EXIT_OK)
        say(ctl, folder, cert_who(&identity, who), identity.serial, is_new);
    cert_identity_done(&identity);
    return status;
}

static int revoke_serials(struct ctl *ctl, struct ca_folder *folder, const struct option_list *list)
{
    char serial[CERT_SERIAL_BUF];
    int status = EXIT_OK;
    bool is_new;

    for (size_t i = 0; status == EXIT_OK && i < list->n; i++) {
        (void)read_serial(list->items[i], serial);
        status = ca_folder_revoke(ctl, folder, serial, NULL, &is_new);
        if (status == EXIT_OK)
            say(ctl, folder, "", serial, is_new);
    }
    return status;
}

static int revoke_node(struct ctl *ctl, struct ca_folder *folder, const char *node)
{
    size_t n;
    int status = ca_folder_revoke_node(ctl, folder, node, &n);

    if (status == EXIT_OK)
        ctl_say(
            ctl,
            "node %s: %zu certificate%s revoked. Bring %s/crl.pem to every replica. What leased "
            "made for it is not in this folder, but in the audit files: --serial.",
            node, n, n == 1 ? "" : "s", folder->path);
    return status;
}

static int check(struct ctl *ctl, const struct revoke_options *given, int n_words)
{
    char serial[CERT_SERIAL_BUF];
    struct err err = {{0}};

    if ((n_words > 0) + (given->serials.n > 0) + (given->node != NULL) != 1)
        return ctl_usage(ctl, "say what: FILE, or --serial, or --node");
    for (size_t i = 0; i < given->serials.n; i++)
        if (!read_serial(given->serials.items[i], serial))
            return ctl_usage(ctl, "--serial: \"%s\" is no serial number (hex)",
                             given->serials.items[i]);
    if (given->node && cert_check_name(CERT_NODE, given->node, &err) < 0)
        return ctl_usage(ctl, "--node: %s", err.text);
    return EXIT_OK;
}

static int exec(struct ctl *ctl, void *memory, int n_words, char **words)
{
    const struct revoke_options *given = memory;
    struct ca_folder folder;
    int status = check(ctl, given, n_words);

    if (status == EXIT_OK)
        status = ca_folder_open(ctl, given->ca, &folder);
    if (status != EXIT_OK)
        return status;
    if (n_words > 0)
        status = revoke_file(ctl, &folder, words[0]);
    else if (given->node)
        status = revoke_node(ctl, &folder, given->node);
    else
        status = revoke_serials(ctl, &folder, &given->serials);
    ca_folder_close(&folder);
    return status;
}

const struct verb cmd_cert_revoke = {
    .group = "cert",
    .name = "revoke",
    .args = "FILE | --serial HEX | --node NAME",
    .summary = "Put certificates on the CA's revocation list",
    .more =
        "The CA must have made FILE. It counts where the list is read: CRL= of leased. Streams of\n"
        "who is on it are cut. What leased made for nodes that enrolled is in its audit file.",
    .options = options,
    .memory = sizeof(struct revoke_options),
    .words_least = 0,
    .words_most = 1,
    .exec = exec,
};
