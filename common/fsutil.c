#include "common/fsutil.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/vfs.h>
#include <unistd.h>

#include <linux/magic.h>

#include "common/digest.h"
#include "common/mem.h"

/* ---- read ---- */

static int check_regular(int fd)
{
    struct stat st;

    if (fstat(fd, &st) < 0)
        return -errno;
    if (S_ISDIR(st.st_mode))
        return -EISDIR;
    return S_ISREG(st.st_mode) ? 0 : -ENXIO;
}

/* Up to len bytes, fewer only at the end of the file. */
static int read_some(int fd, char *bytes, size_t len, size_t *ret_n)
{
    size_t got = 0;
    ssize_t n;

    while (got < len) {
        n = read(fd, bytes + got, len - got);
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0)
            return -errno;
        if (n == 0)
            break;
        got += (size_t)n;
    }
    *ret_n = got;
    return 0;
}

int fs_read_fd(int fd, size_t max, char **ret, size_t *ret_len)
{
    auto_free char *bytes = NULL;
    size_t cap = 0, len = 0, n = 0;
    int r;

    /* One byte above max tells a file that is too large, one more is for the NUL. */
    if (max > PTRDIFF_MAX - 2)
        return -EFBIG;
    do {
        r = mem_grow(&bytes, &cap, len + (len ? 2 : 4096), SIZE_MAX, 1);
        if (r == 0)
            r = read_some(fd, bytes + len, cap - 1 - len, &n);
        if (r < 0)
            return r;
        len += n;
        if (len > max)
            return -EFBIG;
    } while (len == cap - 1);
    bytes[len] = '\0';
    if (ret_len)
        *ret_len = len;
    else if (memchr(bytes, '\0', len))
        return -EBADMSG;
    *ret = mem_take(bytes);
    return 0;
}

int fs_read_file(int dirfd, const char *path, size_t max, char **ret, size_t *ret_len)
{
    auto_close int fd = -1;
    int r;

    /* Not blocking, lest a fifo that somebody left there holds us up. */
    fd = openat(dirfd, path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
    if (fd < 0)
        return -errno;
    r = check_regular(fd);
    if (r < 0)
        return r;
    return fs_read_fd(fd, max, ret, ret_len);
}

/* ---- write ---- */

void fs_fill_standard(void)
{
    static const int flags[] = {O_WRONLY, O_RDONLY, O_RDWR};

    /* From 0 on: an open takes the lowest number that is free. What we start inherits them, as it would ours. */
    for (int fd = 0; fd <= STDERR_FILENO; fd++)
        if (fcntl(fd, F_GETFD) < 0 && errno == EBADF && open("/dev/null", flags[fd]) != fd)
            return;
}

int fs_write_all(int fd, const void *bytes, size_t len)
{
    const char *at = bytes;
    ssize_t n;

    while (len > 0) {
        n = write(fd, at, len);
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0)
            return -errno;
        at += n;
        len -= (size_t)n;
    }
    return 0;
}

/* The folder part of path ("." if none), and where the name begins. */
static int split_path(const char *path, char folder[static PATH_MAX], const char **ret_name)
{
    const char *slash = strrchr(path, '/'), *name = slash ? slash + 1 : path;
    int len = slash ? (int)(slash - path) : 0;

    if (name[0] == '\0')
        return path[0] ? -EISDIR : -ENOENT;
    /* "/name": the root itself is the folder. */
    if (slash && len == 0)
        len = 1;
    if (len >= PATH_MAX)
        return -ENAMETOOLONG;
    snprintf(folder, PATH_MAX, "%.*s", slash ? len : 1, slash ? path : ".");
    *ret_name = name;
    return 0;
}

static int open_parent(int dirfd, const char *path, int *ret_fd, const char **ret_name)
{
    char folder[PATH_MAX];
    int r, fd;

    r = split_path(path, folder, ret_name);
    if (r < 0)
        return r;
    fd = openat(dirfd, folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (fd < 0)
        return -errno;
    *ret_fd = fd;
    return 0;
}

static int sync_fd(int fd)
{
    return fsync(fd) < 0 ? -errno : 0;
}

/* A new file in folder, its name into temporary. */
static int create_temporary(int folder, const char *name, char temporary[static NAME_MAX + 1],
                            int *ret_fd)
{
    uint64_t chance;
    int fd;

    digest_random(&chance, sizeof(chance));
    snprintf(temporary, NAME_MAX + 1, ".%.200s.%016llx.tmp", name, (unsigned long long)chance);
    fd = openat(folder, temporary, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0600);
    if (fd < 0)
        return -errno;
    *ret_fd = fd;
    return 0;
}

static int fill(int fd, const void *bytes, size_t len, mode_t mode)
{
    int r = fs_write_all(fd, bytes, len);

    if (r == 0 && fchmod(fd, mode) < 0)
        r = -errno;
    return r < 0 ? r : sync_fd(fd);
}

int fs_write_file(int dirfd, const char *path, const void *bytes, size_t len, mode_t mode)
{
    auto_close int folder = -1, fd = -1;
    char temporary[NAME_MAX + 1];
    const char *name;
    int r;

    r = open_parent(dirfd, path, &folder, &name);
    if (r < 0)
        return r;
    r = create_temporary(folder, name, temporary, &fd);
    if (r < 0)
        return r;
    r = fill(fd, bytes, len, mode);
    if (r == 0 && renameat(folder, temporary, folder, name) < 0)
        r = -errno;
    if (r < 0) {
        (void)unlinkat(folder, temporary, 0);
        return r;
    }
    return sync_fd(folder);
}

int fs_sync_parent(int dirfd, const char *path)
{
    auto_close int folder = -1;
    const char *name;
    int r;

    r = open_parent(dirfd, path, &folder, &name);
    return r < 0 ? r : sync_fd(folder);
}

/* ---- folders ---- */

/* Go into part of *fd, making it if it is missing. *fd is replaced. */
static int enter(int *fd, const char *part, mode_t mode)
{
    auto_close int next = -1;
    bool made = mkdirat(*fd, part, mode) == 0;

    if (!made && errno != EEXIST)
        return -errno;
    next = openat(*fd, part, O_RDONLY | O_DIRECTORY | O_CLOEXEC | (made ? O_NOFOLLOW : 0));
    if (next < 0)
        return -errno;
    if (made && fchmod(next, mode) < 0)
        return -errno;
    mem_close(*fd);
    *fd = mem_take_fd(&next);
    return 0;
}

int fs_mkdir_p(const char *path, mode_t mode)
{
    char part[NAME_MAX + 1];
    auto_close int fd = -1;
    size_t len;
    int r;

    if (path[0] == '\0')
        return -ENOENT;
    fd = open(path[0] == '/' ? "/" : ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (fd < 0)
        return -errno;
    for (path += strspn(path, "/"); *path; path += len, path += strspn(path, "/")) {
        len = strcspn(path, "/");
        if (len > NAME_MAX)
            return -ENAMETOOLONG;
        memcpy(part, path, len);
        part[len] = '\0';
        r = enter(&fd, part, mode);
        if (r < 0)
            return r;
    }
    return 0;
}

/* ---- lock ---- */

static int lock_fd(int fd)
{
    struct flock lock = {.l_type = F_WRLCK, .l_whence = SEEK_SET};

    /* Of the open file, not of the process: another close of the same file does not drop it. */
    if (fcntl(fd, F_OFD_SETLK, &lock) == 0)
        return 0;
    return errno == EAGAIN || errno == EACCES ? -EBUSY : -errno;
}

/* What the holder wrote into the file, up to the end of the line. */
static int say_busy(int fd, const char *path, struct err *err)
{
    char who[32] = "";
    ssize_t n = pread(fd, who, sizeof(who) - 1, 0);

    who[n > 0 ? n : 0] = '\0';
    who[strspn(who, "0123456789")] = '\0';
    return err_set(err, -EBUSY, "%s is in use by process %s", path, who[0] ? who : "unknown");
}

static int write_pid(int fd)
{
    char text[32];
    int len = snprintf(text, sizeof(text), "%ld\n", (long)getpid());

    if (ftruncate(fd, 0) < 0)
        return -errno;
    return fs_write_all(fd, text, (size_t)len);
}

/* Whether the locked file is still the one at path: else somebody removed it between open and lock. */
static int is_current(int fd, const char *path, bool *ret)
{
    struct stat mine, theirs;

    if (fstat(fd, &mine) < 0)
        return -errno;
    if (lstat(path, &theirs) < 0) {
        *ret = false;
        return errno == ENOENT ? 0 : -errno;
    }
    *ret = mine.st_dev == theirs.st_dev && mine.st_ino == theirs.st_ino;
    return 0;
}

static int try_lock(const char *path, int *ret_fd, struct err *err)
{
    auto_close int fd = -1;
    bool current = false;
    int r;

    fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY, 0644);
    r = fd < 0 ? -errno : check_regular(fd);
    if (r == 0)
        r = lock_fd(fd);
    if (r == -EBUSY)
        return say_busy(fd, path, err);
    if (r == 0)
        r = is_current(fd, path, &current);
    if (r == 0 && !current)
        return -EAGAIN;
    if (r == 0)
        r = write_pid(fd);
    if (r < 0)
        return err_set(err, r, "%s: %s", path, err_text(r));
    *ret_fd = mem_take_fd(&fd);
    return 0;
}

int fs_lock_file(const char *path, int *ret_fd, struct err *err)
{
    unsigned tries;
    int r = -EAGAIN;

    for (tries = 0; r == -EAGAIN && tries < 100; tries++)
        r = try_lock(path, ret_fd, err);
    if (r == -EAGAIN)
        return err_set(err, -EBUSY, "%s is removed again and again", path);
    return r;
}

/* ---- the machine ---- */

int fs_free_bytes(const char *path, uint64_t *ret_free, uint64_t *ret_total)
{
    struct statvfs st;

    if (statvfs(path, &st) < 0)
        return -errno;
    *ret_free = (uint64_t)st.f_bavail * st.f_frsize;
    *ret_total = (uint64_t)st.f_blocks * st.f_frsize;
    return 0;
}

/* 32 hex digits, or the same in groups of 8-4-4-4-12, into lowercase without dashes. */
static int parse_id(const char *text, char ret[static FS_ID_BUF])
{
    static const char digits[] = "0123456789abcdefABCDEF";
    bool dashes = strlen(text) == 36, zero = true;
    char id[FS_ID_BUF];
    size_t at, n = 0;

    if (!dashes && strlen(text) != 32)
        return -EBADMSG;
    for (at = 0; text[at]; at++) {
        if (dashes && (at == 8 || at == 13 || at == 18 || at == 23)) {
            if (text[at] != '-')
                return -EBADMSG;
            continue;
        }
        if (!strchr(digits, text[at]) || n == FS_ID_BUF - 1)
            return -EBADMSG;
        id[n++] = (char)(text[at] >= 'A' && text[at] <= 'F' ? text[at] - 'A' + 'a' : text[at]);
        zero = zero && text[at] == '0';
    }
    if (zero || n != FS_ID_BUF - 1)
        return -EBADMSG;
    id[n] = '\0';
    memcpy(ret, id, FS_ID_BUF);
    return 0;
}

int fs_read_id(const char *path, char ret[static FS_ID_BUF])
{
    auto_free char *text = NULL;
    size_t len;
    int r;

    r = fs_read_file(AT_FDCWD, path, 64, &text, NULL);
    if (r < 0)
        return r == -EFBIG ? -EBADMSG : r;
    len = strlen(text);
    if (len > 0 && text[len - 1] == '\n')
        text[len - 1] = '\0';
    if (text[0] == '\0' || strcmp(text, "uninitialized") == 0)
        return -ENOMEDIUM;
    return parse_id(text, ret);
}

int fs_machine_id(char ret[static FS_ID_BUF])
{
    return fs_read_id("/etc/machine-id", ret);
}

int fs_boot_id(char ret[static FS_ID_BUF])
{
    static const char path[] = "/proc/sys/kernel/random/boot_id";
    struct statfs fs;

    /* In a sandbox with a /proc of its own this would be the kernel's, the same for all containers of a machine, however
     * often they are started. PID 1 sees what was mounted there for its container. */
    if (statfs(path, &fs) == 0 && fs.f_type == PROC_SUPER_MAGIC &&
        fs_read_id("/proc/1/root/proc/sys/kernel/random/boot_id", ret) == 0)
        return 0;
    return fs_read_id(path, ret);
}
