#include "userdb/conf.h"

#include <errno.h>
#include <stddef.h>
#include <string.h>
#include <syslog.h>

#include "userdb/record.h"
#include "xce/map.h"

static const char *const level_words[] = {"error", "warning", "notice", "info", "debug", NULL};

#define AT(member) offsetof(struct userdb_settings, member)

static const struct conf_entry entries[] = {
    {"userdbd", "Socket", CONF_PATH, AT(socket), "/run/xce/userdb/" RECORD_SERVICE, .min = 1,
     .max = 100, .restart = true,
     .help = "where clients come; /run/systemd/userdb/" RECORD_SERVICE " points to it"},
    {"userdbd", "Map", CONF_PATH, AT(map), XCE_MAP_PATH_DEFAULT, .min = 1, .restart = true,
     .help = "the uid map"},
    {"userdbd", "Enumerate", CONF_BOOL, AT(enumerate), "no",
     .help = "give lists of all leases; only where nsswitch.conf does not name xce, or each is "
             "listed twice"},
    {"userdbd", "LogLevel", CONF_WORD, AT(log_level), "info", .words = level_words,
     .help = "error, warning, notice, info or debug"},
};

/* Clients take the name of the file for that of the service. */
static int check(const void *settings, struct err *err)
{
    const struct userdb_settings *userdb = settings;

    if (strcmp(strrchr(userdb->socket, '/') + 1, RECORD_SERVICE) == 0)
        return 0;
    return err_set(err, -EINVAL, "userdbd.Socket: the file is to be called " RECORD_SERVICE);
}

const struct conf_table userdb_conf = {
    .entries = entries,
    .n = sizeof(entries) / sizeof(entries[0]),
    .settings_size = sizeof(struct userdb_settings),
    .check = check,
};

int userdb_conf_log_level(const void *settings)
{
    static const int levels[] = {LOG_ERR, LOG_WARNING, LOG_NOTICE, LOG_INFO, LOG_DEBUG};

    return levels[((const struct userdb_settings *)settings)->log_level];
}
