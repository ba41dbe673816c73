/* noded: whether it answers who hands a release to it, and whether it can give away what it can not remove. */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/mem.h"
#include "ctl/ctl.h"
#include "ctl/doctor.h"
#include "ctl/noded.h"

#define REMNANT_USER "xce-remnant"
#define REMNANT_CURE "systemd-sysusers; systemctl restart noded"

enum {
    ASK_MS = 3000,
    SYSTEM_MAX = 999, /* as noded takes it: no pool can be there */
};

/* Its line of the file; NULL = none. */
static const char *line_of(const char *passwd)
{
    static const char start[] = REMNANT_USER ":";

    for (const char *line = passwd; line; line = strchr(line, '\n')) {
        line += *line == '\n';
        if (!strncmp(line, start, sizeof start - 1))
            return line;
    }
    return NULL;
}

void doctor_check_remnant(struct doctor *doctor)
{
    auto_free char *passwd = doctor_read(doctor, "/etc/passwd");
    const char *line = passwd ? line_of(passwd) : NULL;
    unsigned uid, gid;

    if (doctor->no_node)
        return;
    if (!line)
        doctor_found(doctor, SEVERITY_WARNING, "remnant-missing", REMNANT_CURE,
                     "/etc/passwd has no user " REMNANT_USER ": a uid of which something is left "
                     "that can not be removed never becomes free");
    else if (sscanf(line, "%*[^:]:%*[^:]:%9u:%9u:", &uid, &gid) != 2 || uid == 0 || gid == 0 ||
             uid > SYSTEM_MAX || gid > SYSTEM_MAX)
        doctor_found(doctor, SEVERITY_WARNING, "remnant-ids",
                     "give it a uid and a gid of 1 to 999; then systemctl restart noded",
                     REMNANT_USER " is no user of the system: noded gives it nothing");
    else
        doctor_found(doctor, SEVERITY_OK, "remnant-ok", NULL,
                     REMNANT_USER " has uid %u: what can not be removed becomes its", uid);
}

/* It is asked to release what nobody has: it says so, or it does not answer. */
void doctor_check_noded(struct doctor *doctor)
{
    struct xce_key nobody = {.kind = XCE_BY_LEASE, .lease = UINT64_MAX};
    struct xce_call call = {.timeout_ms = ASK_MS};
    struct xce_client *noded;
    struct xce_deferred *kept = NULL;
    int code;

    if (doctor->no_node || doctor->root[0] || noded_client(doctor->ctl, NULL, &noded) != EXIT_OK)
        return;
    code = xce_lease_release_deferred(noded, &call, &nobody, &kept);
    xce_free(kept);
    if (code == XCE_UNREACHABLE || code == XCE_TIMEOUT)
        doctor_found(doctor, SEVERITY_WARNING, "noded-silent",
                     "systemctl status noded; systemctl restart noded",
                     "noded does not answer: %s: a job that ends while leased is away can not be "
                     "released",
                     xce_client_message(noded));
    else
        doctor_found(doctor, SEVERITY_OK, "noded-ok", NULL, "noded answers at " NODED_SOCKET);
    xce_client_free(noded);
}
