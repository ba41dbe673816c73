#include "noded/sweep/way_up.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/openat2.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "common/mem.h"
#include "noded/sweep/inode.h"

#define STEPS_MAX  (1u << 24)
#define HANDLE_LEN 40 /* of btrfs; others are shorter */

struct way_step {
    uint64_t ino;
    struct way_mark mark;
    char *name;
    union {
        struct file_handle head;
        char bytes[sizeof(struct file_handle) + HANDLE_LEN];
    } handle;
};

static int handle_open(int mount_fd, struct way_step *step)
{
    int fd = open_by_handle_at(mount_fd, &step->handle.head,
                               O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOATIME);

    return fd >= 0 ? fd : errno == ESTALE ? -ENOENT : -errno;
}

static int handle_get(int fd, struct way_step *step)
{
    int mount_id;

    step->handle.head.handle_bytes = HANDLE_LEN;
    return name_to_handle_at(fd, "", &step->handle.head, &mount_id, AT_EMPTY_PATH) < 0 ? -errno : 0;
}

/* Whether handles lead there: some file systems only say what they would be. */
static enum way_handles handles_try(int mount_fd, int fd, struct way_step *step)
{
    auto_close int again = handle_get(fd, step) < 0 ? -1 : handle_open(mount_fd, step);

    return again >= 0 ? WAY_HANDLES : WAY_NO_HANDLES;
}

int way_up_push(struct way_up *way, int mount_fd, int fd, const char *name,
                const struct way_mark *mark)
{
    struct way_step *step;
    struct statx st;
    int r = mem_grow(&way->items, &way->cap, way->n + 1, STEPS_MAX, sizeof(*step));

    if (r == 0)
        r = inode_stat(fd, "", &st);
    if (r < 0)
        return r;
    step = &way->items[way->n];
    if (way->handles == WAY_HANDLES_UNKNOWN)
        way->handles = handles_try(mount_fd, fd, step);
    else if (way->handles == WAY_HANDLES && (r = handle_get(fd, step)) < 0)
        return r;
    step->ino = st.stx_ino;
    step->mark = *mark;
    step->name = strdup(name);
    if (!step->name)
        return -ENOMEM;
    way->n++;
    return 0;
}

/* On another mount it can not be: the kernel says so. */
static int parent_open(int fd, const struct way_step *step)
{
    struct open_how how = {
        .flags = O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOATIME,
        .resolve = RESOLVE_NO_XDEV,
    };
    auto_close int up = (int)syscall(SYS_openat2, fd, "..", &how, sizeof(how));
    struct statx st;
    int r = up < 0 ? -errno : inode_stat(up, "", &st);

    if (r < 0)
        return r;
    return st.stx_ino == step->ino ? mem_take_fd(&up) : -ESTALE;
}

int way_up_pop(struct way_up *way, int mount_fd, int fd, char name[NAME_MAX + 1],
               struct way_mark *ret_mark)
{
    struct way_step *step = &way->items[--way->n];

    *ret_mark = step->mark;
    (void)snprintf(name, NAME_MAX + 1, "%s", step->name);
    free(step->name);
    return way->handles == WAY_HANDLES ? handle_open(mount_fd, step) : parent_open(fd, step);
}

void way_up_done(struct way_up *way)
{
    while (way->n)
        free(way->items[--way->n].name);
    free(way->items);
}
