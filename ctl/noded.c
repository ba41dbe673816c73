#include "ctl/noded.h"

#include <stdio.h>

#include "ctl/ctl.h"

enum {
    PATIENCE_MS = 1000,
};

int noded_client(struct ctl *ctl, const char *socket, struct xce_client **ret)
{
    char why[XCE_MESSAGE_MAX], server[128];
    struct xce_client_options options = {
        .server = server, .conf = ctl->globals.conf, .patience_ms = PATIENCE_MS};

    if (snprintf(server, sizeof server, "unix:%s", socket ? socket : NODED_SOCKET) >=
        (int)sizeof server)
        return ctl_usage(ctl, "--noded: is too long for a socket");
    if (xce_client_new(&options, ret, why) != XCE_OK)
        return ctl_fail(ctl, XCE_FAILED, "%s", why);
    return EXIT_OK;
}
