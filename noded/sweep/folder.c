#include "noded/sweep/folder.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <unistd.h>

#include "common/mem.h"
#include "noded/sweep/inode.h"
#include "noded/sweep/sweep.h"

static void entry_look(struct sweep *sweep, int dir_fd, const char *name, folder_entry_fn entry,
                       const void *arg)
{
    struct statx st;
    int r = inode_stat(dir_fd, name, &st);

    if (r == 0)
        entry(sweep, dir_fd, name, &st, arg);
    else if (r != -ENOENT)
        sweep_failed(sweep, name, r);
}

void folder_each(struct sweep *sweep, int dir_fd, const char *path, const char *shown,
                 folder_entry_fn entry, const void *arg)
{
    auto_closedir DIR *dir = NULL;
    struct dirent *e;
    int fd = openat(dir_fd, path, O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOATIME);

    if (fd < 0) {
        if (errno != ENOENT)
            sweep_failed(sweep, shown, errno);
        return;
    }
    if (!(dir = fdopendir(fd))) {
        sweep_failed(sweep, shown, errno);
        (void)close(fd);
        return;
    }
    while ((errno = 0, e = readdir(dir)))
        if (strcmp(e->d_name, ".") != 0 && strcmp(e->d_name, "..") != 0)
            entry_look(sweep, fd, e->d_name, entry, arg);
    if (errno)
        sweep_failed(sweep, shown, errno);
}
