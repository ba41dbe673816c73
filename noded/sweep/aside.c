#include "noded/sweep/aside.h"

#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdlib.h>
#include <unistd.h>

#include "common/mem.h"

#define FOLDERS_MAX   (1u << 20)
#define KEPT_OPEN_MAX 256
#define HANDLE_LEN    40 /* of btrfs; others are shorter */

struct aside_folder {
    int fd; /* -1: by the handle */
    union {
        struct file_handle head;
        char bytes[sizeof(struct file_handle) + HANDLE_LEN];
    } handle;
};

static int handle_open(int mount_fd, struct aside_folder *folder)
{
    int fd = open_by_handle_at(mount_fd, &folder->handle.head,
                               O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOATIME);

    return fd >= 0 ? fd : errno == ESTALE ? -ENOENT : -errno;
}

/* Whether the handle leads there: some file systems only say what it would be. */
static bool handle_get(int mount_fd, int fd, struct aside_folder *folder)
{
    auto_close int again = -1;
    int mount_id;

    folder->handle.head.handle_bytes = HANDLE_LEN;
    if (name_to_handle_at(fd, "", &folder->handle.head, &mount_id, AT_EMPTY_PATH) < 0)
        return false;
    again = handle_open(mount_fd, folder);
    return again >= 0;
}

int aside_put(struct aside *aside, int mount_fd, int fd)
{
    auto_close int own = fd;
    struct aside_folder *folder;
    int r = mem_grow(&aside->items, &aside->cap, aside->n + 1, FOLDERS_MAX, sizeof(*folder));

    if (r < 0)
        return r;
    folder = &aside->items[aside->n];
    folder->fd = -1;
    if (!handle_get(mount_fd, own, folder)) {
        if (aside->n_open == KEPT_OPEN_MAX)
            return -ENOBUFS;
        aside->n_open++;
        folder->fd = mem_take_fd(&own);
    }
    aside->n++;
    return 0;
}

int aside_take(struct aside *aside, int mount_fd)
{
    struct aside_folder *folder = &aside->items[--aside->n];

    if (folder->fd < 0)
        return handle_open(mount_fd, folder);
    aside->n_open--;
    return folder->fd;
}

void aside_done(struct aside *aside)
{
    while (aside->n)
        (void)mem_close(aside->items[--aside->n].fd);
    free(aside->items);
}
