#include "ctl/launch.h"

#include <errno.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "ctl/quote.h"

#define PAM_FILE "/etc/pam.d/xce"

/* What passes together on systemd 252 without being told a workspace. Lists are given item by item, which adds to them.
 *   Type=simple: with PAMName= any other type of 252 waits for ever.
 *   LimitCORE=1, not 0: a piped core handler is run for 0, too.
 *   IgnoreSIGPIPE=no: `yes | head` in a job ends as everywhere else. */
static const char *const sandbox[] = {
    "Type=simple",
    "UMask=0077",
    "NoNewPrivileges=yes",
    "ProtectSystem=strict",
    "ProtectHome=yes",
    "PrivateTmp=yes",
    "PrivateDevices=yes",
    "PrivateUsers=yes",
    "PrivateIPC=yes",
    "PrivateMounts=yes",
    "TemporaryFileSystem=/dev/shm:mode=1777,nosuid,nodev",
    "InaccessiblePaths=-/run/systemd/journal",
    "InaccessiblePaths=-/run/dbus",
    "InaccessiblePaths=-/run/systemd/userdb",
    "InaccessiblePaths=-/run/systemd/private",
    "InaccessiblePaths=-/run/user",
    "InaccessiblePaths=-/var/spool/cron",
    "InaccessiblePaths=-/var/mail",
    "ProtectKernelTunables=yes",
    "ProtectKernelModules=yes",
    "ProtectKernelLogs=yes",
    "ProtectControlGroups=yes",
    "ProtectClock=yes",
    "ProtectHostname=yes",
    "ProtectProc=invisible",
    "RestrictSUIDSGID=yes",
    "LockPersonality=yes",
    "RestrictRealtime=yes",
    "RestrictNamespaces=yes",
    "CapabilityBoundingSet=",
    "AmbientCapabilities=",
    "RestrictAddressFamilies=AF_UNIX",
    "RestrictAddressFamilies=AF_INET",
    "RestrictAddressFamilies=AF_INET6",
    "RestrictAddressFamilies=AF_NETLINK",
    "SystemCallArchitectures=native",
    "SystemCallFilter=@system-service",
    "SystemCallFilter=~@keyring",
    "SystemCallErrorNumber=EPERM",
    "KeyringMode=private",
    "RemoveIPC=yes",
    "IgnoreSIGPIPE=no",
    "LimitCORE=1",
    "OOMPolicy=continue",
    "KillMode=control-group",
    "SendSIGKILL=yes",
    "TimeoutStopSec=10s",
};

__attribute__((format(printf, 2, 3))) static int add(struct launch *launch, const char *format, ...)
{
    va_list args;
    char *text;
    int n;

    if (launch->n == LAUNCH_ARGS_MAX)
        return -ENOMEM;
    va_start(args, format);
    n = vasprintf(&text, format, args);
    va_end(args);
    if (n < 0)
        return -ENOMEM;
    launch->args[launch->n++] = text;
    return quote_splits_whole(text) ? 0 : -EINVAL;
}

void launch_slice(const struct xce_lease *lease, char *ret, size_t size)
{
    snprintf(ret, size, "xce-%" PRIu32 "-%" PRIu32 ".slice", lease->uid, lease->epoch);
}

/* User= is the name, not the uid: it holds the epoch, so a lease that has gone on is refused (217), and no alias account
 * of that uid can be meant. */
static int add_identity(struct launch *launch, const struct xce_lease *lease)
{
    char slice[48];
    int r;

    launch_slice(lease, slice, sizeof slice);
    r = add(launch, "--property=User=%s", lease->name);
    if (r == 0)
        r = add(launch, "--property=Group=%" PRIu32, lease->gid);
    if (r == 0)
        r = add(launch, "--property=Slice=%s", slice);
    /* A service file that is missing would not be a refusal: PAM falls back to "other", which lets the job in and starts
     * a user manager for it. So it is only named where it is. */
    if (r == 0 && access(PAM_FILE, F_OK) == 0)
        r = add(launch, "--property=PAMName=xce");
    return r;
}

int launch_make(const struct xce_lease *lease, struct launch *ret)
{
    int r;

    *ret = (struct launch){0};
    r = add_identity(ret, lease);
    for (size_t i = 0; r == 0 && i < sizeof sandbox / sizeof sandbox[0]; i++)
        r = add(ret, "--property=%s", sandbox[i]);
    for (size_t i = 0; r == 0 && i < lease->n_write_paths; i++)
        r = add(ret, "--property=ReadWritePaths=%s", lease->write_paths[i].path);
    if (r < 0)
        launch_done(ret);
    return r;
}

void launch_done(struct launch *launch)
{
    for (size_t i = 0; i < launch->n; i++)
        free(launch->args[i]);
    *launch = (struct launch){0};
}
