#include "client/settings.h"

#include <errno.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <sys/un.h>

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
};

int client_server_check(const char *text, struct err *err)
{
    const char *path;

    if (strncmp(text, "unix:", 5) != 0)
        return err_set(err, -EINVAL, "%s: a server is written unix:/PATH", text);
    path = text + 5;
    if (path[0] != '/')
        return err_set(err, -EINVAL, "%s: the path of a socket begins with /", text);
    if (strlen(path) >= sizeof((struct sockaddr_un *)NULL)->sun_path)
        return err_set(err, -EINVAL, "%s: the path of a socket has at most %zu bytes", text,
                       sizeof((struct sockaddr_un *)NULL)->sun_path - 1);
    return 0;
}

static int check(const void *data, struct err *err)
{
    const struct client_settings *settings = data;

    for (size_t i = 0; i < settings->servers.n; i++) {
        int r = client_server_check(settings->servers.items[i], err);

        if (r < 0)
            return r;
    }
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
        r = client_server_check(item, err);
        if (r < 0)
            return err_prefix(err, r, "%s", origin);
        rest += len;
    }
    return 0;
}

int client_settings_load(const char *path, const char *server, struct conf **ret, struct err *err)
{
    struct conf_override override = {"client", "Server", server, "--server"};

    if (!server) {
        override.value = secure_getenv("XCE_SERVER");
        override.origin = "XCE_SERVER";
        if (override.value && !override.value[0])
            override.value = NULL;
    }
    if (override.value) {
        int r = check_list(override.origin, override.value, err);

        if (r < 0)
            return r;
    }
    return conf_load(&client_conf_table, path ? path : XCE_CONF_DEFAULT, path != NULL, &override,
                     override.value ? 1 : 0, ret, err);
}
