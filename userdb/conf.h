/* userdbd.conf: the table of its keys, and the values in force. See xce-userdbd(8). */
#ifndef XCE_USERDB_CONF_H
#define XCE_USERDB_CONF_H

#include <stdbool.h>

#include "common/conf.h"

#define USERDB_CONF_PATH "/etc/xce/userdbd.conf"

struct userdb_settings {
    const char *socket, *map;
    bool enumerate;
    int log_level; /* a place in words[] */
};

extern const struct conf_table userdb_conf;

/* LOG_ERR..LOG_DEBUG. */
int userdb_conf_log_level(const void *settings);

#endif
