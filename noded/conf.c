#include "noded/conf.h"

#include <errno.h>
#include <stdbool.h>
#include <stddef.h>
#include <string.h>
#include <syslog.h>

#include "common/address.h"
#include "common/text.h"

static const char *const level_words[] = {"error", "warning", "notice", "info", "debug", NULL};
static const char *const mirror_words[] = {"all", "own", NULL};

#define AT(member) offsetof(struct noded_settings, member)

static const struct conf_entry entries[] = {
    {"noded", "Server", CONF_LIST, AT(servers), "unix:/run/xce/leased.sock", .min = 1, .max = 16,
     .restart = true,
     .help = "where leased is: unix:PATH or HOST:PORT, several in order of preference"},
    {"noded", "Certificate", CONF_PATH, AT(certificate), "", .min = 0, .restart = true,
     .help = "PEM file of this node's certificate, for servers over TCP"},
    {"noded", "Key", CONF_PATH, AT(key), "", .min = 0, .restart = true,
     .help = "PEM file of its key"},
    {"noded", "CA", CONF_PATH, AT(ca), "", .min = 0, .restart = true,
     .help = "PEM file of the CAs that servers have their certificates from"},
    {"noded", "CRL", CONF_PATH, AT(crl), "", .min = 0, .restart = true,
     .help = "PEM file of their revocation lists; empty: none is asked"},
    {"noded", "EnrollToken", CONF_PATH, AT(enroll_token), "", .min = 0, .restart = true,
     .help = "file of leasectl cert token: gets this node its certificate, once, and is removed"},
    {"noded", "Renew", CONF_BOOL, AT(renew), "yes",
     .help = "ask leased for a newer certificate when two thirds of this one's life are over"},
    {"noded", "Node", CONF_STRING, AT(node), "", .max = TEXT_NODE_MAX, .restart = true,
     .help = "this node's name; empty: the host's name"},
    {"noded", "RuntimeDir", CONF_PATH, AT(runtime_dir), "/run/xce", .min = 1, .max = 200,
     .restart = true, .help = "folder of the uid map"},
    {"noded", "StateDir", CONF_PATH, AT(state_dir), "/var/lib/xce/noded", .min = 1, .max = 200,
     .restart = true, .help = "folder of what must outlive a reboot: epochs, pools"},
    {"noded", "Mirror", CONF_WORD, AT(mirror), "all", .words = mirror_words, .restart = true,
     .help = "all: every lease has its name here; own: only those that name this node"},
    {"noded", "LocalRoots", CONF_LIST, AT(local_roots), "", .max = 64,
     .help =
         "folders of this machine beside /tmp and the like, where files of a lease are removed"},
    {"noded", "Guard", CONF_DURATION, AT(guard_ms), "5s", .min = 100, .max = 60000,
     .help = "how often to look while a lease has a name but is not here"},
    {"noded", "GuardIdle", CONF_DURATION, AT(guard_idle_ms), "1m", .min = 1000, .max = 600000,
     .help = "how often to look at other times"},
    {"noded", "LookLimit", CONF_DURATION, AT(look_limit_ms), "1m", .min = 1000, .max = 3600000,
     .help = "how long a look at one thing may stand still before it is given up as dirty"},
    {"noded", "AccountCheck", CONF_DURATION, AT(account_check_ms), "10m", .min = 1000,
     .max = 86400000,
     .help = "how often to ask all name services for accounts in the pools' ranges"},
    {"noded", "Nscd", CONF_PATH, AT(nscd), "/usr/sbin/nscd", .min = 0,
     .help = "program that is told of each change while nscd runs; empty: it is not told"},
    {"noded", "Cgroup", CONF_PATH, AT(cgroup), "", .min = 0, .restart = true,
     .help = "where cgroup2 is mounted; empty: as the mount table says"},
    {"noded", "LogLevel", CONF_WORD, AT(log_level), "info", .words = level_words,
     .help = "error, warning, notice, info or debug"},
};

static int check_servers(const struct noded_settings *noded, struct err *err)
{
    bool needed = false;

    for (size_t i = 0; i < noded->servers.n; i++) {
        if (address_check_server(noded->servers.items[i], err) < 0)
            return err_prefix(err, -EINVAL, "noded.Server");
        needed = needed || !address_is_unix(noded->servers.items[i]);
    }
    if (needed && !(noded->certificate[0] && noded->key[0] && noded->ca[0]))
        return err_set(err, -EINVAL,
                       "noded.Server: one over TCP needs noded.Certificate, noded.Key, noded.CA");
    return 0;
}

static int check(const void *settings, struct err *err)
{
    const struct noded_settings *noded = settings;
    int r = check_servers(noded, err);

    for (size_t i = 0; r == 0 && i < noded->local_roots.n; i++) {
        const char *root = noded->local_roots.items[i];
        r = text_check_path(root, strlen(root), err);
        if (r == 0 && strcmp(root, "/") == 0)
            r = err_set(err, -EINVAL, "noded.LocalRoots: / is too much");
        else if (r < 0)
            (void)err_prefix(err, r, "noded.LocalRoots");
    }
    if (r == 0 && *noded->node) {
        r = text_check_node(noded->node, strlen(noded->node), err);
        if (r < 0)
            (void)err_prefix(err, r, "noded.Node");
    }
    if (r == 0 && noded->guard_idle_ms < noded->guard_ms)
        r = err_set(err, -EINVAL, "noded.GuardIdle: is below noded.Guard");
    return r;
}

const struct conf_table noded_conf = {
    .entries = entries,
    .n = sizeof(entries) / sizeof(entries[0]),
    .settings_size = sizeof(struct noded_settings),
    .check = check,
};

int noded_conf_log_level(const void *settings)
{
    static const int levels[] = {LOG_ERR, LOG_WARNING, LOG_NOTICE, LOG_INFO, LOG_DEBUG};

    return levels[((const struct noded_settings *)settings)->log_level];
}
