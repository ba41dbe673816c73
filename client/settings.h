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
    const char *certificate, *key, *ca, *crl;
};

extern const struct conf_table client_conf_table;

/* Read path (NULL: XCE_CONF_DEFAULT, which may be missing). server: what the caller asked for, NULL: XCE_SERVER, or the
 * file. XCE_CERT, XCE_KEY, XCE_CA and XCE_CRL win over the file. 0; as conf_load. */
int client_settings_load(const char *path, const char *server, struct conf **ret, struct err *err);

#endif
