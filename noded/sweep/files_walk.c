/* Folders are kept open on the way down to DEPTH_MAX. Below that only the one that is being read is, so that it does not matter how
 * deep, nor how wide there, a tree is. A folder of the uid that holds files of others is given to the user for remnants; what
 * that one has goes, too, without a word: it was found when it was given away. */
#include "noded/sweep/files_walk.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/openat2.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "common/mem.h"
#include "noded/sweep/acl.h"
#include "noded/sweep/acl_none.h"
#include "noded/sweep/inode.h"
#include "noded/sweep/sweep.h"
#include "noded/sweep/way_up.h"

#define DEPTH_MAX   256 /* open folders at once */
#define ENTRIES_LEN 4096
#define AGAIN_MAX   16 /* times that a deep folder is begun anew, in one walk */

struct file_walk {
    struct sweep *sweep;
    const struct files_tree *tree;
    uint64_t mount;     /* of the top */
    int here;           /* the folder that the thread is in; -1 = none that is known */
    uint64_t n_removed; /* of the sweep, as the walk began */
    unsigned n_again;
    bool crossed;          /* an entry on another mount was met */
    struct acl_none lists; /* if tree->acls */
};

static void walk_folder(struct file_walk *w, int fd, int depth);
static int deep_walk(struct file_walk *w, int fd);

static int folder_open(int dir_fd, const char *name)
{
    struct open_how how = {
        .flags = O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC | O_NONBLOCK | O_NOATIME,
        .resolve = RESOLVE_NO_XDEV | RESOLVE_NO_SYMLINKS | RESOLVE_NO_MAGICLINKS,
    };
    long fd = syscall(SYS_openat2, dir_fd, name, &how, sizeof(how));

    return fd < 0 ? -errno : (int)fd;
}

/* Whether something is mounted on it, where we do not see it. */
static bool is_covered(const struct file_walk *w, const struct statx *st)
{
    for (size_t i = 0; i < w->tree->n_covered; i++) {
        const struct files_covered *c = &w->tree->covered[i];
        if (c->ino == st->stx_ino && c->dev_major == st->stx_dev_major &&
            c->dev_minor == st->stx_dev_minor)
            return true;
    }
    return false;
}

/* The inode is given away: nothing of the uid is left of it. fd: negative errno, it could not be had. */
static void disowned(struct sweep *s, int dir_fd, int fd, const char *name, uint32_t uid,
                     bool group_only)
{
    int r = fd < 0 ? fd : inode_disown(s, fd, group_only);

    if (r != 0) {
        inode_kept(s, uid, REASON_FILE, dir_fd, name, r);
        return;
    }
    sweep_found(s, uid, REASON_FILE, "%s", name);
    sweep_removed(s);
}

/* Another name of what was given away, or a folder of it that is empty by now. */
static void remnant_end(const struct file_walk *w, int dir_fd, const char *name,
                        const struct statx *st)
{
    if (w->sweep->remove && inode_is_remnant(w->sweep, st) && !is_covered(w, st) &&
        inode_unlink(w->sweep, dir_fd, name, S_ISDIR(st->stx_mode)) == 0)
        sweep_removed(w->sweep);
}

/* What the folder held has been dealt with; now itself, if wanted. */
static void folder_end(struct file_walk *w, int dir_fd, const char *name, int fd,
                       const struct statx *st)
{
    struct sweep *s = w->sweep;
    uint32_t uid = inode_wanted(s, st->stx_uid, st->stx_gid);
    bool group_only = !sweep_wants(s, st->stx_uid);

    if (!uid) {
        remnant_end(w, dir_fd, name, st);
        return;
    }
    if (!s->remove) {
        sweep_found(s, uid, REASON_FILE, "%s", name);
        return;
    }
    if (group_only || is_covered(w, st) || inode_unlink(s, dir_fd, name, true) < 0) {
        disowned(s, dir_fd, fd, name, uid, group_only);
        return;
    }
    sweep_found(s, uid, REASON_FILE, "%s", name);
    sweep_removed(s);
}

/* Access lists are looked at from within the folder: a way through /proc costs as much as all the rest of the look. */
static bool folder_enter(struct file_walk *w, int fd, const char *shown)
{
    if (w->here != fd && fchdir(fd) < 0) {
        sweep_failed(w->sweep, shown, errno);
        return false;
    }
    w->here = fd;
    return true;
}

static void folder_lists_look(struct file_walk *w, int fd, const char *shown,
                              const struct statx *st)
{
    if (w->tree->acls && !acl_none_has(&w->lists, st) && folder_enter(w, fd, shown) &&
        acl_sweep_folder(w->sweep, shown, st))
        acl_none_add(&w->lists, st);
}

/* What is gone by now has no list either. */
static void file_list_look(struct file_walk *w, int dir_fd, const char *name,
                           const struct statx *st)
{
    if (w->tree->acls && !S_ISLNK(st->stx_mode) && !acl_none_has(&w->lists, st) &&
        folder_enter(w, dir_fd, name) && acl_sweep_file(w->sweep, name, st))
        acl_none_add(&w->lists, st);
}

/* Open it, and look at all of it but what it holds. -1: it can not be entered, which has been reported if need be. */
static int folder_begin(struct file_walk *w, int dir_fd, const char *name, struct statx *ret)
{
    auto_close int fd = folder_open(dir_fd, name);
    int r = fd < 0 ? fd : inode_stat(fd, "", ret);

    if (r < 0) {
        w->crossed |= r == -EXDEV;
        if (r != -ENOENT && r != -EXDEV && r != -ENOTDIR && r != -ELOOP)
            sweep_failed(w->sweep, name, r);
        return -1;
    }
    folder_lists_look(w, fd, name, ret);
    if (w->sweep->remove && sweep_wants(w->sweep, ret->stx_uid))
        inode_let_write(fd, ret);
    return mem_take_fd(&fd);
}

static void folder_sweep(struct file_walk *w, int dir_fd, const char *name, int depth)
{
    struct statx st;
    int fd = folder_begin(w, dir_fd, name, &st);

    if (fd < 0)
        return;
    if (depth + 1 < DEPTH_MAX)
        walk_folder(w, fd, depth + 1);
    else
        fd = deep_walk(w, fd);
    if (fd < 0)
        return;
    folder_end(w, dir_fd, name, fd, &st);
    (void)close(fd);
}

static void file_sweep(struct file_walk *w, int dir_fd, const char *name, const struct statx *st)
{
    if (w->sweep->remove && is_covered(w, st)) {
        auto_close int pinned = inode_pin(dir_fd, name, st);
        disowned(w->sweep, dir_fd, pinned, name, inode_wanted(w->sweep, st->stx_uid, st->stx_gid),
                 !sweep_wants(w->sweep, st->stx_uid));
        return;
    }
    inode_sweep(w->sweep, dir_fd, name, st, REASON_FILE);
}

/* Whether it is a folder, which is not entered here. */
static bool entry_look(struct file_walk *w, int dir_fd, const char *name)
{
    struct statx st;
    int r = inode_stat(dir_fd, name, &st);
    uint32_t uid;

    sweep_step(w->sweep);
    if (r < 0) {
        if (r != -ENOENT)
            sweep_failed(w->sweep, name, r);
        return false;
    }
    uid = inode_wanted(w->sweep, st.stx_uid, st.stx_gid);
    if (st.stx_mnt_id != w->mount) {
        w->crossed = true;
        return false;
    }
    if (S_ISDIR(st.stx_mode))
        return true;
    if (uid)
        file_sweep(w, dir_fd, name, &st);
    else
        remnant_end(w, dir_fd, name, &st);
    file_list_look(w, dir_fd, name, &st);
    return false;
}

static bool is_dots(const char *name)
{
    return strcmp(name, ".") == 0 || strcmp(name, "..") == 0;
}

static void walk_folder(struct file_walk *w, int fd, int depth)
{
    char *entries = malloc(ENTRIES_LEN);
    ssize_t n = 0;

    if (!entries) {
        sweep_failed(w->sweep, "files", ENOMEM);
        w->here = -1;
        return;
    }
    while (!sweep_stopped(w->sweep) && (n = getdents64(fd, entries, ENTRIES_LEN)) > 0) {
        for (ssize_t at = 0; at < n && !sweep_stopped(w->sweep);) {
            struct dirent64 *entry = (struct dirent64 *)(void *)(entries + at);
            at += entry->d_reclen;
            if (!is_dots(entry->d_name) && entry_look(w, fd, entry->d_name))
                folder_sweep(w, fd, entry->d_name, depth);
        }
    }
    if (n < 0 && errno != ENOENT) /* ENOENT: removed under us */
        sweep_failed(w->sweep, "files", errno);
    free(entries);
    w->here = -1; /* the number of fd may soon be that of another folder */
}

/* ---- below DEPTH_MAX ---- */

struct deep {
    struct file_walk *w;
    struct way_up way;
    int fd;               /* the folder that is being read; -1 = there is no way back */
    struct way_mark mark; /* of it */
    char entries[ENTRIES_LEN];
};

static void deep_begin(struct deep *d)
{
    struct statx st = {0};

    (void)inode_stat(d->fd, "", &st);
    d->mark = (struct way_mark){.changed = st.stx_ctime};
}

/* Up to the next folder, whose name comes back. False: there is no more. */
static bool deep_next(struct deep *d, char name[NAME_MAX + 1])
{
    ssize_t n = lseek(d->fd, d->mark.next, SEEK_SET) < 0 ? -1 : 1;

    while (n > 0 && !sweep_stopped(d->w->sweep) &&
           (n = getdents64(d->fd, d->entries, sizeof(d->entries))) > 0) {
        for (ssize_t at = 0; at < n && !sweep_stopped(d->w->sweep);) {
            struct dirent64 *entry = (struct dirent64 *)(void *)(d->entries + at);
            at += entry->d_reclen;
            d->mark.next = entry->d_off;
            if (is_dots(entry->d_name) || !entry_look(d->w, d->fd, entry->d_name))
                continue;
            (void)snprintf(name, NAME_MAX + 1, "%s", entry->d_name);
            return true;
        }
    }
    if (n < 0 && errno != ENOENT)
        sweep_failed(d->w->sweep, "deep folders", errno);
    return false;
}

static void deep_down(struct deep *d, const char *name)
{
    struct statx st;
    int fd = folder_begin(d->w, d->fd, name, &st);
    int r = fd < 0 ? 0 : way_up_push(&d->way, d->w->tree->fd, d->fd, name, &d->mark);

    if (fd < 0)
        return;
    if (r < 0) {
        sweep_failed(d->w->sweep, "deep folders", r);
    } else {
        int left = d->fd;
        d->fd = fd;
        fd = left;
        deep_begin(d);
    }
    (void)close(fd);
    d->w->here = -1; /* its number may soon be that of another folder */
}

/* Where to read on is a count in some file systems: it says nothing any more if entries have come or gone. What we have taken
 * away ourselves calls for another round anyhow. */
static void deep_resume(struct deep *d)
{
    struct file_walk *w = d->w;
    struct statx st;
    int r = inode_stat(d->fd, "", &st);

    if (r == 0 &&
        (w->sweep->n_removed != w->n_removed || (st.stx_ctime.tv_sec == d->mark.changed.tv_sec &&
                                                 st.stx_ctime.tv_nsec == d->mark.changed.tv_nsec)))
        return;
    if (r == 0 && w->n_again++ < AGAIN_MAX)
        deep_begin(d);
    else
        sweep_found(w->sweep, 0, REASON_SCAN_FAILED, "%s: deep folders do not hold still",
                    w->tree->shown);
}

/* What is gone by now above us held nothing any more. */
static void deep_up(struct deep *d)
{
    char name[NAME_MAX + 1];
    int below = d->fd;
    bool parent = true;
    struct statx st;

    while ((d->fd = way_up_pop(&d->way, d->w->tree->fd, below, name, &d->mark)) == -ENOENT &&
           d->way.n)
        parent = false;
    d->w->here = -1;
    if (d->fd >= 0) {
        deep_resume(d);
        if (parent && inode_stat(below, "", &st) == 0)
            folder_end(d->w, d->fd, name, below, &st);
    } else {
        if (d->fd != -ENOENT)
            sweep_failed(d->w->sweep, "the way out of deep folders", d->fd);
        d->fd = -1;
    }
    (void)close(below);
}

/* All that fd holds; takes it. The same folder, open again; -1 it was not found again, and that has been reported. */
static int deep_walk(struct file_walk *w, int fd)
{
    auto_free struct deep *d = calloc(1, sizeof(*d));
    char name[NAME_MAX + 1];

    if (!d) {
        sweep_failed(w->sweep, "deep folders", ENOMEM);
        return fd;
    }
    d->w = w;
    d->fd = fd;
    deep_begin(d);
    while (d->fd >= 0) {
        if (deep_next(d, name))
            deep_down(d, name);
        else if (d->way.n)
            deep_up(d);
        else
            break;
    }
    way_up_done(&d->way);
    w->here = -1;
    return d->fd;
}

/* ---- a tree ---- */

/* 0; -errno. A top that is gone, though something keeps it mounted, can not be anybody's. */
static int top_look(struct file_walk *w)
{
    struct statx st;
    int r = inode_stat(w->tree->fd, "", &st);
    uint32_t uid;

    if (r < 0)
        return r;
    w->mount = st.stx_mnt_id;
    uid = inode_wanted(w->sweep, st.stx_uid, st.stx_gid);
    if (uid && st.stx_nlink > 0)
        sweep_found(w->sweep, uid, w->tree->reason, "%s", w->tree->shown);
    if (w->tree->acls)
        w->lists = acl_none_begin(w->tree->fd);
    folder_lists_look(w, w->tree->fd, w->tree->shown, &st);
    return 0;
}

bool files_walk(const struct files_tree *tree)
{
    auto_free struct file_walk *w = calloc(1, sizeof(*w));
    int r = -ENOMEM;

    if (w) {
        w->sweep = tree->sweep;
        w->tree = tree;
        w->here = -1;
        w->n_removed = tree->sweep->n_removed;
        r = top_look(w);
    }
    if (r < 0) {
        sweep_failed(tree->sweep, tree->shown, r);
        return true;
    }
    walk_folder(w, tree->fd, 0);
    if (tree->acls && chdir("/") < 0) /* whoever stays in a folder keeps its mount busy */
        sweep_failed(tree->sweep, tree->shown, errno);
    return !w->crossed;
}
