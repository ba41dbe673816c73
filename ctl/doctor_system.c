/* The machine under it: clock, files, kernel. */
#include <errno.h>
#include <limits.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/statfs.h>
#include <sys/timex.h>
#include <time.h>
#include <unistd.h>

#include "common/clock.h"
#include "common/mem.h"
#include "ctl/doctor.h"

/* 2025-01-01: earlier than this no machine runs this program. */
#define YEAR_2025_MS   INT64_C(1735689600000)
#define CGROUP2_MAGIC_ 0x63677270

/* ---- clock ---- */

void doctor_check_clock(struct doctor *doctor)
{
    struct timex timex = {.modes = 0};
    size_t before = doctor->n_findings;
    struct timespec boot, mono;

    /* Cluster time runs by the boot clock; the monotonic one stands still while the machine sleeps. */
    if (clock_gettime(CLOCK_BOOTTIME, &boot) < 0 || clock_gettime(CLOCK_MONOTONIC, &mono) < 0)
        doctor_found(doctor, SEVERITY_ERROR, "clock-boot", "use a kernel that has CLOCK_BOOTTIME",
                     "the boot clock can not be read: %s", strerror(errno));
    else if (boot.tv_sec + 1 < mono.tv_sec)
        doctor_found(doctor, SEVERITY_ERROR, "clock-boot", "reboot",
                     "the boot clock (%lld s) is behind the monotonic one (%lld s)",
                     (long long)boot.tv_sec, (long long)mono.tv_sec);
    if (clock_wall_ms() < YEAR_2025_MS)
        doctor_found(doctor, SEVERITY_ERROR, "clock-wall",
                     "set the clock: timedatectl set-ntp true",
                     "the wall clock is years behind: times in lists and in the history are wrong");
    if (adjtimex(&timex) == TIME_ERROR || (timex.status & STA_UNSYNC))
        doctor_found(
            doctor, SEVERITY_WARNING, "clock-unsynchronised",
            "run chrony or systemd-timesyncd (timedatectl set-ntp true)",
            "the wall clock is not synchronised: times in the history may be off (no lease "
            "expires by it)");
    if (doctor->n_findings == before)
        doctor_found(doctor, SEVERITY_OK, "clock-ok", NULL, "the clocks are sane and synchronised");
}

/* ---- files ---- */

struct wanted {
    const char *path;
    mode_t type;
    mode_t forbidden; /* bits that must not be set */
    bool root;        /* owned by root; else by leased or root */
    bool must_exist;
};

static const struct wanted files[] = {
    {"/run/xce", S_IFDIR, 022, true, false},
    {"/run/xce/uidmap", S_IFREG, 022, true, false},
    {"/etc/xce", S_IFDIR, 022, true, false},
    {"/etc/xce/client.conf", S_IFREG, 022, true, false},
    {"/etc/xce/leased.conf", S_IFREG, 022, true, false},
    {"/etc/xce/noded.conf", S_IFREG, 022, true, false},
    {"/var/lib/xce", S_IFDIR, 022, true, false},
    {"/var/lib/xce/leased", S_IFDIR, 077, false, false},
    {"/var/lib/xce/noded", S_IFDIR, 077, true, false},
    {"/run/xce/leased.sock", S_IFSOCK, 0, false, false},
};

static void judge_file(struct doctor *doctor, const struct wanted *wanted)
{
    char path[PATH_MAX];
    struct stat st;

    if (stat(doctor_path(doctor, wanted->path, path, sizeof path), &st) < 0) {
        if (errno != ENOENT && errno != EACCES)
            doctor_found(doctor, SEVERITY_WARNING, "permissions-unseen", "look at it as root",
                         "%s: %s", wanted->path, strerror(errno));
        return;
    }
    if ((st.st_mode & S_IFMT) != wanted->type)
        doctor_found(doctor, SEVERITY_ERROR, "permissions-type", "remove it and restart the daemon",
                     "%s is not what it should be (mode %o)", wanted->path, st.st_mode);
    else if (wanted->root && st.st_uid != 0)
        doctor_found(doctor, SEVERITY_ERROR, "permissions-owner",
                     "chown root, and find out who it was", "%s belongs to uid %u, not to root",
                     wanted->path, st.st_uid);
    else if (st.st_mode & wanted->forbidden)
        doctor_found(doctor, SEVERITY_ERROR, "permissions-mode", "chmod go-w (state folders: 0700)",
                     "%s has mode %04o: others may %s", wanted->path, st.st_mode & 07777,
                     wanted->forbidden == 077 ? "look into it" : "change it");
    else if (wanted->type == S_IFSOCK && (st.st_mode & 0666) != 0666)
        doctor_found(doctor, SEVERITY_WARNING, "permissions-socket", "systemctl restart leased",
                     "%s has mode %04o: users can not lease", wanted->path, st.st_mode & 07777);
}

void doctor_check_permissions(struct doctor *doctor)
{
    size_t before = doctor->n_findings;

    for (size_t i = 0; i < ARRAY_LEN(files); i++)
        judge_file(doctor, &files[i]);
    if (doctor->n_findings == before)
        doctor_found(doctor, SEVERITY_OK, "permissions-ok", NULL,
                     "files, folders and sockets are as they should be");
}

/* ---- kernel ---- */

void doctor_check_kernel(struct doctor *doctor)
{
    size_t before = doctor->n_findings;
    char path[PATH_MAX];
    struct statfs fs;

    if (doctor->root[0])
        return;
    if (statfs("/sys/fs/cgroup", &fs) < 0 || (unsigned long)fs.f_type != CGROUP2_MAGIC_)
        doctor_found(
            doctor, SEVERITY_ERROR, "kernel-cgroup", "boot with systemd.unified_cgroup_hierarchy=1",
            "/sys/fs/cgroup is not cgroup v2: what a lease leaves running can not be ended "
            "as a whole");
    else if (access(doctor_path(doctor, "/sys/fs/cgroup/init.scope/cgroup.kill", path, sizeof path),
                    F_OK) < 0 &&
             access("/run/systemd/system", F_OK) == 0)
        doctor_found(doctor, SEVERITY_ERROR, "kernel-kill", "use kernel 5.14 or newer",
                     "the kernel has no cgroup.kill");
    if (access("/run/systemd/system", F_OK) < 0)
        doctor_found(doctor, SEVERITY_WARNING, "kernel-systemd", NULL,
                     "this machine was not booted with systemd: leasectl exec does not work here");
    if (doctor->n_findings == before)
        doctor_found(doctor, SEVERITY_OK, "kernel-ok", NULL, "systemd and cgroup v2 are there");
}
