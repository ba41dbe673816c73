/* Files by owner, in the folders where anybody may write and in all that is mounted at or below them, also what a mount
 * hides. docs/decisions/0013 says why so.
 *
 * Each root is looked at in a copy of the machine's mount namespace:
 *
 *     take off the mounts at and below it, from the top:  walk one that is bare ─▶ unmount it ─▶ go on with what it hid
 *     walk the root itself, bare now
 *     unmount what holds the root, and begin again with what that hid at the same path, up to the machine's own root
 *
 * What is mounted meanwhile is not in the copy, so no name in it leads to what was not there at first. A file system that a
 * server answers for is never touched, since that may hang for ever: it is a finding as long as it is there. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/mem.h"
#include "noded/sweep/files_walk.h"
#include "noded/sweep/inode.h"
#include "noded/sweep/kinds.h"
#include "noded/sweep/machine.h"
#include "noded/sweep/mount_pin.h"
#include "noded/sweep/mount_table.h"

#define TURNS_MAX   8     /* through the mount table, for one root */
#define MOUNTS_MAX  65536 /* below one root */
#define COVERED_MAX (MOUNTS_MAX * TURNS_MAX)

struct below {
    uint64_t id, parent;
    enum mount_class class;
    char *path, *type;
    bool off; /* unmounted, or not to be reached */
};

struct root {
    const char *shown; /* as it was configured */
    bool acls;
    char *path; /* the same without symlinks */
    struct below *mounts;
    size_t n_mounts, cap_mounts;
    struct files_covered *covered;
    size_t n_covered, cap_covered;
    /* The mount that holds the root's folder, when what is mounted at it is off. */
    size_t holder_len;
    uint64_t holder_id;
    enum mount_class holder;
    bool no_memory;
};

static bool at_or_below(const char *path, const char *root)
{
    size_t len = strlen(root);

    return strncmp(path, root, len) == 0 && (path[len] == '/' || path[len] == '\0');
}

/* ---- the mounts of a root ---- */

static void mounts_forget(struct root *root)
{
    for (size_t i = 0; i < root->n_mounts; i++) {
        free(root->mounts[i].path);
        free(root->mounts[i].type);
    }
    root->n_mounts = 0;
    root->holder_len = 0;
    /* The machine's own root, of whatever type: with it hangs everything. */
    root->holder = MOUNT_LOCAL;
}

static void mount_note(struct sweep *sweep, const struct mount_entry *entry, void *arg)
{
    struct root *root = arg;
    size_t len = strlen(entry->path);
    struct below *b;

    if (len <= 1)
        return;
    if (!at_or_below(entry->path, root->path)) {
        if (at_or_below(root->path, entry->path) && len >= root->holder_len) {
            root->holder_len = len;
            root->holder_id = entry->id;
            root->holder = mount_classify(sweep, entry);
        }
        return;
    }
    if (mem_grow(&root->mounts, &root->cap_mounts, root->n_mounts + 1, MOUNTS_MAX, sizeof(*b)) <
        0) {
        root->no_memory = true;
        return;
    }
    b = &root->mounts[root->n_mounts++];
    *b = (struct below){
        .id = entry->id,
        .parent = entry->parent,
        .class = mount_classify(sweep, entry),
        .path = strdup(entry->path),
        .type = strdup(entry->type),
    };
    root->no_memory |= !b->path || !b->type;
}

static int mounts_read(struct sweep *sweep, struct root *root)
{
    int r;

    mounts_forget(root);
    r = mount_table_each(sweep, mount_note, root);
    if (r == 0 && root->no_memory) {
        r = -ENOMEM;
        sweep_failed(sweep, root->shown, r);
    }
    return r;
}

/* A path that leads through what is not entered. Parents come first in the table. */
static bool mount_is_reached(const struct root *root, const struct below *b)
{
    for (size_t i = root->n_mounts; i-- > 0;) {
        const struct below *up = &root->mounts[i];
        if (up->id != b->parent)
            continue;
        if (up->class != MOUNT_LOCAL && up->class != MOUNT_EMPTY)
            return strcmp(up->path, b->path) == 0 && mount_is_reached(root, up);
        b = up;
        i = root->n_mounts;
    }
    return true;
}

static bool mount_is_bare(const struct root *root, const struct below *b)
{
    for (size_t i = 0; i < root->n_mounts; i++)
        if (root->mounts[i].parent == b->id && !root->mounts[i].off)
            return false;
    return true;
}

/* ---- one mount ---- */

/* The mount that this one hides in full, at the same path. */
static const struct below *mount_hidden_by(const struct root *root, const struct below *b)
{
    for (size_t i = 0; i < root->n_mounts; i++)
        if (root->mounts[i].id == b->parent && strcmp(root->mounts[i].path, b->path) == 0)
            return &root->mounts[i];
    return NULL;
}

/* What lies under the mount point now must not be removed: on the machine the mount is still on it. */
static int covered_add(struct root *root, const struct below *b, const struct mount_pin *pin)
{
    struct statx st;
    int r;

    if (mount_hidden_by(root, b))
        return 0; /* no file, but that mount's top */
    r = mount_pin_stat(pin, &st);
    if (r < 0)
        return r;
    r = mem_grow(&root->covered, &root->cap_covered, root->n_covered + 1, COVERED_MAX,
                 sizeof(*root->covered));
    if (r == 0)
        root->covered[root->n_covered++] = (struct files_covered){st.stx_dev_major,
                                                                  st.stx_dev_minor, st.stx_ino};
    return r;
}

static void tree_walk(struct sweep *sweep, const struct root *root, int fd, const char *shown,
                      enum reason reason, bool *ret_whole)
{
    struct files_tree tree = {
        .sweep = sweep,
        .fd = fd,
        .shown = shown,
        .reason = reason,
        .acls = root->acls,
        .covered = root->covered,
        .n_covered = root->n_covered,
    };

    *ret_whole = files_walk(&tree);
}

/* A file that is mounted on another. Its own folder is a place that we look at, or is not. */
static void mounted_file_look(struct sweep *sweep, const struct below *b, const struct statx *st)
{
    uint32_t uid = inode_wanted(sweep, st->stx_uid, st->stx_gid);

    if (uid && st->stx_nlink > 0)
        sweep_found(sweep, uid, REASON_MOUNT, "%s", b->path);
}

/* Whether all of it has been seen. */
static bool mount_walk(struct sweep *sweep, const struct root *root, const struct below *b, int top)
{
    auto_close int fd = -1;
    struct statx st;
    bool whole = true;

    sweep_at(sweep, b->path);
    if (inode_stat(top, "", &st) < 0)
        return false;
    if (!S_ISDIR(st.stx_mode)) {
        mounted_file_look(sweep, b, &st);
        return true;
    }
    fd = openat(top, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOATIME);
    if (fd < 0)
        sweep_failed(sweep, b->path, errno);
    else
        tree_walk(sweep, root, fd, b->path,
                  strcmp(b->path, root->path) == 0 ? REASON_FILE : REASON_MOUNT, &whole);
    return whole;
}

/* An automount point whose file system is mounted (or was, till we took it off) hides nothing. */
static bool mount_has_triggered(const struct root *root, const struct below *b)
{
    for (size_t i = 0; strcmp(b->type, "autofs") == 0 && i < root->n_mounts; i++)
        if (mount_hidden_by(root, &root->mounts[i]) == b)
            return true;
    return false;
}

/* What may not be touched is not: of that the place alone. */
static int mount_hold(struct sweep *sweep, const struct below *b, struct mount_pin *ret)
{
    return b->class == MOUNT_SERVED ? mount_pin_folder(sweep, b->path, ret)
                                    : mount_pin(sweep, b->path, b->id, ret);
}

static void there_look(struct sweep *sweep, const struct mount_entry *entry, void *arg)
{
    struct below *b = arg;

    (void)sweep;
    b->off &= entry->id != b->id;
}

/* What is held is what is unmounted; else the table tells whether it was that one. */
static int mount_detach(struct sweep *sweep, struct below *b, const struct mount_pin *pin)
{
    int r = mount_pin_detach(pin);

    b->off = r == 0;
    if (r == 0 && pin->top < 0)
        r = mount_table_each(sweep, there_look, b);
    return r == 0 && !b->off ? -ESTALE : r;
}

/* Whether it is off. */
static bool mount_take_off(struct sweep *sweep, struct root *root, struct below *b)
{
    auto_unpin struct mount_pin pin = MOUNT_PIN_NONE;
    int r;

    if (!mount_is_reached(root, b)) {
        sweep_found(sweep, 0, REASON_SCAN_FAILED, "%s: it is mounted in what is not entered",
                    b->path);
        b->off = true;
        return false;
    }
    if (!mount_is_bare(root, b))
        return false;
    if (b->class == MOUNT_SERVED && !mount_has_triggered(root, b))
        sweep_found(sweep, 0, REASON_SCAN_FAILED, "%s: a file system of type %s is not entered",
                    b->path, b->type);
    r = mount_hold(sweep, b, &pin);
    if (r == -ESTALE || r == -ENOENT || r == -ENOTDIR || r == -ELOOP)
        return false; /* a folder on the way has been moved meanwhile: the next turn tells */
    if (r == 0 && b->class == MOUNT_LOCAL && !mount_walk(sweep, root, b, pin.top))
        return false;
    if (r == 0)
        r = mount_detach(sweep, b, &pin);
    if (r == 0)
        r = covered_add(root, b, &pin);
    if (r < 0)
        sweep_failed(sweep, b->path, r);
    return b->off;
}

/* ---- one root ---- */

static void unsettled(struct sweep *sweep, const struct root *root)
{
    sweep_found(sweep, 0, REASON_SCAN_FAILED, "%s: what is mounted there does not hold still",
                root->shown);
}

/* The mounts from the top, as many turns as it takes. 0 the root is bare; -errno, reported. */
static int mounts_take_off(struct sweep *sweep, struct root *root)
{
    for (int turn = 0; turn < TURNS_MAX; turn++) {
        bool some = false;
        int r = mounts_read(sweep, root);
        if (r < 0 || root->n_mounts == 0)
            return r;
        for (size_t i = root->n_mounts; i-- > 0;)
            some |= mount_take_off(sweep, root, &root->mounts[i]);
        if (!some)
            break;
    }
    unsettled(sweep, root);
    return -EBUSY;
}

/* Whether all of it has been seen. */
static bool root_walk(struct sweep *sweep, struct root *root)
{
    auto_close int fd = open(root->path, O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOATIME);
    bool whole = true;

    sweep_at(sweep, root->shown);
    if (fd >= 0)
        tree_walk(sweep, root, fd, root->shown, REASON_FILE, &whole);
    else if (errno != ENOENT)
        sweep_failed(sweep, root->shown, errno);
    return whole;
}

/* 0; 1 it is absent; -errno, reported. */
static int root_find(struct sweep *sweep, struct root *root)
{
    auto_close int fd = open(root->shown, O_PATH | O_CLOEXEC);
    char path[64], target[PATH_MAX];
    ssize_t len;

    if (fd < 0 && errno == ENOENT)
        return 1;
    (void)snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
    len = fd < 0 ? -1 : readlink(path, target, sizeof(target) - 1);
    if (len < 0) {
        int r = -errno;
        sweep_failed(sweep, root->shown, r);
        return r;
    }
    target[len] = '\0';
    free(root->path);
    root->path = strdup(target);
    if (root->path)
        return 0;
    sweep_failed(sweep, root->shown, ENOMEM);
    return -ENOMEM;
}

/* Whether the root may be touched, as far as its path tells. */
static bool root_is_local(struct sweep *sweep, struct root *root)
{
    if (mounts_read(sweep, root) < 0)
        return false;
    for (size_t i = 0; i < root->n_mounts; i++)
        if (strcmp(root->mounts[i].path, root->path) == 0)
            root->holder = root->mounts[i].class;
    if (root->holder == MOUNT_LOCAL || root->holder == MOUNT_EMPTY)
        return true;
    sweep_found(sweep, 0, REASON_SCAN_FAILED, "%s: it is on a file system that is not entered",
                root->shown);
    return false;
}

/* Whether to go on with what the mount hides that holds the root. */
static bool root_bare_look(struct sweep *sweep, struct root *root)
{
    int r = root_is_local(sweep, root) ? root_find(sweep, root) : -EXDEV;

    if (r < 0 || !root_is_local(sweep, root))
        return false;
    if (r > 0)
        return root->holder_len > 0;
    for (int turn = 0; turn < TURNS_MAX; turn++) {
        if (mounts_take_off(sweep, root) < 0)
            return false;
        if (root_walk(sweep, root))
            return root->holder_len > 0;
    }
    unsettled(sweep, root);
    return false;
}

static int holder_take_off(struct sweep *sweep, const struct root *root)
{
    auto_unpin struct mount_pin pin = MOUNT_PIN_NONE;
    auto_free char *path = strndup(root->path, root->holder_len);
    int r = path ? mount_pin(sweep, path, root->holder_id, &pin) : -ENOMEM;

    return r < 0 ? r : mount_pin_detach(&pin);
}

static void root_look(struct sweep *sweep, void *arg)
{
    struct root *root = arg;

    while (root_bare_look(sweep, root)) {
        int r = holder_take_off(sweep, root);
        if (r < 0) {
            sweep_failed(sweep, root->shown, r);
            return;
        }
    }
}

static void root_sweep(struct sweep *sweep, const char *shown, bool acls)
{
    struct root root = {.shown = shown, .acls = acls, .path = strdup(shown)};

    sweep_at(sweep, shown);
    if (root.path)
        machine_run(sweep, true, root_look, &root);
    else
        sweep_failed(sweep, shown, ENOMEM);
    mounts_forget(&root);
    free(root.mounts);
    free(root.covered);
    free(root.path);
}

void sweep_files(struct sweep *sweep)
{
    for (const char *const *root = sweep->places->roots; root && *root; root++)
        root_sweep(sweep, *root, false);
    for (const char *const *root = sweep->places->acl_roots; root && *root; root++)
        root_sweep(sweep, *root, true);
}
