#include "normalise/inode.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/sysmacros.h>
#include <sys/xattr.h>
#include <unistd.h>

#include "common/mem.h"
#include "common/posix_acl.h"
#include "normalise/rate.h"
#include "normalise/report.h"

#define CAPABILITY   "security.capability"
#define LISTS_PREFIX "system.posix_acl_"
#define LINK_BUF     32
#define LIST_FEW                                                                                   \
    512 /* bytes of the list of attributes, or of an access list, of nearly every file */
#define REFUSED_MAX 64 /* in a row: a server that lets nobody change owners */
#define TRIES_MAX   3  /* at a handle that has gone stale on its server, at a list that changes */

/* ---- looking ---- */

int inode_stat(int dir_fd, const char *name, struct statx *ret)
{
    int flags = AT_SYMLINK_NOFOLLOW | AT_NO_AUTOMOUNT | AT_STATX_DONT_SYNC;

    if (!*name)
        flags |= AT_EMPTY_PATH;
    return statx(dir_fd, name, flags, STATX_BASIC_STATS | STATX_MNT_ID, ret) < 0 ? -errno : 0;
}

int inode_pin(int dir_fd, const char *name, struct statx *ret)
{
    auto_close int fd = openat(dir_fd, name, O_PATH | O_NOFOLLOW | O_CLOEXEC);
    int r = fd < 0 ? -errno : inode_stat(fd, "", ret);

    return r < 0 ? r : mem_take_fd(&fd);
}

/* A way to an inode that is pinned, for calls that take no such descriptor. */
static const char *link_of(int fd, char ret[static LINK_BUF])
{
    (void)snprintf(ret, LINK_BUF, "/proc/self/fd/%d", fd);
    return ret;
}

/* Which attributes an inode has, of those that matter. */
enum { HAS_LISTS = 1, HAS_CAPABILITY = 2 };

typedef ssize_t (*list_fn)(const char *path, char *names, size_t size);

/* HAS_ bits; -errno. More of them than nearly any file has: it may have each. */
static int attributes(list_fn list, const char *path)
{
    char names[LIST_FEW + 1];
    ssize_t n = list(path, names, LIST_FEW);
    int has = 0;

    if (n < 0)
        return errno == ERANGE ? HAS_LISTS | HAS_CAPABILITY : errno == EOPNOTSUPP ? 0 : -errno;
    names[n] = '\0';
    for (ssize_t at = 0; at < n; at += (ssize_t)strlen(names + at) + 1) {
        if (strncmp(names + at, LISTS_PREFIX, strlen(LISTS_PREFIX)) == 0)
            has |= HAS_LISTS;
        else if (strcmp(names + at, CAPABILITY) == 0)
            has |= HAS_CAPABILITY;
    }
    return has;
}

int inode_has_lists(const char *name)
{
    int has = attributes(llistxattr, name);

    return has < 0 ? has : (has & HAS_LISTS) != 0;
}

static bool is_same_device(const struct root *root, const struct statx *st)
{
    return st->stx_dev_major == root->dev_major && st->stx_dev_minor == root->dev_minor;
}

/* Nobody can write there, whatever the mode. */
static bool is_read_only(int fd)
{
    struct statvfs fs;

    return (fstatvfs(fd, &fs) == 0 && (fs.f_flag & ST_RDONLY)) ||
           (faccessat(fd, "", W_OK, AT_EACCESS | AT_EMPTY_PATH) < 0 && errno == EROFS);
}

bool inode_is_snapshot(const struct root *root, int dir_fd, const char *name,
                       const struct statx *st)
{
    static const char *const known[] = {".snapshot", ".snapshots", ".zfs"};
    struct statx now;
    size_t i = 0;

    while (i < ARRAY_LEN(known) && strcmp(name, known[i]) != 0)
        i++;
    /* There anybody makes a subvolume of any name, and sets whether it can be written to. */
    if (i == ARRAY_LEN(known) || strcmp(root->type, "btrfs") == 0 || is_same_device(root, st))
        return false;
    auto_close int fd = inode_pin(dir_fd, name, &now);
    return fd >= 0 && S_ISDIR(now.stx_mode) && now.stx_uid == 0 && !is_same_device(root, &now) &&
           is_read_only(fd);
}

/* ---- telling ---- */

bool inode_is_gone(int error)
{
    return error == -ENOENT || error == -ENOTDIR || error == -ELOOP || error == -ESTALE;
}

static void tell(const struct inode_task *task, struct root *root, int dir_fd, const char *name,
                 struct exception_info info)
{
    info.root = root;
    info.dir_fd = dir_fd;
    info.name = name;
    report_exception(task->report, &info);
}

void inode_failed(const struct inode_task *task, struct root *root, int dir_fd, const char *name,
                  const char *op, int error)
{
    if (inode_is_gone(error)) {
        root->tally.vanished++;
        return;
    }
    root->tally.unknown++;
    tell(task, root, dir_fd, name,
         (struct exception_info){.class = EXCEPTION_UNKNOWN, .op = op, .error = error});
}

/* The inode at work, pinned by fd. */
struct target {
    const struct inode_task *task;
    struct root *root;
    int fd;     /* O_PATH, or open if a folder */
    int dir_fd; /* where it was found, to tell its path */
    const char *name;
    struct statx st;
};

static enum exception class_of(const struct target *t, int error)
{
    switch (error) {
    case -EPERM:
    case -EACCES:
        return t->st.stx_attributes & (STATX_ATTR_IMMUTABLE | STATX_ATTR_APPEND)
                   ? EXCEPTION_IMMUTABLE
                   : EXCEPTION_REFUSED;
    case -EINVAL:
    case -EOPNOTSUPP:
        return EXCEPTION_REFUSED;
    case -EROFS:
        return EXCEPTION_READ_ONLY;
    case -EDQUOT:
        return EXCEPTION_QUOTA;
    default:
        return EXCEPTION_UNKNOWN;
    }
}

static void blocked(const struct target *t, const char *op, int error, enum exception class)
{
    if (class == EXCEPTION_UNKNOWN)
        t->root->tally.unknown++;
    else
        t->root->tally.blocked++;
    tell(t->task, t->root, t->dir_fd, t->name,
         (struct exception_info){.class = class,
                                 .op = op,
                                 .error = error,
                                 .dev_major = t->st.stx_dev_major,
                                 .dev_minor = t->st.stx_dev_minor,
                                 .ino = t->st.stx_ino});
}

static void change_failed(const struct target *t, const char *op, int error)
{
    enum exception class = class_of(t, error);

    if (inode_is_gone(error)) {
        t->root->tally.vanished++;
        return;
    }
    if ((class == EXCEPTION_REFUSED || class == EXCEPTION_READ_ONLY) &&
        ++t->root->refused >= REFUSED_MAX)
        t->root->given_up = true;
    blocked(t, op, error, class);
}

/* ---- access lists ---- */

struct decide_arg {
    const struct ids *ids;
    bool ours; /* a file that is given away: its new group takes the place of the old one */
};

static uint32_t decide(void *arg, bool group, uint32_t id)
{
    const struct decide_arg *a = arg;

    if (!group)
        return id == a->ids->uid ? POSIX_ACL_GONE : id;
    if (!a->ids->groups || id != a->ids->gid)
        return id;
    return a->ours ? a->ids->to_gid : POSIX_ACL_GONE;
}

/* The value of an attribute of what is pinned. 0 there is none; -errno. The kernel makes itself a buffer as large as ours, so ours
 * is small at first. */
static ssize_t list_get(int fd, const char *attribute, uint8_t value[static POSIX_ACL_MAX])
{
    char link[LINK_BUF];
    ssize_t n = getxattr(link_of(fd, link), attribute, value, LIST_FEW);

    if (n < 0 && errno == ERANGE)
        n = getxattr(link, attribute, value, POSIX_ACL_MAX);
    if (n < 0)
        return errno == ENODATA || errno == EOPNOTSUPP ? 0 : -errno;
    return n;
}

/* A list as it is to be. How many entries are other ones; -errno. */
static int list_edit(const struct ids *ids, int fd, const char *attribute, bool ours,
                     uint8_t value[static POSIX_ACL_MAX], size_t *ret_len)
{
    struct decide_arg arg = {ids, ours};
    ssize_t n = list_get(fd, attribute, value);

    *ret_len = n > 0 ? (size_t)n : 0;
    return n <= 0 ? (int)n : (int)posix_acl_change(value, ret_len, decide, &arg);
}

static int list_count(const struct ids *ids, int fd, const char *attribute)
{
    uint8_t value[POSIX_ACL_MAX];
    size_t len;

    return list_edit(ids, fd, attribute, false, value, &len);
}

static bool is_same_time(const struct statx *a, const struct statx *b)
{
    return a->stx_ctime.tv_sec == b->stx_ctime.tv_sec &&
           a->stx_ctime.tv_nsec == b->stx_ctime.tv_nsec;
}

/* How many entries were changed; -errno. No call does this only if the list is what it was, so that what its owner does just then is
 * undone: if it has changed, begin again, but not for ever. */
static int list_change(const struct ids *ids, int fd, const char *attribute, bool ours)
{
    uint8_t value[POSIX_ACL_MAX];
    char link[LINK_BUF];
    struct statx before, now;
    size_t len;
    int r, n, tried = 0;

    do {
        r = inode_stat(fd, "", &before);
        n = r < 0 ? r : list_edit(ids, fd, attribute, ours, value, &len);
        if (n <= 0)
            return n;
        r = inode_stat(fd, "", &now);
        if (r < 0)
            return r;
    } while (!is_same_time(&before, &now) && ++tried < TRIES_MAX);
    return setxattr(link_of(fd, link), attribute, value, len, XATTR_REPLACE) < 0 ? -errno : n;
}

int inode_lists_name(const struct ids *ids, int fd, bool folder)
{
    int n = list_count(ids, fd, POSIX_ACL_ACCESS);
    int more = n < 0 || !folder ? 0 : list_count(ids, fd, POSIX_ACL_DEFAULT);

    return n < 0 ? n : more < 0 ? more : n + more;
}

/* 0; -errno, which has been told. */
static int lists_mend(const struct target *t)
{
    const struct ids *ids = &t->task->options->ids;
    bool ours = inode_matches(ids, &t->st), folder = S_ISDIR(t->st.stx_mode);
    int n, more = 0;

    if (S_ISLNK(t->st.stx_mode))
        return 0;
    n = list_change(ids, t->fd, POSIX_ACL_ACCESS, ours);
    if (n >= 0 && folder)
        more = list_change(ids, t->fd, POSIX_ACL_DEFAULT, ours);
    if (n > 0 || more > 0)
        t->root->tally.lists++;
    if (n < 0 || more < 0) {
        change_failed(t, "access list", n < 0 ? n : more);
        return n < 0 ? n : more;
    }
    return 0;
}

/* ---- the change ---- */

/* What a job may make itself: the mark of a file that is hidden in an overlay. */
static bool is_whiteout(const struct statx *st)
{
    return S_ISCHR(st->stx_mode) && st->stx_rdev_major == 0 && st->stx_rdev_minor == 0;
}

static bool is_device(const struct statx *st)
{
    return (S_ISCHR(st->stx_mode) || S_ISBLK(st->stx_mode)) && !is_whiteout(st);
}

static bool has_set_ids(unsigned mode)
{
    return S_ISREG(mode) && (mode & (S_ISUID | S_ISGID));
}

/* mode: of now. 0; -errno. */
static int set_ids_strip(const struct target *t, unsigned mode)
{
    char link[LINK_BUF];

    return has_set_ids(mode) && chmod(link_of(t->fd, link), mode & 01777) < 0 ? -errno : 0;
}

/* The owner, and what is true after it. 0; -errno. */
static int owner_change(const struct target *t, bool only_group)
{
    const struct ids *ids = &t->task->options->ids;
    bool is_uid = t->st.stx_uid == ids->uid && !only_group;
    bool is_gid = ids->groups && t->st.stx_gid == ids->gid;
    struct statx now;
    int r = is_uid ? 0 : inode_stat(t->fd, "", &now);

    if (r < 0)
        return r;
    if (!is_uid && now.stx_gid != ids->gid)
        return 0; /* its owner was faster; between this and the change he may still be */
    if (fchownat(t->fd, "", is_uid ? ids->to_uid : (uid_t)-1, is_gid ? ids->to_gid : (gid_t)-1,
                 AT_EMPTY_PATH) < 0)
        return -errno;
    r = inode_stat(t->fd, "", &now);
    if (r < 0)
        return r;
    /* A server may say yes and do nothing. Other ids than ours are what the new owner did at once. */
    if ((is_uid && now.stx_uid == ids->uid) || (is_gid && now.stx_gid == ids->gid))
        return -EOPNOTSUPP;
    /* A set-gid bit that is for no program stays with a change of owner: it may have been set behind our look at it. */
    return set_ids_strip(t, now.stx_mode);
}

/* has: of the file. */
static void owner_mend(const struct target *t, int has)
{
    int r = owner_change(t, false);

    if (r < 0) {
        change_failed(t, "owner", r);
        return;
    }
    t->root->refused = 0;
    t->root->tally.changed++;
    if (has_set_ids(t->st.stx_mode))
        t->root->tally.set_ids++;
    if (has & HAS_CAPABILITY) /* the kernel takes it at a change of owner */
        t->root->tally.caps++;
    if (t->st.stx_nlink > 1 && !S_ISDIR(t->st.stx_mode))
        t->root->tally.linked++;
}

/* Wait for it. False: all ends, and no change is begun any more. */
static bool is_turn(const struct target *t)
{
    rate_wait(t->task->rate, t->task->stop);
    return !atomic_load(t->task->stop);
}

/* By name, which costs half as much as by the descriptor: if it is another file by now, the proof tells. */
static int file_attributes(const struct target *t)
{
    char link[LINK_BUF];
    int has = attributes(llistxattr, t->name);

    return inode_is_gone(has) ? attributes(listxattr, link_of(t->fd, link)) : has;
}

static void file_mend(const struct target *t)
{
    int r, has = 0;

    if (t->root->given_up) {
        t->root->tally.blocked++;
        return;
    }
    if (is_device(&t->st)) {
        blocked(t, "owner", 0, EXCEPTION_DEVICE);
        return;
    }
    if (!is_turn(t))
        return;
    if (!S_ISLNK(t->st.stx_mode))
        has = file_attributes(t);
    if (has < 0) {
        change_failed(t, "attributes", has);
        return;
    }
    if ((has & HAS_LISTS) && lists_mend(t) < 0)
        return;
    /* The mode of somebody else's file is his: as its group changes the kernel takes the bits that are for programs. */
    r = t->st.stx_uid == t->task->options->ids.uid ? set_ids_strip(t, t->st.stx_mode) : 0;
    if (r < 0)
        change_failed(t, "mode", r);
    else
        owner_mend(t, has);
}

/* ---- entries ---- */

static int pin(const struct inode_task *task, struct root *root, int dir_fd, const char *name,
               struct target *ret)
{
    int fd = -ESTALE;

    *ret = (struct target){.task = task, .root = root, .dir_fd = dir_fd, .name = name, .fd = -1};
    for (int tried = 0; fd == -ESTALE && tried < TRIES_MAX; tried++)
        fd = inode_pin(dir_fd, name, &ret->st);
    if (fd < 0)
        inode_failed(task, root, dir_fd, name, "open", fd);
    ret->fd = fd;
    return fd;
}

static int folder_met(struct root *root, int dir_fd, const char *name, const struct statx *st)
{
    return inode_is_snapshot(root, dir_fd, name, st) ? 0 : INODE_FOLDER;
}

/* What is pinned, whatever the name was a moment ago. */
static int pinned_look(const struct target *t)
{
    if (t->st.stx_mnt_id != t->root->mount)
        return 0; /* counted as the tree was opened, or mounted since: it is no part of it */
    if (S_ISDIR(t->st.stx_mode))
        return folder_met(t->root, t->dir_fd, t->name, &t->st);
    if (inode_matches(&t->task->options->ids, &t->st))
        file_mend(t);
    else if (inode_lists_matter(t->task->options, &t->st) && !t->root->given_up)
        (void)lists_mend(t);
    return 0;
}

/* Somebody else's: 0; INODE_FOLDER; -EAGAIN it must be pinned. */
static int foreign_look(const struct inode_task *task, struct root *root, int dir_fd,
                        const char *name)
{
    struct statx st;
    int r = inode_stat(dir_fd, name, &st);

    if (r < 0) {
        inode_failed(task, root, dir_fd, name, "look", r);
        return 0;
    }
    if (st.stx_mnt_id != root->mount)
        return 0;
    if (S_ISDIR(st.stx_mode))
        return folder_met(root, dir_fd, name, &st);
    if (inode_matches(&task->options->ids, &st))
        return -EAGAIN;
    if (S_ISLNK(st.stx_mode) || !inode_lists_matter(task->options, &st))
        return 0;
    r = inode_has_lists(name);
    if (r < 0)
        inode_failed(task, root, dir_fd, name, "attributes", r);
    return r > 0 ? -EAGAIN : 0;
}

int inode_entry(const struct inode_task *task, struct root *root, int dir_fd, const char *name,
                bool *seen)
{
    struct target t;
    int r;

    root->tally.seen++;
    if (!*seen) {
        r = foreign_look(task, root, dir_fd, name);
        if (r != -EAGAIN)
            return r;
    }
    if (pin(task, root, dir_fd, name, &t) < 0)
        return 0;
    *seen = inode_matches(&task->options->ids, &t.st);
    r = pinned_look(&t);
    (void)close(t.fd);
    return r;
}

/* ---- folders ---- */

static struct target folder_target(const struct inode_task *task, struct root *root, int fd,
                                   const struct statx *st)
{
    return (struct target){
        .task = task, .root = root, .fd = fd, .dir_fd = fd, .name = "", .st = *st};
}

void inode_folder_begin(const struct inode_task *task, struct root *root, int fd,
                        const struct statx *st)
{
    const struct ids *ids = &task->options->ids;
    struct target t = folder_target(task, root, fd, st);
    int r;

    root->tally.seen++;
    if (root->given_up || !inode_lists_matter(task->options, st))
        return;
    r = inode_has_lists(".");
    if (r < 0)
        change_failed(&t, "attributes", r);
    if (r < 0 || (r > 0 && lists_mend(&t) < 0))
        return;
    if (!ids->groups || st->stx_gid != ids->gid)
        return;
    r = owner_change(&t, true);
    if (st->stx_uid == ids->uid)
        return; /* the rest comes at its end, and that is told */
    if (r < 0)
        change_failed(&t, "group", r);
    else
        root->tally.changed++;
}

void inode_folder_end(const struct inode_task *task, struct root *root, int fd)
{
    struct statx st;
    struct target t;
    int r = inode_stat(fd, "", &st);

    if (r < 0) {
        inode_failed(task, root, fd, "", "look", r);
        return;
    }
    if (st.stx_uid != task->options->ids.uid)
        return;
    t = folder_target(task, root, fd, &st);
    if (root->given_up)
        root->tally.blocked++;
    else if (is_turn(&t))
        owner_mend(&t, 0);
}
