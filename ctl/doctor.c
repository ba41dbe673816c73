#include "ctl/doctor.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "common/fsutil.h"
#include "common/mem.h"

enum {
    FILE_MOST = 64 << 20, /* an /etc/passwd of a large site */
    FINDINGS_MOST = 4096,
};

const struct doctor_check doctor_checks[] = {
    {"units", doctor_check_units},     {"leased", doctor_check_leased},
    {"pools", doctor_check_pools},     {"map", doctor_check_map},
    {"node", doctor_check_node},       {"nsswitch", doctor_check_nsswitch},
    {"nss", doctor_check_nss},         {"nscd", doctor_check_nscd},
    {"userdb", doctor_check_userdb},   {"pam", doctor_check_pam},
    {"sshd", doctor_check_sshd},       {"accounts", doctor_check_accounts},
    {"overlap", doctor_check_overlap}, {"ranges", doctor_check_ranges},
    {"clock", doctor_check_clock},     {"permissions", doctor_check_permissions},
    {"kernel", doctor_check_kernel},   {"coredump", doctor_check_coredump},
    {"noded", doctor_check_noded},     {"remnant", doctor_check_remnant},
};
const size_t doctor_n_checks = sizeof doctor_checks / sizeof doctor_checks[0];

size_t doctor_check_len(const char *id)
{
    return strcspn(id, "-");
}

void doctor_found(struct doctor *doctor, enum severity severity, const char *id, const char *cure,
                  const char *format, ...)
{
    struct finding *grown, finding = {.severity = severity, .id = id};
    va_list args;

    if (doctor->n_findings >= FINDINGS_MOST)
        return;
    va_start(args, format);
    if (vasprintf(&finding.message, format, args) < 0)
        finding.message = NULL;
    va_end(args);
    finding.cure = cure ? strdup(cure) : NULL;
    grown = reallocarray(doctor->findings, doctor->n_findings + 1, sizeof *grown);
    if (!finding.message || (cure && !finding.cure) || !grown) {
        doctor->out_of_memory = true;
        free(finding.message);
        free(finding.cure);
        if (grown)
            doctor->findings = grown;
        return;
    }
    grown[doctor->n_findings++] = finding;
    doctor->findings = grown;
}

const char *doctor_path(const struct doctor *doctor, const char *path, char *ret, size_t size)
{
    snprintf(ret, size, "%s%s", doctor->root, path);
    return ret;
}

char *doctor_read(const struct doctor *doctor, const char *path)
{
    char full[PATH_MAX], *text;
    int r = fs_read_file(AT_FDCWD, doctor_path(doctor, path, full, sizeof full), FILE_MOST, &text,
                         NULL);

    if (r < 0) {
        errno = -r;
        return NULL;
    }
    return text;
}

bool doctor_knows_no_leases(const struct doctor *doctor)
{
    return doctor->no_node && !doctor->have_map;
}

int doctor_connect(const struct doctor *doctor, const char *path)
{
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    char full[PATH_MAX];
    auto_close int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);

    if (fd < 0)
        return -errno;
    if (strlen(doctor_path(doctor, path, full, sizeof full)) >= sizeof address.sun_path)
        return -ENAMETOOLONG;
    memcpy(address.sun_path, full, strlen(full) + 1);
    if (connect(fd, (struct sockaddr *)&address, sizeof address) < 0)
        return -errno;
    return mem_take_fd(&fd);
}

bool doctor_listens(const struct doctor *doctor, const char *path)
{
    auto_close int fd = doctor_connect(doctor, path);

    /* More wait for it than it takes in. */
    return fd >= 0 || fd == -EAGAIN;
}

const struct doctor_range *doctor_overlap(const struct doctor *doctor, uint32_t first,
                                          uint32_t last)
{
    for (size_t i = 0; i < doctor->n_ranges; i++)
        if (first <= doctor->ranges[i].last && last >= doctor->ranges[i].first)
            return &doctor->ranges[i];
    return NULL;
}

void doctor_add_range(struct doctor *doctor, uint32_t first, uint32_t last)
{
    for (size_t i = 0; i < doctor->n_ranges; i++)
        if (doctor->ranges[i].first == first && doctor->ranges[i].last == last)
            return;
    if (doctor->n_ranges < XCE_RANGES_MAX)
        doctor->ranges[doctor->n_ranges++] = (struct doctor_range){first, last};
}

void doctor_done(struct doctor *doctor)
{
    for (size_t i = 0; i < doctor->n_findings; i++) {
        free(doctor->findings[i].message);
        free(doctor->findings[i].cure);
    }
    free(doctor->findings);
    if (doctor->have_map)
        map_close(&doctor->map);
}
