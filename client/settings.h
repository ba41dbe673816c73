/* /etc/xce/client.conf: where leased is and how long to wait for it. */
#ifndef XCE_CLIENT_SETTINGS_H
#define XCE_CLIENT_SETTINGS_H

#include <stdint.h>

#include "common/conf.h"
#include "common/err.h"

struct client_settings {
    struct conf_list servers;
    int64_t timeout_ms;
    int64_t connect_timeout_ms;
};

extern const struct conf_table client_conf_table;

/* Read path (NULL: XCE_CONF_DEFAULT, which may be missing). server: what the caller asked for, NULL: XCE_SERVER, or the
 * file. 0; as conf_load. */
int client_settings_load(const char *path, const char *server, struct conf **ret, struct err *err);

/* Whether text is an address that can be asked: "unix:" and an absolute path that fits a socket address.
 * 0; -EINVAL, err says why not. */
int client_server_check(const char *text, struct err *err);

#endif
