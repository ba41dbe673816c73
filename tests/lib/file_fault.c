/* Preloaded (LD_PRELOAD): to change the owner of a file that is called as an error is ("EIO", "EIO-2") fails with that error, the
 * first so many times as the name has after a "+" ("ESTALE+1"), or else always. What "LIE" is called is said to be changed and is
 * not. A folder that is called ".snapshot" is on a device of its own, and read-only. A folder that is called "BUSY", and that all
 * may write, changes whenever somebody goes into it, so that its time tells. Stands for servers and disks, and people, that do
 * so. */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
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

/* Of the file that is open there. "" = not known. */
static const char *name_of(int fd, char path[static PATH_MAX])
{
    char link[64];
    ssize_t n;

    (void)snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
    n = readlink(link, path, PATH_MAX - 1);
    path[n < 0 ? 0 : n] = '\0';
    return strrchr(path, '/') ? strrchr(path, '/') + 1 : "";
}

EXPORTED int fchownat(int dir_fd, const char *name, uid_t uid, gid_t gid, int flags)
{
    static _Atomic long n_failed;
    char path[PATH_MAX];
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
    return (int)syscall(SYS_fchownat, dir_fd, name, uid, gid, flags);
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

EXPORTED int fchdir(int fd)
{
    const struct timespec tick = {.tv_nsec = 20000000};
    char path[PATH_MAX];

    if (strcmp(name_of(fd, path), "BUSY") == 0) {
        /* Another time than at the last change. */
        (void)nanosleep(&tick, NULL);
        if (mkdirat(fd, "new", 0700) < 0 || unlinkat(fd, "new", AT_REMOVEDIR) < 0)
            abort();
    }
    return (int)syscall(SYS_fchdir, fd);
}
