#include "leased/conf.h"

#include <errno.h>
#include <stdbool.h>
#include <stddef.h>
#include <syslog.h>

#include "common/address.h"
#include "map/name.h"

static const char *const engine_words[] = {"sqlite", "raft", NULL};
static const char *const level_words[] = {"error", "warning", "notice", "info", "debug", NULL};

#define AT(member) offsetof(struct leased_settings, member)

static const struct conf_entry entries[] = {
    {"leased", "Socket", CONF_PATH, AT(socket), "/run/xce/leased.sock", .min = 1, .max = 100,
     .restart = true,
     .help = "unix socket for clients on this machine; they are who the kernel says they are"},
    {"leased", "StateDir", CONF_PATH, AT(state_dir), "/var/lib/xce/leased", .min = 1,
     .restart = true, .help = "folder of the log, the snapshot and the history"},
    {"leased", "Prefix", CONF_STRING, AT(prefix), NAME_PREFIX_DEFAULT, .min = 2,
     .max = NAME_PREFIX_MAX, .restart = true,
     .help = "what every lease's name begins with; fixed once leases were given"},
    {"leased", "Heartbeat", CONF_DURATION, AT(heartbeat_ms), "2s", .min = 100, .max = 60000,
     .help = "how often a node speaks"},
    {"leased", "LostAfter", CONF_DURATION, AT(lost_after_ms), "30s", .min = 1000, .max = 86400000,
     .help = "a node that is silent for so long counts as lost"},
    {"leased", "Grace", CONF_DURATION, AT(grace_ms), "30s", .min = 0, .max = 3600000,
     .help = "no ttl ends within this time after a start or a standstill"},
    {"leased", "HistoryLag", CONF_SIZE, AT(history_lag), "64M", .min = 1 << 20, .max = 4ull << 30,
     .restart = true,
     .help = "past so much unwritten history, at most replicas, no lease is granted"},
    {"leased", "Connections", CONF_U32, AT(connections), "4096", .min = 8, .max = 1000000,
     .restart = true,
     .help = "clients connected at once; users other than root have 3/4, each of them 1/4"},
    {"leased", "Listen", CONF_LIST, AT(listen), "", .max = 16, .restart = true,
     .help = "HOST:PORT for clients with a certificate, * is any address, 7623 the usual port"},
    {"leased", "Certificate", CONF_PATH, AT(certificate), "", .min = 0,
     .help = "PEM file of this replica's certificate, and of those between it and the CA"},
    {"leased", "Key", CONF_PATH, AT(key), "", .min = 0,
     .help = "PEM file of its key, which only owner and group may read"},
    {"leased", "CA", CONF_PATH, AT(ca), "", .min = 0,
     .help = "PEM file of the CAs whose certificates count"},
    {"leased", "CRL", CONF_PATH, AT(crl), "", .min = 0,
     .help = "PEM file of their revocation lists; empty: nothing is ever revoked"},
    {"leased", "AuditFile", CONF_PATH, AT(audit_file), "", .restart = true,
     .help = "where what is done and denied is written; empty: audit.log in StateDir"},
    {"leased", "AuditSize", CONF_SIZE, AT(audit_size), "16M", .max = 1ull << 40, .restart = true,
     .help = "an audit file that grows past it is rotated; 0: there is none"},
    {"leased", "AuditKeep", CONF_U32, AT(audit_keep), "8", .min = 1, .max = 99, .restart = true,
     .help = "old audit files that are kept"},
    {"leased", "Engine", CONF_WORD, AT(engine), "sqlite", .words = engine_words, .restart = true,
     .help = "sqlite: this replica alone; raft: one of several"},
    {"leased", "Advertise", CONF_STRING, AT(advertise), "", .max = 255, .restart = true,
     .help = "HOST:PORT where other replicas reach this one; empty: the first of Listen"},
    {"leased", "ElectionTimeout", CONF_DURATION, AT(election_ms), "150ms", .min = 50, .max = 60000,
     .restart = true, .help = "a leader that is silent for so long is replaced"},
    {"leased", "RaftHeartbeat", CONF_DURATION, AT(raft_heartbeat_ms), "30ms", .min = 10,
     .max = 20000, .restart = true, .help = "how often a leader speaks"},
    {"leased", "RbacSeed", CONF_PATH, AT(rbac_seed), "", .restart = true,
     .help = "file with the rules of a cluster that has none yet; taken once"},
    {"leased", "CAKey", CONF_PATH, AT(ca_key), "", .min = 0,
     .help =
         "PEM file of the key of the first CA in CA: this replica makes certificates for nodes"},
    {"leased", "NodeCertificate", CONF_DURATION, AT(node_life_ms), "30d", .min = 1000,
     .max = 3650LL * 86400000,
     .help = "how long such a certificate is good; nodes renew theirs at two thirds of it"},
    {"leased", "LogLevel", CONF_WORD, AT(log_level), "info", .words = level_words,
     .help = "error, warning, notice, info or debug"},
};

static int check_tls(const struct leased_settings *leased, struct err *err)
{
    bool all = leased->certificate[0] && leased->key[0] && leased->ca[0];
    bool any = leased->certificate[0] || leased->key[0] || leased->ca[0] || leased->crl[0];
    struct address address;

    for (size_t i = 0; i < leased->listen.n; i++)
        if (address_parse(leased->listen.items[i], true, &address, err) < 0)
            return err_prefix(err, -EINVAL, "leased.Listen");
    if (leased->listen.n > 0 && !all)
        return err_set(err, -EINVAL,
                       "leased.Listen: needs leased.Certificate, leased.Key and leased.CA");
    if (leased->ca_key[0] && !all)
        return err_set(err, -EINVAL,
                       "leased.CAKey: needs leased.Certificate, leased.Key and leased.CA");
    if (any && !all)
        return err_set(err, -EINVAL,
                       "leased.Certificate, leased.Key and leased.CA: all of them or none");
    return 0;
}

const char *leased_conf_address(const struct leased_settings *settings)
{
    if (settings->advertise[0])
        return settings->advertise;
    return settings->listen.n > 0 && settings->listen.items[0][0] != '*' ? settings->listen.items[0]
                                                                         : NULL;
}

static int check_raft(const struct leased_settings *leased, struct err *err)
{
    struct address address;

    if (leased->advertise[0] && address_parse(leased->advertise, false, &address, err) < 0)
        return err_prefix(err, -EINVAL, "leased.Advertise");
    if (leased->engine != LEASED_RAFT)
        return 0;
    if (leased->listen.n == 0)
        return err_set(err, -EINVAL,
                       "leased.Engine: raft needs leased.Listen: replicas speak over TLS alone");
    if (!leased_conf_address(leased))
        return err_set(err, -EINVAL,
                       "leased.Advertise: is needed where leased.Listen begins with *");
    if (leased->election_ms < 3 * leased->raft_heartbeat_ms)
        return err_set(err, -EINVAL,
                       "leased.ElectionTimeout: must be at least three times leased.RaftHeartbeat");
    return 0;
}

static int check(const void *settings, struct err *err)
{
    const struct leased_settings *leased = settings;

    if (!name_prefix_valid(leased->prefix))
        return err_set(err, -EINVAL, "leased.Prefix: \"%s\" is not of the form [a-z][a-z0-9]*-",
                       leased->prefix);
    if (leased->lost_after_ms < 3 * leased->heartbeat_ms)
        return err_set(err, -EINVAL,
                       "leased.LostAfter: must be at least three times leased.Heartbeat");
    if (check_tls(leased, err) < 0)
        return -EINVAL;
    return check_raft(leased, err);
}

const struct conf_table leased_conf = {
    .entries = entries,
    .n = sizeof entries / sizeof entries[0],
    .settings_size = sizeof(struct leased_settings),
    .check = check,
};

int leased_conf_log_level(const void *settings)
{
    static const int levels[] = {LOG_ERR, LOG_WARNING, LOG_NOTICE, LOG_INFO, LOG_DEBUG};

    return levels[((const struct leased_settings *)settings)->log_level];
}
