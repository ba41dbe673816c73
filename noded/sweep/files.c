/* Files by owner, in the folders where anybody may write: a walk below each root that crosses no mount and follows no
 * link, in bounded memory however large, deep or hostile the tree.
 *
 * Below DEPTH_MAX a folder of the uid itself is moved up to the root, to be met again there; a folder of somebody else is
 * put aside as a root of its own. A folder of the uid that holds files of others is given to root. */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/openat2.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "common/mem.h"
#include "noded/sweep/acl.h"
#include "noded/sweep/inode.h"
#include "noded/sweep/kinds.h"

#define DEPTH_MAX   256 /* open folders at once */
#define ENTRIES_LEN 4096
#define ASIDE_MAX   256
#define LINKED_MAX  128

struct file_walk {
    struct sweep *sweep;
    int root_fd;
    uint64_t mount;       /* of the root */
    bool acls;            /* look at access lists, too: a system call more for each file */
    int aside[ASIDE_MAX]; /* folders to be walked as roots of their own */
    size_t n_aside;
    int linked[LINKED_MAX]; /* removed here, but they had other links */
    size_t n_linked;
    bool moved; /* something into the root, in this walk of it */
};

static void walk_folder(struct file_walk *w, int fd, int depth);

static int folder_open(int dir_fd, const char *name)
{
    struct open_how how = {
        .flags = O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC | O_NONBLOCK | O_NOATIME,
        .resolve = RESOLVE_NO_XDEV | RESOLVE_NO_SYMLINKS | RESOLVE_NO_MAGICLINKS,
    };
    long fd = syscall(SYS_openat2, dir_fd, name, &how, sizeof(how));

    return fd < 0 ? -errno : (int)fd;
}

/* Out of the depth with it, under a name that nothing has. */
static bool folder_move_up(struct file_walk *w, int dir_fd, const char *name)
{
    static atomic_uint serial;
    char up[64];

    for (int tried = 0; tried < 16; tried++) {
        (void)snprintf(up, sizeof(up), ".xce-sweep.%u.%u", (unsigned)getpid(),
                       atomic_fetch_add(&serial, 1));
        if (renameat2(dir_fd, name, w->root_fd, up, RENAME_NOREPLACE) == 0)
            return true;
        if (errno != EEXIST)
            return false;
    }
    return false;
}

/* Up with it, or aside. Takes fd. */
static void folder_too_deep(struct file_walk *w, int dir_fd, const char *name, int fd, bool wanted)
{
    if (wanted && w->sweep->remove && folder_move_up(w, dir_fd, name)) {
        w->moved = true;
        sweep_removed(w->sweep);
        (void)close(fd);
    } else if (w->n_aside < ASIDE_MAX) {
        w->aside[w->n_aside++] = fd;
    } else {
        sweep_failed(w->sweep, "too many deep folders", ELOOP);
        (void)close(fd);
    }
}

/* What the folder held has been dealt with; now itself, if wanted. */
static void folder_end(struct file_walk *w, int dir_fd, const char *name, int fd,
                       const struct statx *st)
{
    struct sweep *s = w->sweep;
    uint32_t uid = inode_wanted(s, st->stx_uid, st->stx_gid);
    bool group_only = !sweep_wants(s, st->stx_uid);
    int r = -EBUSY;

    if (!uid)
        return;
    if (!s->remove) {
        sweep_found(s, uid, REASON_FILE, "%s", name);
        return;
    }
    if (!group_only)
        r = inode_unlink(s, dir_fd, name, true);
    if (r < 0)
        r = inode_disown(fd, group_only);
    if (r < 0) {
        inode_kept(s, uid, REASON_FILE, name, r);
        return;
    }
    sweep_found(s, uid, REASON_FILE, "%s", name);
    sweep_removed(s);
}

static void folder_sweep(struct file_walk *w, int dir_fd, const char *name, int depth)
{
    struct statx st;
    int fd = folder_open(dir_fd, name), r;

    if (fd < 0) {
        if (fd != -ENOENT && fd != -EXDEV && fd != -ENOTDIR && fd != -ELOOP)
            sweep_failed(w->sweep, name, fd);
        return;
    }
    r = inode_stat(fd, "", &st);
    if (r < 0) {
        sweep_failed(w->sweep, name, r);
    } else if (depth + 1 >= DEPTH_MAX) {
        folder_too_deep(w, dir_fd, name, fd, sweep_wants(w->sweep, st.stx_uid));
        return;
    } else {
        walk_folder(w, fd, depth + 1);
        folder_end(w, dir_fd, name, fd, &st);
    }
    (void)close(fd);
}

static void file_sweep(struct file_walk *w, int dir_fd, const char *name, const struct statx *st)
{
    int fd = -1;

    inode_sweep(w->sweep, dir_fd, name, st, REASON_FILE, w->n_linked < LINKED_MAX ? &fd : NULL);
    if (fd >= 0)
        w->linked[w->n_linked++] = fd;
}

static void entry_acl(struct file_walk *w, int dir_fd, const char *name, bool folder)
{
    char path[64 + NAME_MAX];

    (void)snprintf(path, sizeof(path), "/proc/self/fd/%d/%s", dir_fd, name);
    acl_sweep(w->sweep, path, name, folder);
}

static void entry_sweep(struct file_walk *w, int dir_fd, const char *name, int depth)
{
    struct statx st;
    int r = inode_stat(dir_fd, name, &st);
    uint32_t uid;

    if (r < 0) {
        if (r != -ENOENT)
            sweep_failed(w->sweep, name, r);
        return;
    }
    uid = inode_wanted(w->sweep, st.stx_uid, st.stx_gid);
    if (st.stx_mnt_id != w->mount) {
        if (uid)
            sweep_found(w->sweep, uid, REASON_MOUNT, "%s", name);
        return;
    }
    if (S_ISDIR(st.stx_mode))
        folder_sweep(w, dir_fd, name, depth);
    else if (uid)
        file_sweep(w, dir_fd, name, &st);
    /* What is gone by now has no list either. */
    if (w->acls && !S_ISLNK(st.stx_mode))
        entry_acl(w, dir_fd, name, S_ISDIR(st.stx_mode));
}

static void walk_folder(struct file_walk *w, int fd, int depth)
{
    char *entries = malloc(ENTRIES_LEN);
    ssize_t n = 0;

    if (!entries) {
        sweep_failed(w->sweep, "files", ENOMEM);
        return;
    }
    while ((n = getdents64(fd, entries, ENTRIES_LEN)) > 0) {
        for (ssize_t at = 0; at < n;) {
            struct dirent64 *entry = (struct dirent64 *)(void *)(entries + at);
            at += entry->d_reclen;
            if (strcmp(entry->d_name, ".") != 0 && strcmp(entry->d_name, "..") != 0)
                entry_sweep(w, fd, entry->d_name, depth);
        }
    }
    if (n < 0 && errno != ENOENT) /* ENOENT: removed under us */
        sweep_failed(w->sweep, "files", errno);
    free(entries);
}

/* Inodes that still have a link somewhere where we do not look are taken away from the uid. */
static void linked_end(struct file_walk *w)
{
    struct statx st;

    for (size_t i = 0; i < w->n_linked; i++) {
        if (inode_stat(w->linked[i], "", &st) == 0 && st.stx_nlink > 0)
            (void)inode_disown(w->linked[i], false);
        (void)close(w->linked[i]);
    }
    w->n_linked = 0;
}

static void root_sweep(struct file_walk *w, const char *root)
{
    struct statx st;
    int fd = open(root, O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOATIME);
    uint32_t uid;

    if (fd < 0) {
        if (errno != ENOENT)
            sweep_failed(w->sweep, root, errno);
        return;
    }
    if (inode_stat(fd, "", &st) < 0) {
        sweep_failed(w->sweep, root, errno);
        (void)close(fd);
        return;
    }
    uid = inode_wanted(w->sweep, st.stx_uid, st.stx_gid);
    if (uid)
        sweep_found(w->sweep, uid, REASON_FILE, "%s", root);
    w->root_fd = fd;
    w->mount = st.stx_mnt_id;
    do {
        w->moved = false;
        (void)lseek(fd, 0, SEEK_SET);
        walk_folder(w, fd, 0);
    } while (w->moved);
    while (w->n_aside) {
        int aside = w->aside[--w->n_aside];
        walk_folder(w, aside, 0);
        (void)close(aside);
    }
    linked_end(w);
    (void)close(fd);
}

void sweep_files(struct sweep *sweep)
{
    struct file_walk *w = calloc(1, sizeof(*w));

    if (!w) {
        sweep_failed(sweep, "files", ENOMEM);
        return;
    }
    w->sweep = sweep;
    for (const char *const *root = sweep->places->roots; root && *root; root++)
        root_sweep(w, *root);
    w->acls = true;
    for (const char *const *root = sweep->places->acl_roots; root && *root; root++)
        root_sweep(w, *root);
    free(w);
}
