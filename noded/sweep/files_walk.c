/* Below DEPTH_MAX a folder of the uid itself is moved up to the root, to be met again there; a folder of somebody else is
 * put aside as a root of its own. A folder of the uid that holds files of others is given to the user for remnants; what that
 * one has goes, too, without a word: it was found when it was given away. */
#include "noded/sweep/files_walk.h"

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
#include "noded/sweep/aside.h"
#include "noded/sweep/inode.h"
#include "noded/sweep/sweep.h"

#define DEPTH_MAX   256 /* open folders at once */
#define ENTRIES_LEN 4096
#define MOVED_MAX   16 /* walks of one tree for what was moved up */

struct file_walk {
    struct sweep *sweep;
    const struct files_tree *tree;
    uint64_t mount;     /* of the top */
    int here;           /* the folder that the thread is in; -1 = none that is known */
    struct aside aside; /* folders to be walked as roots of their own */
    unsigned n_moved;
    bool moved;   /* something into the top, in this walk of it */
    bool crossed; /* an entry on another mount was met */
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
        if (renameat2(dir_fd, name, w->tree->fd, up, RENAME_NOREPLACE) == 0)
            return true;
        if (errno != EEXIST)
            return false;
    }
    return false;
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

/* Up with it, or aside; then it is seen as the top of a walk, which is nobody's to remove. Takes fd. */
static void folder_too_deep(struct file_walk *w, int dir_fd, const char *name, int fd,
                            const struct statx *st)
{
    uint32_t uid = inode_wanted(w->sweep, st->stx_uid, st->stx_gid);
    bool wanted = sweep_wants(w->sweep, st->stx_uid);
    int r;

    if (wanted && w->sweep->remove && folder_move_up(w, dir_fd, name)) {
        w->moved = true;
        /* The top may have been walked for the last time: then the next round finds it there. */
        sweep_found(w->sweep, uid, REASON_FILE, "%s", name);
        sweep_removed(w->sweep);
        (void)close(fd);
        return;
    }
    if (uid && w->sweep->remove)
        disowned(w->sweep, dir_fd, fd, name, uid, !wanted);
    else if (uid)
        sweep_found(w->sweep, uid, REASON_FILE, "%s", name);
    r = aside_put(&w->aside, w->tree->fd, fd);
    if (r < 0)
        sweep_failed(w->sweep, "deep folders", r);
}

/* Another name of what was given away, or a folder of it that is empty by now. */
static void remnant_end(const struct file_walk *w, int dir_fd, const char *name,
                        const struct statx *st)
{
    if (w->sweep->remove && inode_is_remnant(w->sweep, st) && !is_covered(w, st))
        (void)inode_unlink(w->sweep, dir_fd, name, S_ISDIR(st->stx_mode));
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

static void folder_sweep(struct file_walk *w, int dir_fd, const char *name, int depth)
{
    struct statx st;
    int fd = folder_open(dir_fd, name), r;

    if (fd < 0) {
        w->crossed |= fd == -EXDEV;
        if (fd != -ENOENT && fd != -EXDEV && fd != -ENOTDIR && fd != -ELOOP)
            sweep_failed(w->sweep, name, fd);
        return;
    }
    r = inode_stat(fd, "", &st);
    if (r < 0) {
        sweep_failed(w->sweep, name, r);
        (void)close(fd);
        return;
    }
    if (w->tree->acls && folder_enter(w, fd, name))
        acl_sweep_folder(w->sweep, name, &st);
    if (depth + 1 >= DEPTH_MAX) {
        w->here = -1; /* the number of fd may soon be that of another folder */
        folder_too_deep(w, dir_fd, name, fd, &st);
        return;
    }
    walk_folder(w, fd, depth + 1);
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

static void entry_sweep(struct file_walk *w, int dir_fd, const char *name, int depth)
{
    struct statx st;
    int r = inode_stat(dir_fd, name, &st);
    uint32_t uid;

    sweep_step(w->sweep);
    if (r < 0) {
        if (r != -ENOENT)
            sweep_failed(w->sweep, name, r);
        return;
    }
    uid = inode_wanted(w->sweep, st.stx_uid, st.stx_gid);
    if (st.stx_mnt_id != w->mount) {
        w->crossed = true;
        return;
    }
    if (S_ISDIR(st.stx_mode)) {
        folder_sweep(w, dir_fd, name, depth);
        return;
    }
    if (uid)
        file_sweep(w, dir_fd, name, &st);
    else
        remnant_end(w, dir_fd, name, &st);
    /* What is gone by now has no list either. */
    if (w->tree->acls && !S_ISLNK(st.stx_mode) && folder_enter(w, dir_fd, name))
        acl_sweep_file(w->sweep, name, &st);
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
    w->here = -1; /* the number of fd may soon be that of another folder */
}

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
    if (w->tree->acls && folder_enter(w, w->tree->fd, w->tree->shown))
        acl_sweep_folder(w->sweep, w->tree->shown, &st);
    return 0;
}

/* Again when something has come up: that not for ever, as somebody could put it back each time. */
static void walk_top(struct file_walk *w, int fd)
{
    bool again;

    do {
        w->moved = false;
        (void)lseek(fd, 0, SEEK_SET);
        walk_folder(w, fd, 0);
        again = w->moved && fd == w->tree->fd && ++w->n_moved < MOVED_MAX;
    } while (again);
}

bool files_walk(const struct files_tree *tree)
{
    auto_free struct file_walk *w = calloc(1, sizeof(*w));
    int r = -ENOMEM;

    if (w) {
        w->sweep = tree->sweep;
        w->tree = tree;
        w->here = -1;
        r = top_look(w);
    }
    if (r < 0) {
        sweep_failed(tree->sweep, tree->shown, r);
        return true;
    }
    walk_top(w, tree->fd);
    while (w->aside.n) {
        auto_close int fd = aside_take(&w->aside, tree->fd);
        if (fd >= 0)
            walk_top(w, fd);
        else if (fd != -ENOENT)
            sweep_failed(w->sweep, "deep folders", fd);
    }
    aside_done(&w->aside);
    if (tree->acls && chdir("/") < 0) /* whoever stays in a folder keeps its mount busy */
        sweep_failed(tree->sweep, tree->shown, errno);
    return !w->crossed;
}
