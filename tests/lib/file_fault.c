/* Preloaded (LD_PRELOAD): to change the owner of a file that is called as an error is ("EIO", "EIO-2") fails with that error, the
 * first so many times as the name has after a "+" ("ESTALE+1"), or else always. What "LIE" is called is said to be changed and is
 * not. "SETGID" gets that bit just before its owner is changed, "CHGRP" another group just after. "PRIVATE" is made so as its
 * attributes are looked at first, when "REGROUPED" gets another group; "CLOSED" is made private as its access list has been read.
 * A folder that is called ".snapshot" is on a device of its own, and read-only. A folder that is called "BUSY", and that all may
 * write, changes whenever somebody goes into it, or the first so many times, so that its time tells. The list of a file system's
 * inodes does not come as long as there is a "HELD" in the folder. Stands for servers and disks, and people, that do so. */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/xattr.h>
#include <time.h>
#include <unistd.h>

#define EXPORTED __attribute__((visibility("default")))

static const struct {
    const char *name;
    int error;
} errors[] = {
    {"EPERM", EPERM}, {"EINVAL", EINVAL}, {"EROFS", EROFS}, {"EDQUOT", EDQUOT},
    {"EIO", EIO},     {"ESTALE", ESTALE}, {"LIE", 0},
};

#define LINK_BUF 64

/* A way to what is open there. */
static const char *link_of(int fd, char ret[static LINK_BUF])
{
    (void)snprintf(ret, LINK_BUF, "/proc/self/fd/%d", fd);
    return ret;
}

/* Of the file that is open there. "" = not known. */
static const char *name_of(int fd, char path[static PATH_MAX])
{
    char link[LINK_BUF];
    ssize_t n = readlink(link_of(fd, link), path, PATH_MAX - 1);

    path[n < 0 ? 0 : n] = '\0';
    return strrchr(path, '/') ? strrchr(path, '/') + 1 : "";
}

EXPORTED int fchownat(int dir_fd, const char *name, uid_t uid, gid_t gid, int flags)
{
    static _Atomic long n_failed;
    char path[PATH_MAX], link[LINK_BUF];
    const char *file = name_of(dir_fd, path), *times = strchr(file, '+');

    for (size_t i = 0; i < sizeof errors / sizeof *errors; i++) {
        size_t len = strlen(errors[i].name);
        if (strncmp(file, errors[i].name, len) != 0 || (file[len] && !strchr("-+", file[len])) ||
            (times && n_failed >= strtol(times, NULL, 10)))
            continue;
        n_failed++;
        errno = errors[i].error;
        return errors[i].error ? -1 : 0;
    }
    if (strcmp(file, "SETGID") == 0 && chmod(link_of(dir_fd, link), 02644) < 0)
        abort();
    if (syscall(SYS_fchownat, dir_fd, name, uid, gid, flags) < 0)
        return -1;
    if (strcmp(file, "CHGRP") == 0 && chown(link_of(dir_fd, link), (uid_t)-1, gid + 10) < 0)
        abort();
    return 0;
}

EXPORTED ssize_t llistxattr(const char *path, char *list, size_t size)
{
    static atomic_flag done = ATOMIC_FLAG_INIT;
    bool private = strcmp(path, "PRIVATE") == 0, regrouped = strcmp(path, "REGROUPED") == 0;
    struct stat st;

    if ((private || regrouped) && !atomic_flag_test_and_set(&done) &&
        (private ? chmod(path, 0600)
                 : stat(path, &st) < 0 || chown(path, (uid_t)-1, st.st_gid + 20)))
        abort();
    return (ssize_t)syscall(SYS_llistxattr, path, list, size);
}

EXPORTED ssize_t getxattr(const char *path, const char *name, void *value, size_t size)
{
    static atomic_flag done = ATOMIC_FLAG_INIT;
    const struct timespec tick = {.tv_nsec = 20000000};
    ssize_t n = (ssize_t)syscall(SYS_getxattr, path, name, value, size);
    char file[PATH_MAX];
    ssize_t len = n < 0 ? -1 : readlink(path, file, PATH_MAX - 1);

    file[len < 0 ? 0 : len] = '\0';
    if (strrchr(file, '/') && strcmp(strrchr(file, '/'), "/CLOSED") == 0 &&
        !atomic_flag_test_and_set(&done)) {
        (void)nanosleep(&tick, NULL);
        if (chmod(path, 0600) < 0)
            abort();
    }
    return n;
}

EXPORTED int statx(int dir_fd, const char *name, int flags, unsigned mask, struct statx *ret)
{
    char path[PATH_MAX];
    int r = (int)syscall(SYS_statx, dir_fd, name, flags, mask, ret);

    if (r == 0 && strcmp(*name ? name : name_of(dir_fd, path), ".snapshot") == 0)
        ret->stx_dev_minor ^= 1;
    return r;
}

EXPORTED int faccessat(int dir_fd, const char *name, int mode, int flags)
{
    char path[PATH_MAX];

    if (strcmp(name_of(dir_fd, path), ".snapshot") == 0) {
        errno = EROFS;
        return -1;
    }
    return (int)syscall(SYS_faccessat2, dir_fd, name, mode, flags);
}

EXPORTED int ioctl(int fd, unsigned long request, ...)
{
    const struct timespec tick = {.tv_nsec = 10000000};
    va_list args;
    void *arg;

    va_start(args, request);
    arg = va_arg(args, void *);
    va_end(args);
    while (_IOC_TYPE(request) == 'X' && syscall(SYS_faccessat2, fd, "HELD", F_OK, 0) == 0)
        (void)nanosleep(&tick, NULL);
    return (int)syscall(SYS_ioctl, fd, request, arg);
}

EXPORTED int fchdir(int fd)
{
    const struct timespec tick = {.tv_nsec = 20000000};
    static _Atomic long n_changed;
    char path[PATH_MAX];
    const char *folder = name_of(fd, path), *times = strchr(folder, '+');

    if (strncmp(folder, "BUSY", 4) == 0 && (!times || n_changed++ < strtol(times, NULL, 10))) {
        /* Another time than at the last change. */
        (void)nanosleep(&tick, NULL);
        if (mkdirat(fd, "new", 0700) < 0 || unlinkat(fd, "new", AT_REMOVEDIR) < 0)
            abort();
    }
    return (int)syscall(SYS_fchdir, fd);
}
