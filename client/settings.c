#include "client/settings.h"

#include <errno.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include "common/address.h"
#include "xce/client.h"

static const struct conf_entry entries[] = {
    {"client", "Server", CONF_LIST, offsetof(struct client_settings, servers),
     .fallback = XCE_SERVER_DEFAULT, .min = 1, .max = 16,
     .help = "where leased is; any one of a list may be asked"},
    {"client", "Timeout", CONF_DURATION, offsetof(struct client_settings, timeout_ms),
     .fallback = "30s", .min = 1, .max = 24 * 3600 * 1000,
     .help = "deadline of a call that names none"},
    {"client", "ConnectTimeout", CONF_DURATION,
     offsetof(struct client_settings, connect_timeout_ms), .fallback = "10s", .min = 1,
     .max = 24 * 3600 * 1000, .help = "give up when no server could be reached for so long"},
    {"client", "Certificate", CONF_PATH, offsetof(struct client_settings, certificate),
     .fallback = "", .min = 0, .help = "PEM file of your certificate, for servers over TCP"},
    {"client", "Key", CONF_PATH, offsetof(struct client_settings, key), .fallback = "", .min = 0,
     .help = "PEM file of its key"},
    {"client", "CA", CONF_PATH, offsetof(struct client_settings, ca), .fallback = "", .min = 0,
     .help = "PEM file of the CAs that servers have their certificates from"},
    {"client", "CRL", CONF_PATH, offsetof(struct client_settings, crl), .fallback = "", .min = 0,
     .help = "PEM file of their revocation lists; empty: none is asked"},
};

static int check(const void *data, struct err *err)
{
    const struct client_settings *settings = data;

    bool needed = false;

    for (size_t i = 0; i < settings->servers.n; i++) {
        int r = address_check_server(settings->servers.items[i], err);

        if (r < 0)
            return r;
        needed = needed || !address_is_unix(settings->servers.items[i]);
    }
    if (needed && !(settings->certificate[0] && settings->key[0] && settings->ca[0]))
        return err_set(err, -EINVAL,
                       "a server over TCP needs a certificate: client.Certificate, client.Key and "
                       "client.CA, or XCE_CERT, XCE_KEY and XCE_CA");
    return 0;
}

const struct conf_table client_conf_table = {
    .entries = entries,
    .n = sizeof entries / sizeof entries[0],
    .settings_size = sizeof(struct client_settings),
    .check = check,
};

/* A list by commas and blanks, as in the file. */
static int check_list(const char *origin, const char *text, struct err *err)
{
    char item[256];

    for (const char *rest = text + strspn(text, ", \t"); *rest; rest += strspn(rest, ", \t")) {
        size_t len = strcspn(rest, ", \t");
        int r;

        if (len >= sizeof item)
            return err_set(err, -EINVAL, "%s: an address has at most %zu bytes", origin,
                           sizeof item - 1);
        memcpy(item, rest, len);
        item[len] = 0;
        r = address_check_server(item, err);
        if (r < 0)
            return err_prefix(err, r, "%s", origin);
        rest += len;
    }
    return 0;
}

/* What the environment says, unless it is empty or we are a set-id program. */
static size_t add(struct conf_override *overrides, size_t n, const char *key, const char *name)
{
    const char *value = secure_getenv(name);

    if (!value || !value[0])
        return n;
    overrides[n] = (struct conf_override){"client", key, value, name};
    return n + 1;
}

int client_settings_load(const char *path, const char *server, struct conf **ret, struct err *err)
{
    struct conf_override overrides[8] = {{"client", "Server", server, "--server"}};
    size_t n = server ? 1 : 0;

    if (!server)
        n = add(overrides, n, "Server", "XCE_SERVER");
    if (n > 0) {
        int r = check_list(overrides[0].origin, overrides[0].value, err);

        if (r < 0)
            return r;
    }
    n = add(overrides, n, "Certificate", "XCE_CERT");
    n = add(overrides, n, "Key", "XCE_KEY");
    n = add(overrides, n, "CA", "XCE_CA");
    n = add(overrides, n, "CRL", "XCE_CRL");
    return conf_load(&client_conf_table, path ? path : XCE_CONF_DEFAULT, path != NULL, overrides, n,
                     ret, err);
}
