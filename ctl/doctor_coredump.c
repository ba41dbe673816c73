/* Where a core dump of what runs under a lease goes, and who removes it. */
#include <string.h>

#include "common/mem.h"
#include "ctl/doctor.h"

/* Folders that noded looks through in any case, see LocalRoots= in noded.conf(5). */
static const char *const swept[] = {"/tmp/",      "/var/tmp/",  "/dev/shm/",
                                    "/run/lock/", "/run/user/", "/var/lib/systemd/coredump/"};

static void judge_handler(struct doctor *doctor, const char *handler)
{
    const char *slash;
    size_t len;

    handler += strspn(handler, " \t");
    len = strcspn(handler, " \t");
    slash = memrchr(handler, '/', len);
    slash = slash ? slash + 1 : handler;
    if (!strncmp(slash, "systemd-coredump", strlen("systemd-coredump")))
        doctor_found(doctor, SEVERITY_OK, "coredump-ok", NULL,
                     "core dumps go to systemd-coredump, which lets their uid read them; noded "
                     "removes them with the lease");
    else
        doctor_found(doctor, SEVERITY_WARNING, "coredump-handler",
                     "name the folder where it keeps them in LocalRoots= of noded.conf; or set "
                     "kernel.core_pattern=core (sysctl.d)",
                     "core dumps go to %.*s, also of what has LimitCORE=0: what that keeps of a "
                     "lease is not removed with it",
                     (int)len, handler);
}

static void judge_path(struct doctor *doctor, const char *pattern)
{
    for (size_t i = 0; i < ARRAY_LEN(swept); i++) {
        if (strncmp(pattern, swept[i], strlen(swept[i])) != 0)
            continue;
        doctor_found(doctor, SEVERITY_OK, "coredump-ok", NULL,
                     "core dumps go to %s; noded removes them with the lease", pattern);
        return;
    }
    doctor_found(doctor, SEVERITY_NOTE, "coredump-folder",
                 "see to it that LocalRoots= of noded.conf names that folder",
                 "core dumps go to %s, which noded does not look through by itself", pattern);
}

void doctor_check_coredump(struct doctor *doctor)
{
    auto_free char *pattern = doctor_read(doctor, "/proc/sys/kernel/core_pattern");

    if (!pattern)
        return;
    pattern[strcspn(pattern, "\n")] = 0;
    if (pattern[0] == '|')
        judge_handler(doctor, pattern + 1);
    else if (pattern[0] == '/')
        judge_path(doctor, pattern);
    else if (pattern[0])
        doctor_found(doctor, SEVERITY_OK, "coredump-ok", NULL,
                     "core dumps are files \"%s\" in the folder where the program runs", pattern);
    else
        doctor_found(doctor, SEVERITY_OK, "coredump-ok", NULL, "there are no core dumps");
}
