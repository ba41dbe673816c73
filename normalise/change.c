#include "normalise/change.h"

#include <dirent.h>

#include "normalise/inode.h"

static bool change_begin(void *arg, const struct walk_at *at, const struct statx *st)
{
    const struct inode_task *task = arg;

    root_time_met(at->root, st);
    inode_folder_begin(task, at->root, at->fd, st);
    return st->stx_uid == task->options->ids.uid;
}

static bool change_entry(void *arg, struct walk_at *at, const struct dirent64 *entry)
{
    return inode_entry(arg, at->root, at->fd, entry->d_name, &at->seen) == INODE_FOLDER;
}

static void change_end(void *arg, const struct walk_at *at)
{
    inode_folder_end(arg, at->root, at->fd);
}

static void change_failed(void *arg, const struct walk_at *at, const char *op, int error)
{
    inode_failed(arg, at->root, at->fd, "", op, error);
}

const struct walk_ops change_ops = {
    .begin = change_begin,
    .entry = change_entry,
    .end = change_end,
    .failed = change_failed,
};
