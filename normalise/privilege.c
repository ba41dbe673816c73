#include "normalise/privilege.h"

#include <errno.h>
#include <linux/capability.h>
#include <stdint.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "common/mem.h"

static const struct {
    unsigned cap;
    const char *name;
} needed[] = {
    {CAP_CHOWN, "CAP_CHOWN"},                     /* to give a file away */
    {CAP_DAC_READ_SEARCH, "CAP_DAC_READ_SEARCH"}, /* into every folder, also by its handle */
    {CAP_FOWNER, "CAP_FOWNER"},                   /* mode and access list of others' files */
    {CAP_FSETID,
     "CAP_FSETID"}, /* so that a change of an access list leaves a folder's set-gid bit */
    {CAP_SYS_ADMIN,
     "CAP_SYS_ADMIN"}, /* a file system's list of inodes: the last, which not all need */
};

struct caps {
    struct __user_cap_header_struct head;
    struct __user_cap_data_struct data[2];
};

static size_t n_needed(bool scan)
{
    return ARRAY_LEN(needed) - !scan;
}

static uint32_t bits_needed(bool scan)
{
    uint32_t bits = 0;

    for (size_t i = 0; i < n_needed(scan); i++)
        bits |= UINT32_C(1) << needed[i].cap; /* all are among the first 32 */
    return bits;
}

int privilege_check(bool scan, struct err *err)
{
    struct caps caps = {.head = {.version = _LINUX_CAPABILITY_VERSION_3}};

    if (syscall(SYS_capget, &caps.head, caps.data) < 0)
        return err_set(err, -errno, "capabilities can not be read: %s", err_text(errno));
    for (size_t i = 0; i < n_needed(scan); i++)
        if (!(caps.data[0].effective & UINT32_C(1) << needed[i].cap))
            return err_set(err, -EPERM, "%s is missing: run it as root", needed[i].name);
    return 0;
}

int privilege_drop(bool scan)
{
    struct caps caps = {.head = {.version = _LINUX_CAPABILITY_VERSION_3}};
    uint32_t bits = bits_needed(scan);

    /* Fails behind the last one that there is, and without CAP_SETPCAP, when nothing can be gained anyhow: no program is begun
     * from here, and none could gain by it. */
    for (unsigned cap = 0; cap < 64; cap++)
        if (cap >= 32 || !(bits & UINT32_C(1) << cap))
            (void)prctl(PR_CAPBSET_DROP, cap, 0, 0, 0);
    if (prctl(PR_CAP_AMBIENT, PR_CAP_AMBIENT_CLEAR_ALL, 0, 0, 0) < 0 ||
        prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0)
        return -errno;
    caps.data[0].permitted = caps.data[0].effective = bits;
    return syscall(SYS_capset, &caps.head, caps.data) < 0 ? -errno : 0;
}
