#include "leased/conf.h"

#include <errno.h>
#include <stddef.h>
#include <syslog.h>

#include "map/name.h"

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
     .restart = true, .help = "past so much unwritten history no lease is granted"},
    {"leased", "Connections", CONF_U32, AT(connections), "4096", .min = 8, .max = 1000000,
     .restart = true,
     .help = "clients connected at once; users other than root have 3/4, each of them 1/4"},
    {"leased", "LogLevel", CONF_WORD, AT(log_level), "info", .words = level_words,
     .help = "error, warning, notice, info or debug"},
};

static int check(const void *settings, struct err *err)
{
    const struct leased_settings *leased = settings;

    if (!name_prefix_valid(leased->prefix))
        return err_set(err, -EINVAL, "leased.Prefix: \"%s\" is not of the form [a-z][a-z0-9]*-",
                       leased->prefix);
    if (leased->lost_after_ms < 3 * leased->heartbeat_ms)
        return err_set(err, -EINVAL,
                       "leased.LostAfter: must be at least three times leased.Heartbeat");
    return 0;
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
